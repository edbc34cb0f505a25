"""From the options on the command line to what a flow is given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from ci_automation.artifact.reference import Reference
from ci_automation.cli.arguments import Arguments, ContradictingOptions
from ci_automation.cli.output import progress
from ci_automation.cli.parameters import takes
from ci_automation.cli.places import release_source
from ci_automation.cli.trust import _mask
from ci_automation.cli.wiring import NothingNamed, TrustUnclear, reading, targets
from ci_automation.flux.options import Options
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.registry.layout import LayoutRegistry
from ci_automation.signing.trust import TrustedKeys
from tests.canaries import leaks, search
from tests.fakes.world import key_pem, signing_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.reference import Digest
    from ci_automation.flows.ports import Ports

FLAGS = {
    "none": ([], {}),
    "a text": (["--namespace", "fleet"], {"namespace": "fleet"}),
    "a list": (["--components=a,b"], {"components": "a,b"}),
    "a list in pieces": (["--components", "a", "--components", "b,c"], {"components": "a,b,c"}),
    "an empty list": (["--toleration-keys="], {"toleration-keys": ""}),
    "a switch": (["--network-policy"], {"network-policy": True}),
    "a switch off": (["--network-policy=false"], {"network-policy": False}),
    "a switch off, apart": (["--watch-all-namespaces", "false"], {"watch-all-namespaces": False}),
    "a password": (["--registry-creds", "u:p"], {"registry-creds": "u:p"}),
}


@pytest.mark.parametrize(("arguments", "flags"), FLAGS.values(), ids=list(FLAGS))
def test_flags_of_flux_install_are_read_as_flux_reads_them(arguments: list[str], flags: Mapping[str, Any]) -> None:
    seen: list[dict[str, Any]] = []

    @click.command()
    @takes(install_flags=True)
    def command(given: Arguments) -> None:
        seen.append(given.flags)

    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    assert seen == [flags]


def test_a_repeated_list_is_one_list_for_the_options() -> None:
    assert Options().with_flags({"components": "kustomize-controller,source-controller"}).components == (
        "kustomize-controller",
        "source-controller",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"signing": "key"}, "--signing key needs --key FILE or --key env://NAME"),
        ({"signing": "kms"}, "--signing kms needs --key, such as --key awskms://..."),
        ({"signing": "unsafe-unsigned", "key": "k"}, "unsafe-unsigned takes no --key"),
        ({"signing": "keyless", "key": "k"}, "keyless takes no --key"),
        ({"identity": ("me",)}, "and --issuer, go together"),
        ({"identity_regexp": ("^me$",)}, "and --issuer, go together"),
        ({"issuer": "https://token.example"}, "and --issuer, go together"),
        ({"identity": ("me",), "issuer": "https://token.example", "public_key": ("b.pub",)}, "exclude each other"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ContradictingOptions, match=message) as raised:
        Arguments.of(options)
    assert raised.value.hint.startswith(("Add ", "Leave out ", "For "))


@pytest.mark.parametrize(
    ("options", "names_it"),
    [
        ({"identity": ("https://github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/main",)}, True),
        ({"identity_regexp": (r"^https://github\.com/acme/.*$",)}, True),
        ({"identity": ("https://gitlab.example/acme",)}, False),
        ({"issuer": "https://token.example"}, False),
        ({"identity": ("https://github.com/acme",), "signing": "keyless", "key": "k"}, False),
    ],
)
def test_an_identity_of_github_without_its_issuer_names_that(options: dict[str, Any], *, names_it: bool) -> None:
    with pytest.raises(ContradictingOptions) as raised:
        Arguments.of(options)
    assert ("Add --issuer https://token.actions.githubusercontent.com" in raised.value.hint) is names_it


def fingerprints(ports: Ports) -> list[Digest]:
    """Return the keys that are trusted."""
    assert isinstance(ports.trusted, TrustedKeys)
    return [key.fingerprint for key in ports.trusted.keys]


class TestTargets:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in os.environ:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        Path("a.key").write_bytes(key_pem())
        Path("b.pub").write_text(signing_key("theirs").public.to_pem())

    def test_nothing_named_is_a_mistake(self) -> None:
        with pytest.raises(NothingNamed):
            targets(None, Arguments())

    def test_the_key_that_signs_is_the_key_that_is_trusted_unless_another_is_named(self) -> None:
        (target,) = targets("layout:r:production", Arguments(key="a.key"))
        assert target.channel == Reference.parse("layout:r:production")
        assert isinstance(target.ports.registry, LayoutRegistry)
        assert target.ports.signer is not None
        assert target.ports.signer.who == signing_key().public.fingerprint
        assert fingerprints(target.ports) == [signing_key().public.fingerprint]
        (target,) = targets("layout:r:production", Arguments(key="a.key", public_key=("b.pub",)))
        assert fingerprints(target.ports) == [signing_key("theirs").public.fingerprint]
        Path("a.pub").write_text(signing_key().public.to_pem())
        (target,) = targets("layout:r:production", Arguments(public_key=("b.pub", "a.pub")))
        assert fingerprints(target.ports) == [signing_key(who).public.fingerprint for who in ("theirs", "ours")]

    def test_a_signer_does_not_show_its_key(self) -> None:
        (target,) = targets("layout:r:production", Arguments(key="a.key"))
        assert target.ports.signer is not None
        search("a repr", repr(target))
        search("a repr", repr(target.ports.signer))
        assert leaks() == []

    def test_flags_of_the_command_line_are_over_those_of_the_configuration(self) -> None:
        Path("c.yaml").write_text(
            "version: 1\nartifacts:\n- name: a\n  url: layout:r:production\n"
            "  flags: {log-level: debug, namespace: fleet}\n  signing: {mode: unsafe-unsigned}\n"
        )
        (target,) = targets("a", Arguments(config="c.yaml", flags={"log-level": "error"}))
        assert target.intent.flags == {"log-level": "error", "namespace": "fleet"}
        assert target.intent.unsafe_unsigned
        (target,) = targets("a", Arguments(config="c.yaml", key="a.key"))
        assert not target.intent.unsafe_unsigned

    def test_who_only_reads_trusts_the_configured_key_and_needs_no_private_one(self) -> None:
        Path("c.yaml").write_text(
            "version: 1\nartifacts:\n- name: a\n  url: layout:r:production\n"
            "  signing: {mode: key, key: not-here.key}\n  verify: {publicKey: b.pub}\n"
        )
        _, ports = reading("layout:r:v2.9.4-1a2b3c4d5e6f", Arguments(config="c.yaml"))
        assert ports.signer is None
        assert fingerprints(ports) == [signing_key("theirs").public.fingerprint]
        assert reading("layout:other:x", Arguments(config="c.yaml"))[1].trusted is None
        assert reading("a", Arguments(config="c.yaml"))[0] == Reference.parse("layout:r:production")

    def test_two_artifacts_in_one_repository_may_trust_different_people(self) -> None:
        Path("a.pub").write_text(signing_key().public.to_pem())
        Path("c.yaml").write_text(
            "version: 1\nartifacts:\n"
            "- {name: edge, url: 'layout:r:edge', verify: {publicKey: a.pub}}\n"
            "- {name: production, url: 'layout:r:production', verify: {publicKey: b.pub}}\n"
        )
        config = Arguments(config="c.yaml")
        ours, theirs = ([signing_key(owner).public.fingerprint] for owner in ("ours", "theirs"))
        for named, trusted in (("edge", ours), ("production", theirs), ("layout:r:production", theirs)):
            assert fingerprints(reading(named, config)[1]) == trusted
        with pytest.raises(TrustUnclear, match="edge or production"):
            reading("layout:r:v2.9.4-1a2b3c4d5e6f", config)
        said = Arguments(config="c.yaml", public_key=("a.pub",))
        assert fingerprints(reading("layout:r:v2.9.4-1a2b3c4d5e6f", said)[1]) == ours

    @pytest.mark.parametrize("variable", ["true", ""], ids=["in GitHub Actions", "elsewhere"])
    def test_a_secret_is_hidden_line_by_line_and_only_where_there_is_a_runner(
        self, variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("GITHUB_ACTIONS", variable)
        _mask("one%0A\n::error::two\r\n\n")
        told = "::add-mask::one%250A\n::add-mask::::error::two\n" if variable else ""
        assert capsys.readouterr() == ("", told)

    def test_releases_come_from_the_option_or_else_from_the_configuration(self) -> None:
        Path("c.yaml").write_text("version: 1\nsource: dir:there\nartifacts:\n- {name: a, url: 'layout:r:p'}\n")
        (target,) = targets("a", Arguments(config="c.yaml"))
        assert isinstance(target.ports.releases, DirectorySource)
        assert target.ports.releases._path == Path("there")
        (target,) = targets("a", Arguments(config="c.yaml", releases="here"))
        assert isinstance(target.ports.releases, DirectorySource)
        assert target.ports.releases._path == Path("here")
        assert not isinstance(release_source(Arguments(), None), DirectorySource)


def test_progress_is_silent_where_nobody_asked_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    progress(verbose=False, text=True)("quietly")
    progress(verbose=False, text=False)("quietly")
    assert capsys.readouterr().err == ""


def test_progress_cannot_be_used_to_control_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress(verbose=True, text=True)("reading \x1b[2J\rx")
    assert "\x1b[2J" not in capsys.readouterr().err
