"""How a job asks GitHub for an identity token (GitHub, "OpenID Connect reference")."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ci_automation.registry.services import Call

URL_VARIABLE, REQUEST_VARIABLE = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
_MAX_BYTES = 64 << 10


def token_call(url: str, request_token: str, audience: str) -> Call:
    """Return the request for a token that is meant for `audience`; its answer has it as `value`."""
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "audience"]
    return Call(
        "GET",
        urlunsplit(parts._replace(query=urlencode([*query, ("audience", audience)]))),
        {"Authorization": f"bearer {request_token}", "Accept": "application/json"},
        cap=_MAX_BYTES,
        secrets=frozenset({request_token}),
    )
