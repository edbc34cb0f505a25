"""Errors of GitHub's clients. No message contains a token, or an address with a signature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.errors import Conflict, ReleaseSourceError, UsageError

if TYPE_CHECKING:
    from datetime import datetime


class InvalidApiUrl(UsageError):
    """A text is not the address of a GitHub API."""

    hint = "Write https://api.github.com, or https://HOST/api/v3 for GitHub Enterprise Server."

    def __init__(self, url: str) -> None:
        super().__init__(f"{url[:200]!r} is not the address of GitHub's API")


class InvalidToken(UsageError):
    """A token has characters that none can have, such as a line break."""

    hint = "Set it to the token alone, or unset it to use no token."

    def __init__(self, name: str) -> None:
        super().__init__(f"the value of {name} is not a GitHub token")


class InvalidRepositoryName(UsageError):
    """A text is not the name of a repository."""

    hint = "Write OWNER/NAME, acme/fleet for example."

    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:200]!r} is not the name of a repository")


class InvalidAppKey(UsageError):
    """A text is not the private key of a GitHub App, or it has no id."""

    hint = "Give the App's id and the whole PEM file that GitHub made for it, line breaks included."
    message = "the private key of the GitHub App cannot be used"


class GitHubUnreachable(ReleaseSourceError):
    """GitHub cannot be reached: its name, its certificate, the network or a time-out."""

    hint = "Check the address and the network. Then run again."


class AnswerLost(GitHubUnreachable):
    """A request that must not be sent twice got no answer."""

    hint = "GitHub may have done it, so this run does not send it again. Run again: the next run finds what was done."

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} may have been done: {why}")


class GitHubDenied(ReleaseSourceError):
    """GitHub refused a token, or its absence, or its rights."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class RateLimited(ReleaseSourceError):
    """GitHub takes no more requests until `reset`."""

    def __init__(self, host: str, reset: datetime, hint: str) -> None:
        super().__init__(f"{host} takes no more requests before {reset:%Y-%m-%d %H:%M:%S} UTC")
        self.reset = reset
        self.hint = hint


class UnexpectedGitHubAnswer(ReleaseSourceError):
    """GitHub, or a proxy, gave an answer that its API does not have."""

    hint = "Check that the address is GitHub's API, and that no proxy answers in its place. Then run again."


class TooManyPulls(ReleaseSourceError):
    """A branch has so many pull requests that the run does not find its own."""

    hint = (
        "Find out who opened them. Another name of the artifact in the configuration gives its requests another branch."
    )

    def __init__(self, repository: str, branch: str, most: int) -> None:
        super().__init__(f"{repository} has {most} pull requests or more from the branch {branch}")


class GitHubAnswerTooLarge(ReleaseSourceError):
    """An answer or a download exceeds the size limit."""

    hint = "This run used nothing of it. Check that the address is GitHub's."

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} has more than {limit} bytes")


class PermissionMissing(GitHubDenied):
    """The token lacks a permission; the hint has the line that grants it to a job."""


class PullRequestsForbidden(GitHubDenied):
    """The repository, or its organisation, does not let workflows open pull requests."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} was refused: GitHub Actions may not open pull requests there",
            "Switch on 'Allow GitHub Actions to create and approve pull requests' in the repository's (or the "
            "organisation's) settings, Actions, General; or use the token of a GitHub App.",
        )


class RepositoryArchived(GitHubDenied):
    """The repository is archived, and can only be read."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} was refused: the repository is archived",
            ("Unarchive the repository, or remove it from the configuration."),
        )


class TeamHidden(GitHubDenied):
    """A team does not exist, or the token may not see its members."""

    def __init__(self, team: str) -> None:
        super().__init__(
            f"there is no team {team}, or the token may not see it",
            "Write ORGANISATION/TEAM with the team's slug. No workflow can let its GITHUB_TOKEN see teams: use the "
            "token of a GitHub App that has the organisation's permission `members: read`.",
        )


class AppNotLetIn(GitHubDenied):
    """GitHub does not accept this run as the GitHub App."""

    def __init__(self, identity: str, denied: GitHubDenied) -> None:
        super().__init__(
            f"GitHub does not accept this run as the GitHub App {identity}: {denied}",
            "Check that the id and the private key belong together, that the key was not deleted, and that the clock "
            "of this machine is right.",
        )


class AppNotInstalled(GitHubDenied):
    """A GitHub App is not installed on a repository."""

    def __init__(self, identity: str, repository: str) -> None:
        super().__init__(
            f"the GitHub App {identity} is not installed on {repository}",
            "Install it there, or add the repository to its installation.",
        )


class AppLacksRights(GitHubDenied):
    """A GitHub App, or its installation, lacks permissions."""

    def __init__(self, identity: str, repository: str, said: str) -> None:
        super().__init__(
            f"the GitHub App {identity} does not get the token for {repository}: {said}",
            "Grant it these permissions in its settings, and accept them for the installation.",
        )


class NotOnGitHub(ReleaseSourceError):
    """An object does not exist, or the token may not see it; GitHub does not say which."""

    hint = "Check the name, and that the token may read it."

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what} does not exist, or is hidden from the token")
        self.hint = hint or self.hint


class EmptyRepository(ReleaseSourceError):
    """A repository has no commit yet."""

    hint = "Push a first commit."

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} has no commit yet")


class TooManyFiles(ReleaseSourceError):
    """A repository has more files than GitHub lists at once."""

    hint = "Name the folders to read, with fewer files in each."

    def __init__(self, name: str, path: str) -> None:
        super().__init__(f"{path or 'the root'} of {name} has more files than GitHub lists at once")


class RepositoryRenamed(UnexpectedGitHubAnswer):
    """GitHub redirected a write, which this program does not follow; nothing was done."""

    hint = "The repository may have been renamed or moved: write its new name."

    def __init__(self, what: str, status: int) -> None:
        super().__init__(f"{what} was redirected ({status}): the repository may have a new name. Nothing was done")


class GitHubRefused(ReleaseSourceError):
    """GitHub understood a request and refused it; `said` is its reason, in one line."""

    hint = "Change what GitHub names, or the rules of the repository that forbid it, and run again."

    def __init__(self, what: str, said: str, kind: str = "") -> None:
        super().__init__(f"{what} was refused: {said}")
        self.said = said
        self.kind = kind  # of a GraphQL error

    def says(self, words: str) -> bool:
        """Return whether the reason contains these words."""
        return words.lower() in self.said.lower()


class HeadMoved(Conflict):
    """A branch moved during the run, so the run wrote nothing to it."""

    hint = "Another writer changed the branch. Run again; the next run reads the branch again."

    def __init__(self, repository: str, branch: str, expected: str) -> None:
        super().__init__(f"the branch {branch} of {repository} moved from {expected[:12]} during this run")
