"""Tables of `infer` requests over HTTP, and what both servers answer (sections 6.3 to 6.6)."""

from __future__ import annotations

import struct
from typing import Any

JSON, TEXT, BINARY = "application/json", "text/plain", "application/octet-stream"
F32 = struct.pack("<2f", 1, 2)
IN = {"name": "IN", "shape": [2], "datatype": "FP32", "data": [1, 2]}
IN_BINARY = {"name": "IN", "shape": [2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}
ANSWER = (
    b'{"model_name":"one","model_version":"1","outputs":[{"name":"IN","datatype":"FP32","shape":[2],"data":[1.0,2.0]}]}'
)
BINARY_HEAD = (
    b'{"model_name":"one","model_version":"1","outputs":[{"name":"IN","datatype":"FP32","shape":[2],'
    b'"parameters":{"binary_data_size":8}}]}'
)


def with_input(**changes: Any) -> dict[str, Any]:
    return {"inputs": [{name: value for name, value in {**IN, **changes}.items() if value is not None}]}


def with_output(**parameters: Any) -> dict[str, Any]:
    return {"inputs": [IN], "outputs": [{"name": "IN", "parameters": parameters}]}


#: Datatype, JSON data, and the data of the answer.
PRINTED: list[tuple[str, str, bytes]] = [
    ("BOOL", "[true,false]", b"[true,false]"),
    ("INT8", "[300,-300,9223372036854775807]", b"[44,-44,-1]"),
    ("UINT8", "[300,18446744073709551615]", b"[44,255]"),
    ("INT64", "[-9223372036854775808]", b"[-9223372036854775808]"),
    ("UINT64", "[18446744073709551615]", b"[18446744073709551615]"),
    (
        "FP64",
        "[0.1,1,1e21,1e20,1e-5,1e-7,5e-324,-0.0,1e16]",
        b"[0.1,1.0,1e21,100000000000000000000.0,0.00001,1e-7,5e-324,-0.0,10000000000000000.0]",
    ),
    ("FP64", "[NaN,Inf,-Inf,Infinity,-NaN]", b"[NaN,Infinity,-Infinity,Infinity,NaN]"),
    ("FP32", "[0.1,1e300,16777217]", b"[0.10000000149011612,Infinity,16777216.0]"),
    (
        "BYTES",
        r'["a","\u00e9\u0000\"\\/\n\u007f\u001f","\ud83d\ude00"]',
        '["a","é\\u0000\\"\\\\/\\n\x7f\\u001F","😀"]'.encode(),
    ),
    ("FP32", "[]", b"[]"),
]

#: Numbers, and what Triton reads: its last digit is not always the nearest one.
NUMBERS: dict[str, str] = {
    "5.691075034743235e-08": "5.6910750347432353e-08",
    "6.55288592398131e-22": "6.552885923981309e-22",
    "11457.486364219061": "11457.48636421906",
    "0.1": "0.1",
    "1.7976931348623157e308": "1.7976931348623157e+308",
    "179769313486231590e291": "1.7976931348623157e+308",
    "1.7976931348623158e308": "inf",
    "2e308": "inf",
    "-11e308": "-inf",
    "9.1e309": "inf",
    "0.1e309": "1e+308",
    "1" * 309: "1.111111111111112e+308",
    "9" * 308: "9.999999999999998e+307",
    "18446744073709551616": "1.8446744073709552e+19",
    "1e-400": "0.0",
    "5e-324": "5e-324",
    "-0": "0.0",
    "-0.0": "-0.0",
}

#: The beginning of a document that is large for tritonlab, and what follows; the offset of a fault counts from there.
LARGE = b'{"a":"' + b"x" * 100_000 + b'","d":[' + b"1.5," * 50_000
LARGE_FAULTS: dict[bytes, tuple[str, int]] = {
    b"1]x": ("Missing a comma or '}' after an object member.", 2),
    b'"\\udc00",2e308,]}': ("Invalid value.", 15),
    b"1]}{}": ("The document root must not be followed by other values.", 3),
    b"]}": ("Invalid value.", 0),
    b"1": ("Missing a comma or ']' after an array element.", 1),
    b'"\\ud800"]}': ("The surrogate pair in string is invalid.", 1),
    b'"\\ud83d\\ude00",]}': ("Invalid value.", 15),
    b'"\xff",]}': ("Invalid value.", 4),
    b'"\n"]}': ("Invalid escape character in string.", 1),
    b"Inf,Infinit]}": ("Invalid value.", 11),
    b"1e309]}": ("Number too big to be stored in double.", 0),
    b'"x]}': ("Missing a closing quotation mark in string.", 4),
    b'1],"b":{"c":1,}}': ("Missing a name for object member.", 14),
    b'1],"b":{"c" 1}}': ("Missing a colon after a name of object member.", 12),
    b"\0 1]}": ("Invalid value.", 0),
}

PARSE = "Unable to parse "
ONE_OF = (
    "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
    "'shared_memory_region' in 'parameters'. But"
)
SHAPE = "Unable to parse 'data': Shape does not match true shape of 'data' field"
BUFFER = "failed to parse the request JSON buffer: "
NO_STRING = "attempt to access JSON non-string as string"
NO_UINT = "attempt to access JSON non-unsigned-integer as unsigned-integer"
NO_BOOL = "attempt to access JSON non-boolean as boolean"
NO_ARRAY = "attempt to access JSON non-array as array"
NO_MEMBER = "attempt to access non-existing object member"

#: Document (text as it is) -> status and text. Where tritonlab follows a newer release, its answer comes second.
BAD: dict[str, tuple[Any, Any]] = {
    "no JSON": ("x", (500, BUFFER + "Invalid value. at 0")),
    "blank": (" ", (500, BUFFER + "The document is empty. at 1")),
    "cut": ('{"inputs":', (500, BUFFER + "Invalid value. at 10")),
    "no name": ("{", (500, BUFFER + "Missing a name for object member. at 1")),
    "two documents": ("{}{}", (500, BUFFER + "The document root must not be followed by other values. at 2")),
    "comma": ('{"inputs":[],}', (500, BUFFER + "Missing a name for object member. at 13")),
    "half a pair": (r'{"a":"\ud800"}', (500, BUFFER + "The surrogate pair in string is invalid. at 6")),
    "half a pair and text": (r'{"a":"\ud800x"}', (500, BUFFER + "The surrogate pair in string is invalid. at 6")),
    "two first halves": (r'{"a":"\ud800\ud800"}', (500, BUFFER + "The surrogate pair in string is invalid. at 6")),
    "no hex": (r'["\u12x4"]', (500, BUFFER + "Incorrect hex digit after \\u escape in string. at 2")),
    "comma in an array": ("[1,]", (500, BUFFER + "Invalid value. at 3")),
    "only a comma": ("[,]", (500, BUFFER + "Invalid value. at 1")),
    "not a constant": ("[Infinit]", (500, BUFFER + "Invalid value. at 8")),
    "small nan": ("[nan]", (500, BUFFER + "Invalid value. at 2")),
    "leading zero": ("[01]", (500, BUFFER + "Missing a comma or ']' after an array element. at 2")),
    "no fraction": ("[1.]", (500, BUFFER + "Miss fraction part in number. at 3")),
    "no exponent": ("[1e]", (500, BUFFER + "Miss exponent in number. at 3")),
    "digits beyond a double": ("[" + "9" * 309 + "]", (500, BUFFER + "Number too big to be stored in double. at 1")),
    "digits beyond a double, scaled": (
        "[" + "1" * 310 + "e-9]",
        (500, BUFFER + "Number too big to be stored in double. at 1"),
    ),
    "exponent of nothing": ("[0e400]", (500, BUFFER + "Number too big to be stored in double. at 1")),
    "control": ('{"a":"\n"}', (500, BUFFER + "Invalid escape character in string. at 6")),
    "byte-order mark": ("\ufeff{}", (500, PARSE + f"'inputs': {NO_MEMBER} 'inputs'")),
    "ended by NUL": ("{}\0x", (500, PARSE + f"'inputs': {NO_MEMBER} 'inputs'")),
    "number beyond a double": ('{"inputs":[{"name":1e999}]}', (500, BUFFER + "Number too big to be stored in double. at 19")),
    "parameter beyond a double": (
        '{"parameters":{"a":-1e999},"inputs":[]}',
        (500, BUFFER + "Number too big to be stored in double. at 19"),
    ),
    "inputs twice": ('{"inputs":1,"inputs":[]}', (500, PARSE + f"'inputs': {NO_ARRAY}")),
    "parameter named with NUL": (
        {"parameters": {"a\0b": 1}},
        (500, "parameter key 'a' was not found in the JSON"),
    ),
    "timeout named with NUL": ({"parameters": {"timeout\0": 1}}, (500, PARSE + f"'timeout': {NO_MEMBER} 'timeout'")),
    "list": ([], (500, PARSE + f"'inputs': {NO_MEMBER} 'inputs'")),
    "inputs no array": ({"inputs": {}}, (500, PARSE + f"'inputs': {NO_ARRAY}")),
    "input no object": ({"inputs": [1]}, (400, f"{ONE_OF} no field is set")),
    "two contents": (
        with_input(parameters={"binary_data_size": 8, "shared_memory_region": "r"}),
        (400, f"{ONE_OF} set 'data' 'binary_data_size' 'shared_memory_region'"),
    ),
    "input without name": (with_input(name=None), (500, PARSE + f"'name': {NO_MEMBER} 'name'")),
    "name ended by NUL": (with_input(name="a\0b"), (400, "unexpected inference input 'a' for model 'one'")),
    "offset without region": (
        with_input(parameters={"shared_memory_offset": "x"}),
        (500, PARSE + f"'shared_memory_offset': {NO_UINT}"),
    ),
    "region no string": (
        with_input(data=None, parameters={"shared_memory_region": 1, "shared_memory_offset": "x"}),
        (500, PARSE + f"'shared_memory_region': {NO_STRING}"),
    ),
    "input without datatype": (with_input(datatype=None), (500, PARSE + f"'datatype': {NO_MEMBER} 'datatype'")),
    "input without shape": (with_input(shape=None), (500, PARSE + f"'shape': {NO_MEMBER} 'shape'")),
    "shape of fractions": (with_input(shape=[1.0]), (500, PARSE + f"'shape': {NO_UINT}")),
    "negative shape": (with_input(shape=[-1]), (500, PARSE + f"'shape': {NO_UINT}")),
    "shape no array": (with_input(shape={}), (500, PARSE + f"'shape': {NO_ARRAY}")),
    "data no array": (with_input(data=1), (500, PARSE + f"'data': {NO_ARRAY}")),
    "unknown datatype": (with_input(datatype="fp32"), (400, "invalid datatype for input IN")),
    "half precision": (
        with_input(datatype="BF16"),
        (
            400,
            "receiving BF16 data via JSON is not supported. Please use the binary data format for input IN",
        ),
    ),
    "too many elements": (with_input(data=[1, 2, 3]), (500, SHAPE)),
    "too few elements": (
        with_input(data=[1]),
        [(500, SHAPE), (500, "Failed to parse 'data' field: shape does not match true shape")],
    ),
    "shape that overflows": (
        with_input(shape=[2**32, 2**31], data=[1]),
        [
            (500, SHAPE),
            (
                400,
                "invalid shape for input 'IN': shape [4294967296,2147483648] causes total element count to exceed "
                "maximum size of 9223372036854775807",
            ),
        ],
    ),
    "text as number": (with_input(data=["a", 1]), (500, "Unable to parse 'data': attempt to access JSON non-number as double")),
    "input twice": ({"inputs": [IN, IN]}, (400, "[request id: <id_unknown>] input 'IN' already exists in request")),
    "id no string": ({"id": 5, "inputs": [IN]}, (500, PARSE + f"'id': {NO_STRING}")),
    "parameters no object": (
        {"parameters": 1, "inputs": [IN]},
        (500, "failed to get request params.: attempt to get members for non-object"),
    ),
    "parameter null": (
        {"parameters": {"a": None}, "inputs": [IN]},
        (400, "parameter 'a' has invalid type. It should be either 'int', 'bool', or 'string'."),
    ),
    "reserved": (
        {"parameters": {"triton_enable_empty_final_response": True}, "inputs": [IN]},
        (
            400,
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
        ),
    ),
    "sequence_id": ({"parameters": {"sequence_id": -1}}, (500, PARSE + f"'sequence_id': {NO_STRING}")),
    "sequence_start": ({"parameters": {"sequence_start": 1}}, (500, PARSE + f"'sequence_start': {NO_BOOL}")),
    "parameters in their order": (
        {"parameters": {"sequence_start": 1, "binary_data_output": 1}},
        (500, PARSE + f"'sequence_start': {NO_BOOL}"),
    ),
    "priority": ({"parameters": {"priority": -1}}, (500, PARSE + f"'priority': {NO_UINT}")),
    "timeout": ({"parameters": {"timeout": 1.5}}, (500, PARSE + f"'timeout': {NO_UINT}")),
    "binary_data_output": (
        {"parameters": {"binary_data_output": 1}},
        (500, PARSE + f"'binary_data_output': {NO_BOOL}"),
    ),
    "outputs no array": ({"inputs": [IN], "outputs": {}}, (500, PARSE + f"'outputs': {NO_ARRAY}")),
    "output no object": ({"inputs": [IN], "outputs": [1]}, (500, PARSE + f"'name': {NO_MEMBER} 'name'")),
    "binary_data": (with_output(binary_data=1), (500, PARSE + f"'binary_data': {NO_BOOL}")),
    "negative classification": (with_output(classification=-1), (500, f"Unable to set 'classification': {NO_UINT}")),
    "output size without region": (
        with_output(shared_memory_byte_size=-1, binary_data=1),
        (500, PARSE + f"'shared_memory_byte_size': {NO_UINT}"),
    ),
    "output region no string": (
        with_output(shared_memory_region=1, shared_memory_offset="x"),
        (500, PARSE + f"'shared_memory_region': {NO_STRING}"),
    ),
    "memory and classes": (
        with_output(shared_memory_region="r", classification=1),
        (400, "Output can't set both 'shared_memory_region' and 'classification'"),
    ),
    "memory and binary": (
        with_output(shared_memory_region="r", binary_data=True),
        (400, "Output can't set both 'shared_memory_region' and 'binary_data'"),
    ),
    "unknown region": (
        with_input(data=None, parameters={"shared_memory_region": "zz"}),
        (404, "Unable to find shared memory region: 'zz'"),
    ),
    "header missing": (
        {"inputs": [IN_BINARY]},
        (400, "unexpected size for input 'IN', expecting 8 additional bytes for model 'one'"),
    ),
}  # fmt: skip

#: Model, raw body, and the body of the answer or the text of the refusal.
RAW: list[tuple[str, bytes, Any]] = [
    ("one", F32, BINARY_HEAD + F32),
    (
        "one",
        b"",
        b'{"model_name":"one","model_version":"1","outputs":[{"name":"IN","datatype":"FP32","shape":[0],"parameters":{"binary_data_size":0}}]}',
    ),
    ("one", b"1234567", "input byte size mismatch for input 'raw_input' for model 'one'. Expected 4, got 7"),
    (
        "rows",
        bytes(8),
        b'{"model_name":"rows","model_version":"1","outputs":[{"name":"IN","datatype":"INT32","shape":[1,2],"parameters":{"binary_data_size":8}}]}'
        + bytes(8),
    ),
    (
        "any",
        F32,
        "Raw request must only have 1 input (found 1) to be deduced but got 13 inputs in 'any' model configuration",
    ),
    ("script", b"x", None),
]
