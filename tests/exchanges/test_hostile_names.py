"""Programs made of names that would be code: each is run, and says the names."""

from __future__ import annotations

import io
import json
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given

from tests.hostile import NAMES, quick
from tests.hostile_programs import Client, run_python, run_shell
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.exchanges.snippets import Address, copy_as, failure_test, recorded_tests

ARRAY = np.array([[1.5, 2]], np.float32)
TEXTS = np.array([[b"\x00'\""]], dtype=object)


def request(name: str) -> InferenceRequest:
    inputs = {name: Tensor.from_numpy(ARRAY), f"{name}2": Tensor.from_numpy(TEXTS)}
    named = {"parameters": {name: name}, "request_id": name, "correlation_id": name}
    return InferenceRequest(name, inputs, requested_outputs=[name], **named)


def config(name: str, decoupled: bool = False) -> dict[str, object]:
    output = {"name": name, "data_type": "TYPE_FP32"}
    return {"max_batch_size": 8, "output": [output], "model_transaction_policy": {"decoupled": decoupled}}


def answered(name: str) -> Exchange:
    return Exchange(request(name), arrivals_of([{name: Tensor.from_numpy(ARRAY)}]))


def check_sent(client: Client, name: str) -> None:
    assert client.inputs == [name, f"{name}2"] and client.outputs == [name]
    ((model, _), more), *others = client.sent
    assert not others and model == name and more["parameters"] == {name: name}
    assert more["request_id"] == more["sequence_id"] == name


@quick
@given(NAMES)
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("kind", ["tritonclient HTTP", "tritonclient gRPC", "pytest"])
def test_a_program_sends_the_names(kind: str, decoupled: bool, name: str) -> None:
    if decoupled and "HTTP" in kind:
        return
    client = Client([{name: ARRAY}])
    address = Address(name, name, is_default=True)
    made = copy_as(kind, answered(name), config(name, decoupled), address)
    run_python(made.text, client, *made.files.values())
    check_sent(client, name)
    assert client.address == name and "/" not in made.name
    made = copy_as(kind, answered(name), config(name, decoupled), Address(name, name))
    run_python(made.text, client, *made.files.values())
    assert client.address == name


@quick
@given(NAMES)
def test_a_test_of_a_failure_and_of_a_record_send_the_names(name: str) -> None:
    for made in (
        failure_test([request(name)], config(name), name, Address(name, name)),
        recorded_tests("test_models", [(answered(name), config(name))], Address(name, name)),
    ):
        client = Client([{name: ARRAY}])
        run_python(made.text, client, *made.files.values())
        check_sent(client, name)


def test_tensors_with_similar_names_are_not_confused() -> None:
    names = ("a", "a.npy", "a\0", "a\0b")
    inputs = {name: Tensor.from_numpy(np.array([[number]], np.int32)) for number, name in enumerate(names)}
    made = failure_test([InferenceRequest("m", inputs)], config("Y"), "no")
    with np.load(io.BytesIO(made.files["test_m_failure.npz"])) as data:
        assert sorted(int(data[key][0, 0]) for key in data.files) == [0, 1, 2, 3]


@pytest.mark.parametrize("values", [ARRAY, np.float16(ARRAY)], ids=["printed", "saved"])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_command_of_curl_sends_the_names(values: np.ndarray, shell: str, tmp_path: Path) -> None:
    @quick
    @given(NAMES)
    def check(name: str) -> None:
        sent = InferenceRequest(name, {name: Tensor.from_numpy(values)}, requested_outputs=[name], request_id=name)
        made = copy_as(
            "curl", Exchange(sent), config(name), Address("localhost:1", "", f"/the {name}".replace("\0", ""))
        )
        arguments, read = run_shell(made.text, tmp_path, shell)
        (url,) = [each for each in arguments if each.startswith("http")]
        assert unquote(url) == f"http://localhost:1/v2/models/{name}/infer" and url.isascii() and " " not in url
        assert f"@/the {name}".replace("\0", "") in arguments
        text = arguments[arguments.index("-d") + 1] if "-d" in arguments else read[: read.rindex("}") + 1]
        document = json.loads(text)
        assert [each["name"] for each in document["inputs"]] == [name] == [each["name"] for each in document["outputs"]]
        assert document["id"] == name

    check()


@quick
@given(NAMES)
def test_the_input_of_perf_analyzer_has_the_names(name: str) -> None:
    data = json.loads(copy_as("perf_analyzer input", answered(name), config(name)).text)["data"]
    assert [list(row) for row in data] == [[name, f"{name}2"]]
