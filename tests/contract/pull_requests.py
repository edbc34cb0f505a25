"""A repository whose pull requests ask, and what it holds."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ci_automation.approval.lock import LOCK_FILE, Lock, LockEntry
from ci_automation.approval.port import ApprovalRequest, NotCounted, RequestKind
from ci_automation.approval.pull_request import AskedArtifact, PullRequestApprovals
from ci_automation.artifact.reference import Digest
from ci_automation.config.model import ApprovalConfig
from ci_automation.github.commits import Commits
from ci_automation.github.pulls import Pulls
from ci_automation.github.repository import Repository
from tests.contract.approval_doubles import CHANNEL, client, question
from tests.fakes.forge import Forge, Pull

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.approval.port import GrantedApproval, Question
    from ci_automation.artifact.reference import Reference
    from tests.fakes.forge import Repository as Fleet
FLEET = "acme/fleet"
BRANCH = "flux-manifests/production"
BASE = Digest.of(b"base")
PERMISSIONS = {"contents": "write", "pull_requests": "write"}
PLAIN = ApprovalConfig()
FULL = ApprovalConfig(
    approvals=1, reviewers=("bob",), team_reviewers=("platform",), labels=("flux", "update"), assignees=("alice",),
    auto_merge=True,
)  # fmt: skip
NEWER = question("v2.9.5")


def world(forge: Forge | None = None) -> Forge:
    """Return a GitHub with a repository of two writers, one reader and a team."""
    forge = forge or Forge()
    fleet = forge.repository(FLEET)
    for person, level in {"alice": "write", "bob": "admin", "eve": "read"}.items():
        forge.user(person)
        fleet.collaborators[person] = level
    forge.team("acme/platform", ["bob"])
    fleet.team_permissions["acme/platform"] = "write"
    fleet.allow_auto_merge = True
    return forge


def desk(
    forge: Forge,
    settings: ApprovalConfig = PLAIN,
    *,
    channel: Reference = CHANNEL,
    name: str = "production",
    kind: RequestKind = RequestKind.VERSION,
    token: Mapping[str, str] = MappingProxyType({}),
    group: Mapping[str, Any] = MappingProxyType({}),
) -> PullRequestApprovals:
    """Return the desk of a run that begins now."""
    github = client(forge, {**PERMISSIONS, "members": "read"}, FLEET, **token)
    asked = AskedArtifact(name, channel, settings, kind, **group)
    return PullRequestApprovals(Repository(github, FLEET), Commits(github, FLEET), Pulls(github, FLEET), asked)


def entry(asked: Question = NEWER, ask: int = 1) -> LockEntry:
    return LockEntry(ApprovalRequest.of(asked.plan, asked.step), ask)


def lock(fleet: Fleet, ref: str = "HEAD") -> Lock:
    text = fleet.read(LOCK_FILE, ref)
    return Lock.parse(None if text is None else text.decode())


def the_pull(fleet: Fleet) -> Pull:
    (pull,) = fleet.pulls
    return pull


def why_not(found: GrantedApproval | NotCounted | None) -> str:
    """Return why what was found is no approval."""
    assert isinstance(found, NotCounted)
    return found.reason
