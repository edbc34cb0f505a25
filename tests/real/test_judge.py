"""Flux's own controllers of three minors accept and refuse exactly what our table says that they do.

They are given what `sync-manifests` and `public-key --secret` print. One local Sigstore plays the public one, by the
addresses that the controllers are told; another is a team's own.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA384
from msgspec.structs import replace

from ci_automation.artifact.manifest import Descriptor, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.flux.version import Version
from ci_automation.records import attached
from ci_automation.signing import bundle, legacy
from ci_automation.signing.cluster import cluster_table
from ci_automation.signing.trust import Identity, IdentityMatch
from ci_automation.signing.verify import gather
from tests.fakes.sigstore import GITHUB, WORKFLOW, Fault, LocalSigstore, faults
from tests.real import cosign, program
from tests.real.cluster import AT_WORK, START, condition, manifest
from tests.real.processes import wait_until
from tests.real.stage import (
    BOTH,
    BUNDLE,
    LEGACY,
    OURS,
    OWN_ONE,
    PUBLIC_ONE,
    THEIRS,
    Place,
    PlaysPublic,
    Sigstore,
    World,
    annotated,
)
from tests.real.tuf import Tuf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from ci_automation.policy.model import SignatureFormat
    from ci_automation.signing.cluster import Judgement
    from ci_automation.signing.trust import Trusted
    from tests.real.cluster import Cluster, Object
    from tests.real.registries import RealRegistry

    Step = Callable[[Place], object]

SOON = 90.0
VERSION = Version.parse("v2.9.0")
NEWEST = "source-controller"
# Each controller with the row of the table that it answers for, and the namespace that it looks after.
FLUX = {"source-controller-2.7": "2.7", "source-controller-2.8": "2.8.0 - 2.8.5", NEWEST: "2.9"}
NAMESPACES = {name: f"flux-{row[:3].replace('.', '-')}" for name, row in FLUX.items()}
# Nobody is asked but who is on this machine.
NOWHERE = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
CALM = ("--min-retry-delay=10m", "--max-retry-delay=10m", "--concurrent=4")  # each looks once
WANT = "dial tcp|proxyconnect|connection refused|deadline|unable to (create|get|initialize|parse)"
AT_ONCE = 150
ANOTHER = Digest.of(b"another")
STRANGER = Identity(GITHUB, WORKFLOW.subject.replace("acme", "evil"))
OTHER_ISSUER = Identity("https://issuer.example", WORKFLOW.subject)
NEIGHBOUR = Identity(GITHUB, WORKFLOW.subject.replace("acme", "acme-evil"))


@dataclass(frozen=True, slots=True)
class Case:
    """Who is trusted, what is done one after the other, in which registry, and which controllers are asked."""

    trusted: Callable[[World], Trusted]
    steps: tuple[Step, ...]
    registry: str = "distribution_registry"
    flux: tuple[str, ...] = tuple(FLUX)


def keys(*names: str) -> Callable[[World], Trusted]:
    return lambda world: world.trusted(*names)


def public(*matches: IdentityMatch) -> Callable[[World], Trusted]:
    return lambda world: world.public.trusted(*matches)


def own(*matches: IdentityMatch) -> Callable[[World], Trusted]:
    return lambda world: world.own.trusted(*matches)


def published(by: str, form: SignatureFormat, *, attestations: bool = False) -> Step:
    """Publish the artifact, signed by somebody."""
    return lambda place: place.publish(by, form, attestations=attestations)


def unsigned(place: Place) -> None:
    """Publish the artifact, signed by nobody."""
    place.publish(None, LEGACY)


def by_the_program(place: Place) -> None:
    """Publish the artifact by the command line, keyless."""
    sigstore = place.world.own
    how = ("--trust-config", sigstore.config, "--signature-format", "both", "--releases", place.releases)
    program.succeed("init", place.channel, "--flux-version", VERSION, *how, **sigstore.local.environment())


def by_cosign(place: Place) -> None:
    """Sign it with cosign 3.0.6, keyless, by Rekor 2."""
    local, name = place.world.public.local, str(place.channel.at_digest(place.digest)).removeprefix("oci://")
    cosign.sign_bundle_keyless(local, cosign.Files.write(local, place.world.public.folder / "cosign"), name, rekor=2)


def sig(by: str, about: Digest | None = None) -> Step:
    """Add a legacy signature by somebody."""

    def step(place: Place) -> None:
        payload = place.payload(about)
        place.plant_sig(payload, place.world.signer(by).sign_payload(payload))

    return step


def dsse(by: str, about: Digest | None = None, predicate: str = bundle.SIGNATURE_PREDICATE) -> Step:
    """Attach a bundle by somebody."""
    return lambda place: place.plant_bundle(
        place.world.signer(by).sign_statement(bundle.statement(about or place.digest, predicate))
    )


def relabelled(by: str) -> Step:
    """Attach a statement of ours, such as a record, as if it were a bundle."""
    return lambda place: place.plant_bundle(
        place.world.signer(by).sign_statement(bundle.statement(place.digest), attached.PAYLOAD_TYPE)
    )


def forged_sig(identity: Identity = WORKFLOW, fault: Fault | None = None) -> Step:
    """Add a legacy signature by anybody, with something wrong."""

    def step(place: Place) -> None:
        made = place.world.public.local.sign_detached(place.payload(), identity, fault=fault)
        place.plant_sig(place.payload(), made.annotations)

    return step


def forged_dsse(identity: Identity = WORKFLOW, rekor: int = 1, fault: Fault | None = None) -> Step:
    """Attach a bundle by anybody, with something wrong."""
    return lambda place: place.plant_bundle(
        place.world.public.local.sign_bundle(bundle.statement(place.digest), identity, rekor, fault=fault)
    )


def envelope_in_rekor_2(place: Place) -> None:
    """Attach a bundle that Rekor 2 has logged with its envelope."""
    statement = bundle.statement(place.digest)
    place.plant_bundle(place.world.public.local.sign_bundle(statement, rekor=2, as_envelope=True))


def message_signature(place: Place) -> None:
    """Attach a bundle without an envelope."""
    place.plant_bundle(place.world.public.local.sign_artifact(place.publication.composed.manifest.raw))


def resized(by: int, *, config: bool = False, beside: bool = False) -> Step:
    """Let the .sig state another size of its payload: in its layer, in one before that, or in the config."""

    def step(place: Place) -> None:
        layers = legacy.signatures(place.registry, place.channel, place.digest)
        wrong = tuple(replace(layer, size=layer.size + by) for layer in layers)
        at = legacy.signature_reference(place.channel, place.digest)
        first = wrong[0] if config else place.registry.manifest(at).config
        planted = Manifest.build(first, layers if config else (*wrong, *layers) if beside else wrong)
        place.registry.put_manifest(at, planted)

    return step


def embedding(*, wrong: bool) -> Step:
    """Let the .sig embed its payload, or other bytes of that size."""

    def step(place: Place) -> None:
        layers = legacy.signatures(place.registry, place.channel, place.digest)
        bytes_of = {layer.digest: place.registry.blob(place.channel, layer) for layer in layers}
        made = tuple(replace(it, data=b"x" * it.size if wrong else bytes_of[it.digest]) for it in layers)
        at = legacy.signature_reference(place.channel, place.digest)
        place.registry.put_manifest(at, Manifest.build(place.registry.manifest(at).config, made))

    return step


def embedding_another_bundle(place: Place) -> None:
    """Attach a referrer whose layer names a file that is no bundle, and embeds a foreign one."""
    foreign = place.world.public.local.sign_bundle(bundle.statement(place.digest), STRANGER, 1)
    for blob in (b"{}", b"none"):
        place.registry.put_blob(place.channel, blob)
    subject = place.registry.manifest(place.channel.at_digest(place.digest))
    layer = replace(Descriptor.of(bundle.BUNDLE_TYPE, b"none"), data=foreign)
    planted = Manifest.build(
        Descriptor.of("application/vnd.oci.empty.v1+json", b"{}"),
        (layer,),
        artifact_type=bundle.BUNDLE_TYPE,
        subject=Descriptor.of(subject.media_type, subject.raw),
    )
    place.registry.put_referrer(place.channel, planted)


def with_sha_384(place: Place) -> None:
    """Sign it as cosign and a KMS do with a P-384 key."""
    key = place.world.keys["EC P-384"].key
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    place.plant_sig(place.payload(), annotated(key.sign(place.payload(), ec.ECDSA(SHA384()))))


def raw(content: bytes) -> Step:
    """Attach something that says that it is a bundle."""
    return lambda place: place.plant_bundle(content)


def changed(by: str, change: Callable[[dict[str, Any]], object]) -> Step:
    """Attach a bundle by somebody, of which something was changed."""

    def step(place: Place) -> None:
        value = json.loads(place.world.signer(by).sign_statement(bundle.statement(place.digest)))
        change(value)
        place.plant_bundle(json.dumps(value).encode())

    return step


def called(media_type: str) -> Step:
    """Attach a bundle by somebody else, of another version."""
    return changed(THEIRS, lambda it: it.update(mediaType=f"application/vnd.dev.sigstore.bundle{media_type}"))


KEY, PUBLIC, OWN = keys(OURS), public(), own()
BY_KEY, KEYLESS = published(OURS, LEGACY), published(PUBLIC_ONE, LEGACY)
ONE = IdentityMatch.exact(WORKFLOW)
TWO = IdentityMatch.exact(Identity("https://issuer.example", "https://git.example/acme"))
LOOSE = IdentityMatch("https://token.actions.githubusercontent.com", "https://github.com/acme")
WITH_API = "referrers_registry"
WRONG = {1: faults("statement") - {Fault.EARLY, Fault.LOG}, 2: {Fault.UNTIMED, Fault.STAMPER, Fault.OTHER_STAMP}}
CASES = {
    "nothing": Case(KEY, (unsigned,)),
    "nothing, keyless": Case(PUBLIC, (unsigned,)),
    # by key
    "key, legacy": Case(KEY, (BY_KEY,)),
    "key, both": Case(KEY, (published(OURS, BOTH),)),
    "key, bundle": Case(KEY, (published(OURS, BUNDLE),)),
    "another key, legacy": Case(KEY, (published(THEIRS, LEGACY),)),
    "another key, both": Case(KEY, (published(THEIRS, BOTH),)),
    "two keys in the Secret, legacy": Case(keys(THEIRS, OURS), (BY_KEY,)),
    "two keys in the Secret, both": Case(keys(THEIRS, OURS), (published(OURS, BOTH),)),
    "two keys have signed, legacy": Case(KEY, (published(THEIRS, LEGACY), sig(OURS))),
    "two keys have signed, both": Case(KEY, (published(THEIRS, BOTH), sig(OURS), dsse(OURS))),
    "key, with attestations, legacy": Case(KEY, (published(OURS, LEGACY, attestations=True),)),
    "key, with attestations, both": Case(KEY, (published(OURS, BOTH, attestations=True),)),
    "a record by the key as a bundle, alone": Case(KEY, (unsigned, relabelled(OURS))),
    "a record by the key as a bundle, beside a .sig": Case(KEY, (BY_KEY, relabelled(OURS))),
    "a record by the identity as a bundle, alone": Case(PUBLIC, (unsigned, relabelled(PUBLIC_ONE))),
    "an attestation by the key alone": Case(KEY, (unsigned, dsse(OURS, predicate="https://slsa.dev/provenance/v1"))),
    "a .sig for another digest": Case(KEY, (unsigned, sig(OURS, ANOTHER))),
    "a .sig that states more bytes than its payload has": Case(KEY, (BY_KEY, resized(1))),
    "a .sig that states fewer bytes than its payload has": Case(KEY, (BY_KEY, resized(-1))),
    "a .sig that states more bytes in a layer before": Case(KEY, (BY_KEY, resized(1, beside=True))),
    "a .sig that embeds its payload": Case(KEY, (BY_KEY, embedding(wrong=False))),
    "a .sig that embeds other bytes": Case(KEY, (BY_KEY, embedding(wrong=True))),
    "a referrer that embeds other bytes beside a .sig": Case(KEY, (BY_KEY, embedding_another_bundle)),
    "a .sig that states more bytes in its config": Case(KEY, (BY_KEY, resized(1, config=True))),
    "a .sig for another digest, and ours": Case(KEY, (BY_KEY, sig(OURS, ANOTHER))),
    "a bundle for another digest": Case(KEY, (unsigned, dsse(OURS, ANOTHER))),
    **{
        f"{kind}, {form}": Case(keys(kind), (published(kind, form),))
        for kind in ("EC P-384", "RSA", "Ed25519")
        for form in (LEGACY, BUNDLE)
    },
    "EC P-384 with SHA-384": Case(keys("EC P-384"), (unsigned, with_sha_384)),
    # what others put beside it
    "another key's bundle beside a .sig": Case(KEY, (BY_KEY, dsse(THEIRS))),
    "a foreign bundle beside a .sig by key": Case(KEY, (BY_KEY, forged_dsse(STRANGER))),
    "a foreign bundle beside both by key": Case(KEY, (published(OURS, BOTH), forged_dsse(STRANGER))),
    "a bundle for another digest beside a .sig": Case(KEY, (BY_KEY, dsse(OURS, ANOTHER))),
    "a message signature beside a .sig by key": Case(KEY, (BY_KEY, message_signature)),
    "a foreign bundle beside a .sig": Case(PUBLIC, (KEYLESS, forged_dsse(STRANGER))),
    "a foreign bundle beside both": Case(PUBLIC, (published(PUBLIC_ONE, BOTH), forged_dsse(STRANGER))),
    "a key's bundle beside a keyless .sig": Case(PUBLIC, (KEYLESS, dsse(THEIRS))),
    "a message signature beside a keyless .sig": Case(PUBLIC, (KEYLESS, message_signature)),
    # what is a bundle, and what is not
    "no JSON beside a .sig": Case(KEY, (BY_KEY, raw(b"{"))),
    "JSON beside a .sig": Case(KEY, (BY_KEY, raw(b'{"a": 1}'))),
    "a bundle of version 0.2 beside a .sig": Case(KEY, (BY_KEY, called("+json;version=0.2"))),
    "a bundle of version 0.3 by its old name beside a .sig": Case(KEY, (BY_KEY, called("+json;version=0.3"))),
    "a bundle of version 0.4 beside a .sig": Case(KEY, (BY_KEY, called(".v0.4+json"))),
    "a bundle without material beside a .sig": Case(
        KEY, (BY_KEY, changed(THEIRS, lambda it: it.pop("verificationMaterial")))
    ),
    "a bundle without content beside a .sig": Case(KEY, (BY_KEY, changed(THEIRS, lambda it: it.pop("dsseEnvelope")))),
    "a bundle with a member that nobody knows beside a .sig": Case(
        KEY, (BY_KEY, changed(THEIRS, lambda it: it["dsseEnvelope"].update(unknown=1)))
    ),
    "a bundle of 3 MB beside a .sig": Case(
        KEY, (BY_KEY, changed(THEIRS, lambda it: it["dsseEnvelope"].update(payload="A" * (3 << 20))))
    ),
    "a bundle with two signatures": Case(
        KEY,
        (
            unsigned,
            changed(OURS, lambda it: it["dsseEnvelope"].update(signatures=it["dsseEnvelope"]["signatures"] * 2)),
        ),
    ),
    "a bundle without a proof that it was logged beside a .sig": Case(
        PUBLIC,
        (KEYLESS, changed(PUBLIC_ONE, lambda it: it["verificationMaterial"]["tlogEntries"][0].pop("inclusionProof"))),
    ),
    "a bundle without the log's promise": Case(
        PUBLIC,
        (
            unsigned,
            changed(PUBLIC_ONE, lambda it: it["verificationMaterial"]["tlogEntries"][0].pop("inclusionPromise")),
        ),
    ),
    "a bundle that was not logged": Case(
        PUBLIC, (unsigned, changed(PUBLIC_ONE, lambda it: it["verificationMaterial"].pop("tlogEntries")))
    ),
    # keyless, the public instance
    "keyless, legacy": Case(PUBLIC, (KEYLESS,)),
    "keyless, both": Case(PUBLIC, (published(PUBLIC_ONE, BOTH),)),
    "keyless, bundle": Case(PUBLIC, (published(PUBLIC_ONE, BUNDLE),)),
    "keyless, with attestations, legacy": Case(PUBLIC, (published(PUBLIC_ONE, LEGACY, attestations=True),)),
    "keyless, with attestations, both": Case(PUBLIC, (published(PUBLIC_ONE, BOTH, attestations=True),)),
    "a key's .sig for who trusts an identity": Case(PUBLIC, (BY_KEY,)),
    "a key's bundle for who trusts an identity": Case(PUBLIC, (published(OURS, BOTH),)),
    "a keyless .sig for who trusts a key": Case(KEY, (KEYLESS,)),
    "two identities, legacy": Case(public(ONE, TWO), (KEYLESS,)),
    "two identities, both": Case(public(ONE, TWO), (published(PUBLIC_ONE, BOTH),)),
    "two identities, bundle": Case(public(ONE, TWO), (published(PUBLIC_ONE, BUNDLE),)),
    "two identities of one issuer, as sync-manifests joins them": Case(
        public(IdentityMatch(f"(?:{ONE.issuer})|(?:{TWO.issuer})", ONE.subject)), (published(PUBLIC_ONE, BOTH),)
    ),
    "somebody else, legacy": Case(PUBLIC, (unsigned, forged_sig(STRANGER))),
    "somebody else, bundle": Case(PUBLIC, (unsigned, forged_dsse(STRANGER))),
    "another issuer, legacy": Case(PUBLIC, (unsigned, forged_sig(OTHER_ISSUER))),
    "another issuer, bundle": Case(PUBLIC, (unsigned, forged_dsse(OTHER_ISSUER))),
    "a loose pattern, legacy": Case(public(LOOSE), (unsigned, forged_sig(NEIGHBOUR))),
    "a loose pattern, bundle": Case(public(LOOSE), (unsigned, forged_dsse(NEIGHBOUR))),
    "a pattern with a flag, both": Case(
        public(IdentityMatch(ONE.issuer, "(?i)^HTTPS://.*MAIN$")), (published(PUBLIC_ONE, BOTH),)
    ),
    "Rekor 2, bundle": Case(PUBLIC, (unsigned, forged_dsse(rekor=2))),
    "Rekor 2 beside a .sig": Case(PUBLIC, (KEYLESS, forged_dsse(rekor=2))),
    "Rekor 2 with the envelope": Case(PUBLIC, (unsigned, envelope_in_rekor_2)),
    "Rekor 2 with the envelope beside a .sig": Case(PUBLIC, (KEYLESS, envelope_in_rekor_2)),
    "Rekor 2 by cosign 3.0.6": Case(PUBLIC, (unsigned, by_cosign)),
    # keyless, an own instance
    "own, legacy": Case(OWN, (published(OWN_ONE, LEGACY),)),
    "own, both": Case(OWN, (by_the_program,)),
    "own, bundle": Case(OWN, (published(OWN_ONE, BUNDLE),)),
    "own, with attestations, both": Case(OWN, (published(OWN_ONE, BOTH, attestations=True),)),
    "own, two identities, legacy": Case(own(ONE, TWO), (published(OWN_ONE, LEGACY),)),
    "own, two identities, bundle": Case(own(ONE, TWO), (published(OWN_ONE, BUNDLE),)),
    # Who trusts an own one cannot say so to an older Flux, whose OCIRepository has no place for it.
    "the public one's for who trusts an own": Case(OWN, (published(PUBLIC_ONE, BOTH),), flux=(NEWEST,)),
    "an own one's for who trusts the public one": Case(PUBLIC, (published(OWN_ONE, BOTH),)),
    # a registry with the referrers API
    "referrers API, key, both": Case(KEY, (published(OURS, BOTH),), WITH_API),
    "referrers API, key, bundle": Case(KEY, (published(OURS, BUNDLE),), WITH_API),
    "referrers API, a foreign bundle beside a .sig": Case(KEY, (BY_KEY, forged_dsse(STRANGER)), WITH_API),
    "referrers API, keyless, with attestations": Case(
        PUBLIC, (published(PUBLIC_ONE, LEGACY, attestations=True),), WITH_API
    ),
    # what is wrong with it
    **{
        f"{fault.name} is wrong, legacy": Case(PUBLIC, (unsigned, forged_sig(fault=fault)))
        for fault in Fault
        if fault in faults("detached")
    },
    **{
        f"{fault.name} is wrong, bundle, Rekor {rekor}": Case(PUBLIC, (unsigned, forged_dsse(rekor=rekor, fault=fault)))
        for rekor, wrong in WRONG.items()
        for fault in Fault
        if fault in wrong
    },
}
ASKED = [pytest.param(name, flux, id=f"{name} [{FLUX[flux]}]") for name, case in CASES.items() for flux in case.flux]
# What 2.7, 2.8.0 and 2.9 are known to do; the rest is for them and the table to agree on.
PROMISED = {
    "nothing": "nnn",
    "key, legacy": "yyy",
    "key, both": "yyy",
    "key, bundle": "nyy",
    "another key, legacy": "nnn",
    "key, with attestations, legacy": "yyy",
    "keyless, with attestations, legacy": "yyy",
    "keyless, with attestations, both": "yyy",
    "a foreign bundle beside a .sig": "ynn",
    "two identities, legacy": "yyy",
    "two identities, both": "ynn",
    "another issuer, legacy": "nnn",
    "a loose pattern, legacy": "yyy",
    "a .sig for another digest": "yyy",
    "Rekor 2, bundle": "nny",
    "Rekor 2 by cosign 3.0.6": "nnn",
    "own, both": "nny",
    "two identities of one issuer, as sync-manifests joins them": "yyy",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What our table says of a case, and the OCIRepository of each controller after it has looked."""

    rows: Mapping[str, Judgement]
    objects: Mapping[str, Object]

    def accepted(self, flux: str) -> tuple[bool, str]:
        """Return whether a controller took the artifact, and its words."""
        state, message = condition(self.objects[flux], "SourceVerified")
        return state == "True", message


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield who there is."""
    folder = tmp_path_factory.mktemp("sigstore")
    with LocalSigstore() as public_one, LocalSigstore() as own_one:
        yield World(Sigstore(public_one, folder / PUBLIC_ONE, PlaysPublic), Sigstore(own_one, folder / OWN_ONE))


@pytest.fixture(scope="module")
def controllers(
    cluster: Cluster, world: World, golden: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Yield the cluster with the three controllers, each in a namespace of its own, and the CRDs of the newest."""
    folder = tmp_path_factory.mktemp("told")
    text = gzip.decompress((golden / "text" / "v2.9.4" / "default.yaml.gz").read_bytes()).decode()
    crds = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each["kind"] == "CustomResourceDefinition"]
    wanted = [each for each in crds if each["spec"]["group"] == "source.toolkit.fluxcd.io"]
    apply(cluster, [*wanted, *(manifest("v1", "Namespace", {"name": name}) for name in NAMESPACES.values())])
    files = cosign.Files.write(world.public.local, folder / "cosign")
    with Tuf(world.public.local.trusted_root, folder) as tuf:
        told = NOWHERE | dict(files.environment) | dict(tuf.environment)
        daemons = [
            cluster.start_source_controller(name, namespace, CALM, **told, TUF_ROOT=str(folder / name))
            for name, namespace in NAMESPACES.items()
        ]
        for daemon in daemons:
            daemon.wait_for_line(AT_WORK, START)
        yield cluster


@pytest.fixture(scope="module")
def judged(
    controllers: Cluster, world: World, request: pytest.FixtureRequest, flux_releases: Path
) -> Mapping[str, Seen]:
    """Return what became of each case, after all of them were given to all controllers."""

    def place(registry: str, name: str) -> Reference:
        found: RealRegistry = request.getfixturevalue(registry)
        return program.channel(found.proxy.upstream, f"judge/{name}")

    template = Place.make(world, flux_releases, VERSION, place("distribution_registry", "template"))
    template.publish(OURS, LEGACY)
    for each in (*world.keys, PUBLIC_ONE, OWN_ONE):
        template.sign(each, LEGACY)
    rows: dict[str, Mapping[str, Judgement]] = {}
    waiting: list[Object] = []
    *_, last = CASES
    for name, case in CASES.items():
        here, trusted = template.at(place(case.registry, slug(name))), case.trusted(world)
        for step in case.steps:
            step(here)
        evidence = gather(here.registry, here.channel, here.digest)
        rows[name] = {row.flux: row.judgement for row in cluster_table(evidence, trusted)}
        waiting += [
            in_namespace(each, NAMESPACES[flux])
            for each in here.objects(trusted, slug(name), template)
            for flux in case.flux
        ]
        if (
            len(waiting) > AT_ONCE or name == last
        ):  # kubectl takes its time, and the controllers have something to do meanwhile
            apply(controllers, waiting)
            waiting = []
    found = settled(controllers, len(ASKED))
    return {
        name: Seen(rows[name], {flux: found[NAMESPACES[flux], slug(name)] for flux in case.flux})
        for name, case in CASES.items()
    }


def slug(name: str) -> str:
    """Return a name that Kubernetes takes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def apply(cluster: Cluster, objects: list[Object]) -> None:
    cluster.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def in_namespace(found: Object, namespace: str) -> Object:
    # The controller would begin with the finalizer, and go on after the delay of a retry.
    finalizers = {"finalizers": ["finalizers.fluxcd.io"]} if found["kind"] == "OCIRepository" else {}
    return found | {"metadata": found["metadata"] | {"namespace": namespace} | finalizers}


def settled(cluster: Cluster, number: int) -> Mapping[tuple[str, str], Object]:
    """Return the OCIRepositories by namespace and name, once all controllers have looked at all of theirs."""
    last: list[Object] = []

    def decided(found: Object) -> bool:
        return condition(found)[0] == "True" or condition(found, "SourceVerified")[0] == "False"

    def look() -> Mapping[tuple[str, str], Object] | None:
        last[:] = cluster.all_of("ocirepositories")
        if len(last) < number or not all(map(decided, last)):
            return None
        return {(found["metadata"]["namespace"], found["metadata"]["name"]): found for found in last}

    def otherwise() -> str:
        left = [(found["metadata"], condition(found)) for found in last if not decided(found)]
        return f"of {number}, {len(last)} are there and {len(left)} not decided, such as {left[:3]}"

    return wait_until(look, SOON, otherwise, 1.0)


@pytest.mark.parametrize(("name", "flux"), ASKED)
def test_a_cluster_does_what_the_table_says(name: str, flux: str, judged: Mapping[str, Seen]) -> None:
    said = judged[name].rows[FLUX[flux]]
    accepted, message = judged[name].accepted(flux)
    assert accepted == said.accepted, f"we say: {said.reason}\nit says: {message}"
    assert ("artifact" in judged[name].objects[flux]["status"]) == accepted
    assert not re.search(WANT, message)  # refused for what is there, not for want of something


@pytest.mark.parametrize(("name", "promised"), PROMISED.items(), ids=list(PROMISED))
def test_what_matters_most_is_as_promised(name: str, promised: str, judged: Mapping[str, Seen]) -> None:
    assert "".join("y" if judged[name].accepted(flux)[0] else "n" for flux in FLUX) == promised


def test_what_flux_accepts_and_we_do_not_is_what_it_leaves_out(judged: Mapping[str, Seen]) -> None:
    lax = {
        name
        for name, seen in judged.items()
        if any(seen.accepted(flux)[0] and not seen.rows[FLUX[flux]].strict for flux in seen.objects)
    }
    assert lax == {"a .sig for another digest", "an attestation by the key alone"}


def test_the_command_prints_what_the_clusters_were_given(
    judged: Mapping[str, Seen], world: World, distribution_registry: RealRegistry
) -> None:
    """The program as a process; the namespace is the artifact's, and here the controller's."""
    name = slug("own, both")
    who = ("--identity", WORKFLOW.subject, "--issuer", WORKFLOW.issuer, "--trust-config", world.own.config)
    channel = program.channel(distribution_registry.proxy.upstream, f"judge/{name}")
    done = program.flux_manifests("sync-manifests", channel, *who, "--name", name)
    source, _ = yaml.safe_load_all(done.output)
    given = judged["own, both"].objects[NEWEST]["spec"]
    assert source["spec"] == {key: given[key] for key in source["spec"]}  # the API server adds its defaults
    labels = {"app.kubernetes.io/managed-by": "flux-manifests"}
    assert source["metadata"] == {"name": name, "namespace": "flux-system", "labels": labels}
