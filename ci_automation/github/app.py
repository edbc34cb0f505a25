"""Tokens of a GitHub App, each for one repository and the needed permissions, and never on disk.

PyGithub can limit its own tokens to permissions, but not to a repository.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import github  # noqa: TID251  # for its JWT
import jwt  # comes with it
from msgspec import Struct

from ci_automation.github.answers import Fields, object_at, require_name
from ci_automation.github.client import PUBLIC_API, GitHub
from ci_automation.github.errors import (
    AppLacksRights,
    AppNotInstalled,
    AppNotLetIn,
    GitHubDenied,
    GitHubRefused,
    InvalidAppKey,
    NotOnGitHub,
)
from ci_automation.github.waiting import PATIENCE, GitHubPatience
from ci_automation.hiding import Hiding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SPARE = timedelta(minutes=5)  # a token lasts an hour; one that expires sooner than this is replaced


class App(Hiding, Struct, frozen=True):
    """A GitHub App: its id, or client id, and its private key as a PEM text."""

    hides = ("key",)

    identity: str
    key: str

    def sign_in(self) -> str:
        """Return a JWT that proves for some minutes that this run is the App (RFC 7519, RS256).

        Raises:
            InvalidAppKey: the key is invalid, or the id is missing.
        """
        try:
            return github.Auth.AppAuth(self.identity.strip(), self.key).token
        except (AssertionError, ValueError, TypeError, jwt.PyJWTError):
            raise InvalidAppKey from None


class AppTokens:
    """Tokens of one App, kept in memory until they expire; `mask` gets each token before its first use."""

    def __init__(
        self,
        app: App,
        api_url: str = PUBLIC_API,
        *,
        mask: Callable[[str], None],
        patience: GitHubPatience = PATIENCE,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._app, self._mask, self._patience = app, mask, patience
        name = "the GitHub App"
        self._open = partial(GitHub, api_url=api_url, token_name=name, patience=patience, say=say)
        self._kept: dict[tuple[str, frozenset[tuple[str, str]]], tuple[str, datetime]] = {}

    def token(self, repository: str, permissions: Mapping[str, str]) -> str:
        """Return a token for one repository and these permissions, with the API's names: `pull_requests: write`.

        Raises:
            InvalidAppKey: the App's key cannot be used.
            AppNotLetIn: the key belongs to another App, or is no longer valid.
            AppNotInstalled: the App is not installed on the repository.
            AppLacksRights: the App, or its installation, lacks these permissions.
            ReleaseSourceError: as `GitHub.send`.
        """
        wanted = (require_name(repository), frozenset(permissions.items()))
        kept = self._kept.get(wanted)
        if kept is None or kept[1] - datetime.fromtimestamp(self._patience.clock.now(), UTC) <= _SPARE:
            kept = self._kept[wanted] = self._ask(repository, permissions)
        return kept[0]

    def _ask(self, repository: str, permissions: Mapping[str, str]) -> tuple[str, datetime]:
        signed = self._app.sign_in()
        self._mask(signed)
        client = self._open(signed)
        try:
            installation = object_at(client, f"/repos/{repository}/installation").number("id")
            path = f"/app/installations/{installation}/access_tokens"
            asked = {"repositories": [repository.partition("/")[2]], "permissions": dict(permissions)}
            answer = Fields(client.send("POST", path, asked).value, f"POST {client.host}{path}")
            value = answer.text("token")
            self._mask(value)
            return value, answer.time("expires_at")
        except NotOnGitHub:
            raise AppNotInstalled(self._app.identity, repository) from None
        except GitHubRefused as refused:
            raise AppLacksRights(self._app.identity, repository, refused.said) from None
        except GitHubDenied as denied:
            raise AppNotLetIn(self._app.identity, denied) from None
        finally:
            client.close()
