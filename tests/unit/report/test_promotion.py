"""What became of promotions, for people and for programs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty, Hazard, Severity
from ci_automation.impact.rights import FolderRights, Right
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.report.findings import Findings
from ci_automation.report.notes import ReleaseNotes
from ci_automation.report.promotion import (
    FirstDigest,
    PromotionShown,
    promotion_headline,
    promotion_parts,
    promotion_table,
)

OLD, NEW = Version.parse("v2.98.8"), Version.parse("v2.99.4")
BASE, TARGET = Digest.of(b"base"), Digest.of(b"target")
CERTAIN = Hazard("crds", Certainty.CERTAIN, "buckets v1", "the storage version of buckets would go backwards")
SOAKS = Verdict("soak", Decision.WAIT, "it soaks until\n2026-11-22", "promotion.soak: 24h")
SHOWN = PromotionShown(
    name="production",
    source=Reference.parse("oci://ghcr.io/acme/flux-manifests:staging"),
    target=Reference.parse("oci://ghcr.io/acme/flux-manifests:production"),
    version=NEW,
    digest=TARGET,
    old_version=OLD,
    before=BASE,
    decision=Decision.WAIT,
    reasons=(SOAKS.reason,),
    findings=Findings(hazards=(CERTAIN,), gates=(SOAKS,)),
    done=False,
)
NOTHING = replace(
    SHOWN,
    version=None,
    digest=None,
    old_version=None,
    before=None,
    decision=Decision.AUTO,
    reasons=(),
    findings=Findings(),
)


def text(shown: PromotionShown, *, fails: bool = False) -> str:
    return "\n".join(it.to_text() for it in promotion_parts(shown, fails=fails))


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        (replace(SHOWN, done=True), "promoted"),
        (SHOWN, "waiting"),
        (replace(SHOWN, decision=Decision.APPROVAL), "needs approval"),
        (replace(SHOWN, decision=Decision.REFUSED), "refused"),
        (NOTHING, "nothing to do"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_one_word_says_what_became_of_it(shown: PromotionShown, word: str) -> None:
    assert promotion_table(shown).rows[1][0] == shown.word == word


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (replace(SHOWN, done=True), f"v2.99.4 promoted from {SHOWN.source}"),
        (SHOWN, f"v2.99.4 from {SHOWN.source} is waiting"),
        (
            replace(SHOWN, decision=Decision.APPROVAL, findings=Findings(gates=(replace(SOAKS, reason="it is\nnew"),))),
            f"v2.99.4 from {SHOWN.source} needs approval: it is new",
        ),
        (replace(SHOWN, decision=Decision.REFUSED, findings=Findings()), f"v2.99.4 from {SHOWN.source} is refused"),
        (replace(SHOWN, decision=Decision.AUTO), "nothing to do at v2.99.4"),
        (replace(SHOWN, version=None), "it soaks until 2026-11-22"),
        (NOTHING, "nothing to do"),
    ],
)
def test_a_headline_says_what_became_of_a_promotion(shown: PromotionShown, said: str) -> None:
    assert promotion_headline(shown).to_text() == f"production: {said}"
    assert promotion_headline(shown).mark == shown.word


READY = Verdict("soak", Decision.AUTO, "it soaked", "promotion.soak: 24h")
AHEAD = replace(SHOWN, ahead=True)


@pytest.mark.parametrize(
    ("shown", "said", "word"),
    [
        (AHEAD, f"v2.98.8 now; v2.99.4 from {SHOWN.source} is waiting", "waiting"),
        (
            replace(AHEAD, decision=Decision.AUTO, findings=Findings(gates=(READY,))),
            f"v2.98.8 now; v2.99.4 from {SHOWN.source} can be promoted",
            "can be promoted",
        ),
        (
            replace(
                AHEAD, decision=Decision.APPROVAL, old_version=None, before=None, findings=Findings(gates=(SOAKS,))
            ),
            f"nothing yet; v2.99.4 from {SHOWN.source} needs approval: it soaks until 2026-11-22",
            "needs approval",
        ),
        (
            replace(AHEAD, old_version=SHOWN.version),
            f"v2.99.4 now; changed content of v2.99.4 from {SHOWN.source} is waiting",
            "waiting",
        ),
        (replace(AHEAD, version=None, digest=None), "v2.98.8 now; it soaks until 2026-11-22", "waiting"),
        (replace(AHEAD, decision=Decision.AUTO, findings=Findings()), "v2.99.4 is current", "nothing to do"),
    ],
)
def test_a_headline_of_a_look_begins_with_what_the_channel_has(shown: PromotionShown, said: str, word: str) -> None:
    assert promotion_headline(shown).to_text() == f"production: {said}"
    assert promotion_headline(shown).mark == word


def test_a_source_of_the_configuration_is_named() -> None:
    named = replace(SHOWN, source_name="staging", first=FIRST)
    assert promotion_headline(named).to_text() == "production: v2.99.4 from staging is waiting"
    assert "\nstaging has had it since 2026-11-20 07:30 UTC.\n" in text(named)


def test_the_table_has_both_digests_and_why_it_waits() -> None:
    table = promotion_table(SHOWN)
    assert table.head == ("", "version", "digest", "why")
    assert table.rows == (
        ("now", "v2.98.8", BASE.short, ""),
        ("waiting", "v2.99.4", TARGET.short, "it soaks until 2026-11-22"),
    )
    assert [row[2] for row in promotion_table(SHOWN, every=True).rows] == [str(BASE), str(TARGET)]
    first = promotion_table(replace(SHOWN, old_version=None, before=None))
    assert first.rows[0] == ("now", "nothing yet", "", "")


def test_of_what_was_approved_and_done_it_says_so() -> None:
    asked = Verdict("kind", Decision.APPROVAL, "a minor release needs approval")
    done = replace(SHOWN, done=True, decision=Decision.APPROVAL, reasons=(asked.reason,))
    done = replace(done, findings=Findings(gates=(asked,)))
    assert promotion_table(done).rows[0][0] == "before"
    assert promotion_table(done).rows[1][3] == "approved"
    assert promotion_table(done, every=True).rows[1][3] == f"approved; {asked.reason}"


FILE = TreeFile("extra/limits.yaml", b"kind: LimitRange")
SINCE = datetime(2026, 11, 20, 7, 30, tzinfo=UTC)
OPTIONS = ("--components=source-controller,kustomize-controller", "--log-level=debug")
FIRST = FirstDigest(OPTIONS, Tree((FILE,)), "the key sha256:1234", SINCE)


def test_of_a_first_digest_it_says_what_is_in_it_who_signed_it_and_where_it_was() -> None:
    said = text(replace(SHOWN, before=None, old_version=None, first=FIRST)).splitlines()
    at = said.index("A person must choose the first digest of a channel. It is Flux v2.99.4 with these options:")
    assert said[at + 1 : at + 7] == [
        "  --components=source-controller,kustomize-controller --log-level=debug",
        "It is signed by the key sha256:1234.",
        f"{SHOWN.source} has had it since 2026-11-20 07:30 UTC.",
        "Its files besides Flux's components:",
        "path               bytes  sha256",
        f"extra/limits.yaml  16     {Digest.of(FILE.content).short}",
    ]


def test_of_a_first_digest_without_files_options_and_record_it_says_that() -> None:
    said = text(replace(SHOWN, first=FirstDigest((), Tree(()), "the key sha256:1234", None)))
    assert "It is Flux v2.99.4 with Flux's default options.\n" in said
    assert "It has no files besides Flux's components.\n" in said
    assert "has had it" not in said


def test_of_a_first_digest_with_many_files_a_terminal_has_the_first_ones() -> None:
    files = tuple(replace(FILE, path=f"{number}.yaml") for number in range(10, 23))
    many = replace(SHOWN, first=replace(FIRST, overlay=Tree(files)))
    assert "\n19.yaml " in text(many)
    assert "\n20.yaml " not in text(many)
    assert "\nand 3 more files (-v lists them)\n" in text(many)
    said = "\n".join(it.to_text() for it in promotion_parts(many, every=True))
    assert ("\n22.yaml " in said, "more files" in said) == (True, False)


def test_of_a_first_digest_it_says_what_flux_may_do() -> None:
    may = Right("", ("ServiceAccount a",), "Role r", "Binding b", "do everything", Severity.DANGER, everything=True)
    first = replace(SHOWN, first=FIRST, findings=replace(SHOWN.findings, rights=(FolderRights("", (may,)),)))
    assert "Rights as in plain Flux: 1 binding, cluster-admin among them" in text(first)
    said = "\n".join(it.to_text() for it in promotion_parts(first, every=True))
    assert said.count("ServiceAccount a may do everything") == 1
    assert "may do everything" not in text(replace(first, first=None))
    assert "the first digest" not in text(replace(first, done=True))


def test_of_a_first_digest_that_is_there_no_line_says_that_v_lists_more() -> None:
    passed = Verdict("age", Decision.AUTO, "it is old enough", "minReleaseAge: 24h")
    next_one = replace(SHOWN, done=True, findings=Findings(gates=(SOAKS, passed)))
    assert "1 check passed (-v lists them)" in text(next_one)
    assert text(replace(next_one, before=None)).endswith("1 check passed")


def test_reasons_and_hazards_are_below_the_table() -> None:
    said = text(SHOWN)
    assert said.startswith("         version  digest        why\nnow      v2.98.8")
    assert CERTAIN.sentence in said


def test_a_reason_is_told_once() -> None:
    assert text(SHOWN).count("it soaks until 2026-11-22") == 1
    assert "it soaks" not in text(SHOWN, fails=True)
    assert promotion_headline(SHOWN, fails=True).to_text().endswith(" is waiting: it soaks until 2026-11-22")
    asks = Verdict("first", Decision.APPROVAL, "a person must choose", "the channel")
    first = replace(SHOWN, findings=Findings(gates=(SOAKS, asks)))
    assert [row[-1] for row in promotion_table(first).rows] == ["", "it soaks until 2026-11-22; then needs approval"]
    said = promotion_headline(first, fails=True).to_text()
    assert said.endswith(" is waiting: it soaks until 2026-11-22; then needs approval")


def test_a_check_has_the_table_alone() -> None:
    assert list(promotion_parts(SHOWN, details=False)) == [promotion_table(SHOWN)]


def test_of_a_source_that_is_empty_the_headline_says_all() -> None:
    empty = replace(SHOWN, version=None, digest=None, reasons=("the source is empty",))
    assert text(empty) == ""


def test_where_nothing_was_to_do_there_is_nothing_to_read() -> None:
    assert text(NOTHING) == ""


def test_programs_are_told_all_of_it() -> None:
    told = SHOWN.to_json()
    assert told["from"] == {"version": "v2.98.8", "digest": str(BASE)}
    assert told["to"] == {"version": "v2.99.4", "digest": str(TARGET)}
    assert (told["decision"], told["reasons"], told["changed"]) == (str(Decision.WAIT), [SOAKS.reason], False)
    assert [hazard["fingerprint"] for hazard in told["hazards"]] == [CERTAIN.fingerprint]
    assert NOTHING.to_json()["from"] == NOTHING.to_json()["to"] == {"version": "", "digest": ""}


def test_the_notes_of_the_releases_on_the_way_are_told() -> None:
    shown = replace(SHOWN, notes=(ReleaseNotes(NEW, ("Migrate all Alerts.",), "Migrate all Alerts."),))
    assert "Release notes: 1 line says what may break (-v shows them)." in text(shown)
    assert "Migrate all Alerts." in "\n".join(str(it) for it in promotion_parts(shown, every=True))
    assert shown.to_json()["releaseNotes"][0]["version"] == str(NEW)
