"""Makes the extracts of GitHub's own descriptions that the double of GitHub is held to.

``python tests/real/make_openapi.py NODE_MODULES`` writes ``tests/assets/github-openapi.json.gz`` (REST: github.com and
the oldest Enterprise Server that is described) and ``tests/assets/github-schema.graphql``. Both come from npm packages
under the MIT licence, ``@octokit/openapi`` and ``@octokit/graphql-schema``; the licence's text goes into the extracts.
Words for people (descriptions, examples) are left out, and every operation and field that the double does not have.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphql import (
    DocumentNode,
    EnumTypeDefinitionNode,
    FieldDefinitionNode,
    InputObjectTypeDefinitionNode,
    InterfaceTypeDefinitionNode,
    NamedTypeNode,
    Node,
    ObjectTypeDefinitionNode,
    ScalarTypeDefinitionNode,
    parse,
    print_ast,
    visit,
)
from graphql.language import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterable

ASSETS = Path(__file__).resolve().parents[1] / "assets"
OPENAPI = ASSETS / "github-openapi.json.gz"
SCHEMA = ASSETS / "github-schema.graphql"
FOR_PEOPLE = frozenset(
    {"description", "example", "examples", "summary", "externalDocs", "tags", "title", "deprecated", "operationId"}
)
REPO = "/repos/{owner}/{repo}"
OPERATIONS = (
    "GET /advisories",
    "GET /app",
    "POST /app/installations/{installation_id}/access_tokens",
    "GET /orgs/{org}/teams/{team_slug}",
    "GET /orgs/{org}/teams/{team_slug}/memberships/{username}",
    f"GET {REPO}",
    f"GET {REPO}/activity",
    f"GET {REPO}/actions/permissions/workflow",
    f"GET {REPO}/actions/runs",
    f"GET {REPO}/actions/runs/{{run_id}}",
    f"GET {REPO}/actions/runs/{{run_id}}/approvals",
    f"POST {REPO}/actions/runs/{{run_id}}/cancel",
    f"GET {REPO}/actions/workflows/{{workflow_id}}",
    f"POST {REPO}/actions/workflows/{{workflow_id}}/dispatches",
    f"PUT {REPO}/actions/workflows/{{workflow_id}}/enable",
    f"GET {REPO}/actions/workflows/{{workflow_id}}/runs",
    f"GET {REPO}/branches/{{branch}}",
    f"GET {REPO}/collaborators/{{username}}/permission",
    f"GET {REPO}/commits/{{ref}}/status",
    f"GET {REPO}/compare/{{basehead}}",
    f"POST {REPO}/dispatches",
    f"GET {REPO}/environments/{{environment_name}}",
    f"POST {REPO}/git/blobs",
    f"GET {REPO}/git/blobs/{{file_sha}}",
    f"POST {REPO}/git/commits",
    f"GET {REPO}/git/commits/{{commit_sha}}",
    f"GET {REPO}/git/ref/{{ref}}",
    f"POST {REPO}/git/refs",
    f"PATCH {REPO}/git/refs/{{ref}}",
    f"DELETE {REPO}/git/refs/{{ref}}",
    f"GET {REPO}/git/tags/{{tag_sha}}",
    f"POST {REPO}/git/trees",
    f"GET {REPO}/git/trees/{{tree_sha}}",
    f"GET {REPO}/installation",
    f"GET {REPO}/issues",
    f"POST {REPO}/issues",
    f"PATCH {REPO}/issues/{{issue_number}}",
    f"GET {REPO}/issues/{{issue_number}}/comments",
    f"POST {REPO}/issues/{{issue_number}}/comments",
    f"PATCH {REPO}/issues/comments/{{comment_id}}",
    f"GET {REPO}/pulls",
    f"POST {REPO}/pulls",
    f"PATCH {REPO}/pulls/{{pull_number}}",
    f"POST {REPO}/pulls/{{pull_number}}/requested_reviewers",
    f"GET {REPO}/rules/branches/{{branch}}",
    f"GET {REPO}/releases",
    f"GET {REPO}/releases/assets/{{asset_id}}",
    f"GET {REPO}/releases/tags/{{tag}}",
)
# What the double knows of GraphQL; input types, enums and scalars come along as they are needed.
FIELDS = {
    "Query": "id node nodes rateLimit repository viewer",
    "Mutation": "createCommitOnBranch disablePullRequestAutoMerge enablePullRequestAutoMerge",
    "Node": "id",
    "Actor": "login url",
    "GitObject": "id oid repository abbreviatedOid",
    "User": "id databaseId login name url",
    "Bot": "id databaseId login url",
    "Mannequin": "id databaseId login url",
    "Organization": "id databaseId login name url",
    "GitActor": "date email name user",
    "GitSignature": "isValid wasSignedByGitHub signer state",
    "GpgSignature": "isValid wasSignedByGitHub signer state",
    "Repository": (
        "id databaseId name nameWithOwner owner url isPrivate isFork isArchived defaultBranchRef object ref refs "
        "pullRequest pullRequests issue issues autoMergeAllowed deleteBranchOnMerge viewerDefaultMergeMethod "
        "viewerPermission release releases environment"
    ),
    "RepositoryOwner": "id login url",
    "Ref": "id name prefix target repository compare associatedPullRequests branchProtectionRule",
    "RefConnection": "nodes pageInfo totalCount",
    "BranchProtectionRule": "id requiresApprovingReviews requiredApprovingReviewCount requiresCodeOwnerReviews",
    "Comparison": "id aheadBy behindBy status commits baseTarget headTarget",
    "ComparisonCommitConnection": "nodes pageInfo totalCount",
    "Commit": (
        "id oid abbreviatedOid author committer authors message messageHeadline messageBody committedDate authoredDate "
        "parents tree file history repository url signature associatedPullRequests"
    ),
    "CommitConnection": "nodes pageInfo totalCount",
    "CommitHistoryConnection": "nodes pageInfo totalCount",
    "GitActorConnection": "nodes pageInfo totalCount",
    "Tree": "id oid abbreviatedOid entries repository",
    "TreeEntry": "name path mode type oid object size",
    "Blob": "id oid abbreviatedOid byteSize isBinary isTruncated text repository",
    "PullRequest": (
        "id databaseId number url title body state isDraft merged mergedAt mergedBy mergeCommit mergeable "
        "mergeStateStatus author authorAssociation baseRefName baseRefOid baseRef headRefName headRefOid headRef "
        "headRepository headRepositoryOwner isCrossRepository lastEditedAt editor "
        "maintainerCanModify createdAt updatedAt closedAt closed "
        "labels assignees reviews latestReviews latestOpinionatedReviews reviewRequests reviewDecision "
        "autoMergeRequest comments commits timelineItems repository additions deletions changedFiles"
    ),
    "PullRequestConnection": "nodes pageInfo totalCount",
    "PullRequestCommit": "id commit",
    "PullRequestCommitConnection": "nodes pageInfo totalCount",
    "PullRequestReview": (
        "id databaseId author authorCanPushToRepository authorAssociation body commit state submittedAt url"
    ),
    "PullRequestReviewConnection": "nodes pageInfo totalCount",
    "ReviewRequest": "id requestedReviewer",
    "ReviewRequestConnection": "nodes pageInfo totalCount",
    "Team": "id databaseId name slug combinedSlug",
    "AutoMergeRequest": "enabledAt enabledBy mergeMethod",
    "AutoMergeEnabledEvent": "id actor createdAt enabler",
    "AutoMergeDisabledEvent": "id actor createdAt disabler",
    "AutoRebaseEnabledEvent": "id actor createdAt enabler",
    "AutoSquashEnabledEvent": "id actor createdAt enabler",
    "AutomaticBaseChangeSucceededEvent": "id actor createdAt newBase oldBase",
    "BaseRefChangedEvent": "id actor createdAt currentRefName previousRefName",
    "ReopenedEvent": "id actor createdAt",
    "PullRequestTimelineItemsConnection": "nodes pageInfo totalCount filteredCount",
    "Issue": "id databaseId number url title body state author labels createdAt closedAt comments",
    "IssueComment": "id databaseId author body createdAt url isMinimized",
    "IssueConnection": "nodes pageInfo totalCount",
    "IssueCommentConnection": "nodes pageInfo totalCount",
    "Label": "id name color description",
    "LabelConnection": "nodes pageInfo totalCount",
    "UserConnection": "nodes pageInfo totalCount",
    "Environment": "id databaseId name",
    "PageInfo": "endCursor hasNextPage hasPreviousPage startCursor",
    "RateLimit": "cost limit remaining resetAt used",
    "Release": "tagName publishedAt createdAt isDraft isPrerelease description releaseAssets",
    "ReleaseConnection": "nodes pageInfo totalCount",
    "ReleaseAsset": "name",
    "ReleaseAssetConnection": "nodes pageInfo totalCount",
    "CreateCommitOnBranchPayload": "clientMutationId commit ref",
    "DisablePullRequestAutoMergePayload": "actor clientMutationId pullRequest",
    "EnablePullRequestAutoMergePayload": "actor clientMutationId pullRequest",
}
_TAKEN_ALONG = (EnumTypeDefinitionNode, InputObjectTypeDefinitionNode, ScalarTypeDefinitionNode)
# The members of unions; GitHub has more of some.
UNIONS = {
    "RequestedReviewer": "Bot Mannequin Team User",
    "PullRequestTimelineItems": (
        "AutoMergeDisabledEvent AutoMergeEnabledEvent AutoRebaseEnabledEvent AutoSquashEnabledEvent "
        "AutomaticBaseChangeSucceededEvent BaseRefChangedEvent ReopenedEvent"
    ),
}
_HEADER = """\
# The part of GitHub's GraphQL schema that the double of GitHub has, from npm @octokit/graphql-schema {version}.
# Made by tests/real/make_openapi.py; not to be edited. Its licence:
#
{licence}
"""


def openapi(package: Path) -> bytes:
    """Return the extract of `@octokit/openapi`, the same bytes for the same package."""
    described = package / "generated"
    servers = [re.fullmatch(r"ghes-(\d+)\.(\d+)\.json", path.name) for path in described.iterdir()]
    oldest = min((int(found[1]), int(found[2])) for found in servers if found)
    flavours = {}
    for name in ("api.github.com", f"ghes-{oldest[0]}.{oldest[1]}"):
        flavours[name] = described_of(json.loads((described / f"{name}.json").read_text()), OPERATIONS)
    extract = {
        "from": f"npm @octokit/openapi {json.loads((package / 'package.json').read_text())['version']}",
        "licence": (package / "LICENSE").read_text(),
        "flavours": flavours,
    }
    text = json.dumps(extract, indent=None, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def described_of(document: dict[str, Any], operations: Iterable[str]) -> dict[str, Any]:
    """Return what a description says of some operations."""
    paths: dict[str, Any] = {}
    for operation in operations:
        verb, path = operation.split(" ")
        found = document["paths"][path]
        kept = {
            key: found[verb.lower()][key]
            for key in ("parameters", "requestBody", "responses")
            if key in found[verb.lower()]
        }
        paths.setdefault(path, {})[verb.lower()] = _for_programs(kept)
    components: dict[str, Any] = {}
    _follow(paths, document["components"], components)
    return {"version": document["info"]["version"], "paths": paths, "components": components}


def _for_programs(node: Any, *, named: bool = False) -> Any:
    """Return a node without what is for people; below `named` the keys are names, not keywords."""
    if isinstance(node, list):
        return [_for_programs(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _for_programs(value, named=key in {"properties", "patternProperties"} and not named)
        for key, value in node.items()
        if named or (key not in FOR_PEOPLE and not key.startswith("x-"))
    }


def _follow(node: Any, components: dict[str, Any], found: dict[str, Any]) -> None:
    if isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str):
            kind, name = reference.removeprefix("#/components/").split("/")
            if name not in found.setdefault(kind, {}):
                found[kind][name] = _for_programs(components[kind][name])
                _follow(found[kind][name], components, found)
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _follow(value, components, found)


def schema(package: Path) -> str:
    """Return the extract of `@octokit/graphql-schema`.

    Raises:
        LookupError: a field that the double has is not in the schema.
    """
    whole = parse((package / "schema.graphql").read_text(), no_location=True)
    known = {node.name.value: node for node in whole.definitions if hasattr(node, "name")}
    kept = {name: _narrowed(known[name], fields.split()) for name, fields in FIELDS.items()}
    kept |= {name: _united(known[name], members.split()) for name, members in UNIONS.items()}
    waiting = list(kept.values())
    while waiting:
        for name in _names(waiting.pop()) - kept.keys() - {"String", "Int", "Float", "Boolean", "ID"}:
            if not isinstance(known[name], _TAKEN_ALONG):
                raise LookupError(f"the type {name} is reached and not listed")  # noqa: TRY004  # a list lacks it
            kept[name] = _plain(known[name])
            waiting.append(kept[name])
    text = print_ast(DocumentNode(definitions=tuple(kept[name] for name in sorted(kept))))
    version = json.loads((package / "package.json").read_text())["version"]
    licence = "\n".join(f"# {line}".rstrip() for line in (package / "LICENSE.md").read_text().strip().splitlines())
    return f"{_HEADER.format(version=version, licence=licence)}\n{text}\n"


class _Plain(Visitor):
    """Drops descriptions and directives."""

    def enter(self, node: Node, *_: object) -> Node | None:
        changed = False
        values = {key: getattr(node, key, None) for key in node.keys}
        for key, empty in (("description", None), ("directives", ())):
            if values.get(key):
                values[key], changed = empty, True
        return type(node)(**values) if changed else None


def _plain(node: Any) -> Any:
    return visit(node, _Plain())


def _narrowed(node: Any, wanted: list[str]) -> Any:
    """Return a type with the wanted fields, and the interfaces among those that are listed."""
    if not isinstance(node, ObjectTypeDefinitionNode | InterfaceTypeDefinitionNode):
        raise TypeError(node.name.value)
    fields = {field.name.value: field for field in node.fields or ()}
    if missing := [name for name in wanted if name not in fields]:
        raise LookupError(f"{node.name.value} has no {', '.join(missing)}")
    chosen: tuple[FieldDefinitionNode, ...] = tuple(fields[name] for name in wanted)
    interfaces = tuple(i for i in node.interfaces or () if _has(wanted, i.name.value))
    return _plain(type(node)(name=node.name, interfaces=interfaces, fields=chosen, directives=(), description=None))


def _united(node: Any, wanted: list[str]) -> Any:
    """Return a union of those of its members that are wanted."""
    members = {member.name.value: member for member in node.types or ()}
    return _plain(type(node)(name=node.name, types=tuple(members[name] for name in wanted), directives=()))


def _has(wanted: list[str], interface: str) -> bool:
    return bool(FIELDS.get(interface)) and set(FIELDS[interface].split()) <= set(wanted)


def _names(node: Any) -> set[str]:
    found: set[str] = set()

    class Names(Visitor):
        def enter_named_type(self, node: NamedTypeNode, *_: object) -> None:
            found.add(node.name.value)

    visit(node, Names())
    return found


def main(modules: Path) -> None:
    """Write both extracts from a folder of npm packages."""
    OPENAPI.write_bytes(openapi(modules / "@octokit" / "openapi"))
    SCHEMA.write_text(schema(modules / "@octokit" / "graphql-schema"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
