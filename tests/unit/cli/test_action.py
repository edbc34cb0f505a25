"""Whose credentials a registry is shown in a job, and what the action decides before it does anything."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace

from ci_automation.action.approval_rules import NoReceiver, approvals_of
from ci_automation.action.github import Hub, NoRepository, NoToken
from ci_automation.action.inputs import Inputs
from ci_automation.action.job import Job, SharedSubject
from ci_automation.action.logins import Logins, OneLoginForSeveralRegistries, logins, secrets_in
from ci_automation.action.run import ActionRun, _require_own_claims, trouble_of
from ci_automation.action.workflow_commands import Log
from ci_automation.approval.judge import may_be_claimed
from ci_automation.approval.port import RequestKind
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.cli.arguments import Arguments
from ci_automation.cli.places import _github_token
from ci_automation.cli.target import Target
from ci_automation.config.model import ApprovalConfig, ApprovalVia
from ci_automation.config.sections import Artifact
from ci_automation.errors import UsageError
from ci_automation.flows.ports import Intent, Prepared
from ci_automation.registry.credentials import Anonymous, Credential, Credentials
from ci_automation.registry.docker_config import InvalidRegistryConfig
from ci_automation.registry.logins.cloud import NotOfProvider
from tests.fakes.world import NOW, World

if TYPE_CHECKING:
    from pathlib import Path

GHCR, OTHER = (Reference.parse_channel(f"oci://{host}/acme/flux:p") for host in ("ghcr.io", "registry.example"))
ECR = Reference.parse_channel("oci://123456789012.dkr.ecr.eu-central-1.amazonaws.com/flux:p")
JOB = Job(runner=True, repository="acme/fleet", actor="octocat")
TOKEN = {"github_token": "canary-token"}
LOGIN = {"registry_username": "robot", "registry_password": "canary-password"}
ROBOT, ACTOR = Credential("robot", "canary-password"), Credential("octocat", "canary-token")
DOCKER = json.dumps({"auths": {"ghcr.io": {"auth": base64.b64encode(b"docker:canary-docker").decode()}}})


def given_to(host: str, inputs: dict[str, str], *channels: Reference, job: Job = JOB) -> Credential | None:
    """Return the credential that a registry would be shown."""
    found = logins(Inputs.parse(inputs), job, channels, lambda _: None).before(Anonymous(), {}).for_host(host)
    assert found.pull == found.push
    return found.pull


@pytest.mark.parametrize(
    ("host", "inputs", "channels", "credential"),
    [
        pytest.param("ghcr.io", TOKEN, [GHCR], ACTOR, id="ghcr.io has the actor and the token"),
        pytest.param("registry.example", TOKEN, [OTHER], None, id="no other registry is shown the token"),
        pytest.param("ghcr.io", LOGIN | TOKEN, [GHCR], ROBOT, id="a login goes before the token"),
        pytest.param("registry.example", LOGIN | TOKEN, [OTHER], ROBOT, id="a login of another registry"),
        pytest.param("ghcr.io", LOGIN | TOKEN, [OTHER], ACTOR, id="which ghcr.io is not shown"),
        pytest.param("evil.example", LOGIN | TOKEN, [OTHER], None, id="nor anybody else"),
        pytest.param("ghcr.io", {}, [GHCR], None, id="nothing given"),
        pytest.param(
            "ghcr.io",
            TOKEN | {"docker_config": DOCKER},
            [GHCR],
            Credential("docker", "canary-docker"),
            id="docker's configuration goes before the token",
        ),
        pytest.param(
            "registry.example", TOKEN | {"docker_config": DOCKER}, [OTHER], None, id="which has it for one host alone"
        ),
    ],
)
def test_a_registry_is_shown_what_is_meant_for_it(
    host: str, inputs: dict[str, str], channels: list[Reference], credential: Credential | None
) -> None:
    assert given_to(host, inputs, *channels) == credential


def test_the_token_of_an_enterprise_server_is_not_for_ghcr() -> None:
    assert given_to("ghcr.io", TOKEN, GHCR, job=replace(JOB, server="https://github.example")) is None
    assert given_to("ghcr.io", TOKEN, GHCR, job=replace(JOB, actor="")) is None


def test_what_the_machine_knows_goes_before_the_token_and_after_the_login() -> None:
    @dataclass
    class Known:
        def for_host(self, _: str) -> Credentials:
            return Credentials.both(Credential("known"))

    def shown(inputs: dict[str, str]) -> Credential | None:
        return logins(Inputs.parse(inputs), JOB, [GHCR], lambda _: None).before(Known(), {}).for_host("ghcr.io").pull

    assert shown(TOKEN) == Credential("known")
    assert shown(TOKEN | LOGIN) == ROBOT


def test_one_password_is_not_for_two_registries() -> None:
    with pytest.raises(OneLoginForSeveralRegistries, match=r"ghcr\.io, registry\.example"):
        given_to("ghcr.io", LOGIN, GHCR, OTHER)
    assert given_to("ghcr.io", LOGIN, GHCR, GHCR.at_tag("other")) == ROBOT


def test_a_provider_is_asked_once_for_its_registries_and_its_secret_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def login(provider: str, host: str, environment: dict[str, str], *, mask: Any) -> Credential:
        asked.append((provider, host, environment))
        if not host.endswith(".amazonaws.com"):
            raise NotOfProvider(cast("Any", provider), host)
        mask("canary-ecr")
        return Credential("AWS", "canary-ecr")

    monkeypatch.setattr("ci_automation.registry.logins.login", login)
    hidden: list[str] = []
    inputs = Inputs.parse(TOKEN | {"provider": "aws"})
    host = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
    source = logins(inputs, JOB, [ECR, GHCR], hidden.append).before(Anonymous(), {"A": "b"})
    for _ in range(2):
        assert source.for_host(host).push == Credential("AWS", "canary-ecr")
    assert source.for_host("ghcr.io").pull == ACTOR
    assert source.for_host("evil.dkr.ecr.eu-central-1.amazonaws.com") == Credentials()
    assert asked == [("aws", host, {"A": "b"}), ("aws", "ghcr.io", {"A": "b"})]
    assert hidden == ["canary-ecr"]
    alone = logins(inputs, JOB, [GHCR], hidden.append).before(Anonymous(), {})
    with pytest.raises(NotOfProvider):
        alone.for_host("ghcr.io")


def test_the_secrets_of_a_docker_configuration_are_found() -> None:
    auth = base64.b64encode(b"me:canary-a:b").decode()
    text = json.dumps(
        {
            "auths": {"a": {"auth": auth}, "b": {"identityToken": "canary-i"}, "c": {"password": "canary-p"}, "d": {}},
            "credHelpers": {"auth": "ecr-login"},
        }
    )
    assert secrets_in(text) == (auth, "canary-a:b", "canary-i", "canary-p", "ecr-login")
    assert secrets_in('{"auths": {"a": {"auth": "!"}}}') == ("!",)
    assert secrets_in('{"auths": {"a": {"auth": "_____w=="}}}') == ("_____w==",)
    assert secrets_in("canary-nothing") == ("canary-nothing",)
    assert secrets_in("") == ()


def test_a_damaged_docker_configuration_is_named_without_what_is_in_it() -> None:
    with pytest.raises(InvalidRegistryConfig, match="docker-config: line 1: it is not JSON") as caught:
        given_to("ghcr.io", {"docker_config": "{canary-x"}, GHCR)
    assert "canary-x" not in str(caught.value)


def test_logins_are_in_no_repr() -> None:
    made = logins(Inputs.parse(TOKEN | LOGIN), JOB, [GHCR], lambda _: None)
    given = Arguments(logins=made.before, github_token="canary-token")
    source = made.before(Anonymous(), {"X": "canary-x"})
    assert "canary-" not in f"{made!r} {given!r} {source!r}"
    assert Logins().before(Anonymous(), {}).for_host("ghcr.io") == Credentials()


def test_the_token_goes_to_the_api_that_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_API_URL", "https://github.example/api/v3")
    monkeypatch.setenv("GITHUB_TOKEN", "canary-other")
    given = Arguments(github_token="canary-token")
    assert _github_token("https://api.github.com", given) is None
    assert _github_token("https://github.example/api/v3/", given) == "canary-token"
    assert _github_token("https://github.example/api/v3", Arguments()) == "canary-other"


@dataclass
class Signs:
    claims: dict[str, str]


def test_a_shared_subject_is_refused_unless_it_is_accepted() -> None:
    called = "acme/ci-automation/.github/workflows/update.yaml@refs/tags/v1"
    given, run = (
        Arguments(),
        ActionRun(replace(JOB, runner=True, event="schedule", ref="refs/heads/main"), Log(io.StringIO(), runner=True)),
    )
    given.keyless[cast("Any", "root")] = cast("Any", Signs({"job_workflow_ref": called}))
    with pytest.raises(SharedSubject):
        _require_own_claims(Inputs.parse({}), given, run)
    _require_own_claims(Inputs.parse({"accept_shared_subject": "true"}), given, run)


def test_hints_name_inputs_where_there_is_one() -> None:
    hint = "Use --docker-config, --components-file or --yes; --key FILE."
    error = UsageError("m")
    error.hint = hint
    told = trouble_of(error)
    assert told.hint == "Use the input docker-config, the input components-file or --yes; the input key FILE."


ENTRY = "version: 1\nartifacts:\n- artifact: {}\n  version: v2.9.4\n  base: {}\n  target: {}\n"
HERE, THERE = Digest.of(b"here"), Digest.of(b"there")


@pytest.mark.parametrize(
    ("lock", "folders", "asks"),
    [
        pytest.param(None, [".git"], False, id="no file in the checkout"),
        pytest.param(ENTRY.format(GHCR, HERE, THERE), [".git"], True, id="an entry from the base"),
        pytest.param(ENTRY.format(GHCR, THERE, HERE), [".git"], False, id="an entry from another base"),
        pytest.param(ENTRY.format(OTHER, HERE, THERE), [".git"], False, id="an entry of another artifact"),
        pytest.param("- damaged", [".git"], True, id="a damaged file"),
        pytest.param(None, [], True, id="no checkout"),
        pytest.param(None, [".git", ".git/info/sparse-checkout"], True, id="a part of a checkout"),
    ],
)
def test_github_is_asked_for_approvals_where_the_checkout_has_a_claim(
    tmp_path: Path, lock: str | None, folders: list[str], asks: bool
) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    if lock is not None:
        (tmp_path / ".github").mkdir()
        (tmp_path / ".github/flux-manifests.lock.yaml").write_text(lock)
    assert may_be_claimed(HERE, GHCR, RequestKind.VERSION, tmp_path) is asks


def hub(job: Job = JOB, **inputs: str) -> Hub:
    return Hub(Inputs.parse(inputs), job, lambda _: None, lambda _: None)


def goal(settings: ApprovalConfig | None = None) -> Target:
    configured = Artifact(name="production", channel=GHCR, approval=settings) if settings else None
    return Target("production", GHCR, Prepared(World().ports(), Intent(NOW)), configured)


def test_the_configuration_says_where_to_ask_and_else_the_input() -> None:
    assert approvals_of(goal(), hub(approval="none")) is None
    assert approvals_of(goal(ApprovalConfig(ApprovalVia.NONE)), hub()) is None
    with pytest.raises(NoToken):
        approvals_of(goal(ApprovalConfig()), hub())
    with pytest.raises(NoReceiver):
        approvals_of(goal(ApprovalConfig(ApprovalVia.REPOSITORY_DISPATCH)), hub(github_token="canary-token"))
    with pytest.raises(NoRepository):
        approvals_of(goal(), hub(Job(), github_token="canary-token"))


def test_the_default_branch_is_what_the_runner_wrote(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text(json.dumps({"repository": {"full_name": "acme/fleet", "default_branch": "trunk"}}))
    assert hub(replace(JOB, event_path=path)).default_branch() == "trunk"
    assert hub(replace(JOB, event="schedule", ref="refs/heads/main")).default_branch() == "main"


def test_a_step_says_things_in_the_log_and_on_the_page() -> None:
    out = io.StringIO()
    step = ActionRun(JOB, Log(out, runner=True))
    step.tell("warning", "a\x1b\nb", "title")
    step.say("::error::x")
    assert out.getvalue() == "::warning title=title::a\N{REPLACEMENT CHARACTER}%0Ab\n| ::error::x\n"
