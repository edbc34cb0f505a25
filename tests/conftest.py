"""What all tests share."""

from __future__ import annotations

import pytest

# The contract's assertions are in a module that pytest does not collect by itself.
pytest.register_assert_rewrite("tests.contract.registry_contract")
