"""Who is trusted: patterns as Flux takes them, and that nobody is never everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.reference import Digest
from ci_automation.policy.patterns import InvalidPattern, is_anchored
from ci_automation.signing.trust import Identity, IdentityMatch, NobodyTrusted, TrustedIdentities, TrustedKeys
from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from ci_automation.signing.sigstore.root import TrustRoot

ROOT = cast("TrustRoot", None)
ISSUER = "https://token.actions.githubusercontent.com"
WORKFLOW = Identity(ISSUER, "https://github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/main")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\n"), min_size=1, max_size=40)


@given(TEXTS, TEXTS, TEXTS)
def test_an_exact_match_is_for_exactly_one_identity(issuer: str, subject: str, more: str) -> None:
    identity = Identity(issuer, subject)
    match = IdentityMatch.exact(identity)
    assert match.matches(identity)
    assert is_anchored(match.issuer)
    assert is_anchored(match.subject)
    for other in (subject + more, more + subject, subject.swapcase() + "x"):
        assert not match.matches(Identity(issuer, other))
        assert not match.matches(Identity(other + "x", subject))


def test_what_is_not_anchored_matches_anywhere_as_it_does_in_flux() -> None:
    assert IdentityMatch("githubusercontent", "acme/fleet").matches(WORKFLOW)
    assert not IdentityMatch("githubusercontent", "acme/fleets").matches(WORKFLOW)


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "(", ""], ids=["look-ahead", "reference", "broken", "empty"])
def test_what_re2_does_not_take_is_told(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        IdentityMatch("i", pattern)
    with pytest.raises(InvalidPattern):
        IdentityMatch(pattern, "s")


def test_nobody_is_not_everybody() -> None:
    with pytest.raises(NobodyTrusted):
        TrustedKeys(())
    with pytest.raises(NobodyTrusted):
        TrustedIdentities((), ROOT)


def test_who_is_among_them() -> None:
    ours, theirs = (signing_key(owner).public for owner in ("ours", "theirs"))
    keys = TrustedKeys((ours,))
    assert keys.names(ours.fingerprint)
    assert not keys.names(theirs.fingerprint)
    assert not keys.names(WORKFLOW)
    identities = TrustedIdentities((IdentityMatch.exact(WORKFLOW), IdentityMatch("^x$", "^y$")), ROOT)
    assert identities.names(WORKFLOW)
    assert identities.names(Identity("x", "y"))
    assert not identities.names(Identity("x", WORKFLOW.subject))
    assert not identities.names(Digest.of(b""))
    assert " or " in str(identities)
