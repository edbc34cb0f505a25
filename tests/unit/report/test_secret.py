from __future__ import annotations

import pytest
import yaml

from ci_automation.report.cluster_objects import InvalidObjectName, secret_yaml
from tests.fakes.world import signing_key

OURS, THEIRS = (signing_key(owner).public.to_pem() for owner in ("ours", "theirs"))


def test_a_cluster_finds_the_key_in_it_as_it_is() -> None:
    text = secret_yaml("flux-keys", "flux-system", [OURS])
    assert yaml.safe_load(text) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "flux-keys", "namespace": "flux-system"},
        "stringData": {"cosign.pub": OURS},
    }


def test_while_keys_are_changed_both_are_in_it_under_names_that_flux_reads() -> None:
    data = yaml.safe_load(secret_yaml("flux-keys", "flux-system", [OURS, THEIRS]))["stringData"]
    assert data == {"cosign.pub": OURS, "cosign-2.pub": THEIRS}


@pytest.mark.parametrize("name", ["1", "0x1f", "on", "null", "a.b-c", "1e3"])
def test_a_name_stays_a_name_whatever_yaml_reads_into_it(name: str) -> None:
    assert yaml.safe_load(secret_yaml(name, "flux-system", [OURS]))["metadata"]["name"] == name


@pytest.mark.parametrize("name", ["", "Keys", "a_b", "-a", "a-", "a..b", "a\nb: c", "a b", "a" * 64, "é", "a\n"])
def test_what_kubernetes_does_not_take_is_told(name: str) -> None:
    with pytest.raises(InvalidObjectName, match="the name of a Secret"):
        secret_yaml(name, "flux-system", [OURS])
    with pytest.raises(InvalidObjectName, match="the name of a namespace") as refusal:
        secret_yaml("flux-keys", name, [OURS])
    assert refusal.value.exit_code == 2


def test_a_name_is_of_253_letters_at_most_and_a_namespace_one_word() -> None:
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    assert len(longest) == 253
    secret_yaml(longest, "flux-system", [OURS])
    with pytest.raises(InvalidObjectName):
        secret_yaml(f"{longest}d", "flux-system", [OURS])
    with pytest.raises(InvalidObjectName):
        secret_yaml("flux-keys", "flux.system", [OURS])
