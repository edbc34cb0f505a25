"""Docker's configuration file, its helpers, and named variables."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from msgspec.structs import replace

from ci_automation.registry.credentials import (
    Anonymous,
    Credential,
    Credentials,
    MissingVariable,
    NamedVariables,
    Variables,
)
from ci_automation.registry.docker_config import CredentialHelperFailed, DockerConfig, InvalidRegistryConfig

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOST = "registry.example"
ALICE = Credential("alice", "canary-her own secret")


def auth(text: str) -> dict[str, str]:
    """Return an entry with the base64 form of `text`."""
    return {"auth": base64.b64encode(text.encode()).decode()}


ENTRY = auth("alice:canary-her own secret")


def config(folder: Path, value: object, environment: Mapping[str, str] | None = None) -> DockerConfig:
    """Return the configuration with `value` in its file."""
    path = folder / "config.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return DockerConfig(path, environment or {})


class TestFile:
    @pytest.mark.parametrize(
        ("auths", "expected"),
        [
            pytest.param({HOST: ENTRY}, ALICE, id="host"),
            pytest.param({f"https://{HOST}": ENTRY}, ALICE, id="with https"),
            pytest.param({f"http://{HOST}/": ENTRY}, ALICE, id="with http and a slash"),
            pytest.param({f"https://{HOST}/v1/": ENTRY}, ALICE, id="as docker 1 wrote it"),
            pytest.param({f"{HOST}/v2": ENTRY}, ALICE, id="as some write it"),
            pytest.param({HOST: {"username": "alice", "password": "canary-her own secret"}}, ALICE, id="in clear"),
            pytest.param({HOST: auth("alice:a:b\0")}, Credential("alice", "a:b"), id="a colon in the password"),
            pytest.param({HOST: auth("alice:")}, Credential("alice"), id="an empty password"),
            pytest.param({HOST: {**ENTRY, "identitytoken": "t"}}, Credential("", "", "t"), id="an identity token"),
            pytest.param({HOST: auth("<token>:t")}, Credential("", "", "t"), id="an identity token, as a user"),
            pytest.param({f"https://{HOST}/v1/": auth("bob:b"), HOST: ENTRY}, ALICE, id="exact before others"),
            pytest.param({f"https://{HOST}": ENTRY, f"{HOST}/v1/": auth("bob:b")}, ALICE, id="then the first"),
            pytest.param({HOST: {}, f"https://{HOST}": ENTRY}, ALICE, id="an empty one is passed over"),
            pytest.param({HOST: {}}, None, id="left empty for a helper"),
            pytest.param({f"{HOST}:5000": ENTRY}, None, id="another port"),
            pytest.param({f"{HOST}:443": ENTRY}, ALICE, id="the port that is the default"),
            pytest.param({f"not-{HOST}": ENTRY}, None, id="another host"),
            pytest.param({f"{HOST}.evil.example": ENTRY}, None, id="a longer one"),
            pytest.param({f"{HOST}/acme": ENTRY}, None, id="a part of the registry"),
            pytest.param({f"evil.example/{HOST}": ENTRY}, None, id="in the path"),
            pytest.param({}, None, id="nobody"),
            pytest.param(None, None, id="no section"),
        ],
    )
    def test_whose_entry_is_used(self, tmp_path: Path, auths: object, expected: Credential | None) -> None:
        found = config(tmp_path, {"auths": auths}).for_host(HOST)
        assert (found.pull, found.push) == (expected, expected)

    @pytest.mark.parametrize(
        "key", ["https://index.docker.io/v1/", "docker.io", "index.docker.io", "registry-1.docker.io"]
    )
    @pytest.mark.parametrize("host", ["docker.io", "index.docker.io"])
    def test_docker_hub_has_many_names(self, tmp_path: Path, key: str, host: str) -> None:
        assert config(tmp_path, {"auths": {key: ENTRY}}).for_host(host).pull == ALICE

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            pytest.param("{", "line 1: it is not JSON", id="not JSON"),
            pytest.param('{\n"auths":\n}', "line 3", id="the line is said"),
            pytest.param("[]", "not a JSON object", id="a list"),
            pytest.param("[" * 100_000, "not JSON", id="a bomb"),
            pytest.param('{"x": "\\ud800"}', "not JSON", id="half a character"),
            pytest.param(" " * (1 << 20) + "{}", "too large", id="too large"),
            pytest.param({"auths": []}, "auths is not an object", id="auths is a list"),
            pytest.param({"credHelpers": 1}, "credHelpers is not an object", id="credHelpers is a number"),
            pytest.param({"auths": {HOST: "alice"}}, "not an object", id="an entry is a text"),
            pytest.param({"auths": {HOST: {"auth": "canary-her own secret"}}}, "base64", id="not base64"),
            pytest.param({"auths": {HOST: {"auth": "é"}}}, "base64", id="not ASCII"),
            pytest.param({"auths": {HOST: auth("alice")}}, "NAME:PASSWORD", id="no password"),
            pytest.param({"auths": {HOST: {"auth": "/////w=="}}}, "base64", id="no text"),
        ],
    )
    def test_a_damaged_file_is_named_and_not_quoted(self, tmp_path: Path, content: object, reason: str) -> None:
        with pytest.raises(InvalidRegistryConfig, match=reason) as caught:
            config(tmp_path, content).for_host(HOST)
        assert str(tmp_path / "config.json") in str(caught.value)
        assert "secret" not in str(caught.value)
        assert caught.value.exit_code == 2

    def test_a_file_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRegistryConfig, match="cannot be read: Is a directory"):
            DockerConfig(tmp_path, {}).for_host(HOST)

    def test_nothing_secret_is_in_the_texts_of_values(self, tmp_path: Path) -> None:
        source = config(tmp_path, {"auths": {HOST: ENTRY}}, {"PASSWORD": "canary-her own secret"})
        for value in (source, source.for_host(HOST), ALICE, Credential("", "", "canary-her own secret")):
            assert "her own" not in repr(value)


class TestWhichFile:
    @pytest.mark.parametrize(
        ("environment", "explicit", "expected"),
        [
            pytest.param({}, None, "home/.docker/config.json", id="of the user"),
            pytest.param({"DOCKER_CONFIG": ""}, None, "home/.docker/config.json", id="empty is not set"),
            pytest.param({"DOCKER_CONFIG": "{}/folder"}, None, "folder/config.json", id="of the environment"),
            pytest.param({"DOCKER_CONFIG": "{}/folder"}, "mine.json", "mine.json", id="of the command line"),
        ],
    )
    def test_it_is_found(
        self, tmp_path: Path, environment: dict[str, str], explicit: str | None, expected: str
    ) -> None:
        path = tmp_path / expected
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"auths": {HOST: ENTRY}}))
        placed = {name: value.format(tmp_path) for name, value in environment.items()}
        source = DockerConfig.find(placed, tmp_path / "home", tmp_path / explicit if explicit else None)
        assert source.for_host(HOST).pull == ALICE

    def test_only_one_that_was_named_must_be_there(self, tmp_path: Path) -> None:
        assert DockerConfig.find({}, tmp_path).for_host(HOST) == Credentials()
        assert DockerConfig.find({"DOCKER_CONFIG": str(tmp_path)}, tmp_path).for_host(HOST) == Credentials()
        with pytest.raises(InvalidRegistryConfig, match="no such file"):
            DockerConfig.find({}, tmp_path, tmp_path / "none.json").for_host(HOST)


class TestHelpers:
    @pytest.fixture
    def environment(self, tmp_path: Path) -> dict[str, str]:
        return {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/home", "COSIGN_PASSWORD": "x", "AWS_REGION": "eu"}

    @staticmethod
    def helper(folder: Path, script: str, name: str = "keychain") -> None:
        """Install a helper that writes down how it was called."""
        path = folder / f"docker-credential-{name}"
        path.write_text(
            f'#!/bin/sh\ncat > "{folder}/heard"\necho "$@" > "{folder}/arguments"\nenv > "{folder}/env"\n{script}\n'
        )
        path.chmod(0o755)

    SAYS = 'echo \'{"ServerURL": "x", "Username": "alice", "Secret": "canary-her own secret"}\''

    @pytest.mark.parametrize(
        "value",
        [
            {"credHelpers": {HOST: "keychain"}},
            {"credsStore": "keychain"},
            {"credsStore": "keychain", "auths": {HOST: {}}},
        ],
    )
    def test_it_is_asked_by_standard_input_and_told_little(
        self, tmp_path: Path, environment: dict[str, str], value: Any
    ) -> None:
        self.helper(tmp_path, self.SAYS)
        assert config(tmp_path, value, environment).for_host(HOST) == Credentials(
            ALICE, ALICE, found_in=str(tmp_path / "config.json")
        )
        assert (tmp_path / "heard").read_text() == HOST
        assert (tmp_path / "arguments").read_text().strip() == "get"
        told = (tmp_path / "env").read_text()
        assert "AWS_REGION=eu" in told
        assert "COSIGN_PASSWORD" not in told

    @pytest.mark.parametrize("path", ["{}:/usr/bin", ".:/usr/bin", "bin:/usr/bin"])
    def test_no_program_of_the_working_directory_is_one(
        self, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, path: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "bin").mkdir()
        for folder in (tmp_path, tmp_path / "bin"):
            self.helper(folder, self.SAYS)
        with pytest.raises(CredentialHelperFailed, match="is not installed"):
            config(tmp_path, {"credsStore": "keychain"}, environment | {"PATH": path.format("")}).for_host(HOST)

    def test_a_hosts_own_helper_comes_before_the_store(self, tmp_path: Path, environment: dict[str, str]) -> None:
        self.helper(tmp_path, self.SAYS)
        value = {"credHelpers": {HOST: "keychain", "other.example": "absent"}, "credsStore": "absent"}
        assert config(tmp_path, value, environment).for_host(HOST).pull == ALICE

    def test_docker_hub_is_asked_for_by_its_key(self, tmp_path: Path, environment: dict[str, str]) -> None:
        self.helper(tmp_path, self.SAYS)
        config(tmp_path, {"credsStore": "keychain"}, environment).for_host("docker.io")
        assert (tmp_path / "heard").read_text() == "https://index.docker.io/v1/"

    @pytest.mark.parametrize(
        ("script", "expected"),
        [
            pytest.param("echo 'credentials not found in native keychain'; exit 1", None, id="knows nobody"),
            pytest.param('echo \'{"Username": "", "Secret": ""}\'', None, id="says nothing"),
            pytest.param(
                'echo \'{"Username": "<token>", "Secret": "t"}\'', Credential("", "", "t"), id="an identity token"
            ),
        ],
    )
    def test_what_it_says(
        self, tmp_path: Path, environment: dict[str, str], script: str, expected: Credential | None
    ) -> None:
        self.helper(tmp_path, script)
        assert config(tmp_path, {"credHelpers": {HOST: "keychain"}}, environment).for_host(HOST).pull == expected

    def test_what_the_store_does_not_know_the_file_may(self, tmp_path: Path, environment: dict[str, str]) -> None:
        self.helper(tmp_path, "echo 'credentials not found in native keychain'; exit 1")
        value = {"credsStore": "keychain", "auths": {HOST: ENTRY}}
        assert config(tmp_path, value, environment).for_host(HOST).pull == ALICE

    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            pytest.param("echo 'secret: no keychain'; exit 3", "ended with 3", id="an error"),
            pytest.param("echo secret", "did not answer in the form of helpers", id="not JSON"),
            pytest.param("echo '[1]'", "did not answer in the form of helpers", id="a list"),
            pytest.param(
                r"""echo '{"Username": "secret", "Secret": "\ud800"}'""",
                "did not answer in the form of helpers",
                id="half a character",
            ),
            pytest.param('echo \'{"Username": "secret"}\'', "did not answer in the form of helpers", id="a half"),
        ],
    )
    def test_a_helper_that_fails_is_named_and_not_quoted(
        self, tmp_path: Path, environment: dict[str, str], script: str, reason: str
    ) -> None:
        self.helper(tmp_path, script)
        with pytest.raises(CredentialHelperFailed, match=f"'keychain', which {reason}") as caught:
            config(tmp_path, {"credHelpers": {HOST: "keychain"}}, environment).for_host(HOST)
        assert "secret" not in str(caught.value)
        assert caught.value.exit_code == 2

    def test_a_helper_that_hangs_is_ended(
        self, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ci_automation.registry.docker_config._HELPER_SECONDS", 0.2)
        self.helper(tmp_path, "exec sleep 60")
        with pytest.raises(CredentialHelperFailed, match="did not answer within"):
            config(tmp_path, {"credHelpers": {HOST: "keychain"}}, environment).for_host(HOST)

    def test_a_helper_that_is_not_there_or_cannot_run_is_named(
        self, tmp_path: Path, environment: dict[str, str]
    ) -> None:
        with pytest.raises(CredentialHelperFailed, match="'absent', which is not installed"):
            config(tmp_path, {"credHelpers": {HOST: "absent"}}, environment).for_host(HOST)
        (tmp_path / "docker-credential-broken").write_bytes(b"\x7fELF no program")
        (tmp_path / "docker-credential-broken").chmod(0o755)
        with pytest.raises(CredentialHelperFailed, match="'broken', which could not be started"):
            config(tmp_path, {"credHelpers": {HOST: "broken"}}, environment).for_host(HOST)

    @pytest.mark.parametrize("name", ["../keychain", "a/b", "", "a b", "-rf", 7, None, ["keychain"]])
    def test_a_name_that_is_none_runs_nothing(self, tmp_path: Path, environment: dict[str, str], name: object) -> None:
        self.helper(tmp_path, self.SAYS)
        source = config(tmp_path, {"credHelpers": {HOST: name}}, environment)
        if not name:
            assert source.for_host(HOST) == Credentials()
        else:
            with pytest.raises(CredentialHelperFailed, match="not the name of a helper"):
                source.for_host(HOST)
        assert not (tmp_path / "heard").exists()


class TestVariables:
    ENVIRONMENT: ClassVar = {"R": "reader", "R_SECRET": "r", "W": "writer", "W_SECRET": "w", "EMPTY": ""}
    READ, WRITE = Variables("R", "R_SECRET"), Variables("W", "W_SECRET")
    READER, WRITER = Credential("reader", "r"), Credential("writer", "w")

    @pytest.mark.parametrize(
        ("pull", "push", "expected", "found_in"),
        [
            pytest.param(READ, WRITE, (READER, WRITER), "$R_SECRET and $W_SECRET", id="two users"),
            pytest.param(READ, None, (READER, READER), "$R_SECRET", id="who reads also writes"),
            pytest.param(None, WRITE, (ALICE, WRITER), "$W_SECRET", id="who reads is in the file"),
            pytest.param(None, None, (ALICE, ALICE), "config.json", id="nothing is named"),
        ],
    )
    def test_they_are_for_one_host(
        self,
        tmp_path: Path,
        pull: Variables | None,
        push: Variables | None,
        expected: tuple[Credential, Credential],
        found_in: str,
    ) -> None:
        file = config(tmp_path, {"auths": {HOST: ENTRY}})
        source = NamedVariables(HOST, self.ENVIRONMENT, pull, push, file)
        found = source.for_host(HOST)
        assert (found.pull, found.push) == expected
        assert found.found_in.rpartition("/")[2] == found_in
        assert source.for_host("other.example") == Credentials()
        assert "reader" not in repr(source)

    def test_a_token_host_goes_with_the_credentials_of_its_registry_alone(self) -> None:
        docker = NamedVariables(HOST, self.ENVIRONMENT, Variables("R", "R_SECRET"))
        source = NamedVariables(HOST, {}, otherwise=docker, token_host="auth.example")
        assert source.for_host(HOST) == replace(docker.for_host(HOST), token_host="auth.example")
        assert source.for_host("other.example") == Credentials()

    @pytest.mark.parametrize("variables", [Variables("R", "EMPTY"), Variables("ABSENT", "R_SECRET")])
    def test_one_that_is_not_set_is_named(self, variables: Variables) -> None:
        with pytest.raises(MissingVariable, match=r"EMPTY|ABSENT"):
            NamedVariables(HOST, self.ENVIRONMENT, variables).for_host(HOST)

    def test_nobody_is_anonymous(self) -> None:
        assert Anonymous().for_host(HOST) == Credentials()
        assert NamedVariables(HOST, {}).for_host(HOST) == Credentials()
