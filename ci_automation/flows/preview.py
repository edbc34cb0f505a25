"""Review of components files that a pull request changes: how each was made, what changes, and what can break."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.approval.content import AwaitedMerge, foretold
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.errors import Error, UsageError
from ci_automation.flows.observe import Observed, Placed, Trust, observe
from ci_automation.flows.planning.base import Contents, read_contents
from ci_automation.flows.planning.findings import findings, first_findings, unfit_there
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.rendering import Rendering, render_release
from ci_automation.flux.recover import EditedByHand, MadeByAnotherTool, prove_options, recover
from ci_automation.flux.text import inventory, unpin
from ci_automation.impact.change import Certainty, Hazard, some_of
from ci_automation.policy.content import Content, hazard_verdicts
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.gates import Situation, version_verdicts
from ci_automation.registry.port import NotFound
from ci_automation.report.findings import Findings
from ci_automation.report.preview import ArtifactReview, ComponentsOrigin, FileReview, RenderedBy, StepReview

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports, Prepared
    from ci_automation.flux.options import Options
    from ci_automation.flux.version import Version
    from ci_automation.policy.plan import PlannedStep

GATE = "components"
_EVERY = "**"
_ALONE = "The files beside it were not read: there are too many."


class FolderState(Struct, frozen=True):
    """A components file at one commit, and the files beside it by their path there; None is what was not read."""

    name: str
    content: bytes | None
    beside: tuple[tuple[str, bytes], ...] | None = None


class _Side(Struct, frozen=True):
    """A components file as it was read; without contents it is none that can be compared."""

    origin: ComponentsOrigin
    contents: Contents | None


class Reviewer(Struct, frozen=True):
    """Reviews files; each release is fetched and rendered once for each set of options."""

    ports: Ports
    intent: Intent
    _rendered: dict[tuple[Version, Options], Rendering | Error] = field(default_factory=dict)

    def review(self, before: FolderState | None, after: FolderState | None) -> FileReview:
        """Return what becomes of a components file and the files beside it; None: it is not there."""
        whole = all(state is None or state.beside is not None for state in (before, after))
        old, new = (self._side(state, whole=whole) if state else None for state in (before, after))
        origins = old.origin if old else None, new.origin if new else None
        try:
            found = self._findings(old, new)
        except Error as error:
            found = _unchecked(str(error))
        return FileReview(*origins, found, () if whole else (_ALONE,))

    def _side(self, state: FolderState, *, whole: bool) -> _Side:
        if state.content is None:
            return _Side(ComponentsOrigin(RenderedBy.NOT_PROVEN, detail="it is too large to be read"), None)
        try:
            text = state.content.decode()
            plain, pins = unpin(text)
            recovered = recover(plain, state.name)
            overlay = tuple(TreeFile(*file) for file in (state.beside or () if whole else ()))
            tree = Tree((*overlay, TreeFile(state.name, state.content)))
        except (UnicodeDecodeError, UsageError) as error:
            reason = "it is not text" if isinstance(error, UnicodeDecodeError) else str(error)
            return _Side(ComponentsOrigin(RenderedBy.NOT_PROVEN, detail=reason), None)
        contents = Contents(tree, state.name, text, plain, recovered, bool(pins))
        return _Side(self._origin(contents, len(pins)), contents)

    def _origin(self, contents: Contents, pins: int) -> ComponentsOrigin:
        """Return how a file was made, by rendering its own release again."""
        recovered = contents.recovered
        known = ComponentsOrigin(RenderedBy.NOT_PROVEN, recovered.version, recovered.options, pins)
        rendered = self._rendering(recovered.version, recovered.options)
        if isinstance(rendered, Error):
            return replace(known, detail=str(rendered))
        try:
            prove_options(contents.plain, recovered, rendered.text)
        except EditedByHand as edited:
            return replace(known, by=RenderedBy.EDITED, edits=edited.diff)
        except MadeByAnotherTool as other:
            return replace(known, by=RenderedBy.ANOTHER_TOOL, detail=str(other))
        return replace(known, detail=rendered.doubt) if rendered.doubt else replace(known, by=RenderedBy.FLUX)

    def _rendering(self, version: Version, options: Options) -> Rendering | Error:
        key = (version, options)
        if key not in self._rendered:
            try:
                self._rendered[key] = render_release(version, options, self.ports)
            except Error as error:
                self._rendered[key] = error
        return self._rendered[key]

    def _findings(self, old: _Side | None, new: _Side | None) -> Findings:
        if new is None:
            return _removed(old)
        if new.contents is None or (old and old.contents is None):
            return _unchecked("a file that cannot be read has nothing to compare")
        after = new.contents
        if old is None or old.contents is None:
            found = first_findings(after, self.ports, self.intent)
            verdicts: tuple[Verdict, ...] = ()
        else:
            found = findings(old.contents, after, self.ports, self.intent)
            situation = Situation(old.contents.version, self.intent.policy, self.intent.now)
            verdicts = version_verdicts(after.version, situation)
        # Nothing is published here, so no flag would allow it.
        told = (replace(it, reason=it.reason.partition("; --")[0]) for it in found.gates)
        gates = (*verdicts, *told, _provenance(old.origin if old else None, new.origin))
        return replace(found, gates=gates)


def _provenance(old: ComponentsOrigin | None, new: ComponentsOrigin) -> Verdict:
    """Return what is to be said of how a file was made; edits, also lost ones, are a person's to judge."""
    if new.by is RenderedBy.FLUX:
        if old and old.by is RenderedBy.EDITED:
            return Verdict(GATE, Decision.APPROVAL, "the request drops the hand edits that the file has", "both files")
        return Verdict(GATE, Decision.AUTO, "Flux renders the same file", "the file and its release")
    edited = new.by is RenderedBy.EDITED
    reason = "the file was edited by hand" if edited else f"the file was written by {new.by}: {new.detail}"
    return Verdict(GATE, Decision.APPROVAL, reason, "the file and its release")


def _removed(old: _Side | None) -> Findings:
    names = sorted(inventory(old.contents.components)) if old and old.contents else []
    words = f": {some_of(names)}" if names else ""
    sentence = f"the file is removed: a cluster that prunes deletes what is in it{words}"
    hazard = Hazard(GATE, Certainty.POSSIBLE, "the file is removed", sentence)
    verdict = Verdict(GATE, Decision.APPROVAL, sentence, str(Certainty.POSSIBLE))
    return Findings(hazards=(hazard,), pruned=tuple(name.replace("/", " ", 1) for name in names), gates=(verdict,))


def _unchecked(reason: str) -> Findings:
    sentence = f"the files were not compared: {reason}"
    hazard = Hazard(GATE, Certainty.UNCHECKED, reason, sentence)
    return Findings(hazards=(hazard,), gates=(Verdict(GATE, Decision.APPROVAL, sentence, str(Certainty.UNCHECKED)),))


def review_artifact(
    name: str, channel: Reference, sides: tuple[Prepared, Prepared], merge: AwaitedMerge
) -> ArtifactReview:
    """Return what the next run would do to an artifact after a request, and which of that it would do without it."""
    before, after = sides
    try:
        planned = make_plan(channel, after.ports, after.intent)
    except Error as error:
        return ArtifactReview(name, trouble=str(error))
    remarks = [f"nothing was verified: {after.ports.why_nobody}"] if planned.observed.trust == "not checked" else []
    present: tuple[PlannedStep, ...] = ()
    try:
        present = make_plan(channel, before.ports, before.intent).plan.steps
    except Error as error:
        remarks.append(f"what the next run would do without the request is not known: {error}")
    known = {_effect(it) for it in present}
    steps = tuple(StepReview(it, _effect(it) in known) for it in planned.plan.steps)
    placed = planned.observed
    record = placed.record if isinstance(placed, Placed) and placed.trust is Trust.VERIFIED else None
    had = record.content if record and not record.recovered else None
    waiting = any(it.kind == "content" for it in present)
    means = (
        foretold(merge, had, it.step.gates, waiting=waiting)
        for it in steps
        if it.step.kind == "content" and not it.known
    )
    review = ArtifactReview(name, steps, tuple(remarks), merge=next(means, ""))
    if not steps and before.intent.kustomization != after.intent.kustomization:
        return _fitted(review, placed, before.intent, after)
    return review


def review_promoted(name: str, channel: Reference, sides: tuple[Prepared, Prepared]) -> ArtifactReview:
    """Return what does not fit of the patches and images that a request gives the clusters of a promoted channel."""
    before, after = sides
    try:
        return _fitted(ArtifactReview(name), observe(channel, after.ports), before.intent, after)
    except NotFound:
        return ArtifactReview(name, remarks=("it has nothing yet: its first digest is shown with them",))
    except Error as error:
        return ArtifactReview(name, trouble=str(error))


def _fitted(review: ArtifactReview, observed: Observed, before: Intent, after: Prepared) -> ArtifactReview:
    """Return a review with what does not fit of the patches and images that clusters get beside the artifact.

    What does not without the request either is a remark.
    """
    ports, intent = after.ports, after.intent
    there = read_contents(observed, ports, intent)
    known, found = (unfit_there(there, ports, it) for it in (before, intent))
    new = tuple(it for it in found if it not in known)
    gates = hazard_verdicts(Content(hazards=new), Situation(there.version, intent.policy, intent.now))
    remarks = (*review.remarks, *(it.sentence for it in found if it in known))
    return replace(review, remarks=remarks, unfit=Findings(hazards=new, gates=gates))


def _effect(step: PlannedStep) -> tuple[object, ...]:
    """Return what a step does, also on another base: a minor that waits stays the same one on top of new content."""
    return step.old_version, step.new_version, step.decision, step.changes, step.hazards, step.pruned


def grouped(reviews: Iterable[tuple[str, FileReview]]) -> tuple[tuple[FileReview, tuple[str, ...]], ...]:
    """Return each review once, with all the files that it holds for."""
    found: dict[FileReview, list[str]] = {}
    for path, review in reviews:
        found.setdefault(review, []).append(path)
    return tuple((review, tuple(paths)) for review, paths in found.items())


def matching(patterns: Sequence[str], paths: Iterable[str]) -> list[str]:
    """Return the paths that a pattern matches, sorted: `*` is any part of a name, `**` any number of folders."""
    split = [[*_merged(pattern.removeprefix("./").split("/"))] for pattern in patterns]
    return sorted(path for path in paths if any(_matches(path.split("/"), parts) for parts in split))


def _merged(parts: Sequence[str]) -> Iterable[str]:
    """Yield the parts of a pattern, of several `**` in a row one."""
    return (part for number, part in enumerate(parts) if part != _EVERY or parts[number - 1 : number] != [_EVERY])


def _matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == _EVERY:
        return any(_matches(path[start:], pattern[1:]) for start in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])


def changed_between(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths whose blob differs between two commits, sorted."""
    return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))
