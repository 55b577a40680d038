"""The ensemble scheduler with models that answer when the test lets them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.conformance.rules import rule
from tests.engine.schedulers.batching import services
from tests.ensembles import DECOUPLED, ensemble_text, graph, model_text, step
from tritonlab.core.inference.infer_request import InferenceRequest, RequestState, StepRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.metrics.infer_stats import ExecuteTimes, InferStats
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import (
    Code,
    EnsembleError,
    InvalidArgumentError,
    ModelError,
    NotFoundError,
    RemoteException,
    TritonError,
    UnavailableError,
)
from tritonlab.engine.schedulers.ensemble_scheduler import EnsembleScheduler, StepLimits
from tritonlab.testing import FakeTimer, MockClock, RecordingInstrument, collect

MODELS = {
    "echo": model_text(),
    "join": model_text("A B"),
    "choice": model_text("A? B?"),
    "stream": model_text(more=DECOUPLED),
}
CHAIN = ensemble_text(step("echo", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y"))
TWO = ensemble_text(step("echo", "IN=X", "OUT=Y1"), step("echo", "IN=X", "OUT=Y2"), outputs="Y1 Y2")
STREAM = ensemble_text(step("stream", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y"))


def fp32(*numbers: float) -> Tensor:
    return Tensor.from_numpy(np.array(numbers, np.float32))


class Ensemble:
    """An ensemble whose steps' requests stay in `requests` until the test answers them."""

    def __init__(self, text: str) -> None:
        self.clock = MockClock(now=1000)
        self.instrument = RecordingInstrument()
        instruments = Instruments()
        instruments.add(self.instrument)
        self.requests: list[InferenceRequest] = []
        self.refusal: TritonError | None = None
        self.stats = InferStats()
        self.warnings: list[str] = []
        timer, warn = FakeTimer(self.clock), self.warnings.append
        shared = services(self.clock, timer, instruments=instruments, stats=self.stats, warn=warn)
        self.scheduler = EnsembleScheduler("e", 2, graph(text, MODELS), self._infer, shared)

    def _infer(self, request: InferenceRequest) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.requests.append(request)

    def send(self, inputs: Mapping[str, Tensor] | None = None, **fields: Any) -> InferenceRequest:
        request = InferenceRequest("e", {"X": fp32(1)} if inputs is None else dict(inputs), **fields)
        request.request_start = self.clock.now()
        self.responses = collect(request)
        self.scheduler.enqueue(request)
        return request

    def answer(
        self, number: int = 0, *, final: bool = True, error: TritonError | None = None, **outputs: Tensor
    ) -> None:
        request = self.requests.pop(number) if final else self.requests[number]
        respond = request.on_response
        assert respond is not None
        respond(request, InferenceResponse(request.model_name, 1, outputs=dict(outputs), error=error, final=final))

    def end_stream(self, number: int = 0) -> None:
        request = self.requests.pop(number)
        assert request.on_response is not None
        request.on_response(request, InferenceResponse(request.model_name, 1, empty=True))

    def counted(self, what: str) -> int:
        return int(self.stats.to_dict("e", 2)["inference_stats"][what]["count"])


def test_a_request_goes_from_step_to_step() -> None:
    ensemble = Ensemble(CHAIN)
    request = ensemble.send(request_id="r1")
    assert request.state == RequestState.EXECUTING
    assert [sent.model_name for sent in ensemble.requests] == ["echo"]
    middle = fp32(2)
    ensemble.answer(OUT=middle)
    assert ensemble.requests[0].inputs["IN"] is middle  # not a copy
    ensemble.answer(OUT=fp32(3))
    (response,) = ensemble.responses
    assert (response.model_name, response.model_version, response.request_id) == ("e", 2, "r1")
    assert response.outputs["Y"].numpy().tolist() == [3]
    assert response.final
    assert request.state.name == "RELEASED"
    assert repr(ensemble.scheduler) == "<EnsembleScheduler e/2 [0 in flight]>"


def test_a_step_gets_the_fields_of_the_clients_request() -> None:
    ensemble = Ensemble(CHAIN)
    fields: dict[str, Any] = {
        "request_id": "r1",
        "correlation_id": "s",
        "flags": 3,
        "priority": 2,
        "timeout": 7,
        "parameters": {"a": 1},
    }
    request = ensemble.send(**fields)
    sent = ensemble.requests[0]
    assert {name: getattr(sent, name) for name in fields} == fields
    assert isinstance(sent, StepRequest)
    assert sent.parent is request
    assert (sent.model_version, sent.requested_outputs) == (-1, ())


@pytest.mark.parametrize(("flags", "start", "end"), [(0, False, False), (1, True, False), (3, True, True)])
def test_a_response_with_outputs_says_which_sequence_it_belongs_to(flags: int, start: bool, end: bool) -> None:
    ensemble = Ensemble(CHAIN)
    ensemble.send(correlation_id=9, flags=flags)
    ensemble.answer(OUT=fp32(2))
    ensemble.answer(OUT=fp32(3))
    assert ensemble.responses[0].parameters == {"sequence_id": 9, "sequence_start": start, "sequence_end": end}
    ensemble.send()
    ensemble.answer(OUT=fp32(2))
    ensemble.answer()
    assert (ensemble.responses[0].outputs, ensemble.responses[0].parameters) == ({}, {})


def test_the_first_error_ends_the_request_and_names_the_step_and_its_tensors() -> None:
    ensemble = Ensemble(CHAIN)
    request = ensemble.send()
    ensemble.answer(OUT=fp32(2, 3))
    ensemble.answer(error=NotFoundError("no such thing"))
    (response,) = ensemble.responses
    error = response.error
    assert isinstance(error, EnsembleError)
    assert (error.message, error.code) == ("in ensemble 'e', no such thing", Code.NOT_FOUND)
    assert error.reason == (
        "step 1 (model 'echo') of ensemble 'e' failed; its inputs: IN is Z, OUT of step 0 (model 'echo'), FP32[2]"
    )
    assert request.state is RequestState.RELEASED
    assert ensemble.warnings == [f"{error.message} ({error.reason})"]


def test_a_models_exception_stays_with_the_error() -> None:
    ensemble = Ensemble(CHAIN)
    ensemble.send()
    ensemble.answer()
    exception = RemoteException("ValueError", "x")
    ensemble.answer(error=ModelError("failed", exception=exception, reason="the stub was killed", log=("last line",)))
    error = ensemble.responses[0].error
    assert isinstance(error, EnsembleError)
    assert (error.exception, error.log, error.code) == (exception, ("last line",), Code.INTERNAL)
    assert "IN is Z, OUT of step 0 (model 'echo'), not produced; the stub was killed" in error.reason


def test_errors_and_responses_after_the_first_error_are_dropped_and_nothing_starts_any_more() -> None:
    ensemble = Ensemble(
        ensemble_text(
            step("echo", "IN=X", "OUT=V"),
            step("echo", "IN=X", "OUT=W"),
            step("echo", "IN=V", "OUT=Y1"),
            step("echo", "IN=W", "OUT=Y2"),
            outputs="Y1 Y2",
        )
    )
    ensemble.send()
    ensemble.answer(1, error=NotFoundError("first"))
    ensemble.answer(0, OUT=fp32(1))
    assert [str(response.error) for response in ensemble.responses] == ["in ensemble 'e', first"]
    assert ensemble.requests == []


def test_a_step_that_is_refused_fails_the_request() -> None:
    ensemble = Ensemble(CHAIN)
    ensemble.refusal = UnavailableError("Exceeds maximum queue size")
    ensemble.send()
    error = ensemble.responses[0].error
    assert error is not None
    assert (error.message, error.code) == ("in ensemble 'e', Exceeds maximum queue size", Code.UNAVAILABLE)
    assert (ensemble.counted("fail"), ensemble.stats.failures()["OTHER"]) == (2, 2)


def test_a_deadlock_is_reported_with_what_is_waited_for() -> None:
    ensemble = Ensemble(ensemble_text(step("choice", "A=X B=U", "OUT=Y"), inputs="X U?"))
    ensemble.send({"U": fp32(1)}, request_id="r1")
    error = ensemble.responses[0].error
    assert isinstance(error, EnsembleError)
    assert (error.message, error.code) == (
        "in ensemble 'e', [request id: r1] unexpected deadlock, at least one output is not set while no more ensemble "
        "steps can be made",
        Code.INVALID_ARG,
    )
    assert error.reason == (
        "the outputs Y are not set; step 0 (model 'choice') waits for X, which the request does not carry"
    )


def test_the_final_flag_rides_on_the_last_response_of_a_stream() -> None:
    ensemble = Ensemble(STREAM)
    ensemble.send()
    ensemble.answer(0, final=False, OUT=fp32(1))
    ensemble.answer(0, final=False, OUT=fp32(2))
    ensemble.end_stream()
    assert [r.outputs["Y"].numpy()[0] for r in ensemble.responses] == []
    ensemble.answer(0, OUT=fp32(10))
    ensemble.answer(0, OUT=fp32(20))
    assert [(r.outputs["Y"].numpy()[0], r.final, r.empty) for r in ensemble.responses] == [
        (10, False, False),
        (20, True, False),
    ]


def test_a_stream_that_ends_last_gives_an_empty_final_response() -> None:
    ensemble = Ensemble(STREAM)
    ensemble.send()
    ensemble.answer(0, final=False, OUT=fp32(1))
    ensemble.answer(1, OUT=fp32(10))
    ensemble.end_stream()
    assert [(list(r.outputs), r.final, r.empty) for r in ensemble.responses] == [
        (["Y"], False, False),
        ([], True, True),
    ]


def test_an_error_in_a_stream_is_final_although_the_step_goes_on() -> None:
    ensemble = Ensemble(STREAM)
    ensemble.send()
    ensemble.answer(0, final=False, error=NotFoundError("x"))
    ensemble.answer(0, final=False, OUT=fp32(1))
    ensemble.end_stream()
    assert [(str(r.error), r.final) for r in ensemble.responses] == [("in ensemble 'e', x", True)]


@rule("5.7.10")
def test_max_inflight_requests_holds_back_what_follows_over_all_requests() -> None:
    ensemble = Ensemble(STREAM.replace("ensemble_scheduling {", "ensemble_scheduling { max_inflight_requests: 2"))
    ensemble.send()
    for number in range(3):
        ensemble.answer(0, final=False, OUT=fp32(number))
    assert [r.model_name for r in ensemble.requests] == ["stream", "echo", "echo"]
    ensemble.send()
    ensemble.answer(3, final=False, OUT=fp32(9))
    assert len(ensemble.requests) == 4
    ensemble.answer(1, OUT=fp32(0))
    assert [float(r.inputs["IN"].numpy()[0]) for r in ensemble.requests if r.model_name == "echo"] == [1, 2]
    ensemble.answer(1, OUT=fp32(0))
    assert [float(r.inputs["IN"].numpy()[0]) for r in ensemble.requests if r.model_name == "echo"] == [2, 9]


def test_steps_that_were_held_back_are_not_started_for_a_request_that_failed() -> None:
    ensemble = Ensemble(STREAM.replace("ensemble_scheduling {", "ensemble_scheduling { max_inflight_requests: 1"))
    ensemble.send()
    ensemble.answer(0, final=False, OUT=fp32(1))
    ensemble.answer(0, final=False, OUT=fp32(2))
    ensemble.answer(1, error=InvalidArgumentError("x"))
    assert [r.model_name for r in ensemble.requests] == ["stream"]


def test_cancelling_reaches_the_steps_that_run_and_those_that_follow() -> None:
    ensemble = Ensemble(CHAIN)
    request = ensemble.send()
    request.cancel()
    assert ensemble.requests[0].cancelled
    ensemble.answer(OUT=fp32(1))
    assert ensemble.requests[0].cancelled
    ensemble.answer(OUT=fp32(1))
    assert request.on_cancel is None


def test_the_ensemble_counts_its_requests_with_the_times_of_its_steps() -> None:
    ensemble = Ensemble(TWO)
    ensemble.send()
    for request in list(ensemble.requests):
        assert isinstance(request, StepRequest)
        request.on_executed(ExecuteTimes(1, 20, 300))
    late = ensemble.requests[1]
    ensemble.clock.advance(5000)
    ensemble.answer(OUT=fp32(1))
    ensemble.answer(OUT=fp32(1))
    stats = ensemble.stats.to_dict("e", 2)
    assert stats["inference_stats"]["success"] == {"count": 1, "ns": 5000}
    assert [stats["inference_stats"][f"compute_{part}"] for part in ("input", "infer", "output")] == [
        {"count": 1, "ns": 2},
        {"count": 1, "ns": 40},
        {"count": 1, "ns": 600},
    ]
    assert (stats["inference_count"], stats["execution_count"]) == (1, 1)
    assert isinstance(late, StepRequest)
    late.on_executed(ExecuteTimes(0, 5, 0))  # a decoupled step's may come after its final response
    stats = ensemble.stats.to_dict("e", 2)
    assert stats["inference_stats"]["compute_infer"] == {"count": 1, "ns": 45}
    assert stats["batch_stats"][0]["compute_infer"] == {"count": 1, "ns": 45}


def test_an_ensemble_within_an_ensemble_passes_the_times_on() -> None:
    inner = Ensemble(CHAIN)
    passed: list[ExecuteTimes] = []
    outer = InferenceRequest("outer", {})
    request = StepRequest(outer, "e", -1, {"X": fp32(1)}, (), lambda request, response: None, passed.append)
    inner.scheduler.enqueue(request)
    sent = inner.requests[0]
    assert isinstance(sent, StepRequest)
    times = ExecuteTimes(1, 2, 3)
    sent.on_executed(times)
    assert passed == [times]


def test_hooks_hear_of_the_ensembles_own_requests() -> None:
    ensemble = Ensemble(CHAIN)
    request = ensemble.send()
    ensemble.answer(OUT=fp32(1))
    ensemble.answer(OUT=fp32(1))
    assert ensemble.instrument.named("request_queued") == [(request, 1000)]
    assert [args[0] for args in ensemble.instrument.named("response_sent")] == [request]
    assert [args[0] for args in ensemble.instrument.named("request_released")] == [request]


def test_a_callback_that_raises_does_not_keep_the_request_in_flight(caplog: pytest.LogCaptureFixture) -> None:
    ensemble = Ensemble(CHAIN)

    def fail(request: InferenceRequest, response: InferenceResponse) -> None:
        raise RuntimeError("the client's own")

    request = ensemble.send()
    request.on_response = fail
    ensemble.answer(OUT=fp32(1))
    ensemble.answer(OUT=fp32(1))
    assert ensemble.scheduler.waiting() == []
    assert "the client's own" in caplog.text


def test_stop_waits_for_the_requests_in_flight_and_refuses_others() -> None:
    ensemble = Ensemble(CHAIN)
    request = ensemble.send()
    assert ensemble.scheduler.waiting() == [request]
    stopper = threading.Thread(target=ensemble.scheduler.stop)
    stopper.start()
    try:
        while True:  # until it has set the mark
            try:
                ensemble.send()
            except UnavailableError as error:
                assert error.message.endswith("has stopped accepting new inference requests")
                break
            ensemble.answer(-1, OUT=fp32(1))
            ensemble.answer(-1, OUT=fp32(1))
        assert stopper.is_alive()
    finally:
        ensemble.answer(OUT=fp32(1))
        ensemble.answer(OUT=fp32(1))
        stopper.join()


def test_an_abort_fails_what_is_in_flight() -> None:
    ensemble = Ensemble(CHAIN)
    ensemble.send()
    ensemble.scheduler.abort()
    assert str(ensemble.responses[0].error) == "Server exited before the request completed"
    ensemble.scheduler.stop()  # nothing to wait for


def test_it_has_no_queue() -> None:
    ensemble = Ensemble(CHAIN)
    request = ensemble.send()
    assert ensemble.scheduler.pending == 0
    assert not ensemble.scheduler.withdraw(request)


def test_without_a_limit_everything_begins_at_once() -> None:
    limits, begun = StepLimits(0), []
    for number in range(3):
        limits.start(0, lambda number=number: begun.append(number))  # type: ignore[misc]
    limits.end(0)
    assert begun == [0, 1, 2]


def test_requests_of_a_step_wait_in_order_until_one_has_ended() -> None:
    limits, begun = StepLimits(2), []
    for number in range(4):
        limits.start(0, lambda number=number: begun.append(number))  # type: ignore[misc]
    assert begun == [0, 1]
    limits.end(0)
    assert begun == [0, 1, 2]
    limits.end(0)
    limits.end(0)
    limits.end(0)
    limits.start(0, lambda: begun.append(9))
    assert begun == [0, 1, 2, 3, 9]


def test_each_step_has_a_limit_of_its_own() -> None:
    limits, begun = StepLimits(1), []
    limits.start(0, lambda: begun.append(0))
    limits.start(1, lambda: begun.append(1))
    assert begun == [0, 1]


def test_thousands_that_end_as_they_begin_do_not_nest() -> None:
    limits, ended = StepLimits(1), []

    def begin() -> None:
        ended.append(0)
        limits.end(0)

    limits.start(0, lambda: None)
    for _ in range(5000):
        limits.start(0, begin)
    assert not ended
    limits.end(0)
    assert len(ended) == 5000
