"""The ways of an answer: which outputs are sent, which requests are never answered, what is counted (sections 3.1 to
3.11)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models import executes
from tritonlab.core.status import UnsupportedError

from .clients import Client, Failure, Options, Raw
from .lab_client import LabClient
from .models import CPU, ECHO, RETURNS, SCRIPTED, config, model
from .rules import rule
from .scripts import TENSORS, eventually, read, run, script

#: Answers with the names of its inputs, sorted.
NAMES = executes(
    "names = [sorted(t.name() for t in request.inputs()) for request in requests]\n"
    'return [pb_utils.InferenceResponse([pb_utils.Tensor("NAMES", np.array([n], dtype=object))]) for n in names]'
)
SEQUENCE = """
max_batch_size: 2
sequence_batching {
  oldest { max_candidate_sequences: 1 }
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] } ]
}
"""

#: Fields that a Python model's configuration may have and that do nothing to it.
IDLE_FIELDS = """
backend: "python"
max_batch_size: 2
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 3, 2, 2 ] format: FORMAT_NCHW } ]
output [ { name: "IN" data_type: TYPE_FP32 dims: [ 3, 2, 2 ] } ]
batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "COUNT" data_type: TYPE_FP32 source_input: "IN" } ]
batch_output [ { target_name: "IN" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "IN" } ]
optimization {
  graph { level: 1 }
  cuda { graphs: true }
  execution_accelerators { cpu_execution_accelerator { name: "openvino" } }
  gather_kernel_buffer_threshold: 7
  eager_batching: true
}
cc_model_filenames [ { key: "8.0" value: "other.py" } ]
instance_group { kind: KIND_MODEL }
"""

MODELS = {
    "plain": model(SCRIPTED, config(*TENSORS)),
    "plain_flow": model(SCRIPTED, config(*TENSORS, "model_transaction_policy { decoupled: true }", CPU)),
    "idle_fields": model(ECHO, IDLE_FIELDS),
    "grid": model(SCRIPTED, config("CODE STRING 2,2", "TEXT STRING -1")),
    "bf16": model(RETURNS, config("IN BF16 2", "IN BF16 2")),
    "names": model(NAMES, config("B INT32 1;A INT32 1;C INT32 1", "NAMES STRING -1", SEQUENCE, CPU)),
}


# outputs

BOTH = "both = R([*number(5).output_tensors(), T('TEXT', np.array([b'x']))])\n"


@rule("1.9.5", "3.4.1")
@pytest.mark.parametrize("name", ["plain", "plain_flow"])
def test_a_sender_drops_what_was_not_requested(client: Client, name: str) -> None:
    end = "" if name == "plain_flow" else "\nreturn [None]"
    answers = client.stream(name, script(BOTH + "sender().send(both, 1)" + end), Options(outputs=["OUT"]))
    assert [{k: v.tolist() for k, v in a.outputs.items()} for a in answers] == [{"OUT": [5]}]


@rule("3.4.5")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
def test_a_response_carries_its_parameters_but_an_error_does_not(client: Client) -> None:
    """Newer than 2.51 (section 8)."""
    parameters = {"s": "v", "i": -(2**63), "b": True, "é": "ü"}
    good = client.infer("plain", script("return [R(number(1).output_tensors(), parameters=p)]", p=parameters))
    assert (good.outputs["OUT"].tolist(), good.parameters) == ([1], parameters)
    bad = client.infer("plain", script("return [R(error=E('e'), parameters=p)]", p=parameters))
    assert (bad.error, bad.parameters) == ("e", {})
    sent = script("s = sender()\ns.send(R([], parameters={'n': 1}))\ns.send(R([], parameters={'n': 2}), 1)")
    assert [a.parameters for a in client.stream("plain_flow", sent)] == [{"n": 1}, {"n": 2}]


@rule("1.4.12")
def test_all_inputs_are_there_the_controls_too_in_whatever_order(client: Client) -> None:
    inputs = {name: np.zeros((1, 1), np.int32) for name in "CAB"}
    answer = client.infer("names", inputs, correlation_id=5, flags=3)
    assert answer.outputs["NAMES"].tolist() == [[b"A", b"B", b"C", b"START"]]


@rule("1.6.5")
def test_bfloat16_passes_through_without_numpy(client: Client) -> None:
    answer = client.infer("bf16", {"IN": Raw("BF16", [2], b"\x80\x3f\xc0\x40")})
    assert (answer.error, answer.datatypes) == ("", {"IN": "BF16"})
    assert answer.outputs["IN"].tolist() == [0x3F80, 0x40C0]


@rule("1.6.3")
def test_strings_come_in_the_shape_of_their_tensor(client: Client) -> None:
    body = "x = request.inputs()[0].as_numpy()\nreturn reply([x.shape, str(x.dtype), x.ravel()[1:].tolist()])"
    inputs = {"CODE": np.array([*script(body)["CODE"], b"", b"a\0", "ü".encode()], dtype=np.object_).reshape(2, 2)}
    assert read(client.infer("grid", inputs)) == [(2, 2), "object", [b"", b"a\0", "ü".encode()]]


# no answer


@rule("3.2.1", "3.2.2")
@pytest.mark.parametrize("value", ["None", "[None]"])
def test_a_request_nobody_answers_waits_in_triton_and_fails_here(client: Client, value: str) -> None:
    """Better than Triton: the model gets an error that names its mistake."""
    pending = client.submit("plain", script(f"self.kept = request\nreturn {value}"))
    if client.side == "real":
        eventually(lambda: run(client, "plain", "return reply(hasattr(self, 'kept'))"))
        assert not pending.answer.done()
        late = "kept = self.kept\ndel self.kept\nkept.get_response_sender().send(number(3), 1)\nreturn reply(1)"
        assert run(client, "plain", late) == 1
        assert pending.answer.result(60).outputs["OUT"].tolist() == [3]
        return
    answer = pending.answer.result(60)
    assert (answer.code, answer.error) == (
        "INTERNAL",
        "Failed to process the request(s) for model 'plain_0_0', message: The execute function returned None for a "
        "request whose response sender was never used: the request would never be answered. Return one "
        "InferenceResponse per request.",
    )


@rule("3.7.4")
def test_one_answer_cannot_be_requested_of_a_decoupled_model(client: Client) -> None:
    refused = "ModelInfer RPC doesn't support models with decoupled transaction policy"
    if isinstance(client, LabClient):
        with pytest.raises(UnsupportedError) as raised:
            client.server.model("plain_flow")(**script("return None"))
        # and says what to do instead
        assert raised.value.message.startswith(refused)
        return
    answer = client.infer("plain_flow", script("return None"))
    assert (answer.code, answer.error) == ("UNSUPPORTED", refused)


# configuration and statistics


@rule("3.1.5")
def test_fields_for_other_backends_change_nothing(client: Client) -> None:
    found = client.config("idle_fields")
    assert not isinstance(found, Failure)
    assert (found["batch_input"][0]["target_name"], found["optimization"]["eager_batching"]) == (["COUNT"], True)
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
    answer = client.infer("idle_fields", {"IN": array})
    assert (answer.error, answer.outputs["IN"].tolist()) == ("", array.tolist())


@rule("3.11.3", "3.11.2")
def test_the_time_of_a_call_is_that_of_the_model(client: Client) -> None:
    def ended() -> dict[str, int]:
        statistics = client.statistics("plain")
        assert not isinstance(statistics, Failure)
        (found,) = statistics
        times = {name: found["inference_stats"][name]["ns"] for name in PARTS}
        return {**times, "calls": found["execution_count"]}

    before = ended()
    run(client, "plain", "time.sleep(0.05)\nreturn reply(1)")
    eventually(lambda: ended()["calls"] == before["calls"] + 1)
    spent = {name: ended()[name] - before[name] for name in PARTS}
    assert spent["compute_infer"] >= 50_000_000
    assert spent["success"] >= spent["queue"] + spent["compute_input"] + spent["compute_infer"]
    assert 0 < spent["compute_input"] < spent["compute_infer"]
    assert 0 < spent["compute_output"] < spent["compute_infer"]


PARTS = ("success", "queue", "compute_input", "compute_infer", "compute_output")
