"""Values that hide their secrets wherever they are printed: in logs, in f-strings, in tracebacks, and by rich."""

from __future__ import annotations

from typing import Any, ClassVar


class Hiding:
    """The first base of a Struct that names in `hides` those of its fields that must never be printed."""

    __slots__ = ()
    __struct_fields__: ClassVar[tuple[str, ...]]
    hides: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in self.hides]
