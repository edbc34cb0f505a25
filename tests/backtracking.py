"""What a pattern costs: a matcher that backtracks as Python's `re` does and counts its steps; and texts that cost most.

It knows the instructions that the program's patterns use, and fails at any other. It has none of the shortcuts of `re`,
so that it counts at least as many steps as that takes.
"""

from __future__ import annotations

import re
from functools import cache
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Accepts = Callable[[str], bool]
    Match = Callable[[int], bool]

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
    """One pattern, matched step by step.

    Each instruction is made with the one that follows, `then`: a function that tells whether all that is left matches
    from a place on.
    """

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
        self.flags = int(pattern.flags)
        self.tree = list(_parser.parse(text, pattern.flags))
        self.steps = 0
        self.text, self._most, self._use, self._found = "", MANY, "", 0
        self._groups: dict[int, str] = {}
        self._stacks: list[list[Any]] = []
        self._recalls = any(op is c.GROUPREF for op, _ in _nodes(self.tree))
        self._match = self._sequence(self.tree, self._ends)

    def count(self, text: str, use: str, most: int = MANY) -> int:
        """Return how many steps it takes to `fullmatch` or `match` a text, or to `search` it for all that matches."""
        self.text, self.steps, self._most, self._use = text, 0, most, use
        self._groups.clear()
        for stack in self._stacks:
            stack.clear()
        place = 0
        try:
            if use != "search":
                self._match(0)
            while use == "search" and place <= len(text):
                place = max(place + 1, self._found if self._match(place) else 0)
        except TooMany:
            pass
        return self.steps

    def _ends(self, end: int) -> bool:
        self._found = end
        return self._use != "fullmatch" or end == len(self.text)

    def accepts(self, node: tuple[Any, Any]) -> Accepts:
        """Return what tells whether an instruction takes a character."""
        return cache(self._accepts(node))

    def _accepts(self, node: tuple[Any, Any]) -> Accepts:
        op, argument = node
        if op is c.ANY:
            return (lambda _: True) if self.flags & re.DOTALL else (lambda char: char != "\n")
        if op is c.IN:
            negated = bool(argument) and argument[0][0] is c.NEGATE
            parts = [self._accepts(each) for each in argument if each[0] is not c.NEGATE]
            return lambda char: any(part(char) for part in parts) is not negated
        if op is c.CATEGORY:
            return _CATEGORIES[argument]
        low, high = argument if op is c.RANGE else (argument, argument)
        ignore = self.flags & re.IGNORECASE

        def inside(char: str) -> bool:
            forms = {char, char.lower()[:1], char.upper()[:1]} if ignore else {char}
            return any(low <= ord(form) <= high for form in forms)

        return (lambda char: not inside(char)) if op is c.NOT_LITERAL else inside

    def _stack(self) -> list[Any]:
        self._stacks.append([])
        return self._stacks[-1]

    def _sequence(self, nodes: Any, then: Match) -> Match:
        for node in reversed(nodes):
            then = self._node(node, then)
        return then

    def _node(self, node: tuple[Any, Any], then: Match) -> Match:
        op, argument = node
        if op in _SINGLE:
            return self._single(self.accepts(node), then)
        if op in _REPEATS:
            return self._repeat(argument, then, greedy=op is c.MAX_REPEAT)
        if op in {c.ASSERT, c.ASSERT_NOT}:
            return self._look(argument, then, wanted=op is c.ASSERT)
        if op is c.AT:
            return self._stands(argument, then)
        return self._whole(op, argument, then)

    def _whole(self, op: Any, argument: Any, then: Match) -> Match:
        if op is c.SUBPATTERN:
            return self._group(argument[0], argument[3], then)
        if op is c.GROUPREF:
            return self._again(argument, then)
        if op is c.BRANCH:
            return self._branch([self._sequence(each, then) for each in argument[1]])
        raise NotImplementedError(op)

    def _branch(self, choices: list[Match]) -> Match:
        def match(at: int) -> bool:
            for choice in choices:  # noqa: SIM110 - a generator would be another call for each
                if choice(at):
                    return True
            return False

        return match

    def _single(self, accepts: Accepts, then: Match) -> Match:
        def match(at: int) -> bool:
            self.steps += 1
            return at < len(self.text) and accepts(self.text[at]) and then(at + 1)

        return match

    def _repeat(self, argument: Any, then: Match, *, greedy: bool) -> Match:
        least, most, body = argument
        if len(body) == 1 and body[0][0] in _SINGLE:
            return (self._longest if greedy else self._fewest)(self.accepts(body[0]), least, most, then)
        rounds = self._stack()  # those that are not over: how many were before, and where it began

        def over(end: int) -> bool:
            number, at = rounds.pop()
            matches = (number < least or end > at) and again(number + 1, end)
            rounds.append((number, at))
            return matches

        once = self._sequence(body, over)

        def more(number: int, at: int) -> bool:
            rounds.append((number, at))
            matches = once(at)
            rounds.pop()
            return matches

        def again(number: int, at: int) -> bool:
            self.steps += 1
            if self.steps > self._most:
                raise TooMany
            if number < least:
                return more(number, at)
            if greedy:
                return (number < most and more(number, at)) or then(at)
            return then(at) or (number < most and more(number, at))

        return lambda at: again(0, at)

    def _longest(self, accepts: Accepts, least: int, most: int, then: Match) -> Match:
        def match(at: int) -> bool:
            text, end, last = self.text, at, min(len(self.text), at + most)
            while end < last and accepts(text[end]):
                end += 1
            self.steps += end - at
            for place in range(end, at + least - 1, -1):
                self.steps += 1
                if self.steps > self._most:
                    raise TooMany
                if then(place):
                    return True
            return False

        return match

    def _fewest(self, accepts: Accepts, least: int, most: int, then: Match) -> Match:
        def match(at: int) -> bool:
            for place in range(at, min(at + most, len(self.text)) + 1):
                self.steps += 1
                if self.steps > self._most:
                    raise TooMany
                if place - at >= least and then(place):
                    return True
                if place == len(self.text) or not accepts(self.text[place]):
                    return False
            return False

        return match

    def _group(self, number: int | None, body: Any, then: Match) -> Match:
        if number is None or not self._recalls:
            return self._sequence(body, then)
        begun = self._stack()

        def over(end: int) -> bool:
            at = begun.pop()
            self._groups[number] = self.text[at:end]
            matches = then(end)
            begun.append(at)
            return matches

        inside = self._sequence(body, over)

        def match(at: int) -> bool:
            begun.append(at)
            matches = inside(at)
            begun.pop()
            return matches

        return match

    def _again(self, number: int, then: Match) -> Match:
        def match(at: int) -> bool:
            self.steps += 1
            known = self._groups.get(number, "")
            return self.text.startswith(known, at) and then(at + len(known))

        return match

    def _look(self, argument: Any, then: Match, *, wanted: bool) -> Match:
        direction, inside = argument
        match = self._sequence(inside, lambda _: True)

        def look(at: int) -> bool:
            start = at if direction > 0 else at - inside.getwidth()[0]
            found = start >= 0 and match(start)
            return found is wanted and then(at)

        return look

    def _stands(self, where: Any, then: Match) -> Match:
        lines, is_word = bool(self.flags & re.MULTILINE), _CATEGORIES[c.CATEGORY_WORD]

        def at_beginning(text: str, at: int) -> bool:
            return at == 0 or (lines and text[at - 1] == "\n")

        def at_end(text: str, at: int) -> bool:
            left = len(text) - at
            return left == 0 or (text[at] == "\n" and (lines or left == 1))

        def at_boundary(text: str, at: int) -> bool:
            return (at > 0 and is_word(text[at - 1])) is not (at < len(text) and is_word(text[at]))

        places: dict[Any, Callable[[str, int], bool]] = {
            c.AT_BEGINNING: at_beginning,
            c.AT_BEGINNING_STRING: lambda _, at: at == 0,
            c.AT_END: at_end,
            c.AT_END_STRING: lambda text, at: at == len(text),
            c.AT_BOUNDARY: at_boundary,
            c.AT_NON_BOUNDARY: lambda text, at: not at_boundary(text, at),
        }
        stands = places[where]

        def match(at: int) -> bool:
            self.steps += 1
            return stands(self.text, at) and then(at)

        return match


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
