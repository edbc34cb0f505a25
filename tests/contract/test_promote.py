"""Promotions: the same digest goes on, with all that speaks for it, once it has proven itself."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.approval.port import ApprovalRequest, GrantedApproval
from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, Descriptor, Manifest
from ci_automation.artifact.reference import Reference
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.errors import Conflict
from ci_automation.flows.apply import apply
from ci_automation.flows.approved import CameBack
from ci_automation.flows.init import init
from ci_automation.flows.observe import ChannelMoved, SignedForOthers
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.planning.promotion import Promotion, SourceEmpty, consider
from ci_automation.flows.ports import NoSigner
from ci_automation.flows.promote import (
    OtherDigest,
    Promoted,
    PromotionNotApproved,
    PromotionRefused,
    RecordNotBelieved,
    promote,
)
from ci_automation.flows.publication.copy import RefersElsewhere, TooLargeToCopy, copy
from ci_automation.flows.publication.placement import ChannelMovedBack, PublishedElsewhere
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import update
from ci_automation.flows.update_and_ask import promote_granted
from ci_automation.impact.assess import Impact
from ci_automation.impact.check import Clusters, KubernetesRange
from ci_automation.impact.overlay.builder import BuildFailed
from ci_automation.policy.decision import Decision, Hold, is_held
from ci_automation.policy.model import BUMPS, Acknowledgement, Action, Policy
from ci_automation.policy.promotion import evidence_verdict
from ci_automation.policy.ranges import Range
from ci_automation.records.ledger import ImmutableTagMoved, Ledger
from ci_automation.records.notes import Approval
from ci_automation.records.writer import RecordWriter
from ci_automation.registry.port import NotFound
from ci_automation.signing import legacy
from ci_automation.signing.cluster import ClusterWouldRefuse
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import NobodyTrusted, TrustedKeys
from ci_automation.signing.verify import ForeignSignature, Unsigned, verify
from tests.contract.interference import Killed
from tests.fakes.registry import Asked, InMemoryRegistry
from tests.fakes.world import MINOR, NOW, OLD, OVERLAY, PATCH, MemoryReleases, intent, made_once, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci_automation.artifact.reference import Digest
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.version import Version
    from ci_automation.impact.overlay.builder import Build
    from ci_automation.policy.decision import Verdict
    from ci_automation.records.notes import Record

UNLISTED = "f396640c83957312"  # the fingerprint of components that no kustomization lists
STAGING = Reference.parse("oci://registry.example/acme/staging:stable")
ELSEWHERE = Reference.parse("oci://edge.example/acme/flux:production")
BESIDE = Reference.parse("oci://registry.example/acme/production:stable")
SAME = Reference.parse("oci://registry.example/acme/staging:production")
OURS = TrustedKeys((signing_key().public,))
DAY = timedelta(days=1)


@dataclass(slots=True)
class Witness:
    """Evidence that says what a test wants."""

    says: bool = True
    asked: list[str] = field(default_factory=list)

    def look(self, version: Version) -> Verdict:
        """Say so."""
        self.asked.append(str(version))
        return evidence_verdict("a test", "smoke tests say so", against="" if self.says else "smoke tests fail")


class Nothing:
    """Registries of images that have none."""

    def digest(self, image: str) -> None:
        """Say that it is not there."""


@dataclass(slots=True)
class Road:
    """A way from one channel to another, each in a registry, with one clock."""

    target: Reference
    source: Reference = STAGING
    here: InMemoryRegistry = field(default_factory=InMemoryRegistry)
    there: InMemoryRegistry = field(default_factory=InMemoryRegistry)
    now: datetime = NOW
    requests: list[Asked] = field(default_factory=list)

    @classmethod
    def to(cls, target: Reference, **more: Any) -> Road:
        """Return a way to `target`; what is on the source's host is in the source's registry."""
        here = more.pop("here", InMemoryRegistry())
        same = target.repository.host == STAGING.repository.host  # type: ignore[union-attr]
        return cls(target, here=here, there=here if same else more.pop("there", InMemoryRegistry()), **more)

    def ports(self, registry: InMemoryRegistry, signer: str | None = "ours", trusted: str | None = "ours") -> Ports:
        """Return the world of a run at one end."""
        from ci_automation.flows.ports import Ports

        return Ports(
            registry,
            MemoryReleases(),
            KeySigner(signing_key(signer)) if signer else None,
            TrustedKeys((signing_key(trusted).public,)) if trusted else None,
            clock=lambda: self.now,
        )

    def publish(self, at: Reference, version: Version, **more: Any) -> Digest:
        """Publish a version on a channel, as a run would that renders it."""
        registry = self.here if at == self.source else self.there
        took = intent(**{"policy": everything(version), "now": self.now, "overlay": OVERLAY, **more})
        ports = self.ports(registry)
        if registry.resolve(at) is None:
            return init(at, version, ports, took).digest
        return update(at, ports, replace(took, overlay=None)).digest

    def copy(self) -> Road:
        """Return a road like this one that goes on by itself."""
        here = self.here.copy()
        there = here if self.there is self.here else self.there.copy()
        return Road(self.target, self.source, here, there, self.now)

    def promotion(self, **more: Any) -> Promotion:
        """Return the promotion from the source to the target."""
        own: dict[str, Any] = {
            name: more.pop(name) for name in ("origin", "ports", "after", "evidence") if name in more
        }
        wish = intent(now=self.now, **{"policy": everything(), **more})
        values: dict[str, Any] = {"origin": self.ports(self.here, None), "ports": self.ports(self.there)} | own
        return Promotion(source=self.source, target=self.target, intent=wish, **values)

    def promote(self, approved: tuple[Digest, ...] = (), **more: Any) -> Promoted:
        """Promote."""
        return promote(self.promotion(**more), approved)

    def records(self, digest: Digest) -> list[Record]:
        """Return the target's records of a digest."""
        found = Ledger(self.there, self.target, OURS).all_records(digest)
        return [record for record in found if record.channel == str(self.target)]

    def watch(self, what: Callable[[int], None]) -> None:
        """Let `what` hear of every request at either end, by its number, before it is done."""
        self.requests.clear()

        def before(asked: Asked) -> None:
            what(len(self.requests))
            self.requests.append(asked)

        self.here.before = self.there.before = before

    def kill(self, when: Callable[[int], bool], run: Callable[[], object]) -> None:
        """End a run before the first request of whose number `when` is true."""

        def die(number: int) -> None:
            if when(number):
                raise Killed

        self.watch(die)
        with pytest.raises(Killed):
            run()
        self.alone()

    def alone(self) -> None:
        """Let nobody interfere any more."""
        self.here.before = self.there.before = lambda _: None


def everything(version: Version | None = None) -> Policy:
    """Return the policy that takes all there is by itself, up to a version."""
    ages = dict.fromkeys(BUMPS, timedelta())
    policy = Policy(dict.fromkeys(BUMPS, Action.AUTO), min_release_age=ages, escalate=frozenset())
    return replace(policy, range=Range.parse(f"<={version}")) if version else policy


@made_once
def settled(target: Reference, *, referrers_api: bool = True, mounts: bool = True) -> Road:
    """Return a road whose two ends have the oldest release, and whose source went on to its patch a day ago."""
    road = Road.to(target)
    road.there.referrers_api, road.here.mounts = referrers_api, mounts
    road.now = NOW - 2 * DAY
    road.publish(target, OLD)
    road.publish(STAGING, OLD)
    road.now = NOW - DAY
    road.publish(STAGING, PATCH)
    road.now = NOW
    road.here.requests.clear()
    road.there.requests.clear()
    return road


PLACES = [
    pytest.param((ELSEWHERE, {}), id="another registry"),
    pytest.param((ELSEWHERE, {"referrers_api": False}), id="another registry, fallback tags"),
    pytest.param((BESIDE, {}), id="another repository"),
    pytest.param((BESIDE, {"mounts": False}), id="another repository, no mounts"),
    pytest.param((SAME, {}), id="the same repository"),
]


@pytest.fixture(params=PLACES)
def road(request: pytest.FixtureRequest) -> Road:
    target, more = request.param
    return settled(target, **more)


def channel(road: Road, at: Reference) -> Digest:
    digest = (road.here if at == road.source else road.there).resolve(at)
    assert digest is not None
    return digest


class TestTheWay:
    """What a promotion brings along, and what it leaves as it is."""

    def test_the_digest_is_the_same_and_signed_for_the_target_with_a_record_that_says_where_from(
        self, road: Road
    ) -> None:
        before, wanted = channel(road, road.target), channel(road, STAGING)
        done = road.promote()
        assert done.done
        assert channel(road, road.target) == wanted != before
        assert verify(road.there, road.target, wanted, OURS).digest == wanted
        assert road.there.manifest(road.target).raw == road.here.manifest(STAGING).raw
        (record,) = road.records(wanted)
        assert (record.previous, record.promoted_from) == (before, str(STAGING))
        assert (record.version, record.at, record.approval, record.recovered) == (PATCH, NOW, None, False)
        assert road.there.resolve(road.target.at_tag(record.tag)) == wanted

    def test_a_second_run_finds_nothing_to_do_and_writes_nothing(self, road: Road) -> None:
        road.promote()
        road.there.requests.clear()
        again = road.promote()
        assert (again.done, again.waits, again.considered.gates) == (False, False, ())
        assert not [asked for asked in road.there.requests if asked.method.startswith("put")]

    def test_referrers_of_both_sides_are_there_afterwards(self, road: Road) -> None:
        wanted = channel(road, STAGING)
        theirs = attach(road.here, STAGING, wanted, b"theirs")
        if road.target.repository != STAGING.repository:
            put_whole(road, wanted)
        own = attach(road.there, road.target, wanted, b"own")
        road.promote()
        listed = {each.digest for each in road.there.referrers(road.target, wanted)}
        assert {theirs, own} <= listed
        at_source = {each.digest for each in road.here.referrers(STAGING, wanted)}
        assert {theirs} <= at_source <= listed  # the records of the source too

    def test_a_referrer_without_end_keeps_the_target_where_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        road = settled(ELSEWHERE)
        before, wanted = channel(road, ELSEWHERE), channel(road, STAGING)
        attach(road.here, STAGING, wanted, bytes(3 << 20))
        monkeypatch.setattr("ci_automation.flows.publication.copy._MAX_BYTES", 2 << 20)
        with pytest.raises(TooLargeToCopy, match="parts of 3 MiB together; a run copies at most 2 MiB"):
            road.promote()
        assert channel(road, ELSEWHERE) == before

    def test_signatures_of_both_sides_are_there_afterwards(self, road: Road) -> None:
        wanted = channel(road, STAGING)
        if road.target.repository != STAGING.repository:
            put_whole(road, wanted)
            annotations = KeySigner(signing_key("theirs")).sign_payload(legacy.payload(road.target, wanted))
            legacy.add(road.there, road.target, wanted, annotations)
        road.promote()
        both = {layer.digest for layer in legacy.signatures(road.here, STAGING, wanted)}
        assert both <= {layer.digest for layer in legacy.signatures(road.there, road.target, wanted)}
        assert len(legacy.signatures(road.there, road.target, wanted)) == (1 if road.target == SAME else 2)

    def test_nothing_is_rendered(self, road: Road) -> None:
        promotion = road.promotion()
        releases = promotion.ports.releases
        assert isinstance(releases, MemoryReleases)
        assert promote(promotion).done
        assert releases.fetched == []

    def test_the_next_scheduled_run_believes_the_channel(self, road: Road) -> None:
        road.promote()
        ports = road.ports(road.there)
        assert update(road.target, ports, intent(now=NOW, policy=Policy(dict.fromkeys(BUMPS, Action.NEVER)))).done == 0


def test_within_one_registry_blobs_are_mounted() -> None:
    road = settled(BESIDE)
    road.promote()
    methods = [asked.method for asked in road.there.requests]
    assert methods.count("mount_blob") > 3
    put = methods[methods.index("mount_blob") : methods.index("blob", methods.index("mount_blob"))]
    assert set(put) <= {"mount_blob", "put_manifest", "put_referrer", "manifest", "referrers"}


def attach(registry: InMemoryRegistry, at: Reference, digest: Digest, text: bytes) -> Digest:
    """Attach a note to a digest."""
    subject = registry.manifest(at.at_digest(digest))
    registry.put_blob(at, text)
    registry.put_blob(at, CONFIG_BLOB)
    note = Manifest.build(
        Descriptor.of(FLUX_CONFIG, CONFIG_BLOB),
        (Descriptor.of("text/plain", text),),
        artifact_type="application/vnd.example.note",
        subject=Descriptor.of(subject.media_type, subject.raw),
    )
    return registry.put_referrer(at, note)


def put_whole(road: Road, digest: Digest) -> None:
    """Have the artifact in the target's repository, with nothing that speaks for it."""
    manifest = road.here.manifest(STAGING.at_digest(digest))
    for blob in (manifest.config, *manifest.layers):
        road.there.put_blob(road.target, road.here.blob(STAGING, blob))
    road.there.put_manifest(road.target.at_digest(digest), manifest)


class TestInterruption:
    """Wherever a run ends, clusters see what is signed, and the next run ends as if nothing had been."""

    @pytest.fixture(autouse=True)
    def fast(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let nobody compare contents again and again, which asks no registry."""
        monkeypatch.setattr("ci_automation.flows.planning.findings.impact_of", lambda *_: Impact())

    def test_a_kill_before_any_request_converges(self, road: Road) -> None:
        wanted, before = channel(road, STAGING), channel(road, road.target)
        begun = road.copy()
        road.watch(lambda _: None)
        road.promote()
        road.alone()
        total, expected = len(road.requests), tags(road)
        for at in range(total):
            road = begun.copy()
            road.kill(partial(eq, at), road.promote)
            now = channel(road, road.target)
            assert now in {before, wanted}, at
            verify(road.there, road.target, now, OURS)
            moved = road.promote().done
            assert moved == (now == before), at
            assert tags(road) == expected, at
            (record,) = road.records(wanted)
            assert not (moved and record.recovered), at
            count = len(legacy.signatures(road.there, road.target, wanted))
            assert count == 1
            road.there.requests.clear()
            assert not road.promote().done
            assert not [asked for asked in road.there.requests if asked.method.startswith("put")]

    def test_a_rollback_that_was_killed_is_finished_so_that_nobody_moves_the_channel_up_again(self) -> None:
        begun = settled(ELSEWHERE)
        before, refused = channel(begun, ELSEWHERE), channel(begun, STAGING)
        begun.promote()
        whole = begun.copy()
        whole.watch(lambda _: None)
        go_back(whole)
        asked = whole.requests
        the_move = asked.index(Asked("put_manifest", str(ELSEWHERE)))
        for at in range(the_move + 1, len(asked)):
            road = begun.copy()
            road.kill(partial(eq, at), partial(go_back, road))
            assert channel(road, ELSEWHERE) == before
            assert road.promote(ports=road.ports(road.there, None)).waits, at  # who only reads has no key
            assert road.promote().waits, at
            assert [record.rolled_back for record in road.records(before)] == [False, True], at
            road.there.put_manifest(ELSEWHERE, road.there.manifest(ELSEWHERE.at_digest(refused)))
            with pytest.raises(ChannelMovedBack, match="rolled back"):
                road.promote()

    def test_what_one_held_that_was_killed_waits_whoever_moved_the_target_there_meanwhile(self) -> None:
        road = settled(ELSEWHERE)
        road.promote()
        road.kill(lambda _: Asked("put_manifest", str(ELSEWHERE)) in road.requests, partial(go_back, road))
        ports, wish = road.ports(road.here), intent(overlay=Tree(OVERLAY.files[:2]), policy=everything(PATCH))
        rebuilt = make_plan(STAGING, ports, wish).plan
        apply(rebuilt, (rebuilt.steps[0].target,), ports, wish)
        other = channel(road, STAGING)
        assert is_held(road.copy().promote().considered.gates)
        copy(road.here, STAGING, road.there, ELSEWHERE, other)
        with pytest.raises(PublishedElsewhere):
            road.promote((other,))
        assert not road.records(other)

    def test_what_one_brought_that_was_killed_does_not_come_again_once_a_person_went_back(self) -> None:
        road = settled(SAME)
        road.there.put_manifest(SAME, road.there.manifest(STAGING))  # and its process ends
        go_back(road)
        assert is_held(road.promote().considered.gates)

    def test_a_first_one_that_was_killed_is_finished_by_the_command_of_its_error(self) -> None:
        road = Road.to(SAME)
        first = road.publish(STAGING, OLD)
        road.kill(lambda _: Asked("put_manifest", str(SAME)) in road.requests, partial(road.promote, (first,)))
        with pytest.raises(PublishedElsewhere) as caught:
            road.promote()
        assert f"`promote --from {STAGING} --to {SAME} --approve {first}` finishes it" in caught.value.hint
        assert "`promote` finishes" not in caught.value.hint
        road.promote((first,))
        assert [record.recovered for record in road.records(first)] == [True]

    def test_one_that_was_killed_and_has_to_wait_by_now_says_why(self) -> None:
        road = settled(SAME)
        road.kill(lambda _: Asked("put_manifest", str(SAME)) in road.requests, road.promote)
        with pytest.raises(PublishedElsewhere) as caught:
            road.promote(paused=True)
        assert "An interrupted promotion is not finished now: the artifact is paused" in caught.value.hint

    def test_of_two_at_once_one_wins_and_the_other_finds_it_done(self, road: Road) -> None:
        if not road.there.referrers_api:
            pytest.skip("the registry in memory lets nobody in while it merges")
        wanted = channel(road, STAGING)
        begun = road.copy()
        road.watch(lambda _: None)
        road.promote()
        road.alone()
        total, expected = len(road.requests), tags(road)
        for at in range(total):
            road = begun.copy()

            def meanwhile(number: int, at: int = at, road: Road = road) -> None:
                if number == at:
                    road.alone()
                    road.promote()

            road.watch(meanwhile)
            with contextlib.suppress(Conflict):
                road.promote()
            road.alone()
            assert tags(road) == expected, at
            assert channel(road, road.target) == wanted

    def test_what_says_that_it_is_attached_to_something_else_stays_at_the_source(self) -> None:
        road = settled(ELSEWHERE)
        live, wanted = road.there.manifest(ELSEWHERE), road.here.manifest(STAGING)
        subject = Descriptor.of(live.media_type, live.raw)
        attached = Manifest.build(wanted.config, wanted.layers, wanted.annotations, subject=subject)
        road.here.put_manifest(STAGING, attached)
        update(STAGING, replace(road.ports(road.here), confirm=lambda _: True), intent(now=NOW, adopt=True))
        with pytest.raises(RefersElsewhere, match=f"is attached to {live.digest}"):
            road.promote((attached.digest,), after=timedelta())
        assert road.there.manifest(ELSEWHERE) == live
        assert attached.digest not in {it.digest for it in road.there.referrers(ELSEWHERE, live.digest)}

    @pytest.mark.parametrize("back", [False, True], ids=["adopted", "rolled back to"])
    def test_what_a_person_adopted_at_the_source_needs_approval_at_the_target(self, road: Road, *, back: bool) -> None:
        """No run rendered it, and the person saw it for the source alone."""
        ports, rendered = road.ports(road.here), road.here.manifest(STAGING)
        adopted = Manifest.build(rendered.config, rendered.layers, {"another": "tool"})
        road.here.put_manifest(STAGING, adopted)
        update(STAGING, replace(ports, confirm=lambda _: True), intent(now=NOW, adopt=True))
        if back:
            road.publish(STAGING, MINOR)
            proposal = propose_rollback(STAGING, Wish(str(adopted.digest)), ports, intent(now=NOW))
            roll_back(proposal, ports, intent(now=NOW))
        before = channel(road, road.target)
        found = road.promote(after=timedelta())
        assert (found.done, found.considered.decision) == (False, Decision.APPROVAL)
        assert found.considered.reasons[0].startswith("no record says that a run rendered it")
        assert channel(road, road.target) == before
        assert road.promote((adopted.digest,), after=timedelta()).done

    def test_a_target_that_moved_meanwhile_is_left_alone(self) -> None:
        road = settled(ELSEWHERE)
        other = road.there.manifest(ELSEWHERE)
        moved = Manifest.build(other.config, other.layers, {**other.annotations, "planted": "yes"})

        def meanwhile(_: int) -> None:
            if road.requests and road.requests[-1].method == "put_referrer":
                road.alone()
                road.there.put_manifest(ELSEWHERE, moved)

        road.watch(meanwhile)
        with pytest.raises(ChannelMoved):
            road.promote()
        assert channel(road, ELSEWHERE) == moved.digest

    def test_what_the_source_was_rolled_back_from_meanwhile_goes_nowhere(self, road: Road) -> None:
        before, ports, wish = channel(road, road.target), road.ports(road.here), intent(now=road.now)

        def meanwhile(_: int) -> None:
            if road.requests and road.requests[-1].method.startswith("put"):
                road.alone()
                roll_back(propose_rollback(STAGING, Wish(str(OLD)), ports, wish), ports, wish)

        road.watch(meanwhile)
        with pytest.raises(ChannelMoved, match=f"{STAGING} moved"):
            road.promote()
        assert channel(road, road.target) == before

    def test_an_immutable_tag_that_is_taken_stops_it(self) -> None:
        road = settled(ELSEWHERE)
        wanted = channel(road, STAGING)
        road.there.put_manifest(ELSEWHERE.at_tag(f"{PATCH}-{wanted.short}"), road.there.manifest(ELSEWHERE))
        with pytest.raises(ImmutableTagMoved):
            road.promote()
        assert channel(road, ELSEWHERE) != wanted


def go_back(road: Road) -> None:
    """Roll the target back to the oldest release."""
    ports, wish = road.ports(road.there), intent(now=NOW)
    roll_back(propose_rollback(road.target, Wish(str(OLD)), ports, wish), ports, wish)


def tags(road: Road) -> dict[str, str]:
    found = road.there.repositories[str(road.target.repository)].tags
    return {tag: str(digest) for tag, digest in found.items() if not tag.startswith("sha256-")}


class TestTheGates:
    """What holds a promotion back, and for whom."""

    @pytest.fixture
    def road(self) -> Road:
        return settled(ELSEWHERE)

    @pytest.mark.parametrize("first", [False, True])
    def test_what_the_targets_clusters_add_and_cannot_build_is_refused(self, road: Road, *, first: bool) -> None:
        class Failing:
            def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed, ...]:
                return tuple(
                    BuildFailed("no such object") if b"typo" in it["kustomization.yaml"] else "" for it, _ in wanted
                )

        ports = replace(road.ports(InMemoryRegistry() if first else road.there), find_kustomize=Failing)
        own = {"patches": [{"patch": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: typo}}"}]}
        considered = consider(road.promotion(ports=ports, kustomization=own))
        assert considered.decision is Decision.REFUSED
        assert any("of `sync.kustomization`: no such object" in it for it in considered.reasons)

    @pytest.mark.parametrize(
        ("after", "decision"), [(DAY, Decision.AUTO), (DAY + timedelta(seconds=1), Decision.WAIT)], ids=["over", "not"]
    )
    def test_the_soak_time_counts_from_the_signed_record(
        self, road: Road, after: timedelta, decision: Decision
    ) -> None:
        done = road.promote(after=after)
        assert (done.considered.decision, done.done) == (decision, decision is Decision.AUTO)

    def test_where_a_rollback_of_the_source_was_killed_the_digest_soaks_anew_and_needs_a_new_yes(
        self, road: Road
    ) -> None:
        """A rollback that ended before its record left its hold, which tells when the source came to the digest."""
        wanted, base = channel(road, STAGING), channel(road, ELSEWHERE)
        road.publish(STAGING, MINOR)
        ports, road.now = road.ports(road.here), NOW + timedelta(hours=1)
        back = propose_rollback(STAGING, Wish(str(PATCH)), ports, intent(now=road.now))
        road.kill(
            lambda _: Asked("put_manifest", str(STAGING)) in road.requests,
            lambda: roll_back(back, ports, intent(now=road.now)),
        )
        assert channel(road, STAGING) == wanted
        road.now += timedelta(hours=1)
        (waits, *_) = road.promote(after=timedelta(hours=2)).considered.reasons
        assert waits == f"the source must have had it for 2h, until {NOW + timedelta(hours=3):%Y-%m-%d %H:%M} UTC"
        request = ApprovalRequest(ELSEWHERE, PATCH, base, wanted)
        granted = GrantedApproval(request, Approval("ada", "pull request 7", NOW + timedelta(minutes=1)))
        patches = replace(everything(), actions=dict.fromkeys(BUMPS, Action.APPROVAL))
        with pytest.raises(CameBack):
            promote_granted(road.promotion(policy=patches), granted)
        assert channel(road, ELSEWHERE) == base

    def test_what_waits_says_until_when(self, road: Road) -> None:
        done = road.promote(after=3 * DAY)
        assert done.waits
        assert "2026-11-23 12:00 UTC" in done.considered.reasons[0]
        with pytest.raises(PromotionRefused, match="has to wait"):
            done.require_done()

    def test_without_a_record_it_waits_whatever_the_time(self, road: Road) -> None:
        wanted = channel(road, STAGING)
        repository = road.here.repositories[str(STAGING.repository)]
        for referrer in road.here.referrers(STAGING, wanted):
            del repository.manifests[referrer.digest]
        done = road.promote()
        assert done.waits
        assert "no record" in done.considered.reasons[0]

    def test_records_that_others_signed_or_that_are_of_another_channel_do_not_count(self, road: Road) -> None:
        wanted = channel(road, STAGING)
        repository = road.here.repositories[str(STAGING.repository)]
        (referrer,) = road.here.referrers(STAGING, wanted)
        (record,) = Ledger(road.here, STAGING, OURS).all_records(wanted)
        del repository.manifests[referrer.digest]
        theirs = KeySigner(signing_key("theirs"))
        manifest = road.here.manifest(STAGING)
        RecordWriter(road.here, STAGING, theirs).write(manifest, replace(record, by=str(theirs.who)))
        assert road.promote().waits
        ours = KeySigner(signing_key())
        RecordWriter(road.here, STAGING, ours).write(manifest, replace(record, channel=str(BESIDE)))
        with pytest.raises(PublishedElsewhere):
            road.promote()

    def test_the_newest_record_counts(self, road: Road) -> None:
        wanted = channel(road, STAGING)
        (record,) = Ledger(road.here, STAGING, OURS).all_records(wanted)
        manifest, signer = road.here.manifest(STAGING), KeySigner(signing_key())
        RecordWriter(road.here, STAGING, signer).write(manifest, replace(record, at=NOW - timedelta(hours=1)))
        assert road.promote(after=timedelta(hours=2)).waits

    def test_evidence_that_does_not_speak_for_it_holds_it(self, road: Road) -> None:
        good, bad = Witness(), Witness(says=False)
        done = road.promote(evidence=(good, bad))
        assert done.waits
        assert done.considered.reasons == ("smoke tests fail",)
        assert good.asked == bad.asked == [str(PATCH)]
        bad.says = True
        assert road.promote(evidence=(good, bad)).done

    @pytest.mark.parametrize(
        ("wish", "gate"),
        [
            ({"paused": True}, "paused"),
            ({"policy": Policy(range=Range.parse("<2.98.8"))}, "range"),
            ({"policy": Policy({**dict.fromkeys(BUMPS, Action.NEVER)})}, "kind"),
        ],
        ids=["paused", "range", "kind"],
    )
    def test_the_policy_of_the_target_counts(self, road: Road, wish: dict[str, Any], gate: str) -> None:
        done = road.promote(**wish)
        assert done.waits
        grave = [v.gate for v in done.considered.gates if v.decision not in {Decision.AUTO, Decision.APPROVAL}]
        assert grave == [gate]

    def test_never_down(self) -> None:
        road = Road.to(ELSEWHERE)
        road.publish(STAGING, OLD)
        road.publish(ELSEWHERE, PATCH)
        done = road.promote()
        assert [v.gate for v in done.considered.gates if v.decision is Decision.REFUSED] == ["direction"]
        with pytest.raises(PromotionRefused, match="is refused"):
            done.require_done()

    def test_other_files_take_a_person(self) -> None:
        road = Road.to(ELSEWHERE)
        road.publish(STAGING, OLD, overlay=Tree((*OVERLAY.files, TreeFile("notes.txt", b"for people\n"))))
        road.publish(ELSEWHERE, OLD)
        done = road.promote()
        assert done.considered.decision is Decision.APPROVAL
        assert "the overlay changes" in " ".join(done.considered.reasons)

    def test_a_minor_takes_a_person_who_names_the_digest(self, road: Road) -> None:
        road.publish(STAGING, MINOR)
        wanted = channel(road, STAGING)
        done = road.promote(policy=Policy())
        assert done.waits
        with pytest.raises(PromotionNotApproved) as caught:
            done.require_done()
        assert caught.value.hint.endswith(f"--approve {wanted}")
        assert road.promote((wanted,), policy=Policy()).done
        (record,) = road.records(wanted)
        assert record.approval is not None
        assert (record.approval.by, record.approval.how) == ("the signer, at a command line", "--approve")

    def test_a_yes_lifts_no_hold(self, road: Road) -> None:
        wanted = channel(road, STAGING)
        assert road.promote((wanted,), after=9 * DAY).waits
        assert channel(road, ELSEWHERE) != wanted

    def test_a_yes_to_another_digest_is_told(self, road: Road) -> None:
        with pytest.raises(OtherDigest):
            road.promote((channel(road, ELSEWHERE),))

    def test_a_channel_that_is_not_there_yet_takes_a_person(self) -> None:
        road = Road.to(ELSEWHERE)
        wanted = road.publish(STAGING, OLD)
        assert road.promote().considered.decision is Decision.APPROVAL
        assert road.there.resolve(ELSEWHERE) is None
        assert road.promote((wanted,)).done
        assert channel(road, ELSEWHERE) == wanted
        (record,) = road.records(wanted)
        assert record.previous is None

    def test_of_the_first_digest_a_person_sees_what_is_in_it_and_where_it_comes_from(self) -> None:
        road = Road.to(ELSEWHERE)
        wanted = road.publish(STAGING, OLD, overlay=Tree((TreeFile("b.yaml", b"{}"),)), flags={"log-level": "debug"})
        found = road.promote().considered.first
        (moved,) = Ledger(road.here, STAGING, OURS).records(wanted)
        assert found is not None
        assert found.options == ("--log-level=debug",)
        assert [file.path for file in found.overlay.files] == ["b.yaml"]
        assert (found.signer, found.since) == (f"the key {moved.by}", moved.at)
        road.promote((wanted,))
        assert road.promote().considered.first is None
        road.publish(STAGING, PATCH)
        assert road.promote().considered.first is None

    def test_of_the_first_digest_everything_is_judged_that_needs_nothing_before_it(self) -> None:
        road = Road.to(ELSEWHERE)
        listed = b"namePrefix: own-\nresources: [flux-system/gotk-components.yaml]\n"
        kustomization = TreeFile("kustomization.yaml", listed)
        mirror = {"registry": "mirror.example/fluxcd"}
        wanted = road.publish(STAGING, OLD, overlay=Tree((kustomization,)), flags=mirror)
        ports = replace(road.ports(road.there), images=Nothing())
        clusters = Clusters(kubernetes=KubernetesRange.parse("1.30"))
        considered = road.promote((wanted,), ports=ports, clusters=clusters).considered
        found = considered.findings
        assert {hazard.gate for hazard in found.hazards} == {"overlay", "compatibility", "images"}
        assert considered.decision is Decision.REFUSED
        assert road.there.resolve(ELSEWHERE) is None
        assert (found.changes, found.pruned, found.nothing_before) == ((), (), True)
        assert not {"removal", "options", "files", "edits"} & {verdict.gate for verdict in found.gates}

    def test_of_the_first_digest_a_person_sees_what_clusters_get_in_place_of_flux_alone(self) -> None:
        road = Road.to(ELSEWHERE)
        listed = TreeFile("kustomization.yaml", b"resources: [flux-system/gotk-components.yaml, own.yaml]\n")
        own = TreeFile("own.yaml", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own, namespace: flux-system}\n")
        road.publish(STAGING, OLD, overlay=Tree((listed, own)))
        considered = road.promote().considered
        (change,) = considered.findings.changes
        assert (str(change.object), considered.decision) == ("ConfigMap flux-system/own", Decision.APPROVAL)

    def test_a_first_digest_without_flux_is_refused_however_it_came_to_the_source(self) -> None:
        road = Road.to(ELSEWHERE)
        unlisted = Tree((TreeFile("kustomization.yaml", b"resources: []\n"),))
        accepted = Policy(acknowledge=(Acknowledgement(UNLISTED, NOW + timedelta(days=1), "a laboratory"),))
        wanted = road.publish(STAGING, OLD, overlay=unlisted, policy=accepted)
        considered = road.promote((wanted,)).considered
        assert considered.decision is Decision.REFUSED
        assert "delete Flux if they prune" in considered.reasons[0]
        assert road.there.resolve(ELSEWHERE) is None

    def test_of_the_first_digest_each_gate_says_that_it_looked(self) -> None:
        road = Road.to(ELSEWHERE)
        road.publish(STAGING, OLD)
        gates = {verdict.gate: verdict.decision for verdict in road.promote().considered.gates}
        assert {gates[name] for name in ("crds", "overlay", "compatibility", "images")} == {Decision.AUTO}

    def test_what_the_target_was_rolled_back_from_waits_until_something_newer_is_there(self, road: Road) -> None:
        held, manifest, signer = channel(road, STAGING), road.there.manifest(ELSEWHERE), KeySigner(signing_key())
        hold = Hold(PATCH, held, NOW - timedelta(hours=1), reason="webhooks time out")
        RecordWriter(road.ports(road.there).registry, ELSEWHERE, signer).keep(manifest, (hold,))
        done = road.promote()
        assert [v.gate for v in done.considered.gates if v.decision is Decision.WAIT] == ["hold"]
        assert "webhooks time out" in done.considered.reasons[0]
        assert road.promote((held,)).waits
        wanted = road.publish(STAGING, MINOR)
        assert road.promote(allow_removal=True).done
        assert channel(road, ELSEWHERE) == wanted

    @pytest.mark.parametrize("held", [True, False], ids=["held", "not held"])
    def test_a_channel_that_was_deleted_begins_with_nothing_held_and_nothing_older(
        self, road: Road, *, held: bool
    ) -> None:
        """Whoever deletes a tag ends no hold, and leads no cluster down."""
        wanted = channel(road, STAGING)
        assert road.promote().done
        if held:
            go_back(road)
        else:
            road.here = InMemoryRegistry()
            wanted = road.publish(STAGING, OLD)
        del road.there.repositories[str(ELSEWHERE.repository)].tags[str(ELSEWHERE.tag)]
        done = road.promote((wanted,))
        assert road.there.resolve(ELSEWHERE) is None
        word = ("hold", Decision.WAIT) if held else ("direction", Decision.REFUSED)
        assert word in {(verdict.gate, verdict.decision) for verdict in done.considered.gates}
        assert f"was deleted, and had {OLD if held else PATCH} last" in " ".join(done.considered.reasons)
        wanted = road.publish(STAGING, MINOR)
        done = road.promote((wanted,), allow_removal=True)
        assert (done.done, done.considered.decision) == (True, Decision.APPROVAL)


class TestTrust:
    """Who has to have signed what."""

    @pytest.fixture
    def road(self) -> Road:
        return settled(ELSEWHERE)

    def test_what_the_targets_clusters_do_not_trust_is_refused_with_what_to_do(self, road: Road) -> None:
        road.there = InMemoryRegistry()
        ports = road.ports(road.there, "theirs", "theirs")
        with pytest.raises(SignedForOthers, match="would refuse it") as caught:
            road.promote(ports=ports)
        assert "accept both" in caught.value.hint
        assert caught.value.exit_code == 10
        assert not road.there.repositories[str(ELSEWHERE.repository)].manifests

    def test_the_source_must_be_signed_by_whom_it_trusts(self, road: Road) -> None:
        del road.here.repositories[str(STAGING.repository)].tags[f"sha256-{channel(road, STAGING).hex}.sig"]
        with pytest.raises(Unsigned, match=f"^{STAGING}@sha256:") as caught:
            road.promote()
        assert caught.value.hint.startswith(
            f"{ELSEWHERE} is promoted from {STAGING}: mend that first. If it is yours, adopt it with "
            f"`update {STAGING} --adopt`, "
        )

    def test_the_target_is_left_alone_where_what_it_has_is_not_trusted(self, road: Road) -> None:
        del road.there.repositories[str(ELSEWHERE.repository)].tags[f"sha256-{channel(road, ELSEWHERE).hex}.sig"]
        with pytest.raises(Unsigned, match=f"^{ELSEWHERE}@sha256:") as caught:
            road.promote()
        assert caught.value.hint.startswith(
            f"This is what the target, {ELSEWHERE}, has now. If it is yours, adopt it with "
            f"`update {ELSEWHERE} --adopt`, "
        )

    @pytest.mark.parametrize("side", ["origin", "ports"])
    def test_nobody_to_trust_is_no_pass(self, road: Road, side: str) -> None:
        registry = road.here if side == "origin" else road.there
        blind: dict[str, Any] = {side: road.ports(registry, trusted=None)}
        with pytest.raises(NobodyTrusted):
            road.promote(**blind)

    def test_somebody_must_sign_the_record(self, road: Road) -> None:
        with pytest.raises(NoSigner):
            road.promote(ports=road.ports(road.there, None))

    def test_a_record_that_nobody_would_believe_is_not_made(self, road: Road) -> None:
        with pytest.raises(RecordNotBelieved):
            road.promote(ports=road.ports(road.there, "theirs"))
        assert channel(road, ELSEWHERE) != channel(road, STAGING)

    def test_a_source_that_was_moved_back_is_not_promoted(self, road: Road) -> None:
        first = next(r.previous for r in Ledger(road.here, STAGING, OURS).all_records(channel(road, STAGING)))
        assert first is not None
        road.publish(ELSEWHERE, PATCH)
        road.here.put_manifest(STAGING, road.here.manifest(STAGING.at_digest(first)))
        with pytest.raises(ChannelMovedBack):
            road.promote()

    def test_a_bundle_that_hides_the_signature_at_the_target_keeps_the_channel_where_it_is(self, road: Road) -> None:
        wanted = channel(road, STAGING)
        put_whole(road, wanted)
        from ci_automation.signing import bundle

        raw = KeySigner(signing_key("theirs")).sign_statement(bundle.statement(wanted))
        bundle.attach_bundle(road.there, ELSEWHERE, wanted, raw, bundle.SIGNATURE_PREDICATE)
        with pytest.raises(ClusterWouldRefuse):
            road.promote()
        assert channel(road, ELSEWHERE) != wanted

    def test_a_signature_that_is_at_the_target_stays_before_what_the_source_states_of_its_payload(self) -> None:
        """Clusters take the first size that a `.sig` states of a payload."""
        road = settled(BESIDE)
        wanted = channel(road, STAGING)
        put_whole(road, wanted)
        at, there = (legacy.signature_reference(it, wanted) for it in (STAGING, BESIDE))
        signatures = road.here.manifest(at)
        road.there.put_blob(BESIDE, road.here.blob(STAGING, signatures.layers[0]))
        road.there.put_manifest(there, signatures)
        wrong = replace(signatures.layers[0], size=1)
        road.here.put_manifest(at, Manifest.build(signatures.config, (wrong, *signatures.layers)))
        with pytest.raises(ForeignSignature):
            road.promote()
        copy(road.here, STAGING, road.there, BESIDE.at_digest(wanted), wanted)
        assert verify(road.there, BESIDE, wanted, OURS).digest == wanted

    def test_a_source_that_is_not_there_is_told(self) -> None:
        with pytest.raises(SourceEmpty, match=f"{STAGING} has nothing yet"):
            Road.to(ELSEWHERE).promote()

    def test_a_source_whose_files_are_lost_is_another_thing(self, road: Road) -> None:
        layer = road.here.manifest(STAGING).layers[0]
        del road.here.repositories[str(STAGING.repository)].blobs[layer.digest]
        with pytest.raises(NotFound):
            road.promote()

    def test_a_record_that_cannot_be_signed_leaves_the_channel_where_it_is(
        self, road: Road, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from ci_automation.errors import SigningError

        def broken(*_: object) -> bytes:
            raise SigningError("the KMS is away")

        with monkeypatch.context() as patch:
            patch.setattr(KeySigner, "sign_statement", broken)
            with pytest.raises(SigningError, match="the KMS is away"):
                road.promote()
        wanted = channel(road, STAGING)
        assert channel(road, ELSEWHERE) != wanted
        assert road.promote().done
        assert [record.recovered for record in road.records(wanted)] == [False]
