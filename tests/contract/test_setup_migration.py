"""`setup` in a repository that `flux bootstrap` made: what it takes over, and the way of each cluster."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from ci_automation.cli import run
from ci_automation.config.load import parse_config
from ci_automation.flux.options import DEFAULT_COMPONENTS, Options
from ci_automation.impact.overlay.builder import BuildFailed
from tests.contract.bootstrapped import OWN, SYNC, bootstrap, rendered, todo_of
from tests.contract.operating import CONFIG, dispatch
from tests.contract.scene import FIRST
from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci_automation.artifact.tree import Tree
    from ci_automation.impact.overlay.builder import Build
    from tests.contract.scene import Scene

ACTION = ("--action", "acme/ci-automation")
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tutorials/from-bootstrap.md").read_text()
EXTRA = Options(components=(*DEFAULT_COMPONENTS, "image-reflector-controller", "image-automation-controller"))
CLUSTERS = ("staging", "production-eu", "production-us", "stable")
FIVE = ("staging-1", "production-1", "production-2", "production-3", "production-4")
DEBUG = Options(log_level="debug")
THREE = ("setup", "staging", "production", "stable", *ACTION)
PATH = os.environ["PATH"]
KEYED = "    publicKey: cosign.pub\n  signing: {mode: key, key: cosign.key}\n"
ONLY_SYNC = "resources: [gotk-sync.yaml]\n"
REFERRED = {  # by its number in the tutorial
    r"Steps 1 to (\d+) of the list": "Commit the files",
    r"The command of step (\d+) prints nothing": "Add as patches",
    r"Run the loop of step (\d+), which": "set `prune: false`",
    r"Steps (\d+) to \d+ of the list, which": "Tick ",
    r"Steps \d+ to (\d+) of the list, which": "artifact stable",
    r"Then steps (\d+) and \d+\.": "Where kubectl and flux know",
    r"Then steps \d+ and (\d+)\.": "and type the token",
    r"\| (\d+) \| for one cluster: waits": "Move one cluster.",
    r"\| (\d+) \| leaves only": "delete Flux from their folders",
    r"\| (\d+) \| looks whether": "Let Git apply the rest",
    r"\| (\d+) \| lets Git delete": "set `prune: true`",
    r"Steps (\d+) and \d+ open": "delete Flux from their folders",
    r"Steps \d+ and (\d+) open": "set `prune: true`",
    r"so step (\d+) moves one": "Move one cluster.",
    r"After step (\d+) of a channel": "set `prune: true`",
    r"Step (\d+) ends that": "delete `paused: true`",
    r"Between steps (\d+) and \d+,": "Move one cluster.",
    r"Between steps \d+ and (\d+),": "Let Git apply the rest",
}
PROMOTED = ", then of production-us, each when it has its first digest"
MOST = 20  # boxes for three channels, whatever the number of clusters
GOAL = "\n- 4 of 4 clusters of `flux bootstrap` take Flux from there, "

SETTINGS = "Settings of acme/fleet, by an administrator: click, or paste the commands"
US = "Clusters of production-us, when production-us has its first digest"
ALL = "Clusters of staging, then of production, then of stable, each when it has its first digest"


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
    monkeypatch.setattr("ci_automation.cli.questions.existing_at", lambda _: None)
    monkeypatch.setattr("ci_automation.cli.questions.kustomize", lambda: None)
    return top


@pytest.fixture
def left(clone: Path) -> Callable[..., list[str]]:
    """Return what runs `setup` and returns the lines that are left to do."""

    def listed(*arguments: str) -> list[str]:
        assert run([*arguments]) == 0
        return todo_of(clone)

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


def block(lines: list[str], words: str, title: str = "") -> str:
    """Return the commands of the only step with these words, below a title."""
    below = lines[lines.index(title) :] if title else lines
    number = next(number for number, it in enumerate(below, 1) if words in it)
    return "\n".join(takewhile(lambda it: it.startswith("    "), below[number:]))


def of(channel: str, commands: str) -> str:
    """Return commands as a person pastes them for a channel: the first of a section names it, for the others."""
    first, there, rest = commands.partition("CHANNEL=staging")
    return f"{first}CHANNEL={channel}{rest}" if there else f"CHANNEL={channel}\n{commands}"


class Terminal:
    """A shell in a clone, whose programs for clusters write down how they are called and fail where they are told."""

    def __init__(self, clone: Path) -> None:
        self.clone, self.log, self.code, self.runs = clone, clone.parent / "log", 0, 0
        (programs := clone.parent / "programs").mkdir()
        for name in ("kubectl", "flux", "gh"):
            script = f'#!/bin/sh\necho "{name} $*" >> {self.log}\ncase " $* " in $FAILS) exit 1; esac\n'
            (programs / name).write_text(script)
            (programs / name).chmod(0o755)
        self.path = f"{programs}:{PATH}"
        git(clone.parent, "init", "-q", "--bare", "-b", "main", "origin.git")
        self.urls = ("-c", f"url.{clone.parent}/origin.git.insteadOf=https://github.com/acme/fleet")

    def run(self, commands: str, fails: str = "nothing") -> list[str]:
        """Return the calls that the commands make; a person pastes them, so that a failure alone ends nothing."""
        self.log.write_text("")
        self.runs += 1
        dated = f"date() {{ echo {self.runs}; }}\n{commands}"  # people do not paste twice within a second
        key, _, value = self.urls[1].partition("=")
        configured = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": key, "GIT_CONFIG_VALUE_0": value}
        environment = configured | {"PATH": self.path, "FAILS": fails, "HOME": str(self.clone.parent)}
        self.code = subprocess.run(["bash", "-c", dated], cwd=self.clone, env=environment, check=False).returncode
        return self.log.read_text().splitlines()

    def merge(self, commands: str) -> None:
        """Run the commands for a pull request, and merge it."""
        self.run(f"set -e\n{commands}")
        branch = subprocess.check_output(["git", "-C", str(self.clone), "branch", "--show-current"], text=True).strip()
        assert branch != "main"
        git(self.clone, "switch", "-q", "main")
        git(self.clone, "merge", "-q", "--ff-only", branch)
        git(self.clone, *self.urls, "push", "-q", "origin", "main")
        assert not subprocess.check_output(["git", "-C", str(self.clone), "status", "--porcelain"])


def moves(cluster: str, channel: str) -> list[str]:
    """Return the calls that move a cluster."""
    kubectl = f"kubectl --context {cluster}"
    wait = f"{kubectl} -n flux-system wait"
    return [
        f"{wait} kustomization flux-system --for=jsonpath={{.spec.prune}}=false --timeout=15m",
        f"flux --context {cluster} -n flux-system suspend kustomization flux-system",
        f"{kubectl} apply -f flux-manifests/{channel}",
        f"{wait} ocirepository,kustomization flux-manifests --for=condition=Ready --timeout=5m",
    ]


def resumes(cluster: str) -> list[str]:
    """Return the calls by which Git applies the rest again."""
    one = f"flux --context {cluster} -n flux-system"
    return [f"{one} reconcile source git flux-system", f"{one} resume kustomization flux-system"]


def test_the_tutorial_works_as_printed(clone: Path, left: Callable[..., list[str]]) -> None:
    for cluster in CLUSTERS:
        bootstrap(clone, f"clusters/{cluster}/flux-system", options=EXTRA)
    folders = {it.split()[0] for it in blocks("text")[0].splitlines()}
    assert folders == {f"clusters/{cluster}/flux-system" for cluster in CLUSTERS}
    terminal = Terminal(clone)
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "as flux bootstrap leaves it")
    setup, _ = blocks("sh")
    listed = left(*setup.split()[1:])
    assert "\n".join(listed) + "\n" == blocks("text")[1]
    assert blocks("yaml") == [config(clone).partition("\n")[2]]
    for words, step in REFERRED.items():
        (number,) = re.findall(words, PAGE)
        assert next(it for it in listed if step in it).startswith(f"{number}. ")

    def sync_of(cluster: str) -> str:
        return (clone / f"clusters/{cluster}/flux-system/gotk-sync.yaml").read_text()

    assert terminal.run(block(listed, "set `prune: false`")) == []
    assert all("prune: false" in sync_of(cluster) for cluster in CLUSTERS)
    terminal.merge(block(listed, "Commit the files"))
    assert not any("set `prune: false`" in it for it in left(*THREE, "--yes"))  # Git has it
    names = terminal.run(block(listed, "Where kubectl and flux know"))
    assert sorted(names) == sorted(f"kubectl config get-contexts {cluster}" for cluster in CLUSTERS)
    for channel, clusters in (("staging", CLUSTERS[:1]), ("production", CLUSTERS[1:3]), ("stable", CLUSTERS[3:])):

        def of_channel(words: str, channel: str = channel) -> str:
            return of(channel, block(listed, words, ALL))

        move = of_channel("Move one cluster.")
        assert terminal.run(move) == moves(clusters[0], channel)
        every = [call for cluster in clusters for call in moves(cluster, channel)]
        assert terminal.run(move.replace("MOST=1", "MOST=999")) == every
        assert terminal.run(of_channel("delete Flux from their folders")) == ["gh pr create --fill"]
        for cluster in clusters:
            folder = clone / f"clusters/{cluster}/flux-system"
            assert sorted(it.name for it in folder.iterdir()) == ["gotk-sync.yaml", "kustomization.yaml"]
            assert (folder / "kustomization.yaml").read_text() == ONLY_SYNC
        resumed = of_channel("Let Git apply the rest")
        assert terminal.run(resumed) == []  # main has Flux still
        git(clone, "update-ref", "-d", "refs/remotes/origin/main")
        assert terminal.run(resumed.replace("-q origin", "-q nowhere")) == []  # git does not know what main has
        terminal.merge("")
        if channel != "stable":  # of the others Git has a folder to compare with
            assert any(it.startswith(f"Clusters of {channel}") for it in left(*THREE, "--yes"))
            assert GOAL in (clone / ".github/flux-manifests.todo.md").read_text()
        assert terminal.run(resumed) == [call for cluster in clusters for call in resumes(cluster)]
        terminal.run(of_channel("set `prune: true`"))
        assert all("prune: true" in sync_of(cluster) for cluster in clusters)
        assert not (clone / f"flux-manifests/{channel}/clusters.txt").exists()
        terminal.merge("")
        assert not any(it.startswith("Clusters of") and f"of {channel}," in it for it in left(*THREE, "--yes"))
        goal = GOAL if channel != "stable" else "\n- Your clusters take"
        assert goal in (clone / ".github/flux-manifests.todo.md").read_text()
    ordinary = left(*THREE)
    assert line(ordinary, "A cluster without Flux gets it first")
    assert not any("gotk" in it for it in ordinary)
    terminal.run(block(ordinary, "Commit the files"))  # of a later run, in the same clone
    assert terminal.code == 0


def test_a_request_is_for_the_branch_as_it_is_merged(clone: Path, left: Callable[..., list[str]]) -> None:
    bootstrap(clone, "clusters/staging/flux-system")
    terminal = Terminal(clone)
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "as flux bootstrap leaves it")
    listed = left("setup", "staging", "--action", "acme/ci-automation")
    git(clone, *terminal.urls, "push", "-q", "origin", "main")
    terminal.run(block(listed, "Commit the files"))
    git(clone, "branch", "requested")
    git(clone, "switch", "-q", "main")
    git(clone, "merge", "-q", "--squash", "requested")
    git(clone, "commit", "-qm", "squashed")
    git(clone, *terminal.urls, "push", "-q", "origin", "main")
    git(clone, "switch", "-q", "requested")
    path = clone / CONFIG
    path.write_text(path.read_text().replace("version: 1\n", "version: 1 # ours\n"))
    fake = "date() { echo later; }\n"
    assert terminal.run(fake + block(listed, "delete `paused: true`")) == ["gh pr create --fill"]
    changed = ["git", "-C", str(clone), "log", "--format=%s", "--name-only", "main..signed-flux-later"]
    assert subprocess.check_output(changed, text=True).split("\n\n") == [
        "Let clusters follow signed artifacts",
        f"{CONFIG}\n",
    ]


def test_forty_clusters_have_few_boxes_and_each_its_name(clone: Path, left: Callable[..., list[str]]) -> None:
    clusters = {"staging": 3, "production": 27, "stable": 10}
    names = {channel: [f"{channel}-{number:02}" for number in range(count)] for channel, count in clusters.items()}
    for there in names.values():
        for name in there:
            bootstrap(clone, f"clusters/{name}/flux-system")
    listed = left(*THREE)
    steps = [it for it in listed if re.match(r"\d+\. ", it)]
    assert len(steps) <= MOST
    assert set(re.findall(r"\w+-\d\d\b", "\n".join(steps))) == {"staging-00"}  # whose files the artifact takes over
    decided, careful = listed[2].split(". Be careful with ")
    assert decided == "Decide first: steps 1, 2"
    marked = [it.partition(". ")[0] for it in steps if ". Careful: " in it]
    assert (careful.partition(":")[0], len(marked)) == (", ".join(marked), 3)  # prune twice, and the pause
    for channel, there in names.items():
        assert (clone / f"flux-manifests/{channel}/clusters.txt").read_text().split() == there
    move = of("production", block(listed, "Move one cluster.", ALL))
    terminal, (first, second, third) = Terminal(clone), (moves(name, "production") for name in names["production"][:3])
    rest = move.replace("MOST=1", "MOST=999")
    assert terminal.run(rest, fails="* production-02 apply *") == [*first, *second, *third[:3]]
    assert terminal.code == 1
    terminal.run(f"{rest}\ntrue", fails="* production-02 apply *")
    assert terminal.code == 0  # the shell in which it is pasted stays open
    unready = terminal.run(move, fails="*jsonpath*")
    assert unready == first[:1]  # nothing is suspended or applied before Git stops pruning


def test_the_secret_by_which_clusters_pull_can_be_made_again_and_its_token_is_typed(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for cluster in CLUSTERS:
        bootstrap(clone, f"clusters/{cluster}/flux-system")
    commands = block(left(*THREE), "and type the token when it waits")
    terminal = Terminal(clone)
    called = terminal.run(commands.replace("read -rs token", "read -rs token <<< s3cret"))
    names = [it.split()[2] for it in called]
    assert sorted(names) == sorted([*CLUSTERS, *CLUSTERS])
    assert sum("--docker-password=s3cret --dry-run=client -o yaml" in it for it in called) == len(CLUSTERS)
    assert sum(it.endswith(" apply -f -") for it in called) == len(CLUSTERS)
    terminal.run(commands.replace("read -rs token", "token=s3cret"), fails="* apply *")
    assert terminal.code == 1


def test_a_context_with_another_name_follows_the_name_of_its_cluster(
    clone: Path, left: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    for cluster in (*CLUSTERS, "production-1", "production-01"):
        bootstrap(clone, f"clusters/{cluster}/flux-system")
    listed = left(*THREE)
    names, arn = clone / "flux-manifests/production/clusters.txt", "arn:aws:eks:eu-west-1:1:cluster/eu"
    names.write_text(names.read_text().replace("production-eu", f"production-eu  {arn}").replace("01", "01 one"))
    assert "as `NAME CONTEXT`, and run `setup` again. This stops at" in line(
        listed, "Where kubectl and flux know a cluster by another name"
    )
    terminal = Terminal(clone)
    found = terminal.run(block(listed, "Where kubectl and flux know"))
    contexts = ["one", "production-1", arn, "production-us"]
    assert found == [f"kubectl config get-contexts {it}" for it in (*contexts, "stable", "staging")]
    move = of("production", block(listed, "Move one cluster.", ALL))
    assert terminal.run(move) == moves("one", "production")
    assert terminal.run(move.replace("MOST=1", "MOST=999")) == [it for at in contexts for it in moves(at, "production")]
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "as flux bootstrap leaves it")
    terminal.run(of("production", block(listed, "delete Flux from their folders")))
    assert (clone / "clusters/production-eu/flux-system/kustomization.yaml").read_text() == ONLY_SYNC
    for name in ("staging", "stable", "production-us", "production-1", "production-01"):
        shutil.rmtree(clone / f"clusters/{name}", ignore_errors=True)
    for name in ("staging", "stable"):
        (clone / f"flux-manifests/{name}/clusters.txt").unlink()
    bootstrap(clone, "clusters/production-eu/flux-system")
    names.write_text(f"production-eu {arn}\n")
    listed = left("setup", "--yes")
    assert names.read_text() == f"production-eu {arn}\n"
    assert terminal.run(block(listed, "Move production-eu.")) == moves(arn, "production")
    names.write_text("production-eu a b\n")
    assert run(["setup", "--yes"]) == 2
    assert "has the line 'production-eu a b', which is neither" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("channel", ["", "other"], ids=["none", "unknown"])
def test_the_commands_for_a_channel_that_is_none_change_nothing(
    clone: Path, left: Callable[..., list[str]], channel: str
) -> None:
    for cluster in CLUSTERS:
        bootstrap(clone, f"clusters/{cluster}/flux-system")
    listed = left(*THREE)
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "as flux bootstrap leaves it")
    terminal = Terminal(clone)
    for words in ("Move one cluster.", "delete Flux from their folders", "Let Git apply the rest", "set `prune: true`"):
        assert terminal.run(of(channel, block(listed, words, ALL))) == []
    assert not subprocess.check_output(["git", "-C", str(clone), "status", "--porcelain"])


def test_each_page_that_the_list_names_is_there(clone: Path, left: Callable[..., list[str]]) -> None:
    ordinary = left(*THREE)
    shutil.rmtree(clone / "clusters")  # an overlay with other files than the folders
    bootstrap(clone, "clusters/staging/flux-system")
    bootstrap(clone, "clusters/production/flux-system", own={})
    named = re.findall(r"/blob/HEAD/docs/(\S+?\.md)(?:#([\w-]+))?", "\n".join((*ordinary, *left(*THREE, "--yes"))))
    pages = {"guides/action.md", "guides/clusters.md", "guides/migration.md", "guides/troubleshooting.md"}
    assert {page for page, _ in named} == {*pages, "tutorials/from-bootstrap.md"}
    for page, anchor in named:
        titles = re.findall(r"^#+ (.+)$", (DOCS / page).read_text(), re.MULTILINE)
        assert anchor in {"", *(re.sub(r"[^\w -]", "", it).lower().replace(" ", "-") for it in titles)}


def test_the_names_of_clusters_are_written_last(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr("ci_automation.cli.setup.write_file", lambda path, _: written.append(path.name))
    for cluster in CLUSTERS:
        bootstrap(clone, f"clusters/{cluster}/flux-system")
    assert run([*THREE]) == 0
    assert written[-4:] == ["flux-manifests.todo.md", *["clusters.txt"] * 3]
    assert "clusters.txt" not in written[:-3]


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
    words = "In each kustomization.yaml leave only gotk-sync.yaml, and your patches of the objects in it."
    assert not any(words in it or "Take the patches" in it for it in left(*THREE))
    shutil.rmtree(clone / "clusters/flux-system")
    own = OWN["kustomization.yaml"] + "- {patch: '[]', target: {kind: Kustomization, name: flux-system}}\n"
    (folder / "kustomization.yaml").write_text(own)
    listed = left(*THREE)
    assert line(listed, "Take the patches at clusters/flux-system/kustomization.yaml:8 out of clusters/flux-system:")
    assert (clone / "clusters/flux-system/kustomization.yaml").read_text().splitlines()[7].startswith("- {patch: '[]'")
    assert line(listed, words)
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "as flux bootstrap leaves it")
    Terminal(clone).run(block(listed, words))
    assert (folder / "kustomization.yaml").read_text() == own
    assert not (folder / "gotk-components.yaml").exists()


def test_patches_of_one_cluster_s_sync_objects_are_never_overwritten(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    own = OWN["kustomization.yaml"] + "- {patch: '[]', target: {kind: Kustomization, name: flux-system}}\n"
    for name, written in (
        ("staging", OWN),
        ("production-a", OWN),
        ("production-b", {**OWN, "kustomization.yaml": own}),
    ):
        bootstrap(clone, f"clusters/{name}/flux-system", own=written)
    listed = left(*THREE)
    assert line(listed, ", production-b differs from staging")  # it does not move yet
    assert "leave only" not in line(listed, "delete Flux from their folders")
    page = (clone / ".github/flux-manifests.todo.md").read_text()
    assert "\n- 2 of 3 clusters of `flux bootstrap` take Flux from there, " in page
    assert "\nOn the way: 3 runs that a reviewer approves, and 4 pull requests.\n" in page
    (clone / "flux-manifests/production/clusters.txt").write_text("production-a\nproduction-b\n")
    listed = left(*THREE, "--yes")
    told = line(listed, "In kustomization.yaml of production-b leave only gotk-sync.yaml, and your patches of the obj")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "as flux bootstrap leaves it")
    Terminal(clone).run(of("production", block(listed, told)))
    folders = [clone / f"clusters/{name}/flux-system" for name in ("production-a", "production-b")]
    assert [(it / "kustomization.yaml").read_text() for it in folders] == [ONLY_SYNC, own]
    sync = folders[0] / "gotk-sync.yaml"  # of a folder without Flux
    sync.write_text(sync.read_text().replace("prune: true", "prune: false"))
    bootstrap(clone, "clusters/production-b/flux-system", own={**OWN, "kustomization.yaml": own})
    assert "of production-a, production-b leave" in line(left(*THREE, "--yes"), "delete Flux from their folders")


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
    (words,) = re.findall(r"flux-manifests (render .*?)\) &&", block(listed, "Add as patches"))
    given = dict(it.removeprefix("--").split("=") for it in words.split()[3:])
    assert Options().with_flags(given) == options
    home = options.namespace
    assert f"kubectl --context production -n {home} wait ocirepository" in block(listed, "Move production.")
    source, _ = yaml.safe_load_all((clone / "flux-manifests/production/sync.yaml").read_text())
    assert source["metadata"]["namespace"] == home
    assert folder.is_dir()


def test_objects_are_those_that_the_oldest_cluster_of_the_channel_knows(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for cluster, version in (("staging", "v2.8.8"), ("production-eu", "v2.5.1"), ("production-us", "v2.8.8")):
        bootstrap(clone, f"clusters/{cluster}/flux-system", version=version)
    listed = left(*THREE)
    assert line(listed, "Update to v2.8.8 in Git").endswith(
        " when it moves: production-eu (v2.5.1). No step below moves it until then. Then run `setup` again."
    )
    names = clone / "flux-manifests/production/clusters.txt"
    assert names.read_text() == "production-us\n"
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
    assert " when it moves: staging (v2.8.6). No step" in line(listed, "Update to v2.8.8 in Git")
    assert line(listed, "command init, artifact staging, to v2.8.8.")
    assert "render --flux-version v2.8.8)" in block(listed, "Add as patches")


def test_each_folder_that_differs_is_named_with_what_differs(clone: Path, left: Callable[..., list[str]]) -> None:
    edited = rendered("v2.8.8").replace("replicas: 1", "replicas: 2")
    for cluster, more in {
        "staging": {},
        "production-a": {"own": {**OWN, "memory.yaml": "[]\n", "more.yaml": "a: b\n"}},
        "production-b": {"options": Options(log_level="debug")},
        "production-c": {"components": edited},
        "production-d": {},
        "production-e": {"options": Options(log_level="debug")},
        "production-f": {"own": {**OWN, "gotk-sync.yaml": SYNC.replace("name: flux-system", "name: own")}},
    }.items():
        bootstrap(clone, f"clusters/{cluster}/flux-system", **more)  # type: ignore[arg-type]
    listed = left(*THREE)
    told = {
        "production-a": "memory.yaml and more.yaml (added)",
        "production-b and production-e": "options of `flux install` (--log-level=debug)",
        "production-c": "gotk-components.yaml",
        "production-f": "gotk-sync.yaml",
    }
    assert sum(" from staging: " in it for it in listed) == len(told)
    for named, what in told.items():
        verb = "differ" if " and " in named else "differs"
        found = line(listed, f". Unlike 2 of 7 folders, {named} {verb} from staging: {what}. ")
        assert found.endswith("/docs/guides/migration.md#folders-that-differ")
    names = clone / "flux-manifests/production/clusters.txt"
    assert names.read_text() == "production-d\n"
    names.write_text("production-d\nproduction-b\n")  # as the guide says, once that is settled
    settled = left(*THREE, "--yes")
    assert names.read_text() == "production-b\nproduction-d\n"
    assert line(settled, "Move one cluster.")
    assert "Steps below move it all the same" in line(settled, "folders, production-b differs")
    assert "No step below moves it" in line(settled, "folders, production-e differs")
    assert "## Folders that differ\n" in (DOCS / "guides/migration.md").read_text()


def test_options_that_differ_are_told_as_flags_and_only_own_files_get_a_diff(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    mirror = Options(registry="registry.acme.example/fluxcd", image_pull_secret="regcred")
    for name in ("staging", "production-a", "production-b"):
        bootstrap(clone, f"clusters/{name}/flux-system", options=Options(log_level="debug"))
    bootstrap(clone, "clusters/stable-a/flux-system", options=mirror)
    bootstrap(clone, "clusters/stable-b/flux-system", options=mirror, own={**OWN, "x.yaml": "a: b\n"})
    listed = left(*THREE)
    flags = "--image-pull-secret=regcred --registry=registry.acme.example/fluxcd, and no --log-level"
    assert f"stable-a differs from staging: options of `flux install` ({flags}). " in line(listed, ", stable-a differs")
    assert block(listed, ", stable-a differs") == ""
    told = line(listed, ", stable-b differs")
    assert f"stable-b differs from staging: x.yaml (added) and options of `flux install` ({flags}). " in told
    (command,) = block(listed, told).split("\n")
    ran = subprocess.run(command.split(), cwd=clone, capture_output=True, text=True, check=False)
    assert "Only in clusters/stable-b/flux-system: x.yaml\n" in ran.stdout
    assert "kind: Deployment" not in ran.stdout


def test_most_folders_are_the_model_and_the_list_says_who_has_what(clone: Path, left: Callable[..., list[str]]) -> None:
    patched = {**OWN, "kustomization.yaml": OWN["kustomization.yaml"] + "namePrefix: a-\n"}
    own = {
        "staging-01": patched,
        "staging-02": OWN,
        "production-01": patched,
        "production-02": OWN,
        "production-03": OWN,
        "production-04": {**OWN, "kustomization.yaml": OWN["kustomization.yaml"] + "namePrefix: b-\n"},
        "stable-01": {
            "kustomization.yaml": "resources: [gotk-components.yaml, x.yaml]\nnamespace: b\n",
            "x.yaml": "a: b\n",
        },
        "stable-02": {**OWN, "kustomization.yaml": OWN["kustomization.yaml"] + "# of ours\n"},
    }
    for name, written in own.items():
        bootstrap(clone, f"clusters/{name}/flux-system", own=written)
    listed = left(*THREE)
    assert (clone / "clusters/flux-system/memory.yaml").exists()
    assert "namePrefix" not in (clone / "clusters/flux-system/kustomization.yaml").read_text()
    start = "Unlike 3 of 8 folders, "
    named = "staging-01, production-01 and production-04"
    told = f"{start}{named} differ from staging-02: kustomization.yaml (adds namePrefix). No step"
    assert line(listed, told)
    shown = [it.strip() for it in block(listed, told).splitlines()]
    ours = "clusters/staging-02/flux-system"
    assert shown == [f"diff -ru {ours} clusters/production-{number}/flux-system" for number in ("01", "04")]
    for command, added in zip(shown, ("a-", "b-"), strict=True):
        ran = subprocess.run(command.split(), cwd=clone, capture_output=True, text=True, check=False)
        assert f"\n+namePrefix: {added}\n" in ran.stdout
    fields = "lacks apiVersion, lacks kind, adds namespace, lacks patches, other resources"
    files = f"kustomization.yaml ({fields}), memory.yaml (missing) and x.yaml (added)"
    assert line(listed, f"{start}stable-01 differs from staging-02: {files}. No step")
    assert line(listed, f"{start}stable-02 differs from staging-02: kustomization.yaml. No step")
    assert not any("That is all of" in it for it in listed)


def test_the_folder_that_was_taken_over_stays_the_model_when_most_are_like_another(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for name in ("staging-01", "staging-02", "staging-03", "production-01", "production-02"):
        bootstrap(clone, f"clusters/{name}/flux-system", own={} if "production" in name else OWN)
    left(*THREE)
    for name in ("staging-01", "staging-02"):  # as clusters that have moved
        (clone / f"clusters/{name}/flux-system/gotk-components.yaml").unlink()
    assert line(
        left(*THREE, "--yes"), "Unlike 1 of 3 folders, production-01 and production-02 differ from staging-03: "
    )
    assert not (clone / "flux-manifests/production/clusters.txt").exists()


@pytest.mark.parametrize("signing", [(), ("--signing", "key")], ids=["keyless", "key"])
def test_a_cluster_that_differs_gets_a_channel_of_its_own_by_the_command_of_the_list(
    clone: Path, left: Callable[..., list[str]], signing: tuple[str, ...]
) -> None:
    for name in ("staging", "production-eu", "production-us", "stable"):
        own = {**OWN, "memory.yaml": OWN["memory.yaml"].replace("2Gi", "4Gi")} if name == "production-us" else OWN
        bootstrap(clone, f"clusters/{name}/flux-system", own=own)
    listed = left(*THREE, *signing)
    told = line(listed, "production-us differs from staging: memory.yaml. No step below moves it until that is")
    ((command,),) = [re.findall(r"names it\. `flux-manifests (.*?)` gives it a channel of its own", told)]
    listed = left(*command.split(), "--yes")
    assert not any("differs from" in it for it in listed)
    files = "\n".join(listed[listed.index("Files") : listed.index(SETTINGS)])
    order = re.findall(r"^\d+\. (Read \S+|Careful: set|Commit)", files, re.MULTILINE)
    assert order == ["Read clusters/flux-system:", "Read flux/production-us:", "Careful: set", "Commit"]
    for name in ("staging", "production-us"):
        assert listed.index(line(listed, f"delete `paused: true` below `name: {name}`")) > listed.index("At last")
    assert [it.name for it in parse_config(config(clone).encode(), CONFIG).artifacts if it.paused] == [
        "staging",
        "production-us",
    ]
    first, *_, last = parse_config(config(clone).encode(), CONFIG).artifacts
    assert (last.name, last.overlay, last.promote) == ("production-us", "flux/production-us", None)
    assert (first.overlay, first.signing.mode) == ("clusters/flux-system", last.signing.mode)
    folder = clone / "clusters/production-us/flux-system"
    taken = {it.name: it.read_text() for it in (clone / "flux/production-us").iterdir()}
    assert taken["memory.yaml"] == (folder / "memory.yaml").read_text() != OWN["memory.yaml"]
    assert sorted(taken) == ["kustomization.yaml", "memory.yaml"]
    names = {it.parent.name: it.read_text().split() for it in (clone / "flux-manifests").glob("*/clusters.txt")}
    assert (names["production"], names["production-us"]) == (["production-eu"], ["production-us"])
    for words in (
        "set `prune: false`",
        "Where kubectl and flux know",
        "and type the token when it waits",
        "Look in this clone",
    ):
        assert line(listed, words)  # once for all clusters: to make a Secret twice fails
    assert "kubectl --context production-us apply -f flux-manifests/production-us &&" in block(listed, "Move prod", US)
    assert listed.index("At last") > listed.index(US)
    before = {path: path.read_text() for path in clone.rglob("*") if path.is_file() and ".git/" not in str(path)}
    assert left("setup", "--yes") == listed
    assert {path: path.read_text() for path in before} == before


def test_a_cluster_that_needs_a_patch_gets_a_promoted_channel_by_the_commands_of_the_list(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for name in ("staging", "production-eu", "production-us", "stable"):
        own = {**OWN, "memory.yaml": OWN["memory.yaml"].replace("2Gi", "4Gi")} if name == "production-us" else OWN
        bootstrap(clone, f"clusters/{name}/flux-system", own=own)
    told = line(left(*THREE), "production-us differs from staging")
    assert "with its files, which is not promoted: it gets patches at once. If a patch is all that" in told
    (command,) = re.findall(r"`flux-manifests (setup \S+ \S+)` gives it a promoted one", told)
    told = line(left(*command.split(), "--yes"), "production-us differs from staging")
    assert "`flux-manifests setup" not in told  # it has a channel
    ((add, fields),) = re.findall(r"as `(sync: .*?)` below `name: production-us` .*`(echo .*?)`, and run", told)
    patched = add.replace("[...]", "[{patch: '[]', target: {kind: Deployment}}]")
    (clone / CONFIG).write_text(
        config(clone).replace("  - name: production-us\n", f"  - name: production-us\n    {patched}\n")
    )
    Terminal(clone).run(fields)
    listed = left("setup", "--yes")
    assert "it keeps what `sync` of production-us gives it" in line(listed, "production-us differs")
    assert line(listed, PROMOTED)
    *_, last = parse_config(config(clone).encode(), CONFIG).artifacts
    assert (last.name, last.promote and last.promote.source) == ("production-us", "production")
    _, applied = yaml.safe_load_all((clone / "flux-manifests/production-us/sync.yaml").read_text())
    assert applied["spec"]["patches"] == [{"patch": "[]", "target": {"kind": "Deployment"}}]


def test_the_commands_of_the_guide_for_a_cluster_that_differs_keep_what_it_has(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    page = (DOCS / "guides/one-cluster-differs.md").read_text()
    page = re.sub(r"^## A value of each cluster\n.*?(?=^## )", "", page, flags=re.MULTILINE | re.DOTALL)
    promote, name, again, follow, rendered_one = re.findall(r"^```sh\n(.*?)\n```", page, re.MULTILINE | re.DOTALL)
    settings = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    more = OWN["memory.yaml"].replace("2Gi", "4Gi")
    for cluster in CLUSTERS:
        own = {**OWN, "memory.yaml": more} if cluster == "production-us" else OWN
        bootstrap(clone, f"clusters/{cluster}/flux-system", own=own)
    left(*THREE)
    before = config(clone)
    terminal = Terminal(clone)

    left(*promote.split()[1:], "--yes")
    added = config(clone).replace(before, "")
    assert settings.startswith(added.rstrip("\n") + "\n")
    (clone / CONFIG).write_text(before + settings)
    terminal.run(name)
    listed = left(*again.split()[1:], "--yes")
    assert "; then artifact production-us. First digests" in line(listed, "command promote")
    assert line(listed, PROMOTED)
    source, applied = yaml.safe_load_all((clone / "flux-manifests/production-us/sync.yaml").read_text())
    others = [*yaml.safe_load_all((clone / "flux-manifests/production/sync.yaml").read_text())]
    assert [it["metadata"] for it in (source, applied)] == [it["metadata"] for it in others]
    assert source["spec"]["ref"] == {"tag": "production-us"}
    (patch,) = applied["spec"]["patches"]
    assert yaml.safe_load(patch["patch"]) == yaml.safe_load(more)
    assert patch["target"] == yaml.safe_load(OWN["kustomization.yaml"])["patches"][0]["target"]
    assert terminal.run(follow) == [follow]

    (clone / CONFIG).write_text(before)
    shutil.rmtree(clone / "flux-manifests/production-us")
    left(*rendered_one.split()[1:], "--yes")
    *_, last = parse_config(config(clone).encode(), CONFIG).artifacts
    assert (last.name, last.overlay, last.promote) == ("production-us", "flux/production-us", None)
    assert (clone / "flux/production-us/memory.yaml").read_text() == more


class Building:
    """A kustomize that knows JSON patches of one object by its name, and the new names of images."""

    def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed, ...]:
        """Return the builds."""
        return tuple(self._built(tree) for tree, _ in wanted)

    def _built(self, tree: Tree) -> str | BuildFailed:
        found = yaml.safe_load(tree["kustomization.yaml"])
        values = [it for path in found["resources"] for it in yaml.safe_load_all(tree[path].decode())]
        for entry in found.get("patches", ()):
            if not (names := [it for it in values if self._is_hit(it, entry["target"])]):
                return BuildFailed("no such object")
            for operation in yaml.safe_load(tree[entry["path"]] if "path" in entry else entry["patch"]):
                self._apply(operation, names[0])
        text = yaml.safe_dump_all(values)
        for image in found.get("images", ()):
            text = text.replace(f"{image['name']}:", f"{image['newName']}:")
        return text

    def _is_hit(self, value: dict[str, Any], target: dict[str, str]) -> bool:
        return (value["kind"], value["metadata"]["name"]) == (target["kind"], target.get("name"))

    def _apply(self, operation: dict[str, Any], value: Any) -> None:
        *above, last = (int(it) if it.isdigit() else it for it in operation["path"].split("/")[1:])
        for part in above:
            value = value[part]
        if last == "-":
            value.append(operation["value"])
        else:
            value[last] = operation["value"]


@pytest.fixture
def building(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001  # which has none
    """Let `setup` have a kustomize."""
    monkeypatch.setattr("ci_automation.cli.questions.kustomize", Building)


@pytest.mark.usefixtures("building")
@pytest.mark.parametrize("version", ["v2.8.8", "v2.8.7"])
def test_a_patch_with_another_value_comes_into_a_promoted_channel_if_kustomize_builds_the_same(
    clone: Path, left: Callable[..., list[str]], version: str
) -> None:
    more = OWN["memory.yaml"].replace("2Gi", "4Gi")
    for name in CLUSTERS:
        bootstrap(clone, f"clusters/{name}/flux-system")
    bootstrap(clone, "clusters/production-us/flux-system", own={**OWN, "memory.yaml": more}, version=version)
    told = line(left(*THREE), "production-us differs from staging: memory.yaml")
    (command,) = re.findall(r"Only patches differ: `flux-manifests (.*?)` gives it a channel of its own, prom", told)
    listed = left(*command.split(), "--yes")
    names = clone / "flux-manifests/production-us/clusters.txt"
    if version != "v2.8.8":
        assert not names.exists()
        names.write_text("production-us\n")
        listed = left("setup", "--yes")
        assert "Steps below move it all the same, since clusters.txt names it." in line(listed, "Update to v2.8.8 in")
    assert not any("differs from" in it for it in listed)
    told = line(listed, "Read `sync` of production-us in .github/flux-manifests.yaml: it has the patches that the")
    assert told.endswith("lacks, from clusters/production-us/flux-system. With it, kustomize builds the same objects.")
    assert names.read_text() == "production-us\n"
    _, applied = yaml.safe_load_all((clone / "flux-manifests/production-us/sync.yaml").read_text())
    target = {"kind": "Deployment", "name": "source-controller"}
    assert applied["spec"]["patches"] == [{"patch": more, "target": target}]
    assert left("setup", "--yes") == listed


@pytest.mark.usefixtures("building")
@pytest.mark.parametrize(
    "own",
    [
        {"memory.yaml": "- {op: add, path: /spec/template/spec/containers/0/args/-, value: --more}\n"},
        {"memory.yaml": "- {op: add, path: /metadata/annotations, value: {a: b}}\n", "kustomization.yaml": "typo"},
        {"gotk-sync.yaml": SYNC.replace("name: flux-system", "name: fleet").replace("PATH", "./clusters")},
        {"kustomization.yaml": "resources: [gotk-components.yaml]\npatches: [{target: {kind: Deployment}}]\n"},
        {"kustomization.yaml": "resources: [gotk-components.yaml, gotk-sync.yaml\n"},
    ],
    ids=["adds to the other", "does not build", "other names in gotk-sync", "no text", "no YAML"],
)
def test_a_patch_that_comes_out_otherwise_is_for_a_person(
    clone: Path, left: Callable[..., list[str]], own: dict[str, str]
) -> None:
    if own.get("kustomization.yaml") == "typo":
        own = {**own, "kustomization.yaml": OWN["kustomization.yaml"].replace("name: source", "name: sauce")}
    for name in CLUSTERS:
        bootstrap(clone, f"clusters/{name}/flux-system", own={**OWN, **(own if name == "production-us" else {})})
    listed = left(*THREE)
    assert not any("Only patches differ" in it for it in listed)
    assert "production-us\n" not in (clone / "flux-manifests/production/clusters.txt").read_text()


@pytest.mark.usefixtures("building")
def test_a_channel_whose_sync_gives_clusters_the_same_objects_gets_them(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for name in ("staging-1", "staging-2", "production-1"):
        bootstrap(clone, f"clusters/{name}/flux-system")
    bootstrap(clone, "clusters/stable-1/flux-system", options=Options(registry="r.acme.example/fluxcd"))
    left(*THREE)
    whole = [f"{{name: ghcr.io/fluxcd/{it}, newName: r.acme.example/fluxcd/{it}}}" for it in DEFAULT_COMPONENTS]
    before, names = config(clone).partition("    sync:")[0], clone / "flux-manifests/stable/clusters.txt"
    names.unlink()
    sync = f"    sync: {{kustomization: {{images: [{', '.join(whole)}]}}}}\n"
    less = sync.replace(f", {whole[-1]}", "")
    (clone / CONFIG).write_text(before.rstrip("\n") + "\n" + less)
    assert line(left("setup", "--yes"), "stable-1 differs from")
    assert not names.exists()
    (clone / CONFIG).write_text(before.rstrip("\n") + "\n" + sync)
    listed = left("setup", "--yes")
    assert names.read_text() == "stable-1\n"
    assert line(listed, "Read `sync` of stable in").endswith(
        " what the artifact lacks, from clusters/stable-1/flux-system. With it, kustomize builds the same objects."
    )
    (clone / CONFIG).write_text(before.rstrip("\n") + "\n" + less)
    told = line(left("setup", "--yes"), "stable-1 differs from")
    lost = "loses the rest, in Deployment flux-system/notification-controller. To leave it out"
    assert f"Of what differs it keeps what `sync` of stable gives it, and {lost}" in told


def test_what_does_not_fit_in_sync_is_told_before_anything_else(
    clone: Path, left: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Plain:
        def builds(self, wanted: Sequence[Build]) -> tuple[str, ...]:
            return tuple(tree["gotk-components.yaml"].decode() for tree, _ in wanted)

    for name in CLUSTERS:
        bootstrap(clone, f"clusters/{name}/flux-system")
    left(*THREE)
    dead = "    sync: {kustomization: {patches: [{target: {kind: Deployment, name: typo}, patch: '[]'}]}}\n"
    (clone / CONFIG).write_text(config(clone).rstrip("\n") + f"\n{dead}")
    told = "Look at `sync` of stable in .github/flux-manifests.yaml: the patch of Deployment typo in "
    assert not any(told in it for it in left("setup", "--yes"))
    monkeypatch.setattr("ci_automation.cli.questions.kustomize", Plain)
    listed = left("setup", "--yes")
    assert line(listed, told).endswith(
        "`sync.kustomization` matches nothing. If that is a mistake, correct it, and run `setup` again."
    )
    assert listed.index(line(listed, told)) < listed.index("Files")


def test_what_two_folders_have_alike_is_built_once_and_said_at_a_terminal(
    clone: Path, left: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Build] = []
    said: list[str] = []

    class Counting:
        def builds(self, wanted: Sequence[Build]) -> tuple[str, ...]:
            asked.extend(wanted)
            return tuple(tree["gotk-components.yaml"].decode() for tree, _ in wanted)

    more = OWN["memory.yaml"].replace("2Gi", "4Gi")
    for name in (*CLUSTERS, "stable-eu", "stable-us"):
        own = {**OWN, "memory.yaml": more} if "production-" in name else OWN
        bootstrap(clone, f"clusters/{name}/flux-system", own=own)
    monkeypatch.setattr("ci_automation.cli.questions.kustomize", Counting)
    monkeypatch.setattr("ci_automation.cli.questions.progress", lambda **_: said.append)
    left(*THREE)
    patched = [it for it in asked if b"4Gi" in (it[0].by_path.get("memory.yaml") or it[0].files[0]).content]
    assert len(patched) == 1
    unfit = [f"building clusters/staging/flux-system with `sync` of {it}" for it in ("staging", "production", "stable")]
    assert said == ["building clusters/production-eu/flux-system with kustomize", *unfit]


@pytest.mark.usefixtures("building")
def test_a_folder_of_which_kustomize_builds_the_same_moves_with_the_others(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for name in CLUSTERS:
        own = {**OWN, "notes.txt": "for people\n"} if name == "production-us" else OWN
        bootstrap(clone, f"clusters/{name}/flux-system", own=own)
    told = "Look at what differs in clusters/production-us/flux-system: kustomize builds the same objects as of "
    assert line(left(*THREE), told).endswith("of clusters/staging/flux-system.")
    assert (clone / "flux-manifests/production/clusters.txt").read_text() == "production-eu\nproduction-us\n"


INLINE = """\
- patch: |
    - op: add
      path: /spec/template/spec/containers/0/args/-
      value: --concurrent=20
  target: {kind: Deployment, labelSelector: app=a}
"""
FILE = "- path: more.yaml\n  target: {kind: Deployment, labelSelector: app=a}\n"


@pytest.mark.parametrize("patches", [INLINE, FILE], ids=["inline", "file"])
def test_patches_that_one_cluster_has_come_into_a_promoted_channel_by_the_command_of_the_list(
    clone: Path, left: Callable[..., list[str]], patches: str
) -> None:
    (patch,) = yaml.safe_load(INLINE)
    own = {**OWN, "kustomization.yaml": OWN["kustomization.yaml"] + patches}
    own |= {"more.yaml": patch["patch"]} if patches == FILE else {}
    for name in CLUSTERS:
        bootstrap(clone, f"clusters/{name}/flux-system", own=own if name == "production-us" else OWN)
    told = line(left(*THREE), "Unlike 3 of 4 folders, production-us differs from staging: kustomization.yaml")
    (command,) = re.findall(
        r"Only patches differ: `flux-manifests (.*?)` gives it a channel of its own, promoted",
        told,
    )
    listed = left(*command.split(), "--yes")
    assert not any("differs from" in it for it in listed)
    told = line(
        listed, "Read `sync` of production-us in .github/flux-manifests.yaml: it has the patches that the artifact"
    )
    assert told.endswith(
        "lacks, from clusters/production-us/flux-system. There is no kustomize here, so nothing proves that clusters "
        "get the same objects: build both yourself, or run `setup` again on Linux with kustomize 5."
    )
    assert (clone / "flux-manifests/production-us/clusters.txt").read_text() == "production-us\n"
    assert line(listed, PROMOTED)
    *_, last = parse_config(config(clone).encode(), CONFIG).artifacts
    assert (last.name, last.promote and last.promote.source) == ("production-us", "production")
    assert "          - patch: |\n              - op: add\n" in config(clone)  # which a person reads
    for name, expected in {"production-us": [patch], "production": None}.items():
        _, applied = yaml.safe_load_all((clone / f"flux-manifests/{name}/sync.yaml").read_text())
        assert applied["spec"].get("patches") == expected
    before = config(clone)
    assert left("setup", "--yes") == listed
    assert config(clone) == before


def test_patches_of_all_clusters_of_a_new_channel_come_into_its_objects(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    own = {**OWN, "kustomization.yaml": OWN["kustomization.yaml"] + INLINE}
    for name in ("staging-1", "staging-2", "staging-3", "production-eu", "production-us"):
        bootstrap(clone, f"clusters/{name}/flux-system", own=own if "production" in name else OWN)
    listed = left(*THREE)
    assert not any("from staging-1:" in it for it in listed)
    assert (clone / "flux-manifests/production/clusters.txt").read_text() == "production-eu\nproduction-us\n"
    _, production, _ = parse_config(config(clone).encode(), CONFIG).artifacts
    assert production.sync
    assert production.sync.kustomization == {"patches": yaml.safe_load(INLINE)}


def test_patches_for_a_channel_that_the_configuration_has_are_told_as_it_takes_them(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for name in CLUSTERS:
        bootstrap(clone, f"clusters/{name}/flux-system")
    left("setup", "staging", "production", "production-us", *ACTION)
    usual = "  sync: {kustomization: {patches: [{patch: '[]', target: {kind: Role}}], timeout: 3m}}\n"
    before = config(clone).replace("artifacts:\n", f"{usual}artifacts:\n")
    (clone / CONFIG).write_text(before)
    (clone / "flux-manifests/production-us/clusters.txt").unlink()
    own = {**OWN, "kustomization.yaml": OWN["kustomization.yaml"] + INLINE}
    bootstrap(clone, "clusters/production-us/flux-system", own=own)
    told = line(left("setup", "--yes"), "production-us differs from")
    (add,) = re.findall(r"has the channel production-us: write `(sync: .*)` below `name: production-us`", told)
    (clone / CONFIG).write_text(before.replace("  - name: production-us\n", f"  - name: production-us\n    {add}\n"))
    assert not any("differs from" in it for it in left("setup", "--yes"))
    assert (clone / "flux-manifests/production-us/clusters.txt").read_text() == "production-us\n"
    _, applied = yaml.safe_load_all((clone / "flux-manifests/production-us/sync.yaml").read_text())
    assert [it["patch"] for it in applied["spec"]["patches"]] == ["[]", yaml.safe_load(INLINE)[0]["patch"]]
    assert applied["spec"]["timeout"] == "3m"


def test_patches_of_a_new_channel_follow_those_of_all_channels(clone: Path, left: Callable[..., list[str]]) -> None:
    own = {**OWN, "kustomization.yaml": OWN["kustomization.yaml"] + INLINE}
    for name in CLUSTERS:
        bootstrap(clone, f"clusters/{name}/flux-system", own=own if name == "production-us" else OWN)
    left(*THREE)
    usual = "  sync: {kustomization: {patches: [{patch: '[]', target: {kind: Role}}], timeout: 3m}}\n"
    (clone / CONFIG).write_text(config(clone).replace("artifacts:\n", f"{usual}artifacts:\n"))
    left("setup", "production", "production-us", "--yes")
    *_, last = parse_config(config(clone).encode(), CONFIG).artifacts
    assert last.sync
    patches = [{"patch": "[]", "target": {"kind": "Role"}}, *yaml.safe_load(INLINE)]
    assert last.sync.kustomization == {"patches": patches, "timeout": "3m"}


@pytest.mark.parametrize(
    "change",
    [
        {"patches:\n": f"patches:\n{INLINE}"},  # before those of the others
        {"name: source-controller}\n": f"name: source-controller}}\n{INLINE}  options: {{allowNameChange: true}}\n"},
        {"name: source-controller}\n": "name: source-controller}\n- patch: ''\n"},
        {"name: source-controller}\n": f"name: source-controller}}\n{INLINE.replace('Deployment', 'Kustomization')}"},
        {"name: source-controller}\n": f"name: source-controller}}\n{INLINE}namePrefix: a-\n"},
        {"name: source-controller}\n": f"name: source-controller}}\n{INLINE}resources: ["},
        {"name: source-controller}\n": f"name: source-controller}}\n{INLINE}", "more": "a: b\n"},
    ],
)
def test_patches_are_taken_only_if_they_come_out_the_same(
    clone: Path, left: Callable[..., list[str]], change: dict[str, str]
) -> None:
    written = OWN["kustomization.yaml"]
    for before, after in change.items():
        written = written.replace(before, after)
    own = {**OWN, "kustomization.yaml": written, **({"more.yaml": "a: b\n"} if "more" in change else {})}
    for name in CLUSTERS:
        bootstrap(clone, f"clusters/{name}/flux-system", own=own if name == "production-us" else OWN)
    listed = left(*THREE)
    assert not any("Only patches differ" in it for it in listed)


@pytest.mark.parametrize("more", [{"options": Options(log_level="debug")}, {"own": {"gotk-sync.yaml": ""}}])
def test_patches_are_not_all_that_differs(clone: Path, left: Callable[..., list[str]], more: dict[str, Any]) -> None:
    own = {**OWN, "kustomization.yaml": OWN["kustomization.yaml"] + INLINE, **more.get("own", {})}
    for name in CLUSTERS:
        bootstrap(clone, f"clusters/{name}/flux-system", **({**more, "own": own} if name == "production-us" else {}))
    assert "Only patches" not in line(left(*THREE), "production-us differs from staging")


@pytest.mark.parametrize("whole", [False, True])
def test_the_last_folder_that_differs_from_the_overlay_does_not_become_the_model(
    clone: Path, left: Callable[..., list[str]], *, whole: bool
) -> None:
    for name in ("staging", "production-eu", "production-ap", "stable"):
        bootstrap(clone, f"clusters/{name}/flux-system", own={} if name == "production-ap" else OWN)
    assert "production-ap differs from staging" in "".join(left(*THREE))
    for name in ("staging", "production-eu", "stable"):  # as clusters that have moved
        if whole:
            shutil.rmtree(clone / f"clusters/{name}")
        else:
            (clone / f"clusters/{name}/flux-system/gotk-components.yaml").unlink()
    for names in clone.glob("flux-manifests/*/clusters.txt"):
        names.unlink()
    listed = left("setup", "--yes")
    told = line(listed, "production-ap differs from clusters/flux-system: ")
    assert "No step below moves it" in told
    assert listed[listed.index(told) + 1].strip() == "diff -ru clusters/flux-system clusters/production-ap/flux-system"
    assert not any("Move production-ap" in it or "has the files of" in it for it in listed)
    assert not [*clone.glob("flux-manifests/*/clusters.txt")]


def test_clusters_of_a_channel_that_is_not_named_move_only_by_a_list_that_is_there(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for name in ("staging", "production-eu", "production-us", "stable"):
        bootstrap(clone, f"clusters/{name}/flux-system")
    left(*THREE)
    names = clone / "flux-manifests/production/clusters.txt"
    names.unlink()
    listed = left("setup", "staging", "--yes")
    assert not names.exists()
    assert "flux-manifests/production/clusters.txt" not in "\n".join(listed)
    assert line(listed, "Clusters of staging, then of stable, each when it has its first digest")


def test_a_patch_of_a_whole_channel_is_told_as_such(clone: Path, left: Callable[..., list[str]]) -> None:
    for name in ("staging-01", "staging-02", "staging-03", "production-01", "production-02"):
        bootstrap(clone, f"clusters/{name}/flux-system", own={} if "production" in name else OWN)
    told = line(left(*THREE), "production-01 and production-02 differ from staging-01: ")
    assert " (missing). That is all of production in Git, and a channel can have patches of its own. No step" in told


def test_a_channel_with_another_registry_of_images_gets_that_for_each_controller(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    mirror = msgspec.structs.replace(EXTRA, registry="registry.acme.example/fluxcd", image_pull_secret="regcred")
    for name in ("staging-1", "production-1", "production-2"):
        bootstrap(clone, f"clusters/{name}/flux-system", options=EXTRA)
    for name in ("stable-1", "stable-2"):
        bootstrap(clone, f"clusters/{name}/flux-system", options=mirror)
    listed = left(*THREE)
    assert not any("differ from" in it for it in listed)
    told = line(listed, "Read `sync` of stable in")
    assert " from clusters/stable-1/flux-system and clusters/stable-2/flux-system. There is no kustomize here" in told
    names = clone / "flux-manifests/stable/clusters.txt"
    assert names.read_text() == "stable-1\nstable-2\n"
    *_, applied = yaml.safe_load_all((clone / "flux-manifests/stable/sync.yaml").read_text())
    assert applied["spec"]["images"] == [
        {"name": f"ghcr.io/fluxcd/{it}", "newName": f"registry.acme.example/fluxcd/{it}"} for it in EXTRA.components
    ]
    (patch,) = applied["spec"]["patches"]
    guide = (DOCS / "guides/one-cluster-differs.md").read_text()
    assert patch["patch"].strip().replace("regcred", "pull-images") in guide

    written, _, own = config(clone).partition("    sync:\n")  # as it was before `setup` knew this
    (clone / CONFIG).write_text(written)
    names.unlink()
    told = line(left("setup", "--yes"), "stable-1 and stable-2 differ from")
    (block,) = re.findall(r"To keep it, write `(sync: .*?)` below `name: stable`", told)
    assert yaml.safe_load(block) == yaml.safe_load(f"    sync:\n{own}")
    (clone / CONFIG).write_text(f"{written}    {block}\n")
    assert not any("differ from" in it for it in left("setup", "--yes"))
    assert names.read_text() == "stable-1\nstable-2\n"


def edit(folder: Path) -> None:
    """Change Flux's own components by hand."""
    path = folder / "gotk-components.yaml"
    assert "replicas: 1\n" in path.read_text()
    path.write_text(path.read_text().replace("replicas: 1\n", "replicas: 2\n", 1))


@pytest.mark.usefixtures("building")
def test_a_cluster_with_other_images_whose_components_were_edited_does_not_move(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for name in (*CLUSTERS, "stable-1", "stable-2"):
        options = Options(registry="r.acme.example/fluxcd" if name.startswith("stable-") else "ghcr.io/fluxcd")
        bootstrap(clone, f"clusters/{name}/flux-system", options=options)
    edit(clone / "clusters/stable-2/flux-system")
    shutil.rmtree(clone / "clusters/stable")
    told = line(left(*THREE), "stable-2 differs from staging: options of `flux install` (--registry=r.acme.example/fl")
    assert ") and gotk-components.yaml beside that, in Deployment flux-system/source-controller. No step below" in told
    assert (clone / "flux-manifests/stable/clusters.txt").read_text() == "stable-1\n"
    assert "newName: " in config(clone)
    shown = block(todo_of(clone), "Add as patches what this prints, if anything.")
    assert re.findall(r"clusters/(\S+)/flux-system/gotk-components", shown) == ["staging"]  # kustomize knows stable-1


@pytest.mark.parametrize("own", [{"version": "v2.8.6"}, {"options": Options(registry="r.acme.example/fluxcd")}, {}])
def test_what_was_edited_in_components_is_printed_by_the_commands_of_the_list(
    clone: Path, left: Callable[..., list[str]], own: dict[str, Any]
) -> None:
    for name in ("staging", "production-eu", "production-us"):
        bootstrap(clone, f"clusters/{name}/flux-system")
    bootstrap(clone, "clusters/stable-2/flux-system", **own)  # like it in version and options is no other
    shutil.copytree(clone / "clusters/stable-2/flux-system", clone.parent / "unedited")
    edit(clone / "clusters/stable-2/flux-system")
    listed = left(*THREE)
    if "version" in own:
        assert not (clone / "flux-manifests/stable/clusters.txt").exists()
        (clone / "flux-manifests/stable/clusters.txt").write_text("stable-2\n")
        listed = left(*THREE, "--yes")
    moving = {it for path in clone.glob("flux-manifests/*/clusters.txt") for it in path.read_text().split()}
    assert ("stable-2" in moving) is bool(own)  # nothing here proves what another version or registry makes of them
    commands = block(listed, "Add as patches what this prints, if anything")
    shown = re.findall(r"clusters/(\S+)/flux-system/gotk-components", commands)
    assert shown == ["staging", *(["stable-2"] if own else [])]
    program = clone.parent / "flux-manifests"  # renders what `flux bootstrap` wrote
    usual, other = (clone / it / "gotk-components.yaml" for it in ("clusters/staging/flux-system", "../unedited"))
    program.write_text(f'#!/bin/sh\ncase "$*" in *v2.8.6*|*registry*) cat {other} ;; *) cat {usual} ;; esac\n')
    program.chmod(0o755)
    environment = {"PATH": f"{clone.parent}:{PATH}"}
    ran = subprocess.run(["bash", "-c", commands], env=environment, capture_output=True, text=True, check=False)
    changed = ["<   replicas: 1", ">   replicas: 2"] if own else []
    assert ([it for it in ran.stdout.splitlines() if it[0] in "<>"], ran.stderr) == (changed, "")


MORE = {"own": {**OWN, "x.yaml": "a: b\n"}}  # what also differs beside the edit
OUTDATED = {"production-2": {"version": "v2.8.6"}}


@pytest.mark.parametrize(
    ("folders", "edited", "model", "alike", "beside"),
    [
        ({}, "production-4", "staging-1", 4, ""),
        (OUTDATED, "production-4", "staging-1", 4, ""),
        (OUTDATED, "staging-1", "production-1", 4, ""),
        ({name: {"version": "v2.8.6"} for name in FIVE[1:]}, "production-4", "staging-1", 4, " (beside production-1)"),
        ({name: {"options": DEBUG} for name in FIVE[3:]}, "production-4", "staging-1", 3, " (beside production-3)"),
        ({"production-4": MORE}, "production-4", "staging-1", 4, ""),
    ],
    ids=["alone", "outdated", "the first", "older ones", "other options", "more differs"],
)
def test_a_folder_whose_components_were_edited_is_left_out_and_named(
    clone: Path,
    left: Callable[..., list[str]],
    folders: dict[str, Any],
    edited: str,
    model: str,
    alike: int,
    beside: str,
) -> None:
    for name in FIVE:
        bootstrap(clone, f"clusters/{name}/flux-system", **folders.get(name, {}))
    edit(clone / f"clusters/{edited}/flux-system")
    for names in ("", *FIVE):  # such as an older release wrote
        for path in clone.glob("flux-manifests/production/clusters.txt"):
            path.write_text("".join(f"{it}\n" for it in FIVE[1:] if names))
        listed = left("setup", "staging", "production", *ACTION, "--yes")
        lists = "".join(it.read_text() for it in clone.glob("flux-manifests/*/clusters.txt"))
        assert edited not in lists.split()
        assert f"the files of clusters/{model}/flux-system " in line(listed, "Read clusters/flux-system")
        (told,) = (it for it in listed if edited in it and "gotk-components.yaml" in it and "from " in it)
        assert f". Unlike {alike} of 5 folders, {edited} differs from {model}: " in told
        assert f"gotk-components.yaml{beside}" in told
        assert "No step below moves" in told
        shown = [it.strip() for it in block(listed, told).splitlines()]
        ran = [subprocess.run(it.split(), cwd=clone, capture_output=True, text=True, check=False) for it in shown]
        changes = [it for each in ran for it in each.stdout.splitlines() if "replicas" in it and it[0] in "+-"]
        assert changes == ["-  replicas: 1", "+  replicas: 2"]


def test_the_copy_of_other_components_gives_an_edit_up(clone: Path, left: Callable[..., list[str]]) -> None:
    for name in FIVE:
        bootstrap(clone, f"clusters/{name}/flux-system")
    edit(clone / "clusters/production-4/flux-system")
    told = line(left("setup", "staging", "production", *ACTION), "production-4 differs")
    assert "A name in clusters.txt is not enough: " in told
    (path,) = re.findall(r"give it up by a copy of (\S+)\. ", told)
    shutil.copy(clone / path, clone / "clusters/production-4/flux-system")
    left("setup", "--yes")
    assert "production-4\n" in (clone / "flux-manifests/production/clusters.txt").read_text()


def test_a_move_that_has_begun_goes_on_and_tells_the_edit(clone: Path, left: Callable[..., list[str]]) -> None:
    for name in FIVE:
        bootstrap(clone, f"clusters/{name}/flux-system")
    left("setup", "staging", "production", *ACTION)
    edit(folder := clone / "clusters/production-4/flux-system")
    (folder / "gotk-sync.yaml").write_text(
        (folder / "gotk-sync.yaml").read_text().replace("prune: true", "prune: false")
    )
    listed = left("setup", "--yes")
    assert "production-4\n" in (clone / "flux-manifests/production/clusters.txt").read_text()
    assert "Steps below move" in (told := line(listed, "production-4 differs from staging-1: gotk-components.yaml"))
    assert "diff -ru " in block(listed, told)


def test_a_channel_whose_only_cluster_was_edited_has_an_empty_list(clone: Path, left: Callable[..., list[str]]) -> None:
    for name in ("staging-1", "staging-2", "production-1"):
        bootstrap(clone, f"clusters/{name}/flux-system")
    left("setup", "staging", "production", *ACTION)
    edit(clone / "clusters/production-1/flux-system")
    left("setup", "--yes")
    assert (clone / "flux-manifests/production/clusters.txt").read_text() == ""


def test_clusters_of_a_second_kind_get_a_channel_by_the_command_of_the_list(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for name in ("staging-1", "staging-2", "stable-1", "stable-2", "stable-3"):
        far = name in {"stable-2", "stable-3"}
        options = Options(registry="registry.acme.example/fluxcd") if far else Options()
        bootstrap(clone, f"clusters/{name}/flux-system", options=options)
    told = line(left(*THREE), "stable-2 and stable-3 differ from staging-1")
    assert ". Only images differ. To give them a channel of their own, promoted from stable, with them in" in told
    (listed, command) = re.findall(r"run `(mkdir .*?) && flux-manifests (setup .*?)`", told)[0]
    assert Terminal(clone).run(listed.replace("NAME", "far")) == []
    assert not any("differ from" in it for it in left(*command.replace("NAME", "far").split(), "--yes"))
    assert (clone / "flux-manifests/far/clusters.txt").read_text() == "stable-2\nstable-3\n"
    assert "registry.acme.example/fluxcd/source-controller" in (clone / "flux-manifests/far/sync.yaml").read_text()


@pytest.mark.parametrize("own", [{"log_level": "debug"}, {"image_pull_secret": ""}])
def test_what_a_kustomization_cannot_give_is_not_written(
    clone: Path, left: Callable[..., list[str]], own: dict[str, str]
) -> None:
    usual = Options(image_pull_secret="regcred")
    mirror = msgspec.structs.replace(usual, registry="registry.acme.example/fluxcd", **own)  # type: ignore[arg-type]
    for name, options in (("staging-1", usual), ("staging-2", usual), ("stable-1", mirror)):
        bootstrap(clone, f"clusters/{name}/flux-system", options=options)
    assert line(left(*THREE), "stable-1 differs from staging-1: options of `flux install`")
    assert "sync" not in config(clone)


def test_a_folder_that_differs_is_offered_to_no_channel_and_moves_only_if_a_list_names_it(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for cluster in ("test-01", "test-02", "eu-01"):
        bootstrap(clone, f"clusters/{cluster}/flux-system")
    bootstrap(clone, "clusters/eu-02/flux-system", own={})
    bootstrap(clone, "clusters/eu-03/flux-system", options=Options(log_level="debug"))
    listed = left(*THREE)
    told = line(listed, "Say which channels these clusters are for, whose paths name none: eu-* (3) and test-* (2).")
    assert not any(" differs from " in it or "channel of its own" in it for it in listed)
    assert block(listed, told).endswith(" --clusters 'CHANNEL=eu-* CHANNEL=test-*'")
    for name, channel in {"test-01": "staging", "test-02": "staging", "eu-01": "production", "eu-02": "stable"}.items():
        folder = clone / f"flux-manifests/{channel}"
        with (folder / "clusters.txt").open("a") as names:
            names.write(f"{name}\n")
    named = left(*THREE, "--clusters", "production=eu-*", "--yes")
    assert not any("whose paths name none" in it for it in named)
    assert "No step below moves it" in line(named, ", eu-03 differs from test-01: ")
    told = line(named, ", eu-02 differs")
    assert told.partition(". ")[2] == (
        "Unlike 3 of 5 folders, eu-02 differs from test-01: kustomization.yaml (missing) and memory.yaml (missing). "
        "That is all of stable in Git, and a channel can have patches of its own. Steps below move it all the same, "
        "since flux-manifests/stable/clusters.txt names it. Of what differs it keeps what `sync` of stable gives "
        "it, and loses the rest. To leave it out, delete its name there and run `setup` again: "
        "docs/guides/migration.md in the action's checkout, or "
        "https://github.com/acme/ci-automation/blob/HEAD/docs/guides/migration.md#folders-that-differ"
    )
    assert line(named, ALL)
    assert sum("eu-03" in it for it in named) == 1  # its options are told, and Flux's components need no diff


@pytest.mark.parametrize(
    ("name", "near"),
    [("productoin-04", "; did you mean production-04?"), ("production-44", "; did you mean production-04?"), ("x", "")],
)
def test_a_listed_name_that_no_folder_has_is_refused_and_stays(
    clone: Path, capsys: pytest.CaptureFixture[str], name: str, near: str
) -> None:
    for cluster in ("staging", "production-04"):
        bootstrap(clone, f"clusters/{cluster}/flux-system")
    assert run([*THREE]) == 0
    names = clone / "flux-manifests/production/clusters.txt"
    names.write_text(f"production-04\n{name}\n")
    capsys.readouterr()
    assert run([*THREE, "--yes"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    told = f"flux-manifests/production/clusters.txt has {name}, and no folder of `flux bootstrap` is named so{near}"
    assert told in said
    assert "code unknown-cluster" in said
    assert names.read_text() == f"production-04\n{name}\n"


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
            ("eu/production", "my-staging", "pr"),
            ("staging", "production"),
            {"staging": "my-staging", "production": "eu/production", "CHANNEL": "pr"},
        ),
        (("a", "b"), ("staging", "production"), {"CHANNEL": "a b"}),
        (("a", "b"), ("production",), {"production": "a b"}),
        (("production", "staging"), ("production",), {"production": "production"}),
        (("edge-production",), ("production", "edge"), {"production": "edge-production"}),
        (("edge/production-1",), ("production", "edge"), {"edge": "production-1"}),
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
    listed = left("setup", *channels, *ACTION)
    found = {
        name: " ".join(it.read_text().split())
        for name in channels
        if (it := clone / f"flux-manifests/{name}/clusters.txt").exists()
    }
    if chosen := expected.pop("CHANNEL", None):
        assert line(listed, f"whose paths name none: {chosen.replace(' ', ' and ')}. Replace each CHANNEL. Then")
        (again,) = block(listed, "Say which channels").strip().splitlines()
        assert found == expected
        left(*shlex.split(again.replace("CHANNEL=", f"{channels[0]}="))[1:], "--yes")
        there = f"{expected.get(channels[0], '')} {chosen}".split()
        assert (clone / f"flux-manifests/{channels[0]}/clusters.txt").read_text().split() == sorted(there)
    else:
        assert found == expected


def test_clusters_whose_names_look_like_a_channel_come_to_it_by_the_command_of_the_list(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for name in ("stag-1", "prod-eu", "prod-us", "st-1", "eu-1", "productions"):
        bootstrap(clone, f"clusters/{name}/flux-system")
    bootstrap(clone, "clusters/prod-ap/flux-system", own={})
    listed = left(*THREE)
    told = line(
        listed, ": eu-1, prod-* (3), productions, st-1 and stag-1. Replace each CHANNEL. Look whether the channels"
    )
    (command,) = block(listed, told).strip().splitlines()
    words = "CHANNEL=eu-1 production=prod-* production=productions CHANNEL=st-1 staging=stag-1"  # st: staging or stable
    assert command.endswith(f" --clusters '{words}'")
    listed = left(*shlex.split(command.replace("CHANNEL=", "stable="))[1:], "--yes")
    assert not any("whose paths name none" in it for it in listed)
    assert line(listed, "prod-ap differs from")  # once it has a channel
    names = {it.parent.name: it.read_text().split() for it in clone.glob("flux-manifests/*/clusters.txt")}
    assert names == {
        "staging": ["stag-1"],
        "production": ["prod-eu", "prod-us", "productions"],
        "stable": ["eu-1", "st-1"],
    }
    again = next(it for it in left(*THREE, "--clusters", "production=prod-*", "--yes") if "differs from" in it)
    assert "prod-ap" in again


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("prd=prd-*", "--clusters 'prd=prd-*' is not CHANNEL=PATTERN, with one of staging, production, stable"),
        ("production", "--clusters 'production' is not CHANNEL=PATTERN"),
        ("production=prod-*", "--clusters 'production=prod-*' fits no cluster; there are prd-1 and prd-2"),
    ],
)
def test_a_pattern_that_fits_nothing_is_refused(
    clone: Path, capsys: pytest.CaptureFixture[str], word: str, told: str
) -> None:
    for name in ("prd-1", "prd-2"):
        bootstrap(clone, f"clusters/{name}/flux-system")
    assert run([*THREE, "--clusters", word]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not (clone / ".github").exists()


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
        (
            {"own": {"kustomization.yaml": "resources: [ # ours\n  gotk-sync.yaml]\n"}},
            "lists gotk-sync.yaml in a way that",
        ),
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


def test_a_listed_cluster_whose_folder_cannot_be_taken_over_any_more_does_not_move(
    clone: Path, left: Callable[..., list[str]]
) -> None:
    for name in ("staging", "production-eu", "production-us"):
        bootstrap(clone, f"clusters/{name}/flux-system")
    left(*THREE)
    names = clone / "flux-manifests/production/clusters.txt"
    assert names.read_text().split() == ["production-eu", "production-us"]
    bootstrap(clone, "clusters/production-us/flux-system", components="a: b\n")
    listed = left("setup", "--yes")
    assert names.read_text().split() == ["production-eu"]
    assert "cannot be read" in line(listed, "`flux bootstrap` made clusters/production-us/flux-system too")
    assert line(listed, "Move its cluster.")


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
        (render,) = re.findall(
            r"    made=\$\(flux-manifests (render .*)\) &&\n    diff .* clusters/staging/flux-system/gotk-co", told
        )
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
