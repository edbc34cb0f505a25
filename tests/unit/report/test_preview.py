"""The page about a pull request: what can break first, nothing in it acts, and what is left out is said."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty, Change, ChangeKind, FileDiff, Hazard, ObjectId, Severity
from ci_automation.policy.decision import ACKNOWLEDGED, Decision, Verdict
from ci_automation.policy.plan import PlannedStep
from ci_automation.report.findings import Findings
from ci_automation.report.preview import (
    MAX_COMMENT,
    ArtifactReview,
    ComponentsOrigin,
    FailOn,
    FileReview,
    PreviewPage,
    RenderedBy,
    StepReview,
    fails,
    preview_markdown,
)
from tests.unit.report.test_quote import ACTS, HOSTILE, MARKDOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "clusters/production/flux-system/gotk-components.yaml"
OLD, NEW = Version.parse("v2.8.5"), Version.parse("v2.8.8")
BY_FLUX = ComponentsOrigin(RenderedBy.FLUX, OLD, Options())
EDITED = ComponentsOrigin(
    RenderedBy.EDITED, NEW, Options(log_level="debug", watch_all_namespaces=False), 2, edits="--- a\n+++ b\n+x"
)
UNKNOWN = ComponentsOrigin(RenderedBy.NOT_PROVEN, detail="it is not text")
DEPLOYMENT = ObjectId("apps", "Deployment", "flux-system", "source-controller")
OPENED = Change(ChangeKind.SECURITY_LOWERED, DEPLOYMENT, Severity.DANGER, "is restricted less", fingerprint="a" * 16)
IMAGE = Change(ChangeKind.IMAGE, DEPLOYMENT, Severity.INFO, "runs v2", fingerprint="b" * 16)
BREAKS = Hazard("crds", Certainty.CERTAIN, "x", "the new definition is refused", remedies=("Run `flux migrate`.",))
MAY = Hazard("crds", Certainty.POSSIBLE, "y", "objects may be stored in it")
PASSES = Verdict("kind", Decision.AUTO, "a patch release is published without approval")
ASKS = Verdict("kind", Decision.APPROVAL, "a minor release needs approval")
ASKS_TOO = Verdict("components", Decision.APPROVAL, "the file was edited by hand")
WAITS = Verdict("age", Decision.WAIT, "too young")
REFUSES = Verdict("direction", Decision.REFUSED, "older than the present one")
GRAVE = Findings((OPENED, IMAGE), (BREAKS, MAY), ("Deployment flux-system/x",), (PASSES, ASKS, ASKS_TOO))
EVERYTHING = FileReview(BY_FLUX, EDITED, GRAVE, ("The files beside it were not read.",))
HARMLESS = FileReview(BY_FLUX, replace(BY_FLUX, version=NEW), Findings((IMAGE,), gates=(PASSES,)))


def page(*reviews: tuple[FileReview, tuple[str, ...]], changed: tuple[str, ...] = (PATH,)) -> PreviewPage:
    return PreviewPage("1" * 40, "2" * 40, changed, reviews)


def acknowledged(fingerprint: str) -> Verdict:
    return Verdict(ACKNOWLEDGED, Decision.AUTO, "a person has", fingerprint, allowed=True)


@pytest.mark.parametrize(
    ("found", "limits"),
    [
        pytest.param(Findings(), "", id="nothing"),
        pytest.param(Findings((IMAGE,), gates=(PASSES,)), "", id="a patch"),
        pytest.param(Findings((IMAGE,), (MAY,), gates=(WAITS,)), "", id="what waits needs nobody"),
        pytest.param(Findings((), (BREAKS,)), "certain danger approval", id="it will break"),
        pytest.param(Findings((OPENED,), gates=(PASSES,)), "danger approval", id="it opens something"),
        pytest.param(Findings((IMAGE,), gates=(PASSES, ASKS)), "approval", id="the policy asks"),
        pytest.param(Findings((IMAGE,), gates=(REFUSES,)), "approval", id="the policy refuses"),
        pytest.param(Findings((OPENED,), gates=(acknowledged("a" * 16),)), "", id="an acknowledged change"),
        pytest.param(
            Findings((), (BREAKS,), gates=(acknowledged(BREAKS.fingerprint),)), "", id="an acknowledged hazard"
        ),
    ],
)
def test_what_a_preview_fails_on(found: Findings, limits: str) -> None:
    assert [
        str(limit) for limit in FailOn if fails(page((FileReview(BY_FLUX, BY_FLUX, found), (PATH,))), limit)
    ] == limits.split()


def test_it_names_both_commits_and_says_that_it_approves_nothing() -> None:
    text = preview_markdown(page((HARMLESS, (PATH,))), MAX_COMMENT)
    assert f"From `{'1' * 40}` to `{'2' * 40}`. A preview is advice: it approves nothing." in text


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (".github/workflows/preview.yaml", "workflows"),
        (".github/actions/x/action.yml", "workflows"),
        (".github/actions/x\ny/action.yml", "workflows"),
        ("tools/action.yaml", "workflows"),  # for `uses: ./tools`
        ("clusters\nx/.gitattributes", "attributes"),
        ("clusters/.gitattributes", "attributes"),
        (".gitattributes", "attributes"),
        ("docs/CODEOWNERS", "code owners"),
        (".github/CODEOWNERS", "code owners"),
        (".github/flux-manifests.yaml", "rules of flux-manifests"),
        (".github/flux-manifests.lock.yaml", "rules of flux-manifests"),
        ("clusters/workflows/x.yaml", ""),
    ],
)
def test_a_request_that_changes_what_decides_is_named_before_all_else(changed: str, words: str) -> None:
    text = preview_markdown(page((EVERYTHING, (PATH,)), changed=(PATH, changed)), MAX_COMMENT)
    told = f"**The request changes {words}: `{changed.replace(chr(10), ' ')}`.** Look at that first."
    assert (told in text) is bool(words)
    assert not words or text.index(told) < text.index("| file |")


def test_hazards_come_before_changes_and_changes_before_diffs() -> None:
    text = preview_markdown(page((HARMLESS, ("a.yaml",)), (EVERYTHING, (PATH, "b.yaml"))), MAX_COMMENT)
    order = [
        "| file | Flux | what can break | changes | the policy |",
        f"| `{PATH}`, `b.yaml` | v2.8.5 to v2.8.8 | 1 **certain**, 1 **possible** | 1 securityContext, 1 image | needs",
        "| `a.yaml` | v2.8.5 to v2.8.8 |  | 1 image | publishes it without approval |",
        f"### What can break in `{PATH}` and 1 more",
        "- The files beside it were not read.",
        "the new definition is refused",
        "What clusters delete (prune):",
        "The policy needs approval:",
        "- the file was edited by hand",
        f"### What changes in `{PATH}` and 1 more",
        "| options | Flux's own | `--log-level=debug --watch-all-namespaces=false` |",
        "| images | by tag | 2 pinned to digests |",
        "is restricted less",
        "### What changes in `a.yaml`",
        f"### Differences in `{PATH}` and 1 more",
        "<summary>Hand edits in the head</summary>",
    ]
    places = [text.find(each) for each in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("old", "new", "versions"),
    [
        (BY_FLUX, BY_FLUX, "v2.8.5"),
        (None, BY_FLUX, "v2.8.5, added"),
        (BY_FLUX, None, "v2.8.5, removed"),
        (BY_FLUX, UNKNOWN, "v2.8.5 to ?"),
    ],
)
def test_the_overview_says_what_becomes_of_the_version(
    old: ComponentsOrigin | None, new: ComponentsOrigin | None, versions: str
) -> None:
    text = preview_markdown(page((FileReview(old, new, Findings()), (PATH,))), MAX_COMMENT)
    assert f"| `{PATH}` | {versions} |" in text
    assert new is not UNKNOWN or "| options | Flux's own | ? |" in text


def test_a_request_that_changes_no_such_file_says_so() -> None:
    assert "The request changes nothing that was asked for." in preview_markdown(page(), MAX_COMMENT)


def test_remarks_come_first() -> None:
    text = preview_markdown(replace(page((HARMLESS, (PATH,))), remarks=("Only the first were reviewed.",)), MAX_COMMENT)
    assert text.index("- Only the first were reviewed.") < text.index("| file |")


DIGEST = Digest.of(b"")
PATCHED = PlannedStep(
    OLD,
    NEW,
    DIGEST,
    DIGEST,
    Decision.AUTO,
    (),
    Options(),
    DIGEST,
    DIGEST,
    Proof.KNOWN,
    changes=(IMAGE,),
    gates=(PASSES,),
)
CONTENT = replace(PATCHED, new_version=OLD, changes=(OPENED,), hazards=(BREAKS,), gates=(PASSES, ASKS))


@pytest.mark.parametrize(
    ("artifact", "line"),
    [
        pytest.param(ArtifactReview("a"), "the request changes nothing that the next run would do", id="nothing"),
        pytest.param(
            ArtifactReview("a", (StepReview(PATCHED, known=True),)),
            "the request changes nothing that the next run would do",
            id="nothing new",
        ),
        pytest.param(
            ArtifactReview("a", (StepReview(CONTENT), StepReview(PATCHED, known=True))),
            "the next run would have 1 step because of the request, and 1 with or without it",
            id="one more",
        ),
        pytest.param(
            ArtifactReview("a", (StepReview(CONTENT), StepReview(PATCHED))),
            "the next run would have 2 steps because of the request",
            id="two",
        ),
        pytest.param(ArtifactReview("a", trouble="it is *gone*"), r"unknown: it is \*gone\*", id="trouble"),
        pytest.param(
            ArtifactReview("a", remarks=("nothing was verified",)),
            "the request changes nothing that the next run would do\n  - nothing was verified",
            id="remarks",
        ),
        pytest.param(
            ArtifactReview("a", remarks=("nothing was verified",), unfit=Findings(hazards=(BREAKS,))),
            "the request changes nothing that the next run would do\n  - nothing was verified\n"
            "  - the new definition is refused",
            id="unfit",
        ),
    ],
)
def test_what_becomes_of_an_artifact_is_one_line(artifact: ArtifactReview, line: str) -> None:
    text = preview_markdown(replace(page(), artifacts=(artifact,)), MAX_COMMENT)
    assert f"- **a**: {line}\n" in text
    assert ("| artifact | Flux |" in text) is any(not it.known for it in artifact.steps)


def test_a_step_has_its_digests_its_hazards_and_its_diffs() -> None:
    steps = (StepReview(replace(CONTENT, diffs=(FileDiff("limits.yaml", "-1Gi\n+2Gi"),))), StepReview(PATCHED))
    text = preview_markdown(replace(page(), artifacts=(ArtifactReview("production", steps),)), MAX_COMMENT)
    order = [
        "| production (same version) | v2.8.5, same version",
        "| production (v2.8.5 to v2.8.8) | v2.8.5 to v2.8.8 (patch",
        "### What can break in production (same version)",
        f"| from | `{DIGEST}` |",
        "is restricted less",
        "### What changes in production (v2.8.5 to v2.8.8)",
        "### Differences in production (same version)",
        "`limits.yaml`",
        "-1Gi\n+2Gi",
    ]
    places = [text.find(each) for each in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("artifact", "limits"),
    [
        (ArtifactReview("a", (StepReview(CONTENT, known=True),)), ""),
        (ArtifactReview("a", (StepReview(CONTENT),)), "certain danger approval"),
        (ArtifactReview("a", (StepReview(PATCHED),)), ""),
        (ArtifactReview("a", trouble="it is gone"), "approval"),
        (ArtifactReview("a", unfit=Findings(hazards=(BREAKS,))), "certain danger approval"),
    ],
)
def test_a_preview_fails_on_what_the_request_would_do(artifact: ArtifactReview, limits: str) -> None:
    made = replace(page(), artifacts=(artifact,))
    assert [str(limit) for limit in FailOn if fails(made, limit)] == limits.split()


def many(number: int) -> FileReview:
    hazards = tuple(replace(BREAKS, subject=str(each), sentence="x" * 290) for each in range(number))
    changes = tuple(replace(OPENED, path=str(each), sentence="y" * 290) for each in range(number))
    gates = tuple(replace(ASKS, gate=f"gate {each}", reason="z" * 290) for each in range(number))
    edits = "\n".join(f"+{'e' * 200}" for _ in range(number))
    return FileReview(BY_FLUX, replace(EDITED, edits=edits), Findings(changes, hazards, gates=gates))


@pytest.mark.often
@pytest.mark.parametrize("number", [1, 30, 100, 300])
def test_lists_get_shorter_until_the_page_fits(number: int) -> None:
    text = preview_markdown(page((many(number), (PATH,))), MAX_COMMENT)
    assert len(text.encode()) <= MAX_COMMENT
    assert "The rest is missing here" not in text
    assert "What can break in" in text
    assert number < 60 or "more hazards" in text


@pytest.mark.often
def test_a_page_that_cannot_fit_says_what_it_lacks_and_keeps_the_overview_and_the_hazards_of_the_gravest() -> None:
    reviews = [(many(20), (f"clusters/{number:03}/{'f' * 150}.yaml",)) for number in range(60)]
    text = preview_markdown(page(*reviews, (HARMLESS, ("last.yaml",))), MAX_COMMENT)
    assert len(text.encode()) <= MAX_COMMENT
    assert text.endswith("Compare the files yourself with `flux-manifests diff`._\n")
    assert all(f"`clusters/{number:03}/" in text for number in range(60))
    assert "`last.yaml`" in text
    assert "### What can break in `clusters/000/" in text


def test_many_paths_are_counted() -> None:
    text = preview_markdown(page((HARMLESS, tuple(f"{number}.yaml" for number in range(12)))), MAX_COMMENT)
    assert "`9.yaml` and 2 more |" in text


def acting(markdown: str) -> Iterator[str]:
    """Yield what GitHub would act on in a page: text outside of code, and HTML that is not ours."""
    for token in MARKDOWN.parse(markdown):
        if token.type == "html_block":
            yield from re.findall(r"<(?!/?details>|/?summary>)[^>]*>?", token.content)
        in_code = False
        for part in token.children or ():
            in_code = {"<code>": True, "</code>": False}.get(part.content, in_code)
            if part.type == "html_inline" and part.content not in {"<br>", "<code>", "</code>"}:
                yield part.content
            elif part.type == "text" and not in_code:
                yield from ACTS.findall(part.content)
            elif part.type in {"image", "link_open"}:
                yield part.type


@given(HOSTILE)
def test_nothing_acts_whatever_a_request_has_in_it(text: str) -> None:
    change, gate = replace(OPENED, sentence=text, path=text), replace(ASKS, reason=text)
    found = replace(EVERYTHING.found, changes=(change,), gates=(gate,))
    origin = replace(EDITED, detail=text, edits=f"--- a\n+++ b\n+{text}")
    review = FileReview(origin, origin, found, (text,))
    diffs = (FileDiff(text, text), FileDiff(text, text, rendered=True))
    step = StepReview(replace(CONTENT, changes=(change,), gates=(gate,), diffs=diffs))
    artifacts = (ArtifactReview(text, (step,), (text,)), ArtifactReview(text, trouble=text))
    made = PreviewPage("1" * 40, "2" * 40, (f".github/workflows/{text}",), ((review, (text,)),), artifacts, (text,))
    assert [*acting(preview_markdown(made, MAX_COMMENT))] == []


def test_the_oracle_sees_what_acts() -> None:
    assert len([*acting("@octocat #1 ![x](https://e.example) [x](https://e.example) <img src=x>\n\n<script>\n")]) >= 5
