"""The judgement of what grows, by measurements that are made up."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tritonlab.tools.check.growth import is_steady, measure, slope

COUNTS = [100.0 * number for number in range(16)]


def test_a_leak_grows_by_what_each_request_leaves() -> None:
    noise = np.random.default_rng(0).normal(size=16) * 500
    values = [300.0 * count + float(jump) for count, jump in zip(COUNTS, noise, strict=True)]
    found = slope(COUNTS[8:], values[8:])
    assert found.grows("memory")
    assert found.low < 300 < found.high
    assert found.per_request == pytest.approx(300, rel=0.05)
    assert is_steady(values, "memory") and is_steady(values, "objects")


def test_one_large_block_is_not_a_leak() -> None:
    values = [0.0] * 12 + [1e7] * 4
    assert not slope(COUNTS, values).grows("memory")


def test_a_cache_that_fills_up_is_not_steady() -> None:
    values = [min(300.0 * count, 200_000.0) for count in COUNTS]
    assert not is_steady(values, "memory")


def test_objects_of_a_warming_interpreter_are_not_steady() -> None:
    values = [650 * (1 - np.exp(-count / 400)) for count in range(0, 400, 25)]
    assert not is_steady(values, "objects")


def test_noise_is_not_a_leak() -> None:
    values = list(np.random.default_rng(1).normal(size=16) * 4096)
    assert not slope(COUNTS, values).grows("memory")


def test_this_process_is_measured() -> None:
    before = measure([os.getpid()])
    read, write = os.pipe()
    after = measure([os.getpid()])
    os.close(read)
    os.close(write)
    assert after["descriptors"] == before["descriptors"] + 2
    assert before["threads"] >= 1
    assert before["memory"] > 1 << 20
    assert measure([2**31 - 1])["memory"] == 0  # a process that has ended holds nothing
