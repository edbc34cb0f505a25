"""What is signed again, what is adopted, and what whoever can write to the registry does not get."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, OCI_INDEX, Descriptor, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.flows.apply import apply
from ci_automation.flows.history import history
from ci_automation.flows.init import init
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.publication.adoption import NotAdopted
from ci_automation.flows.publication.placement import ChannelMovedBack
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import NotOurs, heal, update
from ci_automation.flows.verify import ClusterRefuses, NotRederived, rederive, verify_channel
from ci_automation.flux.artifact import Composed, compose
from ci_automation.flux.options import Options
from ci_automation.policy.model import SignatureFormat
from ci_automation.records.ledger import Ledger
from ci_automation.records.notes import Record
from ci_automation.records.writer import RecordWriter
from ci_automation.registry.port import AccessDenied, NotFound
from ci_automation.signing import bundle, legacy
from ci_automation.signing.cluster import ClusterWouldRefuse
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import ForeignSignature, ensure_signed
from tests.contract.planting import EVERY, at, forget_records, forget_signature, made, plant, signatures
from tests.fakes.world import CHANNEL, MINOR, NOW, OLD, OVERLAY, PATCH, World, intent, made_once, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports
    from ci_automation.report.adoption import Adoption
    from tests.fakes.registry import InMemoryRegistry

OURS = TrustedKeys((signing_key().public,))


@pytest.fixture
@made_once
def world() -> World:
    """Return a channel that went from the oldest release to its patch, with a record of each."""
    made = World()
    init(CHANNEL, OLD, made.ports(), intent(overlay=OVERLAY))
    assert update(CHANNEL, made.ports(), intent(now=NOW + timedelta(hours=1))).done == 1
    made.registry.requests.clear()
    return made


def test_a_signature_whose_payload_is_gone_is_noticed_though_it_is_known(world: World) -> None:
    """No cluster can check it."""
    payload = legacy.payload(CHANNEL, at(world))
    del world.registry.repositories[str(CHANNEL.repository)].blobs[Digest.of(payload)]
    problem = verify_channel(CHANNEL, world.ports(), intent()).problem
    assert "its payload is not there" in str(problem)


class TestHealing:
    def test_a_channel_that_lost_its_signature_is_signed_again_without_a_push(self, world: World) -> None:
        digest = at(world)
        forget_signature(world, digest)
        outcome = update(CHANNEL, world.ports(), intent())
        assert (outcome.healed, outcome.done, at(world)) == (True, 0, digest)
        assert verify_channel(CHANNEL, world.ports(), intent()).problem is None
        assert not update(CHANNEL, world.ports(), intent()).healed

    def test_so_does_check_when_told_and_plan_writes_nothing(self, world: World) -> None:
        forget_signature(world, at(world))
        before = world.contents()
        with pytest.raises(Exception, match="is not signed"):
            make_plan(CHANNEL, world.ports(), intent())
        assert world.contents() == before
        assert heal(CHANNEL, world.ports(), intent()).healed
        assert verify_channel(CHANNEL, world.ports(), intent()).problem is None

    @pytest.mark.parametrize("paused", [False, True])
    def test_without_its_record_it_is_not_ours_whatever_the_policy_says(self, world: World, *, paused: bool) -> None:
        digest = at(world)
        forget_signature(world, digest)
        forget_records(world, digest)
        before = signatures(world)
        with pytest.raises(NotOurs, match=str(digest)):
            update(CHANNEL, world.ports(), intent(paused=paused))
        assert signatures(world) == before

    def test_what_was_rolled_back_is_not_signed_again(self, world: World) -> None:
        newest = world.registry.manifest(CHANNEL)
        back = propose_rollback(CHANNEL, Wish(str(OLD)), world.ports(), intent())
        roll_back(back, world.ports(), intent())
        forget_records(world, at(world))
        world.registry.put_manifest(CHANNEL, newest)
        forget_signature(world, newest.digest)
        before = signatures(world)
        with pytest.raises(NotOurs):
            update(CHANNEL, world.ports(), intent())
        assert signatures(world) == before

    def test_a_missing_optional_format_is_no_fault(self, world: World) -> None:
        outcome = update(CHANNEL, world.ports(), intent(signature_format=SignatureFormat.BOTH))
        assert (outcome.healed, outcome.done) == (False, 0)

    def test_a_bundle_alone_heals_in_its_own_format(self, world: World) -> None:
        forget_signature(world, at(world))
        update(CHANNEL, world.ports(), intent(signature_format=SignatureFormat.BUNDLE))
        assert any(
            row.judgement.accepted
            for row in verify_channel(CHANNEL, world.ports(), intent()).clusters
            if row.flux == "2.9"
        )


PLANTED: dict[str, Callable[[], Composed]] = {
    "an overlay": lambda: made(PATCH, Tree((*OVERLAY.files, TreeFile("evil.yaml", b"kind: ClusterRoleBinding")))),
    "an old release": lambda: made(OLD),
    "a minor that nobody approved": lambda: made(MINOR),
    "images from elsewhere": lambda: made(PATCH, options=Options().with_flags({"registry": "evil.example/fluxcd"})),
    "no network policy": lambda: made(PATCH, options=Options().with_flags({"network-policy": False})),
}


class TestWhoCanWriteToTheRegistry:
    @pytest.mark.parametrize("what", PLANTED.values(), ids=list(PLANTED))
    def test_gets_nothing_signed(self, world: World, what: Callable[[], Composed]) -> None:
        planted = plant(world, what())
        forget_records(world, planted)
        if world.registry.resolve(CHANNEL.at_tag(f"sha256-{planted.hex}.sig")):
            forget_signature(world, planted)
        before = signatures(world)
        with pytest.raises(NotOurs):
            update(CHANNEL, world.ports(), intent())
        assert (signatures(world), at(world)) == (before, planted)

    def test_gets_nothing_signed_over_a_signature_of_somebody_else(self, world: World) -> None:
        digest = at(world)
        forget_signature(world, digest)
        theirs = KeySigner(signing_key("theirs"))
        ensure_signed(world.registry, CHANNEL, digest, theirs, SignatureFormat.LEGACY)
        before = signatures(world)
        with pytest.raises(ForeignSignature):
            update(CHANNEL, world.ports(), intent())
        assert signatures(world) == before

    def test_gets_no_downgrade_by_an_old_digest_that_is_signed(self, world: World) -> None:
        entry = next(entry for entry in history(CHANNEL, world.ports()).entries if entry.version == OLD)
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(entry.digest)))
        before = signatures(world)
        with pytest.raises(ChannelMovedBack, match=str(PATCH)):
            update(CHANNEL, world.ports(), intent())
        with pytest.raises(ChannelMovedBack):
            make_plan(CHANNEL, world.ports(), intent())
        assert signatures(world) == before

    def test_gets_no_plan_of_then_applied(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        old, plan = world.registry.manifest(CHANNEL), make_plan(CHANNEL, world.ports(), intent()).plan
        last = apply(plan, {step.target for step in plan.steps}, world.ports(), intent()).plan.steps[-1]
        world.registry.put_manifest(CHANNEL, old)
        with pytest.raises(ChannelMovedBack, match=str(last.target)):
            apply(plan, {step.target for step in plan.steps}, world.ports(), intent())
        assert at(world) == old.digest

    def test_gets_no_old_digest_signed_again(self, world: World) -> None:
        entry = next(entry for entry in history(CHANNEL, world.ports()).entries if entry.version == OLD)
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(entry.digest)))
        forget_signature(world, entry.digest)
        before = signatures(world)
        with pytest.raises(NotOurs):
            update(CHANNEL, world.ports(), intent())
        assert signatures(world) == before

    def test_gets_no_overlay_back_that_a_person_has_replaced(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        other = intent(overlay=Tree(OVERLAY.files[:1]), policy=EVERY)
        plan = make_plan(CHANNEL, world.ports(), other).plan
        apply(plan, {plan.steps[-1].target}, world.ports(), other)
        planted = plant(world, made(PATCH))  # what the policy would have made of the overlay that was replaced
        before = signatures(world)
        with pytest.raises(NotOurs):
            update(CHANNEL, world.ports(), intent())
        assert (signatures(world), at(world)) == (before, planted)

    def test_gets_nothing_built_on_an_old_artifact_of_another_tool_that_is_signed(self) -> None:
        world = World()
        composed = made(OLD)
        plain = {key: text for key, text in composed.manifest.annotations.items() if key.startswith("org.")}
        manifest = Manifest.build(composed.manifest.config, composed.manifest.layers, plain)
        old = plant(world, replace(composed, manifest=manifest))
        signer = KeySigner(signing_key())
        ensure_signed(world.registry, CHANNEL, old, signer, SignatureFormat.LEGACY)
        assert update(CHANNEL, world.ports(), intent()).done == 1
        world.registry.put_manifest(CHANNEL, manifest)
        before = signatures(world)
        with pytest.raises(ChannelMovedBack):
            update(CHANNEL, world.ports(), intent())
        assert signatures(world) == before

    def test_gets_no_record_for_an_old_digest(self, world: World) -> None:
        entry = next(entry for entry in history(CHANNEL, world.ports()).entries if entry.version == OLD)
        forget_records(world, entry.digest)
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(entry.digest)))
        with pytest.raises(ChannelMovedBack):
            update(CHANNEL, world.ports(), intent(paused=True))

    def test_is_not_believed_by_a_record_of_its_own(self, world: World) -> None:
        digest = at(world)
        forget_signature(world, digest)
        theirs = world.ports("theirs", "theirs")
        aside = World(registry=world.registry)
        planted = plant(aside, made(MINOR))
        recorded = Ledger(world.registry, CHANNEL, OURS).all_records(digest)[0]
        manifest = world.registry.manifest(CHANNEL.at_digest(planted))
        assert theirs.signer is not None
        forged = replace(recorded, digest=planted, version=MINOR, by=str(theirs.signer.who))
        RecordWriter(world.registry, CHANNEL, theirs.signer).write(manifest, forged)
        # And one that is ours, of another digest, moved over.
        ours = next(it for it in world.registry.referrers(CHANNEL, digest) if it.artifact_type == Record.media_type)
        stolen = world.registry.manifest(CHANNEL.at_digest(ours.digest))
        copied = Manifest.build(
            stolen.config,
            stolen.layers,
            artifact_type=Record.media_type,
            subject=Descriptor.of(manifest.media_type, manifest.raw),
        )
        world.registry.put_referrer(CHANNEL, copied)
        assert Ledger(world.registry, CHANNEL, OURS).all_records(planted) == ()
        with pytest.raises(NotOurs):
            update(CHANNEL, world.ports(), intent())

    def test_cannot_pretend_a_version_by_an_annotation(self, world: World) -> None:
        present = world.registry.manifest(CHANNEL)
        lie = {**present.annotations, "io.github.flux-manifests.version": "v2.99.9"}
        world.registry.put_manifest(
            CHANNEL, Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), present.layers, lie)
        )
        with pytest.raises(NotOurs):
            update(CHANNEL, world.ports(), intent())
        assert present.layers[0].media_type == FLUX_LAYER

    def test_cannot_hide_our_signature_from_clusters_unnoticed(self, world: World) -> None:
        target = make_plan(CHANNEL, world.ports(), intent()).plan.steps[0].target
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        composed = made(MINOR)
        assert composed.digest == target
        world.registry.put_blob(CHANNEL, composed.recipe.layer)
        world.registry.put_manifest(CHANNEL.at_digest(target), composed.manifest)
        theirs = KeySigner(signing_key("theirs"))
        raw = theirs.sign_statement(bundle.statement(target))
        bundle.attach_bundle(world.registry, CHANNEL, target, raw, bundle.SIGNATURE_PREDICATE)
        before = at(world)
        with pytest.raises(ClusterWouldRefuse, match="hides"):
            apply(plan, {target}, world.ports(), intent())
        assert at(world) == before

    def test_cannot_push_our_bundle_off_the_page_that_clusters_read(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, theirs, plan = (
            at(world),
            KeySigner(signing_key("theirs")),
            make_plan(CHANNEL, world.ports(), intent()).plan,
        )
        ensure_signed(world.registry, CHANNEL, before, KeySigner(signing_key()), SignatureFormat.BOTH)
        raw = theirs.sign_statement(bundle.statement(before))
        first = bundle.attach_bundle(world.registry, CHANNEL, before, raw, bundle.SIGNATURE_PREDICATE)
        assert verify_channel(CHANNEL, world.ports(), intent()).problem is None
        whole = type(world.registry).referrers

        def on_pages(registry: InMemoryRegistry, reference: Reference, digest: Digest) -> tuple[Descriptor, ...]:
            return tuple(replace(it, later_page=it.digest != first) for it in whole(registry, reference, digest))

        monkeypatch.setattr(type(world.registry), "referrers", on_pages)
        problem = verify_channel(CHANNEL, world.ports(), intent()).problem
        assert isinstance(problem, ClusterRefuses)
        assert "reads the first page" in str(problem)
        with pytest.raises(ClusterWouldRefuse, match="reads the first page"):
            apply(plan, {plan.steps[0].target}, world.ports(), intent(signature_format=SignatureFormat.BUNDLE))
        assert at(world) == before


class TestRederivation:
    def test_of_what_states_another_origin_than_its_own_fails(self, world: World) -> None:
        forged = replace(made(PATCH).recipe, commit="f" * 40)
        planted = plant(world, compose(forged))
        derived = rederive(CHANNEL, world.ports(), intent())
        with pytest.raises(NotRederived, match=rf"is {planted}, and rebuilding it from its inputs gives sha256:"):
            derived.check(CHANNEL)


class TestAdoption:
    @staticmethod
    def other(world: World) -> Digest:
        return plant(world, made(PATCH, Tree((*OVERLAY.files[1:], TreeFile("new.yaml", b"a: 1\n")))))

    @staticmethod
    def shown(world: World) -> Adoption:
        """Return what a person is shown who then says no."""
        asked: list[Adoption] = []

        def ask(adoption: Adoption) -> bool:
            asked.append(adoption)
            return False

        with pytest.raises(NotAdopted):
            update(CHANNEL, replace(world.ports(), confirm=ask), intent(adopt=True))
        (adoption,) = asked
        return adoption

    def test_shows_every_file_and_asks(self, world: World) -> None:
        signed = at(world)
        planted = self.other(world)
        adoption = self.shown(world)
        assert (adoption.digest, adoption.version, adoption.difference) == (planted, PATCH, ())
        assert adoption.compared_with == signed
        assert [each.split()[0] for each in adoption.stated] == ["source", "revision", "created"]
        assert f"revision {PATCH}@sha1:" in adoption.stated[1]
        changes = {file.path: file.change for file in adoption.overlay}
        first, *others = OVERLAY.files
        assert changes == {first.path: "gone", "new.yaml": "new", **{file.path: "same" for file in others}}

    def test_shows_what_differs_from_upstream(self, world: World) -> None:
        composed = made(PATCH)
        text = composed.recipe.components.replace("kind: NetworkPolicy", "kind: NetworkPolicy # mine", 1)
        edited = replace(composed.recipe, components=text)
        plant(world, compose(edited))
        lines = [line for line in self.shown(world).difference if line[0] in "+-" and line[:3] not in ("+++", "---")]
        assert lines == ["-kind: NetworkPolicy", "+kind: NetworkPolicy # mine"]

    def test_marks_rights_that_its_components_give_and_flux_does_not(self, world: World) -> None:
        composed = made(PATCH)
        subject = "subjects: [{kind: Group, name: guests, apiGroup: rbac.authorization.k8s.io}]"
        role = "roleRef: {kind: ClusterRole, name: cluster-admin, apiGroup: rbac.authorization.k8s.io}"
        kind = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: guests}"
        text = f"{composed.recipe.components}---\n{kind}\n{role}\n{subject}\n"
        plant(world, compose(replace(composed.recipe, components=text)))
        added = {it.binding for each in self.shown(world).rights for it in each.rights if it.added}
        assert added == {"ClusterRoleBinding guests"}

    def test_signs_what_a_person_adopted_even_if_nothing_is_newer(self, world: World) -> None:
        planted = self.other(world)
        outcome = update(CHANNEL, world.ports(), intent(adopt=True, policy=EVERY))
        assert (outcome.healed, outcome.trust, at(world)) == (True, "adopted", planted)
        assert update(CHANNEL, world.ports(), intent(policy=EVERY)).trust == "verified"

    def test_of_what_nobody_signed_is_shown_whatever_else_is_in_the_repository(self) -> None:
        world = World()
        planted = self.other(world)
        raw = b'{"schemaVersion":2,"mediaType":"%s","manifests":[]}' % OCI_INDEX.encode()
        repository, index = world.registry.repositories[str(CHANNEL.repository)], Digest.of(raw)
        repository.manifests[index] = raw
        repository.tags[f"v9.9.9-{index.short}"] = index
        assert self.shown(world).digest == planted

    def test_nobody_answers_unasked(self, world: World) -> None:
        self.other(world)
        before = signatures(world)
        with pytest.raises(NotAdopted):
            update(CHANNEL, replace(world.ports(), confirm=lambda _: False), intent(adopt=True))
        assert signatures(world) == before


class TestRecords:
    def test_say_where_the_channel_was_before_and_who_approved(self, world: World) -> None:
        before = at(world)
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        target = plan.steps[0].target
        run = replace(intent().run, url="https://github.com/acme/fleet/actions/runs/7", actor="maintainer")
        apply(plan, {target}, world.ports(), intent(run=run, now=NOW + timedelta(hours=2)))
        (record,) = Ledger(world.registry, CHANNEL, OURS).all_records(target)
        assert (record.previous, record.version, record.run, record.recovered) == (before, MINOR, run.url, False)
        assert record.approval is not None
        assert (record.approval.by, record.by) == ("maintainer", str(signing_key().public.fingerprint))
        (entry, *_) = history(CHANNEL, world.ports()).entries
        assert entry.records == (record,)

    def test_lost_by_a_crash_is_written_by_the_next_run(self, world: World) -> None:
        forget_records(world, at(world))
        update(CHANNEL, world.ports(), intent())
        (record,) = Ledger(world.registry, CHANNEL, OURS).all_records(at(world))
        before = next(it for it in history(CHANNEL, world.ports()).entries if it.version == OLD).digest
        assert (record.recovered, record.previous, record.version) == (True, before, PATCH)

    def test_of_a_step_in_the_middle_of_a_plan_is_written_by_the_run_that_goes_on(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        middle, last = (step.target for step in plan.steps)
        update(CHANNEL, world.ports(), intent())
        forget_records(world, middle)
        assert apply(plan, {last}, world.ports(), intent()).done == 2
        assert [record.recovered for record in Ledger(world.registry, CHANNEL, OURS).all_records(middle)] == [True]
        assert [record.previous for record in Ledger(world.registry, CHANNEL, OURS).all_records(last)] == [middle]

    def test_are_not_needed_to_read_the_history(self, world: World) -> None:
        forget_records(world, at(world))
        entries = history(CHANNEL, world.ports()).entries
        assert [(entry.version, len(entry.records)) for entry in entries] == [(OLD, 1), (PATCH, 0)]


class TestVerify:
    def test_names_who_signed_and_every_cluster_that_accepts_it(self, world: World) -> None:
        found = verify_channel(CHANNEL, world.ports(), intent())
        assert (found.problem, found.by) == (None, signing_key().public.fingerprint)
        assert all(row.judgement.accepted for row in found.clusters)

    def test_tells_clusters_that_refuse_what_somebody_trusted_signed(self, world: World) -> None:
        digest = at(world)
        raw = KeySigner(signing_key("theirs")).sign_statement(bundle.statement(digest))
        bundle.attach_bundle(world.registry, CHANNEL, digest, raw, bundle.SIGNATURE_PREDICATE)
        found = verify_channel(CHANNEL, world.ports(), intent())
        assert found.by == signing_key().public.fingerprint
        assert "hides" in str(found.problem)
        accepted = {row.flux: row.judgement.accepted for row in found.clusters}
        assert (accepted["2.7"], accepted["2.9"]) == (True, False)

    def test_what_is_not_there_is_not_found(self, world: World) -> None:
        with pytest.raises(NotFound):
            verify_channel(CHANNEL.at_tag("other"), world.ports(), intent())


def test_attestations_do_not_break_verification(world: World) -> None:
    plan = make_plan(CHANNEL, world.ports(), intent()).plan
    target = plan.steps[0].target
    apply(plan, {target}, world.ports(), intent(attestations=True))
    kinds = {
        it.annotations.get("dev.sigstore.bundle.predicateType") for it in world.registry.referrers(CHANNEL, target)
    }
    assert {"https://slsa.dev/provenance/v1", "https://cyclonedx.org/bom"} <= kinds
    found = verify_channel(CHANNEL, world.ports(), intent())
    assert (found.problem, {row.judgement.accepted for row in found.clusters}) == (None, {True})


@pytest.mark.parametrize(
    "read",
    [
        lambda channel, ports: make_plan(channel, ports, intent()),
        lambda channel, ports: update(channel, ports, intent()),
        lambda channel, ports: verify_channel(channel, ports, intent()),
        lambda channel, ports: propose_rollback(channel, Wish("v2.98.5"), ports, intent()),
    ],
    ids=["plan", "update", "verify", "rollback"],
)
def test_a_mistyped_channel_is_told_with_the_one_that_is_there(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[Reference, Ports], object]
) -> None:
    world = World()
    init(CHANNEL, OLD, world.ports(), intent())
    for tag, near in (("produktion", f"Did you mean {CHANNEL}? "), ("edge", ""), ("production-2", "")):
        with pytest.raises(NotFound, match=f":{tag} was not found") as raised:
            read(CHANNEL.at_tag(tag), world.ports())
        there = f"Channels there: production. {NotFound.hint.partition('. ')[0]}."
        assert raised.value.hint == (f"{near}{NotFound.hint}" if near else there)

    def denied(*_: object) -> tuple[str, ...]:
        raise AccessDenied("no list for you")

    monkeypatch.setattr("tests.fakes.registry.InMemoryRegistry.tags", denied)
    with pytest.raises(NotFound) as raised:
        read(CHANNEL.at_tag("produktion"), world.ports())
    assert raised.value.hint == NotFound.hint
