"""Flux's own renderer: `flux install --export` without the program around it, for many option sets at once.

`python -m tests.real.renderer` writes `tests/assets/samples.json`: the hashes of what it makes of the sample releases,
so that the tests without any other program prove our rendering too.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_automation.demo.samples import SAMPLES
from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.options import COMPONENTS, DEFAULT_COMPONENTS, Options
from tests.real.peers import peer
from tests.real.processes import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ASSET = Path(__file__).parents[1] / "assets" / "samples.json"
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "all-seven": {"components": list(COMPONENTS)},
    "watcher-first": {"components": ["source-watcher", *DEFAULT_COMPONENTS]},
    "source-only": {"components": ["source-controller"]},
    "kustomize-source-notification": {
        "components": ["kustomize-controller", "source-controller", "notification-controller"]
    },
    "image-only": {"components": ["source-controller", "image-reflector-controller", "image-automation-controller"]},
    "namespace": {"namespace": "gitops"},
    "registry-port": {"registry": "10.0.0.5:5000"},
    "pull-secret": {"registry": "registry.example.com/mirror/fluxcd", "image-pull-secret": "regcred"},
    "no-watch-all": {"watch-all-namespaces": False},
    "no-network-policy": {"network-policy": False},
    "debug": {"log-level": "debug"},
    "domain": {"cluster-domain": "k8s.example.internal"},
    "tolerations": {"toleration-keys": ["CriticalAddonsOnly", "example.com/gpu"]},
    "everything": {
        "components": list(reversed(COMPONENTS)),
        "namespace": "fleet",
        "registry": "harbor.local/flux",
        "image-pull-secret": "pull",
        "watch-all-namespaces": False,
        "network-policy": False,
        "log-level": "error",
        "cluster-domain": "corp.local",
        "toleration-keys": ["a", "b/c"],
    },
}


class Refused(Exception):
    """Flux's renderer ended with an error instead of a text."""


def flux_renderings(
    bundles: Mapping[str, ManifestsBundle], wanted: Iterable[tuple[str, Mapping[str, Any]]]
) -> list[str]:
    """Return what Flux makes of each pair of a release's tag and values for the fields of `Options`, checked or not.

    Raises:
        Refused: there is a pair that it makes nothing of.
    """
    texts = []
    for answer in answers(bundles, wanted):
        if answer["error"]:
            raise Refused(answer["error"])
        texts.append(answer["text"])
    return texts


def answers(
    bundles: Mapping[str, ManifestsBundle], wanted: Iterable[tuple[str, Mapping[str, Any]]]
) -> list[dict[str, str]]:
    """Return the text or the error that Flux's renderer has for each pair."""
    questions = [
        json.dumps({"version": tag} | {field.replace("_", "-"): value for field, value in values.items()})
        for tag, values in wanted
    ]
    with tempfile.TemporaryDirectory() as folder:
        for tag, bundle in bundles.items():
            (Path(folder) / tag).mkdir()
            for name, text in bundle.files.items():
                (Path(folder) / tag / name).write_text(text, encoding="utf-8")
        said = run([peer("renderer"), folder], "\n".join(questions), TMPDIR=folder)
    return [json.loads(line) for line in said.split("\n") if line]


def values(options: Options) -> dict[str, Any]:
    """Return the value of each field."""
    return {name: getattr(options, name) for name in Options.__struct_fields__}


def sample_bundles() -> dict[str, ManifestsBundle]:
    """Return the sample releases' bundles by tag."""
    return {sample.tag: ManifestsBundle.of(sample.bundle) for sample in SAMPLES}


def proof() -> dict[str, Any]:
    """Return what the asset has: the option sets, and for each sample release its digest and the renderings' hashes."""
    bundles = sample_bundles()
    pairs = [(tag, name) for tag in bundles for name in CASES]
    texts = flux_renderings(bundles, [(tag, values(Options().with_flags(CASES[name]))) for tag, name in pairs])
    hashes = {pair: hashlib.sha256(text.encode()).hexdigest() for pair, text in zip(pairs, texts, strict=True)}
    return {
        "cases": CASES,
        "releases": {
            tag: {"digest": str(bundle.digest), "renderings": {name: hashes[tag, name] for name in CASES}}
            for tag, bundle in bundles.items()
        },
    }


if __name__ == "__main__":
    ASSET.write_text(json.dumps(proof(), indent=1) + "\n")
    sys.stdout.write(f"{ASSET}\n")
