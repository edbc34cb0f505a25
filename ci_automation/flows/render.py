"""What `flux install --export` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.errors import VerificationFailed
from ci_automation.flux.known import is_known
from ci_automation.flux.render import render

if TYPE_CHECKING:
    from ci_automation.flux.options import Options
    from ci_automation.flux.release import ReleaseSource
    from ci_automation.flux.version import Version


class UnprovenRendering(VerificationFailed):
    """A release is not in the table of releases that our rendering was proven on."""

    hint = "A newer version of this program may know it; --unsafe-unproven-rendering publishes it all the same."

    def __init__(self, version: Version) -> None:
        super().__init__(f"nobody has proven that {version} of this content is rendered as Flux itself does")


def render_release(version: Version, options: Options, releases: ReleaseSource) -> tuple[str, bool]:
    """Return the components file of `version`, and whether its rendering is proven."""
    release = releases.fetch(version)
    return render(release.bundle, version, options), is_known(release.bundle, version)
