"""A good registry over HTTP, in memory: an `answer` for the server that otherwise has bad ones."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from ci_automation.artifact.index import Index
from ci_automation.artifact.manifest import OCI_INDEX, InvalidManifest, Manifest
from ci_automation.artifact.reference import Digest
from tests.contract.hostile_registry import Reply
from tests.fakes.registry import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.manifest import Descriptor
    from tests.contract.hostile_registry import Seen

_PATH = re.compile(r"/v2/(?P<repository>.+)/(?P<kind>manifests|blobs|tags|referrers)/(?P<name>.+)")


@dataclass
class LoopbackRegistry:
    """OCI distribution spec v1.1: with the referrers API (`api`), saying so to writers (`says_so`), and with mounts."""

    api: bool = True
    says_so: bool = True
    mounts: bool = True
    repositories: defaultdict[str, Repository] = field(default_factory=lambda: defaultdict(Repository))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, seen: Seen) -> Reply:
        """Return the answer to a request."""
        match = _PATH.fullmatch(urlsplit(seen.path).path)
        assert match
        with self._lock:
            repository = self.repositories[match["repository"]]
            match match["kind"], seen.method:
                case "manifests", method:
                    return self._manifest(repository, method, match["name"], seen.body)
                case "referrers", _ if self.api:
                    listed = Index.build(tuple(_referrers(repository, match["name"])))
                    return Reply(200, listed.raw, {"Content-Type": OCI_INDEX})
                case "tags", _:
                    return Reply.json({"tags": sorted(repository.tags)}) if repository.tags else Reply(404)
                case "blobs", _:
                    return self._blob(repository, match["name"], seen)
        return Reply(404)

    def _manifest(self, repository: Repository, method: str, name: str, body: bytes) -> Reply:
        if method == "PUT":
            return self._put(repository, name, body)
        return _delete(repository, Digest.parse(name)) if method == "DELETE" else self._get(repository, name)

    def _blob(self, repository: Repository, name: str, seen: Seen) -> Reply:
        if seen.method == "POST":
            asked = parse_qs(urlsplit(seen.path).query)
            if self.mounts and "mount" in asked:
                digest = Digest.parse(asked["mount"][0])
                data = self.repositories[asked["from"][0]].blobs.get(digest)
                if data is not None:
                    repository.blobs[digest] = data
                    return Reply(201, headers={"Docker-Content-Digest": str(digest)})
            return Reply(202, headers={"Location": f"{urlsplit(seen.path).path}1"})
        if seen.method == "PUT":
            repository.blobs[Digest.of(seen.body)] = seen.body
            return Reply(201)
        data = repository.blobs.get(Digest.parse(name))
        return Reply(404) if data is None else Reply(200, data)

    def _get(self, repository: Repository, name: str) -> Reply:
        digest = Digest.parse(name) if ":" in name else repository.tags.get(name)
        if digest is None or (raw := repository.manifests.get(digest)) is None:
            return Reply(404)
        return Reply(200, raw, {"Content-Type": json.loads(raw)["mediaType"], "Docker-Content-Digest": str(digest)})

    def _put(self, repository: Repository, name: str, raw: bytes) -> Reply:
        value: dict[str, Any] = json.loads(raw)
        needed = [each["digest"] for each in (value.get("config"), *value.get("layers", ())) if each]
        if not {Digest.parse(text) for text in needed} <= repository.blobs.keys():
            return Reply.json({"errors": [{"code": "MANIFEST_BLOB_UNKNOWN"}]}, 400)
        if not {Digest.parse(each["digest"]) for each in value.get("manifests") or ()} <= repository.manifests.keys():
            return Reply.json({"errors": [{"code": "MANIFEST_BLOB_UNKNOWN"}]}, 400)
        repository.manifests[digest := Digest.of(raw)] = raw
        if ":" not in name:
            repository.tags[name] = digest
        subject = value.get("subject")
        return Reply(201, headers={"OCI-Subject": subject["digest"]} if self.says_so and subject else {})


def _referrers(repository: Repository, name: str) -> Iterator[Descriptor]:
    for raw in repository.manifests.values():
        try:
            subject, entry = Manifest.parse(raw).referral
        except InvalidManifest:
            continue
        if str(subject) == name:
            yield entry


def _delete(repository: Repository, digest: Digest) -> Reply:
    """Forget a manifest, and every tag that names it."""
    if repository.manifests.pop(digest, None) is None:
        return Reply(404)
    for tag in [tag for tag, named in repository.tags.items() if named == digest]:
        del repository.tags[tag]
    return Reply(202)
