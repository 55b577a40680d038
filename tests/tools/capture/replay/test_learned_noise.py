"""What is noise and what is a change, with answers of a known distribution."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.tools.capture.captures import captured
from tests.tools.capture.replay.captures import answer_of, planned
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.capture.replay.learned_noise import LearnedNoise, NoiseTest, gaps

Draw = Callable[[np.random.Generator, int], float]


def gaussian(random: np.random.Generator, number: int) -> float:
    """Return a value whose noise depends on the input."""
    return number + (1 + number % 7) * random.normal()


def dropout(random: np.random.Generator, number: int) -> float:
    return float((np.arange(1, 9) * (random.random(8) > 0.5) * 2 * (1 + number % 3)).sum())


def run_tests(count: int, old: Draw, new: Draw, seed: int = 0, of_now: bool = False) -> list[NoiseTest]:
    random, noise = np.random.default_rng(seed), LearnedNoise(of_now=of_now)
    for number in range(count):
        one, again, other = (answer_of({"OUT": np.float32([f(random, number)])}) for f in (old, old, new))
        noise.add_again(planned(number), one, again, ())
        noise.add_other(number, one, other, ())
    assert noise.noisy == ["OUT"]
    return noise.test("OUT")


@pytest.mark.parametrize("draw", [gaussian, dropout])
@pytest.mark.parametrize("count", [5, 30, 300])
def test_the_noise_of_a_model_is_no_change(draw: Draw, count: int) -> None:
    assert not any(run_tests(count, draw, draw, seed) for seed in range(15))


@pytest.mark.parametrize("of_now", [False, True])
def test_a_bias_of_three_sigma_is_found(of_now: bool) -> None:
    def biased(random: np.random.Generator, number: int) -> float:
        return gaussian(random, number) + 3 * (1 + number % 7)

    pair = (biased, gaussian) if of_now else (gaussian, biased)
    for seed in range(5):
        found = run_tests(60, *pair, seed, of_now=of_now)
        assert "is higher" in [test.words for test in found], found


def test_less_noise_is_a_change() -> None:
    found = run_tests(300, gaussian, lambda random, number: float(number))
    assert [test.words for test in found] == ["differs by less"]


def test_too_few_requests_tell_nothing() -> None:
    noise = LearnedNoise()
    for number in range(16):
        noise.add_again(planned(number), answer_of({"OUT": [1.0]}), answer_of({"OUT": [2.0]}), ())
        noise.add_other(number, answer_of({"OUT": [1.0]}), answer_of({"OUT": [90.0]}), ())
    assert noise.is_undecided and not noise.test("OUT")
    assert noise.least_requests() == 17


def test_bytes_that_are_no_elements_are_infinitely_far_apart() -> None:
    one, other = (
        captured({}, {"OUT": Tensor(DataType.BYTES, (2,), np.frombuffer(data, np.uint8))}).exchange
        for data in (b"\x05\0\0\0ab", b"\x05\0\0\0ac")
    )
    assert gaps(one, other, ()) == {"OUT": (math.inf, 0.0)} and gaps(one, one, ()) == {}
