"""The questions of `setup`, and what the clone and its configuration answer."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from ci_automation.cli.channels import USUAL_WAIT
from ci_automation.cli.clone import NotGitHub, checkout_of_action, default_branch, other_host, place_of_clone
from ci_automation.cli.output import print_aside
from ci_automation.config.model import ApprovalVia, SigningMode
from ci_automation.errors import UsageError
from ci_automation.flows.setup import actions_of, require_action

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ci_automation.config.model import ArtifactConfig
    from ci_automation.config.workflows import GitHubPlace

_EXPLAINED = """\
Workflows take the action from a repository of your organisation that has this project with its whole history.
  If there is one, take its OWNER/NAME from its address: https://github.com/acme/ci-automation is acme/ci-automation.
  If not, name the one that you will make, such as acme/ci-automation: the list that setup writes begins with it."""


class Unanswered(UsageError):
    """`setup` has a question, and no terminal to ask at."""

    hint = "Give it as an option, or run `setup` in a terminal, in a clone of the fleet repository."

    def __init__(self, option: str) -> None:
        super().__init__(f"--{option} is missing")


class Questions(Struct, frozen=True):
    """Asks a person what no option answers; takes the default without a terminal."""

    told: Mapping[str, str | None]
    yes: bool

    def answer(self, option: str, question: str, default: str | None = None) -> str:
        """Return the answer.

        Raises:
            Unanswered: there is no terminal, and no default.
        """
        if (told := self.told[option]) is not None:
            return told
        if sys.stdin.isatty() and not self.yes:
            while not (
                answer := str(click.prompt(question, default or "", show_default=bool(default), err=True)).strip()
            ):
                print_aside(_EXPLAINED)  # all other questions have a default
            return answer
        if default is None:
            raise Unanswered(option)
        return default


def answered_action(ask: Questions, signing: Iterable[str | None], shipped: str, server: str) -> str:
    """Return the action's repository, with the commit of the workflows that sign if it is not the one `shipped`.

    Raises:
        Unanswered: the workflows have several, or there is no default, and no terminal.
        UnfitAnswer: the answer is not the address of an action.
    """
    pinned = {it.removesuffix(f"@{shipped}") for workflow in signing for it in actions_of(workflow or "")}
    default = None if len(pinned) > 1 else next(iter(pinned), None) or checkout_of_action(server)
    action = ask.answer("action", "Which repository has this action, as OWNER/ci-automation?", default)
    require_action(action)
    kept = [it for it in pinned if it.startswith(f"{action}@")]
    return kept[0] if len(kept) == 1 else action


def usual_answers(known: ArtifactConfig | None) -> tuple[str, str]:
    """Return how runs sign and ask, as configured for a channel."""
    keyed = known is not None and known.signing.mode in {SigningMode.KEY, SigningMode.KMS}
    asked = known.approval.via if known else None
    return "key" if keyed else "keyless", str(asked or ApprovalVia.PULL_REQUEST)


def answered_place(ask: Questions, top: Path) -> GitHubPlace:
    """Return the repository on GitHub with its default branch, and say what says so.

    Raises:
        NotGitHub, Unanswered: it is not known.
    """
    if (place := place_of_clone(top, ask.told["repository"], ask.told["branch"])) is None:
        raise NotGitHub(host) if (host := other_host(top)) else Unanswered("repository")
    if not ask.told["branch"]:
        why = f"{default_branch(top)[1]}. If that is another, give --branch NAME."
        print_aside(f"Workflows run and sign on the branch {place.branch}: {why}")
    return place


def command_again(channels: str, said: Mapping[str, str | None]) -> str:
    """Return the command for these channels, with the options that are not as without them."""
    usual = {"signing": "keyless", "approval": "pull-request", "after": USUAL_WAIT}
    options = (word for name, it in said.items() if it and it != usual.get(name) for word in (f"--{name}", it))
    return shlex.join(("flux-manifests", "setup", *channels.split(), *options))
