"""Changes between real releases: a table made from Flux's history and checked by hand, and how long it takes."""

from __future__ import annotations

import random
import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.options import COMPONENTS, Options
from ci_automation.flux.render import render
from ci_automation.flux.version import Version
from ci_automation.impact import parts, plain
from ci_automation.impact.change import ChangeClass, ChangeKind
from ci_automation.impact.compare import COMPONENTS as THE_FILE
from ci_automation.impact.compare import changes, compared
from ci_automation.impact.objects import read_objects
from ci_automation.impact.parts import Text
from ci_automation.impact.plain import read_plain
from ci_automation.impact.reading import read

if TYPE_CHECKING:
    from pathlib import Path

Texts = dict[str, str]
LIMIT = 0.15  # seconds for two releases
C = ChangeClass
EVERY = {C.IMAGE, C.VERSION}


@pytest.fixture(scope="module")
def texts(flux_releases: Path) -> Texts:
    """Return the components files of all releases, each with all components that it has, oldest first."""
    found = {}
    for folder in flux_releases.iterdir():
        if folder.is_dir():
            bundle = ManifestsBundle.from_archive((folder / "manifests.tar.gz").read_bytes())
            components = tuple(name for name in COMPONENTS if name in bundle.components)
            version = Version.parse(folder.name)
            found[version] = render(bundle, version, Options(components=components))
    return {str(version): found[version] for version in sorted(found)}


def minor(version: str) -> int:
    return int(version.split(".")[1])


def pairs(texts: Texts) -> list[tuple[str, str]]:
    """Return all consecutive pairs, and all that skip a minor version."""
    names = list(texts)
    skipping = [(old, new) for at, old in enumerate(names) for new in names[at:] if minor(new) > minor(old) + 1]
    return [*pairwise(names), *skipping]


# What came with which release, by flux2's tags (pkg/manifestgen/install, manifests/) and the controllers' CRDs. The
# images and the version change with each; the classes of a pair are those of all releases after the first.
CAME_WITH: dict[str, set[ChangeClass]] = {
    # GOMAXPROCS and GOMEMLIMIT, the rule for /livez/ping, controller-gen 0.15, HelmRelease v2 and others
    "v2.3.0": {C.ENVIRONMENT, C.RBAC, C.METADATA, C.CRD_VERSION, C.CRD_TIGHTENED, C.CRD_LOOSENED, C.CRD_TEXT},
    # controller-gen 0.16, Bucket v1
    "v2.5.0": {C.METADATA, C.CRD_VERSION, C.CRD_TIGHTENED, C.CRD_LOOSENED, C.CRD_TEXT},
    # the rule for the tokens of service accounts, OCIRepository v1
    "v2.6.0": {C.RBAC, C.CRD_VERSION, C.CRD_TIGHTENED, C.CRD_LOOSENED, C.CRD_TEXT},
    # source-watcher, labels of pods, no GOMAXPROCS, no v1beta1
    "v2.7.0": {
        *(C.ARGUMENTS, C.ENVIRONMENT, C.RBAC, C.NEW_WORKLOAD, C.SERVICE, C.SERVICE_ACCOUNT, C.METADATA, C.OTHER),
        *(C.CRD_ADDED, C.CRD_REMOVAL, C.CRD_VERSION, C.CRD_TIGHTENED, C.CRD_LOOSENED, C.CRD_TEXT),
    },
    "v2.7.2": {C.ARGUMENTS},  # --events-addr and --storage-adv-addr
    "v2.7.4": {C.RBAC},  # flux-edit and flux-view
    "v2.8.0": {C.CRD_REMOVAL, C.CRD_TIGHTENED, C.CRD_LOOSENED, C.CRD_TEXT},
    "v2.8.2": {C.CRD_TEXT},
    "v2.8.5": {C.CRD_TEXT},
    "v2.8.6": {C.CRD_TEXT},
    "v2.9.0": {C.METADATA, C.CRD_REMOVAL, C.CRD_TIGHTENED, C.CRD_LOOSENED, C.CRD_TEXT},  # controller-gen 0.21
    "v2.9.3": {C.METADATA, C.CRD_TEXT},  # an annotation
    "v2.9.4": {C.NETWORK_POLICY_NARROWED, C.CRD_TIGHTENED, C.CRD_TEXT},  # port 9292
}


def test_every_pair_has_the_classes_of_what_came_between(texts: Texts) -> None:
    names = list(texts)
    wrong = {}
    for old, new in pairs(texts):
        between = names[names.index(old) + 1 : names.index(new) + 1]
        expected = EVERY.union(*(CAME_WITH.get(name, set()) for name in between))
        found = {change.belongs_to for change in changes(texts[old], texts[new])}
        if found != expected:
            wrong[f"{old} {new}"] = sorted(found ^ expected)
    assert len(pairs(texts)) == 149
    assert not wrong


CONTROLLERS = ("source", "kustomize", "helm", "image-reflector", "image-automation")
EVENTS = "http://notification-controller.$(RUNTIME_NAMESPACE).svc.cluster.local./"
OLD_EVENTS = "http://notification-controller.flux-system.svc.cluster.local./"
ADDRESS = ".$(RUNTIME_NAMESPACE).svc.cluster.local."
REMOVED_IN_2_9 = (
    "alerts.notification",
    "imagepolicies.image",
    "imagerepositories.image",
    "imageupdateautomations.image",
    "providers.notification",
    "receivers.notification",
)
GENERATOR = "controller-gen.kubebuilder.io/version"
WRITE = "create, delete, deletecollection, patch and update"
CHECKED_BY_HAND = {
    ("v2.7.0", "v2.7.2"): {
        *(
            f"Deployment flux-system/{name} changes argument --events-addr to {EVENTS} (was: {OLD_EVENTS})"
            for name in (*(f"{name}-controller" for name in CONTROLLERS), "source-watcher")
        ),
        ("Deployment flux-system/source-watcher changes argument --storage-adv-addr to "
        f"source-watcher{ADDRESS} (was: source-controller{ADDRESS})"),
    },
    ("v2.7.3", "v2.7.4"): {
        f"ClusterRole flux-edit-flux-system may now {WRITE} * of source.extensions.fluxcd.io",
        "ClusterRole flux-view-flux-system may now get, list and watch * of source.extensions.fluxcd.io",
    },
    ("v2.8.8", "v2.9.0"): {
        f"the components file has annotations {GENERATOR}: v0.21.0 instead of v0.19.0 on 15 objects",
    },
    ("v2.9.0", "v2.9.3"): {
        "the components file has annotations kustomize.toolkit.fluxcd.io/substitute: disabled on 15 objects",
    },
    ("v2.9.3", "v2.9.4"): {
        "NetworkPolicy flux-system/allow-webhooks allows ingress on TCP 9292 only (was: any port)",
    },
}  # fmt: skip
# The same for CRDs: which, and where in it.
CRDS_CHECKED_BY_HAND = {
    ("v2.8.8", "v2.9.0"): {
        *((ChangeKind.VERSION_REMOVED, f"{name}.toolkit.fluxcd.io", "v1beta2") for name in REMOVED_IN_2_9),
        *(
            (ChangeKind.VALIDATION_TIGHTENED, "artifactgenerators.source.extensions.fluxcd.io", f"v1beta1.spec{path}")
            for path in (
                " x-kubernetes-validations",
                ".artifacts[].copy[].from minLength",
                ".artifacts[].copy[].to minLength",
                ".artifacts[].name minLength",
            )
        ),
        (
            ChangeKind.VALIDATION_TIGHTENED,
            "gitrepositories.source.toolkit.fluxcd.io",
            "v1.spec x-kubernetes-validations",
        ),
        (
            ChangeKind.VALIDATION_TIGHTENED,
            "receivers.notification.toolkit.fluxcd.io",
            "v1.spec x-kubernetes-validations",
        ),
    },
    ("v2.9.3", "v2.9.4"): {
        (
            ChangeKind.VALIDATION_TIGHTENED,
            "artifactgenerators.source.extensions.fluxcd.io",
            "v1beta1.spec.artifacts[].copy[].exclude[] maxLength",
        ),
        (
            ChangeKind.VALIDATION_TIGHTENED,
            "artifactgenerators.source.extensions.fluxcd.io",
            "v1beta1.spec.artifacts[].copy[].to pattern",
        ),
        (
            ChangeKind.VALIDATION_TIGHTENED,
            "imageupdateautomations.image.toolkit.fluxcd.io",
            "v1.spec.git.push.refspec pattern",
        ),
    },
}


@pytest.mark.parametrize(("old", "new"), CHECKED_BY_HAND, ids=" ".join)
def test_what_was_checked_by_hand_is_all_that_is_told(old: str, new: str, texts: Texts) -> None:
    found = [change for change in changes(texts[old], texts[new]) if change.belongs_to not in EVERY]
    of_crds = [change for change in found if change.object.kind == "CustomResourceDefinition"]
    assert {change.sentence for change in found if change not in of_crds} == CHECKED_BY_HAND[old, new]
    breaking = {C.CRD_REMOVAL, C.CRD_TIGHTENED, C.CRD_VERSION, C.CRD_DEFAULT}
    places = {(it.kind, it.object.name, it.path) for it in of_crds if it.belongs_to in breaking}
    assert places == CRDS_CHECKED_BY_HAND.get((old, new), set())


def test_one_image_of_each_controller_is_told(texts: Texts) -> None:
    found = [change for change in changes(texts["v2.8.8"], texts["v2.9.0"]) if change.belongs_to is C.IMAGE]
    assert {(change.object.name, change.path.rpartition(".")[2]) for change in found} == {
        *((f"{name}-controller", "image") for name in (*CONTROLLERS, "notification")),
        ("source-watcher", "image"),
    }


def test_a_fingerprint_is_the_same_in_every_step_that_brings_the_change(texts: Texts) -> None:
    def token(old: str) -> set[str]:
        found = changes(texts[old], texts["v2.6.4"])
        return {change.fingerprint for change in found if "serviceaccounts/token" in change.sentence}

    assert len(token("v2.2.3") | token("v2.5.1")) == 1


def test_both_readers_say_the_same_of_a_pair(texts: Texts) -> None:
    for old, new in [*pairwise(texts), *pairs(texts)[::12]]:
        assert changes(texts[old], texts[new]) == compared(texts[old], texts[new], THE_FILE, quick=False), (old, new)


def test_the_quick_reader_reads_all_that_flux_ever_wrote(texts: Texts) -> None:
    for text in texts.values():
        for part in Text.of(text).parts:
            assert [read_plain(part.text)] == read(part.text)


def test_objects_have_their_lines(texts: Texts) -> None:
    text = texts["v2.9.4"]
    lines = text.split("\n")
    assert all(lines[it.line - 1].startswith("apiVersion: ") for it in read_objects(text))
    assert len(read_objects(text)) == 43


def test_no_line_of_a_release_can_be_removed_or_doubled_in_silence(texts: Texts) -> None:
    for part in (part.text for part in Text.of(texts["v2.9.4"]).parts):
        lines = part.split("\n")
        for number, line in enumerate(lines):
            if len(lines) < 200 or number % 40 == 0:
                assert changes(part, "\n".join(lines[:number] + lines[number + 1 :])), line
                assert changes(part, "\n".join([*lines[:number], line, *lines[number:]])), line


def test_no_line_of_a_release_can_be_changed_in_silence(texts: Texts) -> None:
    chance = random.Random(1)  # noqa: S311 - a choice of lines
    text = texts["v2.9.4"]
    lines = text.split("\n")
    for _ in range(40):
        number = chance.randrange(len(lines) - 1)
        edit = chance.choice([" {}", "{}x", "  {}", "{} # x", "{}:", '"{}"'])
        new = "\n".join([*lines[:number], edit.format(lines[number]), *lines[number + 1 :]])
        found = changes(text, new)
        assert found, lines[number]
        assert found == compared(text, new, THE_FILE, quick=False)


def test_the_changes_of_two_releases_take_less_than_a_blink(texts: Texts) -> None:
    """Take the time of the process, the best of several: others may run on the machine."""
    took = {pair: _time(texts, pair, 2) for pair in pairs(texts)}
    for _ in range(25):
        for pair in [pair for pair in took if took[pair] >= LIMIT]:
            took[pair] = min(took[pair], _time(texts, pair, 1))
    median, longest = statistics.median(took.values()), max(took.values())
    worst = next(pair for pair, time_of_it in took.items() if time_of_it == longest)
    print(f"\nchanges: median {median * 1000:.0f} ms, longest {longest * 1000:.0f} ms ({' -> '.join(worst)})")
    assert longest < LIMIT


def _time(texts: Texts, pair: tuple[str, str], often: int) -> float:
    runs = []
    for _ in range(often):
        for known in (parts._cut, parts._part, parts._schema, parts._is_within, plain._line):
            known.cache_clear()
        start = time.process_time()
        changes(*(texts[version] for version in pair))
        runs.append(time.process_time() - start)
    return min(runs)
