"""Diffs of overlay files, and of what they render to: exact, bounded, and without Secrets."""

from __future__ import annotations

import pytest

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.impact.change import FileDiff
from ci_automation.impact.files import overlay_diffs, rendered_diffs, without_secrets
from ci_automation.impact.overlay.preflight import Built

HIDDEN = "It holds, or may hold, a Secret: its content is not shown."


def tree(**files: bytes) -> Tree:
    return Tree(tuple(TreeFile(name.replace("__", "/").replace("_", "."), data) for name, data in files.items()))


def test_each_file_that_differs_has_its_unified_diff() -> None:
    old, new = (
        tree(a_yaml=b"x: 1\ny: 2\n", b_yaml=b"same", c_txt=b"gone\n"),
        tree(a_yaml=b"x: 1\ny: 3\n", b_yaml=b"same"),
    )
    assert overlay_diffs(old, new) == (
        FileDiff("a.yaml", "@@ -1,2 +1,2 @@\n x: 1\n-y: 2\n+y: 3"),
        FileDiff("c.txt", "@@ -1,1 +1,0 @@\n-gone"),
    )
    assert overlay_diffs(new, new) == ()


@pytest.mark.parametrize(
    "files",
    [
        {"a_yaml": b"kind: Secret\ndata: {a: b}\n"},
        {"a_json": b'{"kind": "Secret"}'},
        {"kustomization_yaml": b"secretGenerator: [{name: a, literals: [b=c]}]\n"},
        {"kustomization_yaml": b"SecretGenerator: [{name: a, literals: [b=c]}]\n"},
        {"a_yaml": b"apiVersion: builtin\nkind: SecretGenerator\nliterals: [b=c]\n"},
        {"a_yaml": b"kind: !!str Secret\ndata: {a: b}\n"},
        {"a_yaml": b"kind: &kind Secret\ndata: {a: b}\n"},
        {"a_yaml": b"kind: NotImportant\nstringData: {a: b}\n"},
        {"a_yaml": b"- op: add\n  path: /data/a\n  value: b\n"},
        {"a_json": b'[{"op": "add", "path": "/stringData/a", "value": "b"}]'},
    ],
)
def test_a_secret_is_not_shown(files: dict[str, bytes]) -> None:
    (found,) = overlay_diffs(tree(), tree(**files))
    assert found.text == HIDDEN


def test_a_file_that_a_secret_may_be_made_of_is_not_shown() -> None:
    listed = tree(kustomization_yaml=b"secretGenerator: [{envs: [a.env]}]\n")
    after = tree(kustomization_yaml=listed["kustomization.yaml"], a_env=b"TOKEN=x\n", b_yaml=b"a: 1\n")
    env, other = overlay_diffs(listed, after)
    assert (env.path, env.text) == ("a.env", HIDDEN)
    assert other.text == "@@ -1,0 +1,1 @@\n+a: 1"


@pytest.mark.parametrize(
    "kustomization",
    [
        b"secretGenerator: [{name: a, files: [config.json=../a/values.yaml]}]\n",
        b"secretGenerator: [{name: a, envs: [values.yaml]}]\n",
        b"SECRETGENERATOR: [{name: a, envs: [values.yaml]}]\n",
        b"apiVersion: builtin\nkind: SecretGenerator\nfiles: [values.yaml]\n",
        b"patches: [{path: b.yaml}, {path: values.yaml, target: {kind: Secret}}]\n",
        b"secretGenerator: [{name: a, files: [values.yaml]}\n",  # which cannot be read
    ],
)
def test_no_file_that_a_secret_may_be_made_of_is_shown_whatever_its_name(kustomization: bytes) -> None:
    listed = tree(a__kustomization_yaml=kustomization, b_md=b"It has a secretGenerator: ")
    after = tree(a__kustomization_yaml=kustomization, a__values_yaml=b"password: x\n", b_md=listed["b.md"])
    (found,) = overlay_diffs(listed, after)
    assert (found.path, found.text) == ("a/values.yaml", HIDDEN)


def test_an_error_has_no_word_that_only_secrets_have() -> None:
    held = tree(
        kustomization_yaml=b"resources: [a.yaml]\n",
        a__a_yaml=b"kind: Secret\nmetadata: {name: fine}\nstringData: {a: 'p%ssw0rd x'}\n",
        a_bin=b"\xff",
    )
    said = "in a/a.yaml: 'p%ssw0rd x' of resources is [p%ssw0rd]"
    assert without_secrets(said, held) == "in a/a.yaml: '… x' of resources is […]"


def test_what_is_no_text_and_what_is_long_says_so() -> None:
    (binary,) = overlay_diffs(tree(), tree(a_bin=b"\xff"))
    assert binary.text == "It is no text."
    (long,) = overlay_diffs(tree(), tree(a_txt=b"x" * 9_000 + b"\n" + b"y\n" * 1_000))
    lines = long.text.splitlines()
    assert (len(lines), lines[1], lines[-1]) == (401, f"+{'x' * 499}…", "and 602 more lines")
    many = tree(**{f"a{number}_txt": b"x" for number in range(50)})
    assert len(overlay_diffs(tree(), many)) == 40


def test_what_a_folder_renders_to_is_compared_without_secrets() -> None:
    before = "kind: A\nx: 1\n---\nkind: Secret\ndata:\n  a: b\n"
    builds = (
        Built("one", before, before.replace("x: 1", "x: 2").replace("a: b", "a: c")),
        Built("same", before, before),
        Built("secret", before, before.replace("a: b", "a: c")),
        Built("new", None, before),
        Built("gone", before, None),
    )
    one, secret = rendered_diffs(builds)
    assert one == FileDiff(
        "one", "@@ -1,4 +1,4 @@\n kind: A\n-x: 1\n+x: 2\n ---\n # a Secret, not shown", rendered=True
    )
    assert secret == FileDiff("secret", HIDDEN, rendered=True)
