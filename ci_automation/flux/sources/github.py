"""Releases of a GitHub repository: Flux's own, or a copy of it on GitHub Enterprise Server."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.errors import ReleaseSourceError
from ci_automation.flux.bundle import BUNDLE, checksums_name
from ci_automation.flux.listing import (
    Listing,
    creation,
    field,
    listing,
    listings,
    notes,
    releases,
    successors_complete,
    usable,
)
from ci_automation.flux.options import COMPONENTS
from ci_automation.flux.release import (
    FetchedRelease,
    InvalidReleaseList,
    Release,
    ReleaseNotFound,
    UnknownCommit,
    collected_files,
    open_release,
)
from ci_automation.flux.version import read_version
from ci_automation.github.answers import require_name
from ci_automation.github.errors import GitHubUnreachable
from ci_automation.github.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_automation.flux.advisories import Advisory
    from ci_automation.flux.version import Version
    from ci_automation.github.client import GitHub

FLUX = "fluxcd/flux2"
_WITHOUT = "Without GitHub: --releases FOLDER, a folder that `mirror` filled where GitHub can be reached."
_MAX_PAGES = 100  # GitHub lists 10 000 releases at most
_FIRST_PAGE, _NEXT_PAGE = 30, 100  # thirty releases are more than a year of Flux, and less than 3 KB
_AT_ONCE = 50
_PACKAGES = (f"github.com/fluxcd/{name}" for name in ("flux2", "flux2/v2", *COMPONENTS))
_ADVISORIES = f"/advisories?ecosystem=go&per_page=100&affects={','.join(_PACKAGES)}"
# Names of one letter, because names are most of an answer.
_NAMES = "{n:nodes{n:name}}"
_LIST = (
    "query($o:String!,$r:String!,$n:Int!,$a:String){repository(owner:$o,name:$r){"
    "l:releases(first:$n,after:$a,orderBy:{field:CREATED_AT,direction:DESC}){p:pageInfo{n:hasNextPage c:endCursor}"
    "n:nodes{t:tagName p:publishedAt d:isDraft x:isPrerelease "
    f'm:releaseAssets(first:1,name:"{BUNDLE}"){_NAMES}}}}}}}}}'
)


class RepositoryNotFound(ReleaseSourceError):
    """A repository does not exist, or the user may not see it."""

    hint = "Check its name. GitHub also answers like this if a token may not read a private repository."

    def __init__(self, where: str) -> None:
        super().__init__(f"there is no repository {where}")


@contextmanager
def _naming_a_folder() -> Iterator[None]:
    """Let a failure to reach GitHub name the option that needs no GitHub."""
    try:
        yield
    except GitHubUnreachable as error:
        error.hint = f"{error.hint} {_WITHOUT}"
        raise


class GitHubSource:
    """Releases of one repository, listed by one small GraphQL query with a token, else page by page."""

    def __init__(self, client: GitHub, repository: str = FLUX) -> None:
        self._client, self._repository = client, require_name(repository)
        self._where = f"{client.host}/{repository}"

    @_naming_a_folder()
    def list(self, newer_than: Version | None = None) -> tuple[Release, ...]:
        """Return the releases, read only until all successors of `newer_than` are listed; see `ReleaseSource`."""
        if not self._client.authenticated:
            return releases(self._pages(newer_than), self._where)
        return releases(self._with_checksums(tuple(self._query(newer_than)), newer_than), self._where)

    @_naming_a_folder()
    def fetch(self, version: Version) -> FetchedRelease:
        """Return the release of `version`; see `ReleaseSource`."""
        answer = self._client.get(self._address(version))
        if answer is None:
            raise ReleaseNotFound(version, self._where, self.list)
        listed = releases([listing(answer.value, str(version), self._where)], self._where)
        release = usable(listed, version, self._where, self)
        assets = self._identities(answer.value)
        if (commit := Repository(self._client, self._repository).tag_commit(str(version))) is None:
            raise UnknownCommit(version, f"{self._where} has no tag {version}")
        files = collected_files(version, lambda _, name, limit: self._listed(assets, name, limit), self._where)
        return open_release(release, files, commit)

    @_naming_a_folder()
    def asset(self, version: Version, name: str, limit: int) -> bytes | None:
        """Return an asset of the release, or None if it does not exist; see `ReleaseSource`."""
        answer = self._client.get(self._address(version))
        return None if answer is None else self._listed(self._identities(answer.value), name, limit)

    @_naming_a_folder()
    def advisories(self) -> tuple[Advisory, ...]:
        """Return the newest hundred reviewed advisories about Flux's packages, in one request; see `ReleaseSource`."""
        from ci_automation.flux.advisories import advisories_in  # not for a check that finds nothing newer

        answer = self._client.get(_ADVISORIES)
        return () if answer is None else advisories_in(answer.value)

    def _address(self, version: Version) -> str:
        return f"/repos/{self._repository}/releases/tags/{version}"

    def _identities(self, release: object) -> dict[str, int]:
        return {
            field(asset, "name", str, self._where): field(asset, "id", int, self._where)
            for asset in field(release, "assets", list, self._where)
        }

    def _listed(self, assets: Mapping[str, int], name: str, limit: int) -> bytes | None:
        return self._client.asset(self._repository, assets[name], limit) if name in assets else None

    def _pages(self, newer_than: Version | None) -> Iterator[Listing]:
        """Yield the releases as REST lists them, mostly in the order of creation, without a guarantee."""
        seen: tuple[Version, ...] = ()
        created: tuple[str | None, ...] = ()
        for number in range(1, _MAX_PAGES + 1):
            answer = self._client.get(f"/repos/{self._repository}/releases?per_page=100&page={number}")
            if answer is None:
                raise RepositoryNotFound(self._where)
            page = listings(answer.value, self._where)
            yield from page
            seen += _versions(page)
            created += tuple(creation(item) for item in answer.value)
            if not answer.has_next or (_descend(created) and successors_complete(seen, newer_than)):
                return
        raise InvalidReleaseList(self._where, f"it has more than {_MAX_PAGES} pages")

    def _query(self, newer_than: Version | None) -> Iterator[Listing]:
        """Yield the releases as GraphQL lists them, in the order of creation, without their checksums files."""
        owner, _, name = self._repository.partition("/")
        seen: tuple[Version, ...] = ()
        cursor = None
        for number in range(_MAX_PAGES):
            size = _NEXT_PAGE if number else _FIRST_PAGE
            repository = self._ask(_LIST, {"o": owner, "r": name, "n": size, "a": cursor})
            connection = field(repository, "l", dict, self._where)
            page = tuple(self._node(node) for node in field(connection, "n", list, self._where))
            yield from page
            seen += _versions(page)
            more = field(connection, "p", dict, self._where)
            if not field(more, "n", bool, self._where) or successors_complete(seen, newer_than):
                return
            cursor = field(more, "c", str, self._where)
        raise InvalidReleaseList(self._where, f"it has more than {_MAX_PAGES} pages")

    def _node(self, node: object) -> Listing:
        published = node.get("p") if isinstance(node, dict) else None
        return Listing(
            tag=field(node, "t", str, self._where),
            published_at=None if published is None else field(node, "p", str, self._where),
            draft=field(node, "d", bool, self._where),
            prerelease=field(node, "x", bool, self._where),
            assets=self._assets(field(node, "m", dict, self._where)),
        )

    def _assets(self, connection: object) -> frozenset[str]:
        return frozenset(field(item, "n", str, self._where) for item in field(connection, "n", list, self._where))

    def _with_checksums(self, found: tuple[Listing, ...], newer_than: Version | None) -> Iterator[Listing]:
        """Yield the releases with their checksums files, which the query asks for by a name with the version.

        The query only asks for the files and notes of newer releases, so a check that finds nothing newer costs one
        small request.
        """
        wanted = [
            version
            for version in _versions(item for item in found if not item.draft)
            if newer_than is None or version > newer_than
        ]
        complete = dict.fromkeys((version for version in _versions(found) if version not in wanted), "")
        for start in range(0, len(wanted), _AT_ONCE):
            complete |= self._that_have_checksums(wanted[start : start + _AT_ONCE])
        for item in found:
            version = read_version(item.tag)
            if version in complete:
                yield replace(item, assets=item.assets | {checksums_name(version)}, notes=complete[version])
            else:
                yield item

    def _that_have_checksums(self, wanted: Sequence[Version]) -> dict[Version, str]:
        """Return the notes of the releases that have a checksums file."""
        owner, _, name = self._repository.partition("/")
        fields = "".join(
            f'r{number}:release(tagName:"{version}"){{'
            f'd:description m:releaseAssets(first:1,name:"{checksums_name(version)}"){_NAMES}}}'
            for number, version in enumerate(wanted)
        )
        query = f"query($o:String!,$r:String!){{repository(owner:$o,name:$r){{{fields}}}}}"
        repository = self._ask(query, {"o": owner, "r": name})
        return {
            version: notes(release, "d", f"{version} of {self._where}")
            for number, version in enumerate(wanted)
            if (release := repository.get(f"r{number}"))
            and checksums_name(version) in self._assets(field(release, "m", dict, self._where))
        }

    def _ask(self, query: str, variables: Mapping[str, object]) -> dict[str, Any]:
        repository = self._client.graphql(query, variables).get("repository")
        if repository is None:
            raise RepositoryNotFound(self._where)
        return field({"repository": repository}, "repository", dict, self._where)


def _versions(found: Iterable[Listing]) -> tuple[Version, ...]:
    return tuple(version for item in found if (version := read_version(item.tag)))


def _descend(dates: Sequence[str | None]) -> bool:
    known = [date for date in dates if date is not None]
    return len(known) == len(dates) and known == sorted(known, reverse=True)
