# ruff: noqa: E501 - the tables have a row a line
"""What changes in the files beside the components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.impact.change import Change, ChangeClass, ChangeKind, Severity
from ci_automation.impact.files import overlay_changes
from tests.unit.impact.sample import DEPLOYMENT, QUOTA, SERVICE

if TYPE_CHECKING:
    from collections.abc import Mapping

KUSTOMIZATION = "resources:\n- gotk-components.yaml\n- app.yaml\npatches:\n- path: patches/one.yaml\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\nstringData:\n  token: canary-one\n"
FILES = {
    "kustomization.yaml": KUSTOMIZATION,
    "app.yaml": SERVICE + "---\n" + QUOTA,
    "patches/one.yaml": DEPLOYMENT,
    "secret.yaml": SECRET,
    "README.md": "canary-text\n",
    "values.yaml": "a: b\n",
}


def tree(**changed: str | bytes | None) -> Tree:
    files: dict[str, str | bytes | None] = {**FILES, **{path.replace("__", "/"): it for path, it in changed.items()}}
    return of({path: it for path, it in files.items() if it is not None})


def of(files: Mapping[str, str | bytes], *executable: str) -> Tree:
    contents = {path: it.encode() if isinstance(it, str) else it for path, it in files.items()}
    return Tree(tuple(TreeFile(path, it, path in executable) for path, it in contents.items()))


def told(old: Tree, new: Tree) -> tuple[Change, ...]:
    return overlay_changes(old, new)


def edit(path: str, old: str, new: str) -> tuple[Change, ...]:
    return told(tree(), of({**FILES, path: FILES[path].replace(old, new)}))


def test_equal_files_are_no_change() -> None:
    assert told(tree(), tree()) == ()


def test_an_object_is_compared_like_those_of_the_components() -> None:
    (change,) = edit("app.yaml", "ClusterIP", "NodePort")
    assert change.kind is ChangeKind.SERVICE
    assert str(change.object) == "Service flux-system/source-controller"


def test_the_names_of_a_kustomization_count_in_either_case() -> None:
    listed = KUSTOMIZATION.replace("resources", "Resources")
    old = of({**FILES, "kustomization.yaml": listed})
    new = of({**FILES, "kustomization.yaml": listed, "app.yaml": FILES["app.yaml"].replace("ClusterIP", "NodePort")})
    assert [change.kind for change in told(old, new)] == [ChangeKind.SERVICE]


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        pytest.param("kustomization.yaml", "- app.yaml\n", "", id="kustomization"),
        pytest.param("patches/one.yaml", "replicas: 1", "replicas: 2", id="patch"),
        pytest.param("README.md", "canary", "another canary", id="no YAML"),
        pytest.param("values.yaml", "b", "c", id="no object"),
        pytest.param("app.yaml", "kind: Service", "kind: Service: x", id="broken"),
    ],
)
def test_what_is_no_object_is_another_file(path: str, old: str, new: str) -> None:
    found = edit(path, old, new)
    change = next(change for change in found if change.object.name == path)
    assert change.belongs_to is ChangeClass.OVERLAY
    assert change.sentence == f"{path} has other content"
    assert "canary" not in str(found)


def test_files_come_and_go() -> None:
    (new, gone) = sorted(
        told(tree(), of({**{k: v for k, v in FILES.items() if k != "README.md"}, "b.txt": b"\xff"})), key=str
    )[::-1]
    assert {new.sentence, gone.sentence} == {"b.txt is new", "README.md is gone"}


def test_an_object_that_goes_is_a_warning_at_least() -> None:
    kept = SERVICE.replace("source-controller", "another")
    found = told(of({"a.yaml": SERVICE, "quota.yaml": QUOTA, "kept.yaml": kept}), of({"kept.yaml": kept}))
    assert [(change.object.kind, change.severity) for change in found] == [
        ("Service", Severity.WARNING),
        ("ResourceQuota", Severity.WARNING),
        *(("File", Severity.NOTICE),) * 2,
    ]


def test_several_files_that_hold_no_objects_are_several_changes() -> None:
    old, new = ({f"{name}.yaml": f"a: {value}\n" for name in "abc"} for value in (1, 2))
    assert len(told(of(old), of(new))) == 3


def test_binary_files_are_compared() -> None:
    (change,) = told(of({"a.yaml": b"\xff\x00"}), of({"a.yaml": b"\xfe"}))
    assert change.belongs_to is ChangeClass.OVERLAY


def test_an_object_may_move_to_another_file() -> None:
    found = told(tree(), of({**FILES, "app.yaml": SERVICE, "quota.yaml": QUOTA}))
    assert [change.sentence for change in found] == [
        "quota.yaml is new",
        "app.yaml holds other objects than before",
    ]


def test_an_object_that_moves_between_files_that_stay_is_told_of_both() -> None:
    old, new = (
        {"a.yaml": SERVICE + "---\n" + QUOTA, "b.yaml": SECRET},
        {"a.yaml": SERVICE, "b.yaml": SECRET + "---\n" + QUOTA},
    )
    found = told(of(old), of(new))
    assert {change.object.name for change in found} == {"a.yaml", "b.yaml"}
    assert {change.sentence.partition(" ")[2] for change in found} == {"holds other objects than before"}


def test_nothing_of_a_secret_is_shown() -> None:
    found = edit("secret.yaml", "canary-one", "canary-two")
    assert found
    assert "canary" not in str(found)


def test_comments_and_ends_of_a_file_are_told() -> None:
    assert {change.belongs_to for change in edit("secret.yaml", "apiVersion", "# why\napiVersion")} == {
        ChangeClass.OTHER
    }
    assert {change.belongs_to for change in edit("secret.yaml", "canary-one\n", "canary-one")} == {ChangeClass.OTHER}
    assert {change.belongs_to for change in edit("secret.yaml", "kind: S", "kind:  S")} == {ChangeClass.OTHER}


def test_objects_in_another_order_are_told() -> None:
    (change,) = told(of({"a.yaml": SERVICE + "---\n" + QUOTA}), of({"a.yaml": QUOTA + "---\n" + SERVICE}))
    assert change.sentence == "a.yaml is formatted differently, with the same meaning"


def test_a_mode_is_told() -> None:
    (on,) = told(of({"run.sh": b"x"}), of({"run.sh": b"x"}, "run.sh"))
    (off,) = told(of({"a.yaml": SERVICE}, "a.yaml"), of({"a.yaml": SERVICE}))
    assert (on.sentence, off.sentence) == ("run.sh is executable now", "a.yaml is not executable any more")
    assert {on.belongs_to, off.belongs_to} == {ChangeClass.OVERLAY}


def test_a_file_of_objects_that_becomes_something_else_loses_them() -> None:
    found = told(of({"a.yaml": SERVICE}), of({"a.yaml": "text"}))
    assert {change.belongs_to for change in found} == {ChangeClass.SERVICE, ChangeClass.OVERLAY}


@pytest.mark.parametrize("broken", [f"{SERVICE}\tx: 1\n", f"<<<<<<< HEAD\n{SERVICE}"])
def test_a_file_that_is_not_yaml_any_more_has_other_content_and_loses_nothing(broken: str) -> None:
    for sides in ((SERVICE, broken), (broken, SERVICE)):
        (change,) = told(*(of({"a.yaml": side}) for side in sides))
        assert (change.sentence, change.belongs_to) == ("a.yaml has other content", ChangeClass.OVERLAY)


@pytest.mark.parametrize(
    "text", ["a: *b", "- 1", "replicas:\n- count: 3\n", "configMapGenerator:\n- files:\n  - key=app.yaml\n"]
)
def test_any_kustomization_is_read(text: str) -> None:
    old, new = (
        of({"kustomization.yaml": text, "app.yaml": it}) for it in (SERVICE, SERVICE.replace("ClusterIP", "NodePort"))
    )
    (change,) = told(old, new)
    assert change.belongs_to is (ChangeClass.OVERLAY if "key=" in text else ChangeClass.SERVICE)


def test_a_list_of_objects_is_a_file_of_objects() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata:\n    name: x\n  spec:\n    type: A\n"
    (change,) = told(of({"a.yaml": text}), of({"a.yaml": text.replace("type: A", "type: B")}))
    assert change.belongs_to is ChangeClass.SERVICE


def test_the_same_label_on_objects_of_several_files_is_one_change() -> None:
    def labelled(text: str) -> str:
        return text.replace("metadata:\n", "metadata:\n  labels:\n    a: b\n")

    (change,) = told(
        of({"a.yaml": SERVICE, "b.yaml": QUOTA}), of({"a.yaml": labelled(SERVICE), "b.yaml": labelled(QUOTA)})
    )
    assert change.sentence == "the overlay has labels a: b on 2 objects"
