"""The options given on the command line, and the configuration that goes with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, field
from msgspec.structs import force_setattr

from ci_automation.config import DEFAULT_PATH
from ci_automation.errors import UsageError
from ci_automation.hiding import Hiding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ci_automation.artifact.reference import Digest
    from ci_automation.config.model import Config
    from ci_automation.registry.credentials import CredentialSource
    from ci_automation.signing.signer import LateSigner
    from ci_automation.signing.sigstore.keyless import KeylessSigner
    from ci_automation.signing.sigstore.root import TrustRoot


class ShortDigest(UsageError):
    """An approval names only the beginning of a digest."""

    hint = "Copy the whole digest: `plan` prints the command that approves it."

    def __init__(self, text: str, waiting: Sequence[Digest]) -> None:
        super().__init__(f"--approve {text} is not a whole digest, and an approval counts for exactly one")
        if waiting:
            whole = " or ".join(f"`--approve {digest}`" for digest in waiting)
            self.hint = f"If that is what you reviewed, repeat the command with {whole}."


def approved_digests(texts: Iterable[str], waiting: Callable[[], Iterable[Digest | None]]) -> frozenset[Digest]:
    """Return the digests that `--approve` names; `waiting` are those that may be meant, for the error.

    Raises:
        ShortDigest: a text is the beginning of one.
        InvalidDigest: a text is none.
    """
    from ci_automation.artifact.reference import Digest, InvalidDigest

    found = set()
    for text in texts:
        try:
            found.add(Digest.parse(text))
        except InvalidDigest:
            begins = text.removeprefix("sha256:")
            if begins and set(begins) <= set("0123456789abcdef"):
                raise ShortDigest(text, [it for it in waiting() if it and it.hex.startswith(begins)]) from None
            raise
    return frozenset(found)


class SeveralToAdopt(UsageError):
    """An adoption that asks no person does not name the one artifact that it is for."""

    hint = "Nothing was done. Name the one artifact."

    def __init__(self, number: int) -> None:
        super().__init__(f"an adoption that asks no person is for one artifact, and this run is for {number}")


class ContradictingOptions(UsageError):
    """Two options, or an option and the configuration, do not go together."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


class Arguments(Hiding, Struct, frozen=True):
    """The shared options as they were given on the command line; a command has some of them."""

    hides = ("logins", "github_token", "keyless", "keys", "environments")

    config: str | None = None
    registry_config: str | None = None
    releases: str | None = None
    signing: str | None = None
    key: str | None = None
    key_must_open: bool = True  # also to read, for a person named it; an input of the action is there for all commands
    signature_format: str | None = None
    attestations: bool = False
    accept_identity_change: bool = False
    public_key: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()
    identity_regexp: tuple[str, ...] = ()
    issuer: str | None = None
    trust_config: str | None = None
    components_file: str | None = None
    overlay: str | None = None
    flags: dict[str, Any] = field(default_factory=dict)
    adopt: bool = False
    yes: bool = False
    accept_edits: bool = False
    allow_removal: bool = False
    acknowledge: tuple[str, ...] = ()
    unsafe_unproven_rendering: bool = False
    kubernetes: str | None = None
    cluster_snapshot: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    pin_images: bool | None = None  # None: as it is configured
    output: str = "text"
    verbose: bool = False
    logins: Callable[[CredentialSource, Mapping[str, str]], CredentialSource] | None = None  # from inputs of the action
    github_token: str | None = None  # same; without it the environment's
    keyless: dict[TrustRoot, KeylessSigner] = field(default_factory=dict)  # of this run
    environments: dict[str, Mapping[str, str]] = field(default_factory=dict)  # same, by the key that opens with one
    keys: dict[str, LateSigner] = field(default_factory=dict)  # same: those that are kept in files and variables

    def __post_init__(self) -> None:
        """Take `dir:PATH` for releases, as the configuration has it."""
        if self.releases:
            force_setattr(self, "releases", self.releases.removeprefix("dir:"))

    @classmethod
    def of(cls, options: dict[str, Any]) -> Self:
        """Return what was given, by the names of the fields, if nothing in it excludes anything else."""
        return cls(**options).checked()

    def checked(self) -> Self:
        """Return the same.

        Raises:
            ContradictingOptions: some of them exclude each other.
        """
        if contradiction := next(_contradictions(self), None):
            raise ContradictingOptions(*contradiction)
        if self.registry_config and not Path(self.registry_config).is_fifo():  # which can be read once
            from ci_automation.registry.docker_config import DockerConfig

            DockerConfig.find(os.environ, Path.home(), Path(self.registry_config)).read()
        return self


_ONE_OF_THEM = "Leave out one of them."


def _contradictions(given: Arguments) -> Iterator[tuple[str, str]]:
    """Yield what does not go together, and what to do."""
    if given.signing in {"key", "kms"} and not given.key:
        ways = "--key FILE or --key env://NAME" if given.signing == "key" else "--key, such as --key awskms://..."
        yield f"--signing {given.signing} needs {ways}", f"Add it, or leave out --signing {given.signing}."
    if given.yes and not given.adopt:
        yield "--yes answers the question of --adopt, which is not there", "Leave out --yes, or add --adopt."
    if given.signing == "kms" and given.key and given.key.partition("://")[0] in {"env", given.key}:
        yield "--signing kms needs --key, such as --key awskms://...", "For a file or a variable: --signing key."
    if given.signing in {"keyless", "unsafe-unsigned"} and given.key:
        yield f"--signing {given.signing} takes no --key", _ONE_OF_THEM
    identities = (*given.identity, *given.identity_regexp)
    if bool(identities) != bool(given.issuer):
        yield "--identity or --identity-regexp, and --issuer, go together", _other_half(identities)
    if identities and given.public_key:
        yield "--public-key and an identity exclude each other", _ONE_OF_THEM


def _other_half(identities: Sequence[str]) -> str:
    """Return what to add to identities without an issuer, or to an issuer without identities."""
    if not identities:
        return "Add --identity, or leave out --issuer."
    if any(it.removeprefix("^").replace("\\.", ".").startswith("https://github.com/") for it in identities):
        from ci_automation.config.workflows import ISSUER

        return f"Add --issuer {ISSUER}, the issuer of GitHub Actions."
    return "Add --issuer, with the address that the certificate names."


class ForeignConfiguration(UsageError):
    """Another user owns the configuration in the working directory."""

    hint = "It may be another user's who wants to be trusted. Read it, and name it with --config, or go elsewhere."
    message = f"{DEFAULT_PATH} here belongs to another user"


_MISNAMED = DEFAULT_PATH.with_suffix(".yml")


class MisnamedConfiguration(UsageError):
    """The configuration's name ends with .yml."""

    hint = f"Rename it: {DEFAULT_PATH}. Or name it with --config."
    message = f"{_MISNAMED} is not read"


def configuration_root(given: Arguments) -> Path:
    """Return the folder, from here, that paths in the configuration are relative to.

    It is the working directory if --config names the file, or it is there. Else it is the nearest folder above with
    the file, up to the top of the clone. As in git, a folder of another user does not count, nor does the file of
    another user in a folder that all may write to, such as /tmp.

    Raises:
        ForeignConfiguration: such a file is in the working directory.
    """
    if given.config:
        return Path()
    here = Path.cwd()
    if DEFAULT_PATH.is_file():
        # A checkout may belong to the runner's user while the action is another one.
        if not _belongs(here, {os.geteuid(), owner(here)}):
            raise ForeignConfiguration
        return Path()
    above = [here, *here.parents]
    top = next((number for number, folder in enumerate(above) if (folder / ".git").exists()), 0)
    for number, folder in enumerate(above[1 : top + 1], 1):
        users = {os.geteuid()}
        if (folder / DEFAULT_PATH).is_file() and owner(folder) in users and _belongs(folder, users):
            return Path(*[".."] * number)
    return Path()


def _belongs(folder: Path, users: set[int]) -> bool:
    """Return whether a folder's configuration, and what is on the way to it, is of these users alone."""
    return {owner(folder / it) for it in (DEFAULT_PATH.parent, DEFAULT_PATH)} <= users


def owner(path: Path) -> int:
    """Return the user that a file or folder belongs to, or the link that is there."""
    return path.lstat().st_uid


def configuration_path(given: Arguments) -> Path:
    """Return where the configuration is, or would be."""
    return Path(given.config) if given.config else configuration_root(given) / DEFAULT_PATH


def configuration(given: Arguments) -> Config | None:
    """Return the configuration that is named, or the one at its usual place, if there is one.

    Raises:
        MisnamedConfiguration: there is one here, whose name ends with .yml.
        InvalidConfig: it cannot be used.
    """
    path = configuration_path(given)
    if not given.config and not path.is_file():
        if _MISNAMED.is_file():
            raise MisnamedConfiguration
        return None
    from ci_automation.config.load import load_config

    return load_config(path, configuration_root(given))
