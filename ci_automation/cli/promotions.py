"""From options and configuration to promotions: what goes where, under whose trust, and what has to speak for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.approval.content import rules_of
from ci_automation.cli.arguments import Arguments, configuration
from ci_automation.cli.places import GITHUB_API, github
from ci_automation.cli.target import channel_of
from ci_automation.cli.trust import previewed
from ci_automation.cli.wiring import NothingNamed, reading, target
from ci_automation.errors import Error, UsageError
from ci_automation.flows.evidence import Address, CommitStatus, Evidence, Report
from ci_automation.flows.planning.promotion import Promotion
from ci_automation.net.network import Network
from ci_automation.net.services import Exchange
from ci_automation.net.waiting import Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    from ci_automation.artifact.reference import Reference
    from ci_automation.cli.target import Target
    from ci_automation.config.model import Config, EvidenceConfig, PromoteConfig
    from ci_automation.flows.ports import Ports

_SECONDS = 30.0  # for one address


class SourceUnclear(UsageError):
    """It is not said where a channel gets its digests from."""

    hint = "Give --from, or `promote: {from: NAME}` in the configuration."

    def __init__(self, name: str) -> None:
        super().__init__(f"nothing says from where {name} is promoted")


class OtherSource(UsageError):
    """A channel is to be promoted from another one than the configuration says."""

    hint = (
        "Leave --from out. Evidence and waiting time belong to a source; another one is for the configuration to name."
    )

    def __init__(self, name: str, configured: str, given: str) -> None:
        super().__init__(f"the configuration promotes {name} from {configured}, not from {given}")


class NothingPromoted(UsageError):
    """Promotions of the configuration are asked for, and it has none."""

    hint = (
        "Add `promote: {from: NAME, after: 72h}` to the artifact in the configuration. In a terminal, options of "
        "`promote` can name both channels instead."
    )

    def __init__(self, name: str | None = None) -> None:
        what = f"{name} of the configuration is not" if name else "no artifact of the configuration is"
        super().__init__(f"{what} promoted from another")


class CircularPromotion(UsageError):
    """Channels are promoted in a circle, or one from itself, so none is ever rendered."""

    hint = "Remove `promote` from one of them: one channel has to be rendered."

    def __init__(self, channels: Iterable[Reference]) -> None:
        first, *more = map(str, channels)
        if more:
            circle = ", ".join((first, *more))
            super().__init__(f"these channels are promoted from one another in a circle: {circle}")
        else:
            super().__init__(f"{first} is to be promoted from itself")
            self.hint = "Name the channel that has the digest already: --from, or `promote.from` in the configuration."


class PlannedPromotion(Struct, frozen=True):
    """A promotion, and what its target is called."""

    name: str
    goal: Target
    source: Reference
    wish: Promotion | Error  # the error: what keeps it from being done, such as a missing key; it keeps no other one
    source_name: str = ""  # in the configuration, if it has the source too
    asked: tuple[str, ...] = ()  # the source that the command line names, as its option

    @property
    def promotion(self) -> Promotion:
        """Return the promotion.

        Raises:
            Error: it cannot be done.
        """
        if isinstance(self.wish, Error):
            raise self.wish
        return self.wish

    def previewing(self, given: Arguments, subject: str) -> PlannedPromotion:
        """Return the same for a job that only shows what a later job of its workflow, with this subject, would do."""
        if isinstance(self.wish, Error):
            return self
        ports = previewed(self.wish.ports, self.goal.configured, given, subject)
        origin = self.wish.origin if self.wish.origin.trusted else replace(self.wish.origin, trusted=ports.trusted)
        return replace(self, wish=replace(self.wish, origin=origin, ports=ports))

    def with_ports(self, change: Callable[[Ports], Ports]) -> PlannedPromotion:
        """Return the same in changed worlds of the source and of the target."""
        if isinstance(self.wish, Error):
            return self
        wish = replace(self.wish, origin=change(self.wish.origin), ports=change(self.wish.ports))
        return replace(self, wish=wish)

    @property
    def target(self) -> Reference:
        """Return where to."""
        return self.goal.channel


def promotion_between(source: str | None, to: str, after: timedelta, given: Arguments) -> PlannedPromotion:
    """Return the promotion to one channel; the configuration's evidence counts, and of two waiting times the longer.

    Raises:
        SourceUnclear: neither is said nor configured where from.
        OtherSource: another source is configured.
        CircularPromotion: the source is the channel itself.
        UsageError: an option, the configuration or a key cannot be used.
    """
    goal = target(to, given)
    configured = goal.configured.promote if goal.configured else None
    wanted = source or (configured.source if configured else None)
    if wanted is None:
        raise SourceUnclear(goal.name)
    config = configuration(given)
    origin = channel_of(wanted, config)
    if configured and origin != channel_of(configured.source, config):
        raise OtherSource(goal.name, configured.source, wanted)
    if origin == goal.channel:
        raise CircularPromotion((goal.channel,))
    planned = _planned(goal, wanted, max(after, configured.after) if configured else after, configured, given)
    return replace(planned, asked=("--from", source) if source else ())


def all_waves(
    given: Arguments, to: str | None = None, *, signs: bool = True
) -> tuple[tuple[PlannedPromotion, ...], ...]:
    """Return the promotions that the configuration has, or the one `to` an artifact of it, wave by wave.

    Raises:
        NothingNamed: there is no configuration.
        NothingPromoted: it has none.
        CircularPromotion: they go in a circle.
    """
    config = configuration(given)
    if config is None:
        raise NothingNamed
    named = tuple(target(name, given, signs=signs) for name in promoted(config) if to in {None, name})
    if not named:
        raise NothingPromoted(to)
    return waves_to(named, given)


def waves_to(goals: Iterable[Target], given: Arguments) -> tuple[tuple[PlannedPromotion, ...], ...]:
    """Return the promotions to those of the channels that the configuration promotes, wave by wave.

    What a promotion starts from was reached by a wave before, or by none of them.

    Raises:
        CircularPromotion: they go in a circle.
    """
    ways = ((goal, goal.configured.promote) for goal in goals if goal.configured and goal.configured.promote)
    left, waves = [_planned(goal, way.source, way.after, way, given) for goal, way in ways], []
    while left:
        reached_later = {it.target for it in left}
        wave = tuple(it for it in left if it.source not in reached_later)
        if not wave:
            raise CircularPromotion(sorted(reached_later, key=str))
        waves.append(wave)
        left = [it for it in left if it.source in reached_later]
    return tuple(waves)


def promoted(config: Config) -> tuple[str, ...]:
    """Return the names of the artifacts that are promoted."""
    return tuple(artifact.name for artifact in config.artifacts if artifact.promote)


def _planned(
    goal: Target, source: str, after: timedelta, configured: PromoteConfig | None, given: Arguments
) -> PlannedPromotion:
    reference = channel_of(source, configuration(given))
    source_name = _name(reference, given)
    try:
        evidence = tuple(_evidence(each, given) for each in configured.evidence) if configured else ()
        origin = _origin(source, goal.ports, given)
        rules = rules_of(goal.configured) if goal.configured else None
        ends, names = (reference, origin, goal.channel, goal.ports), (source_name, _name(goal.channel, given))
        wish: Promotion | Error = Promotion(*ends, goal.intent, after, evidence, rules, names)
    except Error as error:
        wish = error
    return PlannedPromotion(goal.name, goal, reference, wish, source_name)


def _origin(source: str, goal: Ports, given: Arguments) -> Ports:
    """Return the world of a source.

    Without trusted signers of the source, those of the target are trusted: they must have signed it in any case.
    """
    _, ports = reading(source, given)
    return ports if ports.trusted else replace(ports, trusted=goal.trusted)


def _name(channel: Reference, given: Arguments) -> str:
    config = configuration(given)
    return next((it.name for it in config.artifacts if it.channel == channel), "") if config else ""


def _evidence(of: EvidenceConfig, given: Arguments) -> Evidence:
    if of.url is not None:
        exchange = Exchange(Network.from_environment(os.environ), Patience(seconds=_SECONDS))
        return Address(of.url, of.field or "", of.equals or "", exchange)
    if of.status is not None:
        from ci_automation.github.repository import Repository

        api = os.environ.get("GITHUB_API_URL") or GITHUB_API
        return CommitStatus(Repository(github(api, given), of.repository or ""), of.status)
    return Report(Path(of.report or ""))
