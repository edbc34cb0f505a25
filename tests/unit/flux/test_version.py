"""Versions of Flux: strict SemVer with a leading v, and the steps between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.flux.version import Bump, InvalidVersion, Version

versions = st.from_regex(
    r"v(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]?)\.(0|[1-9][0-9]?)(-rc\.[1-9])?(\+b[0-9])?", fullmatch=True
)


@pytest.mark.parametrize("text", ["v2.9.4", "2.9.4"], ids=["as Flux's tags", "without the v"])
def test_is_written_as_fluxs_tags_are(text: str) -> None:
    assert str(Version.parse(text)) == "v2.9.4"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("v", id="the v alone"),
        pytest.param("latest", id="a word"),
        pytest.param("2.9", id="two numbers"),
        pytest.param("v2.9.4.1", id="four numbers"),
        pytest.param("vv2.9.4", id="two v"),
        pytest.param("V2.9.4", id="upper case"),
        pytest.param("v2.09.4", id="a leading zero"),
        pytest.param("v2.9.4-", id="an empty pre-release"),
        pytest.param("v2.9.4-rc.01", id="a leading zero in the pre-release"),
        pytest.param(" v2.9.4", id="a space before"),
        pytest.param("v2.9.4\n", id="a line break behind"),
        pytest.param("v2.9.٤", id="digits of another script"),
        pytest.param("v2.9." + "4" * 60, id="more than 64 characters"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidVersion, match="is not a version of Flux") as error:
        Version.parse(text)
    assert error.value.exit_code == 2


def test_a_long_text_is_shown_in_part() -> None:
    with pytest.raises(InvalidVersion) as error:
        Version.parse("4" * 10_000)
    assert len(str(error.value)) < 120


@given(versions)
def test_reads_what_it_writes(text: str) -> None:
    assert str(Version.parse(text)) == text


@given(st.text())
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    try:
        version = Version.parse(text)
    except InvalidVersion:
        return
    assert Version.parse(str(version)) == version


@given(versions, versions)
def test_the_order_is_total_and_equal_versions_are_one_in_a_set(one: str, other: str) -> None:
    a, b = Version.parse(one), Version.parse(other)
    assert [a < b, a == b, a > b].count(True) == 1
    assert (a <= b) == (b >= a)
    assert (len({a, b}) == 1) == (a == b)


@pytest.mark.parametrize(
    ("base", "target", "step"),
    [
        pytest.param("2.9.4", "2.9.4", Bump.NONE, id="the same"),
        pytest.param("2.9.4", "2.9.4+build", Bump.NONE, id="another build of the same"),
        pytest.param("2.9.3", "2.9.4", Bump.PATCH, id="a patch"),
        pytest.param("2.9.4-rc.1", "2.9.4", Bump.PATCH, id="from a pre-release to its release"),
        pytest.param("2.9.9", "2.9.10", Bump.PATCH, id="numbers, not texts"),
        pytest.param("2.8.8", "2.9.0", Bump.MINOR, id="a minor"),
        pytest.param("2.6.4", "2.9.4", Bump.MINOR, id="several minors"),
        pytest.param("2.9.4", "3.0.0", Bump.MAJOR, id="a major"),
        pytest.param("1.9.4", "3.9.4", Bump.MAJOR, id="several majors, all else the same"),
        pytest.param("2.9.4", "2.9.3", Bump.DOWN, id="a patch back"),
        pytest.param("2.9.0", "2.8.8", Bump.DOWN, id="a minor back, though the patch is higher"),
        pytest.param("2.9.4", "2.9.4-rc.1", Bump.DOWN, id="from a release to its pre-release"),
    ],
)
def test_the_step_from_one_to_another(base: str, target: str, step: Bump) -> None:
    assert Version.parse(base).bump_to(Version.parse(target)) is step


@pytest.mark.parametrize(
    ("text", "prerelease", "minor", "release"),
    [
        pytest.param("v2.9.4", False, (2, 9), "v2.9.4", id="a release"),
        pytest.param("v2.10.0-rc.1", True, (2, 10), "v2.10.0", id="a release candidate"),
        pytest.param("v2.9.4+build", False, (2, 9), "v2.9.4", id="a build"),
    ],
)
def test_its_parts(text: str, minor: tuple[int, int], release: str, *, prerelease: bool) -> None:
    version = Version.parse(text)
    assert (version.is_prerelease, version.minor, str(version.release)) == (prerelease, minor, release)
