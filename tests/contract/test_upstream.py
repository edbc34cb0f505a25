"""Only what Flux's own release workflow signed for that very version is taken; anything else in its place is told."""

from __future__ import annotations

import base64
import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.errors import ReleaseSourceError, VerificationFailed
from ci_automation.flows.init import init
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.ports import Ports, Upstream
from ci_automation.flows.rendering import fetch, find_artifact, render_release
from ci_automation.flows.update import update
from ci_automation.flux.bundle import ReleaseFiles, checksums_name, proof_names
from ci_automation.flux.options import Options
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.sources.github import GitHubSource
from ci_automation.flux.version import Version
from ci_automation.github.client import GitHub
from ci_automation.net.network import Network
from ci_automation.net.waiting import Clock, Patience
from ci_automation.registry.port import NotFound
from ci_automation.signing.sigstore.exchange import SigstoreExchange
from ci_automation.signing.trust import Identity
from ci_automation.signing.upstream import (
    ISSUER,
    RekorLog,
    RekorUnreachable,
    UpstreamForged,
    UpstreamUnsigned,
    upstream_identity,
    verify_upstream,
)
from tests.fakes.forge import TOKEN, Forge
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.releases import SampleRelease, signed, write_releases
from tests.fakes.sigstore import Fault, LocalSigstore
from tests.fakes.sigstore.logs import Log
from tests.fakes.sigstore.signing import faults
from tests.fakes.upstream import MANIFESTS, publish
from tests.fakes.world import CHANNEL, MINOR, OLD, PATCH, World, intent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ci_automation.flux.release import ReleaseSource
    from ci_automation.signing.sigstore.root import TrustRoot

V, V293 = Version.parse("v2.9.4"), Version.parse("v2.9.3")
RELEASE = SampleRelease("v2.9.4")
OURS = upstream_identity(V)
FORK = Identity(ISSUER, "https://github.com/attacker/flux2/.github/workflows/release.yaml@refs/tags/v2.9.4")
GITLAB = Identity("https://gitlab.com", OURS.subject)


class NoLog(RekorLog):
    """A log that must not be asked."""

    def __init__(self) -> None:
        super().__init__(lambda: "")

    def find(self, message: bytes, signature: bytes, certificate: str) -> str | None:
        raise AssertionError((message, signature, certificate))


@pytest.fixture
def log(local: LocalSigstore) -> RekorLog:
    """Return the log of that Sigstore, with a client that does not wait."""
    waiting = Patience(clock=Clock(sleep=lambda _: None))
    return RekorLog(lambda: local.url, SigstoreExchange(Network(), waiting))


def proof(root: TrustRoot, *, required: bool = True) -> Upstream:
    """Return a proof of upstream's with a repository that has nothing."""
    return Upstream(root, required, MANIFESTS, InMemoryRegistry)


def files_of(release: SampleRelease, entry: str | None = None) -> ReleaseFiles:
    """Return what a source hands out of a release."""
    assets, names = release.assets, proof_names(V)
    return ReleaseFiles(
        assets[checksums_name(V)],
        release.bundle,
        assets.get(names.signature),
        assets.get(names.certificate),
        entry.encode() if entry is not None else None,
    )


def stored(local: LocalSigstore, **how: Any) -> ReleaseFiles:
    """Return a signed release with the log's entry beside it, as a mirror has it."""
    message = RELEASE.assets[checksums_name(V)]
    made = local.sign_detached(message, **{"identity": OURS, **how})
    certificate = base64.b64encode(made.certificate.encode())
    return ReleaseFiles(message, RELEASE.bundle, base64.b64encode(made.signature), certificate, made.entry.encode())


def test_upstreams_own_signature_holds_with_the_entry_looked_up(
    local: LocalSigstore, root: TrustRoot, log: RekorLog
) -> None:
    local.requests.clear()
    vouched = verify_upstream(V, files_of(signed(RELEASE, local)), root, log)
    assert vouched.identity == Identity(
        "https://token.actions.githubusercontent.com",
        "https://github.com/fluxcd/flux2/.github/workflows/release.yaml@refs/tags/v2.9.4",
    )
    assert local.requests == [("POST", "/api/v1/log/entries/retrieve")]


def test_what_was_looked_up_holds_afterwards_without_the_log(
    local: LocalSigstore, root: TrustRoot, log: RekorLog
) -> None:
    files = files_of(signed(RELEASE, local))
    entry = verify_upstream(V, files, root, log).log_entry
    again = verify_upstream(V, replace(files, log_entry=entry), root, NoLog())
    assert (again.identity, again.log_entry) == (OURS, entry)


@pytest.mark.parametrize("wrap", [base64.b64encode, base64.encodebytes, bytes], ids=["cosign", "lines", "plain PEM"])
def test_the_certificate_may_be_wrapped_as_cosign_does_or_not(
    local: LocalSigstore, root: TrustRoot, wrap: Callable[[bytes], bytes]
) -> None:
    files = stored(local)
    assert files.certificate is not None
    plain = base64.b64decode(files.certificate)
    assert verify_upstream(V, replace(files, certificate=wrap(plain)), root, NoLog()).identity == OURS


def test_a_signature_may_end_in_a_line_feed(local: LocalSigstore, root: TrustRoot) -> None:
    files = stored(local)
    assert files.signature is not None
    assert verify_upstream(V, replace(files, signature=files.signature + b"\n"), root, NoLog()).identity == OURS


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        pytest.param(upstream_identity(V293), "release.yaml@refs/tags/v2.9.3", id="another version's run"),
        pytest.param(FORK, "attacker/flux2", id="another repository's workflow"),
        pytest.param(
            Identity(ISSUER, OURS.subject.replace("release.yaml", "e2e.yaml")), "e2e.yaml", id="another workflow"
        ),
        pytest.param(
            Identity(ISSUER, OURS.subject.replace("tags", "heads")), "refs/heads/v2.9.4", id="a branch of that name"
        ),
        pytest.param(Identity(ISSUER, f"{OURS.subject}0"), "v2.9.40", id="a version that begins the same"),
        pytest.param(GITLAB, "https://gitlab.com", id="another issuer"),
        pytest.param(Identity(f"{ISSUER}/acme", OURS.subject), f"{ISSUER}/acme", id="an issuer that begins the same"),
    ],
)
@pytest.mark.parametrize("offline", [True, False], ids=["stored entry", "looked up"])
def test_somebody_elses_signature_is_refused_by_name(
    local: LocalSigstore, root: TrustRoot, log: RekorLog, identity: Identity, said: str, *, offline: bool
) -> None:
    files = stored(local, identity=identity)
    with pytest.raises(UpstreamForged, match="is not signed by Flux") as caught:
        verify_upstream(V, files if offline else replace(files, log_entry=None), root, log)
    assert said in str(caught.value)
    assert str(OURS) in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "offline"),
    [
        pytest.param(fault, offline, id=f"{fault.name}-{'stored entry' if offline else 'looked up'}")
        for fault in sorted(faults("detached", 1), key=str)
        for offline in (True, False)
        if offline or fault is not Fault.PROMISE  # the log itself promises nothing wrong
    ],
)
def test_a_signature_with_one_thing_wrong_is_refused(
    local: LocalSigstore, root: TrustRoot, log: RekorLog, fault: Fault, *, offline: bool
) -> None:
    files = stored(local, fault=fault)
    with pytest.raises(UpstreamForged):
        verify_upstream(V, files if offline else replace(files, log_entry=None), root, log)


def damaged(data: bytes | None) -> bytes:
    """Return data with one bit of its middle changed, that base64 still can be."""
    assert data is not None
    middle = len(data) // 2
    return data[:middle] + (b"A" if data[middle : middle + 1] != b"A" else b"B") + data[middle + 1 :]


CHANGES: dict[str, Callable[[ReleaseFiles, ReleaseFiles], ReleaseFiles]] = {
    "a checksum": lambda mine, _: replace(mine, checksums=mine.checksums.replace(b"a", b"b", 1)),
    "a line more": lambda mine, _: replace(mine, checksums=mine.checksums + b"0" * 64 + b"  flux\n"),
    "a damaged signature": lambda mine, _: replace(mine, signature=damaged(mine.signature)),
    "a damaged certificate": lambda mine, _: replace(mine, certificate=damaged(mine.certificate)),
    "a damaged entry": lambda mine, _: replace(mine, log_entry=damaged(mine.log_entry)),
    "another's signature": lambda mine, other: replace(mine, signature=other.signature),
    "another's certificate": lambda mine, other: replace(mine, certificate=other.certificate),
    "another's entry": lambda mine, other: replace(mine, log_entry=other.log_entry),
    "no signature": lambda mine, _: replace(mine, signature=None),
    "no certificate": lambda mine, _: replace(mine, certificate=None),
    "an empty signature": lambda mine, _: replace(mine, signature=b""),
    "an empty certificate": lambda mine, _: replace(mine, certificate=b""),
    "an empty entry": lambda mine, _: replace(mine, log_entry=b""),
    "garbage for a signature": lambda mine, _: replace(mine, signature=b"\xff\x00garbage"),
    "garbage for a certificate": lambda mine, _: replace(mine, certificate=b"\xff\x00garbage"),
    "garbage in a PEM": lambda mine, _: replace(mine, certificate=b"-----BEGIN CERTIFICATE-----\n\xff"),
    "garbage for an entry": lambda mine, _: replace(mine, log_entry=b"\xff\x00garbage"),
    "JSON of another form": lambda mine, _: replace(mine, log_entry=b'{"Payload": {"body": 7}}'),
    "JSON without end": lambda mine, _: replace(mine, log_entry=b"[" * 60_000),
    "an entry that promises nothing": lambda mine, _: replace(
        mine, log_entry=json.dumps({**json.loads(mine.log_entry or b""), "SignedEntryTimestamp": ""}).encode()
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_is_tampered_with_is_an_error_and_never_unsigned(
    local: LocalSigstore, root: TrustRoot, change: Callable[[ReleaseFiles, ReleaseFiles], ReleaseFiles]
) -> None:
    other = b"of another file"
    made = local.sign_detached(other, OURS)
    certificate = base64.b64encode(made.certificate.encode())
    another = ReleaseFiles(other, b"", base64.b64encode(made.signature), certificate, made.entry.encode())
    with pytest.raises(UpstreamForged, match=r"flux_2\.9\.4_checksums\.txt of v2\.9\.4 is not signed by Flux"):
        verify_upstream(V, change(stored(local), another), root, NoLog())


def test_a_whole_release_of_another_version_is_refused(local: LocalSigstore, root: TrustRoot) -> None:
    old = stored(local, identity=upstream_identity(V293))
    assert verify_upstream(V293, old, root, NoLog()).identity == upstream_identity(V293)
    with pytest.raises(UpstreamForged, match=r"refs/tags/v2\.9\.3"):
        verify_upstream(V, old, root, NoLog())


def test_a_signature_of_long_ago_holds_although_its_certificate_has_expired(
    local: LocalSigstore, root: TrustRoot
) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=400)
    assert verify_upstream(V, stored(local, at=long_ago), root, NoLog()).identity == OURS


def test_another_sigstores_word_does_not_count(root: TrustRoot) -> None:
    with LocalSigstore() as stranger, pytest.raises(UpstreamForged):
        verify_upstream(V, stored(stranger), root, NoLog())


def test_no_signature_at_all_is_told_from_a_wrong_one(root: TrustRoot) -> None:
    with pytest.raises(UpstreamUnsigned, match=r"flux_2\.9\.4_checksums\.txt of v2\.9\.4 is not signed") as caught:
        verify_upstream(V, files_of(RELEASE), root, NoLog())
    assert "`mirror` filled" in caught.value.hint


def test_an_entry_alone_is_no_signature(root: TrustRoot) -> None:
    with pytest.raises(UpstreamUnsigned):
        verify_upstream(V, files_of(RELEASE, "{}"), root, NoLog())


def test_both_are_failures_of_verification() -> None:
    assert UpstreamForged.exit_code == UpstreamUnsigned.exit_code == VerificationFailed.exit_code == 10
    assert RekorUnreachable.exit_code == ReleaseSourceError.exit_code == 21


class TestTheLog:
    """The log is searched with patience, and believed nothing."""

    def test_what_others_log_about_the_same_file_is_not_even_seen(
        self, local: LocalSigstore, root: TrustRoot, log: RekorLog
    ) -> None:
        for _ in range(40):
            local.sign_detached(RELEASE.assets[checksums_name(V)], FORK)
        files = files_of(signed(RELEASE, local))
        local.requests.clear()
        assert verify_upstream(V, files, root, log).identity == OURS
        assert len(local.requests) == 1

    def test_of_a_signature_that_was_logged_again_the_first_time_counts(
        self, local: LocalSigstore, root: TrustRoot, log: RekorLog
    ) -> None:
        files = files_of(signed(RELEASE, local))
        rekor = local.services.rekor1
        latest = rekor.entries[-1]
        Log.add(rekor, latest.body, latest.at + 86_400)  # another shard does not know what the first one has
        assert verify_upstream(V, files, root, log).identity == OURS

    def test_a_signature_that_was_never_logged_is_refused(
        self, local: LocalSigstore, root: TrustRoot, log: RekorLog
    ) -> None:
        with pytest.raises(UpstreamForged, match="the transparency log has no entry for its signature"):
            verify_upstream(V, files_of(signed(RELEASE, local, fault=Fault.LOG)), root, log)

    @pytest.mark.parametrize("answer", [429, 500, 502, 503, "reset"])
    def test_it_is_asked_again_when_it_is_busy(
        self, local: LocalSigstore, root: TrustRoot, log: RekorLog, answer: int | str
    ) -> None:
        files = files_of(signed(RELEASE, local))
        local.fail("rekor", answer, answer)
        assert verify_upstream(V, files, root, log).identity == OURS

    def test_it_is_not_asked_for_ever(self, local: LocalSigstore, root: TrustRoot, log: RekorLog) -> None:
        files = files_of(signed(RELEASE, local))
        local.requests.clear()
        local.fail("rekor", *[500] * 4)
        with pytest.raises(RekorUnreachable, match="500") as caught:
            verify_upstream(V, files, root, log)
        assert len(local.requests) == 4
        assert "`mirror` filled" in caught.value.hint

    def test_what_no_log_takes_is_in_none(self, local: LocalSigstore, root: TrustRoot, log: RekorLog) -> None:
        files = files_of(signed(RELEASE, local))
        with pytest.raises(UpstreamForged, match="has no entry"):
            verify_upstream(V, replace(files, checksums=files.checksums + b"\n"), root, log)

    @pytest.mark.parametrize("status", [200, 301, 401, 403])
    def test_what_it_answers_otherwise_is_told_at_once(
        self, local: LocalSigstore, root: TrustRoot, log: RekorLog, status: int
    ) -> None:
        files = files_of(signed(RELEASE, local))
        local.fail("rekor", status)
        with pytest.raises(RekorUnreachable, match=str(status)):
            verify_upstream(V, files, root, log)

    def test_a_log_that_is_not_there_is_told(self, local: LocalSigstore, root: TrustRoot) -> None:
        gone = RekorLog(lambda: "http://127.0.0.1:9", SigstoreExchange(Network(), Patience(attempts=1)))
        with pytest.raises(RekorUnreachable, match="nothing listens there"):
            verify_upstream(V, files_of(signed(RELEASE, local)), root, gone)

    def test_it_is_not_spoken_to_in_the_clear(self, local: LocalSigstore, root: TrustRoot) -> None:
        clear = RekorLog(lambda: "http://rekor.example")
        with pytest.raises(RekorUnreachable, match="without TLS"):
            verify_upstream(V, files_of(signed(RELEASE, local)), root, clear)


@pytest.fixture(params=["directory", "GitHub"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., ReleaseSource]]:
    """Yield the function that makes a source of some releases."""
    folder = tmp_path / "releases"
    with Forge(releases=folder) as github:
        client = GitHub(TOKEN, github.url)

        def made(*samples: SampleRelease) -> ReleaseSource:
            write_releases(folder, samples)
            return DirectorySource(folder) if request.param == "directory" else GitHubSource(client)

        yield made
        client.close()


class TestFetching:
    """A flow takes a release from its source and has it vouched for."""

    def ports(self, releases: ReleaseSource, upstream: Upstream | None) -> Ports:
        self.said: list[str] = []
        return Ports(InMemoryRegistry(), releases, find_upstream=lambda: upstream, say=self.said.append)

    def test_a_release_comes_with_who_vouches_for_it(
        self, source: Callable[..., ReleaseSource], local: LocalSigstore, root: TrustRoot
    ) -> None:
        found = fetch(V, self.ports(source(signed(RELEASE, local)), proof(root)))
        assert found.vouched == str(OURS)
        assert found.files.log_entry is not None
        assert self.said == [f"flux_2.9.4_checksums.txt is signed by {OURS}"]

    def test_the_log_is_asked_once_for_a_release_in_a_run(
        self, source: Callable[..., ReleaseSource], local: LocalSigstore, root: TrustRoot
    ) -> None:
        old = SampleRelease("v2.9.3")
        ports = self.ports(source(signed(RELEASE, local), signed(old, local)), proof(root))
        local.requests.clear()
        first = fetch(V, ports)
        assert len(local.requests) == 1
        assert fetch(V, ports) == first
        assert len(local.requests) == 1
        fetch(V293, ports)
        assert len(local.requests) == 2

    def test_what_has_changed_since_is_not_remembered_as_good(
        self, tmp_path: Path, local: LocalSigstore, root: TrustRoot
    ) -> None:
        folder = write_releases(tmp_path / "releases", [signed(RELEASE, local)])
        ports = self.ports(DirectorySource(folder), proof(root))
        fetch(V, ports)
        write_releases(
            folder, [dataclasses.replace(signed(RELEASE, local), programs={"flux_2.9.4_linux_amd64.tar.gz": b"evil"})]
        )
        with pytest.raises(UpstreamForged):
            fetch(V, ports)

    def test_an_unsigned_release_is_refused_where_signatures_are_required(
        self, source: Callable[..., ReleaseSource], root: TrustRoot
    ) -> None:
        with pytest.raises(UpstreamUnsigned):
            fetch(V, self.ports(source(RELEASE), proof(root)))

    def test_it_is_let_through_and_said_so_where_they_are_not(
        self, source: Callable[..., ReleaseSource], root: TrustRoot
    ) -> None:
        found = fetch(V, self.ports(source(RELEASE), proof(root, required=False)))
        assert found.vouched is None
        assert self.said == ["flux_2.9.4_checksums.txt is not signed, so nothing proves v2.9.4"]

    @pytest.mark.parametrize("required", [True, False])
    @pytest.mark.parametrize("missing", ["sig", "pem"])
    def test_half_a_signature_is_a_wrong_one(
        self,
        source: Callable[..., ReleaseSource],
        local: LocalSigstore,
        root: TrustRoot,
        missing: str,
        *,
        required: bool,
    ) -> None:
        half = dataclasses.replace(signed(RELEASE, local), without=(f"flux_2.9.4_checksums.txt.{missing}",))
        with pytest.raises(UpstreamForged, match="is missing"):
            fetch(V, self.ports(source(half), proof(root, required=required)))

    @pytest.mark.parametrize("required", [True, False])
    def test_a_wrong_signature_is_refused_wherever(
        self, source: Callable[..., ReleaseSource], local: LocalSigstore, root: TrustRoot, *, required: bool
    ) -> None:
        releases = source(signed(RELEASE, local, identity=FORK))
        with pytest.raises(UpstreamForged, match="attacker/flux2"):
            fetch(V, self.ports(releases, proof(root, required=required)))

    def test_nothing_is_checked_where_nothing_is_known_of_upstream(
        self, source: Callable[..., ReleaseSource], local: LocalSigstore
    ) -> None:
        local.requests.clear()
        assert fetch(V, self.ports(source(signed(RELEASE, local)), None)).vouched is None
        assert local.requests == []


class TestUpstreamsArtifact:
    """What upstream rendered itself counts if its release workflow signed it."""

    def ports(self, registry: InMemoryRegistry, root: TrustRoot, *, required: bool = True) -> Ports:
        upstream = Upstream(root, required, MANIFESTS, lambda: registry)
        return Ports(InMemoryRegistry(), DirectorySource, find_upstream=lambda: upstream)  # type: ignore[arg-type]  # not asked

    @pytest.mark.parametrize("form", ["legacy", "bundle"])
    def test_it_is_found_with_who_vouches_for_it(self, local: LocalSigstore, root: TrustRoot, form: str) -> None:
        registry = InMemoryRegistry()
        digest = publish(registry, V, local, form=form)
        found = find_artifact(V, self.ports(registry, root))
        assert found is not None
        assert (found.digest, found.vouched) == (digest, str(OURS))

    @pytest.mark.parametrize("identity", [upstream_identity(V293), FORK, GITLAB], ids=["version", "fork", "issuer"])
    @pytest.mark.parametrize("required", [True, False])
    def test_somebody_elses_is_refused(
        self, local: LocalSigstore, root: TrustRoot, identity: Identity, *, required: bool
    ) -> None:
        registry = InMemoryRegistry()
        publish(registry, V, local, identity=identity)
        with pytest.raises(UpstreamForged, match=r"flux-manifests:v2\.9\.4|flux-manifests@sha256"):
            find_artifact(V, self.ports(registry, root, required=required))

    def test_the_signature_of_another_digest_is_refused(self, local: LocalSigstore, root: TrustRoot) -> None:
        registry = InMemoryRegistry()
        old, new = publish(registry, V, local), publish(registry, V, None, text="# planted\n")
        place = registry.repositories[str(MANIFESTS.repository)]
        place.tags[f"sha256-{new.hex}.sig"] = place.tags[f"sha256-{old.hex}.sig"]
        with pytest.raises(UpstreamForged):
            find_artifact(V, self.ports(registry, root))

    def test_an_unsigned_one_counts_only_where_that_may_be(self, root: TrustRoot) -> None:
        registry = InMemoryRegistry()
        publish(registry, V, None)
        with pytest.raises(UpstreamUnsigned):
            find_artifact(V, self.ports(registry, root))
        found = find_artifact(V, self.ports(registry, root, required=False))
        assert found is not None
        assert found.vouched is None

    def test_one_that_is_not_there_is_not_found(self, root: TrustRoot) -> None:
        with pytest.raises(NotFound, match=r"v2\.9\.4"):
            find_artifact(V, self.ports(InMemoryRegistry(), root))

    def test_it_is_not_looked_for_where_nothing_is_known_of_upstream(self) -> None:
        ports = Ports(InMemoryRegistry(), DirectorySource)  # type: ignore[arg-type]  # same
        assert find_artifact(V, ports) is None


class TestTheFlows:
    """Whatever is rendered to be published, or to be proven, was vouched for first."""

    def world(self, root: TrustRoot) -> tuple[World, Ports]:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent())
        return world, replace(world.ports(), find_upstream=lambda: proof(root))

    def test_nothing_is_published_of_what_nobody_vouches_for(self, root: TrustRoot) -> None:
        world, ports = self.world(root)
        before = world.contents()
        for flow in (
            lambda: init(CHANNEL.at_tag("other"), PATCH, ports, intent()),
            lambda: update(CHANNEL, ports, intent()),
            lambda: make_plan(CHANNEL, ports, intent()),
            lambda: render_release(PATCH, Options(), ports),
        ):
            with pytest.raises(UpstreamUnsigned):
                flow()
        assert world.contents() == before

    def test_a_forged_release_is_not_published_either(self, local: LocalSigstore, root: TrustRoot) -> None:
        world, ports = self.world(root)
        before = world.contents()
        for version in (OLD, PATCH, MINOR):
            world.releases.files[str(version)] = stored(local, identity=FORK)
        with pytest.raises(UpstreamForged):
            update(CHANNEL, ports, intent())
        assert world.contents() == before

    def test_what_upstream_vouches_for_is_published(self, local: LocalSigstore, root: TrustRoot) -> None:
        world, ports = self.world(root)
        for version in (OLD, PATCH, MINOR):
            world.releases.files[str(version)] = stored(local, identity=upstream_identity(version))
        before = world.channel_digest()
        update(CHANNEL, ports, intent())
        assert world.channel_digest() != before
