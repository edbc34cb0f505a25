from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty, Hazard
from ci_automation.policy.content import UPSTREAM
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.plan import PassedOver, Plan, PlannedStep
from ci_automation.report.blocks import MarkedLine, Reasons, Table, plain_line, plain_text, shortened
from ci_automation.report.text import approval_commands, headline, main_reasons, plan_table

OLD, NEW = Version.parse("v2.8.5"), Version.parse("v2.8.8")
BASE, TARGET, LAST = (Digest.of(text) for text in (b"base", b"target", b"last"))
CHANNEL = Reference.parse("layout:my registry:production")


def step(decision: Decision = Decision.AUTO, *, base: Digest = BASE, target: Digest = TARGET) -> PlannedStep:
    return PlannedStep(OLD, NEW, base, target, decision, ("first reason", "second"), Options(), BASE, BASE, Proof.KNOWN)


def plan(*steps: PlannedStep, passed_over: tuple[PassedOver, ...] = ()) -> Plan:
    return Plan(CHANNEL, OLD, BASE, steps, passed_over)


class TestTable:
    def test_columns_are_aligned_and_lines_end_with_their_text(self) -> None:
        table = Table(("a", "head", ""), (("long cell", "x", ""), ("", "", "z")))
        assert table.to_text() == "a          head\nlong cell  x\n                 z"

    def test_a_table_without_rows_is_its_head(self) -> None:
        assert Table(("a", "b"), ()).to_text() == Table(("a", "b"), ()).to_text(80) == "a  b"

    SENTENCES = Table(
        ("", "digest", "why"),
        (
            ("now", "sha256:0123456789", ""),
            ("asks", "sha256:9876543210", "a sentence of eight words is folded here, `not me`"),
        ),
    )

    def test_sentences_are_folded_between_words_and_nothing_else_is(self) -> None:
        assert self.SENTENCES.to_text(55) == (
            "      digest             why\n"
            "now   sha256:0123456789\n"
            "asks  sha256:9876543210  a sentence of eight words is\n"
            "                         folded here, `not me`"
        )

    def test_without_room_for_sentences_a_row_is_a_paragraph(self) -> None:
        assert self.SENTENCES.to_text(30) == (
            "now\n  digest  sha256:0123456789\nasks\n  digest  sha256:9876543210\n"
            "  why     a sentence of eight\n          words is folded\n          here, `not me`"
        )
        assert self.SENTENCES.to_text(20).splitlines()[:3] == ["now", "  digest", "    sha256:0123456789"]

    def test_a_long_cell_has_a_line_for_each_reason_and_in_a_log_none_is_folded(self) -> None:
        first, second = f"{'long ' * 30}reason", "a short one; which is the last"
        table = Table(("", "why"), (("waiting", Reasons((first, second))), ("now", second)))
        assert table.to_text().splitlines() == [
            "         why",
            f"waiting  {first};",
            f"         {second}",
            f"now      {second}",
        ]
        assert table.to_text(100).splitlines() == [
            "         why",
            f"waiting  {('long ' * 18).rstrip()}",
            f"         {'long ' * 12}reason;",
            f"         {second}",
            f"now      {second}",
        ]

    def test_what_is_shown_of_a_cell_changes_no_width(self) -> None:
        shown = self.SENTENCES.to_text(55, lambda cell, text: f"<{text}>" if cell == "now" else text)
        assert shown.splitlines()[1] == "<now>   sha256:0123456789"


class TestLines:
    LONG = "  note: run `flux migrate -f . --dry-run` before sha256:0123456789abcdef0123456789abcdef is there"

    def test_are_folded_between_words_and_commands_and_digests_are_not(self) -> None:
        assert MarkedLine(self.LONG).lines(40) == [
            "  note: run",
            "    `flux migrate -f . --dry-run` before",
            "    sha256:0123456789abcdef0123456789abcdef",
            "    is there",
        ]

    def test_what_is_to_be_copied_is_not_folded_nor_is_anything_through_a_pipe(self) -> None:
        assert MarkedLine(self.LONG, to_copy=True).lines(40) == MarkedLine(self.LONG).lines(None) == [self.LONG]

    @given(st.text(), st.integers(1, 100))
    def test_no_word_is_lost(self, text: str, width: int) -> None:
        assert "".join(" ".join(MarkedLine(text).lines(width)).split()) == "".join(plain_line(text).split())


class TestHeadline:
    @pytest.mark.parametrize(
        ("steps", "done", "start", "said"),
        [
            ((), 0, 0, "v2.8.5 is current"),
            ((step(),), 0, 0, "v2.8.8 can be published"),
            ((step(),), 1, 0, "v2.8.8 published"),
            ((step(),), 1, 1, "v2.8.8 was published before"),
            ((step(), step(Decision.WAIT)), 1, 0, "v2.8.8 published; v2.8.8 is waiting"),
            (
                (
                    step(),
                    replace(step(Decision.APPROVAL), gates=tuple(Verdict("x", Decision.APPROVAL, n) for n in "abcd")),
                ),
                1,
                0,
                "v2.8.8 published; v2.8.8 needs approval: a, b, c, 1 more",
            ),
            (
                (replace(step(Decision.REFUSED), gates=(Verdict("proof", Decision.REFUSED, "not\x1b proven: x"),)),),
                0,
                0,
                "v2.8.8 is refused: not\N{REPLACEMENT CHARACTER} proven",
            ),
            (
                (replace(step(Decision.APPROVAL), new_version=OLD, gates=(Verdict("a", Decision.APPROVAL, "files"),)),),
                0,
                0,
                "changed content of v2.8.5 needs approval: files",
            ),
        ],
    )
    def test_says_what_became_of_each_step_and_why(
        self, steps: tuple[PlannedStep, ...], done: int, start: int, said: str
    ) -> None:
        assert headline(plan(*steps), done, start).text == f"{CHANNEL}: {said}"

    def test_a_channel_that_nobody_signed_is_adopted_first(self) -> None:
        said = headline(plan(step(), step(Decision.APPROVAL)), 0, name="edge", verified=False, unsigned=True)
        first = "edge: v2.8.5 is not signed: adopt it first, then v2.8.8, v2.8.8"
        assert (said.text, said.mark) == (first, "needs approval")  # nothing failed

    @pytest.mark.parametrize(
        ("decisions", "then"),
        [
            ((Decision.AUTO, Decision.REFUSED), ", then v2.8.8; v2.8.8 is refused: it breaks"),
            ((Decision.REFUSED,), "; v2.8.8 is refused: it breaks"),
            ((Decision.WAIT,), "; v2.8.8 is waiting"),
        ],
    )
    def test_what_no_adoption_lets_through_does_not_come_after_it(
        self, decisions: tuple[Decision, ...], then: str
    ) -> None:
        gates = (Verdict("overlay", Decision.REFUSED, "it breaks"),)
        steps = [replace(step(it), gates=gates if it is Decision.REFUSED else ()) for it in decisions]
        said = headline(plan(*steps), 0, verified=False, unsigned=True).text
        assert said == f"{CHANNEL}: v2.8.5 is not signed: adopt it first{then}"

    @pytest.mark.parametrize(("steps", "then"), [((), "v2.8.5 is current"), ((step(),), "v2.8.8 can be published")])
    def test_a_digest_that_was_adopted_is_told_first(self, steps: tuple[PlannedStep, ...], then: str) -> None:
        said = headline(plan(*steps), 0, healed="adopted and signed").text
        assert said == f"{CHANNEL}: v2.8.5 ({BASE.short}) adopted and signed; {then}"

    def test_a_channel_that_was_not_verified_was_not_checked_against_holds(self) -> None:
        said = headline(plan(step()), 0, verified=False)
        assert (said.text, said.mark) == (f"{CHANNEL}: v2.8.8 is possible (nothing was verified)", "possible")
        rows = plan_table(plan(step(), step(), step(Decision.WAIT)), 1, verified=False).rows
        assert [row[0] for row in rows] == ["before", "published", "possible", "waiting"]

    def test_says_what_was_passed_over_where_nothing_is_to_do(self) -> None:
        passed = [PassedOver(Version.parse("v3.0.0"), Decision.REFUSED, ("never",))]
        passed += [PassedOver(Version.parse(it), Decision.WAIT, ("young",)) for it in ("v2.8.8", "v2.8.7")]
        said = "nothing to do at v2.8.5; v3.0.0 is refused; v2.8.8 to v2.8.7 (2) are waiting"
        assert headline(plan(passed_over=tuple(passed)), 0).text == f"{CHANNEL}: {said}"

    @pytest.mark.parametrize(
        ("decisions", "mark"),
        [
            ((), "published"),
            ((Decision.AUTO, Decision.REFUSED, Decision.APPROVAL), "refused"),
            ((Decision.APPROVAL,), "needs approval"),
        ],
    )
    def test_has_the_colour_of_the_gravest_that_is_left(self, decisions: tuple[Decision, ...], mark: str) -> None:
        assert headline(plan(*map(step, decisions)), 0).mark == mark


HOSTILE = {
    "colours": ("\x1b[31mred", "\N{REPLACEMENT CHARACTER}[31mred"),
    "an overwritten line": ("safe\rEVIL", "safe\N{REPLACEMENT CHARACTER}EVIL"),
    "a bell and a backspace": ("a\x07\x08", "a" + "\N{REPLACEMENT CHARACTER}" * 2),
    "C1 controls": ("a\x9b31m", "a\N{REPLACEMENT CHARACTER}31m"),
    "text that runs backwards": ("a\u202egnp.exe", "a\N{REPLACEMENT CHARACTER}gnp.exe"),
    "isolates": ("\u2066a\u2069", "\N{REPLACEMENT CHARACTER}a\N{REPLACEMENT CHARACTER}"),
    "nothing to see": ("a\u200bb\ufeff", "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"),
    "line separators": ("a\u2028b\u2029", "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"),
    "half a pair": ("a\ud800", "a\N{REPLACEMENT CHARACTER}"),
    "private use": ("\ue000", "\N{REPLACEMENT CHARACTER}"),
    "a NUL": ("a\0b", "a\N{REPLACEMENT CHARACTER}b"),
    "a tab": ("a\tb", "a\N{REPLACEMENT CHARACTER}b"),
}


@pytest.mark.parametrize(("text", "plain"), HOSTILE.values(), ids=list(HOSTILE))
def test_nothing_reaches_a_terminal_that_could_control_it(text: str, plain: str) -> None:
    assert plain_text(text) == plain
    plain_text(text).encode()


@pytest.mark.parametrize("text", ["", "two\nlines", "größer als 2 GiB — naïve, 日本語, 👍"])
def test_what_people_write_stays(text: str) -> None:
    assert plain_text(text) == text


class TestPlanTable:
    def test_says_what_was_there_what_was_published_what_waits_and_why(self) -> None:
        steps = (step(), step(Decision.APPROVAL, base=TARGET, target=LAST))
        passed = (PassedOver(Version.parse("v3.0.0"), Decision.REFUSED, ("never",)),)
        table = plan_table(plan(*steps, passed_over=passed), 1)
        assert table.head == ("", "version", "digest", "why")
        assert table.rows == (
            ("before", "v2.8.5", str(BASE), ""),
            ("published", "v2.8.8", str(TARGET), "first reason; second"),
            ("needs approval", "v2.8.8", str(LAST), "first reason; second"),
            ("refused", "v3.0.0", "", "never"),
        )

    def test_has_short_digests_where_people_read_and_none_copies(self) -> None:
        assert [row[2] for row in plan_table(plan(step()), 0, every=False).rows] == [BASE.short, TARGET.short]

    @pytest.mark.parametrize(
        ("decision", "word"),
        [
            (Decision.AUTO, "can be published"),
            (Decision.APPROVAL, "needs approval"),
            (Decision.WAIT, "waiting"),
            (Decision.REFUSED, "refused"),
        ],
    )
    def test_every_decision_has_its_words(self, decision: Decision, word: str) -> None:
        assert plan_table(plan(step(decision)), 0).rows[1][0] == word

    @pytest.mark.parametrize("decision", [Decision.AUTO, Decision.APPROVAL])
    def test_what_could_be_done_as_well_is_not_said_to_be_published_or_to_wait(self, decision: Decision) -> None:
        passed = (PassedOver(NEW, decision, ("v2.8.7 comes first",)),)
        assert plan_table(plan(passed_over=passed), 0).rows[1] == ("not taken", "v2.8.8", "", "v2.8.7 comes first")

    def test_what_is_cut_ends_with_a_whole_word(self) -> None:
        assert [shortened(text, 12) for text in ("one two, three", "one two three", "a" * 13, "short")] == [
            *("one two…", "one two…", f"{'a' * 11}…", "short")
        ]

    @pytest.mark.parametrize(
        ("decision", "gates", "told"),
        [
            (
                Decision.AUTO,
                (
                    Verdict("kind", Decision.AUTO, "a patch"),
                    Verdict("age", Decision.AUTO, "12 days old"),
                    Verdict("proof", Decision.AUTO, "proven"),
                    Verdict(UPSTREAM, Decision.AUTO, "no signature", allowed=True),
                    Verdict("edits", Decision.AUTO, f"{'long ' * 40}and dropped", allowed=True),
                ),
                f"a patch; {'long ' * 40}and dropped",
            ),
            (
                Decision.APPROVAL,
                (Verdict("kind", Decision.APPROVAL, "a minor"), Verdict("edits", Decision.AUTO, "ok", allowed=True)),
                "a minor; ok",
            ),
            (Decision.REFUSED, (Verdict("crds", Decision.REFUSED, "it breaks: all of it"),), "it breaks"),
            (Decision.WAIT, (Verdict("hold", Decision.WAIT, "on hold"),), "on hold"),
            (
                Decision.WAIT,
                (Verdict("hold", Decision.WAIT, "on hold"), Verdict("kind", Decision.APPROVAL, "a minor")),
                "on hold; then needs approval",
            ),
        ],
    )
    def test_in_brief_it_says_why_a_step_stops_and_whole_what_nothing_else_says(
        self, decision: Decision, gates: tuple[Verdict, ...], told: str
    ) -> None:
        reasons = tuple(gate.reason for gate in gates)
        decided = replace(step(decision), gates=gates, reasons=reasons)
        rows = plan_table(plan(decided), 0, every=False).rows
        assert "".join(rows[1][3:]) == told
        assert plan_table(plan(decided), 0).rows[1][3] == "; ".join(reasons)

    def test_what_was_approved_is_said_so(self) -> None:
        asked = Verdict("kind", Decision.APPROVAL, "a minor")
        done = replace(step(Decision.APPROVAL), gates=(asked,), reasons=("a minor",))
        assert plan_table(plan(done), 1, every=False).rows[1][3] == "approved"
        assert plan_table(plan(done), 1).rows[1][3] == "approved; a minor"

    def test_without_a_reason_there_is_no_column_of_reasons(self) -> None:
        assert plan_table(plan(), 0) == Table(("", "version", "digest"), (("now", "v2.8.5", str(BASE)),))

    def test_of_many_reasons_a_page_has_the_gravest_and_what_lets_through_whole(self) -> None:
        reasons = ("a minor", "rbac", "crds")
        assert main_reasons(replace(step(), reasons=reasons)) == reasons
        assert main_reasons(replace(step(Decision.APPROVAL), reasons=reasons)) == ("a minor", "and 2 more reasons")
        long = f"{'a word ' * 30}end"
        verdict = Verdict("edits", Decision.AUTO, long, allowed=True)
        assert main_reasons(replace(step(), reasons=(long,))) == (shortened(long),)
        assert main_reasons(replace(step(), reasons=(long,), gates=(verdict,))) == (long,)

    def test_what_can_break_is_told_before_what_the_policy_says(self) -> None:
        hazard = Hazard("crds", Certainty.POSSIBLE, "x", "v1beta2 of Alert is removed: clusters that store it break")
        gates = (
            Verdict("kind", Decision.APPROVAL, "a minor release needs approval"),
            Verdict("crds", Decision.APPROVAL, hazard.sentence, f"possible, {hazard.fingerprint}"),
        )
        reasons = (*(gate.reason for gate in gates), "another")
        asked = replace(step(Decision.APPROVAL), reasons=reasons, gates=gates, hazards=(hazard,))
        assert main_reasons(asked) == ("v1beta2 of Alert is removed", "and 2 more reasons")
        assert headline(plan(asked), 0).text.endswith("needs approval: v1beta2 of Alert is removed")
        alone = replace(asked, gates=gates[:1], hazards=())
        assert headline(plan(alone), 0).text.endswith("needs approval: a minor release")

    def test_where_nothing_was_published_the_channel_is_told_as_it_is_now(self) -> None:
        assert plan_table(plan(step()), 0).rows[0][0] == "now"

    @pytest.mark.parametrize("decision", list(Decision))
    def test_of_many_reasons_against_what_is_passed_over_it_has_the_first_unless_it_waits(
        self, decision: Decision
    ) -> None:
        reasons = ("4 objects would be removed", "a minor", "rbac")
        passed = (PassedOver(NEW, decision, reasons),)
        short = "; ".join(reasons) if decision is Decision.WAIT else f"{reasons[0]}; and 2 more reasons"
        for every, said in (True, "; ".join(reasons)), (False, short):
            assert plan_table(plan(passed_over=passed), 0, every=every).rows[1][3] == said

    def test_what_is_passed_over_for_one_reason_is_one_row(self) -> None:
        held = tuple(
            PassedOver(Version.parse(f"v2.9.{patch}"), Decision.WAIT, ("v2.9.9 was rolled back",)) for patch in range(9)
        )
        other = PassedOver(Version.parse("v3.0.0"), Decision.WAIT, ("too young",))
        assert plan_table(plan(passed_over=(*held, other)), 0).rows[1:] == (
            ("waiting", "v2.9.0 to v2.9.8 (9)", "", "v2.9.9 was rolled back"),
            ("waiting", "v3.0.0", "", "too young"),
        )

    def test_a_hostile_reason_is_harmless(self) -> None:
        passed = (PassedOver(NEW, Decision.WAIT, ("frozen\x1b[2J\rall is well",)),)
        assert "\x1b" not in plan_table(plan(passed_over=passed), 0).to_text()


class TestApprovalCommands:
    def test_name_each_step_that_waits_once_in_words_that_a_shell_takes(self) -> None:
        first, then = step(Decision.APPROVAL, target=LAST), step(Decision.APPROVAL, base=LAST)
        waiting = (first, then, step(Decision.WAIT, base=TARGET, target=BASE))
        commands = approval_commands("production", waiting, ["--log-level=debug"], ["--overlay", "my files; rm -r ~"])
        make_it, do_it, other = commands.splitlines()
        assert other == f"To approve {waiting[1].new_version} too, add to that: --approve {waiting[1].target}"
        make, do = map(shlex.split, (make_it, do_it))
        assert make == ["flux-manifests", "plan", "production", "--out", "plan.json", "--log-level=debug"]
        assert do == [
            *("flux-manifests", "apply", "plan.json", "--approve", str(LAST)),
            *("--overlay", "my files; rm -r ~"),
        ]

    def test_of_steps_from_the_same_digest_approve_one(self) -> None:
        waiting = (step(), step(Decision.APPROVAL, base=TARGET, target=LAST), step(Decision.APPROVAL, base=TARGET))
        first, other, second = approval_commands("production", waiting, (), (), "p.json").splitlines()
        assert other == f"Or approve {NEW} instead of that (the next run asks for the other one again):"
        commands = [shlex.split(line)[1:] for line in (first, second)]
        assert commands == [["apply", "p.json", "--approve", str(digest)] for digest in (LAST, TARGET)]

    @pytest.mark.parametrize("waiting", [(), (step(),), (step(Decision.WAIT), step(Decision.REFUSED))])
    def test_are_not_there_where_nothing_waits(self, waiting: tuple[PlannedStep, ...]) -> None:
        assert approval_commands("production", waiting, (), ()) == ""


def test_what_an_earlier_run_published_is_not_claimed() -> None:
    words = [row[0] for row in plan_table(plan(step(Decision.AUTO)), 1, 1).rows]
    assert words[:2] == ["before", "already published"]
