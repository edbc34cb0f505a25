"""What a configuration says about changes, hazards, clusters and promotions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.config.document import InvalidConfig
from ci_automation.config.load import parse_config
from ci_automation.config.model import ClustersConfig, EvidenceConfig, PromoteConfig
from ci_automation.impact.change import ChangeClass
from ci_automation.impact.check import KubernetesRange
from ci_automation.policy.model import ESCALATE, Acknowledgement, Allowance

if TYPE_CHECKING:
    from ci_automation.config.sections import Artifact

FINGERPRINT = "0123456789abcdef"


def artifact(lines: str, defaults: str = "{}") -> Artifact:
    text = f"version: 1\ndefaults: {defaults}\nartifacts:\n  - name: a\n    url: oci://r.example/a:b\n{lines}"
    return parse_config(text.encode(), "config.yaml").artifacts[0]


class TestClasses:
    def test_those_of_the_design_and_what_has_no_class_ask_by_default(self) -> None:
        wanted = {"rbac", "networkPolicy", "crdRemoval", "crdTightened", "securityContext", "newWorkload", "other"}
        assert artifact("").policy.escalate == ESCALATE == {ChangeClass(name) for name in wanted}
        assert artifact("").policy.refuse == frozenset()

    def test_a_list_takes_the_place_of_the_default(self) -> None:
        found = artifact("    policy: {escalate: [image]}\n", "{policy: {escalate: [rbac], patch: never}}")
        assert found.policy.escalate == {ChangeClass.IMAGE}
        assert artifact("    policy: {escalate: []}\n").policy.escalate == frozenset()

    def test_refused_is_what_the_artifact_says_or_else_the_defaults(self) -> None:
        assert artifact("", "{refuse: [rbac, notChecked]}").policy.refuse == {"rbac", "notChecked"}
        assert artifact("    refuse: [crdRemoval]\n", "{refuse: [rbac]}").policy.refuse == {"crdRemoval"}

    @pytest.mark.parametrize("line", ["    policy: {escalate: [rbak]}\n", "    refuse: [everything]\n"])
    def test_what_is_no_class_is_told(self, line: str) -> None:
        with pytest.raises(InvalidConfig, match="is not"):
            artifact(line)


class TestAcknowledge:
    @pytest.mark.parametrize(
        ("until", "moment"),
        [
            ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
            ("'2027-01-31'", datetime(2027, 1, 31, tzinfo=UTC)),
            ("2027-01-31T08:00:00Z", datetime(2027, 1, 31, 8, tzinfo=UTC)),
            ("'2027-01-31T08:00:00+01:00'", datetime(2027, 1, 31, 8, tzinfo=timezone(timedelta(hours=1)))),
        ],
    )
    def test_by_fingerprint_until_a_date_with_a_reason(self, until: str, moment: datetime) -> None:
        found = artifact(f"    acknowledge: [{{fingerprint: '{FINGERPRINT}', until: {until}, reason: unused}}]\n")
        assert found.policy.acknowledge == (Acknowledgement(FINGERPRINT, moment, "unused"),)

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            (f"{{fingerprint: '{FINGERPRINT}', reason: x}}", "until: is missing"),
            (f"{{fingerprint: '{FINGERPRINT}', until: 2027-01-31}}", "reason: is missing"),
            (f"{{fingerprint: '{FINGERPRINT}', until: soon, reason: x}}", "it is not a date"),
            (f"{{fingerprint: '{FINGERPRINT}', until: 7, reason: x}}", "it is not a date"),
            (f"{{fingerprint: '{FINGERPRINT}', until: [2027-01-31], reason: x}}", "until: it is not a date"),
            (f"{{fingerprint: '{FINGERPRINT}', until: {{day: 2027-01-31}}, reason: x}}", "until: it is not a date"),
            ("{fingerprint: all, until: 2027-01-31, reason: x}", "'all' is not a fingerprint"),
        ],
    )
    def test_nothing_of_it_can_be_left_out(self, entry: str, said: str) -> None:
        with pytest.raises(InvalidConfig, match=said):
            artifact(f"    acknowledge: [{entry}]\n")


class TestRemovalsAndEdits:
    def test_each_is_named_until_a_date_with_a_reason(self) -> None:
        digest, until = f"sha256:{'0' * 64}", datetime(2027, 1, 31, tzinfo=UTC)
        found = artifact(
            "    allowRemoval: [{name: Deployment/image-reflector-controller, until: 2027-01-31, reason: unused}]\n"
            f"    acceptEdits: [{{digest: '{digest}', until: 2027-01-31, reason: patched}}]\n"
        ).policy
        assert found.allow_removal == (Allowance("Deployment/image-reflector-controller", until, "unused"),)
        assert found.accept_edits == (Allowance(digest, until, "patched"),)

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("allowRemoval: [{name: image-reflector-controller, until: 2027-01-31, reason: x}]", "a controller or CRD"),
            ("allowRemoval: [{name: Deployment/a, reason: x}]", "until: is missing"),
            ("acceptEdits: [{digest: sha256:0, until: 2027-01-31, reason: x}]", "a digest: sha256: and 64 hex"),
            ("acceptEdits: [{until: 2027-01-31, reason: x}]", "digest: is missing"),
            ("acceptEdits: true", "must be a list"),
        ],
    )
    def test_nothing_of_it_can_be_left_out(self, line: str, said: str) -> None:
        with pytest.raises(InvalidConfig, match=said):
            artifact(f"    {line}\n")


class TestClusters:
    def test_what_is_known_of_them(self) -> None:
        line = "    clusters: {kubernetes: 1.31-1.34, snapshots: [crds.json], objects: [apps, 'oci://r.example/x:y']}\n"
        known = ClustersConfig(KubernetesRange(31, 34), ("crds.json",), ("apps", "oci://r.example/x:y"))
        assert artifact(line).clusters == known

    def test_each_key_of_the_defaults_holds_where_the_artifact_is_silent(self) -> None:
        found = artifact("    clusters: {objects: [apps]}\n", "{clusters: {kubernetes: '1.33'}, pinImages: true}")
        assert found.clusters == ClustersConfig(KubernetesRange(33, 33), objects=("apps",))
        assert found.pin_images

    def test_what_is_no_version_of_kubernetes_is_told(self) -> None:
        with pytest.raises(InvalidConfig, match="is no version of Kubernetes"):
            artifact("    clusters: {kubernetes: latest}\n")


def test_a_promotion_names_its_source_its_soak_time_and_its_evidence() -> None:
    where = "oci://h.test/staging:stable"
    told = "[{url: 'https://h.test', field: ok, equals: 'true'}]"
    line = f"    promote: {{from: '{where}', after: 72h, evidence: {told}}}\n"
    evidence = replace(EvidenceConfig(), url="https://h.test", field="ok", equals="true")
    assert artifact(line).promote == PromoteConfig(where, timedelta(hours=72), (evidence,))
    assert artifact("").promote is None


def promoted(more: str = "", b: str = "{from: a}", a: str = "") -> str:
    """Return what is wrong with a file of two artifacts, the second promoted from the first."""
    first = f"    promote: {a}\n" if a else ""
    text = (
        "version: 1\nartifacts:\n"
        f"  - name: a\n    url: oci://h.test/a:stable\n{first}"
        f"  - name: b\n    url: oci://h.test/b:stable\n    promote: {b}\n{more}"
    )
    try:
        parse_config(text.encode(), "config.yaml")
    except InvalidConfig as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "b",
    [
        "{from: a}",
        "{from: 'oci://h.test/a:stable'}",
        "{from: 'oci://elsewhere.test/a:stable', after: 72h}",
        "{from: a, evidence: [{status: e2e, repository: acme/fleet}, {report: report.json}]}",
    ],
)
def test_a_promotion_that_goes_together_is_taken(b: str) -> None:
    assert promoted(b=b) == ""


@pytest.mark.parametrize(
    ("more", "b", "a", "problem"),
    [
        ("", "{from: c}", "", "promote.from: 'c' is neither the name of an artifact (a, b)"),
        ("", "{from: b}", "", "leads back to this artifact"),
        ("", "{from: a}", "{from: b}", "artifacts[1].promote.from: leads back to this artifact"),
        ("    flags: {log-level: debug}\n", "{from: a}", "", "is for rendering"),
        ("    overlay: clusters/b\n", "{from: a}", "", "artifacts[1].overlay: is for rendering"),
        ("    pinImages: true\n", "{from: a}", "", "artifacts[1].pinImages: is for rendering"),
        ("", "{from: a, evidence: [{field: x}]}", "", "takes one of url, status and report"),
        ("", "{from: a, evidence: [{url: 'https://h', report: x}]}", "", "takes one of url, status and report"),
        ("", "{from: a, evidence: [{url: 'https://h', field: x}]}", "", "url, field and equals go together"),
        ("", "{from: a, evidence: [{report: x, repository: acme/fleet}]}", "", "status and repository go together"),
    ],
)
def test_a_promotion_that_does_not_is_told(more: str, b: str, a: str, problem: str) -> None:
    assert problem in promoted(more, b, a)


def test_a_source_that_is_nearly_the_name_of_an_artifact_is_told_with_it() -> None:
    two = "artifacts: [{name: staging, url: 'layout:a:s'}, {name: b, url: 'layout:a:b', promote: {from: stagging}}]"
    with pytest.raises(InvalidConfig, match=r"'stagging' is neither the name .* channel; did you mean staging\?"):
        parse_config(f"version: 1\n{two}\n".encode(), "a.yaml")
