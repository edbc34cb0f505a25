"""Objects for a cluster that follows a channel: as YAML, and the Secrets with keys and logins that it needs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.yaml import yaml_of
from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_automation.artifact.reference import Reference

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAMESPACE, _SECRET_NAME = re.compile(_LABEL), re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_MAX_NAME = 253
_FROM_FILES = (  # where a Secret is named in a pair of objects, its purpose, and what kubectl makes it from
    ("source", "certSecretRef", "holds the CA or the client certificate of the registry", "--from-file=ca.crt"),
    ("source", "proxySecretRef", "holds the proxy's address", "--from-literal=address=http://proxy.example:3128"),
    ("decryption", "secretRef", "decrypts what the artifact has encrypted", "--from-file=age.agekey"),
)


class InvalidObjectName(UsageError):
    """A name is none that Kubernetes takes."""

    hint = "Use lower-case letters, digits and hyphens, such as flux-manifests-keys."

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"{name[:_MAX_NAME]!r} cannot be the name of a {what}")


class NeededSecret(Struct, frozen=True):
    """A Secret that a person has to make: its purpose, and the end of the command `kubectl create secret`."""

    namespace: str
    name: str
    purpose: str
    template: str

    @property
    def command(self) -> str:
        """Return the command that makes it, with placeholders for what is secret."""
        kind, _, rest = self.template.partition(" ")
        return f"kubectl -n {self.namespace} create secret {kind} {self.name} {rest}"


def login_secret(namespace: str, name: str, host: str, purpose: str) -> NeededSecret:
    """Return the Secret with the login for a registry."""
    words = f"docker-registry --docker-server={host} --docker-username=USER --docker-password=TOKEN"
    return NeededSecret(namespace, required_name("Secret", name), f"{purpose}; give it a login that only reads", words)


def named_secrets(
    namespace: str, follows: Reference, source: Mapping[str, Any], kustomization: Mapping[str, Any]
) -> Iterator[NeededSecret]:
    """Yield the Secrets that the specs of an OCIRepository and its Kustomization name, without those that verify.

    Raises:
        InvalidObjectName: Kubernetes takes no such name.
    """
    specs = {"source": source, "decryption": kustomization.get("decryption", {})}
    if name := _named(source, "secretRef"):
        yield login_secret(namespace, name, getattr(follows.repository, "host", ""), f"pulls {follows}")
    for where, key, purpose, words in _FROM_FILES:
        if name := _named(specs[where], key):
            yield NeededSecret(namespace, required_name("Secret", name), purpose, f"generic {words}")


def _named(values: Mapping[str, Any], key: str) -> str:
    found = values.get(key)
    return str(found.get("name", "")) if isinstance(found, dict) else ""


def required_name(what: str, name: str) -> str:
    """Return the name of a Secret or a namespace; raise `InvalidObjectName` if Kubernetes takes no such name."""
    fits = _NAMESPACE.fullmatch(name) if what == "namespace" else _SECRET_NAME.fullmatch(name)
    if len(name) > _MAX_NAME or not fits:
        raise InvalidObjectName(what, name)
    return name


def secret_yaml(name: str, namespace: str, keys: Sequence[str]) -> str:
    """Return the Secret of public keys, each as PEM, that an OCIRepository's `verify.secretRef` names.

    Flux tries each entry that ends in `.pub`, and one that fits is enough (source-controller, `ocirepositories.md`,
    *Public keys verification*): with the old key and the new one in it, keys are changed without a gap.

    Raises:
        InvalidObjectName: Kubernetes takes no such name.
    """
    lines = [
        "apiVersion: v1",
        "kind: Secret",
        "metadata:",
        f"  name: '{required_name('Secret', name)}'",
        f"  namespace: '{required_name('namespace', namespace)}'",
        "stringData:",
    ]
    for number, key in enumerate(keys, 1):
        entry = "cosign.pub" if number == 1 else f"cosign-{number}.pub"
        lines += [f"  {entry}: |", *(f"    {line}" for line in key.splitlines())]
    return "\n".join(lines) + "\n"


def as_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return objects as YAML, each one after a separator."""
    return "".join(f"---\n{yaml_of(each, flow=False)}\n" for each in objects)


def quoted(text: str) -> str:
    """Return a text between single quotes, in which a backslash is one, or else between double quotes."""
    is_plain = text.isascii() and text.isprintable()
    return "'" + text.replace("'", "''") + "'" if is_plain else yaml_of(text, flow=True)
