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
