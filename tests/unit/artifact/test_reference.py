"""Addresses of artifacts: the grammar of the distribution project, and the image layout's own."""

from __future__ import annotations

from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.reference import Digest, InvalidReference, LayoutDirectory, OciRepository, Reference

DIGEST = Digest("4" * 64)
GHCR = OciRepository("ghcr.io", "acme/flux-manifests")

hosts = st.from_regex(
    r"([a-zA-Z0-9]([a-zA-Z0-9-]{0,9}[a-zA-Z0-9])?(\.[a-zA-Z0-9]{1,9}){0,2}|\[::[0-9a-f]{1,4}\])(:[1-9][0-9]{0,3})?",
    fullmatch=True,
)
paths = st.from_regex(r"[a-z0-9]{1,8}((\.|_|__|-+)[a-z0-9]{1,8}){0,2}(/[a-z0-9]{1,8}){0,3}", fullmatch=True)
tags = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", fullmatch=True)
digests = st.binary(max_size=4).map(Digest.of)
directories = st.from_regex(r"/?[^\x00-\x1f:@/]{1,20}(/[^\x00-\x1f:@/]{1,20}){0,3}", fullmatch=True)


class TestParse:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("oci://ghcr.io/acme/flux-manifests", Reference(GHCR), id="a repository"),
            pytest.param(
                "oci://ghcr.io/acme/flux-manifests:production", Reference(GHCR, tag="production"), id="a channel"
            ),
            pytest.param(f"oci://ghcr.io/acme/flux-manifests@{DIGEST}", Reference(GHCR, digest=DIGEST), id="a digest"),
            pytest.param(
                f"oci://ghcr.io/acme/flux-manifests:v1@{DIGEST}",
                Reference(GHCR, "v1", DIGEST),
                id="a tag and its digest",
            ),
            pytest.param(
                "oci://127.0.0.1:5000/a:b", Reference(OciRepository("127.0.0.1:5000", "a"), "b"), id="a port is no tag"
            ),
            pytest.param("oci://host:5000/a", Reference(OciRepository("host:5000", "a")), id="a port without a tag"),
            pytest.param("oci://[::1]:5000/a:b", Reference(OciRepository("[::1]:5000", "a"), "b"), id="IPv6"),
            pytest.param(
                "oci://Registry.Example/a__b/c---d/e.f_g:V1",
                Reference(OciRepository("registry.example", "a__b/c---d/e.f_g"), "V1"),
                id="all separators, and a host with capitals, which has no case",
            ),
            pytest.param(
                "layout:./out/layout:production",
                Reference(LayoutDirectory(PurePath("out/layout")), "production"),
                id="a layout",
            ),
            pytest.param("layout:/srv/flux", Reference(LayoutDirectory(PurePath("/srv/flux"))), id="a layout, no tag"),
            pytest.param(
                f"layout:with space@{DIGEST}",
                Reference(LayoutDirectory(PurePath("with space")), digest=DIGEST),
                id="a layout's digest",
            ),
            pytest.param(
                f"layout:a:b@{DIGEST}", Reference(LayoutDirectory(PurePath("a")), "b", DIGEST), id="a layout, both"
            ),
        ],
    )
    def test_reads(self, text: str, expected: Reference) -> None:
        assert Reference.parse(text) == expected

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("ghcr.io:443/a", "ghcr.io/a"),
            ("GHCR.io:00443/a", "ghcr.io/a"),
            ("r.example:05000/a", "r.example:5000/a"),
            ("localhost:80/a", "localhost/a"),
            ("[0:0::0001]:80/a", "[::1]/a"),
            ("[2001:DB8::0]:443/a", "[2001:db8::]/a"),
            ("index.docker.io/acme/a", "docker.io/acme/a"),
            ("registry-1.docker.io:443/a", "docker.io/a"),
            ("docker.io/library/a", "docker.io/a"),
        ],
    )
    def test_an_artifact_has_one_name_whatever_name_of_its_host_is_written(self, one: str, other: str) -> None:
        """Holds, records, locks, approvals and groups are found by it."""
        found = Reference.parse(f"oci://{one}:production")
        assert found == Reference.parse(f"oci://{other}:production")
        assert str(found) == f"oci://{other}:production"

    @pytest.mark.parametrize(
        "text", ["r.example:80/a", "localhost:443/a", "docker.io/library/a/b", "r.example/library/a"]
    )
    def test_what_is_another_address_keeps_its_own_name(self, text: str) -> None:
        assert str(Reference.parse(f"oci://{text}:production")) == f"oci://{text}:production"

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            ("ghcr.io/acme/flux:production", "Did you mean oci://ghcr.io/acme/flux:production?"),
            ("https://ghcr.io/acme/flux:production", "Did you mean oci://ghcr.io/acme/flux:production?"),
            ("https://user:secret@ghcr.io/acme", InvalidReference.hint),
            ("oci://ghcr.io", InvalidReference.hint),
            ("production", InvalidReference.hint),
            ("user:secret@ghcr.io/acme", InvalidReference.hint),
        ],
    )
    def test_an_address_without_its_scheme_is_told_with_it(self, text: str, hint: str) -> None:
        with pytest.raises(InvalidReference) as error:
            Reference.parse(text)
        assert error.value.hint == hint

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            pytest.param("", "does not begin with oci:// or layout:", id="nothing"),
            pytest.param("ghcr.io/acme/flux:production", "does not begin with oci:// or layout:", id="no scheme"),
            pytest.param("https://ghcr.io/acme/flux", "begins with https://", id="another scheme"),
            pytest.param("OCI://ghcr.io/acme/flux", "begins with OCI://", id="the scheme in upper case"),
            pytest.param("oci://ghcr.io", "names no repository", id="no repository"),
            pytest.param("oci://ghcr.io/", "follow the grammar", id="an empty repository"),
            pytest.param("oci:///acme/flux", "follow the grammar", id="no host"),
            pytest.param("oci://user@h:5/a", "no user and no password: `docker login h:5` keeps them", id="a user"),
            pytest.param(
                "oci://ghcr.io/Acme/flux", "lower-case letters only: oci://ghcr.io/acme/flux$", id="upper case"
            ),
            pytest.param("oci://ghcr.io/Acme/Flux:V1", "oci://ghcr.io/acme/flux:V1", id="upper case, with a tag"),
            pytest.param("oci://ghcr.io/acme//flux", "follow the grammar", id="an empty part"),
            pytest.param("oci://ghcr.io/acme/../flux", "follow the grammar", id="a parent"),
            pytest.param("oci://ghcr.io/acme/flux/", "follow the grammar", id="a slash at the end"),
            pytest.param("oci://ghcr.io/a___b", "follow the grammar", id="three underscores"),
            pytest.param("oci://ghcr.io/a?b", "follow the grammar", id="a query"),
            pytest.param("oci://-ghcr.io/acme", "follow the grammar", id="a host with a dash first"),
            pytest.param("oci://ghcr.io./acme", "follow the grammar", id="a host with a dot last"),
            pytest.param("oci://ghcr.io:/acme", "follow the grammar", id="a colon without a port"),
            pytest.param("oci://ghcr.io:123456/acme", "follow the grammar", id="a port of six digits"),
            pytest.param("oci://ghcr.io:65536/acme", "65536 is not a port", id="a port that there is not"),
            pytest.param("oci://ghcr.io:0/acme", "0 is not a port", id="port 0"),
            pytest.param("oci://[::1/acme", "follow the grammar", id="half a bracket"),
            pytest.param("oci://[:::]/acme", r"\[:::\] is not an IPv6 address", id="no IPv6 address"),
            pytest.param("oci://ghcr.io/acme:", "'' is not a tag", id="an empty tag"),
            pytest.param("oci://ghcr.io/acme:.a", "'.a' is not a tag", id="a tag with a dot first"),
            pytest.param("oci://ghcr.io/acme:a:b", "'a:b' is not a tag", id="two tags"),
            pytest.param(f"oci://ghcr.io/acme:{'a' * 129}", "is not a tag", id="a tag of 129 characters"),
            pytest.param("oci://ghcr.io/acme@sha256:1", "'sha256:1' is not a sha256 digest", id="a short digest"),
            pytest.param("oci://ghcr.io/acme:a@", "'' is not a sha256 digest", id="an empty digest"),
            pytest.param("oci://ghcr.io/acme:a\n", "follow the grammar", id="a line break"),
            pytest.param("oci://ghcr.io/acmé:a", "follow the grammar", id="not ASCII"),
            pytest.param(f"oci://h/{'a' * 254}", "at most 255 characters", id="a name of 256 characters"),
            pytest.param("layout:", "a layout's directory has a name", id="a layout nowhere"),
            pytest.param("layout::a", "a layout's directory has a name", id="a layout with a tag only"),
            pytest.param("layout:a\tb:c", "a layout's directory has a name", id="a control character"),
            pytest.param("layout:C:b:c", "'b:c' is not a tag", id="a colon in a layout's path"),
        ],
    )
    def test_says_what_is_wrong(self, text: str, reason: str) -> None:
        with pytest.raises(InvalidReference, match=reason) as error:
            Reference.parse(text)
        assert error.value.exit_code == 2

    @pytest.mark.parametrize("text", ["oci://user:secret@ghcr.io/acme:a", "docker://user:sec/secret@ghcr.io/acme"])
    def test_shows_no_password(self, text: str) -> None:
        with pytest.raises(InvalidReference, match=r"://\.\.\.@ghcr\.io/acme") as error:
            Reference.parse(text)
        assert "secret" not in f"{error.value} {error.value.hint}"

    def test_a_name_of_255_characters_is_fine(self) -> None:
        assert len(str(Reference.parse(f"oci://h/{'a' * 253}"))) == len("oci://") + 255

    @given(hosts, paths, st.none() | tags, st.none() | digests)
    def test_reads_the_registry_addresses_that_it_writes(
        self, host: str, path: str, tag: str | None, digest: Digest | None
    ) -> None:
        reference = Reference(OciRepository.of(host, path), tag, digest)
        assert Reference.parse(str(reference)) == reference

    @given(directories, st.none() | tags, st.none() | digests)
    def test_reads_the_layout_addresses_that_it_writes(self, path: str, tag: str | None, digest: Digest | None) -> None:
        reference = Reference(LayoutDirectory(PurePath(path)), tag, digest)
        assert Reference.parse(str(reference)) == reference

    @given(st.text() | st.text().map("oci://{}".format) | st.text().map("layout:{}".format))
    def test_whatever_is_written_is_read_or_refused(self, text: str) -> None:
        try:
            reference = Reference.parse(text)
        except InvalidReference:
            return
        assert Reference.parse(str(reference)) == reference


class TestChannel:
    def test_is_a_tag(self) -> None:
        assert Reference.parse_channel("oci://ghcr.io/acme/flux-manifests:production") == Reference(GHCR, "production")

    @pytest.mark.parametrize("rest", ["", f"@{DIGEST}", f":production@{DIGEST}"], ids=["no tag", "a digest", "both"])
    def test_nothing_else_is(self, rest: str) -> None:
        with pytest.raises(InvalidReference, match="a channel is a tag, such as :production"):
            Reference.parse_channel(f"oci://ghcr.io/acme/flux-manifests{rest}")

    @pytest.mark.parametrize("tag", ["", ":production"])
    def test_a_digest_is_told_with_the_commands_that_take_one(self, tag: str) -> None:
        with pytest.raises(InvalidReference, match=r"; `verify`, `pull` and `diff` take a digest$"):
            Reference.parse_channel(f"oci://ghcr.io/acme/flux-manifests{tag}@{DIGEST}")

    @pytest.mark.parametrize("suffix", ["", ".sig", ".att", ".sbom", ".x"])
    def test_is_no_tag_of_what_is_attached_to_a_digest(self, suffix: str) -> None:
        address = f"oci://ghcr.io/acme/flux-manifests:sha256-{DIGEST.hex}{suffix}"
        assert Reference.parse(address).tag
        with pytest.raises(InvalidReference, match="names what is attached to a digest"):
            Reference.parse_channel(address)

    @pytest.mark.parametrize("tag", ["v2.9.4-1a2b3c4d5e6f", "v2.9.4-rc.1-1a2b3c4d5e6f", "v2.9.4_b-1a2b3c4d5e6f"])
    def test_is_no_tag_that_never_moves(self, tag: str) -> None:
        with pytest.raises(InvalidReference, match="never moves, and is no channel"):
            Reference.parse_channel(f"oci://ghcr.io/acme/flux-manifests:{tag}")

    @pytest.mark.parametrize("tag", ["v2.9.4", "v2-1a2b3c4d5e6f", "v2.9.4-stable", "edge-1a2b3c4d5e6f"])
    def test_may_begin_or_end_like_such_a_tag(self, tag: str) -> None:
        assert Reference.parse_channel(f"oci://ghcr.io/acme/flux-manifests:{tag}").tag == tag

    def test_may_begin_like_one(self) -> None:
        assert Reference.parse_channel("oci://ghcr.io/acme/flux-manifests:sha256-edge").tag == "sha256-edge"

    @pytest.mark.parametrize(
        ("tag", "known"),
        [
            ("production", "prodution"),
            ("eu-stable", "eu-stabel"),
            *((tag, "production") for tag in ("prodUction", "production2", "prod", "pre-production", "eu-production")),
            *((tag, "cluster-a") for tag in ("cluster-b", "clusters-b", "cluster-a-1")),
            ("wave-1", "wave-2"),
        ],
    )
    def test_may_be_a_slip_of_the_keys(self, tag: str, known: str) -> None:
        slips = {"production": "prodution", "eu-stable": "eu-stabel", "prodUction": "production"}
        there = ("another", known, "v2.9.4-1a2b3c4d5e6f")
        assert Reference(GHCR, tag).nearly(there) == slips.get(tag)


class TestName:
    @pytest.mark.parametrize(
        ("reference", "name"),
        [
            pytest.param(Reference(GHCR, "production"), "production", id="a tag"),
            pytest.param(Reference(GHCR, digest=DIGEST), str(DIGEST), id="a digest"),
            pytest.param(Reference(GHCR, "production", DIGEST), str(DIGEST), id="the digest, where there are both"),
        ],
    )
    def test_is_what_a_registry_is_asked_for(self, reference: Reference, name: str) -> None:
        assert reference.name == name

    def test_a_repository_alone_names_no_manifest(self) -> None:
        with pytest.raises(InvalidReference, match="it needs a tag or a digest"):
            _ = Reference(GHCR).name

    def test_moving_to_a_tag_or_digest_leaves_the_other_behind(self) -> None:
        reference = Reference(GHCR, "production", DIGEST)
        assert reference.at_tag("v1") == Reference(GHCR, "v1")
        assert reference.at_digest(DIGEST) == Reference(GHCR, digest=DIGEST)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        pytest.param("localhost", True, id="localhost"),
        pytest.param("localhost:5000", True, id="localhost with a port"),
        pytest.param("127.0.0.1", True, id="127.0.0.1"),
        pytest.param("127.0.0.1:5000", True, id="127.0.0.1 with a port"),
        pytest.param("127.255.255.254", True, id="the whole of 127/8"),
        pytest.param("[::1]", True, id="::1"),
        pytest.param("[::1]:5000", True, id="::1 with a port"),
        pytest.param("127.0.0.1.example.com", False, id="an address in front of a name"),
        pytest.param("localhost.example.com", False, id="localhost in front of a name"),
        pytest.param("example.localhost", False, id="localhost behind a name: resolvers differ"),
        pytest.param("LOCALHOST", False, id="another spelling"),
        pytest.param("localhost1", False, id="a name that begins with it"),
        pytest.param("127.1", False, id="a short address: not every resolver takes it for one"),
        pytest.param("2130706433", False, id="one number"),
        pytest.param("0177.0.0.1", False, id="octal"),
        pytest.param("127.0.0.01", False, id="leading zeros"),
        pytest.param("0.0.0.0", False, id="any address"),  # noqa: S104  # it is not bound
        pytest.param("128.0.0.1", False, id="another network"),
        pytest.param("[::]", False, id="any IPv6 address"),
        pytest.param("[::ffff:7f00:1]", False, id="127.0.0.1 in an IPv6 address: Python's versions differ"),
        pytest.param("[fe80::1]", False, id="a neighbour"),
        pytest.param("ghcr.io", False, id="a registry"),
        pytest.param("ghcr.io:127", False, id="a port is no address"),
    ],
)
def test_only_what_is_surely_this_machine_goes_without_tls(host: str, *, loopback: bool) -> None:
    assert OciRepository(host, "a").is_loopback is loopback


def test_a_repository_has_neither_tag_nor_digest() -> None:
    assert Reference.parse_repository("oci://h.example/a/b") == Reference(OciRepository("h.example", "a/b"))
    for text in ("oci://h.example/a:b", f"layout:x@sha256:{'0' * 64}"):
        with pytest.raises(InvalidReference, match="name the repository alone"):
            Reference.parse_repository(text)
