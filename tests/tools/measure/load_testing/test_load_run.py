"""Load tests of models in this process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import ADD_SUB, ADD_SUB_CONFIG, answers, executes, streams
from tests.serving import DECOUPLED, SOON, Lab, config, eventually
from tritonlab import Model
from tritonlab.core.status import InvalidArgumentError, NotFoundError
from tritonlab.record.recorder import Recorder
from tritonlab.tools.measure.load_testing import load_run
from tritonlab.tools.measure.load_testing.load_result import LoadResult
from tritonlab.tools.measure.load_testing.load_run import LoadTest

A, B = np.ones((1, 4), np.float32), np.zeros((1, 4), np.float32)
BATCHING = ADD_SUB_CONFIG.replace("-1", "4") + "max_batch_size: 8 dynamic_batching { }"
QUICK: dict[str, Any] = {"seconds": 0.15, "warmup": 0.02}

#: Answers X requests of the sequence with how many there were, and counts those whose end never came.
SEQUENCE = executes(
    """
    return [self.answer(request) for request in requests]
    """,
    initialize="self.open = {}",
    more="""
    def answer(self, request):
        start, end, who = (pb_utils.get_input_tensor_by_name(request, n).as_numpy()[0][0] for n in ("S", "E", "ID"))
        if start:
            assert who not in self.open
            self.open[who] = 0
        self.open[who] += 1
        count = self.open.pop(who) if end else self.open[who]
        assert count <= 3
        out = np.array([[count, len(self.open)]], np.float32)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", out)])
    """,
)
_CONTROL = "control_input {{ name: '{}' control [ {{ kind: CONTROL_SEQUENCE_{} {} }} ] }}"
SEQUENCE_CONFIG = config(
    "X FP32 1",
    "OUT FP32 2",
    "max_batch_size: 4 sequence_batching { oldest { max_candidate_sequences: 8 }",
    _CONTROL.format("S", "START", "int32_false_true: [ 0, 1 ]"),
    _CONTROL.format("E", "END", "int32_false_true: [ 0, 1 ]"),
    _CONTROL.format("ID", "CORRID", "data_type: TYPE_UINT64"),
    "}",
)

STREAM = streams("np.float32([n])", over="range(3)", reads="X")


@pytest.fixture
def batching(lab: Lab) -> Model:
    model = lab.server.model("batching")
    return model if model.ready() else lab.load("batching", ADD_SUB, BATCHING)


@pytest.fixture
def held(lab: Lab, tmp_path: Path) -> Iterator[Model]:
    """Load a model that answers nothing until the test is over."""
    hold = tmp_path / "hold"
    hold.touch()
    wait = f"while pathlib.Path({str(hold)!r}).exists(): time.sleep(0.005)"
    source = ADD_SUB.replace("responses = []", f"{wait}\n        responses = []")
    source = f"import pathlib, time\n{source}"
    yield lab.load("held", source, ADD_SUB_CONFIG.replace("-1", "4"))
    hold.unlink()
    lab.server.unload("held")


def test_clients_that_wait_for_their_answers(batching: Model) -> None:
    result = batching.load_test(concurrency=[1, 3], batch=2, **QUICK)
    assert isinstance(result, LoadResult)
    assert [row.level for row in result.rows] == [1, 3]
    for row in result.rows:
        assert row.requests > 0 and row.errors == {} and row.unanswered == 0
        assert row.inferences_per_s == pytest.approx(2 * row.requests_per_s)
        assert row.latency is not None and 0 < row.latency.p50 <= row.latency.p99 <= row.latency.max
        assert row.lag is None and len(row.windows) == 3
        assert row.server is not None and row.server.requests > 0 and row.server.compute_infer_us > 0
    assert result.rows[0].server is not None and result.rows[0].server.batch_size == 2


def test_windows_are_measured_until_they_agree_or_there_are_too_many(batching: Model) -> None:
    always = batching.load_test(concurrency=2, window=0.02, warmup=0, stability=1e9)
    assert (len(always.rows[0].windows), always.rows[0].stable) == (3, True)
    never = batching.load_test(concurrency=2, window=0.02, warmup=0, stability=0, max_trials=4)
    assert (len(never.rows[0].windows), never.rows[0].stable) == (4, False)


def test_an_open_loop_sends_at_its_rate(batching: Model) -> None:
    (row,) = batching.load_test(request_rate=200, distribution="constant", seconds=0.3, warmup=0).rows
    assert row.level == 200 and row.requests > 0 and row.errors == {}
    assert row.lag is not None and row.lag.avg >= 0


def test_recorded_arrivals_are_sent_again(batching: Model) -> None:
    recording = Recorder.for_instruments(batching.server.instruments).recording
    recording.clear()
    result = batching.load_test(arrivals=[0.0, 0.02, 0.02, 0.05])
    (row,) = result.rows
    assert (row.requests, row.failed, row.unanswered, row.stable) == (4, 0, 0, None)
    assert result.mode == "arrivals"
    eventually(lambda: len(recording.arrivals("batching")) == 4)  # an execution is recorded after its answers
    again = recording.arrivals("batching")
    assert again[0] == 0 and again[-1] >= 0.03
    assert batching.load_test(arrivals=recording).rows[0].requests == 4
    recording.clear()
    with pytest.raises(InvalidArgumentError, match="no arrivals: the recording has no requests to model 'batching'"):
        batching.load_test(arrivals=recording)


def test_a_stalled_server_is_not_hidden(lab: Lab) -> None:
    """Latency counts from when a request was due, so that those that had to wait for room have waited."""
    source = ADD_SUB.replace("responses = []", "import time; time.sleep(0.05); responses = []")
    model = lab.load("stalls", source, ADD_SUB_CONFIG.replace("-1", "4"))
    (row,) = model.load_test(arrivals=[0.0] * 6, max_outstanding=1).rows
    assert row.requests == 6
    assert row.latency is not None and row.lag is not None
    assert row.latency.max >= 6 * 50_000 and row.lag.max >= 5 * 50_000


def test_a_server_that_falls_behind_is_not_taken_for_a_sender_that_does(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_run, "_DRAIN", 0.1)
    source = answers("(time.sleep(0.05), x)[1]", imports="import time")
    model = lab.load("behind", source, config("IN FP32 1", "OUT FP32 1", "max_batch_size: 1 dynamic_batching { }"))
    result = model.load_test(request_rate=200, distribution="constant", seconds=0.5, warmup=0)
    (row,) = result.rows
    assert row.unanswered > 50 and row.sent_per_s > 150
    assert "could be sent" not in result.text()
    (row,) = model.load_test(arrivals=[0]).rows  # without the requests that were cancelled
    assert row.server is not None and row.server.requests == 1


def test_errors_are_counted_by_text(lab: Lab) -> None:
    failing = ADD_SUB.replace("responses = []", "raise ValueError('no luck')")
    model = lab.load("failing", failing, ADD_SUB_CONFIG.replace("-1", "4"))
    for load in ({"concurrency": 1}, {"concurrency": 2}, {"request_rate": 200}):
        (row,) = model.load_test(window=0.05, warmup=0, **load).rows
        assert row.requests == 0 and row.failed > 0 and len(row.windows) == 1
        assert all("no luck" in text for text in row.errors)
        assert row.latency is None and row.server is None


def test_requests_that_are_refused_are_errors_too(batching: Model) -> None:
    (row,) = batching.load_test(inputs={"INPUT0": A}, window=0.05, warmup=0).rows
    assert row.requests == 0 and row.failed > 0
    assert "expected 2 inputs but got 1 inputs for model 'batching'" in next(iter(row.errors))


def test_streams_have_a_first_response(lab: Lab) -> None:
    model = lab.load("stream", STREAM, config("X FP32 1", "OUT FP32 1", DECOUPLED))
    (row,) = model.load_test(concurrency=2, **QUICK).rows
    assert row.requests > 0
    assert row.responses_per_s == pytest.approx(3 * row.requests_per_s)
    assert row.first_response is not None and row.latency is not None
    assert 0 < row.first_response.p50 <= row.latency.p50


def test_sequences_are_whole_and_leave_no_slot_taken(lab: Lab) -> None:
    model = lab.load("sequence", SEQUENCE, SEQUENCE_CONFIG)
    for load in ({"concurrency": [1, 3]}, {"request_rate": 300, "sequences": 2}):
        for row in model.load_test(sequence_length=3, **load, **QUICK).rows:
            assert row.requests > 0 and row.errors == {}
    answer = model.infer(inputs={"X": np.ones((1, 1), np.float32)}, correlation_id=1, flags=3)
    assert next(answer).outputs["OUT"].numpy().tolist() == [[1, 0]]


def test_a_test_can_be_stopped_at_once(held: Model) -> None:
    test = held.load_test(concurrency=2, wait=False)
    assert isinstance(test, LoadTest) and not test.finished
    assert test.progress()["rows"] == 1
    test.stop()
    result = test.wait(SOON)
    assert test.finished and result.stopped == "stopped"
    assert all(row.requests == 0 for row in result.rows)


@pytest.mark.parametrize("concurrency", [1, 2])
def test_an_interrupt_ends_a_test_with_what_was_measured(batching: Model, concurrency: int) -> None:
    enough = threading.Event()

    def inputs(number: int) -> dict[str, Any]:
        if number > 20 and not enough.is_set():
            enough.set()
            signal.pthread_kill(threading.main_thread().ident or os.getpid(), signal.SIGINT)
        return {"INPUT0": A, "INPUT1": B}

    result = batching.load_test(concurrency=[concurrency, 4], inputs=inputs, warmup=0, window=60)
    assert result.stopped == "interrupted"
    assert [row.level for row in result.rows] == [concurrency]
    assert result.rows[0].requests > 0


def test_progress_tells_of_the_last_second(batching: Model) -> None:
    progress: dict[str, Any] = {}
    there = threading.Event()

    def inputs(number: int) -> dict[str, Any]:
        if number == 50:
            there.set()
        return {"INPUT0": A, "INPUT1": B}

    test = batching.load_test(concurrency=2, inputs=inputs, warmup=0, window=60, wait=False)
    assert there.wait(SOON)
    progress = test.progress()
    test.stop()
    assert progress["row"] == 0 and progress["rows"] == 1 and progress["level"] == 2 and not progress["finished"]
    assert progress["inferences_per_s"] > 0 and progress["p99_us"] >= progress["p50_us"] > 0
    assert test.wait(SOON).stopped == "stopped"
    assert test.progress()["finished"]


def test_a_function_of_inputs_that_raises_ends_the_test_with_its_error(batching: Model) -> None:
    with pytest.raises(ZeroDivisionError):
        batching.load_test(inputs=lambda number: {"INPUT0": [1 / 0]})


def test_a_model_that_is_not_there_is_reported_at_once(lab: Lab) -> None:
    with pytest.raises(NotFoundError):
        lab.server.model("nobody").load_test()
