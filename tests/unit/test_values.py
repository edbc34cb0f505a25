"""What holds for every Struct: it shows no field that it hides, whoever prints it, and it is ordered fully or not."""

from __future__ import annotations

import importlib
import pkgutil
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct
from rich.console import Console
from rich.pretty import pretty_repr

import ci_automation
from ci_automation.flows.evidence import Address
from ci_automation.flux.version import Version
from ci_automation.hiding import Hiding

if TYPE_CHECKING:
    from collections.abc import Iterator

CANARY = "canary-8c1f"
FIT: dict[type[Any], dict[str, str]] = {
    Address: {"url": f"https://status.example/{CANARY}"}
}  # what fits those that look
COMPARISONS = {"__lt__", "__le__", "__gt__", "__ge__"}
NOTHING_SHOWN = {"Inputs", "SigningKey"}


def below(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


def structs() -> list[type[Any]]:
    for module in pkgutil.walk_packages(ci_automation.__path__, "ci_automation."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = {each for each in below(Struct) if each.__module__.startswith("ci_automation.")}
    return sorted(found, key=lambda each: f"{each.__module__}.{each.__qualname__}")


STRUCTS = structs()
HIDING = [each for each in STRUCTS if issubclass(each, Hiding)]


def made(kind: type[Any]) -> Any:
    fit = FIT.get(kind, {})
    return kind(**{name: fit.get(name, CANARY if name in kind.hides else "seen") for name in kind.__struct_fields__})


def test_all_that_hide_are_found() -> None:
    assert len(HIDING) >= 26
    assert set(below(Hiding)) >= set(HIDING)


@pytest.mark.parametrize("kind", HIDING, ids=lambda kind: kind.__qualname__)
class TestWhatHides:
    def test_it_names_fields_that_it_has(self, kind: type[Any]) -> None:
        assert kind.hides
        assert set(kind.hides) <= set(kind.__struct_fields__)

    def test_it_shows_them_to_nobody(self, kind: type[Any]) -> None:
        value = made(kind)
        console = Console(file=(paper := StringIO()), width=200)
        console.print(value, [value], {"key": value})
        printed = [repr(value), str(value), f"{value}", f"{value!r}", f"{[value]}"]
        shown = [*printed, pretty_repr(value), pretty_repr([value], expand_all=True), paper.getvalue()]
        assert not [text for text in shown if CANARY in text]
        assert kind.__name__ in NOTHING_SHOWN or all("seen" in text for text in shown)


def test_a_struct_below_another_that_hides_does_so_too() -> None:
    class Above(Hiding, Struct, frozen=True):
        hides = ("secret",)

        secret: str

    class Below(Above, frozen=True):
        name: str

    assert repr(Below(CANARY, "x")) == pretty_repr(Below(CANARY, "x")) == "Below(name='x')"


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
def test_no_struct_prints_in_two_ways(kind: type[Any]) -> None:
    """One that hides something from `repr` hides it from rich too: nobody but `Hiding` may replace either."""
    expected: type[Any] = Hiding if issubclass(kind, Hiding) else Struct
    assert kind.__repr__ is expected.__repr__
    assert kind.__rich_repr__ is expected.__rich_repr__


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
def test_an_order_is_whole(kind: type[Any]) -> None:
    """`functools.total_ordering` finds the four that each Struct has, and leaves those that say nothing."""
    assert len(COMPARISONS & vars(kind).keys()) in {0, len(COMPARISONS)}


@pytest.mark.parametrize("older", ["v2.8.0", "v2.9.0-rc.1"])
def test_versions_are_ordered_in_all_four_ways(older: str) -> None:
    one, other = Version.parse(older), Version.parse("v2.9.0")
    assert one < other
    assert one <= other
    assert other > one
    assert other >= one
    assert not one >= other
    build = Version.parse("v2.9.0+build.1")
    assert build == other
    assert hash(build) == hash(other)
    assert build <= other <= build
    assert not build < other
