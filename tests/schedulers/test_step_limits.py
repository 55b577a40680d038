from __future__ import annotations

from tritonlab.schedulers.step_limits import StepLimits


def test_without_a_limit_everything_begins_at_once() -> None:
    limits, begun = StepLimits(0), []
    for number in range(3):
        limits.start(0, lambda number=number: begun.append(number))  # type: ignore[misc]
    limits.end(0)
    assert begun == [0, 1, 2]


def test_requests_of_a_step_wait_in_order_until_one_has_ended() -> None:
    limits, begun = StepLimits(2), []
    for number in range(4):
        limits.start(0, lambda number=number: begun.append(number))  # type: ignore[misc]
    assert begun == [0, 1]
    limits.end(0)
    assert begun == [0, 1, 2]
    limits.end(0)
    limits.end(0)
    limits.end(0)
    limits.start(0, lambda: begun.append(9))
    assert begun == [0, 1, 2, 3, 9]


def test_each_step_has_a_limit_of_its_own() -> None:
    limits, begun = StepLimits(1), []
    limits.start(0, lambda: begun.append(0))
    limits.start(1, lambda: begun.append(1))
    assert begun == [0, 1]


def test_thousands_that_end_as_they_begin_do_not_nest() -> None:
    limits, ended = StepLimits(1), []

    def begin() -> None:
        ended.append(0)
        limits.end(0)

    limits.start(0, lambda: None)
    for _ in range(5000):
        limits.start(0, begin)
    assert not ended
    limits.end(0)
    assert len(ended) == 5000
