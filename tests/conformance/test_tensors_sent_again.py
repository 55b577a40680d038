"""A tensor is read when it is sent for the first time, and never again (rule 1.4.7)."""

from __future__ import annotations

import numpy as np
import pytest

from .clients import Client
from .models import CPU, SCRIPTED, config, model
from .rules import rule

MODELS = {
    "sender": model(SCRIPTED, config("CODE STRING 1", "OUT INT32 -1")),
    "sender_flow": model(
        SCRIPTED, config("CODE STRING 1", "OUT INT32 -1", "model_transaction_policy { decoupled: true }", CPU)
    ),
    "echo_x": model(SCRIPTED, config("CODE STRING 1; X INT32 -1 optional", "OUT INT32 -1")),
}
ECHO = (
    "x = pb_utils.get_input_tensor_by_name(requests[0], 'X')\\n"
    "return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', x.as_numpy())])]"
)
PRELUDE = f"""
R, T = pb_utils.InferenceResponse, pb_utils.Tensor
def echoed(tensor):
    inputs = [T("CODE", np.array(["{ECHO}"], dtype=object)), tensor]
    request = pb_utils.InferenceRequest(model_name="echo_x", requested_output_names=["OUT"], inputs=inputs)
    return request.exec().output_tensors()[0].as_numpy().tolist()
def reply(*values):
    return [R([T("OUT", np.array([v for value in values for v in value], dtype=np.int32))])]
"""


def run(client: Client, body: str, name: str = "sender") -> list[list[int]]:
    code = {"CODE": np.array([(PRELUDE + body).encode()], dtype=np.object_)}
    answers = client.stream(name, code) if name == "sender_flow" else [client.infer(name, code)]
    assert [a.error for a in answers] == [""] * len(answers)
    return [a.outputs["OUT"].tolist() for a in answers if "OUT" in a.outputs]


#: how a tensor comes by its array, and what is changed between the two times
MADE = {
    "own array": ("a = np.array([1, 2], np.int32); t = T('X', a)", "a[0] = 9"),
    "a view": ("a = np.array([1, 2, 3], np.int32); t = T('X', a[:2])", "a[0] = 9"),
    "by as_numpy": ("t = T('X', np.array([1, 2], np.int32))", "t.as_numpy()[0] = 9"),
    "from_dlpack": ("a = np.array([1, 2], np.int32); t = T.from_dlpack('X', T('Y', a).to_dlpack())", "a[0] = 9"),
    "a lot": ("a = np.arange(1, 300_001, dtype=np.int32); t = T('X', a)", "a[0] = 9"),
}


@rule("1.4.7")
@pytest.mark.parametrize("case", MADE)
def test_a_tensor_of_two_bls_requests(client: Client, case: str) -> None:
    make, change = MADE[case]
    body = f"{make}\nfirst = echoed(t)\n{change}\nreturn reply(first[:2], echoed(t)[:2])"
    assert run(client, body) == [[1, 2, 1, 2]]


@rule("1.4.5")
@pytest.mark.parametrize("case", ["own array", "a view", "by as_numpy", "a lot"])
def test_until_it_is_sent_it_is_the_array(client: Client, case: str) -> None:
    make, change = MADE[case]
    assert run(client, f"{make}\n{change}\nreturn reply(echoed(t)[:2])") == [[9, 2]]


@rule("1.4.7")
def test_a_request_that_is_executed_twice(client: Client) -> None:
    body = f"""
a = np.array([1], np.int32)
inputs = [T("CODE", np.array(["{ECHO}"], dtype=object)), T("X", a)]
request = pb_utils.InferenceRequest(model_name="echo_x", requested_output_names=["OUT"], inputs=inputs)
first = request.exec().output_tensors()[0].as_numpy().tolist()
a[0] = 2
return reply(first, request.exec().output_tensors()[0].as_numpy().tolist(), a.tolist())
"""
    assert run(client, body) == [[1, 1, 2]]


@rule("1.4.7")
def test_a_tensor_of_several_responses(client: Client) -> None:
    body = """
a = np.array([1], np.int32)
t = T("OUT", a)
s = requests[0].get_response_sender()
for n in (2, 3):
    s.send(R([t]))
    a[0] = n
s.send(R([T("OUT", a)]))
s.send(flags=1)
"""
    assert run(client, body, "sender_flow") == [[1], [1], [3]]


@rule("1.4.7", "1.8.5")
@pytest.mark.parametrize(
    ("keep", "again"), [("T('OUT', self.array)", "R([self.kept])"), ("R([T('OUT', self.array)])", "self.kept")]
)
def test_a_tensor_or_response_of_a_later_call(client: Client, keep: str, again: str) -> None:
    body = f"self.array = np.array([1], np.int32)\nself.kept = {keep}\nreturn [{again}]"
    assert run(client, body) == [[1]]
    assert run(client, f"self.array[0] = 2\nreturn [{again}]") == [[1]]
    assert run(client, "return [R([T('OUT', self.array)])]") == [[2]]


@rule("1.4.5")
def test_as_numpy_stays_the_authors_array(client: Client) -> None:
    body = "a = np.array([1], np.int32); t = T('X', a)\nechoed(t)\na[0] = 4\nreturn reply(t.as_numpy())"
    assert run(client, body) == [[4]]
