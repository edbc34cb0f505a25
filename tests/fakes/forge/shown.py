"""Values as the REST API shows them; what is not said here is filled in from GitHub's description."""

from __future__ import annotations

import base64
import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.fakes.forge.state import Pull

if TYPE_CHECKING:
    from tests.fakes.forge.forge import Forge
    from tests.fakes.forge.objects import Commit, Signature
    from tests.fakes.forge.repository import Repository
    from tests.fakes.forge.state import Comment, Issue

Json = dict[str, Any]
FILE_TYPES = {"40000": "tree", "160000": "commit"}


def when(at: dt.datetime | None) -> str | None:
    """Return a moment as GitHub writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at else None


def user(forge: Forge, login: str | None) -> Json | None:
    """Return an account in short."""
    if login is None:
        return None
    found = forge.user(login)
    return {
        "login": login,
        "id": found.id,
        "node_id": found.node_id,
        "type": "Bot" if found.is_bot else "User",
        "url": f"{forge.url}/users/{login}",
        "html_url": f"{forge.host}/{login}",
        "site_admin": False,
    }


def repository(repo: Repository) -> Json:
    """Return a repository."""
    return {
        "id": repo.id,
        "node_id": f"R_{repo.id}",
        "name": repo.name,
        "full_name": repo.full_name,
        "owner": user(repo.forge, repo.owner),
        "private": repo.private,
        "fork": repo.parent is not None,
        "archived": repo.archived,
        "html_url": f"{repo.forge.host}/{repo.full_name}",
        "url": f"{repo.forge.url}/repos/{repo.full_name}",
    }


def full_repository(repo: Repository) -> Json:
    """Return a repository with its settings."""
    return repository(repo) | {
        "default_branch": repo.default_branch,
        "allow_auto_merge": repo.allow_auto_merge,
        "delete_branch_on_merge": repo.delete_branch_on_merge,
    }


def status(repo: Repository, sha: str, context: str, state: str) -> Json:
    """Return what is said of a commit under one context."""
    number = sum(context.encode())
    return {
        "id": number,
        "node_id": f"SC_{number}",
        "url": f"{repo.forge.url}/repos/{repo.full_name}/statuses/{sha}",
        "state": state,
        "context": context,
        "description": None,
        "target_url": None,
        "avatar_url": None,
        "created_at": when(repo.now()),
        "updated_at": when(repo.now()),
    }


def _signature(signature: Signature) -> Json:
    at = dt.datetime.fromtimestamp(signature.at, dt.UTC)
    return {"name": signature.name, "email": signature.email, "date": when(at)}


def git_commit(repo: Repository, commit: Commit) -> Json:
    """Return a commit as git has it."""
    base = f"{repo.forge.url}/repos/{repo.full_name}/git"
    page = f"{repo.forge.host}/{repo.full_name}/commit"
    return {
        "sha": commit.sha,
        "node_id": f"C_{commit.sha}",
        "url": f"{base}/commits/{commit.sha}",
        "html_url": f"{page}/{commit.sha}",
        "author": _signature(commit.author),
        "committer": _signature(commit.committer),
        "tree": {"sha": commit.tree, "url": f"{base}/trees/{commit.tree}"},
        "message": commit.message,
        "parents": [{"sha": p, "url": f"{base}/commits/{p}", "html_url": f"{page}/{p}"} for p in commit.parents],
        "verification": _verification(commit),
    }


def _verification(commit: Commit) -> Json:
    reason = "valid" if commit.signed else "unsigned"
    return {"verified": commit.signed, "reason": reason, "signature": None, "payload": None, "verified_at": None}


def commit_of(repo: Repository, commit: Commit) -> Json:
    """Return a commit with the accounts behind it."""
    shown = git_commit(repo, commit)
    inner = {key: shown[key] for key in ("author", "committer", "tree", "message", "verification", "url")}
    author, committer = (user(repo.forge, who.login) for who in (commit.author, commit.committer))
    return {
        **{key: shown[key] for key in ("sha", "node_id", "html_url", "parents")},
        "url": f"{repo.forge.url}/repos/{repo.full_name}/commits/{commit.sha}",
        "commit": {**inner, "comment_count": 0},
        "author": author,
        "committer": committer,
    }


def blob(repo: Repository, sha: str) -> Json:
    """Return the bytes of a file, in lines of base64 as GitHub writes them."""
    content = repo.objects.blobs[sha]
    place = f"{repo.forge.url}/repos/{repo.full_name}/git/blobs/{sha}"
    text = base64.encodebytes(content).decode()
    return {
        "sha": sha,
        "node_id": f"B_{sha}",
        "size": len(content),
        "url": place,
        "content": text,
        "encoding": "base64",
    }


def ref(repo: Repository, kind: str, name: str, sha: str) -> Json:
    """Return a branch or tag as a ref."""
    base = f"{repo.forge.url}/repos/{repo.full_name}/git"
    target = {"type": "commit", "sha": sha, "url": f"{base}/commits/{sha}"}
    return {
        "ref": f"refs/{kind}/{name}",
        "node_id": f"REF_{name}",
        "url": f"{base}/refs/{kind}/{name}",
        "object": target,
    }


def label(repo: Repository, name: str) -> Json:
    """Return a label, which is there as soon as it is used."""
    place = f"{repo.forge.url}/repos/{repo.full_name}/labels/{name}"
    number = sum(name.encode())
    plain = {"id": number, "node_id": f"LA_{name}", "url": place.replace(" ", "%20"), "name": name}
    return {**plain, "color": "ededed", "default": False, "description": ""}


def _common(repo: Repository, issue: Issue) -> Json:
    return {
        "id": issue.id,
        "node_id": node_id(issue),
        "number": issue.number,
        "title": issue.title,
        "body": issue.body,
        "state": "open" if issue.state == "OPEN" else "closed",
        "locked": False,
        "user": user(repo.forge, issue.author),
        "labels": [label(repo, name) for name in issue.labels],
        "assignees": [user(repo.forge, login) for login in issue.assignees],
        "assignee": user(repo.forge, issue.assignees[0]) if issue.assignees else None,
        "created_at": when(issue.created),
        "updated_at": when(issue.updated),
        "closed_at": when(issue.closed),
    }


def node_id(issue: Issue) -> str:
    """Return the name of an issue or pull request in GraphQL."""
    return f"{'PR' if isinstance(issue, Pull) else 'I'}_{issue.id}"


def web(repo: Repository, issue: Issue) -> str:
    """Return the page of an issue or pull request."""
    kind = "pull" if isinstance(issue, Pull) else "issues"
    return f"{repo.forge.host}/{repo.full_name}/{kind}/{issue.number}"


def issue_of(repo: Repository, issue: Issue) -> Json:
    """Return an issue; a pull request is one too."""
    base = f"{repo.forge.url}/repos/{repo.full_name}"
    shown = _common(repo, issue) | {
        "html_url": web(repo, issue),
        "url": f"{base}/issues/{issue.number}",
        "repository_url": base,
        "comments": len(issue.comments),
        "state_reason": issue.state_reason,
    }
    if isinstance(issue, Pull):
        place = f"{base}/pulls/{issue.number}"
        shown["pull_request"] = {"url": place, "html_url": web(repo, issue), "diff_url": place, "patch_url": place}
    return shown


def pull_of(repo: Repository, pull: Pull) -> Json:
    """Return a pull request as a list shows it."""
    source = repo.forge.repositories[pull.source]
    return _common(repo, pull) | {
        "url": f"{repo.forge.url}/repos/{repo.full_name}/pulls/{pull.number}",
        "html_url": web(repo, pull),
        "draft": pull.draft,
        "merged_at": when(pull.merged_at),
        "merge_commit_sha": pull.merge_commit,
        "head": _side(source, pull.branch, pull.head),
        "base": _side(repo, pull.base, pull.base_sha),
        "requested_reviewers": [user(repo.forge, login) for login in pull.asked],
        "requested_teams": [team_of(repo, slug) for slug in pull.asked_teams],
        "auto_merge": _auto_merge(repo, pull),
        "author_association": "COLLABORATOR",
    }


def _auto_merge(repo: Repository, pull: Pull) -> Json | None:
    found = pull.auto_merge
    if found is None:
        return None
    by = user(repo.forge, found.by)
    return {"enabled_by": by, "merge_method": found.how, "commit_title": pull.title, "commit_message": ""}


def _side(repo: Repository, branch: str, sha: str) -> Json:
    label_ = f"{repo.owner}:{branch}"
    return {"label": label_, "ref": branch, "sha": sha, "user": user(repo.forge, repo.owner), "repo": repository(repo)}


def team_of(repo: Repository, slug: str) -> Json:
    """Return a team of the repository's owner."""
    team = repo.forge.teams[f"{repo.owner}/{slug}"]
    return {
        "id": team.id,
        "node_id": team.node_id,
        "name": slug,
        "slug": slug,
        "description": None,
        "permission": "push",
    }


def full_pull(repo: Repository, pull: Pull) -> Json:
    """Return a pull request with whether it can be merged."""
    status = repo.obstacle(pull)[0].lower() if pull.state == "OPEN" else "unknown"
    ahead = repo.objects.since(pull.base_sha, pull.head)
    return pull_of(repo, pull) | {
        "merged": pull.merged,
        "merged_by": user(repo.forge, pull.merged_by),
        "mergeable": status != "dirty" if pull.state == "OPEN" else None,
        "mergeable_state": status,
        "comments": len(pull.comments),
        "commits": len(ahead),
        "changed_files": len(repo.changed_by(pull)),
        "maintainer_can_modify": pull.maintainer_can_modify,
    }


def comment_of(repo: Repository, issue: Issue, comment: Comment) -> Json:
    """Return a comment."""
    base = f"{repo.forge.url}/repos/{repo.full_name}/issues"
    return {
        "id": comment.id,
        "node_id": f"IC_{comment.id}",
        "url": f"{base}/comments/{comment.id}",
        "html_url": f"{web(repo, issue)}#issuecomment-{comment.id}",
        "issue_url": f"{base}/{issue.number}",
        "body": comment.body,
        "user": user(repo.forge, comment.author),
        "created_at": when(comment.created),
        "updated_at": when(comment.updated),
        "author_association": "COLLABORATOR",
    }


def changed_files(repo: Repository, base: str, head: str) -> list[Json]:
    """Return the files that differ between two commits; as Git does, a file that is alike at another path has moved."""
    changed = repo.objects.difference(*(repo.objects.commits[sha].tree for sha in (base, head)))
    gone = {path: before for path, (before, after) in changed.items() if before and not after}
    moved: dict[str, str] = {}
    for path, (before, after) in changed.items():
        alike = (old for old, leaf in gone.items() if after and not before and _alike(repo, leaf.sha, after.sha))
        if (old := next(alike, None)) is not None:
            moved[path] = old
            del gone[old]
    files: list[Json] = []
    for path, (before, after) in changed.items():
        leaf = after or before
        status = "added" if before is None else "removed" if after is None else "modified"
        found = {"filename": path, "status": status, "sha": leaf.sha if leaf else None}
        if path in moved:
            files.append({**found, "status": "renamed", "previous_filename": moved[path]})
        elif path not in moved.values():
            files.append(found)
    return files


def _alike(repo: Repository, old: str, new: str) -> bool:
    """Return whether two files have half of their lines in common."""
    one, other = (Counter(repo.objects.blobs[sha].splitlines()) for sha in (old, new))
    return 2 * (one & other).total() >= max(one.total(), other.total(), 1)
