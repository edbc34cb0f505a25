"""GraphQL as GitHub answers it, over the part of its schema that the double has; a document is validated against it."""

from __future__ import annotations

import base64
import binascii
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphql import ExecutionResult, GraphQLError, build_schema, execute_sync, parse, validate

from tests.fakes.forge.nodes import Nodes
from tests.fakes.forge.releases import QueryError
from tests.fakes.forge.routes import allowed, visible
from tests.fakes.forge.shown import node_id
from tests.fakes.forge.state import Pull, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphql import DocumentNode, GraphQLResolveInfo, GraphQLSchema

    from tests.fakes.forge.forge import Forge
    from tests.fakes.forge.people import Token
    from tests.fakes.forge.repository import Repository

SCHEMA = Path(__file__).resolve().parents[2] / "assets" / "github-schema.graphql"
Json = dict[str, Any]


@cache
def schema() -> GraphQLSchema:
    """Return the part of GitHub's schema that the double has."""
    return build_schema(SCHEMA.read_text())


@cache
def checked(text: str) -> DocumentNode | list[GraphQLError]:
    """Return a document, or what is wrong with it, once for each text: the program sends few, and sends them often."""
    try:
        document = parse(text)
    except GraphQLError as error:
        return [error]
    return validate(schema(), document) or document


class Queries:
    """Answers documents."""

    def __init__(self, forge: Forge) -> None:
        self.forge = forge

    def answer(self, document: str, variables: Mapping[str, Any], token: Token) -> Json:
        """Return the data of a document, and its errors as GitHub writes them."""
        done = self._executed(checked(document), variables, _Root(self.forge, token))
        errors = [_error(error) for error in done.errors or ()]
        return ({} if done.data is None else {"data": done.data}) | ({"errors": errors} if errors else {})

    def _executed(
        self, document: DocumentNode | list[GraphQLError], variables: Mapping[str, Any], root: _Root
    ) -> ExecutionResult:
        if isinstance(document, list):
            return ExecutionResult(data=None, errors=document)
        return execute_sync(
            schema(), document, root.fields(), variable_values=dict(variables), field_resolver=self._field
        )

    def _field(self, source: Any, info: GraphQLResolveInfo[Any], **named: Any) -> Any:
        """Return a field's value; one that the schema has and the double has not is a mistake of the double's."""
        if info.field_name not in source:
            self.forge.violations.append(f"the double has no {info.parent_type}.{info.field_name}")
        value = source.get(info.field_name)
        return value(info, **named) if callable(value) else value


def _error(error: GraphQLError) -> Json:
    shown: Json = {
        "message": error.message,
        "locations": [{"line": place.line, "column": place.column} for place in error.locations or ()],
    }
    cause = error.original_error
    if isinstance(cause, Refused):
        return shown | {"type": cause.kind, "path": error.path, "message": cause.message}
    if cause is not None and not isinstance(cause, GraphQLError | QueryError):
        raise cause
    return shown | ({"path": error.path} if error.path else {}) | (error.extensions or {})


class _Root:
    """The fields of a query and of a mutation, for one token."""

    def __init__(self, forge: Forge, token: Token) -> None:
        self.forge, self.token = forge, token
        self.nodes = Nodes(forge, token)

    def fields(self) -> Json:
        """Return what a document can start with."""
        mutations: dict[str, Callable[[Json], Json]] = {
            "createCommitOnBranch": self._create_commit,
            "disablePullRequestAutoMerge": self._disable_auto_merge,
            "enablePullRequestAutoMerge": self._enable_auto_merge,
        }

        def mutation(of: Callable[[Json], Json]) -> Callable[..., Json]:
            return lambda _info, **named: {"clientMutationId": None, **named["input"], **of(named["input"])}

        return {
            "viewer": lambda _info: {**self.nodes.person(self.token.login), "__typename": "User"},
            "rateLimit": lambda _info, **_: self._rate_limit(),
            "repository": lambda _info, **named: self._repository(f"{named['owner']}/{named['name']}"),
            "node": lambda _info, **named: self._node(named["id"]),
            "nodes": lambda _info, ids: [self._node(identity) for identity in ids],
            **{name: mutation(of) for name, of in mutations.items()},
        }

    def _rate_limit(self) -> Json:
        budget = self.forge.limits.budget(self.token.text, "graphql")
        reset = budget.reset.strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"cost": 1, "limit": budget.limit, "used": budget.used, "remaining": budget.left, "resetAt": reset}

    def _repository(self, name: str) -> Json | None:
        store = self.forge.store
        if store and name == store.repository:
            return store.node()
        repo = self.forge.repositories.get(self.forge.renamed.get(name, name))
        if repo is None or not visible(repo, self.token):
            raise Refused(404, f"Could not resolve to a Repository with the name '{name}'.", kind="NOT_FOUND")
        return self.nodes.repository(repo)

    def _node(self, identity: str) -> Json | None:
        kind, _, _ = identity.partition("_")
        for repo in self.forge.repositories.values():
            if not visible(repo, self.token):
                continue
            if identity == f"R_{repo.id}":
                return self.nodes.repository(repo)
            for issue in repo.issues if kind in {"PR", "I"} else ():
                if node_id(issue) == identity:
                    return self.nodes.pull(repo, issue) if isinstance(issue, Pull) else self.nodes.issue(repo, issue)
        raise Refused(404, f"Could not resolve to a node with the global id of '{identity}'", kind="NOT_FOUND")

    def _may(self, repo: Repository, permissions: str) -> None:
        if not allowed(repo, self.token, permissions):
            raise Refused(403, self.token.refusal, kind="FORBIDDEN")

    def _pull(self, identity: str) -> tuple[Repository, Pull]:
        for repo in self.forge.repositories.values():
            for pull in repo.pulls if visible(repo, self.token) else ():
                if node_id(pull) == identity:
                    return repo, pull
        raise Refused(404, f"Could not resolve to a node with the global id of '{identity}'", kind="NOT_FOUND")

    def _create_commit(self, given: Json) -> Json:
        named, expected = given["branch"], given["expectedHeadOid"]
        repo = self.forge.repositories.get(named.get("repositoryNameWithOwner", ""))
        branch = named.get("branchName", "").removeprefix("refs/heads/")
        if repo is None or not visible(repo, self.token) or branch not in repo.branches:
            raise Refused(404, f"Could not resolve to a Branch with the name '{branch}'.", kind="NOT_FOUND")
        self._may(repo, "contents=write")
        if repo.branches[branch] != expected:
            message = f'Expected branch to point to "{expected}" but it did not. Pull and try again.'
            raise Refused(409, message, kind="STALE_DATA")
        changes: dict[str, bytes | None] = {}
        files = given.get("fileChanges") or {}
        tree = repo.objects.commits[expected].tree
        for gone in files.get("deletions") or ():
            if gone["path"] not in repo.objects.files(tree):
                raise Refused(
                    422, f"A path was requested for deletion which does not exist as of commit oid `{expected}`"
                )
            changes[gone["path"]] = None
        for addition in files.get("additions") or ():
            try:
                changes[addition["path"]] = base64.b64decode(addition["contents"], validate=True)
            except binascii.Error:
                raise Refused(422, "The contents of an addition are not Base64") from None
        message = "\n\n".join(part for part in (given["message"]["headline"], given["message"].get("body")) if part)
        by = repo.signature(self.token.login)
        changed = repo.objects.changed(tree, changes)
        sha = repo.objects.commit(changed, [expected], by, repo.web_flow, message, signed=True)
        repo.move(branch, sha, self.token.login)
        return {"commit": self.nodes.commit(repo, sha), "ref": self.nodes.ref(repo, branch)}

    def _disable_auto_merge(self, given: Json) -> Json:
        repo, pull = self._pull(given["pullRequestId"])
        self._may(repo, "contents=write,pull_requests=write")
        repo.disable_auto_merge(pull.number, self.token.login)
        return {"actor": self.nodes.actor(self.token.login), "pullRequest": self.nodes.pull(repo, pull)}

    def _enable_auto_merge(self, given: Json) -> Json:
        repo, pull = self._pull(given["pullRequestId"])
        self._may(repo, "contents=write,pull_requests=write")
        if given.get("expectedHeadOid", pull.head) != pull.head:
            raise Refused(422, "Head branch was modified. Review and try again.")
        repo.enable_auto_merge(pull.number, self.token.login, given.get("mergeMethod", "MERGE").lower())
        return {"actor": self.nodes.actor(self.token.login), "pullRequest": self.nodes.pull(repo, pull)}
