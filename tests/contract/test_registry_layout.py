"""An image layout directory as a registry: crashes, other writers, damage, and what else may be in a directory."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.manifest import FLUX_LAYER, OCI_INDEX, OCI_MANIFEST, Descriptor, InvalidManifest
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.registry import layout, open_registry
from ci_automation.registry.files import LayoutUnusable, NotALayout, with_entry
from ci_automation.registry.layout import IDENTITY, LOCK, LayoutRegistry
from ci_automation.registry.port import MAX_BLOB_BYTES, MAX_MANIFEST_BYTES, ContentMismatch, NotFound, UnexpectedAnswer
from tests.contract.registry_contract import NOBODY, NOTE, artifact, attach, note, publish

if TYPE_CHECKING:
    from ci_automation.registry.port import Registry

TAG = "org.opencontainers.image.ref.name"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "layout"


@pytest.fixture
def at(folder: Path) -> Reference:
    return Reference.parse(f"layout:{folder}:production")


@pytest.fixture
def registry(at: Reference) -> Registry:
    return open_registry(at)


def blob_path(folder: Path, digest: Digest) -> Path:
    """Return where the image layout keeps a blob."""
    return folder / "blobs" / "sha256" / digest.hex


def index(folder: Path) -> Any:
    """Return the index as it is on the disk."""
    return json.loads((folder / "index.json").read_text())


class TestOnDisk:
    def test_reading_makes_nothing(self, folder: Path, at: Reference, registry: Registry) -> None:
        assert registry.resolve(at) is None
        assert registry.tags(at) == ()
        assert not folder.exists()

    @pytest.mark.parametrize("link", ["blobs", "blobs/sha256"])
    def test_no_blob_is_written_through_a_link_out_of_it(
        self, folder: Path, at: Reference, registry: Registry, tmp_path: Path, link: str
    ) -> None:
        (tmp_path / "outside").mkdir()
        (folder / link).parent.mkdir(parents=True)
        (folder / "oci-layout").write_text("{}")
        (folder / link).symlink_to(tmp_path / "outside")
        with pytest.raises(LayoutUnusable, match="a link leads out"):
            registry.put_blob(at, b"x")
        assert not list((tmp_path / "outside").iterdir())

    def test_its_lock_empties_no_file_elsewhere(self, folder: Path, at: Reference, registry: Registry) -> None:
        publish(registry, at)
        (folder / LOCK).unlink(missing_ok=True)
        (folder / LOCK).symlink_to(folder / "index.json")
        before = (folder / "index.json").read_bytes()
        with pytest.raises(LayoutUnusable, match="it cannot be written"):
            registry.put_manifest(at.at_tag("other"), registry.manifest(at))
        assert (folder / "index.json").read_bytes() == before

    def test_it_is_laid_out_as_the_specification_says(self, folder: Path, at: Reference, registry: Registry) -> None:
        manifest = publish(registry, at)
        assert json.loads((folder / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
        assert index(folder) == {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [
                {
                    "mediaType": OCI_MANIFEST,
                    "size": len(manifest.raw),
                    "digest": str(manifest.digest),
                    "annotations": {TAG: "production"},
                }
            ],
        }
        assert blob_path(folder, manifest.digest).read_bytes() == manifest.raw
        assert {path.name for path in folder.iterdir()} - {LOCK, IDENTITY} == {"oci-layout", "index.json", "blobs"}

    def test_files_have_the_modes_that_the_user_wants(self, folder: Path, at: Reference, registry: Registry) -> None:
        before = os.umask(0o027)
        try:
            manifest = publish(registry, at)
        finally:
            os.umask(before)
        assert blob_path(folder, manifest.digest).stat().st_mode & 0o777 == 0o640
        assert (folder / "index.json").stat().st_mode & 0o777 == 0o640

    def test_what_others_put_into_the_index_stays_as_it_is(
        self, folder: Path, at: Reference, registry: Registry
    ) -> None:
        publish(registry, at)
        theirs = {
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "digest": str(Digest.of(b"an index")),
            "size": 8,
            "annotations": {TAG: "theirs", "kind": "dev.cosignproject.cosign/sigs"},
            "platform": {"os": "linux"},
        }
        before = index(folder)
        (folder / "index.json").write_text(
            json.dumps({**before, "annotations": {"a": "b"}, "manifests": [theirs, *before["manifests"]]})
        )
        publish(registry, at, b"another layer")
        after = index(folder)
        assert after["annotations"] == {"a": "b"}
        assert after["manifests"][0] == theirs
        assert registry.tags(at) == ("production", "theirs")

    def test_writing_the_same_again_writes_nothing(self, folder: Path, at: Reference, registry: Registry) -> None:
        manifest = publish(registry, at)
        files = [folder / "index.json", folder / "oci-layout", blob_path(folder, manifest.digest)]
        before = [file.stat().st_ino for file in files]
        publish(registry, at)
        assert [file.stat().st_ino for file in files] == before

    @pytest.mark.parametrize(
        ("entries", "new", "expected"),
        [
            pytest.param([], "a:x", ["a:x"], id="the first"),
            pytest.param(["a:x"], "a:x", ["a:x"], id="as it is"),
            pytest.param(["a:x"], "b:x", ["a", "b:x"], id="a tag moves, what it left stays"),
            pytest.param(["a", "b:x"], "a:x", ["b", "a:x"], id="and back, without leaving it twice"),
            pytest.param(["a:x", "a:y"], "b:x", ["a:y", "b:x"], id="what has another name needs no entry of its own"),
            pytest.param(["a:x"], "a:y", ["a:x", "a:y"], id="a second name"),
            pytest.param(["a:x"], "a", ["a:x"], id="by digest, where it has a name"),
            pytest.param(["a"], "a", ["a"], id="by digest, twice"),
            pytest.param([], "a", ["a"], id="by digest"),
            pytest.param(["a", "a"], "a:x", ["a:x"], id="others' duplicates go"),
            pytest.param(["a:x", "b:x"], "a:x", ["b", "a:x"], id="a tag of two manifests"),
        ],
    )
    def test_the_index_lists_each_manifest_under_its_tags(
        self, entries: list[str], new: str, expected: list[str]
    ) -> None:
        def entry(text: str) -> dict[str, Any]:
            digest, _, tag = text.partition(":")
            return {"digest": digest, **({"annotations": {TAG: tag}} if tag else {})}

        assert with_entry([entry(each) for each in entries], entry(new)) == [entry(each) for each in expected]

    def test_annotations_besides_the_tag_stay_with_what_the_tag_left(self) -> None:
        old = {"digest": "a", "annotations": {TAG: "x", "by": "others"}, "size": 1}
        assert with_entry([old], {"digest": "b", "annotations": {TAG: "x"}})[0] == {
            "digest": "a",
            "size": 1,
            "annotations": {"by": "others"},
        }


def test_a_tag_of_two_manifests_names_none_until_it_is_written(folder: Path, at: Reference, registry: Registry) -> None:
    """Of two entries with a tag oras takes the last one, and other programs the first."""
    manifest, other = publish(registry, at), publish(registry, at, b"another layer")
    before = index(folder)
    theirs = {**before["manifests"][0], "annotations": {TAG: "production"}}
    assert theirs["digest"] == str(manifest.digest)
    (folder / "index.json").write_text(json.dumps({**before, "manifests": [*before["manifests"], theirs]}))
    with pytest.raises(UnexpectedAnswer, match="production is the tag of 2 manifests"):
        registry.resolve(at)
    with pytest.raises(UnexpectedAnswer):
        registry.manifest(at)
    registry.put_manifest(at, other)
    assert registry.resolve(at) == other.digest


class TestReferrers:
    def test_they_are_listed_as_oras_lists_them(self, folder: Path, at: Reference, registry: Registry) -> None:
        wrote = note(b"a note", NOBODY, by="me", **{TAG: "production"})
        attach(registry, at, wrote, b"a note")
        assert index(folder)["manifests"] == [
            {
                "mediaType": OCI_MANIFEST,
                "size": len(wrote.raw),
                "digest": str(wrote.digest),
                "annotations": {"by": "me"},
                "artifactType": NOTE,
            }
        ]

    def test_what_is_said_of_one_is_what_it_says_itself(self, folder: Path, at: Reference, registry: Registry) -> None:
        wrote = attach(registry, at, note(b"a note", NOBODY), b"a note")
        bare = {"mediaType": OCI_MANIFEST, "size": 1, "digest": str(wrote.digest), "artifactType": "a/lie"}
        tagged = {**bare, "annotations": {TAG: "a-tag"}}
        (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [bare, tagged]}))
        assert registry.referrers(at, NOBODY) == (wrote.referral[1],)
        assert attach(registry, at, wrote, b"a note") == wrote
        assert index(folder)["manifests"] == [bare, tagged]

    def test_what_is_gone_and_what_is_no_manifest_refers_to_nothing(
        self, folder: Path, at: Reference, registry: Registry
    ) -> None:
        gone = attach(registry, at, note(b"gone", NOBODY), b"gone")
        wrote = attach(registry, at, note(b"a note", NOBODY), b"a note")
        blob_path(folder, gone.digest).unlink()
        odd = {"mediaType": OCI_INDEX, "size": 2, "digest": str(Digest.of(b"{}"))}
        value = index(folder)
        (folder / "index.json").write_text(json.dumps({**value, "manifests": [odd, *value["manifests"]]}))
        assert registry.referrers(at, NOBODY) == (wrote.referral[1],)

    def test_a_damaged_one_is_said_so(self, folder: Path, at: Reference, registry: Registry) -> None:
        wrote = attach(registry, at, note(b"a note", NOBODY), b"a note")
        blob_path(folder, wrote.digest).write_bytes(wrote.raw + b" ")
        with pytest.raises(ContentMismatch, match=wrote.digest.hex):
            registry.referrers(at, NOBODY)

    def test_writers_in_other_processes_lose_none(self, at: Reference, registry: Registry) -> None:
        context = multiprocessing.get_context("spawn")
        writers = [context.Process(target=write_notes, args=(str(at), number)) for number in range(3)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
        assert [writer.exitcode for writer in writers] == [0, 0, 0]
        assert len(registry.referrers(at, NOBODY)) == 15


def write_notes(reference: str, writer: int) -> None:
    """Be a writer in a process of its own."""
    at = Reference.parse(reference)
    for number in range(5):
        text = b"%d-%d" % (writer, number)
        attach(open_registry(at), at, note(text, NOBODY), text)


class TestCrashes:
    @pytest.mark.parametrize("step", range(1, 7))
    def test_a_crash_at_any_file_leaves_a_layout_that_the_next_run_completes(
        self, folder: Path, at: Reference, registry: Registry, monkeypatch: pytest.MonkeyPatch, step: int
    ) -> None:
        publish(registry, at.at_tag("old"), b"old")
        replaced = 0

        class Crash(BaseException):
            pass

        def crash(path: Path, target: Path) -> Path:
            nonlocal replaced
            replaced += 1
            if replaced == step:
                raise Crash
            os.rename(path, target)  # noqa: PTH104 - `Path.replace` is what this stands for
            return target

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", crash)
            try:
                publish(registry, at, b"new")
                publish(registry, at, b"newer")
            except Crash:
                pass
            else:
                assert step > replaced
        old = registry.manifest(at.at_tag("old"))
        assert registry.blob(at, old.layers[0]) == b"old"
        assert not list(folder.rglob(".unfinished-*"))
        newer = publish(registry, at, b"newer")
        assert registry.manifest(at) == newer
        assert registry.tags(at) == ("old", "production")

    def test_what_a_killed_writer_left_is_no_hindrance(self, folder: Path, at: Reference, registry: Registry) -> None:
        folder.mkdir()
        (folder / ".unfinished-0123456789abcdef").write_text('{"image')
        (folder / "blobs").mkdir()
        assert registry.resolve(at) is None
        assert registry.manifest(publish_at(registry, at)) == artifact()

    def test_writers_in_other_processes_lose_nothing(self, at: Reference, registry: Registry) -> None:
        context = multiprocessing.get_context("spawn")
        writers = [context.Process(target=write_tags, args=(str(at), number)) for number in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
        assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
        assert registry.tags(at) == tuple(sorted(f"w{writer}-{number}" for writer in range(4) for number in range(5)))

    def test_a_writer_that_never_ends_is_not_waited_for_for_ever(
        self, folder: Path, at: Reference, registry: Registry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from filelock import FileLock

        publish(registry, at)
        monkeypatch.setattr(layout, "LOCK_SECONDS", 0.05)
        with FileLock(folder / LOCK), pytest.raises(LayoutUnusable, match="another process"):
            publish(registry, at, b"another layer")
        assert registry.manifest(at) == artifact()


def publish_at(registry: Registry, at: Reference) -> Reference:
    """Publish and return where."""
    publish(registry, at)
    return at


def write_tags(at: str, writer: int) -> None:
    """Write some tags: one of several processes that do so at a time."""
    channel = Reference.parse(at)
    for number in range(5):
        publish(open_registry(channel), channel.at_tag(f"w{writer}-{number}"), b"%d %d" % (writer, number))


class TestDamage:
    @pytest.mark.parametrize("data", [b"", b"a laye", b"a layer!", b"A layer", b"a layer" * 1000])
    def test_a_damaged_blob_is_not_handed_out_and_mended_by_the_next_write(
        self, folder: Path, at: Reference, registry: Registry, data: bytes
    ) -> None:
        manifest = publish(registry, at)
        blob_path(folder, manifest.layers[0].digest).write_bytes(data)
        with pytest.raises(ContentMismatch):
            registry.blob(at, manifest.layers[0])
        registry.put_blob(at, b"a layer")
        assert registry.blob(at, manifest.layers[0]) == b"a layer"

    def test_a_damaged_manifest_is_not_handed_out(self, folder: Path, at: Reference, registry: Registry) -> None:
        manifest = publish(registry, at)
        blob_path(folder, manifest.digest).write_bytes(artifact(b"other").raw)
        with pytest.raises(ContentMismatch):
            registry.manifest(at)

    def test_a_manifest_that_is_listed_and_gone_is_not_found(
        self, folder: Path, at: Reference, registry: Registry
    ) -> None:
        manifest = publish(registry, at)
        blob_path(folder, manifest.digest).unlink()
        with pytest.raises(NotFound):
            registry.manifest(at)

    def test_a_blob_is_no_manifest_for_being_there(self, at: Reference, registry: Registry) -> None:
        digest = registry.put_blob(at, artifact().raw)
        assert registry.resolve(at.at_digest(digest)) is None

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"[]",
            b"{",
            b'{"manifests": {}}',
            b'{"manifests": [1]}',
            b'{"manifests": [{}]}',
            b'{"manifests": [{"digest": "sha256:../../../../etc/passwd"}]}',
            b'{"manifests": [{"digest": ["sha256:00"]}]}',
            b"[" * 100_000,
            b" " * (MAX_MANIFEST_BYTES + 1),
            b'{"manifests": [], "Manifests": []}',
        ],
        ids=range(11),
    )
    def test_a_damaged_index_is_said_so_and_left_alone(
        self, folder: Path, at: Reference, registry: Registry, content: bytes
    ) -> None:
        publish(registry, at)
        (folder / "index.json").write_bytes(content)
        for ask in (registry.resolve, registry.manifest, registry.tags, lambda at: publish(registry, at)):
            with pytest.raises(UnexpectedAnswer, match=r"index\.json"):
                ask(at)
        assert (folder / "index.json").read_bytes() == content

    @pytest.mark.parametrize("annotations", [None, [], "x", {TAG: 1}, {TAG: None}])
    def test_odd_annotations_are_no_tags(
        self, folder: Path, at: Reference, registry: Registry, annotations: object
    ) -> None:
        manifest = publish(registry, at)
        entry = {"digest": str(manifest.digest), "annotations": annotations}
        (folder / "index.json").write_text(json.dumps({"manifests": [entry]}))
        assert registry.tags(at) == ()
        assert registry.resolve(at) is None
        assert registry.resolve(at.at_digest(manifest.digest)) == manifest.digest

    def test_an_index_without_manifests_is_empty(self, folder: Path, at: Reference, registry: Registry) -> None:
        publish(registry, at)
        (folder / "index.json").write_text('{"schemaVersion": 2, "manifests": null}')
        assert registry.tags(at) == ()

    def test_what_is_no_manifest_is_refused(self, folder: Path, at: Reference, registry: Registry) -> None:
        digest = registry.put_blob(at, b"not a manifest")
        entry = {"digest": str(digest), "annotations": {TAG: "production"}}
        (folder / "index.json").write_text(json.dumps({"manifests": [entry]}))
        with pytest.raises(InvalidManifest):
            registry.manifest(at)

    def test_a_blob_that_is_too_large_is_not_read(self, at: Reference, registry: Registry) -> None:
        with pytest.raises(UnexpectedAnswer):
            registry.blob(at, Descriptor(FLUX_LAYER, Digest.of(b""), MAX_BLOB_BYTES + 1))


class TestOtherDirectories:
    def test_a_directory_with_other_things_in_it_is_not_written_to(
        self, folder: Path, at: Reference, registry: Registry
    ) -> None:
        folder.mkdir()
        (folder / "notes.txt").write_text("mine")
        assert registry.resolve(at) is None
        with pytest.raises(NotALayout) as caught:
            registry.put_blob(at, b"x")
        assert caught.value.exit_code == 2
        assert [path.name for path in folder.iterdir()] == ["notes.txt"]

    def test_a_file_is_no_directory(self, folder: Path, at: Reference, registry: Registry) -> None:
        folder.write_text("a file")
        assert registry.resolve(at) is None
        with pytest.raises(LayoutUnusable, match="cannot be written") as caught:
            registry.put_blob(at, b"x")
        assert caught.value.exit_code == 20

    def test_a_named_pipe_does_not_keep_anybody_waiting(self, folder: Path, at: Reference, registry: Registry) -> None:
        folder.mkdir()
        os.mkfifo(folder / "index.json")
        with pytest.raises(LayoutUnusable, match="not a file"):
            registry.resolve(at)

    @pytest.mark.parametrize("error", [28, 13, 30], ids=["disk full", "not permitted", "read-only"])
    def test_a_disk_that_does_not_take_it_is_said_so(
        self, folder: Path, at: Reference, registry: Registry, monkeypatch: pytest.MonkeyPatch, error: int
    ) -> None:
        manifest = publish(registry, at)

        def fail(_: int) -> None:
            raise OSError(error, os.strerror(error))

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(LayoutUnusable, match=f"{folder}.*{os.strerror(error)}"):
                publish(registry, at, b"another layer")
        assert registry.manifest(at) == manifest

    def test_a_directory_that_may_not_be_read_is_said_so(
        self, at: Reference, registry: Registry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(registry, at)

        def refuse(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(LayoutUnusable, match="Permission denied"):
            registry.resolve(at)


def test_opening_a_layout_loads_nothing_of_http(at: Reference) -> None:
    script = (
        "import sys\n"
        "from ci_automation.artifact.reference import Reference\n"
        "from ci_automation.registry import open_registry\n"
        f"open_registry(Reference.parse({str(at)!r})).tags(Reference.parse({str(at)!r}))\n"
        "print(sorted({'oras', 'requests', 'filelock', 'subprocess'} & set(sys.modules)))\n"
    )
    import subprocess

    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
    assert isinstance(open_registry(at), LayoutRegistry)


def test_a_mistyped_channel_of_a_directory_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    mistyped = Reference.parse(f"layout:{tmp_path / 'fleet'}:prodution")
    registry = open_registry(mistyped)
    with pytest.raises(NotFound, match=rf"prodution was not found \(there is no directory {tmp_path / 'fleet'}\)$"):
        registry.manifest(mistyped)
    error = NotFound("x")
    error.name_channels(registry.tags(mistyped))
    assert error.hint == "There is no channel. Check the spelling; `init` or `promote` makes a new channel."
    for tag in ("stable", "production", "v2.9.4-0123456789ab", "sha256-0123"):
        publish(registry, mistyped.at_tag(tag), b"{}")
    with pytest.raises(NotFound, match=r"prodution was not found$") as raised:
        registry.manifest(mistyped)
    raised.value.name_channels(registry.tags(mistyped))
    assert raised.value.hint == (
        "Channels there: production, stable. Check the spelling; `init` or `promote` makes a new channel."
    )
