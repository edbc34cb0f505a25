"""What can go wrong between us and GitHub. No message has a token, or an address with a signature in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.errors import ReleaseSourceError, UsageError

if TYPE_CHECKING:
    from datetime import datetime


class InvalidApiUrl(UsageError):
    """An address is not one that GitHub's API can have."""

    hint = "Write https://api.github.com, or https://HOST/api/v3 for GitHub Enterprise Server."

    def __init__(self, url: str) -> None:
        super().__init__(f"{url[:200]!r} is not the address of GitHub's API")


class InvalidToken(UsageError):
    """A token has characters that no token has, a line break for example."""

    hint = "Set it to the token alone, or unset it to go without."

    def __init__(self, name: str) -> None:
        super().__init__(f"the value of {name} is not a GitHub token")


class GitHubUnreachable(ReleaseSourceError):
    """GitHub could not be spoken to: its name, its certificate, the network, or a time-out."""

    hint = "Check the address and the network; the run can be repeated."


class GitHubDenied(ReleaseSourceError):
    """GitHub refused a token, or its absence, or its rights."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class RateLimited(ReleaseSourceError):
    """GitHub takes no more requests for now; `reset` is when it does again."""

    def __init__(self, host: str, reset: datetime, hint: str) -> None:
        super().__init__(f"{host} takes no more requests before {reset:%Y-%m-%d %H:%M:%S} UTC")
        self.reset = reset
        self.hint = hint


class UnexpectedGitHubAnswer(ReleaseSourceError):
    """GitHub, or something in its place, answered what its API does not provide for."""

    hint = "Check that the address is GitHub's API, and that no proxy answers in its place; the run can be repeated."


class GitHubAnswerTooLarge(ReleaseSourceError):
    """An answer or a download is larger than anything that we ask for."""

    hint = "Nothing of it was used. Check that the address is GitHub's."

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} has more than {limit} bytes")
