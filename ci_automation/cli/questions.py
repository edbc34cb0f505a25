"""The questions of `setup`, and what the clone and its configuration answer."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import asdict

from ci_automation.cli.clone import (
    bootstrapped_folders,
    checkout_of_action,
    free_folder,
    written_at,
)
from ci_automation.cli.output import done_with_progress, print_aside, progress
from ci_automation.cli.places import existing_at, is_signed, kustomize
from ci_automation.config.model import ApprovalVia, SigningMode
from ci_automation.errors import Error, UsageError
from ci_automation.flows.setting_up.answers import (
    CLUSTERS,
    CONFIGURATION,
    USUAL_WAIT,
    Family,
    OwnFiles,
    UnfitAnswer,
    require_action,
    require_plain,
)
from ci_automation.flows.setting_up.cluster_folders import read_migration, with_fitting, written_kustomizations
from ci_automation.flows.setting_up.cluster_names import KnownClusters, contexts_in, patterns_of, require_known
from ci_automation.flows.setting_up.files import actions_of
from ci_automation.flows.setting_up.overlays import first_overlay
from ci_automation.flows.setting_up.own_values import settled_patches
from ci_automation.flows.workspace import read_overlay_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from ci_automation.config.sections import Artifact
    from ci_automation.config.workflows import GitHubPlace
    from ci_automation.flows.setting_up.cluster_folders import Migration

    Tags = Mapping[str, Collection[str] | None]  # in the repository of each channel; None: not known

_EXPLAINED = """\
Workflows take the action from a repository of your organisation that has this project with its whole history.
  If there is one, take its OWNER/NAME from its address: https://github.com/acme/ci-automation is acme/ci-automation.
  If not, name the one that you will make: the list that setup writes has a step for it."""
_SIGNING = """\
  keyless: GitHub's identity signs. There is nothing to keep, and the repository's name is in a public log.
  key: a cosign key signs. You keep it in secrets, in one environment for each channel."""
_APPROVAL = """\
  pull-request: a run opens a pull request, and its merge approves. A reviewer approves runs that you start.
  workflow-dispatch: a run waits for a reviewer.
  code: as pull-request, but a code approves runs that you start: GitHub has no reviewers in a private repository
  without GitHub Enterprise."""
APPROVALS = ("pull-request", "workflow-dispatch", "code")


class Unanswered(UsageError):
    """`setup` has a question, and no terminal to ask at."""

    hint = "Give it as an option, or run `setup` in a terminal, in a clone of the fleet repository."

    def __init__(self, option: str) -> None:
        super().__init__(f"--{option} is missing")


class Questions(Struct, frozen=True):
    """Asks a person what no option answers; takes the default without a terminal."""

    told: Mapping[str, str | None]
    yes: bool

    def answer(
        self,
        option: str,
        question: str,
        default: str | None = None,
        *,
        offered: str | None = None,
        meaning: str = "",
        fit: Callable[[str], str] | None = None,
    ) -> str:
        """Return the answer; at a terminal, after a text that says what it means, and asked again until it fits.

        Only a terminal has what is `offered` for want of a default.

        Raises:
            Unanswered: there is no terminal, and no default.
        """
        if (told := self.told[option]) is not None:
            return told
        if sys.stdin.isatty() and not self.yes:
            done_with_progress()
            if meaning:
                print_aside(meaning)
            usual = default or offered
            while True:
                answer = str(click.prompt(question, usual, err=True)).strip() or usual or ""
                try:
                    return fit(answer) if fit else answer
                except click.UsageError as error:
                    click.echo(f"error: {error.message}", err=True)
        if default is None:
            raise Unanswered(option)
        return default


def answered_action(ask: Questions, signing: Iterable[str | None], shipped: str, place: GitHubPlace) -> str:
    """Return the action's repository, with the commit of the workflows that sign if it is not the one `shipped`.

    Workflows that have one answer the question.

    Raises:
        Unanswered: the workflows have several, or there is no default, and no terminal.
        UnfitAnswer: the answer is not the address of an action.
    """
    pinned = {it.removesuffix(f"@{shipped}") for workflow in signing for it in actions_of(workflow or "")}
    default = None if len(pinned) > 1 else next(iter(pinned), None) or checkout_of_action(place.server)
    action = (default if pinned and not ask.told["action"] else None) or ask.answer(
        "action",
        "Which repository has this action, as OWNER/ci-automation?",
        default,
        offered=f"{place.repository.partition('/')[0]}/ci-automation",
        meaning="" if default else _EXPLAINED,
        fit=partial(_action_of, place.server),
    )
    require_action(action, place.server)
    kept = [it for it in pinned if it.startswith(f"{action}@")]
    return kept[0] if len(kept) == 1 else action


def answered_ways(
    ask: Questions, place: GitHubPlace, family: Family, configured: Mapping[Reference, Artifact]
) -> tuple[SigningMode, str]:
    """Return how runs sign and ask: as configured for a family, unless an option says otherwise.

    A code approves if it does for all that is configured, and pull requests ask.
    """
    known = configured.get(family.first[1]) or next(iter(configured.values()), None)
    if known is not None:
        keyed = known.signing.mode in {SigningMode.KEY, SigningMode.KMS}
        usual = str(known.approval.via or ApprovalVia.PULL_REQUEST)
        if usual == ApprovalVia.PULL_REQUEST and all(it.approval.operations_by_code for it in configured.values()):
            usual = "code"
        return SigningMode(ask.told["signing"] or ("key" if keyed else "keyless")), ask.told["approval"] or usual
    own = (
        "" if place.is_public else f"\n  The public Sigstore does not know {place.host}: keyless needs your own there."
    )
    signing = ask.answer(
        "signing", "Sign keyless, or with a key?", "keyless", meaning=_SIGNING + own, fit=_one_of("keyless", "key")
    )
    approval = ask.answer(
        "approval",
        "Ask for approvals by pull-request, workflow-dispatch, or code?",
        "pull-request",
        meaning=_APPROVAL,
        fit=_one_of(*APPROVALS),
    )
    return SigningMode(signing), approval


def command_again(channels: str, said: Mapping[str, str | None]) -> str:
    """Return the command for these channels, with the options that are not as without them."""
    usual = {"signing": "keyless", "approval": "pull-request", "after": USUAL_WAIT}
    options = (word for name, it in said.items() if it and it != usual.get(name) for word in (f"--{name}", it))
    return shlex.join(("flux-manifests", "setup", *channels.split(), *options))


def _one_of(*choices: str) -> Callable[[str], str]:
    """Return what reads one of these, in upper or lower case."""
    return lambda answer: click.Choice(choices, case_sensitive=False).convert(answer, None, None)


def _action_of(server: str, action: str) -> str:
    """Return the repository of the action, if it can be one."""
    try:
        require_action(action, server)
    except UnfitAnswer as error:
        raise click.BadParameter(f"{error}. {error.hint}") from error
    return action


def _overlay_of(top: Path, folder: str) -> str:
    """Return the folder if it can be an overlay, or is - for none."""
    try:
        if folder != "-":
            require_plain("overlay", folder)
            first_overlay(top, folder, None)
    except Error as error:
        raise click.BadParameter(str(error)) from error
    return folder


def own_files(
    ask: Questions, top: Path, objects: str, family: Family, tags: Tags, configured: Mapping[Reference, Artifact]
) -> OwnFiles:
    """Return where the own files of a family are. An artifact that is there wins over the folders of clusters.

    `tags` has the channels of all families.

    Raises:
        UnfitAnswer: an option names another folder than the configuration, or clusters or a channel that are not there;
            or a list has a line that is no name.
        UnknownCluster: a list of clusters has a name that no folder has.
        UnfitClusterFolder: a folder of `flux bootstrap` cannot be taken over.
        UnfitBootstrap: the objects of a cluster are no YAML.
    """
    first, channel = family.first
    known = configured.get(channel)
    told, migration = _clusters(ask, top, objects, family, tags, configured)
    listed = {name: told.contexts[name] for name in family.channels}
    there = {name for name, it in family.channels.items() if it.tag in (tags[name] or ())}
    looked = [name for name in family.channels if name in there and (migration or name == first)]
    existing = {name: found for name in looked if (found := existing_at(family.channels[name]))}
    if migration:
        migration = migration.of_family(family, existing.get(first), listed)
    copied = migration.source.path if migration else str(family.first[1]) if first in existing else None
    folder = _folder(ask, top, family, known, is_there=first in there, copied=copied)
    own = OwnFiles(
        **asdict(family),
        tags=tags,
        objects=objects,
        overlay=folder,
        components=known.components_file if known else None,
        flags=known.flags if known else migration.source.flags if migration and first not in there else {},
        migration=migration,
        existing=existing,
        settled=told.settled,
        contexts={cluster: it for each in told.contexts.values() for cluster, it in each.items()},
        signed=frozenset(name for name in there if (it := configured.get(family.channels[name])) and is_signed(it)),
        unlike=existing[first].unlike(top, folder) if first in existing else (),
    )
    return with_fitting(own, listed)


def _clusters(
    ask: Questions, top: Path, objects: str, family: Family, tags: Tags, configured: Mapping[Reference, Artifact]
) -> tuple[KnownClusters, Migration | None]:
    """Return what an option and the clone say of clusters, and what their folders have for the channels of a family."""
    at = {name: f"{objects}/{name}/{CLUSTERS}" for name in tags}
    contexts = {name: contexts_in(path, written_at(top / path) or "") for name, path in at.items()}
    settled = {name: settled_patches(top / objects / name) for name in family.channels}
    synced = bootstrapped_folders(top)
    require_known(objects, {name: contexts[name] for name in family.channels}, synced)
    known = configured.get(family.first[1])
    overlay = known.overlay if known else None
    taken = read_overlay_folder(top, overlay) if overlay and (top / overlay).exists() else None
    say = progress(verbose=False, text=True)
    told = KnownClusters(contexts, patterns_of(ask.told["clusters"] or "", contexts, synced), settled)
    written = written_kustomizations(family, configured)
    return told, read_migration(top, synced, told, written, taken, kustomize(), say)


def _folder(
    ask: Questions, top: Path, family: Family, known: Artifact | None, *, is_there: bool, copied: str | None
) -> str | None:
    """Return the folder with the own files of a family, which gets what is `copied` if it is new."""
    first, _ = family.first
    if known:
        if (told := ask.told["overlay"]) and family.named and told != (known.overlay or "-"):
            raise UnfitAnswer(f"{CONFIGURATION} has the overlay {known.overlay or '-'} for {first}; change it there")
        return known.overlay
    folders = (f"clusters/{first}/flux-system", f"flux/{first}")
    folders = ("clusters/flux-system", "flux/all") if len(family.channels) > 1 else folders
    free = free_folder(top, *folders) or (".github/flux-system" if copied and not is_there else None)
    usual = None if is_there else free  # what is in the artifact stays there
    new = (
        f"A new folder gets a copy of what {copied} has beside Flux."
        if copied
        else "A new folder gets a kustomization.yaml."
    )
    folder = ask.answer(
        "overlay",
        "Folder with your own files (- for none)?",
        usual or "-",
        meaning=f"  Runs put its files, such as patches, into the artifact beside Flux. {new}",
        fit=partial(_overlay_of, top),
    )
    return None if folder == "-" else folder
