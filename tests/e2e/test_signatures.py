"""What signatures an artifact gets, and gets back, what clusters make of them, and what no writer can talk us into.

Whoever can write to the registry is played by the test itself, which has the layout's files.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.policy.model import SignatureFormat
from ci_automation.registry import open_registry
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.verify import ensure_signed
from tests.e2e.desk import CHANNEL, COMPONENTS, SIGNED, TRUSTED, UPDATE, approved, ours, packed, write_tree
from tests.fakes.releases import write_releases
from tests.fakes.sigstore import GITHUB, WORKFLOW, LocalSigstore
from tests.fakes.world import OVERLAY, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.desk import Desk

NAME = "org.opencontainers.image.ref.name"
HEAL = ("check", CHANNEL, "--heal", *SIGNED)
BEFORE_BUNDLES = [f"2.{minor}" for minor in range(2, 8)]
SINCE_BUNDLES = ["2.8.0 - 2.8.5", "2.8.6 and later 2.8", "2.9"]


def index(desk: Desk, change: Callable[[dict[str, Any]], object]) -> None:
    """Let somebody who can write to the registry change its index."""
    path = desk.folder / "registry" / "index.json"
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value))


def tags(desk: Desk) -> dict[str, str]:
    """Return where each tag points."""
    entries = json.loads(desk.read("registry/index.json"))["manifests"]
    return {entry["annotations"][NAME]: entry["digest"] for entry in entries if NAME in entry.get("annotations", {})}


def lose_signature(desk: Desk) -> None:
    """Remove every `.sig`, as a retention rule does that knows only the tags in use."""

    def without(value: dict[str, Any]) -> None:
        entries = value["manifests"]
        value["manifests"] = [it for it in entries if not it.get("annotations", {}).get(NAME, "").endswith(".sig")]

    index(desk, without)


def point_channel(desk: Desk, digest: str) -> None:
    """Let the channel point at another manifest that is there."""

    def moved(value: dict[str, Any]) -> None:
        there = next(it for it in value["manifests"] if it["digest"] == digest)
        others = [it for it in value["manifests"] if it.get("annotations", {}).get(NAME) != "production"]
        value["manifests"] = [*others, {**there, "annotations": {NAME: "production"}}]

    index(desk, moved)


def referrers(desk: Desk, digest: str) -> Counter[str]:
    """Return what hangs on a digest: bundles by what they say, and all else by its type."""
    reference = Reference.parse(f"layout:{desk.folder / 'registry'}:production")
    found = open_registry(reference).referrers(reference, Digest.parse(digest))
    predicate = "dev.sigstore.bundle.predicateType"
    return Counter(str(it.annotations.get(predicate, it.artifact_type)).rpartition("/")[2] for it in found)


def clusters(desk: Desk, *trusted: str) -> dict[str, tuple[bool, str]]:
    """Return which clusters accept the channel, and why (not)."""
    rows = desk.ok("verify", CHANNEL, *trusted, "--output", "json").json["clusters"]
    return {row["flux"]: (row["accepts"], row["reason"]) for row in rows}


class TestHealing:
    def test_a_lost_signature_is_only_reported_until_one_says_heal(self, desk: Desk) -> None:
        digest = desk.init()
        lose_signature(desk)
        before = desk.state()
        for command in (("check", CHANNEL), ("verify", CHANNEL), ("plan", CHANNEL)):
            ran = desk.run(*command, *TRUSTED, "--output", "json")
            assert (ran.code, ran.error["code"]) == (10, "unsigned")
        assert desk.state() == before

        ran = desk.ok(*HEAL)
        assert f"v2.98.5 ({digest[7:19]}) signed again;" in ran.out
        assert ["can", "be", "published", "v2.98.8"] in [line.split()[:4] for line in ran.out.splitlines()]
        assert set(tags(desk)) == {"production", f"sha256-{digest[7:]}.sig", f"v2.98.5-{digest[7:19]}"}
        assert tags(desk)["production"] == digest
        assert set(clusters(desk, *TRUSTED)) == {*BEFORE_BUNDLES, *SINCE_BUNDLES}
        ran = desk.ok(*HEAL, "--output", "json")
        assert (ran.json["healed"], ran.json["changed"]) == (False, False)

    def test_an_update_heals_and_then_publishes(self, desk: Desk) -> None:
        base = desk.init()
        lose_signature(desk)
        ran = desk.ok(*UPDATE, "--output", "json")
        assert (ran.json["healed"], ran.json["signature"], ran.json["version"]) == (True, "verified", "v2.98.8")
        desk.ok("verify", f"layout:registry@{base}", *TRUSTED)

    def test_so_does_a_job_without_a_key(self, desk: Desk) -> None:
        with LocalSigstore() as sigstore:
            desk.write("trust.json", sigstore.trust_config())
            desk.patch.setenv("SIGSTORE_ID_TOKEN", sigstore.token())
            own = ("--trust-config", "trust.json")
            desk.ok("init", CHANNEL, "--flux-version", "v2.99.4", *own)
            lose_signature(desk)
            assert desk.ok("check", CHANNEL, "--heal", *own, "--output", "json").json["healed"] is True
            desk.ok("verify", CHANNEL, "--identity", WORKFLOW.subject, "--issuer", GITHUB, *own)

    @pytest.mark.parametrize("command", [HEAL, UPDATE], ids=["check --heal", "update"])
    @pytest.mark.parametrize("what", ["another overlay", "an image from elsewhere", "nothing of ours"])
    def test_what_is_not_provably_ours_is_not_signed(self, desk: Desk, command: tuple[str, ...], what: str) -> None:
        desk.init("--overlay", write_tree(desk, "old", OVERLAY))
        desk.ok("pull", CHANNEL, "out")
        files = desk.files("out")
        shutil.rmtree(desk.folder / "out")
        if what == "another overlay":
            files["evil.yaml"] = b"kind: ClusterRoleBinding\n"
        elif what == "an image from elsewhere":
            files[COMPONENTS] = files[COMPONENTS].replace(b"ghcr.io/fluxcd/", b"evil.example/x/")
        else:
            files = {COMPONENTS: b"kind: Namespace\n"}
        planted = desk.publish(packed(dict(files)), signer=None)
        before = desk.state()
        ran = desk.run(*command, "--output", "json")
        assert ran.code == 10
        assert ran.error["code"] == "not-ours"
        assert str(planted) in ran.error["message"]
        assert desk.state() == before

    @pytest.mark.parametrize("command", [HEAL, UPDATE], ids=["check --heal", "update"])
    def test_what_somebody_else_signed_is_not_signed_over(self, desk: Desk, command: tuple[str, ...]) -> None:
        digest = desk.init()
        lose_signature(desk)
        reference = Reference.parse(CHANNEL)
        theirs = KeySigner(signing_key("theirs"))
        ensure_signed(open_registry(reference), reference, Digest.parse(digest), theirs, SignatureFormat.LEGACY)
        before = desk.state()
        ran = desk.run(*command, "--output", "json")
        assert (ran.code, ran.error["code"]) == (10, "foreign-signature")
        assert desk.state() == before


class TestMovedBack:
    @pytest.fixture
    def old(self, desk: Desk) -> str:
        """Return a digest that the channel had, and that it has again by somebody else's doing."""
        first = desk.init()
        desk.plan()
        desk.ok(*UPDATE)
        point_channel(desk, first)
        return first

    def test_nothing_is_built_on_it(self, desk: Desk, old: str) -> None:
        newer = next(digest for tag, digest in tags(desk).items() if tag.startswith("v2.98.8-"))
        before = desk.state()
        for command in (UPDATE, ("check", *UPDATE[1:]), ("apply", "plan.json", *SIGNED)):
            ran = desk.run(*command, "--output", "json")
            assert (ran.code, ran.error["code"]) == (10, "channel-moved-back")
            assert old in ran.error["message"]
            assert f"was moved on to {newer} (v2.98.8) at 20" in ran.error["message"]
            back, _, adopting = ran.error["hint"].partition(" If you moved it, use `update ")
            assert f"To put it back at v2.98.8: `rollback {CHANNEL} --to {newer} " in back
            assert adopting.startswith(f"{CHANNEL} --adopt ")
        assert desk.state() == before

    def test_until_it_is_where_it_was(self, desk: Desk, old: str) -> None:
        newer = next(digest for tag, digest in tags(desk).items() if tag.startswith("v2.98.8-"))
        assert newer != old
        point_channel(desk, newer)
        assert desk.ok(*UPDATE, "--output", "json").json["version"] == "v2.98.8"

    @pytest.mark.parametrize("configured", [False, True], ids=["by its address", "by its name"])
    @pytest.mark.parametrize("command", ["update", "verify"])
    def test_until_the_printed_command_puts_it_back(
        self, desk: Desk, old: str, command: str, *, configured: bool
    ) -> None:
        newer = next(digest for tag, digest in tags(desk).items() if tag.startswith("v2.98.8-"))
        words: list[str] = [command, CHANNEL, *(TRUSTED if command == "verify" else SIGNED)]
        if configured:
            desk.config(f"version: 1\nartifacts:\n- {{name: fleet, url: '{CHANNEL}', signing: {{key: cosign.key}}}}\n")
            words = [command, "fleet"]
        told = desk.run(*words)
        assert (told.code, "--adopt" in told.err.partition("error: ")[0]) == (10, False)
        (printed,) = re.findall(r"To put it back at v2\.98\.8: `([^`]*)`", told.err)
        assert printed.startswith(f"rollback {'fleet' if configured else CHANNEL} --to {newer}")
        back = shlex.split(printed)
        ran = desk.run(*back)
        assert (ran.code, tags(desk)["production"]) == (11, old)  # no person confirmed it
        ran = desk.ok(*back, "--yes")
        assert "The tag was moved back from v2.98.8 to v2.98.5 without a record. This puts it back" in ran.out
        assert ran.out.endswith(f"Put back: {back[1]} is at v2.98.8.\n")
        assert tags(desk)["production"] == newer
        assert "production was put back to this from v2.98.5" in desk.ok("history", CHANNEL, *TRUSTED).out
        desk.ok(*words)

    def test_in_json_it_says_that_it_is_put_back(self, desk: Desk, old: str) -> None:
        ran = desk.ok("rollback", CHANNEL, "--to", "v2.98.8", "--yes", *SIGNED, "--output", "json").json
        assert (ran["putsBack"], ran["hold"], ran["changed"], ran["from"]["digest"]) == (True, None, True, old)
        entries = desk.ok("history", CHANNEL, *TRUSTED, "--output", "json").json["entries"]
        assert [record.get("putBack") for entry in entries for record in entry["records"]] == [None, True, None]

    @pytest.mark.usefixtures("old")
    def test_a_verification_begins_with_the_bad_verdict(self, desk: Desk) -> None:
        ran = desk.run("verify", CHANNEL, *TRUSTED)
        assert (ran.code, "code channel-moved-back" in ran.err) == (10, True)
        assert ran.out.startswith(f"{CHANNEL} fails the verification, though it is signed: Flux v2.98.5, sha256:")
        point_channel(desk, next(digest for tag, digest in tags(desk).items() if tag.startswith("v2.98.8-")))
        assert desk.ok("verify", CHANNEL, *TRUSTED).out.startswith(f"{CHANNEL} is signed: ")

    def test_or_a_person_adopts_it(self, desk: Desk, old: str) -> None:
        before = desk.state()
        ran = desk.run(*UPDATE, "--adopt")
        assert (ran.code, "code not-adopted" in ran.err) == (10, True)
        assert "a signed record says that it was moved on" in ran.err
        assert ran.err.count(f"{CHANNEL} is at {old}") == 1
        assert f"{CHANNEL} was not adopted: no person confirmed it" in ran.err  # it is signed
        assert desk.state() == before
        told = desk.run(*UPDATE).err
        explained, _, adopting = told.partition(" If you moved it, use `")
        assert "a signed record says that it was moved on" in explained
        words = shlex.split(adopting.partition("`")[0])
        assert desk.ok(*words, "--yes", "--output", "json").json["version"] == "v2.98.5"
        ran = desk.ok(*UPDATE, "--output", "json")
        assert (ran.json["signature"], ran.json["version"]) == ("verified", "v2.98.8")


class TestFormats:
    @pytest.mark.parametrize("form", ["legacy", "both"])
    def test_each_cluster_reads_what_it_can(self, desk: Desk, form: str) -> None:
        digest = desk.init("--signature-format", form)
        key = signing_key().public.fingerprint
        found = clusters(desk, *TRUSTED)
        assert {found[flux] for flux in BEFORE_BUNDLES} == {(True, f"the cosign signature (.sig) of {key}")}
        newer = "bundle" if form == "both" else "cosign signature (.sig)"
        assert {found[flux] for flux in SINCE_BUNDLES} == {(True, f"the {newer} of {key}")}
        assert referrers(desk, digest)["v1"] == (form == "both")  # https://sigstore.dev/cosign/sign/v1

    def test_bundles_alone_are_written_only_where_every_cluster_is_known_to_read_them(self, desk: Desk) -> None:
        ran = desk.run("init", CHANNEL, "--flux-version", "v2.98.5", "--signature-format", "bundle", *SIGNED)
        assert (ran.code, "code too-early-for-bundles" in ran.err, "minimumFlux: 2.8.6" in ran.err) == (2, True, True)
        artifact = f"{{name: production, url: '{CHANNEL}', minimumFlux: %s}}"
        desk.config(f"version: 1\nartifacts:\n- {artifact % '2.8.5'}\n")
        assert (
            desk.run("init", "production", "--flux-version", "v2.98.5", *SIGNED, "--signature-format=bundle").code == 2
        )
        assert not (desk.folder / "registry").exists()
        desk.config(f"version: 1\nartifacts:\n- {artifact % '2.8.6'}\n")
        desk.ok("init", "production", "--flux-version", "v2.98.5", *SIGNED, "--signature-format=bundle")
        found = clusters(desk, *TRUSTED)
        assert {flux for flux, (accepts, _) in found.items() if accepts} == set(SINCE_BUNDLES)
        assert found["2.7"][1] == "it reads no bundles, and there is no .sig"
        assert not [tag for tag in tags(desk) if tag.endswith(".sig")]

    @pytest.mark.parametrize(
        ("minimum", "flux", "said"),
        [
            pytest.param("", "v2.8.5", "later: crds.json has v2.8.5", id="an older one"),
            pytest.param(
                ", minimumFlux: 2.8.6", "v2.8.5", "later: crds.json has v2.8.5", id="against what is configured"
            ),
            pytest.param("", "latest", "give a snapshot of each cluster", id="one that does not say"),
            pytest.param("", "v2.8.6", "minimumFlux is v2.8.6, by the snapshot crds.json", id="new enough"),
        ],
    )
    def test_the_oldest_flux_is_taken_from_snapshots(self, desk: Desk, minimum: str, flux: str, said: str) -> None:
        crd = {
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "buckets.source.toolkit.fluxcd.io", "labels": {"app.kubernetes.io/version": flux}},
            "spec": {
                "group": "source.toolkit.fluxcd.io",
                "versions": [{"name": "v1", "served": True, "storage": True}],
            },
            "status": {"storedVersions": ["v1"]},
        }
        desk.write("crds.json", json.dumps({"kind": "List", "items": [crd]}))
        more = f"clusters: {{snapshots: [crds.json]}}, signing: {{format: bundle}}{minimum}"
        desk.config(f"version: 1\nartifacts:\n- {{name: production, url: '{CHANNEL}', {more}}}\n")
        ran = desk.run("init", "production", "--flux-version", "v2.98.5", *SIGNED, "-v")
        assert (ran.code, said in ran.err) == (0 if flux == "v2.8.6" else 2, True), ran.err

    def test_another_format_later_is_no_fault_and_comes_with_the_next_publication(self, desk: Desk) -> None:
        digest = desk.init(version="v2.99.4")
        before = desk.state()
        ran = desk.ok(*UPDATE, "--signature-format", "both", "--output", "json")
        assert (ran.json["healed"], ran.json["changed"]) == (False, False)
        assert desk.state() == before
        assert referrers(desk, digest)["v1"] == 0

    @pytest.mark.parametrize("form", ["legacy", "both"])
    def test_keyless_in_each_format(self, desk: Desk, form: str) -> None:
        with LocalSigstore() as sigstore:
            desk.write("trust.json", sigstore.trust_config())
            desk.patch.setenv("SIGSTORE_ID_TOKEN", sigstore.token())
            own = ("--trust-config", "trust.json")
            desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", "--signature-format", form, "--attestations", *own)
            found = clusters(desk, "--identity", WORKFLOW.subject, "--issuer", GITHUB, *own)
        accepts, reason = found["2.9"]
        assert accepts
        assert reason.startswith(f"the bundle of {WORKFLOW.subject}")
        assert ("Flux does not check that" in reason) is (form == "legacy")  # an attestation is all that it finds

    def test_two_signers_need_two_signatures_where_it_says_both(self, desk: Desk) -> None:
        digest = desk.init("--signature-format", "both")
        reference = Reference.parse(CHANNEL)
        theirs = KeySigner(signing_key("theirs"))
        desk.write("theirs.pub", signing_key("theirs").public.to_pem())
        ensure_signed(open_registry(reference), reference, Digest.parse(digest), theirs, SignatureFormat.BOTH)
        for trusted in (TRUSTED, ("--public-key", "theirs.pub"), (*TRUSTED, "--public-key", "theirs.pub")):
            assert {accepts for accepts, _ in clusters(desk, *trusted).values()} == {True}


class TestAttestations:
    @pytest.mark.parametrize("form", ["legacy", "both"])
    def test_hang_on_what_is_published_and_no_cluster_minds(self, desk: Desk, form: str) -> None:
        more = ("--attestations", "--signature-format", form)
        digest = desk.init(*more)
        attached = referrers(desk, digest)
        signature = 1 if form == "both" else 0
        # SLSA's provenance and cosign's signature both end in v1.
        assert attached["v1"] == 1 + signature
        assert attached["bom"] == 1
        assert attached.total() == 3 + signature  # and the record
        assert {accepts for accepts, _ in clusters(desk, *TRUSTED).values()} == {True}

        plan = desk.plan()
        ran = desk.ok(*UPDATE, *more)
        command = next(line for line in ran.out.splitlines() if line.startswith("flux-manifests apply"))
        assert all(option in command for option in ("--attestations", f"--signature-format {form}"))
        desk.ok("apply", "plan.json", *approved(plan), *SIGNED, *more)
        assert referrers(desk, plan["steps"][1]["target"])["bom"] == 1
        assert {accepts for accepts, _ in clusters(desk, *TRUSTED).values()} == {True}

    def test_are_not_made_unless_asked_for(self, desk: Desk) -> None:
        assert referrers(desk, desk.init()).total() == 1


class TestABundleOfSomebodyElse:
    @staticmethod
    def plant(folder: str, digest: str) -> None:
        """Attach a bundle of another key, which hides the `.sig` from Flux 2.8 on."""
        reference = Reference.parse(f"layout:{folder}:production")
        theirs = KeySigner(signing_key("theirs"))
        ensure_signed(open_registry(reference), reference, Digest.parse(digest), theirs, SignatureFormat.BUNDLE)

    def test_is_told_with_the_table(self, desk: Desk) -> None:
        self.plant("registry", desk.init())
        ran = desk.run("verify", CHANNEL, *TRUSTED)
        assert (ran.code, "code cluster-refuses" in ran.err) == (10, True)
        rows = [line[21:].split()[0] for line in ran.out.splitlines() if line.startswith("2.")]
        assert rows == ["yes", "no"]
        assert f"\n{BEFORE_BUNDLES[0]} to {BEFORE_BUNDLES[-1]} " in ran.out
        assert f"\n{SINCE_BUNDLES[0].split()[0]} to {SINCE_BUNDLES[-1]} " in ran.out
        assert "a bundle that does not match hides the .sig" in ran.out

    def test_keeps_the_channel_where_it_is(self, desk: Desk) -> None:
        base = desk.init()
        shutil.copytree(desk.folder / "registry", desk.folder / "copy")
        ran = desk.ok("update", "layout:copy:production", *SIGNED, "--output", "json")
        self.plant("copy", ran.json["digest"])
        # What is planted knows the digest that we are about to publish, and nothing else of ours.
        shutil.copytree(desk.folder / "copy" / "blobs", desk.folder / "registry" / "blobs", dirs_exist_ok=True)
        there = json.loads(desk.read("copy/index.json"))["manifests"]
        planted = [entry for entry in there if "annotations" not in entry or NAME not in entry["annotations"]]
        index(desk, lambda value: value["manifests"].extend(planted))
        ran = desk.run(*UPDATE, "--output", "json")
        assert (ran.code, ran.error["code"]) == (10, "cluster-would-refuse")
        assert tags(desk)["production"] == base
        assert not [tag for tag in tags(desk) if tag.startswith("v2.98.8-")]


class TestRederivation:
    def test_shows_step_by_step_where_the_digest_comes_from(self, desk: Desk) -> None:
        flags = ("--log-level", "debug", "--components-extra", "image-reflector-controller")
        digest = desk.init("--overlay", write_tree(desk, "old", OVERLAY), *flags)
        before = desk.state()
        ran = desk.ok("verify", CHANNEL, *TRUSTED, "--rederive")
        said = {line.split(":")[0].strip(): line for line in ran.out.partition("Made again from:\n")[2].splitlines()}
        assert list(said) == ["artifact", "release", "upstream", "options", "rendering", "overlay", "result"]
        assert f"layout:registry has {digest}" in said["artifact"]
        assert "v2.98.5, its manifests sha256:" in said["release"]
        assert "nothing proves the release" in said["upstream"]
        assert "helm-controller,notification-controller,image-reflector-controller" in said["options"]
        assert "--log-level=debug" in said["options"]
        assert "byte for byte what the release renders to with these options (known)" in said["rendering"]
        assert f"{len(OVERLAY.files)} other files: {OVERLAY.digest()}" in said["overlay"]
        assert said["result"].endswith(f"rebuilding it gives {digest}")
        value = desk.ok("verify", CHANNEL, *TRUSTED, "--rederive", "--output", "json").json["rederived"]
        assert (value["digest"], value["sameDigest"], set(value["steps"])) == (digest, True, set(said))
        assert desk.state() == before

    def test_of_what_another_tool_packed_proves_the_files(self, desk: Desk) -> None:
        digest = desk.init()
        desk.ok("pull", CHANNEL, "out")
        desk.publish(packed({**desk.files("out"), "notes.txt": b"a\n"}))
        ran = desk.ok("verify", CHANNEL, *TRUSTED, "--rederive")
        assert "byte for byte what the release renders to with these options (known)" in ran.out
        assert "  overlay: 1 other file: sha256:" in ran.out
        told = "  result: the files are those above; another tool packed them, so no rebuilding gives its digest\n"
        assert ran.out.endswith(told)
        desk.publish(packed(dict(desk.files("out"))))
        ran = desk.ok("verify", CHANNEL, *TRUSTED, "--rederive", "--output", "json")
        assert ran.json["rederived"]["steps"]["overlay"].startswith("no other file: sha256:")
        assert (ran.json["rederived"]["digest"], ran.json["rederived"]["sameDigest"]) == (digest, False)

    def test_of_an_unproven_rendering_says_so(self, desk: Desk) -> None:
        write_releases(desk.folder / "own", [ours("v2.98.1")])
        own = ("--releases", "own")
        desk.init(*own, "--unsafe-unproven-rendering", version="v2.98.1")
        ran = desk.ok("verify", CHANNEL, *TRUSTED, "--rederive", *own)
        assert "renders to with these options, and nothing proves that Flux renders it the same way: " in ran.out

    def test_of_hand_edits_says_what_they_are(self, desk: Desk) -> None:
        desk.init()
        desk.ok("pull", CHANNEL, "out")
        files = desk.files("out")
        files[COMPONENTS] = files[COMPONENTS].replace(b"replicas: 1\n", b"replicas: 3\n", 1)
        desk.publish(packed(dict(files)))
        ran = desk.run("verify", CHANNEL, *TRUSTED, "--rederive")
        assert (ran.code, "code edited-by-hand" in ran.err) == (11, True)
        assert "+  replicas: 3\n" in ran.err

    def test_of_what_nobody_trusted_signed_is_not_begun(self, desk: Desk) -> None:
        desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", "--signing", "unsafe-unsigned")
        ran = desk.run("verify", CHANNEL, *TRUSTED, "--rederive")
        assert (ran.code, "code unsigned" in ran.err, "made again" in ran.out) == (10, True, False)
