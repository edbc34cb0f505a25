"""Who acts: people, bots, teams, Apps and their tokens."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

if TYPE_CHECKING:
    import datetime as dt

ACTIONS = "github-actions[bot]"
LEVELS = ("none", "read", "triage", "write", "maintain", "admin")


@dataclass(frozen=True, slots=True)
class User:
    """An account: a person, or a bot, whose login ends with `[bot]`."""

    login: str
    id: int

    @property
    def is_bot(self) -> bool:
        """Whether it is not a person."""
        return self.login.endswith("[bot]")

    @property
    def email(self) -> str:
        """The address that its commits have."""
        return f"{self.id}+{self.login}@users.noreply.github.com"

    @property
    def node_id(self) -> str:
        """Its name in GraphQL."""
        return f"U_{self.id}"


@dataclass
class Team:
    """A team of an organisation."""

    organisation: str
    slug: str
    id: int
    members: set[str] = field(default_factory=set)
    invited: set[str] = field(default_factory=set)

    @property
    def node_id(self) -> str:
        """Its name in GraphQL."""
        return f"T_{self.id}"


@dataclass
class App:
    """A GitHub App with its private key."""

    id: int
    slug: str

    @cached_property
    def key(self) -> str:
        """The private key as GitHub gives it out, PEM."""
        form = serialization.PrivateFormat.TraditionalOpenSSL
        return self._key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()

    @cached_property
    def public_key(self) -> bytes:
        """What checks the tokens that the App signs."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key.public_key().public_bytes(serialization.Encoding.PEM, form)

    @cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def client_id(self) -> str:
        """Its other name, which may sign too."""
        return f"Iv23{self.slug}"

    @property
    def login(self) -> str:
        """The account that it acts as."""
        return f"{self.slug}[bot]"


@dataclass
class Installation:
    """An App in an account: the repositories and permissions that it was given."""

    id: int
    app: App
    account: str
    repositories: set[str]
    permissions: dict[str, str]


@dataclass(frozen=True)
class Token:
    """A token: who acts, on which repositories (None: all that the user may), with which permissions."""

    text: str
    kind: str  # actions, app, or pat
    login: str
    repositories: frozenset[str] | None
    permissions: dict[str, str]
    expires: dt.datetime | None = None

    @property
    def refusal(self) -> str:
        """What GitHub says where a permission is missing."""
        return f"Resource not accessible by {'personal access token' if self.kind == 'pat' else 'integration'}"

    def grants(self, permission: str, level: str) -> bool:
        """Return whether the token has a permission; the metadata of a repository can always be read."""
        granted = self.permissions.get(permission, "read" if permission == "metadata" else "none")
        return LEVELS.index(granted) >= LEVELS.index(level)


def normalized(permissions: dict[str, str]) -> dict[str, str]:
    """Return permissions by GitHub's names for Apps, where workflows write `pull-requests`."""
    return {name.replace("-", "_"): level for name, level in permissions.items()}


def new_token(kind: str) -> str:
    """Return a new token in the form of its kind; every one is a canary."""
    prefix = {"actions": "ghs_", "app": "ghs_", "pat": "github_pat_"}[kind]
    return f"{prefix}canary-{kind}-{secrets.token_hex(8)}"
