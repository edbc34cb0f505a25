"""Attributes that conceal files; tests/contract/test_workspace.py asks git itself about the same."""

from __future__ import annotations

import pytest

from ci_automation.artifact.git import Concealment, attribute_files, concealed

PATH = "clusters/production/a.yaml"


def test_the_attributes_of_a_folder_are_in_all_above_it() -> None:
    assert attribute_files("clusters/production") == (".gitattributes", "clusters/.gitattributes")
    assert attribute_files("clusters") == (".gitattributes",)


@pytest.mark.parametrize(
    ("line", "attribute"),
    [
        ("*.yaml binary", "binary"),
        ("  clusters/*/a.yaml text -diff", "-diff"),
        ("/clusters/** linguist-generated=true", "linguist-generated=true"),
        ('"a.yaml" eol=lf', "eol=lf"),
        ('"\\141.yaml" filter=lfs', "filter=lfs"),
        ('"a.yaml ident\n* ident', "ident"),
        ("[attr]quiet -diff\na.yaml quiet", "quiet"),
        ("a.yaml working-tree-encoding=UTF-16", "working-tree-encoding=UTF-16"),
    ],
)
def test_a_line_that_may_be_about_a_file_conceals_it(line: str, attribute: str) -> None:
    found = concealed({"x/.gitattributes": line, ".gitattributes": f"\n{line}\n"}, [PATH])
    assert found == Concealment(PATH, attribute, ".gitattributes")


@pytest.mark.parametrize(
    "line",
    ["", "# * -diff", "*.png binary", "b.yaml -diff", "/a.yaml -diff", "* diff -ident text=auto", "a.yaml quiet",
     "[attr]quiet text\na.yaml quiet", "a.yaml linguist-generated=false", "production/*.yaml binary"],
)  # fmt: skip
def test_other_lines_do_not(line: str) -> None:
    assert concealed({".gitattributes": line}, [PATH]) is None
