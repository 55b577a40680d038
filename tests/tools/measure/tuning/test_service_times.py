from __future__ import annotations

import numpy as np
import pytest

from tritonlab.tools.measure.tuning.service_times import ServiceTimes

SIZES = np.tile([1.0, 2, 4, 8], 50)


def test_a_size_that_was_seen_takes_its_median() -> None:
    took = 1_000 + 100 * SIZES
    took[:4] *= 30  # the first of each size
    times = ServiceTimes.fit(SIZES, took)
    assert [times(size) for size in (1, 2, 4, 8)] == [1_100, 1_200, 1_400, 1_800]
    assert times(6) == 1_600
    assert times(16) == pytest.approx(2_600)


def test_the_error_is_that_of_executions_which_the_fit_has_not_seen() -> None:
    noise = np.random.default_rng(1).uniform(0.8, 1.2, len(SIZES))
    assert ServiceTimes.fit(SIZES, 1_000 * SIZES).error == 0
    assert ServiceTimes.fit(SIZES, 1_000 * noise).error == pytest.approx(10, abs=2)
    few = ServiceTimes.fit(SIZES[:8], SIZES[:8])
    assert np.isnan(few.error) and "too few to estimate" in str(few)


def test_a_size_that_was_seen_once_does_not_bend_the_line() -> None:
    sizes, took = np.append(SIZES, 3), np.append(1_000 + 100 * SIZES, 90_000)
    assert ServiceTimes.fit(sizes, took)(3) == 1_300


def test_below_the_smallest_size_it_shrinks_at_most_in_proportion() -> None:
    sizes = np.tile([4.0, 8], 20)
    assert ServiceTimes.fit(sizes, 1_000 + 100 * sizes)(2) == pytest.approx(1_200)
    assert ServiceTimes.fit(sizes, 100 * sizes**2)(1) == 400


def test_of_one_size_nothing_better_is_claimed_for_larger_ones() -> None:
    times = ServiceTimes.fit(np.ones(20), np.full(20, 5.0))
    assert (times(1), times(4)) == (5, 20)
    assert str(times) == "fitted to 20 executions of sizes 1; off by 0.0% on average"


def test_nothing_cannot_be_fitted() -> None:
    with pytest.raises(ValueError, match="no execution"):
        ServiceTimes.fit(np.array([]), np.array([]))
