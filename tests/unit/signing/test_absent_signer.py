"""A signer that is named in a plan and signs nothing."""

from __future__ import annotations

import pytest

from ci_automation.signing.signer import AbsentSigner, SignsLater
from ci_automation.signing.trust import TrustedKeys
from tests.fakes.world import signing_key


def test_nothing_can_be_signed_with_it() -> None:
    public = signing_key().public
    absent = AbsentSigner(public.fingerprint, TrustedKeys((public,)))
    assert absent.trusted.names(absent.who)
    for sign in (absent.sign_payload, absent.sign_statement):
        with pytest.raises(SignsLater):
            sign(b"{}")
