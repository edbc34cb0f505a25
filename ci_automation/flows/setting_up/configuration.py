"""The configuration that `setup` writes, or adds channels to, and the patches of single clusters that go into it.

These are patches that the folder of one cluster has beside the files of others, as a Kustomization of Flux can have.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.artifact.tree import COMPONENTS_PATH
from ci_automation.artifact.yaml import nodes, plain, text, yaml_of
from ci_automation.config.document import InvalidConfig
from ci_automation.config.load import parse_config
from ci_automation.config.model import ApprovalVia, SigningMode
from ci_automation.flows.setting_up.answers import CONFIGURATION, Answers, UnfitAnswer
from ci_automation.flows.setting_up.todo import TODO
from ci_automation.impact.overlay.bootstrapped import UnfitBootstrap, documents_in, kustomization_in, patches_of_sync
from ci_automation.impact.overlay.kustomization import NAMES, kustomization_file, listed_at, text_of
from ci_automation.impact.values import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.tree import Tree, TreeFile
    from ci_automation.flux.options import Options

PUBLIC_KEY = "cosign.pub"
PRIVATE_KEY = "../cosign.key"  # beside the clone
_SIGNING = (SigningMode.KEYLESS, SigningMode.KEY)
_APPROVAL = (
    (ApprovalVia.PULL_REQUEST, False),
    (ApprovalVia.PULL_REQUEST, True),
    (ApprovalVia.WORKFLOW_DISPATCH, False),
)
_BY_CODE = "approval: {operationsByCode: true}"
_SCHEMA = "docs/reference/config.schema.json"
_PAUSED = f"paused: true # until clusters verify: {TODO} ends with that"


def configuration_of(answers: Answers) -> str:
    """Return the first configuration of a repository."""
    action = answers.action.partition("@")[0]
    lines = [
        f"# yaml-language-server: $schema=https://raw.githubusercontent.com/{action}/{answers.pin}/{_SCHEMA}",
        "version: 1",
        "defaults:",
        *_ways(answers),
        "artifacts:",
        *(f"  {line}" for name in answers.channels for line in _entry(name, answers, {})),
    ]
    return "\n".join(lines) + "\n"


def _ways(answers: Answers) -> list[str]:
    """Return the lines that say how runs sign and ask."""
    place = answers.place
    if not answers.keyless:
        verify = [f"publicKey: {PUBLIC_KEY}"]
    elif answers.by_run:
        verify = [f"identityRegexp: '{place.pattern(answers.signers)}'", f"issuer: {place.issuer}"]
    else:
        verify = [f"identity: {place.subject('flux.yaml')}", f"issuer: {place.issuer}"]
    return [
        "  verify:",
        *(f"    {line}" for line in verify),
        *([] if answers.keyless else ["  signing: {mode: key, key: env://COSIGN_KEY}"]),
        *(["  approval: {via: workflow-dispatch}"] if answers.by_run else []),
        *([f"  {_BY_CODE}"] if answers.by_code else []),
    ]


def _as_answered(existing: str, answers: Answers) -> str:
    """Return a configuration in which runs sign and ask as answered, where `setup` wrote how they did before."""
    every = [replace(answers, signing=it, approval=via, by_code=code) for it in _SIGNING for via, code in _APPROVAL]
    written = max(("\n".join((*_ways(it), "")) for it in every), key=lambda it: (f"\n{it}" in existing, len(it)))
    changed = existing.replace(f"\n{written}", "\n".join(("", *_ways(answers), "")))
    artifacts = parse_config(changed.encode(), CONFIGURATION).artifacts
    if artifacts == parse_config(existing.encode(), CONFIGURATION).artifacts:
        changed = existing
    for artifact in artifacts:
        if answers.by_code and not artifact.approval.operations_by_code:
            told = f"{CONFIGURATION} lets no code approve for {artifact.name}"
            raise UnfitAnswer(f"{told}; write `{_BY_CODE}` below `defaults` there")
        trusted = artifact.verify
        keys, identities = bool(trusted.public_keys), bool(trusted.identities or trusted.patterns)
        if identities not in {keys, answers.keyless}:  # neither both nor none, and not as answered
            raise UnfitAnswer(
                f"{CONFIGURATION} trusts {'keys' if keys else 'identities'} alone for {artifact.name}; with --signing "
                f"{answers.signing}, write there in place of that: {'; '.join(it.strip() for it in _ways(answers))}"
            )
    return changed


def grown(existing: str, answers: Answers) -> str:
    """Return a configuration with the channels that it lacks, and with the answers; as it is if it has them all.

    Raises:
        UnfitAnswer: what it lacks cannot be added.
    """
    existing = _as_answered(existing, answers)
    name, channel = answers.first
    if answers.has(name) is False and not answers.migration:  # an earlier run was not told that it is new
        existing = existing.replace(f"    url: {channel}\n    {_PAUSED}\n", f"    url: {channel}\n")
    before = parse_config(existing.encode(), CONFIGURATION).artifacts
    there = {it.channel for it in before}
    defaults = mapping(mapping(plain(nodes(existing)[0]).get("defaults")).get("sync"))
    usual = mapping(defaults.get("kustomization"))  # which that of an entry replaces
    lines = [it for name, at in answers.channels.items() if at not in there for it in _entry(name, answers, usual)]
    if not lines:
        return existing
    for indent in ("  ", ""):
        grown = existing.rstrip("\n") + "".join(f"\n{indent}{line}" for line in lines) + "\n"
        try:
            if parse_config(grown.encode(), CONFIGURATION).artifacts[: len(before)] == before:
                return grown
        except InvalidConfig as error:
            if unfit := [f"{it.key} {it.what}" for it in error.problems if it.path]:
                why = f"with {'; '.join(lines)} at the end of {CONFIGURATION}, {'; '.join(unfit)}"
                raise UnfitAnswer(f"{why}; name the channel otherwise, by --name or by its tag") from error
    raise UnfitAnswer(f"{CONFIGURATION} does not end with its artifacts; add these lines to them: {'; '.join(lines)}")


def _entry(name: str, answers: Answers, usual: Mapping[str, Any]) -> list[str]:
    """Return the lines for a channel, whose patches follow those that `usual` has for all channels."""
    lines = [f"- name: {name}", f"  url: {answers.channels[name]}"]
    if source := dict(answers.waves).get(name):
        lines.append(f"  promote: {{from: {source}, after: {answers.after(name)}}}")
        if answers.migration and (of_its_own := answers.migration.kustomization(name)):
            own = yaml_of({"sync": settings_with(usual, of_its_own)}, flow=False)
            lines += [f"  {line}".rstrip() for line in own.split("\n")]
        return lines
    lines += [f"  {_PAUSED}"] if answers.unverified else []
    lines += [f"  overlay: {answers.overlay}"] if answers.overlay else []
    lines += [f"  componentsFile: {answers.components}"] if answers.components != COMPONENTS_PATH else []
    return [*lines, *([f"  flags: {yaml_of({**answers.flags}, flow=True)}"] if answers.flags else [])]


_CONTROLLERS = {"kind": "Deployment", "labelSelector": "app.kubernetes.io/part-of=flux"}
_TARGET = {"group", "version", "kind", "namespace", "name", "labelSelector", "annotationSelector"}  # as Flux has it


def added_patches(own: Tree, others: Tree) -> tuple[Mapping[str, Any], ...]:
    """Return the patches that files have after those of the others, if nothing else differs.

    Flux applies the patches of a Kustomization after those of the files, and takes only a text and a target.
    """
    try:
        (path, ours), (other_path, theirs) = kustomization_fields(own), kustomization_fields(others)
        of_sync = patches_of_sync(own)
    except UnfitBootstrap:
        return ()
    before, after = listed_at(theirs, "patches"), listed_at(ours, "patches")
    added = [mapping(it) for it in after[len(before) :]]
    files = {text(it.get("path")) for it in added} - others.by_path.keys()
    alike = (
        after[: len(before)] == before
        and {**ours, "patches": before} == {**theirs, "patches": before}
        and {it for it in own.files if it.path not in {path, *files}} == {*others.without(other_path).files}
    )
    patches = tuple(inline_patch(it, own) for it in added)
    return patches if alike and not of_sync and all(patches) else ()


def changed_patches(own: Tree, others: Tree) -> tuple[Mapping[str, Any], ...]:
    """Return the patches that files have and the others lack; whether these come out the same is for a build to say."""
    try:
        (_, ours), (_, theirs) = kustomization_fields(own), kustomization_fields(others)
        of_sync = patches_of_sync(own)
    except UnfitBootstrap:
        return ()
    before = [inline_patch(mapping(it), others) for it in listed_at(theirs, "patches")]
    found = [it for each in listed_at(ours, "patches") if (it := inline_patch(mapping(each), own)) not in before]
    return tuple(found) if all(found) and not of_sync else ()


def images_beside(own: Options, other: Options) -> dict[str, list[Mapping[str, Any]]]:
    """Return what gives a Kustomization the registry and the Secret of images, if options differ in nothing else."""
    there = replace(own, registry=other.registry, image_pull_secret=other.image_pull_secret)
    if own == other or there != other or (other.image_pull_secret and not own.image_pull_secret):
        return {}
    found: dict[str, list[Mapping[str, Any]]] = {}
    if own.registry != other.registry:
        names = ((f"{other.registry}/{it}", f"{own.registry}/{it}") for it in own.components)
        found["images"] = [{"name": name, "newName": new} for name, new in names]
    if own.image_pull_secret != other.image_pull_secret:
        secret = f"value: [{{name: {own.image_pull_secret}}}]"
        patch = f"- {{op: add, path: /spec/template/spec/imagePullSecrets, {secret}}}\n"
        found["patches"] = [{"patch": patch, "target": _CONTROLLERS}]
    return found


def settings_with(
    kustomization: Mapping[str, Any], own: Mapping[str, list[Mapping[str, Any]]]
) -> dict[str, Mapping[str, Any]]:
    """Return `sync` of a channel with the settings that it has, and its own patches and images after these."""
    added = {key: [*listed_at(kustomization, key), *items] for key, items in own.items()}
    return {"kustomization": {**kustomization, **added}}


def kustomization_fields(tree: Tree) -> tuple[str, Mapping[str, Any]]:
    """Return the path of the kustomization and its fields; nothing if there is none.

    Raises:
        UnfitBootstrap: it cannot be read.
    """
    path = kustomization_file(tree, ".")
    return (path, kustomization_in(path, tree[path]).value) if path else ("", {})


def inline_patch(entry: Mapping[str, Any], tree: Tree) -> Mapping[str, Any]:
    """Return an entry of `patches` with the text of its file; nothing if Flux would not take it."""
    path, target = text(entry.get("path")), mapping(entry.get("target"))
    patch = text_of(tree[path]) if path in tree.by_path else text(entry.get("patch"))
    if not patch or not entry.keys() <= {"patch", "path", "target"} or not target.keys() <= _TARGET:
        return {}
    return {"patch": patch, **({"target": target} if target else {})}


def changed_file(file: TreeFile, other: TreeFile) -> str:
    """Return the path of a file that another folder has too, of a kustomization with the fields that differ."""
    if file.path not in NAMES:
        return file.path
    ours, theirs = _fields_of(file), _fields_of(other)
    fields = sorted(it for it in ours.keys() | theirs.keys() if ours.get(it) != theirs.get(it))
    told = [f"{'adds' if it not in theirs else 'other' if it in ours else 'lacks'} {it}" for it in fields]
    return f"{file.path} ({', '.join(told)})" if told else file.path


def _fields_of(file: TreeFile) -> Mapping[str, Any]:
    with suppress(UnfitBootstrap):
        return {key: value for it in documents_in(file.path, file.content) for key, value in it.items()}
    return {}
