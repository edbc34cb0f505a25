"""What the reference says of the code, made from the code: `python -m tests.unit.docs.generated` writes all of it anew.

Inputs and outputs of the action (also in `action.yml`), commands, keys of the configuration, and errors.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import ci_automation
from ci_automation.action.workflow_commands import OUTPUTS
from ci_automation.cli import COMMANDS, cli
from ci_automation.cli.options import INPUTS, Heading, Kind, Option
from ci_automation.cli.parameters import options_by_heading
from ci_automation.config.schema import config_schema
from ci_automation.errors import Error
from ci_automation.impact.change import ChangeClass
from ci_automation.report.markdown import markdown_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs/reference"
ACTION = ROOT / "action.yml"
SCHEMA = REFERENCE / "config.schema.json"
CHANGE_CLASSES = [str(it) for it in ChangeClass]
CLASSES = ["[class of change](gates.md#classes-of-change)"]
_BEGIN, _END = "made from the code: python -m tests.unit.docs.generated", "end of what is made from the code"


def action_section() -> str:
    """Return the inputs and outputs as `action.yml` has them; a text in JSON is one in YAML."""
    lines = ["inputs:"]
    for each in INPUTS:
        lines += [f"  {each.name}:", f"    description: {json.dumps(_described(each))}", "    required: false"]
        lines.append(f"    default: {json.dumps(each.expression or each.default)}")
    lines += ["", "outputs:"]
    for output in OUTPUTS:
        lines += [f"  {output.name}:", f"    description: {json.dumps(output.description)}"]
    return "\n".join(lines)


def inputs_section() -> str:
    """Return the inputs and outputs as docs/reference/inputs.md has them."""
    inputs = [(f"`{it.name}`", _code(it.expression or it.default), _described(it)) for it in INPUTS]
    outputs = [(f"`{it.name}`", it.description) for it in OUTPUTS]
    return "\n\n".join(
        [
            "## Inputs",
            markdown_table(("input", "default", "what it is"), inputs),
            "## Outputs",
            markdown_table(("output", "what it is"), outputs),
        ]
    )


def _described(each: Option) -> str:
    choices = f" ({', '.join(each.choices)})" if each.choices and each.name != "command" else ""
    switch = " (true or false)" if each.kind is Kind.SWITCH else ""
    return f"{each.input}{choices}{switch}"


def commands_section() -> str:
    """Return each command with its sentences, its example and its options, then the shared options."""
    commands = [it for name in COMMANDS for it in _with_below(name, cli.get_command(click.Context(cli), name))]
    shared = _shared(command for name, command in commands if name != "action")
    return "\n\n".join([part for it in commands for part in _command(*it, shared)] + [*_shared_section(shared)])


def _with_below(name: str, command: click.Command | None) -> Iterator[tuple[str, click.Command]]:
    assert command is not None
    yield name, command
    if isinstance(command, click.Group):
        for below, each in command.commands.items():
            yield from _with_below(f"{name} {below}", each)


def _headed(command: click.Command) -> Iterator[tuple[Heading, list[tuple[str, str]]]]:
    """Yield the options of each part of the help, as rows."""
    for heading, options in options_by_heading(command, click.Context(command, help_option_names=[])):
        yield heading, [_option(it) for it in options]


def _shared(commands: Iterable[click.Command]) -> dict[Heading, list[tuple[str, str]]]:
    """Return the options that several commands explain in the same words, part by part."""
    counted = Counter((heading, row) for it in commands for heading, rows in _headed(it) for row in rows)
    several = [it for it, number in counted.items() if number > 1]
    return {part: rows for part in [*Heading][1:] if (rows := [row for heading, row in several if heading is part])}


def _shared_section(shared: dict[Heading, list[tuple[str, str]]]) -> Iterator[str]:
    yield "## Shared options"
    for heading, rows in shared.items():
        yield f"### {heading.value}"
        yield markdown_table(("option", "what it is"), rows)


def _command(name: str, command: click.Command, shared: dict[Heading, list[tuple[str, str]]]) -> Iterator[str]:
    yield f"## {name}"
    usage = " ".join(command.collect_usage_pieces(click.Context(command)))
    yield f"```text\nflux-manifests {name} {usage}\n```"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield f"```sh\n{paragraph.removeprefix(chr(8)).strip()}\n```"
        else:
            yield _prose(paragraph)
    if name == "action":
        yield "Its options are the [inputs](inputs.md) of the action."
        return
    if rows := [row for heading, rows in _headed(command) for row in rows if row not in shared.get(heading, ())]:
        yield markdown_table(("option", "what it is"), rows)
    if parts := [_part(heading, rows, shared[heading]) for heading, rows in _headed(command) if heading in shared]:
        yield f"Shared options: {'; '.join(filter(None, parts))}."


def _part(heading: Heading, rows: list[tuple[str, str]], shared: list[tuple[str, str]]) -> str:
    """Return the shared options of a part that a command takes: the part's name alone if it takes all."""
    names = [row[0].split("`")[1] for row in shared if row in rows]
    link = f"[{heading.value}](#{heading.value.lower().replace(' ', '-')})"
    return f"all of {link}" if len(names) == len(shared) else f"{link} `{'`, `'.join(names)}`" if names else ""


def _option(option: click.Option) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    taken = option.make_metavar(click.Context(click.Command("x"))) if not option.is_flag else ""
    default = option.default if isinstance(option.default, str | int) and option.show_default else ""
    taken = " or ".join(taken.strip("[]").split("|"))
    return f"{names} {_code(taken)}".strip(), _prose(option.help or "") + (f" (default: {default})" if default else "")


def keys_section() -> str:
    """Return each key of the configuration, section by section: its values, and what it is."""
    schema = config_schema()
    return "\n\n".join(_keys(schema, "", schema, set()))


def _keys(node: dict[str, Any], path: str, schema: dict[str, Any], seen: set[str]) -> Iterator[str]:
    below, rows = [], []
    of_defaults = schema["$defs"]["Defaults"]["properties"] if path == "artifacts." else {}
    for name, value in node.get("properties", {}).items():
        if of_defaults.get(name) == value:
            continue
        kind, section = _value(value, schema)
        said = dict.fromkeys(filter(None, (section.get("description"), value.get("description"))))
        text = _prose(" ".join([*said][-1:] if kind.startswith("list") else said))
        required = " **(required)**" if name in node.get("required", ()) else ""
        rows.append((f"`{name}`{required}", kind, text))
        if section.get("properties") and (title := section.get("title", f"{path}{name}")) not in seen:
            seen.add(title)
            below.append((f"{path}{name}.", section))
    if rows:
        yield f"### {path.rstrip('.') or 'The file'}"
        if of_defaults:
            yield "Each artifact can have the keys of [`defaults`](#defaults) too."
        yield markdown_table(("key", "value", "what it is"), rows)
    for prefix, section in below:
        yield from _keys(section, prefix, schema, seen)


def _value(value: dict[str, Any], schema: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a key's kind of value in words, and the section that it has or whose list it is."""
    if "$ref" in value:
        value = schema["$defs"][value["$ref"].rpartition("/")[2]]
    if choices := value.get("enum", []):
        classes = CLASSES if set(CHANGE_CLASSES) <= {*choices} else []
        return " or ".join(
            [*classes, *(_code(str(it)) for it in choices if not classes or it not in CHANGE_CLASSES)]
        ), {}
    if "anyOf" in value:
        kinds = [_value(it, schema) for it in value["anyOf"]]
        return " or ".join(kind for kind, _ in kinds), next((it for _, it in kinds if it), {})
    if value.get("type") == "array":
        kind, section = _value(value["items"], schema)
        return f"list of: {kind}", section
    if value.get("type") == "object":
        return "a section", value if "properties" in value else {}
    if isinstance(value.get("type"), list):
        return " or ".join(_value({**value, "type": it}, schema)[0] for it in value["type"]), {}
    return {"string": "text", "integer": "number", "boolean": "`true` or `false`"}[value["type"]], {}


def errors_section() -> str:
    """Return each error, by exit code: its code and its cause; its message says what to do."""
    errors = sorted(all_errors(), key=lambda it: it.__name__)
    parts = []
    for exit_code in sorted({it.exit_code for it in errors}):
        parts.append(f"## Exit code {exit_code}")
        parts.append("\n".join(_error(it) for it in errors if it.exit_code == exit_code))
    return "\n\n".join(parts)


def _error(error: type[Error]) -> str:
    return f"- `{error.__new__(error).code}`: {_prose(inspect.getdoc(error) or '')}"


def all_errors() -> set[type[Error]]:
    """Return every error that a run can end with: the families, and the cause classes of all modules."""
    for module in pkgutil.walk_packages(ci_automation.__path__, "ci_automation."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = set(_below(Error))
    return {it for it in found if not it.__name__.startswith("_")}


def _below(cls: type[Error]) -> Iterator[type[Error]]:
    for each in cls.__subclasses__():
        yield each
        yield from _below(each)


def _prose(text: str) -> str:
    return " ".join(text.split())


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


SECTIONS = {
    REFERENCE / "inputs.md": inputs_section,
    REFERENCE / "commands.md": commands_section,
    REFERENCE / "configuration.md": keys_section,
    REFERENCE / "errors.md": errors_section,
}


def made_anew() -> dict[Path, str]:
    """Return each file with what is made from the code, as it should be."""
    pages = {path: _between(path, "<!-- {} -->", f"\n{section()}\n") for path, section in SECTIONS.items()}
    return {
        **pages,
        ACTION: _between(ACTION, "# {}", action_section()),
        SCHEMA: json.dumps(config_schema(), indent=2) + "\n",
    }


def _between(path: Path, mark: str, section: str) -> str:
    begin, end = mark.format(_BEGIN), mark.format(_END)
    before, _, rest = path.read_text().partition(begin)
    _, _, after = rest.partition(end)
    assert rest, path
    assert after, path
    return f"{before}{begin}\n{section}\n{end}{after}"


if __name__ == "__main__":
    for path, text in made_anew().items():
        path.write_text(text)
