"""Two components files compared: nothing is silent, whatever the texts are."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert
from msgspec.structs import replace

from ci_automation.impact.change import Change, ChangeClass, ChangeKind, ObjectId, Severity
from ci_automation.impact.compare import COMPONENTS, changes, compared
from ci_automation.impact.values import MISSING, Pair
from tests.unit.impact.sample import (
    ACCOUNT,
    ALL,
    BINDING,
    CRD,
    HEADER,
    NAMESPACE,
    QUOTA,
    ROLE,
    SERVICE,
    TEXT,
    edited,
    of_edit,
)

LONG = "0123456789" * 30
LINES = TEXT.split("\n")
BOMB = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)


def test_a_file_is_equal_to_itself() -> None:
    assert changes(TEXT, TEXT) == ()


def test_a_release_with_other_labels_alone_is_two_changes_of_its_version() -> None:
    new = TEXT.replace("v2.9.3", "v2.9.4").replace("source-controller:v2.9.4", "source-controller:v2.9.3")

    header, label = sorted(changes(TEXT, new), key=lambda change: change.path)

    assert {label.belongs_to, header.belongs_to} == {ChangeClass.VERSION}
    assert "on 3 objects" in label.sentence
    assert header.sentence == "the components file changes to Flux v2.9.4 (was: v2.9.3)"


def test_the_version_label_is_known_by_the_versions_alone() -> None:
    one = changes(TEXT, edited(("version: v2.9.3\n    pod", "version: v2.9.4\n    pod")))
    all_of_them = changes(TEXT, TEXT.replace("version: v2.9.3", "version: v2.9.4"))
    assert one[0].fingerprint == all_of_them[0].fingerprint


def test_the_same_metadata_on_several_objects_is_one_change() -> None:
    def annotated(kind: str) -> tuple[str, str]:
        return f"kind: {kind}\nmetadata:\n", f"kind: {kind}\nmetadata:\n  annotations:\n    a: b\n"

    (change,) = of_edit(annotated("ResourceQuota"), annotated("ServiceAccount"))

    assert change.kind is ChangeKind.METADATA
    assert change.sentence == "the components file has annotations a: b on 2 objects"
    assert change.fingerprint != of_edit(annotated("ResourceQuota"), annotated("Service"))[0].fingerprint


def test_metadata_that_is_gone_from_several_objects_is_one_change() -> None:
    old = edited(
        ("name: critical", "labels:\n    a: b\n  name: critical"),
        ("  name: things", "  labels:\n    a: b\n  name: things"),
    )
    (change,) = changes(old, TEXT)
    assert change.sentence.endswith("has labels a: none on 2 objects") or change.kind is ChangeKind.METADATA


def test_the_gravest_is_first_and_the_order_is_always_the_same() -> None:
    edits = (("replicas: 1", "replicas: 2"), ("- update\n", "- '*'\n"), ("--log-level=info", "--log-level=debug"))
    found = of_edit(*edits)
    assert [change.severity for change in found] == [Severity.DANGER, Severity.NOTICE, Severity.NOTICE]
    assert found == changes(TEXT, edited(*reversed(edits)))


def test_a_fingerprint_stays_beside_other_changes() -> None:
    edit = ("--log-level=info", "--log-level=debug")
    (alone,) = of_edit(edit)
    assert alone in of_edit(edit, ("replicas: 1", "replicas: 2"), (HEADER, ""))


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        pytest.param(
            [("# Components: source-controller\n", "")], "loses a comment at its top: # Comp", id="comment gone"
        ),
        pytest.param(
            [("# Components: s", "# Components: x,s")], "changes a comment at its top: # Comp", id="components"
        ),
        pytest.param(
            [("# Flux Version: v2.9.3\n", "")], "loses a comment at its top: # Flux Version: v2.9.3", id="version gone"
        ),
        pytest.param([("# Flux", "# more\n# Flux")], "changes a comment at its top: # more", id="comment new"),
        pytest.param(
            [
                (
                    "# Flux Version: v2.9.3\n# Components: source-controller\n",
                    "# Components: source-controller\n# Flux Version: v2.9.3\n",
                )
            ],
            "has the comments at its top in another order",
            id="comments in another order",
        ),
        pytest.param(
            [("    storage: true\n", "    storage: true")], "does not end with a newline", id="no last newline"
        ),
        pytest.param([("    storage: true\n", "    storage: true\n\n")], "formatted differently", id="more newlines"),
        pytest.param([("replicas: 1", "replicas:  1")], "formatted differently", id="space"),
        pytest.param([("replicas: 1", "replicas: 0x1")], "formatted differently", id="number"),
        pytest.param([("replicas: 1", '"replicas": 1')], "formatted differently", id="quoted key"),
        pytest.param(
            [("app: source-controller\n  type", "app: 'source-controller'\n  type")],
            "formatted differently",
            id="quotes",
        ),
        pytest.param([("drop:\n            - ALL", "drop: [ALL]")], "formatted differently", id="flow"),
        pytest.param(
            [("drop:\n            - ALL", "drop:\n              - ALL")], "formatted differently", id="indented"
        ),
        pytest.param([("  replicas: 1\n", "  # why\n  replicas: 1\n")], "changes its comments", id="comment"),
        pytest.param([("replicas: 1\n", "replicas: 1 # why\n")], "changes its comments", id="comment on the line"),
        pytest.param(
            [
                (
                    "  name: critical-pods\n  namespace: flux-system\n",
                    "  namespace: flux-system\n  name: critical-pods\n",
                )
            ],
            "formatted differently, with the same meaning: metadata",
            id="keys in another order",
        ),
        pytest.param([("replicas: 1\n", "replicas: 1\n  replicas: 1\n")], "has keys twice", id="key twice"),
        pytest.param([(SERVICE, SERVICE + "---\n" + SERVICE)], "is there 2 times", id="object twice"),
        pytest.param(
            [(QUOTA + "---\n" + ALL[3], ALL[3] + "---\n" + QUOTA)],
            "has its objects in another order",
            id="objects in another order",
        ),
        pytest.param([(SERVICE, "# a remark\n---\n" + SERVICE)], "is new", id="document of a comment"),
        pytest.param(
            [("---\napiVersion: v1\nkind: Service\n", "--- # a remark\napiVersion: v1\nkind: Service\n")],
            "changes its comments",
            id="marker",
        ),
        pytest.param([("Of two paragraphs.\n", "Of two paragraphs.\n\n")], "formatted differently", id="block text"),
    ],
)
def test_what_yaml_does_not_show_is_other(edits: list[tuple[str, str]], words: str) -> None:
    found = of_edit(*edits)
    assert {change.belongs_to for change in found} == {ChangeClass.OTHER}
    assert any(words in change.sentence for change in found)


def test_line_breaks_of_another_system_are_other() -> None:
    found = changes(TEXT, TEXT.replace("\n", "\r\n"))
    assert {change.belongs_to for change in found} <= {ChangeClass.OTHER, ChangeClass.VERSION}
    assert all(change.belongs_to is not ChangeClass.REMOVED_WORKLOAD for change in found)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("a: b: c", id="no YAML"),
        pytest.param(BOMB, id="aliases"),
        pytest.param("a: !!python/object:os.system x", id="tags"),
        pytest.param("a: " + "[" * 1000, id="deep"),
        pytest.param("a: \x07", id="control character"),
        pytest.param("a: '\ud800'", id="no text"),
        pytest.param("? [a]\n: b", id="key that is no text"),
        pytest.param("[a]: b", id="key in flow style that is no text"),
        pytest.param("a: *x", id="alias to nothing"),
        pytest.param("<<: {a: b}", id="merge key"),
        pytest.param("a:\n- <<:\n    b: c", id="merge key in block style"),
        pytest.param("a: [? << : {b: c}]", id="merge key in flow style"),
        pytest.param("\n".join(f"{' ' * depth}a:" for depth in range(80)), id="deep in block style"),
    ],
)
def test_what_cannot_be_read_is_a_danger(broken: str) -> None:
    found = of_edit((SERVICE, SERVICE + "---\n" + broken + "\n"))
    assert found[0].severity is Severity.DANGER
    assert found[0].belongs_to is ChangeClass.OTHER
    assert "cannot be read" in found[0].sentence


def test_a_file_that_cannot_be_cut_and_not_be_read_is_a_danger() -> None:
    found = changes(TEXT, f"%YAML 9.9\n---\n{TEXT}")
    assert found[0].severity is Severity.DANGER
    assert {ChangeClass.REMOVED_WORKLOAD, ChangeClass.OTHER} <= {change.belongs_to for change in found}


def test_more_than_the_limit_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("parts", "reading"):
        monkeypatch.setattr(f"ci_automation.impact.{module}.MAX_CHARACTERS", 1_000)
    found = changes("a: 1\n", "a: " + "1" * 1_000 + "\n")
    assert "it has more than 1000 characters" in found[0].sentence


@pytest.mark.often
@pytest.mark.often
def test_more_than_anybody_writes_is_not_read() -> None:
    found = changes(TEXT, "a: b\n" * 1_000_000)
    assert "it has more than" in " ".join(change.sentence for change in found)
    found = changes("a: 1\n", "a:\n" + "- [" + "1, " * 600_000 + "1]\n")
    assert "it has more than" in found[0].sentence


def test_many_comments_are_one_change() -> None:
    assert len(changes(TEXT, "".join(f"# {number}\n" for number in range(50)) + TEXT)) > 1
    many = HEADER + "".join(f"# {number}\n" for number in range(50))
    assert len(changes(TEXT, many + TEXT.removeprefix(HEADER))) == 1


def test_many_documents_are_read_at_once() -> None:
    found = changes(TEXT, "x\n---\n" * 3_000)
    assert {change.belongs_to for change in found} >= {ChangeClass.REMOVED_WORKLOAD, ChangeClass.OTHER}


def test_two_broken_texts_are_one_change() -> None:
    (change,) = changes("a: b: c", "a: b: d")
    assert change.severity is Severity.DANGER


def test_the_same_broken_document_on_both_sides_is_none() -> None:
    broken = TEXT + "---\na: b: c\n"
    assert changes(broken, edited(("replicas: 1", "replicas: 2"), text=broken)) == of_edit(
        ("replicas: 1", "replicas: 2")
    )


def test_the_objects_of_a_list_are_taken_out_of_it() -> None:
    text = "apiVersion: v1\nitems:\n" + "".join(
        f"- apiVersion: v1\n  kind: {kind}\n  metadata:\n    name: x\n" for kind in ("Service", "ConfigMap")
    )
    text += "- text\nkind: List\n"
    kinds = [change.kind for change in changes(TEXT, f"{TEXT}---\n{text}")]
    assert ChangeKind.SERVICE in kinds
    assert kinds.count(ChangeKind.OTHER) == 3


EVIL = BINDING.replace("name: crd-controller\nrole", "name: evil\nrole")
HELD = "".join(f"  {line}\n" for line in EVIL.splitlines())
ITEMS = f"items:\n-{HELD[1:]}"


@pytest.mark.parametrize(
    "plain", [ACCOUNT, QUOTA, SERVICE, NAMESPACE], ids=["account", "quota", "service", "namespace"]
)
def test_the_objects_within_another_object_are_told_as_clusters_take_them_apart(plain: str) -> None:
    base = HEADER + ROLE
    alone = changes(base, f"{base}---\n{EVIL}")
    assert [change.belongs_to for change in alone] == [ChangeClass.RBAC]
    found = changes(base, f"{base}---\n{plain}{ITEMS}")
    assert set(found) > set(alone)
    told = [change for change in found if change not in alone]
    assert [(change.belongs_to, change.severity) for change in told] == [(ChangeClass.OTHER, Severity.DANGER)]
    assert "holds objects that clusters apply one by one" in told[0].sentence
    before = f"{base}---\n{plain}"
    changed = changes(before, before + ITEMS)
    gone = changes(before, base)
    assert set(changed) == {*found, *gone}, "the object itself is not there any more"


def test_objects_within_objects_within_a_list_are_told() -> None:
    inner = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}
    holder = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y"}, "items": [inner]}
    found = changes("", json.dumps({"apiVersion": "v1", "kind": "ConfigMapList", "items": [holder]}) + "\n")
    assert {(str(change.object), change.kind, change.severity) for change in found} == {
        ("Service x", ChangeKind.SERVICE, Severity.NOTICE),
        ("ConfigMap y", ChangeKind.OTHER, Severity.DANGER),
        ("Document without a name, number 1", ChangeKind.OTHER, Severity.WARNING),
    }


def test_an_object_that_holds_none_is_told_since_clusters_leave_it_out() -> None:
    found = of_edit((ACCOUNT, f"{ACCOUNT}items: []\n"))
    assert [(change.kind, change.severity) for change in found] == [
        (ChangeKind.OTHER, Severity.DANGER),
        (ChangeKind.SERVICE_ACCOUNT, Severity.NOTICE),
    ]


def test_what_is_held_beside_an_object_of_the_same_name_is_told_and_nothing_of_it_shown() -> None:
    held = "items:\n- apiVersion: v1\n  data:\n    a: canary-one\n  kind: Secret\n  metadata:\n    name: x\n"
    text = f"{ACCOUNT}{held}---\n{ACCOUNT}"
    found = changes(text, text.replace("canary-one", "canary-two"))
    assert {str(change.object) for change in found} == {"ServiceAccount flux-system/source-controller", "Secret x"}
    assert "canary" not in str(found)
    assert found[0].severity is Severity.DANGER
    assert found[0].fingerprint != changes(text, text.replace("canary-one", "canary-three"))[0].fingerprint
    beside = changes(f"{text}---\n{SERVICE}", f"{text}---\n{SERVICE.replace('ClusterIP', 'NodePort')}")
    assert [change.path for change in beside] == ["spec.type"], "what stays as it is is not told again"
    gone = changes(text, ACCOUNT)
    assert [str(change.object) for change in gone if change.kind is ChangeKind.OTHER and "is gone" in change.sentence]


def test_an_object_twice_that_is_new_is_two_changes() -> None:
    found = changes(HEADER, HEADER + SERVICE + "---\n" + SERVICE)
    assert sorted(change.kind for change in found) == [ChangeKind.OTHER, ChangeKind.SERVICE]


def test_of_an_object_twice_the_last_counts() -> None:
    twice = SERVICE + "---\n" + SERVICE
    found = changes(twice, twice[: len(SERVICE)] + "---\n" + SERVICE.replace("ClusterIP", "NodePort"))
    assert [change.path for change in found] == ["spec.type"]


@pytest.mark.often
@pytest.mark.parametrize("number", range(len(LINES)), ids=[line.strip() or "empty" for line in LINES])
def test_no_line_can_be_removed_in_silence(number: int) -> None:
    new = "\n".join(LINES[:number] + LINES[number + 1 :])
    found = changes(TEXT, new)
    assert found
    assert found == compared(TEXT, new, COMPONENTS, quick=False)
    assert ChangeClass.IMAGE not in {change.belongs_to for change in found} or "image" in LINES[number]


@given(st.integers(0, len(LINES) - 1), st.text(alphabet=" abkey:-'\"#|{}[]&*!1\t\\\n", max_size=12), st.integers(0, 40))
def test_no_line_can_be_edited_in_silence(number: int, text: str, at: int) -> None:
    line = LINES[number]
    new = "\n".join([*LINES[:number], line[:at] + text, *LINES[number + 1 :]])
    found = changes(TEXT, new)
    assert bool(found) == (new != TEXT)
    assert found == compared(TEXT, new, COMPONENTS, quick=False)


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_is_refused(old: str, new: str) -> None:
    assert bool(changes(old, new)) == (old != new)


def test_a_change_goes_through_a_document_and_back() -> None:
    for change in changes(HEADER, TEXT):
        assert convert(change.to_json(), Change) == change


def test_nothing_of_a_sentence_can_be_taken_for_another_line() -> None:
    found = of_edit(("name: things.example.com", 'name: "a\\nb\\e[31m"'))
    assert all(change.sentence.isprintable() and change.path.isprintable() for change in found)


def test_long_values_are_cut_for_people_and_whole_in_the_fingerprint() -> None:
    def to(value: str) -> Change:
        return of_edit(("--log-level=info", f"--log-level={'x' * 500}{value}"))[0]

    assert len(to("a").new) == 120
    assert to("a").fingerprint != to("b").fingerprint
    assert replace(to("a"), fingerprint="") == replace(to("b"), fingerprint="")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("- --enable-leader-election\n", "- KEY harmless\n", id="argument"),
        pytest.param("ExternalArtifact=true", "KEY=true", id="feature gate"),
        pytest.param("name: TUF_ROOT", "name: KEY", id="variable"),
        pytest.param("  app.kubernetes.io/version: v2.9.3\n    pod-", "  KEY: x\n    pod-", id="label"),
        pytest.param("name: v1\n    schema", "name: KEY\n    schema", id="version of a CRD"),
        pytest.param("containerPort: 9090", "containerPort: KEY", id="port"),
    ],
)
def test_names_are_whole_in_the_fingerprint(old: str, new: str) -> None:
    found = [
        changes(TEXT, edited((old, new.replace("KEY", "x" * length + end)))) for length in (119, 500) for end in "ab"
    ]
    added = [{change.fingerprint for change in each} for each in found]
    gone = changes(TEXT, edited((old, new.replace("KEY", "y"))))
    same = {change.fingerprint for change in gone if change.new == ""}
    assert all(len(change.path) <= 120 for each in found for change in each)
    for one, other in itertools.combinations(added, 2):
        assert one & other <= same


def test_labels_with_long_names_on_several_objects_stay_apart() -> None:
    def to(end: str) -> tuple[Change, ...]:
        label = f"\n    {'x' * 130}{end}: v\n    app.kubernetes.io/version: v2.9.3\n"
        found = changes(TEXT, TEXT.replace("\n    app.kubernetes.io/version: v2.9.3\n", label))
        return tuple(change for change in found if change.kind is ChangeKind.METADATA)

    assert len(to("a")) == 3
    assert not {change.fingerprint for change in to("a")} & {change.fingerprint for change in to("b")}


def test_the_same_labels_on_several_secrets_are_known_by_their_values() -> None:
    text = "---\n".join(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  labels:\n"
        f"    app.kubernetes.io/version: v1\n    l: a\n  name: {name}\n"
        for name in "xy"
    )
    for label, kind in (("l: a", ChangeKind.METADATA), ("version: v1", ChangeKind.VERSION_LABEL)):
        found = [changes(text, text.replace(label, f"{label}{end}")) for end in "bc"]
        assert {change.kind for each in found for change in each} == {kind}
        assert not {change.fingerprint for change in found[0]} & {change.fingerprint for change in found[1]}


def test_the_same_label_written_as_another_value_is_another_change() -> None:
    def to(value: str) -> str:
        label = f"\n    app.kubernetes.io/version: v2.9.3\n    l: {value}\n"
        found = changes(TEXT, TEXT.replace("\n    app.kubernetes.io/version: v2.9.3\n", label))
        return "".join(sorted(change.fingerprint for change in found if change.kind is ChangeKind.METADATA))

    assert len({to(value) for value in ("true", '"true"', '"a\\nb"', "'a\\nb'")}) == 4


def test_version_labels_that_only_look_the_same_are_told_apart() -> None:
    def to(value: str) -> set[str]:
        found = changes(QUOTA, QUOTA.replace("  name:", f"  labels:\n    app.kubernetes.io/version: {value}\n  name:"))
        return {change.fingerprint for change in found}

    assert not to('"a\\nb"') & to("'a\\nb'")


def test_nothing_of_a_secret_is_shown() -> None:
    secret = "apiVersion: v1\ndata:\n  token: canary-one\nkind: Secret\nmetadata:\n  name: x\n"
    applied = f"{secret}  annotations:\n    last-applied-configuration: canary-one\n"
    found = [
        changes(*pair)
        for before in (secret, applied)
        for pair in ((before, before.replace("canary-one", "canary-two")), ("", before), (secret, applied))
    ]
    assert found[0]
    assert all(found[3:])
    assert "canary" not in str(found)


def test_the_file_has_a_name_of_its_own() -> None:
    assert str(ObjectId("", "File", "", "the components file")) == str(COMPONENTS)
    assert "things.example.com" in CRD


def test_a_value_that_another_one_of_its_key_hides_is_not_silent() -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: {}\n  x: last\n"
    (change,) = changes(text.replace("{}", "first"), text.replace("{}", "other"))
    assert (change.kind, change.sentence) == (
        ChangeKind.OTHER,
        "ConfigMap a is formatted differently, with the same meaning",
    )


@pytest.mark.parametrize(
    ("before", "after", "old", "new"),
    [
        pytest.param("a", "b", "a", "b", id="short"),
        pytest.param("", MISSING, "", "", id="nothing and an empty text"),
        pytest.param(f"a{LONG}", f"b{LONG}", f"a{LONG[:118]}…", f"b{LONG[:118]}…", id="at the beginning"),
        pytest.param(f"{LONG}a", f"{LONG}b", f"…{LONG[-20:]}a", f"…{LONG[-20:]}b", id="beyond the end"),
        pytest.param(f"{LONG}a{LONG}", LONG, f"…{LONG[-20:]}a{LONG[:97]}…", f"…{LONG[-20:]}", id="far too long"),
        pytest.param([LONG, 1], [LONG, 2], f'…{LONG[-17:]}", 1]', f'…{LONG[-17:]}", 2]', id="lists"),
        pytest.param(LONG[:120], LONG[:120], LONG[:120], LONG[:120], id="equal"),
    ],
)
def test_long_values_are_shown_where_they_differ(before: object, after: object, old: str, new: str) -> None:
    assert Pair(ObjectId("", "Alert", "", "a"), before, after).shown == (old, new)


def test_a_rule_of_a_custom_resource_that_changes_at_its_end_is_told_apart() -> None:
    long = " || ".join(f"has(self.field{number})" for number in range(9))
    found = changes(
        f"kind: Alert\nmetadata: {{name: a}}\nspec: {{x: '{long} || a'}}\n",
        f"kind: Alert\nmetadata: {{name: a}}\nspec: {{x: '{long} || b'}}\n",
    )
    (change,) = found
    assert (change.old[-4:], change.new[-4:]) == ("|| a", "|| b")
