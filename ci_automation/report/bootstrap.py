"""The way of a cluster to the artifact: a first installation, or the move from a folder in Git, step by step.

The text is what kustomize built: its keys are sorted, and what a document begins with stands in the first column.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.report.cluster_objects import NeededSecret, as_yaml, login_secret
from ci_automation.report.sync import ByKey, Sync

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.impact.overlay.bootstrapped import AppliedPath

_SEPARATOR = re.compile(r"^---\n", re.MULTILINE)
_KIND = re.compile(r"^kind: ([A-Za-z]+)$", re.MULTILINE)
_METADATA = re.compile(r"^metadata:\n((?:  .*\n)*)", re.MULTILINE)
_NAME = re.compile(r'^  name: "?([^"\n]+)"?$', re.MULTILINE)
_NAMESPACE = re.compile(r'^  namespace: "?([^"\n]+)"?$', re.MULTILINE)
_OF_FLUX = re.compile(r"^    app\.kubernetes\.io/part-of: flux$", re.MULTILINE)
_ENCRYPTED = re.compile(r"^sops:$", re.MULTILINE)
_PULL_SECRETS = re.compile(r"^( *)imagePullSecrets:\n((?:\1- .*\n)+)", re.MULTILINE)
_PULL_SECRET = re.compile(r'name: "?([^"\n]+)')
_IMAGE = re.compile(r'^ +(?:- )?image: "?([^"/\n]+)/', re.MULTILINE)
_FIRST = frozenset({"Namespace", "CustomResourceDefinition"})
_READY = "--for=condition=Ready"
AT_REVISION = "--for=jsonpath="


class BuiltObject(Struct, frozen=True):
    """One document that kustomize built."""

    text: str
    kind: str
    name: str
    namespace: str
    of_flux: bool


class ApplyStep(Struct, frozen=True):
    """One text to apply, its file name, what it is, and the commands of kubectl that wait for it."""

    file: str
    what: str
    text: str
    waits: tuple[tuple[str, ...], ...]

    def commands(self, folder: str) -> list[str]:
        """Return the commands that apply the file in a folder and wait for it."""
        apply = shlex.join(["kubectl", *APPLY, f"{folder}/{self.file}"])
        return [apply, *(shlex.join(["kubectl", *words]) for words in self.waits)]


APPLY = ("apply", "--server-side", "--force-conflicts", "-f")  # kustomize-controller takes over what kubectl owns


class InstallOrder(Struct, frozen=True):
    """The steps of a first installation, and the Secrets that are made by hand between the first and the second."""

    steps: tuple[ApplyStep, ...]
    secrets: tuple[NeededSecret, ...]
    controllers: tuple[BuiltObject, ...]

    def files(self) -> Tree:
        """Return the steps as files."""
        return Tree(tuple(TreeFile(each.file, each.text.encode()) for each in self.steps))

    def told(self, folder: str) -> str:
        """Return the order for people, with commands that work as printed."""
        lines = []
        for number, step in enumerate(self.steps, 1):
            lines += [f"  {number}. {step.what}", *(f"     {command}" for command in step.commands(folder))]
            if number == 1 and self.secrets:
                lines.append("     Then make these Secrets:")
                lines += [f"     {each.command}" for each in self.secrets]
        return "\n".join(lines)


def built_objects(built: str) -> tuple[BuiltObject, ...]:
    """Return the documents of a build, without those that only Flux can decrypt."""
    return tuple(_read(text) for text in _SEPARATOR.split(built) if text.strip() and not _ENCRYPTED.search(text))


def _read(text: str) -> BuiltObject:
    metadata = _METADATA.search(text)
    head = metadata[1] if metadata else ""
    found = (_KIND.search(text), _NAME.search(head), _NAMESPACE.search(head))
    kind, name, namespace = (each[1] if each else "" for each in found)
    return BuiltObject(text, kind, name, namespace, bool(_OF_FLUX.search(head)))


def install_order(sync: Sync, built: str, keys: str, timeout: str, revision: str) -> InstallOrder:
    """Return the steps for what was built; `keys` is the Secret that verifies, empty where none does.

    `revision` is what was verified, as source-controller names it. Nothing is applied from another: between the look at
    the channel and the controller's, an attacker who can write to the registry can move it to an old signed digest.
    """
    objects = built_objects(built)
    first = [each for each in objects if each.kind in _FIRST]
    rest = [each for each in objects if each.kind not in _FIRST]
    crds = [f"crd/{each.name}" for each in first if each.kind == "CustomResourceDefinition"]
    names = {each.name for each in first if each.kind == "Namespace"}
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": sync.home}}
    home = "" if sync.home in names else as_yaml([own])
    controllers = tuple(each for each in rest if each.kind == "Deployment" and each.of_flux)
    until = f"--timeout={timeout}"
    established = ("wait", "--for=condition=Established", until, *crds)
    rollouts = (("-n", each.namespace, "rollout", "status", f"deployment/{each.name}", until) for each in controllers)

    def waits(what: str, field: str) -> tuple[tuple[str, ...], ...]:
        wait = ("-n", sync.home, "wait", until)
        return (*wait, _READY, what), (*wait, f"{AT_REVISION}{{.status.{field}}}={revision}", what)

    source, applied = (f"{kind}/{sync.settings.name}" for kind in ("ocirepository", "kustomization"))
    look = ("-n", sync.home, "annotate", "--overwrite", source, f"reconcile.fluxcd.io/requestedAt={revision}")
    sources = [it for it in sync.objects() if it["kind"] == "OCIRepository"]
    others = [it for it in sync.objects() if it not in sources]
    verified = f"The object that follows {sync.channel}, which must find what was verified"
    text = (f"---\n{keys}" if keys else "") + as_yaml(sources)
    steps = (
        ("1-definitions.yaml", "The namespace and the CRDs", home + _joined(first), (established,) if crds else ()),
        ("2-controllers.yaml", f"The controllers of Flux {sync.version}", _joined(rest), (*rollouts,)),
        ("3-source.yaml", verified, text, (look, *waits(source, "artifact.revision"))),
        ("4-kustomization.yaml", "The object that applies it", as_yaml(others), waits(applied, "lastAppliedRevision")),
    )
    needed = {(it.namespace, it.name): it for it in (*sync.needs(), *_root(sync), *_pulling(objects))}
    return InstallOrder(tuple(ApplyStep(*step) for step in steps), tuple(needed.values()), controllers)


def _joined(objects: Sequence[BuiltObject]) -> str:
    return "".join(f"---\n{each.text}" for each in objects)


def _pulling(objects: Sequence[BuiltObject]) -> Iterator[NeededSecret]:
    """Yield the Secrets with which the controllers' images are pulled, as they and their accounts name them."""
    controllers = [it for it in objects if it.of_flux and it.kind == "Deployment"]
    hosts = [found[1] for it in controllers if (found := _IMAGE.search(it.text))]
    made = {(it.namespace, it.name) for it in objects if it.kind == "Secret"}
    for each in (*controllers, *(it for it in objects if it.of_flux and it.kind == "ServiceAccount")):
        own = _IMAGE.search(each.text)
        for listed in _PULL_SECRETS.finditer(each.text):
            for name in _PULL_SECRET.findall(listed[2]):
                if (each.namespace, name) not in made:
                    host = own[1] if own else "".join(hosts[:1])
                    yield login_secret(each.namespace, name, host, "pulls the controllers' images")


def _root(sync: Sync) -> list[NeededSecret]:
    """Return the Secret with the trusted root of an own Sigstore."""
    if isinstance(sync.verify, ByKey) or sync.verify.root_secret is None:
        return []
    words = "generic --from-file=trusted_root.json"
    return [NeededSecret(sync.home, sync.verify.root_secret, "holds the trusted root of your own Sigstore", words)]


def migration_steps(folder: str, git: Sequence[AppliedPath], *, keep_sync: bool) -> str:
    """Return the steps in their order; `git` are the Kustomizations that still apply the folder."""
    names = ", ".join(map(str, git))
    ready = "kubectl -n flux-system wait ocirepository,kustomization flux-manifests --for=condition=Ready --timeout=5m"
    steps = [
        f"Apply the objects, which are all of the output, to each cluster. Wait until both are ready:\n     {ready}"
    ]
    if git:
        without = f"In Git, gotk-sync.yaml needs `prune: false`, and clusters have to have applied that: {names}."
        rest = f"Delete {folder} in Git"
        if not keep_sync:
            rest = f"In Git, leave only gotk-sync.yaml in {folder}, with a kustomization.yaml that lists nothing else"
        suspend, resume = (
            "".join(f"\n     flux -n {by.namespace} {verb} kustomization {by.name}" for by in git)
            for verb in ("suspend", "resume")
        )
        steps = [
            f"{without}\n     Without this step Flux can delete itself in step 4.",
            f"Suspend what Git applies in each cluster, or it takes back what the channel brings:{suspend}",
            *steps,
            f"{rest}. Keep the overlay's files elsewhere, outside the path of that Kustomization.",
            f"When the GitRepository has that commit, and not before, resume what Git applies:{resume}",
            f"When clusters have applied that, set `prune: true` again{' in the artifact' if keep_sync else ''}.",
        ]
    numbered = "\n".join(f"  {number}. {step}" for number, step in enumerate(steps, 1))
    return f"The way of a cluster to this artifact, in this order:\n{numbered}"
