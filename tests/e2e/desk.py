"""A desk to work at: a folder with keys, releases and a registry, a clean environment, and the command line."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Reference
from ci_automation.cli import run
from ci_automation.cli.schema import output_schema
from ci_automation.policy.model import SignatureFormat
from ci_automation.registry import open_registry
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.verify import ensure_signed
from tests.fakes.releases import SampleRelease
from tests.fakes.world import sample, signing_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from ci_automation.artifact.reference import Digest
    from ci_automation.artifact.tree import Tree

BINDING = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: planted}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
"""
CHANNEL = "layout:registry:production"
SIGNED = ("--signing", "key", "--key", "cosign.key")
TRUSTED = ("--public-key", "cosign.pub")
UPDATE = ("update", CHANNEL, *SIGNED)
COMPONENTS = "flux-system/gotk-components.yaml"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did: its exit code, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return standard output as a value: of a run on one artifact its entry alone, as most tests are about that."""
        return of_one(json.loads(self.out))

    @property
    def error(self) -> dict[str, Any]:
        """Return the error in the JSON output."""
        found: dict[str, Any] = self.json["error"]
        return found


@dataclass(frozen=True, slots=True)
class Desk:
    """The working folder, and the command line in it."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def run(self, *arguments: str) -> Ran:
        """Run the command line in this process."""
        self.capture.readouterr()
        code = run(arguments)
        out, err = self.capture.readouterr()
        if ("--output", "json") in itertools.pairwise(arguments) and out:
            require_form(json.loads(out))
            assert set(_codes(json.loads(out))) <= {code}, (arguments, code, out)
        return Ran(code, out, err)

    def ok(self, *arguments: str) -> Ran:
        """Run the command line, which must succeed."""
        ran = self.run(*arguments)
        assert ran.code == 0, ran
        return ran

    def init(self, *more: str, version: str = "v2.98.5") -> str:
        """Publish the first artifact and return its digest."""
        ran = self.ok("init", CHANNEL, "--flux-version", version, "--output", "json", *SIGNED, *more)
        return str(ran.json["digest"])

    def plan(self, *more: str) -> dict[str, Any]:
        """Write plan.json and return it."""
        self.ok("plan", CHANNEL, "--out", "plan.json", *TRUSTED, *more)
        plan: dict[str, Any] = json.loads(self.read("plan.json"))
        return plan

    def child(self, *arguments: str, **how: Any) -> subprocess.Popen[str]:
        """Start the command line as a process of its own."""
        command = [sys.executable, "-m", "ci_automation", *arguments]
        # Of a full disk, Python 3.11 leaves half a file of bytecode behind, and stumbles over it later.
        own = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}
        environment = {**os.environ, **own}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        return subprocess.Popen(command, cwd=self.folder, env=environment, text=True, **streams)

    def state(self) -> dict[str, bytes | str]:
        """Return everything in the working folder."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes() if path.is_file() else "folder"
            for path in sorted(self.folder.rglob("*"))
        }

    def write(self, name: str, content: str | bytes) -> str:
        """Write a file and return its name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def read(self, name: str) -> str:
        """Return the text of a file."""
        return (self.folder / name).read_text(encoding="utf-8")

    def files(self, folder: str) -> dict[str, bytes]:
        """Return the files below a folder."""
        root = self.folder / folder
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def config(self, text: str) -> None:
        """Write the configuration file at its usual place."""
        self.write(".github/flux-manifests.yaml", text)

    def publish(self, layer: bytes, *, signer: str | None = "ours", channel: str = CHANNEL, **claims: Any) -> Digest:
        """Publish any bytes as the layer of an artifact, as another tool might."""
        reference = Reference.parse(channel)
        registry = open_registry(reference)
        descriptor = Descriptor.of(FLUX_LAYER, layer)
        if claims:
            descriptor = Descriptor(FLUX_LAYER, claims.get("digest", descriptor.digest), claims.get("size", len(layer)))
        for blob in (layer, CONFIG_BLOB):
            registry.put_blob(reference, blob)
        manifest = Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (descriptor,))
        digest = registry.put_manifest(reference, manifest)
        if signer:
            ensure_signed(registry, reference, digest, KeySigner(signing_key(signer)), SignatureFormat.LEGACY)
        return digest


def require_form(value: dict[str, Any]) -> None:
    """Check an output against the schema of its form, and that the schema names each of its keys."""
    if "schema" not in value:  # another project's form: CycloneDX, SPDX, SLSA, a List of Kubernetes
        assert {"bomFormat", "spdxVersion", "buildDefinition", "kind"} & value.keys(), value.keys()
        return
    schema = output_schema(value["schema"].removeprefix("flux-manifests.").removesuffix("/v1"))
    Draft202012Validator(schema).validate(value)
    assert value.keys() <= schema["properties"].keys()


def of_one(value: Any) -> Any:
    """Return the entry of a run on one artifact; other outputs are as they are."""
    found = value["artifacts"] if value.get("schema") == "flux-manifests.results/v1" else []
    return found[0] if len(found) == 1 else value


def _codes(value: Any) -> Iterator[int]:
    """Yield each code that a JSON output says the process ends with."""
    if isinstance(value, dict):
        yield from (each["exitCode"] for each in (value, value.get("error") or {}) if "exitCode" in each)
        if several := [each["exitCode"] for name in ("artifacts", "promotions") for each in _dicts(value.get(name))]:
            yield max(several)


def _dicts(values: Any) -> list[dict[str, Any]]:
    return [each for each in values or () if isinstance(each, dict)]


def packed(files: dict[str, bytes | tarfile.TarInfo]) -> bytes:
    """Return a gzipped tar as anybody may write it: values are contents, or whole headers."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, value in files.items():
            if isinstance(value, tarfile.TarInfo):
                archive.addfile(value)
                continue
            entry = tarfile.TarInfo(name)
            entry.size = len(value)
            archive.addfile(entry, io.BytesIO(value))
    return gzip.compress(stream.getvalue(), mtime=0)


def digests(text: str) -> list[str]:
    """Return the digests in a text."""
    return re.findall(r"sha256:[0-9a-f]{64}", text)


def write_tree(desk: Desk, folder: str, tree: Tree) -> str:
    """Write the files of a tree into a folder, and return its name."""
    for file in tree.files:
        desk.write(f"{folder}/{file.path}", file.content)
        (desk.folder / folder / file.path).chmod(file.mode)
    return folder


def approved(plan: dict[str, Any], number: int = -1) -> tuple[str, str]:
    """Return the option that approves one step of a plan."""
    return "--approve", plan["steps"][number]["target"]


def ours(tag: str, like: str = "v2.98.5") -> SampleRelease:
    """Return a release of our own, which nobody has proven, with the files of a sample."""
    files = {file.path: file.content.decode() for file in sample(like).bundle.files}
    return SampleRelease(tag, published_at="2020-01-01T00:00:00Z", files=files, mark="a test")
