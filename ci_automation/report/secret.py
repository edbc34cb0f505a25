"""The Secret in which a cluster looks for the keys that it verifies with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAMESPACE, _NAME = re.compile(_LABEL), re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_MAX_NAME = 253


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
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
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
