"""`init --from` takes a folder of `flux bootstrap` as it is, and refuses what would go wrong later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.desk import CHANNEL, SIGNED, TRUSTED

if TYPE_CHECKING:
    from tests.e2e.desk import Desk

FOLDER = "clusters/production/flux-system"
SYNC = """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {path: ./clusters/production, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
"""
KUSTOMIZATION = "resources:\n- gotk-components.yaml\n- gotk-sync.yaml\n"
FROM = ("init", CHANNEL, "--from", FOLDER, *SIGNED)


@pytest.fixture
def bootstrapped(desk: Desk) -> Desk:
    """Return the desk with a repository that `flux bootstrap` set up."""
    text = desk.ok("render", "--flux-version", "v2.99.4", "--log-level", "debug", "--network-policy=false").out
    for name, content in (("components", text), ("sync", SYNC)):
        desk.write(f"{FOLDER}/gotk-{name}.yaml", content)
    desk.write(f"{FOLDER}/kustomization.yaml", KUSTOMIZATION)
    desk.write(f"{FOLDER}/about.txt", "ours\n")
    (desk.folder / ".git").mkdir()
    return desk


def test_version_and_options_are_recovered_and_everything_else_is_the_overlay(bootstrapped: Desk) -> None:
    ran = bootstrapped.ok(*FROM, "--still-in-git")
    assert "Flux v2.99.4" in ran.err
    assert "\n  its components are in gotk-components.yaml\n" in ran.err
    assert "1. In Git, gotk-sync.yaml needs `prune: false`, and clusters have to have applied that: " in ran.err
    assert "flux-system/flux-system (path ./clusters/production, prune: true)." in ran.err
    assert ran.out.startswith("# `sync-manifests` prints the objects")  # there are none of a layout
    assert list(yaml.safe_load_all(ran.out)) == []
    bootstrapped.ok("pull", CHANNEL, "out", *TRUSTED)
    out, there = bootstrapped.folder / "out", bootstrapped.folder / FOLDER
    assert (out / "gotk-components.yaml").read_bytes() == (there / "gotk-components.yaml").read_bytes()
    assert (out / "kustomization.yaml").read_text() == "resources:\n- gotk-components.yaml\n"
    assert sorted(each.name for each in out.iterdir()) == ["about.txt", "gotk-components.yaml", "kustomization.yaml"]


def test_the_sync_objects_are_kept_as_told(bootstrapped: Desk) -> None:
    made = bootstrapped.ok(*FROM, "--still-in-git", "--keep-sync", "--output", "json").json
    assert made["components"] == "gotk-components.yaml"
    assert "set `prune: true` again in the artifact" in made["migration"]
    assert "\n\n# `sync-manifests` prints the objects" in made["migration"]  # and it has those of a registry
    assert made["options"] == {"log-level": "debug", "network-policy": False}
    bootstrapped.ok("pull", CHANNEL, "out", *TRUSTED)
    assert (bootstrapped.folder / "out/gotk-sync.yaml").read_text() == SYNC


def test_nothing_is_published_while_git_applies_the_folder(bootstrapped: Desk) -> None:
    ran = bootstrapped.run(*FROM)
    assert (ran.code, "Git applies this unsigned" in ran.err) == (11, True)
    assert (
        "flux-system/flux-system (path ./clusters/production, prune: true) applies clusters/production/flux-system"
        in ran.err
    )
    assert not (bootstrapped.folder / "registry").exists()
    bootstrapped.write(f"{FOLDER}/gotk-sync.yaml", SYNC.replace("./clusters/production", "./apps"))
    assert "1. Apply the objects, which are all of the output, to each cluster." in bootstrapped.ok(*FROM).err


def test_a_hand_edit_is_refused_with_the_patch_that_keeps_it(bootstrapped: Desk) -> None:
    path = bootstrapped.folder / FOLDER / "gotk-components.yaml"
    written = path.read_text()
    path.write_text(written.replace("--log-level=debug", "--log-level=debug\n        - --acme", 1))
    ran = bootstrapped.run(*FROM, "--still-in-git")
    assert (ran.code, "has been edited by hand" in ran.err) == (11, True)
    assert '{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": ["' in ran.err
    assert '"--acme"' in ran.err
    path.write_text("kind: Other\n")
    assert bootstrapped.run(*FROM, "--still-in-git").code == 2


def test_a_secret_in_plain_text_is_refused_unless_allowed(bootstrapped: Desk) -> None:
    bootstrapped.write(f"{FOLDER}/s.yaml", "kind: Secret\nstringData: {a: b}\n")
    ran = bootstrapped.run(*FROM, "--still-in-git")
    assert (ran.code, "Secrets in plain text: s.yaml" in ran.err) == (11, True)
    bootstrapped.ok(*FROM, "--still-in-git", "--allow-secrets")


def test_what_refers_outside_or_has_no_components_is_refused(bootstrapped: Desk) -> None:
    bootstrapped.write(f"{FOLDER}/kustomization.yaml", KUSTOMIZATION + "- ../base\n")
    ran = bootstrapped.run(*FROM, "--still-in-git")
    assert (ran.code, "refers to what is outside of it: ../base" in ran.err) == (2, True)
    bootstrapped.write("elsewhere/kustomization.yaml", KUSTOMIZATION)
    ran = bootstrapped.run("init", CHANNEL, "--from", "elsewhere", *SIGNED)
    assert (ran.code, "has no gotk-components.yaml" in ran.err) == (2, True)


def test_a_folder_outside_of_git_counts_as_applied(bootstrapped: Desk) -> None:
    (bootstrapped.folder / ".git").rename(bootstrapped.folder / "no-git")
    assert bootstrapped.run(*FROM).code == 11


@pytest.mark.parametrize(
    "more",
    [
        ("--flux-version", "v2.99.4"),
        ("--overlay", "overlay"),
        ("--log-level", "debug"),
        ("--components-file", "a.yaml"),
    ],
)
def test_what_the_folder_says_is_not_given_again(bootstrapped: Desk, more: tuple[str, ...]) -> None:
    assert bootstrapped.run(*FROM, *more).code == 2


@pytest.mark.parametrize("more", [(), ("--flux-version", "v2.99.4", "--keep-sync")])
def test_the_options_of_a_migration_need_a_folder(desk: Desk, more: tuple[str, ...]) -> None:
    assert desk.run("init", CHANNEL, *SIGNED, *more).code == 2
