from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonlab.core.clock import Clock
from tritonlab.core.inference.delivery import deliver_error
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.metrics.infer_stats import ExecuteTimes
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import CancelledError
from tritonlab.ipc.processes.stub_log import LogRecord
from tritonlab.server.observe.chrome_trace import ChromeTrace
from tritonlab.testing import MockClock


def made(serial: int, **fields: Any) -> InferenceRequest:
    request = InferenceRequest("add", {"IN": Tensor.from_numpy(np.zeros((1, 2), np.int32))}, **fields)
    request.serial, request.request_start, request.queue_start = serial, 1_000, 2_000
    return request


def listening(clock: Clock | None = None, path: Path | None = None) -> tuple[Instruments, ChromeTrace]:
    instruments = Instruments()
    return instruments, ChromeTrace(instruments, clock or MockClock(), path).start()


def read_events(trace: ChromeTrace) -> list[tuple[Any, ...]]:
    """Return phase, process, lane, name and microseconds of each event."""
    processes = {e["pid"]: e["args"]["name"] for e in trace.events() if e["name"] == "process_name"}
    lanes = {e["tid"]: e["args"]["name"] for e in trace.events() if e["name"] == "thread_name"}
    return [
        (e["ph"], processes[e["pid"]], lanes[e["tid"]], e["name"], e["ts"]) for e in trace.events() if e["ph"] != "M"
    ]


def test_a_request_and_its_execution() -> None:
    hooks, trace = listening()
    request = made(7, request_id="r")
    hooks.request_queued(request, 2_000)  # type: ignore[misc]
    hooks.batch_formed("add", 1, [request], 1, "full", 3_000)  # type: ignore[misc]
    hooks.execute_started("add_0_0", 1, [request], 3_000)  # type: ignore[misc]
    hooks.execute_finished("add_0_0", 1, ExecuteTimes(1_000, 4_000, 2_000), 11_000)  # type: ignore[misc]
    hooks.response_sent(request, InferenceResponse("add", 1), 12_000)  # type: ignore[misc]
    hooks.request_released(request, 13_000)  # type: ignore[misc]
    assert read_events(trace) == [
        ("b", "add", "requests", "r", 1),
        ("b", "add", "requests", "queue", 2),
        ("i", "add", "batches", "full", 3),
        ("e", "add", "requests", "queue", 3),
        ("X", "add", "add_0_0", "execute 1", 3),
        ("X", "add", "add_0_0", "input", 3),
        ("X", "add", "add_0_0", "infer", 4),
        ("X", "add", "add_0_0", "output", 8),
        ("n", "add", "requests", "final response", 12),
        ("e", "add", "requests", "r", 13),
    ]
    spans = [event for event in trace.events() if event.get("cat") == "request"]
    assert {event["id"] for event in spans} == {7}
    assert spans[0]["args"] == {"IN": "<Tensor INT32 [1, 2]>"}
    slices = [event["dur"] for event in trace.events() if event["ph"] == "X"]
    assert slices == [8, 1, 4, 2]


def test_a_request_that_was_never_executed_says_why() -> None:
    hooks, trace = listening()
    request = made(1)
    hooks.request_queued(request, 2_000)  # type: ignore[misc]
    deliver_error(request, 1, CancelledError("gone"), hooks, MockClock(5_000))
    (response,) = [event for event in trace.events() if event["ph"] == "n"]
    assert response["args"] == {"error": "gone"}
    assert read_events(trace)[-1] == ("e", "add", "requests", "request 1", 5)


def test_a_request_that_the_cache_answers() -> None:
    hooks, trace = listening()
    request = made(3)
    hooks.response_sent(request, InferenceResponse("add", 1), 4_000)  # type: ignore[misc]
    hooks.request_released(request, 5_000)  # type: ignore[misc]
    assert [event[0] for event in read_events(trace)] == ["b", "n", "e"]


def test_what_ends_and_did_not_begin_is_left_out() -> None:
    hooks, trace = listening()
    hooks.execute_finished("add_0_0", 1, ExecuteTimes(1, 1, 1), 5_000)  # type: ignore[misc]
    hooks.request_released(made(1), 6_000)  # type: ignore[misc]
    assert trace.events() == []


def test_states_logs_metrics_and_memory() -> None:
    clock = MockClock()
    hooks, trace = listening(clock)
    hooks.model_state("add", 1, "UNAVAILABLE", "unloaded", 1_000)  # type: ignore[misc]
    hooks.metric("m", {"b": "2", "a": "1"}, 3.5, 2_000)  # type: ignore[misc]
    hooks.shm("add_0_0", "kernel", 4096, 64, 3_000)  # type: ignore[misc]
    hooks.log(LogRecord(0, "add", 1, "add_0_0", "log", "INFO", "hello"))  # type: ignore[misc]
    found = set(read_events(trace))
    assert found == {
        ("i", "add", "requests", "UNAVAILABLE version 1", 1),
        ("C", "custom metrics", "m{a=1,b=2}", "m{a=1,b=2}", 2),
        ("C", "shared memory", "add_0_0 kernel", "add_0_0 kernel", 3),
        ("i", "add", "add_0_0", "hello", clock.now() / 1000),
    }


def test_it_listens_until_it_is_stopped_and_writes_a_file(tmp_path: Path) -> None:
    instruments = Instruments()
    with ChromeTrace(instruments, MockClock(), tmp_path / "t.json") as trace:
        instruments.model_state("ü", 1, "READY", "", 1_000)  # type: ignore[misc]
    assert instruments.model_state is None
    written = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert written["traceEvents"] == trace.events()
    assert repr(trace) == f"<ChromeTrace 1 events -> {tmp_path / 't.json'}>"


def test_a_file_that_cannot_be_written_is_reported_before_anything_is_traced(tmp_path: Path) -> None:
    instruments = Instruments()
    with pytest.raises(FileNotFoundError):
        ChromeTrace(instruments, MockClock(), tmp_path / "missing" / "trace.json").start()
    assert list(instruments) == []
