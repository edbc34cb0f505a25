"""Keyless as a user has it: a job of GitHub Actions, a Sigstore of one's own, and nothing else to be configured."""

from __future__ import annotations

import base64
import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.signing.trust import Identity
from tests.e2e.desk import CHANNEL, SIGNED, TRUSTED, approved
from tests.fakes.sigstore import GITHUB, WORKFLOW, LocalSigstore
from tests.fakes.sigstore.api import Answer
from tests.fakes.world import key_pem, signing_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.e2e.desk import Desk, Ran

OWN = ("--trust-config", "trust.json")
NAMED = ("--identity", WORKFLOW.subject, "--issuer", GITHUB, *OWN)
UPDATE = ("update", CHANNEL, *OWN)
INIT = ("init", CHANNEL, "--flux-version", "v2.98.5", *OWN)
OTHER = Identity(GITHUB, "https://github.com/acme/shared/.github/workflows/publish.yaml@refs/tags/v1")
COMMIT = "c" * 40
RUN = "https://github.com/acme/fleet/actions/runs/7000000001"
# Where a pattern would take any character for the dot.
LIKE = Identity(GITHUB, WORKFLOW.subject.replace("/.github/", "/-github/"))


@pytest.fixture
def sigstore(desk: Desk) -> Iterator[LocalSigstore]:
    """Yield the Sigstore of a job that has `id-token: write`, and whose waits between attempts are short."""
    with LocalSigstore() as running:
        desk.write("trust.json", running.trust_config())
        desk.patch.setattr("ci_automation.net.waiting._FIRST_WAIT", 0.001)
        in_a_job(desk, running.environment())
        yield running


def in_a_job(desk: Desk, tokens: Mapping[str, str]) -> None:
    """Let the environment be that of a job in GitHub Actions, with these variables for its identity."""
    said = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "acme/fleet",
        "GITHUB_RUN_ID": "7000000001",
        "GITHUB_SHA": COMMIT,
        "GITHUB_ACTOR": "octocat",
        "GITHUB_WORKFLOW_REF": "acme/fleet/.github/workflows/flux.yaml@refs/heads/main",
    }
    for name, value in {**said, **tokens}.items():
        desk.patch.setenv(name, value)


def asked(sigstore: LocalSigstore) -> dict[str, int]:
    """Return how often each service was asked since the last time."""
    parts = {"tokens": "/oidc/", "certificates": "/signingCert", "log": "/log/entries"}
    found = {name: sum(part in path for _, path in sigstore.requests) for name, part in parts.items()}
    sigstore.requests.clear()
    return found


def accepted(ran: Ran) -> dict[str, bool]:
    """Return which clusters accept an artifact."""
    return {row["flux"]: row["accepts"] for row in ran.json["clusters"]}


class TestTheWholeStory:
    def test_of_a_job_that_has_an_identity_and_no_key(self, desk: Desk, sigstore: LocalSigstore) -> None:
        desk.ok(*INIT)
        assert asked(sigstore) == {"tokens": 1, "certificates": 1, "log": 2}  # the signature, and the record
        ran = desk.ok("verify", CHANNEL, *NAMED)
        assert f"\n  by {WORKFLOW.subject} (issuer {GITHUB})\n" in ran.out

        desk.ok("plan", CHANNEL, "--out", "plan.json", *NAMED)
        plan = json.loads(desk.read("plan.json"))
        asked(sigstore)
        ran = desk.ok(*UPDATE, "--output", "json")
        assert (ran.json["version"], ran.json["signature"]) == ("v2.98.8", "verified")
        assert asked(sigstore) == {"tokens": 1, "certificates": 1, "log": 2}
        ran = desk.ok("apply", "plan.json", *approved(plan), *OWN, "--output", "json")
        assert (ran.json["version"], ran.json["digest"]) == ("v2.99.4", plan["steps"][1]["target"])

        newest, patch, first = desk.ok("history", CHANNEL, *NAMED, "--output", "json").json["entries"]
        assert [entry["signed"] for entry in (newest, patch, first)] == [str(WORKFLOW)] * 3
        assert [entry["records"][0]["previous"] for entry in (newest, patch)] == [patch["digest"], first["digest"]]
        assert {entry["records"][0]["run"] for entry in (newest, patch, first)} == {RUN}
        source = {"repository": "https://github.com/acme/fleet", "commit": COMMIT}
        assert [entry["records"][0]["source"] for entry in (newest, patch, first)] == [source] * 3
        assert "from github.com/acme/fleet at cccccccccccc" in desk.ok("history", CHANNEL, *NAMED, "-v").out
        assert [entry["records"][0]["approval"] for entry in (patch, first)] == [None, None]
        assert newest["records"][0]["approval"]["by"] == "octocat"

        before = desk.state()
        asked(sigstore)
        assert "v2.99.4 is current" in desk.ok(*UPDATE).out
        assert desk.state() == before
        assert asked(sigstore) == {"tokens": 1, "certificates": 0, "log": 0}  # who signs is who is trusted

    @pytest.mark.usefixtures("sigstore")
    def test_clusters_are_told_apart_by_whether_they_know_that_sigstore(self, desk: Desk) -> None:
        desk.ok(*INIT)
        ran = desk.ok("verify", CHANNEL, *NAMED, "--output", "json")
        assert ran.json["by"] == str(WORKFLOW)
        assert {flux for flux, accepts in accepted(ran).items() if accepts} == {"2.9"}
        reasons = {row["reason"] for row in ran.json["clusters"] if not row["accepts"]}
        assert reasons == {"it knows only the public Sigstore; trustedRootSecretRef came with Flux 2.9"}

    def test_with_the_root_alone_one_can_verify(self, desk: Desk, sigstore: LocalSigstore) -> None:
        desk.ok(*INIT)
        desk.write("trusted_root.json", sigstore.trusted_root)
        sigstore.requests.clear()
        desk.ok("verify", CHANNEL, *NAMED[:-1], "trusted_root.json")
        assert sigstore.requests == []

    def test_several_artifacts_share_one_certificate(
        self, desk: Desk, sigstore: LocalSigstore, releases: object
    ) -> None:
        urls = {name: f"layout:{name}:production" for name in ("one", "two", "three")}
        artifacts = "".join(f"- {{name: {name}, url: '{url}'}}\n" for name, url in urls.items())
        trust = f"trustConfig: trust.json\n  verify: {{identity: '{WORKFLOW.subject}', issuer: '{GITHUB}'}}\n"
        desk.config(f"version: 1\nsource: dir:{releases}\ndefaults:\n  {trust}artifacts:\n{artifacts}")
        for name in urls:
            desk.ok("init", name, "--flux-version", "v2.98.5")
        asked(sigstore)
        ran = desk.ok("update", "--output", "json")
        assert [each["version"] for each in ran.json["artifacts"]] == ["v2.98.8"] * 3
        assert asked(sigstore) == {"tokens": 1, "certificates": 1, "log": 6}

    def test_as_processes_of_their_own(self, desk: Desk, sigstore: LocalSigstore) -> None:
        said = []
        for arguments in (INIT, UPDATE, ("verify", CHANNEL, *NAMED)):
            child = desk.child(*arguments)
            out, err = child.communicate(timeout=60)
            assert child.returncode == 0, err
            said.append(out)
        assert f"{CHANNEL} is signed: Flux v2.98.8" in said[-1]
        assert asked(sigstore) == {"tokens": 2, "certificates": 2, "log": 4}


class TestWhoIsTrusted:
    @pytest.mark.parametrize(
        "named",
        [
            pytest.param(("--identity", OTHER.subject, "--issuer", GITHUB), id="another workflow"),
            pytest.param(("--identity", WORKFLOW.subject[:-1], "--issuer", GITHUB), id="only its beginning"),
            pytest.param(("--identity", WORKFLOW.subject, "--issuer", f"{GITHUB}.example"), id="another issuer"),
            pytest.param(
                ("--identity-regexp", "^https://github.com/acme/shared/.*$", "--issuer", GITHUB), id="a pattern"
            ),
            pytest.param(("--public-key", "cosign.pub"), id="a key"),
        ],
    )
    @pytest.mark.usefixtures("sigstore")
    def test_anybody_else_is_not(self, desk: Desk, named: tuple[str, ...]) -> None:
        desk.ok(*INIT)
        before = desk.state()
        for command in (("verify", CHANNEL), ("check", CHANNEL), ("pull", CHANNEL, "out")):
            ran = desk.run(*command, *named, *OWN, "--output", "json")
            assert (ran.code, ran.error["code"]) == (10, "foreign-signature")
            # Whoever did sign is told, to those who can trust an identity.
            assert (WORKFLOW.subject in ran.error["message"]) is (named[0] != "--public-key")
        assert desk.state() == before

    def test_a_dot_is_a_dot(self, desk: Desk, sigstore: LocalSigstore) -> None:
        in_a_job(desk, sigstore.environment(LIKE))
        desk.ok(*INIT)
        assert desk.run("verify", CHANNEL, *NAMED).code == 10
        desk.ok("verify", CHANNEL, "--identity", LIKE.subject, "--issuer", GITHUB, *OWN)

    @pytest.mark.parametrize("command", [UPDATE[0], "check", "plan", "verify", "history", "sync-manifests", "prune"])
    @pytest.mark.parametrize(
        ("pattern", "form"),
        [
            ("https://github.com/acme/", "^https://github.com/acme/$"),
            ("^https://github", "^https://github$"),
            ("^https://github.com/acme/fleet|main$", "^(?:^https://github.com/acme/fleet|main$)$"),
        ],
    )
    @pytest.mark.usefixtures("sigstore")
    def test_nobody_is_trusted_by_a_pattern_that_is_not_anchored(
        self, desk: Desk, command: str, pattern: str, form: str
    ) -> None:
        desk.ok(*INIT)
        before = desk.state()
        ran = desk.run(command, CHANNEL, "--identity-regexp", pattern, "--issuer", GITHUB, *OWN, "--output", "json")
        assert (ran.code, ran.error["code"]) == (2, "unanchored-pattern")
        assert f"Write {form} if that is the whole identity." in ran.error["hint"]
        assert desk.state() == before

    @pytest.mark.usefixtures("sigstore")
    def test_one_that_is_anchored_counts(self, desk: Desk) -> None:
        desk.ok(*INIT)
        desk.ok("verify", CHANNEL, "--identity-regexp", "^https://github.com/acme/.*$", "--issuer", GITHUB, *OWN)

    @pytest.mark.parametrize("pattern", ["(", "a(?=b)", r"(a)\1"])
    @pytest.mark.usefixtures("sigstore")
    def test_a_pattern_that_clusters_cannot_read_is_refused(self, desk: Desk, pattern: str) -> None:
        desk.ok(*INIT)
        ran = desk.run("verify", CHANNEL, "--identity-regexp", pattern, "--issuer", GITHUB, *OWN, "--output", "json")
        assert (ran.code, ran.error["code"]) == (2, "invalid-pattern")

    @pytest.mark.usefixtures("sigstore")
    def test_nobody_is_trusted_by_default_where_nothing_is_signed(self, desk: Desk) -> None:
        desk.ok(*INIT)
        ran = desk.run("verify", CHANNEL, "--output", "json")
        assert (ran.code, ran.error["code"]) == (2, "nobody-trusted")

    def test_a_certificate_of_another_sigstore_proves_nothing(self, desk: Desk, sigstore: LocalSigstore) -> None:
        desk.ok(*INIT)
        with LocalSigstore() as other:
            desk.write("trust.json", other.trust_config())
        ran = desk.run("verify", CHANNEL, *NAMED, "--output", "json")
        assert (ran.code, ran.error["code"]) == (10, "foreign-signature")
        assert sigstore.url not in ran.error["message"]


class TestIdentityChange:
    def test_stops_before_anything_is_read_and_tells_what_clusters_need(
        self, desk: Desk, sigstore: LocalSigstore
    ) -> None:
        desk.ok(*INIT)
        in_a_job(desk, sigstore.environment(OTHER))
        before = desk.state()
        ran = desk.run("update", CHANNEL, *NAMED, "--output", "json")
        assert (ran.code, ran.error["code"]) == (10, "identity-change")
        quoted = [identity.subject.replace(".", r"\.") for identity in (WORKFLOW, OTHER)]
        assert all(subject in ran.error["message"] for subject in quoted)
        issuer = f"^{GITHUB.replace('.', chr(92) + '.')}$"
        block = f"verify.matchOIDCIdentity: [{{issuer: '{issuer}', subject: '(?:^{quoted[0]}$)|(?:^{quoted[1]}$)'}}]"
        assert block in ran.error["hint"]
        assert "--accept-identity-change" in ran.error["hint"]
        assert "reusable workflow" in ran.error["hint"]
        assert desk.state() == before

        ran = desk.ok("update", CHANNEL, *NAMED, "--accept-identity-change", "--output", "json")
        assert (ran.json["version"], ran.json["signature"]) == ("v2.98.8", "verified")
        assert desk.run("verify", CHANNEL, *NAMED).code == 10
        assert desk.ok("verify", CHANNEL, *OWN, *named(OTHER), "--output", "json").json["by"] == str(OTHER)
        # Until all clusters and configurations have changed, either may have signed.
        for both in ((*named(WORKFLOW), "--identity", OTHER.subject), ("--identity-regexp", pattern(block), *ISSUER)):
            assert desk.ok("update", CHANNEL, *both, *OWN, "--output", "json").json["signature"] == "verified"

    def test_where_nobody_is_named_it_is_a_foreign_signature(self, desk: Desk, sigstore: LocalSigstore) -> None:
        desk.ok(*INIT)
        in_a_job(desk, sigstore.environment(OTHER))
        before = desk.state()
        ran = desk.run(*UPDATE, "--output", "json")
        assert (ran.code, ran.error["code"]) == (10, "foreign-signature")
        assert WORKFLOW.subject in ran.error["message"]
        assert desk.state() == before

    @pytest.mark.usefixtures("sigstore")
    def test_from_a_key_to_an_identity_and_back(self, desk: Desk) -> None:
        desk.init()
        ran = desk.run("update", CHANNEL, *TRUSTED, *OWN, "--output", "json")
        assert (ran.code, ran.error["code"]) == (10, "identity-change")
        assert "verify block of the clusters; it takes a key or an identity, never both" in ran.error["hint"]
        desk.ok("update", CHANNEL, *TRUSTED, *OWN, "--accept-identity-change")
        assert desk.run("verify", CHANNEL, *TRUSTED).code == 10
        plan = desk.ok("plan", CHANNEL, *NAMED, "--output", "json").json["plan"]
        desk.write("plan.json", json.dumps(plan))
        back = ("apply", "plan.json", *approved(plan), *NAMED, *SIGNED)
        assert desk.run(*back).code == 10
        desk.ok(*back, "--accept-identity-change")
        desk.ok("verify", CHANNEL, *TRUSTED)

    def test_from_a_key_to_another(self, desk: Desk) -> None:
        desk.init()
        desk.write("new.key", key_pem("theirs"))
        desk.write("new.pub", signing_key("theirs").public.to_pem())
        change = ("update", CHANNEL, *TRUSTED, "--key", "new.key", "--output", "json")
        ran = desk.run(*change)
        assert (ran.code, ran.error["code"]) == (10, "identity-change")
        assert "add the new public key beside the old one in the Secret of verify.secretRef" in ran.error["hint"]
        assert "reusable workflow" not in ran.error["hint"]
        # With both in place nothing changes for anybody.
        assert desk.ok(*change, "--public-key", "new.pub").json["version"] == "v2.98.8"
        desk.ok("verify", CHANNEL, "--public-key", "new.pub")


ISSUER = ("--issuer", GITHUB)


def named(identity: Identity) -> tuple[str, ...]:
    """Return the options that trust exactly this identity."""
    return "--identity", identity.subject, "--issuer", identity.issuer


def pattern(block: str) -> str:
    """Return the subject in a verify block that is printed for clusters."""
    found = re.search(r"subject: '(.*)'}]$", block)
    assert found
    return found[1]


class TestTokens:
    @pytest.mark.parametrize(
        ("more", "code", "hint"),
        [
            pytest.param((), "no-signer", "permissions: {id-token: write}", id="by default"),
            pytest.param(("--signing", "keyless"), "no-token-permission", "id-token: write", id="when told to"),
        ],
    )
    def test_a_job_without_the_permission_is_told_so(
        self, desk: Desk, more: tuple[str, ...], code: str, hint: str
    ) -> None:
        in_a_job(desk, {})
        ran = desk.run("init", CHANNEL, "--flux-version", "v2.98.5", *more, "--output", "json")
        assert (ran.code, ran.error["code"]) == (22, code)
        assert hint in ran.error["hint"]
        assert not (desk.folder / "registry").exists()

    def test_outside_of_a_job_there_is_nobody_to_sign_as(self, desk: Desk) -> None:
        ran = desk.run("init", CHANNEL, "--flux-version", "v2.98.5", "--signing", "keyless", "--output", "json")
        assert (ran.code, ran.error["code"]) == (22, "no-identity-token")

    def test_one_that_is_handed_over_signs_as_whom_it_names(self, desk: Desk, sigstore: LocalSigstore) -> None:
        token = sigstore.token("robot@acme.example", "https://login.acme.example", email="robot@acme.example")
        verified = sigstore.token("7", "https://login.acme.example", email="robot@acme.example", email_verified=True)
        desk.patch.setenv("SIGSTORE_ID_TOKEN", verified)
        desk.ok(*INIT)
        assert asked(sigstore)["tokens"] == 0
        robot = Identity("https://login.acme.example", "robot@acme.example")
        assert desk.ok("verify", CHANNEL, *named(robot), *OWN, "--output", "json").json["by"] == str(robot)
        desk.patch.setenv("SIGSTORE_ID_TOKEN", token)
        assert desk.ok(*UPDATE, "--output", "json").json["version"] == "v2.98.8"

    @pytest.mark.parametrize(
        ("token", "code"), [("expired", "token-expired"), ("for another", "token-malformed"), ("no token", None)]
    )
    def test_one_that_is_no_good_publishes_nothing(
        self, desk: Desk, sigstore: LocalSigstore, token: str, code: str | None
    ) -> None:
        claims: dict[str, dict[str, Any]] = {
            "expired": {"exp": int(time.time()) - 1},
            "for another": {"aud": "another"},
        }
        text = sigstore.token(**claims[token]) if token in claims else base64.b64encode(b"no").decode()
        desk.patch.setenv("SIGSTORE_ID_TOKEN", text)
        ran = desk.run(*INIT, "--output", "json")
        assert (ran.code, ran.error["code"]) == (22, code or "token-malformed")
        assert not (desk.folder / "registry").exists()

    def test_only_the_runner_is_shown_one(self, desk: Desk, sigstore: LocalSigstore) -> None:
        ran = desk.ok(*INIT, "-v")
        assert [line.partition("::add-mask::")[0] for line in ran.err.splitlines() if "eyJ" in line] == [""]
        desk.patch.delenv("GITHUB_ACTIONS")
        desk.patch.setenv("SIGSTORE_ID_TOKEN", sigstore.token())
        assert "eyJ" not in desk.ok(*UPDATE, "-v").err


class TestFailures:
    @pytest.mark.parametrize("service", ["oidc", "fulcio", "rekor"])
    @pytest.mark.parametrize("fault", [500, 429, "reset"])
    def test_a_service_that_is_down_for_a_while_leaves_the_channel_and_the_next_run_publishes(
        self, desk: Desk, sigstore: LocalSigstore, service: str, fault: int | str
    ) -> None:
        digest = json.loads(desk.ok(*INIT, "--output", "json").out)["digest"]
        sigstore.fail(service, *[fault] * 4)
        ran = desk.run("update", CHANNEL, *NAMED, "--output", "json")
        assert (ran.code, ran.json.keys()) == (22, {"schema", "error"})
        expected = {"oidc": "token-service-failed", "fulcio": "fulcio-failed", "rekor": "rekor-failed"}
        assert ran.error["code"] == expected[service]
        assert "the last of 4 attempts" in ran.error["message"]
        ran = desk.ok("verify", CHANNEL, *NAMED, "--output", "json")
        assert (ran.json["digest"], ran.json["by"]) == (digest, str(WORKFLOW))
        tags = [tag for tag in tags_of(desk) if tag.startswith("v")]
        assert tags == [f"v2.98.5-{digest.removeprefix('sha256:')[:12]}"]

        sigstore.fail(service, *[fault] * 3)  # it is tried again as often
        ran = desk.ok("update", CHANNEL, *NAMED, "--output", "json")
        assert (ran.json["version"], ran.json["changed"], ran.json["healed"]) == ("v2.98.8", True, False)
        (newest, _) = desk.ok("history", CHANNEL, *NAMED, "--output", "json").json["entries"]
        assert (newest["signed"], len(newest["records"])) == (str(WORKFLOW), 1)

    def test_a_record_that_cannot_be_signed_leaves_the_channel_where_it_is(
        self, desk: Desk, sigstore: LocalSigstore
    ) -> None:
        desk.ok(*INIT)
        entries, answer = [0], sigstore.answer

        def only_once(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
            entries[0] += target.endswith("/log/entries")
            return answer(method, target, headers, body) if entries[0] < 2 else Answer(503, {"message": "later"})

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sigstore, "answer", only_once)
            ran = desk.run(*UPDATE, "--output", "json")
        assert (ran.code, ran.error["code"]) == (22, "rekor-failed")
        assert "Rekor (the transparency log)" in ran.error["message"]
        (present,) = desk.ok("history", CHANNEL, *NAMED, "--output", "json").json["entries"]
        assert (present["version"], present["channels"]) == ("v2.98.5", ["production"])

        ran = desk.ok(*UPDATE, "--output", "json")
        assert (ran.json["changed"], ran.json["healed"]) == (True, False)
        newest, _ = desk.ok("history", CHANNEL, *NAMED, "--output", "json").json["entries"]
        assert [record["recovered"] for record in newest["records"]] == [False]

    @pytest.mark.usefixtures("sigstore")
    def test_an_instance_that_cannot_sign_is_told_before_anything_is_written(self, desk: Desk) -> None:
        config = json.loads(desk.read("trust.json"))
        desk.write("root.json", json.dumps(config["trustedRoot"]))
        ran = desk.run(*INIT[:-1], "root.json", "--output", "json")
        assert (ran.code, ran.error["code"]) == (22, "no-signing-services")
        assert not [tag for tag in tags_of(desk) if not tag.startswith("sha256-")]


def tags_of(desk: Desk) -> list[str]:
    """Return the tags in the registry; none where there is no registry."""
    path = desk.folder / "registry" / "index.json"
    entries = json.loads(path.read_bytes())["manifests"] if path.exists() else []
    found = (entry.get("annotations", {}).get("org.opencontainers.image.ref.name") for entry in entries)
    return sorted(tag for tag in found if tag)


@pytest.mark.usefixtures("sigstore")
def test_a_hold_that_only_the_workflow_can_end_is_told_with_where_it_is_started(desk: Desk) -> None:
    desk.config(
        f"version: 1\nartifacts:\n- {{name: production, url: '{CHANNEL}', trustConfig: trust.json, "
        f"verify: {{identity: '{WORKFLOW.subject}', issuer: '{GITHUB}'}}}}\n"
    )
    desk.ok("init", "production", "--flux-version", "v2.98.8")
    desk.ok("plan", "production", "--out", "plan.json")
    desk.ok("apply", "plan.json", *approved(json.loads(desk.read("plan.json"))))
    desk.ok("rollback", "production", "--to", "v2.98.8", "--yes")
    for variable in ("ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "GITHUB_ACTIONS"):
        desk.patch.delenv(variable)
    told = desk.ok("check", "production").out
    assert "\nTo lift the hold, start flux.yaml in GitHub Actions: lift-hold, production.\n" in told
    assert "--lift" not in told
