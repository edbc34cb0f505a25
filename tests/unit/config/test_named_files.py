"""What a configuration names in its repository."""

from ci_automation.config.load import parse_config
from ci_automation.config.named_files import named_files

CONFIG = b"""\
version: 1
source: dir:./releases/
upstream: {trustConfig: /etc/trust.json}
artifacts:
- name: production
  url: oci://ghcr.io/acme/flux:production
  trustConfig: trust/root.json
  verify: {publicKey: [cosign.pub, "env://COSIGN_PUB"]}
  clusters: {snapshots: [clusters/crds.json, ../crds.json], objects: [apps/, ".", "layout:apps:main", "oci://ghcr.io/a/b:c"]}
- name: live
  url: oci://ghcr.io/acme/flux:live
  promote: {from: production, evidence: [{report: staging.json}, {url: "https://a.example", field: ok, equals: "true"}]}
"""


def test_only_files_in_the_repository_are_named() -> None:
    found = list(named_files(parse_config(CONFIG, "flux-manifests.yaml")))
    assert found == ["releases", "trust/root.json", "cosign.pub", "clusters/crds.json", "apps", "staging.json"]
