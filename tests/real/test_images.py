"""A real registry as the mirror of the controllers' images: what it lacks is told, and what it has is pinned."""

from __future__ import annotations

import gzip
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.artifact.tree import COMPONENTS_PATH
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flux.options import Options
from ci_automation.flux.text import image_names, pin, unpin
from ci_automation.impact.change import Certainty
from ci_automation.impact.check import Applied, Known
from ci_automation.impact.checks.images import CHECK
from ci_automation.net.network import Network
from ci_automation.registry.docker_config import DockerConfig
from ci_automation.registry.images import ImageRegistries
from tests.real.peers import peer
from tests.real.pipeline import push
from tests.real.processes import run
from tests.real.program import Pair, channel, elliptic_key, flux_manifests, intent, ports, succeed
from tests.real.registries import PASSWORD, USER, RealRegistry, distribution, docker_config
from tests.real.tokens import WRITER

if TYPE_CHECKING:
    from tests.real.pipeline import KeyPair

VERSION = "v2.9.4"


def crane(*arguments: object, **environment: str) -> str:
    return run([peer("crane"), *arguments], **environment).strip()


def image_kinds(place: str, folder: Path, **environment: str) -> tuple[str, ...]:
    """Push a small image of each kind that registries have, and return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "file").write_text("a controller\n")
    with tarfile.open(folder / "layer.tar", "w") as archive:
        archive.add(folder / "file", "manager")
    names = tuple(f"{place}:{kind}" for kind in ("oci", "docker", "index", "list"))
    oci, docker, index, listed = names
    crane("append", "--oci-empty-base", "-f", folder / "layer.tar", "-t", oci, **environment)
    crane("append", "-f", folder / "layer.tar", "-t", docker, **environment)
    crane("index", "append", "-m", oci, "-t", index, **environment)
    crane("index", "append", "--docker-empty-base", "-m", docker, "-t", listed, **environment)
    return names


def exported(registry: str, *flags: str) -> str:
    """Return what Flux itself prints."""
    return run([peer("flux"), "install", "--export", f"--registry={registry}", *flags])


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror with all images of a release, of all kinds."""

    host: str
    registry: str
    text: str
    environment: dict[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        return image_names(self.text)

    @property
    def options(self) -> Options:
        return Options(registry=self.registry)

    def fill(self, folder: Path) -> None:
        """Push all images."""
        kinds = image_kinds(f"{self.host}/kinds/image", folder, **self.environment)
        for name, kind in zip(self.names, kinds, strict=True):
            crane("copy", kind, name, **self.environment)

    def digests(self) -> dict[str, str]:
        """Return what crane says of each."""
        return {name: crane("digest", name, **self.environment) for name in self.names}


@pytest.fixture
def mirror(distribution_registry: RealRegistry, repository: str, tmp_path: Path) -> Mirror:
    """A mirror that anybody may read."""
    registry = f"{distribution_registry.host}/{repository}/fluxcd"
    found = Mirror(distribution_registry.host, registry, exported(registry), {})
    found.fill(tmp_path / "images")
    return found


def asked(environment: dict[str, str] | None = None) -> ImageRegistries:
    return ImageRegistries(DockerConfig.find(environment or {}, Path("/nonexistent")), Network())


def looked(mirror: Mirror, images: ImageRegistries, text: str | None = None) -> list[tuple[Certainty, str]]:
    known = Known(images=images)
    found = CHECK.look(None, Applied(text or mirror.text, registry=mirror.options.registry), known)
    return [(it.certainty, it.subject) for it in found.hazards]


def pinned(mirror: Mirror) -> tuple[str, dict[str, Digest]]:
    """Return Flux's own text with the digests that we look up."""
    found = asked()
    digests = {name: digest for name in mirror.names if (digest := found.digest(name))}
    return pin(mirror.text, digests), digests


class TestMirror:
    def test_the_digests_are_those_that_crane_knows(self, mirror: Mirror) -> None:
        _, digests = pinned(mirror)
        assert {name: str(digest) for name, digest in digests.items()} == mirror.digests()
        assert len(set(digests.values())) == 4

    def test_what_is_missing_is_told_until_it_is_copied(self, mirror: Mirror) -> None:
        assert looked(mirror, asked()) == []
        text, digests = pinned(mirror)
        gone = mirror.names[1]
        crane("delete", f"{gone.rpartition(':')[0]}@{digests[gone]}")
        assert looked(mirror, asked()) == [(Certainty.CERTAIN, gone)]
        assert looked(mirror, asked(), text) == [(Certainty.CERTAIN, f"{gone}@{digests[gone]}")]
        crane("copy", f"{mirror.host}/kinds/image:docker", gone)
        assert looked(mirror, asked()) == looked(mirror, asked(), text) == []

    def test_it_costs_one_request_for_each_image(self, mirror: Mirror, distribution_registry: RealRegistry) -> None:
        distribution_registry.proxy.forget()
        looked(mirror, asked())
        assert [request.method for request in distribution_registry.requests] == ["HEAD"] * 4

    @pytest.mark.parametrize(
        ("auth", "user", "password"),
        [("htpasswd", USER, PASSWORD), ("token", WRITER.name, WRITER.password)],
        ids=["htpasswd", "token"],
    )
    def test_a_mirror_behind_a_login(self, auth: str, user: str, password: str, tmp_path: Path) -> None:
        with distribution(tmp_path / "registry", auth) as private:
            login = {"DOCKER_CONFIG": str(docker_config(tmp_path / "docker", private.host, user, password))}
            registry = f"{private.host}/mirror/fluxcd"
            found = Mirror(private.host, registry, exported(registry), login)
            found.fill(tmp_path / "images")
            assert looked(found, asked(login)) == []
            assert {certainty for certainty, _ in looked(found, asked())} == {Certainty.UNCHECKED}
        assert looked(found, asked(login)) == [(Certainty.UNCHECKED, ", ".join(found.names))]


class TestProgram:
    def test_a_channel_does_not_begin_with_what_clusters_could_not_pull(
        self, mirror: Mirror, repository: str, flux_releases: Path, tmp_path: Path
    ) -> None:
        at = channel(mirror.host, f"{repository}/flux")
        gone = mirror.names[-1]
        crane("delete", f"{gone.rpartition(':')[0]}@{crane('digest', gone)}")
        where = ("--registry", mirror.registry, "--releases", flux_releases)
        command = ("init", at, "--flux-version", VERSION, *where, *elliptic_key(tmp_path / "keys").signing)
        done = flux_manifests(*command)
        assert (done.code, f"{gone} is not there" in done.errors) == (11, True)
        crane("copy", f"{mirror.host}/kinds/image:list", gone)
        assert succeed(*command)


class TestBase:
    def test_every_text_of_flux_is_given_back_when_its_pins_are_taken_away(self, golden: Path) -> None:
        texts = [gzip.decompress(file.read_bytes()).decode() for file in sorted(golden.glob("text/*/*.yaml.gz"))]
        assert texts
        for text in texts:
            digests = {name: Digest.of(name.encode()) for name in image_names(text)}
            assert digests
            assert unpin(pin(text, digests)) == (text, digests)
            assert unpin(text) == (text, {})

    def test_what_flux_itself_exported_and_somebody_pinned_is_gone_on_from(
        self, mirror: Mirror, repository: str, flux_releases: Path, tmp_path: Path, cosign_key: KeyPair
    ) -> None:
        text, digests = pinned(mirror)
        assert unpin(text) == (mirror.text, digests)
        at = channel(mirror.host, f"{repository}/flux")
        where = str(at).removeprefix("oci://")
        file = tmp_path / "tree" / COMPONENTS_PATH
        file.parent.mkdir(parents=True)
        file.write_text(text)
        digest = push(f"{where}", tmp_path / "tree")
        cosign_key.sign(f"{where.rpartition(':')[0]}@{digest}")
        world = replace(ports(at, flux_releases, Pair.read(cosign_key.private, cosign_key.public)), images=asked())
        planned = make_plan(at, world, intent(VERSION, flags={"log-level": "debug"}))
        (step,) = planned.plan.steps
        assert step.pinned
        assert step.options == replace(mirror.options, log_level="debug")
        made = planned.rendered[0].composed.recipe.components
        assert made == pin(exported(mirror.registry, "--log-level=debug"), digests)
