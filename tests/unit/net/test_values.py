"""Origins, networks, answers and waits as values."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.net.network import InvalidTimeout, Network, Origin, UnsafeAddress
from ci_automation.net.values import Answer, Complaint, printable
from ci_automation.net.waiting import Again, Clock, Deadline, Patience, Watch
from ci_automation.registry.port import NotFound, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable


def answer(body: bytes, status: int = 400, **headers: str) -> Answer:
    """Return an answer of `registry.example`."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status, named, body, "https://registry.example/v2/?secret=1")


class TestAnswers:
    @pytest.mark.parametrize(
        ("body", "code", "message"),
        [
            pytest.param(b'{"errors": [{"code": "DENIED", "message": "no"}]}', "DENIED", "no", id="the spec's"),
            pytest.param(b'{"errors": [{"code": "A"}, {"code": "B"}]}', "A", "", id="without a message"),
            pytest.param(b'{"errors": [{"code": 1}]}', "", "", id="a number"),
            pytest.param(b'{"errors": []}', "", "", id="none"),
            pytest.param(b'{"error": "invalid_grant", "error_description": "x"}', "invalid_grant", "x", id="OAuth2"),
            pytest.param(b'{"details": "incorrect username"}', "", "incorrect username", id="Docker Hub"),
            pytest.param(b'{"message": "m"}', "", "m", id="a message"),
            pytest.param(b'{"error": "e"}', "", "e", id="an error"),
            pytest.param(b"[" * 100_000, "", "", id="a bomb"),
            pytest.param(b"\xff", "", "", id="no text"),
        ],
    )
    def test_what_it_complains_of(self, body: bytes, code: str, message: str) -> None:
        assert answer(body).complaint() == Complaint("registry.example", 400, code, message)

    @pytest.mark.parametrize(
        ("complaint", "text"),
        [
            (Complaint("h", 403), "403"),
            (Complaint("h", 403, "DENIED"), "403 DENIED"),
            (Complaint("h", 403, "DENIED", "no"), "403 DENIED: no"),
            (Complaint("h", 403, "", "no"), "403: no"),
        ],
    )
    def test_a_complaint_is_short(self, complaint: Complaint, text: str) -> None:
        assert str(complaint) == text
        assert str(NotFound("x", complaint)) == f"x was not found ({text})"

    @pytest.mark.parametrize(
        ("body", "media_type", "page"),
        [
            (b"{}", "application/json", False),
            (b"", "text/html", True),
            (b"x", "Text/HTML; charset=utf-8", True),
            (b"\r\n <html>", "", True),
            (b"{}", "text/plain", False),
            (b"", "", False),
        ],
    )
    def test_a_web_page_is_known(self, body: bytes, media_type: str, page: bool) -> None:
        assert answer(body, content_type=media_type).is_web_page is page

    @given(st.text())
    def test_foreign_text_is_made_printable(self, text: str) -> None:
        clean = printable(text, 20)
        assert clean.isprintable()
        assert len(clean) <= 20
        assert printable(clean, 20) == clean

    def test_overrides_of_direction_and_escapes_go(self) -> None:
        assert printable("a\u202eb\x1b[2Jc\n::add-mask::d") == "a b [2Jc ::add-mask::d"


class TestOrigins:
    @pytest.mark.parametrize(
        ("url", "origin"),
        [
            ("https://Registry.Example/v2/", Origin("https", "registry.example", 443)),
            ("https://registry.example:443/", Origin("https", "registry.example", 443)),
            ("https://registry.example:8443/", Origin("https", "registry.example", 8443)),
            ("http://[::1]:5000/", Origin("http", "::1", 5000)),
        ],
    )
    def test_an_origin_is_scheme_name_and_port(self, url: str, origin: Origin) -> None:
        assert Origin.of(url) == origin
        assert Origin.of(f"{origin.scheme}://{origin.host}/x") == origin

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "registry.example",
            "//x",
            "ftp://x",
            "https://",
            "https://u@x/",
            "https://:p@x/",
            "https://x:99999",
            "https://[x/",
        ],
    )
    def test_other_addresses_are_refused(self, url: str) -> None:
        with pytest.raises(UnsafeAddress):
            Origin.of(url)

    @pytest.mark.parametrize(
        "url", ["https://x.example/a", "http://localhost/", "http://127.1.2.3:80/", "http://[::1]/"]
    )
    def test_secrets_go_over_tls_or_to_this_machine(self, url: str) -> None:
        assert Origin.secure(url) == Origin.of(url)

    @pytest.mark.parametrize("url", ["http://x.example/a", "http://10.0.0.1/", "http://localhost.example/", "ftp://x"])
    def test_and_nowhere_else(self, url: str) -> None:
        with pytest.raises(UnsafeAddress):
            Origin.secure(url)


class TestNetwork:
    @pytest.mark.parametrize(
        ("environment", "url", "proxy"),
        [
            ({}, "https://ghcr.io", None),
            ({"HTTPS_PROXY": "http://p"}, "https://ghcr.io", "http://p"),
            ({"https_proxy": "http://p"}, "https://ghcr.io", "http://p"),
            ({"HTTPS_PROXY": "", "ALL_PROXY": "http://q"}, "https://ghcr.io", "http://q"),
            ({"HTTP_PROXY": "http://p"}, "https://ghcr.io", None),
            ({"HTTPS_PROXY": "http://p"}, "http://127.0.0.1:5000", None),
            ({"HTTPS_PROXY": "http://p"}, "https://127.0.0.1:5000", None),
            ({"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, "https://ghcr.io", None),
            ({"HTTPS_PROXY": "http://p", "NO_PROXY": "a, GHCR.io"}, "https://ghcr.io", None),
            ({"HTTPS_PROXY": "http://p", "no_proxy": ".example"}, "https://r.example", None),
            ({"HTTPS_PROXY": "http://p", "NO_PROXY": "*.example"}, "https://r.example", None),
            ({"HTTPS_PROXY": "http://p", "NO_PROXY": "example"}, "https://r.example", None),
            ({"HTTPS_PROXY": "http://p", "NO_PROXY": "example"}, "https://counterexample", "http://p"),
            ({"HTTPS_PROXY": "http://p", "NO_PROXY": "r.example:8443"}, "https://r.example", "http://p"),
            ({"HTTPS_PROXY": "http://p", "NO_PROXY": "r.example:8443"}, "https://r.example:8443", None),
            ({"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, "https://10.1.2.3", None),
            ({"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, "https://11.1.2.3", "http://p"),
            ({"HTTPS_PROXY": "http://p", "NO_PROXY": "fd00::/8"}, "https://[fd00::1]", None),
            ({"HTTPS_PROXY": "http://p", "NO_PROXY": ",,"}, "https://ghcr.io", "http://p"),
        ],
    )
    def test_which_proxy_is_used(self, environment: dict[str, str], url: str, proxy: str | None) -> None:
        assert Network.from_environment(environment).proxy_for(Origin.of(url)) == proxy

    def test_whose_certificates_are_trusted(self) -> None:
        assert Network.from_environment({"SSL_CERT_FILE": "b"}).ca_bundle == "b"
        assert Network.from_environment({"SSL_CERT_FILE": "b", "REQUESTS_CA_BUNDLE": "a"}).ca_bundle == "a"
        assert Network.from_environment({}).ca_bundle is None

    @pytest.mark.parametrize(("text", "seconds"), [("", 60), ("5", 5), ("300", 300)])
    def test_how_long_is_waited(self, text: str, seconds: int) -> None:
        assert Network.from_environment({"FLUX_MANIFESTS_TIMEOUT": text}).watch.seconds == seconds

    @pytest.mark.parametrize("text", ["0", "-1", "1.5", "2m", "100000", "canary"])
    def test_a_time_that_is_none_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidTimeout, match="FLUX_MANIFESTS_TIMEOUT is not a number of seconds") as caught:
            Network.from_environment({"FLUX_MANIFESTS_TIMEOUT": text})
        assert "canary" not in str(caught.value)


class TestPatience:
    @pytest.fixture
    def slept(self) -> list[float]:
        return []

    @pytest.fixture
    def patience(self, slept: list[float]) -> Patience:
        return Patience(attempts=3, seconds=10, clock=Clock(lambda: sum(slept), lambda: 0.0, slept.append))

    @staticmethod
    def failing(*waits: float | None) -> Callable[[Deadline], str]:
        """Return an attempt that fails once for each wait that it asks for."""
        left = list(waits)

        def attempt(_: Deadline) -> str:
            if left:
                raise Again(Unreachable("h", f"{len(left)} left"), left.pop(0))
            return "done"

        return attempt

    @pytest.mark.parametrize(
        ("waits", "expected"),
        [
            pytest.param([], [], id="at once"),
            pytest.param([None, None], [0.5, 1.0], id="twice as long each time"),
            pytest.param([3.0, 0.0], [3.0, 0.0], id="as it is asked to"),
        ],
    )
    def test_it_waits_and_tries_again(
        self, patience: Patience, slept: list[float], waits: list[float | None], expected: list[float]
    ) -> None:
        assert patience.run(self.failing(*waits), "h", partial(Unreachable, "h")) == "done"
        assert slept == expected

    @pytest.mark.parametrize(
        ("waits", "expected", "left"),
        [
            pytest.param([None, None, None], [0.5, 1.0], 1, id="after so many attempts"),
            pytest.param([99.0], [], 1, id="rather than wait beyond the deadline"),
            pytest.param([6.0, 6.0], [6.0], 1, id="or beyond what is left of it"),
        ],
    )
    def test_it_ends(
        self, patience: Patience, slept: list[float], waits: list[float | None], expected: list[float], left: int
    ) -> None:
        with pytest.raises(Unreachable, match=f"{left} left"):
            patience.run(self.failing(*waits), "h", partial(Unreachable, "h"))
        assert slept == expected

    def test_a_minute_is_all_unless_the_watch_or_the_caller_says_otherwise(self, slept: list[float]) -> None:
        clock = Clock(lambda: sum(slept), lambda: 0.0, slept.append)
        for patience, watch, expected in (
            (Patience(clock=clock), Watch(), 60.0),
            (Patience(clock=clock), Watch(7.0), 7.0),
            (Patience(seconds=3.0, clock=clock), Watch(7.0), 3.0),
        ):
            left = patience.run(lambda deadline: deadline.left, "h", partial(Unreachable, "h"), watch)
            assert left == expected
