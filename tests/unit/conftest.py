"""Unit tests speak to nobody, and property tests try the same examples each time."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import sys
from typing import TYPE_CHECKING

import coverage
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
# Thousands of tests are alive in a process: to look through them for garbage so often took a tenth of its time.
gc.set_threshold(10_000)


class Watch:
    """What coverage looks at: the import of the measured rooms, and examples. All else takes twice as long if it does.

    It does not look at what runs the same branches often, and at what pytest does around the tests.
    """

    def __init__(self) -> None:
        self.trace = sys.gettrace()
        if current := coverage.Coverage.current():
            rooms = current.get_option("run:source")
            assert isinstance(rooms, list)
            for name in rooms:
                _import_all(name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Let coverage look at a test that is an example."""
        tries_many = getattr(getattr(item, "function", None), "is_hypothesis_test", False)
        sys.settrace(None if tries_many or item.get_closest_marker("often") else self.trace)
        try:
            yield
        finally:
            sys.settrace(None)

    def pytest_sessionfinish(self) -> None:
        """Hand the trace function back."""
        sys.settrace(self.trace)


def _import_all(name: str) -> None:
    """Import a module, or all modules of a package."""
    module = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
        importlib.import_module(found.name)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Keep coverage from looking at the collection of tests, and then at all but examples."""
    if sys.gettrace():
        session.config.pluginmanager.register(Watch())
        sys.settrace(None)
    return (yield)


def pytest_runtest_setup() -> None:
    """Let no test open a socket."""
    pytest_socket.disable_socket()
