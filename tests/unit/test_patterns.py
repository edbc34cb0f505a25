"""No text that a stranger may send makes a pattern cost more than a few steps for each of its characters.

Every pattern of the program is found by itself: those that modules hold, also in tables, and those that are written
where they are used. Each is fed the texts that cost it most (`tests/backtracking.py`), and steps are counted, not
seconds. A pattern whose steps grow faster than its text needs an entry in `LONGEST`: then it is fed as much as the code
lets through.

It buys that no file, header or message of a stranger makes a run hang, for about five seconds of CPU: 150,000 texts for
230 patterns. Nobody has to remember a new pattern.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

import ci_automation
from ci_automation.policy import ranges
from ci_automation.registry.authorization import Challenge
from ci_automation.registry.transport import next_link
from tests.backtracking import MANY, Counter, attacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

pytestmark = pytest.mark.often
ENOUGH = 2_000_000  # steps, which take `re` about a hundredth of a second
# How patterns are used that are not used by their own name.
USES = {
    "artifact.tar._PAX_NUMBER": "fullmatch",
    "artifact.tar._PAX_TIME": "fullmatch",
    "artifact.tar._PAX_VALUES": "fullmatch",
    "config.values._FOLDER": "fullmatch",
    "config.values._HOST": "fullmatch",
    "config.values._REPOSITORY": "fullmatch",
    "config.values._TEAM": "fullmatch",
    "config.values._USER": "fullmatch",
    "config.values._WORKFLOW": "fullmatch",
    "flows.setting_up.answers._PLAIN": "fullmatch",
    "impact.plain._ESCAPED": "search",
    "flux.options._DNS_NAME": "fullmatch",
    "flux.options._IMAGE_PATH": "fullmatch",
    "flux.options._LABEL": "fullmatch",
    "flux.options._QUALIFIED_NAME": "fullmatch",
    "flux.recover._DOMAIN": "search",
    "flux.recover._IMAGE": "search",
    "flux.recover._LOG_LEVEL": "search",
    "flux.recover._NAME": "search",
    "flux.recover._PULL_SECRET": "search",
    "flux.recover._TOLERATIONS": "search",
    "flux.recover._VERSION_LABEL": "search",
    "flux.recover._WATCH_ALL": "search",
    "github.refusals._NEEDED": "search",
    "impact.overlay.builder._OUTER": "fullmatch",
    "registry.logins.aws.REGISTRY": "fullmatch",
    "registry.logins.azure.REGISTRY": "fullmatch",
    "registry.logins.google.REGISTRY": "fullmatch",
    "records.content.OID": "fullmatch",
    "report.markdown._APART": "search",
    "report.markdown._SIMPLE": "fullmatch",
    "report.markdown._TYPED": "fullmatch",
    "report.preview._DECIDES": "fullmatch",
    "signing.keys.kms._SERVICES": "fullmatch",
}
# Patterns that may cost more than so many steps a character, and how many characters the code lets through.
LONGEST = {
    "policy.ranges._HYPHEN": ranges._MAX_LENGTH,
    "policy.ranges._ONE": ranges._MAX_LENGTH,
}
# Where a pattern is put together when it is used; what goes into it is ours.
PUT_TOGETHER = {"approval.dispatch._started_by", "registry.logins.aws._element", "report.markdown.quote"}
_SEARCHES = frozenset({"search", "sub", "finditer", "findall", "split"})
_CALLS = _SEARCHES | {"match", "fullmatch"}
# Few modules have a pattern in a function, so few need their tree.
_INDENTED = re.compile(rf"^ .*\bre\.(?:{'|'.join(sorted(_CALLS))}|compile)\(", re.MULTILINE)


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(ci_automation.__path__, "ci_automation."):
        if not found.name.endswith(".__main__"):
            yield importlib.import_module(found.name)


def held(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns in a value: itself, or what tables and values hold."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth > 4:
        return
    elif isinstance(value, dict):
        for each in (*value, *value.values()):
            yield from held(each, depth + 1)
    elif isinstance(value, (tuple, list, set, frozenset)):
        for each in value:
            yield from held(each, depth + 1)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from held(getattr(value, name), depth + 1)


def use_of(name: str, calls: set[str]) -> str:
    """Return the dearest way in which a pattern is used."""
    if not calls:
        return USES[name]
    return "search" if calls & _SEARCHES else "match" if "match" in calls else "fullmatch"


def named() -> Iterator[Any]:
    """Yield each pattern with its name and its use; `LookupError` where a new one has none."""
    for module in modules():
        text, place = inspect.getsource(module), module.__name__.removeprefix("ci_automation.")
        for name, value in vars(module).items():
            for number, pattern in enumerate(held(value)):
                if f"\n{name} = " not in text and f"\n{name}: " not in text and f"\n{name}, " not in text:
                    continue  # of another module
                calls = set(re.findall(rf"\b{name}\.({'|'.join(_CALLS)})\b", text))
                full = f"{place}.{name}"
                yield pytest.param(pattern, use_of(full, calls), LONGEST.get(full), id=f"{full}[{number}]")
        for where, call in inline(ast.parse(text)) if _INDENTED.search(text) else ():
            if f"{place}.{where}" in PUT_TOGETHER:
                continue
            pattern, use = re.compile(ast.literal_eval(call.args[0])), use_of("", {call.func.attr})  # type: ignore[attr-defined]
            yield pytest.param(pattern, use, None, id=f"{place}.{where}:{call.lineno}")


def inline(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of `re` that are in a function, with the function's name."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for call in ast.walk(function):
            match call:
                case ast.Call(ast.Attribute(ast.Name("re"), attr)) if attr in {*_CALLS, "compile"}:
                    yield function.name, call


PATTERNS = tuple(named())


@pytest.fixture
def deep() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(before)


def dear(counter: Counter, use: str) -> tuple[str, str, str] | None:
    """Return a text whose doubling more than doubles the steps, as what comes before, what is repeated and the end."""
    return next((text for text in attacks(counter) if more_than_doubles(counter, use, *text)), None)


def more_than_doubles(counter: Counter, use: str, before: str, pump: str, end: str) -> bool:
    once = counter.count(before + pump * 24 + end, use)
    if once <= 12 * (24 * len(pump) + len(before)):
        return False
    twice = counter.count(before + pump * 48 + end, use)
    return twice > 2.5 * once + 200 or twice >= MANY


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize(("pattern", "use", "longest"), PATTERNS)
def test_no_text_makes_a_pattern_cost_much(pattern: re.Pattern[Any], use: str, longest: int | None) -> None:
    counter = Counter(pattern)
    found = dear(counter, use)
    if longest is None:
        assert found is None, "the steps grow faster than the text: write it otherwise, or cap what it gets in LONGEST"
    elif found:
        before, pump, end = found
        text = (before + pump * longest)[: longest - len(end)] + end
        assert counter.count(text, use, ENOUGH + 1) <= ENOUGH


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize(
    ("pattern", "use"),
    [
        pytest.param(r'<(?P<url>[^<>]*)>\s*;[^,]*\brel="?next\b', "search", id="that of the links, as it was"),
        pytest.param(r"(a+)+", "fullmatch", id="nested"),
        pytest.param(r"\s*\n\s*", "search", id="a search that begins everywhere"),
        pytest.param(r"a*[ab]*c", "fullmatch", id="neighbours"),
        pytest.param(r"(a|a)*", "fullmatch", id="choices"),
        pytest.param(r"(\w+)\s+\1x", "search", id="again"),
    ],
)
def test_a_pattern_that_costs_much_is_found(pattern: str, use: str) -> None:
    assert dear(Counter(re.compile(pattern)), use)


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize(
    "pattern",
    [r"[a-z]+=[0-9]*", r"^a: .*$", r'"(?:[^"\\]|\\.)*"', r"(?<![a-z])[a-z]{1,9}(?:\.[a-z]{1,9})?", r"(ab|ac)d"],
)
def test_a_pattern_that_costs_little_is_none(pattern: str) -> None:
    assert dear(Counter(re.compile(pattern)), "fullmatch") is None


@pytest.mark.parametrize(
    ("scanner", "pieces"),
    [
        pytest.param(next_link, ("<", "<>", "<>;", ";", "<>;rel=", '"', "a"), id="Link"),
        pytest.param(Challenge.parse, (",", "a", "a=", 'a="', "\\", 'a="\\', "a ", "=,="), id="WWW-Authenticate"),
    ],
)
def test_no_header_makes_a_scanner_cost_much(scanner: Callable[[str], object], pieces: tuple[str, ...]) -> None:
    for piece in pieces:
        assert lines(scanner, piece * 400) <= 2.2 * lines(scanner, piece * 200) + 50


def lines(scanner: Callable[[str], object], text: str) -> int:
    """Return how many lines of Python run."""
    seen = 0

    def trace(_frame: object, event: str, _argument: object) -> Any:
        nonlocal seen
        seen += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        scanner(text)
    finally:
        sys.settrace(before)
    return seen


def test_every_entry_is_of_a_pattern_that_is_there() -> None:
    names = {param.id.partition("[")[0] for param in PATTERNS}
    assert {*USES, *LONGEST} <= names
