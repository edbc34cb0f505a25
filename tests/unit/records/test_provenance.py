from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.records.notes import Approval
from ci_automation.records.predicates import Build, Invocation, Source, provenance

ARCHIVE, CONTENT, BASE, OVERLAY, CONFIG = (Digest.of(text) for text in (b"archive", b"content", b"base", b"over", b"c"))
BUILD = Build(
    channel=Reference.parse("oci://ghcr.io/acme/flux:production"),
    version=Version.parse("v2.9.4"),
    options=Options(namespace="flux", toleration_keys=("b", "a")),
    source=Source(
        "https://github.com/fluxcd/flux2/releases/download/v2.9.4/manifests.tar.gz", ARCHIVE, CONTENT, "f" * 40
    ),
    base=BASE,
    overlay=OVERLAY,
    configuration=CONFIG,
)
IDENTITY = "https://github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/main"
RUN = Invocation("auto", Proof.CALIBRATED, "0.1.0", IDENTITY, "https://github.com/acme/fleet/actions/runs/7/attempts/1")


def test_the_predicate_names_every_input_by_digest_and_who_built() -> None:
    assert provenance(BUILD, RUN) == {
        "buildDefinition": {
            "buildType": "tag:flux-manifests.github.io,2026:build/v1",
            "externalParameters": {
                "artifact": "oci://ghcr.io/acme/flux:production",
                "flux": "v2.9.4",
                "options": {"namespace": "flux", "toleration-keys": ["b", "a"]},
                "policy": "auto",
            },
            "internalParameters": {"proof": "calibrated"},
            "resolvedDependencies": [
                {
                    "name": "release",
                    "uri": "https://github.com/fluxcd/flux2/releases/download/v2.9.4/manifests.tar.gz",
                    "digest": {"sha256": ARCHIVE.hex, "gitCommit": "f" * 40},
                    "annotations": {"io.github.flux-manifests.release-digest": str(CONTENT)},
                },
                {"name": "base", "uri": f"oci://ghcr.io/acme/flux@{BASE}", "digest": {"sha256": BASE.hex}},
                {"name": "overlay", "digest": {"sha256": OVERLAY.hex}},
                {"name": "configuration", "digest": {"sha256": CONFIG.hex}},
            ],
        },
        "runDetails": {
            "builder": {"id": IDENTITY, "version": {"flux-manifests": "0.1.0"}},
            "metadata": {"invocationId": "https://github.com/acme/fleet/actions/runs/7/attempts/1"},
        },
    }


def test_a_first_artifact_made_by_hand_says_so() -> None:
    made = provenance(replace(BUILD, base=None, configuration=None), replace(RUN, builder=None, url=None))
    names = [dependency["name"] for dependency in made["buildDefinition"]["resolvedDependencies"]]
    assert names == ["release", "overlay"]
    assert made["runDetails"]["builder"]["id"] == "tag:flux-manifests.github.io,2026:builder/local"
    assert "metadata" not in made["runDetails"]


def test_an_approval_is_an_input() -> None:
    approval = Approval("octocat", "pull request 7", datetime(2026, 11, 21, tzinfo=UTC))
    made = provenance(BUILD, replace(RUN, policy="approval", approval=approval))
    parameters = made["buildDefinition"]["externalParameters"]
    assert parameters["policy"] == "approval"
    assert parameters["approval"] == {"by": "octocat", "how": "pull request 7", "at": "2026-11-21T00:00:00Z"}


@pytest.mark.parametrize("folder", ["/home/me/registry", "registry"])
def test_the_base_in_a_folder_has_no_address(folder: str) -> None:
    made = provenance(replace(BUILD, channel=Reference.parse(f"layout:{folder}:production")), RUN)
    assert made["buildDefinition"]["resolvedDependencies"][1] == {"name": "base", "digest": {"sha256": BASE.hex}}
    assert made["buildDefinition"]["externalParameters"]["artifact"] == "layout:production"
