"""Reading needs no private key, whatever the configuration names; a key that is missing stops its artifact alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.desk import CHANNEL, SIGNED
from tests.fakes.keys import cosign_key

if TYPE_CHECKING:
    from tests.conftest import Once
    from tests.e2e.desk import Desk

EDGE = "layout:edge:edge"
LOST = {
    "missing": ("absent.key", "no key at absent.key"),
    "encrypted": ("encrypted.key", "COSIGN_PASSWORD is not set"),
    "in a variable": ("env://LOST_KEY", "the variable is not set"),
    "in a KMS out of reach": ("hashivault://flux", "Vault did not provide the key hashivault://flux"),
}
KEYS = pytest.mark.parametrize(("key", "why"), LOST.values(), ids=LOST)
READING = {
    "check": ("check", "production"),
    "check all": ("check",),
    "plan": ("plan", "production", "--out", "plan.json"),
    "diff": ("diff", "production", "v2.98.8"),
    "history": ("history", "production"),
    "pull": ("pull", "production", "out"),
    "config validate": ("config", "validate"),
}
TRUSTING = {
    **READING,
    "verify": ("verify", "production"),
    "prune": ("prune", "production"),
    "promote": ("promote", "--to", "stable"),
}


@pytest.fixture(autouse=True)
def published(desk: Desk, once: Once) -> None:
    def publish() -> None:
        desk.init()
        desk.ok("init", EDGE, "--flux-version", "v2.98.5", *SIGNED)
        desk.write("encrypted.key", cosign_key("a password"))

    once("two channels and an encrypted key", desk.folder, publish)


def configure(desk: Desk, *, key: str, verify: str = "", edge: str = "cosign.key") -> None:
    """Let production be signed with a key that cannot be had, and edge with one that can."""
    trust = f", verify: {{publicKey: {verify}}}" if verify else ""
    desk.config(
        "version: 1\nartifacts:\n"
        f"- {{name: production, url: '{CHANNEL}', signing: {{key: '{key}'}}{trust}}}\n"
        f"- {{name: stable, url: 'layout:stable:stable', signing: {{key: '{key}'}}, "
        f"promote: {{from: production}}{trust}}}\n"
        f"- {{name: edge, url: '{EDGE}', signing: {{key: '{edge}'}}}}\n"
    )


class TestReading:
    @KEYS
    @pytest.mark.parametrize("command", TRUSTING.values(), ids=TRUSTING)
    def test_trusts_whom_the_configuration_names(
        self, desk: Desk, command: tuple[str, ...], key: str, why: str
    ) -> None:
        configure(desk, key=key, verify="cosign.pub")
        ran = desk.run(*command)
        assert ran.code == (11 if command[0] == "promote" else 0), ran  # a first promotion waits for a person
        assert "Nothing was verified" not in ran.out
        assert why not in ran.out + ran.err

    @KEYS
    @pytest.mark.parametrize("command", READING.values(), ids=READING)
    def test_says_that_nothing_was_verified_where_nobody_is_known(
        self, desk: Desk, command: tuple[str, ...], key: str, why: str
    ) -> None:
        configure(desk, key=key)
        ran = desk.ok(*command)
        assert why in ran.out or command[0] == "config"
        assert "othing was verified: " in ran.out or command[0] == "config"

    @KEYS
    def test_is_an_error_where_it_is_all_about_trust(self, desk: Desk, key: str, why: str) -> None:
        configure(desk, key=key)
        for command in ("verify", "production"), ("prune", "production"):
            ran = desk.run(*command)
            assert (ran.code, "code nobody-trusted" in ran.err) == (2, True)
            assert "nothing was verified: " in ran.err
            assert why in ran.err

    def test_trusts_the_public_half_where_it_can_be_had(self, desk: Desk) -> None:
        configure(desk, key="cosign.key")
        assert desk.ok("check", "production", "--output", "json").json["signature"] == "verified"
        assert "is signed" in desk.ok("verify", "production").out

    @pytest.mark.parametrize("key", ["cosign.key", "cosign.pub"])
    @pytest.mark.parametrize("command", [("check", CHANNEL), ("plan", CHANNEL)], ids=lambda it: it[0])
    def test_trusts_the_public_half_of_a_key_that_is_named(
        self, desk: Desk, command: tuple[str, ...], key: str
    ) -> None:
        assert desk.ok(*command, "--key", key, "--output", "json").json["signature"] == "verified"

    @pytest.mark.parametrize(
        "command",
        [("diff", CHANNEL, "v2.98.8"), ("verify", CHANNEL), ("history", CHANNEL), ("pull", CHANNEL, "out")],
        ids=lambda it: it[0],
    )
    def test_takes_such_a_key_everywhere(self, desk: Desk, command: tuple[str, ...]) -> None:
        assert "othing was verified" not in desk.ok(*command, "--key", "cosign.key").out
        ran = desk.run(*command, "--key", "absent.key")  # whoever names one wants it to be looked at
        assert (ran.code, "code key-file-missing" in ran.err) == (2, True)


class TestAMissingKey:
    @KEYS
    def test_stops_its_artifact_and_no_other(self, desk: Desk, key: str, why: str) -> None:
        configure(desk, key=key)
        ran = desk.run("update", "--output", "json")
        production, edge = ran.json["artifacts"]
        assert why in production["error"]["message"]
        assert (edge["name"], edge["changed"], edge["version"]) == ("edge", True, "v2.98.8")
        assert ran.code == ran.json["exitCode"] == production["exitCode"] != 0

    def test_that_all_lack_in_the_same_way_is_told_once(self, desk: Desk) -> None:
        configure(desk, key="absent.key", edge="absent.key")
        ran = desk.run("update")
        assert (ran.code, ran.out, ran.err.count("no key at absent.key")) == (2, "", 1)

    def test_of_one_artifact_is_what_the_run_ends_with(self, desk: Desk) -> None:
        configure(desk, key="absent.key")
        ran = desk.run("update", "production")
        assert (ran.code, ran.out, "code key-file-missing" in ran.err) == (2, "", True)

    @pytest.mark.parametrize("verify", ["", "cosign.pub"], ids=["trusted by the key", "named"])
    def test_of_one_wave_stops_no_other(self, desk: Desk, verify: str) -> None:
        trust = f", verify: {{publicKey: {verify}}}" if verify else ""
        first = desk.ok("init", "layout:a:a", "--flux-version", "v2.98.8", *SIGNED, "--output", "json").json["digest"]
        for channel in "layout:b:b", "layout:c:c":
            desk.ok("init", channel, "--flux-version", "v2.98.5", *SIGNED)
        desk.config(
            "version: 1\ndefaults: {policy: {escalate: []}}\nartifacts:\n"
            "- {name: a, url: 'layout:a:a', signing: {key: cosign.key}}\n"
            f"- {{name: b, url: 'layout:b:b', signing: {{key: absent.key}}, promote: {{from: a}}{trust}}}\n"
            "- {name: c, url: 'layout:c:c', signing: {key: cosign.key}, promote: {from: a}}\n"
        )
        ran = desk.run("promote", "--output", "json")
        b, c = sorted(ran.json["promotions"], key=lambda each: str(each["name"]))
        assert (b["error"]["code"], c["changed"], c["to"]["digest"]) == ("key-file-missing", True, first)
        assert ran.code == 2
