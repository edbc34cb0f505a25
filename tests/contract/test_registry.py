"""The registry in memory and the image layout directory keep the contract; tests/real has the real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.reference import Reference
from ci_automation.registry import open_registry
from ci_automation.registry.http import HttpRegistry
from ci_automation.registry.port import OtherRegistry
from tests.contract.registry_contract import Door, RegistryContract, publish
from tests.fakes.registry import InMemoryRegistry

if TYPE_CHECKING:
    from pathlib import Path


def test_the_door_leads_to_the_registry_that_a_reference_is_in() -> None:
    registry = open_registry(Reference.parse("oci://registry.example/acme/flux:production"))
    assert isinstance(registry, HttpRegistry)
    assert registry.host == "registry.example"
    registry.close()


class TestInMemory(RegistryContract):
    @pytest.fixture
    def door(self) -> Door:
        registry = InMemoryRegistry()
        at, other = (
            Reference.parse(f"oci://registry.example/{name}:production") for name in ("acme/flux", "acme/other")
        )
        return Door(registry, lambda: registry, at, other)


class TestLayout(RegistryContract):
    @pytest.fixture
    def door(self, tmp_path: Path) -> Door:
        at = Reference.parse(f"layout:{tmp_path / 'new' / 'layout'}:production")
        return Door(open_registry(at), lambda: open_registry(at), at)

    def test_repositories_do_not_share_what_they_hold(self, door: Door) -> None:
        elsewhere = Reference.parse("layout:another/directory:production")
        publish(door.registry, door.at)
        for ask in (door.registry.resolve, door.registry.manifest, door.registry.tags):
            with pytest.raises(OtherRegistry):
                ask(elsewhere)
