"""The sample releases: small, ours, in the structure of Flux's, and proven."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from ci_automation.demo import samples
from ci_automation.demo.samples import SAMPLES, Sample, write_samples
from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.following import unfit_fields
from ci_automation.flux.options import COMPONENTS
from ci_automation.flux.proof import is_known
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.version import Bump, Version

DOCS = Path(__file__).parents[3] / "docs"
NEWEST, PATCH, FIRST = SAMPLES
WRITTEN = datetime(2026, 11, 21, tzinfo=UTC)


def texts(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.tag)
class TestEach:
    def test_is_a_release_that_the_program_fetches(self, sample: Sample, tmp_path: Path) -> None:
        write_samples(tmp_path)
        fetched = DirectorySource(tmp_path).fetch(Version.parse(sample.tag))
        assert fetched.bundle == ManifestsBundle.of(sample.bundle)
        assert fetched.bundle.components == tuple(sorted(COMPONENTS))

    def test_is_in_the_table_of_proven_releases(self, sample: Sample) -> None:
        assert is_known(ManifestsBundle.of(sample.bundle), Version.parse(sample.tag)), (
            "make samples.json and known.json anew"
        )

    def test_has_an_image_for_each_component(self, sample: Sample) -> None:
        text = "".join(ManifestsBundle.of(sample.bundle).files.values())
        assert dict(re.findall(r"image: fluxcd/([a-z-]+):(v\S+)", text)) == sample.images
        assert sample.images.keys() == set(COMPONENTS)

    def test_is_yaml_of_the_kinds_that_flux_has(self, sample: Sample) -> None:
        kinds = {
            document["kind"]
            for text in ManifestsBundle.of(sample.bundle).files.values()
            for document in yaml.safe_load_all(text)
        }
        assert kinds == {
            *("CustomResourceDefinition", "ServiceAccount", "Service", "Deployment", "NetworkPolicy"),
            *("ResourceQuota", "ClusterRole", "ClusterRoleBinding"),
        }

    def test_is_a_week_older_than_the_next_and_than_this_program(self, sample: Sample) -> None:
        dates = [datetime.fromisoformat(other.published_at) for other in SAMPLES]
        later = WRITTEN if sample is NEWEST else dates[SAMPLES.index(sample) - 1]
        assert later - dates[SAMPLES.index(sample)] > timedelta(days=7)

    def test_has_a_commit(self, sample: Sample) -> None:
        assert re.fullmatch(r"[0-9a-f]{40}", sample.commit)


def test_there_are_a_patch_and_a_minor() -> None:
    newest, patch, first = (Version.parse(sample.tag) for sample in SAMPLES)
    assert (first.bump_to(patch), patch.bump_to(newest)) == (Bump.PATCH, Bump.MINOR)


def test_the_patch_changes_images_alone() -> None:
    changed = [
        (before, after)
        for name, text in ManifestsBundle.of(FIRST.bundle).files.items()
        for before, after in zip(
            text.split("\n"), ManifestsBundle.of(PATCH.bundle).files[name].split("\n"), strict=True
        )
        if before != after
    ]
    assert len(changed) == 3
    assert all("        image: fluxcd/" in before for before, _ in changed)


def test_the_minor_has_a_rule_more_and_a_crd_version_less() -> None:
    before, after = ManifestsBundle.of(PATCH.bundle).files, ManifestsBundle.of(NEWEST.bundle).files
    assert after["rbac.yaml"].count("- apiGroups:") == before["rbac.yaml"].count("- apiGroups:") + 1
    versions = [
        [
            version["name"]
            for version in next(yaml.safe_load_all(files["image-reflector-controller.yaml"]))["spec"]["versions"]
        ]
        for files in (before, after)
    ]
    assert versions == [["v1", "v1beta2"], ["v1"]]


@pytest.mark.parametrize("page", ["clusters", "one-cluster-differs"])
def test_take_the_fields_of_sync_in_the_guides(page: str) -> None:
    components = "\n---\n".join(ManifestsBundle.of(FIRST.bundle).files.values())
    blocks = re.findall(r"^```yaml\n(.*?)^```", (DOCS / f"guides/{page}.md").read_text(), re.MULTILINE | re.DOTALL)
    values = [yaml.safe_load(dedent(block)) for block in blocks]
    entries = [it for value in values for it in (value if isinstance(value, list) else value.get("artifacts", [value]))]
    followed = [each for it in entries if "sync" in it for each in (it["sync"], it["sync"].get("fleet", {}))]
    kinds = {"source": ("source", "OCIRepository"), "kustomization": ("kustomize", "Kustomization")}
    specs = [(key, each[key]) for each in followed for key in kinds if key in each]
    assert specs
    for key, spec in specs:
        room, kind = kinds[key]
        found = unfit_fields(spec, f"{room}.toolkit.fluxcd.io/v1", kind, components, lambda *_: True)
        assert (spec, found) == (spec, [])


def test_what_is_written_is_the_same_each_time(tmp_path: Path) -> None:
    write_samples(tmp_path / "one")
    write_samples(tmp_path / "two")
    write_samples(tmp_path / "two")
    assert texts(tmp_path / "one") == texts(tmp_path / "two")


def test_has_the_shape_of_githubs_answers(tmp_path: Path) -> None:
    write_samples(tmp_path)
    releases = json.loads((tmp_path / "releases.json").read_text())
    assert [release["tag_name"] for release in releases] == ["v2.99.4", "v2.98.8", "v2.98.5"]
    assert json.loads((tmp_path / "tags.json").read_text())[0] == {"name": NEWEST.tag, "commit": {"sha": NEWEST.commit}}
    for release in releases:
        sizes = {asset["name"]: asset["size"] for asset in release["assets"]}
        assert sizes == {path.name: path.stat().st_size for path in (tmp_path / release["tag_name"]).iterdir()}


def test_checksums_are_those_of_the_archives(tmp_path: Path) -> None:
    write_samples(tmp_path)
    archive = (tmp_path / "v2.98.8" / "manifests.tar.gz").read_bytes()
    checksums = (tmp_path / "v2.98.8" / "flux_2.98.8_checksums.txt").read_text()
    assert checksums == f"{hashlib.sha256(archive).hexdigest()}  manifests.tar.gz\n"


def test_the_package_carries_less_than_60_kb_of_them() -> None:
    assert sum(path.stat().st_size for path in samples._SOURCES.rglob("*.yaml")) < 60_000
