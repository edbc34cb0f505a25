"""Artifacts of ours with all that somebody may put beside them, and the objects by which a cluster follows them."""

from __future__ import annotations

import base64
import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB, Descriptor, Manifest
from ci_automation.artifact.tree import COMPONENTS_PATH, Tree
from ci_automation.flows.ports import Intent, Ports
from ci_automation.flows.publication.publish import Publication, publish
from ci_automation.flows.rendering import fetch, rendering
from ci_automation.flows.sync import sync
from ci_automation.flux.artifact import Recipe, compose
from ci_automation.flux.following import SyncSettings
from ci_automation.flux.options import Options
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.policy.model import SignatureFormat
from ci_automation.registry import open_registry
from ci_automation.report.cluster_objects import secret_yaml
from ci_automation.report.sync import NoSingleIdentity
from ci_automation.signing import bundle, legacy
from ci_automation.signing.keys.private import SigningKey
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.sigstore.keyless import KeylessSigner
from ci_automation.signing.sigstore.oidc import ambient
from ci_automation.signing.sigstore.root import TrustRoot
from ci_automation.signing.trust import IdentityMatch, TrustedIdentities, TrustedKeys
from ci_automation.signing.verify import ForeignSignature, Unsigned, ensure_signed
from tests.fakes.sigstore import WORKFLOW, LocalSigstore
from tests.real import program
from tests.real.cluster import manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flux.version import Version
    from ci_automation.registry.port import Registry
    from ci_automation.signing.signer import Signer
    from ci_automation.signing.trust import Trusted
    from tests.real.cluster import Object

LEGACY, BOTH, BUNDLE = SignatureFormat.LEGACY, SignatureFormat.BOTH, SignatureFormat.BUNDLE
OURS, THEIRS = "ours", "theirs"
PUBLIC_ONE, OWN_ONE = "public", "own"


class PlaysPublic(TrustRoot, frozen=True):
    """The roots of an instance that clusters know without being told, as they know the public one's."""

    @property
    def custom(self) -> bool:
        """Return that nobody has to be told."""
        return False


class Sigstore:
    """A local Sigstore, what is believed by its roots, and who signs by it: the workflow, as our program does it."""

    def __init__(self, local: LocalSigstore, folder: Path, kind: type[TrustRoot] = TrustRoot) -> None:
        self.local, self.folder, self.config = local, folder, folder / "trust_config.json"
        folder.mkdir()
        self.config.write_bytes(local.trust_config())
        self.root = kind.from_file(self.config)
        self.signer = KeylessSigner(self.root, ambient(local.environment()))

    def trusted(self, *matches: IdentityMatch) -> TrustedIdentities:
        """Return the trust in these identities, by default in exactly the workflow's."""
        return TrustedIdentities(matches or (IdentityMatch.exact(WORKFLOW),), self.root)


@dataclass(frozen=True, slots=True)
class World:
    """Who there is: keys by name, a Sigstore that plays the public one, a team's own, and somebody else's."""

    public: Sigstore
    own: Sigstore
    keys: Mapping[str, SigningKey] = field(
        default_factory=lambda: {
            OURS: SigningKey(ec.generate_private_key(ec.SECP256R1())),
            THEIRS: SigningKey(ec.generate_private_key(ec.SECP256R1())),
            "EC P-384": SigningKey(ec.generate_private_key(ec.SECP384R1())),
            "RSA": SigningKey(rsa.generate_private_key(public_exponent=65537, key_size=2048)),
            "Ed25519": SigningKey(ed25519.Ed25519PrivateKey.generate()),
        }
    )

    def signer(self, who: str) -> Signer:
        """Return who signs: a key by its name, or the workflow by one of the Sigstores, `public` or `own`."""
        if who in self.keys:
            return KeySigner(self.keys[who])
        return (self.public if who == PUBLIC_ONE else self.own).signer

    def trusted(self, *names: str) -> TrustedKeys:
        """Return the trust in keys."""
        return TrustedKeys(tuple(self.keys[name].public for name in names))


@dataclass(frozen=True, slots=True)
class Place:
    """A repository whose channel has an artifact of ours."""

    world: World
    releases: Path
    registry: Registry
    publication: Publication

    @classmethod
    def make(cls, world: World, releases: Path, version: Version, channel: Reference) -> Place:
        """Return a place with nothing in it yet; what shall be there is rendered."""
        ports = Ports(open_registry(channel), DirectorySource(releases))
        release = fetch(version, ports)
        made = rendering(release, Options(), ports)
        recipe = Recipe(version, release.commit, release.bundle.digest, Options(), made.text, Tree(()), COMPONENTS_PATH)
        publication = Publication(channel, None, version, compose(recipe), release, made.proof)
        return cls(world, releases, ports.registry, publication)

    def at(self, channel: Reference) -> Place:
        """Return another place for the same."""
        publication = replace(self.publication, channel=channel)
        return dataclasses.replace(self, registry=open_registry(channel), publication=publication)

    @property
    def channel(self) -> Reference:
        """The channel."""
        return self.publication.channel

    @property
    def digest(self) -> Digest:
        """The artifact's digest."""
        return self.publication.composed.digest

    def ports(self, signer: Signer | None = None, trusted: Trusted | None = None) -> Ports:
        """Return the world of a flow."""
        source = DirectorySource(self.releases)
        return Ports(self.registry, source, signer, trusted or (signer.trusted if signer else None))

    def publish(self, by: str | None, form: SignatureFormat, *, attestations: bool = False) -> None:
        """Publish the artifact, signed by somebody of the world, or by nobody."""
        signer = self.world.signer(by) if by else None
        intent = Intent(program.NOW, signature_format=form, attestations=attestations, unsafe_unsigned=signer is None)
        publish(self.publication, self.ports(signer), intent)

    def sign(self, by: str, form: SignatureFormat) -> None:
        """Sign it once more."""
        ensure_signed(self.registry, self.channel, self.digest, self.world.signer(by), form)

    def payload(self, about: Digest | None = None) -> bytes:
        """Return what a legacy signature signs."""
        return legacy.payload(self.channel, about or self.digest)

    def plant_sig(self, payload: bytes, annotations: Mapping[str, str]) -> None:
        """Add a legacy signature, whatever it is worth."""
        for blob in (payload, CONFIG_BLOB):
            self.registry.put_blob(self.channel, blob)
        present = legacy.signatures(self.registry, self.channel, self.digest)
        layer = Descriptor.of(legacy.PAYLOAD_TYPE, payload, annotations)
        config = Descriptor.of("application/vnd.oci.image.config.v1+json", CONFIG_BLOB)
        where = legacy.signature_reference(self.channel, self.digest)
        self.registry.put_manifest(where, Manifest.build(config, (*present, layer)))

    def plant_bundle(self, raw: bytes) -> None:
        """Attach a bundle, whatever it is worth."""
        bundle.attach_bundle(self.registry, self.channel, self.digest, raw, bundle.SIGNATURE_PREDICATE)

    def objects(self, trusted: Trusted, name: str, template: Place) -> list[Object]:
        """Return what a cluster needs to follow the channel, as our program prints it: a Secret, and an OCIRepository.

        Where it refuses, since what is there does not verify or more is asked for than one entry can say, it is what it
        prints for `template`, which everybody has signed, with this address and those identities.
        """
        try:
            printed = self._printed(trusted, name)
        except (Unsigned, ForeignSignature, NoSingleIdentity):
            first = trusted
            if isinstance(trusted, TrustedIdentities):
                first = replace(trusted, matches=trusted.matches[:1])
            printed = template._printed(first, name)
        source: Object = next(iter(yaml.safe_load_all(printed)))
        source["spec"]["url"] = str(self.channel.repository)
        if isinstance(trusted, TrustedIdentities) and len(trusted.matches) > 1:
            entries = [{"issuer": match.issuer, "subject": match.subject} for match in trusted.matches]
            source["spec"]["verify"]["matchOIDCIdentity"] = entries
        return [*self._secrets(trusted, source["spec"]["verify"]), source]

    def _printed(self, trusted: Trusted, name: str) -> str:
        return sync(self.channel, self.ports(trusted=trusted), SyncSettings(name=name))[0].to_yaml()

    def _secrets(self, trusted: Trusted, verify: Object) -> list[Object]:
        if isinstance(trusted, TrustedKeys):
            keys = [key.to_pem() for key in trusted.keys]
            return [yaml.safe_load(secret_yaml(verify["secretRef"]["name"], "flux-system", keys))]
        if not trusted.root.custom:
            return []
        roots = {"trusted_root.json": self.world.own.local.trusted_root.decode()}
        return [manifest("v1", "Secret", {"name": verify["trustedRootSecretRef"]["name"]}, stringData=roots)]


def annotated(signature: bytes) -> dict[str, str]:
    """Return the annotations of a legacy signature without a certificate."""
    return {legacy.SIGNATURE_ANNOTATION: base64.b64encode(signature).decode()}
