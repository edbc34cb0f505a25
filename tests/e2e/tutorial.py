"""The tutorial for the command line, run as it stands on a terminal, its screenshots, and its `check` in the README.

`python -m tests.e2e.tutorial` makes what these show anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

README = Path(__file__).parents[2] / "README.md"
DOCS = README.parent / "docs"
PAGE = (DOCS / "tutorials/command-line.md").read_text()
COLUMNS = 100
# What the image has: rich's own format would fetch a font.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {width} {height}" role="img">
<style>
.{unique_id}-matrix {{
  font: {char_height}px/{line_height}px ui-monospace, Menlo, Consolas, monospace;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
_PLACE = re.compile(r"(?<=<!-- printed: check -->\n).*?(?=<!-- end of what is printed -->)", re.DOTALL)
_BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n!\[[^]]+\]\(\.\./(images/[a-z-]+\.svg)\)\n)?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of the page: its commands, and the file with what the last of them prints, if the page shows it."""

    commands: str
    image: str


BLOCKS = [Block(*found) for found in _BLOCK.findall(PAGE)]


def printed(folder: Path) -> list[str]:
    """Return what each block prints on a terminal, in one shell that starts in this folder; errors end it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    home = {
        "HOME": str(folder),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TERM": "xterm-256color",
    }
    script = "set -euo pipefail\n" + "printf '\\f'\n".join(block.commands for block in BLOCKS)
    command = ["bash", "-c", script]
    with subprocess.Popen(command, cwd=folder, env=home, stdout=theirs, stderr=subprocess.PIPE) as child:
        os.close(theirs)
        written = bytearray()
        with contextlib.suppress(OSError), open(ours, "rb", buffering=0) as file:  # noqa: PTH123 - of a descriptor
            while piece := file.read(4096):
                written += piece
        errors = child.stderr.read().decode() if child.stderr else ""
    assert child.returncode == 0, errors
    return written.decode().replace("\r\n", "\n").split("\f")


def screenshot(block: Block, output: str) -> str:
    """Return an image of the last command of a block and what it prints."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(Text(_prompt(block), style="bold"))
    console.print(Text.from_ansi(_ageless(output)))
    text = console.export_svg(title="", unique_id="screen", code_format=_FORMAT)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def readme(outputs: list[str]) -> str:
    """Return the README with all that `check` of the tutorial prints."""
    ((block, output),) = ((block, text) for block, text in zip(BLOCKS, outputs, strict=True) if "check" in block.image)
    told = Text.from_ansi(_ageless(output)).plain
    (channel,) = re.findall(r"^export CHANNEL=(\S+)", PAGE, re.MULTILINE)
    prompt = _prompt(block).replace("$CHANNEL", channel)  # which the README does not set
    lines = "\n".join(line.rstrip() for line in (prompt, *told.splitlines()))
    return _PLACE.sub(lambda _: f"```text\n{lines}\n```\n", README.read_text())


def _prompt(block: Block) -> str:
    return "$ " + block.commands.replace("\\\n ", "").strip().splitlines()[-1]


def _ageless(output: str) -> str:
    """Return what is printed, with ages that do not change every day."""
    return re.sub(r"\b\d+ days old", "12 days old", output)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        texts = printed(Path(scratch))
    README.write_text(readme(texts))
    for each, text in zip(BLOCKS, texts, strict=True):
        if each.image:
            (DOCS / "images").mkdir(exist_ok=True)
            (DOCS / each.image).write_text(screenshot(each, text))
