"""Prints what is in the image beside its base: a CycloneDX 1.6 document (ECMA-424), the same for the same contents.

``sbom.py VENV PROGRAMS EXTRA``: the virtual environment, the folder with kustomize or without it, and the extra of the
project that was installed with it (one that there is none of is no extra). The packages of the base image are in the
base's own document. Needs `packaging`, which comes with what builds the wheel.
"""  # noqa: INP001  # a program, no part of a package

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "flux-manifests"
KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5"

Component = dict[str, Any]
Wanted = tuple[str, frozenset[str]]


def installed(venv: Path) -> dict[str, Distribution]:
    """Return the distributions of a virtual environment, by normalized name."""
    folders = [str(folder) for folder in venv.glob("lib/python3*/site-packages")]
    return {canonicalize_name(found.name): found for found in distributions(path=folders)}


def wanted_by(distribution: Distribution, extras: frozenset[str]) -> set[Wanted]:
    """Return what a distribution needs here, with the extras that it needs it with."""
    needs = [Requirement(line) for line in distribution.requires or ()]
    return {
        (canonicalize_name(need.name), frozenset(need.extras))
        for need in needs
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in {"", *extras})
    }


def edges(found: dict[str, Distribution], extras: frozenset[str]) -> dict[str, set[str]]:
    """Return who needs whom, from the project on.

    Raises:
        KeyError: something that is needed is not there.
    """
    known: dict[str, set[str]] = {}
    seen: set[Wanted] = set()
    waiting: list[Wanted] = [(PROJECT, extras)]
    while waiting:
        name, with_extras = wanted = waiting.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        needs = wanted_by(found[name], with_extras)
        known.setdefault(name, set()).update(need for need, _ in needs)
        waiting += needs
    return known


def reference(distribution: Distribution) -> str:
    """Return the package URL (package-url/purl-spec, type *pypi*)."""
    return f"pkg:pypi/{canonicalize_name(distribution.name)}@{distribution.version}"


def component(distribution: Distribution) -> Component:
    """Return the entry of a distribution; its licence only where that is an SPDX expression."""
    url = reference(distribution)
    entry = {
        "type": "library",
        "bom-ref": url,
        "name": distribution.name,
        "version": distribution.version,
        "purl": url,
    }
    field = "License-Expression"
    known = field in distribution.metadata
    return entry | ({"licenses": [{"expression": distribution.metadata[field]}]} if known else {})


def interpreter() -> Component:
    """Return the entry of the base's Python, which this program runs on as the project does."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    return {"type": "platform", "bom-ref": "python", "name": sys.implementation.name, "version": version}


def kustomize(program: Path) -> Component:
    """Return the entry of kustomize, after asking it for its version."""
    said = subprocess.run([program, "version"], capture_output=True, text=True, check=True)  # noqa: S603
    version = said.stdout.strip()
    url = f"pkg:golang/{KUSTOMIZE}@{version}"
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    return {
        "type": "application",
        "bom-ref": url,
        "name": "kustomize",
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "purl": url,
    }


def document(venv: Path, programs: Path, extra: str) -> dict[str, Any]:
    """Return the document."""
    found = installed(venv)
    project = found[PROJECT]
    libraries = [component(found[name]) for name in sorted(found) if name != PROJECT]
    others = [interpreter(), *(kustomize(path) for path in programs.glob("kustomize"))]
    needs = edges(found, frozenset({extra}))
    graph = {reference(found[name]): sorted(reference(found[need]) for need in needs[name]) for name in sorted(needs)}
    graph[reference(project)] += [entry["bom-ref"] for entry in others]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(project) | {"type": "application"}},
        "components": [*libraries, *others],
        "dependencies": [{"ref": of, "dependsOn": on} for of, on in graph.items()],
    }


if __name__ == "__main__":
    print(json.dumps(document(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]), indent=1))  # noqa: T201
