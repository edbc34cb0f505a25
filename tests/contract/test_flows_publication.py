"""Publication in bad times: a crash at any point, somebody else at any point, a registry that forgets."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.reference import Reference
from ci_automation.errors import Conflict, VerificationFailed
from ci_automation.flows.apply import apply
from ci_automation.flows.init import init
from ci_automation.flows.observe import ChannelMoved
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.publication.placement import ChannelMovedBack
from ci_automation.flows.update import update
from ci_automation.flux.artifact import immutable_version
from ci_automation.records.ledger import ImmutableTagMoved, Ledger
from ci_automation.signing.signer import SignatureUnusable
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import gather, verify
from tests.contract.interference import interfere, kill_at, names
from tests.contract.planting import EVERY
from tests.fakes.registry import Asked
from tests.fakes.world import CHANNEL, OLD, OVERLAY, PATCH, World, intent, made_once, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.manifest import Manifest

OURS = TrustedKeys((signing_key().public,))


@made_once
def at_oldest() -> World:
    world = World()
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    world.registry.requests.clear()
    return world


def nothing() -> World:
    return World()


def run_init(world: World) -> None:
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))


def run_update(world: World) -> None:
    update(CHANNEL, world.ports(), intent())


def count(start: Callable[[], World], flow: Callable[[World], None]) -> tuple[int, World]:
    world = start()
    flow(world)
    return len(world.registry.requests), world


def is_all_signed(world: World) -> bool:
    """Return whether the channel, and every immutable tag, is on a digest that our key signed."""
    tags = [tag for tag in world.registry.tags(CHANNEL) if not tag.endswith(".sig")]
    digests = {world.registry.resolve(CHANNEL.at_tag(tag)) for tag in tags}
    return all(d is not None and verify(world.registry, CHANNEL, d, OURS) for d in digests)


FLOWS = {"init": (nothing, run_init, 20), "update": (at_oldest, run_update, 23)}


@pytest.mark.parametrize(("start", "flow", "requests"), FLOWS.values(), ids=list(FLOWS))
def test_the_number_of_calls_is_what_it_is(
    start: Callable[[], World], flow: Callable[[World], None], requests: int
) -> None:
    made, world = count(start, flow)
    assert made == requests, [asked.method for asked in world.registry.requests]


@pytest.mark.parametrize(("start", "flow", "requests"), FLOWS.values(), ids=list(FLOWS))
def test_a_crash_at_any_point_leaves_what_is_signed_and_the_next_run_ends_the_same(
    start: Callable[[], World], flow: Callable[[World], None], requests: int
) -> None:
    _, undisturbed = count(start, flow)

    for at in range(requests):
        world = start()
        kill_at(world, at, partial(flow, world))
        assert is_all_signed(world), at
        flow(world)
        assert is_all_signed(world), at
        assert names(world) == names(undisturbed), at
        digest = world.registry.resolve(CHANNEL)
        assert digest is not None
        # A second signature of the same key is not made, and no second record.
        assert len(gather(world.registry, CHANNEL, digest).signatures) == 1
        (record,) = Ledger(world.registry, CHANNEL, OURS).all_records(digest)
        assert record.channel == str(CHANNEL)


def test_of_two_updates_one_wins_and_the_other_says_so_or_finds_it_done() -> None:
    requests, undisturbed = count(at_oldest, run_update)
    for at in range(requests):
        world = at_oldest()
        interfere(world, at, lambda world=world: run_update(world))  # type: ignore[misc]
        with contextlib.suppress(Conflict):  # exit code 12
            run_update(world)
        assert is_all_signed(world), at
        assert names(world) == names(undisturbed), at


def beside_theirs() -> World:
    world = at_oldest()
    other_artifact(world)
    return world


def test_what_somebody_else_published_is_overwritten_in_one_request_at_most() -> None:
    requests, _ = count(beside_theirs, run_update)
    lost = []
    for at in range(requests):
        world = at_oldest()
        theirs = other_artifact(world)

        def move(world: World = world, theirs: Manifest = theirs) -> None:
            world.registry.put_manifest(CHANNEL, theirs)

        interfere(world, at, move)
        try:
            run_update(world)
        except (Conflict, VerificationFailed):
            assert world.channel_digest() == str(theirs.digest), at
        else:
            lost.append(at)
    # The channel's own PUT, which registries cannot compare and swap; after the read-back the channel is the other's.
    assert lost == [the_move(requests), requests - 1]


def test_a_run_that_overwrites_a_newer_release_is_noticed_by_the_next_run() -> None:
    wish = intent(flags={"log-level": "debug"}, policy=EVERY)

    def change(world: World) -> None:
        plan = make_plan(CHANNEL, world.ports(), wish).plan
        apply(plan, [step.target for step in plan.steps], world.ports(), wish)

    _, alone = count(at_oldest, change)
    moved = next(at for at, it in enumerate(alone.registry.requests) if it == Asked("put_manifest", str(CHANNEL)))
    world = at_oldest()
    interfere(world, moved, lambda: run_update(world))
    change(world)
    assert world.channel_digest() == alone.channel_digest()
    with pytest.raises(ChannelMovedBack, match=f"moved on to .* \\({PATCH}\\)"):
        run_update(world)


def the_move(requests: int) -> int:
    """Return which request moves the channel: the upload of the record, the read-back and the list follow."""
    return requests - 5


def other_artifact(world: World) -> Manifest:
    """Return an artifact that is in the repository, and not on the channel."""
    aside = Reference.parse(f"{CHANNEL.repository}:aside")
    init(aside, OLD, world.ports("theirs", "theirs"), intent(flags={"log-level": "debug"}))
    theirs = world.registry.manifest(aside)
    world.registry.requests.clear()
    return theirs


def test_a_tag_that_is_moved_behind_our_back_is_reported() -> None:
    requests, _ = count(beside_theirs, run_update)
    world = at_oldest()
    theirs = other_artifact(world)
    interfere(world, the_move(requests) + 1, lambda: void(world.registry.put_manifest(CHANNEL, theirs)))
    with pytest.raises(ChannelMoved, match=str(theirs.digest)):
        run_update(world)


def void(_: object) -> None:
    pass


def test_nothing_is_tagged_where_the_signature_does_not_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = at_oldest()
    before = names(world)
    monkeypatch.setattr("ci_automation.signing.keys.private.SigningKey.sign", lambda *_: b"not a signature")
    with pytest.raises(SignatureUnusable):
        run_update(world)
    assert {tag: digest for tag, digest in names(world).items() if not tag.endswith(".sig")} == {
        tag: digest for tag, digest in before.items() if not tag.endswith(".sig")
    }


def test_the_channel_moves_last_and_after_a_second_look() -> None:
    _, world = count(at_oldest, run_update)
    methods = [(asked.method, asked.what.removeprefix(str(CHANNEL.repository))) for asked in world.registry.requests]
    move = the_move(len(methods))
    assert methods[move - 1 : move + 1] == [("resolve", ":production"), ("put_manifest", ":production")]
    assert methods.count(("put_manifest", ":production")) == 1
    # The record: uploaded beside the move, where it is not the registry in memory, and listed after the read-back.
    assert [method for method, _ in methods[move + 1 :]] == ["put_blob", "put_blob", "resolve", "put_referrer"]
    assert methods[move + 3] == ("resolve", ":production")


def test_an_immutable_tag_that_leads_elsewhere_stops_a_first_publication() -> None:
    _, undisturbed = count(nothing, run_init)
    (tag,) = (tag for tag in undisturbed.registry.tags(CHANNEL) if immutable_version(tag))
    world = nothing()
    world.registry.put_manifest(CHANNEL.at_tag(tag), other_artifact(world))
    with pytest.raises(ImmutableTagMoved):
        run_init(world)
    assert world.registry.resolve(CHANNEL) is None
