"""The lines that are seen to take time are those that take it: known times, in several Pythons."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.interpreters import environment
from tests.stub import profiled_lines
from tritonlab.stub._pb_stub.process import line_samples
from tritonlab.stub._pb_stub.process.line_samples import AuthorFiles, LineSampler, LineTimes

STUB = Path(__file__).parents[3] / "tritonlab" / "stub"
#: Seconds of each function: some 130 looks.
SECONDS = 0.8
#: Of two lines of which one takes so many times the time of the other, the order is right.
CLEAR = 3.0
#: By how much a share of the time may be off, four standard deviations of 60 looks: on a busy machine there are fewer.
OFF = 0.26


@pytest.mark.parametrize("version", ["3.9", "3.11", "3.13"])
def test_lines_are_seen_in_the_order_of_their_times(version: str) -> None:
    python = environment(version) / "bin" / "python"
    done = subprocess.run(
        [str(python), profiled_lines.__file__, str(STUB), str(SECONDS)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 12
    wrong = {}
    for name, times in found.items():
        true, seen = times["true"], times["seen"]
        whole, all_seen = sum(true.values()), sum(seen.values()) or 1.0
        for one, other in itertools.permutations(true, 2):
            if true[one] > CLEAR * true[other] and seen.get(one, 0.0) <= seen.get(other, 0.0):
                wrong[f"{name}: {one} before {other}"] = times
        if name != "pool":  # its thread hands the interpreter's lock over, which takes time of no line
            for line in true:
                if abs(seen.get(line, 0.0) / all_seen - true[line] / whole) > OFF:
                    wrong[f"{name}: {line}"] = times
    assert wrong == {}
    assert {times["way"] for times in found.values()} <= {"sampling", "monitoring", "monitoring, then sampling"}


MS = 1_000_000


class Bench:
    """A sampler whose clock, alarm and thread stand still. `computed`: the processor time of its process."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.computed, self.threads = MS, 1, 0
        self.armed: int | None = None
        self.woken = self.arms = 0
        fake = SimpleNamespace(
            perf_counter_ns=lambda: self.now,
            perf_counter=lambda: self.now / 1e9,
            process_time_ns=lambda: self.computed,
            thread_time_ns=lambda: 0,
        )
        patch.setattr(line_samples, "time", fake)
        patch.setattr(line_samples, "LookAlarm", self._alarm)
        patch.setattr(line_samples.own_threads, "start", lambda name, run: SimpleNamespace(join=lambda: None))
        patch.setattr(line_samples.own_threads, "count", lambda: 0)
        # threads that earlier tests have left behind are not the author's
        patch.setattr(line_samples.sys, "_current_frames", lambda: {threading.get_ident(): sys._getframe()})
        patch.setattr(line_samples.threading, "active_count", lambda: 1 + self.threads)
        patch.setattr(line_samples.random, "Random", lambda: SimpleNamespace(uniform=lambda low, high: 1.0))
        self.times = LineTimes()
        self.sampler = LineSampler(self.times, AuthorFiles(), lambda ident: 1, lambda: None)
        self.sampler._looks_beside = False  # as its thread finds when it has begun

    def _alarm(self, ring: Callable[[Any], None]) -> Any:
        self.ring = ring
        return SimpleNamespace(arm=self._arm, disarm=self._disarm, wake=self._wake, close=lambda: None, rings=True)

    def _arm(self, nanoseconds: int, wakes: bool = True) -> None:
        self.armed = nanoseconds
        self.arms += 1

    def _disarm(self) -> None:
        self.armed = None

    def _wake(self) -> None:
        self.woken += 1

    def execute(self, nanoseconds: int) -> None:
        """Run for so long; the alarm rings if it is due meanwhile."""
        self.sampler.begin()
        while self.armed is not None and self.armed <= nanoseconds:
            passed = self.armed
            self.now, nanoseconds, self.armed = self.now + passed, nanoseconds - passed, None
            self.ring(sys._getframe())
        self.now += nanoseconds
        self.sampler.end()
        assert self.armed is None

    def seen(self) -> int:
        return sum(own for own, _, _ in self.times.rows.values())


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    yield (found := Bench(monkeypatch))
    found.sampler.stop()


def test_between_executions_nothing_is_set_and_no_time_counts(bench: Bench) -> None:
    for _ in range(100):
        bench.computed += 1 * MS
        bench.execute(1 * MS)
        bench.now += 1000 * MS
    assert bench.woken == 0
    assert 10 <= bench.sampler.looks <= 25  # once in 5 ms of 100; the first looks are taken to cost more
    assert 90 * MS <= bench.seen() <= 100 * MS


def test_where_execute_is_a_small_part_of_the_process_it_is_looked_at_more_often(bench: Bench) -> None:
    for _ in range(1000):
        bench.computed += 100_000
        bench.execute(10_000)
    assert bench.arms <= 3 * bench.sampler.looks  # not for each of the 1,000
    assert 7 <= bench.sampler.looks <= 25  # once in 5 to 10 ms of the 100 of the process, in 10 ms of `execute`


def test_executions_far_longer_than_others_are_looked_at_once_they_take_a_part_of_the_time(bench: Bench) -> None:
    looks, missed = 0, 0
    for _ in range(8):
        for _ in range(500):
            bench.execute(20_000)
        before, arms = bench.sampler.looks, bench.arms
        bench.execute(50 * MS)
        looks += bench.sampler.looks - before
        missed += bench.arms == arms
    assert missed <= 1 and looks >= 50
    assert bench.seen() >= 0.85 * (8 * (500 * 0.02 + 50)) * MS  # the time of a missed one is that of no line


def test_a_wait_within_execute_is_looked_at_as_time_passes(bench: Bench) -> None:
    bench.execute(1000 * MS)
    assert 180 <= bench.sampler.looks <= 210
    assert 990 * MS <= bench.seen() <= 1000 * MS


def test_a_thread_of_the_author_is_looked_at_after_execute(bench: Bench) -> None:
    bench.threads = 1
    bench.now += 2 * MS
    bench.execute(1 * MS)
    assert bench.woken == 1
