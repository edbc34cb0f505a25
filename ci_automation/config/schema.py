"""Keys of a configuration file with the types of their values, and the JSON schema of the file."""

from __future__ import annotations

import ast
import inspect
from enum import Enum
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeGuard, Union, cast, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT

from ci_automation.config import values
from ci_automation.config.model import Section
from ci_automation.config.sections import File
from ci_automation.config.values import Form


class Key(NamedTuple):
    """A key of a section: its name in the file, the name of its field, and the type of its values."""

    written: str
    name: str
    type: object
    required: bool


@cache
def keys(section: type[Section]) -> tuple[Key, ...]:
    """Return the keys of a section, in its order."""
    kinds = get_type_hints(section, localns=vars(values), include_extras=True)
    names, defaults = section.__struct_fields__, section.__struct_defaults__
    required = [True] * (len(names) - len(defaults)) + [each is NODEFAULT for each in defaults]
    written = map(_in_camel_case, section.__struct_encode_fields__)
    return tuple(
        Key(key, name, kinds[name], needed) for key, name, needed in zip(written, names, required, strict=True)
    )


def _in_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def alternatives(kind: object) -> tuple[Any, ...]:
    """Return the possible types of a value, without the None of an absent key."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return tuple(each for each in kinds if each is not NoneType)


def unwrapped(kind: object) -> tuple[Any, Form]:
    """Return a type, and the form of its values; a type without a form is YAML's own, in which tuples are lists.

    The type of a value that is made of a section is the section.
    """
    if get_origin(kind) is Annotated:
        kind, form = get_args(kind)
        return (kind, form) if isinstance(form, Form) else unwrapped(form)
    of = cast("type", get_origin(kind) or kind)
    return kind, Form(tuple, list) if of is tuple else Form(_as_it_is, of)


def _as_it_is(value: object) -> object:
    return value


def is_section(kind: object) -> TypeGuard[type[Section]]:
    """Return whether a type is that of a mapping with keys of its own."""
    return isinstance(kind, type) and issubclass(kind, Section)


_TYPES = {str: "string", bool: "boolean", int: "integer", list: "array", dict: "object", object: "string"}


def config_schema() -> dict[str, Any]:
    """Return the JSON schema of the file, for editors."""
    definitions: dict[str, Any] = {}
    file = _mapping(File, definitions)
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "$defs": dict(sorted(definitions.items())), **file}


def _mapping(section: type[Section], definitions: dict[str, Any]) -> dict[str, Any]:
    texts = _texts(section)
    return _sorted(
        additionalProperties=False,
        description=section.__doc__,
        properties={
            key.written: _sorted(**_described(key.type, definitions), description=texts.get(key.name))
            for key in keys(section)
        },
        required=[key.written for key in keys(section) if key.required] or None,
        title=section.__name__,
        type="object",
    )


def _described(kind: object, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type, and add the types that it names to the definitions."""
    if len(kinds := alternatives(kind)) > 1:
        return {"anyOf": [_described(each, definitions) for each in kinds]}
    kind, form = unwrapped(kinds[0])
    if isinstance(kind, type) and issubclass(kind, Section | Enum):
        definitions[kind.__name__] = _mapping(kind, definitions) if issubclass(kind, Section) else _choice(kind)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    items = _described(get_args(kind)[0], definitions) if form.written is list else None
    return _sorted(**{"type": _TYPES[form.written], "items": items, **(form.schema or {})})


def _choice(kind: type[Enum]) -> dict[str, Any]:
    members = [each.value for each in kind]
    return _sorted(description=kind.__doc__, enum=members, title=kind.__name__, type="string")


def _sorted(**parts: object) -> dict[str, Any]:
    return {name: part for name, part in sorted(parts.items()) if part is not None}


def _texts(section: type[Section]) -> dict[str, str]:
    """Return the texts below the keys of a section from its source, because Python does not keep them."""
    texts = {}
    for base in reversed(section.__mro__[: section.__mro__.index(Section)]):
        [tree] = ast.parse(inspect.getsource(base)).body
        for key, below in pairwise(cast("ast.ClassDef", tree).body):
            match key, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts
