"""The action's inputs as the program uses them: parsed once, all that is wrong told at once.

An input arrives as text in `INPUT_<NAME>`, upper-cased, hyphens and all, and empty where it is not given.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from ci_automation.cli.arguments import Arguments
from ci_automation.cli.options import INPUTS, Kind, Option
from ci_automation.config import DEFAULT_PATH
from ci_automation.errors import UsageError
from ci_automation.hiding import Hiding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TRUE, FALSE = frozenset({"true", "True", "TRUE"}), frozenset({"false", "False", "FALSE"})
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_SHOWN = 80
_NEEDED = {
    "approve": ("artifact", "base", "target", "version"),
    "review": ("artifact", "base", "target", "version"),
    "show": ("operation",),
    "do": ("operation",),
    "watch": ("workflow",),
    "comment": ("text",),
}
_MAX_PAGE = 60_000


class InvalidInput(UsageError):
    """Inputs of the action cannot be used; all that is wrong with them, one line each."""

    hint = "The inputs are described in action.yml, and in docs/reference/inputs.md."

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Inputs(Hiding, Struct, frozen=True):
    """The inputs as the program uses them."""

    hides = tuple(each.parameter for each in INPUTS if each.kind is Kind.SECRET)

    command: str
    artifact: str
    registry_username: str
    registry_password: str
    docker_config: str
    provider: str
    github_token: str
    app_id: int | None
    app_private_key: str
    approval: str
    accept_shared_subject: bool
    adopt: str
    base: str
    target: str
    version: str
    request_key: str
    operation: str
    to: str
    reason: str
    code: str
    shown: str
    workflow: str
    max_age_days: int
    path: tuple[str, ...]
    text: str
    fail_on: str
    exit_code: bool
    given: Arguments  # the inputs that are options of the command line, too; not checked beside each other

    @classmethod
    def parse(cls, given: Mapping[str, str | None]) -> Self:
        """Return the inputs in `given`, by parameter; white space around a value is no part of it.

        Raises:
            InvalidInput: some cannot be used; the value of a secret is not repeated.
        """
        problems: list[str] = []
        values: dict[str, object] = {}
        for each in INPUTS:
            text = (given.get(each.parameter) or "").strip() or each.default
            try:
                values[each.parameter] = _parsed(each, text)
            except ValueError as error:
                problems.append(f"{each.name}: {error}")
        if not problems:
            problems += _contradictions(values)
        if problems:
            raise InvalidInput(tuple(problems))
        own = {name: values.pop(name) for name in cls.__struct_fields__ if name in values}
        return cls(**own, given=_arguments(own, values))  # type: ignore[arg-type]  # as parsed

    @property
    def config_file(self) -> str:
        """Return the path of the configuration file from here."""
        return os.path.relpath(self.given.config or DEFAULT_PATH)

    @property
    def config_path(self) -> str:
        """Return the path of the configuration file, as Git has it."""
        return in_clone(self.config_file)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the secrets among them that may show as they are, for the runner to hide."""
        return tuple(filter(None, (self.registry_password, self.github_token, self.app_private_key)))


def in_clone(path: str) -> str:
    """Return the path of a file or folder as Git has it, also if the clone is in a folder here."""
    top = next((it for it in Path(path).parents if (it / ".git").is_dir()), Path())
    return Path(path).relative_to(top).as_posix()


def _arguments(own: Mapping[str, object], options: Mapping[str, object]) -> Arguments:
    """Return the options that the inputs are."""
    texts = {name: value if value != "" else None for name, value in options.items()}
    if texts["config"] == str(DEFAULT_PATH):  # said or not: it is read if it is there
        texts["config"] = None
    said = {"adopt": bool(own["adopt"]), "yes": bool(own["adopt"]), "github_token": own["github_token"] or None}
    return Arguments(**texts, **said, key_must_open=False)  # type: ignore[arg-type]  # as parsed


def _parsed(each: Option, text: str) -> object:
    """Return what an input's text means; a ValueError says what is wrong with it."""
    match each.kind:
        case Kind.SECRET:
            return text
        case Kind.PAGE:
            return _page(text)
        case Kind.SWITCH:
            return _switch(text)
        case Kind.NUMBER:
            return _number(text) if text else None
        case Kind.LIST:
            return tuple(_line(line) for line in map(str.strip, text.splitlines()) if line)
        case _:
            if text and each.choices and text not in each.choices:
                raise ValueError(f"it is one of {', '.join(each.choices)}, not {_shown(text)}")
            return _line(text)


def _switch(text: str) -> bool:
    if text not in TRUE | FALSE:
        raise ValueError(f"it is true or false, not {_shown(text)}")
    return text in TRUE


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"it is a whole number, not {_shown(text)}")
    return int(text)


def _page(text: str) -> str:
    if len(text) > _MAX_PAGE:
        raise ValueError(f"it has {len(text)} characters, and a preview has at most {_MAX_PAGE}")
    return text


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"it has invisible characters: {_shown(text)}")
    return text


def _shown(text: str) -> str:
    return ascii(text[:_SHOWN])


def _contradictions(values: Mapping[str, object]) -> Iterator[str]:
    """Yield what is right by itself and wrong beside something else."""
    for one, other in (("registry_username", "registry_password"), ("app_id", "app_private_key")):
        if bool(values[one]) != bool(values[other]):
            missing, there = (one, other) if values[other] else (other, one)
            yield f"{_dashed(missing)}: it goes together with {_dashed(there)}"
    ways = [name for name in ("registry_password", "docker_config", "provider") if values[name]]
    if len(ways) > 1:
        yield f"{_dashed(ways[1])}: it and {_dashed(ways[0])} exclude each other"
    needed = _NEEDED.get(str(values["command"]), ())
    yield from (f"{name}: {values['command']} needs it" for name in needed if not values[name])


def _dashed(name: str) -> str:
    return name.replace("_", "-")
