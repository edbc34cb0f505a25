"""Which imports enter a room, and whose tests may look behind its door."""

from __future__ import annotations

import pytest

from tests.doors import entered


@pytest.mark.parametrize(
    ("importer", "imported", "doors"),
    [
        ("ci_automation.flows.update", "ci_automation.policy.plan", [("ci_automation.policy", "plan")]),
        ("ci_automation.policy.gates", "ci_automation.policy.plan", []),
        ("ci_automation.flows.update", "ci_automation.errors", []),
        ("ci_automation.flows.update", "msgspec.structs", []),
        (
            "ci_automation.flux.release",
            "ci_automation.flux.sources.directory",
            [("ci_automation.flux.sources", "directory")],
        ),
        (
            "ci_automation.cli.wiring",
            "ci_automation.flux.sources.directory",
            [("ci_automation.flux", "sources"), ("ci_automation.flux.sources", "directory")],
        ),
        ("tests.unit.policy.test_gates", "ci_automation.policy.gates", []),
        ("tests.contract.test_registry_http", "ci_automation.registry.transport", []),
        ("tests.contract.github.test_tls", "ci_automation.github.client", []),
        ("tests.real.test_overlay", "ci_automation.impact.overlay.marking", [("ci_automation.impact", "overlay")]),
        ("tests.contract.test_rollback", "ci_automation.policy.plan", [("ci_automation.policy", "plan")]),
    ],
)
def test_an_import_enters_each_room_that_it_is_not_in(
    importer: str, imported: str, doors: list[tuple[str, str]]
) -> None:
    assert list(entered(importer, imported)) == doors
