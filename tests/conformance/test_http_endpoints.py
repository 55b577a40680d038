"""Every endpoint over HTTP but inference: paths, methods, documents and refusals (sections 6.1, 6.10, 5.11 to 5.14)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from multiprocessing import shared_memory
from typing import Any

import numpy as np
import pytest

from .clients import Client
from .models import ECHO, config, model
from .raw_http import RawHTTP
from .rules import rule

CONFIG = config("IN FP32 -1", "IN FP32 -1")
MODELS = {"one": model(ECHO, CONFIG), "two": model(ECHO, CONFIG)}

JSON, TEXT = "application/json", "text/plain"
EMPTY = "failed to parse the request JSON buffer: The document is empty. at 0"
NO_MEMBER = "attempt to access non-existing object member"
NO_STRING = "attempt to access JSON non-string as string"
NO_UINT = "attempt to access JSON non-unsigned-integer as unsigned-integer"
NO_BOOL = "attempt to access JSON non-boolean as boolean"


def only_name(reply: Any) -> Any:
    return [entry["name"] for entry in reply.document]


# paths and methods


@rule("6.1")
@pytest.mark.parametrize(
    "path",
    [
        *("/", "/v2/", "/v2/health/x", "/v2/models", "/v2/models/", "/v2/models/one/", "/v2/models//infer", "/metrics"),
        *("/v2/models/one/versions/x", "/v2/models/one/versions/-1", "/v2/models/one/versions/1/trace/setting"),
        *("/v2/models/one/versions", "/v2/models/one/foo", "/v2/repository", "/v2/systemsharedmemory"),
    ],
)
def test_no_such_path(http: RawHTTP, path: str) -> None:
    assert http.get(path).plain == (404, TEXT, b'{"error":"Not Found"}')


@rule("6.1.1")
@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/v2", JSON),
        ("POST", "/v2/health/live", TEXT),
        ("DELETE", "/v2/models/one", JSON),
        ("POST", "/v2/models/nobody/ready", TEXT),
        ("POST", "/v2/models/one/versions/1/config", JSON),
        ("POST", "/v2/models/stats", JSON),
        ("GET", "/v2/models/nobody/infer", TEXT),
        ("OPTIONS", "/v2/models/one/infer", TEXT),
        ("GET", "/v2/models/one/generate", JSON),
        ("PUT", "/v2/models/one/generate_stream", JSON),
        ("GET", "/v2/repository/index", JSON),
        ("GET", "/v2/repository/models/one/unload", JSON),
        ("POST", "/v2/systemsharedmemory/status", JSON),
        ("GET", "/v2/cudasharedmemory/region/r/register", JSON),
        ("PUT", "/v2/trace/setting", JSON),
        ("PUT", "/v2/logging", JSON),
    ],
)
def test_no_such_method(http: RawHTTP, method: str, path: str, kind: str) -> None:
    assert http.request(method, path).plain == (405, kind, b'{"error":"Method Not Allowed"}')


@rule("6.1.1")
def test_names_are_compared_as_they_are_sent(http: RawHTTP) -> None:
    assert http.get("/v2/models/on%65").error == "Request for unknown model: 'on%65' is not found"
    assert http.get("/v2/models/one?x=1").document["name"] == "one"


# documents


@rule("6.1", "6.1.2", "6.2")
def test_documents(http: RawHTTP, client: Client) -> None:
    for path in ("/v2/health/live", "/v2/models/one/ready", "/v2/models/one/versions/1/ready"):
        assert http.get(path).plain == (200, TEXT, b"")
    # 400 where a model of another module could not be loaded (rule 5.11.9)
    ready = http.get("/v2/health/ready")
    assert ready.status in (200, 400) and ready.plain == (ready.status, TEXT, b"")
    server = http.get("/v2")
    assert (server.status, server.kind, list(server.document)) == (200, JSON, ["name", "version", "extensions"])
    assert server.document["extensions"] == [
        *("classification", "sequence", "model_repository", "model_repository(unload_dependents)", "schedule_policy"),
        *("model_configuration", "system_shared_memory", "cuda_shared_memory", "binary_tensor_data", "parameters"),
        *("statistics", "trace", "logging"),
    ]
    tensor = '[{"name":"IN","datatype":"FP32","shape":[-1]}]'
    metadata = f'{{"name":"one","versions":["1"],"platform":"python","inputs":{tensor},"outputs":{tensor}}}'
    for path in ("/v2/models/one", "/v2/models/one/versions/1"):
        assert http.get(path).plain == (200, JSON, metadata.encode())
    printed = http.get("/v2/models/one/config").body.decode()
    assert json.dumps(client.config("one"), separators=(",", ":")) == printed


@rule("6.1", "5.12.1")
def test_statistics_of_one_model_or_all(http: RawHTTP) -> None:
    (found,) = http.get("/v2/models/one/versions/1/stats").document["model_stats"]
    assert (found["name"], found["version"]) == ("one", "1")
    names = [entry["name"] for entry in http.get("/v2/models/stats").document["model_stats"]]
    assert {"one", "two"} <= set(names)


@rule("6.1", "5.12.2", "6.1.1")
@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/v2/models/nobody", 404, "Request for unknown model: 'nobody' is not found"),
        ("/v2/models/nobody/config", 404, "Request for unknown model: 'nobody' is not found"),
        ("/v2/models/one/versions/7", 404, "Request for unknown model: 'one' version 7 is not found"),
        ("/v2/models/nobody/stats", 400, "requested model 'nobody' is not available"),
        ("/v2/models/one/versions/7/stats", 400, "requested model version is not available for model 'one'"),
        (
            "/v2/models/one/versions/99999999999999999999/config",
            400,
            "failed to get model version from specified version string '99999999999999999999' (details: stol), version "
            "should be an integral value > 0",
        ),
    ],
)
def test_what_is_not_there(http: RawHTTP, path: str, status: int, text: str) -> None:
    reply = http.get(path)
    assert (reply.status, reply.kind, reply.error) == (status, JSON, text)


@rule("6.1")
def test_readiness_of_what_is_not_there(http: RawHTTP) -> None:
    for path in ("nobody", "one/versions/7"):
        reply = http.get(f"/v2/models/{path}/ready")
        assert (reply.status, reply.error) == (400, "Model version not ready")


# the model repository


@rule("5.11.7")
def test_the_index(http: RawHTTP, client: Client) -> None:
    client.place("never", {"config.pbtxt": ""})
    for path in ("/v2/repository/index", "/v2/repository/any/index"):
        for body in (b"", b"{}", b"[]", b'{"ready":false}'):
            found = http.post(path, body).document
            assert {"name": "never"} in found
            assert {"name": "one", "version": "1", "state": "READY"} in found
    assert "never" not in only_name(http.post("/v2/repository/index", {"ready": True}))
    reply = http.post("/v2/repository/index", {"ready": 1})
    newer = "Invalid value for 'ready': expected a boolean"
    assert (reply.status, reply.error) == (500, NO_BOOL if http.side == "real" else newer)
    assert http.post("/v2/repository/index", b"x").status == 500


@rule("5.11.3", "5.11.8")
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"x", 500, "failed to parse the request JSON buffer: Invalid value. at 0"),
        ({"parameters": 1}, 500, "attempt to get members for non-object"),
        ({"parameters": {"config": 1}}, 500, NO_STRING),
        ({"parameters": {"foo": "a"}}, 500, "unexpected error on creating Triton parameter"),
        ({"parameters": {"foo\0": "a"}}, 500, f"{NO_MEMBER} 'foo'"),
        ({"parameters": {"file:a\0b": "YQ==", "config": "{}"}}, 500, f"{NO_MEMBER} 'file:a'"),
        ({"parameters": {"config\0": 1}}, 500, f"{NO_MEMBER} 'config'"),
        ({"parameters": {"config": "x"}}, 500, "failed to load 'one', failed to poll from model repository"),
        ({"parameters": {"file:a": "YQ=="}}, 500, "failed to load 'one', failed to poll from model repository"),
    ],
)
def test_a_load_that_is_refused(http: RawHTTP, body: Any, status: int, text: str) -> None:
    reply = http.post("/v2/repository/models/one/load", body)
    assert (reply.status, reply.kind, reply.error) == (status, JSON, text)


@rule("5.11.3", "5.11.5", "5.11.8")
def test_a_model_is_loaded_from_the_request_and_unloaded(http: RawHTTP) -> None:
    config = {"backend": "python", "input": [], "output": [{"name": "O", "data_type": "TYPE_INT32", "dims": [1]}]}
    source = base64.b64encode(ECHO.encode()).decode()
    parameters = {"config": json.dumps(config), "file:1/model.py": f"{source[:40]}\n{source[40:]}"}
    assert http.post("/v2/repository/models/sent/load", {"parameters": parameters}).plain == (200, JSON, b"")
    assert http.get("/v2/models/sent").document["outputs"][0]["name"] == "O"
    for body in (b"", b"{}", {"parameters": {"unload_dependents": True}}, b"x", {"parameters": {"foo": 1}}):
        assert http.post("/v2/repository/models/sent/unload", body).plain == (200, JSON, b"")
    assert http.post("/v2/repository/models/nobody/unload").status == 200
    reply = http.post("/v2/repository/any/models/one/load")
    assert (reply.status, reply.error) == (501, "'repository_name' specification is not supported")


@rule("5.11.5")
def test_unload_dependents_is_a_bool(http: RawHTTP) -> None:
    reply = http.post("/v2/repository/models/nobody/unload", {"parameters": {"unload_dependents": "x"}})
    if http.side == "real":  # whatever it is
        assert reply.status == 200
    else:
        assert (reply.status, reply.error) == (500, f"Unable to parse 'unload_dependents': {NO_BOOL}")


# shared memory


@pytest.fixture
def region(http: RawHTTP) -> Iterator[shared_memory.SharedMemory]:
    """Register 64 bytes as `r`, and return them."""
    memory = shared_memory.SharedMemory(create=True, size=4096)
    body = {"key": f"/{memory.name}", "byte_size": 64}
    assert http.post("/v2/systemsharedmemory/region/r/register", body).plain == (200, JSON, b"")
    yield memory
    http.post("/v2/systemsharedmemory/unregister")
    memory.close()
    memory.unlink()


@rule("6.10.2")
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"", 500, EMPTY),
        ([], 400, "Shared memory register request has no 'key' field"),
        ({"byte_size": 8}, 400, "Shared memory register request has no 'key' field"),
        ({"key": "/k"}, 400, "Shared memory register request has no 'byte_size' field"),
        ({"key": 1, "byte_size": 8}, 500, NO_STRING),
        ({"key": "/k", "byte_size": -8}, 500, NO_UINT),
        ({"key": "/k", "byte_size": 8, "offset": "x"}, 500, NO_UINT),
        ({"key": "/nothing_there", "byte_size": 8}, 500, "Unable to open shared memory region: '/nothing_there'"),
        ({"key": "/nothing\0there", "byte_size": 8}, 500, "Unable to open shared memory region: '/nothing'"),
    ],
)
def test_a_region_that_cannot_be_registered(http: RawHTTP, body: Any, status: int, text: str) -> None:
    reply = http.post("/v2/systemsharedmemory/region/r/register", body)
    assert (reply.status, reply.kind, reply.error) == (status, JSON, text)


@rule("6.10.2", "6.10.3")
def test_a_registered_region(http: RawHTTP, region: shared_memory.SharedMemory) -> None:
    status = f'[{{"name":"r","key":"/{region.name}","offset":0,"byte_size":64}}]'.encode()
    for path in ("/v2/systemsharedmemory/status", "/v2/systemsharedmemory/region/r/status"):
        assert http.get(path).plain == (200, JSON, status)
    reply = http.post("/v2/systemsharedmemory/region/r/register", {"key": f"/{region.name}", "byte_size": 64})
    assert (reply.status, reply.error) == (400, "shared memory region 'r' already in manager")
    reply = http.get("/v2/cudasharedmemory/region/r/status")
    text = "The region named 'r' is registered as system shared memory, not CUDA shared memory"
    assert (reply.status, reply.error) == (404, text)
    assert http.post("/v2/systemsharedmemory/region/r/unregister").plain == (200, JSON, b"")
    reply = http.get("/v2/systemsharedmemory/region/r/status")
    assert (reply.status, reply.error) == (404, "Unable to find system shared memory region: 'r'")
    assert http.get("/v2/systemsharedmemory/status").body == b"[]"
    reply = http.post("/v2/systemsharedmemory/register", b"{}")
    assert (reply.status, reply.error) == (400, "'region name' is necessary to register system shared memory region")


@rule("6.10.4")
def test_tensors_come_from_and_go_to_a_region(http: RawHTTP, region: shared_memory.SharedMemory) -> None:
    assert region.buf is not None
    numbers = np.frombuffer(region.buf, np.float32, 8)
    numbers[:2] = [1, 2]
    entry = {"name": "IN", "shape": [2], "datatype": "FP32"}
    head = b'{"model_name":"one","model_version":"1","outputs":[{"name":"IN","datatype":"FP32","shape":[2]'
    shared = {**entry, "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 8}}
    assert http.infer("one", {"inputs": [shared]}).body == head + b',"data":[1.0,2.0]}]}'
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 12, "shared_memory_offset": 8}
    wanted = [{"name": "IN", "parameters": {**place, "binary_data": False}}]
    reply = http.infer("one", {"inputs": [{**entry, "data": [3, 4]}], "outputs": wanted})
    assert reply.plain == (200, JSON, head + b"}]}")
    assert numbers[:5].tolist() == [1, 2, 3, 4, 0]
    del numbers


@rule("6.10.4")
@pytest.mark.parametrize(
    ("place", "status", "text"),
    [
        (
            {"shared_memory_byte_size": 8, "shared_memory_offset": 64},
            400,
            "Invalid offset for shared memory region: 'r'",
        ),
        (
            {"shared_memory_byte_size": 8, "shared_memory_offset": 60},
            400,
            "Invalid offset + byte size for shared memory region: 'r'",
        ),
        ({}, 400, "Invalid offset + byte size for shared memory region: 'r'"),
        ({"shared_memory_byte_size": "a"}, 500, f"Unable to parse 'shared_memory_byte_size': {NO_UINT}"),
        ({"shared_memory_offset": -1}, 500, f"Unable to parse 'shared_memory_offset': {NO_UINT}"),
    ],
)
def test_a_place_outside_the_region(
    http: RawHTTP, region: shared_memory.SharedMemory, place: dict[str, Any], status: int, text: str
) -> None:
    parameters = {"shared_memory_region": "r", **place}
    entry = {"name": "IN", "shape": [2], "datatype": "FP32"}
    as_input = http.infer("one", {"inputs": [{**entry, "parameters": parameters}]})
    outputs = [{"name": "IN", "parameters": parameters}]
    as_output = http.infer("one", {"inputs": [{**entry, "data": [1, 2]}], "outputs": outputs})
    assert [(r.status, r.error) for r in (as_input, as_output)] == [(status, text)] * 2


@rule("6.10.4")
@pytest.mark.parametrize(("offset", "size"), [(60, 2**64 - 8), (8, 2**64 - 1), (0, 2**64 - 1), (2**64 - 8, 8)])
def test_a_place_that_ends_beyond_all_addresses(
    http: RawHTTP, region: shared_memory.SharedMemory, offset: int, size: int
) -> None:
    """2.51 adds the two modulo 2^64, and writes where there may be no region."""
    place = {"shared_memory_region": "r", "shared_memory_byte_size": size, "shared_memory_offset": offset}
    entry = {"name": "IN", "shape": [2], "datatype": "FP32", "data": [1, 2]}
    reply = http.infer("one", {"inputs": [entry], "outputs": [{"name": "IN", "parameters": place}]})
    if http.side == "real" and 0 < offset < 64:
        assert reply.status == 200
    else:
        what = "offset" if offset > 64 else "offset + byte size"
        assert (reply.status, reply.error) == (400, f"Invalid {what} for shared memory region: 'r'")


@rule("6.10.4")
def test_a_place_too_small_for_what_the_model_answers(http: RawHTTP, region: shared_memory.SharedMemory) -> None:
    parameters = {"shared_memory_region": "r", "shared_memory_byte_size": 4}
    entry = {"name": "IN", "shape": [2], "datatype": "FP32", "data": [1, 2]}
    reply = http.infer("one", {"inputs": [entry], "outputs": [{"name": "IN", "parameters": parameters}]})
    assert (reply.status, reply.kind, reply.error) == (
        500,
        TEXT,
        "shared memory size specified with the request for output 'IN' (4 bytes) should be at least 8 bytes to hold "
        "the results",
    )


@rule("6.10.3", "6.10.5")
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "Shared memory register request has no 'raw_handle' field"),
        ({"raw_handle": 1}, 500, "attempt to access non-existing object member 'b64'"),
        ({"raw_handle": {"b64": 1}}, 500, NO_STRING),
        ({"raw_handle": {"b64": "x"}, "byte_size": 1}, 500, "attempt to access non-existing object member 'device_id'"),
        (
            {"raw_handle": {"b64": "x"}, "byte_size": 1, "device_id": 0},
            400,
            "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t",
        ),
    ],
)
def test_a_cuda_region_that_cannot_be_registered(http: RawHTTP, body: Any, status: int, text: str) -> None:
    reply = http.post("/v2/cudasharedmemory/region/g/register", body)
    assert (reply.status, reply.kind, reply.error) == (status, JSON, text)
    assert http.get("/v2/cudasharedmemory/status").body == b"[]"
    reply = http.get("/v2/cudasharedmemory/region/g/status")
    assert (reply.status, reply.error) == (404, "Unable to find cuda shared memory region: 'g'")
    assert http.post("/v2/cudasharedmemory/unregister").status == 200


# settings


@rule("5.14.1", "5.14.2")
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"", 500, EMPTY),
        ({"trace_rate": 5}, 500, NO_STRING),
        ({"trace_rate": "abc"}, 400, "Unable to parse 'trace_rate', got: abc"),
        ({"trace_level": "OFF"}, 500, "attempt to access JSON non-array as array"),
        ({"trace_level": [1]}, 500, NO_STRING),
        ({"trace_count": ["1"]}, 500, NO_STRING),
        ({"trace_rate": "abc", "trace_count": 1}, 400, "Unable to parse 'trace_rate', got: abc"),
        ({"trace_level": ["OFF", "x"], "trace_rate": 1}, 400, "Expect only one trace level 'OFF' is specified"),
        (
            {"trace_rate": "2147483648"},
            400,
            "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 2147483648",
        ),
        (
            {"log_frequency": "-2147483649"},
            400,
            "Unable to parse 'log_frequency', value is out of range [ 0, 4294967295 ], got: -2147483649",
        ),
        ({"trace_count": "-2147483648"}, 400, "Unable to parse 'trace_count'. Expecting value >= -1, got:-2147483648"),
        (b'{"x":1e999}', 500, "failed to parse the request JSON buffer: Number too big to be stored in double. at 5"),
        ({"trace_file": None}, 501, "trace file location can not be updated through network protocol"),
        (
            {"trace_level": ["TIMESTAMPS"]},
            400,
            "Attempting to set invalid trace setting :trace file name is not given",
        ),
    ],
)
def test_trace_settings_that_are_refused(http: RawHTTP, body: Any, status: int, text: str) -> None:
    for path in ("/v2/trace/setting", "/v2/models/one/trace/setting"):
        reply = http.post(path, body)
        assert (reply.status, reply.kind, reply.error) == (status, JSON, text)


@rule("5.14.1")
def test_trace_settings(http: RawHTTP) -> None:
    default = (
        b'{"trace_level":["OFF"],"trace_rate":"1000","trace_count":"-1","log_frequency":"0","trace_file":"",'
        b'"trace_mode":"triton"}'
    )
    changed = default.replace(b"1000", b"7")
    assert http.get("/v2/trace/setting").plain == (200, JSON, default)
    for body in (b"{}", b"[]", b"null", {"unknown": 1}, {"trace_level": ["OFF"]}, {"trace_mode": "x"}):
        assert http.post("/v2/trace/setting", body).plain == (200, JSON, default)
    assert http.post("/v2/models/one/trace/setting", {"trace_rate": "7"}).body == changed
    assert http.get("/v2/models/one/trace/setting").body == changed
    assert http.get("/v2/models/two/trace/setting").body == default
    assert http.post("/v2/models/one/trace/setting", {"trace_rate": None}).body == default


@rule("5.14.2")
def test_trace_settings_of_an_unknown_model(http: RawHTTP) -> None:
    reply = http.post("/v2/models/nobody/trace/setting", b"x")
    assert (reply.status, reply.error) == (400, "Request for unknown model : nobody")


@rule("5.14.3")
def test_log_settings(http: RawHTTP) -> None:
    default = {
        "log_file": "",
        "log_info": True,
        "log_warning": True,
        "log_error": True,
        "log_verbose_level": 0,
        "log_format": "default",
    }
    printed = json.dumps(default, separators=(",", ":")).encode()
    assert http.get("/v2/logging").plain == (200, JSON, printed)
    for body in (b"{}", b"[]", {"unknown": 1}, {"log_info": None}, {"log_file": None}, {"log_verbose_level": 2**31}):
        assert http.post("/v2/logging", body).plain == (200, JSON, printed)
    assert http.post("/v2/logging", {"log_info": False, "log_format": "ISO8601"}).document == {
        **default,
        "log_info": False,
        "log_format": "ISO8601",
    }
    reply = http.post("/v2/logging", {"log_info": True, "log_error": 1})  # what came before stays set
    assert (reply.status, reply.error) == (500, NO_BOOL)
    assert http.get("/v2/logging").document["log_info"] is True
    assert http.post("/v2/logging", {"log_format": "default"}).body == printed


@rule("5.14.3")
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"", 500, EMPTY),
        ({"log_info": 1}, 500, NO_BOOL),
        ({"log_verbose_level": -1}, 500, NO_UINT),
        ({"log_format": 1}, 500, NO_STRING),
        ({"log_format": "X"}, 503, "invalid argument for --log_format, got: X"),
        ({"log_format": "default\0x"}, 503, "invalid argument for --log_format, got: default"),
        ({"log_file": 1}, 501, "log file location can not be updated through network protocol"),
    ],
)
def test_log_settings_that_are_refused(http: RawHTTP, body: Any, status: int, text: str) -> None:
    reply = http.post("/v2/logging", body)
    assert (reply.status, reply.kind, reply.error) == (status, JSON, text)


@rule("6.3.7", "5.11.3", "5.11.5", "5.11.7", "5.14.1", "5.14.3")
@pytest.mark.parametrize(
    ("path", "body", "same"),
    [
        ("repository/index", b'{"ready":true,"ready":3}', b'{"ready":true}'),
        ("trace/setting", b'{"trace_rate":"7","trace_rate":[]}', b'{"trace_rate":"7"}'),
        ("models/one/trace/setting", b'{"trace_rate":"7","trace_rate":3}', b'{"trace_rate":"7"}'),
        ("trace/setting", b'{"trace_level":["OFF"],"trace_level":3}', b'{"trace_level":["OFF"]}'),
        ("trace/setting", b'{"trace_rate":[],"trace_rate":"7"}', b'{"trace_rate":[]}'),
        ("trace/setting", b'{"trace_rate":null,"trace_rate":"9"}', b'{"trace_rate":null}'),
        ("logging", b'{"log_verbose_level":0,"log_verbose_level":"a"}', b'{"log_verbose_level":0}'),
        ("logging", b'{"log_verbose_level":"a","log_verbose_level":0}', b'{"log_verbose_level":"a"}'),
        ("repository/models/one/load", b'{"parameters":{"config":"x","config":{}}}', b'{"parameters":{"config":"x"}}'),
        (
            "repository/models/one/load",
            b'{"parameters":{"config":"x"},"parameters":{}}',
            b'{"parameters":{"config":"x"}}',
        ),
        ("repository/models/nobody/unload", b'{"parameters":{"unload_dependents":true,"unload_dependents":3}}', b"{}"),
        (
            "systemsharedmemory/region/x/register",
            b'{"key":"/no","key":3,"offset":0,"byte_size":4,"byte_size":"a"}',
            b'{"key":"/no","offset":0,"byte_size":4}',
        ),
    ],
)
def test_of_members_of_a_name_the_first_counts(http: RawHTTP, path: str, body: bytes, same: bytes) -> None:
    assert http.post(f"/v2/{path}", body).plain == http.post(f"/v2/{path}", same).plain
