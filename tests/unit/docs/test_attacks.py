"""Attacks on approvals by merge (A), previews (B), dispatches (C), first digests and holds (D), migrations (E).

Each of the review has a test that holds it off; many have a row in a table, which bears the attack's name.
"""

from __future__ import annotations

import re

from tests.unit.docs.documents import ROOT

JUDGED = "test_what_is_not_proven_is_asked_by_digest"  # by values, in a row that begins with the number
RUN = "test_what_no_merge_proves_is_asked_by_digest"  # through the action, on the double of GitHub
BACK = "test_merged_content_that_was_rolled_back_is_not_published_by_any_later_run"
CHECKOUT = "test_a_checkout_that_git_changed_is_refused_or_has_another_id"
PAGES = "test_a_preview_reads_in_one_job_and_writes_in_another_that_reads_nothing"
HIDDEN = "test_a_state_whose_lines_a_page_did_not_show_proves_nothing"
REJECTED = "test_c11_nothing_runs_after_a_rejection_or_without_the_gate"
ATTACKS = {
    **dict.fromkeys(("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A10", "A26", "A27", "A28"), (JUDGED, RUN)),
    "A9": (JUDGED,),
    "A11": (JUDGED, RUN, BACK),
    "A12": (JUDGED, BACK, "test_content_that_was_rolled_back_stays_so"),
    "A13": (
        "test_content_that_waited_for_a_freeze_is_judged_on_the_version_of_the_day",
        "test_content_waits_while_the_artifact_is_paused",
    ),
    "A14": (
        "test_content_keeps_the_version_and_the_minor_is_asked_for_anew",
        "test_a_version_carries_no_content_and_the_content_is_asked_for_anew",
    ),
    "A15": (RUN,),
    "A16": (
        "test_looser_rules_do_not_judge_their_own_request",
        "test_rules_that_are_loosened_once_a_page_is_merged_are_not_approved_by_it",
        "test_the_page_of_a_run_that_waits_says_how_the_rules_changed",
        "test_the_stricter_rules_judge_a_promotion_too_that_replaces_the_folder",
        "test_a_promotion_that_keeps_the_content_keeps_the_rules_of_its_approval",
        "test_no_version_brings_other_options_once_the_folder_is_taken_out",
        "test_without_a_record_the_rules_of_the_last_content_count",
        "test_a_rollback_to_older_rules_loosens_none",
        "test_the_stricter_rules_judge_an_adoption_too",
    ),
    "A17": (RUN, "test_a_link_on_the_way_is_refused"),
    "A18": ("test_each_artifact_judges_a_shared_folder_by_its_own_rules",),
    "A19": (CHECKOUT, "test_a_checkout_that_is_not_what_github_has_stops_the_run"),
    "A20": (CHECKOUT, "test_a_pointer_of_lfs_is_refused", "test_a_workspace_that_is_not_what_git_has_has_another_id"),
    "A21": (RUN, HIDDEN, "test_files_that_git_and_flux_take_for_their_own_are_refused"),
    "A22": (
        "test_names_that_look_the_same_are_refused",
        "test_names_with_characters_that_nobody_sees_are_refused",
    ),
    "A23": ("test_what_holds_configuration_lock_file_or_workflows_is_refused",),
    "A24": ("test_a_run_of_an_older_commit_leaves_the_content_to_the_next",),
    "A25": ("test_the_default_branch_is_looked_at_once_more_before_anything_is_tagged",),
    "A29": ("test_the_first_content_is_asked_for_and_its_merge_publishes_it_once",),
    "A30": (
        "test_the_first_content_is_asked_for_and_its_merge_publishes_it_once",
        "test_no_merge_counts_on_a_record_that_a_later_run_wrote",
    ),
    "A31": (JUDGED, BACK, "test_gets_no_downgrade_by_an_old_digest_that_is_signed"),
    "A32": (JUDGED, RUN, "test_a_log_that_lags_is_waited_for"),
    "B1": (PAGES,),
    "B2": ("test_no_address_of_the_request_is_asked_and_each_is_told",),
    "B3": ("test_a_forged_comment_is_left_alone", "test_a_request_that_changes_what_decides_says_so_first"),
    "B4": ("test_nothing_acts_whatever_a_request_has_in_it", "test_a_long_diff_pushes_no_hazard_out"),
    "B5": ("test_a_request_that_is_behind_says_so",),
    "B6": ("test_other_events_than_pull_requests_are_refused_before_anything_is_asked",),
    "B7": (PAGES,),
    "C1": ("test_c1_another_branch_or_a_tag_shows_and_does_nothing",),
    "C2": ("test_c2_an_attempt_that_shows_anew_is_refused",),
    "C3": (
        "test_c3_what_was_shown_a_week_ago_is_void",
        "test_c3_the_last_job_run_again_does_not_make_a_lifted_hold_anew",
        "test_c3_the_last_job_of_an_interrupted_rollback_does_nothing_after_the_way_forward",
    ),
    "C4": ("test_c4_each_value_that_was_altered_or_lost_does_nothing",),
    "C5": ("test_c5_an_environment_without_reviewers_approves_nothing",),
    "C6": ("test_c6_the_job_that_waits_holds_no_group_and_has_no_rights_so_the_schedule_publishes",),
    "C7": ("test_c7_each_rollback_has_a_group_of_its_own_which_github_never_drops",),
    "C8": ("test_c8_only_what_the_configuration_names_is_looked_at",),
    "C9": ("test_c9_inputs_are_data",),
    "C10": ("test_c10_no_other_workflow_can_call_it",),
    "C11": (REJECTED,),
    "C12": ("test_c12_with_approvals_the_starter_is_no_approver", "test_c12_another_hold_since_voids_it"),
    "D1": ("test_d1_the_approval_for_one_channel_does_not_count_for_another",),
    "D2": ("test_d2_the_first_promotion_counts_once_though_the_channel_was_deleted",),
    "D3": ("test_d3_only_the_hold_that_was_shown_is_lifted",),
    "D4": (
        "test_d4_what_else_another_signers_artifact_holds_is_refused_before_anybody_is_asked",
        "test_d4_a_tag_that_somebody_put_there_is_left_alone",
    ),
    "D5": ("test_content_and_minor_wait_at_once_and_either_voids_the_other",),
    "E1": ("test_a_hand_edit_is_refused_with_the_patch_that_keeps_it",),
    "E2": ("test_nothing_is_published_while_git_applies_the_folder",),
    "E3": (
        "test_a_secret_in_plain_text_is_refused_unless_allowed",
        "test_what_refers_outside_or_has_no_components_is_refused",
    ),
}
NUMBERS = {"A": 32, "B": 7, "C": 12, "D": 5, "E": 3}


def test_each_attack_has_tests_that_exist() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    defined = {name for text in texts for name in re.findall(r"^ *def (test_\w+)", text, re.MULTILINE)}
    assert ATTACKS.keys() == {f"{letter}{each}" for letter, most in NUMBERS.items() for each in range(1, most + 1)}
    named = {name for names in ATTACKS.values() for name in names}
    assert named <= defined, named - defined
    judged = (ROOT / "tests/unit/approval/test_content.py").read_text()
    assert all(f'"{number}: ' in judged for number, names in ATTACKS.items() if JUDGED in names)
