"""Recovery of the options that made a components file, with a proof: a new rendering of its release is equal."""

from __future__ import annotations

import re

from msgspec import Struct

from ci_automation.errors import PolicyRefused, UsageError
from ci_automation.flux.options import COMPONENTS, Options
from ci_automation.flux.render import GENERATED
from ci_automation.flux.text import SEPARATOR, controller_images, documents, unified_diff
from ci_automation.flux.version import InvalidVersion, Version

MAX_CHARACTERS = 4 << 20  # Flux's own have up to 0.7 million
# The text may be an attacker's. So no pattern may look at a part of it twice: each repetition is bounded, or ends at
# what cannot be in it.
_HEADER = re.compile(
    rf"(?:---\n)?{re.escape(GENERATED)}\n# Flux Version: (?P<version>\S{{1,64}})\n"
    r"# Components: (?P<components>\S{0,512})\n"
)
_VERSION_LABEL = re.compile(r'^    app\.kubernetes\.io/version: "?(v[^"\s]{1,64})"?$', re.MULTILINE)
_NAME = re.compile(r"^  name: (\S{1,255})$", re.MULTILINE)
_IMAGE = re.compile(r"^ +image: (\S{1,512})/[a-z-]{1,63}:[^/\s]{1,128}$", re.MULTILINE)
_PULL_SECRET = re.compile(r"^ +imagePullSecrets:\n +- name: (\S{1,255})$", re.MULTILINE)
_WATCH_ALL = re.compile(r"^ +- --watch-all-namespaces=(true|false)$", re.MULTILINE)
_LOG_LEVEL = re.compile(r"^ +- --log-level=(\S{1,64})$", re.MULTILINE)
_DOMAIN = re.compile(
    r"^ +- --(?:events-addr=http://notification-controller|storage-adv-addr=[a-z-]{1,63})"
    r"\.[^\s.]{1,63}\.svc\.([^\s/]{1,255}?)\./?$",
    re.MULTILINE,
)
_SECRET = re.compile(r"""^["']?kind["']?[ ]*:[ ]*(?:[!&]\S{0,40}[ ]+){0,2}["']?Secret\b""", re.MULTILINE)
_NOT_SHOWN = "# a document with `kind: Secret`, not shown"
_TOLERATIONS = re.compile(r"^ +tolerations:\n((?: +- key: \S{1,320}\n +operator: Exists\n){1,256})", re.MULTILINE)


class UnreadableComponents(UsageError):
    """A components file lacks information that a new rendering needs."""

    hint = (
        "It must come from `flux install --export` of v2.2 or later. Put that output there, or begin anew with `init`."
    )

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} cannot be read: {reason}")


class EditedByHand(PolicyRefused):
    """A components file differs from the rendering of its own release and options."""

    hint = (
        "Publish without the edits: with --accept-edits, or `acceptEdits` in the configuration. To keep them, move "
        "them into a patch of the kustomization first."
    )

    def __init__(self, version: Version, diff: str) -> None:
        super().__init__(f"the components file has been edited by hand since Flux {version} made it:\n{diff}")
        self.diff = diff


class MadeByAnotherTool(PolicyRefused):
    """Another tool than `flux install --export` wrote the components file."""

    hint = "Review the difference with `plan --accept-edits`, whose steps replace the file with the output of Flux."

    def __init__(self, version: Version, objects: str) -> None:
        super().__init__(
            f"the components file was not written by `flux install --export` but by kustomize, from install.yaml, "
            f"or by an older tool: it has no header of Flux, {objects} of {version}"
        )


class Recovered(Struct, frozen=True):
    """Version and options of a components file; `generated` says that it has the header of `flux install`."""

    version: Version
    options: Options
    generated: bool


def recover(text: str, path: str = "the components file") -> Recovered:
    """Return the version and all options of `text` that the text shows, not yet proven. Errors name its `path`.

    An option without a trace in the text (the cluster domain without any address) gets Flux's default.

    Raises:
        UnreadableComponents: the text lacks a version, components or a namespace, or is far too long.
        InvalidOption: Flux would refuse a value.
    """
    if len(text) > MAX_CHARACTERS:
        raise UnreadableComponents(path, f"it has more than {MAX_CHARACTERS} characters")
    if not text.strip("- \n"):
        raise UnreadableComponents(path, "it is empty")
    head = _HEADER.match(text)
    version = head["version"] if head else _found(_VERSION_LABEL, text, path, "no version, in a header or a label")
    components = head["components"].split(",") if head else _usual_order(text)
    controllers = _of_kind("Deployment", text)
    defaults = Options()
    secret, watch, level, domain, tolerations = (
        match[1] if (match := pattern.search(controllers)) else ""
        for pattern in (_PULL_SECRET, _WATCH_ALL, _LOG_LEVEL, _DOMAIN, _TOLERATIONS)
    )
    try:
        return Recovered(
            Version.parse(version),
            Options(
                components=tuple(components),
                namespace=_found(_NAME, _of_kind("Namespace", text), path, "no Namespace"),
                registry=_found(_IMAGE, controllers, path, "no controller image"),
                image_pull_secret=_plain(secret),
                watch_all_namespaces=watch != "false",
                network_policy="\nkind: NetworkPolicy\n" in text,
                log_level=level or defaults.log_level,
                cluster_domain=domain or defaults.cluster_domain,
                toleration_keys=tuple(_plain(key) for key in re.findall(r"- key: (\S+)", tolerations)),
            ),
            generated=head is not None,
        )
    except InvalidVersion as error:
        raise UnreadableComponents(path, str(error)) from None


def _usual_order(text: str) -> list[str]:
    """Return the components in Flux's default order, the most likely one if kustomize sorted the text."""
    deployments = controller_images(text)
    return [name for name in COMPONENTS if name in deployments]


def prove_options(text: str, recovered: Recovered, expected: str) -> None:
    """Compare a file with a new rendering of its release, to prove the options and to find hand edits.

    Raises:
        EditedByHand: the bytes differ.
        MadeByAnotherTool: the bytes differ, and the file has no header of `flux install`.
    """
    if text == expected:
        return
    if not recovered.generated:
        same = _objects(text) == _objects(expected)
        raise MadeByAnotherTool(
            recovered.version, "and the same objects as a rendering" if same else "and other objects than a rendering"
        )
    shown = SEPARATOR.join(_NOT_SHOWN if _SECRET.search(it) else it for it in text.split(SEPARATOR))
    raise EditedByHand(
        recovered.version,
        unified_diff(expected, shown, f"flux install --export ({recovered.version})", "the artifact's file"),
    )


def _objects(text: str) -> frozenset[tuple[str, ...]]:
    """Return the sorted words of each document, without order, comments and layout."""
    bodies = (
        re.sub(r"^(---|#.*)$", "", part, flags=re.MULTILINE) for part in re.split(r"^---$", text, flags=re.MULTILINE)
    )
    return frozenset(tuple(sorted(body.split())) for body in bodies if body.strip())


def _of_kind(kind: str, text: str) -> str:
    """Return only the documents of one kind, because nine tenths of the text are schemas of CRDs without options."""
    return SEPARATOR.join(part for part in documents(text) if f"\nkind: {kind}\n" in f"\n{part}\n") + "\n"


def _found(pattern: re.Pattern[str], text: str, path: str, otherwise: str) -> str:
    if not (match := pattern.search(text)):
        raise UnreadableComponents(path, otherwise)
    return match[1]


def _plain(scalar: str) -> str:
    """Return a scalar of one word without kustomize's quotes."""
    return scalar.strip("\"'")
