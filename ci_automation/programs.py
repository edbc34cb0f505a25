"""Where programs of this machine are looked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def search_path(environment: Mapping[str, str]) -> str:
    """Return `PATH` without what depends on the working directory, which may be a clone of an attacker's."""
    return os.pathsep.join(filter(os.path.isabs, environment.get("PATH", "").split(os.pathsep)))
