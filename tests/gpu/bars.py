"""The bars that the GPU runtime has to pass, each measured on a card. The sizes can be smaller where the code itself is
tried without one."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from . import models
from .bench import Bench, answer
from .cards import Card

MB = 1 << 20
_ROUNDS = 7
#: Seconds that the memory of a killed process may take to come back.
_PATIENCE = 30.0


@dataclass(frozen=True)
class Bar:
    """A measured figure beside the bar it has to pass."""

    what: str
    figure: str
    bar: str
    passed: bool

    def line(self, card: Card) -> str:
        """Return the line of a report: what, and on which card."""
        verdict = "tried" if card.simulated else "passed" if self.passed else "FAILED"
        return f"{verdict:<7} {self.what}: {self.figure} (bar: {self.bar}) on {card.name}"


@dataclass(frozen=True)
class Sizes:
    """How much is measured: bytes of a large tensor, and of one whose rate is measured, calls of one round with large
    and with small tensors, requests of the long run, elements that a stub has when it is killed."""

    large: int = 256 * MB
    #: so large that what a request costs whatever its size does not count
    rate: int = 2048 * MB
    calls: int = 5
    small_calls: int = 500
    requests: int = 10_000
    kept: int = 256 * MB


class Bars:
    """The measurement of each bar."""

    def __init__(self, bench: Bench, sizes: Sizes | None = None) -> None:
        self._bench = bench
        self._card = bench.card
        self._sizes = sizes or Sizes()

    def all(self) -> Iterator[Bar]:
        for measure in (self.against_host, self.against_copy, self.small, self.flat, self.after_kill):
            yield measure()

    def against_host(self) -> Bar:
        """Measure the way on the device beside the same through host memory."""
        array, card = self._array(self._sizes.large), self._card
        there, here = self._bench.identity(), self._bench.identity(on_device=False)

        def through_host() -> object:
            return card.array(np.asarray(answer(here, card.to_host(array)).numpy()))

        quick = self._seconds(lambda: card.of_answer(answer(there, array)), self._sizes.calls)
        slow = self._seconds(through_host, self._sizes.calls)
        figure = f"{slow / quick:.1f} x ({quick * 1e3:.3g} ms, through the host {slow * 1e3:.4g} ms)"
        return Bar(f"{self._sizes.large / MB:g} MB FP32 identity", figure, ">= 20 x", slow >= 20 * quick)

    def against_copy(self) -> Bar:
        """Measure at what rate a tensor crosses, in and out, beside the rate of a plain copy on the card."""
        size = self._sizes.rate
        array, model = self._array(size), self._bench.in_model("add_one", models.ADD_ONE)
        add = self._seconds(lambda: self._card.clone(array), self._sizes.calls)
        both = self._seconds(lambda: self._card.of_answer(answer(model, array)), self._sizes.calls)
        # in, the addition, which takes as long as a copy, and out
        crossing = max(both - add, 1e-9) / 2
        rates = [size / seconds / 1e9 for seconds in (crossing, add)]
        figure = f"{100 * add / crossing:.0f} % ({rates[0]:.4g} GB/s, a plain copy {rates[1]:.4g} GB/s)"
        return Bar(f"device-to-device rate of {size / MB:g} MB", figure, ">= 70 %", add >= 0.7 * crossing)

    def small(self) -> Bar:
        """Measure a request of a small device tensor beside one of the host."""
        array, host = self._card.array(np.ones(4, np.float32)), np.ones(4, np.float32)
        there, here = self._bench.identity(), self._bench.identity(on_device=False)
        device = self._seconds(lambda: self._card.of_answer(answer(there, array)), self._sizes.small_calls)
        cpu = self._seconds(lambda: answer(here, host), self._sizes.small_calls)
        figure = f"{device / cpu:.2f} x ({device * 1e6:.0f} us, on the CPU {cpu * 1e6:.0f} us)"
        return Bar("a request of 16 bytes on the device", figure, "<= 2 x", device <= 2 * cpu)

    def flat(self) -> Bar:
        """Measure what many requests leave in GPU memory."""
        array, model = self._array(MB), self._bench.identity()
        for _ in range(min(100, self._sizes.requests)):
            self._card.of_answer(answer(model, array))
        before = self._bench.used()
        for _ in range(self._sizes.requests):
            self._card.of_answer(answer(model, array))
        grown = self._bench.used() - before
        what = f"growth of GPU memory over {self._sizes.requests:,} requests of 1 MB"
        return Bar(what, f"{grown / MB:.1f} MB", "<= 2 MB, what the driver takes at once", grown <= 2 * MB)

    def after_kill(self) -> Bar:
        """Measure what comes back of the memory of a stub that is killed."""
        model = self._bench.in_model("hoard", models.HOARD)
        bare = self._bench.used()
        process = answer(model, np.array([self._sizes.kept], np.float32)).numpy()[0]
        taken = self._bench.used() - bare
        os.kill(int(process), signal.SIGKILL)
        started, left = time.monotonic(), taken
        # the new stub has no context of its own before it executes
        while left > 2 * MB and time.monotonic() - started < _PATIENCE:
            time.sleep(0.01)
            left = self._bench.used() - bare
        figure = f"{(taken - left) / MB:.0f} of {taken / MB:.0f} MB back in {time.monotonic() - started:.2f} s"
        passed = taken >= self._sizes.kept and left <= 2 * MB
        return Bar("memory of a killed stub", figure, "all of it", passed)

    def _array(self, nbytes: int) -> object:
        return self._card.array(np.ones(nbytes // 4, np.float32))

    def _seconds(self, once: Callable[[], object], calls: int) -> float:
        """Return the median of some rounds of `calls` calls, per call; the device has done its work by then."""
        once()
        rounds = []
        for _ in range(_ROUNDS):
            self._card.synchronize()
            started = time.perf_counter()
            for _ in range(calls):
                once()
            self._card.synchronize()
            rounds.append((time.perf_counter() - started) / calls)
        return statistics.median(rounds)
