"""The operations on git objects, refs, files and the repository itself."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from tests.fakes.forge import shown
from tests.fakes.forge.objects import Leaf, Signature
from tests.fakes.forge.releases import tag_ref
from tests.fakes.forge.routes import REPO, Answer, Call, page, route
from tests.fakes.forge.state import Refused

if TYPE_CHECKING:
    from tests.fakes.forge.repository import Repository
    from tests.fakes.forge.routes import Json

_MISSING = Refused(404, "Not Found", kind="NOT_FOUND")


@route("GET", REPO)
def get_repository(call: Call) -> Answer:
    return Answer(200, shown.full_repository(call.repo))


@route("GET", f"{REPO}/branches/{{branch}}", "contents=read")
def get_branch(call: Call) -> Answer:
    repo, name = call.repo, call.path["branch"]
    if name not in repo.branches:
        raise Refused(404, "Branch not found")
    commit = repo.objects.commits[repo.branches[name]]
    is_protected = name in repo.protections
    return Answer(200, {"name": name, "commit": shown.commit_of(repo, commit), "protected": is_protected})


@route("GET", f"{REPO}/rules/branches/{{branch}}", "metadata=read")
def list_rules(_: Call) -> Answer:
    return Answer(200, [])  # this double has classic protection alone


@route("GET", f"{REPO}/git/ref/{{ref}}", "contents=read")
def get_ref(call: Call) -> Answer:
    if f"{call.path['owner']}/{call.path['repo']}" == call.forge.releases_repository:
        return tag_ref(call)
    kind, _, name = call.path["ref"].partition("/")
    found = (call.repo.branches if kind == "heads" else call.repo.tags).get(name)
    if found is None:
        raise _MISSING
    return Answer(200, shown.ref(call.repo, kind, name, found))


@route("POST", f"{REPO}/git/refs", "contents=write")
def create_ref(call: Call) -> Answer:
    repo, sha = call.repo, call.given["sha"]
    kind, name = _named(call.given["ref"])
    if sha not in repo.objects.commits:
        raise Refused(422, "Object does not exist")
    if name in (repo.branches if kind == "heads" else repo.tags):
        raise Refused(422, "Reference already exists")
    if kind == "tags":
        repo.tags[name] = sha
    else:
        repo.move(name, sha, call.login)
    return Answer(201, shown.ref(repo, kind, name, sha))


def _named(ref: str) -> tuple[str, str]:
    start, _, rest = ref.partition("/")
    kind, _, name = rest.partition("/")
    if start != "refs" or kind not in {"heads", "tags"} or not name:
        raise Refused(422, "Reference name must start with 'refs/'")
    return kind, name


@route("PATCH", f"{REPO}/git/refs/{{ref}}", "contents=write")
def update_ref(call: Call) -> Answer:
    repo, sha = call.repo, call.given["sha"]
    kind, _, name = call.path["ref"].partition("/")
    if kind != "heads" or name not in repo.branches:
        raise Refused(422, "Reference does not exist")
    if sha not in repo.objects.commits:
        raise Refused(422, "Object does not exist")
    repo.move(name, sha, call.login, force=call.given.get("force", False))
    return Answer(200, shown.ref(repo, kind, name, sha))


@route("DELETE", f"{REPO}/git/refs/{{ref}}", "contents=write")
def delete_ref(call: Call) -> Answer:
    kind, _, name = call.path["ref"].partition("/")
    if kind == "tags" and call.repo.tags.pop(name, None) is not None:
        return Answer(204)
    call.repo.delete_branch(name if kind == "heads" else "", call.login)
    return Answer(204)


@route("GET", f"{REPO}/git/blobs/{{file_sha}}", "contents=read")
def get_blob(call: Call) -> Answer:
    if call.path["file_sha"] not in call.repo.objects.blobs:
        raise _MISSING
    return Answer(200, shown.blob(call.repo, call.path["file_sha"]))


@route("POST", f"{REPO}/git/blobs", "contents=write")
def create_blob(call: Call) -> Answer:
    content = call.given["content"]
    is_plain = call.given.get("encoding", "utf-8") == "utf-8"
    try:
        sha = call.repo.objects.blob(content.encode() if is_plain else base64.b64decode(content))
    except (binascii.Error, ValueError):
        raise Refused(422, "content is not valid Base64") from None
    return Answer(201, {"sha": sha, "url": f"{call.forge.url}/repos/{call.repo.full_name}/git/blobs/{sha}"})


@route("GET", f"{REPO}/git/trees/{{tree_sha}}", "contents=read")
def get_tree(call: Call) -> Answer:
    repo, name = call.repo, call.path["tree_sha"]
    commit = repo.resolve(name)
    sha = repo.objects.commits[commit].tree if commit else name
    if sha not in repo.objects.trees:
        raise _MISSING
    lines = _lines(repo, sha, "", recursive=bool(call.query.get("recursive")))
    limit = call.forge.largest_tree
    return Answer(200, _tree(repo, sha) | {"tree": lines[:limit], "truncated": len(lines) > limit})


def _tree(repo: Repository, sha: str) -> Json:
    return {"sha": sha, "url": f"{repo.forge.url}/repos/{repo.full_name}/git/trees/{sha}"}


def _lines(repo: Repository, sha: str, prefix: str, *, recursive: bool) -> list[Json]:
    lines: list[Json] = []
    base = f"{repo.forge.url}/repos/{repo.full_name}/git"
    for entry in repo.objects.trees[sha]:
        kind = shown.FILE_TYPES.get(entry.mode, "blob")
        mode = entry.mode.rjust(6, "0")
        line = {"path": prefix + entry.name, "mode": mode, "type": kind, "sha": entry.sha}
        size = {"size": len(repo.objects.blobs[entry.sha])} if kind == "blob" else {}
        lines.append({**line, **size, "url": f"{base}/{kind}s/{entry.sha}"})
        if recursive and kind == "tree":
            lines += _lines(repo, entry.sha, f"{prefix}{entry.name}/", recursive=True)
    return lines


@route("POST", f"{REPO}/git/trees", "contents=write")
def create_tree(call: Call) -> Answer:
    repo, base = call.repo, call.given.get("base_tree")
    if base in repo.objects.commits:
        base = repo.objects.commits[base].tree
    if base and base not in repo.objects.trees:
        raise Refused(404, "base_tree is not a valid tree oid")
    files = repo.objects.files(base) if base else {}
    for entry in call.given["tree"]:
        if "content" in entry:
            sha = repo.objects.blob(entry["content"].encode())
        elif (sha := entry.get("sha")) is None:
            if entry["path"] not in files:
                raise Refused(422, "GitRPC::BadObjectState")
            del files[entry["path"]]
            continue
        if sha not in repo.objects.blobs:
            raise Refused(422, "tree.sha is not a valid blob")
        files[entry["path"]] = Leaf(entry.get("mode", "100644"), sha)
    sha = repo.objects.tree(files)
    return Answer(201, _tree(repo, sha) | {"tree": _lines(repo, sha, "", recursive=False), "truncated": False})


@route("GET", f"{REPO}/git/commits/{{commit_sha}}", "contents=read")
def get_commit(call: Call) -> Answer:
    found = call.repo.objects.commits.get(call.path["commit_sha"])
    if found is None:
        raise _MISSING
    return Answer(200, shown.git_commit(call.repo, found))


@route("POST", f"{REPO}/git/commits", "contents=write")
def create_commit(call: Call) -> Answer:
    repo, given = call.repo, call.given
    parents = given.get("parents", [])
    if given["tree"] not in repo.objects.trees:
        raise Refused(422, "Tree SHA does not exist")
    if any(parent not in repo.objects.commits for parent in parents):
        raise Refused(422, "Parent SHA does not exist or is not a commit object")
    by = repo.signature(call.login)
    author = Signature(given["author"]["name"], given["author"]["email"], by.at) if "author" in given else by
    is_bot = call.login.endswith("[bot]") and "author" not in given  # then GitHub signs it
    sha = repo.objects.commit(
        given["tree"], parents, author, repo.web_flow if is_bot else by, given["message"], signed=is_bot
    )
    return Answer(201, shown.git_commit(repo, repo.objects.commits[sha]))


@route("GET", f"{REPO}/compare/{{basehead}}", "contents=read")
def compare(call: Call) -> Answer:
    repo = call.repo
    base, _, head = call.path["basehead"].partition("...")
    one, other = repo.resolve(base), repo.resolve(head)
    start = repo.objects.merge_base(one, other) if one and other else None
    if not one or not other or not start:
        raise _MISSING
    ahead, behind = repo.objects.since(one, other), repo.objects.since(other, one)
    status = "diverged" if ahead and behind else "ahead" if ahead else "behind" if behind else "identical"
    commits = [shown.commit_of(repo, commit) for commit in reversed(ahead)]
    return Answer(
        200,
        {
            "status": status,
            "ahead_by": len(ahead),
            "behind_by": len(behind),
            "total_commits": len(ahead),
            "base_commit": shown.commit_of(repo, repo.objects.commits[one]),
            "merge_base_commit": shown.commit_of(repo, repo.objects.commits[start]),
            "commits": commits,
            "files": shown.changed_files(repo, start, other)[:300],
        },
    )


@route("GET", f"{REPO}/commits/{{ref}}/status", "statuses=read")
def combined_status(call: Call) -> Answer:
    repo = call.repo
    sha = repo.resolve(call.path["ref"])
    if sha is None:
        raise _MISSING
    said = [shown.status(repo, sha, context, state) for context, state in repo.statuses.get(sha, {}).items()]
    listed = page(call, said)
    states = {each["state"] for each in said}
    state = next((one for one in ("error", "failure", "pending") if one in states), "success" if states else "pending")
    base = f"{repo.forge.url}/repos/{repo.full_name}/commits/{sha}"
    combined = {"state": state, "sha": sha, "total_count": len(said), "statuses": listed.body}
    more = {"repository": shown.repository(repo), "commit_url": base, "url": f"{base}/status"}
    return Answer(200, combined | more, listed.headers)
