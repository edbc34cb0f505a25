"""Flags of `flux install`, by their own names, and the rules for their values.

The flags and defaults come from `cmd/flux/install.go` and `pkg/manifestgen/install/options.go`. They are the same from
v2.2 to v2.9, except for the component source-watcher, which came with v2.7.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

DEFAULT_COMPONENTS = ("source-controller", "kustomize-controller", "helm-controller", "notification-controller")
EXTRA_COMPONENTS = ("image-reflector-controller", "image-automation-controller", "source-watcher")
COMPONENTS = DEFAULT_COMPONENTS + EXTRA_COMPONENTS
LOG_LEVELS = ("debug", "info", "error")

_DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(?=.{{1,253}}$){_DNS_LABEL}(\.{_DNS_LABEL})*")
_LABEL = re.compile(_DNS_LABEL)
# No IPv6 address: in brackets, it is a list where Flux's template has it.
_IMAGE_PATH = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?"
    r"(/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
)
_QUALIFIED_NAME = re.compile(
    rf"(?:(?=.{{1,253}}/){_DNS_LABEL}(?:\.{_DNS_LABEL})*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
)
# Names that YAML 1.1 or 1.2 reads as something else. Flux's templates have some names without quotes, where these break
# or become numbers, and kustomize puts quotes around others. Underscores may be anywhere in a number.
_NUMBER_OR_DATE = re.compile(
    r"[0-9]+(\.[0-9]*)?(e[-+]?[0-9]+)?|0x[0-9a-f]+|0o[0-7]+|0b[01]+|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}", re.IGNORECASE
)
_SWITCHES = frozenset({"y", "yes", "n", "no", "true", "false", "on", "off", "null"})

_REFUSED = {
    "registry-creds": (
        "--registry-creds would put a password into a file that every cluster reads",
        "Create the pull secret in the clusters, and name it with --image-pull-secret.",
    ),
    "manifests": (
        "--manifests would render files that do not come from a release",
        "Give a folder of releases with --releases.",
    ),
    "version": ("--version is not an option of an artifact", "The policy says which versions are taken."),
    "export": ("--export is not an option of an artifact", "Leave it out: this program always exports."),
    "force": ("--force is not an option of an artifact", "Leave it out: this program always exports."),
    "help": ("--help is not an option of an artifact", "Leave it out."),
}
_FLAG = re.compile(r"[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,30}){0,8}")
_MAX_VALUE = 1000


class InvalidOption(UsageError):
    """A flag of `flux install`, or its value, is unknown to Flux."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UnknownFlag(InvalidOption):
    """Neither this program nor the release's flux CLI knows a flag."""

    def __init__(self, flag: str, release: object, listed: Collection[str] = ()) -> None:
        super().__init__(f"flux install of {release} has no flag --{flag}", nearest_flag(flag, listed))
        self.flag = flag


class Options(Struct, frozen=True):
    """Options of `flux install` that its output depends on; a field's name is the flag's, with underscores.

    `components` is the whole list, `--components` and then `--components-extra`, in the given order, which is also the
    order of the output. `others` are flags that this program does not know, sorted, each with its value as text: the
    flux CLI of the release says whether it has them.
    """

    components: tuple[str, ...] = DEFAULT_COMPONENTS
    namespace: str = "flux-system"
    registry: str = "ghcr.io/fluxcd"
    image_pull_secret: str = ""
    watch_all_namespaces: bool = True
    network_policy: bool = True
    log_level: str = "info"
    cluster_domain: str = "cluster.local"
    toleration_keys: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Raise `InvalidOption` if Flux or Kubernetes would refuse a value."""
        _check_components(self.components)
        _check("namespace", self.namespace, _LABEL, "a DNS label such as flux-system")
        _check_text("namespace", self.namespace)
        _check("registry", self.registry, _IMAGE_PATH, "a registry and path such as registry.example.com/fluxcd")
        if self.image_pull_secret:
            _check("image-pull-secret", self.image_pull_secret, _DNS_NAME, "the name of a Secret")
            _check_text("image-pull-secret", self.image_pull_secret)
        _check("cluster-domain", self.cluster_domain, _DNS_NAME, "a domain such as cluster.local")
        if self.log_level not in LOG_LEVELS:
            raise InvalidOption(
                f"{_shown('log-level', self.log_level)} is not a log level of Flux",
                f"Valid are {', '.join(LOG_LEVELS)}.",
            )
        for key in self.toleration_keys:
            _check("toleration-keys", key, _QUALIFIED_NAME, "the key of a taint, such as example.com/dedicated")
            _check_text("toleration-keys", key)

    def flags(self) -> dict[str, Any]:
        """Return every flag by its own name, keys sorted, lists in order."""
        values = dict(self.others) | {flag: getattr(self, name) for flag, name in KNOWN_FLAGS.items()}
        return {flag: list(value) if isinstance(value, tuple) else value for flag, value in sorted(values.items())}

    def differing(self) -> dict[str, Any]:
        """Return each flag that differs from Flux's default, by its own name, keys sorted, lists in order."""
        defaults = Options().flags()
        return {flag: value for flag, value in self.flags().items() if value != defaults.get(flag)}

    def to_arguments(self) -> tuple[str, ...]:
        """Return each flag that differs from Flux's default as an argument of `flux install`."""
        return as_arguments(self.differing())

    @property
    def unknown_flags(self) -> str:
        """Return the names of the flags that this program does not know, for people."""
        return ", ".join(f"--{flag}" for flag, _ in self.others)

    @property
    def digest(self) -> Digest:
        """Return the digest of the options for the artifact's annotation (design section 5.1)."""
        return self.digest_with({})

    def digest_with(self, flags: Mapping[str, str]) -> Digest:
        """Return the digest that an earlier version of this program stated, which did not know `flags`."""
        written = json.dumps({**self.differing(), **flags}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return Digest.of(written.encode())

    def with_flags(self, flags: Mapping[str, Any]) -> Options:
        """Return these options overridden by `flags` of `flux install`, by their own names.

        As in Flux, `components-extra` comes after `components`; without `components`, it extends the present list. A
        flag that this program does not know is one of the `others`; an empty value takes it away.

        Raises:
            InvalidOption: Flux has no such value, it has the wrong type, or the flag's name is none.
        """
        changes: dict[str, Any] = {}
        others = dict(self.others)
        for flag, value in flags.items():
            if flag in _REFUSED:
                raise InvalidOption(*_REFUSED[flag])
            if flag == "components-extra":
                continue
            if flag not in KNOWN_FLAGS:
                others[flag] = _other(flag, value)
                continue
            changes[KNOWN_FLAGS[flag]] = _typed(flag, value, getattr(self, KNOWN_FLAGS[flag]))
        added = _texts("components-extra", flags.get("components-extra", ()))
        if "components" in changes:
            changes["components"] += added
        else:  # repeating a component that is there already would be an error in Flux, and is what people do
            changes["components"] = self.components + tuple(name for name in added if name not in self.components)
        changes["others"] = tuple(sorted((flag, value) for flag, value in others.items() if value))
        return replace(self, **changes)


KNOWN_FLAGS = {name.replace("_", "-"): name for name in Options.__struct_fields__ if name != "others"}


def nearest_flag(flag: str, listed: Collection[str] = ()) -> str:
    """Return a hint with the nearest flag of those that this program knows and those that a release lists."""
    return nearest(flag, sorted({*KNOWN_FLAGS, "components-extra", *listed} - _REFUSED.keys()))


def _other(flag: str, value: object) -> str:
    """Return the value of a flag that this program does not know, as the command line has it."""
    if not _FLAG.fullmatch(flag):
        raise InvalidOption(f"flux install has no flag --{flag}", nearest_flag(flag))
    parts = value if isinstance(value, list | tuple) else (value,)
    text = ",".join(str(_written(part)) for part in parts)
    if not (all(isinstance(part, str | int) for part in parts) and text.isprintable() and len(text) <= _MAX_VALUE):
        raise _wrong_type(flag, f"a text, a whole number, true, false, or a list; {_MAX_VALUE} characters", value)
    return text


def as_arguments(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Return flags of `flux install`, by their own names, as a command has them."""
    return tuple(f"--{flag}={_written(value)}" for flag, value in flags.items())


def _written(value: object) -> object:
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else value


def _check_components(components: tuple[str, ...]) -> None:
    if not components:
        raise InvalidOption("the list of components is empty", "Name at least one component with --components.")
    for name in components:
        if name not in COMPONENTS:
            raise InvalidOption(f"Flux has no component {name!r}", nearest(name, COMPONENTS))
        if components.count(name) > 1:
            raise InvalidOption(f"the component {name} is named twice", "Name each component once.")


def _check(flag: str, value: str, grammar: re.Pattern[str], wanted: str) -> None:
    if not grammar.fullmatch(value):
        raise InvalidOption(
            f"{_shown(flag, value)} is not {wanted}", ("Correct the value. This run fetched nothing yet.")
        )


def _check_text(flag: str, value: str) -> None:
    if _NUMBER_OR_DATE.fullmatch(value.replace("_", "")) or value.lower() in _SWITCHES:
        raise InvalidOption(
            f"{_shown(flag, value)} is a number, a date or a boolean in YAML without quotes",
            "Choose a name that YAML reads as text.",
        )


def _shown(flag: str, value: str) -> str:
    """Return the flag as given, without control characters."""
    return f"--{flag}={value if value.isprintable() else repr(value)}"


def _typed(flag: str, value: object, present: object) -> object:
    """Return `value` if it has the type of the flag."""
    if isinstance(present, tuple):
        return _texts(flag, value)
    if isinstance(value, type(present)):
        return value
    raise _wrong_type(flag, "true or false" if isinstance(present, bool) else "a text", value)


def _texts(flag: str, value: object) -> tuple[str, ...]:
    """Return `value`, a list or one text with commas, as a list, as in Flux."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",")) if value else ()
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise _wrong_type(flag, "a list of texts", value)


def _wrong_type(flag: str, kind: str, value: object) -> InvalidOption:
    return InvalidOption(f"--{flag} takes {kind}, not {value!r}", "Correct the value. This run fetched nothing yet.")


def nearest(word: str, words: Collection[str]) -> str:
    """Return a hint with the nearest of the valid words."""
    import difflib

    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"Did you mean {near[0]}?" if near else f"Valid are {', '.join(sorted(words))}."
