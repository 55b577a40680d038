"""Which differences of latencies are more than noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tritonlab.tools.capture.replay.latency_change import LatencyChange, compare_latencies


def latencies(seed: int, count: int = 2000, scale: float = 1.0) -> NDArray[np.int64]:
    """Return latencies around 1 ms whose load changes slowly."""
    random = np.random.default_rng(seed)
    load = 1 + 0.3 * np.sin(np.arange(count) / 200)
    return np.asarray(scale * 1e6 * load * random.lognormal(0, 0.2, count), np.int64)


def verdicts(found: LatencyChange | None) -> list[str]:
    assert found is not None
    return [change.verdict for change in found.changes]


def test_the_same_model_is_not_slower() -> None:
    for seed in range(5):
        assert verdicts(compare_latencies(latencies(seed), latencies(seed + 100), "x")) == ["noise"] * 3


def test_a_slower_model_is_found_and_stated_in_words() -> None:
    found = compare_latencies(latencies(0), latencies(1, scale=1.4), "x")
    assert found is not None and verdicts(found)[:2] == ["slower", "slower"]
    assert found.lines()[1].startswith("p50 1") and "longer" in found.lines()[1]
    assert verdicts(compare_latencies(latencies(0, scale=1.4), latencies(1), "x"))[0] == "faster"


def test_the_drift_of_the_old_model_is_no_change() -> None:
    found = compare_latencies(latencies(0), latencies(1, scale=1.4), "x", latencies(2, scale=1.5))
    assert verdicts(found) == ["noise"] * 3


def test_too_few_requests_tell_nothing() -> None:
    assert verdicts(compare_latencies([1000] * 30, [9000] * 30, "x")) == ["unknown"] * 3
    assert compare_latencies([], [], "x") is None
