from __future__ import annotations

import pytest

from tests.unit.consumers.subjects import DIGEST, OLD_DIGEST, OLD_TAG, TAG, edited, found, source

SETTER = '# {"$flux-manifests": "production:digest"}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(f"a: {OLD_DIGEST} {SETTER}", f"a: {DIGEST} {SETTER}", id="a digest"),
        pytest.param(f"- {OLD_DIGEST} {SETTER}", f"- {DIGEST} {SETTER}", id="an item"),
        pytest.param(f"{OLD_DIGEST} {SETTER}", f"{DIGEST} {SETTER}", id="the only value"),
        pytest.param(f'a: "" {SETTER}', f'a: "{DIGEST}" {SETTER}', id="an empty text in quotes"),
        pytest.param(f"a: 'it''s' {SETTER}", f"a: '{DIGEST}' {SETTER}", id="any text"),
        pytest.param(f"a: [1, {OLD_DIGEST} {SETTER}\n  ]", f"a: [1, {DIGEST} {SETTER}\n  ]", id="the nearest value"),
        pytest.param(f'{{"a": "x", {SETTER}\n}}', f'{{"a": "{DIGEST}", {SETTER}\n}}', id="with a comma behind it"),
        pytest.param(f"a: é# {SETTER}  ü", f"a: {DIGEST} {SETTER}  ü", id="with more behind it"),
        pytest.param(
            'a: x #{ "$flux-manifests" : "production:tag" }',
            f'a: {TAG} #{{ "$flux-manifests" : "production:tag" }}',
            id="a tag, written with other blanks",
        ),
        pytest.param(
            'a: v2.0.0 # {"$flux-manifests": "production:version"}',
            'a: v2.9.4 # {"$flux-manifests": "production:version"}',
            id="a version",
        ),
        pytest.param(
            'a: 2.0.0 # {"$flux-manifests": "production:version"}',
            'a: 2.9.4 # {"$flux-manifests": "production:version"}',
            id="a version without its v",
        ),
        pytest.param(f"a: x\u2028 {SETTER}", f"a: x\u2028 {SETTER}", id="YAML has more line breaks than most"),
    ],
)
def test_the_value_before_the_comment_is_set(before: str, after: str) -> None:
    after = after.replace("é#", DIGEST) if "é#" in before else after
    assert edited(before.replace("é#", "é")) == after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(f"a: {SETTER}", "it has no value that could be replaced", id="no value"),
        pytest.param(f"a: x\n{SETTER}", "its line has no value before it", id="a line of its own"),
        pytest.param(f"a: |\n  x\n{SETTER}", "its line has no value before it", id="below a block"),
        pytest.param(SETTER, "its line has no value before it", id="nothing but the comment"),
        pytest.param(f"a: |\n  b: x {SETTER}\n", "it is inside a text", id="in a block"),
        pytest.param(f"a: 'x {SETTER}'\n", "it is inside a text", id="in quotes"),
        pytest.param(f"a: {{b: x}} {SETTER}", "it does not follow a value directly", id="behind a bracket"),
        pytest.param(f"? a {SETTER}\n: b", "it does not follow a value directly", id="behind a key"),
        pytest.param(f"a: &x b\nc: *x {SETTER}", "it stands beside an alias", id="behind an alias"),
        pytest.param(f"a: &x b {SETTER}", "it has an anchor or a tag", id="behind an anchored value"),
        pytest.param(f"a: b\n  c {SETTER}", "it goes over several lines", id="behind two lines"),
        pytest.param(
            'a: b # {"$flux-manifests": "production:name"}',
            "it names no digest, tag or version",
            id="another field",
        ),
    ],
)
def test_a_comment_that_cannot_be_followed_is_reported(text: str, reason: str) -> None:
    assert [(kind, said) for kind, _, said in found(text)] == [("left", reason)]
    assert edited(text) == text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"# a: {OLD_DIGEST} {SETTER}", id="commented out"),
        pytest.param(f"a: x # see {SETTER}", id="in a comment"),
        pytest.param(f'a: {OLD_DIGEST} # {{"$flux-manifests": "staging:digest"}}', id="another artifact"),
        pytest.param(f'a: {OLD_DIGEST} # {{"$flux-manifests": "production"}}', id="no field"),
        pytest.param(f'a: {OLD_DIGEST} # {{"$imagepolicy": "flux-manifests:production"}}', id="of image automation"),
    ],
)
def test_what_is_no_setter_comment_of_the_artifact_is_not_mentioned(text: str) -> None:
    assert found(text) == []
    assert edited(text) == text


def test_a_comment_decides_about_a_value_that_would_be_found_without_it() -> None:
    other = '# {"$flux-manifests": "staging:digest"}'
    text = source(f"ref:\n    digest: {OLD_DIGEST} {other}\n    tag: {OLD_TAG}")
    assert found(text) == []
    assert edited(text) == text
    mine = text.replace("staging", "production")
    assert found(mine) == [("edited", "setter comment production:digest", OLD_DIGEST)]
    assert edited(mine) == mine.replace(OLD_DIGEST, DIGEST)
