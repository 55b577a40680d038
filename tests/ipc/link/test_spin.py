from __future__ import annotations

import os

import pytest

from tritonlab.ipc.link.spin import SPIN_US, STUB_SPIN_US, AnswerPace, PollingRest, SpinBudget

MICROSECOND = 1e-6


def test_polling_is_allowed_while_a_core_is_left() -> None:
    budget = SpinBudget(cores=2)
    assert budget.allowed
    budget.enter(1)
    assert budget.allowed
    budget.enter(1)  # the same instance again counts once
    assert budget.allowed
    budget.enter(2)
    assert not budget.allowed
    budget.leave(1)
    assert budget.allowed
    budget.leave(1)
    budget.leave(3)
    assert budget.allowed


def test_an_execute_that_waits_for_another_model_needs_no_core() -> None:
    budget = SpinBudget(cores=2)
    assert not budget.relaying
    budget.enter(1)
    budget.block(1)
    budget.enter(2)
    assert budget.allowed
    assert budget.relaying
    assert budget.blocks(1) and not budget.blocks(2)
    budget.enter(3)
    assert not budget.relaying  # no core is left to poll on
    budget.leave(3)
    budget.unblock(1)
    assert not budget.allowed
    assert not budget.relaying
    budget.leave(2)
    budget.block(1)
    budget.leave(1)  # its stub died
    assert not budget.relaying


def test_it_counts_the_cores_this_process_may_use() -> None:
    budget = SpinBudget()
    for instance in range(len(os.sched_getaffinity(0)) - 1):
        budget.enter(instance)
    assert budget.allowed
    budget.enter(1000)
    assert not budget.allowed


class Asked:
    """Answers that take so many microseconds, asked for so many after the one before."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pace = AnswerPace()

    def answer(self, takes: float, after: float = 0.0) -> float:
        """For how many microseconds it was polled for."""
        self.now += after * MICROSECOND
        spin = self.pace.begin(self.now)
        self.now += takes * MICROSECOND
        self.pace.end(self.now)
        return spin / MICROSECOND


def test_answers_that_come_soon_are_polled_for() -> None:
    asked = Asked()
    assert asked.answer(60) == 0  # the first one finds the stub asleep
    assert [asked.answer(60) for _ in range(3)] == [pytest.approx(SPIN_US)] * 3


def test_a_stub_that_sleeps_is_not_polled_for() -> None:
    asked = Asked()
    assert [asked.answer(60, after=STUB_SPIN_US + 1) for _ in range(3)] == [0] * 3


def test_answers_that_come_late_are_not_polled_for_until_they_come_soon_again() -> None:
    asked = Asked()
    asked.answer(60)
    assert asked.answer(10 * SPIN_US) > 0
    assert asked.answer(10 * SPIN_US) == 0
    assert asked.answer(SPIN_US + 50) == 0  # 50 of it are for waking up
    assert asked.answer(60) > 0


class Answers:
    """Answers of stubs that were polling, one each 100 us; those that are late come a millisecond after they were
    due."""

    def __init__(self) -> None:
        self.now = 1_000_000_000
        self.crowd = PollingRest()

    def come(self, late: int, of: int = 16) -> bool:
        """Says of these whether polling has done harm."""
        for number in range(of):
            self.now += 100_000
            self.crowd.answered(1_000_000 if number < late else 20_000, self.now)
        return self.crowd.there

    def rest(self) -> int:
        """How many milliseconds nobody polls now."""
        began = self.now
        while self.crowd.there:
            self.now += 1_000_000
            self.crowd.look(self.now)
        return (self.now - began) // 1_000_000


def test_a_crowd_is_there_when_answers_come_late_too_often() -> None:
    answers = Answers()
    assert not any(answers.come(late=4) for _ in range(100))
    assert not answers.come(late=15, of=15)  # nobody goes before there are enough
    assert answers.come(late=0, of=1)
    assert answers.rest() == 10
    assert not answers.crowd.there


def test_polling_rests_longer_each_time_that_it_does_harm_again() -> None:
    answers = Answers()
    rests = []
    for _ in range(9):
        assert answers.come(late=16)
        rests.append(answers.rest())
    assert rests == [10, 20, 40, 80, 160, 320, 640, 1280, 1280]
    for _ in range(20):
        assert not answers.come(late=0)
    assert answers.come(late=16)
    assert answers.rest() == 10


def test_nobody_polls_in_a_crowd() -> None:
    answers = Answers()
    budget = SpinBudget(cores=2, crowd=answers.crowd)
    budget.enter(1)
    budget.block(1)
    assert budget.allowed and budget.relaying
    answers.come(late=16)
    assert not budget.allowed and not budget.relaying
    answers.rest()
    assert budget.allowed and budget.relaying
