from __future__ import annotations

import math
import random

import pytest

from tritonlab.core.metrics.quantiles import SKETCHES, WINDOW, Sketch, WindowQuantiles

TARGETS = ((0.5, 0.05), (0.9, 0.01), (0.99, 0.001))


def test_nothing_observed() -> None:
    assert math.isnan(Sketch(TARGETS).get(0.5))


def test_a_small_sample_gives_the_lower_neighbour() -> None:
    """2.51 with two requests of 33856 and 190 microseconds printed 190 for every quantile."""
    sketch = Sketch(TARGETS)
    sketch.insert(33856)
    sketch.insert(190)
    assert [sketch.get(q) for q in (0.5, 0.9, 0.999)] == [190, 190, 190]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ranks_are_within_the_error_of_their_quantile(seed: int) -> None:
    values = list(range(20_000))
    random.Random(seed).shuffle(values)
    sketch = Sketch(TARGETS)
    for value in values:
        sketch.insert(value)
    for quantile, error in TARGETS:
        assert sketch.get(quantile) == pytest.approx(quantile * 20_000, abs=2 * error * 20_000 + 2)
    assert len(sketch._samples) < 5_000


def test_what_is_old_is_forgotten() -> None:
    window = WindowQuantiles(TARGETS, now=0)
    window.insert(1, now=0)
    assert window.get(0.5, now=WINDOW - 1) == 1
    window.insert(9, now=WINDOW - 1)
    assert window.get(0.5, now=WINDOW) == 9
    assert window.get(0.5, now=WINDOW + WINDOW // SKETCHES) == 9
    assert math.isnan(window.get(0.5, now=3 * WINDOW))
