"""`generate` and `generate_stream`, byte by byte (sections 6.8, 6.9 and 6.11)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.models import executes

from .cases_http import BUFFER
from .models import CPU, ECHO, config, model
from .raw_http import RawHTTP
from .rules import rule

#: Sends one response per element: an error if it begins with `!`.
STREAMS = executes("""
    for request in requests:
        sender = request.get_response_sender()
        for text in pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().ravel():
            if text.startswith(b"!"):
                response = pb_utils.InferenceResponse(error=pb_utils.TritonError(text.decode()))
            else:
                response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([text], object))])
            sender.send(response)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""")
REPORTS = executes(
    "requested = [[r.parameters(), r.request_id(), r.correlation_id(), r.flags(), r.timeout()] for r in requests]\n"
    "requested = [[*fields, [[*t.shape()] for t in r.inputs()]] for fields, r in zip(requested, requests)]\n"
    "texts = [np.array([json.dumps(fields).encode()], object) for fields in requested]\n"
    'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)]) for text in texts]',
    imports="import json",
)
DECOUPLED = "model_transaction_policy { decoupled: true }"

MODELS = {
    "flow": model(STREAMS, config("IN STRING -1", "OUT STRING 1", DECOUPLED, CPU)),
    "reports": model(
        REPORTS, config("A FP32 -1,2 optional;S STRING -1 optional;T STRING -1,2 optional", "OUT STRING 1")
    ),
    "echo": model(
        ECHO,
        config(
            "F FP32 -1 optional;I INT8 -1 optional;S STRING -1 optional;B BOOL 1 optional;H FP16 1 optional",
            "F FP32 -1;I INT8 -1;S STRING -1;B BOOL 1;H FP16 1",
        ),
    ),
    "batch": model(ECHO, config("IN FP32 4", "IN FP32 4", "max_batch_size: 8", CPU)),
}

JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"
NOT_ONE = (
    b'{"error":"generate expects model to produce exactly 1 response, use generate stream for model that generates '
    b'various number of responses"}'
)
TWICE = "[request id: {}] input 'S' already exists in request"
#: A text that tritonlab does not read with the rest of its document.
LONG = b"a" * 100_000
PARAMETER = "parameter '{}' has invalid type. It should be either 'int', 'bool', or 'string'."


def generate(http: RawHTTP, name: str, document: Any, **headers: str) -> Any:
    return http.post(f"/v2/models/{name}/generate", document, **headers)


def stream(http: RawHTTP, name: str, document: Any, **headers: str) -> Any:
    return http.post(f"/v2/models/{name}/generate_stream", document, **headers)


# generate


@rule("6.8.1", "6.8.2")
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, ["{}", "", 0, 0, 0, []]),
        ({"id": "q"}, ['{"id":"q"}', "q", 0, 0, 0, []]),
        ({"A": [1, 2, 3, 4]}, ["{}", "", 0, 0, 0, [[2, 2]]]),
        ({"S": "hi"}, ["{}", "", 0, 0, 0, [[1]]]),
        ({"S": [["a"]]}, ["{}", "", 0, 0, 0, [[1]]]),
        ({"S": []}, ["{}", "", 0, 0, 0, [[0]]]),
        ({"parameters": {"a": 1, "S": "in", "parameters": 3}}, ['{"a":1,"parameters":3}', "", 0, 0, 0, [[1]]]),
        (
            {"sequence_id": 3, "sequence_start": True, "priority": 1, "timeout": 2.5, "triton_x": "y"},
            ['{"sequence_id":3,"sequence_start":true,"priority":1,"timeout":2.5,"triton_x":"y"}', "", 0, 0, 0, []],
        ),
    ],
)
def test_what_a_model_sees(http: RawHTTP, document: Any, expected: list[Any]) -> None:
    reply = generate(http, "reports", document)
    assert (reply.status, reply.kind, json.loads(reply.document["OUT"])) == (200, JSON, expected)


@rule("6.3.7", "6.8.1")
@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"S":"a","S":1}', TWICE.format("<id_unknown>")),
        (b'{"S":"a","\\u0053":"b","id":"q"}', TWICE.format("q")),
        (b'{"S":"a","x":"\xff","S":"b"}', TWICE.format("<id_unknown>")),
        (b'{"S":"%b","x":{},"S":"b"}' % LONG, PARAMETER.format("x")),
        (b'{"S":"%b","x":1,"x":2,"S":"b"}' % LONG, TWICE.format("<id_unknown>")),
        (b'{"x":1,"x":{},"S":"%b","y":1,"S":"b"}' % LONG, TWICE.format("<id_unknown>")),
        (b'{"S":"%b","x":1,"S":"b"}' % LONG, TWICE.format("<id_unknown>")),
        (b'{"parameters":{"S":"a"},"S":"b"}', TWICE.format("<id_unknown>")),
        (b'{"parameters":{"S":"a","S":"b"}}', "Converting keyword: 'parameters': " + TWICE.format("<id_unknown>")),
        (
            b'{"parameters":{"S":"a"},"parameters":{}}',
            "Converting keyword: 'parameters': " + TWICE.format("<id_unknown>"),
        ),
    ],
)
def test_an_input_may_be_there_once(http: RawHTTP, body: bytes, error: str) -> None:
    reply = generate(http, "reports", body)
    assert (reply.status, reply.error) == (400, error)


@rule("6.3.7", "6.8.1")
@pytest.mark.parametrize("send", [generate, stream])
@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        (b'{"a":1,"b":true,"a":{}}', [("a", 1), ("b", True), ("a", 1)]),
        (b'{"id":"q","id":2}', [("id", "q"), ("id", "q")]),
        (b'{"sequence_id":1,"sequence_id":2}', [("sequence_id", 1), ("sequence_id", 1)]),
        (b'{"parameters":{"b":1,"b":"x"}}', [("b", 1), ("b", 1)]),
        (b'{"parameters":{"b":1},"parameters":3}', [("b", 1), ("b", 1)]),
        (b'{"parameters":{"b":1},"b":2}', [("b", 1), ("b", 2)]),
        (b'{"b":2,"parameters":{"b":1}}', [("b", 2), ("b", 1)]),
    ],
)
def test_of_other_keys_the_first_counts(http: RawHTTP, send: Any, body: bytes, pairs: list[tuple[str, Any]]) -> None:
    """Triton writes the first value as often as the key is there; what reads the JSON finds the same on both sides."""
    reply = send(http, "reports", body)
    assert reply.status == 200
    text = json.loads(json.loads(reply.body.removeprefix(b"data: "))["OUT"])[0]
    assert json.loads(text) == dict(pairs)
    assert json.loads(text, object_pairs_hook=list) == (pairs if http.side == "real" else list(dict(pairs).items()))


@rule("6.8.3")
@pytest.mark.parametrize(
    ("name", "document", "body"),
    [
        ("echo", {"F": [1, 2.5]}, b'{"F":[1.0,2.5],"model_name":"echo","model_version":"1"}'),
        ("echo", {"F": 1e300}, b'{"F":Infinity,"model_name":"echo","model_version":"1"}'),
        ("echo", {"I": 300}, b'{"I":44,"model_name":"echo","model_version":"1"}'),
        (
            "echo",
            {"S": "\u00e9", "B": True, "id": "q"},
            '{"B":true,"S":"é","id":"q","model_name":"echo","model_version":"1"}'.encode(),
        ),
        ("echo", {"S": ["a", "b"]}, b'{"S":["a","b"],"model_name":"echo","model_version":"1"}'),
        ("batch", {"IN": [1, 2, 3, 4]}, b'{"IN":[1.0,2.0,3.0,4.0],"model_name":"batch","model_version":"1"}'),
        ("flow", {"IN": "a"}, b'{"OUT":"a","model_name":"flow","model_version":"1"}'),
    ],
)
def test_an_answer_is_one_object(http: RawHTTP, name: str, document: Any, body: bytes) -> None:
    assert generate(http, name, document).plain == (200, JSON, body)


@rule("6.8.5", "6.8.6", "6.11")
@pytest.mark.parametrize(
    ("sent", "status", "body"),
    [
        ([], 200, NOT_ONE),
        (["a", "b"], 200, NOT_ONE),
        (["!e"], 400, b'{"error":"!e"}'),
        (["!e", "b"], 400, NOT_ONE),
    ],
)
def test_what_is_not_one_answer(http: RawHTTP, sent: list[str], status: int, body: bytes) -> None:
    assert generate(http, "flow", {"IN": sent}).plain == (status, JSON, body)


@rule("6.8.4", "6.8.2")
@pytest.mark.parametrize(
    ("name", "document", "status", "text"),
    [
        ("reports", b"{", 500, f"{BUFFER}Missing a name for object member. at 1"),
        ("reports", b"[]", 500, "attempt to get members for non-object"),
        ("reports", b"1e999", 500, f"{BUFFER}Number too big to be stored in double. at 0"),
        ("reports", b'{"id":1e999}', 500, f"{BUFFER}Number too big to be stored in double. at 6"),
        ("reports", b'{"x":-1e999}', 500, f"{BUFFER}Number too big to be stored in double. at 5"),
        ("reports", {"a\0b": 1}, 500, "parameter key 'a' was not found in the JSON"),
        ("reports", {"S\0": "x"}, 400, "unexpected key not found in generate request, expecting key 'S'"),
        ("reports", {"S": "x", "S\0": "y"}, 400, TWICE.format("<id_unknown>")),
        (
            "reports",
            {"parameters\0": 1},
            500,
            "Expected JSON object for keyword: 'parameters': attempt to access non-existing object member 'parameters'",
        ),
        ("reports", {"A": 1}, 400, "The schema can not convert input 'A' to tensor with proper shape"),
        ("reports", {"A": ["x"]}, 400, "The schema can not convert input 'A' to tensor with proper shape"),
        ("reports", {"T": ["x"]}, 400, "The schema can not convert input 'T' to tensor with proper shape"),
        ("reports", {"T": [1]}, 500, "Unable to parse JSON bytes array: attempt to access JSON non-string as string"),
        ("reports", {"A": [[1, 2], 3]}, 500, "Unable to parse 'data': Shape does not match true shape of 'data' field"),
        ("reports", {"A": ["x", 1]}, 500, "Unable to parse 'data': attempt to access JSON non-number as double"),
        ("reports", {"S": 1}, 500, "Unable to parse JSON bytes array: attempt to access JSON non-string as string"),
        ("reports", {"x": [1]}, 400, PARAMETER.format("x")),
        ("reports", {"x": None}, 400, PARAMETER.format("x")),
        ("reports", {"id": 5}, 500, "Unable to parse 'id': attempt to access JSON non-string as string"),
        (
            "reports",
            {"parameters": 1},
            500,
            "Expected JSON object for keyword: 'parameters': attempt to access JSON non-object as object",
        ),
        (
            "reports",
            {"parameters": {"b": [1]}},
            400,
            "Converting keyword: 'parameters': " + PARAMETER.format("b"),
        ),
        (
            "echo",
            {"H": 1},
            400,
            "receiving FP16 data via JSON is not supported. Please use the binary data format for input H",
        ),
        (
            "batch",
            {},
            400,
            "[request id: <id_unknown>] expected 1 inputs but got 0 inputs for model 'batch'. Got input(s) [], but "
            "missing required input(s) ['IN']. Please provide all required input(s).",
        ),
        ("nobody", {}, 404, "Request for unknown model: 'nobody' is not found"),
        ("reports/versions/4", {}, 404, "Request for unknown model: 'reports' version 4 is not found"),
    ],
)
def test_what_is_refused(http: RawHTTP, name: str, document: Any, status: int, text: str) -> None:
    for endpoint in (generate, stream):
        reply = endpoint(http, name, document)
        assert (reply.status, reply.kind, reply.error) == (status, JSON, text)


@rule("6.8.2", "6.8.4")
def test_a_body_that_is_compressed_or_empty(http: RawHTTP) -> None:
    for encoding in ("gzip", ""):
        reply = generate(http, "reports", {}, Content_Encoding=encoding)
        assert (reply.status, reply.error) == (400, "Unsupported content-encoding, only 'identity' is supported.")
    reply = generate(http, "reports", b"")
    assert reply.status == (500 if http.side == "real" else 200)  # since 2026-04


# generate_stream


@rule("6.9.1", "6.9.2", "6.9.3", "6.11")
@pytest.mark.parametrize(
    ("sent", "status", "events"),
    [
        ([], 200, []),
        (["a"], 200, ["a"]),
        (["a", "b", "c"], 200, ["a", "b", "c"]),
        (["!e", "a"], 400, ["!e", "a"]),
        (["a", "!e", "b"], 200, ["a", "!e", "b"]),
    ],
)
def test_every_response_is_an_event(http: RawHTTP, sent: list[str], status: int, events: list[str]) -> None:
    reply = stream(http, "flow", {"IN": sent}, Accept_Encoding="gzip")
    chunks = [
        b'data: {"error":"%b"}\n\n' % text.encode()
        if text.startswith("!")
        else b'data: {"OUT":"%b","model_name":"flow","model_version":"1"}\n\n' % text.encode()
        for text in events
    ]
    assert (reply.status, reply.kind, reply.headers["transfer-encoding"]) == (status, EVENTS, "chunked")
    assert [*reply.chunks] == chunks


@rule("6.9.1")
def test_an_ordinary_model_streams_its_one_answer(http: RawHTTP) -> None:
    reply = stream(http, "echo", {"I": [1, 2], "id": "q"})
    assert reply.plain == (200, EVENTS, b'data: {"I":[1,2],"id":"q","model_name":"echo","model_version":"1"}\n\n')
