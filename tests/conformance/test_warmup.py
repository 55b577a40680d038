"""Warmup, seen by a model that writes down what it executes before it is ready."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .clients import Client
from .lab_client import LabClient
from .models import CPU, config, model
from .rules import rule

#: Writes the requests of each call into a file: correlation id, flags, parameters, requested outputs and inputs. The
#: parameter `mode` of the configuration is how it answers.
RECORDING = """
import json

import numpy as np
import triton_python_backend_utils as pb_utils


def describe(request):
    inputs = {t.name(): [str(t.as_numpy().dtype), list(t.as_numpy().shape), [
        v.decode() if isinstance(v, bytes) else v for v in t.as_numpy().reshape(-1).tolist()
    ]] for t in request.inputs()}
    outputs = sorted(request.requested_output_names())
    return [request.correlation_id(), request.flags(), request.parameters(), outputs, inputs]


class TritonPythonModel:
    def initialize(self, args):
        self.file = args["model_repository"] + "/calls." + args["model_instance_name"]
        self.mode = json.loads(args["model_config"])["parameters"].get("mode", {}).get("string_value", "")
        self.calls = []
        self.write()

    def write(self):
        with open(self.file, "w") as file:
            json.dump(self.calls, file)

    def execute(self, requests):
        self.calls.append([describe(request) for request in requests])
        self.write()
        if self.mode == "raise":
            raise ValueError("no")
        answer = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros((1, 1), np.int32))])
        if self.mode == "error":
            answer = pb_utils.InferenceResponse(error=pb_utils.TritonError("bad one"))
        if self.mode != "decoupled":
            return [answer] * len(requests)
        for request in requests:
            sender = request.get_response_sender()
            sender.send(answer)
            sender.send(answer)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
"""
BATCHING = "max_batch_size: 4"
ZERO = "zero_data: true"
DECOUPLED = "model_transaction_policy { decoupled: true }"
START = 'control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }'


def tensor(name: str, datatype: str, dims: list[int], how: str = ZERO) -> str:
    return f'inputs {{ key: "{name}" value {{ data_type: TYPE_{datatype} dims: {dims} {how} }} }}'


def of_file(name: str) -> str:
    return f'input_data_file: "{name}"'


def sample(*inputs: str, batch: int = 1, count: int = 0, name: str = "s") -> str:
    return f'model_warmup {{ name: "{name}" batch_size: {batch} count: {count} {" ".join(inputs)} }}'


def mode(name: str) -> str:
    return f'parameters {{ key: "mode" value {{ string_value: "{name}" }} }}'


def recording(inputs: str, *rest: str, instances: str = CPU, **files: Any) -> Any:
    made = model(RECORDING, config(inputs, "OUT INT32 1", *rest, instances))
    return {**made, **{f"warmup/{name}": content for name, content in files.items()}}


IN = tensor("IN", "INT32", [2])
MODELS = {
    "zero": recording("IN INT32 2", BATCHING, sample(IN, batch=3, count=2)),
    "strings": recording("S STRING 2;R STRING 1", BATCHING, sample(tensor("S", "STRING", [2]),
                         tensor("R", "STRING", [1], "random_data: true"))),
    "files": recording("IN INT32 2;S STRING 2", BATCHING, sample(tensor("IN", "INT32", [2], of_file("numbers")),
                     tensor("S", "STRING", [2], of_file("texts")), batch=2),
                     numbers=b"\1\0\0\0\2\0\0\0\3\0\0\0", texts=b"\3\0\0\0abc\1\0\0\0x"),
    "unbatched": recording("IN INT32 2", sample(IN, name="none", batch=0), sample(IN)),
    "none": recording("IN INT32 2", BATCHING, sample(IN, batch=0)),
    "two": recording("IN INT32 2", BATCHING, sample(IN), instances="instance_group { kind: KIND_CPU count: 2 }"),
    "batcher": recording("IN INT32 2", BATCHING, "dynamic_batching { preferred_batch_size: 1 }", sample(IN, batch=4)),
    "sequence": recording("IN INT32 2", BATCHING, f"sequence_batching {{ direct {{ }} {START} }}", sample(IN, batch=2)),
    "control": recording("IN INT32 2", BATCHING, f"sequence_batching {{ oldest {{ }} {START} }}",
                       sample(IN, tensor("START", "INT32", [1]))),
    "decoupled": recording("IN INT32 2", BATCHING, DECOUPLED, mode("decoupled"), sample(IN, batch=2)),
    "optional": recording("IN INT32 2;MORE INT32 1 optional", BATCHING, sample(IN)),
    "empty": recording("IN INT32 -1", BATCHING, sample(tensor("IN", "INT32", [0]))),
    "reshaped": recording("", 'input { name: "IN" data_type: TYPE_INT32 dims: [ 4 ] reshape { shape: [ 2, 2 ] } }',
                        BATCHING, sample(tensor("IN", "INT32", [4]))),
    "random": recording("I INT32 64;F FP32 64", sample(tensor("I", "INT32", [64], "random_data: true"),
                      tensor("F", "FP32", [64], "random_data: true"))),
}  # fmt: skip


def calls_of(client: Client, name: str, instance: int = 0) -> Any:
    return json.loads((client.repository / name / f"calls.{name}_0_{instance}").read_text())


def request(**inputs: Any) -> Any:
    return [0, 0, "{}", ["OUT"], inputs]


PAIR = ["int32", [1, 2], [0, 0]]


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("zero", [[request(IN=PAIR)] * 3] * 2),
        ("strings", [[request(S=["object", [1, 2], ["", ""]], R=["object", [1, 1], [""]])]]),
        ("files", [[request(IN=["int32", [1, 2], [1, 2]], S=["object", [1, 2], ["abc", "x"]])] * 2]),
        ("unbatched", [[request(IN=["int32", [2], [0, 0]])]]),
        ("none", []),
        ("batcher", [[request(IN=PAIR)] * 4]),
        ("sequence", [[request(IN=PAIR)] * 2]),
        ("control", [[request(IN=PAIR, START=["int32", [1, 1], [0]])]]),
        ("decoupled", [[request(IN=PAIR)] * 2]),
        ("optional", [[request(IN=PAIR)]]),
        ("empty", [[request(IN=["int32", [1, 0], []])]]),
        ("reshaped", [[request(IN=["int32", [1, 2, 2], [0] * 4])]]),
    ],
)
@rule("5.8.1", "5.8.2", "5.8.3")
def test_what_a_model_executes_before_it_is_ready(client: Client, name: str, calls: Any) -> None:
    assert calls_of(client, name) == calls


@rule("5.8.1")
def test_every_instance_warms_up(client: Client) -> None:
    assert [calls_of(client, "two", instance) for instance in (0, 1)] == [[[request(IN=PAIR)]]] * 2


@rule("5.8.1")
def test_random_data_is_random(client: Client) -> None:
    (((*_, inputs),),) = calls_of(client, "random")
    assert all(len({str(value) for value in inputs[name][2]}) > 32 for name in ("I", "F"))


@pytest.mark.parametrize(
    ("name", "inferences", "executions", "sizes"),
    [("zero", 6, 2, {3: 2}), ("two", 2, 2, {1: 2}), ("decoupled", 2, 1, {2: 1}), ("none", 0, 0, {})],
)
@rule("5.8.4", "5.12.1")
def test_warmup_counts(client: Client, name: str, inferences: int, executions: int, sizes: dict[int, int]) -> None:
    found = client.statistics(name)
    assert isinstance(found, list)
    (stats,) = found
    assert (stats["inference_count"], stats["execution_count"]) == (inferences, executions)
    durations = {kind: value["count"] for kind, value in stats["inference_stats"].items()}
    done = dict.fromkeys(("success", "queue", "compute_input", "compute_infer", "compute_output"), inferences)
    assert durations == {**done, "fail": 0, "cache_hit": 0, "cache_miss": 0}
    assert {b["batch_size"]: b["compute_infer"]["count"] for b in stats["batch_stats"]} == sizes


# -- what cannot be loaded

P = "[request id: <id_unknown>] "
REFUSED = {
    "shape": (
        recording("IN INT32 2", BATCHING, sample(tensor("IN", "INT32", [3]))),
        f"Invalid argument: {P}unexpected shape for input 'IN' for model 'shape'. Expected [-1,2], got [1,3]. NOTE: ",
    ),
    "datatype": (
        recording("IN INT32 2", BATCHING, sample(tensor("IN", "FP32", [2]))),
        f"Invalid argument: {P}inference input 'IN' data-type is 'FP32', but model 'datatype' expects 'INT32';\n",
    ),
    "missing": (
        recording("IN INT32 2;J INT32 2", BATCHING, sample(IN)),
        f"Invalid argument: {P}expected 2 inputs but got 1 inputs for model 'missing'. Got input(s) ['IN'], but ",
    ),
    "variable": (
        recording("IN INT32 -1", BATCHING, sample(tensor("IN", "INT32", [-1]))),
        "Invalid argument: warmup setting expects all variable-size dimensions are specified for input 'IN';\n",
    ),
    "no_data": (
        recording("IN INT32 2", BATCHING, sample(tensor("IN", "INT32", [2], ""))),
        f"Invalid argument: {P}warmup setting expects input 'IN' to have input_data_type set;\n",
    ),
    "no_file": (
        recording("IN INT32 2", BATCHING, sample(tensor("IN", "INT32", [2], of_file("no")))),
        "Internal: failed to open text file for read <repository>/no_file/warmup/no: No such file or directory;\n",
    ),
    "short": (
        recording("IN INT32 2", BATCHING, sample(tensor("IN", "INT32", [2], of_file("d"))), d=b"\1\0\0\0"),
        f"Invalid argument: {P}warmup setting expects 8 bytes, but the data provided from donly has 4 bytes;\n",
    ),
    "one_string": (
        recording("S STRING 2", BATCHING, sample(tensor("S", "STRING", [2], of_file("d"))), d=b"\1\0\0\0a"),
        f"Invalid argument: {P}expected 2 string elements for inference input 'S' for model 'one_string', got 1;\n",
    ),
}  # fmt: skip


@rule("5.8.4", "5.4.1", "2.5.1")
def test_samples_that_no_request_could_be(side: Client) -> None:
    failures = side.load_all({name: files for name, (files, _) in REFUSED.items()})
    for name, (_, text) in REFUSED.items():
        failure = failures[name]
        assert failure is not None, name
        start = f"load failed for model '{name}': version 1 is at UNAVAILABLE state: {text}"
        assert (failure.code, failure.text[: len(start)]) == ("INVALID_ARG", start)
        assert calls_of(side, name) == []  # the model was initialized
        side.unload(name)


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("too_many", "", "batch size 5 for 'too_many_0_0', max allowed is 4; "),
        ("erring", mode("error"), "bad one; "),
        (
            "raising",
            mode("raise"),
            "Failed to process the request(s) for model 'raising_0_0', message: ValueError: no\n\nAt:\n"
            "  <repository>/raising/1/model.py(31): execute\n; ",
        ),
    ],
)
@rule("5.8.4")
def test_a_sample_that_fails(lab: LabClient, name: str, more: str, message: str) -> None:
    # on our side only: 2.51 says the same, if it lives to say it (section 8)
    count = 5 if name == "too_many" else 2
    failure = lab.placed(name, recording("IN INT32 2", BATCHING, more, sample(IN, batch=count, count=9)))
    assert failure is not None
    assert failure.text == (
        f"load failed for model '{name}': version 1 is at UNAVAILABLE state: Invalid argument: failed to run warmup "
        f"sample 's': {message * count};\n"
    )
    assert len(calls_of(lab, name)) == (0 if name == "too_many" else 1)
