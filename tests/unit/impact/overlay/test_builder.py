"""What kustomize says of a build that failed, without the way that it went there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.impact.overlay.builder import innermost, places
from ci_automation.impact.overlay.folders import applied_folder
from ci_automation.impact.overlay.kustomization import Effort
from tests.unit.impact.overlay.trees import tree

SUB = "accumulating resources: accumulation err='accumulating resources from 'sub': 'sub' must resolve to a file': "
SUB2 = (
    "accumulating resources: accumulation err='accumulating resources from 'sub2': 'sub/sub2' must resolve to a file': "
)
GONE = (
    "accumulating resources: accumulation err='accumulating resources from 'gone.yaml': evalsymlink failure on "
    "'{0}' : lstat {0}: no such file or directory': must build at directory: not a valid directory: evalsymlink "
    "failure on '{0}' : lstat {0}: no such file or directory"
)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        pytest.param(GONE.format("gone.yaml"), "gone.yaml: no such file or directory", id="a file that is not there"),
        pytest.param(
            f"{SUB}recursed accumulation of path 'sub': {GONE.format('sub/gone.yaml')}",
            "sub/gone.yaml: no such file or directory",
            id="a file that is not there, below",
        ),
        pytest.param(
            f"{SUB}recursed accumulation of path 'sub': {SUB2}recursed accumulation of path 'sub/sub2': accumulating "
            "resources: accumulating resources from 'x.yaml': MalformedYAMLError: yaml: line 1: did not find expected "
            "node content in File: x.yaml",
            "in sub/sub2: MalformedYAMLError: yaml: line 1: did not find expected node content in File: x.yaml",
            id="a file that is no YAML, two folders below",
        ),
        pytest.param(
            "accumulating resources: accumulation err='accumulating resources from 'x.yaml': missing kind in object "
            "{{v1 } {{x } map[] map[]}}': must build at directory: 'x.yaml': file is not directory",
            "x.yaml: missing kind in object {{v1 } {{x } map[] map[]}}",
            id="a file that is no object",
        ),
        pytest.param(
            "accumulating resources: accumulation err='merging resources from 'x.yaml': may not add resource with an "
            "already registered id: A.v1.[noGrp]/x.[noNs]': must build at directory: 'x.yaml': file is not directory",
            "x.yaml: may not add resource with an already registered id: A.v1.[noGrp]/x.[noNs]",
            id="an object that is there twice",
        ),
        pytest.param(
            f"{SUB}couldn't make target for path 'sub': invalid Kustomization: json: unknown field \"nope\"",
            "couldn't make target for path 'sub': invalid Kustomization: json: unknown field \"nope\"",
            id="a kustomization with an unknown field",
        ),
        pytest.param(
            "accumulating components: accumulateDirectory: \"recursed accumulation of path 'sub': "
            + GONE.format("sub/gone.yaml")
            + '"',
            "sub/gone.yaml: no such file or directory",
            id="a component",
        ),
        pytest.param(
            f"{SUB}recursed accumulation of path 'sub': no resource matches strategic merge patch \"B.v1.[noGrp]/x\"",
            'in sub: no resource matches strategic merge patch "B.v1.[noGrp]/x"',
            id="a patch in a folder below",
        ),
        pytest.param(
            'no resource matches strategic merge patch "B"', 'no resource matches strategic merge patch "B"', id="flat"
        ),
        pytest.param(
            f"{SUB}recursed accumulation of path 'sub': loading KV pairs: file sources: [x]: evalsymlink failure on "
            "'sub/x' : lstat sub/x: no such file or directory",
            "loading KV pairs: file sources: [x]: sub/x: no such file or directory",
            id="a file of a generator",
        ),
        pytest.param("", "", id="nothing"),
        pytest.param("accumulating resources: ", "accumulating resources: ", id="the way and no end"),
    ],
)
def test_the_innermost_error_is_left_with_the_folder_that_it_is_in(said: str, left: str) -> None:
    assert innermost(said) == left


@given(st.lists(st.sampled_from(["accumulating resources: ", SUB, "'", "': ", '"', "x", "must build at directory: "])))
def test_something_is_left_of_whatever_is_said(parts: list[str]) -> None:
    said = "".join(parts)
    assert bool(innermost(said)) is bool(said)
    assert len(innermost(said)) <= len(said) + len("in : ")


FILES = {
    "kustomization.yaml": "resources:\n- own.yaml\n- sub\n- gone.yaml\npathces: []\n"
    "patches:\n- path: p.yaml\n- path: lost.yaml\n",
    "own.yaml": "kind: A\nmetadata: {name: a}\n",
    "p.yaml": "kind: B\nmetadata:\n  name: ghost\n",
    "sub/kustomization.yaml": "resources:\n- x.yaml\npatches:\n- target: {}\n  patch: |\n    [{path: /rules/7}]\n",
    "sub/x.yaml": "kind: A\nmetadata: {name: b}\n",
}


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("gone.yaml: no such file or directory", "kustomization.yaml:4"),
        ("own.yaml: may not add resource with an already registered id: A", "own.yaml"),
        ("in sub: MalformedYAMLError: yaml: line 2: did not find expected in File: x.yaml", "sub/x.yaml:2"),
        ('invalid Kustomization: json: unknown field "pathces"', "kustomization.yaml:5"),
        ('no resource matches strategic merge patch "B.v1.[noGrp]/ghost.[noNs]"', "p.yaml:3"),
        ("no matches for Id B.v1.[noGrp]/ghost.[noNs]", "p.yaml:3"),
        (
            "in sub: replace operation does not apply: doc is missing path: /rules/7: missing",
            "sub/kustomization.yaml:6",
        ),
        ("in sub: something else", "sub/kustomization.yaml"),
        ("in none: something else", ""),
        ("something else", ""),
    ],
)
def test_the_file_and_line_are_those_that_kustomize_says(said: str, place: str) -> None:
    found = places(said, applied_folder(tree(FILES), ".", Effort()))
    assert [str(each) for each in found] == ([place] if place else [])
