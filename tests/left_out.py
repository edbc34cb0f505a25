"""Says which tests `make test` left out, and why. It never fails: `.ci/run` requires everything, and runs the rest."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.real.peers import PEERS, flux_releases

unbuilt = [peer.name for peer in PEERS if not peer.there]
missing = [f"{', '.join(unbuilt)}: not there"] if unbuilt else []
if unbuilt and not shutil.which("go"):
    missing.append("go: not there, and it builds the others")
if not (flux_releases() / "releases.json").is_file():
    missing.append(f"release data: not at {flux_releases()}; FLUX_RELEASES=DIR names another place")
print("left out: tests/real, which run against real registries, cosign, flux and a cluster's control plane")
print("\n".join(f"  missing  {each}" for each in missing) or "  all that they need is here")
print("  `make real` builds what is missing and runs them")
