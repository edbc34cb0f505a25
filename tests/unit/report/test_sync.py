from __future__ import annotations

from typing import Any

import pytest
import re2
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.flux.following import FleetSettings, SyncSettings
from ci_automation.flux.version import Version
from ci_automation.report.cluster_objects import InvalidObjectName, as_yaml
from ci_automation.report.sync import (
    ByIdentity,
    ByKey,
    InvalidSync,
    NoSingleIdentity,
    NotForClusters,
    Sync,
    inline_entry,
    sync_path,
)
from tests.unit.report.syncs import ISSUER, KEYED, KEYLESS, SUBJECT

MARKED = {"app.kubernetes.io/managed-by": "flux-manifests"}


def parsed(sync: Sync) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both objects as a cluster reads them."""
    source, kustomization = yaml.safe_load_all(sync.to_yaml())
    return source, kustomization


def test_the_objects_for_an_identity_to_the_letter() -> None:
    assert (
        KEYLESS.to_yaml()
        == r"""# Verified by the public Sigstore: no Secret is needed.
# With prune: true, deleting the Kustomization flux-manifests deletes Flux, CRDs too: suspend it first.
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata:
  name: flux-manifests
  namespace: flux-system
  labels:
    app.kubernetes.io/managed-by: flux-manifests
spec:
  interval: 10m
  url: oci://ghcr.io/acme/flux-manifests
  ref:
    tag: production
  verify:
    provider: cosign
    matchOIDCIdentity:
      - issuer: "^https://token\\.actions\\.githubusercontent\\.com$"
        subject: "^https://github\\.com/acme/fleet/\\.github/workflows/flux\\.yaml@refs/heads/main$"
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: flux-manifests
  namespace: flux-system
  labels:
    app.kubernetes.io/managed-by: flux-manifests
spec:
  interval: 10m
  path: ./flux-system
  prune: true
  sourceRef:
    kind: OCIRepository
    name: flux-manifests
"""
    )


def test_keys_are_in_a_secret_that_the_text_says_how_to_make() -> None:
    text = KEYED.to_yaml()
    assert parsed(KEYED)[0]["spec"]["verify"] == {"provider": "cosign", "secretRef": {"name": "cosign-pub"}}
    assert "#   sha256:1111" in text
    assert (
        "# Make it first:  flux-manifests public-key cosign.pub --secret cosign-pub --namespace flux-system | kube"
        in text
    )


def test_an_own_sigstore_is_a_secret_that_only_newer_clusters_read() -> None:
    sync = replace(KEYLESS, verify=ByIdentity(((ISSUER, SUBJECT),), root_secret="own-root"))
    assert parsed(sync)[0]["spec"]["verify"] == {
        "provider": "cosign",
        "matchOIDCIdentity": [{"issuer": ISSUER, "subject": SUBJECT}],
        "trustedRootSecretRef": {"name": "own-root"},
    }
    assert "Flux reads it since v2.9" in sync.to_yaml()
    assert "create secret generic own-root --from-file=trusted_root.json" in sync.to_yaml()


def test_the_public_sigstore_needs_no_secret() -> None:
    assert "trustedRootSecretRef" not in KEYLESS.to_yaml()
    assert "ecretRef" not in KEYLESS.to_yaml()


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v2.5.1", "v1beta2"), ("v2.6.0-rc.1", "v1beta2"), ("v2.6.0", "v1"), ("v2.9.4", "v1"), ("v3.0.0", "v1")],
)
def test_the_version_of_the_api_is_one_that_the_deployed_flux_has(version: str, expected: str) -> None:
    source, kustomization = parsed(replace(KEYLESS, version=Version.parse(version)))
    assert source["apiVersion"] == f"source.toolkit.fluxcd.io/{expected}"
    assert kustomization["apiVersion"] == "kustomize.toolkit.fluxcd.io/v1"


@pytest.mark.parametrize(
    ("address", "insecure"),
    [("oci://127.0.0.1:5000/a:b", True), ("oci://localhost/a:b", True), ("oci://10.0.0.1/a:b", None)],
)
def test_only_this_machine_is_spoken_to_without_tls(address: str, insecure: bool | None) -> None:
    source, _ = parsed(replace(KEYLESS, channel=Reference.parse(address)))
    assert source["spec"].get("insecure") is insecure


def test_a_folder_is_nothing_that_clusters_read() -> None:
    with pytest.raises(NotForClusters):
        replace(KEYLESS, channel=Reference.parse("layout:registry:production"))


def test_an_address_by_digest_is_followed_by_that_digest() -> None:
    digest = f"sha256:{'0' * 64}"
    source, _ = parsed(replace(KEYLESS, channel=Reference.parse(f"oci://ghcr.io/a@{digest}")))
    assert source["spec"]["ref"] == {"digest": digest}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"settings": SyncSettings(name="Flux")}, id="capitals"),
        pytest.param({"settings": SyncSettings(name="")}, id="no name"),
        pytest.param({"settings": SyncSettings(name="x\ny")}, id="a name of two lines"),
        pytest.param({"settings": SyncSettings(interval="ten minutes")}, id="an interval in words"),
        pytest.param({"settings": SyncSettings(interval="10")}, id="an interval without a unit"),
        pytest.param({"verify": ByKey("a/b", ())}, id="a Secret with a slash"),
        pytest.param({"verify": ByIdentity(((ISSUER, SUBJECT),), root_secret="")}, id="a Secret without a name"),
    ],
)
def test_what_kubernetes_would_not_take_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((InvalidSync, InvalidObjectName)):
        replace(KEYLESS, **changes)


@pytest.mark.parametrize(
    ("patterns", "match", "differ"),
    [
        pytest.param(
            ((ISSUER, "^a$"), (ISSUER, "^b$")),
            [
                ("https://token.actions.githubusercontent.com", "a"),
                ("https://token.actions.githubusercontent.com", "b"),
            ],
            [("https://token.actions.githubusercontent.com", "ab"), ("other", "a")],
            id="two subjects",
        ),
        pytest.param((("^i$", "^a$"), ("^j$", "^a$")), [("i", "a"), ("j", "a")], [("ij", "a")], id="two issuers"),
        pytest.param(
            (("^i$", "^a$|^b$"), ("^i$", "c$")), [("i", "b"), ("i", "xc")], [("i", "xb")], id="own alternatives"
        ),
        pytest.param((("^i$", "(?i)^a$"), ("^i$", "^b$")), [("i", "A"), ("i", "b")], [("i", "B")], id="own flags"),
        pytest.param((("^i$", "^a$"),) * 2, [("i", "a")], [("i", "b")], id="the same twice"),
    ],
)
def test_several_identities_are_one_entry(
    patterns: tuple[tuple[str, str], ...], match: list[tuple[str, str]], differ: list[tuple[str, str]]
) -> None:
    source, _ = parsed(replace(KEYLESS, verify=ByIdentity(patterns)))
    (entry,) = source["spec"]["verify"]["matchOIDCIdentity"]

    def accepted(issuer: str, subject: str) -> bool:
        return bool(re2.search(entry["issuer"], issuer) and re2.search(entry["subject"], subject))

    assert all(accepted(*identity) for identity in match)
    assert not any(accepted(*identity) for identity in differ)


def test_identities_whose_mixtures_would_be_let_in_are_refused() -> None:
    with pytest.raises(NoSingleIdentity):
        replace(KEYLESS, verify=ByIdentity((("^i$", "^a$"), ("^j$", "^b$")))).to_yaml()


@given(st.text(min_size=1), st.text(min_size=1))
def test_whatever_a_pattern_says_the_cluster_reads_just_that(issuer: str, subject: str) -> None:
    source, kustomization = parsed(replace(KEYLESS, verify=ByIdentity(((issuer, subject),))))
    assert source["spec"]["verify"]["matchOIDCIdentity"] == [{"issuer": issuer, "subject": subject}]
    assert kustomization == KEYLESS.objects()[1]


@pytest.mark.parametrize(("subject", "written"), [(r"^a\.b$", r"'^a\.b$'"), ("it's", "'it''s'"), ("\u2028", r'"\L"')])
def test_an_entry_in_one_line_is_quoted(subject: str, written: str) -> None:
    assert inline_entry("^i$", subject) == f"verify.matchOIDCIdentity: [{{issuer: '^i$', subject: {written}}}]"


@given(st.text(min_size=1), st.text(min_size=1))
def test_an_entry_in_one_line_says_just_that_too(issuer: str, subject: str) -> None:
    key, _, value = inline_entry(issuer, subject).partition(": ")
    assert (key, yaml.safe_load(value)) == ("verify.matchOIDCIdentity", [{"issuer": issuer, "subject": subject}])


@given(
    st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", fullmatch=True),
    st.from_regex(r"\./[^\ud800-\udfff]*", fullmatch=True),
)
def test_tags_and_paths_stay_texts(tag: str, path: str) -> None:
    source, kustomization = parsed(replace(KEYLESS, channel=KEYLESS.channel.at_tag(tag), path=path))
    assert (source["spec"]["ref"]["tag"], kustomization["spec"]["path"]) == (tag, path)


@pytest.mark.parametrize(
    "word", ["true", "null", "no", "on", "1.0", "1e3", "0x1f", "2026-01-01", "NO", "True", "1_000"]
)
def test_a_tag_that_yaml_would_take_for_something_else(word: str) -> None:
    source, _ = parsed(replace(KEYLESS, channel=KEYLESS.channel.at_tag(word)))
    assert source["spec"]["ref"]["tag"] == word


PATCH = "- op: add\n\n  path: /spec\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(PATCH, ["patch: |", "    - op: add", "", "      path: /spec"], id="lines as a person wrote them"),
        pytest.param("a\nb", ["patch: |-", "    a", "    b"], id="no line feed at the end"),
        pytest.param(" a\nb\n", ['patch: " a\\nb\\n"'], id="a first line with blanks before it"),
        pytest.param("a \nb\n", ['patch: "a \\nb\\n"'], id="blanks that no person sees"),
        pytest.param("a\n\n", ['patch: "a\\n\\n"'], id="an empty last line"),
        pytest.param("\u00e9\nb", ['patch: "\\xE9\\nb"'], id="another alphabet"),
    ],
)
def test_a_text_of_several_lines_is_a_block_if_nothing_of_it_can_be_lost(text: str, lines: list[str]) -> None:
    written = as_yaml([{"spec": {"patch": text}}])
    assert yaml.safe_load(written) == {"spec": {"patch": text}}
    assert written.splitlines()[2:] == [f"  {lines[0]}", *lines[1:]]


@given(st.dictionaries(st.text(min_size=1), st.text() | st.text("ab \n#-:\t'").map(lambda text: f"{text}\n")))
def test_any_texts_and_keys_are_read_as_they_were(texts: dict[str, str]) -> None:
    assert yaml.safe_load(as_yaml([{"spec": [texts]}])) == {"spec": [texts]}


@pytest.mark.parametrize("name", ["true", "null", "123", "1e3", "no", "on", "a-1", "flux-system"])
def test_a_name_that_yaml_would_take_for_something_else(name: str) -> None:
    source, kustomization = parsed(replace(KEYLESS, namespace=name, settings=SyncSettings(name=name)))
    assert source["metadata"] == {"name": name, "namespace": name, "labels": MARKED}
    assert kustomization["spec"]["sourceRef"]["name"] == name


@pytest.mark.parametrize(
    ("paths", "components", "expected"),
    [
        pytest.param(["gotk-components.yaml"], "gotk-components.yaml", "./", id="at the root"),
        pytest.param(["a/gotk-components.yaml", "b/kustomization.yaml"], "a/gotk-components.yaml", "./a", id="its own"),
        pytest.param(["a/kustomization.yaml"], "a/gotk-components.yaml", "./a", id="a kustomization beside it"),
        pytest.param(["kustomization.yml"], "a/b/gotk-components.yaml", "./", id="a kustomization at the root"),
        pytest.param(["a/Kustomization", "a/b/kustomization.yaml"], "a/b/c.yaml", "./a", id="the topmost of two"),
        pytest.param(["a/kustomization.yaml.bak", "kustomize.yaml"], "a/c.yaml", "./a", id="names that are alike"),
    ],
)
def test_the_folder_that_is_applied(paths: list[str], components: str, expected: str) -> None:
    assert sync_path(paths, components) == expected


FLEET = FleetSettings(
    Reference.parse("oci://localhost:5000/acme/fleet:main"), "./clusters/a", source={"interval": "1m"}
)


def test_the_settings_are_fields_of_the_specs_and_metadata_of_each_object() -> None:
    labels, annotations = {"a.b/c": "on"}, {"note": "two\nlines"}
    health = [{"kind": "Deployment", "name": "a"}, {"kind": "Deployment", "name": "b", "list": [[], {}, [1, 2.5]]}]
    own = {"wait": True, "prune": False, "healthChecks": health, "postBuild": {}}
    settings = SyncSettings(
        "own", "apps", labels, annotations, source={"secretRef": {"name": "pull"}}, kustomization=own
    )
    source, kustomization = parsed(replace(KEYLESS, settings=settings))
    assert (
        source["metadata"]
        == kustomization["metadata"]
        == {"name": "own", "namespace": "apps", "labels": MARKED | labels, "annotations": annotations}
    )
    assert source["spec"]["secretRef"] == {"name": "pull"}
    assert kustomization["spec"].items() >= own.items()
    text = replace(KEYLESS, settings=settings).to_yaml()
    assert "With prune: false, objects that leave the artifact stay" in text
    assert "With wait: true, Flux ignores healthChecks." in text
    needed = "# Make it first:  kubectl -n apps create secret docker-registry pull --docker-server=ghcr.io --docker-us"
    assert needed in text


def test_an_interval_that_is_told_is_for_all_objects() -> None:
    settings = SyncSettings(fleet=FLEET, source={"interval": "1h"}, interval="5m")
    made = replace(KEYLESS, settings=settings).objects()
    assert [each["spec"]["interval"] for each in made] == ["5m"] * 4


@pytest.mark.parametrize("unsigned", [True, False])
def test_the_fleets_own_artifact_is_a_second_pair_that_is_verified_alike(unsigned: bool) -> None:
    fleet = replace(FLEET, unsafe_unsigned=unsigned)
    first, _, source, kustomization = replace(KEYLESS, settings=SyncSettings(fleet=fleet)).objects()
    assert (
        source["metadata"]
        == kustomization["metadata"]
        == {"name": "fleet", "namespace": "flux-system", "labels": MARKED}
    )
    assert source["spec"] == {
        "interval": "1m",
        "url": "oci://localhost:5000/acme/fleet",
        "ref": {"tag": "main"},
        "insecure": True,
        **({} if unsigned else {"verify": first["spec"]["verify"]}),
    }
    assert kustomization["spec"]["path"] == "./clusters/a"
    assert kustomization["spec"]["sourceRef"] == {"kind": "OCIRepository", "name": "fleet"}
    told = replace(KEYLESS, settings=SyncSettings(fleet=fleet)).to_yaml()
    assert ("is not verified by clusters" in told, "was not read" in told) == (unsigned, not unsigned)


def test_entries_that_stay_apart_are_printed_as_they_are() -> None:
    verify = ByIdentity((("^i$", "^a$"), ("^j$", "^b$")), apart=True)
    source, _ = parsed(replace(KEYLESS, verify=verify))
    assert [each["subject"] for each in source["spec"]["verify"]["matchOIDCIdentity"]] == ["^a$", "^b$"]


@pytest.mark.parametrize(
    "settings",
    [
        SyncSettings(source={"secretRef": {"name": "a\nkind: Secret"}}),
        SyncSettings(kustomization={"decryption": {"secretRef": {"name": "A"}}}),
        SyncSettings(fleet=replace(FLEET, name="A")),
        SyncSettings(namespace="a.b"),
    ],
)
def test_no_name_of_the_settings_can_end_its_line(settings: SyncSettings) -> None:
    with pytest.raises((InvalidSync, InvalidObjectName)):
        replace(KEYLESS, settings=settings)


def test_each_secret_is_needed_once_the_one_of_the_images_first() -> None:
    settings = SyncSettings(
        source={"secretRef": {"name": "pull"}, "certSecretRef": {"name": "ca"}},
        fleet=replace(FLEET, source={"secretRef": {"name": "pull"}, "proxySecretRef": {"name": "proxy"}}),
    )
    needed = replace(KEYLESS, settings=settings, pulls_images=("images", "ghcr.io")).needs()
    assert [each.name for each in needed] == ["images", "pull", "ca", "proxy"]
    assert needed[1].purpose == f"pulls {KEYLESS.channel}; give it a login that only reads"
