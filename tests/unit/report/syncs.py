"""What clusters shall trust, by a key and by an identity."""

from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.flux.following import SyncSettings
from ci_automation.flux.version import Version
from ci_automation.report.sync import ByIdentity, ByKey, Sync

ISSUER = r"^https://token\.actions\.githubusercontent\.com$"
SUBJECT = r"^https://github\.com/acme/fleet/\.github/workflows/flux\.yaml@refs/heads/main$"
KEYLESS = Sync(
    channel=Reference.parse("oci://ghcr.io/acme/flux-manifests:production"),
    version=Version.parse("v2.9.4"),
    namespace="flux-system",
    path="./flux-system",
    verify=ByIdentity(((ISSUER, SUBJECT),)),
    settings=SyncSettings(),
)

KEYED = replace(KEYLESS, verify=ByKey("cosign-pub", ("sha256:" + "1" * 64,)))
