"""`setup` in a clone that has its files: what is there wins over defaults, and other channels stay as they are."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from ci_automation.cli import run
from ci_automation.cli.schema import output_schema
from ci_automation.config.load import parse_config
from ci_automation.config.model import PromoteConfig
from ci_automation.config.workflows import CheckedWorkflow, GitHubPlace, action_uses, read_workflow
from ci_automation.flows.setting_up.files import other_registries
from ci_automation.flows.setting_up.todo import LAST, one_list
from ci_automation.flux.options import Options
from tests.contract.bootstrapped import OWN, bootstrap, todo_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PINNED, OTHER = "fakeco/ci-automation@" + "a1" * 20, "b2" * 20
CONFIG, FLUX = ".github/flux-manifests.yaml", ".github/workflows/flux.yaml"
TODO, APPROVE = ".github/flux-manifests.todo.md", ".github/workflows/approve.yaml"


def git(top: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(top), *words], check=True, capture_output=True)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a clone of fakeco/fleet on a feature branch, of which git knows no default branch."""
    git(tmp_path, "init", "-q", "-b", "feature")
    git(tmp_path, "remote", "add", "origin", "https://github.com/fakeco/fleet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: ())
    monkeypatch.setattr("ci_automation.cli.questions.existing_at", lambda _: None)
    monkeypatch.setattr("ci_automation.cli.questions.kustomize", lambda: None)
    monkeypatch.setattr("ci_automation.cli.questions.checkout_of_action", lambda _: "acme-tools/flux-manifests")
    return tmp_path


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return what answers the questions with their defaults, apart from those given, and lists them."""

    def answers(**given: str) -> list[str]:
        asked: list[str] = []

        def prompt(question: str, default: str, **_: object) -> str:
            asked.append(f"{question} [{default}]")
            return next((it for words, it in given.items() if words in question), default)

        monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
        monkeypatch.setattr("click.prompt", prompt)
        return asked

    return answers


def files(clone: Path) -> dict[str, str]:
    listed = (path for path in clone.rglob("*") if path.is_file() and ".git/" not in str(path))
    return {path.relative_to(clone).as_posix(): path.read_text() for path in listed}


def commit(clone: Path) -> str:
    """Make a commit, and return it."""
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    git(clone, *own, "commit", "-q", "--allow-empty", "-m", "x")
    return subprocess.check_output(["git", "-C", str(clone), "rev-parse", "HEAD"], text=True).strip()


@pytest.mark.parametrize("more", [(), ("--yes",), ("--action", "fakeco/ci-automation", "--yes")])
def test_a_second_run_keeps_the_action_and_its_commit(clone: Path, more: tuple[str, ...]) -> None:
    assert run(["setup", "staging", "production", "--action", PINNED]) == 0
    before = files(clone)
    assert run(["setup", "staging", "production", *more]) == 0
    assert files(clone) == before


def test_a_second_run_has_the_same_list_for_the_commit_that_was_shipped(clone: Path) -> None:
    assert run(["setup", "staging", "production", "--action", "fakeco/ci-automation"]) == 0
    before = files(clone)
    assert run(["setup", "staging", "production"]) == 0
    assert files(clone) == before


@pytest.mark.parametrize("tags", [(), None])
def test_a_second_run_without_arguments_has_no_new_steps(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tags: tuple[str, ...] | None
) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: tags)
    for name in ("edge-1", "edge-2"):  # for which channel, `setup` asks
        bootstrap(clone, f"clusters/{name}/flux-system")
    assert run(["setup", "staging", "production", "--action", PINNED]) == 0
    listed = files(clone)[TODO]
    assert "  flux-manifests setup staging production " in listed
    assert re.search(r"Be careful with \d+: too early or forgotten, it hurts clusters\.", listed)
    capsys.readouterr()
    assert run(["setup"]) == 0
    assert " 0 new or changed.\n" in capsys.readouterr().out


def test_one_is_told_as_one(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, own in {"production-1": OWN, "production-2": {}, "production-3": OWN}.items():
        bootstrap(clone, f"clusters/{name}/flux-system", own=own)
    assert run(["setup", "production", "--action", PINNED]) == 0
    listed = files(clone)[TODO]
    assert "No step below moves it until that is settled, since no clusters.txt names it" in listed
    assert "delete Flux from their folders, and" in listed
    (clone / "flux-manifests/production/clusters.txt").write_text("production-2\n")
    shutil.rmtree(clone / "clusters/production-1")
    shutil.rmtree(clone / "clusters/production-3")
    bootstrap(clone, "clusters/other/flux-system")
    assert run(["setup", "--yes"]) == 0
    listed = files(clone)[TODO]
    assert "delete Flux from its folder, and" in listed
    assert "Never run `flux bootstrap` for it again." in listed
    capsys.readouterr()
    (clone / TODO).write_text(f"{listed}\n## Done\n\n- [ ] 99. Look.\n")
    assert run(["setup", "--yes"]) == 0
    assert " 0 new or changed; 1 is gone.\n" in capsys.readouterr().out


def test_a_second_run_asks_nothing_that_the_files_say(clone: Path, at_terminal: Callable[..., list[str]]) -> None:
    first = at_terminal(**{"this action": "fakeco/ci-automation"})
    assert run(["setup"]) == 0
    assert len(first) == 5
    before, again = files(clone), at_terminal()
    assert run(["setup"]) == 0
    assert (again, files(clone)) == ([], before)


@pytest.mark.parametrize("action", [f"fakeco/ci-automation@{OTHER}", f"platform/ci-automation@{OTHER}"])
def test_an_action_that_is_named_replaces_that_of_the_workflows(clone: Path, action: str) -> None:
    assert run(["setup", "staging", "--action", PINNED]) == 0
    assert run(["setup", "staging", "--action", action, "--yes"]) == 0
    assert (f"uses: {action}" in files(clone)[FLUX], PINNED in files(clone)[FLUX]) == (True, False)


@pytest.mark.parametrize(("file", "pin"), [(FLUX, "v1"), (FLUX, OTHER), (".github/workflows/approve.yaml", OTHER)])
def test_a_workflow_whose_pin_is_unclear_is_not_taken_to_another(
    clone: Path, file: str, pin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["setup", "staging", "--action", PINNED, "--approval", "workflow-dispatch"]) == 0
    path, count = clone / file, 1 if (file, pin) == (FLUX, OTHER) else -1
    path.write_text(path.read_text().replace("a1" * 20, pin, count))
    before = files(clone)
    capsys.readouterr()
    assert run(["setup", "staging", "--yes"]) == 2
    assert files(clone) == before
    told = capsys.readouterr().err
    said = "--action is missing"
    assert said in told


def test_a_second_run_keeps_how_runs_sign_and_ask(clone: Path) -> None:
    for signing, approval in (("key", "pull-request"), ("keyless", "workflow-dispatch")):
        options = ("--action", PINNED, "--signing", signing, "--approval", approval, "--yes")
        (clone / CONFIG).unlink(missing_ok=True)
        assert run(["setup", "staging", *options]) == 0
        before = files(clone)
        assert run(["setup", "staging", "--yes"]) == 0
        assert files(clone) == before


@pytest.mark.parametrize(
    ("remote", "branch", "why"),
    [
        (("main", "master", "trunk", "feature"), "trunk", "refs/remotes/origin/HEAD names it"),
        (("main", "master", "feature"), "main", "this clone has origin/main, and no refs/remotes/origin/HEAD"),
        (("master", "feature"), "master", "this clone has origin/master, and no refs/remotes/origin/HEAD"),
        (("feature",), "main", "this clone has neither refs/remotes/origin/HEAD nor origin/main nor origin/master"),
    ],
)
def test_a_feature_branch_is_never_trusted_by_itself(
    clone: Path, remote: tuple[str, ...], branch: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = commit(clone)
    for name in remote:
        git(clone, "update-ref", f"refs/remotes/origin/{name}", made)
    if "trunk" in remote:
        git(clone, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    assert run(["setup", "staging", "--action", PINNED]) == 0
    told = capsys.readouterr().err
    assert f"Workflows run and sign on the branch {branch}: {why}. If that is another, give --branch NAME." in told
    assert f"@refs/heads/{branch}\n" in files(clone)[CONFIG]
    assert f"branches: [{branch}]" in files(clone)[FLUX]
    assert "feature" not in "".join(files(clone).values())


@pytest.mark.usefixtures("clone")
def test_an_error_is_told_without_the_branch(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["setup", "staging", "--action", "acme/foo"]) == 2
    assert "Workflows run and sign" not in capsys.readouterr().err


def test_a_branch_that_is_named_is_taken(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["setup", "staging", "--action", PINNED, "--branch", "feature"]) == 0
    assert "@refs/heads/feature\n" in files(clone)[CONFIG]
    assert "Workflows run and sign" not in capsys.readouterr().err


THREE = ("setup", "staging", "production", "edge")


@pytest.fixture
def of_three(clone: Path) -> Path:
    """Return the clone after `setup` for three channels, two of whose clusters Git applies; three steps are ticked."""
    for cluster in ("staging", "production"):
        bootstrap(clone, f"clusters/{cluster}/flux-system", options=Options(namespace="gitops"))
    assert run([*THREE, "--action", PINNED, "--after", "72h"]) == 0
    for words in ("Workflows run", "Tick", "Make the environment"):
        tick(clone, words)
    return clone


def tick(clone: Path, words: str) -> None:
    path = clone / TODO
    found = re.sub(rf"^- \[ \] (\d+\. {words})", r"- [x] \1", path.read_text(), flags=re.MULTILINE)
    assert found != path.read_text()
    path.write_text(found)


@pytest.mark.parametrize("named", [(), ("production",), ("edge",), ("staging", "production"), ("production", "edge")])
def test_fewer_names_leave_the_objects_the_steps_and_the_ticks_of_all_channels(
    of_three: Path, named: tuple[str, ...]
) -> None:
    before = files(of_three)
    assert run(["setup", *named, "--action", PINNED, "--yes"]) == 0
    assert files(of_three) == before


def test_a_step_stays_ticked_when_another_folder_with_the_same_files_is_the_model(of_three: Path) -> None:
    tick(of_three, "Read clusters/flux-system")
    ticked = re.compile(r"^- \[x\] \d+\. (.*)(?=\n)((?:\n  .*)*)", re.MULTILINE)
    before = ticked.findall(files(of_three)[TODO])
    assert any("the files of clusters/staging/flux-system" in step for step, _ in before)
    (of_three / "clusters/staging/flux-system/gotk-components.yaml").unlink()  # as Git leaves it to the artifact
    assert run(["setup", "--yes"]) == 0
    renamed = [tuple(it.replace("clusters/staging/", "clusters/production/") for it in each) for each in before]
    assert ticked.findall(files(of_three)[TODO]) == renamed


def test_a_settled_folder_stays_ticked_when_another_folder_with_the_same_files_is_the_model(clone: Path) -> None:
    for cluster in ("staging", "production", "edge"):
        own = {**OWN, "memory.yaml": OWN["memory.yaml"].replace("2Gi", "4Gi")} if cluster == "edge" else OWN
        bootstrap(clone, f"clusters/{cluster}/flux-system", own=own)
    assert run([*THREE, "--action", PINNED]) == 0
    tick(clone, "Unlike 2 of 3 folders, edge differs from staging: ")
    (clone / "clusters/staging/flux-system/gotk-components.yaml").unlink()
    assert run(["setup", "--yes"]) == 0
    assert re.search(r"^- \[x\] \d+\. Unlike 1 of 2 folders, edge differs from ", files(clone)[TODO], re.MULTILINE)


def test_only_objects_of_named_channels_are_written_anew(of_three: Path) -> None:
    paths = {name: of_three / f"flux-manifests/{name}/sync.yaml" for name in THREE[1:]}
    before = files(of_three)
    for path in paths.values():
        path.write_text("# edited\n")
    assert run(["setup", "production", "--yes"]) == 0
    assert [name for name, path in paths.items() if path.read_text() != "# edited\n"] == ["production"]
    assert run(["setup", "--yes"]) == 0
    assert files(of_three) == before


def test_a_channel_more_is_promoted_from_the_one_before_it(of_three: Path) -> None:
    assert run(["setup", "edge", "far", "--yes"]) == 0
    *_, edge, far = parse_config((of_three / CONFIG).read_bytes(), CONFIG).artifacts
    assert [it.promote and it.promote.source for it in (edge, far)] == ["production", "edge"]
    assert far.promote == PromoteConfig("edge", timedelta(hours=24))
    listed = files(of_three)[TODO]
    assert "command promote, artifact production; then artifact edge; then artifact far. First digests" in listed
    sync = files(of_three)["flux-manifests/far/sync.yaml"]
    assert ("path: ./\n" in sync, "namespace: gitops\n" in sync) == (True, True)
    assert listed.count("- [x] ") == 3


def test_objects_have_the_namespace_of_the_configuration_when_git_has_left_flux(of_three: Path) -> None:
    before = files(of_three)
    for path in of_three.glob("clusters/*/flux-system/gotk-components.yaml"):
        path.unlink()
    assert run(["setup", "--yes"]) == 0
    for name in THREE[1:]:
        assert files(of_three)[f"flux-manifests/{name}/sync.yaml"] == before[f"flux-manifests/{name}/sync.yaml"]


def test_channels_with_content_of_their_own_keep_their_steps(clone: Path) -> None:
    assert run(["setup", "staging", "production", "--action", PINNED]) == 0
    assert run(["setup", "edge", "far", "--yes"]) == 0
    before = files(clone)
    digests = re.findall(r"command (\w+), artifact (\w+)", before[TODO])
    assert sorted(digests) == [("init", "edge"), ("init", "staging"), ("promote", "far"), ("promote", "production")]
    tick(clone, "Run workflow at .*: command promote, artifact far")
    ticked = files(clone)
    for named in ((), ("production",), ("far",), ("staging",)):
        assert run(["setup", *named, "--yes"]) == 0
        assert files(clone) == ticked


def test_an_overlay_that_the_configuration_has_otherwise_is_told(
    of_three: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(of_three)
    assert run(["setup", "production", "--overlay", "own", "--yes"]) == 2
    assert "has the overlay clusters/flux-system for staging; change it there" in capsys.readouterr().err
    assert files(of_three) == before


ELSEWHERE = "oci://registry.example.com/platform/flux"


def addresses(clone: Path) -> dict[str, str]:
    return {it.name: str(it.channel) for it in parse_config((clone / CONFIG).read_bytes(), CONFIG).artifacts}


def test_bare_names_are_those_of_the_configuration_or_tags_beside_its_channels(clone: Path) -> None:
    assert run(["setup", f"{ELSEWHERE}:v2-stable", "--name", "staging", "--action", PINNED]) == 0
    assert run(["setup", "staging", "production", "--yes"]) == 0
    expected = {"staging": f"{ELSEWHERE}:v2-stable", "production": f"{ELSEWHERE}:production"}
    assert addresses(clone) == expected
    other = "oci://ghcr.io/fakeco/other"
    assert run(["setup", f"{other}:a", "staging", "--yes"]) == 0  # after an address, it is a tag beside that
    assert addresses(clone) == {**expected, "a": f"{other}:a", "other": f"{other}:staging"}


USER = "          registry-username: ${{ vars.REGISTRY_USERNAME }}\n"
PASSWORD = "          registry-password: ${{ secrets.REGISTRY_PASSWORD }}\n"
READER = """\
          registry-username: ${{ vars.REGISTRY_READER }}
          registry-password: ${{ secrets.REGISTRY_READER_PASSWORD }}
"""
CALLED = "      REGISTRY_PASSWORD: ${{ secrets.REGISTRY_PASSWORD }}\n"
FILES = [f"          docker-config: ${{{{ secrets.DOCKER_CONFIG_{it} }}}}\n" for it in ("JSON", "READER")]
ONE = "at registry.example.com: the variable REGISTRY_USERNAME and the secret REGISTRY_PASSWORD"
BOTH = "at ghcr.io and registry.example.com: the secret DOCKER_CONFIG_JSON, the text of a config.json"
LOOK = ", and {} for the jobs that only look"
SECRETS = ": https://github.com/fakeco/fleet/settings/secrets/actions. In a cloud, `provider`"


@pytest.mark.parametrize(
    ("more", "options", "lines", "item", "jobs"),
    [
        (
            (),
            (),
            (USER + PASSWORD, READER),
            ONE + LOOK.format("REGISTRY_READER and REGISTRY_READER_PASSWORD"),
            "flux do",
        ),
        (
            ("oci://ghcr.io/fakeco/flux:production",),
            ("--approval", "workflow-dispatch"),
            FILES,
            BOTH + LOOK.format("DOCKER_CONFIG_READER"),
            "flux do",
        ),
        ((), ("--signing", "key"), (USER[4:], CALLED), ONE, "update operate"),
        (("production",), ("--signing", "key"), (USER[4:], CALLED), ONE, "fleet operate"),
    ],
    ids=["keyless", "two registries", "key", "keys"],
)
def test_workflows_log_in_at_other_registries(
    clone: Path,
    more: tuple[str, ...],
    options: tuple[str, ...],
    lines: tuple[str, ...],
    item: str,
    jobs: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["setup", f"{ELSEWHERE}:staging", *more, *options, "--action", PINNED]) == 0
    written = files(clone)
    assert [it for it in lines if it not in written[FLUX]] == []
    secret = re.compile("REGISTRY_|DOCKER_CONFIG")
    assert not any(secret.search(written[f".github/workflows/{it}.yaml"]) for it in ("watch", "preview"))
    assert item + SECRETS in written[TODO]
    assert "/docs/guides/logins.md#registries" in written[TODO]
    (clone / "cosign.pub").touch()
    capsys.readouterr()
    assert run(["config", "validate", "--workflows", ".github/workflows"]) == 0
    assert "has no login" not in capsys.readouterr().err
    (clone / FLUX).write_text("".join(it for it in written[FLUX].splitlines(keepends=True) if not secret.search(it)))
    assert run(["config", "validate", "--workflows", ".github/workflows"]) == 0
    told = re.findall(
        r"the job (\S+) has no login for registry.example.com. Give it .*/logins", capsys.readouterr().err
    )
    assert told == jobs.split()


PULL = (
    "-n flux-system create secret docker-registry {} --docker-server={} --docker-username=USER "
    '--docker-password="$token" --dry-run=client -o yaml |'
)
ASKS = "If registry.example.com asks for a login{} "


@pytest.mark.parametrize(
    ("address", "sync", "secret", "asks"),
    [
        (ELSEWHERE, "", PULL.format("pull-flux-manifests", "registry.example.com"), True),
        (ELSEWHERE, "{secretRef: {name: own}}", PULL.format("own", "registry.example.com"), False),
        ("oci://ghcr.io/fakeco/flux", "{secretRef: {name: own}}", PULL.format("own", "ghcr.io"), False),
        (ELSEWHERE, "{provider: aws}", "", False),
        ("oci://ghcr.io/fakeco/flux", "{serviceAccountName: puller}", "", False),
    ],
)
def test_the_secret_by_which_clusters_pull_has_the_name_that_their_objects_have(
    clone: Path, address: str, sync: str, secret: str, *, asks: bool
) -> None:
    assert run(["setup", f"{address}:staging", f"{address}:production", "--action", PINNED]) == 0
    if sync:
        text = files(clone)[CONFIG].replace("defaults:\n", f"defaults:\n  sync: {{source: {sync}}}\n")
        (clone / CONFIG).write_text(text)
        assert run(["setup", "--yes"]) == 0
        assert sync.rsplit(": ", maxsplit=1)[-1].strip("}") in files(clone)["flux-manifests/staging/sync.yaml"]
    listed = files(clone)[TODO]
    assert re.findall(r"kubectl (.* create secret docker-registry .*)", listed) == ([secret] if secret else [])
    assert ("Make it public" in listed, "docker-server" in listed) == (False, bool(secret))
    told = [ASKS.format(it) in listed for it in (": write `sync:", ", make the Secret in each cluster,")]
    assert told == [asks, asks]
    assert ("make the Secret that the objects name" in listed) is bool(secret and sync)
    assert ("needs a classic one" in listed) is ("ghcr.io" in secret)


def test_a_login_of_the_configuration_or_of_ghcr_needs_no_other(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["setup", "staging", "--action", PINNED]) == 0
    assert "registry-username" not in files(clone)[FLUX]
    assert "#registries" not in files(clone)[TODO]
    own = "    credentials: {push: {usernameVariable: USER, passwordVariable: PASSWORD}}\n"
    text = files(clone)[CONFIG].replace("oci://ghcr.io/fakeco/flux-manifests", ELSEWHERE)
    (clone / CONFIG).write_text(text + own)
    assert run(["setup", "--yes"]) == 0
    assert "registry-username" not in files(clone)[FLUX]
    assert run(["config", "validate", "--workflows", ".github/workflows"]) == 0
    assert "has no login" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "jobs"),
    [((), ("flux", "show", "do")), (("--signing", "key"), ("fleet", "operate"))],
    ids=["keyless", "key"],
)
def test_inputs_of_a_persons_own_stay_and_a_provider_takes_the_place_of_the_login(
    clone: Path, options: tuple[str, ...], jobs: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["setup", f"{ELSEWHERE}:staging", *options, "--action", PINNED]) == 0
    text = re.sub(r"\n +(registry-\w+|REGISTRY_PASSWORD):.*", "", files(clone)[FLUX])
    own = r"\n\1with:\n\1  provider: aws\n\1  aws-region: '1'\n"
    text = re.sub(r"\n( +)with:\n(?!.*persist)", own, text).replace('cron: "17', 'cron: "18')
    (clone / FLUX).write_text(text.replace("      actions: read", "      id-token: write\n      actions: read", 1))
    capsys.readouterr()
    other = (f"{ELSEWHERE}:production", "--name", "other", "--overlay", "own")
    assert run(["setup", *other, *options, "--yes"]) == 0
    assert '-    - cron: "18' in capsys.readouterr().out  # what is taken back is shown
    read = read_workflow(FLUX, files(clone)[FLUX])
    assert isinstance(read, CheckedWorkflow)
    uses = {it.job: it for it in action_uses(read)}
    kept = {job: [use.inputs.get(it) for it in ("provider", "aws-region")] for job, use in uses.items()}
    assert kept == {job: ["aws", "1"] for job in jobs}
    assert "registry-" not in files(clone)[FLUX]
    assert {use.values["permissions"]["id-token"] for use in uses.values()} == {"write"}


def test_a_job_that_only_looks_does_not_get_the_login_of_one_that_writes(clone: Path) -> None:
    assert run(["setup", "staging", "--action", PINNED]) == 0
    before, own = files(clone)[FLUX], "          registry-password: ${{ secrets.OURS }}\n"
    (first, step) = re.findall(r"(?s)\A(.*?- uses: fakeco.*?        with:\n)(.*?)\n\n", before)[0]
    (clone / FLUX).write_text(f"{first}{own}{step}\n")  # the one job that a person copied
    assert run(["setup", "--yes"]) == 0
    written = files(clone)[FLUX]
    assert written.replace(own, "") == before
    holders = [it.partition(":")[0] for it in re.split(r"\n  (?=\w+:\n    name)", written) if own in it]
    assert holders == ["flux", "do"]


def test_two_words_in_one_are_no_channels(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["setup", "stag ing", "--action", PINNED]) == 2
    assert "'stag ing' is not a channel: give each as a word of its own" in capsys.readouterr().err
    assert files(clone) == {}


class TestAnotherWait:
    @pytest.mark.parametrize("names", [(), ("staging", "production")], ids=["of all channels", "of those named"])
    def test_of_a_channel_that_is_configured_is_refused_and_changes_nothing(
        self, clone: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, ...]
    ) -> None:
        assert run([*THREE, "--action", PINNED]) == 0
        before = files(clone)
        assert run(["setup", *names, "--after", "72h", "--yes"]) == 2
        told = " ".join(capsys.readouterr().err.split())
        assert f"--after is for new channels, and {CONFIG} has another time for production: change it there" in told
        assert files(clone) == before

    def test_is_that_of_the_configuration_or_of_a_new_channel(self, clone: Path) -> None:
        assert run([*THREE, "--action", PINNED, "--after", "72h"]) == 0
        assert run(["setup", "--after", "3d", "--yes"]) == 0
        assert run(["setup", "production", "far", "--after", "48h", "--yes"]) == 0
        assert re.search(r"name: far\n(.*\n)*?.*after: 48h", (clone / CONFIG).read_text())


def test_a_wrong_answer_is_asked_again(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = io.StringIO("acme/platform-actions\nacme/ci-automation\n\n\n")
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", typed)
    assert run(["setup", "oci://ghcr.io/fakeco/flux:production", "--overlay", "-"]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert (
        "'acme/platform-actions' is not the action: its repository is named ci-automation or flux-manifests. " in told
    )
    assert told.count("Which repository has this action") == 2
    assert "uses: acme/ci-automation@" in files(clone)[FLUX]


def test_an_action_of_another_name_is_refused(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["setup", "staging", "--action", "acme/platform-actions"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "'acme/platform-actions' is not the action: its repository is named ci-automation or flux-manifests" in told
    assert "such as acme/ci-automation: " in told
    assert files(clone) == {}


@pytest.mark.parametrize("order", [1, -1])
def test_one_artifact_with_a_login_of_its_own_leaves_the_others_of_its_registry_to_need_one(order: int) -> None:
    own = "credentials: {push: {usernameVariable: A_USER, passwordVariable: A_PASSWORD}}"
    both = [
        f"{{name: a, url: 'oci://registry.example/a:one', {own}}}",
        "{name: b, url: 'oci://registry.example/b:one'}",
    ]
    config = f"version: 1\nartifacts: [{', '.join(both[::order])}]\n"
    artifacts = parse_config(config.encode(), CONFIG).artifacts
    assert other_registries(artifacts, GitHubPlace("acme/fleet")) == ("registry.example",)


def test_of_several_lists_a_step_of_all_is_there_once_and_last_where_it_ends_all() -> None:
    one, other = (
        {"Files": ["all", "one", "commit"], LAST: ["look"]},
        {"Files": ["all", "other", "commit"], "More": ["x"]},
    )
    together = one_list([one, {**other, LAST: ["look"]}])
    assert [*together.items()] == [("Files", ["all", "one", "other", "commit"]), ("More", ["x"]), (LAST, ["look"])]


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


def test_an_answer_that_is_none_is_asked_for_again_at_once(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap(clone, "clusters/staging/flux-system")
    typed = ["/etc", "clusters/staging/flux-system", "a b", "-", "y", "keyles", "KEY", "pr", "Workflow-Dispatch"]
    monkeypatch.setattr("sys.stdin", Terminal("".join(f"{it}\n" for it in typed)))
    assert run(["setup", "staging", "--action", PINNED]) == 0
    told = capsys.readouterr().err
    asked = re.findall(r"^(\w+) .*\? .*: ", told, re.MULTILINE)
    assert asked == ["Folder"] * 4 + ["Sign"] * 3 + ["Ask"] * 2
    assert [it in told for it in ("'keyles' is not one of", "'pr' is not one of", "'/etc'", "'a b'")] == [True] * 4
    assert (told.count("error: "), "Error: " in told) == (6, False)
    for line in (
        "copy of what clusters/staging/flux-system has",
        "in a public log",
        "one environment for each channel",
    ):
        assert told.count(line) == 1  # what an answer means, once
    assert (told.count("its merge approves"), told.count("waits for a reviewer")) == (1, 1)
    (first,) = parse_config((clone / CONFIG).read_bytes(), CONFIG).artifacts
    assert (first.signing.mode, first.approval.via) == ("key", "workflow-dispatch")


def test_the_question_says_what_keyless_needs_on_an_enterprise_server(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    git(clone, "remote", "set-url", "origin", "https://ghe.acme.com/acme/fleet")
    monkeypatch.setattr("sys.stdin", Terminal("-\nkey\n\n"))
    assert run(["setup", "staging", "--action", PINNED]) == 0
    assert "The public Sigstore does not know ghe.acme.com: keyless needs your own there." in capsys.readouterr().err


def test_an_answer_for_the_folder_is_kept(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("own\n\n\n"))
    assert run(["setup", "staging", "--action", PINNED]) == 0
    assert parse_config((clone / CONFIG).read_bytes(), CONFIG).artifacts[0].overlay == "own"


APPROVALS = ("pull-request", "workflow-dispatch", "code")
WAYS = [(signing, approval) for signing in ("keyless", "key") for approval in APPROVALS]


@pytest.mark.parametrize("after", WAYS)
@pytest.mark.parametrize("before", WAYS)
def test_other_answers_change_what_the_first_ones_wrote(
    clone: Path, before: tuple[str, str], after: tuple[str, str]
) -> None:
    def answered(ways: tuple[str, str]) -> dict[str, str]:
        options = ("--signing", ways[0], "--approval", ways[1], "--action", PINNED, "--overlay", "-", "--yes")
        assert run(["setup", "staging", *options]) == 0
        return {path: text for path, text in files(clone).items() if path != TODO and "approve" not in path}

    wanted = answered(after)
    shutil.rmtree(clone / ".github")
    answered(before)
    assert answered(after) == wanted


@pytest.mark.parametrize("signing", ["keyless", "key"])
def test_a_workflow_that_no_longer_asks_is_deleted_by_a_step(
    clone: Path, signing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--signing", signing, "--action", PINNED, "--yes")
    step, check = f"  rm {APPROVE}\n", ["config", "validate", "--workflows", ".github/workflows"]
    for approval in ("workflow-dispatch", "pull-request"):
        assert step not in files(clone).get(TODO, "")
        assert run(["setup", "staging", "--approval", approval, *options]) == 0
    signed = "If it signed what a channel has, adopt that below, before clusters get their new objects."
    assert (step in files(clone)[TODO], signed in files(clone)[TODO]) == (True, signing == "keyless")
    (clone / APPROVE).write_text("on: workflow_dispatch\njobs: {}\n")  # a team's own
    assert run(["setup", *options]) == 0
    assert step not in files(clone)[TODO]
    (clone / APPROVE).unlink()
    (clone / "cosign.pub").touch()
    capsys.readouterr()
    assert (run(check), capsys.readouterr().err) == (0, "")


def test_a_signer_that_a_person_wrote_is_not_replaced(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["setup", "staging", "--action", PINNED, "--signing", "key"]) == 0
    path = clone / CONFIG
    path.write_text(path.read_text().replace("publicKey: cosign.pub", "publicKey: [old.pub, new.pub]"))
    assert run(["setup", "--signing", "key"]) == 0
    before = files(clone)
    capsys.readouterr()
    assert run(["setup", "--signing", "keyless", "--yes"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert (
        f"{CONFIG} trusts keys alone for staging; with --signing keyless, write there in place of that: verify" in told
    )
    assert files(clone) == before


def test_a_name_that_is_there_is_told_as_such(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["setup", "Production", "--action", PINNED, "--overlay", "-"]) == 0
    before = files(clone)
    assert run(["setup", "oci://docker.io/acme/flux:production", "--overlay", "-", "--yes"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"at the end of {CONFIG}, artifacts[1].name is the same as that of artifacts[0]; name the channel" in told
    assert files(clone) == before


@pytest.mark.usefixtures("clone")
def test_a_channel_before_another_one_does_not_change_what_that_is_promoted_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*THREE, "--action", PINNED]) == 0
    capsys.readouterr()
    assert run(["setup", "qa", "production", "--yes"]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert f"production stays promoted from staging, not from qa: to change that, edit `promote` in {CONFIG}" in told
    assert "edge stays" not in told


def test_a_channel_that_the_configuration_lost_has_a_step(clone: Path) -> None:
    assert run([*THREE, "--action", PINNED]) == 0
    assert "no longer has" not in files(clone)[TODO]
    text = files(clone)[CONFIG]
    (clone / CONFIG).write_text(text[: text.index("  - name: edge\n")])
    assert run(["setup", "--yes"]) == 0
    assert f"{CONFIG} no longer has edge, so clusters that follow it get no patches. " in files(clone)[TODO]
    assert "  git rm -r flux-manifests/edge\n" in files(clone)[TODO]


def test_a_program_gets_the_files_and_the_steps(
    clone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*options: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run([*THREE, "--output", "json", *options]) == 0
        value: dict[str, Any] = json.loads(capsys.readouterr().out)
        Draft202012Validator(output_schema("setup")).validate(value)
        return value

    first = told("--action", PINNED)
    assert {it["path"] for it in first["files"]} == files(clone).keys()
    assert {it["state"] for it in first["files"]} == {"written"}
    listed = [line for step in first["steps"] for line in (step["text"], *step["commands"].splitlines())]
    shown = [re.sub(r"^\d+\. |^    ", "", it) for it in todo_of(clone) if re.match(r"\d+\. |    ", it)]
    assert listed == shown
    assert not any(it["done"] for it in first["steps"])
    (clone / TODO).write_text((clone / TODO).read_text().replace("- [ ] 2.", "- [x] 2."))
    (clone / FLUX).write_text("# by hand\n")
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    again = told("--action", PINNED)
    assert [it["done"] for it in again["steps"]] == [number == 1 for number in range(len(first["steps"]) + 1)]
    assert "which were left as they are" in again["steps"][4]["text"]
    states = {it["path"]: it["state"] for it in again["files"]}
    assert (states[FLUX], states[TODO], states[CONFIG]) == ("declined", "changed", "unchanged")
    assert {it["state"] for it in told("--action", PINNED, "--yes")["files"]} == {"changed", "unchanged"}


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_file_that_changes_says_what_comes_next(
    clone: Path, capsys: pytest.CaptureFixture[str], *, is_committed: bool
) -> None:
    assert run(["setup", "staging", "--action", PINNED]) == 0
    for path in (FLUX, "flux-manifests/staging/sync.yaml"):
        (clone / path).write_text(f"{(clone / path).read_text()}# by hand\n")
    if is_committed:
        git(clone, "add", ".")
        commit(clone)
    assert run(["setup", "--yes"]) == 0
    told = capsys.readouterr().out
    kept = f"`git diff {FLUX}` has what it was" if is_committed else "only the difference above has what it was"
    assert f"\n{FLUX} changed; {kept}\n" in told
    assert "\nflux-manifests/staging/sync.yaml changed: apply it to each cluster of staging, one first\n" in told
