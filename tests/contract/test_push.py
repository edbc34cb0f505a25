"""A team's own manifests: pushed, signed, recorded and promoted like Flux, and never rendered."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.reference import Reference
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.flows.history import history
from ci_automation.flows.init import FluxInFolder, HoldsFlux, PushRefused, UnfitOrigin, init, push_manifests
from ci_automation.flows.observe import observe
from ci_automation.flows.planning.base import NotRendered
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.planning.promotion import Promotion, consider
from ci_automation.flows.promote import PromotionNotApproved, promote
from ci_automation.flows.publication.placement import ChannelMovedBack
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import update
from ci_automation.flows.verify import pull
from ci_automation.flux.artifact import PUSHED
from ci_automation.policy.decision import Decision
from ci_automation.policy.model import BUMPS, Action, Policy
from ci_automation.records.ledger import Ledger
from ci_automation.signing import bundle
from ci_automation.signing.cluster import ClusterWouldRefuse
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import Unsigned, verify
from tests.contract.interference import kill_at
from tests.contract.planting import delete_channel, forget_signature
from tests.contract.rolled_back import killed_after_the_move
from tests.fakes.world import CHANNEL, OLD, OVERLAY, PATCH, World, intent, signing_key

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest
    from ci_automation.flows.init import Pushed
    from ci_automation.records.notes import Record

SHOP = "https://github.com/acme/shop"
OURS = TrustedKeys((signing_key().public,))
PRODUCTION = Reference.parse("oci://registry.example/acme/shop-production:stable")


def files(image: str) -> Tree:
    return Tree((TreeFile("deploy.yaml", f"kind: Deployment\n# {image}\n".encode()), TreeFile("run", b"#!", True)))


def pushed(world: World, image: str = "one", **more: Any) -> Pushed:
    return push_manifests(CHANNEL, files(image), SHOP, f"main@sha1:{image}", world.ports(), intent(**more))


def records(world: World, digest: Digest, channel: Reference = CHANNEL) -> tuple[Record, ...]:
    return Ledger(world.registry, channel, OURS).records(digest)


@pytest.fixture
def world() -> World:
    """Return a world whose channel has pushed manifests."""
    made = World()
    pushed(made)
    return made


def test_a_bundle_that_hides_the_signature_keeps_the_channel_where_it_is(world: World) -> None:
    before, elsewhere = world.registry.resolve(CHANNEL), World()
    wanted = pushed(elsewhere, "two").digest
    manifest = elsewhere.registry.manifest(CHANNEL)
    for layer in (*manifest.layers, manifest.config):
        world.registry.put_blob(CHANNEL, elsewhere.registry.blob(CHANNEL, layer))
    world.registry.put_manifest(CHANNEL.at_digest(wanted), manifest)
    raw = KeySigner(signing_key("theirs")).sign_statement(bundle.statement(wanted))
    bundle.attach_bundle(world.registry, CHANNEL, wanted, raw, bundle.SIGNATURE_PREDICATE)
    with pytest.raises(ClusterWouldRefuse, match="a bundle that does not match hides"):
        pushed(world, "two")
    assert world.registry.resolve(CHANNEL) == before


def test_it_is_signed_tagged_and_recorded_before_clusters_see_it(world: World) -> None:
    observed = observe(CHANNEL, world.ports())
    assert observed.manifest.annotations["org.opencontainers.image.source"] == SHOP
    assert observed.manifest.annotations["org.opencontainers.image.revision"] == "main@sha1:one"
    tree, digest, _ = pull(CHANNEL, world.ports())
    assert (tree, digest) == (files("one"), observed.digest)
    (record,) = records(world, digest)
    assert (record.tag, record.proof, record.previous) == (f"v0.0.0-{digest.short}", None, None)
    assert world.registry.resolve(CHANNEL.at_tag(record.tag)) == digest
    asked = [it.what for it in world.registry.requests if it.method == "put_manifest"]
    assert [it.endswith(".sig") for it in asked].index(True) < asked.index(str(CHANNEL))


def test_the_same_content_is_published_once_and_other_content_on_top_of_it(world: World) -> None:
    before = observe(CHANNEL, world.ports()).digest
    assert pushed(world).published is False
    after = pushed(world, "two")
    assert after.published
    assert [it.previous for it in records(world, after.digest)] == [before]
    assert [it.digest for it in history(CHANNEL, world.ports()).entries] == [after.digest, before]
    assert pushed(World(), "two").digest == after.digest  # the same inputs


def test_a_channel_with_flux_is_left_alone() -> None:
    world = World()
    flux = init(CHANNEL, PATCH, world.ports(), intent()).digest
    with pytest.raises(HoldsFlux, match="has Flux"):
        pushed(world)
    assert world.channel_digest() == str(flux)


def test_the_schedule_of_flux_leaves_it_alone(world: World) -> None:
    before = world.contents()
    assert update(CHANNEL, world.ports(), intent()).plan.steps == ()
    assert world.contents() == before
    with pytest.raises(NotRendered, match="no Flux to render"):
        make_plan(CHANNEL, world.ports(), intent(flags={"log-level": "debug"}))


@pytest.mark.parametrize("text", ["", "a\nb", "a" * 501], ids=["empty", "two lines", "long"])
def test_what_flux_could_not_show_is_no_revision(world: World, text: str) -> None:
    with pytest.raises(UnfitOrigin, match="at most 500 characters"):
        push_manifests(CHANNEL, files("two"), SHOP, text, world.ports(), intent())


def test_a_folder_with_flux_is_not_pushed() -> None:
    world = World()
    there = Tree((TreeFile("flux-system/gotk-components.yaml", b"kind: Namespace\n"),))
    with pytest.raises(FluxInFolder, match=r"flux-system/gotk-components\.yaml is there"):
        push_manifests(CHANNEL, there, SHOP, "main@sha1:one", world.ports(), intent())
    assert world.registry.tags(CHANNEL) == ()


def test_flux_in_its_place_is_asked_for_by_all_its_files(world: World) -> None:
    staging = CHANNEL.at_tag("staging")
    init(staging, OLD, world.ports(), intent(overlay=OVERLAY))
    wish = intent(policy=Policy(dict.fromkeys(BUMPS, Action.AUTO)))
    considered = consider(Promotion(staging, world.ports(), CHANNEL, world.ports(), wish))
    assert considered.decision is Decision.APPROVAL
    assert any("kustomization.yaml" in reason for reason in considered.reasons)


def test_a_paused_channel_gets_nothing(world: World) -> None:
    with pytest.raises(PushRefused, match="paused"):
        pushed(world, "two", paused=True)
    assert not pushed(world, "one", paused=True).published
    staging = CHANNEL.at_tag("staging")
    two = push_manifests(staging, files("two"), SHOP, "main@sha1:two", world.ports(), intent()).digest
    world.registry.put_manifest(CHANNEL, world.registry.manifest(staging))  # as an attacker could move it meanwhile
    with pytest.raises(PushRefused, match="paused"):
        pushed(world, "two", paused=True)
    assert records(world, two) == ()


@pytest.mark.parametrize("deleted", [False, True], ids=["", "though somebody deleted the channel"])
def test_what_was_rolled_back_is_not_pushed_again(world: World, *, deleted: bool) -> None:
    first = observe(CHANNEL, world.ports()).digest
    pushed(world, "two")
    roll_back(propose_rollback(CHANNEL, Wish(str(first)), world.ports(), intent()), world.ports(), intent())
    assert world.channel_digest() == str(first)
    if deleted:
        delete_channel(world)
    with pytest.raises(PushRefused, match="was rolled back"):
        pushed(world, "two")
    assert pushed(world, "three").published
    with pytest.raises(PushRefused, match="was rolled back"):
        pushed(world, "two")


def test_the_next_push_finishes_a_rollback_that_was_killed(world: World) -> None:
    first = observe(CHANNEL, world.ports()).digest
    two = pushed(world, "two").digest
    killed_after_the_move(world, str(first))
    assert not pushed(world, "one").published
    assert [record.rolled_back for record in records(world, first)] == [False, True]
    world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(two)))
    with pytest.raises(ChannelMovedBack, match="rolled back"):
        pushed(world, "two")


def test_a_channel_that_an_attacker_moved_back_is_no_base(world: World) -> None:
    first = observe(CHANNEL, world.ports()).manifest
    pushed(world, "two")
    world.registry.put_manifest(CHANNEL, first)
    with pytest.raises(ChannelMovedBack):
        pushed(world, "three")
    with pytest.raises(ChannelMovedBack):
        update(CHANNEL, world.ports(), intent())


def test_an_unsigned_channel_is_no_base() -> None:
    world = World()
    push_manifests(CHANNEL, files("one"), SHOP, "main", world.ports(None, None), intent(unsafe_unsigned=True))
    with pytest.raises(Unsigned):
        pushed(world, "two")


def test_a_lost_signature_is_made_again(world: World) -> None:
    digest = observe(CHANNEL, world.ports()).digest
    forget_signature(world, digest)
    assert update(CHANNEL, world.ports(), intent()).healed
    assert pushed(world, "two").published


def test_a_kill_at_any_request_leaves_a_signed_channel_and_the_next_push_finishes_it(world: World) -> None:
    whole = world.copy()
    target = pushed(whole, "two").digest
    for number in range(len(whole.registry.requests)):
        killed = world.copy()
        kill_at(killed, number, partial(pushed, killed, "two"))
        verify(killed.registry, CHANNEL, observe(CHANNEL, killed.ports()).digest, OURS)
        pushed(killed, "two")
        assert killed.channel_digest() == str(target)
        assert len(records(killed, target)) == 1


def test_a_promotion_that_brings_a_secret_in_plain_text_asks_for_approval(world: World) -> None:
    def waits() -> list[str]:
        wish = intent(policy=Policy(escalate=frozenset()))
        considered = consider(Promotion(CHANNEL, world.ports(), PRODUCTION, world.ports(), wish))
        return [it.reason for it in considered.gates if "in plain text" in it.reason]

    assert waits() == []
    secret = files("two").replaced("s.yaml", b"kind: Secret\nstringData: {password: hunter2}\n")
    push_manifests(CHANNEL, secret, SHOP, "main@sha1:two", world.ports(), intent())
    (first,) = waits()
    assert first == "s.yaml holds a Secret in plain text, which everyone who can pull the artifact can read"
    now = observe(CHANNEL, world.ports()).digest
    assert promote(Promotion(CHANNEL, world.ports(), PRODUCTION, world.ports(), intent()), (now,)).done
    more = secret.replaced("deploy.yaml", b"kind: Deployment\n")
    push_manifests(CHANNEL, more, SHOP, "main@sha1:three", world.ports(), intent())
    assert waits() == []  # it is there already


def test_promote_works_on_it(world: World) -> None:
    def promotion(**more: Any) -> Promotion:
        return Promotion(CHANNEL, world.ports(), PRODUCTION, world.ports(), intent(**more))

    first = observe(CHANNEL, world.ports()).digest
    assert promote(promotion(), (first,)).done
    second = pushed(world, "two").digest
    waits = promote(promotion())
    assert [it.object.name for it in waits.considered.findings.changes] == ["deploy.yaml"]
    with pytest.raises(PromotionNotApproved, match=r"the overlay changes: deploy\.yaml"):
        waits.require_done()
    done = promote(promotion(policy=Policy()), (second,))
    assert (done.done, done.considered.version) == (True, PUSHED)
    (record,) = records(world, second, PRODUCTION)
    assert (record.promoted_from, record.previous) == (str(CHANNEL), first)
