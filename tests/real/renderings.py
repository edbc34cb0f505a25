"""What people see in a pull request and in the summary of a run, of real releases, as the documents show it.

python -m tests.real.renderings        # writes them into the documents anew
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_automation.artifact.reference import Reference
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.flows.init import init
from ci_automation.flows.ports import Intent, Ports
from ci_automation.flows.update import update
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.version import Version
from ci_automation.report.account import Account, Standing, summary
from ci_automation.report.request import Page
from ci_automation.signing.signer import KeySigner
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.world import NOW, signing_key
from tests.real import program
from tests.real.peers import ROOT, flux_releases

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.flows.planning.plan import Outcome

CHANNEL = Reference.parse("oci://ghcr.io/acme/flux-manifests:production")
PULL = "https://github.com/acme/fleet/pull/7"
DOCUMENTS = ("README.md", "docs/reference/example.md", "docs/reference/gates.md", "docs/guides/rollback.md")
# What the documents on gates and rollbacks show: how each differs from the one before, as `diff` says it.
_IMAGES = ("--components-extra", "image-reflector-controller,image-automation-controller")
DIFFERENCES = {
    "only images": ("v2.8.7", "v2.8.8"),
    "rights": ("v2.7.3", "v2.7.4", "--components-extra", "source-watcher"),
    "back from a minor": ("v2.9.4", "v2.8.8"),
    "network and validation": ("v2.9.3", "v2.9.4", *_IMAGES),
}
_PLACE = re.compile(r"<!-- rendering: (?P<name>[a-z, ]+) -->\n.*?<!-- end of rendering -->\n", re.DOTALL)
_LIMIT = 1 << 20


def renderings(releases: Path) -> dict[str, str]:
    """Return the Markdown of each, by its name."""
    signer = KeySigner(signing_key())
    ports = Ports(InMemoryRegistry(), DirectorySource(releases), signer, signer.trusted)
    overlay = Tree((TreeFile("kustomization.yaml", b"resources: [flux-system/gotk-components.yaml]\n"),))
    init(CHANNEL, Version.parse("v2.8.5"), ports, Intent(now=NOW, overlay=overlay))
    asked = update(CHANNEL, ports, Intent(now=NOW))
    (step,) = asked.waiting
    page = Page("production", CHANNEL, step)
    shown = f"**{page.title}**\n\n{re.sub('<!--.*?-->', '', page.body).strip()}"
    told = summary((_account(asked),), None, _LIMIT).strip()
    return {
        "pull request": shown,
        "pull request, its beginning": _before(shown, "### Why this needs approval\n"),
        "summary": _before(told, "**v2.8.8 to v2.9.4 (minor"),
        **{name: _difference(releases, arguments) for name, arguments in DIFFERENCES.items()},
    }


def _before(text: str, end: str) -> str:
    return text[: text.index(f"\n{end}")].strip()


def _difference(releases: Path, arguments: tuple[str, ...]) -> str:
    """Return a command and what it prints, as a block of code, without the command with -v, which names the folder."""
    ran = program.flux_manifests("diff", *arguments, "--releases", releases).output.partition("To read all of it:")[0]
    return "\n".join(("```", f"$ flux-manifests diff {' '.join(arguments)}", ran.strip(), "```"))


def _account(outcome: Outcome) -> Account:
    plan = outcome.plan
    return Account(
        "production",
        CHANNEL,
        before=Standing(plan.current_version, plan.current),
        published=plan.steps[: outcome.done],
        waiting=outcome.waiting,
        plan=plan,
        approval_urls={step.target: PULL for step in outcome.waiting},
        signed=True,
    )


def document(name: str, made: dict[str, str]) -> str:
    """Return a document with its renderings made anew."""

    def place(match: re.Match[str]) -> str:
        quote = "" if made[match["name"]].startswith("```") else "> "
        quoted = "\n".join(f"{quote}{line}".rstrip() for line in made[match["name"]].splitlines())
        return f"<!-- rendering: {match['name']} -->\n{quoted}\n<!-- end of rendering -->\n"

    return _PLACE.sub(place, (ROOT / name).read_text())


if __name__ == "__main__":
    for each in DOCUMENTS:
        (ROOT / each).write_text(document(each, renderings(flux_releases())))
