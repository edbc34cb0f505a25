"""Waiting for others: told once it is long, ended in the end, and without a trace in what comes out."""

from __future__ import annotations

import sys
from functools import partial
from signal import SIGINT, default_int_handler, raise_signal, signal
from threading import Event, Thread, current_thread
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from ci_automation.net.waiting import Overdue, aloud, at_once, watched

if TYPE_CHECKING:
    from collections.abc import Iterator


class Watching:
    """A way to wait in which so many waits end without the event, whatever the time."""

    def __init__(self, in_vain: int) -> None:
        self.in_vain, self.waited, self.told = in_vain, list[float](), 0

    def wait(self, event: Event, seconds: float) -> bool:
        """Wait for the event, but for the first times."""
        self.waited.append(seconds)
        if len(self.waited) <= self.in_vain:
            return False
        return event.wait(60)

    def tell(self) -> None:
        """Count."""
        self.told += 1


@pytest.mark.parametrize(
    ("in_vain", "seconds", "waited", "told"),
    [
        pytest.param(0, 60.0, [5.0], 0, id="at once"),
        pytest.param(1, 60.0, [5.0, 55.0], 1, id="after a while"),
        pytest.param(0, 2.0, [2.0], 0, id="with little time"),
    ],
)
def test_what_comes_in_time_is_returned(in_vain: int, seconds: float, waited: list[float], told: int) -> None:
    watching = Watching(in_vain)
    assert watched(lambda: "done", seconds, watching.tell, watching.wait) == "done"
    assert (watching.waited, watching.told) == (waited, told)


@pytest.mark.parametrize(("seconds", "told"), [(60.0, 1), (5.0, 0), (2.0, 0)])
def test_what_does_not_is_left_behind(seconds: float, told: int) -> None:
    watching, never = Watching(2), Event()
    with pytest.raises(Overdue):
        watched(lambda: never.wait(60), seconds, watching.tell, watching.wait)
    assert watching.told == told
    assert sum(watching.waited) == seconds
    never.set()


@pytest.mark.parametrize("failure", [ValueError("x"), KeyboardInterrupt()])
def test_a_failure_is_raised_where_it_is_waited_for(failure: BaseException) -> None:
    def fail() -> None:
        raise failure

    with pytest.raises(type(failure)) as caught:
        watched(fail, 60.0, lambda: None)
    assert caught.value is failure


def test_the_thread_does_not_keep_the_program_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Thread] = []

    def start(thread: Thread) -> None:
        made.append(thread)
        thread.run()

    monkeypatch.setattr(Thread, "start", start)
    watched(lambda: None, 60.0, lambda: None)
    assert [thread.daemon for thread in made] == [True]


def test_the_results_of_work_at_once_have_its_order() -> None:
    come = Event()
    assert at_once(partial(come.wait, 60), come.set) == [True, None]


@pytest.mark.parametrize("number", [0, 1])
def test_of_work_at_once_the_first_error_is_raised_when_all_has_ended(number: int) -> None:
    failed, ended = Event(), Event()

    def fail(text: str) -> None:
        failed.set()
        raise ValueError(text)

    def end() -> None:
        failed.wait(60)
        Event().wait(0.2)
        ended.set()
        raise ValueError("slow")

    before = [lambda: None] * number
    with pytest.raises(ValueError, match=r"^quick$"):
        at_once(*before, partial(fail, "quick"), end)
    assert ended.is_set()
    with pytest.raises(ValueError, match=r"^slow$"):
        at_once(*before, end, partial(fail, "quick"))


@pytest.fixture
def heard() -> Iterator[None]:
    """Let Ctrl-C interrupt, as it does not in a job that a shell started in the background."""
    before = signal(SIGINT, default_int_handler)
    yield
    signal(SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_ctrl_c_reaches_the_first_of_work_at_once_and_waits_for_no_other() -> None:
    cleaned, never = list[Thread](), Event()

    def work() -> None:
        try:
            raise_signal(SIGINT)
        finally:
            cleaned.append(current_thread())

    before = monotonic()
    with pytest.raises(KeyboardInterrupt):
        at_once(work, partial(never.wait, 60))
    assert monotonic() - before < 30
    assert cleaned == [current_thread()]
    never.set()


@pytest.mark.parametrize(("terminal", "said"), [(False, "a line\n"), (True, "\r\x1b[Ka line\n")])
def test_a_line_on_a_terminal_replaces_that_of_progress(
    terminal: bool, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    aloud("a line")
    assert capsys.readouterr() == ("", said)
