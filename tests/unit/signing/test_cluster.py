"""What a cluster does with an artifact, by the version of Flux: the table, case by case."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.flux.artifact import PUSHED
from ci_automation.flux.version import Version
from ci_automation.signing import bundle, legacy
from ci_automation.signing.bundle_format import Bundle
from ci_automation.signing.cluster import cluster_table, judge_cluster
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import Signatures, examine
from tests.fakes.trust import THEM, US, sig_annotations, trust
from tests.fakes.trust import bundle as keyless_bundle
from tests.fakes.world import CHANNEL, signing_key

if TYPE_CHECKING:
    from ci_automation.signing.trust import Identity, Trusted

OURS, THEIRS = signing_key(), signing_key("theirs")
DIGEST, OTHER = Digest.of(b"artifact"), Digest.of(b"another")
STATEMENT, ATTESTATION = bundle.statement(DIGEST), bundle.statement(DIGEST, "https://slsa.dev/provenance/v1")
KEY, KEYS = TrustedKeys((OURS.public,)), TrustedKeys((THEIRS.public, OURS.public))
ONE, TWO = trust(US), trust(THEM, US)
OWN_ROOT = trust(US, custom=True)
MINORS = ("2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8.0 - 2.8.5", "2.8.6 and later 2.8", "2.9")
ALL, NONE = "yyyyyyyyy", "nnnnnnnnn"
OLD, NEW = "yyyyyynnn", "nnnnnnyyy"


def sig(by: object = OURS, digest: Digest = DIGEST) -> legacy.Signature:
    """Return a `.sig`, made by a key, or by an identity (None: one whose certificate is rejected)."""
    message = legacy.payload(CHANNEL, digest)
    if by in (OURS, THEIRS):
        made = base64.b64encode((OURS if by is OURS else THEIRS).sign(message)).decode()
        return legacy.Signature({legacy.SIGNATURE_ANNOTATION: made}, message)
    return legacy.Signature(sig_annotations(message, cast("Identity | None", by)), message)


def keyed(by: object = OURS, statement: bytes = STATEMENT) -> Bundle:
    """Return a bundle by a key."""
    return parsed(bundle.signed_with_key(statement, OURS if by is OURS else THEIRS))


def keyless(by: Identity | None = US, statement: bytes = STATEMENT, rekor: int = 1) -> Bundle:
    """Return a bundle by an identity; None: one whose certificate is rejected."""
    return parsed(keyless_bundle(statement, by, rekor))


def parsed(raw: bytes) -> Bundle:
    found = Bundle.parse(raw)
    assert found is not None
    return found


MESSAGE = parsed(keyless_bundle(b"", US, dsseEnvelope=None, messageSignature={"signature": "AAAA"}))
WRONG = bundle.statement(OTHER)
LATER = replace(keyed(), later_page=True)
LOGGED = base64.b64encode(b'{"apiVersion":"0.0.2","kind":"dsse","spec":{"dsseV002":{}}}').decode()
IN_REKOR_2 = parsed(
    keyless_bundle(STATEMENT, US, 2).replace(
        b'"kindVersion"', f'"canonicalizedBody": "{LOGGED}", "kindVersion"'.encode()
    )
)
CASES: dict[str, tuple[tuple[legacy.Signature | Bundle, ...], Trusted, str, str]] = {
    # what is there, who is trusted, what Flux 2.2 ... 2.9 does, and a word of the last reason
    "nothing": ((), KEY, NONE, "there is no signature"),
    "a .sig by the key": ((sig(),), KEY, ALL, f"(.sig) of {OURS.public.fingerprint}"),
    "a .sig by one of two keys": ((sig(),), KEYS, ALL, "the cosign signature (.sig) of"),
    "a .sig by another key": ((sig(THEIRS),), KEY, NONE, "another key made it"),
    "a .sig by another key, and ours": ((sig(THEIRS), sig()), KEY, ALL, "the cosign signature (.sig) of"),
    "a bundle by the key": ((keyed(),), KEY, NEW, f"the bundle of {OURS.public.fingerprint}"),
    "a bundle by another key": ((keyed(THEIRS),), KEY, NONE, "another key made it"),
    "both by the key": ((sig(), keyed()), KEY, ALL, "the bundle of"),
    "a bundle of somebody else masks a good .sig": ((sig(), keyed(THEIRS)), KEY, OLD, "hides the .sig"),
    "a bundle of another digest masks a good .sig": ((sig(), keyed(statement=WRONG)), KEY, OLD, "another digest"),
    "a keyless bundle masks a good .sig by key": ((sig(), keyless()), KEY, OLD, "a certificate, not with a key"),
    "a foreign bundle beside a good one does no harm": ((sig(), keyed(THEIRS), keyed()), KEY, ALL, "the bundle of"),
    "a good bundle beside a .sig of somebody else": ((sig(THEIRS), keyed()), KEY, NEW, "the bundle of"),
    "a keyless .sig": ((sig(US),), ONE, ALL, f"the cosign signature (.sig) of {US}"),
    "a keyless .sig of somebody else": ((sig(THEM),), ONE, NONE, "which is not a trusted signer"),
    "a keyless .sig with an expired certificate": ((sig(None),), ONE, NONE, "not valid when the log recorded it"),
    "a .sig by key for who trusts an identity": ((sig(),), ONE, NONE, "made with a key"),
    "a keyless bundle": ((keyless(),), ONE, NEW, f"the bundle of {US}"),
    "a keyless bundle of somebody else": ((keyless(THEM),), ONE, NONE, "which is not a trusted signer"),
    "a keyless bundle with an expired certificate": ((keyless(None),), ONE, NONE, "not valid when the log recorded it"),
    "a bundle by key for who trusts an identity": ((keyed(),), ONE, NONE, "made with a key"),
    "a bundle with an entry of Rekor 2 alone": ((keyless(rekor=2),), ONE, "nnnnnnnyy", "the bundle of"),
    "the same masks a good .sig before 2.8.6": ((sig(US), keyless(rekor=2)), ONE, "yyyyyynyy", "the bundle of"),
    "both keyless": ((sig(US), keyless()), ONE, ALL, "the bundle of"),
    "a bundle that Rekor 2 has with its envelope": (
        (IN_REKOR_2,),
        ONE,
        "nnnnnnnyn",
        "it reads no bundle whose envelope",
    ),
    "the same beside a .sig": ((sig(US), IN_REKOR_2), ONE, "yyyyyynyy", "the cosign signature (.sig) of"),
    "the same by somebody else beside a .sig": (
        (sig(), IN_REKOR_2),
        KEY,
        "yyyyyynny",
        "the cosign signature (.sig) of",
    ),
    "two identities and a .sig": ((sig(US),), TWO, ALL, f"the cosign signature (.sig) of {US}"),
    "two identities and a bundle": ((keyless(),), TWO, NONE, "takes one matchOIDCIdentity, not 2"),
    "two identities and both": ((sig(US), keyless()), TWO, OLD, "takes one matchOIDCIdentity, not 2"),
    "an own trust root and a .sig": ((sig(US),), OWN_ROOT, "nnnnnnnny", "the cosign signature (.sig) of"),
    "an own trust root and a bundle": ((keyless(),), OWN_ROOT, "nnnnnnnny", "the bundle of"),
    "an own trust root and Rekor 2": ((keyless(rekor=2),), OWN_ROOT, "nnnnnnnny", "the bundle of"),
    "a message signature": ((MESSAGE,), ONE, NONE, "no DSSE envelope"),
    "a message signature masks a good .sig": ((sig(US), MESSAGE), ONE, OLD, "no DSSE envelope"),
    "a bundle too large to read": ((sig(), Bundle(b"", problem="too many bytes")), KEY, OLD, "too many bytes"),
    "a bundle that is not on the first page of the list": ((LATER,), KEY, NONE, "1 of the bundles are on later ones"),
    "such a bundle beside a .sig": ((sig(), LATER), KEY, ALL, "the bundle of"),
    "the same after a foreign one on the first page": (
        (sig(), keyed(THEIRS), LATER),
        KEY,
        OLD,
        "first page of the list",
    ),
    "a foreign one on a later page": ((sig(), replace(keyed(THEIRS), later_page=True)), KEY, OLD, "hides the .sig"),
    # in capitals: Flux takes it, and we would not
    "a .sig for another digest": ((sig(digest=OTHER),), KEY, "YYYYYYYYY", "it was made for another digest: Flux does"),
    "a keyless .sig for another digest": ((sig(US, OTHER),), ONE, "YYYYYYYYY", "it was made for another digest"),
    "the same, and a right one": ((sig(digest=OTHER), sig()), KEY, ALL, "the cosign signature (.sig) of"),
    "an attestation of ours": ((keyless(statement=ATTESTATION),), ONE, "nnnnnnYYY", "slsa.dev/provenance/v1"),
    "an attestation by our key": ((keyed(statement=ATTESTATION),), KEY, "nnnnnnYYY", "slsa.dev/provenance/v1"),
    "an attestation beside a .sig": ((sig(), keyed(statement=ATTESTATION)), KEY, ALL, "provenance/v1': Flux does not"),
    "a foreign attestation masks a .sig": ((sig(US), keyless(THEM, ATTESTATION)), ONE, OLD, "hides the .sig"),
}


def evidence(*found: legacy.Signature | Bundle) -> Signatures:
    return Signatures(
        DIGEST,
        tuple(each for each in found if isinstance(each, legacy.Signature)),
        tuple(each for each in found if isinstance(each, Bundle)),
    )


@pytest.mark.parametrize(("found", "trusted", "expected", "last"), CASES.values(), ids=list(CASES))
def test_the_table(found: tuple[legacy.Signature | Bundle, ...], trusted: Trusted, expected: str, last: str) -> None:
    rows = cluster_table(evidence(*found), trusted)
    assert tuple(row.flux for row in rows) == MINORS
    letters = {(True, True): "y", (True, False): "Y", (False, False): "n"}
    assert "".join(letters[row.judgement.accepted, row.judgement.strict] for row in rows) == expected
    assert last in rows[-1].judgement.reason
    assert all(row.judgement.reason for row in rows)
    pushed = judge_cluster(examine(evidence(*found), trusted), trusted, PUSHED)  # which any Flux reads
    assert pushed.accepted is ("n" not in expected[-1 if trusted is OWN_ROOT else -2 :])


REASONS = {
    "bundles alone before 2.8": ((keyed(),), KEY, "2.7.5", "it reads no bundles, and there is no .sig"),
    "Rekor 2 before 2.8.6": ((keyless(rekor=2),), ONE, "2.8.5", "Rekor 2 only, which Flux takes since 2.8.6"),
    "an own root before 2.9": ((sig(US),), OWN_ROOT, "2.8.8", "trustedRootSecretRef came with Flux 2.9"),
    "an own root, a bundle, before 2.9": ((keyless(),), OWN_ROOT, "2.8.8", "trustedRootSecretRef came with Flux 2.9"),
}


@pytest.mark.parametrize(("found", "trusted", "flux", "reason"), REASONS.values(), ids=list(REASONS))
def test_a_refusal_says_why(
    found: tuple[legacy.Signature | Bundle, ...], trusted: Trusted, flux: str, reason: str
) -> None:
    judgement = judge_cluster(examine(evidence(*found), trusted), trusted, Version.parse(flux))
    assert not judgement.accepted
    assert reason in judgement.reason


@pytest.mark.parametrize(
    ("flux", "accepted"), [("2.8.5", False), ("2.8.6", True), ("2.8.9", True), ("2.9.4", True), ("2.10.0", True)]
)
def test_every_version_is_judged_as_those_around_it(flux: str, accepted: bool) -> None:
    judgement = judge_cluster(examine(evidence(keyless(rekor=2)), ONE), ONE, Version.parse(flux))
    assert judgement.accepted is accepted
