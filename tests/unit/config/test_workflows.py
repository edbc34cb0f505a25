"""`config validate --workflows`: the shipped workflows fit together, and each rule finds what breaks it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ci_automation.approval import lock
from ci_automation.approval.dispatch import EventType
from ci_automation.cli import run
from ci_automation.cli.options import INPUTS
from ci_automation.config.load import parse_config
from ci_automation.config.workflow_events import LOCK_FILE, PUBLISHED, REQUESTED, event_advice
from ci_automation.config.workflow_rights import INPUTS_OF_CALLED, RIGHTS_OF_CALLED, SECRETS_OF_CALLED
from ci_automation.config.workflow_rules import uses_of_action, workflow_problems
from ci_automation.config.workflows import GitHubPlace, read_workflow

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = {str(path.relative_to(ROOT / "workflows")): path for path in sorted((ROOT / "workflows").rglob("*.yaml"))}
PLACE = GitHubPlace("acme/fleet")
SUBJECTS = "^https://github\\.com/acme/fleet/\\.github/workflows/"
ISSUER = "https://token.actions.githubusercontent.com"
ONE = "version: 1\nartifacts: [{name: production, url: 'oci://ghcr.io/acme/flux-manifests:production'}]\n"
TWO = ONE.replace("}]", "}, {name: staging, url: 'oci://ghcr.io/acme/flux-manifests:staging'}]")
WAVES = TWO.replace("production'}", "production', promote: {from: staging}}")
KEY = f"{ONE}defaults: {{signing: {{key: env://COSIGN_KEY}}, verify: {{publicKey: cosign.pub}}}}\n"


def verify(names: str) -> str:
    pattern = f"{SUBJECTS}({names})\\.yaml@refs/heads/main$"
    return f"defaults: {{verify: {{identityRegexp: '{pattern}', issuer: '{ISSUER}'}}}}\n"


PULL_REQUEST = ({"flux.yaml": "flux.yaml"}, "")
DISPATCH = ({"flux.yaml": "flux-by-dispatch.yaml", "approve.yaml": "approve.yaml"}, "")
FLEET = ({"flux.yaml": "fleet.yaml"}, TWO)
PROMOTE = ({"flux.yaml": "flux.yaml"}, WAVES + verify("flux"))  # without the line `artifact`
WITH_KEY = ({"flux.yaml": "with-key/flux.yaml", "approve.yaml": "with-key/approve.yaml"}, KEY)
BY_CODE = (PULL_REQUEST[0], ONE.replace("'}", "', approval: {operationsByCode: true}}"))
KEY_BY_CODE = (WITH_KEY[0], BY_CODE[1] + KEY.removeprefix(ONE))
CONSUMERS = ({"flux.yaml": "flux.yaml", "consumers.yaml": "consumers.yaml"}, ONE)
WATCH = ({"flux.yaml": "flux.yaml", "watch.yaml": "watch.yaml"}, "")
PREVIEW = ({"flux.yaml": "flux.yaml", "preview.yaml": "preview.yaml"}, ONE)
WAYS = {
    "previews": PREVIEW,
    "by pull request": PULL_REQUEST,
    "by dispatch": DISPATCH,
    "by dispatch, configured": (DISPATCH[0], ONE + verify("flux|approve")),
    "several artifacts": FLEET,
    "promotions": PROMOTE,
    "promotions, each in a job": (FLEET[0], WAVES),
    "with a key": WITH_KEY,
    "several with keys": ({"flux.yaml": "with-key/fleet.yaml"}, TWO + "defaults: {signing: {key: env://COSIGN_KEY}}\n"),
    "consumers": CONSUMERS,
    "watched": WATCH,
    "operations by a code": BY_CODE,
    "operations by a code, with a key": KEY_BY_CODE,
    "on request": ({"flux.yaml": "requested.yaml"}, ONE),
}
NAMED = "          artifact: oci://ghcr.io/acme/flux-manifests:production\n"
TAKEN = {it.name: it.choices for it in INPUTS}
Way = tuple[dict[str, str], str]


def texts(way: Way) -> dict[str, str]:
    return {name: SHIPPED[shipped].read_text() for name, shipped in way[0].items()}


def found(files: dict[str, str], config: str = "", place: GitHubPlace | None = PLACE) -> list[str]:
    read = parse_config(config.encode(), "flux-manifests.yaml") if config else None
    return [str(problem) for problem in workflow_problems(files, read, place, TAKEN)]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_shipped_workflows_fit_together(way: Way) -> None:
    assert found(texts(way), way[1]) == []


def test_every_shipped_workflow_that_is_in_no_row_fits_by_itself() -> None:
    rows = {name for way, _ in WAYS.values() for name in way.values()}
    for name in SHIPPED.keys() - rows:
        assert found({"flux.yaml": SHIPPED[name].read_text()}) == []


[COMMIT] = set(re.findall(r"acme/ci-automation@([0-9a-f]{40})", SHIPPED["flux.yaml"].read_text()))  # the present pin
GROUP = "    concurrency:\n      group: flux-manifests\n      cancel-in-progress: false\n"
IDENTITY = f"          identity-regexp: {SUBJECTS}(flux|approve)\\.yaml@refs/heads/main$\n          issuer: {ISSUER}\n"
BROKEN = [  # the way, the file in it, what is changed to what, and what is found
    pytest.param(PULL_REQUEST, "flux.yaml", "name: Flux\n", "name: [\n", ": it is not YAML", id="no YAML"),
    pytest.param(PULL_REQUEST, "flux.yaml", "name: Flux\n\non", "--- {}\n---\non", ":1:1: is not one", id="documents"),
    # events
    pytest.param(
        CONSUMERS,
        "consumers.yaml",
        PUBLISHED,
        "flux-manifests-publish",
        "waits for flux-manifests-publish, which nothing sends. The action sends flux-manifests-published and",
        id="a type that nothing sends",
    ),
    pytest.param(
        CONSUMERS,
        "consumers.yaml",
        PUBLISHED,
        REQUESTED,
        f"starts the job consumers on {REQUESTED}, and publications send {PUBLISHED}. Add it to types",
        id="a type of other events",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        '"17 * * * *"',
        '"17 25 * * *"',
        "flux.yaml:18:7: on.schedule[0].cron: '17 25 * * *' cannot be understood: it has no valid hour. Write minute",
        id="a time that is none",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        '- cron: "17 * * * *"',
        "- 17",
        "on.schedule[0]: is no time of a schedule",
        id="no time",
    ),
    # inputs
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "          artifact: oci",
        "          aproval: none\n          artifact: oci",
        "with.aproval: the action has no input 'aproval'. Did you mean approval?",
        id="no such input",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "          command: do\n",
        "          command: doo\n",
        "with.command: the input command does not take 'doo'. Did you mean do?",
        id="no such command",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "          approval: pull-request",
        "          approval: pull-requests",
        "with.approval: the input approval does not take 'pull-requests'. Did you mean pull-request?",
        id="no such choice",
    ),
    pytest.param(
        WITH_KEY,
        "flux.yaml",
        "      environment:",
        "      enviroment:",
        "jobs.operate.with.enviroment: the called operate.yaml has no input 'enviroment'. Did you mean environment?",
        id="no such input of a called workflow",
    ),
    pytest.param(
        WITH_KEY,
        "flux.yaml",
        "approval: pull-request",
        "approval: pull-requests",
        "jobs.update.with.approval: the input approval does not take 'pull-requests'. Did you mean pull-request?",
        id="no such choice of a called workflow",
    ),
    pytest.param(
        WITH_KEY,
        "flux.yaml",
        "COSIGN_PASSWORD: $",
        "COSIGN_PASSPHRASE: $",
        "jobs.update.secrets.COSIGN_PASSPHRASE: the called update.yaml has no secret 'COSIGN_PASSPHRASE'. Did you mean "
        "COSIGN_PASSWORD?",
        id="no such secret of a called workflow",
    ),
    pytest.param(
        WITH_KEY,
        "approve.yaml",
        "      base: ${{ inputs.base }}\n",
        "",
        "jobs.approve.with: the called approve.yaml needs base. Add what is missing to `with`",
        id="an input that a called workflow needs",
    ),
    # groups
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        GROUP,
        "",
        "flux.yaml:45:3: jobs.flux: publishes in no concurrency group",
        id="no group",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "cancel-in-progress: false",
        "cancel-in-progress: true",
        "jobs.flux.concurrency.cancel-in-progress: lets GitHub cancel a run that publishes",
        id="cancelled",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "group: flux-manifests",
        "group: flux-${{ env.NAME }}-${{ github.ref }}",
        "GitHub gives a group no env context; it can read github, inputs, matrix, needs, strategy, vars",
        id="a context that groups do not have",
    ),
    pytest.param(
        DISPATCH,
        "approve.yaml",
        "group: flux-manifests",
        "group: other",
        "flux.yaml:37:5: jobs.flux.concurrency: publishes oci://ghcr.io/acme/flux-manifests:production in the group "
        "'flux-manifests', the job publish of approve.yaml in 'other'",
        id="two groups",
    ),
    pytest.param(
        FLEET,
        "flux.yaml",
        "group: flux-manifests-${{ matrix.artifact }}",
        "group: flux-manifests",
        "is in the group 'flux-manifests' with the job for production",
        id="two artifacts in one group",
    ),
    pytest.param(
        WITH_KEY,
        "approve.yaml",
        "    name: Approve\n    uses",
        "    concurrency: flux-manifests-oci://ghcr.io/acme/flux-manifests:production\n    uses",
        "jobs.approve.concurrency: holds a group that the called workflow needs too",
        id="the group of a called workflow",
    ),
    pytest.param(
        DISPATCH,
        "approve.yaml",
        "    environment: flux-manifests\n",
        "    environment: flux-manifests\n    concurrency: flux-manifests\n",
        "jobs.gate.concurrency: waits for reviewers in a concurrency group",
        id="a group that waits for people",
    ),
    # identities
    pytest.param(
        PROMOTE,
        "flux.yaml",
        "name: Flux",
        "name: Flux",
        "",
        id="nothing changed",
    ),
    pytest.param(
        (DISPATCH[0], ONE + verify("flux|approved")),
        "flux.yaml",
        IDENTITY,
        "",
        "(flux|approved)\\.yaml@refs/heads/main$, and approve.yaml of acme/fleet on main signs production. Trust",
        id="an identity that is not trusted",
    ),
    pytest.param(
        (PROMOTE[0], WAVES + verify("elsewhere")),
        "flux.yaml",
        "name: Flux",
        "name: Flux",
        "and flux.yaml of acme/fleet on main signs production, staging. Trust identity: https://github.com/acme/fleet/.",
        id="an identity that is not trusted, of two artifacts",
    ),
    pytest.param(
        DISPATCH,
        "flux.yaml",
        IDENTITY,
        "",
        "trusts itself alone, and approve.yaml, flux.yaml sign oci://ghcr.io/acme/flux-manifests:production. "
        "Trust identityRegexp: ^https://github\\.com/acme/fleet/\\.github/workflows/(approve\\.yaml|flux\\.yaml)@refs/heads/main$",
        id="two signers that are not named",
    ),
    pytest.param(
        CONSUMERS,
        "consumers.yaml",
        "workflows/flux.yaml@refs/heads/main",
        "workflows/flux.yaml@refs/heads/master",
        "consumers.yaml:37:9: jobs.consumers.steps[1]: trusts https://github.com/acme/fleet/.github/workflows/flux.yaml@"
        "refs/heads/master, and flux.yaml of acme/fleet on main signs production. Trust identity: https://github.com/",
        id="another branch",
    ),
    pytest.param(
        CONSUMERS,
        "consumers.yaml",
        f"issuer: {ISSUER}",
        "issuer: https://example.com",
        f"trusts the issuer https://example.com, and GitHub's is {ISSUER}",
        id="another issuer",
    ),
    pytest.param(
        CONSUMERS,
        "consumers.yaml",
        "          identity: ",
        "          public-key: cosign.pub #",
        "trusts keys, not the keyless signatures of flux.yaml on production",
        id="a key for what is signed keyless",
    ),
    # triggers
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "  workflow_dispatch:\n",
        "  pull_request_target:\n",
        "flux.yaml:19:3: on.pull_request_target: starts the job flux, which signs, on pull_request_target",
        id="an event of others",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "  workflow_dispatch:",
        "  workflow_call:",
        "may call this file signs as",
        id="called",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "branches: [main]",
        "branches: [main, next]",
        "on.push: starts the job flux, which signs, on other branches or tags. Write push: {branches: [main]}",
        id="another branch is pushed",
    ),
    pytest.param(
        DISPATCH,
        "approve.yaml",
        "      base:\n",
        "      from:\n",
        "with the inputs base: the check",
        id="an input is gone",
    ),
    # permissions
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "      pull-requests: write # opens the pull request\n",
        "",
        "jobs.flux.permissions: the job flux lacks pull-requests: write for update",
        id="a right is missing",
    ),
    pytest.param(
        WITH_KEY,
        "approve.yaml",
        "      actions: read # to see who approved this run, and how the environment is protected\n",
        "",
        "jobs.approve.permissions: the job approve lacks actions: read for approve",
        id="a right of a called workflow is missing",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "permissions: {}\n",
        "permissions: write-all\n",
        "",
        id="the job's own rights count",
    ),
    # codes
    *(
        pytest.param(
            way,
            "flux.yaml",
            "code: ${{ inputs.code }}\n",
            "\n",
            f"jobs.{job}: gets no code, by which operationsByCode lets a person approve. Add code: ${{{{",
            id=f"no code for {job}",
        )
        for way, job in ((BY_CODE, "show"), (BY_CODE, "do"), (KEY_BY_CODE, "operate"))
    ),
    pytest.param(PULL_REQUEST, "flux.yaml", "code: ${{ inputs.code }}\n", "\n", "", id="no code that counts"),
    # environments
    pytest.param(
        DISPATCH,
        "approve.yaml",
        "environment: flux-manifests",
        "environment: elsewhere",
        "jobs.publish.needs: waits for no approval. Let it need a job in the environment flux-manifests",
        id="the gate is another environment",
    ),
    pytest.param(
        DISPATCH,
        "approve.yaml",
        "    needs: [show, gate]\n",
        "    needs: [show, gate]\n    environment: ${{ inputs.key }}\n",
        "jobs.publish.environment: takes the environment from an input",
        id="the environment is an input",
    ),
    pytest.param(
        FLEET,
        "flux.yaml",
        "environment: flux-manifests-${{ matrix.name }}",
        "environment: {name: flux-manifests}",
        "gives the jobs of all artifacts one environment",
        id="one environment for all",
    ),
    pytest.param(
        WITH_KEY,
        "approve.yaml",
        "gate: flux-manifests",
        "gate: other",
        "waits in the environment other",
        id="called gate",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "needs: [show, gate]",
        "needs: show",
        "jobs.do.needs: waits for no approval",
        id="no gate",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "needs: [show, gate]",
        "needs: [show, gate]\n    if: always()",
        "jobs.do.if: runs after a rejection too",
        id="a rejection is no end",
    ),
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        "needs: [show, gate]",
        "needs: [show, gate]\n    if: ${{ !Cancelled() }}",
        "jobs.do.if: runs after a rejection too, by Cancelled()",
        id="a job that runs unless the run is cancelled",
    ),
    # previews
    pytest.param(
        PREVIEW,
        "preview.yaml",
        "  pull_request:",
        "  pull_request_target:",
        "on.pull_request_target: runs",
        id="rights",
    ),
    pytest.param(
        PREVIEW,
        "preview.yaml",
        "contents: read",
        "contents: write",
        "jobs.look.permissions: reads files of a pull request, and may write contents",
        id="a preview that may write",
    ),
    pytest.param(
        PREVIEW,
        "preview.yaml",
        "      pull-requests: write # the comment\n    steps:\n",
        f"      pull-requests: write # the comment\n    steps:\n      - uses: actions/checkout@{COMMIT}\n",
        "jobs.comment.steps: may write, and checks out",
        id="files beside rights",
    ),
    # names
    pytest.param(
        CONSUMERS,
        "flux.yaml",
        "artifact: oci://ghcr.io/acme/flux-manifests:production",
        "artifact: oci://ghcr.io/acme/flux-manifest:production",
        "flux.yaml:71:11: jobs.flux.steps[1].with.artifact: the configuration has no artifact",
        id="an artifact that is not configured",
    ),
    pytest.param(
        WATCH,
        "watch.yaml",
        "workflow: flux.yaml",
        "workflow: flux.yml",
        "no workflow 'flux.yml' beside",
        id="not watched",
    ),
    pytest.param(
        DISPATCH,
        "approve.yaml",
        "command: approve",
        "command: apply",
        "flux.yaml:52:11: jobs.flux.steps[1].with.approval: "
        "starts approve.yaml for approvals, and there is no such file",
        id="nobody takes up the approval",
    ),
    # pins
    pytest.param(
        PULL_REQUEST,
        "flux.yaml",
        f"@{COMMIT}",
        "@v1",
        "uses acme/ci-automation@v1, which its owner can change",
        id="a tag",
    ),
    pytest.param(
        DISPATCH,
        "flux.yaml",
        f"@{COMMIT}",
        f"@{'0' * 40}",
        f"pins the action to 000000000000, approve.yaml to {COMMIT[:12]}",
        id="two commits",
    ),
]


@pytest.mark.parametrize(("way", "file", "now", "then", "problem"), BROKEN)
def test_what_does_not_fit_is_found_with_its_place(way: Way, file: str, now: str, then: str, problem: str) -> None:
    files = texts(way)
    assert now in files[file]
    files[file] = files[file].replace(now, then)
    problems = found(files, way[1])
    assert any(problem in each for each in problems) if problem else problems == []


ALONE = """on: {on}
permissions: {permissions}
jobs:
  flux:
    concurrency: {group}
    steps:
    - uses: acme/ci-automation@{pin}
"""


def alone(
    on: str = "[schedule]", permissions: str = "{contents: read}", group: str = "flux", more: str = ""
) -> list[str]:
    text = ALONE.replace("{on}", on).replace("{permissions}", permissions).replace("{group}", group)
    return found({"a.yaml": text.replace("{pin}", COMMIT) + more})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, []),
        ({"on": "schedule"}, []),
        ({"permissions": "read-all"}, []),
        ({"permissions": "write-all"}, ["a.yaml:2:1: permissions: gives every right to a job that needs"]),
        ({"permissions": "{}"}, ["a.yaml:2:1: permissions: the job flux lacks contents: read for update"]),
        ({"permissions": "none"}, ["the job flux lacks contents: read"]),
        ({"permissions": "{contents: admin}"}, ["the job flux lacks contents: read"]),
        ({"on": "push"}, ["a.yaml:1:1: on.push: starts the job flux"]),
        ({"more": "    - {run: ls}\n    - ls\n  other: 1\n"}, []),
        ({"more": "    - uses: ./local\n    - uses: docker://a@sha256:" + "0" * 64}, []),
        ({"more": "    - uses: docker://a:1"}, ["uses docker://a:1, which its owner can change"]),
    ],
)
def test_a_workflow_may_say_it_in_each_way_that_github_takes(given: dict[str, str], said: list[str]) -> None:
    problems = alone(**given)
    assert len(problems) == len(said)
    assert all(each in problem for each, problem in zip(said, problems, strict=True))


def test_a_job_without_permissions_is_told_those_that_it_needs() -> None:
    text = ALONE.replace("permissions: {permissions}\n", "").replace("{on}", "[schedule]").replace("{group}", "a")
    [problem] = found({"a.yaml": text.replace("{pin}", COMMIT)}, ONE)
    assert "jobs.flux: names no permissions" in problem
    assert "{contents: write, pull-requests: write, packages: write, id-token: write}" in problem


def test_an_app_and_a_login_need_fewer_rights_and_a_cloud_needs_an_identity() -> None:
    more = "      with: {app-id: 1, provider: aws, key: env://KEY}\n"
    text = ALONE.replace("{on}", "[schedule]").replace("{group}", "a").replace("{pin}", COMMIT) + more
    assert found({"a.yaml": text.replace("{permissions}", "{contents: read, id-token: write}")}, ONE) == []
    [problem] = found({"a.yaml": text.replace("{permissions}", "{contents: read}")}, ONE)
    assert "lacks id-token: write" in problem


def test_what_is_no_workflow_is_said_and_what_does_not_use_the_action_is_not_looked_at() -> None:
    assert found({"a.yaml": "[]"}) == ["a.yaml:1:1: is not a workflow"]
    assert found({"a.yaml": "on: push\njobs: {test: {uses: acme/other/.github/workflows/a.yaml@v1}}\n"}) == []
    assert found({"a.yaml": "on: push\njobs: []\n"}) == []
    uses = uses_of_action({"b/flux.yaml": SHIPPED["flux.yaml"].read_text(), "c.yaml": "[]"})
    assert {use.workflow.name for use in uses} == {"flux.yaml"}
    assert str(read_workflow("a.yaml", "? []\n: 1")) == "a.yaml:1:1: a key is not a text"


def test_an_address_that_is_none_is_left_to_the_action_and_a_name_needs_the_configuration() -> None:
    text = (
        SHIPPED["flux.yaml"]
        .read_text()
        .replace("artifact: oci://ghcr.io/acme/flux-manifests:production", "artifact: x")
    )
    [problem] = found({"flux.yaml": text})
    assert "the configuration has no artifact 'x'" in problem


def test_without_a_repository_no_subject_is_checked() -> None:
    assert found(texts(DISPATCH), ONE + verify("other"), None) == []


def test_an_enterprise_server_has_an_issuer_of_its_own() -> None:
    place = GitHubPlace("acme/fleet", server="https://ghe.acme.com")
    config, own = CONSUMERS[1], f"issuer: https://{place.host}/_services/token"
    of_server = {
        name: it.replace("https://github.com/", "https://ghe.acme.com/") for name, it in texts(CONSUMERS).items()
    }
    (told,) = found(of_server, config, place)
    assert "consumers.yaml" in told
    assert "trusts an identity of https://ghe.acme.com with github.com's issuer: an Enterprise Server has its" in told
    assert found({name: it.replace(f"issuer: {ISSUER}", own) for name, it in of_server.items()}, config, place) == []


def test_a_configuration_that_trusts_another_repository_is_one_problem_of_all_jobs() -> None:
    files = texts(({"flux.yaml": "flux.yaml", "preview.yaml": "preview.yaml"}, ""))
    files["flux.yaml"] = files["flux.yaml"].replace(NAMED, "")
    [problem] = found(files, WAVES + verify("flux").replace("acme/fleet", "acme/other"))
    assert problem.startswith("the configuration: verify: trusts ^https://github\\.com/acme/other/")
    assert problem.endswith(f"Trust identity: {PLACE.subject('flux.yaml')}")
    [keys] = found(files, TWO + "defaults: {verify: {publicKey: cosign.pub}}\n")
    assert "the configuration: verify: trusts keys, not the keyless signatures of flux.yaml on production" in keys


def test_the_inputs_and_secrets_of_called_workflows_are_those_that_they_take() -> None:
    for name, (required, others) in INPUTS_OF_CALLED.items():
        read = read_workflow(name, (ROOT / f".github/workflows/{name}.yaml").read_text())
        inputs = read.triggers["workflow_call"]["inputs"]  # type: ignore[union-attr]  # it is one of ours
        assert {each for each, it in inputs.items() if it.get("required")} == set(required)
        assert sorted(inputs) == sorted((*required, *others))
        assert set(read.triggers["workflow_call"]["secrets"]) == set(SECRETS_OF_CALLED[name])  # type: ignore[union-attr]


def test_the_rights_of_called_workflows_are_those_that_they_ask_for() -> None:
    for name, rights in RIGHTS_OF_CALLED.items():
        read = read_workflow(name, (ROOT / f".github/workflows/{name}.yaml").read_text())
        asked: dict[str, str] = {}
        for job in read.jobs.values():  # type: ignore[union-attr]  # it is one of ours
            for right, level in job["permissions"].items():
                asked[right] = max(level, asked.get(right, "read"))
        assert asked == rights


OVERLAY = ONE.replace("}]", ", overlay: clusters/production/}]")
ANNOUNCED = ONE.replace("}]", ", announce: [Acme/fleet]}]")
FOLDER, CONFIG = "clusters/production/**", ".github/flux-manifests.yaml"
ALL_PATHS = f"paths: [{LOCK_FILE}, {CONFIG}, {FOLDER}]"


def advice(files: dict[str, str], config: str = "") -> list[str]:
    read = parse_config(config.encode(), "flux-manifests.yaml") if config else None
    return [str(problem) for problem in event_advice(uses_of_action(files), read, PLACE)]


class TestAdvice:
    def test_names_are_those_that_others_use(self) -> None:
        assert LOCK_FILE == lock.LOCK_FILE
        assert {PUBLISHED, REQUESTED} == set(EventType)

    @pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
    def test_shipped_workflows_need_none(self, way: Way) -> None:
        files = texts(way)
        if way is PROMOTE:
            files["flux.yaml"] = files["flux.yaml"].replace(NAMED, "")
        assert advice(files, way[1]) == []

    @pytest.mark.parametrize(
        ("options", "other"),
        [("[none, production, staging]", False), ("['', production]", True), ("[production, staging, edge]", True)],
    )
    def test_a_list_of_other_artifacts_than_those_of_the_configuration_is_named(
        self, options: str, *, other: bool
    ) -> None:
        asked = "if it has several\n        type: string"
        text = SHIPPED["flux.yaml"].read_text().replace(NAMED, "")
        listed = text.replace(asked, f"if it has several\n        type: choice\n        options: {options}")
        assert advice({"flux.yaml": text}, TWO) == []
        told = advice({"flux.yaml": listed}, TWO)
        assert [it.partition(" offers the artifacts production")[1] != "" for it in told] == [True] * other
        assert not told or told[0].endswith(
            "and the configuration has production, staging. Run `setup` again, or correct the options"
        )

    @pytest.mark.parametrize(
        ("kept", "config", "missing"),
        [
            (True, TWO, "staging"),
            (True, ONE, ""),
            (False, TWO, ""),
            (True, WAVES, "staging"),
        ],
    )
    def test_an_artifact_that_no_job_works_on_is_named(self, *, kept: bool, config: str, missing: str) -> None:
        text = SHIPPED["flux.yaml"].read_text()
        text = text if kept else text.replace(NAMED, "")
        told = [
            each.partition("updates or promotes ")[2].partition(".")[0] for each in advice({"flux.yaml": text}, config)
        ]
        assert told == ([missing] if missing else [])

    @pytest.mark.parametrize(
        ("with_login", "url", "is_told"),
        [
            ("", "oci://registry.example.com/platform/flux:production", True),
            ("", "oci://ghcr.io/acme/flux-manifests:production", False),
            ("", "oci://127.0.0.1:5000/flux:production", False),
            ("registry-password: a", "oci://registry.example.com/platform/flux:production", False),
            ("docker-config: a", "oci://registry.example.com/platform/flux:production", False),
            ("provider: aws", "oci://registry.example.com/platform/flux:production", False),
        ],
    )
    def test_a_job_without_a_login_for_another_registry_is_named(
        self, *, with_login: str, url: str, is_told: bool
    ) -> None:
        address = "oci://ghcr.io/acme/flux-manifests:production"
        text = SHIPPED["flux.yaml"].read_text().replace(NAMED, f"          artifact: {url}\n          {with_login}\n")
        [*told] = [it for it in advice({"flux.yaml": text}, ONE.replace(address, url)) if "the job flux has" in it]
        wanted = "the job flux has no login for registry.example.com. Give it registry-username and registry-password,"
        assert [wanted in it for it in told] == [True] * is_told

    @pytest.mark.parametrize("name", ["flux.yaml", "fleet.yaml", "requested.yaml", "flux-by-dispatch.yaml"])
    def test_lines_that_it_names_start_a_run_for_each_merge(self, name: str) -> None:
        text = SHIPPED[name].read_text()
        [problem] = advice({"flux.yaml": text}, OVERLAY)
        told = problem.partition(" Write ")[2]
        if name == "flux-by-dispatch.yaml":
            assert told == f"push: {{branches: [main], paths: [{FOLDER}, {CONFIG}]}}"
            told = f"on:\n  {told}"
        else:
            assert told == ALL_PATHS
        assert advice({"flux.yaml": re.sub(r"paths: \[.*\]" if "paths" in text else "on:", told, text)}, OVERLAY) == []

    @pytest.mark.parametrize(
        ("push", "missing"),
        [
            ("{branches: [main]}", ""),
            ("null", ""),
            ("", ""),
            (f"{{paths: [{LOCK_FILE}, '**/*.yaml', clusters/**]}}", ""),
            ("{paths: ['**', '!clusters/**']}", FOLDER),
            (f"{{paths: ['**', '!{CONFIG}']}}", CONFIG),
            ("{paths: [.github/*, clusters/production/*]}", FOLDER),
            ("{paths-ignore: [clusters/**]}", FOLDER),
            ("{paths-ignore: [README.md]}", ""),
        ],
    )
    def test_paths_are_read_as_github_reads_them(self, push: str, missing: str) -> None:
        text = re.sub(r"push: #.*\n.*\n.*\n", f"push: {push}\n", SHIPPED["flux.yaml"].read_text())
        told = [each.partition(" changes ")[2].partition("; it")[0] for each in advice({"flux.yaml": text}, OVERLAY)]
        assert told == ([missing] if missing else [])

    def test_a_job_that_looks_at_no_content_on_a_push_is_told(self) -> None:
        text = SHIPPED["with-key/flux.yaml"].read_text().replace(LOCK_FILE, f"{LOCK_FILE}, {FOLDER}")
        assert advice({"flux.yaml": text}, OVERLAY) == []
        text = text.replace("if: github.event_name != 'workflow_dispatch'", "if: github.event_name == 'schedule'")
        [problem] = advice({"flux.yaml": text}, OVERLAY)
        assert f"jobs.update.if: does not run for a merge that changes {LOCK_FILE}, {FOLDER}, {CONFIG}" in problem

    def test_announcements_to_the_own_repository_need_a_workflow_that_hears_and_rights(self) -> None:
        both = texts(CONSUMERS)
        lacks, then = "lacks actions: read to announce what it publishes", ". Add it to its permissions"
        assert [each.partition(": ")[2] for each in advice(both, ANNOUNCED)] == [
            f"jobs.flux.permissions: the job flux {lacks}{then}",
            f"jobs.do.permissions: the job do {lacks.replace('actions: read', 'contents: write')}{then}",
        ]
        both["flux.yaml"] = both["flux.yaml"].replace("contents: read", "contents: write")
        both["flux.yaml"] = both["flux.yaml"].replace("      packages:", "      actions: read\n      packages:", 1)
        assert advice(both, ANNOUNCED) == []
        [unheard] = advice({"flux.yaml": both["flux.yaml"]}, ANNOUNCED)
        assert "announced to acme/fleet, where no workflow that uses the action starts on" in unheard
        without = both["consumers.yaml"].replace("run-name:", "x-run-name:")
        [silent] = advice({**both, "consumers.yaml": without}, ANNOUNCED)
        assert "Write run-name: 'Flux ${{ github.event.client_payload.key }}'" in silent
        text = SHIPPED["flux.yaml"].read_text().replace("        with:\n", "        with:\n          github-token: x\n")
        assert advice({"flux.yaml": text}, ANNOUNCED.replace("Acme/fleet", "acme/apps")) == []


class TestCommand:
    def test_says_which_workflows_fit(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for name, text in texts(DISPATCH).items():
            (tmp_path / name).write_text(text)
        (tmp_path / "README.md").write_text("no workflow")
        arguments = ["config", "validate", "--workflows", str(tmp_path), "--repository", "acme/fleet"]
        assert run(arguments) == 0
        said = "The workflows that use the action fit together in acme/fleet on main: approve.yaml, flux.yaml.\n"
        assert capsys.readouterr().out == said
        assert run([*arguments, "--output", "json"]) == 0
        shown = {
            "schema": "flux-manifests.config/v1",
            "valid": True,
            "workflows": ["approve.yaml", "flux.yaml"],
            "advice": [],
        }
        assert json.loads(capsys.readouterr().out) == shown

    def test_gives_advice_and_ends_well(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "flux.yaml").write_text(SHIPPED["flux.yaml"].read_text().replace(LOCK_FILE, "docs/**"))
        assert run(["config", "validate", "--workflows", str(tmp_path), "--repository", "acme/fleet"]) == 0
        said = capsys.readouterr().err
        assert (
            "flux.yaml:38:3: on.push: starts no run for a merge that changes .github/flux-manifests.lock.yaml" in said
        )

    def test_exits_with_2_and_the_place_of_each_problem(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
        (tmp_path / "flux.yaml").write_text(SHIPPED["flux.yaml"].read_text().replace(f"@{COMMIT}", "@v1"))
        (tmp_path / "config.yaml").write_text(ONE)
        arguments = ["config", "validate", "--workflows", str(tmp_path), "--config", str(tmp_path / "config.yaml")]
        assert run(arguments) == 2
        assert f"{tmp_path}/flux.yaml:68:9: jobs.flux.steps[1].uses: uses acme" in capsys.readouterr().err
        (tmp_path / "flux.yaml").write_text(SHIPPED["flux.yaml"].read_text())
        assert run(arguments) == 0
        captured = capsys.readouterr()
        assert "is valid; its artifact is production." in captured.out
        assert "Identities were not checked; name the repository" in captured.err

    @pytest.mark.parametrize("more", [[], ["--workflows", ".github/workflows"]], ids=["alone", "with workflows"])
    def test_names_an_overlay_that_does_not_exist(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, more: list[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / ".github/workflows").mkdir(parents=True)
        (tmp_path / ".github/flux-manifests.yaml").write_text(OVERLAY)
        place = ".github/flux-manifests.yaml:2:94: artifacts[0].overlay: clusters/production/"
        assert run(["config", "validate", *more]) == 2
        said = f"{place} does not exist: make the folder, or correct the path, which begins in {tmp_path}\n"
        assert f"{said}  hint: Correct these lines, and check again" in capsys.readouterr().err
        (tmp_path / "clusters").mkdir()
        (tmp_path / "clusters/production").write_text("")
        assert run(["config", "validate", *more]) == 2
        assert f"{place} is not a folder: make" in capsys.readouterr().err
        (tmp_path / "clusters/production").unlink()
        (tmp_path / "clusters/production").mkdir()
        assert run(["config", "validate", *more]) == 0

    @pytest.mark.parametrize(
        ("listed", "is_told"), [("flux-system/gotk-components.yaml", True), ("flux-system.yaml", False), ("", False)]
    )
    def test_names_a_components_file_that_the_overlay_does_not_list(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        listed: str,
        *,
        is_told: bool,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / ".github").mkdir()
        (tmp_path / "clusters/production").mkdir(parents=True)
        if listed:
            (tmp_path / "clusters/production/kustomization.yaml").write_text(f"resources: [{listed}]\n")
        (tmp_path / ".github/flux-manifests.yaml").write_text(OVERLAY)
        assert run(["config", "validate"]) == 0
        assert capsys.readouterr().err == ""
        named = OVERLAY.replace("}]", ", componentsFile: flux-system.yaml}]")
        (tmp_path / ".github/flux-manifests.yaml").write_text(named)
        assert run(["config", "validate"]) == 0
        told = "production: clusters/production lists flux-system.yaml nowhere, which is the componentsFile: "
        assert (told in capsys.readouterr().err) is is_told

    def test_looks_for_overlays_where_the_configuration_is_or_in_a_clone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "other.yaml").write_text(OVERLAY)
        assert run(["config", "validate", "--config", "other.yaml"]) == 0
        (tmp_path / ".git").mkdir()
        assert run(["config", "validate", "--config", "other.yaml"]) == 2

    @pytest.mark.parametrize("keys", ["old.pub", "[env://KEY, old.pub]"], ids=["one", "several"])
    def test_names_a_public_key_that_does_not_exist(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, keys: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        text = f"version: 1\ndefaults:\n  verify: {{publicKey: {keys}}}\nartifacts: [{{name: a, url: 'layout:a:x'}}]\n"
        (tmp_path / "flux.yaml").write_text(text)
        assert run(["config", "validate", "--config", "flux.yaml"]) == 2
        line, said = f"flux.yaml:3:{text.splitlines()[2].index('old.pub') + 1}: ", capsys.readouterr().err
        assert f"error: {line}defaults.verify.publicKey" in said
        assert "old.pub does not exist: `public-key` prints it, or correct the path\n" in said
        (tmp_path / "old.pub").write_text("")
        assert run(["config", "validate", "--config", "flux.yaml"]) == 0

    def test_names_a_folder_that_is_not_there(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["config", "validate", "--workflows", str(tmp_path / "none")]) == 2
        said = capsys.readouterr().err
        assert "it cannot be read: No such file or directory" in said
        assert "hint: Name the folder of the workflows: --workflows .github/workflows." in said
