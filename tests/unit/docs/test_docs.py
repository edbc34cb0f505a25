"""What the documents say of the code is so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import pytest

from ci_automation.cli import COMMANDS, UNREAD, cli
from ci_automation.cli.results import APPROVAL_NEEDED
from ci_automation.config.load import parse_config
from ci_automation.errors import INTERRUPTED, Error
from ci_automation.impact.change import Certainty, ChangeClass
from ci_automation.policy.decision import Decision
from ci_automation.registry.docker_config import DockerConfig
from ci_automation.report.cluster_objects import login_secret
from tests.unit.docs.documents import DOCUMENTS, ROOT, configurations
from tests.unit.docs.generated import all_errors

if TYPE_CHECKING:
    from pathlib import Path

PREFIXES = (
    "FORCE",
    *(
        "ACTIONS",
        "ALL",
        "AWS",
        "AZURE",
        "COSIGN",
        "CURL",
        "DOCKER",
        "FLUX",
        "FORCE",
        "GCE",
        "GH",
        "GITHUB",
        "GOOGLE",
        "HTTPS?",
    ),
    *("LD", "NO", "REQUESTS", "SIGSTORE", "SSL", "TRANSIT", "VAULT", "XDG"),
)
COVERAGE = (ROOT / "docs/reference/coverage.md").read_text()


def defined_tests() -> set[str]:
    return {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE)
    }


def test_each_row_of_what_it_does_names_a_test_or_says_why_not() -> None:
    rows = re.findall(r"^\| \d+ \| .+ \| (yes|partly|no) \| (.+) \|$", COVERAGE, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| \d", COVERAGE, re.MULTILINE)) > 80
    defined = defined_tests()
    for here, cell in rows:
        named = set(re.findall(r"`(test_\w+)`", cell))
        assert named <= defined, named - defined
        assert bool(named) == (here != "no"), cell


def test_each_promise_names_tests_that_exist() -> None:
    text = (ROOT / "docs/explanation/threat-model.md").read_text()
    promised = re.findall(r"^\| (\d+) \| .* \| \[tests\]\(#tests-of-promise-\1\) \|$", text, re.MULTILINE)
    sections = re.findall(r"^### Tests of promise (\d+)\n((?:(?!#).*\n)*)", text, re.MULTILINE)
    assert promised == [number for number, _ in sections] == [str(number) for number in range(1, 16)]
    defined = defined_tests()
    for number, section in sections:
        named = set(re.findall(r"`(test_\w+)`", section))
        assert named, f"promise {number} names no test"
        assert named <= defined, f"promise {number} names {named - defined}"


def test_the_threat_model_names_no_test_that_is_not_there() -> None:
    text = (ROOT / "docs/explanation/threat-model.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    assert named <= defined_tests(), named - defined_tests()


def test_the_documents_list_every_command() -> None:
    rows = re.findall(r"^\| (`.*?) \| ", (ROOT / "docs/guides/command-line.md").read_text(), re.MULTILINE)
    assert set(COMMANDS) <= {word for row in rows for word in re.findall(r"`([\w-]+)", row)}


def test_the_reference_explains_each_option_of_each_command() -> None:
    text = (ROOT / "docs/reference/commands.md").read_text()
    sections = dict(re.findall(r"^##+ (.+)\n((?:(?!##).*\n)*)", text, re.MULTILINE))
    for name in set(COMMANDS) - {"action"}:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        linked = re.findall(r"all of \[(.+?)\]", sections[name])
        explained = set(re.findall(r"`(--[\w-]+)`", sections[name] + "".join(sections[part] for part in linked)))
        options = (it for it in command.params if isinstance(it, click.Option) and not it.hidden)
        assert {it.opts[0] for it in options} <= explained, name


def test_the_documents_list_every_exit_code() -> None:
    text = (ROOT / "docs/guides/command-line.md").read_text()
    codes = {int(code) for code in re.findall(r"^\| (\d+) \| ", text, re.MULTILINE)}
    assert codes == {0, Error.exit_code, APPROVAL_NEEDED, INTERRUPTED, UNREAD} | {it.exit_code for it in all_errors()}


def test_the_first_screen_of_the_readme_says_how_to_try_and_test_it() -> None:
    first = (ROOT / "README.md").read_text().partition("\n## What you see\n")[0].splitlines()
    assert len(first) <= 50
    for command in ("make demo", "make test"):
        assert any(re.match(f"{command} +# .*(seconds|minutes)", line) for line in first)
    assert any("Python 3.11" in line for line in first)


def test_the_readme_is_read_in_minutes() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 10_000


def test_the_list_of_documents_has_each() -> None:
    docs = ROOT / "docs"
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", (docs / "README.md").read_text()))
    assert linked == {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} - {"README.md"}


def test_the_documents_list_every_variable_of_the_environment() -> None:
    read = re.compile(rf"\"((?:{'|'.join(PREFIXES)})_[A-Z0-9_]+|PYKCS11LIB)\"")
    found = {name for path in (ROOT / "ci_automation").rglob("*.py") for name in read.findall(path.read_text())}
    listed = re.findall(r"^\| (`.*?) \| ", (ROOT / "docs/reference/environment.md").read_text(), re.MULTILINE)
    found -= {"HTTP_REQUEST", "DOCKER_CONFIG_JSON", "DOCKER_CONFIG_READER", "COSIGN_KEY"}  # secrets of workflows
    assert found == {word for row in listed for word in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize(("path", "block"), [pytest.param(*it, id=it[0].name) for it in configurations()])
def test_each_configuration_in_the_documents_is_one(path: Path, block: str) -> None:
    assert parse_config(block.encode(), path.name).artifacts


def headings(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_each_link_within_the_documents_leads_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\((?!<|https?://)([^)]+)\)", path.read_text()):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        on_site = (ROOT / "docs").resolve() in target.resolve().parents
        assert on_site or target.suffix != ".md" or path.parent == ROOT, f"the site lacks the page {link}"
        assert not anchor or anchor in headings(target), link


@pytest.mark.parametrize("words", [ChangeClass, Decision], ids=lambda words: words.__name__)
def test_the_document_on_gates_explains_each(words: type[ChangeClass | Decision]) -> None:
    rows = " ".join(re.findall(r"^\| (`.*?) \| ", (ROOT / "docs/reference/gates.md").read_text(), re.MULTILINE))
    assert {str(word) for word in words} <= set(re.findall(r"`(\w+)`", rows))


def test_the_document_on_gates_explains_each_certainty() -> None:
    assert set(Certainty) <= set(
        re.findall(r"^\| (\w+) \| ", (ROOT / "docs/reference/gates.md").read_text(), re.MULTILINE)
    )


def test_the_templates_of_credentials_are_those_of_the_program(tmp_path: Path) -> None:
    text = (ROOT / "docs/guides/clusters.md").read_text()
    for name in ("pull-images", "pull-flux-manifests"):
        assert f"`{login_secret('flux-system', name, 'ghcr.io', '').command}`" in text
    (template,) = re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found = DockerConfig(tmp_path / "config.json", {}, text=template).for_host("ghcr.io").push
    assert found is not None
    assert (found.username, found.password) == ("USER", "TOKEN")


def test_the_first_make_prints_one_line_unless_something_fails() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("$(STAMP): ")[2].partition("\n\n")[0].splitlines()[1:]
    assert [line for line in recipe if not line.startswith("\t@")] == []
    assert all("--quiet" in line for line in recipe if "pip install" in line)
    assert sum("@echo" in line for line in recipe) == 1


def test_make_docs_makes_the_man_pages_that_the_documents_name() -> None:
    recipe = (ROOT / "Makefile").read_text()
    pages = re.findall(r'\("([\w/]+)", project, .*, (\d)\)', (ROOT / "docs/conf.py").read_text())
    assert "-b man docs build/man" in recipe
    assert [number for _, number in pages] == ["1", "5"]
    assert all((ROOT / f"docs/{page}.md").is_file() for page, _ in pages)
