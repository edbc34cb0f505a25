"""What a pattern costs: a matcher that backtracks as Python's `re` does and counts its steps; and texts that cost most.

It knows the instructions that the program's patterns use, and fails at any other. It has none of the shortcuts of `re`,
so that it counts at least as many steps as that takes.
"""

from __future__ import annotations

import re
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Accepts = Callable[[str], bool]
    Then = Callable[[int], bool]
    Match = Callable[[int, Then], bool]

MANY = 10_000  # steps, after which it is clear
_SINGLE = frozenset({c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN})
_REPEATS = frozenset({c.MAX_REPEAT, c.MIN_REPEAT})
_CATEGORIES: dict[Any, Accepts] = {
    c.CATEGORY_DIGIT: str.isdigit,
    c.CATEGORY_NOT_DIGIT: lambda char: not char.isdigit(),
    c.CATEGORY_SPACE: str.isspace,
    c.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    c.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    c.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
}
_ALPHABET = [*map(chr, range(1, 127)), "\x85", "é", "\u2028", "\u2800", "\U0001f600"]


class TooMany(Exception):
    """There are more steps than anybody needs."""


class Counter:
    """One pattern, matched step by step."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
        self.flags = pattern.flags
        self.tree = list(_parser.parse(text, pattern.flags))
        self.steps = 0
        self.text, self._most = "", MANY
        self.groups: dict[int, str] = {}
        self._match = self._sequence(self.tree)

    def count(self, text: str, use: str, most: int = MANY) -> int:
        """Return how many steps it takes to `fullmatch` or `match` a text, or to `search` it for all that matches."""
        self.text, self.steps, self._most = text, 0, most
        self.groups.clear()
        place = 0
        try:
            if use != "search":
                self._match(0, lambda end: use == "match" or end == len(text))
            while use == "search" and place <= len(text):
                place = max(place + 1, self._end(place))
        except TooMany:
            pass
        return self.steps

    def _end(self, place: int) -> int:
        """Return where a match at a place ends, or 0 where there is none."""
        found = 0

        def ends(end: int) -> bool:
            nonlocal found
            found = end
            return True

        self._match(place, ends)
        return found

    def accepts(self, node: tuple[Any, Any]) -> Accepts:
        """Return what tells whether an instruction takes a character."""
        op, argument = node
        if op is c.ANY:
            return (lambda _: True) if self.flags & re.DOTALL else (lambda char: char != "\n")
        if op is c.IN:
            negated = bool(argument) and argument[0][0] is c.NEGATE
            parts = [self.accepts(each) for each in argument if each[0] is not c.NEGATE]
            return lambda char: any(part(char) for part in parts) is not negated
        if op is c.CATEGORY:
            return _CATEGORIES[argument]
        low, high = argument if op is c.RANGE else (argument, argument)
        ignore = self.flags & re.IGNORECASE

        def inside(char: str) -> bool:
            forms = {char, char.lower()[:1], char.upper()[:1]} if ignore else {char}
            return any(low <= ord(form) <= high for form in forms)

        return (lambda char: not inside(char)) if op is c.NOT_LITERAL else inside

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._most:
            raise TooMany

    def _sequence(self, nodes: Any) -> Match:
        matches = [self._node(node) for node in nodes]

        def match(at: int, then: Then) -> bool:
            def rest(place: int, at: int) -> bool:
                return then(at) if place == len(matches) else matches[place](at, lambda end: rest(place + 1, end))

            return rest(0, at)

        return match

    def _node(self, node: tuple[Any, Any]) -> Match:
        op, argument = node
        if op in _SINGLE:
            return self._single(self.accepts(node))
        if op in _REPEATS:
            return self._repeat(argument, greedy=op is c.MAX_REPEAT)
        if op in {c.ASSERT, c.ASSERT_NOT}:
            return self._look(argument, wanted=op is c.ASSERT)
        if op is c.AT:
            return lambda at, then: self._stands(argument, at) and then(at)
        return self._whole(op, argument)

    def _whole(self, op: Any, argument: Any) -> Match:
        if op is c.SUBPATTERN:
            return self._group(argument[0], self._sequence(argument[3]))
        if op is c.GROUPREF:
            return self._again(argument)
        if op is c.BRANCH:
            choices = [self._sequence(each) for each in argument[1]]
            return lambda at, then: any(choice(at, then) for choice in choices)
        raise NotImplementedError(op)

    def _single(self, accepts: Accepts) -> Match:
        def match(at: int, then: Then) -> bool:
            self._step()
            return at < len(self.text) and accepts(self.text[at]) and then(at + 1)

        return match

    def _repeat(self, argument: Any, *, greedy: bool) -> Match:
        least, most, body = argument
        if len(body) == 1 and body[0][0] in _SINGLE:
            run = self._longest if greedy else self._fewest
            accepts = self.accepts(body[0])
            return lambda at, then: run(accepts, least, most, at, then)
        once = self._sequence(body)

        def again(number: int, at: int, then: Then) -> bool:
            def more() -> bool:
                return number < most and once(at, lambda end: end > at and again(number + 1, end, then))

            self._step()
            if number < least:
                return once(at, lambda end: again(number + 1, end, then))
            return (more() or then(at)) if greedy else (then(at) or more())

        return lambda at, then: again(0, at, then)

    def _longest(self, accepts: Accepts, least: int, most: int, at: int, then: Then) -> bool:
        end = at
        while end < len(self.text) and end - at < most and accepts(self.text[end]):
            self._step()
            end += 1
        for place in range(end, at + least - 1, -1):
            self._step()
            if then(place):
                return True
        return False

    def _fewest(self, accepts: Accepts, least: int, most: int, at: int, then: Then) -> bool:
        for place in range(at, min(at + most, len(self.text)) + 1):
            self._step()
            if place - at >= least and then(place):
                return True
            if place == len(self.text) or not accepts(self.text[place]):
                return False
        return False

    def _group(self, number: int | None, inside: Match) -> Match:
        def match(at: int, then: Then) -> bool:
            def rest(end: int) -> bool:
                if number is not None:
                    self.groups[number] = self.text[at:end]
                return then(end)

            return inside(at, rest)

        return match

    def _again(self, number: int) -> Match:
        def match(at: int, then: Then) -> bool:
            self._step()
            known = self.groups.get(number, "")
            return self.text.startswith(known, at) and then(at + len(known))

        return match

    def _look(self, argument: Any, *, wanted: bool) -> Match:
        direction, inside = argument
        match = self._sequence(inside)

        def look(at: int, then: Then) -> bool:
            start = at if direction > 0 else at - inside.getwidth()[0]
            found = start >= 0 and match(start, lambda _: True)
            return found is wanted and then(at)

        return look

    def _stands(self, where: Any, at: int) -> bool:
        self._step()
        before, after = self.text[at - 1 : at] if at else "", self.text[at : at + 1]
        if where is c.AT_BEGINNING:
            return not before or (bool(self.flags & re.MULTILINE) and before == "\n")
        if where is c.AT_BEGINNING_STRING:
            return not before
        if where is c.AT_END:
            last = at >= len(self.text) - 1 and after in {"", "\n"}
            return last or (bool(self.flags & re.MULTILINE) and after == "\n")
        if where is c.AT_END_STRING:
            return not after
        word = [bool(char) and _CATEGORIES[c.CATEGORY_WORD](char) for char in (before, after)]
        return (word[0] is not word[1]) is (where is c.AT_BOUNDARY)


def attacks(counter: Counter) -> Iterator[tuple[str, str, str]]:
    """Yield a beginning, what is repeated, and an end: each way in which a text could cost a pattern much.

    One character stands for all that no part of the pattern tells apart. Repeated are these, alone and in pairs, and
    what each part of the pattern takes; after every beginning that leads to a part.
    """
    tests = [counter.accepts(node) for node in _nodes(counter.tree) if node[0] in _SINGLE]
    kinds: dict[tuple[bool, ...], str] = {}
    for char in sorted(_ALPHABET, key=lambda char: not char.isalnum()):
        kinds.setdefault(tuple(test(char) for test in tests), char)
    letters = list(kinds.values())
    beginnings = dict.fromkeys(_beginnings(counter, counter.tree, "", letters))
    whole = [text for text in beginnings if text]
    pairs = [one + other for one in letters for other in letters if one != other] if _is_nested(counter.tree) else []
    for beginning in beginnings:
        for pump in [*letters, *pairs[:12]]:
            yield beginning, pump, "\0"
            yield beginning, pump, "\n\0"
    for pump in dict.fromkeys([*whole, *(f"{text}\n" for text in whole[-3:])]):
        yield "", pump, "\n\0"


def _nodes(nodes: Any) -> Iterator[tuple[Any, Any]]:
    for node in nodes:
        yield node
        for inner in _inner(node):
            yield from _nodes(inner)


def _inner(node: tuple[Any, Any]) -> list[Any]:
    op, argument = node
    if op in _REPEATS:
        return [argument[2]]
    if op is c.SUBPATTERN:
        return [argument[3]]
    if op is c.BRANCH:
        return list(argument[1])
    return [argument[1]] if op in {c.ASSERT, c.ASSERT_NOT} else []


def _is_nested(nodes: Any) -> bool:
    return any(op in _REPEATS and argument[2][0][0] not in _SINGLE for op, argument in _nodes(nodes))


def _beginnings(counter: Counter, nodes: Any, before: str, letters: list[str]) -> Iterator[str]:
    """Yield the shortest texts that lead to each part, and through it."""
    for node in nodes:
        yield before
        for inner in _inner(node):
            if node[0] not in {c.ASSERT, c.ASSERT_NOT}:
                yield from _beginnings(counter, inner, before, letters)
        before += _example(counter, node, letters, least=1)
    yield before


def _example(counter: Counter, node: tuple[Any, Any], letters: list[str], least: int = 0) -> str:
    op, argument = node
    if op in _SINGLE:
        accepts = counter.accepts(node)
        return next((char for char in [*letters, *_ALPHABET] if accepts(char)), "")
    if op in _REPEATS:
        once = "".join(_example(counter, each, letters) for each in argument[2])
        return once * min(max(int(argument[0]), least), 64)
    if op is c.BRANCH:
        return "".join(_example(counter, each, letters) for each in argument[1][0])
    if op is c.SUBPATTERN:
        return "".join(_example(counter, each, letters, least) for each in argument[3])
    return ""
