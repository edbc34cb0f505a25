"""Recovering the options of a components file: all of them, or a reason why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.demo.samples import SAMPLES
from ci_automation.flux.bundle import Bundle
from ci_automation.flux.inventory import difference, images, inventory
from ci_automation.flux.options import COMPONENTS, InvalidOption, Options
from ci_automation.flux.recover import EditedByHand, MadeByAnotherTool, UnreadableComponents, prove, recover
from ci_automation.flux.render import render
from ci_automation.flux.version import Version

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE = SAMPLES[0]
VERSION = Version.parse(SAMPLE.tag)
BUNDLE = Bundle({file.path: file.content.decode() for file in SAMPLE.bundle.files})
EVERYTHING = Options(
    components=COMPONENTS,
    namespace="fleet",
    registry="10.0.0.5:5000/flux",
    image_pull_secret="pull",
    watch_all_namespaces=False,
    network_policy=False,
    log_level="debug",
    cluster_domain="corp.local",
    toleration_keys=("a", "example.com/gpu"),
)


def rendered(options: Options = EVERYTHING) -> str:
    return render(BUNDLE, VERSION, options)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(Options(), id="defaults"),
        pytest.param(EVERYTHING, id="everything"),
        pytest.param(Options(components=("source-controller",)), id="one component, no events address"),
        pytest.param(
            Options(components=("source-controller",), cluster_domain="k8s.example"), id="domain of the storage"
        ),
        pytest.param(
            Options(components=("kustomize-controller", "notification-controller")), id="domain of the events"
        ),
        pytest.param(Options(image_pull_secret="regcred"), id="pull secret"),
        pytest.param(Options(toleration_keys=("CriticalAddonsOnly",)), id="toleration"),
        pytest.param(Options(components=tuple(reversed(COMPONENTS))), id="order of the components"),
    ],
)
def test_options_are_recovered_and_proven(options: Options) -> None:
    text = rendered(options)
    found = recover(text)
    assert (found.version, found.options, found.generated) == (VERSION, options, True)
    prove(text, found, rendered(found.options))


def test_an_option_without_a_trace_has_the_default() -> None:
    text = rendered(Options(components=("kustomize-controller",), cluster_domain="corp.local"))
    assert recover(text).options.cluster_domain == "cluster.local"


def test_a_hand_edit_is_found_and_shown_as_a_diff() -> None:
    text = rendered().replace("replicas: 1", "replicas: 3", 1)
    with pytest.raises(EditedByHand, match=f"edited by hand since Flux {VERSION} made it") as caught:
        prove(text, recover(text), rendered())
    assert "-  replicas: 1\n+  replicas: 3" in caught.value.diff


def without_header(text: str) -> str:
    """Do what kustomize does to a file: the comments at its top are lost, and the order is another."""
    documents = text.split("\n", 4)[4].rstrip("\n").split("\n---\n")
    return "\n---\n".join(sorted(documents)) + "\n"


def test_a_file_that_kustomize_wrote_is_told_apart_from_a_hand_edit() -> None:
    text = without_header(rendered(Options()))
    found = recover(text)
    assert not found.generated
    assert found.options == Options()  # the components in Flux's order, not in that of the file
    with pytest.raises(MadeByAnotherTool, match=r"kustomize.*the same objects"):
        prove(text, found, rendered(found.options))


def test_a_file_without_header_and_with_edits_says_so() -> None:
    text = without_header(rendered(Options())).replace("replicas: 1", "replicas: 3", 1)
    with pytest.raises(MadeByAnotherTool, match="other objects than a rendering"):
        prove(text, recover(text), rendered())


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        pytest.param(lambda _: "", UnreadableComponents, "no version", id="empty"),
        pytest.param(lambda _: "kind: Deployment\n" * 3, UnreadableComponents, "no version", id="no header, no label"),
        pytest.param(
            lambda t: t.replace(f"Version: {VERSION}", "Version: latest"),
            UnreadableComponents,
            "not a version",
            id="no version in the header",
        ),
        pytest.param(
            lambda t: t.replace("kind: Namespace", "kind: Nowhere"),
            UnreadableComponents,
            "no Namespace",
            id="no namespace",
        ),
        pytest.param(
            lambda t: t.replace("image: ", "picture: "), UnreadableComponents, "no controller image", id="no image"
        ),
        pytest.param(
            lambda t: t.replace("--log-level=debug", "--log-level=loud"),
            InvalidOption,
            "loud",
            id="a value that Flux does not have",
        ),
        pytest.param(
            lambda t: t.replace("# Components: source-controller", "# Components: sauce-controller"),
            InvalidOption,
            "sauce",
            id="an unknown component",
        ),
    ],
)
def test_what_says_too_little_is_refused(change: Callable[[str], str], error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        recover(change(rendered()))


def test_inventory_has_controllers_and_crds() -> None:
    found = inventory(rendered(Options(components=("source-watcher",))))
    assert "Deployment/source-watcher" in found
    assert {name.split("/")[0] for name in found} == {"Deployment", "CustomResourceDefinition"}
    assert all("\n" not in name for name in found)


def test_images_are_those_of_the_controllers() -> None:
    found = images(rendered(Options(components=("source-controller", "source-watcher"))))
    assert found == {
        "source-controller": f"ghcr.io/fluxcd/source-controller:{SAMPLE.images['source-controller']}",
        "source-watcher": f"ghcr.io/fluxcd/source-watcher:{SAMPLE.images['source-watcher']}",
    }


def test_a_long_difference_is_cut_and_says_so() -> None:
    old, new = "\n".join(map(str, range(1000))), "\n".join(map(str, range(1000, 2000)))
    lines = difference(old, new, "old", "new").splitlines()
    assert len(lines) == 201
    assert lines[-1].startswith("... and ")
