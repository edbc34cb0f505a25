"""The action's image, built from the Dockerfile: what is in it; a job's environment has no say in what it runs."""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from tests.real import podman
from tests.real.peers import BY_NAME, ROOT, peer
from tests.real.podman import Event, act, container

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MEGABYTE = 1_000_000
# The project's promise for the image, and what the clients of the cloud key services may add to it.
LARGEST = {"runtime": 160 * MEGABYTE, "kms": 260 * MEGABYTE}
PYTHON = "/opt/venv/bin/python"
PINNED = re.compile(r"^([a-z0-9.-]+)(?:\[[^]]*\])?==(\S+)", re.MULTILINE)  # the extras are no part of the name
WORKSPACE = "/github/workspace"
HIJACKED = "hijacked"
# Every file and link that the image has on its base, with its rights and the hash of what is in it.
LIST_FILES = """
import hashlib, json, os, stat
files = {}
for folder, _, names in os.walk("/opt"):
    for name in [*names, "."]:
        path = os.path.normpath(os.path.join(folder, name))
        status = os.lstat(path)
        content = os.readlink(path) if stat.S_ISLNK(status.st_mode) else ""
        if stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(open(path, "rb").read()).hexdigest()
        files[path] = [oct(status.st_mode), status.st_uid, status.st_gid, content]
print(json.dumps(files))
"""
LIST_DISTRIBUTIONS = """
import importlib.metadata, json
print(json.dumps(sorted((found.name, found.version) for found in importlib.metadata.distributions())))
"""
LIST_BYTECODE = """
import importlib.util, json, pathlib
kinds = {}
for source in pathlib.Path("/opt/venv/lib").rglob("*.py"):
    compiled = pathlib.Path(importlib.util.cache_from_source(source))
    kinds[str(source)] = compiled.read_bytes()[4:8].hex() if compiled.exists() else ""
print(json.dumps(kinds))
"""


def inside(image: str, script: str, *flags: str) -> Any:
    """Return what a script of ours prints in an image, which is JSON."""
    done = container(image, "-I", *flags, "-c", script, options=("--entrypoint", PYTHON))
    assert done.code == 0, done.errors
    return json.loads(done.output)


@pytest.fixture(scope="module")
def image() -> str:
    return podman.image()


@pytest.fixture(scope="module")
def kms_image() -> str:
    return podman.image("kms")


@pytest.fixture(params=["runtime", "kms"])
def requirements(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bill(image: str) -> dict[str, Any]:
    """Return the image's own list of what is in it."""
    done = container(image, "/opt/flux-manifests/sbom.json", options=("--entrypoint", "/bin/cat"))
    document: dict[str, Any] = json.loads(done.output)
    return document


class TestContents:
    def test_is_no_larger_than_promised(
        self, requirements: str, record_property: Callable[[str, object], None]
    ) -> None:
        sizes = [
            int(podman.podman("image", "inspect", "--format", "{{.Size}}", name))
            for name in (podman.image(requirements), podman.base())
        ]
        over = sizes[0] - sizes[1]
        record_property("size", over)
        print(f"\nthe image of {requirements} has {over / MEGABYTE:.1f} MB on its base")
        assert 50 * MEGABYTE < over <= LARGEST[requirements]

    def test_two_builds_have_the_same_files(self, image: str) -> None:
        first, second = (inside(name, LIST_FILES) for name in (image, podman.image(again=True)))
        assert len(first) > 1000
        assert {path for path in first.keys() | second.keys() if first.get(path) != second.get(path)} == set()

    def test_is_started_by_absolute_paths_in_isolated_mode(self, image: str) -> None:
        (settings,) = json.loads(podman.podman("image", "inspect", image))
        assert settings["Config"]["Entrypoint"] == [PYTHON, "-I", "-u", "-m", "ci_automation"]
        assert settings["Config"].get("Cmd") is None
        assert settings["Config"].get("User", "") == ""

    def test_nothing_outside_of_its_folder_differs_from_the_base(self, image: str) -> None:
        changed = json.loads(podman.podman("image", "diff", "--format", "json", image, podman.base()))
        paths = [path for kind in ("added", "changed", "deleted") for path in changed.get(kind) or ()]
        assert paths
        assert [path for path in paths if not f"{path}/".startswith("/opt/")] == []

    def test_has_what_is_locked_and_neither_pip_nor_a_compiler(self, requirements: str) -> None:
        locked = (ROOT / "requirements" / f"{requirements}.txt").read_text()
        pinned = dict(PINNED.findall(locked))
        found = {_normal(name): version for name, version in inside(podman.image(requirements), LIST_DISTRIBUTIONS)}
        assert found.pop("flux-manifests")
        assert found.items() <= pinned.items()
        # Left out are those that another system needs.
        assert {"colorama"} >= pinned.keys() - found.keys()
        script = """
import importlib.util, json, shutil
modules = [name for name in ("pip", "setuptools", "wheel", "hatchling") if importlib.util.find_spec(name)]
print(json.dumps(modules + [name for name in ("pip", "pip3", "cc", "gcc", "go") if shutil.which(name)]))
"""
        assert inside(podman.image(requirements), script) == []

    def test_the_clients_of_cloud_key_services_are_in_the_other_image_alone(self, image: str, kms_image: str) -> None:
        modules = ("boto3", "azure.keyvault.keys", "google.cloud.kms", "hvac")
        script = f"""
import importlib, json
found = []
for name in {modules}:
    try:
        found.append(importlib.import_module(name).__name__)
    except ModuleNotFoundError:
        pass
print(json.dumps(found))
"""
        assert inside(image, script) == []
        assert inside(kms_image, script) == list(modules)

    def test_the_larger_image_has_the_same_versions(self) -> None:
        texts = ((ROOT / "requirements" / f"{name}.txt").read_text() for name in ("runtime", "kms"))
        small, large = (set(PINNED.findall(text)) for text in texts)
        assert small < large

    def test_all_its_modules_are_compiled_and_never_checked_against_their_sources(self, image: str) -> None:
        kinds = inside(image, LIST_BYTECODE)
        # PEP 552: the first bit says that it is checked by a hash, the second that it is checked at all.
        assert {path for path, flags in kinds.items() if flags != "01000000"} == set()
        assert any(path.endswith("/ci_automation/__main__.py") for path in kinds)

    def test_kustomize_runs(self, image: str) -> None:
        done = container(image, "version", options=("--entrypoint", "/opt/flux-manifests/bin/kustomize"))
        assert (done.code, done.output.strip()) == (0, f"v{BY_NAME['kustomize'].version}")

    def test_kustomize_for_arm64_is_a_static_program_for_it(self) -> None:
        """Compiled by the Dockerfile's own script; the image for arm64 was never built here."""
        program = peer("kustomize-arm64").read_bytes()
        elf64, aarch64, interpreter = b"\x7fELF\x02\x01", 183, 3
        assert program.startswith(elf64)
        machine, first, size, count = (
            int.from_bytes(program[place : place + length], "little")
            for place, length in ((18, 2), (32, 8), (54, 2), (56, 2))
        )
        assert machine == aarch64
        kinds = [int.from_bytes(program[at : at + 4], "little") for at in range(first, first + size * count, size)]
        assert kinds
        assert interpreter not in kinds
        text = (ROOT / "Dockerfile").read_text()
        assert "FROM --platform=${BUILDPLATFORM} ${GOLANG} AS go" in text

    def test_the_makefile_and_the_dockerfile_build_the_kustomize_of_the_tests(self) -> None:
        version = BY_NAME["kustomize"].version
        assert f"kustomize/v5@v{version}\n" in (ROOT / "Makefile").read_text()
        assert f"\nARG KUSTOMIZE=v{version}\n" in (ROOT / "Dockerfile").read_text()

    def test_nothing_but_sources_is_sent_to_the_builder(self, tmp_path: Path) -> None:
        probe = tmp_path / "Dockerfile"
        probe.write_text(f"FROM {podman.base()}\nCOPY . /context\n")
        name = "localhost/context"
        ignored = ("--ignorefile", ROOT / ".dockerignore")
        podman.podman(
            "build", "--quiet", "--layers=false", "--isolation=chroot", "--file", probe, *ignored, "--tag", name, ROOT
        )
        listed = container(name, "/context", "-type", "f", options=("--entrypoint", "/usr/bin/find"))
        podman.podman("rmi", "--force", name)
        files = {line.removeprefix("/context/") for line in listed.output.splitlines()}
        assert {file.partition("/")[0] for file in files} == set(podman.SOURCES) - {"Dockerfile", ".dockerignore"}
        assert not [file for file in files if "__pycache__" in file]


class TestBill:
    def test_lists_what_is_installed(self, image: str, bill: dict[str, Any]) -> None:
        listed = {(entry["name"], entry["version"]) for entry in bill["components"] if entry["type"] == "library"}
        root = bill["metadata"]["component"]
        assert {*listed, (root["name"], root["version"])} == {tuple(pair) for pair in inside(image, LIST_DISTRIBUTIONS)}

    def test_lists_the_programs(self, image: str, bill: dict[str, Any]) -> None:
        others = {entry["name"]: entry for entry in bill["components"] if entry["type"] != "library"}
        version = inside(image, "import json, sys; print(json.dumps('.'.join(map(str, sys.version_info[:3]))))")
        assert others["cpython"]["version"] == version
        program = hashlib.sha256(peer("kustomize").read_bytes()).hexdigest()
        assert others["kustomize"]["hashes"] == [{"alg": "SHA-256", "content": program}]
        assert others.keys() == {"cpython", "kustomize"}

    def test_says_why_each_of_them_is_there(self, bill: dict[str, Any]) -> None:
        graph = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
        reached: set[str] = set()
        waiting = [bill["metadata"]["component"]["bom-ref"]]
        while waiting:
            one = waiting.pop()
            if one not in reached:
                reached.add(one)
                waiting += graph.get(one, [])
        assert reached == {entry["bom-ref"] for entry in (*bill["components"], bill["metadata"]["component"])}


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[str, ...]:
    """Return the volumes of a job whose repository and home are full of modules that would run in place of ours."""
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    trap = f"import os, sys\nos.write(1, b'{HIJACKED}\\n')\nos._exit(66)\n"
    modules = ("click", "yaml", "oras", "github", "requests", "json", "sitecustomize", "usercustomize", "startup")
    for module in modules:
        _write(workspace / f"{module}.py", trap)
    _write(workspace / "ci_automation" / "__init__.py", trap)
    _write(workspace / "ci_automation" / "__main__.py", trap)
    _write(workspace / "pyvenv.cfg", f"home = {WORKSPACE}\n")
    for version in ("3.11", "3.12", "3.13", "3.14"):
        _write(home / ".local" / "lib" / f"python{version}" / "site-packages" / "usercustomize.py", trap)
    return (f"{workspace}:{WORKSPACE}", f"{home}:/github/home")


ON_A_RUNNER = {"HOME": "/github/home", "GITHUB_ACTIONS": "true", "CI": "true", "GITHUB_WORKSPACE": WORKSPACE}
HOSTILE = {
    "PYTHONPATH": WORKSPACE,
    "PATH": "utter-nonsense",
    "LD_PRELOAD": "/nonexistent",
    "LD_LIBRARY_PATH": WORKSPACE,
    "PYTHONSTARTUP": f"{WORKSPACE}/startup.py",
    "PYTHONHOME": "/nonexistent",
    "PYTHONUSERBASE": "/github/home/.local",
    "PYTHONPLATLIBDIR": "nonsense",
    "PYTHONPYCACHEPREFIX": WORKSPACE,
    "PYTHONINSPECT": "1",
    "PYTHONWARNINGS": "error",
    "PYTHONBREAKPOINT": "click.breakpoint",
    "PYTHONOPTIMIZE": "2",
    "PYTHONIOENCODING": "ascii",
    "VIRTUAL_ENV": WORKSPACE,
    "TMPDIR": "/nonexistent",
    "TERM": "utter-nonsense",
}
RUNNER = ("--workdir", WORKSPACE)


class TestAJobsEnvironment:
    @pytest.mark.parametrize("variable", HOSTILE)
    def test_does_not_change_what_runs(self, variable: str, image: str, hostile: tuple[str, ...]) -> None:
        variables = ON_A_RUNNER | {variable: HOSTILE[variable]}
        done = container(image, "--help", variables=variables, volumes=hostile, options=RUNNER)
        calm = container(image, "--help")
        assert (done.code, done.output) == (0, calm.output), done.errors

    def test_all_of_it_at_once_leaves_the_whole_job_as_it_is(self, image: str, hostile: tuple[str, ...]) -> None:
        done = container(image, "demo", "--help", variables=ON_A_RUNNER | HOSTILE, volumes=hostile, options=RUNNER)
        assert done.code == 0, done.errors
        # What only a job that does something loads.
        script = "import click, cryptography, github, msgspec, oras, re2, requests, rich, sigstore, yaml; print(0)"
        loaded = container(
            image,
            *("-I", "-c", script),
            variables=ON_A_RUNNER | HOSTILE,
            volumes=hostile,
            options=(*RUNNER, "--entrypoint", PYTHON),
        )
        assert (loaded.code, loaded.output) == (0, "0\n"), loaded.errors

    def test_would_otherwise_run_what_the_workspace_has(self, image: str, hostile: tuple[str, ...]) -> None:
        options = (*RUNNER, "--entrypoint", PYTHON)
        done = container(image, "-m", "ci_automation", volumes=hostile, options=options)
        assert (done.code, done.output) == (66, f"{HIJACKED}\n")

    def test_the_whole_job_runs_without_a_shell_on_a_disk_that_cannot_be_written(
        self, image: str, hostile: tuple[str, ...]
    ) -> None:
        options = (*RUNNER, "--read-only", "--volume=/dev/null:/bin/sh", "--volume=/dev/null:/bin/bash")
        variables = ON_A_RUNNER | {"PATH": "utter-nonsense", "PYTHONPATH": WORKSPACE}
        done = container(image, "demo", variables=variables, volumes=hostile, options=options)
        assert done.code == 0, done.errors
        assert HIJACKED not in done.output


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with podman.service(tmp_path_factory.mktemp("service")) as address:
        yield address


def _action(folder: Path, image: str) -> Path:
    """Return the repository of an action that runs a script of ours in the image."""
    script = """
import os
with open(os.environ["GITHUB_OUTPUT"], "a") as outputs:
    outputs.write("said=" + os.environ["INPUT_WITH-HYPHEN"] + "\\nhome=" + os.environ["HOME"] + "\\n")
with open(os.environ["GITHUB_STEP_SUMMARY"], "a") as summary:
    summary.write("# A summary of " + os.environ["GITHUB_REPOSITORY"] + "\\n")
print(open("in-the-tree").read(), os.environ["TOKEN"], os.environ["GITHUB_API_URL"], os.environ["GITHUB_RUN_ID"])
"""
    runs = {"using": "docker", "image": f"docker://{image}", "entrypoint": PYTHON, "args": ["-I", "-c", script]}
    inputs = {"with-hyphen": {"description": "one", "default": "nothing"}}
    outputs = {name: {"description": "one"} for name in ("said", "home")}
    action = {"name": "one", "description": "for the tests", "inputs": inputs, "outputs": outputs, "runs": runs}
    _write(folder / "action.yml", json.dumps(action))
    called = """
        on:
          workflow_call:
            inputs: {word: {type: string}}
            outputs: {said: {value: "${{ jobs.inner.outputs.said }}"}}
        jobs:
          inner:
            runs-on: ubuntu-latest
            outputs: {said: "${{ steps.one.outputs.said }}"}
            steps:
              - uses: actions/checkout@v4
              - {id: one, uses: acme/ci-automation@v1, with: {with-hyphen: "${{ inputs.word }}"}, env: {TOKEN: none}}
    """
    _write(folder / ".github" / "workflows" / "called.yaml", textwrap.dedent(called))
    podman.commit(folder)
    return folder


WORKFLOW = """
on: {workflow_dispatch: {inputs: {word: {type: string}}}}
permissions: {}
jobs:
  one:
    runs-on: ubuntu-latest
    outputs: {said: "${{ steps.one.outputs.said }}"}
    steps:
      - uses: actions/checkout@v4
      - id: one
        uses: acme/ci-automation@v1
        with: {with-hyphen: "${{ inputs.word }}"}
        env: {TOKEN: "${{ secrets.TOKEN }}"}
      - run: echo "the step before said ${{ steps.one.outputs.said }}"
  two:
    uses: acme/ci-automation/.github/workflows/called.yaml@v1
    with: {word: inner}
  three:
    needs: [one, two]
    runs-on: ubuntu-latest
    steps:
      - run: echo "the jobs before said ${{ needs.one.outputs.said }} and ${{ needs.two.outputs.said }}"
"""


class TestAct:
    def test_runs_the_image_in_a_workflow_whose_steps_and_jobs_see_its_outputs(
        self, image: str, service: str, tmp_path: Path
    ) -> None:
        action = _action(tmp_path / "action", image)
        fleet = tmp_path / "fleet"
        _write(fleet / "in-the-tree", "a file of the tree")
        _write(fleet / ".github" / "workflows" / "flux.yaml", WORKFLOW)
        podman.commit(fleet, "acme/fleet")
        done = act(
            service,
            fleet,
            Event("workflow_dispatch", {"inputs": {"word": "a word"}}, run=4711),
            variables={"GITHUB_API_URL": "http://127.0.0.1:9"},
            secrets={"TOKEN": "canary-token-of-the-job"},
            repositories={"acme/ci-automation@v1": action},
        )
        assert done.code == 0, done.text
        assert done.outputs("one", "one")["said"] == "a word"
        assert done.summary("one", "one") == "# A summary of acme/fleet\n"
        assert "a file of the tree *** http://127.0.0.1:9 4711" in done.said("one", "one")
        assert "the step before said a word" in done.said("one")
        assert "the jobs before said a word and inner" in done.said("three")
        assert set(done.jobs.values()) == {"success"}
        assert "canary-token-of-the-job" not in done.text

    def test_a_step_that_fails_fails_the_job(self, image: str, service: str, tmp_path: Path) -> None:
        action = _action(tmp_path / "action", image)
        fleet = tmp_path / "fleet"
        _write(fleet / ".github" / "workflows" / "flux.yaml", WORKFLOW)
        podman.commit(fleet, "acme/fleet")
        done = act(
            service,
            fleet,
            Event("workflow_dispatch", {}),
            repositories={"acme/ci-automation@v1": action},
            options=("--job", "one"),
        )
        assert (done.code, done.jobs) == (1, {"one": "failure"})
        assert "FileNotFoundError" in done.said()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
