"""The command `schema`, and the forms of everything that `--output json` prints; `print_json` adds their names."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

import click
import msgspec

from ci_automation.cli.output import print_json

_Object = dict[str, Any]  # of a part with keys of its own, which docs/reference/json.md names


class ErrorOutput(TypedDict):
    """An error that ended the run, of any command."""

    error: _Failure


class _Trouble(TypedDict):
    code: str
    message: str
    hint: str


class _Failure(_Trouble):
    exitCode: int


class _At(TypedDict):
    version: str
    digest: str


_Move = TypedDict("_Move", {"from": _At, "to": _At})


class ResultsOutput(TypedDict):
    """What `check`, `plan`, `update` and `apply` found and did, artifact by artifact."""

    exitCode: int
    artifacts: list[_Result]


class _Entry(TypedDict):
    name: str
    artifact: str
    exitCode: int


class _Failed(_Entry):
    error: _Trouble


class _Result(_Entry):
    changed: bool
    version: str
    digest: str
    signature: str
    healed: bool
    movedBackChecked: bool
    versionTagsAstray: list[str]
    published: list[_Object]
    waiting: list[_Object]
    plan: _Plan
    vulnerabilities: list[_Object]
    releaseNotes: list[_Notes]


class _Plan(TypedDict):
    schema: Literal["flux-manifests.plan/v1"]
    artifact: str
    current: _At
    steps: list[_Object]
    passedOver: list[_Object]
    digest: str


class _Notes(TypedDict):
    version: str
    mayBreak: list[str]
    text: str


class _Findings(TypedDict):
    changes: list[_Object]
    hazards: list[_Object]
    pruned: list[str]


class PromotionsOutput(TypedDict):
    """What `promote` found and did, channel by channel."""

    exitCode: int
    promotions: list[_Promotion]


class _Promotion(_Move, _Entry, _Findings):
    source: str
    decision: str
    reasons: list[str]
    changed: bool
    releaseNotes: list[_Notes]
    gates: list[_Object]


class VerifyOutput(TypedDict):
    """Who signed an artifact, and which clusters accept it."""

    artifact: str
    digest: str
    version: str | None
    by: str
    verified: bool
    clusters: list[_Cluster]
    rederived: NotRequired[_Object]


class _Cluster(TypedDict):
    flux: str
    accepts: bool
    reason: str


class HistoryOutput(TypedDict):
    """Each digest that an immutable tag or a channel names, the newest first."""

    entries: list[_Past]


class _Past(TypedDict):
    rows: list[int]
    version: str
    tag: str
    digest: str
    signed: str
    origin: str
    channels: list[str]
    versionTags: list[str]
    records: list[_Object]
    holds: list[_Object]


class RenderOutput(TypedDict):
    """A rendered release, and what proves the rendering."""

    version: str
    options: _Object
    proven: bool
    proof: str
    proofDetail: str
    components: str


class InitOutput(TypedDict):
    """The first artifact of a channel."""

    artifact: str
    version: str
    digest: str
    published: bool
    signed: bool
    components: str
    options: _Object
    hazards: list[_Object]
    rights: list[_Object]
    migration: NotRequired[str]


class PullOutput(TypedDict):
    """An artifact that was unpacked."""

    artifact: str
    digest: str
    signature: str
    files: list[str]


class PushOutput(TypedDict):
    """A team's own manifests, published."""

    artifact: str
    digest: str
    published: bool
    signed: bool
    revision: str


class RollbackOutput(_Move, _Findings):
    """A rollback, and what it breaks."""

    artifact: str
    decision: str
    hold: _Object | None
    problem: str | None
    signedAgain: bool
    versionTags: list[str]
    gates: list[_Object]
    changed: bool


class LiftOutput(TypedDict):
    """The holds that `rollback --lift` ended."""

    artifact: str
    digest: str
    changed: bool
    lifted: list[_Object]


_Sides = TypedDict("_Sides", {"from": _Object, "to": _Object})


class DiffOutput(_Sides, _Findings):
    """What changes between two sides, and what that can break."""

    overlaysCompared: bool


class DoctorOutput(TypedDict):
    """What keeps runs from their work."""

    healthy: bool
    findings: list[_Object]


class ConfigOutput(TypedDict):
    """A configuration that is valid, and workflows that fit."""

    valid: bool
    file: NotRequired[str]
    artifacts: NotRequired[list[str]]
    workflows: NotRequired[list[str]]
    advice: NotRequired[list[str]]


class PruneOutput(TypedDict):
    """Old artifacts of a repository: what goes, and what stays."""

    repository: str
    applied: bool
    goes: list[_Object]
    leftovers: list[str]
    stays: list[_Object]
    deleted: list[_Object]
    keptAfterAll: list[_Object]


class BootstrapOutput(TypedDict):
    """A cluster that follows a channel."""

    artifact: str
    digest: str
    version: str
    revision: str


class BootstrapManifestsOutput(TypedDict):
    """The order of the first installation."""

    artifact: str
    digest: str
    version: str
    steps: list[_Object]
    secrets: list[_Object]


class AttachOutput(TypedDict):
    """What was attached to an artifact."""

    artifact: str
    digest: str
    attachment: str
    type: str


class DiscoverOutput(TypedDict):
    """What is attached to an artifact."""

    artifact: str
    digest: str
    attachments: list[_Object]


class MirrorOutput(TypedDict):
    """Releases in a folder."""

    folder: str
    releases: list[_Object]


class MirrorImagesOutput(TypedDict):
    """Images of the controllers in another registry."""

    to: str
    images: list[_Object]


class MirrorPushOutput(TypedDict):
    """Releases in a repository of a registry."""

    repository: str
    releases: list[_Object]


FORMS: dict[str, Any] = {
    "error": ErrorOutput,
    "results": ResultsOutput,
    "promotions": PromotionsOutput,
    "verify": VerifyOutput,
    "history": HistoryOutput,
    "render": RenderOutput,
    "init": InitOutput,
    "pull": PullOutput,
    "push": PushOutput,
    "rollback": RollbackOutput,
    "lift": LiftOutput,
    "diff": DiffOutput,
    "doctor": DoctorOutput,
    "config": ConfigOutput,
    "prune": PruneOutput,
    "bootstrap": BootstrapOutput,
    "bootstrap-manifests": BootstrapManifestsOutput,
    "attach": AttachOutput,
    "discover": DiscoverOutput,
    "mirror": MirrorOutput,
    "mirror-images": MirrorImagesOutput,
    "mirror-push": MirrorPushOutput,
}

_OF_SEVERAL = {"results": "artifacts", "promotions": "promotions"}  # where an entry may be an error


def output_schema(form: str) -> dict[str, Any]:
    """Return the JSON schema of a form."""
    name = f"flux-manifests.{form}/v1"
    types = [FORMS[form], *([_Failed] if form in _OF_SEVERAL else [])]
    (_, *failed), parts = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    top = parts.pop(FORMS[form].__name__)
    if form in _OF_SEVERAL:  # msgspec has no choice between mappings
        entries = top["properties"][_OF_SEVERAL[form]]
        entries["items"] = {"anyOf": [entries["items"], *failed]}
    top["properties"] = {"schema": {"const": name}, **top["properties"]}
    top["required"] = ["schema", *top["required"]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **top, "$defs": parts}


@click.command("schema")
@click.argument("name", type=click.Choice(list(FORMS)))
def command(name: str) -> None:
    """Print the JSON schema of an output, by the name that it has in `schema`.

    \b
    flux-manifests schema results > results.schema.json
    """
    print_json(output_schema(name))
