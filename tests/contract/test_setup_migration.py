"""`setup` in a repository that `flux bootstrap` made: what it takes over, and the way of each cluster."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from ci_automation.cli import run
from ci_automation.config.load import parse_config
from ci_automation.flux.options import DEFAULT_COMPONENTS, Options
from tests.contract.bootstrapped import OWN, bootstrap, rendered
from tests.contract.operating import CONFIG, dispatch
from tests.contract.scene import FIRST
from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.scene import Scene

ACTION = ("--action", "acme/ci-automation")
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tutorials/from-bootstrap.md").read_text()
EXTRA = Options(components=(*DEFAULT_COMPONENTS, "image-reflector-controller", "image-automation-controller"))
CLUSTERS = ("staging", "production-eu", "production-us", "stable")
THREE = ("setup", "staging", "production", "stable", *ACTION)
PATH = os.environ["PATH"]
KEYED = "    publicKey: cosign.pub\n  signing: {mode: key, key: cosign.key}\n"
ONLY_SYNC = "resources: [gotk-sync.yaml]\n"
REFERRED = {  # by its number in the tutorial
    r"Steps 1 to (\d+) of the list": "Commit the files",
    r"The command of step (\d+) prints nothing": "Keep as patches",
    r"Steps (\d+) to \d+ of the list, which": "Tick ",
    r"Steps \d+ to (\d+) of the list, which": "create secret docker-registry",
    r"Steps \d+ to (\d+) of the list are for": "Wait: ",
    r"Step (\d+), in Git": "delete all files of clusters/staging/",
    r"until step (\d+): each hour": "and not before: ",
    r"Step (\d+): merge": "and not before: ",
    r"Step (\d+): `flux resume`": "set `prune: true` in clusters/staging/",
}


def git(top: Path, *words: str) -> None:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(top), *own, *words], check=True, capture_output=True)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a clone of acme/fleet, whose channels do not exist yet."""
    top = tmp_path / "fleet"
    git(tmp_path, "init", "-q", "-b", "main", str(top))
    git(top, "remote", "add", "origin", "https://github.com/acme/fleet")
    git(top, "config", "user.name", "ada")
    git(top, "config", "user.email", "ada@acme.example")
    git(top, "config", "commit.gpgsign", "false")
    monkeypatch.chdir(top)
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: ())
    return top


@pytest.fixture
def left(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Return what runs `setup` and returns the lines that are left to do."""

    def listed(*arguments: str) -> list[str]:
        capsys.readouterr()
        assert run([*arguments]) == 0
        return capsys.readouterr().out.partition(".todo.md:\n\n")[2].splitlines()

    return listed


def line(lines: list[str], words: str) -> str:
    """Return the only line with these words."""
    (found,) = (it for it in lines if words in it)
    return found


def config(clone: Path) -> str:
    return (clone / CONFIG).read_text()


def blocks(kind: str) -> list[str]:
    """Return the blocks of the tutorial."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_tutorial_works_as_printed(clone: Path, left: Callable[..., list[str]], tmp_path: Path) -> None:
    for cluster in CLUSTERS:
        bootstrap(clone, f"clusters/{cluster}/flux-system", options=EXTRA)
    folders = {it.split()[0] for it in blocks("text")[0].splitlines()}
    assert folders == {f"clusters/{cluster}/flux-system" for cluster in CLUSTERS}
    git(tmp_path, "init", "-q", "--bare", "origin.git")
    git(clone, "config", f"url.{tmp_path}/origin.git.pushInsteadOf", "https://github.com/acme/fleet")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "as flux bootstrap leaves it")
    setup, prunes_not, follows, leaves, resumes, prunes = blocks("sh")
    listed = left(*setup.split()[1:])
    assert "\n".join(listed) + "\n" == blocks("text")[1]
    assert blocks("yaml") == [config(clone).partition("\n")[2]]
    for words, step in REFERRED.items():
        (number,) = re.findall(words, PAGE)
        assert next(it for it in listed if step in it).startswith(f"{number}. ")
    commands = [*follows.splitlines(), *resumes.splitlines()]
    assert {it for it in commands if f"`{it}`" not in "".join(listed)} == set()

    def merge(commands: str) -> None:
        subprocess.run(["sh", "-ec", commands], cwd=clone, check=True, capture_output=True)
        branch = commands.split()[3]
        git(clone, "switch", "-q", "main")
        git(clone, "merge", "-q", "--ff-only", branch)
        assert not subprocess.check_output(["git", "-C", str(clone), "status", "--porcelain"])

    def sync_of(cluster: str) -> str:
        return (clone / f"clusters/{cluster}/flux-system/gotk-sync.yaml").read_text()

    merge(prunes_not)
    assert all("prune: false" in sync_of(cluster) for cluster in CLUSTERS)
    assert not any("Set `prune: false`" in it for it in left(*THREE))  # Git has it
    merge(leaves)
    folder = clone / "clusters/staging/flux-system"
    assert sorted(it.name for it in folder.iterdir()) == ["gotk-sync.yaml", "kustomization.yaml"]
    assert (folder / "kustomization.yaml").read_text() == ONLY_SYNC
    merge(prunes)
    assert "prune: true" in sync_of("staging")
    before = config(clone)
    rest = left(*THREE)
    titles = [it for it in rest if "when production has its first digest" in it]
    assert [it.split()[3] for it in titles] == ["clusters/production-eu,", "clusters/production-us,"]
    assert not any("clusters/staging" in it for it in rest)
    assert config(clone) == before
    for cluster in CLUSTERS[1:]:
        merge(re.sub(r"staging", cluster, leaves))
    ordinary = left(*THREE)
    assert line(ordinary, "A cluster without Flux gets it first")
    assert not any("gotk" in it for it in ordinary)


def test_each_page_that_the_list_names_is_there(clone: Path, left: Callable[..., list[str]]) -> None:
    ordinary = left(*THREE)
    bootstrap(clone, "clusters/staging/flux-system")
    bootstrap(clone, "clusters/production/flux-system", own={})
    named = re.findall(r"/blob/HEAD/docs/(\S+?\.md)(?:#([\w-]+))?", "\n".join((*ordinary, *left(*THREE, "--yes"))))
    assert {page for page, _ in named} == {"guides/clusters.md", "guides/migration.md", "tutorials/from-bootstrap.md"}
    for page, anchor in named:
        titles = re.findall(r"^#+ (.+)$", (DOCS / page).read_text(), re.MULTILINE)
        assert anchor in {"", *(re.sub(r"[^\w -]", "", it).lower().replace(" ", "-") for it in titles)}
    assert "With `kubectl` and `flux` for that cluster:" in PAGE


def test_the_overlay_is_what_git_applies_but_for_the_sync_objects(clone: Path) -> None:
    bootstrap(clone, "clusters/staging/flux-system", options=Options(network_policy=False, log_level="debug"))
    assert run([*THREE]) == 0
    overlay = clone / "clusters/flux-system"
    assert {it.name: it.read_text() for it in overlay.iterdir()} == {
        **OWN,
        "kustomization.yaml": OWN["kustomization.yaml"].replace("- gotk-sync.yaml\n", ""),
    }
    staging, *others = parse_config(config(clone).encode(), "x").artifacts
    assert (staging.overlay, staging.components_file) == ("clusters/flux-system", "gotk-components.yaml")
    assert staging.flags == {"log-level": "debug", "network-policy": False}
    assert all(it.promote and not it.flags for it in others)
    _, applied = yaml.safe_load_all((clone / "flux-manifests/staging/sync.yaml").read_text())
    assert applied["spec"]["path"] == "./"


def test_patches_of_the_sync_objects_stay_with_them(clone: Path, left: Callable[..., list[str]]) -> None:
    folder = bootstrap(clone, "clusters/staging/flux-system")
    words = "patches of the objects in gotk-sync.yaml"
    assert not any(words in it or "Take the patches" in it for it in left(*THREE))
    shutil.rmtree(clone / "clusters/flux-system")
    own = OWN["kustomization.yaml"] + "- {patch: '[]', target: {kind: Kustomization, name: flux-system}}\n"
    (folder / "kustomization.yaml").write_text(own)
    listed = left(*THREE)
    assert line(listed, "Take the patches at clusters/flux-system/kustomization.yaml:8 out of clusters/flux-system:")
    assert (clone / "clusters/flux-system/kustomization.yaml").read_text().splitlines()[7].startswith("- {patch: '[]'")
    assert line(listed, f"Leave only `resources: [gotk-sync.yaml]` in the latter, and your {words}.")


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        (Options(), None),
        (EXTRA, {"components-extra": ["image-reflector-controller", "image-automation-controller"]}),
        (
            Options(components=("source-controller", "kustomize-controller")),
            {"components": ["source-controller", "kustomize-controller"]},
        ),
        (
            Options(registry="registry.acme.example/flux", image_pull_secret="pull", namespace="gitops"),
            {"image-pull-secret": "pull", "namespace": "gitops", "registry": "registry.acme.example/flux"},
        ),
    ],
)
def test_flags_are_those_that_made_the_components(
    clone: Path, left: Callable[..., list[str]], options: Options, flags: dict[str, object] | None
) -> None:
    folder = bootstrap(clone, "clusters/production/flux-system", options=options)
    listed = left("setup", "production", *ACTION)
    (entry,) = yaml.safe_load(config(clone))["artifacts"]
    assert entry.get("flags") == flags
    assert Options().with_flags(flags or {}) == options
    (words,) = re.findall(r"flux-manifests (render .*?) \|", line(listed, "Keep as patches"))
    given = dict(it.removeprefix("--").split("=") for it in words.split()[3:])
    assert Options().with_flags(given) == options
    home = options.namespace
    assert line(listed, f"Wait: `kubectl -n {home} wait ocirepository")
    source, _ = yaml.safe_load_all((clone / "flux-manifests/production/sync.yaml").read_text())
    assert source["metadata"]["namespace"] == home
    assert folder.is_dir()


def test_objects_are_those_that_the_oldest_cluster_of_the_channel_knows(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for cluster, version in (("staging", "v2.8.8"), ("production-eu", "v2.5.1"), ("production-us", "v2.8.8")):
        bootstrap(clone, f"clusters/{cluster}/flux-system", version=version)
    listed = left(*THREE)
    update = "Update clusters/production-eu/flux-system (v2.5.1) to v2.8.8 in Git, as until now."
    assert update in line(listed, "Its cluster then keeps its Flux")
    assert line(listed, "command init, artifact staging, to v2.8.8.")
    versions = {
        name: next(yaml.safe_load_all((clone / f"flux-manifests/{name}/sync.yaml").read_text()))["apiVersion"]
        for name in ("staging", "production")
    }
    of = "source.toolkit.fluxcd.io"
    assert versions == {"staging": f"{of}/v1", "production": f"{of}/v1beta2"}


def test_no_cluster_goes_back_to_the_version_of_the_first_channel(clone: Path, left: Callable[..., list[str]]) -> None:
    bootstrap(clone, "clusters/staging/flux-system", version="v2.8.6")
    bootstrap(clone, "clusters/production/flux-system", version="v2.8.8")
    listed = left(*THREE)
    assert line(listed, "Update clusters/staging/flux-system (v2.8.6) to v2.8.8")
    assert line(listed, "command init, artifact staging, to v2.8.8.")
    assert "render --flux-version v2.8.6 |" in line(listed, "Keep as patches")


def test_the_list_leads_to_the_page_with_each_command() -> None:
    (link,) = re.findall(r"with each command: \S+/HEAD/docs/(\S+)$", PAGE, re.MULTILINE)
    assert "\nkubectl apply -f flux-manifests/staging\n" in (DOCS / link).read_text()


def test_each_folder_that_differs_is_named_with_what_differs(clone: Path, left: Callable[..., list[str]]) -> None:
    edited = rendered("v2.8.8").replace("replicas: 1", "replicas: 2")
    for cluster, more in {
        "staging": {},
        "production-a": {"own": {**OWN, "memory.yaml": "[]\n", "more.yaml": "a: b\n"}},
        "production-b": {"options": Options(log_level="debug")},
        "production-c": {"components": edited},
        "production-d": {},
    }.items():
        bootstrap(clone, f"clusters/{cluster}/flux-system", **more)  # type: ignore[arg-type]
    listed = left(*THREE)
    told = [it for it in listed if "differs from" in it]
    begun = [it for it in listed if ". Begin when you settled what differs in clusters/production-" in it]
    assert [it[it.index("production-") :][:12] for it in begun] == ["production-a", "production-b", "production-c"]
    names = ("memory.yaml and more.yaml", "its options of `flux install`", "gotk-components.yaml")
    assert len(told) == len(names)
    for each, folder, what in zip(told, "abc", names, strict=True):
        assert f"production-{folder}/flux-system differs from clusters/staging/flux-system in {what}, and" in each
        assert each.endswith("/docs/guides/migration.md#folders-that-differ")
    assert "## Folders that differ\n" in (DOCS / "guides/migration.md").read_text()


def test_what_differs_can_be_a_patch_of_the_channel_or_a_channel_of_its_own(clone: Path) -> None:
    for cluster in ("staging", "production"):
        bootstrap(clone, f"clusters/{cluster}/flux-system", options=Options(log_level="debug"))
    assert run([*THREE]) == 0
    patches = "    sync: {kustomization: {patches: [{patch: '[]', target: {kind: Deployment}}]}}\n"
    before = config(clone)
    (clone / CONFIG).write_text(before.replace("  - name: stable\n", f"{patches}  - name: stable\n"))
    assert run([*THREE, "--yes"]) == 0
    for name in ("staging", "production"):
        _, applied = yaml.safe_load_all((clone / f"flux-manifests/{name}/sync.yaml").read_text())
        assert ("patches" in applied["spec"]) is (name == "production")
    (clone / CONFIG).unlink()
    for name in ("staging", "production"):
        assert run(["setup", name, *ACTION, "--yes"]) == 0
    assert [(it.name, it.overlay, it.flags) for it in parse_config(config(clone).encode(), "x").artifacts] == [
        (name, f"flux/{name}", {"log-level": "debug"}) for name in ("staging", "production")
    ]


@pytest.mark.parametrize(
    ("folders", "channels", "expected"),
    [
        (
            ("eu/production", "my-staging", "prod"),
            ("staging", "production"),
            {"staging": "my-staging", "production": "eu/production", "CHANNEL": "prod"},
        ),
        (("a", "b"), ("staging", "production"), {"CHANNEL": "a b"}),
        (("a", "b"), ("production",), {"production": "a b"}),
        (("production", "staging"), ("production",), {"production": "production"}),
        (("edge-production",), ("production", "edge"), {"production": "edge-production"}),
        (("edge/production-1",), ("production", "edge"), {"edge": "edge/production-1"}),
        (("reproduction",), ("production", "edge"), {"CHANNEL": "reproduction"}),
    ],
)
def test_a_cluster_follows_the_channel_whose_name_its_folder_has(
    clone: Path,
    left: Callable[..., list[str]],
    folders: tuple[str, ...],
    channels: tuple[str, ...],
    expected: dict[str, str],
) -> None:
    for folder in folders:
        bootstrap(clone, f"clusters/{folder}/flux-system")
    told = "\n".join(left("setup", *channels, *ACTION))
    moves = r"The cluster of clusters/(\S+), when (\S+) has .*\n\n(?:.+\n)+?\d+\. Let it follow: `(.*)`"
    found: dict[str, str] = {}
    for folder, channel, command in re.findall(moves, told):
        assert command == f"kubectl apply -f flux-manifests/{channel}"
        found[channel] = f"{found.get(channel, '')} {folder}".strip()
    assert found == expected
    chosen = len(expected.get("CHANNEL", "").split())
    assert told.count("Choose its channel, and take the name of that in place of CHANNEL below.") == chosen


def test_a_channel_without_a_folder_says_how_other_clusters_come_to_it(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    bootstrap(clone, "clusters/staging/flux-system")
    listed = left(*THREE)
    assert "#the-first-installation" in line(listed, "A cluster without Flux gets it from a channel")
    assert not any("needs the `verify` block alone" in it for it in listed)
    bootstrap(clone, "clusters/production/flux-system")
    (clone / CONFIG).unlink()
    assert not any("without Flux" in it for it in left("setup", "staging", "production", *ACTION, "--yes"))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"components": "a: b\n"}, "gotk-components.yaml cannot be read: no version"),
        ({"own": {"kustomization.yaml": "resources: [gotk-components.yaml, ../base]\n"}}, "refers to what is outside"),
        ({"own": {"kustomization.yaml": "resources: [gotk-sync.yaml]\n"}}, "lists gotk-sync.yaml in a way that"),
    ],
)
def test_a_folder_that_cannot_be_taken_over_is_named_and_only_the_first_is_needed(
    clone: Path, left: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], more: dict[str, str], reason: str
) -> None:
    bootstrap(clone, "clusters/production/flux-system", **more)  # type: ignore[arg-type]
    assert run([*THREE]) == 2
    told = capsys.readouterr().err
    assert "clusters/production/flux-system " in told
    assert reason in told
    assert "code unfit-cluster-folder" in told
    assert not (clone / ".github").exists()
    bootstrap(clone, "clusters/staging/flux-system")
    listed = left(*THREE)
    assert reason in line(listed, "`flux bootstrap` made clusters/production/flux-system too")
    assert not any("clusters/production" in it for it in listed if "made clusters/production" not in it)


def test_a_file_that_is_no_text_is_told(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bootstrap(clone, "clusters/production/flux-system")
    (folder / "logo.png").write_bytes(b"\x89PNG")
    assert run([*THREE]) == 2
    assert "clusters/production/flux-system has a file that is not text in UTF-8" in capsys.readouterr().err


def test_an_overlay_that_is_there_stays_and_says_where_the_components_are(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    bootstrap(clone, "clusters/production/flux-system", own={})
    own = clone / "mine"
    own.mkdir()
    for listed, components in (("gotk-components.yaml", "gotk-components.yaml"), ("x.yaml", None), (None, None)):
        (clone / CONFIG).unlink(missing_ok=True)
        (own / "x.yaml").write_text("a: b\n")
        (own / "kustomization.yaml").unlink(missing_ok=True)
        if listed:
            (own / "kustomization.yaml").write_text(f"resources: [{listed}]\n")
        left("setup", "production", *ACTION, "--overlay", "mine", "--yes")
        (artifact,) = parse_config(config(clone).encode(), "x").artifacts
        assert (artifact.overlay, artifact.components_file) == ("mine", components)
    (clone / CONFIG).unlink()
    left("setup", "production", *ACTION, "--yes")
    made = yaml.safe_load((clone / "flux/production/kustomization.yaml").read_text())
    assert made["resources"] == ["gotk-components.yaml"]
    (clone / CONFIG).unlink()
    told = left("setup", "production", *ACTION, "--overlay", "-", "--yes")
    assert not any("Keep as patches" in it for it in told)


def test_a_migration_by_dispatch_publishes_what_git_applied(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: ())
    scene.fleet.protections.clear()
    work, releases = scene.runner.workspace, str(scene.folder / "releases")
    capsys.readouterr()
    assert run(["render", "--flux-version", FIRST, "--log-level", "debug", "--releases", releases]) == 0
    components = capsys.readouterr().out
    clone = work.parent / "clone"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", PATH)
        patch.setenv("FLUX_RELEASES", releases)
        git(work.parent, "init", "-q", "-b", "main", "clone")
        for cluster in ("staging", "production"):
            bootstrap(clone, f"clusters/{cluster}/flux-system", components=components)
        patch.chdir(clone)
        assert run(["setup", "staging", "production", *ACTION, "--repository", "acme/fleet", "--branch", "main"]) == 0
        told = capsys.readouterr().out
        assert f"command init, artifact staging, to {FIRST}." in told
        (render,) = re.findall(r"`flux-manifests (render [^|]*) \| diff - clusters/staging/flux-system/gotk-co", told)
        assert run(shlex.split(render)) == 0
        assert capsys.readouterr().out == components
    shutil.copytree(clone, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    (work / "cosign.pub").write_text(signing_key().public.to_pem())
    text = config(work).replace("oci://ghcr.io/acme/flux-manifests:", "layout:road:").replace("after: 24h", "after: 0h")
    text = re.sub(r"    identity: .*\n.*\n", KEYED, text)
    (work / CONFIG).write_text(text + f"apiUrl: {scene.forge.url}\nupstream: {{verify: if-available}}\n")
    written = (path for top in (".github", "clusters") for path in (work / top).rglob("*.yaml"))
    scene.fleet.push("main", {path.relative_to(work).as_posix(): path.read_bytes() for path in written}, "keeper")
    scene.offer(FIRST)
    first = dispatch(scene, "init", artifact="staging", to=FIRST).through()
    promoted = dispatch(scene, "promote", artifact="production").through()
    assert first.outputs["digest"] == promoted.outputs["digest"]
    capsys.readouterr()
    assert run(["pull", "layout:road:production", "out", "--public-key", "cosign.pub"]) == 0
    kustomization = OWN["kustomization.yaml"].replace("- gotk-sync.yaml\n", "")
    applied = {**OWN, "kustomization.yaml": kustomization, "gotk-components.yaml": components}
    assert {it.name: it.read_text() for it in (work / "out").iterdir()} == applied
    last = [it for it in scene.run().summary.splitlines() if it.startswith("- **")]
    assert [it.partition(": ")[2] for it in last] == ["nothing to do"] * 2
