"""Image digests that are pinned on request: looked up, kept from step to step, asked about, and given up again."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.approval.port import ApprovalRequest, GrantedApproval
from ci_automation.artifact.reference import Digest
from ci_automation.artifact.tree import COMPONENTS_PATH
from ci_automation.errors import RegistryError
from ci_automation.flows.apply import TargetDiffers, apply
from ci_automation.flows.approved import ApprovedDiffers, apply_granted
from ci_automation.flows.init import FirstRefused, init
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.planning.step import ImageMissing, NobodyToAsk
from ci_automation.flows.update import NotOurs, update
from ci_automation.flows.verify import pull, rederive
from ci_automation.flux.artifact import stated_options_digest
from ci_automation.flux.options import Options
from ci_automation.flux.recover import EditedByHand
from ci_automation.flux.text import image_names, pin, unpin
from ci_automation.policy.decision import Decision
from ci_automation.policy.model import Action, Policy
from ci_automation.policy.plan import Plan
from ci_automation.records.notes import Approval
from ci_automation.registry.port import Unreachable
from tests.contract.publishing import publish_text
from tests.fakes.world import CHANNEL, MINOR, OLD, OVERLAY, PATCH, World, intent

if TYPE_CHECKING:
    from ci_automation.flows.ports import Ports

MIRROR = "registry.example/mirror"


@dataclass
class MemoryImages:
    """Registries whose images are values: each has a digest unless a test says otherwise."""

    named: dict[str, Digest | RegistryError | None] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def digest(self, image: str) -> Digest | None:
        """Return the digest of an image; beside a digest the tag does not count."""
        self.asked.append(image)
        found = self.named.get(image, Digest.of(image.encode()))
        if isinstance(found, RegistryError):
            raise found
        return found


@pytest.fixture
def images() -> MemoryImages:
    """The registries."""
    return MemoryImages()


@dataclass
class Place:
    """A channel with what its runs meet."""

    world: World
    images: MemoryImages

    @property
    def ports(self) -> Ports:
        """What the next run meets."""
        return replace(self.world.ports(), images=self.images)

    @property
    def components(self) -> str:
        """The components file as it is published."""
        return pull(CHANNEL, self.ports)[0][COMPONENTS_PATH].decode()

    def plan(self, **wish: object) -> Plan:
        """Return what a run would do."""
        return make_plan(CHANNEL, self.ports, intent(**wish)).plan

    def apply_all(self, **wish: object) -> Plan:
        """Do all of it, approved."""
        plan = self.plan(**wish)
        apply(plan, {step.target for step in plan.steps}, self.ports, intent(**wish))
        return plan


def place(images: MemoryImages, **wish: object) -> Place:
    """Return a place whose channel begins with the oldest sample."""
    found = Place(World(), images)
    init(CHANNEL, OLD, found.ports, intent(overlay=OVERLAY, **wish))
    return found


@pytest.fixture
def plain(images: MemoryImages) -> Place:
    """A channel whose images are not pinned."""
    return place(images)


@pytest.fixture
def pinned(images: MemoryImages) -> Place:
    """A channel whose images are pinned."""
    return place(images, pin_images=True)


def pins(text: str) -> dict[str, Digest]:
    return dict(unpin(text)[1])


def current(text: str) -> dict[str, Digest]:
    """Return the digests that the registries have for the images of a components file."""
    return {name: Digest.of(name.encode()) for name in image_names(unpin(text)[0])}


class TestPlain:
    def test_nobody_is_asked_for_digests(self, plain: Place) -> None:
        assert "@" not in "".join(image_names(plain.components))
        plain.apply_all()
        assert plain.images.asked == []

    def test_pinning_is_a_change_that_is_asked_for(self, plain: Place) -> None:
        plan = plain.plan(pin_images=True)
        patch, content, minor = plan.steps
        assert (patch.new_version, patch.decision, patch.pinned) == (PATCH, Decision.AUTO, False)
        assert (content.kind, content.decision, content.pinned) == ("content", Decision.APPROVAL, True)
        assert "the options change: pin-images (false -> true)" in content.reasons
        assert (minor.new_version, minor.pinned) == (MINOR, True)
        assert not any("pin-images" in reason for reason in minor.reasons)
        assert {change.new for change in content.images} == {
            f"{change.old}@{Digest.of(change.old.encode())}" for change in content.images
        }
        assert Plan.parse(plan.to_text().encode()) == plan

    def test_what_is_published_is_what_flux_renders_with_digests(self, plain: Place) -> None:
        other = place(MemoryImages())
        other.apply_all()
        plain.apply_all(pin_images=True)
        assert unpin(plain.components) == (other.components, current(other.components))
        stated = {stated_options_digest(it.ports.registry.manifest(CHANNEL)) for it in (plain, other)}
        assert stated == {str(Options().digest)}

    def test_a_plan_is_applied_as_it_was_made_whatever_is_wanted_since(self, plain: Place) -> None:
        plan = plain.plan(pin_images=True)
        apply(plan, {step.target for step in plan.steps}, plain.ports, intent())
        assert plain.world.channel_digest() == str(plan.steps[-1].target)
        assert pins(plain.components)


class TestPinned:
    def test_it_begins_so_where_it_is_asked_for(self, pinned: Place) -> None:
        assert pins(pinned.components) == current(pinned.components)
        assert len(pins(pinned.components)) == 4

    def test_it_stays_so_without_anybody_saying_it_again(self, pinned: Place) -> None:
        plan = pinned.apply_all()
        assert [step.new_version for step in plan.steps] == [PATCH, MINOR]
        assert plan.steps[0].decision is Decision.AUTO
        assert not any("pin-images" in reason for step in plan.steps for reason in step.reasons)
        assert pins(pinned.components) == current(pinned.components)

    def test_where_it_is_wished_again_there_is_nothing_to_do(self, pinned: Place) -> None:
        pinned.apply_all()
        assert pinned.plan(pin_images=True).steps == ()

    def test_a_tag_that_moved_is_no_reason_to_publish(self, pinned: Place) -> None:
        pinned.apply_all()
        for name in image_names(unpin(pinned.components)[0]):
            pinned.images.named[name] = Digest.of(b"moved")
        assert pinned.plan(pin_images=True).steps == ()

    def test_giving_it_up_is_asked_for_too(self, pinned: Place) -> None:
        pinned.apply_all()
        (step,) = pinned.plan(pin_images=False).steps
        assert (step.kind, step.decision, step.pinned) == ("content", Decision.APPROVAL, False)
        assert "the options change: pin-images (true -> false)" in step.reasons
        pinned.apply_all(pin_images=False)
        assert not pins(pinned.components)
        assert pinned.plan().steps == ()

    def test_the_same_inputs_give_the_same_digest(self, images: MemoryImages) -> None:
        one, two = place(images, pin_images=True), place(images, pin_images=True)
        assert one.world.channel_digest() == two.world.channel_digest()
        assert one.plan().steps == two.plan().steps

    def test_another_digest_is_another_artifact(self, pinned: Place) -> None:
        moved = place(MemoryImages({image_names(unpin(pinned.components)[0])[0]: Digest.of(b"")}), pin_images=True)
        assert moved.world.channel_digest() != pinned.world.channel_digest()

    def test_it_is_made_again_without_asking_anybody(self, pinned: Place) -> None:
        asked = len(pinned.images.asked)
        found = rederive(CHANNEL, pinned.ports, intent())
        found.check(CHANNEL)
        assert ("images", "it pins 4 images, to digests that this run did not look up") in found.steps
        assert len(pinned.images.asked) == asked

    def test_an_edit_of_a_pinned_file_is_found(self, pinned: Place) -> None:
        publish_text(pinned.world, pinned.components.replace("--log-level=info", "--log-level=debug", 1).encode())
        with pytest.raises(EditedByHand, match="log-level"):
            pinned.plan()

    def test_a_digest_that_is_taken_away_is_an_edit(self, pinned: Place) -> None:
        digest = next(iter(pins(pinned.components).values()))
        publish_text(pinned.world, pinned.components.replace(f"@{digest}", "").encode())
        with pytest.raises(EditedByHand, match="@sha256:"):
            pinned.plan()

    def test_edits_are_dropped_and_the_pins_stay(self, pinned: Place) -> None:
        text = pinned.components
        publish_text(pinned.world, text.replace("--log-level=info", "--log-level=debug", 1).encode())
        policy = Policy(actions=dict.fromkeys(Policy().actions, Action.NEVER))
        pinned.apply_all(accept_edits=True, policy=policy, flags={"log-level": "info"})
        assert pinned.components == text

    def test_the_mirror_that_the_options_name_is_asked(self, images: MemoryImages) -> None:
        found = place(images, pin_images=True, flags={"registry": MIRROR})
        assert all(name.startswith(f"{MIRROR}/") for name in images.asked)
        assert pins(found.components) == current(found.components)

    def test_what_somebody_else_pinned_and_signed_is_gone_on_from(self, plain: Place) -> None:
        text = plain.components
        publish_text(plain.world, pin(text, dict.fromkeys(image_names(text), Digest.of(b"theirs"))).encode())
        plan = plain.apply_all()
        assert all(step.pinned for step in plan.steps)
        assert pins(plain.components) == current(plain.components)


class TestLookingUp:
    def test_a_release_with_an_image_that_is_not_there_is_passed_over(self, pinned: Place) -> None:
        gone = next(iter(change.new.partition("@")[0] for change in pinned.plan().steps[0].images))
        pinned.images.named[gone] = None
        plan = pinned.plan()
        assert [step.new_version for step in plan.steps] == [MINOR]
        (passed,) = plan.passed_over
        assert (passed.version, passed.decision, passed.reasons) == (PATCH, Decision.REFUSED, (f"{gone} is not there",))

    def test_a_registry_that_does_not_answer_ends_the_run(self, pinned: Place) -> None:
        before = pinned.world.contents()
        gone = next(iter(change.new.partition("@")[0] for change in pinned.plan().steps[0].images))
        pinned.images.named[gone] = Unreachable("ghcr.io", "nothing listens there")
        with pytest.raises(Unreachable):
            update(CHANNEL, pinned.ports, intent())
        assert pinned.world.contents() == before

    def test_nothing_begins_with_an_image_that_is_not_there(self, plain: Place, images: MemoryImages) -> None:
        name = image_names(plain.components)[0]
        images.named[name] = None
        with pytest.raises(ImageMissing, match=f"{name} is not there"):
            place(images, pin_images=True)

    def test_nothing_begins_in_a_mirror_that_lacks_an_image(self, images: MemoryImages) -> None:
        found = place(images, flags={"registry": MIRROR})
        name = image_names(found.components)[0]
        images.named[name] = None
        with pytest.raises(FirstRefused, match=f"{name} is not there"):
            place(images, flags={"registry": MIRROR})

    def test_without_anybody_to_ask_nothing_is_pinned(self, pinned: Place) -> None:
        with pytest.raises(NobodyToAsk):
            make_plan(CHANNEL, pinned.world.ports(), intent())


class TestTagsThatMove:
    """Pins are an input: what was approved is what is published, or nothing."""

    @pytest.fixture
    def minor(self, pinned: Place) -> Plan:
        """The plan for the minor alone."""
        update(CHANNEL, pinned.ports, intent())
        return pinned.plan()

    def move(self, pinned: Place, plan: Plan) -> None:
        name = plan.steps[0].images[0].new.partition("@")[0]
        pinned.images.named[name] = Digest.of(b"moved")

    def test_a_plan_differs_when_a_tag_moved_since(self, pinned: Place, minor: Plan) -> None:
        before = pinned.world.contents()
        self.move(pinned, minor)
        with pytest.raises(TargetDiffers):
            apply(minor, {minor.steps[0].target}, pinned.ports, intent())
        assert pinned.world.contents() == before

    def test_an_approval_does_not_count_for_another_digest(self, pinned: Place, minor: Plan) -> None:
        request = ApprovalRequest.of(minor, minor.steps[0])
        granted = GrantedApproval(request, Approval("alice", "a review", datetime(2026, 1, 1, tzinfo=UTC)))
        self.move(pinned, minor)
        with pytest.raises(ApprovedDiffers):
            apply_granted(granted, pinned.ports, intent())

    def test_an_approval_counts_where_no_tag_moved(self, pinned: Place, minor: Plan) -> None:
        request = ApprovalRequest.of(minor, minor.steps[0])
        granted = GrantedApproval(request, Approval("alice", "a review", datetime(2026, 1, 1, tzinfo=UTC)))
        assert apply_granted(granted, pinned.ports, intent()).done == 1
        assert pins(pinned.components) == current(pinned.components)

    def test_approved_pinning_is_done(self, plain: Place) -> None:
        plain.apply_all()
        plan = plain.plan(pin_images=True)
        granted = GrantedApproval(
            ApprovalRequest.of(plan, plan.steps[0]), Approval("alice", "a review", datetime(2026, 1, 1, tzinfo=UTC))
        )
        apply_granted(granted, plain.ports, intent(pin_images=True))
        assert pins(plain.components) == current(plain.components)


class TestHealing:
    def crash(self, pinned: Place, images: MemoryImages) -> str:
        """Move the channel to what an update would have published, as one that was cut off before it signed."""
        other = Place(World(), images)
        init(CHANNEL, OLD, other.ports, intent(overlay=OVERLAY, pin_images=True))
        update(CHANNEL, other.ports, intent())
        for what in ("manifests", "blobs"):
            source = getattr(other.world.registry.repositories[str(CHANNEL.repository)], what)
            getattr(pinned.world.registry.repositories[str(CHANNEL.repository)], what).update(source)
        digest = other.world.registry.repositories[str(CHANNEL.repository)].tags["production"]
        pinned.world.registry.repositories[str(CHANNEL.repository)].tags["production"] = digest
        return str(digest)

    @pytest.mark.parametrize("evil", [False, True], ids=["the registry's digests", "others"])
    def test_what_no_record_covers_is_not_signed(self, pinned: Place, *, evil: bool) -> None:
        images = MemoryImages({name: Digest.of(b"evil") for name in self.names()}) if evil else pinned.images
        self.crash(pinned, images)
        policy = Policy(actions=dict.fromkeys(Policy().actions, Action.AUTO))
        with pytest.raises(NotOurs):
            update(CHANNEL, pinned.ports, intent(policy=policy))

    def names(self) -> tuple[str, ...]:
        found = place(MemoryImages())
        update(CHANNEL, found.ports, intent())
        return image_names(found.components)


def test_the_list_of_controllers_and_the_provenance_have_the_digests(images: MemoryImages) -> None:
    found = place(images, pin_images=True, attestations=True)
    blobs = found.world.registry.repositories[str(CHANNEL.repository)].blobs.values()
    envelopes = [json.loads(blob)["dsseEnvelope"] for blob in blobs if b'"dsseEnvelope"' in blob]
    statements = [json.loads(base64.b64decode(envelope["payload"])) for envelope in envelopes]
    predicates = {statement["predicateType"]: statement["predicate"] for statement in statements}
    sbom = predicates["https://cyclonedx.org/bom"]
    digests = {name.rpartition("/")[2].partition(":")[0]: digest for name, digest in pins(found.components).items()}
    for component in sbom["components"]:
        assert f"@sha256%3A{digests[component['bom-ref']].hex}?" in component["purl"]
        assert component["name"] == component["bom-ref"]
    listed = predicates["https://slsa.dev/provenance/v1"]["buildDefinition"]["resolvedDependencies"]
    named = {it["uri"]: it["digest"]["sha256"] for it in listed if it["name"] == "image"}
    assert named == {f"oci://{name}": digest.hex for name, digest in pins(found.components).items()}
