"""The checks as a family: every one is found, says what it looked at, and takes both sides and what is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.errors import RegistryError
from ci_automation.flux.version import Version
from ci_automation.impact import checks
from ci_automation.impact.assess import Impact, assess, compare_files
from ci_automation.impact.change import Certainty, Hazard
from ci_automation.impact.check import Applied, Check, Clusters, Known, KubernetesRange, Seen
from ci_automation.impact.checks import all_checks, compatibility, images, overlay
from ci_automation.impact.overlay.builder import BuildFailed
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.report.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ci_automation.impact.overlay.builder import Build, KustomizeUnusable

MIRROR = "mirror.example/fluxcd"
REACHED = (f"check the name {MIRROR}, and that this machine can reach and read it",)
PATH = "flux-system/gotk-components.yaml"
HERE = Path(checks.__file__).parent
GATES = (Path(__file__).parents[3] / "docs" / "reference" / "gates.md").read_text()
ORDER = ("crds", "overlay", "compatibility", "images")


def deployment(*names: str) -> str:
    """Return a components file with the images of these names and tags."""
    lines = "".join(f"      - image: {MIRROR}/{name}\n" for name in names)
    return f"---\nkind: Deployment\nspec:\n{lines}"


class Registry:
    """What a mirror answers; a name that it does not know is not there."""

    def __init__(self, answers: Mapping[str, Digest | RegistryError]) -> None:
        self._answers = answers

    def digest(self, image: str) -> Digest | None:
        answer = self._answers.get(image.removeprefix(f"{MIRROR}/"))
        if isinstance(answer, RegistryError):
            raise answer
        return answer


def test_every_module_of_the_folder_is_a_check() -> None:
    modules = {path.stem for path in HERE.glob("[!_]*.py")}
    assert {check.look.__module__.rpartition(".")[2] for check in all_checks()} == modules


def test_they_run_in_the_order_in_which_people_read_them() -> None:
    all_checks.cache_clear()
    assert tuple(check.gate for check in all_checks()) == ORDER


@pytest.mark.parametrize("gate", ORDER)
def test_each_has_a_row_in_the_docs(gate: str) -> None:
    assert f"\n| `{gate}` |" in GATES


@pytest.mark.parametrize(
    ("known", "registry", "cleared"),
    [
        pytest.param(
            Known(),
            "ghcr.io/fluxcd",
            [
                ("no version goes away that clusters may need", "0 snapshots, 0 files of manifests, the overlay"),
                ("the overlay builds, and hits what it hit", "no kustomize, and nothing that needs it"),
                ("nothing stands against it", "clusters.kubernetes: not stated"),
                ("they are Flux's own", "the images in ghcr.io/fluxcd"),
            ],
            id="nothing is known",
        ),
        pytest.param(
            Known(Clusters(KubernetesRange(34, 35)), kustomize=object()),  # type: ignore[arg-type]
            MIRROR,
            [
                ("no version goes away that clusters may need", "0 snapshots, 0 files of manifests, the overlay"),
                ("the overlay builds, and hits what it hit", "kustomize"),
                ("nothing stands against it", "clusters.kubernetes: 1.34-1.35"),
                ("every image is there", f"the images in {MIRROR}"),
            ],
            id="clusters, a builder and a mirror are known",
        ),
    ],
)
def test_each_says_what_it_looked_at(known: Known, registry: str, cleared: list[tuple[str, str]]) -> None:
    after = Applied("", registry=registry)
    assert [check.clear(after, known) for check in all_checks()] == cleared


@pytest.mark.parametrize(
    ("registry", "text", "answers", "found"),
    [
        pytest.param("ghcr.io/fluxcd", deployment("a:v1"), {}, [], id="Flux's own registry is not asked"),
        pytest.param(MIRROR, deployment("a:v1"), None, [], id="no registry can be asked"),
        pytest.param(MIRROR, deployment("a:v1"), {"a:v1": Digest.of(b"")}, [], id="the mirror has it"),
        pytest.param(
            MIRROR,
            deployment("a:v1"),
            {},
            [
                (
                    Certainty.CERTAIN,
                    f"{MIRROR}/a:v1 is not there: clusters would meet ImagePullBackOff",
                    (f"`crane copy ghcr.io/fluxcd/a:v1 {MIRROR}/a:v1`",),
                )
            ],
            id="the mirror lacks it",
        ),
        pytest.param(
            MIRROR,
            deployment(f"a:v1@{Digest.of(b'')}"),
            {},
            [
                (
                    Certainty.CERTAIN,
                    f"{MIRROR}/a:v1@{Digest.of(b'')} is not there: clusters would meet ImagePullBackOff",
                    (f"`crane copy ghcr.io/fluxcd/a@{Digest.of(b'')} {MIRROR}/a:v1`",),
                )
            ],
            id="a pinned image is asked for by its digest",
        ),
        pytest.param(
            MIRROR,
            deployment("a:v1", "b:v1"),
            {"a:v1": RegistryError("it is down"), "b:v1": RegistryError("it is down")},
            [
                (
                    Certainty.UNCHECKED,
                    f"2 images could not be looked up ({MIRROR}/a:v1 and {MIRROR}/b:v1): it is down",
                    REACHED,
                )
            ],
            id="the mirror is down, which is told once",
        ),
        pytest.param(
            MIRROR,
            deployment("a:v1"),
            {"a:v1": RegistryError("it is down")},
            [(Certainty.UNCHECKED, f"an image could not be looked up ({MIRROR}/a:v1): it is down", REACHED)],
            id="the mirror does not answer for one",
        ),
    ],
)
def test_images(
    registry: str,
    text: str,
    answers: dict[str, Digest | RegistryError] | None,
    found: list[tuple[Certainty, str, tuple[str, ...]]],
) -> None:
    known = Known(images=None if answers is None else Registry(answers))
    seen = images.CHECK.look(None, Applied(text, registry=registry), known)
    assert [(it.certainty, it.sentence, it.remedies) for it in seen.hazards] == found
    assert {it.gate for it in seen.hazards} <= {"images"}


@pytest.mark.parametrize(
    ("registry", "copies"),
    [
        (MIRROR, f"`flux-manifests mirror --images oci://{MIRROR} v2.99.4`"),
        ("localhost:5000/fluxcd", "`flux-manifests mirror --images oci://localhost:5000/fluxcd v2.99.4`"),
        ("acme/fluxcd", "`crane copy ghcr.io/fluxcd/a:v1 acme/fluxcd/a:v1`"),  # of Docker Hub
    ],
)
def test_one_command_copies_all_images_of_a_version(registry: str, copies: str) -> None:
    after = Applied(deployment("a:v1").replace(MIRROR, registry), Version.parse("v2.99.4"), registry=registry)
    (hazard,) = images.CHECK.look(None, after, Known(images=Registry({}))).hazards
    assert hazard.remedies == (copies,)


def test_a_headline_counts_images_that_could_not_be_looked_up() -> None:
    known = Known(images=Registry({"a:v1": RegistryError("it is down"), "b:v1": RegistryError("it is down")}))
    hazards = images.CHECK.look(None, Applied(deployment("a:v1", "b:v1"), registry=MIRROR), known).hazards
    asks = Verdict("images", Decision.APPROVAL, hazards[0].sentence, f"unchecked, {hazards[0].fingerprint}")
    assert Findings(hazards=hazards, gates=(asks,)).causes() == ("2 images could not be looked up",)


@pytest.mark.parametrize(
    ("stated", "sentences"),
    [
        pytest.param(None, [], id="no Kubernetes is stated"),
        pytest.param(
            KubernetesRange(34, 34),
            ["which Flux x.yaml has, and whether it fits Kubernetes 1.34, is unknown"],
            id="one is",
        ),
    ],
)
def test_a_flux_of_an_unknown_version(stated: KubernetesRange | None, sentences: list[str]) -> None:
    seen = compatibility.CHECK.look(None, Applied("", name="x.yaml"), Known(Clusters(stated)))
    assert [it.sentence for it in seen.hazards] == sentences


def test_an_overlay_that_is_not_to_be_built_is_not_looked_at() -> None:
    after = Applied("", overlay=Tree((TreeFile("kustomization.yaml", b"resources: [gone.yaml]\n"),)), path=PATH)
    assert overlay.CHECK.look(None, after, Known()).hazards
    assert not overlay.CHECK.look(None, after, Known(build=False)).hazards


SECRET, WORD = b"kind: Secret\nstringData: {a: canary-one}\n", b"kind: Secret\n{{ it }}"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param(None, {"s.yaml": SECRET}, ("s.yaml",), id="of the first artifact"),
        pytest.param({}, {"s.yaml": SECRET, "t.yaml": b"kind: ConfigMap\n"}, ("s.yaml",), id="new"),
        pytest.param({"s.yaml": b"kind: A\n"}, {"s.yaml": SECRET}, ("s.yaml",), id="in a file of before"),
        pytest.param({"s.yaml": SECRET}, {"s.yaml": SECRET + b"# b\n"}, ("s.yaml",), id="changed"),
        pytest.param({"s.yaml": SECRET}, {"s.yaml": SECRET, "t.yaml": b"kind: A\n"}, (), id="there already"),
        pytest.param({"s.yaml": SECRET}, {"s.yaml": SECRET}, (), id="nothing changes"),
        pytest.param({"s.yaml": SECRET}, {}, (), id="gone"),
        pytest.param({}, {"s.yaml": WORD, "t.yaml": b"kind: A\n{{ it }}"}, ("s.yaml",), id="not to be read"),
        pytest.param({}, {"s\u202e.yaml": SECRET}, ("s?.yaml",), id="a name that would forge a line"),
    ],
)
def test_a_secret_in_plain_text_is_told_by_its_file_and_asks(
    before: Mapping[str, bytes] | None, after: Mapping[str, bytes], told: tuple[str, ...]
) -> None:
    seen = overlay.CHECK.look(None if before is None else applied(before), applied(after), Known())
    found = [it for it in seen.hazards if "plain" in it.subject]
    text = " holds a Secret in plain text, which everyone who can pull the artifact can read"
    assert [(it.certainty, it.sentence) for it in found] == [(Certainty.POSSIBLE, name + text) for name in told]


def applied(files: Mapping[str, bytes]) -> Applied:
    return Applied("", overlay=Tree(tuple(TreeFile(*each) for each in sorted(files.items()))), path=PATH)


class Saying:
    """A kustomize that says how long the kustomization is, or that it cannot build the plain one."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed | KustomizeUnusable, ...]:
        return tuple(map(self._say, wanted))

    def _say(self, build: Build) -> str | BuildFailed:
        listed = build[0]["kustomization.yaml"]
        patched = b"namePrefix" in listed
        if self.fails and not patched:
            return BuildFailed("no")
        return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  patched: {patched}\n"


PLAIN = b"resources: [flux-system/gotk-components.yaml]\n"
PATCHED = PLAIN + b"namePrefix: x-\n"


@pytest.mark.parametrize(
    ("old", "new", "kustomize", "shown"),
    [
        pytest.param(
            PLAIN, PATCHED, Saying(), ["@@ -4,3 +4,3 @@\n   name: a\n data:\n-  patched: False\n+  patched: True"]
        ),
        pytest.param(
            PATCHED, PLAIN, Saying(), ["@@ -4,3 +4,3 @@\n   name: a\n data:\n-  patched: True\n+  patched: False"]
        ),
        pytest.param(PLAIN, PATCHED, Saying(fails=True), []),
        pytest.param(PLAIN, PATCHED, None, []),
        pytest.param(PLAIN, PLAIN + b"# a comment\n", Saying(), []),
        pytest.param(PATCHED, PATCHED, Saying(), []),
    ],
    ids=["patched", "no longer", "not built", "no kustomize", "lists", "same"],
)
def test_what_another_overlay_renders_to_is_compared_with_what_the_present_one_does(
    old: bytes, new: bytes, kustomize: Saying | None, shown: list[str]
) -> None:
    before, after = (Applied("", overlay=Tree((TreeFile("kustomization.yaml", it),)), path=PATH) for it in (old, new))
    seen = overlay.CHECK.look(before, after, Known(kustomize=kustomize))
    assert [it.text for it in seen.diffs] == shown
    other = replace(before, components="# other")
    assert overlay.CHECK.look(other, after, Known(kustomize=kustomize)).diffs == ()


def test_with_nothing_before_nothing_changes() -> None:
    found = assess(None, Applied("", Version.parse("2.9.4"), path=PATH), Known())
    assert (found.changes, found.hazards) == ((), ())
    assert [it.gate for it in found.cleared] == ["crds", "overlay", "compatibility", "images"]


def test_a_step_has_the_changes_of_its_components_and_of_its_files() -> None:
    one, two = (
        Applied(f"# Flux Version: v2.9.{patch}\n", overlay=Tree((TreeFile("notes.txt", bytes([patch])),)), path=PATH)
        for patch in (3, 4)
    )
    found = assess(one, two, Known())
    assert [str(it.belongs_to) for it in found.changes] == ["version", "overlay"]
    assert isinstance(found, Impact)


@pytest.mark.parametrize("looks", range(3))
def test_a_step_that_is_settled_is_neither_compared_nor_looked_at_any_further(
    monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    certain = Hazard("crds", Certainty.CERTAIN, "one", "one breaks")
    seen: list[str] = []

    def check(number: int) -> Check:
        def look(*_: object) -> Seen:
            seen.append(str(number))
            return Seen((certain,))

        return Check("crds", number, look, lambda *_: ("", ""))

    monkeypatch.setattr("ci_automation.impact.assess.all_checks", lambda: tuple(map(check, range(3))))
    one, two = (Applied(f"# Flux Version: v2.9.{patch}\n", path=PATH) for patch in (3, 4))
    found = assess(one, two, Known(), lambda hazards: len(hazards) == looks)
    assert seen == ["0", "1", "2"][:looks]
    assert found == Impact(hazards=(certain,) * looks)


def test_of_artifacts_without_flux_the_files_are_compared() -> None:
    one, two = Tree((TreeFile("a.yaml", b"a: 1\n"),)), Tree((TreeFile("a.yaml", b"a: 2\n"),))
    found = compare_files(one, two)
    assert ([each.object.name for each in found.changes], [it.path for it in found.diffs]) == (["a.yaml"], ["a.yaml"])
    assert compare_files(one, one) == Impact()
