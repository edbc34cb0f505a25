"""Identity tokens as GitHub makes them, and what Fulcio reads from them: the identity, and the extensions for it.

The claims are those of GitHub's documentation ("OpenID Connect reference"), the extensions those of Fulcio's
`docs/oid-info.md`.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import TYPE_CHECKING, Any

from ci_automation.signing.trust import Identity
from tests.fakes.sigstore import der

if TYPE_CHECKING:
    from collections.abc import Mapping

Claims = dict[str, Any]

CANARY = "canary-oidc"  # is in every secret of this double
GITHUB = "https://token.actions.githubusercontent.com"
AUDIENCE = "sigstore"
LIFE = 600
HOST = "https://github.com/"
WORKFLOW = Identity(GITHUB, f"{HOST}acme/fleet/.github/workflows/flux.yaml@refs/heads/main")
OIDS = "1.3.6.1.4.1.57264.1."


class Refused(Exception):
    """A service says no to what it was sent; the message is its reason."""


def claims_of(identity: Identity) -> Claims:
    """Return the claims of a token for which Fulcio's certificate has this identity."""
    if identity.issuer == GITHUB and identity.subject.startswith(HOST):
        return github_claims(identity.subject.removeprefix(HOST))
    name = {} if "://" in identity.subject else {"email": identity.subject, "email_verified": True}
    return {"iss": identity.issuer, "sub": identity.subject, **name}


def github_claims(workflow: str) -> Claims:
    """Return the claims of a run of `owner/repository/.github/workflows/file@ref`, pushed to that ref."""
    path, _, ref = workflow.partition("@")
    owner, _, rest = path.partition("/")
    repository = f"{owner}/{rest.partition('/')[0]}"
    sha = "5f2c9f27e8b4d0a1c3e6f7890123456789abcdef"
    return {
        "iss": GITHUB,
        "sub": f"repo:{repository}:ref:{ref}",
        "actor": "octocat",
        "actor_id": "583231",
        "event_name": "schedule",
        "job_workflow_ref": workflow,
        "job_workflow_sha": sha,
        "ref": ref,
        "ref_protected": "true",
        "ref_type": "tag" if ref.startswith("refs/tags/") else "branch",
        "repository": repository,
        "repository_id": "74",
        "repository_owner": owner,
        "repository_owner_id": "65",
        "repository_visibility": "private",
        "run_attempt": "1",
        "run_id": "7000000001",
        "run_number": "12",
        "runner_environment": "github-hosted",
        "sha": sha,
        "workflow": "flux",
        "workflow_ref": workflow,
        "workflow_sha": sha,
    }


def encode(claims: Mapping[str, Any]) -> str:
    """Return a JWT with the claims, valid from now on unless they say otherwise; its signature is a canary."""
    now = int(time.time())
    full = {"aud": AUDIENCE, "iat": now, "nbf": now - 5, "exp": now + LIFE, "jti": secrets.token_hex(8)} | dict(claims)
    parts = [{"alg": "RS256", "kid": "of-the-tests", "typ": "JWT"}, full]
    signature = f"{CANARY}-{secrets.token_urlsafe(48)}"
    return ".".join([*(_base64url(json.dumps(part).encode()) for part in parts), signature])


def decode(token: str, issuers: set[str]) -> Claims:
    """Return the claims of a token that Fulcio takes; nobody's signature is checked here.

    Raises:
        Refused: the issuer is none of `issuers`, the audience is another's, or its time is over.
    """
    try:
        body = token.split(".")[1]
        claims: Claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        issuer, audience, end = claims["iss"], claims["aud"], int(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        raise Refused("There was an error processing the identity token") from None
    if issuer not in issuers:
        raise Refused(f"There was an error processing the identity token: unknown issuer {issuer}")
    if AUDIENCE not in ([audience] if isinstance(audience, str) else audience):
        raise Refused(f'oidc: expected audience "{AUDIENCE}" got {audience}')
    if end <= time.time():
        raise Refused("oidc: token is expired")
    return claims


def identity_of(claims: Claims) -> Identity:
    """Return the identity that Fulcio certifies for a token: for GitHub the called workflow, not the subject.

    Raises:
        Refused: it has nothing that a certificate could name.
    """
    if claims["iss"] == GITHUB:
        try:
            return Identity(GITHUB, HOST + claims["job_workflow_ref"])
        except KeyError:
            raise Refused("missing job_workflow_ref claim in ID token") from None
    subject = str(claims.get("email") or claims["sub"])
    if "://" not in subject and "@" not in subject:
        raise Refused(f"{subject} is neither an URI nor an email address")
    return Identity(claims["iss"], subject)


def proven_by(claims: Claims) -> bytes:
    """Return what a client signs to prove that it has the private key."""
    return str(claims.get("email") or claims["sub"]).encode()


def extensions(claims: Claims) -> dict[str, bytes]:
    """Return Fulcio's own extensions for a token: object identifier and value."""
    old = {1: claims["iss"]}
    new = {8: claims["iss"]}
    if claims["iss"] == GITHUB:
        names = {2: "event_name", 3: "sha", 4: "workflow", 5: "repository", 6: "ref"}
        old |= {number: claims[name] for number, name in names.items()}
        new |= _github_extensions(claims)
    return {f"{OIDS}{number}": value.encode() for number, value in old.items()} | {
        f"{OIDS}{number}": der.text(value) for number, value in new.items()
    }


def _github_extensions(claims: Claims) -> dict[int, str]:
    run = f"{claims['repository']}/actions/runs/{claims['run_id']}/attempts/{claims['run_attempt']}"
    return {
        9: HOST + claims["job_workflow_ref"],
        10: claims["job_workflow_sha"],
        11: claims["runner_environment"],
        12: HOST + claims["repository"],
        13: claims["sha"],
        14: claims["ref"],
        15: claims["repository_id"],
        16: HOST + claims["repository_owner"],
        17: claims["repository_owner_id"],
        18: HOST + claims["workflow_ref"],
        19: claims["workflow_sha"],
        20: claims["event_name"],
        21: HOST + run,
        22: claims["repository_visibility"],
    }


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
