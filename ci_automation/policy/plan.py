"""The plan: what one run intends, complete before anything is done, and the JSON document that holds it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from ci_automation.artifact.gojson import unique
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.errors import UsageError
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty, Change, FileDiff, Hazard, hazard_names
from ci_automation.policy.decision import ACKNOWLEDGED, Decision, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ci_automation.impact.rights import FolderRights

SCHEMA = "flux-manifests.plan/v1"
MAX_PLAN_BYTES = 4 << 20
_TEXTS = tuple[str, ...]


class InvalidPlan(UsageError):
    """A file is no plan, was edited, or has another schema."""

    hint = "Make the plan again: `plan` with `--out` writes it. Do not edit plans by hand."

    def __init__(self, reason: str, file: str = "") -> None:
        super().__init__(f"the plan{f' {file}' if file else ''} cannot be used: {reason}")
        self.reason = reason


class ImageChange(Struct, frozen=True, rename={"old": "from", "new": "to"}):
    """A controller's image before and after; empty where the controller is new or gone."""

    controller: str
    old: str
    new: str


class PlannedStep(Struct, frozen=True):
    """One intended publication: its base and target, its content, and the decision."""

    old_version: Version
    new_version: Version
    base: Digest
    target: Digest
    decision: Decision
    reasons: tuple[str, ...]
    options: Options
    overlay: Digest
    release: Digest
    proof: Proof
    pinned: bool = False  # with digests behind the images
    images: tuple[ImageChange, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()  # each single one, the gravest first
    hazards: tuple[Hazard, ...] = ()
    pruned: tuple[str, ...] = ()  # what clusters delete when the target is applied
    diffs: tuple[FileDiff, ...] = ()  # of overlay files, and of what they render to
    gates: tuple[Verdict, ...] = ()  # every gate with what it looked at, also those that let it through
    rights: tuple[FolderRights, ...] = ()  # of Flux, in what clusters get
    promoted_from: str = ""  # the channel that has the target already; such a step is in no plan's document

    @property
    def kind(self) -> str:
        """Return the kind of step, for people: patch, minor, major, or content where the version does not change."""
        step = self.old_version.bump_to(self.new_version)
        return "content" if self.old_version == self.new_version else str(step)

    @property
    def changes_content(self) -> bool:
        """Return whether the options or the overlay change."""
        quiet = {gate.gate: gate.decision is Decision.AUTO and not gate.allowed for gate in self.gates}
        return not (quiet.get("options", True) and quiet.get("files", True))

    def unseen(self, shown: frozenset[str] | None) -> tuple[Hazard, ...]:
        """Return the hazards that are not among the names of those `shown` to the approver, and not acknowledged.

        Without `shown`, that is unknown, and nothing is compared: no job of an approved run showed them.
        """
        if shown is None or hazard_names(self.hazards) <= shown:
            return ()
        known = {gate.looked_at for gate in self.gates if gate.gate == ACKNOWLEDGED}
        asking = (it for it in self.hazards if it.certainty is not Certainty.ADVICE and it.fingerprint not in known)
        return tuple(it for it in asking if it.named not in shown)

    def in_brief(self) -> dict[str, Any]:
        """Return between what the step moves, and why it waits or not, for results beside the plan."""
        return {
            "from": str(self.old_version),
            "to": str(self.new_version),
            "kind": self.kind,
            "base": str(self.base),
            "target": str(self.target),
            "decision": str(self.decision),
            "reasons": list(self.reasons),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the step as the plan's document has it."""
        return {
            **self.in_brief(),
            "options": self.options.differing(),
            "overlay": str(self.overlay),
            "release": str(self.release),
            "proof": str(self.proof),
            "pinned": self.pinned,
            "changes": {
                "images": [to_builtins(image) for image in self.images],
                "added": list(self.added),
                "removed": list(self.removed),
                "all": [change.to_json() for change in self.changes],
                "diffs": [to_builtins(each) for each in self.diffs],
            },
            "hazards": [hazard.to_json() for hazard in self.hazards],
            "pruned": list(self.pruned),
            "gates": [to_builtins(gate) for gate in self.gates],
            "rights": [each.to_json() for each in self.rights],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the step that `to_json` wrote; anything else raises an error of `Plan.parse`."""
        from ci_automation.impact.rights import FolderRights  # not for a check that finds nothing to do

        return cls(
            old_version=Version.parse(value["from"]),
            new_version=Version.parse(value["to"]),
            base=Digest.parse(value["base"]),
            target=Digest.parse(value["target"]),
            decision=Decision(value["decision"]),
            reasons=convert(value["reasons"], _TEXTS),
            options=Options().with_flags(value["options"]),
            overlay=Digest.parse(value["overlay"]),
            release=Digest.parse(value["release"]),
            proof=Proof(value["proof"]),
            pinned=convert(value["pinned"], bool),
            images=convert(value["changes"]["images"], tuple[ImageChange, ...]),
            added=convert(value["changes"]["added"], _TEXTS),
            removed=convert(value["changes"]["removed"], _TEXTS),
            changes=convert(value["changes"]["all"], tuple[Change, ...]),
            hazards=convert(value["hazards"], tuple[Hazard, ...]),
            pruned=convert(value["pruned"], _TEXTS),
            diffs=convert(value["changes"]["diffs"], tuple[FileDiff, ...]),
            gates=convert(value["gates"], tuple[Verdict, ...]),
            rights=convert(value["rights"], tuple[FolderRights, ...]),
        )


class PassedOver(Struct, frozen=True):
    """A newer release that the plan does not take, and why; the document does not say if a hold makes it wait."""

    version: Version
    decision: Decision
    reasons: tuple[str, ...]
    held: bool = False


class Plan(Struct, frozen=True):
    """The planned steps of one artifact, each on top of the one before.

    If the overlay is in Git, a content step and a version step can start from the same digest: a person chooses.
    `since` is when the channel was last said to come to its digest or to leave it, by signed records: what was said
    later was not reviewed.
    """

    artifact: Reference
    current_version: Version
    current: Digest
    steps: tuple[PlannedStep, ...]
    passed_over: tuple[PassedOver, ...] = ()
    since: datetime | None = None

    def path_to(self, digest: Digest) -> tuple[PlannedStep, ...] | None:
        """Return the steps that lead to a digest, or None if none do."""
        path: list[PlannedStep] = []
        while digest != self.current:
            step = next((it for it in self.steps if it.target == digest and it not in path), None)
            if step is None:
                return None
            path.insert(0, step)
            digest = step.base
        return tuple(path)

    def going(self, path: Sequence[PlannedStep]) -> Plan:
        """Return the same plan after a person chose `path`: without the steps that start from digests left behind."""
        reached = {path[-1].target if path else self.current}
        rest = []
        for step in self.steps:
            if step not in path and step.base in reached:
                rest.append(step)
                reached.add(step.target)
        return replace(self, steps=(*path, *rest))

    @property
    def digest(self) -> Digest:
        """Return the digest of the plan's document without the digest itself."""
        return Digest.of(_canonical(self._document()))

    def to_text(self) -> str:
        """Return the plan's document, indented for people; its digest is over the canonical form."""
        return json.dumps({**self._document(), "digest": str(self.digest)}, indent=2, ensure_ascii=False) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Return the plan's document as a value."""
        return {**self._document(), "digest": str(self.digest)}

    def _document(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "artifact": str(self.artifact),
            "current": {
                "version": str(self.current_version),
                "digest": str(self.current),
                "since": self.since.isoformat() if self.since else None,
            },
            "steps": [step.to_json() for step in self.steps],
            "passedOver": [
                {"version": str(p.version), "decision": str(p.decision), "reasons": list(p.reasons)}
                for p in self.passed_over
            ],
        }

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Return the plan in `data`.

        The digest finds accidents and hasty edits, not an attacker, who can compute it again: nothing that a plan
        says is believed before it was rendered and decided again.

        Raises:
            InvalidPlan: not JSON, another schema, edited, or with steps that do not follow one another.
        """
        try:
            value = json.loads(data, object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            raise InvalidPlan(f"it is not JSON: {error}") from None
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            found = value.get("schema") if isinstance(value, dict) else None
            raise InvalidPlan(f"its schema is {found!r}, and this version reads {SCHEMA}")
        try:
            plan = cls._from_json(value)
            written = plan.to_json()
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, UsageError, ValidationError) as error:
            raise InvalidPlan(f"a part is missing or malformed: {error}") from None
        if written != value:
            raise InvalidPlan("its digest does not match its content: it was edited or damaged")
        reached = {plan.current}
        for step in plan.steps:
            if step.base not in reached:
                raise InvalidPlan(f"the step to {step.new_version} does not start at the target of a step before")
            if step.target in reached:
                raise InvalidPlan(f"the step to {step.new_version} leads back to a digest from which the plan goes on")
            reached.add(step.target)
        return plan

    @classmethod
    def _from_json(cls, value: Mapping[str, Any]) -> Self:
        since = value["current"]["since"]
        return cls(
            artifact=Reference.parse_channel(value["artifact"]),
            current_version=Version.parse(value["current"]["version"]),
            current=Digest.parse(value["current"]["digest"]),
            steps=tuple(PlannedStep.from_json(step) for step in value["steps"]),
            passed_over=tuple(
                PassedOver(Version.parse(p["version"]), Decision(p["decision"]), convert(p["reasons"], _TEXTS))
                for p in value["passedOver"]
            ),
            since=None if since is None else datetime.fromisoformat(since).astimezone(UTC),
        )


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
