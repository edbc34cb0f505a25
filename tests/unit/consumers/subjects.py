"""What was published in these tests, and what the files said before."""

from __future__ import annotations

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.consumers.edit import edit
from ci_automation.consumers.model import Published
from ci_automation.flux.version import Version

URL = "oci://ghcr.io/acme/flux-manifests"
NEW = Published(
    "production", Reference.parse(f"{URL}:production"), Version.parse("v2.9.4"), Digest.parse(f"sha256:{'b' * 64}")
)
OLD_DIGEST, DIGEST = f"sha256:{'a' * 64}", str(NEW.digest)
OLD_TAG, TAG = "v2.9.3-aaaaaaaaaaaa", "v2.9.4-bbbbbbbbbbbb"


def source(ref: str, *, url: str = URL, version: str = "v1", spec: str = "") -> str:
    """Return an OCIRepository with what is given as its `spec.ref`."""
    return f"""\
apiVersion: source.toolkit.fluxcd.io/{version}
kind: OCIRepository
metadata:
  name: flux
  namespace: flux-system
spec:
  interval: 10m
  url: {url}{spec}
  {ref}
"""


def edited(text: str) -> str:
    """Return a text as it is after the edit, which must change nothing where it is done again."""
    once = edit(text.encode(), NEW).data
    assert edit(once, NEW).data == once
    return once.decode()


def found(text: str) -> list[tuple[str, str, str]]:
    """Return kind, place and reason (or what is there) of what was found in a text."""
    return [(each.kind, each.what, each.reason or each.old) for each in edit(text.encode(), NEW).findings]
