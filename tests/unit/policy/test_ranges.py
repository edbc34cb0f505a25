from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.flux.version import Version
from ci_automation.policy.ranges import InvalidRange, Range
from tests.unit.policy.ranges import CASES


@pytest.mark.parametrize(("span", "allowed", "refused"), CASES, ids=[case[0] for case in CASES])
def test_answers_as_masterminds(span: str, allowed: str, refused: str) -> None:
    parsed = Range.parse(span)
    versions = f"{allowed} {refused}".split()
    assert [text for text in versions if parsed.allows(Version.parse(text))] == allowed.split()


def test_a_part_of_a_version_begins_later_than_it_reads() -> None:
    span = Range.parse(">2.9 <3 || >2.x || >2.9.1 || >*")
    told = [
        "`>2.9` begins at v2.10.0; for v2.9.0 and later write `>=2.9.0`",
        "`>2` begins at v3.0.0; for v2.0.0 and later write `>=2.0.0`",
    ]
    assert list(span.late_starts()) == told
    assert list(span.late_starts(Version.parse("v2.9.4"))) == told
    assert list(span.late_starts(Version.parse("v2.8.4"))) == told[1:]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "an alternative is empty", id="nothing"),
        pytest.param(" ", "an alternative is empty", id="spaces"),
        pytest.param("2.9 ||", "an alternative is empty", id="an alternative of nothing"),
        pytest.param("newest", "'newest' is not a list of constraints", id="a word"),
        pytest.param("==2.9", "not a list of constraints", id="an operator that it has not"),
        pytest.param(">=2.0.0 and <3", "not a list of constraints", id="and"),
        pytest.param(">=2,,<3", "not a list of constraints", id="two commas"),
        pytest.param("2.9.4.1", "not a list of constraints", id="four parts"),
        pytest.param("2\u00a0- 3", "not a list of constraints", id="a space that Go does not know"),
        pytest.param("٢.9", "not a list of constraints", id="digits of another script"),
        pytest.param("2.9|x", "'9|x' is not a number or a wildcard", id="one bar"),
        pytest.param("2.xx", "'xx' is not a number or a wildcard", id="two wildcards at once"),
        pytest.param(f"{2**64}.0.0", "is not a number or a wildcard", id="a number beyond 64 bits"),
        pytest.param(">=2.0.0-rc.01", "a number in the pre-release 'rc.01' begins with 0", id="rc.01"),
        pytest.param("||".join(["2"] * 33), "more than 32 alternatives", id="33 alternatives"),
        pytest.param("2" + " " * 512, "longer than 512 characters", id="513 characters"),
        pytest.param("2.0.0-" + "a" * 251, "longer than 256 characters", id="a long version"),
        pytest.param("2-" + "a" * 251, "longer than 256 characters", id="a long version, once its zeros are there"),
    ],
)
def test_what_masterminds_refuses_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidRange) as caught:
        Range.parse(text)
    assert reason in str(caught.value)
    assert caught.value.exit_code == 2
    assert "spec.ref.semver" in caught.value.hint
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{2**64 - 1}.0.0", id="the largest number"),
        pytest.param("||".join(["2"] * 32), id="32 alternatives"),
        pytest.param("2" + " " * 511, id="512 characters"),
        pytest.param("2.0.0-" + "a" * 250, id="a version of 256 characters"),
        pytest.param("2.x+" + "a" * 400, id="a long build behind a wildcard"),
    ],
)
def test_the_limits_themselves_are_taken(text: str) -> None:
    assert str(Range.parse(text)) == text


def test_many_spaces_take_no_time() -> None:
    """A matcher that can read spaces in two ways would try both at each of them: 2 to the power of 100."""
    with pytest.raises(InvalidRange):
        Range.parse("1  " * 100 + "!")


numbers = st.integers(0, 12).map(str)
identifiers = st.sampled_from(["", "-0", "-rc.1", "-rc.2", "-alpha", "-1.x"])
versions = st.builds("{}.{}.{}{}".format, numbers, numbers, numbers, identifiers).map(Version.parse)
parts = st.lists(numbers | st.sampled_from("xX*"), min_size=1, max_size=3).map(".".join)
bounds = st.builds("{}{}".format, parts, identifiers)
operators = st.sampled_from(["", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^"])
constraints = st.builds("{}{}".format, operators, bounds) | st.builds("{} - {}".format, bounds, bounds)
groups = st.lists(constraints, min_size=1, max_size=3).map(", ".join)
ranges = st.lists(groups, min_size=1, max_size=3).map(" || ".join)


@given(ranges, versions)
def test_every_range_answers_and_reads_as_written(text: str, version: Version) -> None:
    parsed = Range.parse(text)
    assert Range.parse(str(parsed)) == parsed
    assert parsed.allows(version) in (True, False)


@given(groups, groups, versions)
def test_an_alternative_only_adds(one: str, other: str, version: Version) -> None:
    either = Range.parse(f"{one} || {other}")
    assert either.allows(version) == (Range.parse(one).allows(version) or Range.parse(other).allows(version))


@given(st.text(alphabet=st.sampled_from("0129.xX*|-+ ,<>=!~^vrc\t\u00a0"), max_size=40), versions)
def test_any_text_is_a_range_or_refused(text: str, version: Version) -> None:
    try:
        parsed = Range.parse(text)
    except InvalidRange:
        return
    assert parsed.allows(version) in (True, False)
