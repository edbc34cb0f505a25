"""Real registries keep the contract, cost exactly so many requests, and real programs read what we write."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.net.waiting import Clock, Patience
from ci_automation.registry import open_registry
from ci_automation.registry.credentials import Credential, Credentials
from ci_automation.registry.docker_config import DockerConfig
from ci_automation.registry.http import HttpRegistry
from ci_automation.registry.port import AccessDenied, NotFound, Unreachable
from tests.contract.registry_contract import (
    EMPTY,
    NOBODY,
    NOTE,
    Door,
    RegistryContract,
    artifact,
    attach,
    note,
    publish,
)
from tests.real.peers import peer
from tests.real.processes import free_port, run
from tests.real.proxy import Drop
from tests.real.registries import PASSWORD, USER, RealRegistry, distribution, docker_config
from tests.real.tokens import READER, WRITER, TokenServer, User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHANNEL = "production"


class Known:
    """One user's credentials, for one host."""

    def __init__(self, host: str, pull: Credential | None = None, push: Credential | None = None) -> None:
        self.host = host
        self.credentials = Credentials.both(pull, push)

    def for_host(self, host: str) -> Credentials:
        """Return them."""
        assert host == self.host
        return self.credentials


def credential(user: User) -> Credential:
    """Return what a user of the token server shows."""
    return Credential(user.name, user.password)


def opened(registry: RealRegistry, pull: Credential | None = None, push: Credential | None = None) -> HttpRegistry:
    """Return our registry for a real one."""
    return HttpRegistry(
        registry.host, Known(registry.host, pull, push), patience=Patience(clock=Clock(sleep=lambda _: None))
    )


def door(real: RealRegistry, repository: str, pull: Credential | None = None) -> Door:
    """Return the contract's door to a real registry."""
    at, other = (Reference.parse(f"oci://{real.host}/{repository}{suffix}:{CHANNEL}") for suffix in ("", "/other"))
    return Door(opened(real, pull), lambda: opened(real, pull), at, other)


@pytest.fixture(scope="module")
def password_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    """Yield a registry that asks for a password."""
    with distribution(tmp_path_factory.mktemp("htpasswd"), "htpasswd") as registry:
        yield registry


@pytest.fixture(scope="module", params=[False, True], ids=["tokens from its own host", "tokens from another host"])
def token_registry(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    """Yield a registry that asks for tokens."""
    with distribution(tmp_path_factory.mktemp("token"), "token", TokenServer(apart=request.param)) as registry:
        yield registry


class TestOpen(RegistryContract):
    @pytest.fixture
    def door(self, distribution_registry: RealRegistry, repository: str) -> Door:
        return door(distribution_registry, f"open/{repository}")


class TestPassword(RegistryContract):
    @pytest.fixture
    def door(self, password_registry: RealRegistry, repository: str) -> Door:
        return door(password_registry, repository, Credential(USER, PASSWORD))


class TestTokens(RegistryContract):
    @pytest.fixture
    def door(self, token_registry: RealRegistry, repository: str) -> Door:
        return door(token_registry, repository, credential(WRITER))


class TestReferrers(RegistryContract):
    looks_for_blobs = False
    mounts = False
    lifts = False
    untags = False

    @pytest.fixture
    def door(self, referrers_registry: RealRegistry, repository: str) -> Door:
        return door(referrers_registry, repository)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[RealRegistry]:
    """Yield a registry that asks for tokens, of this test alone."""
    with distribution(tmp_path / "guarded", "token", TokenServer(lifetime=3600)) as registry:
        yield registry


@pytest.fixture
def at(guarded: RealRegistry) -> Reference:
    """Return a channel in it."""
    return Reference.parse(f"oci://{guarded.host}/acme/flux:{CHANNEL}")


def wire(registry: RealRegistry) -> list[str]:
    """Return what was on the wire since the last time: methods, and what of the repository they were about."""
    seen = []
    for method, path, status in registry.requests:
        place = path.partition("?")[0]
        kind = "token" if place == "/token" else place.split("/acme/flux/")[-1].partition("/")[0]
        seen.append(f"{method} {kind} {status}")
    registry.proxy.forget()
    return seen


class TestRequests:
    """The numbers of the main job: each line is a request, and there is no other."""

    def test_reading_costs_three_requests_and_then_one_each(self, guarded: RealRegistry, at: Reference) -> None:
        manifest = publish(opened(guarded, credential(WRITER)), at)
        guarded.proxy.forget()
        registry = opened(guarded, credential(READER))
        registry.manifest(at)
        assert wire(guarded) == ["GET manifests 401", "GET token 200", "GET manifests 200"]
        registry.blob(at, manifest.layers[0])
        registry.resolve(at)
        registry.tags(at)
        registry.resolve(at.at_tag("none"))
        assert wire(guarded) == ["GET blobs 200", "HEAD manifests 200", "GET tags 200", "HEAD manifests 404"]

    def test_writing_costs_one_token_that_serves_all_that_follows(self, guarded: RealRegistry, at: Reference) -> None:
        registry = opened(guarded, credential(WRITER))
        assert registry.resolve(at) is None
        assert wire(guarded) == ["HEAD manifests 401", "GET token 200", "HEAD manifests 404"]
        registry.put_blob(at, b"a layer")
        assert wire(guarded) == ["GET token 200", "POST blobs 202", "PUT blobs 201"]
        registry.put_blob(at, b"a layer")
        assert wire(guarded) == []
        registry.put_blob(at, CONFIG_BLOB)
        manifest = artifact()
        registry.put_manifest(at.at_digest(manifest.digest), manifest)
        registry.put_manifest(at, manifest)
        registry.resolve(at)
        registry.manifest(at)
        assert wire(guarded) == [
            *("POST blobs 202", "PUT blobs 201"),
            *("PUT manifests 201", "PUT manifests 201", "HEAD manifests 200", "GET manifests 200"),
        ]
        assert guarded.tokens is not None
        assert [request.scopes for request in guarded.tokens.requests] == [
            ("repository:acme/flux:pull",),
            ("repository:acme/flux:pull,push",),
        ]

    def test_writing_first_costs_one_token_in_all(self, guarded: RealRegistry, at: Reference) -> None:
        registry = opened(guarded, credential(WRITER))
        registry.put_blob(at, b"a layer")
        registry.resolve(at)
        assert wire(guarded) == [
            *("POST blobs 401", "GET token 200", "POST blobs 202", "PUT blobs 201"),
            "HEAD manifests 404",
        ]

    def test_a_password_is_shown_after_one_challenge(self, password_registry: RealRegistry) -> None:
        password_registry.proxy.forget()
        at = Reference.parse(f"oci://{password_registry.host}/acme/flux:{CHANNEL}")
        registry = opened(password_registry, Credential(USER, PASSWORD))
        registry.put_blob(at, b"a layer")
        registry.resolve(at)
        assert wire(password_registry) == [*("POST blobs 401", "POST blobs 202", "PUT blobs 201", "HEAD manifests 404")]

    def test_an_open_registry_is_asked_once_each(self, distribution_registry: RealRegistry, repository: str) -> None:
        at = Reference.parse(f"oci://{distribution_registry.host}/{repository}:{CHANNEL}")
        distribution_registry.proxy.forget()
        publish(opened(distribution_registry), at)
        assert [request.method for request in distribution_registry.requests] == [
            *("POST", "PUT", "POST", "PUT", "PUT")
        ]


class TestRights:
    def test_who_reads_and_who_writes_may_be_two(self, guarded: RealRegistry, at: Reference) -> None:
        registry = opened(guarded, credential(READER), credential(WRITER))
        manifest = publish(registry, at)
        assert registry.manifest(at) == manifest
        assert guarded.tokens is not None
        assert [(request.user, request.scopes[0].rpartition(":")[2]) for request in guarded.tokens.requests] == [
            ("writer", "pull,push"),
            ("reader", "pull"),
        ]

    def test_who_may_only_read_is_told_so_at_the_first_write(self, guarded: RealRegistry, at: Reference) -> None:
        registry = opened(guarded, credential(READER))
        with pytest.raises(AccessDenied, match="write to acme/flux") as caught:
            publish(registry, at)
        assert guarded.host in str(caught.value)
        assert "401 UNAUTHORIZED" in str(caught.value)
        assert not any(request.method == "PUT" for request in guarded.requests)

    @pytest.mark.parametrize(
        "shown", [None, Credential("reader", "not the password")], ids=["no credentials", "a wrong password"]
    )
    def test_nobody_else_reads(self, guarded: RealRegistry, at: Reference, shown: Credential | None) -> None:
        with pytest.raises(AccessDenied, match="acme/flux") as caught:
            opened(guarded, shown).manifest(at)
        assert "not the password" not in str(caught.value)

    @pytest.mark.parametrize("shown", [None, Credential(USER, "wrong")], ids=["no credentials", "a wrong password"])
    def test_a_password_registry_refuses_too(self, password_registry: RealRegistry, shown: Credential | None) -> None:
        at = Reference.parse(f"oci://{password_registry.host}/acme/flux:{CHANNEL}")
        with pytest.raises(AccessDenied, match=r"read acme/flux.*: 401$"):
            opened(password_registry, shown).resolve(at)

    def test_dockers_own_file_opens_the_door(self, password_registry: RealRegistry, tmp_path: Path) -> None:
        at = Reference.parse(f"oci://{password_registry.host}/acme/flux:none")
        folder = docker_config(tmp_path / "docker", password_registry.host, USER, PASSWORD)
        source = DockerConfig.find({"DOCKER_CONFIG": str(folder)}, tmp_path)
        assert open_registry(at, source).resolve(at) is None


class TestInterruptions:
    def test_a_token_that_ran_out_is_renewed_once(self, tmp_path: Path) -> None:
        tokens = TokenServer(lifetime=3600)
        with distribution(tmp_path / "brief", "token", tokens) as guarded:
            at = Reference.parse(f"oci://{guarded.host}/acme/flux:{CHANNEL}")
            manifest = publish(opened(guarded, credential(WRITER)), at)
            guarded.proxy.forget()
            # The token server says that its tokens last, and they do not: only the registry's 401 tells.
            tokens.lifetime, tokens.told = 0, 3600
            registry = opened(guarded, credential(READER))
            with pytest.raises(AccessDenied):
                registry.manifest(at)
            assert wire(guarded) == ["GET manifests 401", "GET token 200", "GET manifests 401"]
            tokens.lifetime = 3600
            assert registry.manifest(at) == manifest
            assert wire(guarded) == ["GET manifests 401", "GET token 200", "GET manifests 200"]

    def test_a_token_is_not_used_to_its_last_second(self, guarded: RealRegistry, at: Reference) -> None:
        publish(opened(guarded, credential(WRITER)), at)
        seconds = [0.0]
        clock = Clock(monotonic=lambda: seconds[0])
        registry = HttpRegistry(guarded.host, Known(guarded.host, credential(READER)), patience=Patience(clock=clock))
        registry.manifest(at)
        guarded.proxy.forget()
        seconds[0] += 3200
        registry.manifest(at)
        seconds[0] += 100
        registry.manifest(at)
        assert wire(guarded) == ["GET manifests 200", "GET token 200", "GET manifests 200"]

    @pytest.mark.parametrize("number", range(1, 6))
    def test_a_connection_that_breaks_at_any_request_is_made_good(
        self, distribution_registry: RealRegistry, repository: str, number: int
    ) -> None:
        at = Reference.parse(f"oci://{distribution_registry.host}/{repository}:{CHANNEL}")
        registry = opened(distribution_registry)
        distribution_registry.proxy.forget()

        def drop_one(seen: int, _method: str, _path: str, _status: int) -> None:
            if seen == number:
                raise Drop

        distribution_registry.proxy.after = drop_one
        manifest = publish(registry, at, repository.encode())
        assert distribution_registry.requests[number - 1].status == 0
        distribution_registry.proxy.forget()
        assert registry.manifest(at) == manifest

    def test_nobody_listens(self) -> None:
        host = f"127.0.0.1:{free_port()}"
        waits: list[float] = []
        registry = HttpRegistry(host, Known(host), patience=Patience(clock=Clock(sleep=waits.append)))
        with pytest.raises(Unreachable, match="nothing listens there"):
            registry.resolve(Reference.parse(f"oci://{host}/acme/flux:{CHANNEL}"))
        assert waits == [0.5, 1.0, 2.0]


class TestLayoutsOfOthers:
    """An image layout directory is read and written by crane and oras as by us."""

    @pytest.fixture
    def layout(self, tmp_path: Path) -> Reference:
        return Reference.parse(f"layout:{tmp_path / 'layout'}:{CHANNEL}")

    def test_oras_reads_what_we_write(
        self, layout: Reference, distribution_registry: RealRegistry, repository: str
    ) -> None:
        manifest = publish(open_registry(layout), layout)
        folder = str(layout.repository).removeprefix("layout:")
        target = f"{distribution_registry.host}/{repository}:copied"
        assert run([peer("oras"), "resolve", "--oci-layout", f"{folder}:{CHANNEL}"]).strip() == str(manifest.digest)
        run([peer("oras"), "cp", "--from-oci-layout", f"{folder}:{CHANNEL}", "--to-plain-http", target])
        at = Reference.parse(f"oci://{target}")
        assert opened(distribution_registry).manifest(at) == manifest

    def test_crane_reads_what_we_write(
        self, layout: Reference, distribution_registry: RealRegistry, repository: str
    ) -> None:
        manifest = publish(open_registry(layout), layout)
        target = f"{distribution_registry.host}/{repository}:pushed"
        folder = str(layout.repository).removeprefix("layout:")
        run([peer("crane"), "push", "--insecure", folder, target])
        assert opened(distribution_registry).manifest(Reference.parse(f"oci://{target}")) == manifest

    def test_we_read_and_extend_what_oras_writes(self, layout: Reference, tmp_path: Path) -> None:
        (tmp_path / "one.yaml").write_text("kind: ConfigMap\n")
        folder = str(layout.repository).removeprefix("layout:")
        run(
            [
                peer("oras"),
                "push",
                "--oci-layout",
                f"{folder}:theirs",
                "--disable-path-validation",
                f"{tmp_path}/one.yaml",
            ]
        )
        registry = open_registry(layout)
        theirs = registry.manifest(layout.at_tag("theirs"))
        assert registry.blob(layout, theirs.layers[0]) == b"kind: ConfigMap\n"
        ours = publish(registry, layout)
        for tag, digest in (("theirs", theirs.digest), (CHANNEL, ours.digest)):
            assert run([peer("oras"), "resolve", "--oci-layout", f"{folder}:{tag}"]).strip() == str(digest)
        assert json.loads(run([peer("oras"), "repo", "tags", "--oci-layout", "--format=json", folder]))["tags"]

    def test_real_programs_read_what_we_write_over_http(self, any_registry: RealRegistry, repository: str) -> None:
        at = Reference.parse(f"oci://{any_registry.host}/{repository}:{CHANNEL}")
        manifest = publish(opened(any_registry), at)
        place = f"{any_registry.host}/{repository}:{CHANNEL}"
        assert run([peer("crane"), "digest", "--insecure", place]).strip() == str(manifest.digest)
        assert run([peer("oras"), "manifest", "fetch", "--plain-http", place]).encode().strip() == manifest.raw.strip()


def write_notes(reference: str, writer: int, number: int) -> None:
    """Be a writer in a process of its own."""
    at = Reference.parse(reference)
    registry = open_registry(at)
    for each in range(number):
        text = b"%d-%d" % (writer, each)
        attach(registry, at, note(text, NOBODY), text)


class TestAttaching:
    """Referrers: what each call costs, what oras reads of ours and we of its, and what two writers do to each other."""

    def test_what_each_call_costs(self, any_registry: RealRegistry, repository: str) -> None:
        at = Reference.parse(f"oci://{any_registry.host}/acme/flux/{repository}:{CHANNEL}")
        registry = opened(any_registry)
        subject = publish(registry, at).digest
        for data in (b"{}", b"a note"):
            registry.put_blob(at, data)
        any_registry.proxy.forget()

        def cost() -> list[str]:
            seen = [
                f"{method} {path.replace(subject.hex, '').split('/')[-2]} {status}"
                for method, path, status in any_registry.requests
            ]
            any_registry.proxy.forget()
            return seen

        api = registry.referrers(at, subject) == () and cost()
        assert api in (["GET referrers 200"], ["GET referrers 404", "GET manifests 404"])
        registry.put_referrer(at, note(b"a note", subject))
        # None of these registries says in its answer that it took the subject, so that the tag is written for both.
        *at_once, write, read_back = cost()  # the referrer is put while the index is looked at
        assert sorted(at_once) == ["GET manifests 404", "PUT manifests 201"]
        assert (write, read_back) == ("PUT manifests 201", "GET manifests 200")
        registry.put_referrer(at, note(b"a note", subject))
        assert sorted(cost()) == ["GET manifests 200", "PUT manifests 201"]
        assert len(registry.referrers(at, subject)) == 1
        assert cost() == (["GET referrers 200"] if len(api) == 1 else ["GET manifests 200"])

    def test_oras_and_we_read_each_others_and_keep_them(
        self, any_registry: RealRegistry, repository: str, tmp_path: Path
    ) -> None:
        place = f"{any_registry.host}/{repository}:{CHANNEL}"
        at = Reference.parse(f"oci://{place}")
        registry = opened(any_registry)
        subject = publish(registry, at).digest
        ours = [attach(registry, at, note(b"first", subject, by="us"), b"first").digest]
        theirs = [oras_attach(tmp_path, "--plain-http", place, "second")]
        ours.append(attach(opened(any_registry), at, note(b"third", subject), b"third").digest)
        theirs.append(oras_attach(tmp_path, "--plain-http", place, "fourth"))
        for known in (registry, opened(any_registry)):
            assert {each.digest for each in known.referrers(at, subject)} == {*ours, *theirs}
        read = registry.manifest(at.at_digest(theirs[0]))
        assert (read.artifact_type, read.annotations["by"]) == (NOTE, "oras")
        assert read.subject is not None
        assert read.subject.digest == subject
        kinds = oras_discover("--plain-http", place)
        assert kinds.keys() == {*ours, *theirs}
        assert set(kinds.values()) <= {NOTE, EMPTY}  # one of the registries lists the config's kind

    def test_a_layout_is_shared_with_oras_too(self, tmp_path: Path) -> None:
        at = Reference.parse(f"layout:{tmp_path / 'layout'}:{CHANNEL}")
        place = f"{tmp_path / 'layout'}:{CHANNEL}"
        registry = open_registry(at)
        subject = publish(registry, at)
        ours = [attach(registry, at, note(b"first", subject, by="us"), b"first")]
        theirs = oras_attach(tmp_path, "--oci-layout", place, "second")
        ours.append(attach(registry, at, note(b"third", subject), b"third"))
        found = {each.digest: each for each in registry.referrers(at, subject.digest)}
        assert found.keys() == {theirs, *(each.digest for each in ours)}
        assert (found[theirs].artifact_type, found[theirs].annotations["by"]) == (NOTE, "oras")
        assert oras_discover("--oci-layout", place) == dict.fromkeys(found, NOTE)
        assert registry.tags(at) == (CHANNEL,)

    def test_two_who_looked_at_the_same_moment_are_both_listed(
        self, distribution_registry: RealRegistry, repository: str
    ) -> None:
        at = Reference.parse(f"oci://{distribution_registry.host}/{repository}:{CHANNEL}")
        notes = [note(text, NOBODY) for text in (b"one", b"two")]
        for data in (b"{}", b"one", b"two"):
            opened(distribution_registry).put_blob(at, data)
        distribution_registry.proxy.forget()
        together = Barrier(2)

        def hold(_number: int, method: str, path: str, _status: int) -> None:
            # Each has looked before either writes, and each has written before either looks back.
            if path.endswith(f"sha256-{NOBODY.hex}") and not together.broken:
                together.wait(10)
                if method == "PUT":
                    together.abort()

        def attach_one(wrote: Manifest) -> Digest:
            return opened(distribution_registry).put_referrer(at, wrote)

        distribution_registry.proxy.after = hold
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(attach_one, notes))
        requests = [request.method for request in distribution_registry.requests]
        assert requests.count("PUT") == 2 + 2 + 1  # the manifests, the indexes, and the one that was lost again
        found = opened(distribution_registry).referrers(at, NOBODY)
        assert sorted(each.digest for each in found) == sorted(each.digest for each in notes)

    def test_processes_that_do_not_wait_for_each_other_lose_none(
        self, distribution_registry: RealRegistry, repository: str
    ) -> None:
        at = Reference.parse(f"oci://{distribution_registry.host}/{repository}:{CHANNEL}")
        context = multiprocessing.get_context("spawn")
        writers = [context.Process(target=write_notes, args=(str(at), writer, 4)) for writer in range(2)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
        assert [writer.exitcode for writer in writers] == [0, 0]
        assert len(opened(distribution_registry).referrers(at, NOBODY)) == 8


def oras_attach(folder: Path, how: str, place: str, text: str) -> Digest:
    """Attach a note with oras, and return its digest."""
    (folder / text).write_text(text)
    command = [peer("oras"), "attach", how, "--artifact-type", NOTE, "--annotation", "by=oras", "--format", "json"]
    said = run([*command, "--disable-path-validation", place, f"{folder / text}:text/plain"])
    return Digest.parse(json.loads(said)["digest"])


def oras_discover(how: str, place: str) -> dict[Digest, str]:
    """Return what oras lists as referrers, with their kinds."""
    said = json.loads(run([peer("oras"), "discover", how, "--format", "json", place]))
    return {Digest.parse(each["digest"]): each["artifactType"] for each in said["referrers"]}


def test_a_manifest_of_the_wrong_repository_is_not_found(distribution_registry: RealRegistry, repository: str) -> None:
    at = Reference.parse(f"oci://{distribution_registry.host}/{repository}:{CHANNEL}")
    with pytest.raises(NotFound, match=r"NAME_UNKNOWN|MANIFEST_UNKNOWN"):
        opened(distribution_registry).manifest(at)


def test_two_layers_are_two_blobs(distribution_registry: RealRegistry, repository: str) -> None:
    at = Reference.parse(f"oci://{distribution_registry.host}/{repository}:{CHANNEL}")
    registry = opened(distribution_registry)
    layers = (b"one", b"two")
    manifest = Manifest.build(
        Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), tuple(Descriptor.of(FLUX_LAYER, layer) for layer in layers)
    )
    for data in (CONFIG_BLOB, *layers):
        registry.put_blob(at, data)
    registry.put_manifest(at, manifest)
    assert tuple(registry.blob(at, layer) for layer in registry.manifest(at).layers) == layers
