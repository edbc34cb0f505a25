"""Unit tests speak to nobody, and property tests try the same examples each time."""

from __future__ import annotations

import pytest_socket
from hypothesis import HealthCheck, settings

settings.register_profile(
    "same-each-time",
    derandomize=True,
    database=None,
    deadline=None,  # a busy machine is no failure
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same-each-time")


def pytest_runtest_setup() -> None:
    """Let no test open a socket."""
    pytest_socket.disable_socket()
