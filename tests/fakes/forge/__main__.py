"""The double as a process of its own: prints where it listens, and runs until its input ends or it is stopped."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fakes.forge.control import build, state
from tests.fakes.forge.described import PUBLIC
from tests.fakes.forge.forge import Forge

if TYPE_CHECKING:
    from types import FrameType


def main() -> int:
    """Serve until SIGTERM or SIGINT; 1 where an exchange was not as GitHub describes it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.forge")
    parser.add_argument("--listen", default="127.0.0.1:0", help="HOST:PORT")
    parser.add_argument(
        "--state", type=Path, help="a JSON file with the world at the start; the end is written beside it"
    )
    parser.add_argument("--releases", type=Path, help="a folder of releases")
    parser.add_argument("--flavour", default=PUBLIC, help=f"{PUBLIC} or ghes")
    given = parser.parse_args()
    host, _, port = given.listen.rpartition(":")
    forge = Forge(given.flavour, given.releases, address=(host, int(port)))
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    if given.state and given.state.exists():
        build(forge, json.loads(given.state.read_text()))
    with forge:
        where = {"url": forge.url, "graphql_url": forge.graphql_url, "host": forge.host}
        sys.stdout.write(json.dumps(where) + "\n")
        sys.stdout.flush()
        stopped.wait()
        wrong, forge.violations = forge.violations, []
    if given.state:
        given.state.with_suffix(".end.json").write_text(json.dumps(state(forge) | {"violations": wrong}, indent=1))
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
