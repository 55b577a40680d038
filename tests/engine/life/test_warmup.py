from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.config.model_config_rules import autofill
from tritonlab.core.inference.infer_request import InferenceRequest, RequestEvent
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.request_rules import RequestRules
from tritonlab.core.metrics.infer_stats import ExecuteTimes, InferStats
from tritonlab.core.status import Code, ModelError, ModelLoadError, RemoteException, TritonError
from tritonlab.engine.execution.payload import Payload
from tritonlab.engine.life.warmup import Warmup, WarmupRun
from tritonlab.testing import MockClock

P = "[request id: <id_unknown>] "
BATCHING = "max_batch_size: 4"


def tensor(kind: str, name: str, datatype: str, dims: list[int], extra: str = "") -> str:
    return f'{kind} {{ name: "{name}" data_type: TYPE_{datatype} dims: {dims} {extra} }}'


def entry(name: str, datatype: str, dims: list[int], how: str = "zero_data: true") -> str:
    return f'inputs {{ key: "{name}" value {{ data_type: TYPE_{datatype} dims: {dims} {how} }} }}'


def sample(*inputs: str, name: str = "s", batch: int = 1, count: int = 0) -> str:
    return f'model_warmup {{ name: "{name}" batch_size: {batch} count: {count} {" ".join(inputs)} }}'


def warmup(*parts: str, directory: Path = Path("/none"), counted: bool = True) -> Warmup:
    text = "\n".join(['backend: "python"', *parts])
    config = autofill(parse_pbtxt(text, "config.pbtxt"), model_name="m", files=["model.py"])
    return Warmup(config, directory, RequestRules(config, model_name="m"), counted=counted)


def made(*parts: str, directory: Path = Path("/none")) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the name of each call's sample, and of each request the arrays."""
    return [
        (name, [{key: t.numpy() for key, t in request.inputs.items()} for request in requests])
        for name, requests in warmup(*parts, directory=directory).samples()
    ]


def refused(*parts: str, directory: Path = Path("/none")) -> tuple[Code, str]:
    with pytest.raises(TritonError) as error:
        made(*parts, directory=directory)
    return error.value.code, error.value.message


IN = tensor("input", "IN", "INT32", [2])


# -- samples


def test_a_batch_of_three_is_three_requests_of_batch_one_as_often_as_it_counts() -> None:
    calls = made(BATCHING, IN, sample(entry("IN", "INT32", [2]), name="a", batch=3, count=2))
    assert [(name, len(requests)) for name, requests in calls] == [("a", 3), ("a", 3)]
    for _, requests in calls:
        for request in requests:
            assert request["IN"].tolist() == [[0, 0]]
            assert request["IN"].dtype == np.int32


def test_without_a_batch_dimension_the_dims_are_the_shape() -> None:
    ((_, (request,)),) = made(IN, sample(entry("IN", "INT32", [2])))
    assert request["IN"].shape == (2,)


@pytest.mark.parametrize("batching", [BATCHING, ""])
def test_batch_size_zero_is_no_sample(batching: str) -> None:  # measured on 2.51
    assert made(batching, IN, sample(entry("IN", "INT32", [2]), batch=0)) == []


def test_random_data_is_random_bytes_and_empty_strings() -> None:
    names = {"I": "INT64", "F": "FP16", "B": "BOOL", "S": "STRING"}
    parts = [tensor("input", name, datatype, [50]) for name, datatype in names.items()]
    how = [entry(name, datatype, [50], "random_data: true") for name, datatype in names.items()]
    ((_, (request,)),) = made(*parts, sample(*how))
    assert len(set(request["I"].tolist())) > 40
    assert set(request["B"].tolist()) == {True, False}
    assert request["F"].dtype == np.float16
    assert request["S"].tolist() == [b""] * 50


def test_files_are_in_the_wire_form(tmp_path: Path) -> None:
    (tmp_path / "warmup" / "sub").mkdir(parents=True)
    (tmp_path / "warmup" / "numbers").write_bytes(np.array([1, 2, 3], np.int32).tobytes())  # the third is left over
    (tmp_path / "warmup" / "sub" / "texts").write_bytes(b"\3\0\0\0abc\1\0\0\0x")
    files = [entry("IN", "INT32", [2], 'input_data_file: "numbers"')]
    files.append(entry("S", "STRING", [2], 'input_data_file: "sub/texts"'))
    parts = (BATCHING, IN, tensor("input", "S", "STRING", [2]), sample(*files, batch=2))
    ((_, requests),) = made(*parts, directory=tmp_path)
    for request in requests:
        assert request["IN"].tolist() == [[1, 2]]
        assert request["S"].tolist() == [[b"abc", b"x"]]


def test_reshapes_apply() -> None:
    ((_, (request,)),) = made(
        BATCHING, tensor("input", "IN", "INT32", [4], "reshape { shape: [ 2, 2 ] }"), sample(entry("IN", "INT32", [4]))
    )
    assert request["IN"].shape == (1, 2, 2)


def test_inputs_that_are_not_in_the_configuration_are_handed_on() -> None:  # controls: measured on 2.51
    ((_, (request,)),) = made(BATCHING, IN, sample(entry("IN", "INT32", [2]), entry("START", "FP32", [1])))
    assert request["START"].tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("inputs", "code", "text"),
    [
        (entry("IN", "INT32", [3]), Code.INVALID_ARG, P + "unexpected shape for input 'IN' for model 'm'. Expected "),
        (entry("IN", "FP32", [2]), Code.INVALID_ARG, P + "inference input 'IN' data-type is 'FP32', but model 'm' "),
        (entry("NO", "INT32", [2]), Code.INVALID_ARG, P + "expected 1 inputs but got 0 inputs for model 'm'. Got "),
        ("", Code.INVALID_ARG, P + "expected 1 inputs but got 0 inputs for model 'm'. Got input(s) [], but missing "),
        (
            entry("IN", "INT32", [-1]),
            Code.INVALID_ARG,
            "warmup setting expects all variable-size dimensions are specified for input 'IN'",
        ),
        (
            entry("IN", "INT32", [2], ""),
            Code.INVALID_ARG,
            P + "warmup setting expects input 'IN' to have input_data_type set",
        ),
        (
            entry("IN", "INT32", [2], 'input_data_file: "no"'),
            Code.INTERNAL,
            "failed to open text file for read /none/warmup/no: No such file or directory",
        ),
    ],
)
def test_samples_that_cannot_be_made(inputs: str, code: Code, text: str) -> None:
    found = refused(BATCHING, IN, sample(inputs))
    assert (found[0], found[1][: len(text)]) == (code, text)


@pytest.mark.parametrize("how", ["zero_data: true", "random_data: true"])
@pytest.mark.parametrize("datatype", ["INT32", "STRING"])
def test_a_sample_that_no_memory_holds_is_the_configurations_error(datatype: str, how: str) -> None:
    absurd = entry("IN", datatype, [1 << 60], how)
    code, text = refused(tensor("input", "IN", datatype, [-1]), sample(absurd))
    needed = f"warmup setting needs {4 << 60} bytes of input 'IN', dims [1152921504606846976]"
    assert (code, text) == (Code.INVALID_ARG, f"{P}{needed}: more than there is memory for")


def test_more_requests_than_any_batch_holds_are_not_made() -> None:
    code, text = refused(IN, BATCHING, sample(entry("IN", "INT32", [2]), batch=1 << 31))
    assert (code, text) == (Code.INVALID_ARG, "batch size 2147483648 for 'm', max allowed is 4")


def test_a_file_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup" / "d").write_bytes(b"\1\0\0\0")
    parts = (BATCHING, IN, sample(entry("IN", "INT32", [2], 'input_data_file: "d"')))
    assert refused(*parts, directory=tmp_path) == (
        Code.INVALID_ARG,
        P + "warmup setting expects 8 bytes, but the data provided from donly has 4 bytes",
    )


# -- executions


class Bench:
    """An instance that is the test: `answer` does what its stub would."""

    def __init__(self, samples: Warmup, answer: Callable[[Bench, Payload], None]) -> None:
        self.payloads: list[Payload] = []
        self.stats = InferStats()
        self.dead: ModelError | None = None
        self._answer = answer
        self.run = WarmupRun(samples, "m_0_0", MockClock(), self.stats, self._execute, lambda: self.dead)

    def _execute(self, payload: Payload, recorder: InferStats) -> None:
        self._recorder = recorder
        for request in payload.requests:
            request.advance(RequestEvent.EXECUTE)
        self.payloads.append(payload)
        self._answer(self, payload)

    def record(self, payload: Payload) -> None:
        count = len(payload.requests)
        self._recorder.record_batch(payload.size, [0] * count, [0] * count, ExecuteTimes(0, 0, 0), 0, 1, 0)

    def executions(self) -> int:
        return int(self.stats.to_dict("m", 1)["execution_count"])


def respond(request: InferenceRequest, error: TritonError | None = None, final: bool = True) -> None:
    request.respond(InferenceResponse("m", 1, error=error, final=final))


def at_once(bench: Bench, payload: Payload) -> None:
    bench.record(payload)
    for request in payload.requests:
        respond(request)


def test_each_call_is_over_before_the_next() -> None:
    two = warmup(BATCHING, IN, sample(entry("IN", "INT32", [2]), batch=2), sample(entry("IN", "INT32", [2]), count=3))
    bench = Bench(two, at_once)
    bench.run.run()
    assert [payload.size for payload in bench.payloads] == [2, 1, 1, 1]
    assert [payload.reason for payload in bench.payloads] == ["warmup"] * 4
    assert bench.executions() == 4


def test_its_requests_have_numbers_that_no_other_request_has() -> None:
    """Listeners tell requests by their numbers; those of clients count from 1, and null requests have 0."""
    samples = warmup(BATCHING, IN, sample(entry("IN", "INT32", [2]), batch=2, count=2))
    numbers: list[int] = []
    for _ in range(2):
        bench = Bench(samples, at_once)
        bench.run.run()
        numbers += [request.serial for payload in bench.payloads for request in payload.requests]
    assert len(set(numbers)) == 8 and min(numbers) >= 1 << 52


def test_what_is_not_counted_leaves_the_statistics_alone() -> None:
    bench = Bench(warmup(BATCHING, IN, sample(entry("IN", "INT32", [2])), counted=False), at_once)
    bench.run.run()
    assert len(bench.payloads) == 1
    assert bench.executions() == 0


def test_a_call_is_over_when_it_was_recorded_and_all_are_answered() -> None:
    order: list[str] = []

    def through_senders(bench: Bench, payload: Payload) -> None:
        for request in payload.requests:
            respond(request, final=False)
            respond(request)
        order.append(f"answered {bench.executions()}")
        bench.record(payload)

    bench = Bench(warmup(BATCHING, IN, sample(entry("IN", "INT32", [2]), count=2)), through_senders)
    bench.run.run()
    assert order == ["answered 0", "answered 1"]
    assert bench.executions() == 2


def test_the_first_failure_ends_it_with_a_message_per_request() -> None:
    raised = RemoteException("ValueError", "no")

    def fail(bench: Bench, payload: Payload) -> None:
        bench.record(payload)
        for request in payload.requests:
            respond(request, ModelError("it raised", exception=raised, log=("a line",)))

    samples = warmup(BATCHING, IN, sample(entry("IN", "INT32", [2]), name="w", batch=2, count=5))
    bench = Bench(samples, fail)
    with pytest.raises(ModelLoadError) as error:
        bench.run.run()
    assert len(bench.payloads) == 1
    assert error.value.code is Code.INVALID_ARG
    assert error.value.message == "failed to run warmup sample 'w': it raised; it raised; "
    assert (error.value.exception, error.value.log) == (raised, ("a line",))


@pytest.mark.parametrize(("batching", "limit"), [(BATCHING, 4), ("", 0)])
def test_a_batch_that_is_too_large_is_not_executed(batching: str, limit: int) -> None:
    bench = Bench(warmup(batching, IN, sample(entry("IN", "INT32", [2]), batch=5)), at_once)
    with pytest.raises(ModelLoadError) as error:
        bench.run.run()
    text = f"batch size 5 for 'm_0_0', max allowed is {limit}; "
    assert error.value.message == f"failed to run warmup sample 's': {text * 5}"
    assert bench.payloads == []


def test_a_stub_that_dies_is_the_failure() -> None:
    def die(bench: Bench, payload: Payload) -> None:
        bench.dead = ModelError("Stub process 'm_0_0' is not healthy.", reason="SIGSEGV")

    bench = Bench(warmup(IN, sample(entry("IN", "INT32", [2]))), die)
    with pytest.raises(ModelLoadError) as error:
        bench.run.run()
    assert error.value.message == "failed to run warmup sample 's': Stub process 'm_0_0' is not healthy.; "
    assert error.value.reason == "SIGSEGV"
