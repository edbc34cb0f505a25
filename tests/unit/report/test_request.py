"""The pull request that a person decides on: complete, safe, and the same for the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ci_automation.artifact.digest import Digest
from ci_automation.artifact.reference import Reference
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.policy.decision import Decision
from ci_automation.policy.plan import ImageChange, PlannedStep
from ci_automation.report.quote import inline
from ci_automation.report.request import MAX_BODY, Mark, MarkState, Page, superseded, withdrawn

BASE, TARGET, OTHER = (Digest.of(text) for text in (b"base", b"target", b"other"))
FLUXCD = "ghcr.io/fluxcd"
STEP = PlannedStep(
    Version.parse("v2.8.8"), Version.parse("v2.9.4"), BASE, TARGET, Decision.APPROVAL,
    ("a minor release needs approval",), Options(), BASE, BASE, Proof.KNOWN,
    (
        ImageChange("source-controller", f"{FLUXCD}/source-controller:v1.8.0", f"{FLUXCD}/source-controller:v1.9.4"),
        ImageChange("source-watcher", "", f"{FLUXCD}/source-watcher:v2.0.0"),
    ),
    ("Deployment/source-watcher",), ("CustomResourceDefinition/old.example",),
)  # fmt: skip
PAGE = Page("production", Reference.parse("oci://ghcr.io/acme/flux-manifests:production"), STEP)
NOTES = "## Highlights\n\nThanks @octocat! Fixes #12, see https://github.com/fluxcd/flux2/pull/1\n"


WHOLE = f"""\
To merge this approves **Flux v2.9.4** for `oci://ghcr.io/acme/flux-manifests:production`: exactly the digests below, and once.

|  | version | digest |
| --- | --- | --- |
| now | v2.8.8 | `{BASE}` |
| after the merge | **v2.9.4** | `{TARGET}` |

### Why a person is asked

- a minor release needs approval

### What changes

| controller | image now | image after |
| --- | --- | --- |
| source-controller | `ghcr.io/fluxcd/source-controller:v1.8.0` | `ghcr.io/fluxcd/source-controller:v1.9.4` |
| source-watcher | none | `ghcr.io/fluxcd/source-watcher:v2.0.0` |

New: Deployment/source-watcher.

Gone: CustomResourceDefinition/old.example.

Why the rendering is believed to be Flux's own: this version of the program was tested on this very release.

### What to check

- Nothing in use is gone: to prune a CRD deletes every object of its kind.
- No manifest of yours needs an API version that Flux v2.9.4 does not serve any more, and none is stored in such a version in a cluster.
- The reasons above are what you expect.
- The release notes below ask for nothing that is still to be done.

### How to answer

- **Yes**: merge it. The next run renders v2.9.4 again, compares both digests, and publishes, signed, exactly what is asked for here, or nothing.
- **No**: close it. The same is not asked for again as long as its branch is there.
- **Later**: leave it open. A newer release takes its place here by itself.

A yes counts from people who may write to this repository: from who merges; where GitHub merges by itself, from who approved the last commit in a review. Commits of yours on this branch are not overwritten; but nothing else than the digests above can be approved here.

<details>
<summary>Release notes of v2.9.4, as upstream wrote them</summary>

```text
## Highlights

Thanks @ octocat! Fixes # 12, see github.com/fluxcd/flux2/pull/1
```

</details>

<!-- flux-manifests asked {BASE} {TARGET} -->
"""  # noqa: E501  # as it is on the page


def test_the_page_of_a_minor() -> None:
    page = replace(PAGE, notes=NOTES)
    assert page.title == "Flux v2.9.4 for production (minor, from v2.8.8)"
    assert page.body == WHOLE


def test_a_change_of_content_alone_is_a_short_page() -> None:
    step = replace(STEP, new_version=STEP.old_version, images=(), added=(), removed=(), proof=Proof.NONE)
    page = replace(PAGE, step=step)
    assert page.title == "Flux v2.8.8 for production (changed content)"
    assert "No image changes." in page.body
    assert "is believed to be Flux's own: **nothing**" in page.body
    for absent in ("New:", "Gone:", "prune", "API version", "notes", "details"):
        assert absent not in page.body


@pytest.mark.parametrize(
    ("approvals", "team", "counts"),
    [
        pytest.param(1, None, "this repository: from who merges, after 1 approving review of its last", id="a review"),
        pytest.param(2, None, "from who merges, after 2 approving reviews of its last commit; where", id="reviews"),
        pytest.param(0, "acme/platform", "and are in the team `acme/platform`: from who merges; where", id="a team"),
    ],
)
def test_what_a_yes_takes_is_said(approvals: int, team: str | None, counts: str) -> None:
    assert counts in replace(PAGE, approvals=approvals, team=team).body


def test_much_is_cut_and_says_so() -> None:
    images = tuple(ImageChange(f"controller-{n:03}", "a", "b") for n in range(40))
    names = tuple(f"Kind/{n}" for n in range(33))
    step = replace(STEP, images=images, added=names, removed=names, reasons=tuple("abcdefghijklmnopqrstuvwxyz123456"))
    body = replace(PAGE, step=step).body
    assert "And 10 images more." in body
    assert "controller-030" not in body
    assert body.count("and 3 more.") == 2
    assert "- and 2 more" in body


HOSTILE = st.text(max_size=40) | st.sampled_from(
    [
        "|x|", "a\n| b |", "`|`", "@octocat", "Fixes #1", "</details>", "<!-- flux-manifests asked x y -->", "```\n",
        f"\n\n{Mark(OTHER, OTHER, MarkState.WITHDRAWN)}", "![x](https://evil.example/x.png)", "\x1b[2J", "# heading",
    ]
)  # fmt: skip


def kinds(markdown: str) -> list[str]:
    return [token.type for token in MarkdownIt("commonmark").enable("table").parse(markdown)]


@given(st.lists(HOSTILE.filter(inline), min_size=5, max_size=5), HOSTILE)
def test_no_text_breaks_the_page(texts: list[str], notes: str) -> None:
    step = replace(
        STEP, images=(ImageChange(texts[0], texts[1], texts[2]),), added=(texts[3],), removed=(), reasons=(texts[4],)
    )
    page = replace(PAGE, step=step, notes=notes, name=texts[0])
    tame = replace(step, images=STEP.images[:1], added=("a",), reasons=("a",))
    expected = replace(page, step=tame, name="a", notes="a" if "<details>" in page.body else "")
    assert kinds(page.body) == kinds(expected.body)
    assert Mark.find(page.body) == Mark(BASE, TARGET)
    assert "\n" not in page.title
    assert "@octocat" not in page.title


def test_the_longest_page_is_one_that_github_takes() -> None:
    long = "|" * 2000
    images, many = (ImageChange(long, long, long),) * 200, (long,) * 200
    step = replace(STEP, images=images, added=many, removed=many, reasons=many)
    page = replace(
        PAGE, step=step, notes="x" * 1_000_000, name=long, channel=Reference.parse(f"layout:{long}:production")
    )
    assert len(page.body) <= MAX_BODY
    assert "and 190 more" in page.body
    assert "… (cut here)" in page.body
    assert len(page.title) < 256


class TestMark:
    @pytest.mark.parametrize("state", MarkState)
    def test_it_is_found_at_the_end_and_replaced_there(self, state: MarkState) -> None:
        mark = Mark(BASE, OTHER, state)
        body = mark.put(PAGE.body)
        assert Mark.find(body) == mark
        assert Mark.find(body.replace("\n", "\r\n") + "  \r\n") == mark
        assert Mark(BASE, TARGET).put(body) == PAGE.body

    @pytest.mark.parametrize(
        "body",
        [
            "",
            PAGE.body + "A word of ours.",
            f"> {Mark(BASE, TARGET)}\nno",
            str(Mark(BASE, TARGET)).replace("asked", "approved"),
            str(Mark(BASE, TARGET)).replace("sha256:", "sha512:"),
        ],
    )
    def test_none_is_found_where_there_is_none(self, body: str) -> None:
        assert Mark.find(body) is None


def test_comments_say_what_happened_and_end_with_the_mark() -> None:
    old, new = Mark(BASE, TARGET), Mark(BASE, OTHER)
    comment = superseded(old, new, Version.parse("v2.9.5"))
    assert comment.startswith(f"Superseded: this asks for v2.9.5, `{OTHER}`, now, instead of `{TARGET}`.")
    assert Mark.find(comment) == new
    mark = replace(old, state=MarkState.WITHDRAWN)
    assert withdrawn(mark, "see #1 | x").startswith(r"Withdrawn: see \# 1 \| x.")
    assert Mark.find(withdrawn(mark, "x")) == mark
