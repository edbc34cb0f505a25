"""The list of `setup`: settings, runs and commands that are left to a person, one action a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.reference import OciRepository, Reference
from ci_automation.flows.setting_up.answers import CONFIGURATION, Answers
from ci_automation.flows.setting_up.cluster_steps import (
    left_before_commit,
    left_for_clusters,
    left_to_decide,
    left_to_follow,
    left_to_name,
    left_to_verify,
)
from ci_automation.flows.setting_up.configuration import PRIVATE_KEY, PUBLIC_KEY
from ci_automation.flows.setting_up.differing import enumerated
from ci_automation.flows.setting_up.files import WORKFLOWS, other_registries, overlays_of
from ci_automation.flows.setting_up.github_steps import (
    is_at_ghcr,
    left_for_first_digests,
    left_in_settings,
    of_host,
    of_organisation,
    package_page,
)
from ci_automation.flows.setting_up.todo import CAREFUL, DECIDE, LAST, chain, in_clusters
from ci_automation.flux.following import SyncSettings
from ci_automation.report.cluster_objects import named_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_automation.config.model import Config
    from ci_automation.report.cluster_objects import NeededSecret

_TOKEN = "https://github.com/settings/tokens/new?scopes=read:packages"  # noqa: S105  # the page that makes one
_PULL = "pull-flux-manifests"  # the Secret, as docs/guides/clusters.md has it
_LOGINS = {"secretRef", "serviceAccountName", "provider"}  # of an OCIRepository
_EACH = ": each follows one channel, since the objects of all have the same names"
_EITHER = ": click, or paste the commands"
_BRANCH = "git switch -c signed-flux-$(date +%s)"
_REQUEST = ("git push -u origin HEAD", "gh pr create --fill")
_LOOK = "Look in this clone for what is missing."


def left_to_do(answers: Answers, config: Config, declined: Sequence[str], stale: Sequence[str]) -> dict[str, list[str]]:
    """Return the steps that a person still takes, by the titles of their sections.

    After its first line a step has lines of commands. `declined` are the files that the person left alone, and `stale`
    the channels that have objects, and are no longer in the configuration.
    """
    is_paused = config.find(answers.first[0]).paused
    sections: dict[str, Iterable[str]] = {
        f"First: what {answers.place.host} needs": _on_other_server(answers, config),
        "First: which channels exist": _asked(answers),
        DECIDE: _to_decide(answers, config),
        "The action, once for your organisation": _action(answers),
        "Files": _files(answers, config, declined),
        f"Settings of {answers.place.repository}, by an administrator{_EITHER}": left_in_settings(
            answers, other_registries(config.artifacts, answers.place)
        ),
        f"First digests, each approved by {'its code' if answers.by_code else 'a reviewer'}{_EITHER}": (
            left_for_first_digests(answers)
        ),
        "Clusters: before they move": left_to_name(answers),
        "The package, which is private at first": _to_pull(answers, config, github=True),
        "The login by which clusters pull": _to_pull(answers, config, github=False),
        "Clusters that follow a channel now, and do not verify it": left_to_verify(answers),
        **(
            left_for_clusters(answers, answers.migration)
            if answers.migration
            else {f"Clusters{_EACH if answers.waves else ''}": left_to_follow(answers)}
        ),
        LAST: _later(answers, stale, is_paused=is_paused),
    }
    return {
        title: [_requested(answers, it) for it in steps] for title, found in sections.items() if (steps := [*found])
    }


def _requested(answers: Answers, step: str) -> str:
    """Return a step that brings something to the default branch with the commands of a pull request for that."""
    branch, (text, _, changes) = answers.place.branch, step.partition("\n")
    if f"bring that to {branch}." not in text:
        return step
    commit = 'git commit -m "Let clusters follow signed artifacts"'
    commands = ("git add .github", f"git fetch -q origin {branch}", f"{_BRANCH} FETCH_HEAD", commit, *_REQUEST)
    return f"{text}\n{chain(filter(None, (changes, *commands)))}"


def at_the_end(families: Sequence[Answers]) -> str:
    """Return in three lines what there is when all steps are done, and in one what they take."""
    channels = [name for it in families for name in it.channels]
    moving = [names for it in families if it.migration for names in it.migration.moving.values()]
    first, clusters = families[0], sum(map(len, moving))
    moved, there = next(((it.migration.have_moved, it.migration.all_there) for it in families if it.migration), (0, 0))
    signer = f"{first.place.repository}/{WORKFLOWS}/flux.yaml" if first.keyless else "your key"
    who = f"{clusters + moved} of {there} clusters of `flux bootstrap`" if clusters else "Your clusters"
    git = "Git no longer has Flux for them, and keeps all else" if clusters else "Git has what you add to Flux"
    merged = 2 + len(moving) if moving else 1 + any(it.unverified for it in families)
    commands = "" if first.keyless or first.by_code else ", or as many commands"
    how = "you start again with their code" if first.by_code else f"a reviewer approves{commands}"
    return (
        f"At the end:\n\n- A run each hour keeps {enumerated(channels)} at the newest Flux: patches by itself, minors "
        f"after an approval.\n- {who} take Flux from there, and nothing that {signer} did not sign.\n- {git}; "
        f"`flux-manifests doctor` finds nothing wrong.\n\nOn the way: {_counted(len(channels), 'run')} that {how}, "
        f"and {_counted(merged, 'pull request')}."
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"


def _on_other_server(answers: Answers, config: Config) -> Iterator[str]:
    """Yield how runs sign and where they publish on a GitHub Enterprise Server."""
    if answers.place.is_public:
        return
    page = answers.early_page("guides/logins.md#github-enterprise-server")
    if answers.keyless and not config.find(answers.first[0]).trust_config:
        yield (
            f"The public Sigstore does not know {answers.place.host}, so no run can sign keyless. Sign with a key: "
            "`flux-manifests setup --signing key`. Or use your own Sigstore: write `trustConfig: FILE` below "
            f"`defaults` of {CONFIGURATION}, and run `flux-manifests setup`: {page}"
        )
    new = [it for name, it in answers.channels.items() if is_at_ghcr(it) and not answers.has(name)]
    for repository in dict.fromkeys(it.repository for it in new):
        yield (
            f"Choose the registry, since no token of {answers.place.host} is a login at ghcr.io. For another, write "
            f"its address in place of {repository} in {CONFIGURATION}, and run `flux-manifests setup`."
        )


def _asked(answers: Answers) -> Iterator[str]:
    """Yield what lets the registry say which channels it has, if it did not."""
    silent = dict.fromkeys(it.repository for name, it in answers.channels.items() if answers.tags[name] is None)
    for repository in silent:
        host = str(repository).removeprefix("oci://").partition("/")[0]
        password = f", with a token as the password: {_TOKEN}" if host == "ghcr.io" else "."
        yield f"{repository} did not say which channels it has. Log in{password}\ndocker login {host}"
    if silent:
        yield (
            "Then run `setup` again, whose list has what to do about channels that exist. If the registry is still "
            f"silent, go on with this list.\n{answers.again}"
        )


def _to_decide(answers: Answers, config: Config) -> Iterator[str]:
    """Yield what changes the rest of the list, or what clusters get."""
    page = answers.early_page("guides/action.md#a-private-repository-without-github-enterprise")
    if answers.place.is_public and not answers.by_code:
        yield (
            f"If {answers.place.repository} stays private, and you have no GitHub Enterprise, no reviewer can approve "
            f"runs. Run `flux-manifests setup --approval code`: one person can then start and approve. More: {page}"
        )
    if answers.migration:
        yield from left_to_decide(answers, answers.migration)
    for github in (True, False):
        if undecided := _pulled(answers, config, github=github)[0]:
            private = "A new package is private. To keep it so," if github else f"{_asking(undecided)}:"
            yield (
                f"{private} write `sync: {{source: {{secretRef: {{name: {_PULL}}}}}}}` below `defaults` of "
                f"{CONFIGURATION}. Then run `flux-manifests setup`, which writes it into the objects for clusters."
            )


def _action(answers: Answers) -> Iterator[str]:
    """Yield how workflows come to the action."""
    action = answers.action.partition("@")[0]
    at = f"{answers.place.server}/{action}"
    yield (
        f"Workflows run {at}/commit/{answers.pin}. If that page is not there, make the repository {action}. Then run "
        f"this in a full checkout of this project, not here.\ngit push {at} {answers.pin}:refs/heads/main"
    )
    yield (
        f'If {action} is private, let yours use it: {at}/settings/actions, "Access". If your organisation allows only '
        f"some actions, allow it and actions/checkout: {of_organisation(answers)}"
    )


def _files(answers: Answers, config: Config, declined: Sequence[str]) -> Iterator[str]:
    """Yield what comes into Git."""
    if declined:
        yield (
            f"Take the changes of {', '.join(declined)}, which were left as they are: the rest of this list needs "
            f"them.\n{answers.again}"
        )
    if answers.has_approve and not answers.by_run:
        signed = " If it signed what a channel has, adopt that below, before clusters get their new objects."
        yield (
            f"Delete {WORKFLOWS}/approve.yaml, since pull requests ask now.{signed if answers.keyless else ''}\n"
            f"rm {WORKFLOWS}/approve.yaml"
        )
    if not answers.keyless and not answers.has_key:
        yield (
            f"Make a key beside this clone, and bring its public half here. {PRIVATE_KEY} becomes a secret below. Keep "
            "it and its password safe, outside of Git too.\n"
            f"(cd .. && cosign generate-key-pair) && mv ../{PUBLIC_KEY} ."
        )
    (name, channel), overlay = answers.first, answers.overlay
    if answers.migration:
        yield from left_before_commit(answers, answers.migration)
    there = answers.there
    if overlay and answers.has(name) and (answers.unlike or not there):
        differing = f"They differ in {', '.join(answers.unlike)}. " if answers.unlike else ""
        yield (
            f"Bring the own files of {channel} into {overlay}, since runs ask to remove what is not in Git. {differing}"
            f"FOLDER is a new one.\nflux-manifests pull {channel} FOLDER"
        )
    if there and answers.components and answers.components not in there.tree.by_path:
        yield (
            f"Write `componentsFile: {there.components}` for {name} in {CONFIGURATION}: {channel} has no "
            f"{answers.components}, and its adoption would fail."
        )
    if answers.unverified and not config.find(name).paused:
        yield (
            f"If clusters do not verify {channel} yet, write `paused: true` below `name: {name}` in {CONFIGURATION}, "
            "or the first run after its first signed digest publishes the newest patch to them."
        )
    yield _commit(answers, config)


def _commit(answers: Answers, config: Config) -> str:
    written = (".github", answers.objects, *overlays_of(config), *(() if answers.keyless else (PUBLIC_KEY,)))
    commands = (
        _BRANCH,
        f"git add {' '.join(written)}",
        'git commit -m "Let signed artifacts carry Flux"',
        *_REQUEST,
    )
    return (
        f"Commit the files, and bring them to {answers.place.branch}. Runs fail until a channel has its first signed "
        f"digest.\n{chain(commands)}"
    )


def _pulled(answers: Answers, config: Config, *, github: bool) -> tuple[list[Reference], list[str]]:
    """Return which channels of ghcr.io, or of other registries, say nothing of a login, and what makes the Secrets."""
    undecided, secrets = list[Reference](), dict[str, None]()
    for it in map(config.find, answers.channels):
        settings = it.sync or SyncSettings()
        if is_at_ghcr(it.channel) is not github or not isinstance(it.channel.repository, OciRepository):
            continue
        source = settings.source
        if _LOGINS.isdisjoint(source):
            undecided.append(it.channel)
            source = {"secretRef": {"name": _PULL}}  # which a person is told to write
        needed = named_secrets(settings.namespace or answers.home, it.channel, source, {})
        secrets |= {_applied(each): None for each in needed if each.template.startswith("docker-registry")}
    return undecided, [chain(("read -rs token", in_clusters(answers, it))) for it in secrets]


def _applied(needed: NeededSecret) -> str:
    """Return the command that makes a Secret with a login, or renews it."""
    made = needed.command.replace("=TOKEN", '="$token"')
    return f"{made} --dry-run=client -o yaml |\n  kubectl apply -f -"


def _asking(undecided: Iterable[Reference]) -> str:
    hosts = {str(it.repository).removeprefix("oci://").partition("/")[0] for it in undecided}
    return f"If {' or '.join(sorted(hosts))} asks for a login"


def _to_pull(answers: Answers, config: Config, *, github: bool) -> Iterator[str]:
    """Yield how clusters may pull from ghcr.io, or from other registries: with the Secret that their objects name."""
    undecided, commands = _pulled(answers, config, github=github)
    if not commands:
        return
    made = "In each cluster, make the Secret that the objects name,"
    if undecided:
        public = f'Make it public below "Danger Zone": {" and ".join(dict.fromkeys(map(package_page, undecided)))}'
        private = f"{public}. If it stays private, run this in each cluster,"
        made = private if github else f"{_asking(undecided)}, make the Secret in each cluster,"
    guide = f"{answers.docs}/guides/clusters.md#three-credentials-each-with-the-least-rights"
    typed = "and type the token when it waits"
    one = f"{typed}, one that may only pull"
    if github:
        one = f"{typed}. ghcr.io needs a classic one with `read:packages` alone, best of a machine user; it expires"
    yield "\n".join((f"{made} {one}: {guide}", *commands))


def _later(answers: Answers, stale: Iterable[str], *, is_paused: bool) -> Iterator[str]:
    """Yield when the first channel gets newer patches, and what finds what is missing."""
    for name in stale:
        yield (
            f"{CONFIGURATION} no longer has {name}, so clusters that follow it get no patches. Apply the folder of "
            f"another channel to each of them, then delete that of {name}.\ngit rm -r {answers.objects}/{name}"
        )
    if is_paused:
        (name, _), moved = answers.first, "have moved and " if answers.migration else ""
        yield (
            f"{CAREFUL}only when all clusters {moved}verify, delete `paused: true` below `name: {name}` in "
            f"{CONFIGURATION}, and bring that to {answers.place.branch}. The next run publishes the newest patch."
        )
    doctor = f"GITHUB_TOKEN=$(gh auth token{of_host(answers)}) flux-manifests doctor"
    yield f"{_LOOK} If something fails: {answers.docs}/guides/troubleshooting.md\n{doctor}"
