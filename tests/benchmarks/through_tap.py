"""The time that `tritonlab tap` adds to requests to the real server: one client with it and one without, in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tritonclient.grpc
import tritonclient.http

from tests.conformance.models import ADD_SUB, ADD_SUB_CONFIG
from tests.conformance.reference import ReferenceServer
from tests.tap_process import TapProcess

from .measuring import place
from .over_network import sender

CALLS = 800


def compared(real: ReferenceServer, scratch: Path) -> Iterator[tuple[str, float, float]]:
    """Yield names of loads, and the seconds of p50 with the tap and without."""
    place(real.repository, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    with tritonclient.http.InferenceServerClient(real.http) as client:
        client.load_model("add_sub")
    with TapProcess([real.http, real.grpc], scratch / "tap.arrow") as tap:
        ways: tuple[tuple[str, Any, str], ...] = (
            ("HTTP", tritonclient.http, real.http),
            ("gRPC", tritonclient.grpc, real.grpc),
        )
        for (name, library, direct), address in zip(ways, tap.addresses, strict=True):
            with library.InferenceServerClient(address) as through, library.InferenceServerClient(direct) as without:
                sends = sender(through, library), sender(without, library)
                yield f"{name}, one caller", *in_alternation(sends, 0.0)
                yield f"{name} at 100/s", *in_alternation(sends, 0.01)
        tap.stop()


def in_alternation(sends: tuple[Callable[[], object], Callable[[], object]], period: float) -> tuple[float, float]:
    """Return the p50 of each side, in seconds: they take turns request by request, as the load of a machine changes
    more between rounds than the tap adds. `period`: seconds between two requests, 0 for none."""
    times: tuple[list[float], list[float]] = ([], [])
    due = time.perf_counter()
    for number in range(CALLS):
        for side in (0, 1) if number % 2 else (1, 0):
            due += period
            if period:
                time.sleep(max(0.0, due - time.perf_counter()))
            started = time.perf_counter()
            sends[side]()
            times[side].append(time.perf_counter() - started)
    return statistics.median(times[0]), statistics.median(times[1])
