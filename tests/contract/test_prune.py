"""Pruning: what goes with what, what nothing may take away, and crashes at any request of it."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, OCI_INDEX, Descriptor, Manifest
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.artifact.tree import Tree
from ci_automation.cli import run
from ci_automation.errors import Error
from ci_automation.flows.apply import apply
from ci_automation.flows.init import init
from ci_automation.flows.lift import lift
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.prune import ChannelRemains, prune, survey
from ci_automation.flows.publication.copy import copy
from ci_automation.flows.publication.placement import had_last
from ci_automation.flows.update import update
from ci_automation.flux.version import Version
from ci_automation.net.values import Complaint
from ci_automation.policy.model import BUMPS, Action, Policy, SignatureFormat
from ci_automation.policy.retention import Window
from ci_automation.records.ledger import Ledger
from ci_automation.records.notes import HoldStatement
from ci_automation.registry import open_registry
from ci_automation.registry.contents import referrers_tag
from ci_automation.registry.port import DeletionRefused
from ci_automation.signing.trust import NobodyTrusted, TrustedKeys
from ci_automation.signing.verify import verify
from tests.contract.interference import Killed, interfere, kill_at
from tests.contract.planting import EVERY, forget_records
from tests.contract.rolled_back import back, killed_after_the_move
from tests.fakes.registry import Asked
from tests.fakes.world import CHANNEL, NOW, OLD, OVERLAY, World, intent, key_pem, made_once, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.flows.prune import Survey

OURS = TrustedKeys((signing_key().public,))
AUTO = Policy(actions=dict.fromkeys(BUMPS, Action.AUTO))
LAST = Window(1)

pytestmark = pytest.mark.usefixtures("unjudged")


@made_once
def grown(*, api: bool = True, form: SignatureFormat = SignatureFormat.LEGACY) -> World:
    """Return a channel that has the third digest of its repository; the other two nothing needs."""
    world = World()
    world.registry.referrers_api = api
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY, signature_format=form))
    update(CHANNEL, world.ports(), intent(signature_format=form))
    update(CHANNEL, world.ports(), intent(policy=AUTO, signature_format=form))
    world.registry.requests.clear()
    return world


@pytest.fixture
def world() -> World:
    """Return such a channel in a registry with the referrers API."""
    return grown()


def look(world: World, window: Window = LAST) -> Survey:
    return survey(CHANNEL, window, world.ports(), NOW)


def versions(world: World, found: Survey) -> list[str]:
    del world
    return [it.tag.rpartition("-")[0] for it in found.goes]


def immutable(world: World, version: str) -> tuple[str, Digest]:
    tag = next(tag for tag in world.registry.tags(CHANNEL) if tag.startswith(version))
    digest = world.registry.resolve(CHANNEL.at_tag(tag))
    assert digest
    return tag, digest


def test_looking_deletes_nothing(world: World) -> None:
    before = world.contents()
    found = look(world)
    assert versions(world, found) == ["v2.98.8", "v2.98.5"]
    assert world.contents() == before


@pytest.mark.parametrize("api", [True, False], ids=["referrers API", "fallback tag"])
@pytest.mark.parametrize("form", [SignatureFormat.LEGACY, SignatureFormat.BOTH])
def test_what_nothing_needs_goes_with_its_signature_and_records(*, api: bool, form: SignatureFormat) -> None:
    world = grown(api=api, form=form)
    found = look(world)
    gone = [it.digest for it in found.goes]
    list(prune(found, world.ports()))
    tags = world.registry.tags(CHANNEL)
    assert not [tag for tag in tags if any(digest.hex in tag or digest.short in tag for digest in gone)]
    for digest in gone:
        assert world.registry.resolve(CHANNEL.at_digest(digest)) is None
        assert world.registry.referrers(CHANNEL, digest) == ()
    left = world.registry.resolve(CHANNEL)
    assert left
    verify(world.registry, CHANNEL, left, OURS)
    assert len(Ledger(world.registry, CHANNEL, OURS).all_records(left)) == 1
    again = look(world)
    assert (again.goes, again.leftovers) == ((), ())


def test_the_artifact_goes_first_and_its_signature_last(world: World) -> None:
    done = [it.what for it in prune(look(world), world.ports())]
    assert done == ["artifact", "referrer", "signature"] * 2


class TestWhatStays:
    def test_what_a_channel_has(self, world: World) -> None:
        _, digest = immutable(world, "v2.98.5")
        world.registry.put_manifest(CHANNEL.at_tag("edge"), world.registry.manifest(CHANNEL.at_digest(digest)))
        found = look(world)
        assert versions(world, found) == ["v2.98.8"]
        assert "edge leads to it" in [it.reason for it in found.kept]

    @pytest.mark.parametrize("moved", [True, False], ids=["though it was moved", "though it was deleted"])
    def test_what_a_channel_had_last_by_its_records(self, world: World, *, moved: bool) -> None:
        shown = back(world, str(OLD))
        tags = world.registry.repositories[str(CHANNEL.repository)].tags
        del tags["production"]
        if moved:
            tags["production"] = shown.base
        assert list(prune(look(world), world.ports()))
        held = had_last(CHANNEL, world.ports())[1]
        assert [hold.digest for hold in held] == [shown.base]

    @pytest.mark.parametrize("moved", [True, False], ids=["though it was moved", "though it was deleted"])
    def test_what_a_rollback_led_to_that_was_killed_before_its_record(self, world: World, *, moved: bool) -> None:
        refused = world.registry.resolve(CHANNEL)
        killed_after_the_move(world, str(OLD))
        tags = world.registry.repositories[str(CHANNEL.repository)].tags
        del tags["production"]
        if moved:
            tags["production"] = immutable(world, "v2.98.8")[1]
        list(prune(look(world), world.ports()))
        held = had_last(CHANNEL, world.ports())[1]
        assert [hold.digest for hold in held] == [refused]

    def test_what_a_rollback_led_to_long_ago_goes(self, world: World) -> None:
        back(world, str(OLD))
        update(CHANNEL, world.ports(), intent(now=NOW + timedelta(days=1)))
        lift(CHANNEL, "fixed", world.ports(), intent())
        update(CHANNEL, world.ports(), intent(policy=AUTO))
        assert versions(world, look(world)) == ["v2.98.8", "v2.98.5"]

    def test_what_a_deleted_channel_had_last_goes_once_a_person_says_that_it_is_gone(self, world: World) -> None:
        shown = back(world, str(OLD))
        tags = world.registry.repositories[str(CHANNEL.repository)].tags
        with pytest.raises(ChannelRemains, match="its tag is there"):
            survey(CHANNEL, LAST, world.ports(), NOW, ["production"])
        with pytest.raises(ChannelRemains, match="no signed record in this repository names it"):
            survey(CHANNEL, LAST, world.ports(), NOW, ["produktion"])
        del tags["production"]
        assert str(OLD) not in versions(world, look(world))
        found = survey(CHANNEL, LAST, world.ports(), NOW, ["production"])
        assert str(OLD) in versions(world, found)
        tags["production"] = next(it.digest for it in found.goes if str(it.version) == str(OLD))  # it is back meanwhile
        kept = [it.digest for it in prune(found, world.ports()) if it.kept_by == ("production",)]
        assert kept == [tags["production"]]
        assert shown.base != tags["production"]

    def test_what_a_channel_of_the_configuration_had_last_is_not_said_to_be_gone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "own.yaml").write_text("version: 1\nartifacts: [{name: live, url: 'layout:r:production'}]\n")
        (tmp_path / "cosign.pub").write_text(signing_key().public.to_pem())
        command = ["prune", "layout:r", "--gone", "production", "--config", "own.yaml", "--public-key", "cosign.pub"]
        assert run(command) == 2
        assert "layout:r:production is not gone: the configuration has it as live" in capsys.readouterr().err

    def test_what_nobody_trusted_signed(self, world: World) -> None:
        tag, digest = immutable(world, "v2.98.5")
        del world.registry.repositories[str(CHANNEL.repository)].tags[f"sha256-{digest.hex}.sig"]
        found = look(world)
        assert tag not in [it.tag for it in found.goes]

    def test_what_a_channel_left_a_short_while_ago(self, world: World) -> None:
        left = max(
            record.at
            for version in ("v2.98.5", "v2.98.8", "v2.99.4")
            for record in Ledger(world.registry, CHANNEL, OURS).all_records(immutable(world, version)[1])
        )
        soon = survey(CHANNEL, Window(1, timedelta(days=1)), world.ports(), left + timedelta(hours=1))
        assert soon.goes == ()
        later = survey(CHANNEL, Window(1, timedelta(days=1)), world.ports(), left + timedelta(days=2))
        assert len(later.goes) == 2

    def test_tags_that_are_not_ours(self, world: World) -> None:
        config = Descriptor.of(FLUX_CONFIG, CONFIG_BLOB)
        world.registry.put_blob(CHANNEL, b"theirs")
        theirs = Manifest.build(config, (Descriptor.of(FLUX_LAYER, b"theirs"),))
        for tag in ("their-tag", "v1.2.3", f"v1.2.3-{'0' * 12}", f"v1.2.3-{theirs.digest.short}", "sha256-nothing.sig"):
            world.registry.put_manifest(CHANNEL.at_tag(tag), theirs)
        list(prune(look(world), world.ports()))
        assert (
            len(
                [
                    tag
                    for tag in world.registry.tags(CHANNEL)
                    if world.registry.resolve(CHANNEL.at_tag(tag)) == theirs.digest
                ]
            )
            == 5
        )

    @pytest.mark.parametrize("recorded", [True, False], ids=["", "its records were deleted"])
    @pytest.mark.parametrize("version", ["v2.98.5", "v2.99.4"])
    def test_the_newest_whatever_versions_planted_tags_say(self, world: World, version: str, *, recorded: bool) -> None:
        two = Window(2)
        before = versions(world, look(world, two))
        _, digest = immutable(world, version)
        if not recorded:
            forget_records(world, digest)
        for number in range(2):
            tag = CHANNEL.at_tag(f"v9.9.{number}-{digest.short}")
            world.registry.put_manifest(tag, world.registry.manifest(CHANNEL.at_digest(digest)))
        assert before == ["v2.98.5"]
        assert set(versions(world, look(world, two))) <= set(before)

    def test_the_newest_whatever_is_copied_from_another_repository(self, world: World) -> None:
        other = Reference.parse("oci://registry.example/acme/other:production")
        before = versions(world, look(world))
        for overlay in (OVERLAY.without("hooks/after.sh"), Tree(OVERLAY.files[:1])):
            other = other.at_tag(f"with-{len(overlay.files)}")
            taken = init(other, Version.parse("v2.99.4"), world.ports(), intent(overlay=overlay)).digest
            copy(world.registry, other, world.registry, CHANNEL.at_tag(f"v2.99.4-{taken.short}"), taken)
        assert set(versions(world, look(world))) - {"v2.99.4"} == set(before)
        two = survey(CHANNEL, Window(2), world.ports(), NOW)
        assert versions(world, two) == ["v2.98.5"]

    def test_what_a_run_is_about_to_publish(self, world: World) -> None:
        wish = intent(overlay=OVERLAY.without("hooks/after.sh"), policy=EVERY)

        def publish(world: World) -> None:
            plan = make_plan(CHANNEL, world.ports(), wish).plan
            apply(plan, [step.target for step in plan.steps], world.ports(), wish)

        self.is_safe_beside_it(publish, world)

    def test_what_a_rollback_is_about_to_lead_to(self, world: World) -> None:
        self.is_safe_beside_it(lambda world: back(world, str(OLD)), world)

    def is_safe_beside_it(self, run: Callable[[World], object], world: World) -> None:
        """Prune before each request of a run, and check that the channel has something signed whatever the run says."""
        undisturbed = world.copy()
        run(undisturbed)

        def tidy(world: World) -> None:
            list(prune(look(world), world.ports()))

        ends = set()
        for request in range(len(undisturbed.registry.requests)):
            beside = world.copy()
            interfere(beside, request, partial(tidy, beside))
            with contextlib.suppress(Error):
                run(beside)
            digest = beside.registry.resolve(CHANNEL)
            assert digest, request
            verify(beside.registry, CHANNEL, digest, OURS)
            ends.add(digest)
        assert undisturbed.registry.resolve(CHANNEL) in ends

    def test_what_a_rollback_has_held_in_the_meantime(self, world: World) -> None:
        found, (_, old) = look(world), immutable(world, "v2.98.5")

        def die(asked: Asked) -> None:
            if asked == Asked("put_manifest", str(CHANNEL)):
                raise Killed

        world.registry.before = die
        with pytest.raises(Killed):
            back(world, str(OLD))
        world.registry.before = lambda _: None
        assert [it.digest for it in prune(found, world.ports()) if it.kept_by == ("production",)] == [old]
        assert look(world).goes == ()

    def test_what_a_tagged_referrer_is_about(self, world: World) -> None:
        tag, digest = immutable(world, "v2.98.5")
        subject = world.registry.manifest(CHANNEL.at_digest(digest))
        config = Descriptor.of(FLUX_CONFIG, CONFIG_BLOB)
        note = Manifest.build(
            config,
            subject.layers,
            artifact_type="application/vnd.example",
            subject=Descriptor.of(subject.media_type, subject.raw),
        )
        world.registry.put_manifest(CHANNEL.at_tag("a-note"), note)
        assert tag not in [it.tag for it in look(world).goes]

    def test_everything_while_a_tag_names_an_index_that_may_list_it(self, world: World) -> None:
        repository = world.registry.repositories[str(CHANNEL.repository)]
        raw = b'{"schemaVersion":2,"mediaType":"%s","manifests":[]}' % OCI_INDEX.encode()
        index = Descriptor.of(OCI_INDEX, raw)
        repository.manifests[index.digest] = raw
        repository.tags["all"] = index.digest
        assert look(world).goes == ()

    @pytest.mark.parametrize("version", ["v2.98.8", "v2.98.5"], ids=["before the first goes", "before the next goes"])
    def test_what_a_channel_came_to_in_the_meantime(self, world: World, version: str) -> None:
        deleting, (_, digest) = prune(look(world), world.ports()), immutable(world, version)
        done = [next(deleting)] if version == "v2.98.5" else []
        world.registry.put_manifest(CHANNEL.at_tag("edge"), world.registry.manifest(CHANNEL.at_digest(digest)))
        done += deleting
        assert [it.kept_by for it in done if it.kept_by] == [("edge",)]
        assert world.registry.resolve(CHANNEL.at_tag("edge")) == digest
        verify(world.registry, CHANNEL, digest, OURS)

    def test_what_a_channel_had_last_by_records_of_the_meantime(self, world: World) -> None:
        found = look(world)
        digest = init(CHANNEL.at_tag("edge"), OLD, world.ports(), intent(overlay=OVERLAY)).digest
        del world.registry.repositories[str(CHANNEL.repository)].tags["edge"]
        assert [it.digest for it in prune(found, world.ports()) if it.kept_by == ("edge",)] == [digest]

    def test_what_was_attached_to_what_is_there_again_in_the_meantime(self, world: World) -> None:
        tag, digest = immutable(world, "v2.98.8")
        manifest = world.registry.manifest(CHANNEL.at_digest(digest))
        world.registry.delete_manifest(CHANNEL.at_digest(digest))
        found = look(world)
        assert found.leftovers == (digest,)
        world.registry.put_manifest(CHANNEL.at_tag(tag), manifest)
        list(prune(found, world.ports()))
        verify(world.registry, CHANNEL, digest, OURS)

    def test_a_signature_that_another_tag_names(self, world: World) -> None:
        _, digest = immutable(world, "v2.98.8")
        signature = world.registry.manifest(CHANNEL.at_tag(f"sha256-{digest.hex}.sig"))
        world.registry.put_manifest(CHANNEL.at_tag("kept-signature"), signature)
        list(prune(look(world), world.ports()))
        assert world.registry.resolve(CHANNEL.at_tag("kept-signature")) == signature.digest

    def test_what_a_list_of_referrers_names_and_that_refers_to_something_else(self) -> None:
        world = grown(api=False)
        (_, old), (_, live) = (immutable(world, version) for version in ("v2.98.5", "v2.99.4"))
        repository = world.registry.repositories[str(CHANNEL.repository)]
        repository.tags[f"sha256-{old.hex}"] = repository.tags[f"sha256-{live.hex}"]
        list(prune(look(world), world.ports()))
        assert Ledger(world.registry, CHANNEL, OURS).all_records(live)

    @pytest.mark.parametrize("what", [HoldStatement.media_type, None], ids=["a hold", "an artifact"])
    @pytest.mark.parametrize("suffix", ["", ".sig"], ids=["where the list of referrers is", "where the signature is"])
    @pytest.mark.parametrize("known", [True, False], ids=["", "of a digest that never was"])
    def test_what_an_attacker_names_in_the_place_of_what_goes(
        self, suffix: str, what: str | None, *, known: bool
    ) -> None:
        world = grown(form=SignatureFormat.BOTH)
        (_, old), (_, present) = (immutable(world, version) for version in ("v2.98.5", "v2.98.8"))
        refused = world.registry.resolve(CHANNEL)
        assert refused
        back(world, str(present))
        repository = world.registry.repositories[str(CHANNEL.repository)]
        held = next(
            it.digest for it in world.registry.referrers(CHANNEL, present) if it.artifact_type == what or not what
        )
        if not what:  # a digest that lost its tags
            held = refused
            repository.tags = {tag: digest for tag, digest in repository.tags.items() if digest != refused}
        repository.tags[f"sha256-{(old if known else Digest.of(b'nothing')).hex}{suffix}"] = held
        list(prune(look(world), world.ports()))
        assert world.registry.resolve(CHANNEL.at_digest(old)) is None
        assert held in repository.manifests


@pytest.mark.parametrize("known", [True, False], ids=["of what is gone", "of a digest that never was"])
def test_what_is_planted_in_the_place_of_a_list_keeps_nothing_else_from_going(*, known: bool) -> None:
    world = grown(api=False)
    (_, gone), (_, old) = (immutable(world, version) for version in ("v2.98.8", "v2.98.5"))
    world.registry.delete_manifest(CHANNEL.at_digest(gone))
    planted = referrers_tag(CHANNEL, gone if known else Digest.of(b"nothing"))
    world.registry.put_manifest(planted, world.registry.manifest(CHANNEL))
    list(prune(look(world), world.ports()))
    assert world.registry.resolve(CHANNEL.at_digest(old)) is None
    assert world.registry.resolve(planted) == world.registry.resolve(CHANNEL)


def test_without_anybody_to_trust_nothing_is_ours(world: World) -> None:
    with pytest.raises(NobodyTrusted):
        survey(CHANNEL, LAST, world.ports(None, None), NOW)


def test_a_registry_that_does_not_delete_says_so_and_nothing_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object, reference: Reference) -> None:
        raise DeletionRefused(reference, Complaint("registry.example", 405, "UNSUPPORTED"))

    monkeypatch.setattr(type(world.registry), "delete_manifest", refuse)
    before = world.contents()
    with pytest.raises(DeletionRefused, match="405 UNSUPPORTED"):
        list(prune(look(world), world.ports()))
    assert world.contents() == before


@pytest.mark.parametrize("api", [True, False], ids=["referrers API", "fallback tag"])
def test_a_crash_at_any_request_keeps_what_is_needed_and_the_next_run_ends_the_same(*, api: bool) -> None:
    undisturbed = grown(api=api)
    found = look(undisturbed)
    before = len(undisturbed.registry.requests)
    list(prune(found, undisturbed.ports()))
    after = len(undisturbed.registry.requests)
    ends = sorted(undisturbed.registry.tags(CHANNEL))
    for request in range(before, after):
        world = grown(api=api)
        kill_at(world, request, lambda world=world: list(prune(look(world), world.ports())))  # type: ignore[misc]
        channel = world.registry.resolve(CHANNEL)
        assert channel
        verify(world.registry, CHANNEL, channel, OURS)
        # What still is there is signed, but for nothing.
        for tag in world.registry.tags(CHANNEL):
            if tag.startswith("v"):
                digest = world.registry.resolve(CHANNEL.at_tag(tag))
                assert digest
                verify(world.registry, CHANNEL, digest, OURS)
        list(prune(look(world), world.ports()))
        assert len(world.registry.tags(CHANNEL)) == len(ends), request
        assert look(world).leftovers == (), request


def test_a_layout_directory_is_pruned_too(world: World, tmp_path: Path) -> None:
    layout = Reference.parse(f"layout:{tmp_path / 'registry'}:production")
    registry = open_registry(layout)
    for tag in world.registry.tags(CHANNEL):
        digest = world.registry.resolve(CHANNEL.at_tag(tag))
        if digest and not tag.startswith("sha256-"):
            copy(world.registry, CHANNEL, registry, layout.at_tag(tag), digest)
    key = tmp_path / "cosign.pub"
    key.write_bytes(signing_key().public.to_pem().encode())
    arguments = ["prune", str(layout), "--keep-last", "1", "--public-key", str(key)]
    tags = registry.tags(layout)
    assert run(arguments) == 0
    assert registry.tags(layout) == tags
    assert run([*arguments, "--apply"]) == 0
    assert [tag for tag in registry.tags(layout) if tag.startswith("v")] == [immutable(world, "v2.99.4")[0]]
    assert len(registry.tags(layout)) == 3
    with contextlib.suppress(FileNotFoundError):
        assert key_pem() not in Path(tmp_path / "registry/index.json").read_bytes()
