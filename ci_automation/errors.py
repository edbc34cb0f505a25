"""Families of errors and their exit codes; each cause is a class in the room where it happens.

Error                     1   internal error, when nothing below fits
  UsageError              2   the command line, the configuration, a file that the user named
  VerificationFailed     10   a signature, a digest, a rendering that is not proven
  PolicyRefused          11   the policy does not allow an explicit request
  Conflict               12   another writer changed the same thing
  RegistryError          20   the registry refused, failed, or lied
  ReleaseSourceError     21   GitHub, or the folder with releases
  SigningError           22   a key cannot be read or used
  ClusterError           23   a cluster cannot be reached, refuses, or does not get ready
"""

from __future__ import annotations

import re
from typing import ClassVar

INTERRUPTED = 130  # what shells report for a program that Ctrl-C ended


class Error(Exception):
    """An error that a user can cause or must know; the command line prints it and exits with `exit_code`.

    `below` has the whole command that the hint speaks of, for a terminal.
    """

    exit_code: ClassVar[int] = 1
    hint: str = ""
    below: str = ""
    message: ClassVar[str] = ""  # of a class whose objects all say the same

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.message)

    @property
    def code(self) -> str:
        """Return the stable name of the cause, for `--output json`."""
        return re.sub(
            r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", type(self).__name__.replace("GitHub", "Github")
        ).lower()


class UsageError(Error):
    """The command line, the configuration or a file that the user named is wrong."""

    exit_code = 2


class VerificationFailed(Error):
    """A signature, a digest or a rendering is not proven."""

    exit_code = 10


class PolicyRefused(Error):
    """The policy does not allow an explicit request."""

    exit_code = 11


class Conflict(Error):
    """Another writer changed what this run was about to change."""

    exit_code = 12


class RegistryError(Error):
    """A registry refused, failed, or gave a wrong answer."""

    exit_code = 20


class ReleaseSourceError(Error):
    """The source of releases refused, failed, or gave a wrong answer."""

    exit_code = 21


class SigningError(Error):
    """A key cannot be read or used."""

    exit_code = 22


class ClusterError(Error):
    """A cluster cannot be reached, refused, or did not get ready."""

    exit_code = 23


def is_interruption(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused an error; imports and modules in C turn it into other errors."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
