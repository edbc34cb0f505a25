"""What all tests share."""

from __future__ import annotations

import pytest

from tests.canaries import canaries, pytest_runtest_makereport

__all__ = ["canaries", "pytest_runtest_makereport"]

# The contract's assertions are in a module that pytest does not collect by itself.
pytest.register_assert_rewrite("tests.contract.registry_contract")
