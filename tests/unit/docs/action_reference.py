"""What `action.yml` and docs/reference/inputs.md say of inputs and outputs, made from the one list in the code.

python -m tests.unit.docs.action_reference        # writes both anew
"""

from __future__ import annotations

import json
from pathlib import Path

from ci_automation.action.outputs import OUTPUTS
from ci_automation.cli.options import INPUTS, Kind, Option
from ci_automation.report.markdown import markdown_table

ROOT = Path(__file__).parents[3]
ACTION, REFERENCE = ROOT / "action.yml", ROOT / "docs/reference/inputs.md"
_BEGIN, _END = "inputs and outputs: made from ci_automation/cli/options.py", "end of inputs and outputs"


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


def reference_section() -> str:
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


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def made_anew(text: str, section: str, begin: str, end: str) -> str:
    """Return `text` with the section between its two marks made anew."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    assert rest
    assert after
    return f"{before}{begin}\n{section}\n{end}{after}"


def action_file() -> str:
    """Return `action.yml` as it should be."""
    return made_anew(ACTION.read_text(), action_section(), f"# {_BEGIN}", f"# {_END}")


def reference_file() -> str:
    """Return docs/reference/inputs.md as it should be."""
    return made_anew(REFERENCE.read_text(), f"\n{reference_section()}\n", f"<!-- {_BEGIN} -->", f"<!-- {_END} -->")


if __name__ == "__main__":
    ACTION.write_text(action_file())
    REFERENCE.write_text(reference_file())
