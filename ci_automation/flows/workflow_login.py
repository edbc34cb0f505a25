"""The login of workflows at registries other than ghcr.io, where the job's own token is none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_automation.artifact.reference import OciRepository

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci_automation.config.model import ArtifactConfig

_JOB = re.compile(r"  [\w-]+:")
_RIGHTS = re.compile(r" +packages: (read|write)\b.*")
_USED = re.compile(r" +(?:- )?uses: [\w.-]+/(?:ci-automation|flux-manifests)(/[^@]+)?@.*")
# What a job passes on, by whether it may write, and whether one login is enough: by inputs, and by secrets of a call.
_PASSED = {
    ("write", True): ("registry-username: ${{ vars.REGISTRY_USERNAME }}", "REGISTRY_PASSWORD"),
    ("read", True): ("registry-username: ${{ vars.REGISTRY_READER }}", "REGISTRY_READER_PASSWORD"),
    ("write", False): ("", "DOCKER_CONFIG_JSON"),
    ("read", False): ("", "DOCKER_CONFIG_READER"),
}


def other_registries(artifacts: Iterable[ArtifactConfig]) -> tuple[str, ...]:
    """Return the hosts of the registries at which runs need a login, if the configuration names none itself."""
    places = [(it.channel.repository, it) for it in artifacts]
    hosts = [(at.host, it.credentials.push) for at, it in places if isinstance(at, OciRepository)]
    is_needed = any(host != "ghcr.io" and known is None for host, known in hosts)
    return tuple(sorted({host for host, _ in hosts})) if is_needed else ()


def with_login(text: str, registries: Sequence[str]) -> str:
    """Return a workflow whose jobs log in at these registries, with variables and secrets of the repository."""
    if not registries:
        return text
    lines, rights, used = list[str](), "", None
    for line in text.split("\n"):
        rights = "" if _JOB.fullmatch(line) else (found[1] if (found := _RIGHTS.fullmatch(line)) else rights)
        used = None if _JOB.fullmatch(line) else (_USED.fullmatch(line) or used)
        lines.append(line)
        if not (used and rights and line.strip() in {"with:", "secrets:"}):
            continue
        indent, (user, secret) = line.partition(line.strip())[0] + "  ", _PASSED[rights, len(registries) == 1]
        if line.strip() == "secrets:":
            lines += [] if f" {secret}: " in text else [f"{indent}{secret}: ${{{{ secrets.{secret} }}}}"]
            continue
        lines += [f"{indent}{user}"] if user else []
        if not used[1]:  # a call gets it among its secrets
            lines.append(f"{indent}{'registry-password' if user else 'docker-config'}: ${{{{ secrets.{secret} }}}}")
            used = None
    return "\n".join(lines)
