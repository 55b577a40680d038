from __future__ import annotations

import os

import pytest

from tritonlab.ipc.spin import SPIN_US, STUB_SPIN_US, AnswerPace, Crowd, SpinBudget, running_threads

MICROSECOND = 1e-6
NOBODY = Crowd(lambda: 0, 2)


def test_polling_is_allowed_while_a_core_is_left() -> None:
    budget = SpinBudget(cores=2, crowd=NOBODY)
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
    budget = SpinBudget(cores=2, crowd=NOBODY)
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
    budget = SpinBudget(crowd=NOBODY)
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


def test_a_crowd_is_there_when_more_threads_want_to_run_than_there_are_cores() -> None:
    running = [2]
    crowd = Crowd(lambda: running[0], cores=2)
    now = 0

    def look(times: int) -> bool:
        nonlocal now
        for _ in range(times):
            now += 10_000_000
            crowd.look(now)
        return crowd.there

    assert not look(20)
    running[0] = 8
    assert look(1)
    running[0] = 2
    assert look(1)  # nobody goes in a moment
    assert not look(20)
    running[0] = 3
    assert look(20)


def test_a_crowd_is_counted_now_and_then() -> None:
    counted = []
    crowd = Crowd(lambda: counted.append(None) or 0, cores=2)  # type: ignore[func-returns-value]
    for microsecond in range(1000):
        crowd.look(1_000_000_000 + microsecond * 1000)
    assert len(counted) == 1


def test_nobody_polls_in_a_crowd() -> None:
    budget = SpinBudget(cores=2, crowd=Crowd(lambda: 99, 2))
    assert budget.allowed
    budget.crowd.look(1)
    assert not budget.allowed


def test_the_machines_threads_are_counted() -> None:
    assert running_threads() >= 1
