"""Publication records and attestations: what is written, what is believed, and what an attacker cannot say."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.index import Index
from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.errors import Conflict
from ci_automation.flux.artifact import immutable_tag
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.records import attached, ledger
from ci_automation.records.attached import attest
from ci_automation.records.content import Statement
from ci_automation.records.ledger import Ledger, Position
from ci_automation.records.notes import Approval, Record
from ci_automation.records.writer import RecordWriter
from ci_automation.registry import open_registry
from ci_automation.registry.contents import referrers_tag
from ci_automation.signing import bundle
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import ForeignSignature, Unsigned, verify
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.sigstore import WORKFLOW, LocalSigstore
from tests.fakes.trust import THEM, US, WrittenSigner, trust
from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci_automation.registry.port import Registry
    from ci_automation.signing.signer import Signer

CHANNEL = Reference.parse("oci://registry.example/acme/flux-manifests:production")
STAGING = CHANNEL.at_tag("staging")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
OURS, THEIRS = KeySigner(signing_key()), KeySigner(signing_key("theirs"))
TRUSTED = OURS.trusted
BUNDLE_TYPE = bundle.BUNDLE_TYPE


def put(registry: Registry, reference: Reference, content: bytes) -> Manifest:
    """Return the manifest of an artifact that was pushed by its digest."""
    for blob in (content, CONFIG_BLOB):
        registry.put_blob(reference, blob)
    manifest = Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (Descriptor.of(FLUX_LAYER, content),))
    registry.put_manifest(reference.at_digest(manifest.digest), manifest)
    return manifest


def record_of(manifest: Manifest, *, hours: int = 0, signer: Signer = OURS, **changes: Any) -> Record:
    """Return the record of a move to this artifact, so many hours later."""
    version = changes.pop("version", Version.parse("v2.9.4"))
    values = {
        "channel": str(CHANNEL),
        "digest": manifest.digest,
        "previous": None,
        "version": version,
        "tag": immutable_tag(version, manifest.digest),
        "by": str(signer.who),
        "at": NOW + timedelta(hours=hours),
        "proof": Proof.KNOWN,
        "options": Digest.of(b"options"),
    }
    return Record(**{**values, **changes})


def raw_referrer(
    registry: Registry,
    manifest: Manifest,
    *contents: bytes,
    media_type: str = Record.media_type,
    artifact_type: str = Record.media_type,
) -> Digest:
    """Attach anything to an artifact, as whoever can write to the registry may."""
    for content in (CONFIG_BLOB, *contents):
        registry.put_blob(CHANNEL, content)
    layers = tuple(Descriptor.of(media_type, content) for content in contents)
    subject = Descriptor.of(manifest.media_type, manifest.raw)
    referrer = Manifest.build(
        Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), layers, artifact_type=artifact_type, subject=subject
    )
    return registry.put_referrer(CHANNEL, referrer)


def signed(record: Record, signer: Signer = OURS, **changes: Any) -> bytes:
    """Return a signed record, whose statement may differ from what we write."""
    statement = replace(record.to_statement("here"), **changes)
    return signer.sign_statement(statement.to_bytes(), attached.PAYLOAD_TYPE)


@pytest.fixture(params=["referrers API", "fallback tag", "layout"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Registry, Reference]:
    """Return each kind of registry in turn, and a channel in it."""
    if request.param == "layout":
        channel = Reference.parse(f"layout:{tmp_path / 'registry'}:production")
        return open_registry(channel), channel
    return InMemoryRegistry(referrers_api=request.param == "referrers API"), CHANNEL


@pytest.fixture
def memory() -> InMemoryRegistry:
    """Return an empty registry in memory."""
    return InMemoryRegistry()


class TestWhatIsWritten:
    def test_a_record_is_read_as_it_was_written(self, place: tuple[Registry, Reference]) -> None:
        registry, channel = place
        manifest = put(registry, channel, b"artifact")
        approval = Approval("octocat", "--approve", NOW)
        run = "https://github.com/acme/fleet/actions/runs/7"
        name = attached.channel_name(registry, channel)
        record = record_of(manifest, channel=name, approval=approval, run=run)
        RecordWriter(registry, channel, OURS).write(manifest, record)
        assert Ledger(registry, channel, TRUSTED).all_records(manifest.digest) == (record,)

    def test_records_of_several_moves_are_read_oldest_first(self, place: tuple[Registry, Reference]) -> None:
        registry, channel = place
        manifest = put(registry, channel, b"artifact")
        moves = [record_of(manifest, hours=hours) for hours in (2, 1, 3)]
        for record in moves:
            RecordWriter(registry, channel, OURS).write(manifest, record)
        found = Ledger(registry, channel, TRUSTED).all_records(manifest.digest)
        assert [record.at.hour for record in found] == [13, 14, 15]

    def test_a_record_is_one_referrer_that_flux_does_not_take_for_a_signature(self, memory: InMemoryRegistry) -> None:
        manifest = put(memory, CHANNEL, b"artifact")
        memory.requests.clear()
        RecordWriter(memory, CHANNEL, OURS).write(manifest, record_of(manifest))
        assert [asked.method for asked in memory.requests] == ["put_blob", "put_referrer"]
        (descriptor,) = memory.referrers(CHANNEL, manifest.digest)
        assert descriptor.artifact_type == "application/vnd.flux-manifests.publication.v1+json"
        referrer = memory.manifest(CHANNEL.at_digest(descriptor.digest))
        assert [layer.media_type for layer in referrer.layers] == [Record.media_type]
        assert referrer.config == Descriptor.of("application/vnd.oci.image.config.v1+json", CONFIG_BLOB)
        assert referrer.subject == Descriptor.of(manifest.media_type, manifest.raw)
        assert not list(bundle.read_bundles(memory, CHANNEL, manifest.digest))

    def test_a_record_that_is_listed_under_its_configurations_type_is_found(self) -> None:
        registry = InMemoryRegistry(referrers_api=False)
        manifest = put(registry, CHANNEL, b"artifact")
        RecordWriter(registry, CHANNEL, OURS).write(manifest, record_of(manifest))
        (listed,) = registry.referrers(CHANNEL, manifest.digest)
        otherwise = replace(listed, artifact_type="application/vnd.oci.image.config.v1+json")
        registry.write_index(referrers_tag(CHANNEL, manifest.digest), Index.build((otherwise,)))
        assert len(Ledger(registry, CHANNEL, TRUSTED).all_records(manifest.digest)) == 1

    def test_nothing_is_read_where_nothing_is(self, memory: InMemoryRegistry) -> None:
        manifest = put(memory, CHANNEL, b"artifact")
        assert Ledger(memory, CHANNEL, TRUSTED).all_records(manifest.digest) == ()
        assert Ledger(memory, CHANNEL, TRUSTED).all_records(Digest.of(b"nothing")) == ()


Hostile = dict[str, "Callable[[Registry, Manifest], object]"]

NOT_BELIEVED: Hostile = {
    "signed by somebody else": lambda registry, manifest: raw_referrer(
        registry, manifest, signed(record_of(manifest, signer=THEIRS), THEIRS)
    ),
    "signed by somebody else in our name": lambda registry, manifest: raw_referrer(
        registry, manifest, signed(record_of(manifest), THEIRS)
    ),
    "ours, in another's name": lambda registry, manifest: raw_referrer(
        registry, manifest, signed(record_of(manifest, signer=THEIRS))
    ),
    "about another digest": lambda registry, manifest: raw_referrer(
        registry, manifest, signed(record_of(put(registry, CHANNEL, b"other")))
    ),
    "of another version": lambda registry, manifest: raw_referrer(
        registry,
        manifest,
        signed(record_of(manifest), predicate_type="tag:flux-manifests.github.io,2026:publication/v2"),
    ),
    "another statement of ours": lambda registry, manifest: raw_referrer(
        registry, manifest, signed(record_of(manifest), predicate_type=bundle.SIGNATURE_PREDICATE)
    ),
    "with a member more": lambda registry, manifest: raw_referrer(
        registry, manifest, signed(record_of(manifest), predicate={**record_of(manifest).to_json(), "more": 1})
    ),
    "changed after it was signed": lambda registry, manifest: raw_referrer(
        registry, manifest, signed(record_of(manifest)).replace(b'"payload":"ey', b'"payload":"ez')
    ),
    "without an envelope": lambda registry, manifest: raw_referrer(
        registry, manifest, json.dumps({"mediaType": BUNDLE_TYPE}).encode()
    ),
    "not signed": lambda registry, manifest: raw_referrer(
        registry, manifest, record_of(manifest).to_statement("here").to_bytes()
    ),
    "no JSON": lambda registry, manifest: raw_referrer(registry, manifest, b"\xff"),
    "of two layers": lambda registry, manifest: raw_referrer(registry, manifest, signed(record_of(manifest)), b"more"),
    "of another layer": lambda registry, manifest: raw_referrer(
        registry, manifest, signed(record_of(manifest)), media_type="application/json"
    ),
    "of another type": lambda registry, manifest: raw_referrer(
        registry, manifest, signed(record_of(manifest)), artifact_type="application/json"
    ),
    "endless": lambda registry, manifest: raw_referrer(
        registry, manifest, signed(record_of(manifest)) + b" " * (1 << 20)
    ),
}


@pytest.mark.parametrize("attack", NOT_BELIEVED.values(), ids=NOT_BELIEVED)
def test_what_an_attacker_attaches_is_not_believed_and_hides_nothing(
    memory: InMemoryRegistry, attack: Callable[[Registry, Manifest], object]
) -> None:
    manifest = put(memory, CHANNEL, b"artifact")
    attack(memory, manifest)
    assert Ledger(memory, CHANNEL, TRUSTED).all_records(manifest.digest) == ()
    RecordWriter(memory, CHANNEL, OURS).write(manifest, record_of(manifest))
    assert Ledger(memory, CHANNEL, TRUSTED).all_records(manifest.digest) == (record_of(manifest),)


def test_a_record_needs_no_request_but_for_the_list_that_embeds_it() -> None:
    registry = InMemoryRegistry(referrers_api=False)
    manifest = put(registry, CHANNEL, b"artifact")
    RecordWriter(registry, CHANNEL, OURS).write(manifest, record_of(manifest))
    registry.requests.clear()
    assert Ledger(registry, CHANNEL, TRUSTED).all_records(manifest.digest) == (record_of(manifest),)
    assert [asked.method for asked in registry.requests] == ["referrers", "read_index"]


@pytest.mark.parametrize("embedded", [b"", b"{}", b"x" * 5000], ids=["none", "other", "longer"])
def test_a_record_is_read_from_the_registry_where_the_list_embeds_something_else(embedded: bytes) -> None:
    registry = InMemoryRegistry(referrers_api=False)
    manifest = put(registry, CHANNEL, b"artifact")
    RecordWriter(registry, CHANNEL, OURS).write(manifest, record_of(manifest))
    (entry,) = registry.referrers(CHANNEL, manifest.digest)
    registry.write_index(referrers_tag(CHANNEL, manifest.digest), Index.build((replace(entry, data=embedded),)))
    assert Ledger(registry, CHANNEL, TRUSTED).all_records(manifest.digest) == (record_of(manifest),)


def test_a_record_is_not_listed_if_the_check_before_that_fails(memory: InMemoryRegistry) -> None:
    def moved() -> None:
        raise Conflict("it moved again")

    manifest, writer = put(memory, CHANNEL, b"artifact"), RecordWriter(memory, CHANNEL, OURS)
    with pytest.raises(Conflict):
        writer.attach(manifest, writer.sign(record_of(manifest)), moved)
    assert Ledger(memory, CHANNEL, TRUSTED).all_records(manifest.digest) == ()


@pytest.mark.parametrize("what", ["manifests", "blobs"])
def test_a_record_that_is_listed_and_not_there_is_passed_over(what: str) -> None:
    registry = InMemoryRegistry(referrers_api=False)
    manifest = put(registry, CHANNEL, b"artifact")
    raw_referrer(registry, manifest, signed(record_of(manifest)))  # nothing is embedded, as before 1.0
    assert Ledger(registry, CHANNEL, TRUSTED).all_records(manifest.digest) == (record_of(manifest),)
    (descriptor,) = registry.referrers(CHANNEL, manifest.digest)
    repository = registry.repositories[str(CHANNEL.repository)]
    layer = registry.manifest(CHANNEL.at_digest(descriptor.digest)).layers[0]
    getattr(repository, what).pop(descriptor.digest if what == "manifests" else layer.digest)
    assert Ledger(registry, CHANNEL, TRUSTED).all_records(manifest.digest) == ()


def test_very_many_records_are_an_attack(memory: InMemoryRegistry) -> None:
    manifest = put(memory, CHANNEL, b"artifact")
    for number in range(65):
        raw_referrer(memory, manifest, b"%d" % number)
    with pytest.raises(attached.TooManyRecords):
        Ledger(memory, CHANNEL, TRUSTED).all_records(manifest.digest)


class TestKeyless:
    def test_a_record_by_a_trusted_identity_is_believed(self, memory: InMemoryRegistry) -> None:
        manifest, signer = put(memory, CHANNEL, b"artifact"), WrittenSigner(US)
        record = record_of(manifest, signer=signer)
        RecordWriter(memory, CHANNEL, signer).write(manifest, record)
        assert Ledger(memory, CHANNEL, trust(US)).all_records(manifest.digest) == (record,)

    @pytest.mark.parametrize("signer", [WrittenSigner(THEM), WrittenSigner(US, broken=True)], ids=["them", "expired"])
    def test_others_and_bad_certificates_are_not(self, memory: InMemoryRegistry, signer: WrittenSigner) -> None:
        manifest = put(memory, CHANNEL, b"artifact")
        RecordWriter(memory, CHANNEL, signer).write(manifest, record_of(manifest, signer=signer))
        assert Ledger(memory, CHANNEL, trust(US)).all_records(manifest.digest) == ()

    def test_a_key_does_not_stand_for_an_identity_nor_an_identity_for_a_key(self, memory: InMemoryRegistry) -> None:
        manifest, signer = put(memory, CHANNEL, b"artifact"), WrittenSigner(US)
        RecordWriter(memory, CHANNEL, signer).write(manifest, record_of(manifest, signer=signer))
        RecordWriter(memory, CHANNEL, OURS).write(manifest, record_of(manifest))
        assert [r.by for r in Ledger(memory, CHANNEL, trust(US)).all_records(manifest.digest)] == [str(US)]
        assert [r.by for r in Ledger(memory, CHANNEL, TRUSTED).all_records(manifest.digest)] == [str(OURS.who)]

    @pytest.mark.parametrize("rekor", [1, 2])
    def test_real_certificates_and_log_entries(self, memory: InMemoryRegistry, tmp_path: Path, rekor: int) -> None:
        from ci_automation.signing.sigstore.root import TrustRoot
        from ci_automation.signing.trust import IdentityMatch, TrustedIdentities

        manifest = put(memory, CHANNEL, b"artifact")
        record = record_of(manifest, by=str(WORKFLOW))
        with LocalSigstore() as local:
            (tmp_path / "root.json").write_bytes(local.trust_config(rekor))
            statement = record.to_statement("here").to_bytes()
            raw = local.sign_bundle(statement, WORKFLOW, rekor, payload_type=attached.PAYLOAD_TYPE)
            raw_referrer(memory, manifest, raw)
            root = TrustRoot.from_file(tmp_path / "root.json")
            mine, theirs = (TrustedIdentities((IdentityMatch.exact(it),), root) for it in (WORKFLOW, US))
            assert Ledger(memory, CHANNEL, mine).all_records(manifest.digest) == (record,)
            assert Ledger(memory, CHANNEL, theirs).all_records(manifest.digest) == ()


V283, V285, V294 = (Version.parse(text) for text in ("v2.8.3", "v2.8.5", "v2.9.4"))


class Past:
    """A repository in which a channel has been at several digests."""

    def __init__(self, registry: InMemoryRegistry) -> None:
        self.registry = registry
        self.manifests: dict[str, Manifest] = {}

    def publish(self, name: str, version: Version = V294) -> Digest:
        """Return the digest of an artifact under its immutable tag; nothing has moved to it."""
        manifest = self.manifests.setdefault(name, put(self.registry, CHANNEL, name.encode()))
        self.registry.put_manifest(CHANNEL.at_tag(immutable_tag(version, manifest.digest)), manifest)
        return manifest.digest

    def moved(self, name: str, hours: int, previous: str | None = None, version: Version = V294, **more: Any) -> Digest:
        """Publish it, and write the record of the channel's move to it."""
        digest = self.publish(name, version)
        before = None if previous is None else self.manifests[previous].digest
        signer = more.pop("signer", OURS)
        record = record_of(self.manifests[name], hours=hours, previous=before, version=version, signer=signer, **more)
        RecordWriter(self.registry, CHANNEL, signer).write(self.manifests[name], record)
        return digest

    def superseded(self, name: str, version: Version = V294) -> Digest | None:
        """Return where the channel had moved on to, if it is at this artifact now."""
        tags = self.registry.tags(CHANNEL)
        digest = self.manifests[name].digest
        own = Ledger(self.registry, CHANNEL, TRUSTED).records(digest)
        self.registry.requests.clear()
        place = Position(digest, version, own[-1] if own else None, None)
        found = Ledger(self.registry, CHANNEL, TRUSTED).superseded_by(place, tags)
        return None if found is None else found.digest


@pytest.fixture
def past(memory: InMemoryRegistry) -> Past:
    """Return an empty past."""
    return Past(memory)


class TestMovedBack:
    def test_to_an_older_version(self, past: Past) -> None:
        past.moved("old", 0, version=V285)
        new = past.moved("new", 1, "old")
        assert past.superseded("old", V285) == new
        assert past.superseded("new") is None

    def test_to_other_contents_of_the_same_version(self, past: Past) -> None:
        past.moved("one", 0)
        two = past.moved("two", 1, "one")
        assert past.superseded("one") == two
        assert past.superseded("two") is None

    def test_over_several_steps_of_one_run(self, past: Past) -> None:
        past.moved("a", 0, version=V283)
        past.moved("b", 0, "a", version=V285)
        c = past.moved("c", 0, "b")
        assert past.superseded("c") is None
        assert past.superseded("b", V285) == c
        assert past.superseded("a", V283) is not None

    def test_to_what_was_published_before_there_were_records(self, past: Past) -> None:
        past.publish("old", V285)
        new = past.moved("new", 1)
        assert past.superseded("old", V285) == new

    def test_to_what_the_chain_names_though_it_has_no_record(self, past: Past) -> None:
        past.publish("one")
        two = past.moved("two", 1, "one")
        assert past.superseded("one") == two

    def test_a_rollback_of_ours_is_no_attack(self, past: Past) -> None:
        past.moved("old", 0, version=V285)
        past.moved("new", 1, "old")
        past.moved("old", 2, "new", version=V285)
        assert past.superseded("old", V285) is None

    def test_a_rollback_within_the_same_moment(self, past: Past) -> None:
        past.moved("one", 0)
        past.moved("two", 1, "one")
        past.moved("one", 1, "two")
        assert past.superseded("one") is None

    def test_what_was_moved_on_from_a_rollback(self, past: Past) -> None:
        past.moved("one", 0)
        past.moved("two", 1, "one")
        past.moved("one", 2, "two")
        three = past.moved("three", 3, "one")
        assert past.superseded("three") is None
        assert past.superseded("one") == three

    def test_a_publication_whose_record_was_lost_is_no_attack(self, past: Past) -> None:
        past.moved("old", 0, version=V285)
        past.publish("new")
        assert past.superseded("new") is None
        past.moved("contents", 1)
        past.publish("other contents")
        assert past.superseded("other contents") is None

    def test_records_of_another_channel_do_not_count(self, past: Past) -> None:
        past.moved("old", 0, version=V285)
        past.moved("new", 1, "old", channel=str(STAGING))
        assert past.superseded("old", V285) is None

    def test_records_of_others_do_not_count(self, past: Past) -> None:
        past.moved("old", 0, version=V285)
        past.moved("new", 1, "old", signer=THEIRS)
        assert past.superseded("old", V285) is None

    def test_without_a_later_tag_nothing_is_asked(self, past: Past) -> None:
        past.moved("old", 0, version=V285)
        past.moved("new", 1, "old")
        for tag in ("latest", "v2.9", "v2.9.4", "v3-000000000000", "sha256-" + "0" * 64, "v2.10.0-00000000000G"):
            past.registry.put_manifest(CHANNEL.at_tag(tag), past.manifests["old"])
        assert past.superseded("new") is None
        assert past.registry.requests == []

    def test_a_tag_that_vanished_meanwhile_is_nothing(self, past: Past) -> None:
        past.moved("old", 0, version=V285)
        place = Position(past.manifests["old"].digest, V285, None, None)
        assert Ledger(past.registry, CHANNEL, TRUSTED).superseded_by(place, (f"v2.9.4-{'0' * 12}",)) is None

    def test_a_tag_that_was_moved_hides_nothing(self, past: Past) -> None:
        past.moved("old", 0, version=V285)
        new = past.moved("new", 1, "old")
        past.registry.put_manifest(CHANNEL.at_tag(immutable_tag(V294, new)), past.manifests["old"])
        with pytest.raises(ledger.ImmutableTagMoved) as caught:
            past.superseded("old", V285)
        assert caught.value.exit_code == 10

    def test_a_version_with_a_build_part(self, past: Past) -> None:
        version = Version.parse("v2.9.5+fips.1")
        past.moved("old", 0)
        new = past.moved("new", 1, "old", version=version)
        assert any("_fips.1-" in tag for tag in past.registry.tags(CHANNEL))
        assert past.superseded("old") == new


PREDICATES = {"https://slsa.dev/provenance/v1": {"a": 1}, "https://cyclonedx.org/bom": {"b": 2}}


class TestAttestations:
    @pytest.mark.parametrize("signer", [OURS, WrittenSigner(US)], ids=["a key", "an identity"])
    def test_they_are_bundles_that_verify_like_a_signature(
        self, place: tuple[Registry, Reference], signer: Signer
    ) -> None:
        registry, channel = place
        manifest = put(registry, channel, b"artifact")
        assert attest(registry, channel, manifest.digest, PREDICATES, signer) == tuple(PREDICATES)
        found = list(bundle.read_bundles(registry, channel, manifest.digest))
        said = [bundle.proven(each, signer.trusted) for each in found]
        statements = [Statement.parse(each[1]) for each in said if each]
        assert {statement.predicate_type: statement.predicate for statement in statements} == PREDICATES
        assert {statement.subject for statement in statements} == {manifest.digest}
        assert [bundle.examine_bundle(each, manifest.digest, signer.trusted).problem for each in found] == [None, None]

    def test_their_layout_is_that_of_a_signature(self, memory: InMemoryRegistry) -> None:
        manifest = put(memory, CHANNEL, b"artifact")
        attest(memory, CHANNEL, manifest.digest, PREDICATES, OURS)
        found = memory.referrers(CHANNEL, manifest.digest)
        assert {descriptor.artifact_type for descriptor in found} == {BUNDLE_TYPE}
        assert {descriptor.annotations["dev.sigstore.bundle.predicateType"] for descriptor in found} == {*PREDICATES}

    def test_a_second_run_adds_nothing(self, memory: InMemoryRegistry) -> None:
        manifest = put(memory, CHANNEL, b"artifact")
        attest(memory, CHANNEL, manifest.digest, PREDICATES, OURS)
        before = memory.referrers(CHANNEL, manifest.digest)
        assert attest(memory, CHANNEL, manifest.digest, PREDICATES, OURS) == ()
        assert memory.referrers(CHANNEL, manifest.digest) == before

    def test_one_that_is_missing_is_added_to_the_other(self, memory: InMemoryRegistry) -> None:
        manifest = put(memory, CHANNEL, b"artifact")
        first, second = PREDICATES
        attest(memory, CHANNEL, manifest.digest, {first: {}}, OURS)
        assert attest(memory, CHANNEL, manifest.digest, PREDICATES, OURS) == (second,)

    def test_what_others_attached_does_not_stand_for_ours(self, memory: InMemoryRegistry) -> None:
        manifest = put(memory, CHANNEL, b"artifact")
        attest(memory, CHANNEL, manifest.digest, PREDICATES, THEIRS)
        elsewhere = Statement("here", Digest.of(b"other"), "https://cyclonedx.org/bom", {}).to_bytes()
        for statement in (elsewhere, b"{}", bundle.statement(manifest.digest)):
            bundle.attach_bundle(
                memory, CHANNEL, manifest.digest, OURS.sign_statement(statement), "https://cyclonedx.org/bom"
            )
        assert attest(memory, CHANNEL, manifest.digest, PREDICATES, OURS) == tuple(PREDICATES)

    def test_nothing_wanted_is_nothing_asked(self, memory: InMemoryRegistry) -> None:
        assert attest(memory, CHANNEL, Digest.of(b"any"), {}, OURS) == ()
        assert memory.requests == []


@pytest.mark.parametrize("signer", [OURS, WrittenSigner(US)], ids=["a key", "an identity"])
def test_a_record_that_is_attached_as_a_bundle_is_no_signature(memory: InMemoryRegistry, signer: Signer) -> None:
    manifest = put(memory, CHANNEL, b"artifact")
    bundle.attach_bundle(memory, CHANNEL, manifest.digest, signed(record_of(manifest, signer=signer), signer), "")
    (found,) = bundle.read_bundles(memory, CHANNEL, manifest.digest)
    assert not bundle.examine_bundle(found, manifest.digest, signer.trusted).counts
    with pytest.raises((Unsigned, ForeignSignature)):
        verify(memory, CHANNEL, manifest.digest, signer.trusted)


@pytest.mark.parametrize("signer", [OURS, WrittenSigner(US)], ids=["a key", "an identity"])
def test_a_signature_that_is_attached_as_a_record_is_no_record(memory: InMemoryRegistry, signer: Signer) -> None:
    manifest = put(memory, CHANNEL, b"artifact")
    as_signature = signer.sign_statement(record_of(manifest, signer=signer).to_statement("here").to_bytes())
    raw_referrer(memory, manifest, as_signature)
    assert Ledger(memory, CHANNEL, signer.trusted).all_records(manifest.digest) == ()


def test_trust_in_several_keys_believes_each(memory: InMemoryRegistry) -> None:
    manifest = put(memory, CHANNEL, b"artifact")
    for signer in (OURS, THEIRS):
        RecordWriter(memory, CHANNEL, signer).write(manifest, record_of(manifest, signer=signer))
    both = TrustedKeys((signing_key().public, signing_key("theirs").public))
    assert {record.by for record in Ledger(memory, CHANNEL, both).all_records(manifest.digest)} == {
        str(OURS.who),
        str(THEIRS.who),
    }
