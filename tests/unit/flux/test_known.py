"""The table of known releases needs both: the files, and the version that they are rendered as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.flux import proof
from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.proof import is_known, known_releases
from ci_automation.flux.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = {"rbac.yaml": "a", "policies.yaml": "b"}


@pytest.fixture(params=["releases", "samples"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the table have one bundle, as v2.9.4."""
    entry = f'{{"{ManifestsBundle(FILES).digest}": "v2.9.4"}}'
    parts = {"releases": "{}", "samples": "{}", request.param: entry}
    text = ", ".join(f'"{part}": {entries}' for part, entries in parts.items())
    (tmp_path / "known.json").write_text(f"{{{text}}}")
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    proof._proven.cache_clear()
    yield
    proof._proven.cache_clear()


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("files", "version", "proven"),
    [
        pytest.param(FILES, "v2.9.4", True, id="both"),
        pytest.param(FILES, "v2.9.3", False, id="another version's templates"),
        pytest.param({**FILES, "rbac.yaml": "c"}, "v2.9.4", False, id="a changed file"),
        pytest.param({**FILES, "x.yaml": "c"}, "v2.9.4", False, id="a file more"),
    ],
)
def test_known_is_what_was_proven(files: dict[str, str], version: str, proven: bool) -> None:
    assert is_known(ManifestsBundle(files), Version.parse(version)) is proven


def test_the_package_has_its_table() -> None:
    assert len(proof._proven()) >= 23


def test_the_newest_release_of_the_table_is_known_by_number_and_not_by_text(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"releases": {"a": "v2.9.4", "b": "v2.10.0", "c": "v2.8.8"}, "samples": {"d": "v2.99.4"}}
    monkeypatch.setattr(proof, "_table", lambda: table)
    assert known_releases()[-1] == Version.parse("v2.10.0")
