"""What proves a rendering: known, calibrated, delegated, or nothing; and what becomes of a step (design section 6)."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.archive import read_archive
from ci_automation.artifact.tree import COMPONENTS_PATH
from ci_automation.flows.apply import apply
from ci_automation.flows.history import history
from ci_automation.flows.init import init
from ci_automation.flows.observe import observe
from ci_automation.flows.planning.base import read_base
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.ports import Ports, Upstream
from ci_automation.flows.programs import confinement, delegate
from ci_automation.flows.rendering import FlagsNotRendered, UnprovenRendering, fetch, rendering
from ci_automation.flows.verify import rederive
from ci_automation.flux.artifact import stated_flags, stated_options_digest
from ci_automation.flux.bundle import ComponentMissing, ManifestsBundle
from ci_automation.flux.options import COMPONENTS, Options, UnknownFlag
from ci_automation.flux.proof import Proof
from ci_automation.flux.recover import EditedByHand
from ci_automation.flux.render import render
from ci_automation.flux.text import TemplateMismatch
from ci_automation.flux.version import Version
from ci_automation.policy.decision import Decision
from ci_automation.policy.model import BUMPS, Action, Policy
from ci_automation.policy.plan import Plan
from ci_automation.report.text import step_title
from ci_automation.signing.trust import Identity
from ci_automation.signing.upstream import ISSUER, upstream_identity
from tests.fakes import upstream
from tests.fakes.programs import archive, files_naming, has_landlock, launcher, listing, program_name
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.world import CHANNEL, OLD, OVERLAY, MemoryReleases, World, intent, release, sample

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.flows.rendering import Rendering
    from ci_automation.flux.release import FetchedRelease
    from ci_automation.policy.plan import PlannedStep
    from ci_automation.signing.sigstore.root import TrustRoot
    from tests.fakes.sigstore import LocalSigstore

TAG = "v2.98.9"  # a patch of our own making: nobody knows it
VERSION = Version.parse(TAG)
BUNDLE = ManifestsBundle.of(sample("v2.98.8").bundle)
UPSTREAMS = render(BUNDLE, VERSION, Options(components=COMPONENTS))
CHANGED = "--watch-all-namespaces=true", "--watch-all-namespaces"  # an argument that a template has otherwise
FLEET = {"namespace": "fleet"}
FORK = Identity(ISSUER, "https://github.com/evil/flux2/.github/workflows/release.yaml@refs/tags/v2.98.9")
PROVEN: dict[str, Any] = {"unsafe_unproven_rendering": False}
ZONE: dict[str, Any] = {"flags": {"zone": "a"}, **PROVEN}


@dataclass(slots=True)
class Place:
    """A world with one unknown release, and upstream's own registry beside it."""

    world: World
    local: LocalSigstore
    root: TrustRoot
    upstreams: InMemoryRegistry
    required: bool = True

    @property
    def ports(self) -> Ports:
        """Return the ports of a run that trusts upstream."""
        proof = Upstream(self.root, self.required, upstream.MANIFESTS, lambda: self.upstreams)
        return replace(self.world.ports(), find_upstream=lambda: proof)

    def publish(self, text: str = UPSTREAMS, **how: Any) -> None:
        """Publish and sign upstream's own rendering."""
        upstream.publish(self.upstreams, VERSION, self.local, text=text, **how)

    def provide(self, text: str, tag: str = TAG, *, flags: tuple[str, ...] = ()) -> None:
        """Publish a flux CLI that prints `text` and lists `flags`, in a release that upstream signed."""
        data = archive(listing(text, *flags))
        files = files_naming(program_name(tag), data)
        made = self.local.sign_detached(files.checksums, identity=upstream_identity(Version.parse(tag)))
        self.world.releases.files[tag] = replace(
            files,
            signature=base64.b64encode(made.signature),
            certificate=base64.b64encode(made.certificate.encode()),
            log_entry=made.entry.encode(),
        )
        self.world.releases.assets[tag, program_name(tag)] = data

    def rendering(self, tag: str = TAG, **flags: Any) -> Rendering:
        """Return what is rendered of a release, and what proves it."""
        return rendering(fetch(Version.parse(tag), self.ports), Options().with_flags(flags), self.ports)


@pytest.fixture
def place(local: LocalSigstore, root: TrustRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a world in which nothing but upstream's signature on the checksums proves anything."""
    monkeypatch.setattr(confinement, "LAUNCHER", launcher(tmp_path))
    world = World(releases=MemoryReleases((release(TAG), *MemoryReleases().samples)))
    made = Place(world, local, root, InMemoryRegistry())
    made.provide("not what was asked for")
    return made


class TestKnown:
    def test_a_release_in_the_table_needs_nobody(self) -> None:
        world = World()
        found = world.releases.fetch(OLD)
        made = rendering(found, Options(namespace="fleet"), world.ports())
        assert (made.proof, made.detail) == (Proof.KNOWN, "")
        assert made.text == render(found.bundle, OLD, Options(namespace="fleet"))

    def test_nothing_is_asked_for_then(self, place: Place) -> None:
        found = place.world.releases.fetch(OLD)
        assert rendering(found, Options(), place.ports).proof is Proof.KNOWN
        assert place.upstreams.requests == []

    def test_the_same_files_as_another_version_are_not_known(self, place: Place) -> None:
        assert place.rendering().proof is Proof.NONE


class TestCalibrated:
    @pytest.mark.parametrize("form", ["legacy", "bundle"])
    def test_upstreams_own_rendering_proves_ours(self, place: Place, form: str) -> None:
        place.publish(form=form)
        made = place.rendering()
        assert made.proof is Proof.CALIBRATED
        assert made.text == render(BUNDLE, VERSION, Options())
        assert made.detail == "upstream's own oci://ghcr.example/fluxcd/flux-manifests:v2.98.9 has the same bytes"

    def test_components_out_of_its_list_are_proven(self, place: Place) -> None:
        place.publish()
        wanted = {"components": "notification-controller,source-watcher,source-controller"}
        assert place.rendering(**wanted).proof is Proof.CALIBRATED

    @pytest.mark.parametrize(
        ("flags", "why"),
        [
            pytest.param(FLEET, "does not show --namespace", id="another namespace"),
            pytest.param(
                {"network-policy": False, "log-level": "debug"},
                "does not show --log-level, --network-policy",
                id="flags",
            ),
            pytest.param(
                {"components": "source-controller"}, "components without notification-controller", id="no events"
            ),
        ],
    )
    def test_what_it_cannot_exercise_is_not_even_asked_for(self, place: Place, flags: dict[str, Any], why: str) -> None:
        place.publish()
        place.upstreams.requests.clear()
        made = place.rendering(**flags)
        assert made.proof is Proof.NONE
        assert why in made.detail
        assert place.upstreams.requests == []

    @pytest.mark.parametrize(
        ("how", "why"),
        [
            pytest.param(
                {"text": UPSTREAMS.replace(*CHANGED, 1)},
                "in Deployment/source-controller, ours has",
                id="a template changed",
            ),
            pytest.param(
                {"text": UPSTREAMS.replace(TAG, "v2.98.8")}, "states the version v2.98.8", id="of another version"
            ),
            pytest.param(
                {"text": render(BUNDLE, VERSION, Options(components=COMPONENTS[1:]))},
                "does not show source-controller",
                id="a component less",
            ),
            pytest.param({"text": "kind: Namespace\n"}, "the components file cannot be read", id="no components file"),
            pytest.param({"text": "x" * (5 << 20)}, "has a layer of", id="far too large"),
            pytest.param({"local": None}, "is not signed", id="unsigned"),
            pytest.param({"identity": FORK}, "not signed by Flux", id="signed by a fork"),
            pytest.param({"identity": upstream_identity(OLD)}, "not signed by Flux", id="signed by another release"),
        ],
    )
    def test_anything_else_proves_nothing(self, place: Place, how: dict[str, Any], why: str) -> None:
        upstream.publish(place.upstreams, VERSION, **{"local": place.local, "text": UPSTREAMS, **how})
        made = place.rendering()
        assert made.proof is Proof.NONE
        assert why in made.detail

    def test_an_unsigned_one_proves_nothing_where_releases_need_no_signature_either(self, place: Place) -> None:
        place.required = False
        upstream.publish(place.upstreams, VERSION, None, text=UPSTREAMS)
        made = place.rendering()
        assert made.proof is Proof.NONE
        assert "nothing proves oci://ghcr.example/fluxcd/flux-manifests:v2.98.9" in made.detail

    def test_without_one_it_is_said(self, place: Place) -> None:
        assert "oci://ghcr.example/fluxcd/flux-manifests:v2.98.9 was not found" in place.rendering().detail

    def test_a_registry_that_fails_is_no_proof_and_no_end(self, place: Place) -> None:
        place.publish()

        def fail(_: object) -> None:
            raise delegate.DelegationFailed(VERSION, "the registry is down")

        place.upstreams.before = fail
        assert place.rendering().proof is Proof.NONE

    def test_another_bundle_than_upstream_rendered_is_found(self, place: Place) -> None:
        place.publish()
        found = fetch(VERSION, place.ports)
        text = BUNDLE.files["helm-controller.yaml"].replace("- --log-encoding=json", "- --log-encoding=text")
        other = replace(found, bundle=ManifestsBundle({**BUNDLE.files, "helm-controller.yaml": text}))
        made = rendering(other, Options(), place.ports)
        assert made.proof is Proof.NONE
        assert "in Deployment/helm-controller, ours has '- --log-encoding=text'" in made.detail


class TestDelegated:
    def test_the_releases_own_cli_says_what_is_published(self, place: Place) -> None:
        text = UPSTREAMS.replace(*CHANGED)
        place.publish(text)
        asked = render(BUNDLE, VERSION, Options()).replace(*CHANGED)
        place.provide(asked)
        made = place.rendering()
        assert (made.text, made.proof) == (asked, Proof.DELEGATED)
        assert made.detail.startswith("the release's own flux CLI rendered it")

    def test_calibration_comes_first(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        place.publish()
        place.provide(render(BUNDLE, VERSION, Options()))
        monkeypatch.setattr(delegate, "_run", None)
        assert place.rendering().proof is Proof.CALIBRATED

    def test_options_that_upstreams_rendering_does_not_exercise_are_delegated(self, place: Place) -> None:
        place.publish()
        text = render(BUNDLE, VERSION, Options(namespace="fleet"))
        place.provide(text)
        made = place.rendering(**FLEET)
        assert (made.text, made.proof) == (text, Proof.DELEGATED)

    def test_what_could_not_be_cut_off_is_told(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        text = render(BUNDLE, VERSION, Options())
        monkeypatch.setattr("ci_automation.flows.programs.delegate.delegate", lambda *_: delegate.Delegated(text, True))
        assert place.rendering().detail == "the release's own flux CLI rendered it, which ran with access to your files"

    def test_a_release_that_we_cannot_render_is_rendered_by_it(self, place: Place) -> None:
        text = render(BUNDLE, VERSION, Options())
        place.provide(text)
        made = rendering(strange(fetch(VERSION, place.ports)), Options(), place.ports)
        assert (made.text, made.proof) == (text, Proof.DELEGATED)


def strange(found: FetchedRelease) -> FetchedRelease:
    """Return a release whose templates are not of a shape that we know."""
    text = BUNDLE.files["source-controller.yaml"].replace("- --log-level=", "- --verbosity=")
    return replace(found, bundle=ManifestsBundle({**BUNDLE.files, "source-controller.yaml": text}))


class TestNothing:
    def test_all_that_was_tried_is_told(self, place: Place) -> None:
        place.publish(UPSTREAMS.replace(*CHANGED, 1))
        made = place.rendering()
        assert made.proof is Proof.NONE
        assert made.text == render(BUNDLE, VERSION, Options())
        assert "in Deployment/source-controller, ours has '- --watch-all-namespaces=true' and upstream's" in made.detail
        assert "the flux CLI of v2.98.9 did not render: its output is not a components file" in made.detail

    def test_without_upstream_nothing_is_run(self, place: Place) -> None:
        made = rendering(place.world.releases.fetch(VERSION), Options(), place.world.ports())
        assert made.proof is Proof.NONE
        assert "no repository of upstream's own renderings is configured" in made.detail
        assert "upstream's signature on its checksums was not verified, so this run does not start it" in made.detail

    def test_a_release_that_nobody_can_render_is_an_error(self, place: Place) -> None:
        with pytest.raises(TemplateMismatch, match=r"source-controller\.yaml"):
            rendering(strange(fetch(VERSION, place.ports)), Options(), place.ports)

    def test_a_component_that_the_release_lacks_is_told_before_anything_is_tried(self, place: Place) -> None:
        place.world.releases.without = {TAG: ("source-watcher",)}
        with pytest.raises(ComponentMissing, match="no source-watcher"):
            place.rendering(**{"components-extra": "source-watcher"})
        assert place.upstreams.requests == []


class TestFlows:
    """Every place that renders asks the same question."""

    @pytest.fixture
    def started(self, place: Place) -> Place:
        """Return a place whose channel has a known release with defaults."""
        for known in place.world.releases.samples[1:]:
            place.provide("", known.tag)
        init(CHANNEL, Version.parse("v2.98.8"), place.ports, intent(overlay=OVERLAY, **PROVEN))
        return place

    def test_a_calibrated_patch_is_taken_by_itself_and_the_plan_says_how(self, started: Place) -> None:
        started.publish()
        step = make_plan(CHANNEL, started.ports, intent(**PROVEN)).plan.steps[0]
        assert step.new_version == VERSION
        assert (step.decision, step.proof) == (Decision.AUTO, Proof.CALIBRATED)
        assert any("proven: calibrated (upstream's own oci://" in reason for reason in step.reasons)
        assert step.to_json()["proof"] == "calibrated"

    def test_a_changed_template_is_refused_and_named(self, started: Place) -> None:
        started.publish(UPSTREAMS.replace(*CHANGED, 1))
        plan = make_plan(CHANNEL, started.ports, intent(**PROVEN)).plan
        [refused] = [each for each in plan.passed_over if each.version == VERSION]
        assert refused.decision is Decision.REFUSED
        said = "upstream renders v2.98.9 differently: in Deployment/source-controller"
        assert any(said in reason for reason in refused.reasons)

    def test_a_release_that_cannot_be_rendered_is_passed_over(
        self, started: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fetched(version: Version, ports: Ports) -> FetchedRelease:
            found = fetch(version, ports)
            return strange(found) if version == VERSION else found

        monkeypatch.setattr("ci_automation.flows.planning.step.fetch", fetched)
        plan = make_plan(CHANNEL, started.ports, intent(**PROVEN)).plan
        assert [step.new_version for step in plan.steps] == [Version.parse("v2.99.4")]
        [passed] = plan.passed_over
        assert (passed.version, passed.decision) == (VERSION, Decision.REFUSED)
        assert "source-controller.yaml" in passed.reasons[0]

    def test_what_was_delegated_is_published_and_read_again(self, started: Place) -> None:
        text = render(BUNDLE, VERSION, Options()).replace(*CHANGED)
        started.provide(text)
        plan = make_plan(CHANNEL, started.ports, intent(**PROVEN)).plan
        step = plan.steps[0]
        assert (step.new_version, step.proof, step.decision) == (VERSION, Proof.DELEGATED, Decision.AUTO)
        one = replace(plan, steps=(step,))
        assert apply(one, set(), started.ports, intent(**PROVEN)).done == 1
        observed = observe(CHANNEL, started.ports)
        tree = read_archive(started.world.registry.blob(CHANNEL, observed.manifest.layers[0]))
        assert tree[COMPONENTS_PATH].decode() == text
        base = read_base(observed, started.ports, intent())
        assert (base.options, base.edited, base.version) == (Options(), False, VERSION)

    def test_an_edit_of_what_was_delegated_is_shown_against_it(self, started: Place) -> None:
        text = render(BUNDLE, VERSION, Options()).replace(*CHANGED)
        started.provide(text)
        init_text(started, text.replace("replicas: 1", "replicas: 3", 1))
        with pytest.raises(EditedByHand) as caught:
            read_base(observe(CHANNEL.at_tag("other"), started.ports), started.ports, intent())
        assert "+  replicas: 3" in caught.value.diff
        assert "watch-all-namespaces" not in caught.value.diff

    def test_the_first_artifact_needs_a_proof_too(self, place: Place) -> None:
        with pytest.raises(
            UnprovenRendering, match=r"nothing proves that Flux renders v2\.98\.9 .*was not found; the flux CLI of"
        ):
            init(CHANNEL, VERSION, place.ports, intent(**PROVEN))
        assert place.world.channel_digest() is None
        place.publish()
        assert not init(CHANNEL, VERSION, place.ports, intent(**PROVEN)).is_there


@pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock, so the CLI gets no such flag")
class TestFlagsOfTheFuture:
    """A flag that only the CLI of a release knows."""

    ZONED = render(BUNDLE, VERSION, Options()).replace(CHANGED[0], f"{CHANGED[0]}GIVEN")
    SHOWN = "with flags that this program does not know: --zone"

    @pytest.fixture
    def zoned(self, place: Place) -> Place:
        """Return a place whose channel has a known release, and a newer one whose CLI lists the flag."""
        for known in place.world.releases.samples[1:]:
            place.provide("", known.tag)
        init(CHANNEL, Version.parse("v2.98.8"), place.ports, intent(overlay=OVERLAY, **PROVEN))
        place.provide(self.ZONED, flags=("zone", "zone-strict"))
        return place

    def take(self, place: Place) -> PlannedStep:
        """Let the channel have the release with the flag, once a person approved it."""
        plan = make_plan(CHANNEL, place.ports, intent(**ZONE)).plan
        assert apply(plan, {plan.steps[-1].target}, place.ports, intent(**ZONE)).done == len(plan.steps)
        return plan.steps[-1]

    def test_the_cli_is_given_it_and_the_rendering_says_so(self, zoned: Place) -> None:
        made = zoned.rendering(zone="a")
        assert (made.proof, made.text) == (Proof.DELEGATED, self.ZONED.replace("GIVEN", " --zone=a"))
        assert made.detail == f"the release's own flux CLI rendered it {self.SHOWN}"

    @pytest.mark.parametrize(
        ("tag", "flag", "hint"),
        [
            (TAG, "zne", "Did you mean zone?"),
            (TAG, "kubeconfig", "Valid are "),
            ("v2.98.8", "zone", "Valid are "),
            ("v2.98.8", "log-levle", "Did you mean log-level?"),
        ],
        ids=["a typo", "a flag of all commands", "a release that is known", "a typo of a flag that we know"],
    )
    def test_a_flag_of_nobody_names_the_nearest(self, zoned: Place, tag: str, flag: str, hint: str) -> None:
        with pytest.raises(UnknownFlag, match=f"flux install of {tag} has no flag --{flag}$") as caught:
            zoned.rendering(tag, **{flag: "a"})
        assert caught.value.hint.startswith(hint)

    def test_a_cli_that_nobody_vouches_for_is_not_asked(self, zoned: Place) -> None:
        options = Options().with_flags({"zone": "a"})
        with pytest.raises(FlagsNotRendered, match=r"does not know --zone, and the flux CLI .* was not verified"):
            rendering(zoned.world.releases.fetch(VERSION), options, zoned.world.ports())

    def test_it_waits_for_a_person_at_the_first_release_that_has_it(self, zoned: Place) -> None:
        plan = make_plan(CHANNEL, zoned.ports, intent(**ZONE)).plan
        patch, step = plan.steps
        assert (patch.new_version, patch.decision, patch.options) == (VERSION, Decision.AUTO, Options())
        assert (step.kind, step.decision, step.proof) == ("content", Decision.APPROVAL, Proof.DELEGATED)
        assert "the options change: zone (none -> a)" in step.reasons
        assert any(self.SHOWN in gate.reason for gate in step.gates)
        assert self.SHOWN in step_title(step, "->")
        passed = {str(it.version): it for it in plan.passed_over}
        assert passed["v2.99.4"].reasons == ("flux install of v2.99.4 has no flag --zone",)
        assert Plan.parse(plan.to_text().encode()) == plan

    def test_later_runs_know_it_from_the_artifact_and_prove_it_again(self, zoned: Place) -> None:
        step = self.take(zoned)
        observed = observe(CHANNEL, zoned.ports)
        assert stated_flags(observed.manifest) == {"zone": "a"}
        assert stated_options_digest(observed.manifest) == str(step.options.digest)
        base = read_base(observed, zoned.ports, intent())
        assert (base.options, base.edited) == (step.options, False)
        assert history(CHANNEL, zoned.ports).entries[0].origin == "rendered by its own flux CLI with --zone"
        assert rederive(CHANNEL, zoned.ports, intent()).made == step.target
        zoned.provide(self.ZONED.replace("GIVEN", " otherwise"), flags=("zone",))
        with pytest.raises(EditedByHand, match="--zone=a"):
            read_base(observed, zoned.ports, intent())

    @pytest.mark.parametrize("flags", [{}, {"zone": "a"}], ids=["it stays", "it is configured"])
    def test_a_release_without_it_is_refused_and_says_so(self, zoned: Place, flags: dict[str, str]) -> None:
        self.take(zoned)
        plan = make_plan(CHANNEL, zoned.ports, intent(flags=flags, **PROVEN)).plan
        assert plan.steps == ()
        passed = {str(it.version): it for it in plan.passed_over}["v2.99.4"]
        assert (passed.decision, passed.reasons) == (Decision.REFUSED, ("flux install of v2.99.4 has no flag --zone",))

    def test_an_empty_value_takes_it_away_after_an_approval(self, zoned: Place) -> None:
        self.take(zoned)
        plan = make_plan(CHANNEL, zoned.ports, intent(flags={"zone": ""}, **PROVEN)).plan
        content, minor = plan.steps
        assert (content.kind, content.decision) == ("content", Decision.APPROVAL)
        assert "the options change: zone (a -> none)" in content.reasons
        assert (minor.new_version, minor.options) == (Version.parse("v2.99.4"), Options())

    def test_a_flag_of_no_release_of_the_plan_stops_the_run(self, zoned: Place) -> None:
        with pytest.raises(UnknownFlag, match=r"has no flag --zome$"):
            make_plan(CHANNEL, zoned.ports, intent(flags={"zome": "a"}, **PROVEN))

    def test_a_check_that_finds_nothing_fetches_no_cli(self, zoned: Place) -> None:
        self.take(zoned)
        zoned.world.releases.assets.clear()
        none = Policy(actions=dict.fromkeys(BUMPS, Action.NEVER))
        assert make_plan(CHANNEL, zoned.ports, intent(policy=none, **ZONE)).plan.steps == ()


def init_text(place: Place, text: str) -> None:
    """Publish a components file with this text, signed by us, at the tag `other`."""
    place.provide(text)
    init(CHANNEL.at_tag("other"), VERSION, place.ports, intent())
    place.provide(render(BUNDLE, VERSION, Options()).replace(*CHANGED))
