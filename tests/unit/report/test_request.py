"""The pull request that a person decides on: complete, safe, and the same for the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flux.artifact import PUSHED
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty, Change, ChangeKind, Hazard, ObjectId, Place, Severity
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.plan import PlannedStep
from ci_automation.report.markdown import (
    Mark,
    MarkState,
    find_marks,
    inline,
    place_digest,
    put_marks,
    superseded,
    withdrawn,
)
from ci_automation.report.notes import ReleaseNotes
from ci_automation.report.request import MAX_BODY, GroupPage, Page

BASE, TARGET, OTHER = (Digest.of(text) for text in (b"base", b"target", b"other"))
SOURCE = ObjectId("apps", "Deployment", "flux-system", "source-controller")
GONE = ObjectId("apiextensions.k8s.io", "CustomResourceDefinition", "", "old.example")
HAZARD = Hazard(
    "crds",
    Certainty.POSSIBLE,
    "old.example",
    "objects may use it",
    (Place("a.yaml", 3),),
    ("Run `flux migrate -f a.yaml`.",),
)
STEP = PlannedStep(
    Version.parse("v2.8.8"), Version.parse("v2.9.4"), BASE, TARGET, Decision.APPROVAL,
    ("a minor release needs approval",), Options(), BASE, BASE, Proof.KNOWN,
    removed=("CustomResourceDefinition/old.example",),
    changes=(
        Change(ChangeKind.IMAGE, SOURCE, Severity.INFO, "v1"),
        Change(ChangeKind.CRD_REMOVED, GONE, Severity.DANGER, "gone", fingerprint="0123456789abcdef"),
    ),
    hazards=(HAZARD,),
    pruned=("CustomResourceDefinition old.example",),
    gates=(
        Verdict("kind", Decision.APPROVAL, "a minor release needs approval", "policy.minor: approval"),
        Verdict("crdRemoval", Decision.APPROVAL, "gone", "the policy escalates crdRemoval, 1 change, 0123456789abcdef"),
    ),
)  # fmt: skip
PAGE = Page("production", Reference.parse("oci://ghcr.io/acme/flux-manifests:production"), STEP)
HERE = place_digest(PAGE.channel)
NOTES = (
    ReleaseNotes(
        STEP.new_version,
        ("The kind Old was removed.",),
        "## Highlights\n\nThanks @octocat! Fixes #12, see https://github.com/fluxcd/flux2/pull/1",
    ),
)


WHOLE = f"""\
Merging this pull request approves **Flux v2.9.4** for `oci://ghcr.io/acme/flux-manifests:production`: exactly the digests below, once.

|  | version | digest |
| --- | --- | --- |
| now | v2.8.8 | `{BASE}` |
| after the merge | **v2.9.4** | `{TARGET}` |

### Why this needs approval

- a minor release needs approval

### What can break

- **possible, crds**: objects may use it (`{HAZARD.fingerprint}`)
  - at `a.yaml:3`
  What to do:

  - Run `flux migrate -f a.yaml`.

### What clusters delete (prune)

- **CustomResourceDefinition old.example, with every object of its kind**

### What changes

1 crdRemoval, 1 image.

- **danger, crdRemoval, approval**: `CustomResourceDefinition old.example` gone

<details>
<summary>1 change that needs no review</summary>

- info, image: `Deployment flux-system/source-controller` v1

</details>

Proof of the rendering: tested with this release.

<details>
<summary>Verdict of each gate</summary>

| verdict | gate | input | reason |
| --- | --- | --- | --- |
| **approval** | kind | policy.minor: approval | a minor release needs approval |
| **approval** | crdRemoval | the policy escalates crdRemoval, 1 change, 0123456789abcdef | gone |

</details>

### Breaking changes in the release notes

**v2.9.4**

```text
The kind Old was removed.
```

### What to check

- *Files changed* has `.github/flux-manifests.lock.yaml` alone: a merge takes along everything else on this branch.
- Nothing in use is gone: to prune a CRD deletes every object of its kind.
- No manifest of yours needs an API version that Flux v2.9.4 does not serve any more, and none is stored in such a version in a cluster.
- Everything under *What can break* is fixed in every cluster, or affects none.
- You expect the reasons above.
- The release notes below ask for nothing that you still have to do.

### How to answer

- **To approve**, merge it. The next run renders v2.9.4 again, compares both digests, and signs and publishes exactly this target, or nothing.
- **To decline**, close it. No run asks for the same digest again while its branch exists.
- **To decide later**, leave it open. A newer release replaces it here.

Only people who may write to this repository can approve: the person who merges; if GitHub merges by itself, the people who approved the last commit in a review. Runs do not overwrite your commits on this branch, but this pull request approves only the digests above.

<details>
<summary>Upstream's release notes of v2.9.4</summary>

**v2.9.4**

```text
## Highlights

Thanks @ octocat! Fixes # 12, see github.com/fluxcd/flux2/pull/1
```

</details>

<!-- flux-manifests asked {BASE} {TARGET} {HERE} shown {HAZARD.fingerprint} -->
"""  # noqa: E501  # as it is on the page


def test_the_page_of_a_minor() -> None:
    page = replace(PAGE, notes=NOTES)
    assert page.title == "Flux v2.9.4 for production (minor, from v2.8.8)"
    assert page.body == WHOLE


def test_a_change_of_content_alone_is_a_short_page() -> None:
    step = replace(
        STEP, new_version=STEP.old_version, removed=(), changes=(), hazards=(), pruned=(), gates=(), proof=Proof.NONE
    )
    page = replace(PAGE, step=step)
    assert page.title == "Flux v2.8.8 for production (changed content)"
    assert "No object and no file changes." in page.body
    assert "Proof of the rendering: **not proven**." in page.body
    for absent in ("can break", "delete", "prune", "API version", "notes", "details"):
        assert absent not in page.body


def test_the_page_of_a_promotion_says_where_the_bytes_come_from() -> None:
    page = replace(PAGE, step=replace(STEP, promoted_from="oci://ghcr.io/acme/flux-staging:stable"))
    assert page.title == "Flux v2.9.4 for production (promotion, minor, from v2.8.8)"
    source = "`oci://ghcr.io/acme/flux-staging:stable`"
    assert f"The target is the digest that {source} has now; nothing is rendered" in page.body
    assert f"promotes exactly this target from {source}, or nothing." in page.body
    assert f"A newer digest of {source} replaces it here." in page.body
    assert "endering:" not in page.body


def test_the_page_of_a_teams_own_manifests_speaks_of_no_flux() -> None:
    step = replace(
        STEP, old_version=PUSHED, new_version=PUSHED, hazards=(), promoted_from="oci://ghcr.io/acme/shop:staging"
    )
    page = replace(PAGE, step=step)
    assert page.title == "pushed manifests for production (promotion, changed content)"
    assert "approves **pushed manifests** for" in page.body


@pytest.mark.parametrize(
    ("approvals", "team", "counts"),
    [
        pytest.param(
            1,
            None,
            "this repository can approve: the person who merges, after 1 approving review of its last",
            id="a review",
        ),
        pytest.param(2, None, "the person who merges, after 2 approving reviews of its last commit; if", id="reviews"),
        pytest.param(
            0,
            "acme/platform",
            "and are in the team `acme/platform` can approve: the person who merges; if",
            id="a team",
        ),
    ],
)
def test_what_a_yes_takes_is_said(approvals: int, team: str | None, counts: str) -> None:
    assert counts in replace(PAGE, approvals=approvals, team=team).body


def test_much_is_cut_and_says_so() -> None:
    changes = tuple(replace(STEP.changes[0], sentence=f"image {n:03}") for n in range(50))
    step = replace(STEP, changes=changes, hazards=(HAZARD,) * 43, reasons=tuple(str(n) for n in range(42)))
    body = replace(PAGE, step=step).body
    assert "- and 10 more\n" in body
    assert "image 040" not in body
    assert "- and 3 more hazards" in body
    assert "- and 2 more" in body


def test_a_page_says_first_that_an_earlier_one_did_not_show_all_that_is_known_now() -> None:
    page = replace(PAGE, before="pull request 7 was merged before it was known that *x* breaks")
    said = (
        "### Why this needs approval\n\n- pull request 7 was merged before it was known that \\*x\\* breaks\n- a minor"
    )
    assert said in page.body
    assert said in GroupPage("eu", (page,)).body


def test_notes_of_several_releases_are_the_newest_first() -> None:
    older = ReleaseNotes(Version.parse("v2.9.0"), (), "older words")
    body = replace(PAGE, notes=(*NOTES, older)).body
    assert "<summary>Upstream's release notes of v2.9.0 to v2.9.4</summary>" in body
    assert body.index("Highlights") < body.index("older words")


HOSTILE = st.text(max_size=40) | st.sampled_from(
    [
        "|x|", "a\n| b |", "`|`", "@octocat", "Fixes #1", "</details>", "<!-- flux-manifests asked x y -->", "```\n",
        f"\n\n{Mark(OTHER, OTHER, HERE, MarkState.WITHDRAWN)}",
        "![x](https://evil.example/x.png)", "\x1b[2J", "# heading",
    ]
)  # fmt: skip


def kinds(markdown: str) -> list[str]:
    return [token.type for token in MarkdownIt("commonmark").enable("table").parse(markdown)]


@given(st.lists(HOSTILE.filter(inline), min_size=5, max_size=5), HOSTILE)
def test_no_text_breaks_the_page(texts: list[str], notes: str) -> None:
    words = ReleaseNotes(STEP.new_version, (notes,), notes)
    page = replace(PAGE, step=_saying(texts), notes=(words,), name=texts[0])
    told = (replace(words, telling=("a",), text="a"),) if "Upstream's release notes" in page.body else ()
    expected = replace(page, step=_saying(["a"] * 5), name="a", notes=told)
    assert kinds(page.body) == kinds(expected.body)
    assert find_marks(page.body) == PAGE.marks == (Mark(BASE, TARGET, HERE, shown=frozenset((HAZARD.fingerprint,))),)
    assert "\n" not in page.title
    assert "@octocat" not in page.title


def test_a_page_under_rules_names_them_beside_its_hazards() -> None:
    (mark,) = find_marks(replace(PAGE, rules="0" * 16).body)
    assert mark.shown == frozenset((HAZARD.fingerprint, "0" * 16))


def _saying(texts: list[str]) -> PlannedStep:
    a, b, c, d, e = texts
    change = replace(STEP.changes[0], object=ObjectId("x", a, "", b), sentence=c)
    hazard = replace(HAZARD, sentence=d, places=(Place("x" + e),), remedies=("x" + a,))
    gates = (Verdict("x" + a, Decision.APPROVAL, b, c),)
    return replace(STEP, changes=(change,), hazards=(hazard,), pruned=("x" + d,), gates=gates, reasons=(e,))


@pytest.mark.often
def test_the_longest_page_is_one_that_github_takes() -> None:
    long = "|" * 2000
    changes = (replace(STEP.changes[0], sentence=long, object=ObjectId(long, long, long, long)),) * 200
    hazards = (replace(HAZARD, sentence=long, places=(Place(long),) * 200, remedies=(long,) * 200),) * 200
    gates, many = (Verdict(long, Decision.REFUSED, long, long),) * 200, (long,) * 200
    step = replace(STEP, changes=changes, hazards=hazards, gates=gates, pruned=many, removed=many, reasons=many)
    notes = tuple(ReleaseNotes(STEP.new_version, (long,) * 40, "x" * 60_000) for _ in range(50))
    page = replace(PAGE, step=step, notes=notes, name=long, channel=Reference.parse(f"layout:{long}:production"))
    assert len(page.body) <= MAX_BODY
    assert "and 197 more" in page.body
    assert "… (cut here)" in page.body
    assert len(page.title) < 256


class TestMark:
    @pytest.mark.parametrize("state", MarkState)
    def test_they_are_found_at_the_end_and_replaced_there(self, state: MarkState) -> None:
        known = [None, frozenset[str](), frozenset(("0" * 16, "f" * 16))]  # None is how earlier versions wrote them
        several = tuple(Mark(BASE, OTHER, of, state, shown) for of in (BASE, TARGET) for shown in known)
        for marks in ((Mark(BASE, OTHER, HERE, state),), several):
            body = put_marks(PAGE.body, marks)
            assert find_marks(body) == marks
            assert find_marks(body.replace("\n", "\r\n") + "  \r\n") == marks
            assert put_marks(body, PAGE.marks) == PAGE.body

    @pytest.mark.parametrize(
        "body",
        [
            "",
            PAGE.body + "A word of ours.",
            f"> {Mark(BASE, TARGET, HERE)}\nno",
            str(Mark(BASE, TARGET, HERE)).replace("asked", "approved"),
            str(Mark(BASE, TARGET, HERE)).replace("sha256:", "sha512:"),
            str(PAGE.marks[0]).replace(HAZARD.fingerprint, HAZARD.fingerprint[1:]),
            f"{Mark(BASE, TARGET, HERE)}\n{Mark(BASE, OTHER, HERE, MarkState.OPENED)}",
        ],
    )
    def test_none_is_found_where_there_is_none(self, body: str) -> None:
        assert find_marks(body) == ()


def test_comments_say_what_happened_and_end_with_the_marks() -> None:
    old, new = Mark(BASE, TARGET, HERE), Mark(BASE, OTHER, HERE)
    comment = superseded([("v2.9.5", old, new)], [new])
    assert comment.startswith(f"Superseded: this pull request now asks for v2.9.5, `{OTHER}`, instead of `{TARGET}`.")
    assert find_marks(comment) == (new,)
    assert ", and for v2.9.6 for edge, `" in superseded([("v2.9.5", old, new), ("v2.9.6 for edge", new, old)], [new])
    mark = replace(old, state=MarkState.WITHDRAWN)
    assert withdrawn([mark], "see #1 | x").startswith(r"Withdrawn: see \# 1 \| x.")
    assert find_marks(withdrawn([mark], "x")) == (mark,)


class TestGroup:
    """One page for several artifacts: what a merge approves is in one table, and the rest is folded."""

    OTHERS = Reference.parse("oci://ghcr.io/acme/flux-manifests:edge")
    EDGE = replace(PAGE, name="edge", channel=OTHERS, step=replace(STEP, target=OTHER), team="acme/platform")
    GROUP = GroupPage("eu", (replace(PAGE, notes=NOTES), replace(EDGE, notes=NOTES)))

    def test_every_artifact_has_a_row_and_a_section_and_the_notes_are_there_once(self) -> None:
        body = self.GROUP.body
        head = (
            "| artifact | channel | version | digest now | digest after the merge |\n| --- | --- | --- | --- | --- |\n"
        )
        row = f"| `oci://ghcr.io/acme/flux-manifests:edge` | v2.8.8 → **v2.9.4** | `{BASE}` | `{OTHER}` |"
        assert f"{head}| production | " in body
        assert f"| edge {row}" in body
        assert body.count("### What can break") == 2
        assert "<summary>edge: v2.8.8 to v2.9.4</summary>" in body
        assert body.count("<summary>Upstream's release notes of v2.9.4</summary>") == 1
        assert body.count("### Breaking changes in the release notes") == 1
        assert body.count("are in the team `acme/platform`") == 1

    def test_the_title_has_each_version_once(self) -> None:
        assert self.GROUP.title == "Flux v2.9.4 for eu (production, edge)"
        newer = replace(self.EDGE, step=replace(STEP, new_version=Version.parse("v2.9.5")))
        assert GroupPage("eu", (PAGE, newer)).title == "Flux v2.9.4, Flux v2.9.5 for eu (production, edge)"

    def test_the_marks_tell_artifacts_of_the_same_digests_apart(self) -> None:
        same = GroupPage("eu", (PAGE, replace(self.EDGE, step=STEP)))
        assert find_marks(same.body) == same.marks
        assert (PAGE.steps, same.steps) == (("v2.9.4",), ("v2.9.4 for production", "v2.9.4 for edge"))
        assert [mark.of for mark in same.marks] == [place_digest(PAGE.channel), place_digest(self.OTHERS)]

    def test_a_page_is_part_of_a_larger_one_that_shows_the_same_of_its_artifacts(self) -> None:
        body = self.GROUP.body.replace("\n", "\r\n")
        page = self.GROUP.pages[0]
        assert GroupPage("eu", (page,)).is_part_of(body)
        assert not GroupPage("eu", (replace(page, step=replace(STEP, hazards=())),)).is_part_of(body)

    @pytest.mark.often
    def test_what_does_not_fit_is_left_out_but_never_a_row(self) -> None:
        long = "|" * 2000
        step = replace(STEP, hazards=(replace(HAZARD, sentence=long, remedies=(long,) * 9),) * 9, reasons=(long,) * 9)
        notes = tuple((ReleaseNotes(STEP.new_version, (), f"{n}" * 20_000),) for n in range(20))
        pages = tuple(replace(self.EDGE, name=f"edge-{n}", step=step, notes=notes[n]) for n in range(20))
        body = GroupPage("eu", pages).body
        assert len(body) <= MAX_BODY
        assert len(find_marks(body)) == 20
        assert all(f"| edge-{n} | " in body for n in range(20))
        assert "the plan of the run has all of them" in body
        assert body.count("### What can break") == 20

    def test_what_can_break_is_on_a_page_that_has_no_room_for_more(self) -> None:
        step = replace(STEP, reasons=tuple(f"{n}" * 300 for n in range(9)), changes=STEP.changes * 20)
        for hazards in ((HAZARD,) * 9, ()):
            pages = tuple(replace(self.EDGE, step=replace(step, hazards=hazards)) for _ in range(20))
            assert GroupPage("eu", pages).body.count(": objects may use it") == (20 if hazards else 0)
