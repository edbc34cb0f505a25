"""`setup` for an artifact that is there, beside folders that `flux bootstrap` made: the artifact wins."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from ci_automation.artifact.archive import write_archive
from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Reference
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.cli import run
from ci_automation.config.load import parse_config
from ci_automation.flux.options import Options
from ci_automation.policy.model import SignatureFormat
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.verify import ensure_signed
from tests.contract.bootstrapped import OWN, bootstrap, rendered
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from pathlib import Path

CONFIG, TODO = ".github/flux-manifests.yaml", ".github/flux-manifests.todo.md"
AT = "oci://ghcr.io/fakeco/flux-manifests"
SETUP = ("setup", "staging", "production", "--action", "fakeco/ci-automation")
APPLIED = OWN["kustomization.yaml"].replace("- gotk-sync.yaml\n", "")
LIMITS = "kind: LimitRange\napiVersion: v1\nmetadata: {name: own, namespace: flux-system}\n"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> InMemoryRegistry:
    """Return the registry that `setup` reads."""
    made = InMemoryRegistry()
    monkeypatch.setattr("ci_automation.cli.places.registry", lambda *_, **__: made)
    return made


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a clone of fakeco/fleet."""
    for words in (("init", "-q"), ("remote", "add", "origin", "https://github.com/fakeco/fleet")):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ci_automation.cli.questions.kustomize", lambda: None)
    return tmp_path


def push(registry: InMemoryRegistry, tag: str, files: dict[str, str]) -> None:
    """Publish files as a script does, unsigned."""
    channel = Reference.parse(f"{AT}:{tag}")
    layer = write_archive(
        Tree(tuple(TreeFile(path, text.encode(errors="surrogateescape")) for path, text in files.items()))
    )
    for blob in (layer, CONFIG_BLOB):
        registry.put_blob(channel, blob)
    manifest = Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (Descriptor.of(FLUX_LAYER, layer),))
    registry.put_manifest(channel, manifest)


def of_folder(version: str, above: str = "", options: Options | None = None, *, limits: str = "") -> dict[str, str]:
    """Return what a script pushes that pushes a cluster's folder."""
    files = {**OWN, "kustomization.yaml": APPLIED, "gotk-components.yaml": rendered(version, options)}
    files |= {"limits.yaml": limits} if limits else {}
    return {f"{above}{path}": text for path, text in files.items()}


def listed(clone: Path) -> list[str]:
    found = re.findall(r"^- \[.\] \d+\. (.*)$", (clone / TODO).read_text(), re.MULTILINE)
    assert found
    return found


def path_of(clone: Path, channel: str) -> tuple[str, str]:
    """Return what the objects of a channel apply, and where they are."""
    source, applied = yaml.safe_load_all((clone / f"flux-manifests/{channel}/sync.yaml").read_text())
    return applied["spec"]["path"], source["metadata"]["namespace"]


@pytest.mark.parametrize(("above", "path"), [("", "./"), ("flux-system/", "./flux-system")])
def test_what_is_in_the_artifact_stays_there(clone: Path, registry: InMemoryRegistry, above: str, path: str) -> None:
    push(registry, "staging", of_folder("v2.8.8", above, Options(namespace="gitops")))
    for cluster in ("staging", "production"):
        bootstrap(clone, f"clusters/{cluster}/flux-system", options=Options(namespace="gitops"))
    assert run([*SETUP]) == 0
    first, _ = parse_config((clone / CONFIG).read_bytes(), CONFIG).artifacts
    assert (first.overlay, first.components_file, first.flags) == (None, None, {})
    assert not (clone / "clusters/flux-system").exists()
    assert path_of(clone, "staging") == path_of(clone, "production") == (path, "gitops")
    assert [it for it in listed(clone) if "differs" in it or "Bring" in it] == []
    assert any("command adopt, artifact staging" in it for it in listed(clone))
    text = "".join(it.read_text() for it in clone.rglob("*.md"))
    assert "Clusters of staging, then of production, each when" in text
    assert run(["setup", "--yes"]) == 0
    assert "".join(it.read_text() for it in clone.rglob("*.md")) == text


def test_a_pause_that_a_person_ended_is_not_written_again(clone: Path, registry: InMemoryRegistry) -> None:
    push(registry, "staging", of_folder("v2.8.8"))
    assert run([*SETUP]) == 0
    written = (clone / CONFIG).read_text()
    ((line,),) = [re.findall(r"(    paused: true .*\n)", written)]
    ending = [it for it in listed(clone) if "paused" in it]
    assert [it.partition(",")[0] for it in ending] == ["Careful: only when all clusters verify"]
    (clone / CONFIG).write_text(written.replace(line, ""))
    assert run([*SETUP, "--yes"]) == 0
    assert (clone / CONFIG).read_text() == written.replace(line, "")
    (hint,) = [it for it in listed(clone) if "paused" in it]
    assert hint.startswith(f"If clusters do not verify {AT}:staging yet, write `paused: true` below `name: staging` in")


ADOPTED = (
    "Adopt ",
    "NAME of the OCIRepository in these clusters",
    "let one cluster verify",
    "In each cluster, make the Secret with the public key",
    "If clusters do not verify",
)


@pytest.mark.parametrize("signer", ["ours", "theirs"])
def test_a_channel_that_a_trusted_signer_signed_is_not_adopted(
    clone: Path, registry: InMemoryRegistry, monkeypatch: pytest.MonkeyPatch, signer: str
) -> None:
    monkeypatch.setattr("ci_automation.cli.wiring.registry", lambda *_, **__: registry)
    (clone / "cosign.pub").write_text(signing_key().public.to_pem())
    assert run([*SETUP, "--signing", "key"]) == 0
    for tag in ("staging", "production"):
        push(registry, tag, of_folder("v2.8.8"))
        channel = Reference.parse(f"{AT}:{tag}")
        digest = registry.manifest(channel).digest
        ensure_signed(registry, channel, digest, KeySigner(signing_key(signer)), SignatureFormat.LEGACY)
    assert run([*SETUP, "--yes"]) == 0
    found = [words for words in ADOPTED if any(words in it for it in listed(clone))]
    assert found == (["In each cluster, make the Secret with the public key"] if signer == "ours" else [*ADOPTED])
    written = [it for it in listed(clone) if "the role Write" in it]
    when = "you make the package in a terminal" if signer == "ours" else "others pushed the package before"
    assert [it.partition(",")[0] for it in written] == [f"If {when}"]


def test_a_cluster_that_differs_from_the_artifact_is_named_and_does_not_move(
    clone: Path, registry: InMemoryRegistry
) -> None:
    push(registry, "staging", of_folder("v2.8.8", "flux-system/", limits=LIMITS))
    bootstrap(clone, "clusters/staging/flux-system")
    bootstrap(clone, "clusters/production/flux-system", own={**OWN, "limits.yaml": LIMITS})
    assert run([*SETUP]) == 0
    (told,) = [it for it in listed(clone) if "differs from" in it]
    assert told.startswith(f"staging differs from {AT}:staging: limits.yaml (missing). ")
    assert (clone / "flux-manifests/production/clusters.txt").read_text() == "production\n"
    assert not (clone / "flux-manifests/staging/clusters.txt").exists()


@pytest.mark.parametrize(
    ("staging", "production", "told"),
    [
        (
            "v2.8.6",
            "v2.8.6",
            {"staging": "let a run publish it, or approve its request", "production": "promote it from staging"},
        ),
        ("v2.8.6", None, {"staging": "let a run"}),
        ("v2.8.8", "v2.8.6", {"production": "promote it from staging"}),
        ("v2.8.8", "v2.8.8", {}),
        (None, "v2.8.6", {"production": "promote it from staging"}),
        (None, None, {}),
    ],
)
def test_a_channel_with_an_older_flux_than_its_clusters_is_told(
    clone: Path, registry: InMemoryRegistry, staging: str | None, production: str | None, told: dict[str, str]
) -> None:
    for tag, version in (("staging", staging), ("production", production)):
        if version:
            push(registry, tag, of_folder(version))
    for cluster in ("staging", "production"):
        bootstrap(clone, f"clusters/{cluster}/flux-system", version="v2.8.8")
    assert run([*SETUP]) == 0
    found = {it.split()[1]: it for it in listed(clone) if it.startswith("Bring ")}
    assert found.keys() == told.keys()
    for name, how in told.items():
        assert f"Bring {name} to v2.8.8 or later before a cluster moves, or the cluster goes back: " in found[name]
        assert f": it has v2.8.6, and Git v2.8.8. To do that, {how}" in found[name]
        assert not (clone / f"flux-manifests/{name}/clusters.txt").exists()
    first, _ = parse_config((clone / CONFIG).read_bytes(), CONFIG).artifacts
    assert first.paused is ("staging" not in told)  # a run has to publish there
    assert any("write `paused: true` below `name: staging`" in it for it in listed(clone)) is False


@pytest.mark.parametrize(
    ("production", "behind"),
    [
        ("v2.8.6", {"v2.8.8": "staging/s1 (v2.8.6)"}),
        ("v2.8.7", {"v2.8.7": "production/p1 (v2.8.6)", "v2.8.8": "staging/s1 (v2.8.6)"}),
        (None, {"v2.8.8": "staging/s1 (v2.8.6), production/p1 (v2.8.6) and production/p2 (v2.8.7)"}),
    ],
)
def test_a_cluster_is_compared_with_what_its_own_channel_has(
    clone: Path, registry: InMemoryRegistry, production: str | None, behind: dict[str, str]
) -> None:
    for tag, version in (("staging", "v2.8.8"), ("production", production)):
        if version:
            push(registry, tag, of_folder(version))
    for cluster, version in (("staging/s1", "v2.8.6"), ("production/p1", "v2.8.6"), ("production/p2", "v2.8.7")):
        bootstrap(clone, f"clusters/{cluster}/flux-system", version=version)
    assert run([*SETUP]) == 0
    left_out = r" No step below moves (?:it|them) until then\. Then run `setup` again\."
    told = [re.fullmatch(rf"Update to (\S+) in Git, .*: (.*)\.{left_out}", it) for it in listed(clone)]
    assert {it[1]: it[2] for it in told if it} == behind
    moving = {name for path in clone.glob("flux-manifests/*/clusters.txt") for name in path.read_text().split()}
    assert moving == {None: set(), "v2.8.6": {"production/p1"}, "v2.8.7": {"production/p2"}}[production]


def test_an_overlay_that_is_asked_for_has_the_files_of_the_artifact(clone: Path, registry: InMemoryRegistry) -> None:
    files = of_folder("v2.8.8", limits=LIMITS)
    push(registry, "staging", files)
    bootstrap(clone, "clusters/staging/flux-system", options=Options(log_level="debug"))
    assert run([*SETUP, "--overlay", "own"]) == 0
    written = {it.name: it.read_text() for it in (clone / "own").iterdir()}
    assert written == {path: text for path, text in files.items() if path != "gotk-components.yaml"}
    first, _ = parse_config((clone / CONFIG).read_bytes(), CONFIG).artifacts
    assert (first.overlay, first.components_file, first.flags) == ("own", "gotk-components.yaml", {})
    assert not any("Bring the own files" in it for it in listed(clone))
    (clone / "own/limits.yaml").unlink()
    assert run([*SETUP, "--yes"]) == 0
    (told,) = [it for it in listed(clone) if f"Bring the own files of {AT}:staging into own" in it]
    assert told.endswith(
        " since runs ask to remove what is not in Git. They differ in limits.yaml. FOLDER is a new one."
    )


def test_a_configuration_that_names_another_components_file_is_told(clone: Path, registry: InMemoryRegistry) -> None:
    bootstrap(clone, "clusters/staging/flux-system")
    assert run([*SETUP]) == 0  # there is no artifact yet
    push(registry, "staging", of_folder("v2.8.8", "flux-system/"))
    assert run([*SETUP, "--yes"]) == 0
    (told,) = [it for it in listed(clone) if "componentsFile" in it]
    assert told == (
        f"Write `componentsFile: flux-system/gotk-components.yaml` for staging in {CONFIG}: {AT}:staging has no "
        "gotk-components.yaml, and its adoption would fail."
    )
    (told,) = [it for it in listed(clone) if "Bring the own files" in it]
    assert "They differ in flux-system/kustomization.yaml, flux-system/memory.yaml, kustomization.yaml" in told


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"x.yaml": "a: b\n"}, "has no gotk-components.yaml"),
        ({"gotk-components.yaml": "a: b\n"}, "no version"),
        ({"gotk-components.yaml": "\udcff"}, "gotk-components.yaml is not text"),
    ],
)
def test_an_artifact_that_cannot_be_read_is_told_and_its_path_is_kept(
    clone: Path,
    registry: InMemoryRegistry,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, str],
    reason: str,
) -> None:
    push(registry, "staging", of_folder("v2.8.8"))
    assert run([*SETUP]) == 0
    before = path_of(clone, "staging")
    push(registry, "staging", files)
    bootstrap(clone, "clusters/staging/flux-system")
    capsys.readouterr()
    assert run(["setup", "--yes"]) == 0
    told = capsys.readouterr().err
    assert f"{AT}:staging could not be looked at: " in told
    assert reason in told
    assert path_of(clone, "staging") == before == ("./", "flux-system")
    assert parse_config((clone / CONFIG).read_bytes(), CONFIG).artifacts[0].overlay is None


def test_a_file_of_the_artifact_that_is_no_text_is_told(
    clone: Path, registry: InMemoryRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    push(registry, "staging", {**of_folder("v2.8.8"), "logo.png": "\udcff"})
    assert run([*SETUP, "--overlay", "own"]) == 2
    assert "'own' would get a file that is not text: make the folder by `pull`" in capsys.readouterr().err
    assert not (clone / ".github").exists()
    assert run([*SETUP]) == 0


@pytest.mark.parametrize(("version", "api"), [("v2.5.1", "v1beta2"), ("v2.8.8", "v1")])
def test_objects_are_those_that_the_flux_of_the_artifact_knows(
    clone: Path, registry: InMemoryRegistry, version: str, api: str
) -> None:
    push(registry, "staging", of_folder(version))
    assert run([*SETUP]) == 0
    for name in ("staging", "production"):
        source, _ = yaml.safe_load_all((clone / f"flux-manifests/{name}/sync.yaml").read_text())
        assert source["apiVersion"] == f"source.toolkit.fluxcd.io/{api}"
