"""The steps at GitHub in the list of `setup` have commands that do what their clicks do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_automation.cli import run
from tests.contract.bootstrapped import todo_of
from tests.contract.gh import YOU, gh_calls

if TYPE_CHECKING:
    from collections.abc import Callable

ACTION = ("--action", "acme/ci-automation")
FLEET = "/repos/acme/fleet"
TERMINAL = "If you make the package in a terminal, "
POLICY = {"protected_branches": False, "custom_branch_policies": True}


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return what runs `setup` in a clone and returns the lines that are left to do."""

    def listed(*arguments: str, server: str = "github.com") -> list[str]:
        remote = ("config", "remote.origin.url", f"https://{server}/acme/fleet")
        for words in (("init", "-q", "-b", "main"), remote):
            subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
        assert run(["setup", *arguments, *ACTION]) == 0
        return todo_of(tmp_path)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: ())
    return listed


def head(clone: Path) -> str:
    """Return what the file has before the first step."""
    return (clone / ".github/flux-manifests.todo.md").read_text().partition("- [ ] 1.")[0]


def commands(lines: list[str], words: str) -> str:
    """Return the commands of the only step with these words."""
    (at,) = (number for number, it in enumerate(lines) if words in it)
    after = iter(lines[at + 1 :])
    found = []
    while (it := next(after)).startswith("    "):
        found.append(it)
    return "\n".join(found)


def test_the_settings_are_made_by_the_commands(left: Callable[..., list[str]], tmp_path: Path) -> None:
    listed = left("staging", "production")
    (tick,) = gh_calls(commands(listed, "Tick "), tmp_path)
    assert any(
        "Tick " in it and it.endswith(" https://github.com/organizations/acme/settings/actions") for it in listed
    )
    assert tick.request == ("PUT", f"{FLEET}/actions/permissions/workflow", {"can_approve_pull_request_reviews": True})
    you, made, branch = gh_calls(commands(listed, "Make the environment flux-manifests with req"), tmp_path)
    assert you.request == ("GET", "/user", None)
    body = {"reviewers": [{"type": "User", "id": YOU}], "deployment_branch_policy": POLICY}
    assert made.request == ("PUT", f"{FLEET}/environments/flux-manifests", body)
    policies = f"{FLEET}/environments/flux-manifests/deployment-branch-policies"
    assert branch.request == ("POST", policies, {"name": "main"})
    (rule,) = gh_calls(commands(listed, "Protect main"), tmp_path)
    method, path, ruleset = rule.request
    assert (method, path, ruleset["enforcement"]) == ("POST", f"{FLEET}/rulesets", "active")
    assert ruleset["conditions"]["ref_name"] == {"include": ["refs/heads/main"], "exclude": []}
    (only,) = ruleset["rules"]
    assert (only["type"], only["parameters"]["required_approving_review_count"]) == ("pull_request", 1)


def test_pages_are_named_in_the_checkout_before_the_repository_of_the_action_is_made(
    left: Callable[..., list[str]],
) -> None:
    (told,) = (it for it in left("staging") if "no GitHub Enterprise" in it)
    assert ": docs/guides/action.md in the action's checkout, or https://" in told


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("kind: ImageUpdateAutomation", True),
        ("    flags: {components-extra: [image-reflector-controller, image-automation-controller]}", True),
        ("  - {kind: ServiceAccount, name: image-automation-controller} # in each gotk-components.yaml", False),
    ],
)
def test_the_rule_says_what_to_do_about_a_bot_that_pushes_to_the_branch(
    left: Callable[..., list[str]], tmp_path: Path, text: str, *, is_told: bool
) -> None:
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps/images.yaml").write_text(f"{text}\n")
    (rule,) = (it for it in left("staging") if "Protect main" in it)
    told = "It stops ImageUpdateAutomation, which this repository has, from pushing there. First give that a branch"
    assert (told in rule) is is_told
    page = "/docs/guides/action.md#bots-that-push-to-the-default-branch"
    assert rule.endswith(page if told in rule else "acme/fleet/settings/rules")


def test_each_channel_with_a_key_gets_its_environment_and_secrets_by_the_commands(
    left: Callable[..., list[str]], tmp_path: Path
) -> None:
    (clone := tmp_path / "clone").mkdir()
    (tmp_path / "cosign.key").write_text("the private half")
    one = "Make the environment flux-manifests-staging for the branch main alone, without reviewers, with"
    alone = gh_calls(commands(left("staging", "--signing", "key"), one), clone)
    both = "Make the environments flux-manifests-staging and flux-manifests-production, each for the branch main alone"
    called = gh_calls(commands(left("staging", "production", "--signing", "key", "--yes"), both), clone)
    assert called[:4] == alone
    for name, (made, branch, key, password) in (("staging", called[:4]), ("production", called[4:])):
        environment = f"flux-manifests-{name}"
        assert made.request == ("PUT", f"{FLEET}/environments/{environment}", {"deployment_branch_policy": POLICY})
        assert branch.request[2] == {"name": "main"}
        to = ("-R", "acme/fleet", "--env", environment)
        assert key == (("secret", "set", "COSIGN_KEY", *to), "the private half")
        assert password.words == ("secret", "set", "COSIGN_PASSWORD", *to)  # it asks


@pytest.mark.parametrize(
    ("options", "tags", "tools"),
    [
        ((), (), "git, gh, kubectl"),
        (("--signing", "key"), (), "git, gh, kubectl, cosign"),
        ((), None, "git, gh, kubectl, docker"),
    ],
    ids=["keyless", "key", "a registry that is silent"],
)
def test_the_list_begins_with_the_programs_that_its_commands_need(
    left: Callable[..., list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    tags: tuple[str, ...] | None,
    tools: str,
) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: tags)
    assert left("staging", *options)[0] == f"You need: {tools}."
    assert f"\n\nYou need: {tools}.\n\nDecide first: " in head(tmp_path)


def test_a_failure_ends_the_commands(left: Callable[..., list[str]], tmp_path: Path) -> None:
    listed = left("staging", "--signing", "key")
    with pytest.raises(subprocess.CalledProcessError):
        gh_calls(commands(listed, "Make the environment flux-manifests-staging "), tmp_path)  # no key is there


def test_runs_are_started_with_inputs_that_the_workflow_has(left: Callable[..., list[str]], tmp_path: Path) -> None:
    listed = left("staging", "production", "stable")
    workflow = (tmp_path / ".github/workflows/flux.yaml").read_text()
    (begun,) = gh_calls(commands(listed, "command init"), tmp_path)
    start = ("workflow", "run", "flux.yaml", "-R", "acme/fleet", "--ref", "main")
    inputs = {"command": "init", "artifact": "staging", "to": "v2.9.4"}
    assert begun.words == (*start, *(word for it in inputs.items() for word in ("-f", "=".join(it))))
    assert all(f"\n      {name}:\n" in workflow for name in inputs)
    (promoted,) = gh_calls(commands(listed, "command promote"), tmp_path)
    assert promoted.words == (*start, "-f", "command=promote", "-f", "artifact=CHANNEL")


def test_another_registry_gets_its_login_by_the_commands(left: Callable[..., list[str]], tmp_path: Path) -> None:
    listed = left("oci://registry.example/fleet/flux:staging", "--overlay", "-")
    called = gh_calls(commands(listed, "Give runs a login at registry.example"), tmp_path)
    names = ("REGISTRY_USERNAME", "REGISTRY_PASSWORD", "REGISTRY_READER", "REGISTRY_READER_PASSWORD")
    assert [it.words[:5] for it in called] == [
        (kind, "set", name, "-R", "acme/fleet") for kind, name in zip(("variable", "secret") * 2, names, strict=True)
    ]


def test_the_commands_are_for_the_server_of_the_clone(left: Callable[..., list[str]]) -> None:
    listed = left("staging", "--signing", "key", server="github.acme.example")
    asking = "\n".join(listed)
    assert asking.count("gh api ") == asking.count("gh api --hostname github.acme.example ") > 0
    told = [it for it in listed if "gh secret" in it or "gh workflow" in it]
    assert len(told) == 4
    assert "gh auth token --hostname github.acme.example" in asking
    assert all(" -R github.acme.example/acme/fleet" in it for it in told)


ENTERPRISE = "ghe.acme.com"


def test_an_enterprise_server_has_its_own_issuer_and_begins_with_what_it_needs(
    left: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, flux = (tmp_path / ".github" / it for it in ("flux-manifests.yaml", "workflows/flux.yaml"))
    issuer, listed = f"https://{ENTERPRISE}/_services/token", list[str]()
    for approval in ("pull-request", "workflow-dispatch"):
        listed = left("staging", "--approval", approval, "--yes", server=ENTERPRISE)
        written = "".join(it.read_text() for it in tmp_path.rglob("*.yaml"))
        assert f"issuer: {issuer}\n" in config.read_text()
        assert "token.actions.githubusercontent.com" not in written
        assert f"^{re.escape(issuer)}$" in written.replace("\\\\", "\\")
        assert listed[4:6] == ["First: what ghe.acme.com needs", ""]
    assert (
        "1. The public Sigstore does not know ghe.acme.com, so no run can sign keyless. Sign with a key: " in listed[6]
    )
    assert "2. Choose the registry, since no token of ghe.acme.com is a login at ghcr.io. For another, " in listed[7]
    assert "registry-username" in flux.read_text()
    assert any("Give runs a login at ghcr.io: " in it for it in listed)
    capsys.readouterr()
    assert run(["config", "validate", "--workflows", str(flux.parent)]) == 0
    config.write_text(config.read_text().replace("defaults:\n", "defaults:\n  trustConfig: sigstore.json\n"))
    assert not any("public Sigstore" in it for it in left("--yes", server=ENTERPRISE))
    objects = (tmp_path / "flux-manifests/staging/sync.yaml").read_text()
    assert "trustedRootSecretRef:\n      name: flux-manifests-trusted-root\n" in objects


def test_an_enterprise_server_with_a_key_and_a_registry_of_its_own_needs_no_choice(
    left: Callable[..., list[str]], tmp_path: Path
) -> None:
    listed = left("staging", "--signing", "key", server=ENTERPRISE)
    assert "1. Choose the registry, " in listed[6]
    config = tmp_path / ".github/flux-manifests.yaml"
    config.write_text(config.read_text().replace("oci://ghcr.io/acme/flux-manifests", "oci://registry.acme.com/flux"))
    listed = left("--yes", server=ENTERPRISE)
    assert not any("First: " in it or "ghcr.io" in it for it in listed)
    assert "oci://registry.acme.com/flux" in (tmp_path / "flux-manifests/staging/sync.yaml").read_text()


def test_with_a_key_each_run_has_a_command_for_a_terminal(left: Callable[..., list[str]]) -> None:
    listed = left("staging", "production", "stable", "--signing", "key")
    told = re.findall(r"in a terminal: `flux-manifests (.*?)`", "\n".join(listed))
    wanted = ("init staging --flux-version v2.9.4", "promote --to CHANNEL")
    assert told == [f"{it} --key ../cosign.key" for it in wanted]
    order = [number for number, it in enumerate(listed) if "command init" in it or TERMINAL in it]
    assert "give acme/fleet the role Write under Manage Actions access" in listed[order[1]]


def test_a_package_of_which_the_registry_says_nothing_can_be_made_in_a_terminal(
    left: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci_automation.cli.setup.tags_beside", lambda *_: None)
    listed = left("staging", "production", "--signing", "key")
    begun = ("If others pushed the package before, ", "command init", TERMINAL, "command promote")
    assert [next(begins for begins in begun if begins in it) for it in listed if any(map(it.__contains__, begun))] == [
        *begun
    ]


@pytest.mark.parametrize("signing", ["keyless", "key"])
def test_a_private_repository_is_told_that_a_code_approves(
    left: Callable[..., list[str]], tmp_path: Path, signing: str
) -> None:
    without = left("staging", "production", "--signing", signing)
    assert not any(TERMINAL in it for it in without) or signing == "key"
    assert "Decide first: steps 1, 2." in head(tmp_path)
    ((command,),) = [re.findall(r"approve runs\. Run `flux-manifests (.*?)`", without[6])]
    assert command == "setup --approval code"
    assert "code`: one person can then start and approve." in without[6]
    assert f"`{command}`" in (Path(__file__).parents[2] / "README.md").read_text()
    listed = left(*command.split()[1:], "--yes")
    told = "\n".join(listed)
    assert "  approval: {operationsByCode: true}\n" in (tmp_path / ".github/flux-manifests.yaml").read_text()
    assert [it for it in ("no GitHub Enterprise", "eviewer approves", "in a terminal: `") if it in told] == []
    assert "First digests, each approved by its code: click, or paste the commands" in listed
    made, _ = gh_calls(commands(listed, "Make the environment flux-manifests for the branch main alone, "), tmp_path)
    assert made.request[2] == {"deployment_branch_policy": POLICY}
    begun = commands(listed, "command init")
    for code in ("", "0123"):
        (shown,) = gh_calls(begun.replace("CODE=\n", f"CODE={code}\n"), tmp_path)
        assert shown.words[-1] == f"code={code}"
    assert left("--yes") == listed
    assert "2 runs that you start again with their code" in head(tmp_path)
    assert "Decide first: step 1." in head(tmp_path)
    path = tmp_path / ".github/flux-manifests.yaml"
    path.write_text(path.read_text().replace("defaults:\n", "defaults:\n  sync: {source: {provider: aws}}\n"))
    left("--yes")
    assert "Decide first" not in head(tmp_path)


def test_a_code_that_a_person_configured_for_a_channel_stays_as_it_is(
    left: Callable[..., list[str]], tmp_path: Path
) -> None:
    left("staging")
    path = tmp_path / ".github/flux-manifests.yaml"
    path.write_text(before := f"{path.read_text()}    approval: {{operationsByCode: true}}\n")
    assert not any("no GitHub Enterprise" in it for it in left())
    assert path.read_text() == before


def test_a_code_that_does_not_come_into_a_configuration_is_told(
    left: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left("staging")
    path = tmp_path / ".github/flux-manifests.yaml"
    path.write_text(before := path.read_text().replace("    issuer: ", "    # ours\n    issuer: "))
    assert run(["setup", "--approval", "code", "--yes"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "lets no code approve for staging; write `approval: {operationsByCode: true}` below `defaults`" in told
    assert path.read_text() == before


def test_a_key_that_is_there_is_never_made_again(left: Callable[..., list[str]], tmp_path: Path) -> None:
    made = "    (cd .. && cosign generate-key-pair) && mv ../cosign.pub ."
    assert made in left("staging", "--signing", "key")
    (tmp_path / "cosign.pub").write_text("the public half")
    assert not any("generate-key-pair" in it for it in left("staging", "--signing", "key", "--yes"))
