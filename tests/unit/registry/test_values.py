"""Requests, answers, challenges, addresses and waits as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.reference import OciRepository
from ci_automation.net.network import Origin, UnsafeAddress
from ci_automation.registry.authorization import Challenge
from ci_automation.registry.credentials import (
    base_url,
    check_address,
    followed,
    registry_host,
    repository_path,
    shares_credentials,
)
from ci_automation.registry.transport import next_link


class TestChallenges:
    @pytest.mark.parametrize(
        ("header", "expected"),
        [
            (
                'Bearer realm="https://a/token",service="s",scope="x:y:pull"',
                Challenge("bearer", "https://a/token", "s"),
            ),
            ("Bearer realm=https://a/token?x=1,service=s", Challenge("bearer", "https://a/token?x=1", "s")),
            ('bEARER  realm = "https://a/"', Challenge("bearer", "https://a/")),
            ('Basic realm="x", Bearer realm="y"', Challenge("bearer", "y")),
            ('Bearer realm="y", Basic realm="x"', Challenge("bearer", "y")),
            ('Bearer error="x", Basic', Challenge("basic")),
            ('Bearer realm="a\\"b"', Challenge("bearer", 'a"b')),
            ('Bearer realm="a",realm="b"', Challenge("bearer", "a")),
            ("Basic", Challenge("basic")),
            ('Basic realm="Bearer realm=x"', Challenge("basic")),
            ("Negotiate", None),
            ("", None),
            ('realm="x"', None),
            ('Bearer realm=""', None),
        ],
    )
    def test_what_can_be_met_is_found(self, header: str, expected: Challenge | None) -> None:
        assert Challenge.parse(header) == expected

    @given(st.text(alphabet='abB ,="\\\t', max_size=200))
    def test_no_header_is_too_odd(self, header: str) -> None:
        Challenge.parse(header)


class TestAddresses:
    @pytest.mark.parametrize(
        ("registry", "url", "refused"),
        [
            ("https://ghcr.io", "https://auth.docker.io/token", False),
            ("https://ghcr.io", "https://ghcr.io/token", False),
            ("https://ghcr.io", "http://ghcr.io/token", True),
            ("https://ghcr.io", "https://10.0.0.1/", True),
            ("https://ghcr.io", "https://127.0.0.1/", True),
            ("https://ghcr.io", "https://localhost/", True),
            ("https://ghcr.io", "https://169.254.169.254/", True),
            ("https://ghcr.io", "https://[fd00::1]/", True),
            ("https://ghcr.io", "https://[::ffff:10.0.0.1]/", True),
            ("https://ghcr.io", "https://8.8.8.8/", False),
            ("https://10.0.0.1", "https://10.0.0.1/token", False),
            ("https://10.0.0.1:5000", "https://10.0.0.1/token", False),
            ("https://10.0.0.1", "https://10.0.0.2/token", True),
            ("http://127.0.0.1:5000", "http://127.0.0.1:5001/token", False),
            ("http://127.0.0.1:5000", "http://localhost:5001/token", False),
            ("http://localhost:5000", "http://[::1]:5001/token", False),
            ("http://127.0.0.1:5000", "https://10.0.0.1/token", False),
            ("http://127.0.0.1:5000", "http://10.0.0.1/token", True),
            ("http://127.0.0.1:5000", "http://registry.example/token", True),
        ],
    )
    def test_where_a_registry_may_send_its_clients(self, registry: str, url: str, refused: bool) -> None:
        if refused:
            with pytest.raises(UnsafeAddress):
                check_address(url, Origin.of(registry))
        else:
            check_address(url, Origin.of(registry))

    @pytest.mark.parametrize(
        ("location", "expected"),
        [
            ("/v2/x?a=b", "https://ghcr.io/v2/x?a=b"),
            ("next", "https://ghcr.io/v2/next"),
            ("//other.example/x", "https://other.example/x"),
            ("https://other.example/x", "https://other.example/x"),
        ],
    )
    def test_a_location_may_be_relative(self, location: str, expected: str) -> None:
        assert followed("https://ghcr.io/v2/list", location, Origin.of("https://ghcr.io")) == expected

    @pytest.mark.parametrize(
        ("host", "url", "path"),
        [
            ("ghcr.io", "https://ghcr.io", "flux"),
            ("127.0.0.1:5000", "http://127.0.0.1:5000", "flux"),
            ("localhost:5000", "http://localhost:5000", "flux"),
            ("[::1]:5000", "http://[::1]:5000", "flux"),
            ("docker.io", "https://registry-1.docker.io", "library/flux"),
            ("index.docker.io", "https://registry-1.docker.io", "library/flux"),
        ],
    )
    def test_where_a_repository_is_served(self, host: str, url: str, path: str) -> None:
        assert base_url(registry_host(host)) == url
        assert repository_path(OciRepository(host, "flux")) == path
        assert repository_path(OciRepository(host, "a/flux")) == "a/flux"


class TestLinks:
    """`Link` headers (RFC 8288) as registries write them, and as an attacker might."""

    @pytest.mark.parametrize(
        ("header", "target"),
        [
            pytest.param("", None, id="none"),
            pytest.param('</v2/a?last=b>; rel="next"', "/v2/a?last=b", id="quoted"),
            pytest.param("</v2/a>; rel=next", "/v2/a", id="plain"),
            pytest.param("</v2/a>;REL = NEXT", "/v2/a", id="in capitals"),
            pytest.param("</v2/a>; rel='next'", None, id="in quotes that are none"),
            pytest.param('</a>; rel="prev", </b>; rel="next", </c>; rel="last"', "/b", id="among others"),
            pytest.param('</a>; title="x"; rel="prev next"', "/a", id="one of two relations"),
            pytest.param('</a>; rel="nextish"', None, id="a word that begins like it"),
            pytest.param("</a>; rel=next-page", None, id="another word"),
            pytest.param('</a>; title="rel=next"', None, id="in a title"),
            pytest.param("</a; rel=next", None, id="without an end"),
            pytest.param("/a>; rel=next", None, id="without a beginning"),
            pytest.param("<" * 50_000 + "a" * 10_000, None, id="nothing but beginnings"),
            pytest.param("<>;" * 20_000, None, id="nothing but links"),
        ],
    )
    def test_the_next_page(self, header: str, target: str | None) -> None:
        assert next_link(header) == target


class TestTokenServers:
    """Which token server may be shown a registry's credentials; the registry itself names it."""

    @pytest.mark.parametrize(
        ("registry", "realm", "token_host", "shared"),
        [
            pytest.param("ghcr.io", "https://ghcr.io/token", None, True, id="the registry itself"),
            pytest.param("r.example:5000", "https://r.example:5001/auth", None, True, id="another port of its host"),
            pytest.param("docker.io", "https://auth.docker.io/token", None, True, id="Docker Hub's"),
            pytest.param("registry.gitlab.com", "https://gitlab.com/jwt/auth", None, True, id="GitLab's"),
            pytest.param("registry.digitalocean.com", "https://api.digitalocean.com/v2", None, True, id="DigitalOcean"),
            pytest.param("ghcr.io", "https://auth.docker.io/token", None, False, id="Docker Hub's, of another"),
            pytest.param("docker.io", "https://auth.docker.io:8443/", None, False, id="another port of another host"),
            pytest.param("docker.io", "https://auth.docker.io.evil.example/", None, False, id="a longer name"),
            pytest.param("r.example", "https://evil.r.example/", None, False, id="a host below"),
            pytest.param("sub.r.example", "https://r.example/", None, False, id="the host above"),
            pytest.param("r.example", "https://auth.example/", "auth.example", True, id="configured"),
            pytest.param("r.example", "https://AUTH.example:443/", "auth.example", True, id="written otherwise"),
            pytest.param("r.example", "https://auth.example:444/", "auth.example", False, id="on another port"),
            pytest.param("docker.io", "https://auth.docker.io/", "auth.example", True, id="known, beside another"),
            pytest.param("127.0.0.1:5000", "http://localhost:5001/", None, True, id="on this machine"),
            pytest.param("r.example", "http://localhost:5001/", None, False, id="on this machine, of another"),
        ],
    )
    def test_they_are(self, registry: str, realm: str, token_host: str | None, *, shared: bool) -> None:
        own = Origin.of(base_url(registry_host(registry)))
        assert shares_credentials(own, Origin.of(realm), token_host) is shared
