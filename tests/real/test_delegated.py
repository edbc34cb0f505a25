"""Proof of rendering on what is real: Flux's releases, its own renderer, and its own program in a release's archive."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import platform
import re
import shutil
import tarfile
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.flows.init import init
from ci_automation.flows.observe import observe
from ci_automation.flows.planning.base import read_base
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.ports import Ports, Upstream
from ci_automation.flows.programs import delegate
from ci_automation.flows.programs.delegate import DelegationFailed
from ci_automation.flows.rendering import fetch, rendering
from ci_automation.flows.update import update
from ci_automation.flux.bundle import ManifestsBundle, checksums_name, proof_names
from ci_automation.flux.options import COMPONENTS, KNOWN_FLAGS, Options, UnknownFlag
from ci_automation.flux.proof import NotCalibrated, Proof, calibrate, is_known
from ci_automation.flux.render import render
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.version import Version
from ci_automation.policy.model import Policy
from ci_automation.signing.sigstore.root import TrustRoot
from ci_automation.signing.upstream import upstream_identity
from tests.fakes import upstream
from tests.fakes.programs import has_landlock, program_name
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.world import CHANNEL, World, intent
from tests.real.make_known import cases
from tests.real.peers import FLUX, peer
from tests.real.renderer import flux_renderings, values

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.flows.ports import Intent
    from ci_automation.flux.advisories import Advisory
    from ci_automation.flux.release import FetchedRelease, Release, ReleaseSource
    from tests.fakes.sigstore import LocalSigstore

RELEASE, BEFORE = f"v{FLUX}", "v2.9.3"
VERSION = Version.parse(RELEASE)
PROGRAM = program_name(RELEASE)
FLEET = Options(namespace="fleet", toleration_keys=("a", "b/c"))
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the peer is built for the machine it runs on")


@cache
def packed() -> bytes:
    """Return the real flux CLI in an archive as upstream packs it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz", compresslevel=1) as archive:
        archive.add(peer("flux"), "flux")
    return data.getvalue()


@pytest.fixture(scope="module")
def ports(local: LocalSigstore, flux_releases: Path, golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Ports:
    """Return a world with two releases as upstream publishes them: checksums that name the CLI, and their signature."""
    folder = tmp_path_factory.mktemp("releases")
    shutil.copytree(flux_releases, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
    registry = InMemoryRegistry()
    for tag in (RELEASE, BEFORE):
        version, place = Version.parse(tag), folder / tag
        place.chmod(0o755)
        names, checksums = proof_names(version), (place / checksums_name(version)).read_bytes()
        if tag == RELEASE:
            (place / PROGRAM).write_bytes(packed())
            checksums += f"{hashlib.sha256(packed()).hexdigest()}  {PROGRAM}\n".encode()
        (place / checksums_name(version)).write_bytes(checksums)
        made = local.sign_detached(checksums, identity=upstream_identity(version))
        (place / names.signature).write_bytes(base64.b64encode(made.signature))
        (place / names.certificate).write_bytes(base64.b64encode(made.certificate.encode()))
        (place / names.log_entry).write_text(made.entry)
        text = gzip.decompress((golden / "text" / tag / "all-seven.yaml.gz").read_bytes()).decode()
        upstream.publish(registry, version, local, text=text)
    (folder / "root.json").write_bytes(local.trusted_root)
    trusted = Upstream(
        TrustRoot.from_file(folder / "root.json"),
        required=True,
        manifests=upstream.MANIFESTS,
        find_registry=lambda: registry,
    )
    return replace(World().ports(), releases=DirectorySource(folder), find_upstream=lambda: trusted)


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this version of the program be older than all releases."""
    monkeypatch.setattr("ci_automation.flows.rendering.is_known", lambda *_: False)


class TestDelegated:
    @pytest.mark.parametrize(
        "case", ["default", "all-seven", "watcher-first", "source-only", "image-only", "everything"]
    )
    def test_the_real_cli_renders_what_it_renders_for_everybody(self, case: str, golden: Path, ports: Ports) -> None:
        made = delegate.delegate(fetch(VERSION, ports), cases(golden)[case], ports.releases)
        expected = json.loads((golden / "golden.json").read_text())[RELEASE][case]
        assert hashlib.sha256(made.text.encode()).hexdigest() == expected
        assert made.files_in_reach is not has_landlock()

    def test_the_cli_of_another_version_is_refused(self, ports: Ports) -> None:
        found = fetch(VERSION, ports)
        name = program_name("v2.9.5")
        files = replace(found.files, checksums=f"{hashlib.sha256(packed()).hexdigest()}  {name}\n".encode())
        later = replace(found, release=replace(found.release, version=Version.parse("v2.9.5")), files=files)

        with pytest.raises(DelegationFailed, match="not a components file of this version"):
            delegate.delegate(later, Options(), Programs(ports.releases, packed()))

    def test_what_it_does_not_know_is_told_in_its_own_words(
        self, ports: Ports, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(delegate, "flux_arguments", lambda _: ["--components=sauce-controller"])
        with pytest.raises(DelegationFailed, match=r"it ended with the code 1: .*sauce-controller"):
            delegate.delegate(fetch(VERSION, ports), Options(), ports.releases)


@pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock, so the CLI gets no such flag")
class TestFlagsOfTheFuture:
    @pytest.mark.usefixtures("unknown")
    def test_a_flag_that_only_the_cli_knows_is_rendered_by_it_byte_for_byte(
        self, ports: Ports, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = render(fetch(VERSION, ports).bundle, VERSION, Options(log_level="debug"))
        monkeypatch.delitem(KNOWN_FLAGS, "log-level")
        own = empty(ports)
        first = init(CHANNEL, VERSION, own, proven(flags={"log-level": "debug"}))
        assert first.publication.composed.recipe.options.others == (("log-level", "debug"),)
        observed = observe(CHANNEL, own)
        base = read_base(observed, own, proven())
        assert (base.components, base.options.unknown_flags) == (expected, "--log-level")
        with pytest.raises(UnknownFlag, match=r"v2\.9\.4 has no flag --log-levle") as caught:
            make_plan(CHANNEL, own, proven(flags={"log-levle": "debug"}))
        assert caught.value.hint == "Did you mean log-level?"
        [refused] = make_plan(CHANNEL, own, proven(flags={"log-level": "loud"})).plan.passed_over
        assert re.search(r"does not know --log-level, and .* ended with the code 1: .*'loud'", refused.reasons[0])


class TestTheDigest:
    """However the rendering was proven, the artifact is the same."""

    @pytest.mark.parametrize(
        ("flags", "proof"),
        [
            pytest.param({}, Proof.CALIBRATED, id="defaults"),
            pytest.param(FLEET.differing(), Proof.DELEGATED, id="other options"),
        ],
    )
    def test_is_that_of_the_known_release(
        self, flags: dict[str, Any], proof: Proof, ports: Ports, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        known = init(CHANNEL, VERSION, empty(ports), proven(flags=flags)).digest
        with monkeypatch.context() as patch:
            patch.setattr("ci_automation.flows.rendering.is_known", lambda *_: False)
            own = empty(ports)
            init(CHANNEL, Version.parse(BEFORE), own, intent(flags=flags))
            [step] = make_plan(CHANNEL, own, proven()).plan.steps
            assert (step.new_version, step.proof, step.target) == (VERSION, proof, known)
            # What 2.9.4 narrows would wait for a person.
            assert update(CHANNEL, own, proven(policy=Policy(escalate=frozenset()))).done == 1
        assert own.registry.resolve(CHANNEL) == known


def empty(ports: Ports) -> Ports:
    """Return the same world with an empty registry of ours."""
    return replace(ports, registry=InMemoryRegistry())


def proven(**changes: Any) -> Intent:
    """Return an intent that takes nothing unproven."""
    return intent(unsafe_unproven_rendering=False, **changes)


class TestCalibration:
    """A release of the future with the files of a real one, and what Flux's own renderer makes of it."""

    def test_an_unchanged_template_passes(self, flux_releases: Path) -> None:
        version = Version.parse("v2.9.5")
        bundle = future(flux_releases, RELEASE, "source-controller:v", "source-controller:v9")
        assert not is_known(bundle, version)
        options = Options(components=COMPONENTS)
        [theirs] = flux_renderings({"v2.9.5": bundle}, [("v2.9.5", values(options))])
        calibrate(theirs, bundle, version, Options())

    def test_an_argument_that_the_release_edited_is_still_rendered_as_flux_does(self, flux_releases: Path) -> None:
        version = Version.parse("v2.9.5")
        bundle = future(flux_releases, RELEASE, "- --log-encoding=json", "- --log-encoding=console")
        [theirs] = flux_renderings({"v2.9.5": bundle}, [("v2.9.5", values(Options(components=COMPONENTS)))])
        calibrate(theirs, bundle, version, Options())

    def test_a_changed_template_is_refused_and_says_which(self, flux_releases: Path, golden: Path) -> None:
        """2.7.2 changed the templates in a patch: 2.7.0's own text is not what 2.7.2's rules make of its bundle."""
        version = Version.parse("v2.7.6")
        bundle = bundle_of(flux_releases, "v2.7.0")
        text = gzip.decompress((golden / "text" / "v2.7.0" / "all-six.yaml.gz").read_bytes()).decode()
        theirs = re.sub(r"(?m)(Flux Version: |kubernetes\.io/version: )v2\.7\.0$", r"\1v2.7.6", text)
        said = (
            "in Deployment/source-controller, ours has '- --events-addr=http://notification-controller."
            "$(RUNTIME_NAMESPACE).svc.cluster.local./' and upstream's has '- --events-addr=http://"
            "notification-controller.flux-system.svc.cluster.local./'"
        )
        with pytest.raises(NotCalibrated, match=re.escape(said)):
            calibrate(theirs, bundle, version, Options())

    def test_every_real_release_would_have_been_calibrated(self, flux_releases: Path, golden: Path) -> None:
        for release in DirectorySource(flux_releases).list():
            tag = str(release.version)
            name = "all-seven" if release.version >= Version.parse("v2.9.3") else "all-six"
            theirs = gzip.decompress((golden / "text" / tag / f"{name}.yaml.gz").read_bytes()).decode()
            calibrate(theirs, bundle_of(flux_releases, tag), release.version, Options())

    @pytest.mark.usefixtures("unknown")
    def test_a_changed_template_is_delegated_where_the_cli_is_there(self, ports: Ports, local: LocalSigstore) -> None:
        changed = InMemoryRegistry()
        assert ports.upstream is not None
        text = rendering(fetch(VERSION, ports), Options(components=COMPONENTS), ports).text
        upstream.publish(changed, VERSION, local, text=text.replace("--watch-all-namespaces=true", "--watch=true", 1))
        assert ports.upstream is not None
        other_place = replace(ports.upstream, find_registry=lambda: changed)
        other = replace(ports, find_upstream=lambda: other_place)
        made = rendering(fetch(VERSION, other), Options(), other)
        assert made.proof is Proof.DELEGATED
        without = replace(other, releases=Programs(other.releases))
        made = rendering(fetch(VERSION, without), Options(), without)
        assert made.proof is Proof.NONE
        assert "upstream's has '- --watch=true'" in made.detail
        assert f"the source of releases has no {PROGRAM}" in made.detail


@dataclass(frozen=True, slots=True)
class Programs:
    """A source of releases that has this program alone, or none."""

    source: ReleaseSource
    program: bytes | None = None

    def list(self, newer_than: Version | None = None) -> tuple[Release, ...]:
        """Return the releases."""
        return self.source.list(newer_than)

    def fetch(self, version: Version) -> FetchedRelease:
        """Return a release."""
        return self.source.fetch(version)

    def advisories(self) -> tuple[Advisory, ...]:
        """Return none."""
        return ()

    def asset(self, version: Version, name: str, limit: int) -> bytes | None:
        """Return the program, whatever is asked for."""
        assert (name, len(self.program or b"") <= limit) == (program_name(str(version)), True)
        return self.program


def bundle_of(releases: Path, tag: str) -> ManifestsBundle:
    """Return the bundle of a real release."""
    return ManifestsBundle.from_archive((releases / tag / "manifests.tar.gz").read_bytes())


def future(releases: Path, tag: str, old: str, new: str) -> ManifestsBundle:
    """Return the bundle of a real release with something else in source-controller.yaml."""
    files = dict(bundle_of(releases, tag).files)
    assert old in files["source-controller.yaml"]
    files["source-controller.yaml"] = files["source-controller.yaml"].replace(old, new, 1)
    return ManifestsBundle(files)
