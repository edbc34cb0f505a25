"""What is attached to a digest: a team's own files and notes, and what trusted signers stated."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.manifest import Descriptor, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.artifact.tree import TreeFile
from ci_automation.cli import run
from ci_automation.flows.attachments import (
    FILE_TYPE,
    TITLE,
    Attachment,
    NothingStated,
    UnfitAttachment,
    attach,
    attached_files,
    discover,
    stated,
)
from ci_automation.flows.init import init
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import update
from ci_automation.flows.verify import verify_channel
from ci_automation.records.attached import unverified_note
from ci_automation.records.notes import HoldStatement, Record
from ci_automation.records.predicates import PROVENANCE_TYPE as PROVENANCE
from ci_automation.records.predicates import SBOM_TYPE as SBOM
from ci_automation.registry.port import MAX_BLOB_BYTES
from ci_automation.signing.bundle import BUNDLE_TYPE, EMPTY_BLOB, EMPTY_TYPE
from ci_automation.signing.trust import NobodyTrusted
from tests.fakes.world import CHANNEL, OLD, PATCH, World, intent, key_pem, made_once

if TYPE_CHECKING:
    from pathlib import Path

README = "application/vnd.acme.readme"
FILE = TreeFile("README.md", b"# Ours\n")
TEAM = {"com.acme.team": "platform"}


@made_once
def published() -> World:
    """Return a world whose channel has a signed artifact with attestations."""
    world = World()
    init(CHANNEL, OLD, world.ports(), intent(attestations=True))
    return world


def refer(world: World, kind: str, *layers: tuple[str, bytes, dict[str, str]]) -> None:
    """Attach something as an attacker could, who has no key."""
    subject = world.registry.manifest(CHANNEL)
    for raw in (EMPTY_BLOB, *(content for _, content, _ in layers)):
        world.registry.put_blob(CHANNEL, raw)
    found = tuple(Descriptor.of(*layer) for layer in layers)
    empty = Descriptor.of(EMPTY_TYPE, EMPTY_BLOB)
    named = Descriptor.of(subject.media_type, subject.raw)
    world.registry.put_referrer(CHANNEL, Manifest.build(empty, found, artifact_type=kind, subject=named))


class TestAttaching:
    def test_files_and_notes_come_back_as_they_were(self) -> None:
        world = published()
        digest, made = attach(CHANNEL, README, (FILE,), TEAM, world.ports())
        (found,) = discover(CHANNEL, world.ports(), README).attachments
        assert (found.digest, found.kind, dict(found.annotations)) == (made, README, TEAM)
        assert attached_files(CHANNEL, (found,), world.ports()).files == (
            replace(FILE, path=f"{made.short}/README.md"),
        )
        assert str(digest) == world.channel_digest()

    def test_the_signature_stays_valid_and_the_channel_where_it_is(self) -> None:
        world = published()
        before = world.channel_digest()
        attach(CHANNEL, README, (FILE,), TEAM, world.ports())
        assert verify_channel(CHANNEL, world.ports(), intent()).by
        assert world.channel_digest() == before

    def test_a_second_time_changes_nothing(self) -> None:
        world = published()
        attach(CHANNEL, README, (FILE,), TEAM, world.ports())
        before = world.contents()
        attach(CHANNEL, README, (FILE,), TEAM, world.ports())
        assert world.contents() == before

    def test_notes_need_no_file(self) -> None:
        world = published()
        attach(CHANNEL, README, (), TEAM, world.ports())
        (found,) = discover(CHANNEL, world.ports(), README).attachments
        assert (found.files, dict(found.annotations)) == ((), TEAM)

    @pytest.mark.parametrize(
        ("kind", "files", "notes"),
        [
            pytest.param(BUNDLE_TYPE, (FILE,), {}, id="clusters would take it for a signature"),
            pytest.param("Application/vnd.dev.COSIGN.x", (FILE,), {}, id="upper case"),
            pytest.param("application/vnd.flux-manifests.hold.v1+json", (FILE,), {}, id="runs would take it for one"),
            pytest.param("readme", (FILE,), {}, id="no media type"),
            pytest.param("a/b\nc", (FILE,), {}, id="two lines"),
            pytest.param(README, (FILE, FILE), {}, id="one name twice"),
            pytest.param(README, (), {}, id="nothing"),
        ],
    )
    def test_what_does_not_fit_is_refused_and_nothing_written(
        self, kind: str, files: tuple[TreeFile, ...], notes: dict[str, str]
    ) -> None:
        world = published()
        before = world.contents()
        with pytest.raises(UnfitAttachment):
            attach(CHANNEL, kind, files, notes, world.ports())
        assert world.contents() == before


class TestDiscovering:
    def test_it_lists_what_a_publication_attached(self) -> None:
        kinds = [it.kind for it in discover(CHANNEL, published().ports()).attachments]
        assert sorted(kinds) == [BUNDLE_TYPE, BUNDLE_TYPE, "application/vnd.flux-manifests.publication.v1+json"]

    def test_what_is_no_record_says_nothing(self) -> None:
        world = published()
        refer(world, Record.media_type, (Record.media_type, b"{}", {}))
        nothing, said = sorted(it.said for it in discover(CHANNEL, world.ports(), Record.media_type).attachments)
        assert (nothing, said.startswith(f"{OLD} on {CHANNEL.tag}, 20")) == ("", True)
        assert [unverified_note(Record.media_type, raw) for raw in (b"x", b"{}")] == [None, None]

    def test_a_hold_says_what_it_holds(self) -> None:
        world = published()
        update(CHANNEL, world.ports(), intent())
        roll_back(propose_rollback(CHANNEL, Wish(str(OLD)), world.ports(), intent()), world.ports(), intent())
        said = [it.said for it in discover(CHANNEL, world.ports(), HoldStatement.media_type).attachments]
        assert [it.partition(", 20")[0] for it in said] == [f"{PATCH} on hold on {CHANNEL.tag}"]

    def test_the_newest_comes_first_and_what_has_no_time_last(self) -> None:
        world = published()
        attach(CHANNEL, README, (FILE,), {}, world.ports())
        update(CHANNEL, world.ports(), intent())
        roll_back(propose_rollback(CHANNEL, Wish(str(OLD)), world.ports(), intent()), world.ports(), intent())
        stored = world.registry.repositories[str(CHANNEL.repository)].manifests
        for order in (tuple(stored.items()), tuple(stored.items())[::-1]):
            stored.clear()
            stored.update(order)
            times = [it.at for it in discover(CHANNEL, world.ports()).attachments]
            dated = [it for it in times if it]
            assert len(dated) == 3
            assert times[:3] == sorted(dated, reverse=True)
            assert None in times

    @pytest.mark.parametrize("name", ["../../.bashrc", "/etc/passwd", "a\x1b[2Jb", ""])
    def test_a_name_that_leads_elsewhere_is_refused(self, name: str) -> None:
        world = published()
        refer(world, README, (FILE_TYPE, b"x", {TITLE: name}))
        found = discover(CHANNEL, world.ports(), README).attachments
        with pytest.raises(UnfitAttachment, match="is no name of a file"):
            attached_files(CHANNEL, found, world.ports())

    def test_one_blob_under_many_names_does_not_fill_the_memory(self) -> None:
        world = published()
        big = Descriptor(FILE_TYPE, Digest.of(b"big"), MAX_BLOB_BYTES)
        files = tuple(replace(big, annotations={TITLE: f"{number}"}) for number in range(5))
        with pytest.raises(UnfitAttachment, match="5 files have 524288000 bytes together, too many"):
            attached_files(CHANNEL, (Attachment(big.digest, README, files),), world.ports())

    def test_of_very_many_it_says_how_many_it_left_out(self) -> None:
        world = published()
        for number in range(70):
            refer(world, README, (FILE_TYPE, b"%d" % number, {}))
        found = discover(CHANNEL, world.ports())
        assert (len(found.attachments), found.left_out) == (64, 9)

    def test_an_entry_that_is_not_there_is_listed_with_its_problem(self) -> None:
        world = published()
        _, made = attach(CHANNEL, README, (FILE,), {}, world.ports())
        del world.registry.repositories[str(CHANNEL.repository)].manifests[made]
        assert [it.problem for it in discover(CHANNEL, world.ports()).attachments if it.digest == made] != [""]


class TestStatements:
    @pytest.mark.parametrize("kind", [PROVENANCE, SBOM])
    def test_that_of_the_trusted_signer_is_returned(self, kind: str) -> None:
        world = published()
        digest, said = stated(CHANNEL, kind, "it", world.ports())
        assert (str(digest), said.statement.subject) == (world.channel_digest(), digest)

    def test_that_of_anybody_else_is_not(self) -> None:
        with pytest.raises(NothingStated):
            stated(CHANNEL, SBOM, "it", published().ports(trusted="theirs"))

    def test_one_about_another_digest_is_not(self) -> None:
        world = published()
        (first, *_) = (it for it in discover(CHANNEL, world.ports()).attachments if it.kind == BUNDLE_TYPE)
        stolen = world.registry.blob(CHANNEL, first.files[0])
        other = World(world.registry, world.releases)
        init(CHANNEL.at_tag("other"), OLD, other.ports(), intent(flags={"log-level": "debug"}))
        subject = world.registry.manifest(CHANNEL.at_tag("other"))
        world.registry.put_referrer(
            CHANNEL,
            Manifest.build(
                Descriptor.of(EMPTY_TYPE, EMPTY_BLOB),
                (Descriptor.of(BUNDLE_TYPE, stolen),),
                artifact_type=BUNDLE_TYPE,
                subject=Descriptor.of(subject.media_type, subject.raw),
            ),
        )
        for kind in (PROVENANCE, SBOM):
            with pytest.raises(NothingStated):
                stated(CHANNEL.at_tag("other"), kind, "it", world.ports())

    def test_nobody_trusted_is_an_error_of_use(self) -> None:
        with pytest.raises(NobodyTrusted):
            stated(CHANNEL, SBOM, "it", published().ports(trusted=None))


def test_the_commands_print_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = published()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cosign.key").write_bytes(key_pem())
    (tmp_path / "README.md").write_bytes(FILE.content)
    monkeypatch.setattr("ci_automation.cli.wiring.registry", lambda *_, **__: world.registry)
    name, key = str(CHANNEL), ("--key", "cosign.key")

    def printed(*arguments: str) -> str:
        capsys.readouterr()
        assert run(arguments) == 0
        return capsys.readouterr().out

    made = printed("attach", name, "README.md", "--type", README, "--annotation", "team=a=b", "--output", "json")
    assert json.loads(made)["type"] == README
    record = "application/vnd.flux-manifests.publication.v1+json"
    listed = printed("discover", name)
    assert listed.split("\n")[0].split("  ")[0] == "type"
    assert re.search(rf"{re.escape(record)}  {OLD} on {CHANNEL.tag}, 20[0-9: -]+  sha256:", listed)
    refer(world, "a/bare", (FILE_TYPE, b"x", {}))
    assert printed("discover", name, "--type", "a/bare").split("\n")[0].split() == ["type", "digest"]
    assert "README.md (7 bytes), team=a=b" in printed("discover", name, "--type", README, "--folder", "out")
    assert [it.read_bytes() for it in (tmp_path / "out").rglob("*.md")] == [FILE.content]
    assert "The files are in again," in printed("discover", name, "--folder", "again")
    assert json.loads(printed("discover", name, "--output", "json"))["digest"] == world.channel_digest()
    assert "Nothing of type a/b is attached" in printed("discover", name, "--type", "a/b")
    as_json = ("--output", "json", *key)
    assert json.loads(printed("sbom", name, *as_json))["bomFormat"] == "CycloneDX"
    assert json.loads(printed("sbom", name, "--spdx", *as_json))["spdxVersion"] == "SPDX-2.3"
    assert "source-controller" in printed("sbom", name, *key)
    assert f"is Flux {OLD} for {name}, as the key sha256:" in printed("provenance", name, *key)
    assert json.loads(printed("provenance", name, *as_json))["buildDefinition"]["externalParameters"]["flux"] == str(
        OLD
    )
    for wrong in (("--annotation", "team"), ("absent.md",)):
        assert run(("attach", name, "--type", README, *wrong)) == 2
    assert "absent.md: it is not there" in capsys.readouterr().err
