"""What a person is shown before an artifact is adopted."""

from __future__ import annotations

import sys

import click
import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.cli.arguments import Arguments
from ci_automation.cli.output import confirmation
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty, FileDiff, Hazard, Severity
from ci_automation.impact.compare import changes
from ci_automation.impact.rights import FolderRights, Right
from ci_automation.report.adoption import AdoptedFile, Adoption, adoption_text, difference

ADOPTION = Adoption(
    channel=Reference.parse("oci://registry.example/acme/flux:production"),
    digest=Digest.of(b"artifact"),
    problem="it is not signed",
    version=Version.parse("v2.9.4"),
    options=("--registry=evil.example/fluxcd",),
    components="flux-system/gotk-components.yaml",
    difference=(),
    overlay=(
        AdoptedFile("kustomization.yaml", 12, Digest.of(b"a"), "same"),
        AdoptedFile("patches/evil\x1b[2J.yaml", 7, Digest.of(b"b"), "new"),
    ),
    compared_with=Digest.of(b"signed"),
)
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec: {template: {spec: {containers: [{name: m, image: 'IMAGE'}]}}}
"""


def test_every_file_is_shown_with_its_digest_and_what_became_of_it() -> None:
    text = adoption_text(ADOPTION)
    assert "it is not signed" in text
    assert "equals what Flux v2.9.4 renders with its options, byte for byte" in text
    assert f"compared with {Digest.of(b'signed')}, which is signed" in text
    for file in ADOPTION.overlay:
        assert file.digest.short in text
    assert "\x1b" not in text


def test_what_is_not_proven_is_told_and_is_not_called_flux() -> None:
    text = adoption_text(replace(ADOPTION, unsigned=True, doubt="nothing proves it: a line\ndiffers"))
    assert "\nNot checked: Flux's signature on v2.9.4; `mirror` downloads it.\n" in text
    assert "\nRendering not proven: nothing proves it: a line differs\n" in text
    assert "equals what this program renders of v2.9.4 with its options, byte for byte" in text
    assert "not proven" not in adoption_text(ADOPTION)


def test_the_digest_is_told_once() -> None:
    at = f"{ADOPTION.channel} is at {ADOPTION.digest}"
    assert adoption_text(ADOPTION).splitlines()[2] == f"{at}."
    assert adoption_text(replace(ADOPTION, problem=f"{at}, and another channel has it")).count(at) == 1


def test_what_the_manifest_says_plain_secrets_and_rights_come_before_the_difference() -> None:
    right = Right("", ("user a",), "ClusterRole b", "c", "read pods", Severity.INFO)
    shown = replace(
        ADOPTION,
        stated=("source https://git.example/a\nforged", "revision main@sha1:1"),
        secrets=("a b.yaml",),
        rights=(FolderRights(".", (right,)),),
        difference=("+b",),
        version_tags=("v2.9.3", "v2.9.4"),
    )
    text = adoption_text(shown)
    assert "\nThese version tags lead to it then, for clusters with ref.semver: v2.9.3, v2.9.4." in text
    said = "Its manifest says, and no signature proves: source https://git.example/a"
    assert said in text
    assert "\nforged" not in text
    assert "\ndanger: 'a b.yaml' holds a Secret in plain text" in text
    assert "Rights as in plain Flux: 1 binding" in text[: text.index("differs from")]
    assert "may read pods" not in text
    assert "may read pods" in adoption_text(shown, every=True)


def test_an_overlay_that_does_not_build_is_told_before_the_question() -> None:
    broken = Hazard(
        "overlay", Certainty.CERTAIN, "x", "the overlay at ./ cannot be built: no y.yaml", (), ("look at `z`",)
    )
    for every in (False, True):
        text = adoption_text(replace(ADOPTION, hazards=(broken,)), every=every)
        told = "What can break:\n  certain, overlay: the overlay at ./ cannot be built: no y.yaml"
        assert told in text[: text.index("equals what Flux")]
        assert "look at `z`" in text
        assert "everything is new" not in text
    assert "What can break" not in adoption_text(ADOPTION)


def test_what_is_different_from_flux_alone_and_each_file_come_before_the_question() -> None:
    """A foreign image in a kustomization shows in no list of files."""
    old, new = (DEPLOYMENT.replace("IMAGE", it) for it in ("a.example/x:1", "evil.example/x:1"))
    shown = replace(
        ADOPTION,
        changes=tuple(changes(old, new)),
        hazards=(Hazard("overlay", Certainty.UNCHECKED, ".", "it was not built"),),
        texts=(FileDiff("kustomization.yaml", "+images: [evil]"),),
    )
    text = adoption_text(shown)
    told = text.index("Beside plain Flux, clusters get:\n  warning, image: Deployment a runs evil.example")
    shown_at = text.index("In these files:\n  kustomization.yaml:\n    +images: [evil]")
    breaks = text.index("What can break:\n  unchecked, overlay: it was not built")
    assert breaks < told < text.index("equals what Flux") < shown_at  # a page may cut off its end
    assert "Files whose text is not shown: 1. Read them before you adopt it:\n  flux-manifests pull " in text[shown_at:]
    each = tuple(FileDiff(file.path, "+a") for file in ADOPTION.overlay)
    assert "text is not shown" not in adoption_text(replace(shown, texts=each))
    assert "Beside plain Flux" not in adoption_text(ADOPTION)


def test_a_difference_is_shown_and_an_endless_one_cut() -> None:
    text = adoption_text(replace(ADOPTION, difference=tuple(f"+line {n}" for n in range(100)), compared_with=None))
    assert "  +line 59\n" in text
    assert "+line 60" not in text
    assert "... and 40 more lines. Read all of them" in text
    assert f"flux-manifests pull oci://registry.example/acme/flux@{ADOPTION.digest} FOLDER" in text
    assert "(no signed digest to compare them with)" in text


def test_reviewers_of_a_run_see_all_of_a_difference_and_every_file_before_it() -> None:
    text = adoption_text(replace(ADOPTION, difference=tuple(f"+line {n}" for n in range(100))), shown=None)
    assert "\n  +line 99\n" in text
    assert text.index("kustomization.yaml") < text.index("  +line 0\n")
    assert "more lines" not in text


def test_a_short_difference_is_shown_whole() -> None:
    text = adoption_text(replace(ADOPTION, difference=("-a", "+b")))
    assert "differs from what Flux v2.9.4 renders" in text
    assert "more" not in text


def test_options_are_shown_and_those_of_what_is_signed() -> None:
    text = adoption_text(ADOPTION)
    assert "It is Flux v2.9.4 with the options --registry=evil.example/fluxcd." in text
    assert "The signed digest has Flux's default options." in text
    assert "What is signed" not in adoption_text(replace(ADOPTION, compared_options=ADOPTION.options))


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        pytest.param(b"a\nb\nc\n", b"a\nB\nc\n", ("@@ -1,4 +1,4 @@", " a", "-b", "+B", " c", " "), id="a line"),
        pytest.param(b"a\n", b"a\nb\n", ("@@ -1,2 +1,3 @@", " a", "+b", " "), id="one more"),
        pytest.param(b"a\nb\n", b"a\n", ("@@ -1,3 +1,2 @@", " a", "-b", " "), id="one less"),
        pytest.param(b"a\x0cb", b"a\nb", ("@@ -1,1 +1,2 @@", "-a\x0cb", "+a", "+b"), id="no end of a line"),
        pytest.param(b"a\xff", b"a\xfe", ("@@ -1,1 +1,1 @@", "-a\\xff", "+a\\xfe"), id="what is no text"),
        pytest.param(b"a\xff", b"a\\xff", ("@@ -1,1 +1,1 @@", "-a\\xff", "+a\\xff"), id="what only looks the same"),
        pytest.param(b"a", b"a\n", ("@@ -1,1 +1,2 @@", " a", "+"), id="the end of the file"),
        pytest.param(b"same", b"same", (), id="nothing"),
    ],
)
def test_what_differs_is_told_by_bytes(old: bytes, new: bytes, changed: tuple[str, ...]) -> None:
    assert difference(old, new) == changed


def test_of_edits_far_from_each_other_each_is_shown_and_what_is_between_is_not() -> None:
    before = [f"  line: {number}" for number in range(6000)]
    after = ["  cpu: 200m" if number in {10, 5990} else line for number, line in enumerate(before)]
    old, new = ("\n".join(lines).encode() for lines in (before, after))
    shown = difference(old, new)
    assert [line for line in shown if line[0] in "-+"] == [
        "-  line: 10",
        "+  cpu: 200m",
        "-  line: 5990",
        "+  cpu: 200m",
    ]
    text = adoption_text(replace(ADOPTION, difference=shown))
    assert text.count("+  cpu: 200m") == 2
    assert "more" not in text


def test_endless_differences_are_told_all_the_same() -> None:
    old, new = (b"\n".join(b"%d%s" % (n, mark) for n in range(3000)) for mark in (b"a", b"b"))
    assert len(difference(old, new)) == 6001


def test_a_name_with_blanks_does_not_look_like_a_row_of_its_own() -> None:
    name = "kustomization.yaml  12  0123456789ab  same"
    text = adoption_text(replace(ADOPTION, overlay=(AdoptedFile(name, 7, Digest.of(b"b"), "new"),)))
    assert f"\n'{name}'  7 " in text


def test_no_other_file_is_said() -> None:
    assert (
        adoption_text(replace(ADOPTION, overlay=())).count("There are no files but flux-system/gotk-components.yaml.")
        == 1
    )


def test_on_a_terminal_lines_are_folded_between_words_but_those_to_copy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rights = tuple(
        Right(
            "",
            (f"ServiceAccount flux-system/controller-{n}",),
            f"ClusterRole view-{n}",
            "b",
            "read pods",
            Severity.DANGER,
        )
        for n in range(9)
    )
    difference = (f"+{'a long line of a file, ' * 8}",)
    shown = replace(
        ADOPTION,
        difference=difference,
        stated=("source https://git.example/a",) * 9,
        rights=(FolderRights(".", rights),),
    )
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert confirmation(Arguments(yes=True))(shown)
    lines = click.unstyle(capsys.readouterr().err).replace("\r", "").splitlines()
    to_copy = [line for line in lines if len(line) > 80]
    assert [line.split(" oci:")[0] for line in to_copy] == [f"  {difference[0]}", "  flux-manifests pull"]
    assert str(ADOPTION.digest) in " ".join(lines)
    assert lines[-1] == "Adoption signs and records this digest, and publishes nothing else."
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert confirmation(Arguments(yes=True))(shown)
    whole = capsys.readouterr().err
    assert whole.startswith(adoption_text(shown))
