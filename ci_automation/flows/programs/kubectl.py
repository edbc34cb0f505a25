"""The cluster of a kubeconfig, by kubectl: it has the user's own rights, plugins and proxies."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.errors import ClusterError, UsageError
from ci_automation.programs import search_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_UNREACHABLE = re.compile(
    r"connection refused|no such host|i/o timeout|TLS handshake timeout|Unable to connect to the server"
    r"|was refused - did you specify|network is unreachable|no route to host|context deadline exceeded"
)
_UNKNOWN = re.compile(r"You must be logged in to the server|Unauthorized")
_DENIED = re.compile(r"\(Forbidden\)| is forbidden: ")
_SHOWN = 2_000
_REQUEST = "1m"  # of one that does not wait for anything


class NoKubectl(UsageError):
    """kubectl is not there."""

    hint = "Install kubectl, or apply by other means what `bootstrap-manifests` writes."
    message = "there is no kubectl in PATH"


class NoKubeconfig(UsageError):
    """The file with the cluster's address is not there."""

    hint = "Give --kubeconfig the file that kubectl reads for this cluster."

    def __init__(self, path: Path) -> None:
        super().__init__(f"there is no file {path}")


class ClusterUnreachable(ClusterError):
    """No API server answers."""

    hint = "Check the server's address in the kubeconfig, the network and the VPN; then run it again."


class ClusterRefusesLogin(ClusterError):
    """The API server does not know the user of the kubeconfig."""

    hint = "Renew the login of the kubeconfig; then run it again."


class ClusterDenies(ClusterError):
    """The user of the kubeconfig lacks a right."""

    hint = "The first installation needs the rights of a cluster administrator (cluster-admin)."


class KubectlFailed(ClusterError):
    """The API server refuses an object, or it was not ready in time, as kubectl says."""

    hint = "Nothing after it was applied. Mend the cause, and run it again: what is there already stays."


class Kubectl(Struct, frozen=True):
    """kubectl for one cluster."""

    program: Path
    kubeconfig: Path
    context: str | None = None

    @classmethod
    def find(cls, kubeconfig: Path, context: str | None, environment: Mapping[str, str]) -> Kubectl:
        """Return the one on `PATH`.

        Raises:
            NoKubectl, NoKubeconfig: one of them is not there.
        """
        if not kubeconfig.is_file():
            raise NoKubeconfig(kubeconfig)
        found = shutil.which("kubectl", path=search_path(environment))
        if found is None:
            raise NoKubectl
        return cls(Path(found), kubeconfig.absolute(), context)

    def run(self, words: Sequence[str], text: str | None = None) -> str:
        """Return what kubectl prints.

        Raises:
            ClusterUnreachable, ClusterRefusesLogin, ClusterDenies, KubectlFailed: it ended with an error.
        """
        where = [f"--kubeconfig={self.kubeconfig}", *([f"--context={self.context}"] if self.context else [])]
        waits = any(word.startswith("--timeout=") for word in words)
        limit = [] if waits else [f"--request-timeout={_REQUEST}"]
        command = [str(self.program), *where, *words, *limit]
        try:
            done = subprocess.run(command, input=(text or "").encode(), capture_output=True, check=False)  # noqa: S603  # no shell
        except OSError as error:
            raise KubectlFailed(f"{self.program} could not be started: {error.strerror}") from None
        if done.returncode:
            raise _failure(done.stderr.decode(errors="replace"), words)
        return done.stdout.decode(errors="replace")

    def get(self, name: str, namespace: str) -> dict[str, Any] | None:
        """Return an object by `kind/name`, or None where it is not there."""
        text = self.run(["get", name, "-n", namespace, "--ignore-not-found", "--output=json"])
        found: dict[str, Any] | None = json.loads(text) if text.strip() else None
        return found


def _failure(said: str, words: Sequence[str]) -> ClusterError:
    lines = [line for line in said.splitlines() if not line.startswith(("E1", "E0", "Warning:", "W1", "W0"))]
    text = " ".join(" ".join(lines or said.splitlines()).split())[:_SHOWN] or f"kubectl {words[0]} failed"
    if _UNREACHABLE.search(said):
        return ClusterUnreachable(f"the cluster cannot be reached: {text}")
    if _UNKNOWN.search(said):
        return ClusterRefusesLogin(f"the cluster refuses the login: {text}")
    if _DENIED.search(said):
        return ClusterDenies(f"the cluster does not allow it: {text}")
    return KubectlFailed(text)
