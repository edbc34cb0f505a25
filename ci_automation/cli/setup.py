"""The command `setup`."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict, replace

from ci_automation.artifact.reference import OciRepository
from ci_automation.artifact.tree import COMPONENTS_PATH
from ci_automation.cli.clone import (
    after_change,
    applied_path,
    default_branch,
    free_folder,
    require_own,
    require_place,
    top_of,
    updates_images,
    written_at,
)
from ci_automation.cli.output import confirmed, print_aside, print_json, print_parts, print_text
from ci_automation.cli.parameters import HeadedCommand, details_option
from ci_automation.cli.places import tags_beside
from ci_automation.cli.questions import (
    APPROVALS,
    Questions,
    answered_action,
    answered_ways,
    command_again,
    own_files,
)
from ci_automation.config.load import parse_config
from ci_automation.config.model import ApprovalVia
from ci_automation.errors import UsageError
from ci_automation.flows.files import write_file
from ci_automation.flows.setting_up.answers import (
    CLUSTERS,
    CONFIGURATION,
    OBJECTS,
    Answers,
    Family,
    UnfitAnswer,
    channels_by_name,
    families,
    named_references,
)
from ci_automation.flows.setting_up.cluster_names import list_of
from ci_automation.flows.setting_up.configuration import PUBLIC_KEY
from ci_automation.flows.setting_up.files import WORKFLOWS, actions_of, setup_files, shipped_pin
from ci_automation.flows.setting_up.overlays import first_overlay
from ci_automation.flows.setting_up.steps import at_the_end, left_to_do
from ci_automation.flows.setting_up.todo import TODO, list_text, one_list, steps_left, with_boxes
from ci_automation.flux.text import unified_diff
from ci_automation.report.blocks import MarkedLine
from ci_automation.report.sync import sync_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ci_automation.artifact.reference import Reference
    from ci_automation.cli.questions import Tags
    from ci_automation.config.model import Config
    from ci_automation.config.sections import Artifact
    from ci_automation.config.workflows import GitHubPlace


class MistypedChannel(UsageError):
    """A channel that does not exist is named nearly like one that does."""

    hint = (
        "Nothing was written. Name the channel that you mean. For a new channel of that name, run `setup` in a "
        "terminal, without --yes, and answer yes."
    )

    def __init__(self, channel: Reference, near: str, *, is_known: bool) -> None:
        lacks = "does not exist" if is_known else f"is not in {CONFIGURATION}"
        super().__init__(f"{channel} {lacks}; did you mean {near}?")


class UndecidedChanges(UsageError):
    """`setup` would change files that are there, and has no terminal to ask at."""

    hint = "Nothing was written. Read the differences above, and add --yes to take them, or run `setup` in a terminal."

    def __init__(self, paths: Iterable[str]) -> None:
        super().__init__(f"{', '.join(paths)} would change, and there is no terminal to ask at")


@click.command("setup", cls=HeadedCommand)
@click.argument("channels", nargs=-1, metavar="[CHANNEL]...")
@click.option("--after", metavar="TIME", help="how long a channel has a digest before a new one gets it; default: 24h")
@click.option(
    "--action",
    metavar="OWNER/ci-automation",
    help=(
        "the repository with this action, which has this name or flux-manifests; with @COMMIT, at that commit; "
        "default: as flux.yaml has it, or the one that this was installed from"
    ),
)
@click.option("--signing", type=click.Choice(["keyless", "key"]), help="how runs sign; default: keyless")
@click.option("--approval", type=click.Choice(APPROVALS), help="how runs ask for approvals; code: without reviewers")
@click.option(
    "--clusters",
    metavar="CHANNEL=PATTERN",
    multiple=True,
    callback=lambda _, __, words: " ".join(words) or None,
    help="the channel of clusters of `flux bootstrap` with such names, as in 'production=prd-*'; repeatable",
)
@click.option("--overlay", metavar="DIR", help="the folder of the repository with your own files; - for none")
@click.option("--name", metavar="NAME", help="the first channel's name in the configuration; default: its tag")
@click.option("--repository", metavar="OWNER/NAME", help="the fleet repository; default: that of the remote `origin`")
@click.option("--branch", metavar="NAME", help="its default branch; default: as the remote `origin` has it, or main")
@click.option(
    "--yes",
    "-y",
    is_flag=True,
    help="take the defaults, and change files that are there after printing the diff, without asking",
)
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="for people or programs")
@details_option
def setup_command(channels: tuple[str, ...], *, after: str | None, yes: bool, output: str, **told: str | None) -> None:
    """Write what a fleet repository needs: workflows, configuration, and the objects for clusters.

    It asks at most five questions, and reads what is there: the remote of the clone, the channel, the configuration,
    which gets the channels that it lacks, and the folders that `flux bootstrap` made, whose files and flags the first
    channel takes over. It shows a diff before it changes a file. In a workflow it keeps the inputs and secrets
    that you gave the action, such as `provider`, and replaces all else. It lists what is left to click, with addresses,
    and how those clusters move; .github/flux-manifests.todo.md has this list with boxes to tick, of which a later run
    prints only what is new or changed. It writes files alone, and nothing to GitHub or the registry.

    A channel is an address, a name of the configuration, or a tag of the repository before it. Runs render the first
    channel. They promote each other one from the channel before it, once that one has had the digest for the time of
    --after. Without a channel, all of the configuration are meant; the objects of others stay as they are.

    \b
    flux-manifests setup oci://ghcr.io/acme/flux-manifests:production --action acme/ci-automation
    flux-manifests setup staging production stable --action acme/ci-automation
    """
    for channel in channels:
        if "," in channel and "://" not in channel:
            separate = shlex.join(("setup", *filter(None, channel.split(","))))
            raise UnfitAnswer(f"{channel!r} is not a channel; separate channels by blanks: `{separate}`")
        if [channel] != channel.split():
            raise UnfitAnswer(f"{channel!r} is not a channel: give each as a word of its own")
    told["channels"], written = " ".join(channels) or None, list[str]()
    try:
        _set_up(Questions(told, yes=yes), after, output, written)
    except (click.Abort, KeyboardInterrupt) as error:
        error.add_note(f"Of its files it wrote only {', '.join(written)}." if written else "No file was written.")
        raise


def _set_up(ask: Questions, after: str | None, output: str, written: list[str]) -> None:
    """Ask, write the files, and print what is left; `written` gets the path of each file that is written."""
    top = top_of(Path.cwd())
    existing = written_at(top / CONFIGURATION)
    config = parse_config(existing.encode(), CONFIGURATION) if existing is not None else None
    answered = _answered(ask, top, after, config)
    files: dict[str, str] = {}
    for answers in answered:
        if answers.named:
            files.update(_files(top, answers, lambda path: files.get(path) or written_at(top / path)))
    for path in (*files, TODO):
        require_own(top, path)
    if not ask.told["branch"]:
        why = f"{default_branch(top)[1]}. If that is another, give --branch NAME."
        print_aside(f"Workflows run and sign on the branch {answered[0].place.branch}: {why}")
    declined = _declined(top, files, print_text if output == "text" else print_aside, yes=ask.yes)
    config = parse_config(files[CONFIGURATION].encode(), CONFIGURATION)
    objects = top / answered[0].objects
    stale = sorted({it.parent.name for it in objects.glob("*/sync.yaml")} - {it.name for it in config.artifacts})
    left = one_list(left_to_do(it, config, declined, stale) for it in answered)
    before = written_at(top / TODO)
    goal = at_the_end(answered)
    files[TODO] = with_boxes(goal, left, before)
    done = [*_written(top, {path: text for path, text in files.items() if path not in declined}, written)]
    for path in declined:
        print_aside(f"{path} was left as it is")
    if output == "json":
        states = [{"path": path, "state": state} for path, state, _ in done]
        states += [{"path": path, "state": "declined"} for path in declined]
        print_json({"files": states, "steps": [asdict(it) for it in steps_left(left, before)]}, "setup")
        return
    print_text("\n".join(f"{path} {state}{then}" for path, state, then in done))
    print_parts(MarkedLine(line, to_copy=line.startswith(" ")) for line in list_text(goal, left, before).split("\n"))


def _written(top: Path, files: Mapping[str, str], written: list[str]) -> Iterator[tuple[str, str, str]]:
    """Write the files, of which the loops over clusters read some: these last.

    Yield each path, what was done, and what to do then.
    """
    for path, text in sorted(files.items(), key=lambda it: it[0].endswith(f"/{CLUSTERS}")):
        if (old := written_at(top / path)) == text:
            yield path, "unchanged", ""
            continue
        then = after_change(top, path) if old is not None else ""
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        write_file(top / path, text.encode())
        written.append(path)
        yield path, "written" if old is None else "changed", then


def _files(top: Path, answers: Answers, read: Callable[[str], str | None]) -> dict[str, str]:
    """Return the files of one family of channels, by their paths."""
    there, folders = answers.there, answers.migration
    taken = there.overlay if there else folders.source.overlay if folders else None
    overlay = first_overlay(top, answers.overlay, taken, complete=there is not None)
    components = answers.components or (there.components if there else overlay.components)
    applied = sync_path([*overlay.tree.by_path, components], components)
    folder = top / answers.objects / answers.first[0]
    if not answers.overlay:
        applied = sync_path(there.tree.by_path, there.components) if there else applied_path(folder) or applied
        components = COMPONENTS_PATH  # runs find it in the artifact
    answers = replace(answers, components=components)
    moving, in_git = (folders.moving, folders.folders) if folders else ({}, {})
    paths = {name: f"{answers.objects}/{name}/{CLUSTERS}" for name in answers.named}
    listed = [it for it, path in paths.items() if it in moving or (it in in_git and (top / path).exists())]
    lists = {paths[it]: list_of(moving.get(it, ()), answers.contexts) for it in listed}
    return {**lists, **overlay.new, **setup_files(answers, applied, read)}


def _answered(ask: Questions, top: Path, after: str | None, config: Config | None) -> list[Answers]:
    """Return what the options, the clone and a person say of each family."""
    place = require_place(top, ask.told["repository"], ask.told["branch"])
    configured = {it.channel: it for it in config.artifacts} if config else {}
    found, tags = _families(ask, place, after, configured)
    objects = free_folder(top, OBJECTS) or f".github/{OBJECTS}"  # where Flux looks at no file
    own = [own_files(ask, top, objects, family, tags, configured) for family in found]
    signers = [written_at(top / WORKFLOWS / it) for it in ("flux.yaml", "approve.yaml")]
    shipped = shipped_pin()
    action = answered_action(ask, signers, shipped, place)
    signing, approval = answered_ways(ask, place, next(it for it in found if it.named), configured)
    said = {**ask.told, "action": action, "signing": signing, "approval": approval, "after": after}
    channels = said.pop("channels") or " ".join("" if config else str(it) for it in found[0].channels.values())
    moving = tuple(name for it in own if it.migration for there in it.migration.moving.values() for name in there)
    return [
        Answers(
            **asdict(its),
            place=place,
            action=action,
            pin=action.partition("@")[2] or shipped,
            signing=signing,
            approval=ApprovalVia.PULL_REQUEST if approval == "code" else ApprovalVia(approval),
            by_code=approval == "code",
            again=command_again(channels, said),
            has_key=written_at(top / PUBLIC_KEY) is not None,
            has_approve=bool(actions_of(signers[1] or "")),
            has_bot=updates_images(top),
            moving=moving,
        )
        for its in own
    ]


def _families(
    ask: Questions, place: GitHubPlace, after: str | None, configured: Mapping[Reference, Artifact]
) -> tuple[list[Family], Tags]:
    """Return the families of the channels that are named and configured, and the tags beside each channel."""
    usual = f"oci://ghcr.io/{place.repository.partition('/')[0].lower()}/flux-manifests"
    question = "Which channel? Of several, such as staging production stable, each is promoted from the one before"
    every = "" if configured and not ask.told["channels"] else ask.answer("channels", question, f"{usual}:production")
    references = named_references(every.split(), tuple(configured.values()), usual)
    named = channels_by_name(references, configured, ask.told["name"])
    repositories = dict.fromkeys(it.repository for it in named.values())
    for here in (it for it in repositories if isinstance(it, OciRepository) and it.is_loopback):
        print_aside(f"{here} is on this machine, where neither workflows nor clusters reach it: name one that they do")
    found = families(configured.values(), named, after)
    sources = {name: it.source for each in found for name, it in each.sources.items()}
    for before, name in pairwise(named):
        if sources[name] != before:
            change = f"to change that, edit `promote` in {CONFIGURATION}"
            print_aside(f"{name} stays promoted from {sources[name]}, not from {before}: {change}")
    return found, _tags({name: it for each in found for name, it in each.channels.items()}, named, configured, ask)


def _tags(
    channels: Mapping[str, Reference],
    named: Mapping[str, Reference],
    configured: Collection[Reference],
    ask: Questions,
) -> Tags:
    """Return the tags in the repository of each channel; None where the registry does not say."""
    one_each = {it.repository: it for it in channels.values()}
    listed = {repository: tags_beside(channel) for repository, channel in one_each.items()}
    for channel in named.values():
        own = (it.tag or "" for it in configured if it.repository == channel.repository)
        known = {*own, *(listed[channel.repository] or ())}
        near = None if channel.tag in known else channel.nearly(known)
        is_known = listed[channel.repository] is not None
        lacks = f"does not exist, and {near} does" if is_known else f"is not in {CONFIGURATION}, and {near} is"
        if near and (ask.yes or not confirmed(f"{channel} {lacks}. Is it a new channel?")):
            raise MistypedChannel(channel, near, is_known=is_known)
    return {name: listed[it.repository] for name, it in channels.items()}


def _declined(top: Path, files: Mapping[str, str], show: Callable[[str], None], *, yes: bool) -> list[str]:
    """Return the files that the person leaves as they are, each after a look at the difference."""
    answers: dict[str, bool | None] = {}
    for path, text in files.items():
        if (old := written_at(top / path)) not in {None, text}:
            show(unified_diff(old or "", text, f"{path} (now)", f"{path} (new)"))
            answers[path] = yes or confirmed(f"Change {path}?")
    if None in answers.values():
        raise UndecidedChanges(answers)
    return [path for path, answer in answers.items() if not answer]
