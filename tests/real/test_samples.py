"""Our rendering is Flux's own, byte for byte: of the samples, and of a real release with whatever options we accept."""

from __future__ import annotations

import json
import random
import string
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.options import COMPONENTS, LOG_LEVELS, InvalidOption, Options
from ci_automation.flux.render import render
from ci_automation.flux.version import Version
from tests.real.renderer import ASSET, answers, flux_renderings, proof, values

if TYPE_CHECKING:
    from pathlib import Path

RELEASE = "v2.9.4"
SEED = 20_261_121
COUNT = 150
NAMESPACES = (
    *("default", "kube-system", "flux", "system", "flux-system-2", "my-flux-system", "x-flux-system-flux-system"),
    *(
        "a",
        "1a",
        "a-1",
        "0x",
        "0xg",
        "1e",
        "e1",
        "0b2",
        "00x",
        "1-2",
        "2026-1-1-1",
        "nan",
        "inf",
        "null1",
        "tru",
        "x" * 63,
    ),
    *("source-controller", "crd-controller", "cluster-admin", "manager", "linux", "latest", "restricted", "metadata"),
    *(
        "rbac",
        "policies",
        "roles",
        "labels",
        "namespace",
        "kustomization",
        "node-selector",
    ),  # files beside the bundle's
)
REGISTRIES = (
    *("fluxcd", "ghcr.io", "docker.io/fluxcd", "localhost:5000", "10.0.0.5:5000", "10.0.0.5:5000/a/b__c-d.e", "a"),
    *("REGISTRY.Example.com/fluxcd", "12", "1.5", "null", "true", "on:1", "2026-11-21", "1e3/fluxcd", "x" * 200),
    *("123456789012.dkr.ecr.eu-west-1.amazonaws.com/fluxcd", "source-controller", "fluxcd/fluxcd", "a--b.example/c--d"),
)
SECRETS = ("", "regcred", "a", "1a", "a.b", "1.2.3", "1e1.x", "null.x", "10.0.0.1", "nan", "x" * 63, "true.example")
DOMAINS = ("cluster.local", "a", "12", "1.5", "null", "on", "k8s.example.internal", "2026-11-21", "0x10", "x" * 63)
KEYS = (
    *(
        "CriticalAddonsOnly",
        "example.com/gpu",
        "node.kubernetes.io/dedicated-to-flux",
        "a",
        "A",
        "1a",
        "1e",
        "0x",
        "e1",
    ),
    *(
        "nan",
        "NaN",
        "inf",
        "infinity",
        "0x_g",
        "1_a",
        "a_1",
        "1.2.3",
        "12/a",
        "null/null",
        "true/x",
        "x.y/12",
        "1e3/1e3",
    ),
    *("a.b_c-d", "0b2", "0o8", "1-2", "tru", "y.es", "no.n", "x" * 63),
)
TO_YAML = (  # what is a number, a date, a switch, nothing, or not even a text, where YAML has it without quotes
    *(
        "12",
        "0",
        "00",
        "08",
        "012",
        "1e3",
        "1E5",
        "1e03",
        "12e-3",
        "0x10",
        "0o7",
        "0b1",
        "0X1F",
        "1.5",
        "10.0",
        "3.14e2",
    ),
    *("1_000", "1__0", "1e1_0", "1_0e1", "1_.5", "0x_1", "99999999999999999999999", "2026-11-21", "2026-1-1"),
    *("y", "Y", "yes", "YES", "n", "No", "true", "True", "FALSE", "on", "ON", "off", "null", "Null", "NULL", "~"),
    *(
        "[::1]",
        "[::1]:5000/fluxcd",
        ".inf",
        ".nan",
        "-",
        "<<",
        "=",
        "",
        "!",
        "&a",
        "*a",
        "[a]",
        "{a}",
        "a: b",
        "a #b",
        "'",
        '"',
        "\\",
        "a\nb",
        "- a",
    ),
)
TEXTS = ("namespace", "registry", "image_pull_secret", "log_level", "cluster_domain", "toleration_keys")


class Dice:
    """Makes option sets that flux install could have been told, odd ones more often than people do."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  # not for secrets: the same sets each time

    def text(self, usual: tuple[str, ...], letters: str, longest: int) -> str:
        """Return one of the usual texts, or any of those letters."""
        if self._random.random() < 0.6:
            return self._random.choice(usual)
        return "".join(self._random.choices(letters, k=self._random.randint(1, longest)))

    def options(self) -> dict[str, Any]:
        """Return a value for each field of `Options`, which may refuse them."""
        lower = string.ascii_lowercase[:5] + "xo" + string.digits + "-"
        roll = self._random
        return {
            "components": tuple(roll.sample(COMPONENTS, roll.randint(1, len(COMPONENTS)))),
            "namespace": self.text(NAMESPACES, lower, 4),
            "registry": self.text(REGISTRIES, lower + "./:_", 12),
            "image_pull_secret": self.text(SECRETS, lower + ".", 5),
            "watch_all_namespaces": roll.random() < 0.5,
            "network_policy": roll.random() < 0.5,
            "log_level": roll.choice(LOG_LEVELS),
            "cluster_domain": self.text(DOMAINS, lower + ".", 6),
            "toleration_keys": tuple(self.text(KEYS, lower + "._/", 5) for _ in range(roll.choice((0, 0, 1, 2, 5)))),
        }


def accepted(count: int) -> list[Options]:
    """Return the first option sets that `Options` accepts."""
    dice = Dice(SEED)
    found: list[Options] = []
    while len(found) < count:
        try:
            found.append(Options(**dice.options()))
        except InvalidOption:
            continue
    return found


@pytest.fixture(scope="module")
def real(flux_releases: Path) -> ManifestsBundle:
    """Return the bundle of a real release."""
    return ManifestsBundle.from_archive((flux_releases / RELEASE / "manifests.tar.gz").read_bytes())


def test_flux_renders_the_samples_as_the_tests_without_it_expect() -> None:
    assert json.loads(ASSET.read_text()) == proof(), "python -m tests.real.renderer writes it anew"


def different(real: ManifestsBundle, sets: list[Options]) -> list[Options]:
    """Return those that our rendering and Flux's differ on."""
    texts = flux_renderings({RELEASE: real}, [(RELEASE, values(options)) for options in sets])
    version = Version.parse(RELEASE)
    return [options for options, text in zip(sets, texts, strict=True) if render(real, version, options) != text]


def test_whatever_options_we_accept_are_rendered_as_flux_does(real: ManifestsBundle) -> None:
    assert different(real, accepted(COUNT)) == []


@pytest.mark.parametrize("field", TEXTS)
def test_a_text_that_is_none_to_yaml_is_refused_or_rendered_as_flux_does(field: str, real: ManifestsBundle) -> None:
    found = []
    for text in TO_YAML:
        value: Any = (text,) if field == "toleration_keys" else text
        with suppress(InvalidOption):
            found.append(replace(Options(), **{field: value}))
    assert len(found) < len(TO_YAML)
    assert different(real, found) == []


@pytest.mark.parametrize("text", ["12", "1e3", "0x10", "on", "null", "2026-11-21", "1_000", "1e1_0"])
def test_a_name_that_flux_breaks_on_or_puts_quotes_around_is_refused(text: str, real: ManifestsBundle) -> None:
    """The rules above are no stricter than they must be: these would really come out as something else."""
    sets: list[dict[str, Any]] = [
        values(Options()) | {field: value} for field, value in (("namespace", text), ("toleration_keys", (text,)))
    ]
    namespace, tolerations = answers({RELEASE: real}, [(RELEASE, given) for given in sets])
    assert namespace["error"] or f"name: {text}\n" not in namespace["text"]
    assert f'- key: "{text}"\n' in tolerations["text"]
    for given in sets:
        with pytest.raises(InvalidOption):
            Options(**given)
