"""The lock file: read strictly, changed in one entry and in no other byte."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_automation.approval.lock import LOCK_FILE, InvalidLock, Lock, LockEntry
from ci_automation.approval.port import ApprovalRequest, RequestKind
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flux.version import Version

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def entry(tag: str = "production", base: str = "base", target: str = "target", ask: int = 1) -> LockEntry:
    artifact = Reference.parse(f"oci://ghcr.io/acme/flux-manifests:{tag}")
    return LockEntry(
        ApprovalRequest(artifact, Version.parse("v2.9.4"), Digest.of(base.encode()), Digest.of(target.encode())), ask
    )


ONE = Lock().with_entry(entry())
TWO = ONE.with_entry(entry("edge"))
BY_HAND = f"""\
# ours, é
artifacts:   # sorted by nobody
    -   target: '{Digest.of(b"t")}'   # reviewed
        # the old one
        base: "{Digest.of(b"b")}"
        artifact: oci://ghcr.io/acme/flux-manifests:production
        version: 2.9.3

    # a note on edge
    -   artifact: "oci://ghcr.io/acme/flux-manifests:edge"
        version: v2.9.3
        base: {Digest.of(b"b")}
        target: {Digest.of(b"t")}
        ask: 2
version: 1
# the end"""


CONTENT = replace(entry(), request=replace(entry().request, kind=RequestKind.CONTENT))


class TestWriting:
    def test_an_artifact_has_one_entry_of_each_kind(self) -> None:
        lock = ONE.with_entry(CONTENT)
        assert lock.entries == (entry(), CONTENT)
        assert lock.text.startswith(ONE.text)
        assert "\n  kind: content\n  version: v2.9.4\n" in lock.text.removeprefix(ONE.text)
        assert lock.find(*CONTENT.place) == CONTENT
        assert lock.find(CONTENT.request.artifact) == entry()
        assert Lock().with_entry(CONTENT).find(CONTENT.request.artifact) is None
        assert Lock().with_entry(CONTENT).with_entry(entry()).entries == (entry(), CONTENT)

    def test_a_new_file_says_what_it_is_for(self) -> None:
        head, _, rest = ONE.text.partition("version: 1\n")
        assert "to\n# merge one approves exactly the digests that it sets" in head
        assert rest == (
            "artifacts:\n"
            "- artifact: oci://ghcr.io/acme/flux-manifests:production\n"
            "  version: v2.9.4\n"
            f"  base: {Digest.of(b'base')}\n"
            f"  target: {Digest.of(b'target')}\n"
        )

    def test_entries_are_sorted_whatever_their_order_was(self) -> None:
        tags = ["production", "edge", "a", "staging"]
        lock = Lock()
        for tag in tags:
            lock = lock.with_entry(entry(tag))
        assert [str(each.request.artifact.tag) for each in lock.entries] == sorted(tags)
        assert lock.text == Lock().with_entry(entry("staging")).with_entry(entry("edge")).with_entry(
            entry("production")
        ).with_entry(entry("a")).text  # fmt: skip

    def test_setting_what_is_set_changes_nothing(self) -> None:
        assert TWO.with_entry(entry("edge")) is TWO

    def test_a_change_keeps_comments_order_quotes_and_blanks(self) -> None:
        changed = Lock.parse(BY_HAND).with_entry(entry())
        expected = BY_HAND.replace(str(Digest.of(b"t")), str(Digest.of(b"target")), 1)
        expected = expected.replace(str(Digest.of(b"b")), str(Digest.of(b"base")), 1).replace("2.9.3", "v2.9.4", 1)
        assert changed.text == expected

    def test_a_new_entry_keeps_what_people_wrote(self) -> None:
        changed = Lock.parse(BY_HAND).with_entry(entry("stable"))
        before, new, after = changed.text.partition("    - artifact: oci://ghcr.io/acme/flux-manifests:stable\n")
        assert new
        assert before + "\n".join(after.split("\n")[3:]) == BY_HAND

    def test_an_entry_that_sorts_first_goes_first(self) -> None:
        lines = BY_HAND.split("\n")
        changed = Lock.parse(BY_HAND).with_entry(entry("a")).text.split("\n")
        assert changed[:2] + changed[6:] == lines

    def test_the_ends_of_lines_stay(self) -> None:
        theirs = TWO.text.replace("\n", "\r\n")
        changed = Lock.parse(theirs).with_entry(entry(target="other", ask=2)).with_entry(entry("new"))
        ours = TWO.with_entry(entry(target="other", ask=2)).with_entry(entry("new"))
        assert changed.text == ours.text.replace("\n", "\r\n")

    def test_a_last_line_without_an_end_gets_one(self) -> None:
        changed = Lock.parse(ONE.text.rstrip("\n")).with_entry(entry("stable"))
        assert changed.text == ONE.with_entry(entry("stable")).text

    def test_what_is_asked_for_again_differs_from_what_was_asked_for(self) -> None:
        again = TWO.with_entry(entry("edge", ask=2))
        assert Lock.parse(Lock().with_entry(entry(ask=2)).text).entries == (entry(ask=2),)
        assert again.text == TWO.text.replace("\n- artifact: oci://ghcr.io/acme/flux-manifests:p", "\n  ask: 2\n- a"
                                              "rtifact: oci://ghcr.io/acme/flux-manifests:p")  # fmt: skip
        assert again.find(entry().request.artifact) == entry()
        assert again.with_entry(entry("edge", ask=3)).text == again.text.replace("ask: 2", "ask: 3")
        assert again.with_entry(entry("edge", target="x")).find(entry("edge").request.artifact) == entry(
            "edge", target="x"
        )

    @pytest.mark.parametrize(
        "artifact",
        [
            "layout:a folder/with 'quotes' # and more:production",
            "layout: x:production",
            "layout:./here:v1",
            "oci://[::1]:5000/flux:production",
        ],
    )
    def test_every_address_comes_back(self, artifact: str) -> None:
        written = LockEntry(replace(entry().request, artifact=Reference.parse(artifact)))
        assert Lock().with_entry(written).find(written.request.artifact) == written
        assert TWO.with_entry(written).find(written.request.artifact) == written

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param(
                "version: 1\nartifacts: [{artifact: oci://ghcr.io/acme/x:y, version: v2.9.4, "
                f"base: {Digest.of(b'')}, target: {Digest.of(b'')}}}]",
                id="on one line",
            ),
            pytest.param(
                "version: 1\nartifacts:\n-\n  artifact: oci://ghcr.io/acme/x:y\n  version: v2.9.4\n"
                f"  base: {Digest.of(b'')}\n  target: {Digest.of(b'')}\n",
                id="with the dash on a line of its own",
            ),
        ],
    )
    def test_what_is_written_in_another_manner_is_changed_or_refused_but_never_damaged(self, text: str) -> None:
        lock = Lock.parse(text)
        (there,) = lock.entries
        assert lock.with_entry(replace(there, request=replace(there.request, target=Digest.of(b"x")))) != lock
        try:
            assert lock.with_entry(entry()).entries == (entry(), there)
        except InvalidLock as error:
            assert str(error)  # noqa: PT017  # either outcome is right

    def test_an_entry_on_one_line_gets_no_line_more(self) -> None:
        text = (
            f"version: 1\nartifacts:\n- {{artifact: oci://ghcr.io/acme/x:y, version: v2.9.4, base: {Digest.of(b'')}, "
        )
        lock = Lock.parse(text + f"target: {Digest.of(b'')}}}\n")
        with pytest.raises(InvalidLock):
            lock.with_entry(replace(lock.entries[0], ask=2))

    def test_what_would_land_in_another_entry_is_refused(self) -> None:
        # To YAML 1.1 that is the end of a line, and to hardly anything else.
        text = TWO.text.replace(
            "\n- artifact: oci://ghcr.io/acme/flux-manifests:p", "\u2028- artifact: oci://ghcr.io/acme/p:p"
        )
        with pytest.raises(InvalidLock, match=r"lock.yaml:\d+: it has the character U\+2028"):
            Lock.parse(text)

    def test_a_change_that_does_not_read_as_it_was_meant_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ci_automation.approval.lock._changed", lambda text, *_: text)
        there = TWO.entries[0]
        with pytest.raises(InvalidLock, match="its keys are not on a line each"):
            TWO.with_entry(replace(there, request=replace(there.request, target=Digest.of(b"x"))))

    @pytest.mark.parametrize("end", ["\r", "\x85", "\u2028", "\u2029", "\u202e"])
    def test_no_comment_holds_an_entry(self, end: str) -> None:
        hidden = TWO.text.replace("\n", end).partition("artifacts:")[2]
        with pytest.raises(InvalidLock, match="reviewers read another text than YAML"):
            Lock.parse(f"version: 1\nartifacts: # as it was{hidden}\n")


class TestParsing:
    def test_no_file_has_no_entries(self) -> None:
        assert Lock.parse(None) == Lock()
        assert Lock.parse(None).find(entry().request.artifact) is None

    def test_what_people_wrote_is_read(self) -> None:
        first, second = Lock.parse(BY_HAND).entries
        assert (first.request.version, first.ask, first.request.target) == (Version.parse("v2.9.3"), 1, Digest.of(b"t"))
        assert second.ask == 2

    @pytest.mark.parametrize(
        ("change", "what"),
        [
            pytest.param(lambda _: "", "it is empty", id="empty"),
            pytest.param(lambda _: "- a\n", "it is not a mapping with artifacts, version", id="a list"),
            pytest.param(lambda _: "x: [", "not YAML", id="no YAML"),
            pytest.param(lambda text: "\ufeff" + text, "byte order mark", id="a byte order mark"),
            pytest.param(lambda text: text + "\ud800", "not UTF-8", id="no text"),
            pytest.param(lambda _: "version: 1\n", "artifacts: it is missing", id="no artifacts"),
            pytest.param(lambda _: "version: 1\nartifacts: []\n", "not a list of one entry or more", id="nothing"),
            pytest.param(lambda _: "version: 1\nartifacts: x\n", "not a list of one entry or more", id="a word"),
            pytest.param(lambda _: "version: 1\nartifacts: [x]\n", "artifacts[0]: it is not a mapping", id="words"),
            pytest.param(lambda text: text.replace("version: 1", "version: 2"), "reads version: 1", id="version 2"),
            pytest.param(lambda text: text.replace("version: 1", "version: true"), "reads version: 1", id="true"),
            pytest.param(lambda text: text.replace("version: 1\n", ""), "version: it is missing", id="no version"),
            pytest.param(lambda text: text + "more: 1\n", "more: there is no such key", id="a key more"),
            pytest.param(lambda text: text + "  force: true\n", "force: there is no such key", id="a key more inside"),
            pytest.param(lambda text: text + "version: 1\n", "the key is there twice", id="a key twice"),
            pytest.param(lambda text: text.replace("  base:", "  old:"), "base: it is missing", id="no base"),
            pytest.param(lambda text: text.replace("sha256:", "sha512:"), "is not a sha256 digest", id="no digest"),
            pytest.param(lambda text: text.replace("v2.9.4", "latest"), "is not a version", id="no version of Flux"),
            pytest.param(lambda text: text.replace("v2.9.4", "2.9"), "it is not a text", id="a number"),
            pytest.param(lambda text: text.replace("v2.9.4", ""), "it has no value", id="no value"),
            pytest.param(lambda text: text.replace(":production", ""), "a channel is a tag", id="no channel"),
            pytest.param(lambda text: text + text.split("artifacts:\n")[1], "another entry of this kind", id="twice"),
            pytest.param(lambda text: text + "  kind: other\n", "not version or content", id="another kind"),
            pytest.param(lambda text: text + "  kind: [content]\n", "not version or content", id="no kind"),
            pytest.param(lambda text: text.replace("target: ", "target: &x "), "anchors", id="an anchor"),
            pytest.param(lambda text: text + "  ask: 0\n", "not a number from 1", id="asked never"),
            pytest.param(lambda text: text + "  ask: true\n", "not a number from 1", id="asked true"),
            pytest.param(lambda text: text + "  ask: x\n", "not a number from 1", id="asked x"),
            pytest.param(lambda text: text + "  ask: 0x2\n", "not written plainly", id="asked in hexadecimal"),
            pytest.param(lambda text: text.replace("v2.9.4", r'"v2.9\x2e4"'), "not written plainly", id="an escape"),
            pytest.param(lambda text: text.replace("v2.9.4", "!!str v2.9.4"), "plainly", id="a tag"),
        ],
    )
    def test_a_damaged_file_is_refused_with_the_place(self, change: Callable[[str], str], what: str) -> None:
        with pytest.raises(InvalidLock) as raised:
            Lock.parse(change(ONE.text))
        assert what in str(raised.value)
        assert str(raised.value).startswith(f"{LOCK_FILE}:")
        assert all(problem.file == LOCK_FILE for problem in raised.value.problems)
        assert "Restore" in raised.value.hint

    def test_everything_that_is_wrong_is_told_at_once(self) -> None:
        with pytest.raises(InvalidLock) as raised:
            Lock.parse("version: 2\nartifacts:\n- artifact: x\n  version: y\n")
        assert len(raised.value.problems) == 5


tags = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,8}", fullmatch=True)
digests = st.binary(max_size=2).map(Digest.of)
versions = st.builds("v{}.{}.{}".format, *[st.integers(0, 99)] * 3).map(Version.parse)
addresses = st.builds("oci://ghcr.io/acme/{}:{}".format, st.sampled_from("abc"), tags).map(Reference.parse)
requests = st.tuples(addresses, versions, digests, digests, st.sampled_from(RequestKind)).map(
    lambda given: ApprovalRequest(*given)
)
entries = st.tuples(requests, st.integers(1, 9999)).map(lambda given: LockEntry(*given))


@given(st.lists(entries, min_size=1, max_size=6))
def test_what_was_set_last_is_what_is_there(written: list[LockEntry]) -> None:
    lock = Lock()
    for each in written:
        lock = lock.with_entry(each)
        assert Lock.parse(lock.text) == lock
        assert lock.with_entry(each) is lock
    latest = {each.place: each for each in written}
    assert {each.place: each for each in lock.entries} == latest
    order = [(str(artifact), kind == "content") for artifact, kind in latest]
    assert [(str(each.request.artifact), each.request.kind == "content") for each in lock.entries] == sorted(order)


@given(st.lists(entries, min_size=1, max_size=4), entries, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_the_lines_of_other_entries_and_of_people_stay(
    there: list[LockEntry], new: LockEntry, end: str, noted: bool
) -> None:
    lock = Lock()
    for each in there:
        lock = lock.with_entry(each)
    note = "  # a note: of - people" if noted else ""
    text = lock.text.replace("\n", f"{note}\n# more\n" if noted else "\n").replace("\n", end)
    changed = Lock.parse(text).with_entry(new)
    old, now = text.split(end), changed.text.split(end)
    start = next(
        (n for n, pair in enumerate(zip(old, now, strict=False)) if pair[0] != pair[1]), min(len(old), len(now))
    )
    rest = min(len(old), len(now)) - start
    behind = next((n for n in range(rest) if old[-1 - n] != now[-1 - n]), rest)
    touched = "".join(now[start : len(now) - behind])
    for each in there:
        if each.request.artifact != new.request.artifact:
            assert f"artifact: {each.request.artifact} " not in f"{touched} "
    assert {e.place: e for e in changed.entries} == {**{e.place: e for e in there}, new.place: new}


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        Lock.parse(text)
    except InvalidLock as error:
        assert error.problems  # noqa: PT017  # either outcome is right


@given(st.data())
def test_a_file_with_one_sign_changed_is_read_or_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(TWO.text) - 1))
    text = TWO.text[:at] + data.draw(st.characters()) + TWO.text[at + data.draw(st.integers(0, 1)) :]
    try:
        lock = Lock.parse(text)
    except InvalidLock:
        return
    try:
        assert lock.with_entry(entry(target="new")).find(entry().request.artifact) == entry(target="new")
    except InvalidLock as error:
        assert "one key" in str(error)  # noqa: PT017  # either outcome is right


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
@pytest.mark.parametrize(("ours", "theirs"), [("edge", "production"), ("production", "edge")])
def test_git_merges_changes_of_two_neighbours(tmp_path: Path, ours: str, theirs: str) -> None:
    texts = {
        "base": TWO.text,
        "ours": TWO.with_entry(entry(ours, "b2", "t2", ask=2)).text,
        "theirs": TWO.with_entry(entry(theirs, "b3", "t3")).text,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    merged = subprocess.run(
        ["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert merged == TWO.with_entry(entry(ours, "b2", "t2", ask=2)).with_entry(entry(theirs, "b3", "t3")).text
