"""Referrers: lists that the writers keep between them without losing any, and what a registry says of its API."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.index import Index
from ci_automation.artifact.manifest import OCI_INDEX, OCI_MANIFEST, Descriptor
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.errors import Conflict, RegistryError
from ci_automation.net.waiting import Clock, Patience
from ci_automation.registry import http, transport
from ci_automation.registry.contents import MAX_MERGES, merge
from ci_automation.registry.credentials import Anonymous
from ci_automation.registry.http import HttpRegistry
from ci_automation.registry.port import AccessDenied, NotAnIndex, NotFound, ReferrerLost, TagMoved, UnexpectedAnswer
from tests.contract.hostile_registry import HostileRegistry, Reply, Seen, in_turn
from tests.contract.loopback_registry import LoopbackRegistry
from tests.contract.registry_contract import NOBODY, attach, note, publish
from tests.fakes.registry import Asked, InMemoryRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AT = Reference.parse("oci://registry.example/acme/flux:production")
TAG = AT.at_tag(f"sha256-{NOBODY.hex}")
OURS = note(b"ours", NOBODY)
THEIRS = Descriptor(OCI_MANIFEST, Digest("7" * 64), 3, {"theirs": "yes"}, "application/vnd.example.theirs")


@dataclass
class Shelf:
    """A place for one index, where somebody else may act before each look and each write."""

    before_read: Callable[[int], None] = lambda _: None
    before_write: Callable[[int], None] = lambda _: None
    index: Index = field(default_factory=Index.build)
    reads: int = 0
    writes: int = 0
    seconds: float = 0.0
    slept: list[float] = field(default_factory=list)

    def read_index(self, tag: Reference) -> Index:
        assert tag == TAG
        self.reads += 1
        self.before_read(self.reads)
        return self.index

    def write_index(self, tag: Reference, index: Index) -> None:
        assert tag == TAG
        self.writes += 1
        self.before_write(self.writes)
        self.index = index

    @property
    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.seconds, sleep=self.slept.append)

    def merge(self, entry: Descriptor) -> None:
        merge(self, TAG, entry, self.clock)


ENTRY = OURS.referral[1]


class TestMerge:
    def test_the_first_makes_the_index(self) -> None:
        shelf = Shelf()
        shelf.merge(ENTRY)
        assert shelf.index == Index.build((ENTRY,))
        assert (shelf.reads, shelf.writes) == (2, 1)

    def test_others_stay(self) -> None:
        shelf = Shelf(index=Index.build((THEIRS,)))
        shelf.merge(ENTRY)
        assert shelf.index.manifests == (THEIRS, ENTRY)

    def test_what_is_listed_is_not_written_again_whatever_is_said_of_it(self) -> None:
        present = Index.build((Descriptor(OCI_MANIFEST, OURS.digest, len(OURS.raw)),))
        shelf = Shelf(index=present)
        shelf.merge(ENTRY)
        assert (shelf.index, shelf.reads, shelf.writes, shelf.slept) == (present, 1, 0, [])

    def test_what_another_writer_overwrote_is_merged_again(self) -> None:
        shelf = Shelf()

        def overwrite(read: int) -> None:
            if read == 2:  # after our write, before our look back
                shelf.index = Index.build((THEIRS,))

        shelf.before_read = overwrite
        shelf.merge(ENTRY)
        assert shelf.index.manifests == (THEIRS, ENTRY)
        assert (shelf.reads, shelf.writes) == (3, 2)

    def test_a_tag_that_moved_during_a_repeated_write_is_looked_at_anew(self) -> None:
        shelf = Shelf()

        def lose(write: int) -> None:
            if write == 1:
                shelf.index = Index.build((THEIRS,))
                raise TagMoved(TAG, None, shelf.index.digest)

        shelf.before_write = lose
        shelf.merge(ENTRY)
        assert shelf.index.manifests == (THEIRS, ENTRY)

    def test_there_is_an_end_to_it_that_says_so(self) -> None:
        shelf = Shelf()

        def overwrite(_: int) -> None:
            shelf.index = Index.build((THEIRS,))

        shelf.before_read = overwrite
        with pytest.raises(ReferrerLost, match=f"{TAG} was written 5 times to list {OURS.digest}") as caught:
            shelf.merge(ENTRY)
        assert isinstance(caught.value, Conflict)
        assert (shelf.reads, shelf.writes) == (MAX_MERGES + 1, MAX_MERGES)
        assert shelf.index.manifests == (THEIRS,)

    @pytest.mark.parametrize(
        ("took", "waited"),
        [
            pytest.param(0.0, 0.025, id="a moment at least"),
            pytest.param(0.4, 0.4, id="as long as look and write took"),
            pytest.param(60.0, 5.0, id="not for ever"),
        ],
    )
    def test_a_writer_of_the_same_speed_is_waited_for(self, took: float, waited: float) -> None:
        shelf = Shelf()

        def write(_: int) -> None:
            shelf.seconds += took

        shelf.before_write = write
        shelf.merge(ENTRY)
        assert shelf.slept == [pytest.approx(waited)]

    def test_a_writer_who_looked_before_we_wrote_and_writes_before_we_look_back_loses_us_nothing(self) -> None:
        shelf = Shelf()
        stale = shelf.index  # what the other one saw

        def they_write(_: float) -> None:
            if stale.digest != shelf.index.digest and not shelf.index.lists(THEIRS.digest):
                shelf.index = stale.with_entry(THEIRS)

        merge(shelf, TAG, ENTRY, Clock(monotonic=lambda: 0.0, sleep=they_write))
        assert {entry.digest for entry in shelf.index.manifests} == {THEIRS.digest, OURS.digest}


class TestInMemory:
    def test_the_calls_of_the_fallback_tag_can_be_crashed_between(self) -> None:
        registry = InMemoryRegistry(referrers_api=False)
        for data in (b"{}", b"ours"):
            registry.put_blob(AT, data)
        registry.requests.clear()

        def crash(asked: Asked) -> None:
            if asked.method == "write_index":
                raise KeyboardInterrupt

        registry.before = crash
        with pytest.raises(KeyboardInterrupt):
            registry.put_referrer(AT, OURS)
        assert registry.requests == [("put_referrer", str(AT.at_digest(OURS.digest))), ("read_index", str(TAG))]
        registry.before = lambda _: None
        assert registry.referrers(AT, NOBODY) == ()
        registry.put_referrer(AT, OURS)
        assert [asked.method for asked in registry.requests[2:]] == [
            *("referrers", "read_index", "put_referrer", "read_index", "write_index", "read_index")
        ]
        assert registry.referrers(AT, NOBODY) == (ENTRY,)


@dataclass
class Counter:
    """A good registry, with somebody who comes first: `before` may answer in its place."""

    registry: LoopbackRegistry
    before: Callable[[Seen], Reply | None] = lambda _: None

    def __call__(self, seen: Seen) -> Reply:
        return self.before(seen) or self.registry(seen)


@pytest.fixture
def counter() -> Counter:
    return Counter(LoopbackRegistry(api=False, says_so=False))


@pytest.fixture
def server(counter: Counter) -> Iterator[HostileRegistry]:
    with HostileRegistry(counter) as running:
        yield running


@pytest.fixture
def at(server: HostileRegistry) -> Reference:
    return Reference.parse(f"oci://{server.host}/acme/flux:production")


@pytest.fixture
def registry(server: HostileRegistry) -> Iterator[HttpRegistry]:
    patience = Patience(clock=Clock(sleep=lambda _: None))
    with closing(HttpRegistry(server.host, Anonymous(), patience=patience)) as opened:
        yield opened


def asked(server: HostileRegistry) -> list[str]:
    """Return what was asked since the last time, digests left out."""
    seen = [str(each).replace(NOBODY.hex, "0").replace(str(OURS.digest), "ours") for each in server.seen]
    server.seen.clear()
    return seen


def ready(registry: HttpRegistry, at: Reference, server: HostileRegistry) -> None:
    """Put the blobs of our referrer there."""
    for data in (b"{}", b"ours"):
        registry.put_blob(at, data)
    server.seen.clear()


LIST = {"Content-Type": OCI_INDEX}
AMBIGUOUS = Index.build().raw.replace(b'"manifests"', b'"Manifests":[],"manifests"')
API = "GET referrers/sha256:0"
READ, WRITE = "GET manifests/sha256-0", "PUT manifests/sha256-0"
STORE = "PUT manifests/ours"


class TestRequests:
    """The numbers: each line is a request, and there is no other."""

    def test_with_the_api(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, counter: Counter
    ) -> None:
        counter.registry = LoopbackRegistry()
        ready(registry, at, server)
        registry.put_referrer(at, OURS)
        assert asked(server) == [STORE]
        assert registry.referrers(at, NOBODY) == (ENTRY,)
        assert asked(server) == [API]

    def test_without_it(self, server: HostileRegistry, registry: HttpRegistry, at: Reference) -> None:
        ready(registry, at, server)
        registry.put_referrer(at, OURS)
        assert asked(server) == [STORE, READ, WRITE, READ]
        registry.put_referrer(at, OURS)
        assert asked(server) == [STORE, READ]
        assert registry.referrers(at, NOBODY) == (ENTRY,)
        assert asked(server) == [API, READ]

    def test_an_api_that_a_digest_is_known_to_lack_is_asked_for_once(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        subject = publish(registry, at).digest
        server.seen.clear()
        assert registry.referrers(at, subject) == ()
        assert registry.referrers(at, subject) == ()
        assert registry.referrers(at, NOBODY) == ()
        assert [str(each).partition("/")[0] for each in server.seen] == [
            *("GET referrers", "GET manifests", "GET manifests", "GET manifests")
        ]

    @pytest.mark.parametrize("status", [400, 406])
    def test_these_say_that_there_is_no_api_whatever_the_digest(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, counter: Counter, status: int
    ) -> None:
        counter.before = lambda seen: Reply(status) if "/referrers/" in seen.path else None
        assert registry.referrers(at, NOBODY) == registry.referrers(at, NOBODY) == ()
        assert asked(server) == [API, READ, READ]

    @pytest.mark.parametrize(
        "reply",
        [
            pytest.param(Reply(200, b"<!DOCTYPE html>", {"Content-Type": "text/html"}), id="a web page"),
            pytest.param(Reply.json({"errors": []}, 200), id="JSON"),
            pytest.param(Reply(200, Index.build((THEIRS,)).raw), id="no media type"),
            pytest.param(
                Reply(200, Index.build((THEIRS,)).raw, {"Content-Type": f"{OCI_INDEX}; charset=utf-8"}), id="parameters"
            ),
        ],
    )
    def test_an_answer_that_does_not_say_that_it_is_a_list_is_no_api_as_flux_takes_it(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, counter: Counter, reply: Reply
    ) -> None:
        """Flux and cosign then read the tag, so that it has to be there whatever the registry says of subjects."""
        counter.registry = LoopbackRegistry()
        counter.before = lambda seen: reply if "/referrers/" in seen.path else None
        assert registry.referrers(at, NOBODY) == registry.referrers(at, NOBODY) == ()
        assert asked(server) == [API, READ, READ]
        ready(registry, at, server)
        registry.put_referrer(at, OURS)
        together, rest = (found := asked(server))[:2], found[2:]
        assert (sorted(together), rest) == (sorted([STORE, READ]), [WRITE, READ])
        assert registry.referrers(at, NOBODY) == (ENTRY,)

    def test_a_digest_that_is_not_there_says_nothing_of_the_api(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, counter: Counter
    ) -> None:
        counter.registry = LoopbackRegistry()
        counter.before = lambda seen: Reply(404) if "/referrers/" in seen.path else None
        assert registry.referrers(at, NOBODY) == ()
        counter.before = lambda _: None
        attach(registry, at, OURS, b"ours")
        asked(server)
        assert registry.referrers(at, NOBODY) == (ENTRY,)
        assert asked(server) == [API]

    @pytest.mark.parametrize("header", [{}, {"OCI-Subject": str(Digest("1" * 64))}], ids=["none", "another digest"])
    def test_an_api_that_does_not_take_the_subject_is_helped(
        self,
        server: HostileRegistry,
        registry: HttpRegistry,
        at: Reference,
        counter: Counter,
        header: dict[str, str],
    ) -> None:
        counter.registry = LoopbackRegistry()
        ready(registry, at, server)

        def take(seen: Seen) -> Reply | None:
            if OURS.digest.hex not in seen.path:
                return None
            counter.registry(seen)
            return Reply(201, headers=header)

        counter.before = take
        registry.put_referrer(at, OURS)
        assert asked(server) == [STORE, READ, WRITE, READ]


class TestLists:
    def test_they_come_on_pages(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, counter: Counter
    ) -> None:
        path = f"/v2/acme/flux/referrers/{NOBODY}"
        pages = {
            "": Reply(200, Index.build((THEIRS,)).raw, {**LIST, "Link": f'<{path}?page=2>; rel="next"'}),
            "page=2": Reply(200, Index.build().raw, {**LIST, "Link": "<?page=3>; rel=next"}),
            "page=3": Reply(200, Index.build((ENTRY,)).raw, LIST),
        }
        counter.before = lambda seen: pages[seen.path.partition("?")[2]]
        assert registry.referrers(at, NOBODY) == (THEIRS, replace(ENTRY, later_page=True))
        assert {seen.headers["accept"] for seen in server.seen} == {OCI_INDEX}

    def test_they_end(
        self,
        server: HostileRegistry,
        registry: HttpRegistry,
        at: Reference,
        counter: Counter,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(transport, "MAX_PAGES", 3)
        counter.before = lambda _: Reply(200, Index.build((THEIRS,)).raw, {**LIST, "Link": "<?more>; rel=next"})
        with pytest.raises(UnexpectedAnswer, match="never ends its list of the referrers of"):
            registry.referrers(at, NOBODY)
        assert len(server.seen) == 3
        monkeypatch.setattr(http, "MAX_ENTRIES", 1)
        with pytest.raises(UnexpectedAnswer, match="never ends its list of the referrers of"):
            registry.referrers(at, NOBODY)
        assert len(server.seen) == 5

    def test_another_host_does_not_continue_them(self, registry: HttpRegistry, at: Reference, counter: Counter) -> None:
        counter.before = lambda _: Reply(
            200, Index.build().raw, {**LIST, "Link": "<http://127.0.0.1:1/more>; rel=next"}
        )
        with pytest.raises(UnexpectedAnswer, match="at another host"):
            registry.referrers(at, NOBODY)

    def test_a_page_that_is_missing_is_no_end(self, registry: HttpRegistry, at: Reference, counter: Counter) -> None:
        counter.before = in_turn(Reply(200, Index.build().raw, {**LIST, "Link": "<?more>; rel=next"}), Reply(404))
        with pytest.raises(UnexpectedAnswer, match="404"):
            registry.referrers(at, NOBODY)

    @pytest.mark.parametrize(
        ("reply", "error", "says"),
        [
            pytest.param(Reply(200, OURS.raw, LIST), UnexpectedAnswer, "200 with", id="a manifest"),
            pytest.param(Reply(200, AMBIGUOUS, LIST), UnexpectedAnswer, "200 with", id="another list to Go"),
            pytest.param(Reply(200, b"", LIST), UnexpectedAnswer, "200 with", id="nothing"),
            pytest.param(Reply(200, b" " * (5 << 20)), UnexpectedAnswer, "more than", id="too much"),
            pytest.param(Reply(303, headers={"Location": "/-/packages"}), UnexpectedAnswer, "303", id="in circles"),
            pytest.param(Reply(405), UnexpectedAnswer, "405", id="405"),
            pytest.param(Reply(500), UnexpectedAnswer, "500", id="500"),
            pytest.param(Reply(429), UnexpectedAnswer, "429", id="429"),
            pytest.param(Reply(403), AccessDenied, "403", id="403"),
        ],
    )  # fmt: skip
    def test_what_is_no_list_and_no_lack_of_one_is_an_error(
        self,
        registry: HttpRegistry,
        at: Reference,
        counter: Counter,
        reply: Reply,
        error: type[RegistryError],
        says: str,
    ) -> None:
        attach(registry, at, OURS, b"ours")
        counter.before = lambda seen: None if "/manifests/" in seen.path else reply
        with pytest.raises(error, match=says):
            registry.referrers(at, NOBODY)

    def test_the_tag_is_not_believed_to_have_another_digest_than_its_bytes(
        self, registry: HttpRegistry, at: Reference, counter: Counter
    ) -> None:
        counter.before = lambda seen: (
            Reply(200, Index.build().raw, {"Docker-Content-Digest": str(NOBODY)})
            if "/manifests/" in seen.path
            else None
        )
        with pytest.raises(RegistryError, match=NOBODY.hex):
            registry.referrers(at, NOBODY)


class TestFallback:
    def test_what_is_not_understood_stays_too(self, registry: HttpRegistry, at: Reference, counter: Counter) -> None:
        theirs: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
            "manifests": [{**THEIRS.to_json(), "platform": {"os": "linux"}, "data": "e30=", "x-new": [1, 2.5, None]}],
            "annotations": {"kept-by": "somebody"},
        }
        put_tag(counter, json.dumps(theirs, indent=1).encode())
        attach(registry, at, OURS, b"ours")
        assert json.loads(tagged(counter)) == theirs | {"manifests": [*theirs["manifests"], ENTRY.to_json()]}

    def test_another_writer_between_our_write_and_our_look_back_loses_us_nothing(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, counter: Counter
    ) -> None:
        ready(registry, at, server)

        def overwrite(seen: Seen) -> None:
            if seen.method == "GET" and sum(str(each) == str(seen) for each in server.seen) == 2:
                put_tag(counter, Index.build((THEIRS,)).raw)

        counter.before = overwrite
        registry.put_referrer(at, OURS)
        assert asked(server) == [STORE, READ, WRITE, READ, WRITE, READ]
        assert Index.parse(tagged(counter)).manifests == (THEIRS, ENTRY)

    def test_a_write_that_broke_off_is_not_repeated_over_another_ones(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, counter: Counter
    ) -> None:
        ready(registry, at, server)

        def break_off(seen: Seen) -> Reply | None:
            if seen.method != "PUT" or not seen.path.endswith(TAG.name):
                return None
            counter.before = lambda _: None
            put_tag(counter, Index.build((THEIRS,)).raw)  # over ours, which was written
            return Reply(then="reset")

        counter.before = break_off
        registry.put_referrer(at, OURS)
        assert asked(server) == [STORE, READ, WRITE, "HEAD manifests/sha256-0", READ, WRITE, READ]
        assert Index.parse(tagged(counter)).manifests == (THEIRS, ENTRY)

    def test_a_tag_that_names_something_else_is_left_alone(
        self, registry: HttpRegistry, at: Reference, counter: Counter
    ) -> None:
        squatter = publish(registry, at.at_tag(TAG.name))
        for ask in (lambda: registry.referrers(at, NOBODY), lambda: attach(registry, at, OURS, b"ours")):
            with pytest.raises(NotAnIndex, match=f"{TAG.name} should be the index of the digest's referrers"):
                ask()
        assert tagged(counter) == squatter.raw

    def test_a_list_that_is_another_one_to_go_is_left_alone(
        self, registry: HttpRegistry, at: Reference, counter: Counter
    ) -> None:
        """What we would merge into it, no cluster would see."""
        put_tag(counter, AMBIGUOUS)
        for ask in (lambda: registry.referrers(at, NOBODY), lambda: attach(registry, at, OURS, b"ours")):
            with pytest.raises(NotAnIndex, match="its key 'Manifests' is 'manifests' to Go"):
                ask()
        assert tagged(counter) == AMBIGUOUS

    def test_a_blob_that_is_missing_is_said_before_anything_is_listed(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        with pytest.raises(NotFound, match="MANIFEST_BLOB_UNKNOWN"):
            registry.put_referrer(at, OURS)
        assert asked(server) == [STORE]


def put_tag(counter: Counter, raw: bytes) -> None:
    """Be another writer, whose referrer is there too."""
    repository = counter.registry.repositories["acme/flux"]
    repository.manifests[THEIRS.digest] = b"{}"
    repository.manifests[Digest.of(raw)] = raw
    repository.tags[TAG.name] = Digest.of(raw)


def tagged(counter: Counter) -> bytes:
    """Return what the tag names."""
    repository = counter.registry.repositories["acme/flux"]
    return repository.manifests[repository.tags[TAG.name]]
