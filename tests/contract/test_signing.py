"""Signing and verifying with a whole Sigstore, a local one: what counts in each format, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.policy.model import SignatureFormat
from ci_automation.signing import bundle, legacy
from ci_automation.signing.cluster import cluster_table
from ci_automation.signing.sigstore.exchange import RekorFailed
from ci_automation.signing.sigstore.keyless import KeylessSigner
from ci_automation.signing.sigstore.oidc import ambient
from ci_automation.signing.sigstore.root import TrustRoot
from ci_automation.signing.trust import Identity, IdentityMatch, TrustedIdentities
from ci_automation.signing.verify import ForeignSignature, Unsigned, ensure_signed, gather, verify
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.sigstore import GITHUB, WORKFLOW, Fault, LocalSigstore, faults
from tests.fakes.world import CHANNEL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_automation.signing.trust import Verified

LEGACY, BOTH, BUNDLE = SignatureFormat.LEGACY, SignatureFormat.BOTH, SignatureFormat.BUNDLE
ARTIFACT = Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (Descriptor.of(FLUX_LAYER, b"layer"),))
DIGEST = ARTIFACT.digest
STRANGER = Identity(GITHUB, "https://github.com/evil/fleet/.github/workflows/flux.yaml@refs/heads/main")
OTHER_ISSUER = Identity("https://issuer.example", WORKFLOW.subject)


@dataclass(frozen=True, slots=True)
class Instance:
    """A Sigstore, and how we know it."""

    local: LocalSigstore
    config: Path

    @property
    def root(self) -> TrustRoot:
        return TrustRoot.from_file(self.config)

    @property
    def trusted(self) -> TrustedIdentities:
        return TrustedIdentities((IdentityMatch.exact(WORKFLOW),), self.root)

    def signer(self) -> KeylessSigner:
        """Return the signer of a new run."""
        return KeylessSigner(self.root, ambient(self.local.environment()))

    def calls(self) -> list[str]:
        """Return what was asked of it since the last time."""
        asked = [path.rpartition("?")[0] or path for _, path in self.local.requests]
        self.local.requests.clear()
        return asked


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with LocalSigstore() as local:
        config = tmp_path_factory.mktemp("sigstore") / "trust_config.json"
        config.write_bytes(local.trust_config())
        yield Instance(local, config)


@pytest.fixture
def registry() -> InMemoryRegistry:
    """A registry with an artifact that has no signatures."""
    registry = InMemoryRegistry()
    for blob in (b"layer", CONFIG_BLOB):
        registry.put_blob(CHANNEL, blob)
    registry.put_manifest(CHANNEL, ARTIFACT)
    return registry


def signed(registry: InMemoryRegistry, instance: Instance, form: SignatureFormat) -> Verified:
    return ensure_signed(registry, CHANNEL, DIGEST, instance.signer(), form)


def plant(
    registry: InMemoryRegistry,
    instance: Instance,
    form: SignatureFormat,
    who: Identity = WORKFLOW,
    fault: Fault | None = None,
    rekor: int = 1,
) -> None:
    """Put a signature there as anybody may who can write to the registry."""
    if form is LEGACY:
        message = legacy.payload(CHANNEL, DIGEST)
        legacy.add(registry, CHANNEL, DIGEST, instance.local.sign_detached(message, who, fault=fault).annotations)
    else:
        raw = instance.local.sign_bundle(bundle.statement(DIGEST), who, rekor, fault=fault)
        bundle.attach_bundle(registry, CHANNEL, DIGEST, raw, bundle.SIGNATURE_PREDICATE)


@pytest.mark.parametrize("form", [LEGACY, BOTH, BUNDLE])
def test_what_is_signed_verifies_in_each_format(
    registry: InMemoryRegistry, instance: Instance, form: SignatureFormat
) -> None:
    signed(registry, instance, form)
    for each in (LEGACY, BUNDLE):
        if form in (each, BOTH):
            assert verify(registry, CHANNEL, DIGEST, instance.trusted, each).by == WORKFLOW
        else:
            with pytest.raises(Unsigned):
                verify(registry, CHANNEL, DIGEST, instance.trusted, each)


def test_both_takes_one_certificate_and_two_entries(registry: InMemoryRegistry, instance: Instance) -> None:
    instance.calls()
    signed(registry, instance, BOTH)
    assert sorted(path.rsplit("/", 1)[-1] for path in instance.calls()) == [
        "entries",
        "entries",
        "idtoken",
        "signingCert",
    ]


def test_what_is_there_is_not_signed_again(registry: InMemoryRegistry, instance: Instance) -> None:
    signed(registry, instance, BOTH)
    before = registry.repositories[str(CHANNEL.repository)]
    held = (dict(before.manifests), dict(before.tags))
    instance.calls()
    assert signed(registry, instance, BOTH).by == WORKFLOW
    assert [path.rsplit("/", 1)[-1] for path in instance.calls()] == ["idtoken"]  # to know who signs
    assert (before.manifests, before.tags) == held


def test_verifying_asks_no_service(registry: InMemoryRegistry, instance: Instance) -> None:
    signed(registry, instance, BOTH)
    instance.calls()
    for form in (LEGACY, BUNDLE):
        verify(registry, CHANNEL, DIGEST, instance.trusted, form)
    assert instance.calls() == []


@pytest.mark.parametrize("form", [LEGACY, BUNDLE])
def test_where_a_service_fails_nothing_is_written(
    registry: InMemoryRegistry, instance: Instance, form: SignatureFormat
) -> None:
    instance.local.fail("rekor", 400)
    with pytest.raises(RekorFailed):
        signed(registry, instance, form)
    assert gather(registry, CHANNEL, DIGEST).signatures == ()
    assert gather(registry, CHANNEL, DIGEST).bundles == ()
    assert signed(registry, instance, form).by == WORKFLOW


FAULTS = [
    *((LEGACY, 1, fault) for fault in sorted(faults("detached", 1), key=str)),
    *((BUNDLE, rekor, fault) for rekor in (1, 2) for fault in sorted(faults("statement", rekor), key=str)),
]


@pytest.mark.parametrize(("form", "rekor", "fault"), FAULTS, ids=[f"{a}-{b}-{c.name}" for a, b, c in FAULTS])
def test_one_thing_wrong_is_enough(
    registry: InMemoryRegistry, instance: Instance, form: SignatureFormat, rekor: int, fault: Fault
) -> None:
    plant(registry, instance, form, fault=fault, rekor=rekor)
    with pytest.raises(ForeignSignature) as refusal:
        verify(registry, CHANNEL, DIGEST, instance.trusted)
    assert refusal.value.signers == ()
    rows = cluster_table(gather(registry, CHANNEL, DIGEST), instance.trusted)
    assert not any(row.judgement.accepted for row in rows)


@pytest.mark.parametrize("form", [LEGACY, BUNDLE])
@pytest.mark.parametrize("who", [STRANGER, OTHER_ISSUER], ids=["another workflow", "another issuer"])
def test_another_identity_is_told(
    registry: InMemoryRegistry, instance: Instance, form: SignatureFormat, who: Identity
) -> None:
    plant(registry, instance, form, who)
    with pytest.raises(ForeignSignature) as refusal:
        verify(registry, CHANNEL, DIGEST, instance.trusted)
    assert refusal.value.signers == (who,)
    assert str(who) in str(refusal.value)
    signed(registry, instance, form)
    assert verify(registry, CHANNEL, DIGEST, instance.trusted).by == WORKFLOW


@pytest.mark.parametrize("form", [LEGACY, BUNDLE])
def test_another_instance_counts_for_nothing(
    registry: InMemoryRegistry, instance: Instance, form: SignatureFormat, tmp_path: Path
) -> None:
    with LocalSigstore() as other:
        (tmp_path / "root.json").write_bytes(other.trusted_root)
    signed(registry, instance, form)
    elsewhere = TrustRoot.from_file(tmp_path / "root.json")
    with pytest.raises(ForeignSignature) as refusal:
        verify(registry, CHANNEL, DIGEST, TrustedIdentities(instance.trusted.matches, elsewhere))
    assert refusal.value.signers == ()


@pytest.mark.parametrize("rekor", [1, 2])
def test_a_cluster_with_an_own_root_takes_it_since_2_9(
    registry: InMemoryRegistry, instance: Instance, rekor: int
) -> None:
    plant(registry, instance, BUNDLE, rekor=rekor)
    rows = cluster_table(gather(registry, CHANNEL, DIGEST), instance.trusted)
    assert [row.flux for row in rows if row.judgement.accepted] == ["2.9"]
