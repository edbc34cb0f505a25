"""Recovering the options of a components file: all of them, or a reason why not."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ci_automation.demo.samples import SAMPLES
from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.options import COMPONENTS, InvalidOption, Options
from ci_automation.flux.recover import EditedByHand, MadeByAnotherTool, UnreadableComponents, prove_options, recover
from ci_automation.flux.render import render
from ci_automation.flux.text import controller_images, inventory, unified_diff
from ci_automation.flux.version import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SAMPLE = SAMPLES[0]
VERSION = Version.parse(SAMPLE.tag)
BUNDLE = ManifestsBundle({file.path: file.content.decode() for file in SAMPLE.bundle.files})
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
    prove_options(text, found, rendered(found.options))


def test_an_option_without_a_trace_has_the_default() -> None:
    text = rendered(Options(components=("kustomize-controller",), cluster_domain="corp.local"))
    assert recover(text).options.cluster_domain == "cluster.local"


def test_a_hand_edit_is_found_and_shown_as_a_diff() -> None:
    text = rendered().replace("replicas: 1", "replicas: 3", 1)
    with pytest.raises(EditedByHand, match=f"edited by hand since Flux {VERSION} made it") as caught:
        prove_options(text, recover(text), rendered())
    assert "-  replicas: 1\n+  replicas: 3" in caught.value.diff


@pytest.mark.parametrize("kind", ["kind: Secret", '"kind": "Secret"', "kind: !!str Secret"])
def test_a_secret_that_was_added_by_hand_is_not_shown(kind: str) -> None:
    text = f"{rendered()}---\n# kind: Secret is below\napiVersion: v1\n{kind}\nstringData:\n  a: canary-one\n"
    with pytest.raises(EditedByHand) as caught:
        prove_options(text, recover(text), rendered())
    assert "canary" not in str(caught.value)
    assert "+# a document with `kind: Secret`, not shown" in caught.value.diff


def test_the_word_alone_hides_no_edit() -> None:
    text = rendered().replace("replicas: 1", "replicas: 3  # kind: Secret", 1)
    with pytest.raises(EditedByHand) as caught:
        prove_options(text, recover(text), rendered())
    assert "-  replicas: 1\n+  replicas: 3  # kind: Secret" in caught.value.diff


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
        prove_options(text, found, rendered(found.options))


def test_a_file_without_header_and_with_edits_says_so() -> None:
    text = without_header(rendered(Options())).replace("replicas: 1", "replicas: 3", 1)
    with pytest.raises(MadeByAnotherTool, match="other objects than a rendering"):
        prove_options(text, recover(text), rendered())


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        pytest.param(lambda _: "", UnreadableComponents, "components file cannot be read: it is empty", id="empty"),
        pytest.param(lambda _: "---\n\n", UnreadableComponents, "it is empty", id="a separator alone"),
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
        pytest.param(
            lambda t: t + "#" * (4 << 20), UnreadableComponents, "more than 4194304 characters", id="far too long"
        ),
        pytest.param(
            lambda t: t.replace("# Components: ", f"# Components: {'x' * 1000}").replace("app.kubernetes.io", "a"),
            UnreadableComponents,
            "no version",
            id="a header without end",
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
    found = controller_images(rendered(Options(components=("source-controller", "source-watcher"))))
    assert found == {
        "source-controller": f"ghcr.io/fluxcd/source-controller:{SAMPLE.images['source-controller']}",
        "source-watcher": f"ghcr.io/fluxcd/source-watcher:{SAMPLE.images['source-watcher']}",
    }


def test_a_long_difference_is_cut_and_says_so() -> None:
    old, new = "\n".join(map(str, range(1000))), "\n".join(map(str, range(1000, 2000)))
    lines = unified_diff(old, new, "old", "new").splitlines()
    assert len(lines) == 201
    assert lines[-1].startswith("... and ")


@contextmanager
def seconds(limit: float) -> Iterator[None]:
    """Stop what takes more of the processor's time than this."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class TestHostile:
    """A components file of anybody's making: whatever it is, it takes seconds; a square of its length takes hours."""

    @pytest.mark.parametrize(
        "lines",
        [
            pytest.param("kind: Namespace\n", id="namespaces without name"),
            pytest.param("metadata:\n", id="metadata"),
            pytest.param("metadata:\n  x\n", id="metadata without name"),
            pytest.param("  x\n", id="lines of metadata"),
            pytest.param(" tolerations:\n", id="tolerations"),
            pytest.param(" - key: a\n operator: Exists\n", id="keys"),
            pytest.param(" imagePullSecrets:\n", id="pull secrets"),
            pytest.param("# Components: ", id="comments"),
            pytest.param("---\n", id="documents"),
            pytest.param(" ", id="blanks"),
            pytest.param(f"{' ' * 200}\n", id="lines of blanks"),
        ],
    )
    @pytest.mark.parametrize("head", ["kind: Deployment\nmetadata:\n", "kind: Namespace\n tolerations:\n"])
    def test_lines_take_no_square_of_their_number(self, head: str, lines: str) -> None:
        text = rendered().replace("kind: Namespace", "kind: Nowhere") + f"---\napiVersion: v1\n{head}"
        text += lines * ((3 << 20) // len(lines))
        with seconds(20):
            inventory(text)
            controller_images(text)
            with pytest.raises(UnreadableComponents, match="no Namespace"):
                recover(text)

    @pytest.mark.parametrize(
        ("start", "again"),
        [
            ("    - --events-addr=http://notification-controller", ".a.svc"),
            ("    - --events-addr=http://notification-controller.a.svc", ".a."),
            ("    - --storage-adv-addr=a.b", ".svc"),
            ("    - --storage-adv-addr=", "a-"),
            ("    image: a", "/a"),
            ("    image: a", "/a:"),
            ("    image: a/a", ":a"),
            ("    image: a/", "-"),
            ("    - --log-level=", "a"),
            ('    app.kubernetes.io/version: "v', "1"),
            ("    imagePullSecrets:\n    - name: ", "a"),
            ("metadata:\n  name: ", "a"),
        ],
    )
    def test_a_line_takes_no_square_of_its_length(self, start: str, again: str) -> None:
        last = f"---\napiVersion: apps/v1\nkind: Deployment\n{start}{again * ((3 << 20) // len(again))} \n"
        plain = rendered().replace("--events-addr=", "--x=").replace("--storage-adv-addr=", "--y=")
        with seconds(20):
            assert recover(plain + last).options.cluster_domain == "cluster.local"
            assert len(controller_images(plain + last)) == len(COMPONENTS)

    def test_a_difference_takes_no_square_of_the_lines(self) -> None:
        """Lines that are often in both, never two of them together in both: nothing is long, everything matches."""
        words = [f"{number:x}" for number in range(200)]
        old = "".join(f"{word}\na{n}\n" for n in range(40) for word in words)
        new = "".join(f"{word}\nb{n}\n" for n in range(1000) for word in reversed(words))
        with seconds(20):
            lines = unified_diff(old, new, "old", "new").splitlines()
        assert len(lines) == 201

    def test_a_difference_of_endless_lines_is_cut(self) -> None:
        assert len(unified_diff("a" * 1000, "b" * 1000, "old", "new")) < 600
        cut = unified_diff("a" * 240, "b" * 239, "old", "new").splitlines()[-2:]
        assert cut == [f"-{'a' * 238}…", f"+{'b' * 239}"]


def test_edits_far_apart_are_both_in_the_difference() -> None:
    old = [f"line {number // 3}" for number in range(20_000)]
    new = ["first", *old[1:-1], "last"]
    assert unified_diff("\n".join(old), "\n".join(new), "old", "new").splitlines() == [
        *("--- old", "+++ new", "@@ -1,3 +1,3 @@", "-line 0", "+first", " line 0", " line 0"),
        *("@@ -19998,3 +19998,3 @@", " line 6665", " line 6666", "-line 6666", "+last"),
    ]
