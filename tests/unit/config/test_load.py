from __future__ import annotations

import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.config.document import InvalidConfig
from ci_automation.config.load import load_config, parse_config
from ci_automation.config.model import (
    ApprovalConfig,
    ApprovalVia,
    Config,
    ConsumerConfig,
    CredentialsConfig,
    Login,
    SigningConfig,
    SigningMode,
    UpstreamConfig,
    UpstreamVerify,
    VerifyConfig,
)
from ci_automation.config.sections import Artifact
from ci_automation.config.source import DirectorySourceConfig, GitHubSourceConfig, RegistrySourceConfig
from ci_automation.flux.following import FleetSettings, SyncSettings
from ci_automation.flux.version import Bump, Version
from ci_automation.policy.model import Action, MinorStep, Period, Policy, SignatureFormat
from ci_automation.policy.ranges import Range
from tests.unit.config.texts import FULL, MINIMAL

ISSUER = "https://token.actions.githubusercontent.com"
FILE = "flux.yaml"
DAY = timedelta(days=1)
GROUPED = "version: 1\ndefaults: {approval: {via: pull-request}}\nartifacts:\n"


def parsed(text: str) -> Config:
    return parse_config(text.encode(), FILE)


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        parsed(text)
    return str(caught.value).splitlines()


def with_artifact(line: str) -> str:
    """Return a configuration whose one artifact has `line`, the file's fifth, from column 5."""
    return f"version: 1\nartifacts:\n  - name: a\n    url: oci://r.example/a:b\n    {line}\n"


def with_url(url: str) -> str:
    """Return a configuration whose one artifact has `url`, in column 10 of the file's fourth line."""
    return f"version: 1\nartifacts:\n  - name: a\n    url: {url}\n"


def with_policy(line: str) -> str:
    """Return a configuration whose default policy has `line`, the file's fourth, from column 5."""
    return f"version: 1\ndefaults:\n  policy:\n    {line}\nartifacts: [{{name: a, url: 'oci://r.example/a:b'}}]\n"


class TestWhatIsWritten:
    def test_every_key_arrives(self) -> None:
        config = parsed(FULL)
        assert config.source == GitHubSourceConfig("acme", "flux2", "https://github.example.com/api/v3")
        assert config.artifacts[0] == Artifact(
            name="production",
            channel=Reference.parse("oci://ghcr.io/acme/flux-manifests:production"),
            components_file="flux-system/gotk-components.yaml",
            overlay="clusters/production",
            paused=True,
            version_tags=True,
            group="eu",
            own_policy=Policy(
                actions={Bump.PATCH: Action.AUTO, Bump.MINOR: Action.AUTO, Bump.MAJOR: Action.APPROVAL},
                range=Range.parse(">=2.0.0 <4.0.0"),
                prereleases=True,
                min_release_age={Bump.PATCH: DAY / 2, Bump.MINOR: 3 * DAY, Bump.MAJOR: 30 * DAY},
                minor_step=MinorStep.NEXT,
                freeze=(Period("0 0 20 12 *", 14 * DAY, ZoneInfo("Europe/Berlin"), "year end"),),
            ),
            signing=SigningConfig(SigningMode.KEY, "env://COSIGN_KEY", SignatureFormat.BOTH),
            verify=VerifyConfig(("cosign.pub", "env://OLD_KEY")),
            credentials=CredentialsConfig(
                pull=Login("PULL_USER", "PULL_PASSWORD"),
                push=Login("PUSH_USER", "PUSH_PASSWORD"),
                token_host="auth.example:8443",
            ),
            trust_config="sigstore.json",
            attestations=True,
            minimum_flux=Version.parse("2.6.4"),
            approval=ApprovalConfig(
                via=ApprovalVia.PULL_REQUEST,
                approvals=2,
                team="acme/platform",
                reviewers=("alice",),
                team_reviewers=("platform",),
                labels=("area: flux",),
                assignees=("bob",),
                auto_merge=True,
                own_merge=True,
                environment="production",
                workflow="allow.yml",
            ),
            consumers=(ConsumerConfig("acme/fleet", ("clusters",)), ConsumerConfig("acme/edge")),
            announce=("acme/dashboards",),
            sync=SyncSettings(
                name="own",
                namespace="flux",
                labels={"team": "platform"},
                annotations={"note": "1"},
                source={"secretRef": {"name": "pull"}},
                kustomization={"wait": True},
                fleet=FleetSettings(
                    Reference.parse("oci://ghcr.io/acme/fleet:production"), "./clusters", "apps", unsafe_unsigned=True
                ),
            ),
        )
        assert config.upstream == UpstreamConfig(
            UpstreamVerify.IF_AVAILABLE, "upstream.json", Reference.parse("oci://mirror.example/flux-manifests:latest")
        )
        assert config.digest == Digest.of(FULL.encode())

    def test_an_artifact_overrides_the_defaults_key_by_key(self) -> None:
        edge = parsed(FULL).find("edge")
        assert edge.flags == {
            "components": ("source-controller",),
            "registry": "registry.edge.example/fluxcd",
            "network-policy": False,
        }
        assert edge.policy == Policy(
            actions={Bump.PATCH: Action.APPROVAL, Bump.MINOR: Action.AUTO, Bump.MAJOR: Action.APPROVAL},
            range=Range.parse(">=2.0.0 <4.0.0"),
            prereleases=True,
            min_release_age={Bump.PATCH: 0 * DAY, Bump.MINOR: 3 * DAY, Bump.MAJOR: 30 * DAY},
            minor_step=MinorStep.NEXT,
            freeze=(),
        )
        assert edge.signing == SigningConfig(SigningMode.KEY, "edge.key")
        assert edge.verify == VerifyConfig(("cosign.pub", "env://OLD_KEY"))
        assert not edge.attestations
        assert edge.credentials == CredentialsConfig(
            pull=Login("PULL_USER", "PULL_PASSWORD"),
            push=Login("EDGE_USER", "EDGE_PASSWORD"),
            token_host="auth.example:8443",
        )

    def test_what_is_left_out_is_the_designs_default(self) -> None:
        assert parsed(MINIMAL) == Config(
            GitHubSourceConfig("fluxcd", "flux2"),
            (Artifact(name="a", channel=Reference.parse("oci://r.example/a:b")),),
            digest=Digest.of(MINIMAL.encode()),
        )

    def test_an_identity_is_exact_or_a_pattern(self) -> None:
        exact = parsed(with_artifact("verify: {identity: me, issuer: 'https://i.example'}")).artifacts[0]
        assert exact.verify == VerifyConfig(identities=("me",), issuer="https://i.example")
        pattern = parsed(with_artifact("verify: {identityRegexp: '^me$', issuer: 'https://i.example'}")).artifacts[0]
        assert pattern.verify == VerifyConfig(patterns=("^me$",), issuer="https://i.example")

    def test_bundles_alone_are_for_clusters_that_read_them(self) -> None:
        text = with_artifact("signing: {format: bundle}") + "    minimumFlux: 2.8.6\n"
        assert parsed(text).artifacts[0].signing.format is SignatureFormat.BUNDLE

    def test_an_artifact_can_say_what_the_defaults_do_not(self) -> None:
        artifact = parsed(
            with_artifact("policy: {minReleaseAge: {minor: 1d, security: 1h}, prereleases: true}")
        ).artifacts[0]
        assert artifact.policy.security_age == DAY / 24
        assert artifact.policy.min_release_age == {Bump.PATCH: DAY, Bump.MINOR: DAY, Bump.MAJOR: 7 * DAY}
        assert artifact.policy.prereleases

    def test_an_artifact_can_take_a_permission_back(self) -> None:
        text = FULL.replace("policy: {patch: approval,", "policy: {prereleases: false,")
        assert not parsed(text).find("edge").policy.prereleases

    def test_a_window_is_a_period_like_a_freeze_without_a_reason(self) -> None:
        window = '{cron: "0 1 * * 1-5", for: 4h, timeZone: Europe/Berlin}'
        config = parsed(with_policy(f"window: [{window}]"))
        assert config.artifacts[0].policy.window == (Period("0 1 * * 1-5", DAY / 6, ZoneInfo("Europe/Berlin")),)
        wrong = problems(with_policy(f"window: [{window[:-1]}, reason: x}}]"))[0]
        assert "window[0].reason: is not known" in wrong

    def test_a_freeze_without_a_zone_is_in_utc(self) -> None:
        config = parsed(with_policy('freeze: [{cron: "0 0 * * SAT", for: 2d}]'))
        assert config.artifacts[0].policy.freeze == (Period("0 0 * * SAT", 2 * DAY, ZoneInfo("UTC")),)

    @pytest.mark.parametrize(
        ("line", "source"),
        [
            pytest.param("source: dir:../releases", DirectorySourceConfig(Path("../releases")), id="a folder"),
            pytest.param(
                "source: oci://r.example/x", RegistrySourceConfig(Reference.parse("oci://r.example/x")), id="a registry"
            ),
            pytest.param("source: github:a/b.c", GitHubSourceConfig("a", "b.c"), id="another repository"),
            pytest.param(
                "apiUrl: http://127.0.0.1:8080",
                GitHubSourceConfig(api_url="http://127.0.0.1:8080"),
                id="loopback needs no TLS",
            ),
        ],
    )
    def test_sources(self, line: str, source: GitHubSourceConfig | DirectorySourceConfig) -> None:
        assert parsed(f"{line}\n{MINIMAL}").source == source

    def test_a_layout_directory_is_an_artifact_too(self) -> None:
        config = parsed("version: 1\nartifacts: [{name: a, url: 'layout:./here:b'}]\n")
        assert config.find("layout:here:b").name == "a"


class TestWhatIsWrong:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            pytest.param("- a", "1:1: must be a mapping, not a list", id="a list"),
            pytest.param("artifacts: []", "1:1: version: is missing", id="no version"),
            pytest.param(
                MINIMAL.replace("1", "2", 1),
                "1:10: version: this program reads version 1 of the file format, not 2",
                id="another version",
            ),
            pytest.param(
                MINIMAL.replace("1", "true", 1), "1:10: version: must be a number, not true or false", id="a switch"
            ),
            pytest.param(
                MINIMAL.replace("1", "'1'", 1), "1:10: version: must be a number, not a text", id="a text for a version"
            ),
            pytest.param("version: 1\nartifacts: []", "2:12: artifacts: must not be empty", id="no artifacts"),
            pytest.param("version: 1\nartifacts: {}", "2:12: artifacts: must be a list, not a mapping", id="a mapping"),
            pytest.param("version: 1\nartifacts: [{name: a}]", "2:13: artifacts[0].url: is missing", id="no address"),
            pytest.param(
                f"{MINIMAL}artefacts: []", "3:1: artefacts: is not known; did you mean artifacts?", id="an unknown key"
            ),
            pytest.param(
                f"{MINIMAL}zzz: 1",
                "3:1: zzz: is not known; known are version, source, apiUrl, upstream, defaults, artifacts",
                id="a key like no other",
            ),
            pytest.param(
                with_artifact("after: 72h"),
                "5:5: artifacts[0].after: is not known; did you mean promote.after?",
                id="a key of a mapping below",
            ),
            pytest.param(
                f"{MINIMAL}patch: auto",
                "3:1: patch: is not known; did you mean defaults.policy.patch?",
                id="a key far below",
            ),
            pytest.param(
                with_policy("min_release_age: {patch: 1h}"),
                "4:5: defaults.policy.min_release_age: is not known; did you mean minReleaseAge?",
                id="the key's name in the program",
            ),
            pytest.param(
                with_policy("minReleaseAge: {ptch: 1h}"),
                "4:21: defaults.policy.minReleaseAge.ptch: is not known; did you mean patch?",
                id="an unknown key far inside",
            ),
            pytest.param(
                with_policy("freeze: [{cron: '* * * * *', form: 1h, for: 1h}]"),
                "4:34: defaults.policy.freeze[0].form: is not known; did you mean for?",
                id="an unknown key in a list",
            ),
            pytest.param(
                with_policy("patch: sometimes"),
                "4:12: defaults.policy.patch: 'sometimes' is not 'auto', 'approval' or 'never'",
                id="no such action",
            ),
            pytest.param(
                with_policy("patch: no"),
                "4:12: defaults.policy.patch: must be 'auto', 'approval' or 'never', not true or false",
                id="no, which YAML reads as false",
            ),
            pytest.param(
                with_policy("minorStep: [next]"),
                "4:16: defaults.policy.minorStep: must be 'latest' or 'next', not a list",
                id="a list for a choice",
            ),
            pytest.param(
                with_policy("range: 2.9"),
                "4:12: defaults.policy.range: must be a text, not a number; put it in quotes",
                id="a number for a range",
            ),
            pytest.param(
                with_policy("range: [2.9]"),
                "4:12: defaults.policy.range: must be a text, not a list",
                id="a list for a range",
            ),
            pytest.param(
                with_policy("range: newest"),
                "4:12: defaults.policy.range: 'newest' is not a range of versions: 'newest' is not a list of "
                'constraints. Write it as in spec.ref.semver, for example ">=2.0.0 <3.0.0", "2.9.x" or '
                '"~2.8.0 || ~2.9.0".',
                id="no range",
            ),
            pytest.param(
                with_policy("prereleases: 'yes'"),
                "4:18: defaults.policy.prereleases: must be true or false, not a text",
                id="a text for a switch",
            ),
            pytest.param(
                with_policy("minReleaseAge: 24h"),
                "4:20: defaults.policy.minReleaseAge: must be a mapping, not a text",
                id="a text for a mapping",
            ),
            pytest.param(
                with_policy("minReleaseAge: {patch: -1h}"),
                "4:28: defaults.policy.minReleaseAge.patch: '-1h' is not a duration. Write it with d, h, m or s, for "
                "example 7d, 24h or 1h30m; at most ten years.",
                id="a negative age",
            ),
            pytest.param(
                with_policy("freeze: [{cron: 0 0 1 1 *, for: 0s}]"),
                "4:37: defaults.policy.freeze[0].for: '0s' is not a duration. Write it with d, h, m or s, for example "
                "7d, 24h or 1h30m; at most ten years.",
                id="a freeze of no time",
            ),
            pytest.param(
                with_policy("freeze: [{cron: 0 0 32 1 *, for: 1h}]"),
                "4:21: defaults.policy.freeze[0].cron: '0 0 32 1 *' cannot be understood: it has no valid "
                "day-of-month. Write minute, hour, day of month, month, day of week: five fields, such as 0 0 20 12 *.",
                id="a wrong cron",
            ),
            pytest.param(
                with_policy("freeze: [{cron: 0 0 1 1 *, for: 1h, timeZone: Europe/Berln}]"),
                "4:51: defaults.policy.freeze[0].timeZone: there is no time zone 'Europe/Berln'. Did you mean "
                "Europe/Berlin?",
                id="no such time zone",
            ),
            pytest.param(
                with_artifact("paused: 2026-12-20"),
                "5:13: artifacts[0].paused: must be true or false, not a date",
                id="a date for a switch",
            ),
            pytest.param(
                with_artifact("componentsFile: ../gotk-components.yaml"),
                "5:21: artifacts[0].componentsFile: it is not a path inside the artifact, such as "
                "flux-system/gotk-components.yaml",
                id="a path out of the artifact",
            ),
            pytest.param(
                with_url("oci://r.example/a"),
                "4:10: artifacts[0].url: 'oci://r.example/a' is not the address of an artifact: a channel is a "
                "tag, such as :production. Write oci://HOST/REPOSITORY:TAG, or layout:DIRECTORY:TAG for an image "
                "layout directory.",
                id="an address without a tag",
            ),
            pytest.param(
                with_artifact("flags: [a]"), "5:12: artifacts[0].flags: must be a mapping, not a list", id="no flags"
            ),
            pytest.param(
                with_artifact("flags: {log_level: debug}"),
                "5:24: artifacts[0].flags.log_level: flux install has no flag --log_level. Did you mean log-level?",
                id="a flag that is no name",
            ),
            pytest.param(
                with_artifact("flags: {components: [source-controler]}"),
                "5:25: artifacts[0].flags.components: Flux has no component 'source-controler'. Did you mean "
                "source-controller?",
                id="an unknown component",
            ),
            pytest.param(
                with_artifact("flags: {components: [source-controller], components-extra: [source-controller]}"),
                "5:12: artifacts[0].flags: the component source-controller is named twice. Name each component once.",
                id="flags that do not go together",
            ),
            pytest.param(
                with_artifact("sync: {source: {url: a}}"),
                "5:26: artifacts[0].sync.source.url: url is filled in by the program",
                id="a field of the program",
            ),
            pytest.param(
                with_artifact("sync: {source: {verify: {provider: notation}}}"),
                "5:29: artifacts[0].sync.source.verify: verify must be a mapping, and its provider cosign",
                id="a provider that the program does not know",
            ),
            pytest.param(
                with_artifact("sync: {labels: {a: 1}}"),
                "5:24: artifacts[0].sync.labels.a: a must have a text; put it in quotes",
                id="a label that is a number",
            ),
            pytest.param(
                with_artifact("name: b"), "5:5: artifacts[0].name: the key is there twice, first in line 3", id="twice"
            ),
            pytest.param(
                with_artifact("signing: {key: }"),
                "5:20: artifacts[0].signing.key: it has no value; give it one, or remove the key",
                id="no value",
            ),
            pytest.param(
                f"source: ftp:x\n{MINIMAL}",
                "1:9: source: it does not name a source of releases: 'ftp:x' is none of github:OWNER/REPOSITORY, "
                "dir:PATH and oci://HOST/REPOSITORY. Write github:OWNER/REPOSITORY, dir:PATH for a folder of releases, "
                "or oci://HOST/REPOSITORY for a registry.",
                id="no source",
            ),
            pytest.param(
                f"source: dir:a\napiUrl: https://x.example\n{MINIMAL}",
                "2:9: apiUrl: is only for a github: source",
                id="an API for a folder",
            ),
            pytest.param(
                "version: 1\nartifacts:\n- {name: a, url: 'oci://r.example/a:b'}\n- {name: a, url: 'oci://r.example/a:c'}",
                "4:10: artifacts[1].name: is the same as that of artifacts[0]",
                id="two of one name",
            ),
            pytest.param(
                "version: 1\nartifacts:\n- {name: a, url: 'oci://r.example/a:b'}\n- {name: b, url: 'oci://r.example/a:b'}",
                "4:18: artifacts[1].url: is the same as that of artifacts[0]",
                id="two of one address",
            ),
            pytest.param(
                "version: 1\nartifacts:\n- {name: a, url: 'oci://r.example/a:b'}\n- {name: b, url: 'oci://R.example/a:b'}",
                "4:18: artifacts[1].url: is the same as that of artifacts[0]",
                id="two of one address but for the case of its host",
            ),
            pytest.param(
                "version: 1\nartifacts:\n- {name: a, url: 'oci://r.example/a:b'}\n- {name: b, url: 'oci://r.example:443/a:b'}",
                "4:18: artifacts[1].url: is the same as that of artifacts[0]",
                id="two of one address, one with the port that is the default",
            ),
            pytest.param(
                "version: 1\nartifacts:\n- {name: a, url: 'oci://r.example/a:b', versionTags: true}\n"
                "- {name: b, url: 'oci://r.example/b:b', versionTags: true}\n"
                "- {name: c, url: 'oci://r.example/a:c', versionTags: false}\n"
                "- {name: d, url: 'oci://r.example/a:d', versionTags: true}",
                "6:54: artifacts[3].versionTags: is for one artifact of a repository, and artifacts[0] has it",
                id="two with version tags in one repository",
            ),
            pytest.param(
                "version: 1\nartifacts:\n- {name: a, url: 'oci://r.example/a:b', group: eu}",
                "3:48: artifacts[0].group: needs approval.via: pull-request",
                id="a group that is not asked for by pull request",
            ),
            pytest.param(
                f"{GROUPED}- {{name: a, url: 'oci://r.example/a:b', group: eu, approval: {{team: acme/x}}}}\n"
                "- {name: b, url: 'oci://r.example/a:c', group: us, approval: {team: acme/y}}\n"
                "- {name: c, url: 'oci://r.example/a:d', group: eu, approval: {team: acme/y}}",
                "6:48: artifacts[2].group: needs the approval of artifacts[0], which is in the same group",
                id="two of a group with other rules for approvals",
            ),
            pytest.param(
                GROUPED + "- {name: a, url: 'oci://r.example/a:b', group: eu, promote: {from: 'oci://r.example/a:c'}}",
                "4:48: artifacts[0].group: is for artifacts that are rendered; a promotion waits for its source, "
                "and is asked for alone",
                id="a promotion in a group",
            ),
            pytest.param(
                GROUPED + "".join(f"- {{name: a{n}, url: 'oci://r.example/a:b{n}', group: eu}}\n" for n in range(22)),
                "24:52: artifacts[20].group: has more than 20 artifacts, which one page cannot show",
                id="a group that is too large",
            ),
        ],
    )
    def test_is_told_with_file_line_and_key(self, text: str, problem: str) -> None:
        assert problems(text)[0] == f"{FILE}:{problem}"

    def test_a_key_without_a_value_has_one_problem(self) -> None:
        what = "it has no value; give it one, or remove the key"
        assert problems(f"source: dir:a\napiUrl:\n{MINIMAL}") == [f"{FILE}:2:8: apiUrl: {what}"]

    def test_everything_at_once_in_the_order_of_the_file(self) -> None:
        text = (
            FULL.replace("patch: auto", "patch: always").replace("mode: key", "mode: none").replace("paused", "pausd")
        )
        text = text.replace("url: oci://registry.edge.example/flux/manifests:stable", "url:")
        assert [line.split(": ")[1] for line in problems(text)] == [
            "defaults.policy.patch",
            "defaults.signing.mode",
            "artifacts[0].pausd",
            "artifacts[1].url",
        ]

    def test_of_values_that_do_not_go_together_the_schema_says_nothing(self) -> None:
        with pytest.raises(InvalidConfig) as caught:
            parsed(f"{MINIMAL}apiUrl: https://ghes.example/api/v3\nsource: dir:releases")
        assert caught.value.hint == "Correct these lines, and check again: `config validate`."

    def test_the_error_says_how_it_ends_and_where_to_read_on(self) -> None:
        with pytest.raises(InvalidConfig) as caught:
            parsed("version: 3")
        assert caught.value.exit_code == 2
        assert "config schema" in caught.value.hint
        assert [(problem.line, problem.column, problem.key) for problem in caught.value.problems] == [
            (1, 1, "artifacts"),
            (1, 10, "version"),
        ]

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            pytest.param("signing: {mode: key}", "signing: mode key needs key", id="a key's mode without a key"),
            pytest.param("signing: {mode: kms}", "signing: mode kms needs key", id="a KMS without a key"),
            pytest.param("signing: {mode: kms, key: a.key}", "such as awskms://", id="a file for a KMS"),
            pytest.param("signing: {mode: keyless, key: a.key}", "keyless takes no key", id="keyless with a key"),
            pytest.param("signing: {mode: unsafe-unsigned, key: a.key}", "takes no key", id="unsigned with a key"),
            pytest.param("signing: {format: bundle}", "needs minimumFlux: 2.8.6", id="bundles for nobody knows whom"),
            pytest.param("verify: {identity: x}", "an identity and its issuer go together", id="no issuer"),
            pytest.param("verify: {issuer: x}", "an identity and its issuer go together", id="an issuer alone"),
            pytest.param("verify: {identity: x, identityRegexp: ^y$, issuer: z}", "not both", id="two identities"),
            pytest.param("verify: {identity: x, issuer: z, publicKey: k}", "or an identity", id="both kinds"),
            pytest.param(
                f"verify: {{identity: https://ghe.acme.com/a/b/.github/workflows/flux.yaml@x, issuer: {ISSUER}}}",
                "https://ghe.acme.com with github.com's issuer: an Enterprise Server has its own, "
                "https://ghe.acme.com/_services/token",
                id="an Enterprise Server with the issuer of github.com",
            ),
            pytest.param(
                f"verify: {{identityRegexp: '^https://ghe\\.acme\\.com/a/b.*$', issuer: {ISSUER}/acme}}",
                "https://ghe.acme.com with github.com's issuer",
                id="a pattern of an Enterprise Server",
            ),
            pytest.param(
                "verify: {identity: https://github.com/a/b, issuer: https://ghe.acme.com/_services/token}",
                f"https://github.com with the issuer of an Enterprise Server: github.com's is {ISSUER}",
                id="github.com with the issuer of an Enterprise Server",
            ),
            pytest.param("verify: {publicKey: []}", "publicKey: must not be empty", id="no key"),
            pytest.param("verify: {publicKey: 'awskms:///x'}", "`public-key` prints that of a KMS", id="a KMS's half"),
            pytest.param("verify: {identityRegexp: ^a|b$, issuer: z}", "Write ^(?:^a|b$)$", id="half anchored"),
            pytest.param(
                "verify: {identityRegexp: '^(?=a)a$', issuer: z}",
                "expression of RE2: invalid perl operator: (?=",
                id="no RE2",
            ),
            pytest.param("verify: {identity: ''}", "it is empty", id="an empty identity"),
        ],
    )
    def test_what_does_not_go_together_in_signing_and_trust_is_told(self, line: str, problem: str) -> None:
        assert any(problem in told for told in problems(with_artifact(line)))

    @pytest.mark.parametrize(
        "verify",
        [
            f"identity: https://github.com/a/b, issuer: {ISSUER}/acme",
            f"identityRegexp: '^https://(github|x)\\.com/a$', issuer: {ISSUER}",
            "identity: https://ghe.acme.com/a/b, issuer: https://ghe.acme.com/_services/token",
            "identity: https://gitlab.com/a/b, issuer: https://gitlab.com",
            f"identity: a@acme.com, issuer: {ISSUER}",
        ],
    )
    def test_an_issuer_that_may_be_that_of_the_identity_is_taken(self, verify: str) -> None:
        (artifact,) = parsed(with_artifact(f"verify: {{{verify}}}")).artifacts
        assert artifact.verify.issuer

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            pytest.param("approval: {via: mail}", "'mail' is not 'none', 'pull-request'", id="no such way"),
            pytest.param("approval: {autoMerge: true}", "needs approvals: 1 or more", id="merged without a yes"),
            pytest.param("approval: {autoMerge: true, approvals: 1, draft: true}", "exclude each other", id="a draft"),
            pytest.param("approval: {via: repository-dispatch}", "needs repository", id="a dispatch to nobody"),
            pytest.param("approval: {repository: 'https://github.com/a/b'}", "such as acme/fleet", id="an address"),
            pytest.param("approval: {team: platform}", "such as acme/platform", id="a team of nobody"),
            pytest.param("approval: {reviewers: ['@alice']}", "without @", id="a mention"),
            pytest.param("approval: {workflow: ../approve.yaml}", "such as approve.yaml", id="a path"),
            pytest.param(f"approval: {{labels: [{'x' * 51}]}}", "at most 50 characters", id="a long label"),
            pytest.param("approval: {approvals: 11}", "approval.approvals: must be at most 10", id="too many"),
            pytest.param("consumers: [{repository: acme/fleet, paths: ['../x']}]", "inside the repo", id="outside"),
            pytest.param("consumers: [{repository: acme/..}]", "such as acme/fleet", id="dots"),
            pytest.param("announce: [fleet]", "such as acme/fleet", id="no owner"),
        ],
    )
    def test_what_is_wrong_with_asking_is_told(self, line: str, problem: str) -> None:
        assert any(problem in told for told in problems(with_artifact(line)))

    @pytest.mark.parametrize(
        "line",
        [
            pytest.param("signing: {key: k8s://a/b}", id="a cluster's secret to sign with"),
            pytest.param("verify: {publicKey: k8s://a/b}", id="a cluster's secret to verify with"),
        ],
    )
    def test_keys_are_in_files_variables_and_services(self, line: str) -> None:
        assert "neither a file nor one of env://, awskms://" in problems(with_artifact(line))[0]

    def test_a_source_in_a_registry_is_a_repository(self) -> None:
        (said,) = problems(f"source: oci://r.example/x:v1\n{MINIMAL}")
        assert "it names one artifact; name the repository alone" in said

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            pytest.param(
                with_artifact("signing: {key: '-----BEGIN canary-hunter2'}"), "it is a key itself", id="a key"
            ),
            pytest.param(
                with_artifact("signing: {key: 'env://canary-hunter2!'}"), "takes the name of", id="no variable"
            ),
            pytest.param(with_artifact('signing: {key: "canary-hunter2\\n"}'), "neither a path nor", id="a line's end"),
            pytest.param(with_artifact("signing: {key: ''}"), "neither a path nor", id="nothing"),
            pytest.param(
                with_artifact("credentials: {pull: {usernameVariable: A, passwordVariable: 'canary-hunter2!'}}"),
                "the value itself must not be in this file",
                id="a password",
            ),
            pytest.param(
                with_artifact("credentials: {tokenHost: 'https://me:canary-hunter2@r.example'}"),
                "not a host, such",
                id="a URL",
            ),
            pytest.param(
                with_artifact("credentials: {tokenHost: 'me:canary-hunter2@r.example'}"),
                "not a host, such",
                id="a user",
            ),
            pytest.param(
                with_url("oci://me:canary-hunter2@r.example/a:b"),
                "must not hold a user name or password",
                id="in an address",
            ),
            pytest.param(
                f"apiUrl: https://me:canary-hunter2@x.example\n{MINIMAL}",
                "must not hold a user name or password",
                id="in an API's address",
            ),
            pytest.param(f"apiUrl: canary-hunter2\n{MINIMAL}", "is like https://", id="instead of an API's address"),
            pytest.param(
                with_artifact("flags: {registry-creds: 'me:canary-hunter2'}"), "--registry-creds would put", id="a flag"
            ),
            pytest.param(MINIMAL.replace("name: a", "name: canary-hunter2!"), "a name has letters", id="a name"),
        ],
    )
    def test_what_may_be_a_secret_is_not_repeated(self, text: str, what: str) -> None:
        message = "\n".join(problems(text))
        assert what in message
        assert "canary-hunter2" not in message

    @pytest.mark.parametrize(
        "address",
        [
            pytest.param("http://github.example.com", id="without TLS"),
            pytest.param("https://", id="no host"),
            pytest.param("https://x.example/?a=b", id="a query"),
            pytest.param("https://[::1", id="half an address"),
            pytest.param("ftp://x.example", id="another scheme"),
        ],
    )
    def test_an_apis_address_is_over_tls(self, address: str) -> None:
        assert "an API's address is like https://" in problems(f"apiUrl: '{address}'\n{MINIMAL}")[0]

    @pytest.mark.parametrize(
        "path", ["/etc/passwd", "a//b", "./a", "a/..", "a/", "a\\tb", "x" * 1025], ids=lambda path: path[:9]
    )
    def test_a_path_in_an_artifact_stays_in_it(self, path: str) -> None:
        assert "not a path inside the artifact" in problems(with_artifact(f'componentsFile: "{path}"'))[0]

    @pytest.mark.parametrize(
        "path", [".", "/", "", "/etc", "a//b", "./a", "../a", "a//", "a\\tb", "x" * 1025], ids=lambda path: path[:9]
    )
    def test_an_overlay_is_a_folder_below_the_root(self, path: str) -> None:
        assert "not a folder below the repository's root" in problems(with_artifact(f'overlay: "{path}"'))[0]

    def test_an_address_has_an_end(self) -> None:
        assert "it is too long" in problems(with_url(f"oci://r.example/{'a' * 2000}:b"))[0]


class TestFiles:
    def test_the_file_is_named_as_it_was_given(self, tmp_path: Path) -> None:
        path = tmp_path / "flux.yaml"
        path.write_text(MINIMAL)
        assert load_config(path) == parsed(MINIMAL)
        path.write_text("version: 1")
        with pytest.raises(InvalidConfig, match="artifacts: is missing") as caught:
            load_config(path)
        assert str(caught.value) == f"{path}:1:1: artifacts: is missing"

    def test_what_cannot_be_read_says_why(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidConfig) as missing:
            load_config(tmp_path / "none.yaml")
        assert str(missing.value) == f"{tmp_path / 'none.yaml'}: it cannot be read: No such file or directory"
        assert missing.value.hint == "Check the path. `setup` writes .github/flux-manifests.yaml."
        with pytest.raises(InvalidConfig, match="it cannot be read: Is a directory"):
            load_config(tmp_path)

    def test_a_large_file_is_not_read_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "large.yaml"
        with path.open("wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(InvalidConfig, match="it is larger than 1 MiB"):
            load_config(path)


KEYS = sorted({word for word in re.findall(r"([A-Za-z-]+):", FULL) if "http" not in word} | {"escalate", "x"})
TEXTS = [
    "auto",
    "1h",
    ">=2",
    "UTC",
    "0 0 1 1 *",
    "oci://r.example/a:b",
    "env://A",
    "key",
    "",
    "\x00",
    "1",
    "-",
    "\ud7ff",
]
scalars = st.sampled_from(TEXTS) | st.booleans() | st.integers() | st.floats() | st.none() | st.dates()
trees = st.recursive(
    scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(KEYS), below, max_size=4)
)


@given(
    st.dictionaries(st.sampled_from(KEYS), trees, max_size=6),
    st.dictionaries(st.sampled_from(KEYS), trees, max_size=6),
    st.dictionaries(st.sampled_from(KEYS), trees, max_size=6),
)
def test_any_values_at_any_keys_are_taken_or_refused_by_place(
    policy: dict[str, object], artifact: dict[str, object], defaults: dict[str, object]
) -> None:
    named = {"name": "a", "url": "oci://r.example/a:b"}
    file = {"version": 1, "defaults": defaults | {"policy": policy}, "artifacts": [named | artifact]}
    try:
        assert parsed(yaml.safe_dump(file)).artifacts
    except InvalidConfig as error:
        for problem in error.problems:
            assert problem.line
            assert problem.path


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        pytest.param("ci_automation.config.model", {"yaml"}, id="what flows use costs no library"),
        pytest.param(
            "ci_automation.config.load",
            {"pydantic", "requests", "oras", "cryptography", "rich"},
            id="nor does reading",
        ),
    ],
)
def test_heavy_libraries_are_not_brought(module: str, absent: set[str]) -> None:
    command = [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert absent.isdisjoint(loaded)


ELSEWHERE = """\
version: 1
source: dir:releases
upstream: {trustConfig: trust/upstream.json, manifests: "layout:mirror:latest"}
artifacts:
  - name: staging
    url: layout:registry:staging
    trustConfig: /etc/trust.json
    signing: {mode: key, key: keys/cosign.key}
    verify: {publicKey: [keys/cosign.pub, env://OTHER]}
    clusters: {snapshots: [crds.json], objects: ["oci://registry.example/apps:main", "layout:apps:main", clusters]}
  - name: production
    url: oci://registry.example/flux:production
    signing: {mode: kms, key: awskms:///alias/flux}
    promote: {from: staging, evidence: [{report: reports/staging.json}]}
  - name: edge
    url: oci://registry.example/flux:edge
    promote: {from: "layout:other:edge"}
"""


def test_paths_begin_in_the_folder_that_has_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "flux.yaml"
    path.write_text(ELSEWHERE)
    here, config = load_config(path), load_config(path, Path("../.."))
    assert load_config(path, Path()) == here
    assert config.source == DirectorySourceConfig(Path("../../releases"))
    assert (config.upstream.trust_config, str(config.upstream.manifests)) == (
        "../../trust/upstream.json",
        "layout:../../mirror:latest",
    )
    staging, production, edge = config.artifacts
    assert (str(staging.channel), staging.trust_config) == ("layout:../../registry:staging", "/etc/trust.json")
    assert staging.signing.key == "../../keys/cosign.key"
    assert staging.verify.public_keys == ("../../keys/cosign.pub", "env://OTHER")
    assert staging.clusters.snapshots == ("../../crds.json",)
    assert staging.clusters.objects == (
        "oci://registry.example/apps:main",
        "layout:../../apps:main",
        "../../clusters",
    )
    assert (production.channel, production.signing) == (here.artifacts[1].channel, here.artifacts[1].signing)
    assert production.promote
    assert (production.promote.source, production.promote.evidence[0].report) == (
        "staging",
        "../../reports/staging.json",
    )
    assert edge.promote
    assert edge.promote.source == "layout:../../other:edge"
    assert config.digest == here.digest
