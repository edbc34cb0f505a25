"""Version tags (`versionTags: true`): where each leads after every flow, in bad times, and to whom it belongs."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB
from ci_automation.artifact.reference import Reference
from ci_automation.errors import Conflict
from ci_automation.flows.apply import apply
from ci_automation.flows.history import history
from ci_automation.flows.init import init
from ci_automation.flows.lift import lift
from ci_automation.flows.observe import ChannelMoved
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.prune import survey
from ci_automation.flows.publication.copy import copy
from ci_automation.flows.publication.leaving import NotBack
from ci_automation.flows.publication.tags import VersionTagAstray, VersionTags, VersionTagTaken
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import NotOurs, heal, update
from ci_automation.flows.verify import verify_channel
from ci_automation.policy.model import BUMPS, Action, Policy
from ci_automation.policy.retention import Window
from ci_automation.registry.port import TagMoved
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import verify
from tests.contract.interference import interfere, kill_at
from tests.contract.planting import at, forget_records, forget_signature, made
from tests.contract.test_promote import SAME, settled
from tests.fakes.world import CHANNEL, MINOR, NOW, OLD, OVERLAY, PATCH, World, intent, made_once, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.reference import Digest
    from tests.fakes.registry import InMemoryRegistry

pytestmark = pytest.mark.usefixtures("unjudged")
OURS = TrustedKeys((signing_key().public,))
AUTO = Policy(actions=dict.fromkeys(BUMPS, Action.AUTO))
STAY = Policy(actions=dict.fromkeys(BUMPS, Action.NEVER))
STAGING = Reference.parse("oci://registry.example/acme/flux-manifests:staging")
SMALLER = OVERLAY.without("hooks/after.sh")


def wish(**changes: Any) -> Any:
    return intent(**{"version_tags": True, **changes})


@made_once
def grown(*, tagged: bool = True) -> World:
    """Return a channel that went to the newest release in two steps, with version tags."""
    world = World()
    init(CHANNEL, OLD, world.ports(), wish(overlay=OVERLAY, version_tags=tagged))
    update(CHANNEL, world.ports(), wish(version_tags=tagged))
    update(CHANNEL, world.ports(), wish(policy=AUTO, version_tags=tagged))
    world.registry.requests.clear()
    return world


@pytest.fixture
def world() -> World:
    return grown()


def scheduled(world: World, **changes: Any) -> None:
    update(CHANNEL, world.ports(), wish(**{"policy": AUTO, **changes}))


def back(world: World, to: str = str(PATCH), **changes: Any) -> Any:
    proposal = propose_rollback(CHANNEL, Wish(to), world.ports(), wish(**changes))
    roll_back(proposal, world.ports(), wish(**changes))
    return proposal.shown


def change_overlay(world: World) -> None:
    """Publish another overlay with the present version."""
    wanted = wish(overlay=SMALLER, policy=STAY)
    plan = make_plan(CHANNEL, world.ports(), wanted).plan
    apply(plan, {step.target for step in plan.steps}, world.ports(), wanted)


def tags(registry: InMemoryRegistry, channel: Reference = CHANNEL) -> dict[str, Digest | None]:
    """Return where the version tags lead."""
    plain = (tag for tag in registry.tags(channel) if tag.count(".") == 2 and "-" not in tag)
    return {tag: registry.resolve(channel.at_tag(tag)) for tag in plain}


def of(world: World, *versions: str) -> list[Digest | None]:
    """Return the digests that the immutable tags of these versions name."""
    names = (next(tag for tag in world.registry.tags(CHANNEL) if tag.startswith(f"{it}-")) for it in versions)
    return [world.registry.resolve(CHANNEL.at_tag(name)) for name in names]


def expect(world: World, **versions: str) -> None:
    """Check that each version tag, written `old`, `patch` and `minor`, leads to the publication of a version."""
    names = {"old": str(OLD), "patch": str(PATCH), "minor": str(MINOR)}
    wanted = dict(zip([names[it] for it in versions], of(world, *(names[it] for it in versions.values())), strict=True))
    assert tags(world.registry) == wanted


def point(world: World, tag: str, digest: Digest) -> None:
    """Let an attacker, or another tool, point a tag at a digest of the repository."""
    world.registry.put_manifest(CHANNEL.at_tag(tag), world.registry.manifest(CHANNEL.at_digest(digest)))


def plant(world: World, tag: str) -> Digest:
    """Let another tool publish something unsigned under a tag."""
    composed = made(OLD, SMALLER)
    world.registry.put_blob(CHANNEL, composed.recipe.layer)
    return world.registry.put_manifest(CHANNEL.at_tag(tag), composed.manifest)


def is_safe(world: World) -> bool:
    """Return whether every version tag leads to a digest that our key signed."""
    return all(it and verify(world.registry, CHANNEL, it, OURS) for it in tags(world.registry).values())


class TestWhereTheyLead:
    def test_only_where_the_configuration_wants_them(self) -> None:
        assert tags(grown(tagged=False).registry) == {}

    def test_each_to_the_newest_publication_of_its_version(self, world: World) -> None:
        expect(world, old="old", patch="patch", minor="minor")

    def test_after_the_signature_and_the_channel(self, world: World) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), wish())
        put = [asked.what for asked in world.registry.requests if asked.method == "put_manifest"]
        moved = [next(n for n, it in enumerate(put) if it.endswith(end)) for end in (".sig", ":production", f":{OLD}")]
        assert moved == sorted(moved)

    def test_init_again_finishes_what_was_interrupted(self) -> None:
        world = World()
        for _ in range(2):
            init(CHANNEL, OLD, world.ports(), wish(overlay=OVERLAY))
            expect(world, old="old")
            del world.registry.repositories[str(CHANNEL.repository)].tags[str(OLD)]

    def test_another_overlay_of_the_same_version_moves_its_tag(self, world: World) -> None:
        before = at(world)
        change_overlay(world)
        assert tags(world.registry)[str(MINOR)] == at(world) != before

    def test_a_channel_that_had_none_gets_that_of_its_version(self) -> None:
        world = grown(tagged=False)
        scheduled(world)
        expect(world, minor="minor")
        world.registry.requests.clear()
        scheduled(world)
        assert not [it for it in world.registry.requests if it.method.startswith("put")]

    def test_a_signature_that_was_lost_is_made_again_first(self, world: World) -> None:
        forget_signature(world, at(world))
        del world.registry.repositories[str(CHANNEL.repository)].tags[str(MINOR)]
        heal(CHANNEL, world.ports(), wish(policy=STAY))
        assert is_safe(world)
        expect(world, old="old", patch="patch", minor="minor")

    def test_what_a_person_adopts_has_its_tag_too(self) -> None:
        world = World()
        composed = made(OLD)
        for blob in (composed.recipe.layer, CONFIG_BLOB):
            world.registry.put_blob(CHANNEL, blob)
        world.registry.put_manifest(CHANNEL, composed.manifest)
        with pytest.raises(NotOurs):
            scheduled(world, policy=STAY, adopt=False)
        assert tags(world.registry) == {}
        scheduled(world, policy=STAY, adopt=True)
        assert is_safe(world)
        expect(world, old="old")

    def test_a_promoted_channel_has_its_own_and_an_interrupted_one_gets_them(self) -> None:
        road = settled(SAME)
        assert road.promote(version_tags=True).done
        digest = road.there.resolve(SAME)
        assert tags(road.there, SAME) == {str(OLD): road.there.resolve(SAME.at_tag(str(OLD))), str(PATCH): digest}
        del road.there.repositories[str(SAME.repository)].tags[str(PATCH)]
        assert not road.promote(version_tags=True).done
        assert road.there.resolve(SAME.at_tag(str(PATCH))) == digest


class TestRollback:
    def test_no_range_finds_what_is_on_hold(self, world: World) -> None:
        shown = back(world)
        assert (shown.version_tags, shown.moves_tags) == ((str(MINOR),), True)
        expect(world, old="old", patch="patch", minor="patch")
        assert verify_channel(CHANNEL.at_tag(str(MINOR)), world.ports(), wish()).problem is None
        scheduled(world)
        expect(world, old="old", patch="patch", minor="patch")

    def test_further_back_all_of_them_follow_and_go_their_ways_again(self, world: World) -> None:
        back(world, str(OLD))
        expect(world, old="old", patch="old", minor="old")
        lift(CHANNEL, "", world.ports(), wish())
        expect(world, old="old", patch="old", minor="old")
        scheduled(world)
        assert tags(world.registry)[str(MINOR)] == at(world) == of(world, str(MINOR))[0]

    def test_to_an_earlier_overlay_of_the_same_version(self, world: World) -> None:
        before = at(world)
        change_overlay(world)
        back(world, str(before))
        assert tags(world.registry)[str(MINOR)] == before
        assert verify_channel(CHANNEL.at_tag(str(MINOR)), world.ports(), wish()).problem is None

    def test_without_the_configuration_it_names_the_tags_that_stay(self, world: World) -> None:
        shown = back(world, version_tags=False)
        assert (shown.version_tags, shown.moves_tags) == ((str(MINOR),), False)
        expect(world, old="old", patch="patch", minor="minor")
        scheduled(world)  # the next run with the configuration
        expect(world, old="old", patch="patch", minor="patch")

    def test_a_tag_of_others_is_told_when_everything_else_is_done(self, world: World) -> None:
        planted = plant(world, "v9.9.9")
        with pytest.raises(VersionTagTaken, match=r"v9\.9\.9"):
            back(world)
        assert at(world) == of(world, str(PATCH))[0] == tags(world.registry)[str(MINOR)]
        assert tags(world.registry)["v9.9.9"] == planted


FLOWS: dict[str, Callable[[World], object]] = {"update": scheduled, "rollback": back, "overlay": change_overlay}


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS.keys())
class TestInBadTimes:
    def begun(self, flow: Callable[[World], object]) -> World:
        if flow is not scheduled:
            return grown()
        world = World()
        init(CHANNEL, OLD, world.ports(), wish(overlay=OVERLAY))
        world.registry.requests.clear()
        return world

    def test_a_crash_at_any_request_is_over_with_the_next_run(self, flow: Callable[[World], object]) -> None:
        undisturbed = self.begun(flow)
        flow(undisturbed)

        for request in range(len(undisturbed.registry.requests)):
            world = self.begun(flow)
            kill_at(world, request, partial(flow, world))
            assert is_safe(world), request
            version = update(CHANNEL, world.ports(), wish(policy=STAY)).plan.current_version
            assert VersionTags(CHANNEL, version, world.ports()).astray(at(world)) == {}, request
            with contextlib.suppress(Conflict):  # a plan that is done already
                flow(world)
            assert tags(world.registry) == tags(undisturbed.registry), request

    def test_of_two_runs_the_tags_follow_the_one_that_won(self, flow: Callable[[World], object]) -> None:
        undisturbed = self.begun(flow)
        flow(undisturbed)
        for request in range(0, len(undisturbed.registry.requests), 3):
            world = self.begun(flow)
            interfere(world, request, lambda world=world: back(world, str(OLD)))  # type: ignore[misc]
            with contextlib.suppress(Conflict, NotBack):
                flow(world)
            version = update(CHANNEL, world.ports(), wish(policy=STAY)).plan.current_version
            assert VersionTags(CHANNEL, version, world.ports()).astray(at(world)) == {}, request


class TestWhoseTheyAre:
    def test_of_two_channels_the_second_publishes_nothing(self, world: World) -> None:
        before = world.contents()
        with pytest.raises(VersionTagTaken, match=r"production never had|staging never had") as told:
            init(STAGING, OLD, world.ports(), wish(overlay=SMALLER))
        assert "registry.example/acme/flux-manifests:production" in str(told.value)
        assert "versionTags" in told.value.hint
        assert world.contents() == before

    def test_the_same_digest_on_two_channels_is_nobody_elses(self, world: World) -> None:
        init(STAGING, MINOR, world.ports(), intent(overlay=OVERLAY))
        scheduled(world)
        expect(world, old="old", patch="patch", minor="minor")

    @pytest.mark.parametrize("tag", ["v9.9.9", "9.9.9", "v2.99.4"])
    def test_what_another_tool_put_there_stays_and_nothing_is_published(self, tag: str) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), wish(overlay=OVERLAY))
        planted, before = plant(world, tag), at(world)
        with pytest.raises(VersionTagTaken, match="no signed record"):
            scheduled(world)
        assert (at(world), world.registry.resolve(CHANNEL.at_tag(tag))) == (before, planted)

    def test_of_very_many_a_few_are_asked_for_at_once(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        for number in range(40):
            point(world, f"v9.0.{number}", at(world))
        sizes: list[int] = []
        whole = type(world.registry).at_once

        def at_once(registry: InMemoryRegistry, *work: Callable[[], object]) -> list[object]:
            sizes.append(len(work))
            return whole(registry, *work)

        monkeypatch.setattr(type(world.registry), "at_once", at_once)
        assert VersionTags(CHANNEL, MINOR, world.ports()).astray(at(world)) == {}
        assert sizes == [16, 16, 9]

    def test_one_below_the_channel_is_no_obstacle(self, world: World) -> None:
        planted = plant(world, "v1.0.0")
        scheduled(world)
        assert tags(world.registry)["v1.0.0"] == planted

    def test_an_older_digest_of_ours_is_noticed_and_the_next_run_moves_it_back(self, world: World) -> None:
        (older,) = of(world, str(PATCH))
        assert older
        point(world, str(MINOR), older)
        found = verify_channel(CHANNEL.at_tag(str(MINOR)), world.ports(), wish()).problem
        assert isinstance(found, VersionTagAstray)
        assert f"which is {PATCH}, and no rollback" in str(found)
        scheduled(world)
        expect(world, old="old", patch="patch", minor="minor")

    def test_an_older_overlay_of_the_version_is_noticed(self, world: World) -> None:
        older = at(world)
        change_overlay(world)
        point(world, str(MINOR), older)
        found = verify_channel(CHANNEL.at_tag(str(MINOR)), world.ports(), wish()).problem
        assert isinstance(found, VersionTagAstray)
        assert f"published {at(world)} with that version later" in str(found)

    def test_without_records_only_its_version_is_known(self, world: World) -> None:
        for digest in of(world, str(MINOR), str(PATCH)):
            assert digest
            forget_records(world, digest)
        assert verify_channel(CHANNEL.at_tag(str(MINOR)), world.ports(), wish()).problem is None
        (older,) = of(world, str(PATCH))
        assert older
        point(world, str(MINOR), older)
        found = verify_channel(CHANNEL.at_tag(str(MINOR)), world.ports(), wish()).problem
        assert isinstance(found, VersionTagAstray)
        assert f"Find out who moved {MINOR}. `update " in found.hint
        assert found.hint.endswith(" --heal` moves it back.")

    def test_what_only_another_repository_published_is_noticed_unless_it_is_mirrored(self, world: World) -> None:
        other = Reference.parse("oci://registry.example/acme/other:production")
        taken = init(other, MINOR, world.ports(), intent(overlay=SMALLER)).digest
        copy(world.registry, other, world.registry, CHANNEL.at_tag(str(MINOR)), taken)
        found = verify_channel(CHANNEL.at_tag(str(MINOR)), world.ports(), wish()).problem
        assert isinstance(found, VersionTagAstray)
        assert f"published to {other} and to no channel of this repository" in str(found)
        assert found.hint.endswith(f"at what a channel of {CHANNEL.repository} published with that version.")
        mirror = Reference.parse("oci://mirror.example/acme/other:v2.99.4")
        copy(world.registry, other, world.registry, mirror, taken)
        assert verify_channel(mirror, world.ports(), wish()).problem is None

    @pytest.mark.parametrize("after", [0, 1], ids=["the channel moved", "the tag moved"])
    def test_a_race_for_a_tag_is_told(self, world: World, after: int) -> None:
        (older,) = of(world, str(OLD))
        assert older
        del world.registry.repositories[str(CHANNEL.repository)].tags[str(MINOR)]
        ports, manifest = world.ports(), world.registry.manifest(CHANNEL)
        world.registry.requests.clear()  # it asks for the list, the tag and the channel, puts the tag, and asks again
        interfere(world, 2 + 2 * after, lambda: point(world, ("production", str(MINOR))[after], older))
        with pytest.raises((ChannelMoved, TagMoved)[after]):
            VersionTags(CHANNEL, MINOR, ports).settle(manifest)


def test_a_run_without_anybody_to_trust_moves_no_tag_that_leads_elsewhere(world: World) -> None:
    (older,) = of(world, str(PATCH))
    assert older
    point(world, str(MINOR), older)
    ports = replace(world.ports(), trusted=None)
    with pytest.raises(VersionTagTaken):
        VersionTags(CHANNEL, MINOR, ports).require_free(at(world))


def test_what_a_version_tag_leads_to_is_not_pruned(world: World) -> None:
    found = survey(CHANNEL, Window(1), world.ports(), NOW)
    assert (found.goes, [it.reason for it in found.kept][1:]) == ((), ["v2.98.8 leads to it", "v2.98.5 leads to it"])


def test_history_tells_them_from_channels(world: World) -> None:
    back(world)
    first = next(entry for entry in history(CHANNEL, world.ports()).entries if entry.version == PATCH)
    assert (first.channels, first.version_tags) == (("production",), (str(PATCH), str(MINOR)))
