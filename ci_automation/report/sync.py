"""The objects by which a cluster follows a channel.

An OCIRepository verifies, a Kustomization applies, and a Secret holds the public keys that the OCIRepository names.
Nothing in them is secret. The facts about `verify` are those of source-controller (`internal/oci/cosign/cosign.go`): a
second `matchOIDCIdentity` makes Flux 2.8 and later refuse every bundle, so there is exactly one.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.reference import OciRepository, Reference
from ci_automation.errors import UsageError
from ci_automation.flux.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_STABLE_SINCE = Version.parse("v2.6.0")  # OCIRepository in v1
_INTERVAL = re.compile(r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+")  # the CRD's own pattern
_NAME = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# What no version of YAML takes for anything but a text.
_PLAIN = re.compile(
    r"[a-z]{6,}|[a-z]+(-[a-z0-9]+)+|\./[a-z0-9/-]*|oci://[a-z0-9.:/_-]+|[a-z]+\.toolkit\.fluxcd\.io/v[0-9a-z]+"
    r"|OCIRepository|Kustomization|([0-9]+(ms|s|m|h))+"
)
_PRINTABLE = re.compile(r"[ -!#-\[\]-~]")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAMESPACE, _SECRET_NAME = re.compile(_LABEL), re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_MAX_NAME = 253


class NotForClusters(UsageError):
    """A channel is in an image layout directory, which no cluster can read."""

    hint = "Publish to a registry, and give that channel's address, oci://HOST/REPOSITORY:TAG."

    def __init__(self, channel: Reference) -> None:
        super().__init__(f"{channel} is in a directory on this machine, which no cluster can follow")


class NoSingleIdentity(UsageError):
    """Several identities cannot be said in one entry, as clusters need it, without letting in others."""

    hint = "Give one identity by --identity and --issuer, or patterns that share the issuer."

    def __init__(self) -> None:
        super().__init__("the identities have different issuers and subjects, and one entry would match their mixtures")


class InvalidSync(UsageError):
    """A name or an interval is none that Kubernetes or Flux takes."""

    hint = "A name has lower-case letters, digits and hyphens; an interval is like 10m or 1h30m."

    def __init__(self, what: str, text: str) -> None:
        super().__init__(f"{text[:80]!r} is not {what}")


class ByKey(Struct, frozen=True):
    """Verification by keys: the Secret that holds their public halves, and their fingerprints for people."""

    secret: str
    fingerprints: tuple[str, ...]


class ByIdentity(Struct, frozen=True):
    """Verification by identity: pairs of patterns for issuer and subject; a Secret with the root of an own Sigstore."""

    patterns: tuple[tuple[str, str], ...]
    root_secret: str | None = None


class Sync(Struct, frozen=True):
    """The channel to follow, and how; `path` is the folder in the artifact, `version` the Flux that is deployed."""

    channel: Reference
    version: Version
    namespace: str
    path: str
    verify: ByKey | ByIdentity
    name: str = "flux-manifests"
    interval: str = "10m"

    def __post_init__(self) -> None:
        """Raise `NotForClusters`, `InvalidReference` or `InvalidSync` where no cluster could take it."""
        if not isinstance(self.channel.repository, OciRepository):
            raise NotForClusters(self.channel)
        Reference.parse_channel(str(self.channel))
        if not _INTERVAL.fullmatch(self.interval):
            raise InvalidSync("an interval", self.interval)
        secret = self.verify.secret if isinstance(self.verify, ByKey) else self.verify.root_secret
        for name in (self.name, *([secret] if secret is not None else ())):
            if not _NAME.fullmatch(name):
                raise InvalidSync("a name that Kubernetes takes", name)

    def objects(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the OCIRepository and the Kustomization.

        Raises:
            NoSingleIdentity: the identities cannot be said in one entry.
        """
        repository = self.channel.repository
        source: dict[str, Any] = {"interval": self.interval, "url": str(repository), "ref": {"tag": self.channel.tag}}
        if isinstance(repository, OciRepository) and repository.is_loopback:
            source["insecure"] = True
        source["verify"] = {"provider": "cosign", **self._verify()}
        group = "v1" if self.version >= _STABLE_SINCE else "v1beta2"
        metadata = {"name": self.name, "namespace": self.namespace}
        return (
            {
                "apiVersion": f"source.toolkit.fluxcd.io/{group}",
                "kind": "OCIRepository",
                "metadata": metadata,
                "spec": source,
            },
            {
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": metadata,
                "spec": {
                    "interval": self.interval,
                    "path": self.path,
                    "prune": True,
                    "sourceRef": {"kind": "OCIRepository", "name": self.name},
                },
            },
        )

    def to_yaml(self) -> str:
        """Return both objects as YAML, with what has to be done before they are applied.

        Raises:
            NoSingleIdentity: the identities cannot be said in one entry.
        """
        documents = ("\n".join(_lines(each, "")) for each in self.objects())
        return "".join(f"# {line}\n" for line in self._advice()) + "".join(f"---\n{each}\n" for each in documents)

    def _verify(self) -> dict[str, Any]:
        verify = self.verify
        if isinstance(verify, ByKey):
            return {"secretRef": {"name": verify.secret}}
        issuer, subject = one_entry(verify.patterns)
        root = {} if verify.root_secret is None else {"trustedRootSecretRef": {"name": verify.root_secret}}
        return {"matchOIDCIdentity": [{"issuer": issuer, "subject": subject}], **root}

    def _advice(self) -> list[str]:
        match self.verify:
            case ByKey(secret, fingerprints):
                there = f"--secret {secret} --namespace {self.namespace}"
                return [
                    f"The Secret {secret} holds public keys alone, each in an entry that ends with .pub:",
                    *(f"  {fingerprint}" for fingerprint in fingerprints),
                    f"Make it first:  flux-manifests public-key cosign.pub {there} | kubectl apply -f -",
                ]
            case ByIdentity(_, str(root_secret)):
                create = f"kubectl -n {self.namespace} create secret generic"
                return [
                    f"The Secret {root_secret} holds the trusted root of your own Sigstore; Flux reads it since v2.9.",
                    f"Make it first:  {create} {root_secret} --from-file=trusted_root.json",
                ]
            case _:
                return ["Verified by the public Sigstore: no Secret is needed."]


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
    return f"verify.matchOIDCIdentity: [{{issuer: {_quoted(issuer)}, subject: {_quoted(subject)}}}]"


def _quoted(text: str) -> str:
    """Return a text between single quotes, in which a backslash is one, or else between double quotes."""
    return "'" + text.replace("'", "''") + "'" if text.isascii() and text.isprintable() else _scalar(text)


def _lines(value: Mapping[str, Any], indent: str) -> list[str]:
    """Return an object in YAML's block style."""
    lines = []
    for key, item in value.items():
        match item:
            case dict():
                lines += [f"{indent}{key}:", *_lines(item, f"{indent}  ")]
            case [dict(only)]:
                first, *rest = _lines(only, f"{indent}    ")
                lines += [f"{indent}{key}:", f"{indent}  - {first.strip()}", *rest]
            case bool():
                lines.append(f"{indent}{key}: {str(item).lower()}")
            case _:
                lines.append(f"{indent}{key}: {_scalar(str(item))}")
    return lines


def _scalar(text: str) -> str:
    """Return a text as YAML has it: between quotes, unless nobody could take it for anything else."""
    return text if _PLAIN.fullmatch(text) else f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if _PRINTABLE.fullmatch(character):
        return character
    if character in '"\\':
        return f"\\{character}"
    return f"\\U{ord(character):08x}"


class InvalidObjectName(UsageError):
    """A name is none that Kubernetes takes."""

    hint = "Use lower-case letters, digits and hyphens, such as flux-manifests-keys."

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"{name[:_MAX_NAME]!r} cannot be the name of a {what}")


def secret_yaml(name: str, namespace: str, keys: Sequence[str]) -> str:
    """Return the Secret of public keys, each as PEM, that an OCIRepository's `verify.secretRef` names.

    Flux tries each entry that ends in `.pub`, and one that fits is enough (source-controller, `ocirepositories.md`,
    *Public keys verification*): with the old key and the new one in it, keys are changed without a gap.

    Raises:
        InvalidObjectName: Kubernetes takes no such name.
    """
    if len(name) > _MAX_NAME or not _SECRET_NAME.fullmatch(name):
        raise InvalidObjectName("Secret", name)
    if not _NAMESPACE.fullmatch(namespace):
        raise InvalidObjectName("namespace", namespace)
    lines = [
        "apiVersion: v1",
        "kind: Secret",
        "metadata:",
        f"  name: '{name}'",
        f"  namespace: '{namespace}'",
        "stringData:",
    ]
    for number, key in enumerate(keys, 1):
        entry = "cosign.pub" if number == 1 else f"cosign-{number}.pub"
        lines += [f"  {entry}: |", *(f"    {line}" for line in key.splitlines())]
    return "\n".join(lines) + "\n"
