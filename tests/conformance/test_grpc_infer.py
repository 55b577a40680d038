"""ModelInfer, message by message (rules 6.4.2, 6.6, 6.7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .clients import Client
from .grpc_messages import PAIR, Rpc, answer, message, ok, output, tensor, with_parameters
from .models import ADD_SUB, ADD_SUB_CONFIG, CPU, ECHO, RETURNS, SCRIPTED, config, model
from .rules import rule
from .scripts import code

DATATYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP64", "BF16"]

#: Answers as often as the first element of IN says: -1 raises, -2 is an error and a response.
SENDER = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().reshape(-1)[0])
            if count == -1:
                raise ValueError("bad")
            if count == -2:
                error = pb_utils.TritonError("nope", pb_utils.TritonError.NOT_FOUND)
                sender.send(pb_utils.InferenceResponse(error=error))
                count = 1
            final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
            for i in range(count):
                tensor = pb_utils.Tensor("OUT", np.array([i], np.float32))
                sender.send(pb_utils.InferenceResponse([tensor]), flags=final if count == 7 and i == 6 else 0)
            if count != 7:
                sender.send(flags=final)
"""
SENDER_CONFIG = config("IN FP32 -1", "OUT FP32 -1")
#: Answers IN as it sees it, and of each batch three rows of one.
RESHAPED = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, "IN")
            assert tensor.as_numpy().ndim == 1
            more = np.arange(len(tensor.as_numpy()) * 3, dtype=np.float32).reshape(-1, 1, 3)
            answers.append(pb_utils.InferenceResponse([tensor, pb_utils.Tensor("MORE", more)]))
        return answers
"""
RESHAPED_CONFIG = """
backend: "python" max_batch_size: 4 instance_group { kind: KIND_CPU }
input { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }
output { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }
output { name: "MORE" data_type: TYPE_FP32 dims: [ -1, 1 ] reshape { shape: [ 1, -1 ] } }
"""
DECOUPLED = "model_transaction_policy { decoupled: true }"

#: All of them in one echo, one optional input and output each: a real server loads a model in 1.3 s.
EVERY = config("; ".join(f"{t} {t} -1 optional" for t in DATATYPES), "; ".join(f"{t} {t} -1" for t in DATATYPES))

MODELS = {
    "echo": model(ECHO, config("IN FP32 -1", "IN FP32 -1")),
    "strings": model(ECHO, config("IN STRING -1", "IN STRING -1")),
    "every": model(RETURNS, EVERY),
    "add_sub": model(ADD_SUB, ADD_SUB_CONFIG),
    "sender": model(SENDER, SENDER_CONFIG),
    "decoupled": model(SENDER, config("IN FP32 -1", "OUT FP32 -1", CPU, DECOUPLED)),
    "batches": model(ECHO, config("IN FP32 2,2", "IN FP32 2,2", CPU, "max_batch_size: 4")),
    "labelled": model(
        ECHO,
        'backend: "python" input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } '
        'output { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] label_filename: "labels.txt" }',
        **{"labels.txt": "cat\r\ndog\n"},
    ),
    "variable": model(ECHO, config("IN FP32 -1", "IN FP32 -1", CPU, "max_batch_size: 4")),
    "optional": model(RETURNS, config("IN FP32 1 optional", "IN FP32 1", CPU, "max_batch_size: 4")),
    "reshaped": model(RESHAPED, RESHAPED_CONFIG),
    "script": model(SCRIPTED, config("CODE STRING 1", "OUT STRING 1")),
    "parameters": model(SCRIPTED, config("CODE STRING 1", "OUT STRING 1")),
}
P = "[request id: <id_unknown>] "
MIXED = "contents field must not be specified when using raw_input_contents for '{}' for model 'add_sub'"
LACKS = "unable to find data for input tensor '{}' for model '{}' in request."
TYPED = "unexpected explicit tensor data for input tensor 'IN' for model 'echo'"
A = tensor("INPUT0", shape=[4], fp32_contents=[1, 2, 3, 4])
BARE = [tensor("INPUT0", shape=[4]), tensor("INPUT1", shape=[4])]

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no data": ({"inputs": [tensor()]}, LACKS.format("IN", "echo")),
    "no data for no elements": ({"inputs": [tensor(shape=[0])]}, LACKS.format("IN", "echo")),
    "empty contents": (
        {"inputs": [tensor(typed=True)]},
        P + "input byte size mismatch for input 'IN' for model 'echo'. Expected 8, got 0",
    ),
    "both": (
        {"inputs": [tensor(fp32_contents=[1, 2])], "raw": [PAIR]},
        "contents field must not be specified when using raw_input_contents for 'IN' for model 'echo'",
    ),
    "typed and raw": ({"model": "add_sub", "inputs": [A, BARE[1]], "raw": [PAIR * 2]}, MIXED.format("INPUT0")),
    "one raw of two": ({"model": "add_sub", "inputs": BARE, "raw": [PAIR * 2]}, LACKS.format("INPUT1", "add_sub")),
    "one typed of two": ({"model": "add_sub", "inputs": [A, BARE[1]]}, LACKS.format("INPUT1", "add_sub")),
    "wrong field": (
        {"inputs": [tensor(int_contents=[1, 2])]},
        f"{TYPED} of type 'INT32', expected datatype 'FP32'",
    ),
    "wrong field first": (
        {"inputs": [tensor(int_contents=[1, 2], fp32_contents=[1, 2])]},
        f"{TYPED} of type 'INT32', expected datatype 'FP32'",
    ),
    "right field first": (
        {"inputs": [tensor(fp32_contents=[1, 2], fp64_contents=[1, 2])]},
        f"{TYPED}, binary data was already supplied.",
    ),
    "contents of no datatype": (
        {"inputs": [tensor(datatype="FP33", fp32_contents=[1, 2])]},
        f"{TYPED} of type 'FP32', expected datatype '<invalid>'",
    ),
    "too few": (
        {"inputs": [tensor(fp32_contents=[1])]},
        P + "input byte size mismatch for input 'IN' for model 'echo'. Expected 8, got 4",
    ),
    "too many": (
        {"inputs": [tensor(fp32_contents=[1, 2, 3])]},
        P + "input byte size mismatch for input 'IN' for model 'echo'. Expected 8, got 12",
    ),
    "half an element": (
        {"inputs": [tensor()], "raw": [PAIR[:5]]},
        P + "input byte size mismatch for input 'IN' for model 'echo'. Expected 8, got 5",
    ),
    "raw without an input": (
        {"raw": [PAIR]},
        P + "expected 1 inputs but got 0 inputs for model 'echo'. Got input(s) [], but missing required input(s) "
        "['IN']. Please provide all required input(s).",
    ),
    "a size left open": (
        {"inputs": [tensor(shape=[-1])], "raw": [PAIR]},
        P + "All input dimensions should be specified for input 'IN' for model 'echo', got [-1]",
    ),
    "a negative size": (
        {"inputs": [tensor(shape=[-2])], "raw": [PAIR]},
        P + "input byte size mismatch for input 'IN' for model 'echo'. Expected -8, got 8",
    ),
    "negative sizes": (
        {"inputs": [tensor(shape=[-2, -1])], "raw": [PAIR]},
        P + "unexpected shape for input 'IN' for model 'echo'. Expected [-1], got [-2,-1]. ",
    ),
    "a lying shape": (
        {"inputs": [tensor(shape=[1 << 40], fp32_contents=[1, 2])]},
        P + "input byte size mismatch for input 'IN' for model 'echo'. Expected 4398046511104, got 8",
    ),
    **{
        f"datatype '{word}'": (
            {"inputs": [tensor(datatype=word)], "raw": [PAIR]},
            P + "inference input 'IN' data-type is '<invalid>', but model 'echo' expects 'FP32'",
        )
        for word in ("FP33", "", "fp32", "TYPE_FP32")
    },
    "another datatype": (
        {"inputs": [tensor(datatype="INT32")], "raw": [PAIR]},
        P + "inference input 'IN' data-type is 'INT32', but model 'echo' expects 'FP32'",
    ),
    "no name": ({"inputs": [tensor("")], "raw": [PAIR]}, "unexpected inference input '' for model 'echo'"),
    "unknown input": ({"inputs": [tensor("X")], "raw": [PAIR]}, "unexpected inference input 'X' for model 'echo'"),
    "twice": ({"inputs": [tensor(), tensor()], "raw": [PAIR, PAIR]}, P + "input 'IN' already exists in request"),
    "unknown output": (
        {"inputs": [tensor()], "raw": [PAIR], "outputs": [output("X")]},
        "unexpected inference output 'X' for model 'echo'",
    ),
    "too few strings": (
        {"model": "strings", "inputs": [tensor(datatype="BYTES", bytes_contents=[b"a"])]},
        P + "expected 2 string elements for inference input 'IN' for model 'strings', got 1",
    ),
    "too many strings": (
        {"model": "strings", "inputs": [tensor(datatype="BYTES", bytes_contents=[b"a"] * 3)]},
        P + "unexpected number of string elements 3 for inference input 'IN' for model 'strings', expecting 2",
    ),
    **{
        f"version '{text}'": (
            {"version": text},
            f"failed to get model version from specified version string '{text}' (details: stol), version should be "
            "an integral value > 0",
        )
        for text in ("x", "x1", "9" * 20)
    },
    **{
        f"version '{text}'": (
            {"version": text},
            f"invalid model version specified '{text}' , version should be an integral value > 0",
        )
        for text in ("-1", "-5")
    },
}


@rule("5.4.1", "6.7.1", "6.7.2")
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_reported_in_tritons_words(rpc: Rpc, case: str) -> None:
    fields, text = REFUSED[case]
    assert rpc.infer(**fields) == ("INVALID_ARGUMENT", text)


@rule("3.7.4", "5.4.1", "6.7.4")
def test_the_model_is_looked_for_first(rpc: Rpc) -> None:
    unknown = "Request for unknown model: "
    assert rpc.infer("nope", triton_x=1) == ("NOT_FOUND", f"{unknown}'nope' is not found")
    assert rpc.infer("") == ("NOT_FOUND", f"{unknown}'' is not found")
    assert rpc.infer(version="7") == ("NOT_FOUND", f"{unknown}'echo' version 7 is not found")
    assert rpc.infer(version="0") == ("NOT_FOUND", f"{unknown}'echo' version 0 is not found")
    decoupled = "ModelInfer RPC doesn't support models with decoupled transaction policy"
    assert rpc.infer("decoupled", triton_x=1) == ("UNIMPLEMENTED", decoupled)


@rule("6.7.4")
@pytest.mark.parametrize(
    ("method", "refused"),
    [
        ("inference.GRPCInferenceService/ModelInfer", ("INTERNAL", "Unable to parse request")),
        ("inference.GRPCInferenceService/ServerLive", ("INTERNAL", "Unable to parse request")),
        ("inference.GRPCInferenceService/Nope", ("UNIMPLEMENTED", "")),
    ],
)
def test_a_call_without_a_message(rpc: Rpc, method: str, refused: tuple[str, str]) -> None:
    call = rpc.channel.stream_unary(f"/{method}", None, None)
    assert answer(call, iter(())) == refused


ZZ: dict[str, Any] = {"shared_memory_region": "zz", "shared_memory_byte_size": 8}
NO_ZZ = ("NOT_FOUND", "Unable to find shared memory region: 'zz'")


@rule("6.7.4", "5.4.1")
def test_the_data_of_inputs_comes_before_the_outputs_and_these_before_the_rules(rpc: Rpc) -> None:
    for wanted in (output(**ZZ), output(classification=-1)):
        assert rpc.infer(inputs=[tensor()], outputs=[wanted]) == ("INVALID_ARGUMENT", LACKS.format("IN", "echo"))
    for fields in ({"inputs": [tensor(shape=[3])]}, {"inputs": [tensor("X")]}):
        assert rpc.infer(**fields, raw=[PAIR], outputs=[output(**ZZ)]) == NO_ZZ
    assert rpc.infer(inputs=[tensor()], raw=[PAIR], outputs=[output("X"), output(**ZZ)]) == NO_ZZ
    twice = [tensor(), tensor()]
    assert rpc.infer(inputs=twice)[1] == P + "input 'IN' already exists in request"


@rule("5.4.1")
def test_the_first_unknown_output_by_its_bytes_is_reported(rpc: Rpc) -> None:
    for names, unknown in ((["Z", "B", "C"], "B"), (["é", "z", "Z", "IN"], "Z")):
        refused = rpc.infer(inputs=[tensor()], raw=[PAIR], outputs=[output(name) for name in names])
        assert refused == ("INVALID_ARGUMENT", f"unexpected inference output '{unknown}' for model 'echo'")


@rule("5.4.1", "5.4.5")
@pytest.mark.parametrize(
    ("model", "shape", "text"),
    [
        (
            "variable",
            [-2, -1],
            "All input dimensions should be specified for input 'IN' for model 'variable', got [-2,-1]",
        ),
        (
            "variable",
            [-1, 2],
            "input byte size mismatch for input 'IN' for model 'variable'. Expected 34359738360, got 8",
        ),
        (
            "batches",
            [1, -1, 2],
            "All input dimensions should be specified for input 'IN' for model 'batches', got [1,-1,2]",
        ),
        (
            "batches",
            [-1, 2, 2],
            "input byte size mismatch for input 'IN' for model 'batches'. Expected 68719476720, got 8",
        ),
    ],
)
def test_a_negative_size(rpc: Rpc, model: str, shape: list[int], text: str) -> None:
    assert rpc.infer(model, [tensor(shape=shape)], [PAIR]) == ("INVALID_ARGUMENT", P + text)


@rule("5.4.5")
def test_a_batch_size_of_0_is_one_item_without_a_batch_dimension(rpc: Rpc) -> None:
    answer = ok(rpc.infer("variable", [tensor(shape=[0, 2])], [PAIR]))
    assert (list(answer.outputs[0].shape), list(answer.raw_output_contents)) == ([2], [PAIR])


@rule("5.4.8")
def test_a_batching_model_wants_an_input_to_read_the_batch_size_from(rpc: Rpc) -> None:
    assert rpc.infer("optional") == ("INVALID_ARGUMENT", P + "out of bounds index 0: request has 0 inputs")
    ok(rpc.infer("every"))


@rule("5.6.1", "6.7.4")
def test_the_length_of_a_correlation_id(rpc: Rpc) -> None:
    refused = ("UNIMPLEMENTED", "string correlation ID cannot be longer than 128 characters")
    ok(rpc.infer(inputs=[tensor()], raw=[PAIR], sequence_id="x" * 128))
    assert rpc.infer(inputs=[tensor()], raw=[PAIR], sequence_id="é" * 65) == refused
    assert rpc.infer(inputs=[tensor(), tensor()], outputs=[output("X")], sequence_id="x" * 129) == refused
    call = (
        'r = pb_utils.InferenceRequest(model_name="echo", inputs=[], requested_output_names=["X"], '
        'correlation_id="x" * 129)\n'
        'return [R([T("OUT", np.array([r.exec().error().message().encode()], dtype=object))])]'
    )
    answer = ok(rpc.infer("script", [tensor("CODE", "BYTES", [1], bytes_contents=[code(call).encode()])]))
    assert answer.raw_output_contents[0][4:].decode() == f"Model echo - Error when running inference: {refused[1]}"


@rule("5.4.6")
def test_clients_get_the_dims_of_a_reshaped_output(rpc: Rpc) -> None:
    answer = ok(rpc.infer("reshaped", [tensor(shape=[2, 1])], [PAIR]))
    assert [(o.name, list(o.shape)) for o in answer.outputs] == [("IN", [2, 1]), ("MORE", [2, 3, 1])]
    assert list(answer.raw_output_contents) == [PAIR, np.arange(6, dtype=np.float32).tobytes()]


@rule("6.7.1", "6.7.2")
@pytest.mark.parametrize("version", ["", "1", "1x", " 1", "+1", "1.5"])
def test_an_answer_says_what_it_answers(rpc: Rpc, version: str) -> None:
    answer = ok(rpc.infer(inputs=[tensor()], raw=[PAIR], version=version, id="é"))
    assert (answer.model_name, answer.model_version, answer.id) == ("echo", "1", "é")
    assert [(o.name, o.datatype, list(o.shape), o.HasField("contents")) for o in answer.outputs] == [
        ("IN", "FP32", [2], False)
    ]
    assert list(answer.raw_output_contents) == [PAIR]
    assert not answer.parameters


@rule("6.7.1")
def test_data_beyond_the_inputs_is_ignored(rpc: Rpc) -> None:
    assert list(ok(rpc.infer(inputs=[tensor()], raw=[PAIR, b"more"])).raw_output_contents) == [PAIR]


TYPED_CASES: dict[str, tuple[str, list[Any], Any]] = {
    "BOOL": ("bool_contents", [True, False], np.bool_),
    "UINT8": ("uint_contents", [1, 300], np.uint8),
    "UINT16": ("uint_contents", [1, 70000], np.uint16),
    "UINT32": ("uint_contents", [1, 2**32 - 1], np.uint32),
    "UINT64": ("uint64_contents", [1, 2**64 - 1], np.uint64),
    "INT8": ("int_contents", [-1, 300], np.int8),
    "INT16": ("int_contents", [-1, 70000], np.int16),
    "INT32": ("int_contents", [-1, -(2**31)], np.int32),
    "INT64": ("int64_contents", [-1, 2**62], np.int64),
    "FP64": ("fp64_contents", [1.5, -0.0], np.float64),
}


@rule("6.7.1")
def test_typed_contents_are_cut_to_their_datatype(rpc: Rpc) -> None:
    inputs = [tensor(name, name, **{field: values}) for name, (field, values, _) in TYPED_CASES.items()]
    answer = ok(rpc.infer("every", inputs))
    found = dict(zip([o.name for o in answer.outputs], answer.raw_output_contents, strict=True))
    read = {name: np.uint64 if name == "UINT64" else None for name in TYPED_CASES}  # numpy would make a float of it
    expected = {name: np.array(v, read[name]).astype(t).tobytes() for name, (_, v, t) in TYPED_CASES.items()}
    assert found == expected


@rule("6.7.1")
@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_half_floats_come_raw_only(rpc: Rpc, datatype: str) -> None:
    text = f"input tensor '{datatype}' for model 'every' of type 'FP32', expected datatype '{datatype}'"
    refused = rpc.infer("every", [tensor(datatype, datatype, fp32_contents=[1, 2])])
    assert refused == ("INVALID_ARGUMENT", f"unexpected explicit tensor data for {text}")
    answer = ok(rpc.infer("every", [tensor(datatype, datatype)], [b"abcd"]))
    assert list(answer.raw_output_contents) == [b"abcd"]


@rule("6.7.1", "1.6.1")
def test_strings_come_typed_and_go_raw(rpc: Rpc) -> None:
    answer = ok(rpc.infer("strings", [tensor(datatype="BYTES", bytes_contents=[b"a", b"\xff\x00z"])]))
    assert list(answer.raw_output_contents) == [b"\x01\0\0\0a\x03\0\0\0\xff\x00z"]


@rule("5.4.5", "6.7.1")
def test_no_elements_need_no_bytes(rpc: Rpc) -> None:
    for fields in ({"inputs": [tensor(shape=[0], typed=True)]}, {"inputs": [tensor(shape=[0])], "raw": [b""]}):
        answer = ok(rpc.infer(**fields))
        assert (list(answer.outputs[0].shape), list(answer.raw_output_contents)) == ([0], [b""])


@rule("6.7.1")
def test_outputs_come_in_the_models_order(rpc: Rpc) -> None:
    raw = [PAIR * 2, PAIR * 2]
    both = ok(rpc.infer("add_sub", BARE, raw, outputs=[output("OUTPUT1"), output("OUTPUT0")]))
    assert [o.name for o in both.outputs] == ["OUTPUT0", "OUTPUT1"]
    one = ok(rpc.infer("add_sub", BARE, raw, outputs=[output("OUTPUT1", binary_data=True, foo="x")]))
    assert [o.name for o in one.outputs] == ["OUTPUT1"]
    assert list(one.raw_output_contents) == [bytes(16)]


# -- parameters

TYPES = "invalid value type for '{}' parameter, expected {}"
RESERVED = (
    "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with "
    "'triton_' are allowed: triton_enable_empty_final_response"
)
BAD_PARAMETERS: list[tuple[str, Any, str]] = [
    ("sequence_id", True, TYPES.format("sequence_id", "int64_param or string_param.")),
    ("sequence_id", 1.5, TYPES.format("sequence_id", "int64_param or string_param.")),
    ("sequence_start", 1, TYPES.format("sequence_start", "bool_param.")),
    ("sequence_end", "x", TYPES.format("sequence_end", "bool_param.")),
    ("priority", "x", TYPES.format("priority", "int64_param or uint64_param.")),
    ("priority", True, TYPES.format("priority", "int64_param or uint64_param.")),
    ("priority", -1, "invalid value for 'priority', expected value >= 0."),
    ("timeout", "x", TYPES.format("timeout", "int64_param.")),
    ("timeout", True, TYPES.format("timeout", "int64_param.")),
    ("triton_x", 1, RESERVED),
    ("triton_final_response", True, RESERVED),
    (
        "triton_enable_empty_final_response",
        1,
        TYPES.format("triton_enable_empty_final_response", "bool_param."),
    ),
]


@rule("6.4.2")
@pytest.mark.parametrize(("key", "value", "text"), BAD_PARAMETERS)
def test_parameters_of_the_wrong_type(rpc: Rpc, key: str, value: Any, text: str) -> None:
    assert rpc.infer(inputs=[tensor()], raw=[PAIR], **{key: value}) == ("INVALID_ARGUMENT", text)


@rule("6.4.2")
def test_parameters_of_kinds_that_no_model_gets(rpc: Rpc) -> None:
    text = TYPES.format("a", "int64_param, bool_param, or string_param.")
    request = message(inputs=[tensor()], raw=[PAIR])
    request.parameters["a"].uint64_param = 5
    assert rpc("ModelInfer", request) == ("INVALID_ARGUMENT", text)
    request.parameters["a"].ClearField("uint64_param")
    assert rpc("ModelInfer", request) == ("INVALID_ARGUMENT", text)
    del request.parameters["a"]
    for key, expected in (("sequence_id", "int64_param or string_param."), ("timeout", "int64_param.")):
        request.parameters[key].uint64_param = 5
        assert rpc("ModelInfer", request) == ("INVALID_ARGUMENT", TYPES.format(key, expected))
        del request.parameters[key]
    request.parameters["priority"].uint64_param = 5
    ok(rpc("ModelInfer", request))


@rule("5.4.7", "6.4.1")
def test_a_model_sees_what_has_no_meaning_of_its_own(rpc: Rpc) -> None:
    body = (
        'text = requests[0].parameters() + "|" + str(requests[0].correlation_id())\n'
        'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([text.encode()], dtype=object))])]'
    )
    request = message("parameters", [tensor("CODE", "BYTES", [1], bytes_contents=[code(body).encode()])])
    with_parameters(request, a=1, b=True, c="x", d=1.5, headers=3, sequence_id=5, timeout=-1, priority=3)
    with_parameters(request, sequence_start=True, triton_enable_empty_final_response=True, binary_data_output=True)
    seen, correlation_id = ok(rpc("ModelInfer", request)).raw_output_contents[0][4:].decode().split("|")
    assert eval(seen.replace("true", "True")) == {  # JSON, in no order
        "a": 1, "b": True, "c": "x", "d": 1.5, "headers": 3, "binary_data_output": True,
    }  # fmt: skip
    assert correlation_id == "5"


# -- responses that are not one


@rule("3.5.1", "6.7.4")
def test_exactly_one_response_is_an_answer(rpc: Rpc, client: Client) -> None:
    def infer(count: int) -> Any:
        return rpc.infer("sender", [tensor(shape=[1])], [np.float32(count).tobytes()])

    assert list(ok(infer(1)).raw_output_contents) == [bytes(4)]
    for count in (2, 7, -2):
        assert infer(count) == ("INTERNAL", "expected a single response, got 2")
    status, text = infer(-1)
    assert (status, client.plain(text)) == (
        "INTERNAL",
        "Failed to process the request(s) for model 'sender_0_0', message: ValueError: bad\n\nAt:\n"
        "  <repository>/sender/1/model.py(12): execute\n",
    )


# -- classification


@rule("6.6.1")
@pytest.mark.parametrize(
    ("name", "shape", "values", "count", "expected", "answered"),
    [
        ("echo", [2], [3, 4], 2, [b"4.000000:1", b"3.000000:0"], [2]),
        ("echo", [3], [3, 4, 5], 1, [b"5.000000:2"], [1]),
        ("echo", [2], [3, 4], 20, [b"4.000000:1", b"3.000000:0"], [2]),
        ("labelled", [3], [1, 3, 2], 3, [b"3.000000:1:dog", b"2.000000:2", b"1.000000:0:cat\r"], [3]),
        ("batches", [2, 2, 2], range(8), 1, [b"3.000000:3", b"7.000000:3"], [2, 1]),
    ],
)
def test_an_output_as_its_highest_classes(
    rpc: Rpc, name: str, shape: list[int], values: Any, count: int, expected: list[bytes], answered: list[int]
) -> None:
    raw = np.array(values, np.float32).tobytes()
    found = ok(rpc.infer(name, [tensor(shape=shape)], [raw], outputs=[output(classification=count)]))
    assert (found.outputs[0].datatype, list(found.outputs[0].shape)) == ("BYTES", answered)
    assert found.raw_output_contents[0] == b"".join(len(e).to_bytes(4, "little") + e for e in expected)


@rule("6.6.3")
def test_bad_counts_of_classes(rpc: Rpc) -> None:
    def infer(**parameters: Any) -> Any:
        return rpc.infer(inputs=[tensor()], raw=[PAIR], outputs=[output(**parameters)])

    for count in (-1, 0):
        text = "invalid value for 'classification' parameter, expected >= 0"
        assert infer(classification=count) == ("INVALID_ARGUMENT", text)
    text = "invalid value type for 'classification' parameter, expected int64_param"
    assert infer(classification="x") == ("INVALID_ARGUMENT", text)
    text = "output can't set both 'shared_memory_region' and 'classification'"
    both = infer(classification=1, shared_memory_region="a", shared_memory_byte_size=8)
    assert both == ("INVALID_ARGUMENT", text)


# -- messages that are none


@rule("6.7.4")
def test_what_is_no_message_is_refused_and_the_next_one_is_answered(rpc: Rpc) -> None:
    service = "/inference.GRPCInferenceService/"
    garbage = ("INTERNAL", "Unable to parse request")
    assert rpc.raw(f"{service}ModelInfer", b"\xff\xff\xff") == garbage
    assert rpc.raw(f"{service}ModelMetadata", b"\xff\xff\xff") == garbage
    assert rpc.raw(f"{service}ModelInfer", b"\x3a\x7f" + bytes(10)) == garbage
    assert rpc.raw(f"{service}ModelInfer", b"\x3a\xff\xff\xff\xff\x0f" + bytes(1 << 17)) == garbage
    assert rpc.raw(f"{service}Nope", b"") == ("UNIMPLEMENTED", "")
    ok(rpc.infer(inputs=[tensor()], raw=[PAIR]))
