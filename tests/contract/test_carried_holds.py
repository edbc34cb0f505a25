"""A hold goes where the channel goes: none in force is lost on the way, and none that was lifted comes back."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.tree import Tree
from ci_automation.flows.init import init
from ci_automation.flows.lift import ended_hold, lift
from ci_automation.flows.publication.publish import SignerNotTrusted
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import update
from ci_automation.records.ledger import Ledger
from ci_automation.records.writer import HoldNotKept, RecordWriter
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import TrustedKeys
from tests.contract.interference import Killed, kill_at
from tests.contract.planting import at
from tests.contract.rolled_back import AUTO, OURS, back, grown, version_of, with_overlay
from tests.fakes.registry import Asked
from tests.fakes.world import CHANNEL, MINOR, NOW, OLD, OVERLAY, PATCH, World, intent, made_once, signing_key

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.version import Version
    from ci_automation.report.rollback import Rollback

pytestmark = pytest.mark.usefixtures("unjudged")


def on_hold(world: World) -> set[Version]:
    """Return which versions holds of the channel keep back where it is."""
    return {it.version for it in Ledger(world.registry, CHANNEL, OURS).holds(at(world)) if it.is_on(NOW)}


def lifted(world: World, only: Digest | None = None) -> None:
    lift(CHANNEL, "fixed on our side", world.ports(), intent(), only)


@made_once
def twice_back() -> World:
    """Return a channel that went back from the minor to the patch, and from there to the oldest release."""
    world = grown()
    back(world, reason="webhooks time out")
    back(world, str(OLD), reason="leaks memory")
    assert on_hold(world) == {PATCH, MINOR}
    world.registry.requests.clear()
    return world


def to_the_patch(world: World) -> None:
    """Let a run publish the next patch, which is all that the policy of this channel takes by itself."""
    update(CHANNEL, world.ports(), intent())
    assert version_of(world) == PATCH


def moves(world: World) -> dict[Version, Digest]:
    """Return the digests that the channel had, by their versions."""
    return {it.version: it.digest for it in Ledger(world.registry, CHANNEL, OURS).all_moves()}


def named_beside(shown: Rollback) -> list[Version]:
    """Return which versions the other holds keep back that the page before a rollback names."""
    return [it.version for it in shown.also]


def named(world: World, version: Version) -> Digest:
    """Return the name of the hold on a version where the channel is."""
    found = Ledger(world.registry, CHANNEL, OURS).named_holds(at(world))
    (name,) = (name for name, hold in found if hold.version == version)
    return name


def lift_on(world: World, digest: Digest, *, signer: KeySigner | None = None, fast: timedelta = timedelta(0)) -> None:
    """Lift the holds on one digest, with no word about their copies on others."""
    writer = RecordWriter(world.registry, CHANNEL, signer or KeySigner(signing_key()))
    moment = world.ports().clock() + fast
    holds = Ledger(world.registry, CHANNEL, OURS).holds(digest)
    writer.keep(world.registry.manifest(CHANNEL.at_digest(digest)), [ended_hold(it, "", moment, NOW) for it in holds])


def test_a_lifted_hold_does_not_come_back_with_a_digest_that_has_it_too() -> None:
    world = twice_back()
    lifted(world)
    to_the_patch(world)
    assert on_hold(world) == set()
    back(world, str(OLD))
    assert on_hold(world) == {PATCH}


def test_a_lifted_hold_does_not_come_back_with_what_a_killed_run_made_ready() -> None:
    world, other = grown(), Tree(OVERLAY.files[:1])
    back(world, str(OLD))

    def before(asked: Asked) -> None:
        if asked == Asked("put_manifest", str(CHANNEL)):
            raise Killed

    world.registry.before = before
    with pytest.raises(Killed):
        with_overlay(world, other)
    world.registry.before = lambda _: None
    assert on_hold(world) == {MINOR}
    lifted(world)
    with_overlay(world, other)
    assert on_hold(world) == set()


def test_one_of_two_that_was_not_lifted_stays_on_both_digests() -> None:
    world = twice_back()
    ledger = Ledger(world.registry, CHANNEL, OURS)
    lifted(world, named(world, PATCH))
    assert on_hold(world) == {MINOR}
    assert named_beside(back(world, str(OLD))) == [MINOR]
    assert [it.is_on(NOW) for it in ledger.holds(moves(world)[PATCH])] == [True]
    lifted(world, named(world, MINOR))
    assert [it.is_on(NOW) for it in ledger.holds(moves(world)[PATCH])] == [False]


@pytest.mark.parametrize("fast", [timedelta(0), timedelta(days=9)], ids=["", "lifted by a fast clock"])
def test_a_hold_in_force_is_in_force_after_the_next_rollback(fast: timedelta) -> None:
    world = twice_back()
    lift_on(world, at(world), fast=fast)
    to_the_patch(world)
    assert on_hold(world) == {MINOR}
    shown = back(world, str(OLD), reason="third")
    assert (version_of(world), on_hold(world)) == (OLD, {PATCH, MINOR})
    assert shown.hold
    assert (shown.hold.version, named_beside(shown)) == (PATCH, [MINOR])
    before = world.contents()
    assert named_beside(back(world, str(OLD), reason="third")) == [MINOR]
    assert world.contents() == before
    assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0
    lifted(world)
    assert on_hold(world) == set()
    to_the_patch(world)
    assert on_hold(world) == set()


def test_a_hold_in_force_goes_on_where_a_publication_leads_to_what_was_lifted() -> None:
    world, other = World(), type(OVERLAY)(OVERLAY.files[:1])
    first = init(CHANNEL, PATCH, world.ports(), intent(overlay=other)).digest
    second = with_overlay(world)
    assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 1
    back(world, str(second))
    back(world, str(first))
    lift_on(world, second)
    (name,) = (name for name, it in Ledger(world.registry, CHANNEL, OURS).named_holds(first) if it.alone)
    lifted(world, name)
    assert with_overlay(world) == second
    assert on_hold(world) == {MINOR}


def test_a_lift_by_another_trusted_key_swallows_no_hold_in_force() -> None:
    world, other = twice_back(), KeySigner(signing_key("another"))
    both = TrustedKeys((*OURS.keys, *other.trusted.keys))
    ports = replace(world.ports(), trusted=both)
    lift_on(world, at(world), signer=other)
    update(CHANNEL, ports, intent())
    assert version_of(world) == PATCH
    roll_back(propose_rollback(CHANNEL, Wish(str(OLD)), ports, intent()), ports, intent())
    found = Ledger(world.registry, CHANNEL, both).holds(at(world))
    assert {it.version for it in found if it.is_on(NOW)} == {PATCH, MINOR}


def test_a_lift_that_was_killed_at_any_request_is_repeated() -> None:
    undisturbed = twice_back()
    lifted(undisturbed)
    for request in range(len(undisturbed.registry.requests)):
        world = twice_back()
        kill_at(world, request, partial(lifted, world))
        lifted(world)
        assert on_hold(world) == set(), request
        to_the_patch(world)
        assert on_hold(world) == set(), request


def test_a_rollback_that_was_killed_at_any_request_is_repeated() -> None:
    def made() -> World:
        world = twice_back()
        lift_on(world, at(world))
        to_the_patch(world)
        world.registry.requests.clear()
        return world

    undisturbed = made()
    back(undisturbed, str(OLD))
    for request in range(len(undisturbed.registry.requests)):
        world = made()
        kill_at(world, request, lambda world=world: back(world, str(OLD)))  # type: ignore[misc]
        back(world, str(OLD))
        assert (version_of(world), on_hold(world)) == (OLD, {PATCH, MINOR}), request


def test_a_tag_that_hides_an_older_digest_stops_no_lift() -> None:
    world = grown()
    back(world)
    tags = world.registry.repositories[str(CHANNEL.repository)].tags
    (tag,) = (tag for tag in tags if tag.startswith(f"{OLD}-"))
    tags[tag] = at(world)
    lifted(world)
    assert on_hold(world) == set()


def test_a_lift_ends_no_hold_of_a_later_rollback() -> None:
    world = twice_back()
    patch, before = moves(world)[PATCH], Ledger(world.registry, CHANNEL, OURS).holds(at(world))
    (on_patch,) = Ledger(world.registry, CHANNEL, OURS).holds(patch)
    later = replace(on_patch, at=max(it.at for it in before) - timedelta(microseconds=1))
    writer = RecordWriter(world.registry, CHANNEL, KeySigner(signing_key()))
    writer.keep(world.registry.manifest(CHANNEL.at_digest(patch)), [later])
    assert later.since > on_patch.since
    lifted(world)
    assert [it.is_on(NOW) for it in Ledger(world.registry, CHANNEL, OURS).holds(patch)] == [True]
    assert later.version == MINOR


def test_a_lift_that_no_trusted_signer_would_sign_is_refused_before_anything_is_written() -> None:
    world = twice_back()
    new = replace(world.ports(), signer=KeySigner(signing_key("theirs")))
    before = world.contents()
    with pytest.raises(SignerNotTrusted) as caught:
        lift(CHANNEL, "", new, intent(accept_identity_change=True))
    assert str(signing_key("theirs").public.fingerprint) in str(caught.value)
    assert (caught.value.exit_code, world.contents()) == (10, before)
    both = replace(new, trusted=TrustedKeys((*OURS.keys, signing_key("theirs").public)))
    assert len(lift(CHANNEL, "", both, intent()).holds) == 2


def test_a_rollback_whose_hold_no_run_would_see_is_refused_before_anything_is_written() -> None:
    world = grown()
    new = replace(world.ports(), signer=KeySigner(signing_key("theirs")))
    before = world.contents()
    with pytest.raises(SignerNotTrusted):
        propose_rollback(CHANNEL, Wish(str(PATCH)), new, intent(accept_identity_change=True))
    assert world.contents() == before
    both = replace(new, trusted=TrustedKeys((*OURS.keys, signing_key("theirs").public)))
    roll_back(propose_rollback(CHANNEL, Wish(str(PATCH)), both, intent()), both, intent())
    assert update(CHANNEL, both, intent(policy=AUTO)).done == 0


def test_a_registry_that_loses_the_end_of_a_hold_is_not_said_to_undo_a_rollback() -> None:
    world = twice_back()
    repository = world.registry.repositories[str(CHANNEL.repository)]
    known = dict(repository.manifests)

    def forget(asked: Asked) -> None:
        if asked.method == "referrers":
            for found in repository.manifests.keys() - known.keys():
                del repository.manifests[found]

    world.registry.before = forget
    with pytest.raises(HoldNotKept) as caught:
        lifted(world)
    assert str(caught.value).startswith(f"the end of the hold on {CHANNEL.at_digest(moves(world)[PATCH])} was written")
    assert "undo" not in caught.value.hint
    assert on_hold(world) == {PATCH, MINOR}
