"""`infer` over HTTP, byte by byte: what comes back, and the texts of errors (sections 6.3 to 6.6)."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from typing import Any

import pytest

from tests.models import executes

from .cases_http import (
    ANSWER,
    BAD,
    BINARY,
    BINARY_HEAD,
    BUFFER,
    F32,
    IN,
    IN_BINARY,
    JSON,
    LARGE,
    LARGE_FAULTS,
    NUMBERS,
    PRINTED,
    RAW,
    TEXT,
    with_input,
    with_output,
)
from .models import CPU, ECHO, SCRIPTED, config, model
from .raw_http import JSON_SIZE, RawHTTP
from .rules import rule
from .scripts import TENSORS, code

DATATYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"]

#: Answers with the fields of its request beside tensors.
REPORTS = executes(
    "requested = [[r.parameters(), r.request_id(), r.correlation_id(), r.flags(), r.timeout()] for r in requests]\n"
    "texts = [json.dumps(each) for each in requested]\n"
    'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([t.encode()], object))]) for t in texts]',
    imports="import json",
)
LABELLED = """
backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] label_filename: "labels.txt" }
instance_group { kind: KIND_CPU }
"""

MODELS = {
    "one": model(ECHO, LABELLED, **{"labels.txt": "cat\ndog\n"}),
    "rows": model(ECHO, config("IN INT32 -1", "IN INT32 -1", "max_batch_size: 4", CPU)),
    "any": model(
        ECHO,
        config(
            ";".join(f"{t} {t} -1 optional" for t in [*DATATYPES, "STRING"]),
            ";".join(f"{t} {t} -1" for t in [*DATATYPES, "STRING"]),
        ),
    ),
    "reports": model(REPORTS, config("A FP32 1 optional", "OUT STRING 1")),
    "flow": model(SCRIPTED, config(*TENSORS, "model_transaction_policy { decoupled: true }", CPU)),
    "script": model(SCRIPTED, config(*TENSORS)),
}

# answers

TWICE: dict[str, tuple[bytes, list[tuple[str, Any]], list[Any]]] = {
    "parameter": (b'"parameters":{"p":2,"q":5,"p":"x"}', [("p", 2), ("q", 5), ("p", 2)], []),
    "of another type": (b'"parameters":{"p":2,"p":{}}', [("p", 2), ("p", 2)], []),
    "escaped": (b'"parameters":{"p":true,"\\u0070":1,"p":2}', [("p", True)] * 3, []),
    "parameters": (b'"parameters":{"p":2},"parameters":{"p":3}', [("p", 2)], []),
    "no parameters": (b'"parameters":{},"parameters":3', [], []),
    "id": (b'"id":"a","id":3', [], ["a", 0, 0, 0]),
    "sequence": (b'"parameters":{"sequence_id":2,"sequence_id":{}}', [], ["", 2, 0, 0]),
    "timeout": (b'"parameters":{"timeout":5,"timeout":"x"}', [], ["", 0, 0, 5]),
    "binary output": (b'"parameters":{"binary_data_output":false,"binary_data_output":true}', [], []),
    "outputs": (b'"outputs":[{"name":"OUT","name":3}],"outputs":3', [], []),
    "of an output": (b'"outputs":[{"name":"OUT","parameters":{"classification":0,"classification":-1}}]', [], []),
    "of an input": (b'"inputs":[{"name":"A","name":3,"shape":[1],"datatype":"FP32","data":[1],"data":3}]', [], []),
}


@rule("6.3.7", "6.4.1")
@pytest.mark.parametrize("case", TWICE)
def test_of_members_of_a_name_the_first_counts(http: RawHTTP, case: str) -> None:
    """Triton writes the first value as often as the key is there; what reads the JSON finds the same on both sides."""
    body, pairs, fields = TWICE[case]
    reply = http.infer("reports", f'{{{body.decode()},"inputs":[]}}')
    assert reply.status == 200
    text, *found = json.loads(reply.document["outputs"][0]["data"][0])
    assert found == (fields or ["", 0, 0, 0])
    assert json.loads(text) == dict(pairs)
    assert json.loads(text, object_pairs_hook=list) == (pairs if http.side == "real" else list(dict(pairs).items()))


@rule("6.3.1", "6.3.2", "6.3.7", "6.5.1")
@pytest.mark.parametrize(
    ("document", "blobs"),
    [
        ({"inputs": [IN]}, b""),
        (with_input(data=[[1], [2]]), b""),
        (with_input(data=[[[1, [2]]]]), b""),
        ({"inputs": [IN_BINARY]}, F32),
        ({"inputs": [IN], "outputs": []}, b""),
        ({"inputs": [IN], "outputs": [{"name": "IN"}], "parameters": {"binary_data_output": True}}, b""),
        (with_output(binary_data=False, unknown=1), b""),
        (with_output(classification=0), b""),
        (with_output(classification=2**32), b""),
        (with_input(name="IN\0x", datatype="FP32\0x"), b""),
        ('{"inputs":[' + json.dumps(IN)[:-1] + ',"shape":1,"name":"x","data":{}}],"inputs":1}', b""),
        ({"inputs": [{**IN, "parameters": {"unknown": 1}}], "unknown": {}}, b""),
    ],
)
def test_an_answer_in_json(http: RawHTTP, document: Any, blobs: bytes) -> None:
    assert http.infer("one", document, blobs).plain == (200, JSON, ANSWER)


@rule("6.3.7")
@pytest.mark.parametrize("mark", [b"\xef", b"\xbb", b"\xbf", b"\xef\xbb", b"\xbb\xbf", b"\xef\xbf"])
def test_any_part_of_a_byte_order_mark_is_skipped(http: RawHTTP, mark: bytes) -> None:
    assert http.post("/v2/models/one/infer", mark + json.dumps({"inputs": [IN]}).encode()).plain == (200, JSON, ANSWER)


@rule("6.5.1")
@pytest.mark.parametrize(
    "document",
    [with_output(binary_data=True), {"inputs": [IN], "parameters": {"binary_data_output": True}}],
)
def test_an_answer_in_binary(http: RawHTTP, document: Any) -> None:
    reply = http.infer("one", document)
    assert reply.plain == (200, BINARY, BINARY_HEAD + F32)
    assert reply.headers[JSON_SIZE.lower()] == str(len(BINARY_HEAD))


@rule("6.3.2")
def test_an_id_comes_back(http: RawHTTP) -> None:
    for text, expected in (("r1", "r1"), ("", None), ("a\0b", "a"), ('ü"', 'ü"')):
        assert http.infer("one", {"id": text, "inputs": [IN]}).document.get("id") == expected


@rule("6.3.2", "6.3.4", "6.5.4")
@pytest.mark.parametrize(("datatype", "data", "printed"), PRINTED)
def test_elements_are_printed_as_triton_prints_them(http: RawHTTP, datatype: str, data: str, printed: bytes) -> None:
    name = "STRING" if datatype == "BYTES" else datatype
    count = len(json.loads(data.replace("Inf,", "0,").replace("NaN", "0")))
    document = f'{{"inputs":[{{"name":"{name}","shape":[{count}],"datatype":"{datatype}","data":{data}}}]}}'
    body = http.infer("any", document).body
    assert body.endswith(b'"data":' + printed + b"}]}"), body


@rule("6.3.3", "6.3.4")
def test_numbers_are_read_to_the_same_last_digit(http: RawHTTP) -> None:
    count = len(NUMBERS)
    entry = f'{{"name":"FP64","shape":[{count}],"datatype":"FP64","data":[{",".join(NUMBERS)}]}}'
    body = http.infer("any", f'{{"inputs":[{entry}],"parameters":{{"binary_data_output":true}}}}').body
    found = struct.unpack(f"<{count}d", body[-8 * count :])
    assert dict(zip(NUMBERS, map(repr, found), strict=True)) == NUMBERS


@rule("6.3.2", "6.3.3")
@pytest.mark.parametrize("padding", [0, 100_000], ids=["small", "large"])
def test_texts_of_every_kind_are_read(http: RawHTTP, padding: int) -> None:
    texts = (
        b'"\\ud83d\\ude00"',
        '"\U0001f600"'.encode(),
        b'"\\\\ud83d"',
        b'"\\ue0ff\xff\\u00e9"',
        b'"\xff\xfe"',
        b'"\xed\xa0\x80"',
        b'"\\udc00\\uDfFf"',
    )
    expected = (b"\xf0\x9f\x98\x80",) * 2 + (
        b"\\ud83d",
        b"\xee\x83\xbf\xff\xc3\xa9",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\xed\xb0\x80\xed\xbf\xbf",
    )
    entry = b'{"name":"STRING","shape":[7],"datatype":"BYTES","data":[%b],"name":"x"}' % b",".join(texts)
    document = b'{"inputs":[%b],"parameters":{"binary_data_output":true,"p":Inf}%b}' % (entry, b" " * padding)
    body = http.post("/v2/models/any/infer", document).body
    assert body.endswith(b"".join(struct.pack("<I", len(each)) + each for each in expected)), body[-300:]


# errors


@rule("6.3.3", "6.3.5", "6.3.7", "6.4.1", "6.5.2", "6.6.3", "6.10.4")
@pytest.mark.parametrize("case", BAD)
def test_a_bad_document_is_refused_in_the_same_words(http: RawHTTP, case: str) -> None:
    document, expected = BAD[case]
    if isinstance(expected, list):
        expected = expected[http.side == "lab"]
    reply = http.infer("one", document)
    assert ((reply.status, reply.error), reply.kind) == (expected, JSON)


@rule("6.3.3")
@pytest.mark.parametrize("rest", LARGE_FAULTS)
def test_a_bad_large_document_is_refused_in_the_same_words(http: RawHTTP, rest: bytes) -> None:
    reply = http.post("/v2/models/one/infer", LARGE + rest)
    text, offset = LARGE_FAULTS[rest]
    assert (reply.status, reply.error) == (500, f"{BUFFER}{text} at {len(LARGE) + offset}")


@rule("6.3.7")
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"", b"\0 anything"])
def test_a_good_large_document_is_read(http: RawHTTP, mark: bytes, end: bytes) -> None:
    document = mark + LARGE + b'[[],[1]]],"d":1,"inputs":[%b],"inputs":1}' % json.dumps(IN).encode() + end
    assert http.post("/v2/models/one/infer", document).plain == (200, JSON, ANSWER)


@rule("6.5.2")
@pytest.mark.parametrize(
    ("size", "blobs", "expected"),
    [
        (None, F32[:5], (400, JSON, "unexpected size for input 'IN', expecting 3 additional bytes for model 'one'")),
        (None, F32 + b"xx", (400, JSON, "unexpected additional input data for model 'one'")),
        ("9999", F32, (400, TEXT, "inference header size should be in range (0, {}), got: 9999")),
        ("-1", F32, (400, TEXT, "inference header size should be in range (0, {}), got: -1")),
        ("5", F32, (500, JSON, BUFFER + "Missing a closing quotation mark in string. at 5")),
    ],
)
def test_lying_lengths(http: RawHTTP, size: str | None, blobs: bytes, expected: tuple[int, str, str]) -> None:
    document = {"inputs": [IN_BINARY]}
    headers = {} if size is None else {JSON_SIZE.replace("-", "_"): size}
    reply = http.infer("one", document, blobs, **headers)
    total = len(json.dumps(document)) + len(blobs)
    assert (reply.status, reply.kind, reply.error) == (*expected[:2], expected[2].format(total))


@rule("6.5.2")
def test_a_length_that_is_no_number(http: RawHTTP) -> None:
    reply = http.post("/v2/models/one/infer", F32, **{JSON_SIZE: "abc"})
    if http.side == "real":  # taken for 0
        assert (reply.status, reply.kind) == (200, BINARY)
    else:  # since 2025-10
        assert (reply.status, reply.error) == (400, "Unable to parse Inference-Header-Content-Length, got: abc")
        reply = http.post("/v2/models/one/infer", F32, **{JSON_SIZE: "0_0"})
        assert (reply.status, reply.error) == (400, "Unable to parse Inference-Header-Content-Length, got: 0_0")


@rule("6.5.3")
@pytest.mark.parametrize(("name", "body", "expected"), RAW)
def test_a_raw_binary_request(http: RawHTTP, name: str, body: bytes, expected: bytes | str | None) -> None:
    reply = http.post(f"/v2/models/{name}/infer", body, **{JSON_SIZE: "0"} if body else {})
    if isinstance(expected, bytes):
        assert (reply.status, reply.body) == (200, expected)
    elif expected is not None:
        assert (reply.status, reply.error) == (400, f"[request id: <id_unknown>] {expected}")
    else:  # the one element of a BYTES input; the script is no Python
        assert reply.status == 500 and "name 'x' is not defined" in reply.error


@rule("6.5.4", "6.3.3", "6.6.4")
def test_half_precision_goes_binary_only(http: RawHTTP) -> None:
    entry = {"name": "FP16", "shape": [2], "datatype": "FP16", "parameters": {"binary_data_size": 4}}
    half = struct.pack("<2e", 1, 2)
    reply = http.infer("any", {"inputs": [entry], "parameters": {"binary_data_output": True}}, half)
    assert (reply.status, reply.body[-4:]) == (200, half)
    reply = http.infer("any", {"inputs": [entry]}, half)
    text = "sending FP16 data via JSON is not supported. Please use the binary data format for output"
    assert (reply.status, reply.kind, reply.error) == (400, TEXT, text)
    classes = {"inputs": [entry], "outputs": [{"name": "FP16", "parameters": {"classification": 1}}]}
    text = "class result not available for output due to unsupported type 'FP16'"
    assert (http.infer("any", classes, half).status, http.infer("any", classes, half).error) == (400, text)


@rule("5.4.7", "6.4.1", "6.3.3")
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"a": 1, "b": True, "c": "x", "d": 1.5}, ['{"a":1,"b":true,"c":"x","d":1.5}', 0, 0, 0]),
        ({"sequence_id": 5, "sequence_start": True, "sequence_end": True}, ["{}", 5, 3, 0]),
        ({"sequence_id": "abc", "timeout": 77, "priority": 2**40}, ["{}", "abc", 0, 77]),
        ({"headers": "x"}, ['{"headers":"x"}', 0, 0, 0]),
        ({"a": "b\0c", "sequence_id": "d\0e"}, ['{"a":"b"}', "d", 0, 0]),
        ({}, ["{}", 0, 0, 0]),
    ],
)
def test_what_a_model_sees_of_parameters(http: RawHTTP, parameters: Any, expected: list[Any]) -> None:
    reply = http.infer("reports", {"id": "r", "parameters": parameters, "inputs": []})
    (text,) = reply.document["outputs"][0]["data"]
    seen, request_id, *rest = json.loads(text)
    assert ([seen, *rest], request_id) == (expected, "r")


@rule("6.3.7")
@pytest.mark.parametrize(
    ("parameters", "same"),
    [
        ({"a": 1, "a\0c": 2}, {"a": 1}),
        ({"a\0c": [2], "a": 1}, {"a": 1}),
        ({"timeout\0": "x", "timeout": 4, "sequence_id": 5, "sequence_id\0": 3}, {"timeout": 4, "sequence_id": 5}),
    ],
)
def test_a_parameter_is_looked_for_by_its_name_up_to_a_nul(http: RawHTTP, parameters: Any, same: Any) -> None:
    found = []
    for each in (parameters, same):
        reply = http.infer("reports", {"parameters": each, "inputs": []})
        (text,) = reply.document["outputs"][0]["data"]
        seen, *rest = json.loads(text)
        found.append((json.loads(seen), rest))
    assert found[0] == found[1]


# compression


@rule("6.3.6", "6.3.3")
@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("gzip", zlib.compress),
        ("gzip", lambda data: gzip.compress(data)[:-8] + b"checksum"),
        ("identity", bytes),
    ],
)
def test_a_compressed_request(http: RawHTTP, encoding: str, packed: Any) -> None:
    body = json.dumps({"inputs": [IN_BINARY]}).encode()
    headers = {"Content_Encoding": encoding, JSON_SIZE.replace("-", "_"): str(len(body))}
    assert http.post("/v2/models/one/infer", packed(body + F32), **headers).plain == (200, JSON, ANSWER)


@rule("6.3.6")
@pytest.mark.parametrize(("encoding", "unpack"), [("gzip", gzip.decompress), ("deflate", zlib.decompress)])
def test_a_compressed_answer(http: RawHTTP, encoding: str, unpack: Any) -> None:
    reply = http.infer("one", with_output(binary_data=True), Accept_Encoding=f"br, {encoding}")
    assert (reply.status, reply.headers["content-encoding"]) == (200, encoding)
    assert unpack(reply.body) == BINARY_HEAD + F32
    assert reply.headers[JSON_SIZE.lower()] == str(len(BINARY_HEAD))
    reply = http.infer("one", "x", Accept_Encoding=encoding)
    assert (reply.status, "content-encoding" in reply.headers) == (500, False)


@rule("6.3.6")
@pytest.mark.parametrize(
    ("accepts", "encoding"),
    [
        ("gzip, deflate", "gzip"),
        ("deflate;q=0.5,  gzip;q= .5", "deflate"),
        ("gzip;q=0.1,deflate;q=0.2", "deflate"),
        ("gzip;q=0.1,identity", None),
        ("gzip , deflate", "deflate"),
        ("gzip; q=1", None),
        ("gzip ;q=1", None),
        ("gzip ", None),
        ("gzip;", None),
        ("gzip;level=3", None),
        ("gzip;q=0.9;level=3,deflate;q=0.8", "gzip"),
        ("gzip;q=x,deflate", "deflate"),
        ("gzip;q=-1", None),
        (",,gzip", "gzip"),
    ],
)
def test_the_answer_is_compressed_as_its_client_accepts(http: RawHTTP, accepts: str, encoding: str | None) -> None:
    reply = http.infer("one", {"inputs": [IN]}, Accept_Encoding=accepts)
    assert (reply.status, reply.headers.get("content-encoding")) == (200, encoding)


@rule("6.3.3", "6.3.6")
def test_what_is_not_compressed_as_it_says(http: RawHTTP) -> None:
    for encoding in ("br", "", "GZIP"):
        reply = http.post("/v2/models/one/infer", b"{}", Content_Encoding=encoding)
        assert (reply.status, reply.kind, reply.error) == (501, TEXT, "Unsupported compression type")
        assert reply.headers["accept-encoding"] == "gzip, deflate"
    reply = http.post("/v2/models/one/infer", b"", Content_Encoding="gzip")
    assert (reply.status, reply.error) == (400, "nothing to be decompressed")


# classification


@rule("6.6.1", "6.6.2")
@pytest.mark.parametrize(
    ("count", "data", "shape", "printed"),
    [
        (1, [1, 5, 3], "[1]", '["5.000000:1:dog"]'),
        (2, [1, 5, 3], "[2]", '["5.000000:1:dog","3.000000:2"]'),
        (9, [1, 1, 1], "[3]", '["1.000000:0:cat","1.000000:1:dog","1.000000:2"]'),
        (3, [1e10, -0.5, 1e-9], "[3]", '["10000000000.000000:0:cat","0.000000:2","-0.500000:1:dog"]'),
    ],
)
def test_an_output_as_classes(http: RawHTTP, count: int, data: list[float], shape: str, printed: str) -> None:
    document = {
        "inputs": [{**IN, "shape": [3], "data": data}],
        "outputs": [{"name": "IN", "parameters": {"classification": count}}],
    }
    body = http.infer("one", document).body.decode()
    assert body.endswith(f'"datatype":"BYTES","shape":{shape},"data":{printed}}}]}}')


@rule("6.6.1")
def test_classes_of_a_batch_of_integers_in_binary(http: RawHTTP) -> None:
    document = {
        "inputs": [{"name": "IN", "shape": [2, 3], "datatype": "INT32", "data": [1, 5, 3, 7, 2, 9]}],
        "outputs": [{"name": "IN", "parameters": {"classification": 2, "binary_data": True}}],
    }
    reply = http.infer("rows", document)
    head, blobs = reply.body.split(b"}]}", 1)
    assert head.endswith(b'"datatype":"BYTES","shape":[2,2],"parameters":{"binary_data_size":28}')
    assert blobs == b"".join(struct.pack("<I", 3) + text for text in (b"5:1", b"3:2", b"9:2", b"7:0"))


# what the model does


@rule("3.4.6", "3.6", "3.6.1")
@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("UNKNOWN", 400),
        ("INTERNAL", 500),
        ("NOT_FOUND", 404),
        ("INVALID_ARG", 400),
        ("UNAVAILABLE", 503),
        ("UNSUPPORTED", 501),
        ("ALREADY_EXISTS", 400),
        ("CANCELLED", 400),
    ],
)
def test_a_models_error_has_the_status_of_its_code(http: RawHTTP, name: str, status: int) -> None:
    reply = run(http, f"return [R(error=E('my \"words\"', E.{name}))]")
    assert reply.plain == (status, TEXT, b'{"error":"my \\"words\\""}')


@rule("6.1.1", "5.4.1")
def test_a_text_that_is_cut_is_answered_as_the_model_s_error_is(http: RawHTTP) -> None:
    def infer(data: bytes) -> Any:
        entry = {"name": "STRING", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": len(data)}}
        return http.infer("any", {"inputs": [entry]}, data)

    cut = infer(b"\x01\0\0\0a\x09\0\0\0b")
    text = (
        "incomplete string data for inference input 'STRING', expecting string of length 9 but only 1 bytes available"
    )
    assert (cut.status, cut.kind, cut.error) == (400, TEXT, text)
    assert (infer(b"\x01\0\0\0a\x09\0").kind, infer(b"\x01\0\0\0a").kind) == (JSON, JSON)


@rule("3.5.1", "3.6.1")
def test_an_exception_is_an_internal_error(http: RawHTTP) -> None:
    reply = run(http, "raise ValueError('oh')")
    assert (reply.status, reply.kind) == (500, TEXT)
    assert reply.error.startswith(
        "Failed to process the request(s) for model 'script_0_0', message: ValueError: oh\n\n"
    )


@rule("3.4.2")
def test_outputs_that_are_missing_are_no_error(http: RawHTTP) -> None:
    assert run(http, "return [R([])]").body == b'{"model_name":"script","model_version":"1","outputs":[]}'


@rule("3.7.4", "6.11")
def test_a_decoupled_model_is_refused_before_the_body_is_read(http: RawHTTP) -> None:
    reply = http.infer("flow", "no JSON")
    text = "HTTP end point doesn't support models with decoupled transaction policy"
    assert (reply.status, reply.kind, reply.error) == (501, TEXT, text)


@rule("3.2.3")
def test_two_answers_where_there_is_one_to_give(http: RawHTTP) -> None:
    """Triton's body is not JSON, ours is."""
    reply = run(http, "s = sender()\ns.send(number(1))\ns.send(number(2), 1)\nreturn [None]")
    assert reply.status == 500
    if http.side == "real":
        assert b"expected a single response, got 2" in reply.body or b"more than one response" in reply.body


def run(http: RawHTTP, body: str) -> Any:
    entry = {"name": "CODE", "shape": [1], "datatype": "BYTES", "data": [code(body)]}
    return http.infer("script", {"inputs": [entry]})
