"""GitHub: the one hardened client, and one module for each API of a repository.

    client = GitHub(token, api_url, say=print)
    Repository(client, "acme/fleet").snapshot("flux-manifests/production", ".github/flux-manifests.lock.yaml")

`repository`, `commits`, `pulls` and `runs` have classes whose methods are one request as a rule;
`content_history` has the log of branches, and the merges that led to the content of the default branch;
`model` has their results, `errors` their errors; `app` makes tokens of an App.
"""

__all__ = [
    "answers",
    "app",
    "client",
    "commits",
    "content_history",
    "errors",
    "files",
    "model",
    "pulls",
    "repository",
    "runs",
    "waiting",
]
