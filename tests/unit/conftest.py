"""Unit tests speak to nobody, and property tests try the same examples each time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import pytest_socket
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator

settings.register_profile(
    "same-each-time",
    derandomize=True,
    database=None,
    deadline=None,  # a busy machine is no failure
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same-each-time")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Let coverage look at examples alone: what runs the same branches often takes three times as long if it does."""
    trace = sys.gettrace()
    if item.get_closest_marker("often") or getattr(getattr(item, "function", None), "is_hypothesis_test", False):
        sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)


def pytest_runtest_setup() -> None:
    """Let no test open a socket."""
    pytest_socket.disable_socket()
