"""What recording costs: many short blocks of one run take turns without a recorder, with one, and with a timeline open.

`python -m tests.benchmarks.recording [rounds]` prints the medians of answers per second and of the kernel's CPU time
per request, in flight (batches of up to 32) and one by one, and what the hook itself takes. On a machine with other
work the CPU time is the steadier number.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import tritonlab
from tests.conformance.models import ADD_SUB
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.metrics.infer_stats import ExecuteTimes
from tritonlab.core.observe.instrument import Instruments
from tritonlab.notebook.views.record.timeline import Timeline
from tritonlab.record.live_state import live_state
from tritonlab.record.recorder import Recorder

from .measuring import BATCHING_CONFIG, A, B, place, server

_DEPTH = 32


def in_flight(model: tritonlab.Model, requests: int = 4000) -> None:
    a, b = A.reshape(1, 4), B.reshape(1, 4)
    pending: deque[Any] = deque()
    for _ in range(requests):
        if len(pending) == _DEPTH:
            next(pending.popleft())
        pending.append(model.infer(inputs={"INPUT0": a, "INPUT1": b}))
    while pending:
        next(pending.popleft())


def one_by_one(model: tritonlab.Model, requests: int = 1000) -> None:
    a, b = A.reshape(1, 4), B.reshape(1, 4)
    for _ in range(requests):
        model(INPUT0=a, INPUT1=b)


class Closed:
    """No recorder, as before any was made. Subclasses add what else goes on while a block is measured."""

    def __init__(self, lab: tritonlab.Server) -> None:
        self.instruments = lab.instruments

    def open(self) -> None: ...

    def close(self) -> None: ...


class Recorded(Closed):
    """A recorder, and no view."""

    def __init__(self, lab: tritonlab.Server) -> None:
        super().__init__(lab)
        self.recorder = Recorder()

    def open(self) -> None:
        self.instruments.add(self.recorder)

    def close(self) -> None:
        self.instruments.remove(self.recorder)


class Viewed(Recorded):
    """A recorder, and a timeline in a browser that is as quick as can be: what is sent is packed and dropped. It has
    been open for a while: what came before a block is known there."""

    def __init__(self, lab: tritonlab.Server, model: str) -> None:
        super().__init__(lab)
        found = lab.core.find(model)
        self.view = Timeline(self.recorder.recording, model, lambda: live_state([found]))
        self.view.send = lambda content, buffers=(): json.dumps(content)  # type: ignore[method-assign,assignment]
        self.known: dict[str, Any] = {}

    def open(self) -> None:
        super().open()
        self.view.on_message({"do": "open", "known": self.known})

    def close(self) -> None:
        self.view.on_message({"do": "close"})
        record = self.view.record
        self.known = {
            "epoch": record.epoch,
            "rows": {table: ring.total for table, ring in record.tables.items()},
            "words": {kind: len(words) for kind, words in record.words.lists().items()},
            "marks": record.mark_count,
        }
        super().close()


def measured(
    load: Callable[[tritonlab.Model, int], None], model: tritonlab.Model, requests: int
) -> tuple[float, float]:
    """Return answers per second, and microseconds of CPU of this process per request."""
    started, busy = time.perf_counter(), time.process_time()
    load(model, requests)
    taken, busy = time.perf_counter() - started, time.process_time() - busy
    return requests / taken, busy / requests * 1e6


def costs(
    load: Callable[[tritonlab.Model, int], None],
    model: tritonlab.Model,
    requests: int,
    rounds: int,
    sides: dict[str, Closed],
) -> dict[str, tuple[float, float]]:
    """Return the medians of each side's blocks, which take some ticks of a view and come in another order each
    round: other work on the machine hits all of them."""
    load(model, requests)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    order, random = list(sides), Random(1)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            sides[name].open()
            found[name].append(measured(load, model, requests))
            sides[name].close()
    return {
        name: (statistics.median(rate for rate, _ in results), statistics.median(cpu for _, cpu in results))
        for name, results in found.items()
    }


def hook_us(requests: int) -> float:
    """Return the microseconds of the recorder's hook per request, in batches of so many."""
    instruments = Instruments()
    instruments.add(Recorder())
    sent = [
        InferenceRequest("m", {"INPUT0": Tensor.from_numpy(A), "INPUT1": Tensor.from_numpy(B)}) for _ in range(requests)
    ]
    for request in sent:
        request.shape_key = "m"  # as the rules of a model with fixed dims say
    times, hook, calls = ExecuteTimes(1, 2, 3), instruments.batch_executed, 2000
    assert hook is not None
    rounds = []
    for _ in range(10):
        started = time.process_time()
        for _ in range(calls):
            hook("m", 1, "m_0_0", 1, sent, requests, "full", times, False, 1)
        rounds.append((time.process_time() - started) / calls / requests * 1e6)
    return min(rounds)


def main(rounds: int) -> None:
    for size in (1, 16):
        print(f"the hook, batches of {size}: {hook_us(size):.2f} us per request")
    with tempfile.TemporaryDirectory() as directory, server(Path(directory)) as lab:
        place(Path(directory) / "ours", "add_sub_batch", ADD_SUB, BATCHING_CONFIG)
        model = lab.load("add_sub_batch")
        sides = {
            "closed": Closed(lab),
            "recorded": Recorded(lab),
            "timeline": Viewed(lab, model.name),
            "closed again": Closed(lab),
        }
        for load, requests in ((in_flight, 8000), (one_by_one, 2500)):
            found = costs(load, model, requests, rounds, sides)
            rates, cpus = zip(*(found[name] for name in ("closed", "closed again")), strict=True)
            base, cost = statistics.mean(rates), statistics.mean(cpus)
            for name, (rate, cpu) in found.items():
                share, more = (rate / base - 1) * 100, cpu - cost
                words = f"{rate:8.0f}/s ({share:+5.1f}%)  {cpu:6.2f} us CPU per request ({more:+5.2f})"
                print(f"{load.__name__:<11} {name:<13}{words}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
