from __future__ import annotations

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.config.model import Config, UnknownArtifact
from ci_automation.config.sections import Artifact
from ci_automation.config.source import GitHubSourceConfig

PRODUCTION = Artifact(name="production", channel=Reference.parse("oci://ghcr.io/acme/flux-manifests:production"))
STAGING = Artifact(name="staging", channel=Reference.parse("layout:./artifacts:staging"))
CONFIG = Config(GitHubSourceConfig(), (PRODUCTION, STAGING))


@pytest.mark.parametrize(
    ("text", "artifact"),
    [
        pytest.param("production", PRODUCTION, id="by name"),
        pytest.param("oci://ghcr.io/acme/flux-manifests:production", PRODUCTION, id="by address"),
        pytest.param("layout:artifacts:staging", STAGING, id="by the same address in other words"),
    ],
)
def test_find(text: str, artifact: Artifact) -> None:
    assert CONFIG.find(text) is artifact


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        pytest.param("clusters/a", "clusters/a", True, id="the same"),
        pytest.param("clusters/a", "clusters", True, id="one in the other"),
        pytest.param("clusters", "clusters/a", True, id="the other in the one"),
        pytest.param("clusters/a", "clusters/ab", False, id="names that begin alike"),
        pytest.param("clusters/a", None, False, id="one without a folder"),
    ],
)
def test_overlay_folders_that_artifacts_share(one: str, other: str | None, *, shared: bool) -> None:
    artifacts = replace(PRODUCTION, overlay=one), replace(STAGING, overlay=other)
    assert list(Config(GitHubSourceConfig(), artifacts).sharing_folders()) == ([artifacts] if shared else [])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param("prodution", "Did you mean production?", id="a slip"),
        pytest.param(
            "production@2",
            "Only `diff` takes a number. Write the address, with a tag that `history production` shows.",
            id="a number",
        ),
        pytest.param("x", "It has production, staging.", id="something else"),
        pytest.param("oci://ghcr.io/acme/flux-manifests:edge", "It has production, staging.", id="another channel"),
        pytest.param("team/x", "It has production, staging.", id="no address"),
        pytest.param(
            "r.example:5000/x:edge",
            "Did you mean oci://r.example:5000/x:edge? The configuration has production, staging.",
            id="no scheme",
        ),
        pytest.param(
            "https://ghcr.io/acme/x:edge",
            "Did you mean oci://ghcr.io/acme/x:edge? The configuration has production, staging.",
            id="another scheme",
        ),
        pytest.param("oci://ghcr.io/acme/flux-manifests", "It has production, staging.", id="no channel"),
    ],
)
def test_what_is_not_there_names_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(UnknownArtifact, match="has no artifact") as caught:
        CONFIG.find(text)
    assert caught.value.hint == hint
    assert caught.value.exit_code == 2
