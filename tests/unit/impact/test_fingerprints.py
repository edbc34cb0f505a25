"""The fingerprints of changes stay: the acknowledgements in configurations name them."""

from __future__ import annotations

import pytest

from ci_automation.impact.compare import changes
from tests.unit.impact.sample import ALL, TEXT, edited


@pytest.mark.parametrize(
    ("old", "new", "fingerprints"),
    [
        pytest.param("source-controller:v1.9.3", "source-controller:v1.9.4", ["ef0a1c52522b4bc6"], id="another image"),
        pytest.param("  - update\n", "  - update\n  - delete\n", ["d180ef51f7bad5a1"], id="a rule permits more"),
        pytest.param("  - list\n", "", ["52063bbd5e3b9292"], id="a rule permits less"),
        pytest.param("  - configmaps/status\n", "", ["fe309d8c7e2b0c5f"], id="a resource less"),
        pytest.param(
            "  name: helm-controller\n",
            "  name: other-controller\n",
            ["4cd9ee576467b825", "1e280d719df215fa"],
            id="another subject",
        ),
        pytest.param(
            "    - port: 9292\n", "    - port: 9293\n", ["437a26d9c8e1d13a", "cc53ec805c4c709e"], id="another port"
        ),
        pytest.param("--log-level=info", "--log-level=debug", ["073acc924e747159"], id="an argument"),
        pytest.param("ExternalArtifact=true", "ExternalArtifact=false", ["1612ef084c019b09"], id="a feature gate"),
        pytest.param("runAsNonRoot: true", "runAsNonRoot: false", ["b1d827342fb0d0f6"], id="root is allowed"),
        pytest.param("runAsUser: 1000", "runAsUser: 0", ["d198609f69280f22"], id="root"),
        pytest.param(
            "    port: 81\n", "    port: 82\n", ["4bd1dacd04c5bb4d", "0563a54a0d3ef6e5"], id="a port of a service"
        ),
        pytest.param(
            'prometheus.io/port: "8080"',
            'prometheus.io/port: "8081"',
            ["e7cf3b4aefb8c662"],
            id="an annotation of a pod",
        ),
        pytest.param(
            "        - name: TUF_ROOT\n",
            "        - name: TUF\n",
            ["e1e2abe70958e9c5", "5311f281c7076c1e"],
            id="a variable",
        ),
        pytest.param(
            "  - name: v1\n",
            "  - name: v2\n",
            ["2994fe9e03c072d4", "5e43d54a09c6bf78", "8dcae0c7dcff736d"],
            id="a version changes name",
        ),
        pytest.param(
            "            - name\n            type",
            "            - name\n            - other\n            type",
            ["446652fb0d168205"],
            id="a field is required",
        ),
        pytest.param(
            "kind: ResourceQuota",
            "kind: LimitRange",
            ["263449d17225e912", "577e599b0cc740b4"],
            id="another kind of quota",
        ),
        pytest.param(
            "      - emptyDir: {}\n",
            "      - hostPath: {path: /}\n",
            ["a8b75da268850025", "97966948cecd1fda"],
            id="a folder of the machine",
        ),
        pytest.param(
            "        - containerPort: 9090\n",
            "        - containerPort: 9090\n          hostPort: 9090\n",
            ["c7aa42d4a2371e0c"],
            id="a port of the machine",
        ),
    ],
)
def test_of_what_changes(old: str, new: str, fingerprints: list[str]) -> None:
    assert [change.fingerprint for change in changes(TEXT, edited((old, new)))] == fingerprints


@pytest.mark.parametrize(
    ("kind", "fingerprints"),
    [
        ("Namespace", ["5ad1b20f95f1845b"]),
        ("NetworkPolicy", ["6f20d8948b494ac2"]),
        ("ResourceQuota", ["577e599b0cc740b4"]),
        ("ClusterRole", ["c2095daf05bde2ac"]),
        ("ClusterRoleBinding", ["56b88a974098c3ff"]),
        ("ServiceAccount", ["1bea0b655c411e33"]),
        ("Service", ["4fd78bd95ffb9b64"]),
        ("Deployment", ["bf8f3f9061c003f6"]),
        ("CustomResourceDefinition", ["2df3e13806eee3d5", "b741ecb98c76f833"]),
    ],
)
def test_of_what_is_gone(kind: str, fingerprints: list[str]) -> None:
    (gone,) = [text for text in ALL if f"\nkind: {kind}\n" in f"\n{text}"]
    assert [change.fingerprint for change in changes(TEXT, TEXT.replace(gone, ""))] == fingerprints
