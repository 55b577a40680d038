from __future__ import annotations

import pytest

from tritonlab.instances.life.restart_policy import RestartPolicy, pause_after

SECOND = 1_000_000_000


def died(
    policy: RestartPolicy, *, has_requests: bool = False, has_worked: bool = False, is_killed: bool = False
) -> float:
    """Return the seconds until the next start."""
    return policy.after_death(has_requests=has_requests, has_worked=has_worked, is_killed=is_killed) / SECOND


def test_the_pauses_grow_and_are_bounded() -> None:
    assert [pause_after(failures) / 1e9 for failures in (1, 2, 3, 8, 9, 10, 1000)] == [0.25, 0.5, 1, 32, 60, 60, 60]


def test_a_stub_that_dies_again_and_again_is_held_back() -> None:
    policy = RestartPolicy()
    assert [died(policy) for _ in range(5)] == [0, 0, 1, 2, 4]


@pytest.mark.parametrize("has_requests", [True, False])
def test_one_that_works_is_not_held_back(has_requests: bool) -> None:
    policy = RestartPolicy()
    for _ in range(20):
        assert died(policy, has_requests=has_requests, has_worked=not has_requests) == 0


def test_a_start_that_fails_is_held_back_at_once() -> None:
    policy = RestartPolicy()
    pauses = [policy.after_failed_start(is_killed=False) / SECOND for _ in range(3)]
    assert pauses == [0.25, 0.5, 1]


def test_one_that_is_killed_is_held_back_only_after_many_kills() -> None:
    policy = RestartPolicy()
    assert [died(policy, is_killed=True) for _ in range(4)] == [0] * 4
    assert [policy.after_failed_start(is_killed=True) for _ in range(4)] == [0] * 4  # starts count with them
    assert [policy.after_failed_start(is_killed=True) / SECOND for _ in range(3)] == [0.25, 0.5, 1]
    assert died(policy, has_requests=True, is_killed=True) == 0
    assert policy.after_failed_start(is_killed=True) == 0


def test_a_kill_does_not_count_for_what_the_model_did_before() -> None:
    policy = RestartPolicy()
    assert [died(policy) for _ in range(3)] == [0, 0, 1]
    assert died(policy, is_killed=True) == 0
    assert died(policy) == 2
