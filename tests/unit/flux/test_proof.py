"""What upstream's own rendering proves of ours, and what is said where it proves nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.demo.samples import SAMPLES
from ci_automation.flux.bundle import ComponentMissing, ManifestsBundle
from ci_automation.flux.options import COMPONENTS, DEFAULT_COMPONENTS, InvalidOption, Options
from ci_automation.flux.proof import NotCalibrated, calibrate, differing_document, unexercised
from ci_automation.flux.recover import UnreadableComponents
from ci_automation.flux.render import render
from ci_automation.flux.text import TemplateMismatch
from ci_automation.flux.version import Version

if TYPE_CHECKING:
    from collections.abc import Callable

BUNDLE = ManifestsBundle.of(SAMPLES[0].bundle)
VERSION = Version.parse(SAMPLES[0].tag)
SIX = COMPONENTS[:6]
UPSTREAMS = render(BUNDLE, VERSION, Options(components=SIX))


@pytest.mark.parametrize(
    "components",
    [
        pytest.param(SIX, id="upstream's own list"),
        pytest.param(DEFAULT_COMPONENTS, id="Flux's default"),
        pytest.param(("notification-controller",), id="notification-controller alone"),
        pytest.param(("notification-controller", "image-reflector-controller"), id="some, in another order"),
    ],
)
def test_what_upstreams_rendering_exercises_is_proven(components: tuple[str, ...]) -> None:
    calibrate(UPSTREAMS, BUNDLE, VERSION, Options(components=components))


FLAGS: dict[str, Any] = {
    "namespace": "gitops",
    "registry": "registry.example/fluxcd",
    "image-pull-secret": "regcred",
    "watch-all-namespaces": False,
    "network-policy": False,
    "log-level": "debug",
    "cluster-domain": "corp.local",
    "toleration-keys": ["a"],
}


def test_the_table_of_flags_is_complete() -> None:
    assert FLAGS.keys() == Options().flags().keys() - {"components"}


@pytest.mark.parametrize("flag", FLAGS)
def test_no_other_flag_is_proven(flag: str) -> None:
    options = Options().with_flags({flag: FLAGS[flag]})
    assert unexercised(options) == (f"--{flag}",)
    with pytest.raises(NotCalibrated, match=f"does not show --{flag}$"):
        calibrate(UPSTREAMS, BUNDLE, VERSION, options)


@pytest.mark.parametrize(
    ("components", "lacking"),
    [
        pytest.param(("source-controller",), "components without notification-controller", id="no events"),
        pytest.param((*DEFAULT_COMPONENTS, "source-watcher"), "source-watcher", id="one that upstream did not render"),
    ],
)
def test_no_other_components_are_proven(components: tuple[str, ...], lacking: str) -> None:
    with pytest.raises(NotCalibrated, match=f"does not show {lacking}$"):
        calibrate(UPSTREAMS, BUNDLE, VERSION, Options(components=components))


def test_before_upstreams_list_is_read_any_component_may_be_in_it() -> None:
    assert unexercised(Options(components=COMPONENTS)) == ()
    assert unexercised(Options(components=COMPONENTS), SIX) == ("source-watcher",)


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        pytest.param(
            lambda t: t.replace("--watch-all-namespaces=true", "--watch-all-namespaces", 1),
            NotCalibrated,
            "in Deployment/source-controller, ours has '- --watch-all-namespaces=true' and upstream's has "
            "'- --watch-all-namespaces'",
            id="an argument that changed",
        ),
        pytest.param(
            lambda t: t.replace(f"Version: {VERSION}", "Version: v2.99.3"),
            NotCalibrated,
            "states the version v2.99.3",
            id="of another version",
        ),
        pytest.param(lambda t: t + "\n", NotCalibrated, "more empty lines", id="a line at its end"),
        pytest.param(lambda _: "", UnreadableComponents, "it is empty", id="nothing"),
        pytest.param(
            lambda t: t.replace("Components: source-controller", "Components: new-controller"),
            InvalidOption,
            "new-controller",
            id="a component that we do not know",
        ),
    ],
)
def test_anything_else_proves_nothing(change: Callable[[str], str], error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=re.escape(reason)):
        calibrate(change(UPSTREAMS), BUNDLE, VERSION, Options())


def edited(name: str, old: str, new: str) -> ManifestsBundle:
    assert old in BUNDLE.files[name]
    return ManifestsBundle({**BUNDLE.files, name: BUNDLE.files[name].replace(old, new, 1)})


def test_the_argument_that_a_template_lost_is_named() -> None:
    other = edited("helm-controller.yaml", "        - --log-encoding=json\n", "        - --log-encoding=text\n")
    with pytest.raises(NotCalibrated, match=r"in Deployment/helm-controller, ours has '- --log-encoding=text' and"):
        calibrate(UPSTREAMS, other, VERSION, Options())


def test_a_bundle_that_we_cannot_render_is_not_calibrated() -> None:
    broken = edited("source-controller.yaml", "        - --log-level=", "        - --verbosity=")
    with pytest.raises(TemplateMismatch):
        calibrate(UPSTREAMS, broken, VERSION, Options())
    files = {name: text for name, text in BUNDLE.files.items() if name != "image-reflector-controller.yaml"}
    with pytest.raises(ComponentMissing):
        calibrate(UPSTREAMS, ManifestsBundle(files), VERSION, Options())


A, B = "kind: A\nmetadata:\n  name: a\nspec: 1", "kind: B\nmetadata:\n  labels:\n    x: y\n  name: b\nspec: 1"


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        pytest.param(
            [A, B], [A, B.replace("1", "2")], "in B/b, ours has 'spec: 1' and upstream's has 'spec: 2'", id="a line"
        ),
        pytest.param(
            [A], [A + "\nmore: 1"], "in A/a, ours has no more lines and upstream's has 'more: 1'", id="longer"
        ),
        pytest.param(
            [A + "\nmore: 1"], [A], "in A/a, ours has 'more: 1' and upstream's has no more lines", id="shorter"
        ),
        pytest.param([A, B], [A], "B/b is only in ours", id="a document more"),
        pytest.param([A], [A, B], "B/b is only in upstream's", id="a document less"),
        pytest.param([B], [A], "where ours has B/b, upstream's has A/a", id="another document"),
        pytest.param(
            [A], ["nothing"], "where ours has A/a, upstream's has a document without kind and name", id="no object"
        ),
        pytest.param([A + "\nx: " + "y" * 500], [A], f"in A/a, ours has 'x: {'y' * 157}' and", id="a long line is cut"),
    ],
)
def test_the_first_difference_is_said_in_a_sentence(ours: list[str], theirs: list[str], said: str) -> None:
    assert differing_document("\n---\n".join(ours) + "\n", "\n---\n".join(theirs) + "\n").startswith(said)


def test_what_could_control_a_terminal_is_shown_as_an_escape() -> None:
    assert "\x1b" not in differing_document(A + "\n", A.replace("1", "\x1b[2J") + "\n")
