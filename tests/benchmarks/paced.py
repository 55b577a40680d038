"""Clients that send 100 requests a second, as most clients do: how long each waits, and what it costs the server.

Where a hot loop finds everything awake and in the caches, each of these finds it asleep. Rounds of a second take turns
between the two sides, so that what else the machine does meets both.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import tritonclient.http

import tritonlab
from tests.conformance.models import ADD_SUB, ADD_SUB_CONFIG
from tests.conformance.reference import ReferenceServer

from .measuring import A, B, place, server
from .over_network import bls, sender

RATE = 100
ROUNDS = 8


class Paced(NamedTuple):
    """The seconds of one side: half, and 99 of 100 requests, took no longer; `cpu` is what one cost the processes."""

    p50: float
    p99: float
    cpu: float


Found = tuple[Paced, Paced]


class PacedSide:
    """A side: `once` sends a request and returns the seconds it took; `pids` are the processes that work for it."""

    def __init__(self, once: Callable[[], float], pids: Callable[[], Sequence[int]]) -> None:
        self._once = once
        self._pids = pids
        self._rounds: list[list[float]] = []
        self._cpu: list[float] = []

    def round(self, requests: int = RATE) -> None:
        times = []
        before = cpu_seconds(self._pids())
        due = time.perf_counter()
        for _ in range(requests):
            due += 1 / RATE
            time.sleep(max(0.0, due - time.perf_counter()))
            times.append(self._once())
        self._cpu.append(spent(before) / requests)
        self._rounds.append(times)

    def found(self) -> Paced:
        """Return the times of all rounds but the first, in which each side warms up."""
        rounds = self._rounds[1:]
        p50 = statistics.median(statistics.median(times) for times in rounds)
        p99 = float(np.quantile([each for times in rounds for each in times], 0.99))
        return Paced(p50, p99, statistics.median(self._cpu[1:]))


def in_turn(ours: PacedSide, real: PacedSide) -> Found:
    for number in range(ROUNDS + 1):
        for side in (ours, real) if number % 2 == 0 else (real, ours):
            side.round()
    return ours.found(), real.found()


def over_protocol(protocol: Any, ours: Any, real: Any) -> Found:
    """Measure add_sub over HTTP or gRPC."""
    clients = [protocol.InferenceServerClient(address(side, protocol)) for side in (ours, real)]
    found = in_turn(
        *(
            PacedSide(took(sender(client, protocol)), lambda side=side: tree(side.pid))  # type: ignore[misc]
            for client, side in zip(clients, (ours, real), strict=True)
        )
    )
    for client in clients:
        client.close()
    return found


def over_bls(protocol: Any, ours: Any, real: Any) -> Found:
    """Measure a model that calls another: the seconds of its `exec`, the processor time of all."""
    clients = [protocol.InferenceServerClient(side.grpc) for side in (ours, real)]
    found = in_turn(
        *(
            PacedSide(bls(client, calls=1), lambda side=side: tree(side.pid))  # type: ignore[misc]
            for client, side in zip(clients, (ours, real), strict=True)
        )
    )
    for client in clients:
        client.close()
    return found


def in_kernel(real: ReferenceServer, scratch: Path) -> Found:
    """Measure add_sub in the kernel; Triton: over HTTP. The client's processor time counts on both sides."""
    place(real.repository, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    client = tritonclient.http.InferenceServerClient(real.http, network_timeout=60)
    client.load_model("add_sub")
    with server(scratch) as lab:
        place(scratch / "ours", "add_sub", ADD_SUB, ADD_SUB_CONFIG)
        model = lab.load("add_sub")
        stubs = [instance["pid"] for instance in model.instances()]
        found = in_turn(
            PacedSide(took(lambda: model(INPUT0=A, INPUT1=B)), lambda: [os.getpid(), *stubs]),
            PacedSide(took(sender(client, tritonclient.http)), lambda: [os.getpid(), *tree(real.pid)]),
        )
    client.close()
    return found


class CapturedSide(PacedSide):
    """A side whose requests are captured, each round to a file of its own."""

    def __init__(self, once: Callable[[], float], pids: Callable[[], Sequence[int]], lab: Any, scratch: Path) -> None:
        super().__init__(once, pids)
        self._lab = lab
        self._scratch = scratch

    def round(self, requests: int = RATE) -> None:
        with tritonlab.capture(self._scratch / f"{len(self._rounds)}.arrow", server=self._lab):
            super().round(requests)


def with_capture(scratch: Path) -> Found:
    """Measure add_sub in the kernel with a running capture, and without; the client's processor time counts."""
    with server(scratch) as lab:
        place(scratch / "ours", "add_sub", ADD_SUB, ADD_SUB_CONFIG)
        model = lab.load("add_sub")
        pids = [os.getpid(), *(instance["pid"] for instance in model.instances())]
        once = took(lambda: model(INPUT0=A, INPUT1=B))
        return in_turn(CapturedSide(once, lambda: pids, lab, scratch), PacedSide(once, lambda: pids))


def address(side: Any, protocol: Any) -> str:
    return str(side.http if protocol is tritonclient.http else side.grpc)


def took(once: Callable[[], object]) -> Callable[[], float]:
    """Return a function that calls `once` and returns the seconds it took."""

    def timed() -> float:
        started = time.perf_counter()
        once()
        return time.perf_counter() - started

    return timed


def idle(pid: int, seconds: float = 60) -> float:
    """Return the percent of a core that a server uses while it has no requests."""
    time.sleep(5)  # it has come to rest then
    before = cpu_seconds(tree(pid))
    time.sleep(seconds)
    return spent(before) / seconds * 100


def tree(root: int) -> list[int]:
    """Return a process and all that it started."""
    return [root, *(child.pid for child in psutil.Process(root).children(recursive=True))]


def cpu_seconds(pids: Sequence[int]) -> dict[int, float]:
    """Return the processor time that each process has used, to the nanosecond: Linux has a clock for each (`man
    clock_getcpuclockid`), while utime and stime of /proc count in steps of 10 ms."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            found[pid] = time.clock_gettime((~pid << 3) | 2)
    return found


def spent(before: dict[int, float]) -> float:
    """Return the seconds used since then, by those that have not ended."""
    return sum(now - before[pid] for pid, now in cpu_seconds(list(before)).items())
