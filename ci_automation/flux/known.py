"""The table of releases that this version of the program was proven on (design section 6, *known*).

A release is in it when our rendering of it has the bytes of `flux install --export` for every option set that the real
tier knows; `tests/real/make_known.py` writes it. The samples are the demonstration's own releases.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci_automation.flux.bundle import Bundle
    from ci_automation.flux.version import Version


@cache
def _proven() -> frozenset[tuple[str, str]]:
    table = json.loads(files("ci_automation.flux").joinpath("known.json").read_bytes())
    return frozenset(entry for part in ("releases", "samples") for entry in table[part].items())


def is_known(bundle: Bundle, version: Version) -> bool:
    """Return whether the rendering of these files as this version is proven; templates go by version."""
    return (str(bundle.digest), str(version)) in _proven()
