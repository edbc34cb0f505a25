from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.consumers.model import (
    ConsumersReport,
    FileOutcome,
    Mention,
    MentionKind,
    RepositoryOutcome,
    State,
    body,
    consumers_summary,
    message,
    title,
)
from tests.unit.consumers.subjects import DIGEST, NEW, OLD_DIGEST, OLD_TAG, TAG

EDIT = Mention(8, "OCIRepository flux-system/flux spec.ref.digest", MentionKind.EDITED, OLD_DIGEST, DIGEST, span=(1, 2))
FILE = FileOutcome(
    "clusters/east/flux.yaml",
    (
        EDIT,
        Mention(9, "OCIRepository flux-system/flux spec.ref.tag", MentionKind.EDITED, OLD_TAG, TAG),
        Mention(12, "setter comment production:version", MentionKind.EDITED, "v2.9.3", "v2.9.4"),
        Mention(20, "OCIRepository other spec.ref.semver", MentionKind.SEMVER, ">=2.0.0"),
        Mention(30, "OCIRepository third spec.ref.tag", MentionKind.FOLLOWS, "production"),
        Mention(40, "setter comment production:digest", MentionKind.LEFT, reason="it is an alias"),
    ),
)


def test_the_pull_request_to_the_letter() -> None:
    assert title(NEW) == f"production: Flux v2.9.4 ({NEW.digest.short})"
    assert message(NEW) == (f"{title(NEW)}\n\noci://ghcr.io/acme/flux-manifests:production is at {DIGEST}.")
    assert (
        body(NEW, (FILE,))
        == f"""\
`oci://ghcr.io/acme/flux-manifests:production` has Flux v2.9.4, `{DIGEST}`.

| file | line | what | before | after |
| --- | --- | --- | --- | --- |
| clusters/east/flux.yaml | 8 | OCIRepository flux-system/flux spec.ref.digest | `{OLD_DIGEST}` | `{DIGEST}` |
| clusters/east/flux.yaml | 9 | OCIRepository flux-system/flux spec.ref.tag | `{OLD_TAG}` | `{TAG}` |
| clusters/east/flux.yaml | 12 | setter comment production:version | v2.9.3 | `v2.9.4` |

| file | line | what | names a range: its cluster finds a version, not its newest content |
| --- | --- | --- | --- |
| clusters/east/flux.yaml | 20 | OCIRepository other spec.ref.semver | \\>\\=2.0.0 |

| file | line | what | needs a change by hand |
| --- | --- | --- | --- |
| clusters/east/flux.yaml | 40 | setter comment production:digest | it is an alias |

Merging this pull request moves everything that reads these files to that digest. Closing it declines this digest \
while its branch exists; the next digest gets a new request. Runs do not overwrite what people commit to this branch.
"""
    )


def test_what_is_not_there_has_no_table() -> None:
    assert "|" not in body(NEW, ())


def test_the_summary_to_the_letter() -> None:
    report = ConsumersReport(
        NEW,
        (
            RepositoryOutcome("acme/east", State.OPENED, "https://github.com/acme/east/pull/1", files=(FILE,)),
            RepositoryOutcome("acme/west", State.CURRENT),
            RepositoryOutcome("acme/south", State.FAILED, remark="it is archived", exit_code=21),
        ),
    )
    assert report.exit_code == 21
    assert (
        consumers_summary(report)
        == """\
### Repositories that pin production

| repository | what was done | edited | current | follows | semver | other | left | why |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| acme/east | [pull request opened](<https://github.com/acme/east/pull/1>) | 3 |  | 1 | 1 |  | 1 |  |
| acme/west | nothing to change |  |  |  |  |  |  |  |
| acme/south | **failed** |  |  |  |  |  |  | it is archived |
"""
    )


def test_no_repositories_no_section() -> None:
    assert consumers_summary(ConsumersReport(NEW)) == ""
    assert ConsumersReport(NEW).exit_code == 0


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_its_words(state: State) -> None:
    assert "| acme/east |" in consumers_summary(ConsumersReport(NEW, (RepositoryOutcome("acme/east", state),)))


def test_many_repositories_are_cut() -> None:
    report = ConsumersReport(NEW, tuple(RepositoryOutcome(f"acme/r{number}", State.CURRENT) for number in range(101)))
    assert consumers_summary(report).endswith("\n\n- and 1 more\n")


def test_the_text_fits_into_a_pull_request_whatever_was_found() -> None:
    kinds = (MentionKind.EDITED, MentionKind.SEMVER, MentionKind.LEFT)
    bad = "`|*_[]<>" * 100
    file = FileOutcome(bad, tuple(Mention(10**6, bad, kind, bad, DIGEST, bad) for kind in kinds for _ in range(500)))
    text = body(NEW, (file,))
    assert len(text) < 60_000
    assert text.count("- and 470 more places") == 1
    assert text.count("- and 485 more places") == 2


HOSTILE = st.lists(
    st.sampled_from(
        [
            "@acme",
            "#1",
            "Fixes #1",
            "|",
            "\n",
            "`",
            "```",
            "<!-- flux-manifests sha256:a 1 -->",
            "![x](http://x/)",
            "\\",
            "-->",
        ]
    ),
    max_size=6,
).map(" ".join)


@given(path=HOSTILE, what=HOSTILE, old=HOSTILE, reason=HOSTILE, remark=HOSTILE)
def test_text_of_the_files_does_nothing(path: str, what: str, old: str, reason: str, remark: str) -> None:
    findings = tuple(Mention(1, what, kind, old, TAG, reason) for kind in MentionKind)
    file = FileOutcome(path, findings)
    outcome = RepositoryOutcome("acme/east", State.FAILED, remark=remark, files=(file,))
    for text in (body(NEW, (file,)), consumers_summary(ConsumersReport(NEW, (outcome,)))):
        assert not re.search(r"@acme|(?<!&)#1|<!--|!\[|https?://", text)
        rows = [line for line in text.splitlines() if line.startswith("|")]
        widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
        assert widths <= {5, 6, 10}
        assert len(rows) in (9, 3)
