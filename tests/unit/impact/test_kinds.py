# ruff: noqa: E501 - the tables have a row a line
"""What is said of each kind of change, by small edits of a components file."""

from __future__ import annotations

import pytest

from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.compare import changes
from tests.unit.impact.sample import (
    ACCOUNT,
    BINDING,
    CRD,
    DEPLOYMENT,
    NAMESPACE,
    POLICY,
    QUOTA,
    ROLE,
    SERVICE,
    TEXT,
    of_edit,
)

K = ChangeKind
S = Severity
SIDECAR = "      - image: busybox:1\n        name: sidecar\n"
NODE_SELECTOR = "      nodeSelector:\n"
DROP = "          capabilities:\n            drop:\n            - ALL\n"
POD_CONTEXT = "      securityContext:\n        fsGroup: 1337\n"
VOLUMES = "      volumes:\n      - emptyDir: {}\n        name: data\n"
PRIVILEGED = VOLUMES + "      - hostPath:\n          path: /var/run\n        name: run\n"
ENVIRONMENT = "        - name: TUF_ROOT\n          value: /tmp/.sigstore\n"
PORTS = "  - name: http\n    port: 80\n    protocol: TCP\n    targetPort: http\n"
OTHER_PORTS = "  - name: metrics\n    port: 81\n    targetPort: metrics\n"
ARGUMENTS = "        - --log-level=info\n        - --enable-leader-election\n"
GATES = "ExternalArtifact=true,ObjectLevelWorkloadIdentity=false"

EDITS = [
    # images
    (
        "image",
        "controller:v1.9.3",
        "controller:v1.9.4",
        K.IMAGE,
        S.INFO,
        "runs ghcr.io/fluxcd/source-controller:v1.9.4 instead",
    ),
    ("image from elsewhere", "ghcr.io/fluxcd/s", "evil.example/s", K.IMAGE, S.WARNING, "from another repository"),
    (
        "image with a digest",
        "controller:v1.9.3",
        "controller:v1.9.3@sha256:00",
        K.IMAGE,
        S.NOTICE,
        "under the same tag",
    ),
    (
        "image policy",
        "IfNotPresent",
        "Always",
        K.OTHER,
        S.NOTICE,
        "changes spec.template.spec.containers[manager].imagePullPolicy",
    ),
    # arguments
    (
        "argument added",
        ARGUMENTS,
        ARGUMENTS + "        - --one=1\n",
        K.ARGUMENT_ADDED,
        S.NOTICE,
        "adds argument --one=1",
    ),
    (
        "switch added",
        ARGUMENTS,
        ARGUMENTS + "        - --one\n",
        K.ARGUMENT_ADDED,
        S.NOTICE,
        "adds argument --one",
    ),
    (
        "switch removed",
        "        - --enable-leader-election\n",
        "",
        K.ARGUMENT_REMOVED,
        S.NOTICE,
        "removes argument --enable-leader-election",
    ),
    (
        "argument changed",
        "level=info",
        "level=debug",
        K.ARGUMENT_CHANGED,
        S.NOTICE,
        "changes argument --log-level to debug (was: info)",
    ),
    (
        "a lock",
        ARGUMENTS,
        ARGUMENTS + "        - --no-cross-namespace-refs=false\n",
        K.ARGUMENT_ADDED,
        S.WARNING,
        "--no-cross",
    ),
    (
        "an insecure one",
        ARGUMENTS,
        ARGUMENTS + "        - --insecure-kubeconfig-tls\n",
        K.ARGUMENT_ADDED,
        S.WARNING,
        "insecure",
    ),
    ("a word", ARGUMENTS, ARGUMENTS + "        - serve\n", K.ARGUMENT_ADDED, S.NOTICE, "adds argument serve"),
    (
        "arguments in another order",
        ARGUMENTS,
        "        - --enable-leader-election\n        - --log-level=info\n",
        K.ARGUMENT_CHANGED,
        S.INFO,
        "in another order",
    ),
    (
        "gate set",
        "ExternalArtifact=true",
        "ExternalArtifact=false",
        K.FEATURE_GATE,
        S.NOTICE,
        "sets feature gate ExternalArtifact to false",
    ),
    (
        "gate gone",
        GATES,
        "ExternalArtifact=true",
        K.FEATURE_GATE,
        S.NOTICE,
        "removes feature gate ObjectLevelWorkloadIdentity",
    ),
    (
        "gates gone",
        f"        - --feature-gates={GATES}\n",
        "",
        K.FEATURE_GATE,
        S.NOTICE,
        "removes feature gate ExternalArtifact",
    ),
    (
        "gates in another order",
        GATES,
        ",".join(reversed(GATES.split(","))),
        K.FEATURE_GATE,
        S.INFO,
        "written in another way",
    ),
    (
        "arguments no list",
        f"        - --feature-gates={GATES}\n        env:\n",
        f"        - --feature-gates={GATES}\n        command: x\n        env:\n",
        K.ARGUMENT_CHANGED,
        S.WARNING,
        "sets its command to x",
    ),
    # environment
    (
        "variable added",
        ENVIRONMENT,
        ENVIRONMENT + "        - name: ONE\n          value: x\n",
        K.ENVIRONMENT,
        S.NOTICE,
        "adds environment variable ONE",
    ),
    ("variable gone", ENVIRONMENT, "", K.ENVIRONMENT, S.NOTICE, "removes environment variable TUF_ROOT"),
    (
        "variable changed",
        "value: /tmp/.sigstore",
        "value: /x",
        K.ENVIRONMENT,
        S.NOTICE,
        "changes environment variable TUF_ROOT",
    ),
    (
        "variables in another order",
        f"        env:\n        - name: RUNTIME_NAMESPACE\n          valueFrom:\n            fieldRef:\n              fieldPath: metadata.namespace\n{ENVIRONMENT}",
        f"        env:\n{ENVIRONMENT}        - name: RUNTIME_NAMESPACE\n          valueFrom:\n            fieldRef:\n              fieldPath: metadata.namespace\n",
        K.ENVIRONMENT,
        S.INFO,
        "in another order",
    ),
    ("variable twice", ENVIRONMENT, ENVIRONMENT * 2, K.ENVIRONMENT, S.NOTICE, "changes its environment"),
    (
        "variables from elsewhere",
        "        image: ghcr",
        "        envFrom:\n        - secretRef:\n            name: x\n        image: ghcr",
        K.ENVIRONMENT,
        S.NOTICE,
        "takes variables from",
    ),
    # resources, probes
    (
        "resources",
        "memory: 1Gi",
        "memory: 2Gi",
        K.RESOURCES,
        S.NOTICE,
        "changes spec.template.spec.containers[manager].resources.limits.memory",
    ),
    ("resources gone", "            cpu: 1000m\n", "", K.RESOURCES, S.NOTICE, "removes spec"),
    ("probe", "path: /healthz", "path: /x", K.PROBE, S.NOTICE, "livenessProbe"),
    # security context
    (
        "escalation",
        "allowPrivilegeEscalation: false",
        "allowPrivilegeEscalation: true",
        K.SECURITY_LOWERED,
        S.DANGER,
        "is restricted less",
    ),
    (
        "escalation by default",
        "          allowPrivilegeEscalation: false\n",
        "",
        K.SECURITY_LOWERED,
        S.DANGER,
        "is restricted less",
    ),
    ("root", "runAsNonRoot: true", "runAsNonRoot: false", K.SECURITY_LOWERED, S.DANGER, "runAsNonRoot"),
    ("user root", "runAsUser: 1000", "runAsUser: 0", K.SECURITY_LOWERED, S.DANGER, "runAsUser"),
    ("another user", "runAsUser: 1000", "runAsUser: 1001", K.SECURITY_LOWERED, S.NOTICE, "check whether that is safer"),
    ("unconfined", "type: RuntimeDefault", "type: Unconfined", K.SECURITY_LOWERED, S.DANGER, "seccompProfile"),
    (
        "another profile",
        "type: RuntimeDefault",
        "type: Localhost",
        K.SECURITY_LOWERED,
        S.NOTICE,
        "check whether that is safer",
    ),
    ("another group", "fsGroup: 1337", "fsGroup: 1338", K.SECURITY_LOWERED, S.NOTICE, "check whether that is safer"),
    ("context of a pod gone", POD_CONTEXT, "", K.SECURITY_LOWERED, S.NOTICE, "check whether that is safer"),
    (
        "privileged",
        "          capabilities:\n",
        "          privileged: true\n          capabilities:\n",
        K.HOST_ACCESS_ADDED,
        S.DANGER,
        "sets spec.template.spec.containers[manager].securityContext.privileged",
    ),
    (
        "not privileged",
        "          readOnly",
        "          privileged: false\n          readOnly",
        K.OTHER,
        S.INFO,
        "which means the same",
    ),
    (
        "capability added",
        "            drop:\n",
        "            add:\n            - SYS_ADMIN\n            drop:\n",
        K.CAPABILITY_ADDED,
        S.DANGER,
        "SYS_ADMIN",
    ),
    ("capabilities not dropped", DROP, "", K.CAPABILITY_ADDED, S.DANGER, "not dropped: ALL"),
    (
        "capability dropped",
        "            - ALL\n",
        "            - ALL\n            - X\n",
        K.CAPABILITY_REMOVED,
        S.NOTICE,
        "dropped: X",
    ),
    (
        "capabilities in another way",
        "            drop:\n",
        "            add: []\n            drop:\n",
        K.OTHER,
        S.INFO,
        "capabilities written",
    ),
    (
        "host network",
        "      containers:\n",
        "      hostNetwork: true\n      containers:\n",
        K.HOST_ACCESS_ADDED,
        S.DANGER,
        "sets spec.template.spec.hostNetwork",
    ),
    (
        "no host users",
        "      nodeSelector:\n",
        "      hostUsers: false\n      nodeSelector:\n",
        K.HOST_ACCESS_REMOVED,
        S.NOTICE,
        "no longer sets spec.template.spec.hostUsers",
    ),
    (
        "shared processes",
        "      volumes:\n",
        "      shareProcessNamespace: true\n      volumes:\n",
        K.SECURITY_LOWERED,
        S.DANGER,
        "shareProcessNamespace",
    ),
    (
        "host path",
        "      - emptyDir: {}\n        name: data\n",
        "      - hostPath:\n          path: /\n        name: data\n",
        K.HOST_ACCESS_ADDED,
        S.DANGER,
        "mounts / of its node",
    ),
    (
        "host port",
        "containerPort: 8080\n",
        "containerPort: 8080\n          hostPort: 80\n",
        K.HOST_ACCESS_ADDED,
        S.DANGER,
        "listens on port 80",
    ),
    (
        "namespace less tight",
        "enforce: baseline",
        "enforce: privileged",
        K.SECURITY_LOWERED,
        S.DANGER,
        "restricts its pods less: enforce",
    ),
    (
        "namespace tighter",
        "enforce: baseline",
        "enforce: restricted",
        K.SECURITY_RAISED,
        S.NOTICE,
        "restricts its pods more: enforce restricted",
    ),
    (
        "namespace warns less",
        "warn: restricted",
        "warn: baseline",
        K.SECURITY_LOWERED,
        S.WARNING,
        "restricts its pods less: warn",
    ),
    (
        "namespace version",
        "warn-version: latest",
        "warn-version: v1.30",
        K.SECURITY_LOWERED,
        S.NOTICE,
        "check whether that is safer",
    ),
    (
        "namespace level that none knows",
        "    pod-security.kubernetes.io/enforce: baseline\n",
        "    pod-security.kubernetes.io/audit: privileged\n    pod-security.kubernetes.io/enforce: baseline\n",
        K.SECURITY_LOWERED,
        S.NOTICE,
        "check whether that is safer",
    ),
    # workloads and what they are given
    (
        "sidecar",
        NODE_SELECTOR,
        SIDECAR + NODE_SELECTOR,
        K.WORKLOAD_ADDED,
        S.WARNING,
        "adds container sidecar: busybox:1",
    ),
    ("container port", "containerPort: 8080\n", "containerPort: 8081\n", K.OTHER, S.NOTICE, "adds"),
    ("volume", "emptyDir: {}", "emptyDir:\n          medium: Memory", K.OTHER, S.NOTICE, "volumes[data]"),
    (
        "account of a pod",
        "serviceAccountName: source",
        "serviceAccountName: helm",
        K.SERVICE_ACCOUNT,
        S.WARNING,
        "serviceAccountName",
    ),
    (
        "token of a pod",
        "      containers:\n",
        "      automountServiceAccountToken: false\n      containers:\n",
        K.SERVICE_ACCOUNT,
        S.NOTICE,
        "adds spec.template.spec.automount",
    ),
    ("priority", "system-cluster-critical", "system-node-critical", K.PRIORITY_CLASS, S.NOTICE, "priorityClassName"),
    ("replicas", "replicas: 1", "replicas: 2", K.OTHER, S.NOTICE, "changes spec.replicas"),
    (
        "pod annotation",
        'prometheus.io/port: "8080"',
        'prometheus.io/port: "1"',
        K.METADATA,
        S.INFO,
        "changes annotation prometheus.io/port to 1 (was: 8080)",
    ),
    (
        "pod label gone",
        "        app: source-controller\n        app.k",
        "        app.k",
        K.METADATA,
        S.INFO,
        "removes label app",
    ),
    ("api version", "apiVersion: apps/v1\n", "apiVersion: apps/v1beta1\n", K.OTHER, S.NOTICE, "changes apiVersion"),
    ("a number is no switch", "replicas: 1", "replicas: true", K.OTHER, S.NOTICE, "changes spec.replicas"),
    # services, accounts, quota
    ("service port", "    port: 81\n", "    port: 82\n", K.SERVICE, S.NOTICE, "adds"),
    (
        "service target",
        "targetPort: metrics",
        "targetPort: http",
        K.SERVICE,
        S.NOTICE,
        "changes spec.ports[81/TCP]",
    ),
    ("service ports in another order", PORTS + OTHER_PORTS, OTHER_PORTS + PORTS, K.SERVICE, S.INFO, "in another order"),
    ("service ports twice", OTHER_PORTS, OTHER_PORTS * 2, K.SERVICE, S.NOTICE, "has ports"),
    ("service outside", "type: ClusterIP", "type: LoadBalancer", K.SERVICE, S.WARNING, "has type: LoadBalancer"),
    ("service selector", "  selector:\n    app: source-controller\n", "", K.SERVICE, S.NOTICE, "has selector: none"),
    (
        "service new",
        SERVICE,
        SERVICE + "---\n" + SERVICE.replace("name: source-controller", "name: x"),
        K.SERVICE,
        S.NOTICE,
        "Service flux-system/x is new",
    ),
    ("service gone", SERVICE + "---\n", "", K.SERVICE, S.NOTICE, "Service flux-system/source-controller is gone"),
    ("account", ACCOUNT, ACCOUNT + "secrets:\n- name: x\n", K.SERVICE_ACCOUNT, S.NOTICE, "adds secrets"),
    ("account gone", ACCOUNT + "---\n", "", K.SERVICE_ACCOUNT, S.NOTICE, "is gone"),
    ("quota", '"1000"', '"2000"', K.QUOTA, S.NOTICE, "changes spec.hard.pods"),
    ("quota gone", QUOTA + "---\n", "", K.QUOTA, S.NOTICE, "is gone"),
    ("crd gone", "---\n" + CRD, "", K.CRD_REMOVED, S.DANGER, "is gone"),
    ("namespace gone", NAMESPACE + "---\n", "", K.OTHER, S.DANGER, "Namespace flux-system is gone"),
    ("workload gone", DEPLOYMENT + "---\n", "", K.WORKLOAD_REMOVED, S.DANGER, "is gone"),
    ("policy gone", POLICY + "---\n", "", K.NETWORK_POLICY_REMOVED, S.DANGER, "is gone"),
    ("role gone", ROLE + "---\n", "", K.ROLE_REMOVED, S.NOTICE, "is gone: may"),
    ("binding gone", BINDING + "---\n", "", K.BINDING_REMOVED, S.NOTICE, "it gave ClusterRole crd-controller to"),
]


@pytest.mark.parametrize(
    ("old", "new", "kind", "severity", "words"), [pytest.param(*edit[1:], id=edit[0]) for edit in EDITS]
)
def test_each_edit_is_known_for_what_it_is(
    old: str, new: str, kind: ChangeKind, severity: Severity, words: str
) -> None:
    found = of_edit((old, new))
    assert (kind, severity) in [(change.kind, change.severity) for change in found], found
    assert any(words in change.sentence for change in found if change.kind is kind), found
    assert {change.belongs_to for change in found} >= {kind.belongs_to}


SINGLE = {edit[0] for edit in EDITS} - {
    "gates gone",
    "resources gone",
    "host path",
    "container port",
    "volume",
    "service port",
    "capabilities not dropped",
}


@pytest.mark.often
@pytest.mark.parametrize(("old", "new"), [pytest.param(*edit[1:3], id=edit[0]) for edit in EDITS if edit[0] in SINGLE])
def test_an_edit_is_one_change(old: str, new: str) -> None:
    assert len(of_edit((old, new))) == 1


BACK = [
    (
        "image without its digest",
        "controller:v1.9.3@sha256:00",
        "controller:v1.9.3",
        K.IMAGE,
        "no longer pinned by digest",
    ),
    ("gates", GATES, "", K.FEATURE_GATE, " to true"),
    (
        "escalation",
        "allowPrivilegeEscalation: false",
        "allowPrivilegeEscalation: true",
        K.SECURITY_RAISED,
        "restricted more",
    ),
    ("user", "runAsUser: 1000", "runAsUser: 0", K.SECURITY_RAISED, "restricted more"),
    ("profile", "type: RuntimeDefault", "type: Unconfined", K.SECURITY_RAISED, "restricted more"),
    (
        "capability",
        "            drop:\n",
        "            add:\n            - SYS_ADMIN\n            drop:\n",
        K.CAPABILITY_REMOVED,
        "SYS_ADMIN",
    ),
    (
        "host network",
        "      containers:\n",
        "      hostNetwork: true\n      containers:\n",
        K.HOST_ACCESS_REMOVED,
        "no longer sets",
    ),
    (
        "host path",
        "      - emptyDir: {}\n        name: data\n",
        "      - hostPath:\n          path: /\n        name: data\n",
        K.HOST_ACCESS_REMOVED,
        "no longer",
    ),
    (
        "host port",
        "containerPort: 8080\n",
        "containerPort: 8080\n          hostPort: 80\n",
        K.HOST_ACCESS_REMOVED,
        "no longer",
    ),
    ("sidecar", NODE_SELECTOR, SIDECAR + NODE_SELECTOR, K.WORKLOAD_REMOVED, "removes container sidecar"),
    ("command", "        env:\n", "        command:\n        - x\n        env:\n", K.ARGUMENT_CHANGED, "of its image"),
    (
        "sources",
        "        image: ghcr",
        "        envFrom:\n        - secretRef:\n            name: x\n        image: ghcr",
        K.ENVIRONMENT,
        "nowhere else",
    ),
    ("crd", "---\n" + CRD, "", K.CRD_ADDED, "is new"),
    ("quota", QUOTA + "---\n", "", K.QUOTA, "is new"),
    ("workload", DEPLOYMENT + "---\n", "", K.WORKLOAD_ADDED, "is new: it runs ghcr.io/fluxcd/source-controller:v1.9.3"),
    ("policy", POLICY + "---\n", "", K.NETWORK_POLICY_ADDED, "is new"),
    (
        "label",
        "        app: source-controller\n        app.k",
        "        app.k",
        K.METADATA,
        "adds label app: source-controller",
    ),
]


@pytest.mark.parametrize(("old", "new", "kind", "words"), [pytest.param(*edit[1:], id=edit[0]) for edit in BACK])
def test_each_edit_is_known_on_its_way_back(old: str, new: str, kind: ChangeKind, words: str) -> None:
    there = TEXT.replace(old, new) if old in TEXT else TEXT.replace(new, old)
    found = changes(there, TEXT)
    assert any(words in change.sentence for change in found if change.kind is kind), found


def test_a_new_workload_is_told_with_what_it_may_do_to_its_machine() -> None:
    pod = (
        DEPLOYMENT.replace("name: source-controller\n  namespace", "name: evil\n  namespace")
        .replace("      containers:\n", "      hostPID: true\n      containers:\n")
        .replace(VOLUMES, PRIVILEGED)
        .replace("containerPort: 8080", "containerPort: 8080\n          hostPort: 80")
        .replace("runAsNonRoot: true", "privileged: true")
    )
    found = of_edit((DEPLOYMENT, DEPLOYMENT + "---\n" + pod))
    danger = {change.path for change in found if change.kind is K.HOST_ACCESS_ADDED}
    assert len(danger) == 4
    assert found[-1].kind is K.WORKLOAD_ADDED


def test_what_a_field_is_by_default_may_be_written_out() -> None:
    text = DEPLOYMENT.replace("          readOnlyRootFilesystem: true\n", "")
    (change,) = changes(text, DEPLOYMENT.replace("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"))
    assert (change.kind, change.severity) == (K.OTHER, S.INFO)


@pytest.mark.parametrize(
    ("kind", "api", "template"),
    [
        (
            "CronJob",
            "batch/v1",
            "spec:\n  jobTemplate:\n    spec:\n      template:\n        spec:\n          containers:\n          - image: IMAGE\n            name: x\n",
        ),
        (
            "Job",
            "batch/v1",
            "spec:\n  template:\n    spec:\n      initContainers:\n      - image: IMAGE\n        name: x\n",
        ),
        ("Pod", "v1", "spec:\n  containers:\n  - image: IMAGE\n    name: x\n"),
    ],
)
def test_a_pod_is_found_wherever_it_is(kind: str, api: str, template: str) -> None:
    text = f"apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: x\n{template}"
    (change,) = changes(text, text.replace("IMAGE", "other"))
    assert change.kind is K.IMAGE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "      containers:\n      - args:",
            "      containers:\n      - x\n      - args:",
            id="container that is none",
        ),
        pytest.param("        name: manager\n", "", id="container without a name"),
        pytest.param("      volumes:\n", "      volumes:\n      - x\n", id="volume that is none"),
        pytest.param("        ports:\n", "        ports:\n        - 1\n", id="port that is none"),
        pytest.param(
            "        securityContext:\n", "        securityContext:\n          capabilities: x\n", id="key twice"
        ),
        pytest.param(POD_CONTEXT, "      securityContext: x\n", id="context that is none"),
        pytest.param(
            "  labels:\n    app.kubernetes.io/version: v2.9.3\n  name: source",
            "  labels: x\n  name: source",
            id="labels that are none",
        ),
        pytest.param(VOLUMES, "      volumes: x\n", id="volumes that are none"),
    ],
)
def test_what_no_rule_understands_is_told_all_the_same(old: str, new: str) -> None:
    assert of_edit((old, new))


def test_containers_in_another_order_are_told() -> None:
    two = TEXT.replace(NODE_SELECTOR, SIDECAR + NODE_SELECTOR)
    head, _, tail = two.partition("      - args:")
    first, _, rest = tail.partition(SIDECAR)
    (change,) = changes(two, f"{head}{SIDECAR}      - args:{first}{rest}")
    assert change.kind is K.OTHER
    assert change.sentence.endswith("has its containers in another order")


@pytest.mark.parametrize("args", ["        args: x\n", ""], ids=["a text", "missing"])
def test_arguments_that_are_no_list(args: str) -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  containers:\n  - name: x\n{args[4:]}"
    found = changes(text, text.replace("  - name: x\n" + args[4:], "  - name: x\n    args: y\n"))
    assert [change.kind for change in found] == [K.ARGUMENT_CHANGED]


def test_an_object_that_nobody_knows_is_told_when_it_comes_and_goes() -> None:
    text = "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: x\n"
    assert [change.kind for change in (*changes("", text), *changes(text, ""))][:1] == [K.OTHER]
    assert any("Thing x is new" in change.sentence for change in changes("", text))
