"""The registries of the controllers' images: how names are read, what is asked, and what is said of what is missing."""

from __future__ import annotations

import base64
import json
import threading
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.manifest import DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.cli.arguments import Arguments
from ci_automation.cli.places import images as image_registries
from ci_automation.cli.wiring import targets
from ci_automation.flux.bundle import ManifestsBundle
from ci_automation.flux.options import Options
from ci_automation.flux.render import render
from ci_automation.flux.text import image_names, pin
from ci_automation.flux.version import Version
from ci_automation.impact.change import Certainty
from ci_automation.impact.check import Applied, Known
from ci_automation.impact.checks.images import CHECK
from ci_automation.net.network import Network
from ci_automation.net.waiting import Patience
from ci_automation.registry.credentials import Anonymous
from ci_automation.registry.images import ImageRegistries, InvalidImage, parse_image
from ci_automation.registry.port import AccessDenied, Unreachable
from tests.contract.hostile_registry import PASSWORD, USER, HostileRegistry, Reply, Source, Wall
from tests.contract.loopback_registry import LoopbackRegistry
from tests.fakes.world import sample

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_automation.impact.change import Hazard
    from tests.contract.hostile_registry import Seen

QUICK = Patience(attempts=1, seconds=10)
INDEX = b'{"schemaVersion":2,"mediaType":"%s","manifests":[]}'
NAMES = ("helm-controller", "kustomize-controller", "notification-controller", "source-controller")


@pytest.fixture
def mirror() -> LoopbackRegistry:
    """What a mirror has."""
    return LoopbackRegistry()


@pytest.fixture
def server(mirror: LoopbackRegistry) -> Iterator[HostileRegistry]:
    """The mirror."""
    with HostileRegistry(mirror) as server:
        yield server


def registries(**more: object) -> ImageRegistries:
    return ImageRegistries(**{"credentials": Anonymous(), "network": Network(), "patience": QUICK, **more})  # type: ignore[arg-type]


def put(mirror: LoopbackRegistry, image: str, kind: str = OCI_INDEX) -> Digest:
    """Put a manifest of some kind under the name of an image, and return its digest."""
    repository, _, tag = image.partition("/")[2].rpartition(":")
    raw = json.dumps({"schemaVersion": 2, "mediaType": kind, "name": image, "manifests": []}).encode()
    digest = mirror.repositories[repository].tags[tag] = Digest.of(raw)
    mirror.repositories[repository].manifests[digest] = raw
    return digest


def components(registry: str) -> str:
    found = sample("v2.99.4")
    return render(ManifestsBundle.of(found.bundle), Version.parse(found.tag), Options(registry=registry))


def missing(text: str, registry: str, images: ImageRegistries | None) -> tuple[Hazard, ...]:
    return CHECK.look(None, Applied(text, registry=registry), Known(images=images)).hazards


class TestNames:
    @pytest.mark.parametrize(
        ("image", "meant"),
        [
            ("ghcr.io/fluxcd/source-controller:v1.9.4", "oci://ghcr.io/fluxcd/source-controller:v1.9.4"),
            ("localhost/a:b", "oci://localhost/a:b"),
            ("localhost:5000/a/b:c", "oci://localhost:5000/a/b:c"),
            ("mirror:5000/fluxcd/a:b", "oci://mirror:5000/fluxcd/a:b"),
            ("Mirror/fluxcd/a:b", "oci://Mirror/fluxcd/a:b"),
            ("[::1]:5000/fluxcd/a:b", "oci://[::1]:5000/fluxcd/a:b"),
            ("fluxcd/source-controller:v1", "oci://docker.io/fluxcd/source-controller:v1"),
            ("registry:3", "oci://docker.io/registry:3"),
            (f"a.example/b:c@sha256:{'0' * 64}", f"oci://a.example/b@sha256:{'0' * 64}"),
            (f"a.example/b@sha256:{'0' * 64}", f"oci://a.example/b@sha256:{'0' * 64}"),
        ],
    )
    def test_they_are_read_as_containerd_does(self, image: str, meant: str) -> None:
        assert parse_image(image) == Reference.parse(meant)

    @pytest.mark.parametrize(
        "image", ["", "a.example/b", "a..example/b:c", "a.example/B:c", "a.example/b:c@sha256:0", "a.example:99999/b:c"]
    )
    def test_what_no_cluster_could_pull_is_told(self, image: str) -> None:
        with pytest.raises(InvalidImage, match="is not the name of an image"):
            parse_image(image)


class TestDigest:
    @pytest.mark.parametrize("kind", [OCI_INDEX, DOCKER_LIST, OCI_MANIFEST, DOCKER_MANIFEST])
    def test_it_is_one_head_for_every_kind_of_image(
        self, mirror: LoopbackRegistry, server: HostileRegistry, kind: str
    ) -> None:
        image = f"{server.host}/fluxcd/source-controller:v1.9.4"
        digest = put(mirror, image, kind)
        assert registries().digest(image) == digest
        (seen,) = server.seen
        assert (seen.method, seen.path) == ("HEAD", "/v2/fluxcd/source-controller/manifests/v1.9.4")
        assert kind in seen.headers["accept"].split(", ")

    def test_beside_a_digest_the_tag_does_not_count(self, mirror: LoopbackRegistry, server: HostileRegistry) -> None:
        digest = put(mirror, f"{server.host}/fluxcd/a:v1")
        assert registries().digest(f"{server.host}/fluxcd/a:gone@{digest}") == digest
        assert registries().digest(f"{server.host}/fluxcd/a:v1@{Digest.of(b'')}") is None
        assert [seen.path.rpartition("/")[2] for seen in server.seen] == [str(digest), str(Digest.of(b""))]

    def test_what_is_not_there_is_none(self, server: HostileRegistry) -> None:
        assert registries().digest(f"{server.host}/fluxcd/a:v1") is None

    def test_in_one_run_nothing_is_asked_twice(self, mirror: LoopbackRegistry, server: HostileRegistry) -> None:
        there, gone = f"{server.host}/fluxcd/a:v1", f"{server.host}/fluxcd/b:v1"
        digest = put(mirror, there)
        asked = registries()
        for _ in range(2):
            assert asked.digest(there) == asked.digest(f"{there}@{digest}") == digest
            assert asked.digest(gone) is None
        assert len(server.seen) == 2

    def test_a_failure_is_asked_about_again(self, mirror: LoopbackRegistry, server: HostileRegistry) -> None:
        image = f"{server.host}/fluxcd/a:v1"
        digest, answer = put(mirror, image), server.answer
        server.answer = lambda _: Reply(403)
        asked = registries()
        with pytest.raises(AccessDenied):
            asked.digest(image)
        server.answer = answer
        assert asked.digest(image) == digest

    def test_whoever_only_looks_asks_for_the_right_to_read_alone(self) -> None:
        wall, source = Wall(), Source()
        with HostileRegistry(wall.answer) as server:
            assert registries(credentials=source).digest(f"{server.host}/fluxcd/a:v1") is None
        assert list(wall.current) == ["repository:fluxcd/a:pull"]
        assert source.asked == [server.host]

    def test_each_registry_is_shown_its_own_credentials(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        walls = Wall(), Wall()
        with HostileRegistry(walls[0].answer) as own, HostileRegistry(walls[1].answer) as other:
            auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            (tmp_path / "config.json").write_text(json.dumps({"auths": {own.host: {"auth": auth}}}))
            monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
            found = image_registries(Reference.parse("layout:r:production"), None, Arguments())
            for server in (own, other):
                assert found.digest(f"{server.host}/fluxcd/a:v1") is None
        asked = [next(seen for seen in server.seen if seen.path.startswith("/token")) for server in (own, other)]
        assert [seen.authorization for seen in asked] == [f"Basic {auth}", None]

    def test_credentials_that_cannot_be_read_keep_from_asking(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with HostileRegistry(Wall().answer) as server:
            (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {server.host: "nowhere"}}))
            monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
            found = image_registries(Reference.parse("layout:r:production"), None, Arguments())
            with pytest.raises(Unreachable, match="is not installed"):
                found.digest(f"{server.host}/fluxcd/a:v1")

    def test_credentials_that_the_configuration_names_are_for_the_host_of_the_artifact(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        monkeypatch.setenv("PULL_USER", USER)
        monkeypatch.setenv("PULL_PASSWORD", "canary-of-the-artifact")
        walls = Wall(), Wall()
        with HostileRegistry(walls[0].answer) as own, HostileRegistry(walls[1].answer) as other:
            (tmp_path / "c.yaml").write_text(
                f"version: 1\nartifacts:\n- name: a\n  url: oci://{own.host}/acme/flux:production\n"
                "  pinImages: true\n  signing: {mode: unsafe-unsigned}\n"
                "  credentials: {pull: {usernameVariable: PULL_USER, passwordVariable: PULL_PASSWORD}}\n"
            )
            (target,) = targets("a", Arguments(config="c.yaml"))
            assert target.intent.pin_images
            assert target.ports.images is not None
            assert own.seen == other.seen == []
            for server in (own, other):
                assert target.ports.images.digest(f"{server.host}/fluxcd/a:v1") is None
        asked = [next(seen for seen in server.seen if seen.path.startswith("/token")) for server in (own, other)]
        assert [seen.authorization is not None for seen in asked] == [True, False]


class TestMissing:
    def test_flux_s_own_registry_is_not_asked(self) -> None:
        assert missing(components("ghcr.io/fluxcd"), "ghcr.io/fluxcd", registries()) == ()

    def test_without_anybody_to_ask_nothing_is_said(self) -> None:
        assert missing(components("a.example/b"), "a.example/b", None) == ()

    def test_a_mirror_that_has_all_images_is_asked_once_for_each(
        self, mirror: LoopbackRegistry, server: HostileRegistry
    ) -> None:
        registry = f"{server.host}/mirror/fluxcd"
        text = components(registry)
        for image in image_names(text):
            put(mirror, image)
        assert missing(text, registry, registries()) == ()
        assert sorted(seen.path.split("/")[4] for seen in server.seen) == list(NAMES)
        assert {seen.method for seen in server.seen} == {"HEAD"}

    def test_what_it_lacks_is_a_certain_break_with_the_command_that_mends_it(
        self, mirror: LoopbackRegistry, server: HostileRegistry
    ) -> None:
        registry = f"{server.host}/mirror"
        text = components(registry)
        *others, last = image_names(text)
        for image in others:
            put(mirror, image)
        (hazard,) = missing(text, registry, registries())
        assert (hazard.gate, hazard.certainty, hazard.subject) == ("images", Certainty.CERTAIN, last)
        assert hazard.sentence == f"{last} is not there: clusters would meet ImagePullBackOff"
        upstream = last.replace(registry, "ghcr.io/fluxcd")
        assert hazard.remedies == (f"`crane copy {upstream} {last}`",)

    def test_what_is_pinned_is_asked_for_by_its_digest(self, mirror: LoopbackRegistry, server: HostileRegistry) -> None:
        registry = f"{server.host}/mirror"
        text = components(registry)
        digests = {image: put(mirror, image) for image in image_names(text)}
        pinned = pin(text, digests)
        assert missing(pinned, registry, registries()) == ()
        lost = next(iter(digests))
        mirror.repositories[lost.partition("/")[2].rpartition(":")[0]].manifests.clear()
        (hazard,) = missing(pinned, registry, registries())
        name, digest = lost.rpartition("/")[2].partition(":")[0], digests[lost]
        assert hazard.subject == f"{lost}@{digest}"
        assert hazard.remedies == (f"`crane copy ghcr.io/fluxcd/{name}@{digest} {lost}`",)

    def test_a_mirror_that_does_not_let_us_look_is_unchecked_and_says_why(self, server: HostileRegistry) -> None:
        server.answer = lambda seen: Reply(403) if "/source-controller/" in seen.path else Reply(200, b"{}")
        registry = f"{server.host}/mirror"
        text = components(registry)
        (hazard,) = missing(text, registry, registries())
        assert (hazard.certainty, hazard.subject) == (Certainty.UNCHECKED, image_names(text)[-1])
        assert hazard.sentence.startswith(f"an image could not be looked up ({hazard.subject}): ")
        assert "refuses to read mirror/source-controller: 403" in hazard.sentence

    def test_a_mirror_that_is_not_there_is_said_once(self) -> None:
        with HostileRegistry() as gone:
            registry = f"{gone.host}/mirror"
        text = components(registry)
        (hazard,) = missing(text, registry, registries())
        assert hazard.certainty is Certainty.UNCHECKED
        assert hazard.subject == ", ".join(image_names(text))
        assert hazard.sentence.endswith("nothing listens there")

    def test_images_are_asked_for_side_by_side(self, mirror: LoopbackRegistry, server: HostileRegistry) -> None:
        together = threading.Barrier(4, timeout=10)

        def answer(seen: Seen) -> Reply:
            together.wait()  # it breaks, and the answer is an error, unless all four are there at once
            return mirror(seen)

        server.answer = answer
        registry = f"{server.host}/mirror"
        text = components(registry)
        for image in image_names(text):
            put(mirror, image)
        assert missing(text, registry, registries()) == ()

    def test_a_name_that_is_none_is_told_before_anything_is_asked(self) -> None:
        with pytest.raises(InvalidImage):
            missing(components("a..b/c"), "a..b/c", registries())
