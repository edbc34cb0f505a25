"""How the program starts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ci_automation.__main__ import put_off_patterns


@pytest.fixture(autouse=True)
def put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(re, "compile", re.compile)  # is restored afterwards
    put_off_patterns()


def of_a_module(code: str) -> Any:
    """Return the pattern that the code of a module calls P."""
    values: dict[str, Any] = {"re": re}
    exec(code, values)  # noqa: S102  # what an import does
    return values["P"]


@pytest.mark.parametrize("code", ["P = re.compile('(')", "class C:\n    P = re.compile('(')\nP = C.P"])
def test_the_pattern_of_a_module_or_class_is_compiled_at_its_first_use(code: str) -> None:
    pattern = of_a_module(code)
    assert pattern.pattern == "("
    with pytest.raises(re.error):
        pattern.match("a")


def test_a_pattern_in_a_function_is_compiled_at_once() -> None:
    with pytest.raises(re.error):
        re.compile("(")


def test_a_pattern_that_is_put_off_is_as_good_as_any() -> None:
    pattern = of_a_module("P = re.compile('(?P<first>A).', re.IGNORECASE)")
    assert isinstance(pattern, re.Pattern)
    assert (pattern.groupindex, pattern.flags) == ({"first": 1}, re.IGNORECASE | re.UNICODE)
    assert (pattern.sub("x", "1ab2"), re.sub(pattern, "x", "abc"), pattern.split("1ab2")) == (
        "1x2",
        "xc",
        ["1", "a", "2"],
    )
    assert of_a_module("P = re.compile(re.compile('b'))").search("ab")
