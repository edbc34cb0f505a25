"""What is read of the clusters that follow a channel: all that is named, nothing outside of it, and not too much."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.cli.arguments import Arguments
from ci_automation.cli.places import clusters
from ci_automation.config.model import ClustersConfig
from ci_automation.flows.clusters import UnreadablePlace
from ci_automation.impact.check import InvalidKubernetes, KubernetesRange
from ci_automation.impact.crds.versions import InvalidSnapshot

if TYPE_CHECKING:
    from ci_automation.impact.check import Clusters

CRD = "imagepolicies.image.toolkit.fluxcd.io"


def snapshot(*versions: str) -> str:
    listed = [{"name": name, "served": True, "storage": name == versions[0]} for name in versions]
    crd = {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "spec": {"group": "image.toolkit.fluxcd.io", "versions": listed},
        "status": {"storedVersions": list(versions)},
    }
    return json.dumps({"kind": "List", "items": [crd]})


ARTIFACT = Tree(
    (
        TreeFile("b.yaml", b"b"),
        TreeFile("a.yml", b"a"),
        TreeFile("readme.md", b"no"),
        TreeFile("east.json", snapshot("v1").encode()),
    )
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "fleet/apps/b.yaml": "b", "fleet/apps/a.yml": "a", "fleet/c.json": "{}", "fleet/notes.md": "no",
        "fleet/.git/config.yaml": "no", "elsewhere/d.yaml": "d", "one.txt": "one",
        "east.json": snapshot("v1beta2", "v1"),
    }.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def read(configured: ClustersConfig | None = None, artifact: Tree = ARTIFACT, **options: Any) -> Clusters:
    return clusters(configured, Arguments(**options), lambda _: artifact)


def names(found: Clusters) -> list[str]:
    return [file.name for file in found.files]


def test_nothing_named_is_nothing_known() -> None:
    found = read()
    assert (found.kubernetes, found.snapshots, found.files) == (None, (), ())


def test_a_folder_gives_its_manifests_by_the_names_that_the_user_knows() -> None:
    found = read(objects=("fleet",))
    assert names(found) == ["fleet/apps/a.yml", "fleet/apps/b.yaml", "fleet/c.json"]
    assert found.files[1].content == b"b"


def test_a_file_is_taken_whatever_it_is_called_and_once() -> None:
    assert names(read(objects=("one.txt", "./fleet/c.json", "fleet"))) == [
        *("one.txt", "fleet/c.json", "fleet/apps/a.yml", "fleet/apps/b.yaml")
    ]


@pytest.mark.parametrize("target", ["../elsewhere", "../elsewhere/d.yaml", "apps"], ids=["folder", "file", "inside"])
def test_links_are_not_followed(folder: Path, target: str) -> None:
    (folder / "fleet/link.yaml").symlink_to(target)
    assert names(read(objects=("fleet",))) == ["fleet/apps/a.yml", "fleet/apps/b.yaml", "fleet/c.json"]


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "fleet/pipe.yaml")
    assert "fleet/pipe.yaml" not in names(read(objects=("fleet",)))
    with pytest.raises(UnreadablePlace, match="not a regular file"):
        read(objects=("fleet/pipe.yaml",))


def test_a_name_that_is_no_text_can_be_printed(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/fleet/\xff.yaml")).write_text("x")
    (odd,) = (name for name in names(read(objects=("fleet",))) if name.isascii() is False)
    assert odd == "fleet/\N{REPLACEMENT CHARACTER}.yaml"


def test_an_artifact_gives_its_manifests() -> None:
    found = read(objects=("oci://ghcr.io/acme/apps:east",))
    place = "oci://ghcr.io/acme/apps:east/"
    assert names(found) == [f"{place}a.yml", f"{place}b.yaml", f"{place}east.json"]


def test_snapshots_are_files_or_every_json_in_an_artifact() -> None:
    found = read(cluster_snapshot=("east.json", "layout:reports:latest"))
    assert [(it.name, it.stored[CRD]) for it in found.snapshots] == [
        ("east.json", ("v1beta2", "v1")),
        ("layout:reports:latest/east.json", ("v1",)),
    ]


def test_options_are_over_the_configured_version_and_beside_the_configured_files() -> None:
    configured = ClustersConfig(KubernetesRange(31, 34), ("east.json",), ("fleet/apps",))
    found = read(configured, objects=("one.txt",))
    assert str(found.kubernetes) == "1.31-1.34"
    assert names(found) == ["fleet/apps/a.yml", "fleet/apps/b.yaml", "one.txt"]
    assert len(found.snapshots) == 1
    assert str(read(configured, kubernetes="1.33").kubernetes) == "1.33"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        pytest.param({"objects": ("nowhere",)}, UnreadablePlace, "nowhere: it is not there", id="no file"),
        pytest.param({"cluster_snapshot": ("fleet",)}, UnreadablePlace, "not a regular file", id="a folder"),
        pytest.param({"cluster_snapshot": ("one.txt",)}, InvalidSnapshot, "one.txt: it is not JSON", id="no snapshot"),
        pytest.param({"kubernetes": "2"}, InvalidKubernetes, "'2' is no version", id="no version"),
    ],
)
def test_what_cannot_be_used_is_told(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        read(**options)


def test_an_artifact_without_a_snapshot_is_told() -> None:
    with pytest.raises(UnreadablePlace, match="it has no snapshot"):
        read(artifact=Tree(()), cluster_snapshot=("oci://ghcr.io/acme/reports:latest",))


def test_what_may_not_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(UnreadablePlace, match="fleet: it cannot be read: Permission denied"):
        read(objects=("fleet",))
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnreadablePlace, match="it cannot be read: Permission denied"):
        read(objects=("one.txt",))


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [
        ("_MAX_FILES", 2, "more than 2 manifests"),
        ("_MAX_MANIFEST_BYTES", 3, "more than 20000 manifests, or 0 MiB"),
        ("_MAX_MANIFEST_BYTES", 0, "larger than 0 MiB"),
        ("_MAX_ENTRIES", 2, "more than 2 files"),
        ("MAX_BYTES", 10, "larger than 0 MiB"),
    ],
)
def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch, limit: str, value: int, words: str) -> None:
    monkeypatch.setattr(f"ci_automation.flows.clusters.{limit}", value)
    with pytest.raises(UnreadablePlace, match=words):
        read(objects=("fleet",), cluster_snapshot=("east.json",))
