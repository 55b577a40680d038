from __future__ import annotations

import math

import numpy as np
import pytest

from tests.notebook.views.playground.test_many_view import answered
from tests.notebook.views.playground.test_result_view import text_of
from tritonlab.core.percentiles import percentiles
from tritonlab.notebook.views.playground.many_view import many_html
from tritonlab.tools.measure.load_testing.call_log import COLUMNS, DONE
from tritonlab.tools.measure.load_testing.load_row import measure
from tritonlab.tools.measure.load_testing.time_percentiles import Percentiles
from tritonlab.tools.measure.tuning.replay import Numbers

#: Two batches, of which the second waited for the first.
TWO_BATCHES = [1.38] * 16 + [73.0] * 16


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 3), (75, 3), (84, 4), (99, 4), (100, 4)])
def test_a_percentile_is_one_of_the_values(percent: float, expected: float) -> None:
    assert percentiles([4, 2, 3, 1], percent) == (expected,)


def test_no_value_has_no_percentile() -> None:
    assert all(math.isnan(value) for value in percentiles([], 50, 99))


def test_every_number_of_the_same_requests_is_the_same() -> None:
    waits = np.array(TWO_BATCHES) * 1e6
    of_load_test = Percentiles.from_nanoseconds(waits)
    of_tuning = Numbers.from_times(waits, np.zeros(32), waits, np.ones(32))
    rows = np.zeros((32, len(COLUMNS)), np.int64)
    rows[:, DONE] = waits
    of_window = measure(rows, 0, 1, percentile=50).latency_us
    assert of_load_test is not None and of_window is not None
    assert (of_load_test.p50 / 1e3, of_window / 1e3, of_tuning.p50 / 1e6) == (73, 73, 73)
    assert "total 37.2 ms 73 ms 73 ms - 73 ms" in text_of(many_html([answered(0, t) for t in TWO_BATCHES], True))
