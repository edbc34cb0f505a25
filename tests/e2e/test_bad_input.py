"""Bad input: each gives one clear message, its exit code, no traceback, and nothing is written."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.archive import write_archive
from ci_automation.artifact.manifest import OCI_INDEX
from ci_automation.artifact.reference import Digest
from ci_automation.artifact.tree import Tree, TreeFile
from tests.e2e.bad import Arguments, Bad, told
from tests.e2e.desk import CHANNEL, SIGNED, TRUSTED, Desk, packed
from tests.fakes.keys import cosign_key, unsupported_key
from tests.fakes.releases import SampleRelease, write_releases
from tests.fakes.world import key_pem, sample, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable

CHECK = ("check", CHANNEL)
UPDATE = ("update", CHANNEL, *SIGNED)
INIT = ("init", CHANNEL, "--flux-version", "v2.98.5", *SIGNED)


def just(*arguments: str) -> Callable[[Desk], Arguments]:
    return lambda _: arguments


def with_file(name: str, content: str | bytes, *arguments: str) -> Callable[[Desk], Arguments]:
    def prepare(desk: Desk) -> Arguments:
        desk.write(name, content)
        return arguments

    return prepare


def with_config(text: str) -> Callable[[Desk], Arguments]:
    return with_file("flux.yaml", text, "config", "validate", "--config", "flux.yaml")


def with_layer(layer: bytes, *arguments: str, **claims: Any) -> Callable[[Desk], Arguments]:
    def prepare(desk: Desk) -> Arguments:
        desk.publish(layer, **claims)
        return arguments or UPDATE

    return prepare


def with_plan(change: Callable[[dict[str, Any]], object], *arguments: str) -> Callable[[Desk], Arguments]:
    def prepare(desk: Desk) -> Arguments:
        desk.init()
        plan = desk.plan()
        change(plan)
        desk.write("plan.json", json.dumps(plan))
        return arguments or ("apply", "plan.json", *SIGNED)

    return prepare


def with_password(password: str, key: bytes) -> Callable[[Desk], Arguments]:
    def prepare(desk: Desk) -> Arguments:
        desk.patch.setenv("COSIGN_PASSWORD", password)
        desk.write("c.key", key)
        return ("update", CHANNEL, "--key", "c.key")

    return prepare


def after_init(*arguments: str) -> Callable[[Desk], Arguments]:
    def prepare(desk: Desk) -> Arguments:
        desk.init()
        return arguments

    return prepare


def plan_for_another_artifact(desk: Desk) -> Arguments:
    desk.write("flux.yaml", "version: 1\nartifacts:\n- {name: a, url: 'layout:other:production'}\n")
    return with_plan(dict, "apply", "plan.json", *SIGNED, "--config", "flux.yaml")(desk)


def unsigned_base(desk: Desk) -> Arguments:
    desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", "--signing", "unsafe-unsigned")
    return UPDATE


def unsigned_base_looked_at(desk: Desk) -> Arguments:
    unsigned_base(desk)
    return (*CHECK, *TRUSTED)


def unsigned_base_to_adopt(desk: Desk) -> Arguments:
    return (*unsigned_base(desk), "--adopt")


def foreign_base(desk: Desk) -> Arguments:
    desk.write("other.key", key_pem("theirs"))
    desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", "--signing", "key", "--key", "other.key")
    return UPDATE


def damaged_bundle(desk: Desk) -> Arguments:
    releases = copied_releases(desk)
    bundle = releases / "v2.98.5" / "manifests.tar.gz"
    bundle.write_bytes(bundle.read_bytes() + b"\0")
    return (*INIT, "--releases", str(releases))


def bundle_without_watcher(desk: Desk) -> Arguments:
    present = [file for file in sample("v2.98.5").bundle.files if file.path != "source-watcher.yaml"]
    files = {file.path: file.content.decode() for file in present}
    write_releases(desk.folder / "old", [SampleRelease("v2.98.1", files=files)])
    wanted = ("--components-extra", "source-watcher", "--releases", "old")
    return ("init", CHANNEL, "--flux-version", "v2.98.1", *SIGNED, *wanted)


def copied_releases(desk: Desk) -> Path:
    source = desk.run("render", "--flux-version", "v0.0.1").err.split(" has no release")[0].removeprefix("error: ")
    return Path(shutil.copytree(source, desk.folder / "releases"))


def tampered_blob(desk: Desk) -> Arguments:
    desk.init()
    for blob in (desk.folder / "registry" / "blobs" / "sha256").iterdir():
        if blob.read_bytes()[:2] == b"\x1f\x8b":
            blob.write_bytes(blob.read_bytes().replace(b"replicas", b"replicaz"))
    return UPDATE


def index_in_layout(desk: Desk) -> Arguments:
    desk.init()
    path = desk.folder / "registry" / "index.json"
    raw = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}).encode()
    index = json.loads(path.read_bytes())
    for entry in index["manifests"]:
        entry["digest"] = str(Digest.of(raw))
    path.write_text(json.dumps(index))
    (desk.folder / "registry" / "blobs" / "sha256" / Digest.of(raw).hex).write_bytes(raw)
    return CHECK


def link() -> tarfile.TarInfo:
    entry = tarfile.TarInfo("flux-system/gotk-components.yaml")
    entry.type, entry.linkname = tarfile.LNKTYPE, "/etc/passwd"
    return entry


COMPONENTS = "flux-system/gotk-components.yaml"
ONE_FILE = write_archive(Tree((TreeFile(COMPONENTS, b"kind: Namespace\n"),)))
BOMB = gzip.compress(bytes((100 << 20) + 512), compresslevel=1)
YAML_BOMB = "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\nversion: 1\nartifacts: [*c]\n"
ARTIFACT = "version: 1\nartifacts:\n- name: a\n  url: layout:registry:production\n"

BAD = [
    # The command line
    Bad("no scheme", 2, "invalid-reference", "'ghcr.io/acme/flux:x'", just("check", "ghcr.io/acme/flux:x")),
    Bad("web address", 2, "invalid-reference", "begins with https://", just("check", "https://ghcr.io/acme/flux:x")),
    Bad("upper case", 2, "invalid-reference", "lower-case", just("check", "oci://ghcr.io/Acme/flux:x")),
    Bad("no repository", 2, "invalid-reference", "names no repository", just("check", "oci://ghcr.io:x")),
    Bad("no tag", 2, "invalid-reference", "a channel is a tag", just("update", "layout:registry", *SIGNED)),
    Bad("bad digest", 2, "invalid-reference", "not a sha256", just("verify", "layout:r@sha256:12", *TRUSTED)),
    Bad("escape in a name", 2, "invalid-reference", "not the address", just("check", "oci://a/b\x1b[31m:x")),
    Bad("nothing named", 2, "nothing-named", "no artifact", just("check")),
    Bad("unknown command", 2, "usage", "Did you mean 'update'?", just("updaet", CHANNEL)),
    Bad("unknown option", 2, "usage", "--public-key", just("verify", CHANNEL, "--public-kye", "x")),
    Bad("missing argument", 2, "usage", "ARTIFACT", just("plan")),
    Bad("unknown component", 2, "invalid-option", "source-watchr", just(*INIT, "--components-extra", "source-watchr")),
    Bad(
        "registry password", 2, "invalid-option", "every cluster", just(*INIT, "--registry-creds", "u:canary-p4ssw0rd")
    ),
    Bad("bad log level", 2, "invalid-option", "--log-level=loud", just(*INIT, "--log-level", "loud")),
    Bad("no version", 2, "no-flux-version", "and none is named", just("init", CHANNEL, *SIGNED)),
    Bad("bad version", 2, "invalid-version", "'latest'", just("init", CHANNEL, "--flux-version", "latest", *SIGNED)),
    Bad(
        "bad approval", 2, "invalid-digest", "'v2.99.4'", with_plan(dict, "apply", "plan.json", "--approve", "v2.99.4")
    ),
    Bad(
        "no registry config",
        2,
        "invalid-registry-config",
        "nosuch.json",
        just(*CHECK, "--registry-config", "nosuch.json"),
    ),
    Bad(
        "registry config that is no JSON",
        2,
        "invalid-registry-config",
        "rc.json: line 1: it is not JSON",
        with_file("rc.json", "{bad", *CHECK, "--registry-config", "rc.json"),
    ),
    Bad(
        "registry config with too long a name",
        2,
        "path-unusable",
        f"{'x' * 200} cannot be used: File name too long",
        just(*CHECK, "--registry-config", "x" * 5000),
    ),
    Bad("key without a value", 2, "contradicting-options", "needs --key", just("update", CHANNEL, "--signing", "key")),
    Bad("overlay is a file", 2, "unreadable-overlay", "cosign.pub", just(*INIT, "--overlay", "cosign.pub")),
    # The registry and what it hands out
    Bad("not in the layout", 20, "not-found", CHANNEL, just(*CHECK)),
    Bad(
        "tag not in the layout",
        20,
        "not-found",
        ":staging",
        after_init("check", "layout:registry:staging"),
    ),
    Bad("not a layout", 2, "not-a-layout", "not an OCI image layout", with_file("registry/x", "x", *INIT)),
    Bad("index", 10, "invalid-manifest", "index of several images", index_in_layout),
    Bad("no components file", 2, "no-components-file", "gotk-components", with_layer(packed({"a.yaml": b"a"}))),
    Bad(
        "two components files",
        2,
        "several-components-files",
        "a/gotk-components.yaml, b/gotk-components.yaml",
        with_layer(packed({"a/gotk-components.yaml": b"a", "b/gotk-components.yaml": b"b"})),
    ),
    Bad("components of nothing", 2, "unreadable-components", "no version", with_layer(ONE_FILE)),
    Bad("not gzip", 10, "not-packed", "not gzip", with_layer(b"PK\x03\x04 a zip")),
    Bad("truncated", 10, "unsafe-archive", "truncated", with_layer(ONE_FILE[:-400])),
    Bad("gzip bomb", 10, "unsafe-archive", "unpacks to more", with_layer(BOMB)),
    Bad(
        "claims to be huge",
        20,
        "unexpected-answer",
        "more than the limit",
        with_layer(b"x", "pull", CHANNEL, "out", size=1 << 40),
    ),
    Bad(
        "escapes",
        10,
        "unsafe-archive",
        "leaves the archive",
        with_layer(packed({"../../x": b"x"}), "pull", CHANNEL, "out"),
    ),
    Bad(
        "an emptied components file",
        2,
        "unreadable-components",
        "flux-system/gotk-components.yaml cannot be read: it is empty",
        with_layer(packed({COMPONENTS: b""})),
    ),
    Bad("links", 10, "unsafe-archive", "hard link", with_layer(packed({COMPONENTS: link()}), "pull", CHANNEL, "out")),
    Bad("tampered", 20, "content-mismatch", "expected sha256:", tampered_blob),
    # Signatures and keys
    Bad("unsigned base", 10, "not-ours", "is not signed, and no signed record says", unsigned_base),
    Bad("unsigned base, looked at", 10, "unsigned", "is not signed", unsigned_base_looked_at),
    Bad("unsigned base, adopted by nobody", 10, "not-adopted", "was not adopted", unsigned_base_to_adopt),
    Bad("foreign base", 10, "foreign-signature", "another key made it", foreign_base),
    Bad("nothing to sign with", 22, "no-signer", "no key or identity to sign with", just("update", CHANNEL)),
    Bad("no such key", 2, "key-file-missing", "missing.key", just("update", CHANNEL, "--key", "missing.key")),
    Bad("no such variable", 2, "key-file-missing", "env://NOPE", just("update", CHANNEL, "--key", "env://NOPE")),
    Bad(
        "no key at all",
        22,
        "key-unreadable",
        "text.key",
        with_file("text.key", "hello", "update", CHANNEL, "--key", "text.key"),
    ),
    Bad(
        "huge key",
        22,
        "key-unreadable",
        "too large",
        with_file("big", b"x" * 70_000, "update", CHANNEL, "--key", "big"),
    ),
    Bad(
        "P-521 key",
        22,
        "unsupported-key",
        "P-256",
        with_file("p521.key", unsupported_key(), "update", CHANNEL, "--key", "p521.key"),
    ),
    Bad(
        "no password",
        22,
        "wrong-password",
        "COSIGN_PASSWORD is not set",
        with_file("c.key", cosign_key("a"), "update", CHANNEL, "--key", "c.key"),
    ),
    Bad(
        "wrong password",
        22,
        "wrong-password",
        "does not open the key c.key",
        with_password("not-it", cosign_key("it")),
    ),
    Bad(
        "hostile scrypt",
        22,
        "key-unreadable",
        "scrypt parameters",
        with_password("it", cosign_key("it", claimed_n=1 << 40)),
    ),
    # Releases
    Bad(
        "no such release", 21, "release-not-found", "v1.0.0", just("init", CHANNEL, "--flux-version", "v1.0.0", *SIGNED)
    ),
    Bad("no releases", 21, "unreadable-directory", "nowhere/releases.json", just(*INIT, "--releases", "nowhere")),
    Bad("releases at a URL", 2, "invalid-releases", "no address with https:", just(*INIT, "--releases", "https://x/y")),
    Bad("releases of GitHub", 2, "invalid-releases", "with github:", just(*INIT, "--releases", "github:fluxcd/flux2")),
    Bad(
        "checksum mismatch",
        21,
        "checksum-mismatch",
        "v2.98.5 cannot be used: the sha256 of manifests.tar.gz",
        damaged_bundle,
    ),
    Bad("no source-watcher yet", 21, "component-missing", "no source-watcher", bundle_without_watcher),
    # Plans
    Bad("no plan", 2, "unreadable-plan", "plan.json", just("apply", "plan.json", *SIGNED)),
    Bad(
        "plan is no JSON",
        2,
        "invalid-plan",
        "the plan own/plan.yaml cannot be used: it is not JSON",
        with_file("own/plan.yaml", "steps:", "apply", "own/plan.yaml", *SIGNED),
    ),
    Bad(
        "plan is huge",
        2,
        "unreadable-plan",
        "larger than 4 MiB",
        with_file("p", b" " * (5 << 20), "apply", "p", *SIGNED),
    ),
    Bad(
        "plan of the future",
        2,
        "invalid-plan",
        "plan/v2",
        with_plan(lambda p: p.update(schema="flux-manifests.plan/v2")),
    ),
    Bad("edited plan", 2, "invalid-plan", "edited", with_plan(lambda p: p["steps"][-1].update(decision="auto"))),
    Bad("plan with more in it", 2, "invalid-plan", "edited", with_plan(lambda p: p.update(approved=True))),
    Bad("plan without steps", 2, "invalid-plan", "missing", with_plan(lambda p: p.pop("steps"))),
    Bad(
        "plan for another artifact",
        2,
        "plan-for-another-artifact",
        CHANNEL,
        plan_for_another_artifact,
    ),
    # The configuration
    Bad("no configuration", 2, "invalid-config", "flux.yaml", just("config", "validate", "--config", "flux.yaml")),
    Bad("bad YAML", 2, "invalid-config", "flux.yaml:2:1: it is not YAML", with_config("version: 1\nartifacts: [\n")),
    Bad("duplicate key", 2, "invalid-config", "flux.yaml:5", with_config(f"{ARTIFACT}  name: b\n")),
    Bad("YAML bomb", 2, "invalid-config", "flux.yaml:", with_config(YAML_BOMB)),
    Bad("deep YAML", 2, "invalid-config", "flux.yaml:", with_config("[" * 5000)),
    Bad("wrong type", 2, "invalid-config", "artifacts[0].paused", with_config(f"{ARTIFACT}  paused: perhaps\n")),
    Bad("unknown key", 2, "invalid-config", "did you mean paused?", with_config(f"{ARTIFACT}  pasued: true\n")),
    Bad("unknown artifact", 2, "unknown-artifact", "'b'", with_file("f", ARTIFACT, "check", "b", "--config", "f")),
    # Places to write to
    Bad(
        "no folder for --out",
        2,
        "unwritable",
        "no/plan.json",
        after_init("plan", CHANNEL, "--out", "no/plan.json"),
    ),
    Bad(
        "--out is a folder",
        2,
        "unwritable",
        "registry",
        after_init("plan", CHANNEL, "--out", "registry"),
    ),
    Bad(
        "full disk at --out",
        2,
        "unwritable",
        "No space left",
        after_init("plan", CHANNEL, "--out", "/dev/full"),
    ),
    Bad("pull over files", 2, "output-exists", "registry", after_init("pull", CHANNEL, "registry")),
    Bad("pull below a file", 2, "unwritable", "cosign.pub/x", after_init("pull", CHANNEL, "cosign.pub/x")),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_bad_input_is_one_message_and_nothing_is_written(desk: Desk, bad: Bad) -> None:
    arguments = bad.prepare(desk)
    told(desk, arguments, bad)


def test_an_error_of_ours_is_told_as_such_and_its_traceback_only_with_v(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise LookupError("no such luck")

    monkeypatch.setattr("ci_automation.cli.config.load_config", broken)
    arguments = ("config", "validate", "--config", "flux.yaml")
    told(desk, arguments, Bad("", 1, "internal", "LookupError: no such luck"))
    assert "Traceback" in desk.run(*arguments, "-v").err


def test_the_key_is_in_no_output(desk: Desk) -> None:
    secret = [line for line in desk.read("cosign.key").splitlines() if "-----" not in line]
    desk.patch.setenv("THE_KEY", desk.read("cosign.key"))
    ran = desk.ok("init", CHANNEL, "--flux-version", "v2.98.5", "--key", "env://THE_KEY", "-v")
    assert not any(line in ran.out + ran.err for line in secret)
    assert signing_key().public.fingerprint.hex not in desk.read("registry/index.json")
