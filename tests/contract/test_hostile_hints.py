"""Commands and YAML that we print are what they say, whatever strangers have named their branches, files and tags."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import re2
import yaml
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flows import observe as observing
from ci_automation.flows.init import init
from ci_automation.flows.observe import accept_both, observe
from ci_automation.flows.publication.publish import IdentityChange
from ci_automation.flux.version import Version
from ci_automation.impact.change import in_shell
from ci_automation.impact.check import Applied, Known
from ci_automation.impact.checks.images import CHECK
from ci_automation.impact.crds.remedies import migrate_files
from ci_automation.impact.crds.versions import crds
from ci_automation.impact.overlay.preflight import preflight
from ci_automation.policy.decision import Decision, Hold
from ci_automation.policy.patterns import is_anchored
from ci_automation.report.adoption import Adoption, adoption_text
from ci_automation.report.blocks import MarkedLine
from ci_automation.report.findings import Findings, acknowledging
from ci_automation.report.rollback import Rollback, rollback_parts
from ci_automation.report.text import approval_commands
from ci_automation.signing.keys.public import KeyUnreadable
from ci_automation.signing.signer import LateSigner
from ci_automation.signing.trust import Finding, Identity, IdentityMatch, TrustedIdentities
from ci_automation.signing.verify import ForeignSignature
from tests.fakes.world import CHANNEL, MINOR, NOW, OLD, OVERLAY, PATCH, World, intent
from tests.unit.impact.crds.definitions import components
from tests.unit.impact.overlay.trees import CHANGED, failing, tree

if TYPE_CHECKING:
    from ci_automation.policy.plan import PlannedStep
    from ci_automation.signing.signer import Signer
    from ci_automation.signing.sigstore.root import TrustRoot

HOSTILE = ("a b", "a'b", 'a"b', "a;id", "$(id)", "`id`", "a&&id|id", "*", "~", "#a", "-rf", "a\\", "{a: b}", "é")
UNSEEN = ("a\u200bb", "a\nb", "a`b")
ISSUER = "https://token.actions.githubusercontent.com"
OURS = Identity(ISSUER, "https://github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/main")
ROOT = cast("TrustRoot", SimpleNamespace())
BRANCHES = ("a'b", 'a"b', "a;id", "$(id)", "`id`", "a&&id|id", "#a", "-rf", "a'}]),b", "%s", "{a}", "!x")


@dataclass(frozen=True)
class Job:
    """Who signs in a job: an identity, for whom nothing is ever signed here."""

    who: Identity

    @property
    def trusted(self) -> TrustedIdentities:
        """Return what clusters trust."""
        return TrustedIdentities((IdentityMatch.exact(self.who),), ROOT)


def hint(monkeypatch: pytest.MonkeyPatch, *signed: Identity) -> str:
    """Return what a run of ours says of a channel that others signed."""
    world = World()
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    job = Job(OURS)

    def refuse(*_: object) -> None:
        raise ForeignSignature(CHANNEL, job.trusted, [Finding(each, "it is of somebody else") for each in signed])

    monkeypatch.setattr(observing, "verify", refuse)
    with pytest.raises(ForeignSignature) as error:
        observe(CHANNEL, replace(world.ports(), signer=cast("Signer", job), trusted=job.trusted))
    return error.value.hint


def only_entry(text: str) -> tuple[str, str]:
    """Return issuer and subject of the one entry in a line of YAML."""
    ((key, (entry,)),) = yaml.safe_load(text).items()
    assert key == "verify.matchOIDCIdentity"
    assert entry.keys() == {"issuer", "subject"}
    return entry["issuer"], entry["subject"]


class TestForeignIdentity:
    @pytest.mark.parametrize("branch", BRANCHES)
    def test_of_our_owner_is_one_word_of_the_command_and_one_value_of_the_yaml(
        self, branch: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        theirs = Identity(ISSUER, f"https://github.com/acme/other/.github/workflows/x.yaml@refs/heads/{branch}")
        said = hint(monkeypatch, theirs)
        _, _, rest = said.partition("let the clusters accept both (")
        block, _, rest = rest.rpartition("), then run once with ")
        line, _, _ = rest.partition(" A job that calls")
        words = shlex.split(line.removesuffix("."))
        assert words == ["--identity", theirs.subject, "--issuer", ISSUER, "--accept-identity-change"]
        issuer, subject = only_entry(block)
        assert is_anchored(issuer)
        assert is_anchored(subject)
        assert re2.search(issuer, ISSUER)
        assert all(re2.search(subject, each.subject) for each in (OURS, theirs))
        assert not re2.search(subject, f"{theirs.subject}x")

    @pytest.mark.parametrize(
        "stranger",
        [
            pytest.param((ISSUER, OURS.subject.replace("/acme/", "/evil/")), id="another owner"),
            pytest.param((ISSUER, OURS.subject.replace("/acme/", "/acme-evil/")), id="an owner with a longer name"),
            pytest.param((ISSUER, OURS.subject.replace("github.com", "github.evil.example")), id="another host"),
            pytest.param(("https://evil.example", OURS.subject), id="another issuer"),
            pytest.param((ISSUER, OURS.subject.replace("heads/main", "pull/7/merge")), id="a pull request"),
            pytest.param((ISSUER, f"{OURS.subject}\nhint: run"), id="more lines"),
            pytest.param(
                (ISSUER, "https://github.com/acme/../evil/.github/workflows/x.yaml@refs/heads/a"), id="a way out"
            ),
            pytest.param(("https://accounts.google.com", "somebody@acme.example"), id="a person"),
        ],
    )
    def test_of_anybody_else_is_never_offered(self, stranger: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        said = hint(monkeypatch, Identity(*stranger))
        assert "has another owner: find out who signed" in said
        assert not {"--identity", "--issuer", "matchOIDCIdentity", "\n"} & set(re.split(r"[ ,:(]", said))
        assert "\n" not in said

    def test_of_anybody_else_does_not_hide_that_of_our_owner(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stranger = Identity(ISSUER, OURS.subject.replace("/acme/", "/aaaa/"))
        renamed = Identity(ISSUER, OURS.subject.replace("flux.yaml", "other.yaml"))
        said = hint(monkeypatch, stranger, renamed)
        assert f"--identity {renamed.subject} " in said
        assert stranger.subject not in said

    def test_is_not_mixed_with_another_issuer(self) -> None:
        other = Identity("https://issuer.example", "somebody")
        both = accept_both(Job(OURS).trusted, Job(other).trusted)
        assert both.startswith("one entry cannot")

    @pytest.mark.parametrize("pattern", ["^a'b$", "^a: b #c$", '^"$', r"^a\.b$", "^{a}$", "^é$", "(?i)^a$"])
    def test_and_patterns_of_the_configuration_are_values_of_yaml(self, pattern: str) -> None:
        match = IdentityMatch(IdentityMatch.exact(OURS).issuer, pattern)
        problem = IdentityChange(Job(OURS).trusted, TrustedIdentities((match,), ROOT))
        block = problem.hint.partition("accept both (")[2].rpartition("), then run once")[0]
        issuer, subject = only_entry(block)
        assert issuer == match.issuer
        assert is_anchored(subject)
        assert re2.search(subject, OURS.subject)
        assert pattern in subject


def commands(text: str) -> list[list[str]]:
    """Return the words of each command that stands between backticks."""
    return [shlex.split(part) for part in re.findall(r"`([^`]*)`", text)]


class TestNames:
    @pytest.mark.parametrize("word", HOSTILE)
    def test_are_one_word_of_a_command(self, word: str) -> None:
        wanted = "NAME" if "`" in word else word
        assert commands(in_shell("flux", word, "a")) == [["flux", wanted, "a"]]

    @pytest.mark.parametrize("word", UNSEEN)
    def test_that_cannot_be_told_are_left_out(self, word: str) -> None:
        assert in_shell("flux", word) == "`flux NAME`"

    @pytest.mark.parametrize("name", [*HOSTILE, *UNSEEN])
    def test_of_manifests(self, name: str) -> None:
        old, new = crds(components(buckets="v1* v1beta2")), crds(components(buckets="v1*"))
        (remedy,) = migrate_files(old, new, [f"{name}.yaml"])
        shown = "NAME" if name in {*UNSEEN, "`id`"} else f"{name}.yaml"
        assert commands(remedy)[0] == ["flux", "migrate", "-f", shown, "--version=2.6"]

    @pytest.mark.parametrize("name", [it for it in HOSTILE if "\\" not in it])
    def test_of_folders(self, name: str) -> None:
        files = {
            f"{name}/kustomization.yaml": {"namePrefix": "a-", "resources": ["../flux-system/gotk-components.yaml"]}
        }
        builder = failing(old="no", new="no")
        hazards = preflight(tree({}), tree(files, CHANGED), "flux-system/gotk-components.yaml", builder).hazards
        found = [commands(text)[0] for it in hazards for text in it.remedies]
        shown = {"`id`": "NAME", "-rf": "./-rf"}.get(name, name)
        assert ["kustomize", "build", shown] in found

    @pytest.mark.parametrize("name", ["a'b", "$(id)", "`id`", "a;id", '"'])
    def test_of_images(self, name: str) -> None:
        text = f"---\nkind: Deployment\nspec:\n      - image: r.example/{name}:v1\n"
        asked = SimpleNamespace(digest=lambda _: None)
        known = Known(images=cast("Any", asked))
        (hazard,) = CHECK.look(None, Applied(text, registry="r.example"), known).hazards
        image = "NAME" if "`" in name else f"r.example/{name}:v1"
        assert commands(hazard.remedies[0])[0][-1] == image

    @pytest.mark.parametrize("name", [it for it in HOSTILE if "\\" not in it])
    def test_of_layouts(self, name: str) -> None:
        channel = Reference.parse(f"layout:{name}:production") if ":" not in name else CHANNEL
        hold = Hold(MINOR, Digest.of(b""), NOW, None, "webhooks time out")
        back = Rollback(channel, Digest.of(b"1"), MINOR, Digest.of(b"2"), PATCH, hold, Findings())
        *_, lift = rollback_parts(back, ("flux-manifests", "rollback", str(channel), "--lift", "--key", name))
        assert isinstance(lift, MarkedLine)
        assert lift.to_copy
        words = shlex.split(lift.text)
        assert words == ["flux-manifests", "rollback", str(channel), "--lift", "--key", name]

        waiting = SimpleNamespace(base=Digest.of(b"1"), target=Digest.of(b""), decision=Decision.APPROVAL)
        printed = approval_commands(
            str(channel), [cast("PlannedStep", waiting)], ("--overlay", name), ("--reason", name)
        )
        make, do = (shlex.split(line) for line in printed.split("\n"))
        assert (make[2], make[-1], do[-1]) == (str(channel), name, name)

        adoption = Adoption(
            channel=channel,
            digest=Digest.of(b""),
            problem="it is not signed",
            version=Version.parse("v2.9.4"),
            options=(),
            components="gotk-components.yaml",
            difference=("+",) * 100,
            overlay=(),
            compared_with=None,
        )
        (pull,) = (line for line in adoption_text(adoption).split("\n") if "flux-manifests pull" in line)
        assert shlex.split(pull)[2:] == [str(channel.at_digest(Digest.of(b""))), "FOLDER"]

    @pytest.mark.parametrize("name", [*HOSTILE, "a\nb: c", "]}", "'", "a # b: c"])
    def test_of_what_is_acknowledged_are_comments(self, name: str) -> None:
        prints = ("0123456789abcdef", "0123456789012345", "1e12345678901234")
        value = yaml.safe_load(acknowledging([(each, name) for each in prints], 9))
        entries = [{"fingerprint": each, "until": "DATE", "reason": "WHY"} for each in prints]
        assert value == {"acknowledge": entries}


def test_a_lost_key_hides_nobody_who_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    stranger = Identity(ISSUER, OURS.subject.replace("/acme/", "/mallory/"))

    def lost() -> Signer:
        raise KeyUnreadable("cosign.key", "it is not there")

    def refuse(*_: object) -> None:
        raise ForeignSignature(
            CHANNEL, TrustedIdentities((IdentityMatch.exact(OURS),), ROOT), [Finding(stranger, "no")]
        )

    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    monkeypatch.setattr(observing, "verify", refuse)
    with pytest.raises(ForeignSignature) as error:
        observe(CHANNEL, replace(world.ports(), signer=LateSigner(lost)))
    assert error.value.hint.startswith(ForeignSignature.hint)


def test_who_signs_by_key_is_told_of_an_identity_without_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    stranger = Identity(ISSUER, OURS.subject.replace("/acme/", "/$(id)/"))

    def refuse(*_: object) -> None:
        raise ForeignSignature(CHANNEL, world.ports().signer.trusted, [Finding(stranger, "no")])  # type: ignore[union-attr]

    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    monkeypatch.setattr(observing, "verify", refuse)
    with pytest.raises(ForeignSignature) as error:
        observe(CHANNEL, world.ports())
    assert "give --identity and --issuer" in error.value.hint
