"""Digests are sha256, written one way."""

from __future__ import annotations

import pytest

from ci_automation.artifact.reference import Digest, InvalidDigest

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_the_digest_of_bytes_is_their_sha256() -> None:
    assert str(Digest.of(b"")) == f"sha256:{EMPTY}"


def test_it_reads_what_it_writes() -> None:
    assert Digest.parse(str(Digest.of(b"a"))) == Digest.of(b"a")


def test_immutable_tags_carry_twelve_digits() -> None:
    assert Digest(EMPTY).short == "e3b0c44298fc"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param(EMPTY, id="no algorithm"),
        pytest.param(f"sha512:{EMPTY}", id="another algorithm"),
        pytest.param(f"SHA256:{EMPTY}", id="upper-case algorithm"),
        pytest.param(f"sha256:{EMPTY.upper()}", id="upper-case digits"),
        pytest.param(f"sha256:{EMPTY[1:]}", id="a digit less"),
        pytest.param(f"sha256:{EMPTY}0", id="a digit more"),
        pytest.param(f"sha256:{EMPTY[1:]}g", id="no hex digit"),
        pytest.param(f"sha256:{EMPTY}\n", id="a line break behind it"),
        pytest.param(f" sha256:{EMPTY}", id="a space before it"),
        pytest.param(f"sha256:{'٣' * 64}", id="digits of another script"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidDigest, match="is not a sha256 digest") as error:
        Digest.parse(text)
    assert (error.value.exit_code, error.value.code) == (2, "invalid-digest")
