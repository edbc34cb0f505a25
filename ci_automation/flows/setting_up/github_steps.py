"""The steps at GitHub in the list of `setup`: each is a click in a browser, or its command with `gh`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.flows.setting_up.configuration import PRIVATE_KEY
from ci_automation.flows.setting_up.differing import enumerated
from ci_automation.flows.setting_up.files import ENVIRONMENT
from ci_automation.flows.setting_up.todo import chain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.setting_up.answers import Answers

_GHCR = "oci://ghcr.io/"
_ONE = "CHANNEL"  # the placeholder for one of several channels


def left_in_settings(answers: Answers, registries: Sequence[str]) -> Iterator[str]:
    """Yield the settings of the repository."""
    at, branch, api = _page(answers), answers.place.branch, f"gh api{of_host(answers)} --silent"
    repository = f"repos/{answers.place.repository}"
    if not answers.by_run:
        allowed = f"{api} -X PUT {repository}/actions/permissions/workflow -F can_approve_pull_request_reviews=true"
        yield (
            f'Tick "Allow GitHub Actions to create and approve pull requests": {at}/actions. If your organisation '
            f"forbids it, tick it there first: {of_organisation(answers)}\n{allowed}"
        )
    yield _gate(answers, f"{at}/environments/new")
    yield (
        f"Protect {branch} with a rule that asks for a pull request with a review, since a person who may push a "
        f"workflow there can sign anything: {at}/rules{_for_bots(answers)}\n{_rule(branch)} |\n"
        f"  {api} {repository}/rulesets --input -"
    )
    if registries:
        yield _login(answers, at, registries)
    if not answers.keyless:
        yield _with_keys(answers, at)


def _gate(answers: Answers, page: str) -> str:
    """Return how the environment is made in which operations wait."""
    made = f"Make the environment {ENVIRONMENT}"
    if answers.by_code:
        return (
            f"{made} for the branch {answers.place.branch} alone, without required reviewers: a code counts only as "
            f"long as it has none. GitHub Free has no environments in private repositories: leave it out there. {page}"
            f"\n{chain(_environment(answers, ENVIRONMENT))}"
        )
    you = f"$(gh api{of_host(answers)} user --jq .id)"
    reviewers = f'"reviewers": [{{"type": "User", "id": \'{you}\'}}],\n  '
    return (
        f"{made} with required reviewers, for the branch {answers.place.branch} alone. The command names you, and no "
        f"one else: {page}\n{chain(_environment(answers, ENVIRONMENT, reviewers))}"
    )


def _with_keys(answers: Answers, at: str) -> str:
    """Return how each channel gets its environment with the key."""
    names = [f"{ENVIRONMENT}-{it}" for it in answers.channels]
    own = names[0] if len(names) == 1 else "$it"
    made = chain(
        (
            *_environment(answers, own),
            f"gh secret set COSIGN_KEY {_in(answers)} --env {own} < {PRIVATE_KEY}",
            f"gh secret set COSIGN_PASSWORD {_in(answers)} --env {own}",
        )
    )
    if names[1:]:
        body = made.replace("\n", "\n  ")
        made = f"(for it in {' '.join(names)}; do\n  {body} || exit 1\ndone)"
    which = f"environments {enumerated(names)}, each" if names[1:] else f"environment {own}"
    return (
        f"Make the {which} for the branch {answers.place.branch} alone, without reviewers, with the secrets COSIGN_KEY "
        f"(the text of {PRIVATE_KEY}) and COSIGN_PASSWORD, for which gh asks: {at}/environments/new\n{made}"
    )


def _environment(answers: Answers, name: str, reviewers: str = "") -> tuple[str, ...]:
    """Return the commands that make an environment for the default branch alone."""
    api, at = f"gh api{of_host(answers)} --silent", f"repos/{answers.place.repository}/environments/{name}"
    policy = '"deployment_branch_policy": {"protected_branches": false, "custom_branch_policies": true}'
    return (
        f"echo '{{{reviewers}{policy}}}' |\n  {api} -X PUT {at} --input -",
        f"{api} {at}/deployment-branch-policies -f name={answers.place.branch}",
    )


def _rule(branch: str) -> str:
    return f"""\
echo '{{"name": "{ENVIRONMENT}", "target": "branch", "enforcement": "active",
  "conditions": {{"ref_name": {{"include": ["refs/heads/{branch}"], "exclude": []}}}},
  "rules": [{{"type": "pull_request", "parameters": {{"required_approving_review_count": 1,
    "require_last_push_approval": true, "require_code_owner_review": false,
    "dismiss_stale_reviews_on_push": false, "required_review_thread_resolution": false}}}}]}}'"""


def _for_bots(answers: Answers) -> str:
    """Return what the rule means for Flux where it pushes to the branch."""
    stopped = "It stops ImageUpdateAutomation, which this repository has, from pushing there. First give that a branch"
    page = f"{answers.docs}/guides/action.md#bots-that-push-to-the-default-branch"
    return f". {stopped} of its own, or let some paths alone need a review: {page}" if answers.has_bot else ""


def _login(answers: Answers, at: str, registries: Sequence[str]) -> str:
    """Return how runs get a login at registries where the job's own token is none."""
    if len(registries) == 1:
        needed = "the variable REGISTRY_USERNAME and the secret REGISTRY_PASSWORD"
        reader = "REGISTRY_READER and REGISTRY_READER_PASSWORD"
        users = {"REGISTRY_USERNAME": "REGISTRY_PASSWORD", "REGISTRY_READER": "REGISTRY_READER_PASSWORD"}
    else:
        needed, reader = "the secret DOCKER_CONFIG_JSON, the text of a config.json", "DOCKER_CONFIG_READER"
        users = {}
    looking = f", and {reader} for the jobs that only look" if answers.keyless else ""  # a call gives those no secret
    made = [
        f"gh variable set {user} {_in(answers)} --body USER &&\ngh secret set {password} {_in(answers)}"
        for user, password in [*users.items()][: 2 if answers.keyless else 1]
    ]
    told = (
        f"Give runs a login at {' and '.join(registries)}: {needed}{looking}: {at}/secrets/actions. In a "
        f"cloud, `provider` takes their place: {answers.docs}/guides/logins.md#registries"
    )
    return f"{told}\n{chain(made)}" if made else told


def left_for_first_digests(answers: Answers) -> Iterator[str]:
    """Yield how each channel gets its first signed digest: a run has to trust those that exist before."""
    first, sources = answers.first[0], dict(answers.waves)
    ours = {answers.channels[name].repository for name in answers.signed}
    others = [it for name, it in answers.channels.items() if answers.tags[name] != () and it.repository not in ours]
    yield from _writable(answers, others, "others pushed the package before")
    run = f"Run workflow at {answers.place.server}/{answers.place.repository}/actions/workflows/flux.yaml"
    if not answers.has(first):
        to = f" --flux-version {answers.version}"
        approved = _approved(answers, f"init {first}{to}")
        yield f"{run}: command init, artifact {first}, to {answers.version}. {approved}\n" + _started(
            answers, "init", [first], f" -f to={answers.version}"
        )
    if not answers.keyless and not answers.by_code:
        new = [it for name, it in answers.channels.items() if not answers.tags[name] or it.repository in ours]
        yield from _writable(answers, new, "you make the package in a terminal")
    if there := [*answers.to_adopt]:
        failing = [name for name in there if name in sources]
        before = f" Until then, promotions to {enumerated(failing)} fail." if failing else ""
        which = str(answers.channels[there[0]]) if len(there) == 1 else enumerated(there)
        signed = "it" if len(there) == 1 else "them"
        approved = _approved(answers, f"update {_named(there)} --adopt")
        yield (
            f"Adopt {which}, unless this workflow signed {signed}. {run}: command adopt, {_each(there)}. "
            f"{approved}{before}\n" + _started(answers, "adopt", there)
        )
    if promoted := [name for name in sources if not answers.has(name)]:
        approved = _approved(answers, f"promote --to {_named(promoted)}", ", and what it prints")
        yield (
            f"{run}: command promote, {_each(promoted)}. First digests do not wait. {approved}\n"
            + _started(answers, "promote", promoted)
        )


def _writable(answers: Answers, channels: Iterable[Reference], when: str) -> Iterator[str]:
    """Yield how runs may write to packages by their own token; one that the workflow makes lets its repository."""
    one_each = {it.repository: it for it in filter(is_at_ghcr, channels) if answers.place.is_public}
    for channel in one_each.values():
        yield (
            f"If {when}, give {answers.place.repository} the role Write under Manage Actions access; the workflow's "
            f"own package needs none: {package_page(channel)}"
        )


def _started(answers: Answers, command: str, names: Sequence[str], to: str = "") -> str:
    """Return the command that starts a run, for one of several channels after the other, and again with its code."""
    where = f"{_in(answers)} --ref {answers.place.branch}"
    run = f"gh workflow run flux.yaml {where} -f command={command} -f artifact={_named(names)}{to}"
    return f"CODE=\n{run} -f code=$CODE" if answers.by_code else run


def _approved(answers: Answers, command: str, then: str = "") -> str:
    if answers.by_code:
        return "It shows what it would do, and a code. Read that, then start it again with the code."
    if answers.keyless:
        return "A reviewer approves the run."
    terminal = f"`flux-manifests {command} --key {PRIVATE_KEY}`{then}"
    return f"A reviewer approves. Without one, in a terminal: {terminal}."


def _named(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else _ONE


def _each(names: Iterable[str]) -> str:
    return f"artifact {'; then artifact '.join(names)}"


def _page(answers: Answers) -> str:
    """Return the address of the repository's settings."""
    return f"{answers.place.server}/{answers.place.repository}/settings"


def of_organisation(answers: Answers) -> str:
    """Return the address of the organisation's settings of Actions."""
    return f"{answers.place.server}/organizations/{answers.place.repository.partition('/')[0]}/settings/actions"


def of_host(answers: Answers) -> str:
    """Return the option of `gh api` and `gh auth` for another server than github.com."""
    return "" if answers.place.is_public else f" --hostname {answers.place.host}"


def _in(answers: Answers) -> str:
    """Return the option of other commands of `gh` for the repository."""
    host = "" if answers.place.is_public else f"{answers.place.host}/"
    return f"-R {host}{answers.place.repository}"


def package_page(channel: Reference) -> str:
    """Return the address of the settings of a package."""
    owner, _, package = str(channel.repository).removeprefix(_GHCR).partition("/")
    return f"https://github.com/orgs/{owner}/packages/container/{package.replace('/', '%2F')}/settings"


def is_at_ghcr(channel: Reference) -> bool:
    """Return whether a channel is at ghcr.io."""
    return str(channel).startswith(_GHCR)
