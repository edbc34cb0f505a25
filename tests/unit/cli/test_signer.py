"""A signer that opens its key when it is needed, or a little before."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

import pytest

from ci_automation.cli.arguments import Arguments
from ci_automation.cli.trust import open_ahead, signer
from ci_automation.net.waiting import at_once
from ci_automation.signing.keys.public import KeyFileMissing
from ci_automation.signing.signer import LateSigner
from tests.fakes.world import key_pem

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.signing.signer import Signer


def test_two_that_ask_at_once_open_it_once() -> None:
    opened, both = [], threading.Barrier(2)

    def opens() -> Signer:
        opened.append(1)
        return cast("Signer", object())

    late = LateSigner(opens)

    def prepare() -> None:
        both.wait()
        late.prepare()

    at_once(prepare, prepare)
    assert opened == [1]


def test_artifacts_share_a_key_that_is_opened_once(tmp_path: Path) -> None:
    key = tmp_path / "cosign.key"
    key.write_bytes(key_pem())
    given = Arguments(key=str(key))
    open_ahead(given)
    first = signer(None, given)
    assert first is not None
    assert first is signer(None, given)
    who = first.who
    key.unlink()
    assert first.who == who


def test_a_key_that_cannot_be_opened_ahead_is_told_where_it_is_used(tmp_path: Path) -> None:
    given = Arguments(key=str(tmp_path / "nothing"))
    open_ahead(given)
    late = signer(None, given)
    assert late is not None
    with pytest.raises(KeyFileMissing):
        _ = late.who
