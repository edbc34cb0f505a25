"""Completion as a real bash asks for it, and as zsh and fish ask for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ci_automation.cli import COMMANDS

# Bash calls the function with the name of the program, and reads what it leaves in COMPREPLY.
BASH = """\
source <(flux-manifests completion bash) || exit 1
[[ $(complete -p flux-manifests) == *"-F _flux_manifests_completion flux-manifests" ]] || exit 1
compopt() { echo "asked for: $2"; }
for line in "$@"; do
    read -ra COMP_WORDS <<< "$line"
    [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _flux_manifests_completion flux-manifests
    echo "$line -> ${COMPREPLY[*]}"
done
"""
LINES = {
    "flux-manifests ro": ["rollback"],
    "flux-manifests ": list(COMMANDS),
    "flux-manifests --ver": ["--version"],
    "flux-manifests config ": ["schema", "validate"],
    "flux-manifests update --allow": ["--allow-removal"],
    "flux-manifests check --output ": ["text", "json"],
    "flux-manifests update --signing key": ["keyless", "key"],
    "flux-manifests completion z": ["zsh"],
    "flux-manifests diff v2.9": ["v2.9.0", "v2.9.3", "v2.9.4"],
    "flux-manifests diff v2.9.3 v2.9.4": ["v2.9.4"],
    "flux-manifests diff v1.2": [],  # and no files
    "flux-manifests init production --flux-version v2.6": ["v2.6.0", "v2.6.1", "v2.6.2", "v2.6.4"],
    "flux-manifests render --flux-version v2.9.4": ["v2.9.4"],
    "flux-manifests mirror releases --flux-version v2.2": ["v2.2.3"],
    "flux-manifests udpate --s": [],  # an unknown command has nothing to complete, and is no error here
}


def environment(**more: str) -> dict[str, str]:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": programs, "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **more}


def test_bash_completes_commands_options_and_values() -> None:
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", BASH, "bash", *LINES],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        f"{line} -> {' '.join(found)}".rstrip(" ") + (" " if not found else "") for line, found in LINES.items()
    ]


def test_bash_completes_names_of_the_configuration_and_tags_of_a_directory(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    programs = environment()
    subprocess.run(["flux-manifests", "demo", "--folder", folder], capture_output=True, check=True, env=programs)
    (tmp_path / "own.yaml").write_text((folder / ".github/flux-manifests.yaml").read_text().replace("production", "o"))
    (tag,) = {*re.findall(r"v2\.98\.5-[0-9a-f]{12}", (folder / "registry/index.json").read_text())}
    lines = {
        "flux-manifests check pro": "production",
        "flux-manifests check ": "production",
        "flux-manifests update --config ../own.yaml ": "o",
        "flux-manifests promote --to p": "production",
        "flux-manifests diff production pr": "production",
        "flux-manifests rollback production --to v2.98.5": tag,
        "flux-manifests rollback layout:registry:production --to v2.98.5": tag,
        "flux-manifests rollback production --to v1": "",
        "flux-manifests rollback prod --to v2": "",
        "flux-manifests rollback oci://registry.invalid/a:b --to v2": "",
        "flux-manifests rollback --to v2": "",
    }
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", BASH, "bash", *lines],
        capture_output=True,
        text=True,
        check=True,
        env=programs,
        cwd=folder,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"{line} -> {found}" for line, found in lines.items()]


def test_bash_completes_the_names_of_files_elsewhere() -> None:
    line = "flux-manifests update --config .git"
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", BASH, "bash", line],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert done.stdout.splitlines() == ["asked for: default", f"{line} -> "]


ASKED = {
    "zsh": ({"COMP_WORDS": "flux-manifests roll", "COMP_CWORD": "1"}, "plain\nrollback\nMove a channel back"),
    "fish": ({"COMP_WORDS": "flux-manifests roll", "COMP_CWORD": "roll"}, "plain,rollback\tMove a channel back"),
}


@pytest.mark.parametrize("shell", ASKED)
def test_other_shells_get_an_answer_with_the_sentence_of_a_command(shell: str) -> None:
    words, answer = ASKED[shell]
    script = subprocess.run(
        ["flux-manifests", "completion", shell], capture_output=True, text=True, check=True, env=environment()
    )
    assert f"_FLUX_MANIFESTS_COMPLETE={shell}_complete" in script.stdout
    asked = environment(_FLUX_MANIFESTS_COMPLETE=f"{shell}_complete", **words)
    done = subprocess.run(["flux-manifests"], capture_output=True, text=True, check=True, env=asked)
    assert done.stdout.startswith(answer)
    assert done.stderr == ""


def test_a_shell_that_is_not_known_is_asked_nothing() -> None:
    asked = environment(_FLUX_MANIFESTS_COMPLETE="tcsh_complete")
    done = subprocess.run(["flux-manifests"], capture_output=True, text=True, check=False, env=asked)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
