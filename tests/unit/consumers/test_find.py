from __future__ import annotations

import pytest

from ci_automation.consumers.edit import edit
from tests.unit.consumers.subjects import DIGEST, NEW, OLD_DIGEST, OLD_TAG, TAG, URL, edited, found, source


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        pytest.param(f"ref: {{digest: {OLD_DIGEST}}}", f"ref: {{digest: {DIGEST}}}", id="a digest"),
        pytest.param(f"ref: {{tag: {OLD_TAG}}}", f"ref: {{tag: {TAG}}}", id="an immutable tag"),
        pytest.param(
            f"ref:\n    digest: {OLD_DIGEST}\n    tag: {OLD_TAG}",
            f"ref:\n    digest: {DIGEST}\n    tag: {TAG}",
            id="both, where the tag is immutable",
        ),
        pytest.param(
            f"ref: {{digest: {OLD_DIGEST}, tag: production}}",
            f"ref: {{digest: {DIGEST}, tag: production}}",
            id="the digest alone, where the tag is the channel",
        ),
        pytest.param(
            f'ref: {{digest: {OLD_DIGEST}, semver: "2.x"}}',
            f'ref: {{digest: {DIGEST}, semver: "2.x"}}',
            id="the digest, which outweighs the range",
        ),
        pytest.param(f"ref: {{'tag': '{OLD_TAG}'}}", f"ref: {{'tag': '{TAG}'}}", id="single quotes stay"),
        pytest.param(f'ref: {{"tag":"{OLD_TAG}"}}', f'ref: {{"tag":"{TAG}"}}', id="double quotes stay"),
        pytest.param(
            'ref: {"tag":"\\x76' + OLD_TAG[1:] + '"}', f'ref: {{"tag":"{TAG}"}}', id="an escape in the old value goes"
        ),
        pytest.param(
            f"ref: &mine {{digest: {OLD_DIGEST}}}", f"ref: &mine {{digest: {DIGEST}}}", id="an anchor that nobody uses"
        ),
    ],
)
def test_what_is_pinned_is_set(ref: str, expected: str) -> None:
    assert edited(source(ref)) == source(expected)


@pytest.mark.parametrize(
    ("ref", "kind", "place", "said"),
    [
        pytest.param(
            "ref: {tag: production}", "follows", "spec.ref.tag", "production", id="the channel moves by itself"
        ),
        pytest.param("ref: {semver: '>=2.0.0'}", "semver", "spec.ref.semver", ">=2.0.0", id="a range is left alone"),
        pytest.param(
            f"ref: {{semver: 2.x, tag: {OLD_TAG}}}", "semver", "spec.ref.semver", "2.x", id="a range outweighs a tag"
        ),
        pytest.param("ref: {tag: staging}", "other", "spec.ref.tag", "staging", id="another channel"),
        pytest.param("ref: {}", "other", "spec.ref.tag", "latest", id="an empty reference is the tag latest"),
        pytest.param("suspend: false", "other", "spec.tag", "latest", id="no reference is the tag latest"),
        pytest.param("ref:", "other", "spec.tag", "latest", id="a reference without a value"),
        pytest.param(
            f"ref: {{digest: {OLD_DIGEST}, tag: staging}}",
            "other",
            "spec.ref.tag",
            "staging",
            id="pinned in another one",
        ),
        pytest.param(f"ref: {{digest: '', tag: {TAG}}}", "current", "spec.ref.tag", TAG, id="an empty digest is none"),
        pytest.param(f"ref: {{digest: {DIGEST}}}", "current", "spec.ref.digest", DIGEST, id="current already"),
        pytest.param(
            "ref: {digest: '${flux_digest}'}", "left", "spec.ref.digest", "it is not a digest", id="a placeholder"
        ),
        pytest.param(
            f"ref: {{digest: {OLD_DIGEST}, digest: {OLD_DIGEST}}}",
            "left",
            "spec.ref",
            "a key is there twice",
            id="a key twice",
        ),
        pytest.param(
            "ref: {digest: {{ .Values.digest }}}",
            "left",
            "spec.ref",
            "one of digest, semver and tag is not a text",
            id="a template that YAML takes for a mapping",
        ),
        pytest.param(
            f"ref: {{digest: &pin {OLD_DIGEST}}}",
            "left",
            "spec.ref.digest",
            "it has an anchor or a tag",
            id="an anchor",
        ),
        pytest.param(
            f"ref: {{digest: !!str {OLD_DIGEST}}}", "left", "spec.ref.digest", "it has an anchor or a tag", id="a tag"
        ),
        pytest.param(
            f"ref:\n    digest: >-\n      {OLD_DIGEST}",
            "left",
            "spec.ref.digest",
            "it is a block of text",
            id="a block",
        ),
        pytest.param(
            f'ref: {{digest: "sha256:\\\n  {"a" * 64}"}}',
            "left",
            "spec.ref.digest",
            "it goes over several lines",
            id="two lines",
        ),
        pytest.param(
            f"x: &pin {OLD_DIGEST}\n  ref: {{digest: *pin}}", "left", "spec.ref.digest", "it is an alias", id="an alias"
        ),
        pytest.param(
            f"x: &pin {DIGEST}\n  ref: {{digest: *pin}}", "current", "spec.ref.digest", DIGEST, id="an alias, current"
        ),
        pytest.param(
            f"ref: &ref {{digest: {OLD_DIGEST}}}\n  again: *ref",
            "left",
            "spec.ref.digest",
            "an alias stands for it too",
            id="inside of what an alias stands for",
        ),
        pytest.param(
            f"x: &ref {{digest: {OLD_DIGEST}}}\n  ref: *ref",
            "left",
            "spec.ref.digest",
            "an alias stands for it too",
            id="reached by an alias",
        ),
        pytest.param(
            f"x: &x {{digest: {OLD_DIGEST}}}\n  ref: {{<<: *x, tag: a}}",
            "left",
            "spec.ref",
            "a part of it is merged into it by <<",
            id="merged",
        ),
        pytest.param(
            f"x: &x {{ref: {{digest: {OLD_DIGEST}}}}}\n  <<: *x",
            "left",
            "",
            "what it refers to is merged into it by <<",
            id="merged as a whole",
        ),
        pytest.param(
            f"ref:\n    digest: {OLD_DIGEST}\n    tag: &t {OLD_TAG}",
            "left",
            "spec.ref.tag",
            "it has an anchor or a tag",
            id="both or none",
        ),
    ],
)
def test_what_is_reported_and_not_edited(ref: str, kind: str, place: str, said: str) -> None:
    text = source(ref)
    assert found(text) == [(kind, f"OCIRepository flux-system/flux {place}".strip(), said)]
    assert edited(text) == text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(source(f"ref: {{digest: {OLD_DIGEST}}}", url=f"{URL}-too"), id="another repository"),
        pytest.param(source(f"ref: {{digest: {OLD_DIGEST}}}", url=f"{URL}:production"), id="no address Flux takes"),
        pytest.param(source(f"ref: {{digest: {OLD_DIGEST}}}", url=f"{URL}/{URL}"), id="no address at all"),
        pytest.param(source(f"ref: {{digest: {OLD_DIGEST}}}", url=f"layout:/{URL[6:]}"), id="a directory"),
        pytest.param(source(f"ref: {{digest: {OLD_DIGEST}}}", url=URL[6:]), id="without oci://"),
        pytest.param(
            source(f"ref: {{digest: {OLD_DIGEST}}}").replace("source.toolkit", "sauce.toolkit"), id="another group"
        ),
        pytest.param(source(f"ref: {{digest: {OLD_DIGEST}}}").replace("OCIR", "OCR"), id="another kind"),
        pytest.param(f"kind: OCIRepository\nspec: {URL}\n", id="no object"),
        pytest.param(f"- {URL}\n- {OLD_DIGEST}\n", id="no mapping"),
        pytest.param(f"? {{{source('x: y').splitlines()[0]}}}\n: {URL}\n", id="in a key"),
        pytest.param(f"# {URL}\n", id="nothing but a comment"),
    ],
)
def test_what_does_not_name_the_artifact_is_not_mentioned(text: str) -> None:
    assert edit(text.encode(), NEW) == edit(text.encode(), NEW).__class__(text.encode())


@pytest.mark.parametrize("version", ["v1beta2", "v1", "v2"])
def test_any_version_of_the_object_and_any_case_of_the_host(version: str) -> None:
    text = source(f"ref: {{digest: {OLD_DIGEST}}}", version=version, url="oci://GHCR.io/acme/flux-manifests")
    assert edited(text) == text.replace(OLD_DIGEST, DIGEST)


def test_wherever_it_stands() -> None:
    one = source(f"ref: {{digest: {OLD_DIGEST}}}")
    item = "".join(f"    {line}\n" for line in one.splitlines())
    text = f"""\
kind: List
items:
  -
{item}---
apiVersion: fluxcd.controlplane.io/v1
kind: ResourceSet
metadata: {{name: fleet}}
spec:
  resources:
  -
{item}---
{source(f"ref: {{digest: {OLD_DIGEST}}}").replace("  namespace: flux-system", "")}"""
    assert edited(text) == text.replace(OLD_DIGEST, DIGEST)
    assert [what for _, what, _ in found(text)] == [
        "OCIRepository flux-system/flux spec.ref.digest",
        "OCIRepository flux-system/flux spec.ref.digest",
        "OCIRepository flux spec.ref.digest",
    ]


def test_an_object_without_a_name_is_found_too() -> None:
    text = source(f"ref: {{digest: {OLD_DIGEST}}}").replace("metadata:\n  name: flux\n  namespace: flux-system\n", "")
    assert found(text) == [("edited", "OCIRepository spec.ref.digest", OLD_DIGEST)]


def inputs(text: str) -> str:
    """Return a ResourceSet with these inputs."""
    head = "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: fleet}\n"
    return f"{head}spec:\n  inputs: {text}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(f"[{{url: '{URL}', digest: {OLD_DIGEST}}}]", f"[{{url: '{URL}', digest: {DIGEST}}}]", id="url"),
        pytest.param(
            f"[{{repository: {URL[6:]}, tag: {OLD_TAG}}}]", f"[{{repository: {URL[6:]}, tag: {TAG}}}]", id="repository"
        ),
        pytest.param(
            f"\n  - tenant: a\n    flux:\n      url: {URL}\n      ref:\n        digest: '{OLD_DIGEST}'",
            f"\n  - tenant: a\n    flux:\n      url: {URL}\n      ref:\n        digest: '{DIGEST}'",
            id="nested, as in an OCIRepository",
        ),
        pytest.param(
            f"[{{url: '{URL}'}}, {{digest: {OLD_DIGEST}}}]",
            f"[{{url: '{URL}'}}, {{digest: {OLD_DIGEST}}}]",
            id="beside",
        ),
        pytest.param(
            f"[{{oci: '{URL}', digest: {OLD_DIGEST}}}]",
            f"[{{oci: '{URL}', digest: {OLD_DIGEST}}}]",
            id="under a key that says nothing",
        ),
        pytest.param(
            f"[{{url: '{URL}', app: {{digest: {OLD_DIGEST}}}}}]",
            f"[{{url: '{URL}', app: {{digest: {OLD_DIGEST}}}}}]",
            id="the address is not in the same mapping",
        ),
        pytest.param("", "", id="none"),
    ],
)
def test_inputs_of_a_resource_set(before: str, after: str) -> None:
    assert edited(inputs(before)) == inputs(after)


def test_inputs_that_need_no_edit_are_reported() -> None:
    text = inputs(f"[{{url: '{URL}', tag: production}}, {{url: '{URL}', semver: 2.x}}, {{url: '{URL}', ref: x}}]")
    assert found(text) == [
        ("follows", "ResourceSet fleet spec.inputs.tag", "production"),
        ("semver", "ResourceSet fleet spec.inputs.semver", "2.x"),
    ]


def test_a_mapping_that_is_input_and_object_is_edited_once() -> None:
    item = "".join(f"    {line}\n" for line in source(f"ref: {{digest: {OLD_DIGEST}}}").splitlines())
    text = inputs(f"\n  -\n{item}")
    assert edited(text) == text.replace(OLD_DIGEST, DIGEST)


_SET = "{{kind: ResourceSet, apiVersion: fluxcd.controlplane.io/v1, spec: {{inputs: {}}}}}"


def test_what_many_resource_sets_share_is_found_once() -> None:
    """Or a file of a megabyte would have hundreds of millions of places."""
    place = f"{{repository: {URL.removeprefix('oci://')}, digest: latest}}"
    text = f"[{_SET.format(f'&i [{place}]')}, {', '.join([_SET.format('*i')] * 20)}]"
    assert [kind for kind, _, _ in found(text)] == ["left"]


def test_what_is_in_one_resource_set_in_another_is_found_once() -> None:
    """Or a file of a megabyte would have as many places as it has levels, times all that they hold."""
    place = f"{{repository: {URL.removeprefix('oci://')}, digest: {OLD_DIGEST}}}"
    text = place
    for _ in range(20):
        text = _SET.format(f"[{text}]")
    assert [kind for kind, _, _ in found(text)] == ["edited"]
    assert edited(text) == text.replace(OLD_DIGEST, DIGEST)
