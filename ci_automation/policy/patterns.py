"""Patterns of identities, which have to match as a whole: RE2, and so Flux, finds them anywhere in a text."""

from __future__ import annotations

import re

from msgspec import Struct

from ci_automation.errors import UsageError

_TOKEN = re.compile(
    r"""
      (?P<quoted>\\Q.*?(?:\\E|\Z))
    | (?P<start>\^|\\A)
    | (?P<end>\$|\\z)
    | (?P<class>\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*(?:\]|\Z))
    | (?P<flags>\(\?[A-Za-z-]*\))
    | (?P<open>\((?:\?P?<\w+>|\?[A-Za-z-]*:)?)
    | (?P<close>\))
    | (?P<bar>\|)
    | (?P<repeat>[?*+]|\{[0-9]+(?:,[0-9]*)?\})
    | (?P<other>\\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_MULTILINE = re.compile(r"\(\?[A-Za-z]*m")  # with which ^ and $ match at each line, too
_SHOWN = 300


class InvalidPattern(UsageError):
    """A regular expression is not one of RE2, which Flux and cosign use."""

    hint = "RE2 has no look-ahead and no back-references; see https://github.com/google/re2/wiki/Syntax."

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"{pattern[:_SHOWN]!r} is not a regular expression of RE2: {reason}")


class UnanchoredPattern(UsageError):
    """A pattern of identities also matches texts in which it is only a part."""

    def __init__(self, pattern: str) -> None:
        super().__init__(
            f"the pattern {pattern[:_SHOWN]!r} has no ^ at its beginning and $ at its end, so it also matches longer "
            "identities that others can have"
        )
        form = anchored_form(pattern)
        self.hint = (
            f"Write {form} if that is the whole identity. " if form else "Write it without (?m) and \\Q. "
        ) + "A workflow's is like https://github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/main."


class _Scope(Struct):
    """A group as far as it is read: whether its alternatives are anchored, and the state of the present one."""

    starts: bool = True
    ends: bool = True
    items: int = 0
    first: bool = False
    last: bool = False

    def add(self, *, starts: bool, ends: bool) -> None:
        """Take the next item of the present alternative."""
        self.items += 1
        self.first = starts if self.items == 1 else self.first
        self.last = ends

    def repeat(self) -> None:
        """Let the last item be repeated, or left out: it is no anchor then."""
        self.last = False
        self.first = self.first and self.items > 1

    def alternative(self) -> None:
        """End the present alternative."""
        self.starts, self.ends = self.starts and self.first, self.ends and self.last
        self.items, self.first, self.last = 0, False, False


def require_re2(pattern: str) -> str:
    """Return `pattern`, if it is one.

    Raises:
        InvalidPattern: it is empty, or not RE2's.
    """
    import re2

    if not pattern:
        raise InvalidPattern(pattern, "an empty one matches every identity")
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidPattern(pattern, error.args[0].decode(errors="replace")) from None  # what RE2 says, as bytes
    return pattern


def is_found(pattern: str, text: str) -> bool:
    """Return whether a pattern is found in a text, as Go's `regexp.MatchString` does."""
    import re2

    return re2.search(pattern, text) is not None


def require_anchored(pattern: str) -> str:
    """Return `pattern`, if it matches nothing but whole texts.

    Raises:
        UnanchoredPattern: it matches a part of a text, or is written so that this cannot be told.
    """
    if not is_anchored(pattern):
        raise UnanchoredPattern(pattern)
    return pattern


def is_anchored(pattern: str) -> bool:
    r"""Return whether each alternative of a pattern of RE2 begins with ^ or \A, and ends with $ or \z.

    In doubt it is not: where an anchor can be left out, or ^ and $ also match within the text.
    """
    scopes = [_Scope()]
    for token in _TOKEN.finditer(pattern):
        scope, kind = scopes[-1], token.lastgroup
        if kind in {"flags", "open"} and _MULTILINE.match(token[0]):
            return False
        if kind == "open":
            scopes.append(_Scope())
        elif kind == "close":
            if len(scopes) == 1:
                return False
            scope.alternative()
            scopes.pop()
            scopes[-1].add(starts=scope.starts, ends=scope.ends)
        elif kind == "bar":
            scope.alternative()
        elif kind == "repeat":
            scope.repeat()
        elif kind != "flags":
            scope.add(starts=kind == "start", ends=kind == "end")
    scopes[-1].alternative()
    return len(scopes) == 1 and scopes[0].starts and scopes[0].ends


def anchored_form(pattern: str) -> str | None:
    """Return the pattern that matches whole texts where `pattern` matches a part, or None where none is easily made."""
    forms = (f"^{pattern}", f"{pattern}$", f"^{pattern}$", f"^(?:{pattern})$")
    return next(filter(is_anchored, forms), None)
