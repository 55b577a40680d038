"""Fakes for load tests: a target that notes what it gets, and rows without any request."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.tools.measure.load_testing.call_log import COLUMNS, CallLog, Rows
from tritonlab.tools.measure.load_testing.load_row import LoadRow, LoadWindow, ServerTimes
from tritonlab.tools.measure.load_testing.request_mix import Lane, ModelInputs, RequestMix
from tritonlab.tools.measure.load_testing.time_percentiles import Percentiles

MS = 1_000_000


def model_inputs(**config: Any) -> ModelInputs:
    """Return the inputs of a model `m`, with a batch dimension if its config has max_batch_size."""
    batch = [-1] if config.get("max_batch_size") else []
    tensors = [("X", "FP32", [3]), ("TEXT", "BYTES", [1])]
    inputs = [{"name": name, "datatype": kind, "shape": batch + shape} for name, kind, shape in tensors]
    return ModelInputs("m", {"inputs": inputs}, config)


class FakeTarget:
    """A target with the requests of an open loop, and when each was due. `under_way`: how many have not ended."""

    place = "nowhere"

    def __init__(self) -> None:
        self.inputs = model_inputs()
        self.sent: list[tuple[InferenceRequest, int, Lane]] = []
        self.under_way = 0

    def statistics(self) -> Mapping[str, Any] | None:
        return None

    def open(self, log: CallLog, mix: RequestMix) -> None:
        self.log = log

    def keep(self, lanes: Sequence[Lane], mix: RequestMix, halt: threading.Event) -> None:
        raise AssertionError("no open loop")

    def start(self, request: InferenceRequest, due: int, lane: Lane) -> None:
        self.sent.append((request, due, lane))

    def outstanding(self) -> int:
        return self.under_way

    def abandon(self) -> int:
        return 0


def ended(due: int, done: int, *, sent: int | None = None, error: int = 0, batch: int = 1) -> tuple[int, ...]:
    """Return the row of a request, in nanoseconds."""
    return (due, due if sent is None else sent, done, done, 0, 0, 1, error, batch)


def rows(*found: tuple[int, ...]) -> Rows:
    return np.array(found, np.int64).reshape(-1, len(COLUMNS))


def row(level: float, rate: float, p50: float = 100.0, **more: Any) -> LoadRow:
    """Return a row of a result; times are microseconds."""
    values: dict[str, Any] = {
        "latency": Percentiles(p50, p50, p50 * 2, p50 * 3, p50 * 4, p50 * 5),
        "server": ServerTimes(10.0, 1.0, 20.0, 2.0, 100, 50, 2.0),
        "errors": {},
    }
    return LoadRow(
        **{
            "level": level,
            "seconds": 3.0,
            "requests": int(rate * 3),
            "requests_per_s": rate,
            "inferences_per_s": rate,
            "responses_per_s": rate,
            "sent_per_s": rate,
            "first_response": None,
            "lag": None,
            "client_send_us": 5.0,
            "client_receive_us": 2.0,
            "unanswered": 0,
            "stable": True,
            "windows": (LoadWindow(0, 3_000_000_000, rate, p50),),
            **values,
            **more,
        }
    )
