"""The objects by which a cluster follows a channel.

An OCIRepository verifies, and a Kustomization applies. Nothing in them is secret. The facts about `verify` are those of
source-controller (`internal/oci/cosign/cosign.go`): a second `matchOIDCIdentity` makes Flux 2.8 and later refuse every
bundle, so there is exactly one, unless the configuration writes its own.
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.reference import OciRepository, Reference
from ci_automation.errors import UsageError
from ci_automation.flux.version import Version
from ci_automation.report.cluster_objects import as_yaml, login_secret, named_secrets, quoted, required_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_automation.flux.following import SyncSettings
    from ci_automation.report.cluster_objects import NeededSecret

_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_STABLE_SINCE = Version.parse("v2.6.0")  # OCIRepository in v1
KUSTOMIZATION = "kustomize.toolkit.fluxcd.io/v1"
_INTERVAL = re.compile(r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+")  # the CRD's own pattern
_NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABELS = {"app.kubernetes.io/managed-by": "flux-manifests"}  # by which they are found in a cluster


class NotForClusters(UsageError):
    """A channel is in an image layout directory, which no cluster can read."""

    hint = "Publish to a registry, and give that channel's address, oci://HOST/REPOSITORY:TAG."

    def __init__(self, channel: Reference) -> None:
        super().__init__(f"{channel} is in a directory on this machine, which no cluster can follow")


class NoSingleIdentity(UsageError):
    """Several identities cannot be one entry for clusters without letting in others."""

    hint = "Give one identity by --identity and --issuer, or patterns that share the issuer."
    message = "the identities have different issuers and subjects, and one entry would match their mixtures"


class InvalidSync(UsageError):
    """A name or an interval is none that Kubernetes or Flux takes."""

    hint = "A name has lower-case letters, digits and hyphens; an interval or a time is like 10m or 1h30m."

    def __init__(self, what: str, text: str) -> None:
        super().__init__(f"{text[:80]!r} is not {what}")


class ByKey(Struct, frozen=True):
    """Verification by keys: the Secret that holds their public halves, and their fingerprints for people."""

    secret: str
    fingerprints: tuple[str, ...]


class ByIdentity(Struct, frozen=True):
    """Verification by identity: pairs of patterns for issuer and subject; a Secret with the root of an own Sigstore.

    They become one entry, unless they are to stay `apart`.
    """

    patterns: tuple[tuple[str, str], ...]
    root_secret: str | None = None
    apart: bool = False


class Sync(Struct, frozen=True):
    """The channel to follow, and how; `path` is the folder in the artifact, `version` the Flux that is deployed.

    `namespace` is that of the components. `pulls_images` names the Secret that their images are pulled with, and the
    registry that it is for.
    """

    channel: Reference
    version: Version
    namespace: str
    path: str
    verify: ByKey | ByIdentity
    settings: SyncSettings
    pulls_images: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Raise `NotForClusters`, `InvalidSync` or `InvalidObjectName` where no cluster could take it."""
        want, fleet = self.settings, self.settings.fleet
        for each in (self.channel, *([fleet.url] if fleet else ())):
            if not isinstance(each.repository, OciRepository):
                raise NotForClusters(each)
        if want.interval is not None and not is_duration(want.interval):
            raise InvalidSync("an interval", want.interval)
        for name in (want.name, *([fleet.name] if fleet else ()), self.home):
            if not _NAME.fullmatch(name):
                raise InvalidSync("a name that Kubernetes takes", name)
        secret = self.verify.secret if isinstance(self.verify, ByKey) else self.verify.root_secret
        if secret is not None:
            required_name("Secret", secret)
        self.needs()

    @property
    def home(self) -> str:
        """Return the namespace of the objects."""
        return self.settings.namespace or self.namespace

    @property
    def source_version(self) -> str:
        """Return the version of OCIRepository that the deployed Flux has."""
        return f"source.toolkit.fluxcd.io/{'v1' if self.version >= _STABLE_SINCE else 'v1beta2'}"

    def objects(self) -> tuple[dict[str, Any], ...]:
        """Return the OCIRepository and the Kustomization, and the two of the fleet's own artifact.

        Raises:
            NoSingleIdentity: the identities cannot be said in one entry.
        """
        want, fleet, verify = self.settings, self.settings.fleet, verify_block(self.verify)
        own = self._pair(want.name, self.channel, self.path, want.source, want.kustomization)
        own[0]["spec"]["verify"] = verify
        if fleet is None:
            return own
        further = self._pair(fleet.name, fleet.url, fleet.path, fleet.source, fleet.kustomization)
        if not fleet.unsafe_unsigned:
            further[0]["spec"].setdefault("verify", verify)
        return *own, *further

    def _pair(
        self, name: str, follows: Reference, path: str, source: Mapping[str, Any], kustomization: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        want, repository = self.settings, follows.repository
        told = {} if want.interval is None else {"interval": want.interval}
        texts = {"labels": {**_LABELS, **want.labels}, "annotations": dict(want.annotations)}
        metadata = {"name": name, "namespace": self.home, **{key: value for key, value in texts.items() if value}}
        ref = {"digest": str(follows.digest)} if follows.digest else {"tag": follows.tag}
        follow: dict[str, Any] = {"interval": "10m", "url": str(repository), "ref": ref}
        if isinstance(repository, OciRepository) and repository.is_loopback:
            follow["insecure"] = True
        origin = {"kind": "OCIRepository", "name": name}
        applied = {"interval": "10m", "path": path, "prune": True, "sourceRef": origin}
        return (
            _object(self.source_version, "OCIRepository", metadata, {**follow, **source, **told}),
            _object(KUSTOMIZATION, "Kustomization", metadata, {**applied, **kustomization, **told}),
        )

    def to_yaml(self, keys: Sequence[str] = ()) -> str:
        """Return the objects as YAML, with what has to be done before they are applied.

        `keys` are where the keys are that the Secret gets, as the command `public-key` takes them.

        Raises:
            NoSingleIdentity: the identities cannot be said in one entry.
        """
        advice = self._advice(shlex.join(keys or ("cosign.pub",)))
        return "".join(f"# {line}\n" for line in advice) + as_yaml(self.objects())

    def needs(self) -> tuple[NeededSecret, ...]:
        """Return the Secrets that have to be made by hand, without the one that verifies.

        Raises:
            InvalidObjectName: Kubernetes takes no such name.
        """
        want, fleet = self.settings, self.settings.fleet
        found = [*named_secrets(self.home, self.channel, want.source, want.kustomization)]
        if fleet:
            found += named_secrets(self.home, fleet.url, fleet.source, fleet.kustomization)
        if self.pulls_images:
            found.insert(0, login_secret(self.namespace, *self.pulls_images, "pulls the controllers' images"))
        first: dict[tuple[str, str], NeededSecret] = {}
        for each in found:
            first.setdefault((each.namespace, each.name), each)
        return tuple(first.values())

    def _advice(self, keys: str) -> Iterator[str]:
        match self.verify:
            case ByKey(secret, fingerprints):
                there = f"--secret {secret} --namespace {self.home}"
                yield f"The Secret {secret} holds public keys alone, each in an entry that ends with .pub:"
                yield from (f"  {fingerprint}" for fingerprint in fingerprints)
                yield f"Make it first:  flux-manifests public-key {keys} {there} | kubectl apply -f -"
            case ByIdentity(_, str(root_secret)):
                create = f"kubectl -n {self.home} create secret generic"
                yield f"The Secret {root_secret} holds the trusted root of your own Sigstore; Flux reads it since v2.9."
                yield f"Make it first:  {create} {root_secret} --from-file=trusted_root.json"
            case _:
                yield "Verified by the public Sigstore: no Secret is needed."
        for each in self.needs():
            yield f"The Secret {each.name} {each.purpose}."
            yield f"Make it first:  {each.command}"
        want, fleet = self.settings, self.settings.fleet
        if want.kustomization.get("prune", True):
            yield f"With prune: true, deleting the Kustomization {want.name} deletes Flux, CRDs too: suspend it first."
        else:
            yield "With prune: false, objects that leave the artifact stay in the cluster: delete them by hand."
        if want.kustomization.get("wait") and want.kustomization.get("healthChecks"):
            yield "With wait: true, Flux ignores healthChecks."
        if fleet:
            signed = "is not verified by clusters" if fleet.unsafe_unsigned else "was not read: check it with `verify`"
            yield f"The signature of {fleet.url} {signed}."


def _object(version: str, kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def verify_block(verify: ByKey | ByIdentity) -> dict[str, Any]:
    """Return the field `verify` of an OCIRepository.

    Raises:
        NoSingleIdentity: the identities cannot be said in one entry.
    """
    if isinstance(verify, ByKey):
        return {"provider": "cosign", "secretRef": {"name": verify.secret}}
    patterns = verify.patterns if verify.apart else (one_entry(verify.patterns),)
    root = {} if verify.root_secret is None else {"trustedRootSecretRef": {"name": verify.root_secret}}
    entries = [{"issuer": issuer, "subject": subject} for issuer, subject in patterns]
    return {"provider": "cosign", "matchOIDCIdentity": entries, **root}


def is_duration(text: str) -> bool:
    """Return whether a text is a duration, such as 10m."""
    return _INTERVAL.fullmatch(text) is not None


def sync_path(paths: Iterable[str], components: str) -> str:
    """Return the folder to apply: the topmost above the components file with a kustomization in it, or else its own."""
    files = frozenset(paths)
    folder = PurePosixPath(components).parent
    for above in (*reversed(folder.parents), folder):
        if any(str(above / name) in files for name in _KUSTOMIZATIONS):
            folder = above
            break
    return "./" if folder == PurePosixPath() else f"./{folder}"


def one_entry(patterns: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """Return the one pair of patterns that matches what any of `patterns` matches, and nothing else.

    Raises:
        NoSingleIdentity: there is none.
    """
    issuers, subjects = (tuple(dict.fromkeys(column)) for column in zip(*patterns, strict=True))
    if len(issuers) > 1 and len(subjects) > 1:
        raise NoSingleIdentity
    return _either(issuers), _either(subjects)


def _either(patterns: tuple[str, ...]) -> str:
    """Return the pattern of RE2 that matches where one of `patterns` does; each keeps its anchors and flags."""
    return patterns[0] if len(patterns) == 1 else "|".join(f"(?:{pattern})" for pattern in patterns)


def inline_entry(issuer: str, subject: str) -> str:
    """Return an entry of `matchOIDCIdentity` in one line of YAML."""
    return f"verify.matchOIDCIdentity: [{{issuer: {quoted(issuer)}, subject: {quoted(subject)}}}]"
