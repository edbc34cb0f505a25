from __future__ import annotations

import random
import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_automation.artifact.reference import Reference
from ci_automation.consumers import edit as module
from ci_automation.consumers.edit import edit
from ci_automation.consumers.model import Mention, MentionKind, Published
from tests.unit.consumers.subjects import DIGEST, NEW, OLD_DIGEST, OLD_TAG, TAG, URL, edited, found, source

PINNED = source(f"ref:\n    digest: {OLD_DIGEST} # why\n    tag: '{OLD_TAG}'")
SET = source(f"ref:\n    digest: {DIGEST} # why\n    tag: '{TAG}'")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("\ufeff", "", id="a byte order mark"),
        pytest.param("# é \U0001d4b3 \u2028\n---\n", "", id="characters of several bytes"),
        pytest.param("%YAML 1.1\n---\n", "...\n", id="directives and ends"),
        pytest.param("a: &x 1\nb: *x\n---\n", "---\nc: [1, {d: 2}]", id="anchors elsewhere, no line break at the end"),
        pytest.param("", "\n\n   \n---\n", id="blank lines"),
        pytest.param("", "---\n", id="empty documents"),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_other_byte_stays(before: str, after: str, ending: str) -> None:
    text, expected = (f"{before}{each}{after}".replace("\n", ending) for each in (PINNED, SET))
    assert edited(text) == expected


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        pytest.param(f"url: {URL}\n{{{{- if .x }}}}\n".encode(), 2, "it is not YAML: ", id="a template"),
        pytest.param(f"url: {URL}\na: \x07\n".encode(), 2, "it is not YAML: it has a control character", id="control"),
        pytest.param(f"url: {URL}\n".encode() + b"a: \xff\n", 2, "it is not UTF-8 text", id="another encoding"),
        pytest.param(f"url: {URL}\na: *b\n".encode(), 2, "it has an alias without an anchor", id="an alias of nothing"),
        pytest.param(f"url: {URL}\n".encode() + b"#" * (1 << 20), 1, "it is larger than 1 MiB", id="too large"),
        pytest.param(None, 1, "it is larger than 1 MiB", id="too large to be sent"),
        pytest.param(f"# {URL}\n".encode() + b"[" * 101, 2, "it is nested deeper than 100 levels", id="too deep"),
        pytest.param(
            f"# {URL}\n[".encode() + b"a," * 200_001,
            2,
            "it has more than 200000 values",
            id="long",
            marks=pytest.mark.often,
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_and_left_alone(data: bytes | None, line: int, reason: str) -> None:
    result = edit(data, NEW)
    assert result.data == (data or b"")
    assert [(each.line, each.kind) for each in result.findings] == [(line, MentionKind.LEFT)]
    assert result.findings[0].reason.startswith(reason)


def test_a_file_that_says_nothing_of_the_artifact_is_not_even_parsed() -> None:
    data = b"{{ a template }}\xff"
    assert edit(data, NEW) == module.Edited(data)


def test_an_artifact_in_a_directory_has_setter_comments_alone() -> None:
    published = Published("production", Reference.parse("layout:/srv/flux:production"), NEW.version, NEW.digest)
    text = source(f"ref: {{digest: {OLD_DIGEST}}}") + f'a: {OLD_DIGEST} # {{"$flux-manifests": "production:digest"}}\n'
    assert edit(text.encode(), published).data.decode() == text.replace(f"a: {OLD_DIGEST}", f"a: {DIGEST}")


@pytest.mark.parametrize("changed", ["a: b\n", "a: [\n", PINNED.replace("10m", "11m")])
def test_an_edit_that_would_change_anything_else_is_not_made(monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    monkeypatch.setattr(module, "_changed", lambda *_: changed)
    assert edit(PINNED.encode(), NEW).data == PINNED.encode()
    assert found(PINNED) == [("left", "file", "the new values would change more of the YAML file than these values")]


@pytest.mark.parametrize("bomb", ["[" * 90 + "]" * 90, "&a [" + "*a," * 20_000 + "]", "- " * 90 + "x", "? " * 90 + "x"])
def test_no_file_takes_long(bomb: str) -> None:
    began = time.process_time()
    edit(f"{PINNED}---\n{bomb}\n".encode(), NEW)
    assert time.process_time() - began < 5


WORDS = st.sampled_from(
    [
        "a",
        "é",
        "\U0001d4b3",
        OLD_DIGEST,
        OLD_TAG,
        URL,
        "production",
        "#",
        "# x",
        "x: y",
        "'",
        '"',
        "\\",
        "",
        "- ",
        "|",
        "1",
    ]
)
SCALARS = st.one_of(WORDS, st.lists(WORDS, max_size=4).map(" ".join), st.integers(), st.booleans(), st.none())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=20,
)
STYLES = st.fixed_dictionaries(
    {
        "default_flow_style": st.sampled_from([True, False, None]),
        "default_style": st.sampled_from([None, "'", '"']),  # what is in a block is reported, not edited
        "indent": st.integers(2, 8),
        "width": st.sampled_from([20, 80, 1000]),
        "line_break": st.sampled_from(["\n", "\r\n"]),
        "allow_unicode": st.booleans(),
        "explicit_start": st.booleans(),
    }
)


def pins(value: Any) -> Any:
    """Return a document's value as it should be after the edit: an object of ours has the new digest and tag."""
    if isinstance(value, list):
        return [pins(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    inside = {key: pins(inner) for key, inner in value.items()}
    if "kind" in inside:
        inside["spec"] = {**inside["spec"], "ref": {"digest": DIGEST, "tag": TAG}}
    return inside


class Written(yaml.SafeDumper):
    """Writes everything out where it stands."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def replayed(before: str, findings: tuple[Mention, ...]) -> str:
    """Return a text with what findings say they edited, and nothing else."""
    edits = {(each.span, each.new) for each in findings if each.kind is MentionKind.EDITED}
    for (start, end), new in sorted(edits, reverse=True):
        before = before[:start] + new + before[end:]
    return before


@settings(max_examples=50)
@given(noise=st.lists(VALUES, min_size=1, max_size=3), place=st.integers(0, 2), style=STYLES)
def test_amid_any_yaml_the_pins_alone_change(noise: list[object], place: int, style: dict[str, Any]) -> None:
    mine = yaml.safe_load(PINNED)
    documents = [*noise[:place], {"items": [mine, *noise], **mine}, *noise[place:]]
    text: str = yaml.dump_all(documents, Dumper=Written, **style)
    result = edit(text.encode(), NEW)
    assert list(yaml.safe_load_all(result.data)) == pins(list(yaml.safe_load_all(text)))
    assert [each.kind for each in result.findings] == [MentionKind.EDITED] * 4
    assert result.data.decode() == replayed(text, result.findings)
    again = edit(result.data, NEW)
    assert (again.data, [each.kind for each in again.findings]) == (result.data, [MentionKind.CURRENT] * 4)


@given(st.data())
def test_any_change_to_a_file_is_survived_and_nothing_but_scalars_change(data: st.DataObject) -> None:
    text = list(f'{PINNED}---\nx: [{OLD_DIGEST}, # {{"$flux-manifests": "production:digest"}}\n"a"]\n')
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from(
                ["", "\n", "\r", " ", ":", "-", "#", "'", '"', "{", "}", "[", "]", ",", "&a ", "*a", "|", "\t"]
            )
        )
    before = "".join(text)
    result = edit(before.encode(), NEW)
    assert result.data.decode() == replayed(before, result.findings)
    assert edit(result.data, NEW).data == result.data


@pytest.mark.often
def test_a_large_file_is_edited_in_time() -> None:
    filler = "".join(f"  - {{name: a{number}, value: {random.Random(number).random()}}}\n" for number in range(3000))  # noqa: S311
    text = f"{PINNED}---\nlist:\n{filler}"
    began = time.process_time()
    assert edited(text) == text.replace(OLD_DIGEST, DIGEST).replace(OLD_TAG, TAG)
    assert time.process_time() - began < 10
