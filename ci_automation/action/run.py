"""One run of the action: which artifacts it is about, what became of each, and what is handed over to later steps."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.action.github import Hub, presence
from ci_automation.action.job import Job, require_own_claims, require_own_event
from ci_automation.action.logins import logins
from ci_automation.action.workflow_commands import (
    OUTPUTS,
    Level,
    Log,
    annotation,
    append,
    group,
    hide,
    output_text,
    room_for_summary,
)
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.cli import failure_of
from ci_automation.cli.arguments import Arguments, SeveralToAdopt, configuration
from ci_automation.cli.options import INPUTS
from ci_automation.cli.promotions import PlannedPromotion, all_waves
from ci_automation.cli.wiring import NothingNamed, targets
from ci_automation.errors import Error, UsageError
from ci_automation.report.account import Account, Trouble, outputs, summary
from ci_automation.report.blocks import plain_text
from ci_automation.report.preview import MAX_COMMENT, PreviewPage, preview_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_automation.action.inputs import Inputs
    from ci_automation.cli.target import Target
    from ci_automation.config.model import Config
    from ci_automation.config.sections import Artifact
    from ci_automation.report.adoption import Adoption

PLANS = "flux-manifests-plans"
_OPTION = re.compile(r"--([a-z](?:[a-z-]*[a-z])?)")
_ADOPTING = re.compile(r"`update(?: [^`]+)? --adopt`")
_NAMES = frozenset(each.name for each in INPUTS)
_SECRET_VARIABLES = ("COSIGN_PASSWORD", "VAULT_TOKEN")
_MAX_VALUE = 100 << 10  # a later run may put it into a variable, and Linux takes 128 KiB of one (`execve`)


class NotOurArtifact(UsageError):
    """An event is about an artifact that this repository does not keep."""

    hint = "An event can only name what the configuration, or the input artifact, has. Nothing was done."

    def __init__(self, named: Reference) -> None:
        super().__init__(f"the event that started this run is about {named}, which is none of the artifacts here")


class ActionRun(Struct):
    """One run of the action, and what is known of it so far."""

    job: Job
    log: Log
    accounts: list[Account] = field(default_factory=list)
    matrix: str = ""
    page: PreviewPage | None = None
    handover: str = ""  # from the job `show` to the job `do`
    more: list[str] = field(default_factory=list)  # sections of the summary, in Markdown
    plan_files: dict[str, str] = field(default_factory=dict)
    ended_by: Trouble | None = None  # what ended the whole run
    looked: bool = False  # whether the default branch had the configuration of this run, before it signed

    @property
    def is_thorough(self) -> bool:
        """Return whether to look for open requests where nothing waits, which would cost a request each hour."""
        return self.job.event != "schedule" or self.job.attempt > 1

    def say(self, text: str) -> None:
        """Print lines for people."""
        self.log.write(f"{plain_text(text)}\n")

    def hide(self, secret: str) -> None:
        """Let the runner hide a secret from now on."""
        hide(secret, runner=self.job.runner)

    def tell(self, level: Level, text: str, title: str = "") -> None:
        """Say something that must not be missed: on the page of the run, and in the log."""
        self.log.command(annotation(level, plain_text(text), title=title))
        if not self.job.runner:
            self.say(f"{level}: {text}")

    def fail(self, why: Trouble, of: str = "") -> None:
        """Say why something failed, and what to do."""
        text = f"{of}: {why.message}" if of else why.message
        self.tell("error", f"{text}\n{why.hint}".strip(), f"flux-manifests: {why.code}")

    def each(self, goals: tuple[Target, ...], flow: Callable[[Target], Account]) -> int:
        """Run a flow on each artifact, and return the highest code; one that fails keeps no other from being done."""
        for goal in goals:
            with group(self.log, goal.name) if len(goals) > 1 else nullcontext():
                try:
                    account = flow(goal)
                except Error as error:
                    account = Account(goal.name, goal.channel, trouble=trouble_of(error))
            self.accounts.append(account)
            if account.trouble:  # outside of the group, which is folded
                self.fail(account.trouble, goal.name if len(goals) > 1 else "")
        return max((it.trouble.exit_code for it in self.accounts if it.trouble), default=0)

    def hand_over(self) -> None:
        """Write what is known: the plans, the outputs, and the summary.

        Raises:
            CommandFileUnwritable: a file of the runner's cannot be written.
        """
        self._write_plans()
        values = dict.fromkeys((each.name for each in OUTPUTS), "")
        made = outputs(tuple(self.accounts), self.plan_files, limit=_MAX_VALUE)
        values |= made | {"matrix": self.matrix, "shown": self.handover}
        room = room_for_summary(self.job.summary)
        if self.page:
            values["preview"] = preview_markdown(self.page, MAX_COMMENT)
            append(self.job.summary, preview_markdown(self.page, room))
        elif self.accounts or self.ended_by or self.more:
            append(self.job.summary, summary(self.accounts, self.ended_by, room, self.more))
        append(self.job.output, output_text(values))

    def _write_plans(self) -> None:
        """Write each plan into the workspace: the one folder whose path is the same inside of the container and out."""
        if self.job.workspace is None:
            return
        from ci_automation.flows.files import write_file

        folder = self.job.workspace / PLANS
        for number, account in enumerate(self.accounts, 1):
            if account.plan is None:
                continue
            slug = re.sub(r"[^A-Za-z0-9._-]+", "-", account.name)[:60].strip("-.") or "artifact"
            file = f"{slug}.json" if len(self.accounts) == 1 else f"{number}-{slug}.json"
            try:
                folder.mkdir(exist_ok=True)
                (folder / ".gitignore").write_text("*\n")  # no later run commits it by accident
                write_file(folder / file, account.plan.to_text().encode())
            except (OSError, Error) as error:
                self.tell("warning", f"the plan of {account.name} cannot be written: {error}")
                continue
            self.plan_files[account.name] = f"{PLANS}/{file}"


def trouble_of(error: BaseException, *, verbose: bool = False) -> Trouble:
    """Return why something failed; the hint names inputs and operations, where it is written for the command line."""
    code, message, hint, exit_code, _ = failure_of(error, verbose=verbose)
    hint = _ADOPTING.sub("the operation `adopt`", hint)
    hint = _OPTION.sub(lambda it: f"the input {it[1]}" if it[1] in _NAMES else it[0], hint)
    return Trouble(message, code, hint, exit_code)


def goals(inputs: Inputs, run: ActionRun, *, signs: bool = True) -> tuple[Target, ...]:
    """Return the artifacts that the run is about: the one that is named, the one that an event asks for, or all.

    A run that does not sign needs no key.

    Raises:
        UsageError: an input, the configuration, or the event cannot be used.
    """
    config = configuration(inputs.given.checked())
    if inputs.command in {"approve", "review"} and config and ":" in inputs.artifact:
        named = Reference.parse_channel(inputs.artifact)
        if named not in {artifact.channel for artifact in config.artifacts}:
            raise NotOurArtifact(named)
    artifact = _asked_for(inputs.artifact, config, run.job) or inputs.artifact or None
    given = _begun(inputs, run, config, _channels(artifact, config), signs=signs)
    found = targets(artifact, given, signs=signs)
    if inputs.adopt and len(found) > 1:
        raise SeveralToAdopt(len(found))
    _require_own_claims(inputs, given, run)
    own = partial(replace, say=run.say, confirm=_adopts(inputs, run), require_present=presence(inputs, run, config))
    return tuple(goal.with_ports(own) for goal in found)


def promotions(inputs: Inputs, run: ActionRun, *, signs: bool = True) -> tuple[PlannedPromotion, ...]:
    """Return the promotions of the configuration, or the one to the named artifact, in the order of the waves.

    Raises:
        UsageError: an input or the configuration cannot be used, or has none.
    """
    config = configuration(inputs.given.checked())
    if config is None:
        raise NothingNamed
    given = _begun(inputs, run, config, _ends(config), signs=signs)
    given = replace(given, adopt=False, yes=False)  # a promotion adopts nothing, whatever is given
    waves = all_waves(given, config.find(inputs.artifact).name if inputs.artifact else None, signs=signs)
    _require_own_claims(inputs, given, run)
    own = partial(replace, say=run.say, require_present=presence(inputs, run, config))
    return tuple(planned.with_ports(own) for wave in waves for planned in wave)


def _begun(
    inputs: Inputs, run: ActionRun, config: Config | None, channels: tuple[Reference, ...], *, signs: bool
) -> Arguments:
    """Return what was given, with logins at the registries of `channels`, once the job's secrets are hidden."""
    for secret in _secrets_of_the_job(inputs, config):
        run.hide(secret)
    given = replace(inputs.given.checked(), logins=logins(inputs, run.job, channels, run.hide).before)
    if signs and run.job.runner and not inputs.accept_shared_subject:
        require_own_event(run.job.event, run.job.ref, Hub.of(inputs, run).default_branch())
    if signs:
        Hub.of(inputs, run).require_present(config)
    return given


def _ends(config: Config) -> tuple[Reference, ...]:
    """Return every channel that a promotion reads or writes."""
    named = {it.name: it.channel for it in config.artifacts}
    sources = (it.promote.source for it in config.artifacts if it.promote and it.promote.source not in named)
    return (*named.values(), *map(Reference.parse_channel, sources))


def _secrets_of_the_job(inputs: Inputs, config: Config | None) -> Iterator[str]:
    """Yield the secrets that the job's variables hold: the runner knows only those that are secrets of GitHub's."""
    logins_named = [
        it for artifact in _artifacts(config) for it in (artifact.credentials.pull, artifact.credentials.push)
    ]
    keys = [inputs.given.key, *(artifact.signing.key for artifact in _artifacts(config))]
    names = [*_SECRET_VARIABLES, *(login.password_variable for login in logins_named if login)]
    names += [key.removeprefix("env://") for key in keys if key and key.startswith("env://")]
    yield from filter(None, map(os.environ.get, dict.fromkeys(names)))


def _channels(artifact: str | None, config: Config | None) -> tuple[Reference, ...]:
    """Return the channels that the run is about; a name that means none is told of by `targets`."""
    if artifact is None and config is None:
        raise NothingNamed
    known = config.artifacts if config else ()
    named = tuple(it.channel for it in known if artifact in (None, it.name, str(it.channel)))
    return named or ((Reference.parse_channel(artifact),) if artifact and ":" in artifact else ())


def _asked_for(artifact: str, config: Config | None, job: Job) -> str | None:
    """Return the artifact that an event of ours asks for; it narrows the run to one that is here, and adds none."""
    if job.event != "repository_dispatch":
        return None
    from ci_automation.approval.dispatch import Dispatch, EventType

    event = job.payload()
    if event.get("action") not in tuple(EventType):
        return None
    asked = Dispatch.parse(event).request.artifact
    known: list[tuple[str, Reference]] = [(it.name, it.channel) for it in _artifacts(config)]
    if artifact and not any(artifact in (name, str(channel)) for name, channel in known):
        known.append((artifact, Reference.parse_channel(artifact)))
    for name, channel in known:
        if channel == asked and artifact in ("", name, str(channel)):
            return name
    raise NotOurArtifact(asked)


def _artifacts(config: Config | None) -> tuple[Artifact, ...]:
    return config.artifacts if config else ()


def _require_own_claims(inputs: Inputs, given: Arguments, run: ActionRun) -> None:
    """Check the claims of the identity token that this run signs with, before anything is done with it."""
    if run.job.runner and not inputs.accept_shared_subject:
        for signer in given.keyless.values():
            require_own_claims(signer.claims, run.job, Hub.of(inputs, run).default_branch())


def _adopts(inputs: Inputs, run: ActionRun) -> Callable[[Adoption], bool]:
    """Return who answers whether to adopt: the input did, for one digest."""

    def ask(adoption: Adoption) -> bool:
        from ci_automation.report.adoption import ALONE, adoption_text

        run.say(f"{adoption_text(adoption)}\n{ALONE}")
        return adoption.digest == Digest.parse(inputs.adopt)

    return ask
