"""What a run costs: its requests, exactly, and the bytes of a check that finds nothing to do."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.fakes.forge import TOKEN, Forge
from tests.real import program, proxy
from tests.real.registries import RealRegistry, distribution, docker_config
from tests.real.tokens import PATH, READER, WRITER

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ci_automation.artifact.reference import Reference

REPOSITORY = "acme/flux-manifests"
NEWEST = "v2.9.4"
KILOBYTE = 1000
DOOR = ["GET channel 401", "GET token 200", "GET channel 200"]
CHECK = [*DOOR, "GET signature 200"]
NO_API, API = ["GET referrers 404"], ["GET referrers 200"]
UPLOAD = ["POST upload 202", "PUT upload 201"]
LISTED = ["GET digest 200"]  # a record, which has its statement in it; a tag that lists it has it, too


class Wire:
    """Counts the bytes of one connection in both directions, whatever they are."""

    def __init__(self, stream: io.BufferedIOBase, total: Counter[str], direction: str) -> None:
        self._stream, self._total, self._direction = stream, total, direction

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _counted(self, data: bytes) -> bytes:
        self._total[self._direction] += len(data)
        return data

    def readline(self, limit: int = -1) -> bytes:
        return self._counted(self._stream.readline(limit))

    def read1(self, limit: int = -1) -> bytes:
        return self._counted(self._stream.read1(limit))

    def write(self, data: bytes) -> int:
        self._total[self._direction] += len(data)
        return self._stream.write(data)


@contextmanager
def counting(registry: RealRegistry) -> Iterator[Counter[str]]:
    """Yield the bytes that pass the registry's door while the block runs, headers and all."""
    total: Counter[str] = Counter()

    class Counted(proxy._Exchange):
        def setup(self) -> None:
            super().setup()
            self.rfile = cast("io.BufferedReader", Wire(self.rfile, total, "received"))
            self.wfile = cast("io.BufferedWriter", Wire(self.wfile, total, "sent"))

    server = registry.proxy._server
    server.RequestHandlerClass = Counted
    try:
        yield total
    finally:
        server.RequestHandlerClass = proxy._Exchange


@pytest.fixture
def walled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealRegistry]:
    """Yield a registry that asks for tokens, as the public ones do; whoever runs may write."""
    with distribution(tmp_path / "registry", "token") as registry:
        log_in(registry, WRITER.name, tmp_path, monkeypatch)
        yield registry


def log_in(registry: RealRegistry, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the programs that follow be that user."""
    user = {user.name: user for user in (READER, WRITER)}[name]
    monkeypatch.setenv("DOCKER_CONFIG", str(docker_config(tmp_path / name, registry.host, user.name, user.password)))


def published(registry: RealRegistry, version: str, flux_releases: Path, pair: program.Pair) -> Reference:
    """Return a channel that has a version."""
    channel = program.channel(registry.host, REPOSITORY)
    program.succeed("init", channel, "--flux-version", version, "--releases", flux_releases, *pair.signing)
    registry.proxy.forget()
    return channel


def from_github(config: Path, github: Forge) -> Path:
    """Return a configuration after letting it take its releases from that GitHub."""
    value = json.loads(config.read_text())
    value |= {"source": "github:fluxcd/flux2", "apiUrl": github.url}
    config.write_text(json.dumps(value))
    return config


def said(registry: RealRegistry) -> list[str]:
    """Return the requests as a person names them, in their order."""

    def name(path: str) -> str:
        if path.startswith(PATH):
            return "token"
        kind, _, rest = path.partition("?")[0].removeprefix(f"/v2/{REPOSITORY}/").partition("/")
        if kind == "blobs":
            return "upload" if rest.startswith("uploads") else "blob"
        if kind in {"referrers", "tags"}:
            return kind
        if rest.startswith("sha256-"):
            return "signature" if rest.endswith(".sig") else "fallback"
        return "channel" if rest == "production" else "digest" if rest.startswith("sha256:") else "immutable tag"

    return [f"{request.method} {name(request.path)} {request.status}" for request in registry.requests]


def publication(*, first: bool, api: bool = False) -> list[list[str]]:
    """Return the requests of a publication, from the first blob to the record of it, those together that go together.

    That there is no API is known where the base was looked at for holds before.

    The registry with the API does not say `OCI-Subject`, so that by the specification nobody may rely on it, and the
    record is listed under the fallback tag as well.
    """
    config = UPLOAD if first else []
    recording = ["PUT digest 201", "GET fallback 404"]
    looks = "HEAD channel 404" if first else "HEAD channel 200"
    return [
        [*UPLOAD, *config, *UPLOAD],  # the layer, and the payload of the signature
        # An update has the list of all tags.
        ["PUT digest 201", *(["HEAD immutable tag 404"] if first else ()), "GET signature 404"],
        # Beside the signature: what clusters find there.
        [*(API if api else [*(NO_API if first else ()), "GET fallback 404"]), "PUT signature 201", "GET signature 200"],
        ["PUT immutable tag 201"],
        [looks, "PUT channel 201", *UPLOAD],  # the move, and the record
        # The record is listed where it is written, so only after the read-back, if there is an API.
        *(alone("HEAD channel 200", *recording) if api else [["HEAD channel 200", *recording]]),
        *alone("PUT fallback 201", "GET fallback 200"),
    ]


def alone(*requests: str) -> list[list[str]]:
    """Return requests that wait for each other."""
    return [[request] for request in requests]


def in_stages(registry: RealRegistry, expected: list[list[str]]) -> bool:
    """Return whether these were the requests: those of one list in any order, and lists one after the other."""
    found = iter(said(registry))
    return [sorted(islice(found, len(stage))) for stage in [*expected, [""]]] == [*map(sorted, expected), []]


def show(
    capsys: pytest.CaptureFixture[str], title: str, requests: list[str], figures: Mapping[str, int] | None = None
) -> None:
    """Print what was counted, so that it can be read in the log of a green run."""
    methods = Counter(request.partition(" ")[0] for request in requests)
    rows = {"requests to the registry": len(requests)} | dict(sorted(methods.items())) | dict(figures or {})
    with capsys.disabled():
        print(f"\n{title}")
        for what, count in rows.items():
            print(f"  {count:>6}  {what}")


def test_a_check_that_finds_nothing_to_do(
    walled: RealRegistry,
    flux_releases: Path,
    pair: program.Pair,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    channel = published(walled, NEWEST, flux_releases, pair)
    log_in(walled, READER.name, tmp_path, monkeypatch)
    with Forge(releases=flux_releases) as github:
        config = from_github(program.configuration(tmp_path / "config.yaml", channel, flux_releases), github)
        with counting(walled) as passed:
            arguments = ("check", "production", "--config", config, "--public-key", pair.public)
            found = program.succeed(*arguments, GITHUB_API_URL=github.url, GITHUB_TOKEN=TOKEN)
        assert (found["changed"], found["version"], found["signature"]) == (False, NEWEST, "verified")
        assert found["plan"]["steps"] == []
        assert said(walled) == CHECK
        (query,) = github.requests
        assert (query.method, query.path, query.status) == ("POST", "/graphql", 200)
        answers = passed["sent"] + query.sent
        figures = {
            "requests to GitHub": 1,
            "bytes of the registry's answers": passed["sent"],
            "bytes of GitHub's answer": query.sent,
            "bytes of all answers, headers and token included": answers,
            "bytes of all requests, with the token in two of them": passed["received"] + query.received,
        }
        show(capsys, "a check that finds nothing to do", said(walled), figures)
        # Both sides are counted, so neither is nothing.
        assert passed["sent"] > KILOBYTE
        assert query.sent > 0
        assert answers < 6 * KILOBYTE


def test_an_update_that_finds_nothing_to_do(
    walled: RealRegistry, flux_releases: Path, pair: program.Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    channel = published(walled, NEWEST, flux_releases, pair)
    with Forge(releases=flux_releases) as github:
        config = from_github(program.configuration(tmp_path / "config.yaml", channel, flux_releases), github)
        arguments = ("update", "production", "--config", config, *pair.signing)
        found = program.succeed(*arguments, GITHUB_API_URL=github.url, GITHUB_TOKEN=TOKEN)
        assert (found["changed"], found["healed"], found["signature"]) == (False, False, "verified")
        # Beside what a check asks: is the record of the channel there and ours, and does a later one supersede it?
        stages = [*alone(*DOOR), ["GET signature 200", *NO_API, "GET fallback 200", "GET tags 200"]]
        assert in_stages(walled, stages), said(walled)
        assert [(query.method, query.path) for query in github.requests] == [("POST", "/graphql")]
    show(capsys, "an update that finds nothing to do", said(walled), {"requests to GitHub": 1})


def test_a_patch_that_is_published(
    walled: RealRegistry, flux_releases: Path, pair: program.Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    channel = published(walled, "v2.8.5", flux_releases, pair)
    found = program.succeed("update", channel, "--releases", flux_releases, *pair.signing)
    assert [step["to"] for step in found["published"]] == ["v2.8.8"]
    show(capsys, "a patch that is published, its base verified", said(walled))
    said_of_base = [*NO_API, "GET fallback 200"]  # whose it is, and whether it has holds
    read = [*alone(*DOOR), ["GET signature 200", *said_of_base, "GET tags 200", "GET blob 200"]]
    assert in_stages(walled, [*read, *publication(first=False)]), said(walled)
    assert len(said(walled)) == 27


def test_a_patch_where_the_registry_lists_referrers(
    referrers_registry: RealRegistry, flux_releases: Path, pair: program.Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    channel = published(referrers_registry, "v2.8.5", flux_releases, pair)
    found = program.succeed("update", channel, "--releases", flux_releases, *pair.signing)
    assert [step["to"] for step in found["published"]] == ["v2.8.8"]
    show(capsys, "a patch, without a token wall, and with the referrers API", said(referrers_registry))
    said_of_base = [*API, *LISTED]
    read = [["GET channel 200"], ["GET signature 200", *said_of_base, "GET tags 200", "GET blob 200"]]
    stages = [*read, *publication(first=False, api=True)]
    assert in_stages(referrers_registry, stages), said(referrers_registry)
    assert len(said(referrers_registry)) == 25


def test_a_first_artifact(
    walled: RealRegistry, flux_releases: Path, pair: program.Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    channel = program.channel(walled.host, REPOSITORY)
    program.succeed("init", channel, "--flux-version", NEWEST, "--releases", flux_releases, *pair.signing)
    show(capsys, "a first artifact", said(walled))
    door = ["HEAD channel 401", "GET token 200", "HEAD channel 404"]
    holds = "GET tags 404"  # of a channel that was deleted
    assert in_stages(walled, [*alone(*door, holds), *publication(first=True)]), said(walled)
    assert len(said(walled)) == 27


RECORD = ["GET digest 200"]  # looked at, for it might be a bundle
BUNDLE = ["GET digest 200", "GET blob 200"]
PAYLOAD = ["GET blob 200"]  # known, and looked at because clusters need it to be there
# Whether the channel is where its records have it.
PLACED = ["GET fallback 200", "GET tags 200"]


@pytest.mark.parametrize(
    ("form", "most", "expected"),
    [
        pytest.param("legacy", 10, ["GET signature 200", *PAYLOAD, *NO_API, "GET fallback 200", *RECORD], id="a .sig"),
        pytest.param(
            "both", 12, ["GET signature 200", *PAYLOAD, *NO_API, "GET fallback 200", *BUNDLE, *RECORD], id="both"
        ),
        pytest.param("bundle", 11, ["GET signature 404", *NO_API, "GET fallback 200", *BUNDLE, *RECORD], id="a bundle"),
    ],
)
def test_verifying_for_all_clusters(
    *,
    form: str,
    most: int,
    expected: list[str],
    walled: RealRegistry,
    flux_releases: Path,
    pair: program.Pair,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    channel = program.channel(walled.host, REPOSITORY)
    config = program.configuration(tmp_path / "config.yaml", channel, flux_releases)
    config.write_text(
        config.read_text().replace('"name": "production"', '"name": "production", "minimumFlux": "2.8.6"')
    )
    begin = ("--flux-version", NEWEST, "--signature-format", form, "--config", config, *pair.signing)
    program.succeed("init", "production", *begin)
    walled.proxy.forget()
    log_in(walled, READER.name, tmp_path, monkeypatch)
    found = program.succeed("verify", channel, "--public-key", pair.public)
    accepted = {row["flux"] for row in found["clusters"] if row["accepts"]}
    assert ("2.7" in accepted, "2.9" in accepted) == (form != "bundle", True)
    show(capsys, f"verify, signed as {form}", said(walled))
    assert in_stages(walled, [*alone(*DOOR, *expected), PLACED]), said(walled)
    assert len(said(walled)) <= most
