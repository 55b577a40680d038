"""Callers that send one request after the other, and what they saw."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

#: Returns what the model saw of a request, given a number to send; raises for a request that failed.
Call = Callable[[float], dict[str, object]]


class Outcome(NamedTuple):
    """What the callers saw: answers in each second since the start by process, errors, and answers that were wrong."""

    seconds: float
    by_process: Counter[int]
    since: dict[int, float]
    errors: list[str]
    wrong: int

    @property
    def answers(self) -> int:
        return self.by_process.total()

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.answers / self.seconds

    @property
    def spread(self) -> float:
        """How far the busiest process is above the mean, as a fraction."""
        counts = self.by_process.values()
        return max(counts) * len(counts) / sum(counts) - 1 if counts else 0.0


class Load:
    """Callers under way from the constructor to `end`. `make_call` makes what one of them calls."""

    def __init__(self, make_call: Callable[[], Call], callers: int) -> None:
        self._make = make_call
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._counts: Counter[int] = Counter()
        self._since: dict[int, float] = {}
        self._errors: list[str] = []
        self._wrong = 0
        self.start = time.monotonic()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(callers)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        call = self._make()
        value = float(number)
        while not self._ends.is_set():
            value += 16
            try:
                reading = call(value)
            except Exception as error:
                with self._lock:
                    self._errors.append(str(error))
                time.sleep(0.05)
                continue
            with self._lock:
                process = int(str(reading["pid"]))
                self._counts[process] += 1
                self._since.setdefault(process, time.monotonic() - self.start)
                self._wrong += reading["out"] != value * 2

    def end(self) -> Outcome:
        self._ends.set()
        for thread in self._threads:
            thread.join(60)
        return Outcome(time.monotonic() - self.start, self._counts, self._since, self._errors, self._wrong)

    def answered_by(self, known: set[int], seconds: float) -> float | None:
        """Wait until a process that is not known has answered, and return how long after now that was."""
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            if set(self._counts) - known:
                return time.monotonic() - begun
            time.sleep(0.05)
        return None

    @property
    def processes(self) -> set[int]:
        return set(self._counts)


def measured(make_call: Callable[[], Call], callers: int, seconds: float) -> Outcome:
    load = Load(make_call, callers)
    time.sleep(seconds)
    return load.end()


def reading_of(text: bytes, out: float) -> dict[str, object]:
    """Return what `sleeper` reports that it saw, with its output."""
    return {**json.loads(text), "out": out}
