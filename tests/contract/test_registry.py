"""The registry in memory and the image layout directory keep the contract; tests/real has the real ones."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.manifest import Descriptor
from ci_automation.artifact.reference import Reference
from ci_automation.net.waiting import Clock, Patience
from ci_automation.registry import open_registry
from ci_automation.registry.credentials import Anonymous
from ci_automation.registry.http import HttpRegistry
from ci_automation.registry.port import OtherRegistry
from tests.contract.hostile_registry import HostileRegistry
from tests.contract.loopback_registry import LoopbackRegistry
from tests.contract.registry_contract import NOBODY, Door, RegistryContract, publish
from tests.fakes.registry import InMemoryRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def publish_nothing() -> Descriptor:
    return Descriptor.of("text/plain", b"nobody put it")


def test_the_door_leads_to_the_registry_that_a_reference_is_in() -> None:
    registry = open_registry(Reference.parse("oci://registry.example/acme/flux:production"))
    assert isinstance(registry, HttpRegistry)
    assert registry.host == "registry.example"
    registry.close()


class TestInMemory(RegistryContract):
    @pytest.fixture(params=[True, False], ids=["referrers API", "fallback tag"])
    def door(self, request: pytest.FixtureRequest) -> Door:
        registry = InMemoryRegistry(referrers_api=request.param)
        at, other = (
            Reference.parse(f"oci://registry.example/{name}:production") for name in ("acme/flux", "acme/other")
        )
        return Door(registry, lambda: registry, at, other)


class TestOverHttp(RegistryContract):
    @pytest.fixture(
        params=[(True, True), (True, False), (False, False), (True, True, False)],
        ids=["referrers API", "referrers API that does not say so", "fallback tag", "no mounts"],
    )
    def door(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
        registry = LoopbackRegistry(*request.param)
        monkeypatch.setattr(self, "mounts", registry.mounts)
        with HostileRegistry(registry) as server:
            at, other = (Reference.parse(f"oci://{server.host}/{name}:production") for name in ("acme/flux", "acme"))
            with ExitStack() as stack:

                def opened() -> HttpRegistry:
                    patience = Patience(clock=Clock(sleep=lambda _: None))
                    return stack.enter_context(closing(HttpRegistry(server.host, Anonymous(), patience=patience)))

                yield Door(opened(), opened, at, other)


class TestLayout(RegistryContract):
    def test_a_blob_of_another_repository_is_mounted_or_has_to_be_put(self, door: Door) -> None:
        manifest = publish(door.registry, door.at)
        elsewhere = Reference.parse("layout:another/directory:production")
        for one, other in ((door.at, elsewhere), (elsewhere, door.at)):
            with pytest.raises(OtherRegistry):
                door.registry.mount_blob(one, manifest.layers[0], other)

    def test_a_blob_that_is_nowhere_is_not_mounted(self, door: Door) -> None:
        assert not door.registry.mount_blob(door.at, publish_nothing(), door.at)

    @pytest.fixture
    def door(self, tmp_path: Path) -> Door:
        at = Reference.parse(f"layout:{tmp_path / 'new' / 'layout'}:production")
        return Door(open_registry(at), lambda: open_registry(at), at)

    def test_repositories_do_not_share_what_they_hold(self, door: Door) -> None:
        elsewhere = Reference.parse("layout:another/directory:production")
        publish(door.registry, door.at)

        def referrers(at: Reference) -> object:
            return door.registry.referrers(at, NOBODY)

        for ask in (door.registry.resolve, door.registry.manifest, door.registry.tags, referrers):
            with pytest.raises(OtherRegistry):
                ask(elsewhere)
