"""Tokens of an App: for one repository, with what is needed, masked before they are used, and kept while they last."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from ci_automation.github.app import App, AppTokens
from ci_automation.github.errors import AppLacksRights, AppNotInstalled, AppNotLetIn, InvalidAppKey
from ci_automation.github.repository import Repository
from ci_automation.github.waiting import GitHubPatience
from ci_automation.net.waiting import Clock
from tests.contract.github.conftest import BRANCH, FLEET, LOCK

if TYPE_CHECKING:
    from tests.contract.github.conftest import Open
    from tests.fakes.forge import Forge, people
    from tests.fakes.forge import repository as double

NEEDED = {"contents": "write", "pull_requests": "write"}


@dataclass
class Site:
    """An App that is installed on one repository, and a clock."""

    forge: Forge
    app: people.App
    masked: list[str] = field(default_factory=list)
    late: float = 0.0

    def tokens(self, identity: str | None = None, key: str | None = None) -> AppTokens:
        """Return the App's tokens."""
        app = App(str(self.app.id) if identity is None else identity, self.app.key if key is None else key)
        patience = GitHubPatience(
            clock=Clock(sleep=lambda _: None, now=lambda: self.forge.now().timestamp() + self.late)
        )
        return AppTokens(app, self.forge.url, mask=self.masked.append, patience=patience)


@pytest.fixture
def site(forge: Forge, fleet: double.Repository) -> Site:
    app = forge.app("flux-updates")
    forge.repository("acme/other")
    forge.install(app, [fleet.full_name, "acme/other"], NEEDED | {"issues": "read"})
    return Site(forge, app)


def test_it_is_of_that_repository_and_those_permissions_alone(site: Site) -> None:
    text = site.tokens().token(FLEET, {"contents": "read"})
    token = site.forge.tokens[text]
    assert (token.repositories, token.permissions) == (frozenset({FLEET}), {"contents": "read"})


def test_it_acts_as_the_app(site: Site, connect: Open) -> None:
    client = connect(token=site.tokens().token(FLEET, NEEDED))
    viewer = Repository(client, FLEET).snapshot(BRANCH, LOCK).viewer
    assert (viewer.login, viewer.is_bot) == ("flux-updates[bot]", True)


def test_the_client_id_does_as_well(site: Site) -> None:
    assert site.tokens(identity=f" {site.app.client_id}\n").token(FLEET, NEEDED)


def test_both_secrets_are_masked_before_they_are_used(site: Site) -> None:
    seen: list[int] = []
    tokens = AppTokens(
        App(str(site.app.id), site.app.key), site.forge.url, mask=lambda _: seen.append(len(site.forge.requests))
    )
    text = tokens.token(FLEET, NEEDED)
    assert seen == [0, 2]
    again = site.tokens()
    assert again.token(FLEET, NEEDED) != text
    assert site.masked[1].startswith("ghs_")


def test_one_is_kept_while_it_lasts(site: Site) -> None:
    tokens = site.tokens()
    first = tokens.token(FLEET, NEEDED)
    site.late = 54 * 60
    assert tokens.token(FLEET, NEEDED) == first
    site.late = 56 * 60
    assert tokens.token(FLEET, NEEDED) != first


def test_another_repository_and_other_permissions_have_their_own(site: Site) -> None:
    tokens = site.tokens()
    made = {tokens.token(FLEET, NEEDED), tokens.token("acme/other", NEEDED), tokens.token(FLEET, {"issues": "read"})}
    assert len(made) == 3


def test_where_the_app_is_not_installed_it_is_told(site: Site) -> None:
    site.forge.repository("acme/third")
    with pytest.raises(AppNotInstalled, match="acme/third"):
        site.tokens().token("acme/third", NEEDED)


def test_what_the_installation_lacks_is_told(site: Site) -> None:
    with pytest.raises(AppLacksRights, match="not granted to this installation") as caught:
        site.tokens().token(FLEET, {"issues": "write"})
    assert "accept them" in caught.value.hint


def test_a_key_of_another_app_is_refused(site: Site) -> None:
    with pytest.raises(AppNotLetIn) as caught:
        site.tokens(key=site.forge.app("other").key).token(FLEET, NEEDED)
    assert "belong together" in caught.value.hint


def test_a_clock_that_is_wrong_is_thought_of(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = site.forge.now().timestamp() + 3600
    monkeypatch.setattr("github.Auth.time.time", lambda: wrong)
    with pytest.raises(AppNotLetIn) as caught:
        site.tokens().token(FLEET, NEEDED)
    assert "clock" in caught.value.hint


@pytest.mark.parametrize("key", ["", "canary-not-a-key", "-----BEGIN RSA PRIVATE KEY-----\ncanary\n"])
def test_what_is_no_key_is_refused_without_being_shown(site: Site, key: str) -> None:
    with pytest.raises(InvalidAppKey) as caught:
        site.tokens(key=key).token(FLEET, NEEDED)
    assert "canary" not in f"{caught.value}{caught.value.hint}{App('1', key)!r}"


def test_without_an_id_there_is_no_app(site: Site) -> None:
    with pytest.raises(InvalidAppKey):
        site.tokens(identity="").token(FLEET, NEEDED)


def test_an_hour_is_what_a_token_lives(site: Site) -> None:
    text = site.tokens().token(FLEET, NEEDED)
    expires = site.forge.tokens[text].expires
    assert expires is not None
    assert expires - site.forge.now() <= dt.timedelta(hours=1)
