"""The one table of options, and what is made from it: parameters of commands, inputs, and commands for later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ci_automation.action.commands import ACTION_COMMANDS
from ci_automation.cli.arguments import Arguments
from ci_automation.cli.follow_up import (
    flags,
    lifting,
    planned,
    repeated_options,
    signing_options,
    signs_elsewhere,
    verifying_keys,
)
from ci_automation.cli.options import ACTION_NAMES, INPUTS, OF_COMMAND_LINE, OPTIONS, Heading, Kind
from ci_automation.cli.target import Target
from ci_automation.config.model import SigningConfig, SigningMode, VerifyConfig
from ci_automation.config.sections import Artifact
from ci_automation.flows.ports import Intent, Prepared
from ci_automation.signing.sigstore.root import TrustRoot
from ci_automation.signing.trust import Identity, IdentityMatch, TrustedIdentities, TrustedKeys
from tests.fakes.world import CHANNEL, NOW, World, signing_key

# What no option of its own says.
OF_PROGRAM = {"flags", "key_must_open", "logins", "github_token", "keyless", "keys", "environments"}


def test_each_option_of_the_command_line_is_one_field() -> None:
    names = {it.parameter for it in OF_COMMAND_LINE.values()}
    assert names - {"exit_code"} == set(Arguments.__struct_fields__) - OF_PROGRAM


def test_an_option_is_in_the_table_once() -> None:
    for scope in ([it.name for it in OPTIONS if it.help], [it.name for it in INPUTS]):
        assert len(scope) == len(set(scope))
    assert all(it.help or it.input for it in OPTIONS)


def test_an_option_that_is_an_input_too_is_one_row_unless_it_means_something_else() -> None:
    names = [it.name for it in OPTIONS]
    assert [name for name in OF_COMMAND_LINE if names.count(name) > 1] == ["adopt"]  # a digest, where nobody is asked


def test_the_commands_of_the_action_are_the_choices_of_its_input() -> None:
    assert tuple(ACTION_COMMANDS) == ACTION_NAMES


def target() -> Target:
    return Target("production", CHANNEL, Prepared(World().ports(), Intent(now=NOW)))


EACH = {
    "a text": ({"config": "c.yaml"}, "--config c.yaml"),
    "a list": ({"objects": ("a", "b")}, "--objects a --objects b"),
    "a switch": ({"allow_removal": True}, "--allow-removal"),
    "either, yes": ({"pin_images": True}, "--pin-images"),
    "either, no": ({"pin_images": False}, "--no-pin-images"),
    "either, as it is configured": ({"pin_images": None}, ""),
    "what is said once": ({"adopt": True, "accept_edits": True, "yes": True}, "--adopt --accept-edits"),
    "nothing that signs": ({"signing": "keyless", "attestations": True}, ""),
}


@pytest.mark.parametrize(("values", "text"), EACH.values(), ids=list(EACH))
def test_each_command_for_later_repeats_what_it_is_about(values: dict[str, Any], text: str) -> None:
    assert " ".join(repeated_options(Arguments(**values))) == text


def test_a_flag_without_an_option_of_its_own_is_repeated_as_it_was_given() -> None:
    given = Arguments(flags={"zone": "a=b", "log-level": "debug", "network-policy": False})
    assert flags(given) == ("--flag=zone=a=b", "--log-level=debug", "--network-policy=false")


def test_what_was_published_is_neither_adopted_nor_accepted_again() -> None:
    assert repeated_options(Arguments(adopt=True, accept_edits=True, overlay="o"), begun=True) == ("--overlay", "o")


LIFT = "flux-manifests rollback production --lift"
SIGNED = {
    "as most do, with a placeholder": ({}, "--signing key --key YOUR.key"),
    "with the key of this run": ({"key": "k.key"}, "--signing key --key k.key"),
    "with a KMS": ({"signing": "kms", "key": "awskms:///k"}, "--signing kms --key awskms:///k"),
    "keyless": ({"signing": "keyless", "issuer": "i"}, "--signing keyless --issuer i"),
    "not at all": ({"signing": "unsafe-unsigned", "attestations": True}, "--signing unsafe-unsigned"),
    "in another format": (
        {"key": "k", "signature_format": "both", "attestations": True, "public_key": ("a", "b")},
        "--signing key --key k --signature-format both --attestations --public-key a --public-key b",
    ),
}


@pytest.mark.parametrize(("values", "text"), SIGNED.values(), ids=list(SIGNED))
def test_the_approved_step_is_signed_as_this_run_signs(
    values: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SIGSTORE_ID_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"):
        monkeypatch.delenv(name, raising=False)
    assert " ".join(signing_options(target(), Arguments(**values))) == text
    assert " ".join(lifting(target(), Arguments(**values, config="c", overlay="o"))) == f"{LIFT} {text} --config c"


def test_a_plan_trusts_the_key_that_signs() -> None:
    assert planned(target(), Arguments(key="k.key")) == ("--key", "k.key")


def test_a_plan_does_without_the_private_key_if_a_public_one_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    key = signing_key().public
    ours = target()
    assert ours.ports.trusted == TrustedKeys((key,))
    given = Arguments(key="k.key")
    Path("k.pub").write_text("no key")
    assert planned(ours, given) == ("--key", "k.key")
    Path("k.pub").write_text(signing_key("theirs").public.to_pem())
    assert planned(ours, given) == ("--key", "k.key")
    Path("k.pub").write_text(key.to_pem())
    assert planned(ours, given) == ("--public-key", "k.pub")
    assert planned(replace(ours, prepared=Prepared(World().ports(trusted=None), ours.intent)), given)[0] == "--key"
    named = Artifact(name="production", channel=CHANNEL, verify=VerifyConfig(("our.pub",)))
    assert planned(replace(ours, configured=named), given) == ()


@pytest.mark.parametrize(
    ("given", "configured", "keys"),
    [
        (Arguments(public_key=("a", "b"), key="k"), None, ("a", "b")),
        (Arguments(key="../w/cosign.key"), None, ("../w/cosign.key",)),
        (Arguments(key="k"), {"verify": VerifyConfig(("our.pub",))}, ("our.pub",)),
        (Arguments(), {"signing": SigningConfig(SigningMode.KEY, "our.key")}, ("our.key",)),
        (Arguments(), {}, ()),
        (Arguments(), None, ()),
    ],
)
def test_the_secret_for_clusters_is_made_of_the_keys_that_were_named(
    given: Arguments, configured: dict[str, Any] | None, keys: tuple[str, ...]
) -> None:
    known = None if configured is None else Artifact(name="production", channel=CHANNEL, **configured)
    assert verifying_keys(known, given) == keys


def test_every_kind_has_an_option() -> None:
    assert {it.kind for it in OPTIONS} == set(Kind)


def test_each_option_of_the_command_line_has_a_heading() -> None:
    assert [it.name for it in OF_COMMAND_LINE.values() if it.heading is Heading.OWN] == []


@pytest.mark.parametrize(
    ("given", "elsewhere"),
    [
        (Arguments(), True),
        (Arguments(key="cosign.key"), False),
        (Arguments(signing="keyless"), False),
        (Arguments(signing="kms", key="awskms://flux"), False),
    ],
)
def test_a_channel_that_trusts_a_workflow_is_signed_by_it_unless_options_say_how(
    given: Arguments, *, elsewhere: bool
) -> None:
    workflow = IdentityMatch.exact(Identity("https://issuer.example", "workflow"))
    trusted = TrustedIdentities((workflow,), TrustRoot("a file", b""))
    assert not signs_elsewhere(target(), given)
    found = target().with_ports(lambda it: replace(it, trusted=trusted))
    assert signs_elsewhere(found, given) is elsewhere
