from __future__ import annotations

import os

from tritonlab.ipc.spin import SpinBudget


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


def test_it_counts_the_cores_this_process_may_use() -> None:
    budget = SpinBudget()
    for instance in range(len(os.sched_getaffinity(0)) - 1):
        budget.enter(instance)
    assert budget.allowed
    budget.enter(1000)
    assert not budget.allowed
