# ruff: noqa: E501 - the tables have a row a line
"""What roles permit, and to whom: by what is permitted, not by how it is written."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.impact.change import Change, ChangeKind, Severity
from ci_automation.impact.compare import changes
from tests.unit.impact.sample import BINDING, ROLE, TEXT, of_edit

K = ChangeKind
S = Severity


def role(*rules: str, more: str = "") -> str:
    listed = "".join(f"- {rule}\n" for rule in rules)
    return f"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: x\n  namespace: y\n{more}rules:\n{listed or '- {}'}\n"


def rule(groups: str, resources: str, verbs: str, names: str = "") -> str:
    named = f", resourceNames: [{names}]" if names else ""
    return f"{{apiGroups: [{groups}], resources: [{resources}], verbs: [{verbs}]{named}}}"


def urls(paths: str, verbs: str) -> str:
    return f"{{nonResourceURLs: [{paths}], verbs: [{verbs}]}}"


def told(old: str, new: str) -> list[Change]:
    return list(changes(old, new))


CONFIG_MAPS = rule('""', "configmaps", "get, list")
CASES = [
    (
        "new rule",
        [CONFIG_MAPS],
        [CONFIG_MAPS, rule('""', "serviceaccounts/token", "create")],
        K.RULE_ADDED,
        S.DANGER,
        "may now create serviceaccounts/token",
    ),
    (
        "a verb that reads",
        [CONFIG_MAPS],
        [rule('""', "configmaps", "get, list, watch")],
        K.RULE_WIDENED,
        S.NOTICE,
        "may now watch configmaps",
    ),
    (
        "a verb that writes",
        [CONFIG_MAPS],
        [rule('""', "configmaps", "get, list, update")],
        K.RULE_WIDENED,
        S.WARNING,
        "may now update configmaps",
    ),
    (
        "all verbs",
        [CONFIG_MAPS],
        [rule('""', "configmaps", "'*'")],
        K.RULE_ADDED,
        S.DANGER,
        "may now do everything with configmaps",
    ),
    (
        "another group",
        [CONFIG_MAPS],
        [rule('"", apps', "configmaps", "get, list")],
        K.RULE_WIDENED,
        S.NOTICE,
        "may now get and list configmaps of apps",
    ),
    (
        "all groups",
        [CONFIG_MAPS],
        [CONFIG_MAPS, rule("'*'", "things", "get")],
        K.RULE_ADDED,
        S.DANGER,
        "may now get things of *",
    ),
    (
        "all resources of the core",
        [CONFIG_MAPS],
        [rule('""', "'*'", "get, list")],
        K.RULE_ADDED,
        S.DANGER,
        "may now get and list *",
    ),
    (
        "all resources of another",
        [CONFIG_MAPS],
        [CONFIG_MAPS, rule("apps", "'*'", "get")],
        K.RULE_ADDED,
        S.NOTICE,
        "may now get * of apps",
    ),
    (
        "secrets",
        [CONFIG_MAPS],
        [rule('""', "configmaps, secrets", "get, list")],
        K.RULE_WIDENED,
        S.DANGER,
        "may now get and list secrets",
    ),
    (
        "impersonate",
        [CONFIG_MAPS],
        [CONFIG_MAPS, rule('""', "users", "impersonate")],
        K.RULE_ADDED,
        S.DANGER,
        "may now impersonate users",
    ),
    (
        "roles",
        [CONFIG_MAPS],
        [CONFIG_MAPS, rule("rbac.authorization.k8s.io", "roles", "create")],
        K.RULE_ADDED,
        S.DANGER,
        "may now create roles",
    ),
    (
        "no longer by name",
        [rule('""', "configmaps", "get", "a")],
        [rule('""', "configmaps", "get")],
        K.RULE_ADDED,
        S.NOTICE,
        "may now get configmaps",
    ),
    (
        "another name",
        [rule('""', "configmaps", "get", "a")],
        [rule('""', "configmaps", "get", "a, b")],
        K.RULE_WIDENED,
        S.NOTICE,
        "may now get configmaps named b",
    ),
    (
        "no longer for requests without a name",
        [rule('""', "configmaps", "get, list", "''")],
        [rule('""', "configmaps", "get, list")],
        K.RULE_ADDED,
        S.NOTICE,
        "may now get and list configmaps",
    ),
    (
        "a URL",
        [CONFIG_MAPS],
        [CONFIG_MAPS, urls("/livez/ping", "head")],
        K.RULE_ADDED,
        S.NOTICE,
        "may now head /livez/ping",
    ),
    ("a URL to write to", [CONFIG_MAPS], [CONFIG_MAPS, urls("/x", "post")], K.RULE_ADDED, S.WARNING, "may now post /x"),
    ("all URLs", [urls("/x", "get")], [urls("'*'", "get")], K.RULE_ADDED, S.DANGER, "may now get *"),
    (
        "one of them gone",
        [CONFIG_MAPS, rule('""', "pods", "get")],
        [CONFIG_MAPS],
        K.RULE_REMOVED,
        S.NOTICE,
        "may no longer get pods",
    ),
    (
        "a verb gone",
        [CONFIG_MAPS],
        [rule('""', "configmaps", "get")],
        K.RULE_NARROWED,
        S.NOTICE,
        "may no longer list configmaps",
    ),
    (
        "wildcard gone",
        [rule('""', "configmaps", "'*'")],
        [CONFIG_MAPS],
        K.RULE_REMOVED,
        S.NOTICE,
        "may no longer do everything with configmaps",
    ),
    (
        "several places",
        [CONFIG_MAPS],
        [CONFIG_MAPS, "{apiGroups: [a, b], resources: [x], verbs: [get]}"],
        K.RULE_ADDED,
        S.NOTICE,
        "may now get x of a and x of b",
    ),
    (
        "what cannot be told",
        [CONFIG_MAPS],
        ["{apiGroups: [a], resources: [x], verbs: [get], more: x}"],
        K.RULE_WIDENED,
        S.DANGER,
        "cannot tell",
    ),
    ("no rule", [CONFIG_MAPS], ["text"], K.RULE_WIDENED, S.DANGER, "cannot tell"),
    (
        "a text for a list",
        [CONFIG_MAPS],
        ["{apiGroups: a, resources: [x], verbs: [get]}"],
        K.RULE_WIDENED,
        S.DANGER,
        "cannot tell",
    ),
    ("a long URL", [CONFIG_MAPS], [urls("/" + "x" * 200, "get")], K.RULE_WIDENED, S.DANGER, "cannot tell"),
    (
        "too much",
        [CONFIG_MAPS],
        [rule(", ".join(f"g{n}" for n in range(100)), ", ".join(f"r{n}" for n in range(100)), "get")],
        K.RULE_WIDENED,
        S.DANGER,
        "cannot tell",
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "kind", "severity", "words"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_what_a_role_may_is_told(
    old: list[str], new: list[str], kind: ChangeKind, severity: Severity, words: str
) -> None:
    change = next(change for change in told(role(*old), role(*new)) if change.kind is kind)
    assert change.severity is severity
    assert change.sentence.startswith("Role y/x ")
    assert words in change.sentence


SAME = [
    ("rules put together", [rule('""', "a", "get"), rule('""', "b", "get")], [rule('""', "a, b", "get")]),
    ("rules taken apart", [rule('""', "a", "get, list")], [rule('""', "a", "list"), rule('""', "a", "get")]),
    ("in another order", [rule('""', "a, b", "get")], [rule('""', "b, a", "get")]),
    (
        "what a wildcard covers",
        [rule("'*'", "'*'", "'*'")],
        [rule("'*'", "'*'", "'*'"), rule("apps", "x/y", "get", "z")],
    ),
    ("subresources", [rule("a", "'*/status'", "get")], [rule("a", "'*/status', x/status", "get")]),
    ("a prefix of URLs", [urls("'/a/*'", "get")], [urls("'/a/*', /a/b", "get")]),
]


@pytest.mark.parametrize(("old", "new"), [pytest.param(*case[1:], id=case[0]) for case in SAME])
def test_rules_that_permit_the_same_are_other(old: list[str], new: list[str]) -> None:
    for before, after in ((old, new), (new, old)):
        (change,) = told(role(*before), role(*after))
        assert (change.kind, change.severity) == (K.OTHER, S.INFO)
        assert "permit the same" in change.sentence


def test_a_subresource_is_not_covered_by_its_resource() -> None:
    found = told(role(rule("a", "pods", "get")), role(rule("a", "pods, pods/log", "get")))
    assert found[0].kind is K.RULE_WIDENED


NAMES = st.lists(st.sampled_from(["a", "b", "*", "b/c", "*/c"]), min_size=1, max_size=3, unique=True)
RULES = st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=3)


def _permits(rules: list[tuple[list[str], list[str], list[str]]], group: str, resource: str, verb: str) -> bool:
    """Say what Kubernetes' authorizer says."""

    def takes(values: list[str], wanted: str) -> bool:
        return wanted in values or "*" in values

    def matches(values: list[str]) -> bool:
        return takes(values, resource) or ("/" in resource and f"*/{resource.partition('/')[2]}" in values)

    return any(takes(groups, group) and matches(resources) and takes(verbs, verb) for groups, resources, verbs in rules)


@given(RULES, RULES)
def test_whatever_is_permitted_now_and_was_not_is_told(
    old: list[tuple[list[str], list[str], list[str]]], new: list[tuple[list[str], list[str], list[str]]]
) -> None:
    texts = [
        role(*(rule(*(", ".join(f'"{name}"' for name in part) for part in one)) for one in rules))
        for rules in (old, new)
    ]
    kinds = {change.kind for change in told(*texts)}
    for place in product(["a", "b", "z"], ["a", "b", "z", "b/c", "z/c", "z/d"], ["a", "b", "z"]):
        if _permits(new, *place) and not _permits(old, *place):
            assert kinds & {K.RULE_ADDED, K.RULE_WIDENED}
        if _permits(old, *place) and not _permits(new, *place):
            assert kinds & {K.RULE_REMOVED, K.RULE_NARROWED}


def test_a_permission_is_known_wherever_its_rule_stands() -> None:
    token = rule('""', "serviceaccounts/token", "create")
    (one,) = told(role(CONFIG_MAPS), role(CONFIG_MAPS, token))
    (other,) = told(role(CONFIG_MAPS), role(token, CONFIG_MAPS))
    assert one.fingerprint == other.fingerprint
    assert one.path != other.path


def test_all_verbs_of_objects_are_named_for_the_number_of_others_would_read_as_one_of_objects() -> None:
    verbs = "create, delete, deletecollection, get, list, patch, update, watch"
    (change,) = told("", role(rule('""', "configmaps", verbs)))
    assert (
        change.sentence
        == "Role y/x is new: may create, delete, deletecollection, get, list, patch, update and watch configmaps"
    )


def test_what_two_new_rules_permit_is_told_once() -> None:
    assert len(told(role(CONFIG_MAPS), role(CONFIG_MAPS, rule("a", "x", "get"), rule("a", "x", "get")))) == 1
    assert len(told(role(CONFIG_MAPS, rule("a", "x", "get"), rule("a", "x", "get")), role(CONFIG_MAPS))) == 1


def test_a_new_role_is_as_grave_as_what_it_permits() -> None:
    (change,) = told("", role(rule('""', "secrets", "get")))
    assert (change.kind, change.severity) == (K.ROLE_ADDED, S.DANGER)
    assert change.sentence == "Role y/x is new: may get secrets"
    (harmless,) = told("", role())
    assert (harmless.severity, harmless.sentence) == (S.INFO, "Role y/x is new: may do nothing")
    (unknown,) = told("", role("text"))
    assert (unknown.severity, unknown.sentence) == (
        S.DANGER,
        "Role y/x is new: the program cannot tell what it permits",
    )


def test_a_role_that_takes_its_rules_from_others_is_a_danger() -> None:
    more = "aggregationRule:\n  clusterRoleSelectors:\n  - matchLabels:\n      a: b\n"
    assert told(role(), role(more=more))[0].severity is S.DANGER
    (change,) = told("", role(more=more))
    assert change.severity is S.DANGER


def test_rights_for_everybody_with_a_role_are_told() -> None:
    edit = ('    rbac.authorization.k8s.io/aggregate-to-view: "true"\n', "")
    (gone,) = of_edit((f"  labels:\n{edit[0]}", ""))
    assert (gone.kind, gone.severity) == (K.RULE_NARROWED, S.NOTICE)
    (come,) = changes(TEXT.replace(*edit), TEXT)[:1]
    assert (come.kind, come.severity) == (K.RULE_WIDENED, S.WARNING)
    assert come.sentence == "ClusterRole crd-controller grants its permissions to all subjects with the role view"
    (other,) = changes(TEXT.replace(*edit), TEXT.replace(edit[0], edit[0].replace("true", "1")))[:1]
    assert (other.kind, other.severity) == (K.RULE_WIDENED, S.WARNING)
    assert other.sentence == "ClusterRole crd-controller may grant its permissions to all subjects with the role view"
    (off,) = of_edit((edit[0], edit[0].replace("true", "false")))
    assert off.kind is K.RULE_NARROWED


ACCOUNTS = "- kind: ServiceAccount\n  name: helm-controller\n  namespace: flux-system\n"


@pytest.mark.parametrize(
    ("old", "new", "kind", "severity", "words"),
    [
        pytest.param(
            ACCOUNTS,
            ACCOUNTS + "- kind: ServiceAccount\n  name: x\n  namespace: y\n",
            K.SUBJECT_ADDED,
            S.WARNING,
            "gives ClusterRole crd-controller to ServiceAccount y/x",
            id="added",
        ),
        pytest.param(
            ACCOUNTS,
            ACCOUNTS + "- kind: Group\n  name: system:authenticated\n",
            K.SUBJECT_ADDED,
            S.DANGER,
            "Group system:authenticated",
            id="everybody",
        ),
        pytest.param(
            ACCOUNTS,
            ACCOUNTS + "- kind: Group\n  name: system:serviceaccounts:x\n",
            K.SUBJECT_ADDED,
            S.WARNING,
            "Group",
            id="accounts of a namespace",
        ),
        pytest.param(
            ACCOUNTS,
            "",
            K.SUBJECT_REMOVED,
            S.NOTICE,
            "no longer gives ClusterRole crd-controller to ServiceAccount flux-system/helm-controller",
            id="removed",
        ),
        pytest.param(ACCOUNTS, ACCOUNTS + ACCOUNTS, K.OTHER, S.NOTICE, "changes subjects", id="twice"),
        pytest.param(
            "  name: crd-controller\nsubjects",
            "  name: cluster-admin\nsubjects",
            K.ROLE_REFERENCE,
            S.DANGER,
            "refers to ClusterRole cluster-admin instead of ClusterRole crd-controller",
            id="almighty",
        ),
        pytest.param(
            "  name: crd-controller\nsubjects",
            "  name: other\nsubjects",
            K.ROLE_REFERENCE,
            S.WARNING,
            "recreated",
            id="another role",
        ),
    ],
)
def test_whom_a_binding_gives_a_role_is_told(
    old: str, new: str, kind: ChangeKind, severity: Severity, words: str
) -> None:
    change = of_edit((old, new))[0]
    assert (change.kind, change.severity) == (kind, severity)
    assert words in change.sentence


def test_a_subject_is_the_same_with_the_group_that_it_has_by_default() -> None:
    (change,) = of_edit((ACCOUNTS, '- apiGroup: ""\n' + ACCOUNTS.replace("- ", "  ")))
    assert change.kind is K.OTHER


@pytest.mark.parametrize(
    ("text", "severity", "words"),
    [
        pytest.param(
            BINDING, S.WARNING, "ServiceAccount flux-system/source-controller and ServiceAccount", id="accounts"
        ),
        pytest.param(
            BINDING.replace("  name: crd-controller\nsubjects", "  name: cluster-admin\nsubjects"),
            S.DANGER,
            "gives ClusterRole cluster-admin",
            id="almighty",
        ),
        pytest.param(BINDING.partition("subjects")[0], S.WARNING, "to no subject", id="nobody"),
        pytest.param(BINDING.partition("roleRef")[0], S.WARNING, "gives no role to no subject", id="nothing"),
    ],
)
def test_a_new_binding_is_told(text: str, severity: Severity, words: str) -> None:
    (change,) = changes("", text)
    assert (change.kind, change.severity) == (K.BINDING_ADDED, severity)
    assert words in change.sentence


def test_the_role_of_the_sample_is_read() -> None:
    (change,) = changes("", ROLE)
    assert change.sentence == (
        "ClusterRole crd-controller is new: may get and list * of source.toolkit.fluxcd.io; "
        "get and update configmaps and configmaps/status; head /livez/ping"
    )
