"""What a person is shown before an artifact is adopted."""

from __future__ import annotations

from dataclasses import replace

from ci_automation.artifact.digest import Digest
from ci_automation.artifact.reference import Reference
from ci_automation.flux.version import Version
from ci_automation.report.adoption import AdoptedFile, Adoption, adoption_text

ADOPTION = Adoption(
    channel=Reference.parse("oci://registry.example/acme/flux:production"),
    digest=Digest.of(b"artifact"),
    problem="it is not signed",
    version=Version.parse("v2.9.4"),
    components="flux-system/gotk-components.yaml",
    difference=(),
    overlay=(
        AdoptedFile("kustomization.yaml", 12, Digest.of(b"a"), "same"),
        AdoptedFile("patches/evil\x1b[2J.yaml", 7, Digest.of(b"b"), "new"),
    ),
    compared_with=Digest.of(b"signed"),
)


def test_every_file_is_shown_with_its_digest_and_what_became_of_it() -> None:
    text = adoption_text(ADOPTION)
    assert "it is not signed" in text
    assert "is what Flux v2.9.4 renders with its options, byte for byte" in text
    assert f"compared with {Digest.of(b'signed')}, which is signed" in text
    for file in ADOPTION.overlay:
        assert file.digest.short in text
    assert "\x1b" not in text


def test_a_difference_is_shown_and_an_endless_one_cut() -> None:
    text = adoption_text(replace(ADOPTION, difference=tuple(f"+line {n}" for n in range(100)), compared_with=None))
    assert "  +line 59\n" in text
    assert "+line 60" not in text
    assert "... and 40 lines more" in text
    assert "(not compared)" in text


def test_a_short_difference_is_shown_whole() -> None:
    text = adoption_text(replace(ADOPTION, difference=("-a", "+b")))
    assert "differs from what Flux v2.9.4 renders" in text
    assert "more" not in text


def test_no_other_file_is_said() -> None:
    assert adoption_text(replace(ADOPTION, overlay=())).endswith("There is no other file.")
