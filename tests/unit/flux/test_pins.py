"""Digests behind images: put there and taken away again, to the byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.reference import Digest
from ci_automation.demo.samples import SAMPLES, Sample
from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.options import COMPONENTS, Options
from ci_automation.flux.recover import recover
from ci_automation.flux.render import render
from ci_automation.flux.text import controller_images, image_names, pin, unpin
from ci_automation.flux.version import Version


def rendered(sample: Sample, options: Options) -> str:
    return render(ManifestsBundle.of(sample.bundle), Version.parse(sample.tag), options)


RENDERED = rendered(SAMPLES[-1], Options(registry="localhost:5000/acme/fluxcd"))
ONE, TWO = Digest.of(b"one"), Digest.of(b"two")


def digests(text: str) -> dict[str, Digest]:
    return {name: Digest.of(name.encode()) for name in image_names(text)}


def deployment(*images_: str) -> str:
    lines = "".join(f"      - image: {image}\n        name: manager\n" for image in images_)
    return f"apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n{lines}"


A, B = "example.com:5000/fluxcd/a:v1", "example.com:5000/fluxcd/b:v1"


class TestPin:
    def test_each_controller_gets_its_digest_and_nothing_else_changes(self) -> None:
        known = digests(RENDERED)
        pinned = pin(RENDERED, known)
        assert image_names(pinned) == tuple(f"{name}@{known[name]}" for name in image_names(RENDERED))
        old, new = RENDERED.split("\n"), pinned.split("\n")
        changed = [(before, after) for before, after in zip(old, new, strict=True) if before != after]
        assert len(changed) == 4
        assert all(after == f"{before}@{known[before.partition('image: ')[2]]}" for before, after in changed)

    def test_what_has_no_digest_stays(self) -> None:
        assert pin(RENDERED, {}) == RENDERED
        assert pin(deployment(A, B), {A: ONE}) == deployment(f"{A}@{ONE}", B)

    def test_what_is_pinned_stays_pinned_as_it_is(self) -> None:
        assert pin(deployment(f"{A}@{ONE}"), {A: TWO}) == deployment(f"{A}@{ONE}")

    def test_only_deployments_have_images(self) -> None:
        other = f"kind: ConfigMap\ndata:\n  image: {A}\n"
        text = f"{other}---\n{deployment(A)}---\n{other}"
        pinned = pin(text, {A: ONE})
        assert pinned == f"{other}---\n{deployment(f'{A}@{ONE}')}---\n{other}"
        assert unpin(pinned) == (text, {A: ONE})
        assert image_names(f"{other}---\nx: y\n") == ()

    def test_an_image_may_be_a_key_of_its_own(self) -> None:
        text = f"a: b\nkind: Deployment\n        image: {A}\n"
        assert pin(text, {A: ONE}) == f"a: b\nkind: Deployment\n        image: {A}@{ONE}\n"


class TestUnpin:
    def test_it_gives_back_the_text_and_the_digests(self) -> None:
        known = digests(RENDERED)
        assert unpin(pin(RENDERED, known)) == (RENDERED, known)

    def test_a_text_without_pins_is_itself(self) -> None:
        assert unpin(RENDERED) == (RENDERED, {})
        assert unpin("") == ("", {})

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param(deployment(f"{A}@{ONE}", B), id="one of two is pinned"),
            pytest.param(deployment(f"{A}@{ONE}", f"{A}@{TWO}"), id="one is pinned to two"),
            pytest.param(deployment(f"{A}@sha256:{'A' * 64}"), id="upper case"),
            pytest.param(deployment(f"{A}@sha512:{'0' * 128}"), id="another algorithm"),
            pytest.param(deployment(f"{A}@{ONE}@{ONE}"), id="twice"),
            pytest.param(deployment(f"{A}@{ONE} # why not"), id="with a comment"),
        ],
    )
    def test_what_no_pin_gives_is_an_edit_and_stays(self, text: str) -> None:
        assert unpin(text) == (text, {})

    def test_two_of_the_same_are_pinned_together(self) -> None:
        text = deployment(A, A)
        assert unpin(pin(text, {A: ONE})) == (text, {A: ONE})

    def test_the_options_are_recovered_from_it(self) -> None:
        pinned = pin(RENDERED, digests(RENDERED))
        assert recover(unpin(pinned)[0]) == recover(RENDERED)
        assert recover(pinned).options.registry == "localhost:5000/acme/fluxcd"


NAMES = st.from_regex(r"[a-z]{1,5}(\.[a-z]{2,3})?(:[0-9]{2,4})?(/[a-z]{1,4}){0,2}(:v[0-9.]{1,5})?", fullmatch=True)
LINES = st.one_of(
    st.sampled_from(
        ["---", "kind: Deployment", "kind: Service", "apiVersion: v1", "", "  - image:", "        image: "]
    ),
    NAMES.map(lambda name: f"        image: {name}"),
    NAMES.map(lambda name: f"      - image: {name}"),
    st.builds("      - image: {}@{}".format, NAMES, st.sampled_from([ONE, TWO])),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20),
)


@given(st.lists(LINES, max_size=30).map("\n".join))
def test_any_text_is_what_its_plain_text_and_its_pins_give(text: str) -> None:
    plain, found = unpin(text)
    assert pin(plain, found) == text


@given(st.lists(LINES, max_size=30).map("\n".join))
def test_any_text_that_can_be_pinned_is_given_back(text: str) -> None:
    plain, _ = unpin(text)
    known = {name: Digest.of(name.encode()) for name in image_names(plain)}
    if not any("@" in name for name in known):
        assert unpin(pin(plain, known)) == (plain, known)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.tag)
def test_every_component_is_pinned(sample: Sample) -> None:
    components = tuple(name for name in COMPONENTS if f"{name}.yaml" in sample.bundle.by_path)
    text = rendered(sample, Options(components=components))
    pinned = controller_images(pin(text, digests(text)))
    assert sorted(pinned) == sorted(components)
    assert all("@sha256:" in image for image in pinned.values())
