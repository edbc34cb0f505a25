"""What a configuration names in its repository."""

from collections.abc import Iterator
from typing import get_args

from ci_automation.config.document import read_document
from ci_automation.config.load import parse_config
from ci_automation.config.model import named_files
from ci_automation.config.schema import alternatives, is_section, keys, unwrapped
from ci_automation.config.sections import File
from ci_automation.config.values import LocalFile, PublicKeyLocation, Releases

CONFIG = b"""\
version: 1
source: dir:./releases/
upstream: {trustConfig: /etc/trust.json}
artifacts:
- name: production
  url: oci://ghcr.io/acme/flux:production
  trustConfig: trust/root.json
  verify: {publicKey: [cosign.pub, "env://COSIGN_PUB"]}
  clusters:
    snapshots: [clusters/crds.json, ../crds.json, a/../b//crds.json]
    objects: [apps/, ".", "layout:apps:main", "oci://ghcr.io/a/b:c"]
- name: live
  url: oci://ghcr.io/acme/flux:live
  promote: {from: production, evidence: [{report: staging.json}, {url: "https://a.example", field: ok, equals: "true"}]}
"""


def test_only_files_in_the_repository_are_named() -> None:
    found = list(named_files(parse_config(CONFIG, "flux-manifests.yaml")))
    assert found == [
        "releases",
        "trust/root.json",
        "cosign.pub",
        "clusters/crds.json",
        "b/crds.json",
        "apps",
        "staging.json",
    ]


FORMS = [unwrapped(kind)[1] for kind in (LocalFile, PublicKeyLocation, Releases)]


def files_in(kind: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the keys of files in a type, from that of the whole file on."""
    if is_section(kind):
        for key in keys(kind):
            yield from (found for it in alternatives(key.type) for found in files_in(it, (*path, key.written)))
        return
    inner, form = unwrapped(kind)
    if form in FORMS:
        yield path
    yield from (found for it in get_args(inner) for found in files_in(it, path))


def test_all_keys_of_files_are_in_that_configuration() -> None:
    written = {tuple(part for part in path if isinstance(part, str)) for path in read_document(CONFIG, "a").values}
    wanted = {path for path in files_in(File, ()) if path[0] != "defaults"}
    assert ("artifacts", "promote", "evidence", "report") in wanted
    assert wanted <= written
