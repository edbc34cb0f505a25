"""What is repeated, what is not, how long is waited, and that all of it is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.github.errors import AnswerLost, GitHubUnreachable, RateLimited
from ci_automation.github.waiting import GitHubPatience, Spent, Waiting
from ci_automation.net.values import Answer, NoAnswer
from ci_automation.net.waiting import Clock

if TYPE_CHECKING:
    from threading import Event

    from ci_automation.net.waiting import Deadline

DONE = Answer(200, {}, b"{}")


def limited(seconds: int, status: int = 403) -> Answer:
    """Return the answer that asks to come back later."""
    return Answer(status, {"retry-after": str(seconds)}, b"{}")


UNSENT = NoAnswer("nothing listens there", unsent=True)
BROKEN = NoAnswer("the connection broke")
LATE = NoAnswer("it does not answer in time")
UNTRUSTED = NoAnswer("its certificate is not trusted: self-signed", hopeless=True, unsent=True)


class Line:
    """A line to GitHub, on which answers and failures come as laid down; the clock goes on by what is waited."""

    def __init__(self, *answers: Answer | NoAnswer, spent: Spent | None = None, **patience: Any) -> None:
        self.answers = list(answers)
        self.said: list[str] = []
        self.waited: list[float] = []
        self.now = 1_000_000.0
        patient = GitHubPatience(clock=Clock(sleep=self.sleep, now=lambda: self.now), **patience)
        self.waiting = Waiting(patient, "api.github.com", "Wait.", self.said.append, spent)

    def sleep(self, seconds: float) -> None:
        """Let the time go by."""
        self.waited.append(seconds)
        self.now += seconds

    def send(self, _: Deadline) -> Answer:
        """Answer as laid down."""
        answer = self.answers.pop(0)
        if isinstance(answer, NoAnswer):
            raise answer
        return answer

    def post(self) -> Answer:
        """Send what must be sent once."""
        return self.waiting.persist(self.send, "POST api.github.com/x", once=True)


class TestSentOnce:
    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(Answer(500, {}, b""), id="500"),
            pytest.param(Answer(502, {}, b""), id="502"),
            pytest.param(Answer(503, {}, b""), id="503"),
            pytest.param(limited(1, 503), id="503 that asks to come back"),
            pytest.param(Answer(504, {}, b""), id="504"),
            pytest.param(BROKEN, id="the connection breaks off"),
            pytest.param(LATE, id="no answer in time"),
            pytest.param(NoAnswer("it took longer than is allowed", hopeless=True), id="an answer without end"),
        ],
    )
    def test_what_may_have_been_done_is_not_sent_again(self, answer: Answer | NoAnswer) -> None:
        line = Line(answer, DONE)
        with pytest.raises(AnswerLost, match=r"POST api\.github\.com/x may have been done") as caught:
            line.post()
        assert line.answers == [DONE]
        assert "Run again" in caught.value.hint

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(UNSENT, id="nobody listens"),
            pytest.param(limited(1), id="a secondary limit"),
            pytest.param(limited(1, 429), id="429"),
        ],
    )
    def test_what_was_surely_not_taken_is_sent_again(self, answer: Answer | NoAnswer) -> None:
        line = Line(answer, DONE)
        assert line.post() is DONE
        assert line.waited == [1]

    @pytest.mark.parametrize(
        "failure",
        [
            pytest.param(UNTRUSTED, id="a certificate"),
            pytest.param(UNSENT, id="nobody listens"),
        ],
    )
    def test_what_never_left_is_not_told_as_done(self, failure: NoAnswer) -> None:
        line = Line(*[failure] * 4)
        with pytest.raises(GitHubUnreachable) as caught:
            line.post()
        assert not isinstance(caught.value, AnswerLost)

    @pytest.mark.parametrize("status", [200, 204, 307, 400, 401, 403, 404, 409, 422, 501])
    def test_any_other_answer_is_one(self, status: int) -> None:
        answer = Answer(status, {}, b"")
        assert Line(answer).post() is answer


class TestTheBudget:
    def test_limits_are_waited_for_until_it_is_spent(self) -> None:
        line = Line(limited(25), DONE, limited(25), DONE, limited(25))
        line.post()
        line.post()
        with pytest.raises(RateLimited):
            line.post()
        assert line.waited == [25, 25]

    def test_the_clients_of_a_run_share_it(self) -> None:
        spent = Spent()
        one, other = Line(limited(25), DONE, limited(25), DONE, spent=spent), Line(limited(25), spent=spent)
        one.post()
        one.post()
        with pytest.raises(RateLimited):
            other.post()
        assert other.waited == []

    @pytest.mark.parametrize(
        ("seconds", "budget"), [(31, 60.0), (11, 10.0)], ids=["longer than one may be", "longer than is left"]
    )
    def test_what_takes_longer_is_not_waited_for_at_all(self, seconds: int, budget: float) -> None:
        line = Line(limited(seconds), budget=budget)
        with pytest.raises(RateLimited) as caught:
            line.post()
        assert line.waited == []
        assert caught.value.reset.timestamp() == line.now + seconds

    def test_a_server_that_stumbles_costs_nothing_of_it(self) -> None:
        line = Line(Answer(502, {}, b""), limited(10), DONE, budget=10.0)
        assert line.waiting.persist(line.send, "GET x") is DONE

    def test_every_wait_is_told(self) -> None:
        line = Line(limited(5), Answer(502, {}, b""), BROKEN, DONE)
        line.waiting.persist(line.send, "GET x")
        assert line.said == [
            "api.github.com takes no more requests at the moment; asking again in 5 s",
            "GET x was answered with 502; asking again in 2 s",
            "GET x got no answer; asking again in 4 s",
        ]

    def test_an_answer_that_does_not_come_is_told_and_given_up(self) -> None:
        line, waited = Line(DONE), list[float]()

        def wait(_: Event, seconds: float) -> bool:
            waited.append(seconds)
            return False

        patience = GitHubPatience(clock=Clock(sleep=line.sleep, now=lambda: line.now, wait=wait))
        waiting = Waiting(patience, "api.github.com", "Wait.", line.said.append)
        with pytest.raises(GitHubUnreachable, match="GET x got no answer: it took longer than is allowed"):
            waiting.persist(line.send, "GET x")
        assert line.said == ["still waiting for GET x after 5 s"]
        assert waited == [5.0, 135.0]

    def test_a_minute_without_an_answer_is_enough(self) -> None:
        line = Line()

        def silent(_: Deadline) -> Answer:
            line.now += 20
            raise LATE

        with pytest.raises(GitHubUnreachable, match="GET x got no answer: it does not answer in time"):
            line.waiting.persist(silent, "GET x")
        assert line.now - 1_000_000 <= 63
        assert line.waited == [1.0, 2.0]

    def test_a_limit_is_no_part_of_that_minute(self) -> None:
        line = Line(limited(30), limited(30), BROKEN, DONE)
        assert line.waiting.persist(line.send, "GET x") is DONE

    def test_a_primary_limit_is_over_when_github_says_so(self) -> None:
        line = Line(limited(0))
        headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(line.now) + 1800)}
        line.answers = [Answer(403, headers, b"{}")]
        with pytest.raises(RateLimited, match="before 1970-01-12 14:16:41 UTC"):
            line.post()

    def test_a_limit_without_a_time_is_a_minute(self) -> None:
        line = Line(Answer(403, {}, json.dumps({"message": "You have exceeded a secondary rate limit."}).encode()))
        with pytest.raises(RateLimited) as caught:
            line.post()
        assert caught.value.reset.timestamp() == line.now + 60


class TestThePace:
    def write(self, line: Line, number: int) -> None:
        for _ in range(number):
            line.waiting.pace()

    def test_a_few_writes_are_not_held_up(self) -> None:
        line = Line()
        self.write(line, 10)
        assert line.waited == []

    def test_many_are_a_second_apart(self) -> None:
        line = Line()
        self.write(line, 13)
        assert line.waited == [1, 1, 1]

    def test_one_that_comes_late_is_not_held_up(self) -> None:
        line = Line()
        self.write(line, 11)
        line.now += 0.75
        line.waiting.pace()
        line.now += 5
        line.waiting.pace()
        assert line.waited == [1, 0.25]

    def test_the_clients_of_a_run_share_it(self) -> None:
        spent = Spent()
        one, other = Line(spent=spent), Line(spent=spent)
        self.write(one, 6)
        self.write(other, 5)
        assert (one.waited, other.waited) == ([], [1])

    def test_a_clock_that_was_set_back_holds_up_for_a_second_at_most(self) -> None:
        line = Line()
        self.write(line, 10)
        line.now -= 3600
        line.waiting.pace()
        assert line.waited == [1]


@pytest.mark.parametrize(("failure", "asked"), [(BROKEN, 4), (LATE, 4), (UNSENT, 4), (UNTRUSTED, 1)])
def test_what_failed_is_named_and_not_repeated_where_it_is_there_to_stay(failure: NoAnswer, asked: int) -> None:
    line = Line(*[failure] * 4)
    with pytest.raises(GitHubUnreachable, match=f"^GET x got no answer: {failure.reason}$"):
        line.waiting.persist(line.send, "GET x")
    assert len(line.waited) == asked - 1
