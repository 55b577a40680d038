"""Ensembles: the same models and ensembles on both sides (rule 5.7), what a load refuses and what requests answer."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.ensembles import DECOUPLED, ensemble_text, model_text, step, tensor
from tritonlab import export

from .clients import Client, Failure, Files, Options
from .lab_client import LabClient
from .real_client import RealClient
from .rules import rule
from .scripts import eventually

HEAD = """
import json, os, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.name = args["model_name"]
        self.outputs = [o["name"] for o in json.loads(args["model_config"])["output"]]
"""

#: Answers each of its outputs with the sum of its inputs; logs its requests.
SUM = (
    HEAD
    + """
    def execute(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, r):
        arrays = [t.as_numpy() for t in r.inputs()]
        request = [r.request_id(), r.correlation_id(), r.flags(), r.timeout(), json.loads(r.parameters() or "{}")]
        request += [sorted(r.requested_output_names()), sorted(t.name() for t in r.inputs()), r.is_cancelled()]
        if request[0]:
            pb_utils.Logger.log_info("%s %s" % (self.name, json.dumps(request)))
        return pb_utils.InferenceResponse([pb_utils.Tensor(o, sum(arrays)) for o in self.outputs if arrays])
"""
)
#: Fails, or answers without an output, as the model's name says.
ODD = (
    HEAD
    + """
    def execute(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, r):
        x = pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()
        if self.name == "nothing":
            return pb_utils.InferenceResponse([])
        if self.name == "raises":
            raise ValueError("boom")
        if self.name == "retypes":
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x.astype(np.int32))])
        error = pb_utils.TritonError(self.name + " failed", pb_utils.TritonError.NOT_FOUND)
        return pb_utils.InferenceResponse(error=error)
"""
)
#: The numbers of IN are responses: -1 an error, -2 one without outputs; -9 at the end puts the final flag on the last.
STREAM = (
    HEAD
    + """
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            codes = pb_utils.get_input_tensor_by_name(r, "IN").as_numpy().reshape(-1).tolist()
            late = codes[-1:] == [-9]
            codes = codes[:-1] if late else codes
            for i, code in enumerate(codes):
                tensors = [] if code == -2 else [pb_utils.Tensor("OUT", np.array([code], np.float32))]
                error = pb_utils.TritonError("stream failed") if code == -1 else None
                flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if late and i == len(codes) - 1 else 0
                sender.send(pb_utils.InferenceResponse(tensors, error), flags)
            if self.name == "lingers":
                time.sleep(0.4)
            if not late:
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
)

CALL = (
    HEAD
    + """
    def execute(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, r):
        x = pb_utils.Tensor("X", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())
        request = pb_utils.InferenceRequest(model_name=self.name[5:], requested_output_names=["Y"], inputs=[x])
        answers = list(request.exec(decoupled=True)) if self.name == "call_stream_sum" else [request.exec()]
        if answers[0].has_error():
            return pb_utils.InferenceResponse(error=answers[0].error())
        ys = [t.as_numpy() for a in answers for t in a.output_tensors()]
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.concatenate(ys))])
"""
)


#: Logs its request, and takes a while.
SLEEPER = (
    HEAD
    + """
    def execute(self, requests):
        for r in requests:
            pb_utils.Logger.log_info("sleeps " + r.request_id())
        time.sleep(0.5)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
"""
)


ALL = "version_policy { all { } }"
READY, GONE = ("READY",), ("UNAVAILABLE",)


def python(source: str, config: str) -> Files:
    return {"1/model.py": source, "config.pbtxt": config}


def ensemble(*steps: str, **settings: Any) -> Files:
    return {"config.pbtxt": ensemble_text(*steps, **settings), "1/.keep": ""}


def only(model: str, reads: str = "IN=X", writes: str = "OUT=Y", **settings: Any) -> Files:
    return ensemble(step(model, reads, writes), **settings)


PYTHON: dict[str, Files] = {
    "echo": python(SUM, model_text()),
    "echo2": python(SUM, model_text()),
    "add": python(SUM, model_text("A B")),
    "either": python(SUM, model_text("A? B?")),
    "split": python(SUM, model_text(outputs="OUT OUT2")),
    "batch4": python(SUM, model_text(batch=4, dims="[2]")),
    "pair": python(SUM, model_text(dims="[2]")),
    "matrix": python(SUM, model_text(dims="[3,2]")),
    "fails": python(ODD, model_text()),
    "raises": python(ODD, model_text()),
    "nothing": python(ODD, model_text()),
    "retypes": python(ODD, model_text()),
    "stream": python(STREAM, model_text(more=DECOUPLED)),
    "lingers": python(STREAM, model_text(more=DECOUPLED)),
    "call_chain": python(CALL, model_text()),
    "call_stream_sum": python(CALL, model_text()),
    "int32": python(SUM, model_text(datatype="INT32")),
    "sleeper": python(SLEEPER, model_text()),
}

ENSEMBLES: dict[str, Files] = {
    "chain": ensemble(step("echo", "IN=X", "OUT=Z"), step("echo2", "IN=Z", "OUT=Y")),
    "diamond": ensemble(
        step("split", "IN=X", "OUT=P OUT2=Q"), step("echo", "IN=P", "OUT=V"), step("add", "A=V B=Q", "OUT=Y")
    ),
    "fork": ensemble(
        step("split", "IN=X", "OUT=P OUT2=Q"),
        step("echo", "IN=P", "OUT=Y1"),
        step("echo2", "IN=Q", "OUT=Y2"),
        outputs="Y1 Y2",
    ),
    "both": ensemble(step("echo", "IN=X", "OUT=Z"), step("echo2", "IN=Z", "OUT=Y"), outputs="Y Z"),
    "half": only("split", writes="OUT2=Y"),
    "outer": ensemble(step("chain", "X=X", "Y=Z"), step("call_chain", "IN=Z", "OUT=Y")),
    # errors
    "error": ensemble(step("fails", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y")),
    "error_outside": only("error", "X=X", "Y=Y"),
    "exception": only("raises"),
    "cancelled": ensemble(step("sleeper", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y")),
    "first_error": ensemble(
        step("sleeper", "IN=X", "OUT=Z"),
        step("echo", "IN=Z", "OUT=Y1"),
        step("fails", "IN=X", "OUT=Y2"),
        outputs="Y1 Y2",
    ),
    "wrong_type": ensemble(step("retypes", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y")),
    "passed_type": only("retypes"),
    "wrong_shape": ensemble(step("echo", "IN=X", "OUT=Z"), step("pair", "IN=Z", "OUT=Y")),
    # what is missing
    "missing": only("nothing"),
    "one_missing": ensemble(step("nothing", "IN=X", "OUT=Y1"), step("echo", "IN=X", "OUT=Y2"), outputs="Y1 Y2"),
    "missing_required": ensemble(step("nothing", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y")),
    "missing_optional": ensemble(step("nothing", "IN=X", "OUT=Z"), step("either", "A=X B=Z", "OUT=Y")),
    "optional": ensemble(step("either", "A=X B=U", "OUT=Y"), inputs="X U?"),
    "all_optional": ensemble(step("either", "A=X B=U", "OUT=Y"), inputs="X? U?"),
    # batch dimensions
    "batching": only("batch4", batch=4, dims="[2]"),
    "b_pair": only("pair", batch=4, dims="[2]"),
    "b_pair_any": only("pair", batch=4),
    "b_matrix": only("matrix", batch=4, dims="[2]"),
    "n_batch": only("batch4", dims="[2]"),
    "n_batch_any": only("batch4", io=tensor("input", "X", "[-1,2]") + tensor("output", "Y", "[-1,2]")),
    "n_batch_wrong": only("batch4"),
    "b_n_b": ensemble(
        step("batch4", "IN=X", "OUT=Z"),
        step("pair", "IN=Z", "OUT=W"),
        step("batch4", "IN=W", "OUT=Y"),
        batch=4,
        dims="[2]",
    ),
    "reshaped": only(
        "matrix",
        io=tensor("input", "X", "[6]", more="reshape { shape: [3,2] }")
        + tensor("output", "Y", "[6]", more="reshape { shape: [3,2] }"),
    ),
    # decoupled
    "streams": only("stream"),
    "says_decoupled": only("echo", more=DECOUPLED),
    "stream_sum": ensemble(step("stream", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y")),
    "sum_stream": ensemble(step("echo", "IN=X", "OUT=Z"), step("stream", "IN=Z", "OUT=Y")),
    "stream_stream": ensemble(step("stream", "IN=X", "OUT=Z"), step("stream", "IN=Z", "OUT=Y")),
    "joined": ensemble(
        step("stream", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=V"), step("add", "A=V B=Z", "OUT=Y"), outputs="Y Z"
    ),
    "lingering": ensemble(step("lingers", "IN=X", "OUT=Z"), step("echo", "IN=Z", "OUT=Y")),
    "stream_nothing": ensemble(step("stream", "IN=X", "OUT=Z"), step("nothing", "IN=Z", "OUT=Y")),
    "outer_stream": ensemble(step("stream_sum", "X=X", "Y=Z"), step("echo2", "IN=Z", "OUT=Y")),
}

MODELS: dict[str, Files] = {**PYTHON, **ENSEMBLES}


def x(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)


#: test id -> ensemble, inputs, options
REQUESTS: dict[str, tuple[str, dict[str, NDArray[Any]], dict[str, Any]]] = {
    "chain": ("chain", {"X": x(1, 2)}, {"request_id": "r1"}),
    "diamond": ("diamond", {"X": x(1, 2)}, {}),
    "fork": ("fork", {"X": x(1)}, {}),
    "both": ("both", {"X": x(1)}, {}),
    "half": ("half", {"X": x(1)}, {}),
    "outer": ("outer", {"X": x(1)}, {}),
    "unknown_output": ("chain", {"X": x(1)}, {"outputs": ["Z"]}),
    "unknown_input": ("chain", {"Q": x(1)}, {}),
    "wrong_input": ("chain", {"X": np.array([1])}, {}),
    "one_output": ("fork", {"X": x(1)}, {"outputs": ["Y2"]}),
    "error": ("error", {"X": x(1)}, {"request_id": "r1"}),
    "error_outside": ("error_outside", {"X": x(1)}, {}),
    "exception": ("exception", {"X": x(1)}, {}),
    "first_error": ("first_error", {"X": x(1)}, {}),
    "wrong_type": ("wrong_type", {"X": x(1)}, {"request_id": "r1"}),
    "passed_type": ("passed_type", {"X": x(1)}, {}),
    "right_shape": ("wrong_shape", {"X": x(1, 2)}, {}),
    "wrong_shape": ("wrong_shape", {"X": x(1, 2, 3)}, {}),
    "missing": ("missing", {"X": x(1)}, {}),
    "missing_asked_for": ("missing", {"X": x(1)}, {"outputs": ["Y"]}),
    "one_missing": ("one_missing", {"X": x(1)}, {}),
    "the_missing_one": ("one_missing", {"X": x(1)}, {"outputs": ["Y1"]}),
    "missing_required": ("missing_required", {"X": x(1)}, {"request_id": "r1"}),
    "missing_optional": ("missing_optional", {"X": x(1)}, {}),
    "optional_left_out": ("optional", {"X": x(1)}, {}),
    "optional_given": ("optional", {"X": x(1), "U": x(2)}, {}),
    "deadlock": ("optional", {"U": x(2)}, {"request_id": "r1"}),
    "none_given": ("all_optional", {}, {}),
    "batch": ("batching", {"X": np.ones((3, 2), np.float32)}, {}),
    "batch_too_large": ("batching", {"X": np.ones((5, 2), np.float32)}, {}),
    "b_pair": ("b_pair", {"X": np.ones((1, 2), np.float32)}, {}),
    "b_pair_2": ("b_pair", {"X": np.ones((2, 2), np.float32)}, {}),
    "b_pair_any": ("b_pair_any", {"X": np.ones((1, 3), np.float32)}, {}),
    "b_matrix": ("b_matrix", {"X": np.ones((3, 2), np.float32)}, {}),
    "b_matrix_1": ("b_matrix", {"X": np.ones((1, 2), np.float32)}, {}),
    "n_batch": ("n_batch", {"X": x(1, 2)}, {}),
    "n_batch_any": ("n_batch_any", {"X": np.ones((3, 2), np.float32)}, {}),
    "n_batch_any_1": ("n_batch_any", {"X": np.ones((1, 2), np.float32)}, {}),
    "n_batch_too_large": ("n_batch_any", {"X": np.ones((5, 2), np.float32)}, {}),
    "n_batch_wrong": ("n_batch_wrong", {"X": x(1, 2, 3)}, {}),
    "b_n_b": ("b_n_b", {"X": np.ones((1, 2), np.float32)}, {}),
    "reshaped": ("reshaped", {"X": x(1, 2, 3, 4, 5, 6)}, {}),
}
_RULES = {
    "error": ("5.7.5",),
    "error_outside": ("5.7.5",),
    "exception": ("5.7.5",),
    "first_error": ("5.7.5",),
    "wrong_type": ("5.7.5", "3.4.2"),
    "wrong_shape": ("5.7.5",),
    "missing": ("5.7.6",),
    "missing_asked_for": ("5.7.6",),
    "one_missing": ("5.7.6",),
    "the_missing_one": ("5.7.6", "5.7.12"),
    "missing_required": ("5.7.6",),
    "missing_optional": ("5.7.6",),
    "optional_left_out": ("5.7.6",),
    "deadlock": ("5.7.6",),
    "one_output": ("5.7.12",),
    "outer": ("4.3.6",),
}
_BATCH = "b_pair b_pair_2 b_pair_any b_matrix b_matrix_1 b_n_b n_batch n_batch_any n_batch_any_1 n_batch_too_large"


def cases() -> list[Any]:
    rules = {**_RULES, **dict.fromkeys([*_BATCH.split(), "n_batch_wrong"], ("5.7.11",))}
    return [pytest.param(*case, marks=rule(*rules.get(name, ("5.7.1",))), id=name) for name, case in REQUESTS.items()]


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    """Return the answers by test, then by side."""
    return {}


@pytest.mark.timeout(120)
@rule("5.7.8")
@pytest.mark.parametrize(("model", "inputs", "options"), cases())
def test_an_ensemble_answers_the_same(
    client: Client,
    answers: dict[str, dict[str, Any]],
    model: str,
    inputs: dict[str, NDArray[Any]],
    options: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    answer = client.infer(model, inputs, **options).plain()
    if answer["error"][0]:
        answer = {"error": answer["error"]}  # an error names no model in gRPC
    case = request.node.callspec.id.replace(f"{client.side}-", "").replace(f"-{client.side}", "")
    by_side = answers.setdefault(case, {})
    by_side[client.side] = answer
    assert len({json.dumps(each, sort_keys=True) for each in by_side.values()}) == 1, by_side


#: The upstream's final flag comes on its last response (-9), or long after it (`lingering`): if it came at once after
#: it, it would race with the next step. How many responses are out when an error comes is a race, too.
STREAMS: dict[str, tuple[list[float], ...]] = {
    "streams": ([1], [1, 2, 3], [1, 2, -9], [], [-1], [1, -1, 2], [-2], [1, -2, 2], [1, -9], [-2, -9], [-1, -9]),
    "stream_sum": ([1, -9], [1, 2, 3, -9], [], [-1], [-2]),
    "sum_stream": ([1], [1, 2, 3], [1, 2, -9], [-1], [1, -1, 2]),
    "stream_stream": ([1, -9], [1, 2, -9], []),
    "joined": ([1, -9], [1, 2, 3, -9], []),
    "lingering": ([1, 2],),
    "stream_nothing": ([1, 2, -9],),
    "outer_stream": ([1, 2, -9], []),
}


@rule("5.7.7")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("model", STREAMS)
def test_every_response_of_a_decoupled_step_is_carried_on(
    client: Client, answers: dict[str, dict[str, Any]], model: str
) -> None:
    found = [
        [
            (sorted((n, v.tolist()) for n, v in answer.outputs.items()), answer.error, answer.final, answer.parameters)
            for answer in client.stream(model, {"X": x(*codes)})
        ]
        for codes in STREAMS[model]
    ]
    by_side = answers.setdefault(model, {})
    by_side[client.side] = found
    assert len({json.dumps(each, sort_keys=True) for each in by_side.values()}) == 1, by_side
    if model == "stream_sum":
        assert [final for _, _, final, _ in found[1]] == [False, False, True]
    if model == "lingering":
        assert [bool(outputs) for outputs, _, _, _ in found[0]] == [True, True, False]


@rule("5.7.9")
def test_a_step_is_called_with_what_the_client_sent(client: Client) -> None:
    options = {"correlation_id": 7, "flags": 3, "timeout": 5_000_000, "priority": 1, "parameters": {"a": "b", "n": 1}}
    answer = client.infer("chain", {"X": x(1)}, request_id=f"sent-{client.side}", **options)
    assert not answer.error
    assert answer.parameters == {"sequence_id": 7, "sequence_start": True, "sequence_end": True}
    logged = [f"sent-{client.side}", 7, 3, 5_000_000, {"a": "b", "n": 1}, ["OUT"], ["IN"], False]
    for name in ("echo", "echo2"):
        # Logger sends its lines beside the answer, which may be there first
        assert eventually(partial(requests_of, client, name, f"sent-{client.side}")) == [logged]


@rule("5.7.12")
def test_the_outputs_that_its_map_names_are_requested_of_a_step(client: Client) -> None:
    for model, wanted in (("half", ["OUT2"]), ("fork", ["OUT", "OUT2"])):
        ident = f"wanted-{model}-{client.side}"
        client.infer(model, {"X": x(1)}, request_id=ident, outputs=["Y2"] if model == "fork" else [])
        eventually(partial(requests_of, client, "split", ident))
        assert requests_of(client, "split", ident)[-1][5] == wanted
        assert not requests_of(client, "echo", ident)


def statistics(client: Client, name: str) -> dict[str, Any]:
    """Return the statistics of a model with one version."""
    found = client.statistics(name)
    assert isinstance(found, list)
    return dict(found[0])


@rule("5.7.12")
def test_a_tensor_between_steps_that_is_an_output_too_may_be_all_that_is_wanted(client: Client) -> None:
    """Triton takes the output for unneeded, because the step that reads it is, and fails."""
    answer = client.infer("both", {"X": x(1)}, outputs=["Z"])
    if client.side == "real":
        assert "unexpected deadlock" in answer.error
    else:
        assert answer.outputs["Z"].tolist() == [1]


@rule("5.7.13", "5.7.9")
def test_an_ensemble_and_its_steps_count_separately(client: Client) -> None:
    def counts(name: str) -> tuple[int, ...]:
        found = statistics(client, name)
        stats = found["inference_stats"]
        parts = [stats[part]["count"] for part in ("success", "queue", "compute_input", "compute_infer")]
        return (found["inference_count"], found["execution_count"], *parts)

    names = ("batching", "batch4")
    before = {name: counts(name) for name in names}
    client.infer("batching", {"X": np.ones((3, 2), np.float32)})

    def grown(name: str) -> tuple[int, ...]:
        return tuple(b - a for a, b in zip(before[name], counts(name), strict=True))

    eventually(lambda: all(grown(name) == (3, 1, 1, 1, 1, 1) for name in names))  # Triton counts after it has answered
    found = statistics(client, "batching")
    assert [batch["batch_size"] for batch in found["batch_stats"]] == [3]
    assert found["inference_stats"]["compute_infer"]["ns"] > 0


@rule("5.7.13")
def test_a_failed_request_is_two_failures_of_the_ensemble(client: Client) -> None:
    def counts() -> tuple[int, int]:
        found = statistics(client, "exception")["inference_stats"]
        return found["fail"]["count"], found["success"]["count"]

    failed, succeeded = counts()
    assert succeeded == 0
    client.infer("exception", {"X": x(1)})
    eventually(lambda: counts() == (failed + 2, 0))


@rule("5.7.13")
def test_a_request_that_times_out_at_a_step_is_two_failures(client: Client) -> None:
    policy = "dynamic_batching { default_queue_policy { default_timeout_microseconds: 100000 } }"
    slow = SUM.replace("def execute(self, requests):", "def execute(self, requests):\n        time.sleep(0.4)")
    assert client.placed("patient", python(slow, model_text(more=policy))) is None
    assert client.placed("around", only("patient")) is None
    pending = [client.submit("around", {"X": x(1)}) for _ in range(3)]
    failed = sum(each.answer.result(30).error == "in ensemble 'around', Request timeout expired" for each in pending)
    assert failed
    assert _failures(client, "around") == {"OTHER": 2 * failed}
    assert _failures(client, "patient") == {"REJECTED": failed}
    for name in ("around", "patient"):
        client.unload(name)


def _failures(client: Client, name: str) -> dict[str, int]:
    eventually(lambda: statistics(client, name)["inference_stats"]["success"]["count"])
    lines = [each for each in client.metrics().splitlines() if each.startswith("nv_inference_request_failure{")]
    words = [each.partition('reason="')[2].split('"') for each in lines if f'model="{name}"' in each]
    counts = {reason: int(rest.split()[-1]) for reason, *_, rest in words}
    return {reason: count for reason, count in counts.items() if count}


@rule("5.2.4", "5.7.7")
@pytest.mark.parametrize("name", ["chain", "streams", "says_decoupled", "batching", "optional"])
def test_an_ensemble_is_described_the_same(client: Client, answers: dict[str, dict[str, Any]], name: str) -> None:
    config = client.config(name)
    assert isinstance(config, dict)
    config["ensemble_scheduling"].pop("max_inflight_requests", None)  # came with 25.11
    assert list(config)[-1] == "model_transaction_policy"
    assert config["model_transaction_policy"] == {"decoupled": name == "streams"}
    by_side = answers.setdefault(f"config {name}", {})
    by_side[client.side] = (config, client.metadata(name), client.ready(name))
    assert len({json.dumps(each, sort_keys=True) for each in by_side.values()}) == 1, by_side


@rule("4.3.6")
@pytest.mark.parametrize(
    ("model", "numbers", "answer"), [("call_chain", (1, 2), [1, 2]), ("call_stream_sum", (1, 2, 3), [1, 2, 3])]
)
def test_a_model_may_call_an_ensemble(
    client: Client, model: str, numbers: tuple[float, ...], answer: list[float]
) -> None:
    found = client.infer(model, {"IN": x(*numbers)})
    assert (found.error, found.outputs["OUT"].tolist()) == ("", answer)


@rule("5.7.14")
def test_steps_that_start_after_a_cancellation_see_it(client: Client) -> None:
    """Triton does not cancel the steps that run; here they see it, too."""
    ident = f"cancelled-{client.side}"
    pending = client.submit("cancelled", {"X": x(1)}, Options(request_id=ident))
    eventually(lambda: f"sleeps {ident}" in client.log())
    pending.cancel()
    eventually(partial(requests_of, client, "echo", ident))
    assert requests_of(client, "echo", ident)[-1][-1] is True


BROKEN = python("raise ValueError('x')\n", model_text())
#: id -> the ensemble `refused_<id>`, called {e} in the text of its refusal
REFUSED: dict[str, tuple[Files, str]] = {
    "nowhere": (
        ensemble(step("echo", "IN=X", "OUT=Z"), step("nope", "IN=Z", "OUT=W"), step("also", "IN=W", "OUT=Y")),
        "ensemble {e} contains models that are not available or ambiguous: nope",
    ),
    "version": (
        ensemble(step("echo", "IN=X", "OUT=Y", 7)),
        "ensemble '{e}' depends on 'echo' whose required version 7 is not loaded.",
    ),
    "version_0": (
        ensemble(step("echo", "IN=X", "OUT=Y", 0)),
        "ensemble '{e}' depends on 'echo' whose required version 0 is not loaded.",
    ),
    "itself": (
        ensemble(step("refused_itself", "X=X", "Y=Y")),
        "circular dependency between ensembles: {e} -> ... -> {e} -> {e}",
    ),
    "circle": (
        ensemble(step("refused_circle_back", "X=X", "Y=Y")),
        "circular dependency between ensembles: {e} -> ... -> refused_circle_back -> {e}",
    ),
    "input": (
        only("echo", "NO=X"),
        "in ensemble {e}, ensemble tensor X is mapping to non-existing input NO in model echo",
    ),
    "output": (
        only("echo", writes="NO=Y"),
        "in ensemble {e}, ensemble tensor Y is mapped from non-existing output NO in model echo",
    ),
    "input_before_output": (
        only("echo", "NO=X", "NO=Y"),
        "in ensemble {e}, ensemble tensor X is mapping to non-existing input NO in model echo",
    ),
    "unmapped": (only("add", "A=X"), "in ensemble {e}, input B in model add is not mapped to any ensemble tensors"),
    "type_before_unmapped": (
        only("add", "A=X", io=tensor("input", "X", datatype="INT8") + tensor("output", "Y")),
        "in ensemble {e}, ensemble tensor X: inconsistent data type: TYPE_INT8 is inferred from model {e} while "
        "TYPE_FP32 is inferred from model add",
    ),
    "batch": (
        only("batch4", batch=8, dims="[2]"),
        "ensemble {e} allows maximum batch size 8, but it contains model batch4 which only allows maximum batch size "
        "to be 4",
    ),
    "batch_before_input": (
        only("batch4", "NO=X", batch=8, dims="[2]"),
        "ensemble {e} allows maximum batch size 8, but it contains model batch4 which only allows maximum batch size "
        "to be 4",
    ),
    "type": (
        only("int32"),
        "in ensemble {e}, ensemble tensor X: inconsistent data type: TYPE_FP32 is inferred from model {e} while "
        "TYPE_INT32 is inferred from model int32",
    ),
    "type_between_steps": (
        ensemble(
            step("echo", "IN=X", "OUT=Z"),
            step("int32", "IN=Z", "OUT=Y"),
            io=tensor("input", "X") + tensor("output", "Y", datatype="INT32"),
        ),
        "in ensemble {e}, ensemble tensor Z: inconsistent data type: TYPE_FP32 is inferred from model echo while "
        "TYPE_INT32 is inferred from model int32",
    ),
    "no_type": (
        only("echo", io='input { name: "X" dims: [-1] }' + tensor("output", "Y")),
        "in ensemble {e}, ensemble tensor X: inconsistent data type: TYPE_INVALID is inferred from model {e} while "
        "TYPE_FP32 is inferred from model echo",
    ),
    "shape": (
        only("pair", dims="[3]"),
        "in ensemble {e}, ensemble tensor X: inconsistent shape: [3] is inferred from model {e} while [2] is inferred "
        "from model pair",
    ),
    "rank": (
        only("matrix", dims="[2]"),
        "in ensemble {e}, ensemble tensor X: inconsistent shape: [2] is inferred from model {e} while [3,2] is "
        "inferred from model matrix",
    ),
    "batch_shape": (
        only("batch4", batch=4, dims="[3]"),
        "in ensemble {e}, ensemble tensor X: inconsistent shape: [-1,3] is inferred from model {e} while [-1,2] is "
        "inferred from model batch4",
    ),
    "reshape": (
        only("echo", io=tensor("input", "X", "[6]", more="reshape { shape: [3,2] }") + tensor("output", "Y")),
        "in ensemble {e}, ensemble tensor X: inconsistent shape: [3,2] is inferred from model {e} while [-1] is "
        "inferred from model echo",
    ),
    "join": (
        ensemble(step("stream", "IN=X", "OUT=Z"), step("add", "A=Z B=X", "OUT=Y")),
        "in ensemble {e}, step of model '{e}' receives inputs originated from different decoupled models",
    ),
    "outputs": (
        ensemble(step("stream", "IN=X", "OUT=Y"), step("echo", "IN=X", "OUT=Y2"), outputs="Y Y2"),
        "in ensemble {e}, step of model '{e}' receives inputs originated from different decoupled models",
    ),
    "unreadable": (
        only("refused_unreadable_model"),
        "ensemble {e} contains models that are not available or ambiguous: refused_unreadable_model",
    ),
    "unversioned": (
        only("refused_unversioned_model"),
        "ensemble '{e}' depends on 'refused_unversioned_model' which has no loaded version. Model "
        "'refused_unversioned_model' loading failed with error: at least one version must be available under the "
        "version policy of model 'refused_unversioned_model'",
    ),
    "broken": (
        only("refused_model"),
        "ensemble '{e}' depends on 'refused_model' which has no loaded version. Model 'refused_model' loading failed "
        "with error: version 1 is at UNAVAILABLE state: Internal: ValueError: x\n\nAt:\n",
    ),
    "not_valid": (
        only("refused_input", "X=X", "Y=Y"),
        "ensemble '{e}' depends on 'refused_input' which is not valid. Model 'refused_input' failed with error: in "
        "ensemble refused_input, ensemble tensor X is mapping to non-existing input NO in model echo",
    ),
}


#: as above, for what the final check of any version refuses (table 5.3.2)
UNFIT: dict[str, tuple[Files, str]] = {
    "zero": (
        only("echo", io=tensor("input", "X", "[0]") + tensor("output", "Y")),
        "Invalid argument: model input 'X' dimension must be integer >= 1, or -1 to indicate a variable-size dimension "
        "for {e}",
    ),
    "labels": (
        only("echo", io=tensor("input", "X") + tensor("output", "Y", more='label_filename: "no.txt"')),
        "Internal: failed to open text file for read <repository>/{e}/no.txt: No such file or directory",
    ),
    "decoupled_cache": (
        only("stream", more="response_cache { enable: true }"),
        "Invalid argument: Response Cache does not currently support model {e} with 'decoupled' transaction policy. "
        "Please disable the response cache.",
    ),
}


@rule("5.3.2", "5.3.1")
@pytest.mark.parametrize("case", UNFIT)
def test_an_ensemble_is_checked_as_any_model_then(client: Client, case: str) -> None:
    files, text = UNFIT[case]
    name = f"unfit_{case}"
    failure = client.placed(name, files)
    assert failure is not None
    message = f"version 1 is at UNAVAILABLE state: {text.replace('{e}', name)};"
    assert failure.text == f"load failed for model '{name}': {message}\n"
    client.unload(name)


@pytest.fixture(scope="module")
def refusals(client: Client) -> dict[str, Failure | None]:
    client.place("refused_model", BROKEN)
    client.place("refused_unreadable_model", python(SUM, "nonsense: 1"))
    client.place("refused_unversioned_model", {"config.pbtxt": model_text()})
    client.place("refused_circle_back", ensemble(step("refused_circle", "X=X", "Y=Y")))
    for name, (files, _) in REFUSED.items():
        client.place(f"refused_{name}", files)
    return {name: client.load(f"refused_{name}") for name in REFUSED}


@rule("5.7.3")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", REFUSED)
def test_an_ensemble_that_does_not_fit_its_models_is_refused(
    refusals: dict[str, Failure | None], client: Client, case: str
) -> None:
    failure = refusals[case]
    assert failure is not None
    name = f"refused_{case}"
    assert failure.code == "INVALID_ARG"
    assert failure.text.startswith(f"load failed for model '{name}': " + REFUSED[case][1].replace("{e}", name))
    if case != "broken":
        assert failure.text.endswith(REFUSED[case][1].replace("{e}", name) + "\n")
    assert {"name": name} in client.index()  # no version of it was tried


ACCEPTED = {
    "taken_more": only("batch4", batch=2, dims="[2]"),
    "taken_any": only("pair"),
    "taken_split": only("split", writes="OUT=Y"),
    "taken_twice": only("add", "A=X B=X"),
    "taken_unmapped": only("either", "A=X"),
    "taken_optional": only("echo", inputs="X?"),
    "taken_flat": only("batch4"),
}


@rule("5.7.3")
def test_what_could_fit_is_taken(client: Client) -> None:
    assert {name: client.placed(name, files) for name, files in ACCEPTED.items()} == dict.fromkeys(ACCEPTED)
    for name in ACCEPTED:
        client.unload(name)


@rule("5.7.1", "2.1.1")
def test_an_ensemble_needs_a_version_directory(client: Client) -> None:
    failure = client.placed("unversioned", {"config.pbtxt": ensemble_text(step("echo", "IN=X", "OUT=Y"))})
    assert failure is not None
    assert failure.text == (
        "load failed for model 'unversioned': at least one version must be available under the version policy of "
        "model 'unversioned'\n"
    )


@rule("5.7.15")
def test_every_version_of_an_ensemble_serves_and_steps_may_name_a_version(client: Client) -> None:
    client.place("versions", {"1/model.py": SUM, "2/model.py": SUM, "config.pbtxt": model_text(more=ALL)})
    text = ensemble_text(step("versions", "IN=X", "OUT=Y", 1), more=ALL)
    assert client.placed("of_version", {"config.pbtxt": text, "1/.keep": "", "3/.keep": ""}) is None
    answer = client.infer("of_version", {"X": x(1)})
    assert (answer.error, answer.version) == ("", "3")

    def counts() -> dict[str, int]:
        found = client.statistics("versions")
        assert isinstance(found, list)
        return {stats["version"]: stats["inference_count"] for stats in found}

    eventually(lambda: counts() == {"1": 1, "2": 0})  # Triton counts a request after it has answered it
    states = [(e["version"], e["state"]) for e in client.index() if e["name"] == "of_version"]
    assert states == [("1", "READY"), ("3", "READY")]
    client.unload("of_version", dependents=True)
    client.unload("versions")


def requests_of(client: Client, model: str, ident: str) -> list[Any]:
    """Return what instances of SUM logged of the requests with this id."""
    lines = [line for line in client.log().replace('\\"', '"').splitlines() if f"{model} [" in line and ident in line]
    return [json.loads(line.partition(f"{model} ")[2].rstrip('"')) for line in lines]


@rule("5.7.1")
def test_an_exported_ensemble_answers_the_same_on_the_real_server(real: RealClient, lab: LabClient) -> None:
    lab.place("exported_part", python(SUM, model_text(batch=4, more="dynamic_batching { }")))
    steps = (step("exported_part", "IN=X", "OUT=Z"), step("exported_part", "IN=Z", "OUT=Y"))
    assert lab.placed("exported", ensemble(*steps, batch=4)) is None
    for name in ("exported", "exported_part"):
        shutil.rmtree(real.repository / name, ignore_errors=True)
    export(lab.server.model("exported"), real.repository)
    assert real.load("exported") is None
    sent = {"X": np.array([[1, 2]], np.float32)}
    assert real.infer("exported", sent).plain() == lab.infer("exported", sent).plain()
    for client in (real, lab):
        client.unload("exported", dependents=True)


def states(client: Client, *names: str) -> dict[str, tuple[str, ...]]:
    found = client.index()
    return {
        name: tuple(entry["state"] for entry in found if entry["name"] == name and "state" in entry) for name in names
    }


def until(client: Client, wanted: dict[str, tuple[str, ...]]) -> None:
    eventually(lambda: states(client, *wanted) == wanted)


@rule("5.7.4")
@pytest.mark.timeout(120)
def test_models_and_ensembles_come_and_go_together(client: Client) -> None:
    for name in ("part", "shared", "other"):
        client.place(name, python(SUM, model_text()))
    client.place("whole", ensemble(step("part", "IN=X", "OUT=Z"), step("shared", "IN=Z", "OUT=Y")))
    client.place("whole2", ensemble(step("other", "IN=X", "OUT=Z"), step("shared", "IN=Z", "OUT=Y")))
    assert [client.load(name) for name in ("whole", "whole2")] == [None, None]
    everything = ("part", "shared", "other", "whole", "whole2")
    assert states(client, *everything) == dict.fromkeys(everything, READY)

    client.unload("part")
    until(client, {"part": GONE, "shared": READY, "whole": GONE, "whole2": READY})
    answer = client.infer("whole", {"X": x(1)})
    assert (answer.code, answer.error) == ("NOT_FOUND", "Request for unknown model: 'whole' has no available versions")

    assert client.load("part") is None
    until(client, {"part": READY, "whole": READY})
    assert not client.infer("whole", {"X": x(1)}).error

    assert client.placed("part", python(SUM, model_text(datatype="INT32"))) is None  # loads; the ensemble does not fit
    until(client, {"part": READY, "whole": GONE})
    assert client.placed("part", python(SUM, model_text(dims="[2]"))) is None
    until(client, {"part": READY, "whole": READY})
    assert statistics(client, "whole")["inference_count"] == 0  # a new one

    failure = client.placed("part", python("raise ValueError('x')\n", model_text()))
    assert failure is not None
    assert states(client, "part", "whole") == {"part": READY, "whole": READY}
    assert not client.infer("whole", {"X": x(1, 2)}).error

    client.unload("whole2", dependents=True)  # shared is needed, other is not
    until(client, {"whole2": GONE, "other": GONE, "shared": READY, "whole": READY})
    client.unload("whole", dependents=True)  # part was loaded by name
    until(client, {"whole": GONE, "shared": GONE, "part": READY})
    client.unload("part")
    until(client, {"part": GONE})
