"""Proof that a rendering has the bytes of Flux itself (design section 6)."""

from __future__ import annotations

import enum
import json
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from ci_automation.errors import VerificationFailed
from ci_automation.flux.version import Version

if TYPE_CHECKING:
    from ci_automation.flux.bundle import ManifestsBundle
    from ci_automation.flux.options import Options

_SHOWN = 160


class Proof(enum.StrEnum):
    """Why a rendering may be published."""

    KNOWN = "known"  # the release is in the table of releases with a proven rendering
    CALIBRATED = "calibrated"  # it equals upstream's own signed rendering, which exercises the options
    DELEGATED = "delegated"  # the release's own flux CLI made it
    NONE = "none"


class NotCalibrated(VerificationFailed):
    """Upstream's own rendering of a release does not prove ours."""

    hint = "Use a newer version of this program, which may know the templates of the release."


def calibrate(theirs: str, bundle: ManifestsBundle, version: Version, options: Options) -> None:
    """Prove our rendering of a release with `options` by comparison with upstream's own rendering.

    Our rendering with upstream's components and otherwise Flux's defaults must have the same bytes. This proves only
    the parts that upstream's rendering exercises: see `unexercised`.

    Raises:
        NotCalibrated: the bytes differ, `theirs` has another version, or does not exercise the options.
        UnreadableComponents, InvalidOption: `theirs` is not a components file.
        TemplateMismatch, ComponentMissing: the release cannot be rendered with upstream's components.
    """
    from ci_automation.flux.options import Options
    from ci_automation.flux.recover import recover
    from ci_automation.flux.render import render

    found = recover(theirs)
    if found.version != version:
        raise NotCalibrated(f"upstream's rendering of {version} states the version {found.version}")
    ours = render(bundle, version, Options(components=found.options.components))
    if ours != theirs:
        raise NotCalibrated(f"upstream renders {version} differently: {differing_document(ours, theirs)}")
    if lacking := unexercised(options, found.options.components):
        raise NotCalibrated(f"upstream's rendering of {version} does not show {', '.join(lacking)}")


def unexercised(options: Options, components: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the flags and components of `options` that upstream's rendering with `components` does not prove.

    Upstream's rendering exercises the default namespace and flags, and components of its own list together with
    notification-controller (design section 6), because without that one the others get no address for their events.
    Before upstream's rendering is read, `components` is empty, and stands for all components.
    """
    flags = [f"--{flag}" for flag in options.differing() if flag != "components"]
    if "notification-controller" not in options.components:
        flags.append("components without notification-controller")
    return (*flags, *(name for name in options.components if components and name not in components))


def differing_document(ours: str, theirs: str) -> str:
    """Return the first difference between our rendering and upstream's: its document and its line."""
    from ci_automation.flux.text import documents

    for mine, other in zip_longest(documents(ours), documents(theirs)):
        if mine == other:
            continue
        if other is None:
            return f"{_label(mine)} is only in ours"
        if mine is None:
            return f"{_label(other)} is only in upstream's"
        if (label := _label(other)) != _label(mine):
            return f"where ours has {_label(mine)}, upstream's has {label}"
        lines = zip_longest(mine.split("\n"), other.split("\n"))
        one, two = next(pair for pair in lines if pair[0] != pair[1])
        return f"in {label}, ours has {_line(one)} and upstream's has {_line(two)}"
    return "one ends with more empty lines than the other"


def _label(document: str) -> str:
    from ci_automation.flux.text import label_of

    return label_of(document)[:_SHOWN] or "a document without kind and name"


def _line(line: str | None) -> str:
    return repr(line.strip()[:_SHOWN]) if line is not None else "no more lines"


@cache
def _proven() -> frozenset[tuple[str, str]]:
    return frozenset(entry for part in ("releases", "samples") for entry in _table()[part].items())


def _table() -> dict[str, dict[str, str]]:
    from importlib.resources import files

    table: dict[str, dict[str, str]] = json.loads(files("ci_automation.flux").joinpath("known.json").read_bytes())
    return table


def known_releases() -> tuple[Version, ...]:
    """Return the releases of Flux whose rendering is proven, the oldest first."""
    return tuple(sorted(map(Version.parse, _table()["releases"].values())))


def is_known(bundle: ManifestsBundle, version: Version) -> bool:
    """Return whether the rendering of these files as this version is proven; templates go by version."""
    return (str(bundle.digest), str(version)) in _proven()
