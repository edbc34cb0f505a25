"""A plugin of mypy: it checks the arguments of `msgspec.structs.replace` as it does those of `dataclasses.replace`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy.plugin import FunctionSigContext, Plugin
from mypy.plugins.dataclasses import replace_function_sig_callback
from mypy.types import Instance, TypeVarType, UnionType, get_proper_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy.types import FunctionLike, Type

STRUCT = "msgspec.Struct"


def is_struct(kind: Type) -> bool:
    """Return whether each value of the type is a Struct."""
    match get_proper_type(kind):
        case UnionType(items=items):
            return all(map(is_struct, items))
        case TypeVarType(upper_bound=bound):
            return is_struct(bound)
        case Instance(type=info):
            return info.has_base(STRUCT)
    return False


def signature(context: FunctionSigContext) -> FunctionLike:
    """Return `replace` with the fields of what it gets; what is no Struct meets the signature that refuses it."""
    given = context.args[0]
    if len(given) == 1 and is_struct(context.api.get_expression_type(given[0])):
        return replace_function_sig_callback(context)
    return context.default_signature


class StructReplace(Plugin):
    """Give `replace` the parameters that are the fields of the Struct that it gets."""

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        """Return what makes the signature of a call."""
        return signature if fullname == "msgspec.structs.replace" else None


def plugin(_version: str) -> type[Plugin]:
    """Return the plugin: mypy asks for it by this name."""
    return StructReplace
