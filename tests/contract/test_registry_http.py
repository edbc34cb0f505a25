"""What the HTTP registry does when a registry answers as no good one would."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.index import Index
from ci_automation.artifact.manifest import FLUX_LAYER, OCI_INDEX, OCI_MANIFEST, Descriptor, InvalidManifest, Manifest
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.errors import RegistryError
from ci_automation.net import session
from ci_automation.net.network import Network
from ci_automation.net.waiting import Clock, Patience, Watch
from ci_automation.registry import http, transport
from ci_automation.registry.credentials import Anonymous
from ci_automation.registry.http import HttpRegistry
from ci_automation.registry.port import (
    MAX_BLOB_BYTES,
    MAX_MANIFEST_BYTES,
    AccessDenied,
    ContentMismatch,
    DeletionRefused,
    NotFound,
    OtherRegistry,
    TagMoved,
    UnexpectedAnswer,
    Unreachable,
)
from tests.contract.hostile_registry import HostileRegistry, Reply, Seen, in_turn
from tests.contract.registry_contract import NOBODY, artifact, note

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event

DATA = b"the bytes of a layer"
LAYER = Descriptor.of(FLUX_LAYER, DATA)
GONE = Reply.json({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}, 404)
PAGE = Reply(200, b"<!DOCTYPE html><title>Sign in\x1b[2J</title>", {"Content-Type": "text/html; charset=utf-8"})
MANIFEST = Reply(200, artifact().raw, {"Content-Type": OCI_MANIFEST})
CREATED = Reply(201)
RESET = Reply(then="reset")


@dataclass
class Time:
    """A clock that goes on by itself, and does not sleep."""

    tick: float = 0.0
    seconds: float = 0.0
    slept: list[float] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        return Clock(self._monotonic, lambda: 1_800_000_000.0, self._sleep)

    def _monotonic(self) -> float:
        self.seconds += self.tick
        return self.seconds

    def _sleep(self, wait: float) -> None:
        self.slept.append(wait)
        self.seconds += wait


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def at(server: HostileRegistry) -> Reference:
    return Reference.parse(f"oci://{server.host}/acme/flux:production")


@pytest.fixture
def registry(server: HostileRegistry, time: Time) -> Iterator[HttpRegistry]:
    opened = HttpRegistry(server.host, Anonymous(), patience=Patience(clock=time.clock))
    yield opened
    opened.close()


def fetched(registry: HttpRegistry, at: Reference, descriptor: Descriptor) -> bytes:
    """Return a blob by way of a file."""
    file = BytesIO(b"of an attempt that broke off")
    registry.fetch_blob(at, descriptor, file)
    return file.getvalue()


def read(registry: HttpRegistry, at: Reference, descriptor: Descriptor) -> bytes:
    return registry.blob(at, descriptor)


both_ways = pytest.mark.parametrize("way", [read, fetched])
Asking = Callable[[HttpRegistry, Reference], object]
READS: list[tuple[str, Asking]] = [
    ("resolve", lambda registry, at: registry.resolve(at)),
    ("manifest", lambda registry, at: registry.manifest(at)),
    ("stored", lambda registry, at: registry.stored(at)),
    ("blob", lambda registry, at: registry.blob(at, LAYER)),
    ("has_blob", lambda registry, at: registry.has_blob(at, LAYER)),
    ("fetch_blob", lambda registry, at: fetched(registry, at, LAYER)),
    ("tags", lambda registry, at: registry.tags(at)),
    ("referrers", lambda registry, at: registry.referrers(at, NOBODY)),
]
WRITES: list[tuple[str, Asking]] = [
    ("put_blob", lambda registry, at: registry.put_blob(at, DATA)),
    ("send_blob", lambda registry, at: registry.send_blob(at, LAYER, BytesIO(DATA))),
    ("put_manifest", lambda registry, at: registry.put_manifest(at, artifact())),
    ("put_referrer", lambda registry, at: registry.put_referrer(at, note(b"a note", NOBODY))),
]
reads = pytest.mark.parametrize("ask", [pytest.param(ask, id=name) for name, ask in READS])
everything = pytest.mark.parametrize("ask", [pytest.param(ask, id=name) for name, ask in (*READS, *WRITES)])


class TestLies:
    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(b"other bytes, as many!", id="other bytes"),
            pytest.param(DATA[:-1], id="too few"),
            pytest.param(DATA + b"!", id="one too many"),
            pytest.param(DATA * 5000, id="far too many"),
            pytest.param(b"", id="none"),
        ],
    )
    @both_ways
    def test_a_blob_is_hashed_and_counted(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, way: Callable[..., bytes], body: bytes
    ) -> None:
        server.answer = in_turn(Reply(200, body))
        with pytest.raises(ContentMismatch, match=LAYER.digest.hex):
            way(registry, at, LAYER)

    @both_ways
    def test_a_blob_must_have_the_size_that_the_manifest_says(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, way: Callable[..., bytes]
    ) -> None:
        server.answer = in_turn(Reply(200, DATA))
        with pytest.raises(ContentMismatch, match=f"expected {len(DATA) + 1} bytes, got {len(DATA)} bytes"):
            way(registry, at, replace(LAYER, size=len(DATA) + 1))

    def test_a_manifest_is_not_even_sent_under_another_digest(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        with pytest.raises(ContentMismatch):
            registry.put_manifest(at.at_digest(Digest.of(b"another")), artifact())
        assert server.seen == []

    def test_a_blob_is_not_uploaded_again_nor_one_that_a_manifest_of_the_repository_names(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        manifest = Manifest.build(LAYER, (LAYER,))
        server.answer = in_turn(Reply(200, manifest.raw, {"Content-Type": manifest.media_type}))
        assert registry.manifest(at) == manifest
        assert registry.put_blob(at, DATA) == LAYER.digest
        assert [seen.method for seen in server.seen] == ["GET"]
        server.answer = in_turn(Reply(202, headers={"Location": "/upload"}), CREATED)
        for _ in range(2):
            registry.put_blob(at, b"new")
        assert [seen.method for seen in server.seen] == ["GET", "POST", "PUT"]

    def test_a_manifest_is_hashed(self, server: HostileRegistry, registry: HttpRegistry, at: Reference) -> None:
        server.answer = in_turn(MANIFEST)
        with pytest.raises(ContentMismatch):
            registry.manifest(at.at_digest(Digest.of(b"another")))

    @pytest.mark.parametrize("ask", READS[:2], ids=lambda ask: ask[0])
    def test_the_digest_that_it_states_must_be_that_of_the_bytes(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, ask: tuple[str, Asking]
    ) -> None:
        stated = {"Docker-Content-Digest": str(Digest.of(b"another"))}
        server.answer = in_turn(dataclasses.replace(MANIFEST, headers={**MANIFEST.headers, **stated}))
        digest = artifact().digest
        with pytest.raises(ContentMismatch):
            ask[1](registry, at.at_digest(digest))

    def test_a_tag_is_not_believed_to_have_another_digest_than_its_bytes(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        stated = {"Docker-Content-Digest": str(Digest.of(b"another"))}
        server.answer = in_turn(dataclasses.replace(MANIFEST, headers={**MANIFEST.headers, **stated}))
        with pytest.raises(ContentMismatch):
            registry.manifest(at)

    @pytest.mark.parametrize("stated", [{}, {"Docker-Content-Digest": "sha512:beef"}], ids=["none", "not ours"])
    def test_without_a_stated_digest_the_bytes_are_hashed(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, stated: dict[str, str]
    ) -> None:
        server.answer = in_turn(dataclasses.replace(MANIFEST, headers={**MANIFEST.headers, **stated}))
        assert registry.resolve(at) == artifact().digest
        assert server.asked == ["HEAD manifests/production", "GET manifests/production"]

    def test_what_it_says_to_have_stored_must_be_what_it_was_sent(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        server.answer = in_turn(Reply(201, headers={"Docker-Content-Digest": str(Digest.of(b"another"))}))
        with pytest.raises(ContentMismatch, match=r"as 127\.0\.0\.1"):
            registry.put_manifest(at, artifact())

    def test_a_blob_too_is_stored_as_it_was_sent(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        stored = Reply(201, headers={"Docker-Content-Digest": str(Digest.of(b"another"))})
        server.answer = in_turn(Reply(202, headers={"Location": "/upload"}), stored)
        with pytest.raises(ContentMismatch):
            registry.put_blob(at, DATA)


class TestNonsense:
    @everything
    def test_a_web_page_is_no_answer_of_a_registry(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, ask: Asking
    ) -> None:
        server.answer = lambda _: PAGE
        if ask is WRITES[2][1]:  # a PUT that ends well says nothing
            server.answer = in_turn(dataclasses.replace(PAGE, status=418))
        with pytest.raises(UnexpectedAnswer, match="text/html") as caught:
            ask(registry, at)
        assert server.host in str(caught.value)
        assert "\x1b" not in str(caught.value)

    def test_a_manifest_that_says_how_it_begins_is_a_page(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        server.answer = in_turn(dataclasses.replace(PAGE, headers={}))
        with pytest.raises(UnexpectedAnswer, match="no media type: <!DOCTYPE html><title>Sign in"):
            registry.manifest(at)

    @pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"null", b'{"schemaVersion": 1}', b"\xff", b"[" * 100_000])
    def test_what_is_no_manifest_is_refused(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, body: bytes
    ) -> None:
        server.answer = in_turn(Reply(200, body))
        with pytest.raises(InvalidManifest):
            registry.manifest(at)

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"[]",
            b'{"tags": "a"}',
            b'{"tags": [1]}',
            b'{"tags": ["a b"]}',
            b'{"tags": ["../x"]}',
            b"{",
            b"[" * 100_000,
        ],
    )
    def test_what_is_no_list_of_tags_is_refused(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, body: bytes
    ) -> None:
        server.answer = in_turn(Reply(200, body))
        with pytest.raises(UnexpectedAnswer, match="the tags of"):
            registry.tags(at)

    def test_no_tags_at_all_is_none(self, server: HostileRegistry, registry: HttpRegistry, at: Reference) -> None:
        server.answer = in_turn(Reply.json({"name": "acme/flux", "tags": None}))
        assert registry.tags(at) == ()

    def test_that_a_repository_has_no_tags_is_not_believed_of_one_whose_tag_was_read(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        server.answer = lambda seen: MANIFEST if seen.path.endswith(f"manifests/{at.tag}") else Reply(404)
        assert registry.tags(at) == ()
        registry.manifest(at)
        with pytest.raises(UnexpectedAnswer, match=r"the tags of .* answered 404"):
            registry.tags(at)
        assert registry.tags(Reference.parse(f"oci://{server.host}/acme/other")) == ()

    def test_a_page_that_is_not_there_ends_no_list_of_tags(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        first = Reply.json({"tags": ["a"]}, Link="</v2/acme/flux/tags/list?last=a>; rel=next")
        server.answer = in_turn(first, Reply(404))
        with pytest.raises(UnexpectedAnswer, match=r"the tags of .* answered 404"):
            registry.tags(at)

    @everything
    @pytest.mark.parametrize("status", [205, 300, 304, 400, 409, 416, 500, 501, 599])
    def test_other_statuses_are_said_and_not_tried_again(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, ask: Asking, status: int, time: Time
    ) -> None:
        server.answer = in_turn(Reply.json({"errors": [{"code": "ODD", "message": "a\nb\x1b[31m"}]}, status))
        with pytest.raises(UnexpectedAnswer, match=rf"\b{status}\b") as caught:
            ask(registry, at)
        assert str(caught.value).isprintable()
        assert len(server.asked) == len(set(server.asked))  # for the referrers' tag 400 is an answer, and it is read
        assert time.slept == []

    @pytest.mark.parametrize("location", [None, "", "http://[::1", "ftp://x/", "/../../x y", "https://u:p@127.0.0.1/x"])
    def test_an_upload_that_leads_nowhere_ends_in_an_error(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, location: str | None
    ) -> None:
        headers = {} if location is None else {"Location": location}
        server.answer = lambda seen: {"POST": Reply(202, headers=headers)}.get(seen.method, Reply(400))
        with pytest.raises(UnexpectedAnswer):
            registry.put_blob(at, DATA)

    def test_a_refused_upload_names_the_repository(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        server.answer = in_turn(Reply.json({"errors": [{"code": "NAME_UNKNOWN"}]}, 404))
        with pytest.raises(NotFound, match=r"acme/flux was not found \(404 NAME_UNKNOWN\)"):
            registry.put_blob(at, DATA)

    def test_an_upload_keeps_the_state_in_its_address(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        location = {"Location": f"http://{server.host}/v2/acme/flux/blobs/uploads/1?_state=a%2Bb&&empty="}
        server.answer = in_turn(Reply(202, headers=location), CREATED)
        registry.put_blob(at, DATA)
        assert server.seen[1].path == (
            f"/v2/acme/flux/blobs/uploads/1?_state=a%2Bb&&empty=&digest=sha256%3A{LAYER.digest.hex}"
        )
        assert server.seen[1].body == DATA

    def test_a_reference_to_another_registry_is_a_mistake(
        self, registry: HttpRegistry, server: HostileRegistry
    ) -> None:
        for text in ("oci://registry.example/acme/flux:production", "layout:here:production"):
            with pytest.raises(OtherRegistry):
                registry.resolve(Reference.parse(text))
        assert server.seen == []


class TestDeletion:
    @pytest.mark.parametrize("status", [400, 405, 501])
    def test_a_registry_that_does_not_delete_is_told(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, status: int
    ) -> None:
        body = {"errors": [{"code": "UNSUPPORTED", "message": "The operation is unsupported."}]}
        server.answer = lambda _: Reply.json(body, status)
        with pytest.raises(DeletionRefused, match=f"{status} UNSUPPORTED"):
            registry.delete_manifest(at.at_digest(NOBODY))

    def test_one_that_does_not_know_how_and_still_has_it_is_told_too(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        def answer(seen: Seen) -> Reply:
            return Reply(404) if seen.method == "DELETE" else Reply(200, headers={"Content-Type": OCI_MANIFEST})

        server.answer = answer
        with pytest.raises(DeletionRefused, match="404"):
            registry.delete_manifest(at.at_digest(NOBODY))

    def test_one_that_does_not_have_it_any_more_is_no_failure(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        server.answer = lambda _: Reply(404)
        registry.delete_manifest(at.at_digest(NOBODY))
        assert [seen.method for seen in server.seen] == ["DELETE", "HEAD"]


class TestLimits:
    @pytest.mark.parametrize("ask", [READS[1], READS[2], READS[6]], ids=lambda ask: ask[0])
    def test_an_answer_without_end_is_cut_off(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, ask: tuple[str, Asking]
    ) -> None:
        server.answer = in_turn(
            Reply(headers={"Content-Length": str(1 << 40)}, then="drip", sent=b" " * MAX_MANIFEST_BYTES)
        )
        with pytest.raises(UnexpectedAnswer, match=f"more than the {MAX_MANIFEST_BYTES} bytes"):
            ask[1](registry, at)

    @both_ways
    def test_a_blob_without_end_is_cut_off(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, way: Callable[..., bytes]
    ) -> None:
        server.answer = in_turn(Reply(headers={"Content-Length": str(1 << 40)}, then="drip"))
        with pytest.raises(ContentMismatch):
            way(registry, at, LAYER)

    def test_a_blob_that_is_too_large_is_not_even_asked_for(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        with pytest.raises(UnexpectedAnswer, match="more than the limit"):
            registry.blob(at, replace(LAYER, size=MAX_BLOB_BYTES + 1))
        assert server.seen == []

    def test_an_error_without_end_is_read_a_little(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        server.answer = in_turn(Reply(400, headers={"Content-Length": str(1 << 40)}, then="drip"))
        with pytest.raises(UnexpectedAnswer, match="400"):
            registry.manifest(at)

    def test_a_redirect_without_end_is_read_a_little(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        endless = {"Content-Length": str(1 << 40), "Location": "/elsewhere"}
        server.answer = in_turn(Reply(307, headers=endless, then="drip"), MANIFEST)
        assert registry.manifest(at) == artifact()

    @pytest.mark.parametrize("status", [200, 307, 401, 404, 503])
    def test_headers_without_end_are_not_looked_at(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, status: int
    ) -> None:
        many = {f"Link-{number}": "<" * 1000 for number in range(70)}
        server.answer = in_turn(Reply(status, headers=many))
        with pytest.raises(UnexpectedAnswer, match="more than the 65536 bytes that this program reads of headers"):
            registry.tags(at)
        assert len(server.seen) == 1

    def test_more_headers_than_anybody_sends_are_no_answer(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        server.answer = in_turn(Reply(headers={f"X-{number}": "" for number in range(101)}))
        with pytest.raises(Unreachable, match="the connection broke"):
            registry.tags(at)

    def test_an_answer_that_drips_is_given_up_at_the_deadline(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, time: Time
    ) -> None:
        server.answer = in_turn(Reply(headers={"Content-Length": str(MAX_MANIFEST_BYTES)}, then="drip"))
        time.tick = 10.0
        with pytest.raises(Unreachable, match="longer than is allowed"):
            registry.manifest(at)
        assert len(server.seen) == 1

    def test_silence_is_waited_for_a_few_times(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(session, "READ_SECONDS", 0.05)
        server.answer = in_turn(Reply(then="silence"))
        with pytest.raises(Unreachable, match="does not answer in time"):
            registry.manifest(at)
        assert len(server.seen) == 4

    def test_tags_come_on_pages(self, server: HostileRegistry, registry: HttpRegistry, at: Reference) -> None:
        pages = {
            "": Reply.json({"tags": ["b", "a"]}, Link='</v2/acme/flux/tags/list?last=b&n=2>; rel="next"'),
            "last=b&n=2": Reply.json({"tags": ["c", "a"]}, Link=f"<http://{server.host}/more?x=1>; rel=next"),
            "x=1": Reply.json({"tags": ["d"]}, Link="</v2/acme/flux/tags/list>; rel=prev"),
        }
        server.answer = lambda seen: pages[seen.path.partition("?")[2]]
        assert registry.tags(at) == ("a", "b", "c", "d")

    def test_pages_without_end_are_not_turned_for_ever(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(transport, "MAX_PAGES", 7)
        server.answer = in_turn(Reply.json({"tags": ["a"]}, Link="</v2/acme/flux/tags/list?last=a>; rel=next"))
        with pytest.raises(UnexpectedAnswer, match="never ends"):
            registry.tags(at)
        assert len(server.seen) == 7

    def test_large_pages_come_to_an_end_before_they_fill_the_memory(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        large = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [], "annotations": {"a": "x" * (4_000_000)}}
        server.answer = lambda _: Reply.json(large, Link="<?more>; rel=next", Content_Type=OCI_INDEX)
        with pytest.raises(UnexpectedAnswer, match="never ends its list of the referrers of"):
            registry.referrers(at, Digest.of(b""))
        assert len(server.seen) == 5

    def test_too_many_tags_are_too_many(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http, "MAX_TAGS", 2)
        server.answer = in_turn(Reply.json({"tags": ["a", "b", "c"]}, Link="</more>; rel=next"))
        with pytest.raises(UnexpectedAnswer, match="never ends"):
            registry.tags(at)


class TestPatience:
    @everything
    @pytest.mark.parametrize("status", [429, 502, 503, 504])
    def test_a_busy_registry_is_asked_again_as_it_asks(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, time: Time, ask: Asking, status: int
    ) -> None:
        server.answer = in_turn(Reply(status, headers={"Retry-After": "7"}), Reply(status), Reply(500))
        with pytest.raises(RegistryError, match="500"):
            ask(registry, at)
        assert time.slept == [7.0, 1.0]

    @everything
    def test_there_is_an_end_to_it(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, time: Time, ask: Asking
    ) -> None:
        server.answer = in_turn(Reply.json({"errors": [{"code": "TOOMANYREQUESTS", "message": "slow down"}]}, 429))
        with pytest.raises(UnexpectedAnswer, match="429") as caught:
            ask(registry, at)
        assert server.host in str(caught.value)
        assert len(server.seen) == 4
        assert time.slept == [0.5, 1.0, 2.0]

    @pytest.mark.parametrize(
        ("headers", "wait"),
        [
            pytest.param({"Retry-After": "0"}, 0.0, id="at once"),
            pytest.param({"Retry-After": "3600"}, 30.0, id="no longer than half a minute"),
            pytest.param({"Retry-After": "soon"}, 0.5, id="nonsense"),
            pytest.param({"Retry-After": "-5"}, 0.5, id="negative"),
            pytest.param({"Retry-After": "9" * 400}, 30.0, id="absurd"),
            pytest.param({"Retry-After": "Fri, 15 Jan 2027 08:00:09 GMT"}, 9.0, id="a date"),
            pytest.param({"Retry-After": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0.0, id="a date that was"),
            pytest.param(
                {"Retry-After": "Sat, 01 Jan 2000 00:00:04 GMT", "Date": "Sat, 01 Jan 2000 00:00:00 GMT"},
                4.0,
                id="a date by its own clock",
            ),
        ],
    )
    def test_what_it_asks_for_is_understood(
        self,
        server: HostileRegistry,
        registry: HttpRegistry,
        at: Reference,
        time: Time,
        headers: dict[str, str],
        wait: float,
    ) -> None:
        server.answer = in_turn(Reply(503, headers=headers), MANIFEST)
        assert registry.manifest(at) == artifact()
        assert time.slept == [wait]

    def test_no_wait_goes_beyond_the_deadline(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, time: Time
    ) -> None:
        server.answer = in_turn(Reply(503, headers={"Retry-After": "25"}))
        time.tick = 4.0
        with pytest.raises(UnexpectedAnswer, match="503"):
            registry.manifest(at)
        assert time.slept == [25.0]

    def test_a_registry_that_never_answers_is_told_and_given_up_after_a_minute(
        self, server: HostileRegistry, at: Reference, time: Time
    ) -> None:
        """No limit of a socket helps against headers that come byte by byte, or a name server that does not answer."""
        waited: list[float] = []

        def wait(_: Event, seconds: float) -> bool:
            waited.append(seconds)
            time.seconds += seconds
            return False

        said: list[str] = []
        server.answer = in_turn(Reply(then="silence"))
        network = Network(watch=Watch(say=said.append))
        registry = HttpRegistry(server.host, Anonymous(), network, Patience(clock=replace(time.clock, wait=wait)))
        with pytest.raises(Unreachable, match="it took longer than is allowed"):
            registry.resolve(at)
        assert said == [f"still waiting for {server.host} after 5 s"]
        assert waited == [5.0, 56.0]

    def test_each_further_attempt_is_told(self, server: HostileRegistry, at: Reference, time: Time) -> None:
        said: list[str] = []
        server.answer = in_turn(Reply(503), MANIFEST)
        network = Network(watch=Watch(say=said.append))
        HttpRegistry(server.host, Anonymous(), network, Patience(clock=time.clock)).manifest(at)
        (line,) = said
        assert line.startswith(f"{server.host} answered GET /v2/acme/flux/manifests/production with 503")
        assert line.endswith("; asking again in 0.5 s")

    @reads
    @pytest.mark.parametrize(
        "broken",
        [
            pytest.param(RESET, id="reset"),
            pytest.param(Reply(headers={"Content-Length": "9"}, sent=b"x", then="close"), id="truncated"),
            pytest.param(Reply(headers={"Content-Length": "9"}, sent=b"x", then="reset"), id="reset in the middle"),
        ],
    )
    def test_what_broke_off_is_asked_for_again(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, ask: Asking, broken: Reply
    ) -> None:
        answers = {
            "HEAD manifests/production": Reply(headers={"Docker-Content-Digest": str(artifact().digest)}),
            "GET manifests/production": MANIFEST,
            f"GET blobs/{LAYER.digest}": Reply(200, DATA),
            f"HEAD blobs/{LAYER.digest}": Reply(200, DATA),
            "GET tags/list": Reply.json({"tags": ["production"]}),
            f"GET referrers/{NOBODY}": Reply(200, Index.build((LAYER,)).raw, {"Content-Type": OCI_INDEX}),
        }
        server.answer = lambda seen: (
            (RESET if seen.method == "HEAD" else broken) if len(server.seen) == 1 else answers[str(seen)]
        )
        assert ask(registry, at) in (artifact(), artifact().digest, DATA, ("production",), (LAYER,), True)
        assert len(server.seen) == 2

    def test_a_chunk_that_breaks_off_is_no_end(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        chunked = {"Transfer-Encoding": "chunked", "Content-Length": ""}
        cut = Reply(headers=chunked, sent=b'5\r\n{"a":\r\n', then="close")
        server.answer = in_turn(cut, cut, cut, cut)
        with pytest.raises(Unreachable, match="broke"):
            registry.manifest(at)
        assert len(server.seen) == 4

    @pytest.mark.parametrize("status", [401, 403, 404])
    @everything
    def test_a_no_is_a_no(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, time: Time, ask: Asking, status: int
    ) -> None:
        server.answer = in_turn(Reply(status))
        if status == 404:
            with suppress(NotFound):
                assert ask(registry, at) in (None, (), False)
        else:
            with pytest.raises(AccessDenied, match="acme/flux") as caught:
                ask(registry, at)
            assert server.host in str(caught.value)
        assert len(server.seen) <= 2
        assert time.slept == []

    @pytest.mark.parametrize("broken", [RESET, Reply(503), Reply(502, then="close")], ids=["reset", "503", "502"])
    def test_an_upload_that_breaks_off_begins_again(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, broken: Reply
    ) -> None:
        def begun(name: str) -> Reply:
            return Reply(202, headers={"Location": f"/v2/acme/flux/{name}"})

        server.answer = in_turn(broken, begun("first"), broken, begun("second"), CREATED)
        assert registry.put_blob(at, DATA) == LAYER.digest
        assert [str(seen).partition(" blobs/sha")[0] for seen in server.seen] == [
            *("POST blobs/uploads/", "POST blobs/uploads/", "PUT first", "POST blobs/uploads/", "PUT second")
        ]
        assert server.seen[-1].body == DATA


class TestTags:
    """A tag's write that failed is not repeated over what somebody else wrote since."""

    def tag(self, digest: Digest | None) -> Reply:
        return GONE if digest is None else Reply(headers={"Docker-Content-Digest": str(digest)})

    @pytest.mark.parametrize("base", [None, Digest.of(b"base")], ids=["a new tag", "a tag that moves"])
    def test_it_is_repeated_over_what_was_there(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, base: Digest | None
    ) -> None:
        server.answer = in_turn(self.tag(base), RESET, self.tag(base), CREATED)
        assert registry.resolve(at) == base
        registry.put_manifest(at, artifact())
        assert [seen.method for seen in server.seen] == ["HEAD", "PUT", "HEAD", "PUT"]

    def test_having_read_nothing_there_counts_as_having_looked(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        server.answer = in_turn(GONE, RESET, self.tag(Digest.of(b"somebody else's")))
        with pytest.raises(NotFound):
            registry.manifest(at)
        with pytest.raises(TagMoved):
            registry.put_manifest(at, artifact())

    def test_it_is_not_repeated_where_it_was_done(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        server.answer = in_turn(self.tag(Digest.of(b"base")), Reply(504), self.tag(artifact().digest))
        registry.resolve(at)
        assert registry.put_manifest(at, artifact()) == artifact().digest
        assert [seen.method for seen in server.seen] == ["HEAD", "PUT", "HEAD"]

    @pytest.mark.parametrize("now", [None, Digest.of(b"somebody else's")], ids=["removed", "moved"])
    def test_it_is_a_conflict_where_somebody_else_came_first(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference, now: Digest | None
    ) -> None:
        server.answer = in_turn(self.tag(Digest.of(b"base")), RESET, self.tag(now))
        registry.resolve(at)
        with pytest.raises(TagMoved) as caught:
            registry.put_manifest(at, artifact())
        assert caught.value.exit_code == 12
        assert [seen.method for seen in server.seen] == ["HEAD", "PUT", "HEAD"]

    def test_a_digest_and_a_tag_that_nobody_looked_at_are_repeated(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        for place in (at, at.at_digest(artifact().digest)):
            server.seen.clear()
            server.answer = in_turn(RESET, CREATED)
            registry.put_manifest(place, artifact())
            assert [seen.method for seen in server.seen] == ["PUT", "PUT"]


class TestManners:
    def test_one_connection_serves_all_requests(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        def answer(seen: Seen) -> Reply:
            if seen.path.endswith("production"):
                return MANIFEST
            return Reply.json({"tags": []}) if seen.path.endswith("list") else GONE

        server.answer = answer
        for _ in range(3):
            registry.manifest(at)
            registry.tags(at)
            assert registry.resolve(at.at_tag("none")) is None
            with pytest.raises(NotFound):
                registry.blob(at, LAYER)
        assert len(server.seen) == 12
        assert server.connections == 1

    def test_cookies_are_refused_and_the_program_says_its_name(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        server.answer = in_turn(dataclasses.replace(MANIFEST, headers={"Set-Cookie": "sid=1; Path=/"}))
        for _ in range(2):
            registry.manifest(at)
        assert [seen.headers.get("cookie") for seen in server.seen] == [None, None]
        assert {seen.headers["user-agent"] for seen in server.seen} == {"flux-manifests"}
        assert {seen.headers["accept-encoding"] for seen in server.seen} == {"identity"}

    def test_indexes_are_asked_for_too_so_that_they_are_seen(
        self, server: HostileRegistry, registry: HttpRegistry, at: Reference
    ) -> None:
        index = json.dumps({"schemaVersion": 2, "manifests": []}).encode()
        server.answer = in_turn(Reply(200, index, {"Content-Type": "application/vnd.oci.image.index.v1+json"}))
        with pytest.raises(InvalidManifest, match="index"):
            registry.manifest(at)
        assert "application/vnd.oci.image.index.v1+json" in server.seen[0].headers["accept"]
