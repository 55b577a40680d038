"""Every RPC but inference: health, metadata, repository, shared memory, trace and log settings (rules 5.11.3, 6.10,
6.12)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from .clients import Client
from .grpc_messages import PAIR, Rpc, message, ok, output, tensor
from .models import ECHO, config, model
from .rules import rule
from .scripts import eventually

MODELS = {
    "echo": model(ECHO, config("IN FP32 -1", "IN FP32 -1")),
    "batches": model(ECHO, config("IN FP32 3", "IN FP32 3", "max_batch_size: 4")),
}
UNKNOWN = ("NOT_FOUND", "Request for unknown model: 'nope' is not found")
BAD_VERSION = (
    "INVALID_ARGUMENT",
    "failed to get model version from specified version string 'x' (details: stol), version should be an integral "
    "value > 0",
)
NEGATIVE = ("INVALID_ARGUMENT", "invalid model version specified '-1' , version should be an integral value > 0")


@rule("6.12")
def test_health(rpc: Rpc) -> None:
    assert ok(rpc("ServerLive")).live
    assert ok(rpc("ModelReady", name="echo", version="1")).ready
    assert rpc("ModelReady", name="echo", version="x") == BAD_VERSION
    # not where a model of another module could not be loaded, nor while one is being unloaded (rule 5.11.9)
    for service in (b"", b"\x0a\x01x"):
        eventually(partial(agrees_with_server_ready, rpc, service))


def agrees_with_server_ready(rpc: Rpc, service: bytes) -> bool:
    answer = rpc.raw("/grpc.health.v1.Health/Check", service)
    assert answer in (b"\x08\x01", b"\x08\x02")
    return bool((answer == b"\x08\x01") == ok(rpc("ServerReady")).ready)


@rule("6.7.3")
def test_an_unknown_model_is_not_ready(rpc: Rpc, client: Client) -> None:
    assert not ok(rpc("ModelReady", name="nope")).ready
    assert not ok(rpc("ModelReady", name="echo", version="7")).ready


@rule("6.12", "6.1.2")
def test_metadata(rpc: Rpc) -> None:
    assert ok(rpc("ServerMetadata")).name == "triton"
    found = ok(rpc("ModelMetadata", name="batches"))
    tensors = [("IN", "FP32", [-1, 3])]
    assert (found.name, list(found.versions), found.platform) == ("batches", ["1"], "python")
    assert [(t.name, t.datatype, list(t.shape)) for t in found.inputs] == tensors
    assert [(t.name, t.datatype, list(t.shape)) for t in found.outputs] == tensors


@rule("6.12", "5.2.1")
def test_configuration(rpc: Rpc) -> None:
    found = ok(rpc("ModelConfig", name="batches", version="1")).config
    assert (found.name, found.max_batch_size, found.instance_group[0].name) == ("batches", 4, "batches")


@rule("6.12", "6.7.2")
@pytest.mark.parametrize("method", ["ModelMetadata", "ModelConfig"])
def test_models_that_are_none(rpc: Rpc, method: str) -> None:
    assert rpc(method, name="nope") == UNKNOWN
    assert rpc(method, name="echo", version="x") == BAD_VERSION
    assert rpc(method, name="echo", version="-1") == NEGATIVE
    assert rpc(method, name="echo", version="7") == (
        "NOT_FOUND",
        "Request for unknown model: 'echo' version 7 is not found",
    )


@rule("6.12", "5.12.1", "5.12.2")
def test_statistics(rpc: Rpc) -> None:
    ok(rpc.infer("echo", [tensor()], [PAIR]))

    def counted() -> Any:
        (found,) = ok(rpc("ModelStatistics", name="echo", version="1")).model_stats
        return found if found.inference_stats.success.count else None

    found = eventually(counted)  # Triton counts when it has answered
    assert (found.name, found.version) == ("echo", "1")
    assert found.inference_count == found.execution_count == found.inference_stats.success.count > 0
    assert found.inference_stats.compute_infer.ns > 0
    assert [b.batch_size for b in found.batch_stats] == [1]
    every = [m.name for m in ok(rpc("ModelStatistics")).model_stats]
    assert {"batches", "echo"} <= set(every)
    assert every == sorted(every)
    assert rpc("ModelStatistics", name="echo", version="x") == BAD_VERSION
    for fields, text in (
        ({"name": "nope"}, "requested model 'nope' is not available"),
        ({"name": "echo", "version": "7"}, "requested model version is not available for model 'echo'"),
    ):
        assert rpc("ModelStatistics", **fields) == ("INVALID_ARGUMENT", text)


# -- repository


def repository_request(method: str, name: str = "echo", **parameters: Any) -> Any:
    """Return a request with `parameters` as (kind, value)."""
    request = getattr(service_pb2, f"{method}Request")(model_name=name)
    for key, (kind, value) in parameters.items():
        setattr(request.parameters[key], f"{kind}_param", value)
    return request


@rule("6.12", "5.11.7")
def test_the_index(rpc: Rpc, client: Client) -> None:
    client.place("never_loaded", MODELS["echo"])
    index = [(m.name, m.version, m.state, m.reason) for m in ok(rpc("RepositoryIndex")).models]
    assert ("echo", "1", "READY", "") in index
    assert ("never_loaded", "", "", "") in index
    states = {m.state for m in ok(rpc("RepositoryIndex", ready=True)).models}
    assert states == {"READY"}


@rule("5.11.8")
@pytest.mark.parametrize("method", ["RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"])
def test_a_repository_has_no_name(rpc: Rpc, method: str) -> None:
    refused = ("UNIMPLEMENTED", "'repository_name' specification is not supported")
    assert rpc(method, repository_name="x") == refused


@rule("5.11.2", "5.11.5")
def test_a_model_comes_and_goes(rpc: Rpc, client: Client) -> None:
    client.place("comes", MODELS["echo"])
    ok(rpc("RepositoryModelLoad", repository_request("RepositoryModelLoad", "comes")))
    ok(rpc.infer("comes", [tensor()], [PAIR]))
    ok(rpc("RepositoryModelUnload", repository_request("RepositoryModelUnload", "comes", foo=("string", "x"))))
    status, text = rpc.infer("comes", [tensor()], [PAIR])
    assert (status, text) == ("NOT_FOUND", "Request for unknown model: 'comes' has no available versions")
    ok(rpc("RepositoryModelUnload", repository_request("RepositoryModelUnload", "nope")))
    failed = ("INTERNAL", "failed to load 'nope', failed to poll from model repository")
    assert rpc("RepositoryModelLoad", repository_request("RepositoryModelLoad", "nope")) == failed


@rule("5.11.3")
def test_a_model_may_be_loaded_from_the_request(rpc: Rpc) -> None:
    text = '{"backend": "python", "input": [{"name": "A", "data_type": "TYPE_FP32", "dims": [2]}], "output": []}'
    files = {"config": ("string", text), "file:1/model.py": ("bytes", ECHO.encode())}
    ok(rpc("RepositoryModelLoad", repository_request("RepositoryModelLoad", "given", **files)))
    assert [t.name for t in ok(rpc("ModelMetadata", name="given")).inputs] == ["A"]
    ok(rpc("RepositoryModelUnload", repository_request("RepositoryModelUnload", "given")))


@rule("6.12", "2.5.3")
@pytest.mark.parametrize("length", [300, 5000])
def test_a_name_that_no_directory_can_have(rpc: Rpc, length: int) -> None:
    name = "x" * length
    failed = ("INTERNAL", f"failed to load '{name}', failed to poll from model repository")
    assert rpc("RepositoryModelLoad", repository_request("RepositoryModelLoad", name)) == failed


@rule("5.11.3", "5.11.5")
@pytest.mark.parametrize(
    ("method", "parameters", "text"),
    [
        ("Load", {"config": ("int64", 1)}, "invalid value type for load parameter 'config', expected string_param."),
        (
            "Load",
            {"config": ("bytes", b"{}")},
            "invalid value type for load parameter 'config', expected string_param.",
        ),
        (
            "Load",
            {"file:1/model.py": ("string", "x")},
            "invalid value type for load parameter 'file:1/model.py', expected bytes_param.",
        ),
        ("Load", {"foo": ("string", "x")}, "unrecognized load parameter 'foo'."),
        (
            "Unload",
            {"unload_dependents": ("string", "x")},
            "invalid value type for 'unload_dependents' parameter, expected bool_param.",
        ),
    ],
)
def test_parameters_of_the_wrong_kind(rpc: Rpc, method: str, parameters: dict[str, Any], text: str) -> None:
    request = repository_request(f"RepositoryModel{method}", **parameters)
    assert rpc(f"RepositoryModel{method}", request) == ("INVALID_ARGUMENT", text)


# -- trace and log settings


def trace_request(model: str = "", **settings: list[str]) -> Any:
    request = service_pb2.TraceSettingRequest(model_name=model)
    for key, values in settings.items():
        request.settings[key].value.extend(values)
        request.settings[key].SetInParent()
    return request


def traced(rpc: Rpc, model: str = "", **settings: list[str]) -> Any:
    found = rpc("TraceSetting", trace_request(model, **settings))
    return found if isinstance(found, tuple) else {k: list(v.value) for k, v in found.settings.items()}


@rule("5.14.1", "6.12")
def test_trace_settings(rpc: Rpc) -> None:
    default = {
        "trace_level": ["OFF"], "trace_rate": ["1000"], "trace_count": ["-1"], "log_frequency": ["0"],
        "trace_file": [""], "trace_mode": ["triton"],
    }  # fmt: skip
    assert traced(rpc) == default
    assert traced(rpc, trace_rate=["5"], foo=["x", "y"]) == {**default, "trace_rate": ["5"]}
    assert traced(rpc, "echo", trace_rate=["7"])["trace_rate"] == ["7"]
    assert traced(rpc)["trace_rate"] == ["5"]
    assert traced(rpc, "echo", trace_rate=[])["trace_rate"] == ["5"]
    assert traced(rpc, trace_rate=[]) == default


@rule("5.14.2", "6.12")
@pytest.mark.parametrize(
    ("settings", "status", "text"),
    [
        ({"trace_rate": ["5", "6"]}, "INVALID_ARGUMENT", "expect only 1 value for 'trace_rate'"),
        ({"trace_count": ["5", "6"]}, "INVALID_ARGUMENT", "expect only 1 value for 'trace_count'"),
        ({"log_frequency": ["5", "6"]}, "INVALID_ARGUMENT", "expect only 1 value for 'log_frequency'"),
        ({"trace_rate": ["x"]}, "INVALID_ARGUMENT", "Unable to parse 'trace_rate', got: x"),
        (
            {"trace_count": ["-3"]},
            "INVALID_ARGUMENT",
            "Unable to parse 'trace_count'. Expecting value >= -1, got: -3",
        ),
        (
            {"trace_count": [" -5x"]},
            "INVALID_ARGUMENT",
            "Unable to parse 'trace_count'. Expecting value >= -1, got:  -5x",
        ),
        (
            {"trace_count": ["-99999999999"]},
            "INVALID_ARGUMENT",
            "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: -99999999999",
        ),
        (
            {"trace_rate": ["5", "6"], "trace_file": []},
            "UNIMPLEMENTED",
            "trace file location can not be updated through network protocol",
        ),
        (
            {"log_frequency": ["5", "6"], "trace_count": ["-3"], "trace_rate": ["x"]},
            "INVALID_ARGUMENT",
            "Unable to parse 'trace_rate', got: x",
        ),
        (
            {"trace_rate": ["5", "6"], "trace_level": ["OFF", "TIMESTAMPS"]},
            "INVALID_ARGUMENT",
            "Expect only one trace level 'OFF' is specified",
        ),
        (
            {"trace_level": ["OFF", "TIMESTAMPS"]},
            "INVALID_ARGUMENT",
            "Expect only one trace level 'OFF' is specified",
        ),
        (
            {"trace_level": ["TIMESTAMPS"]},
            "INVALID_ARGUMENT",
            "Attempting to set invalid trace setting :trace file name is not given",
        ),
        (
            {"trace_file": ["x"]},
            "UNIMPLEMENTED",
            "trace file location can not be updated through network protocol",
        ),
    ],
)
def test_trace_settings_that_cannot_be(rpc: Rpc, settings: dict[str, list[str]], status: str, text: str) -> None:
    request = trace_request(**settings)  # type: ignore[arg-type]
    assert rpc("TraceSetting", request) == (status, text)


def logged(rpc: Rpc, **settings: tuple[str, Any]) -> Any:
    request = service_pb2.LogSettingsRequest()
    for key, (kind, value) in settings.items():
        setattr(request.settings[key], f"{kind}_param", value)
    found = rpc("LogSettings", request)
    if isinstance(found, tuple):
        return found
    return {k: getattr(v, v.WhichOneof("parameter_choice")) for k, v in found.settings.items()}


@rule("5.14.3", "6.12")
def test_log_settings(rpc: Rpc) -> None:
    default = {
        "log_file": "", "log_info": True, "log_warning": True, "log_error": True, "log_verbose_level": 0,
        "log_format": "default",
    }  # fmt: skip
    assert logged(rpc) == default
    assert logged(rpc, log_info=("bool", False), foo=("bool", True)) == {**default, "log_info": False}
    changed = {"log_verbose_level": ("uint32", 1), "log_format": ("string", "ISO8601"), "log_info": ("bool", True)}
    assert logged(rpc, **changed) == {**default, "log_verbose_level": 1, "log_format": "ISO8601"}
    assert logged(rpc, log_verbose_level=("uint32", 0), log_format=("string", "default")) == default


@rule("5.14.3", "6.12")
@pytest.mark.parametrize(
    ("key", "kind", "value", "status", "text"),
    [
        ("log_info", "string", "x", "INVALID_ARGUMENT", "expect boolean for 'log_info'"),
        ("log_warning", "uint32", 1, "INVALID_ARGUMENT", "expect boolean for 'log_warning'"),
        ("log_error", "uint32", 1, "INVALID_ARGUMENT", "expect boolean for 'log_error'"),
        ("log_verbose_level", "string", "1", "INVALID_ARGUMENT", "expect int32 for 'log_verbose_level'"),
        ("log_verbose_level", "bool", True, "INVALID_ARGUMENT", "expect int32 for 'log_verbose_level'"),
        ("log_format", "bool", True, "INVALID_ARGUMENT", "expect string for 'log_format'"),
        ("log_format", "string", "X", "INVALID_ARGUMENT", "invalid argument for log_format, got: X"),
        (
            "log_file",
            "bool",
            True,
            "UNIMPLEMENTED",
            "log file location can not be updated through network protocol",
        ),
    ],
)
def test_log_settings_that_cannot_be(rpc: Rpc, key: str, kind: str, value: Any, status: str, text: str) -> None:
    assert logged(rpc, **{key: (kind, value)}) == (status, text)


@rule("5.14.3")
def test_what_comes_before_a_bad_log_setting_stays_set(rpc: Rpc) -> None:
    settings = {"log_format": ("string", "X"), "log_verbose_level": ("uint32", 3), "log_error": ("bool", False)}
    assert logged(rpc, **settings) == ("INVALID_ARGUMENT", "invalid argument for log_format, got: X")
    found = logged(rpc, log_error=("bool", True))
    assert (found["log_verbose_level"], found["log_error"]) == (3, True)
    # it is an int for Triton, and none below 0
    for level, reported in ((2**31 - 1, 2**31 - 1), (2**31, 0), (5, 5), (2**32 - 1, 0)):
        assert logged(rpc, log_verbose_level=("uint32", level))["log_verbose_level"] == reported


# -- shared memory

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def key(rpc: Rpc) -> Iterator[str]:
    """Return the key of a region of two pages whose FP32 elements count from 0."""
    path = Path("/dev/shm") / f"tritonlab_test_{uuid.uuid4().hex}"
    path.write_bytes(np.arange(2 * PAGE // 4, dtype=np.float32).tobytes())
    yield f"/{path.name}"
    # Triton refuses while one is in use, which it is a moment longer than its request
    eventually(lambda: not isinstance(rpc("SystemSharedMemoryUnregister"), tuple))
    path.unlink(missing_ok=True)


@pytest.fixture
def region(rpc: Rpc, key: str) -> str:
    """Register the first page of the region as `a`, and return the region's key."""
    ok(rpc("SystemSharedMemoryRegister", name="a", key=key, byte_size=PAGE))
    return key


def floats(key: str, offset: int, count: int) -> list[float]:
    content = (Path("/dev/shm") / key[1:]).read_bytes()
    return [float(v) for v in np.frombuffer(content, np.float32, count, offset)]


def regions(rpc: Rpc, name: str = "") -> Any:
    found = rpc("SystemSharedMemoryStatus", name=name)
    if isinstance(found, tuple):
        return found
    return {k: (r.name, r.key, r.offset, r.byte_size) for k, r in found.regions.items()}


@rule("6.10.2", "6.10.3", "6.12")
def test_regions_are_registered_and_forgotten(rpc: Rpc, key: str) -> None:
    def unregister(name: str = "") -> None:
        ok(rpc("SystemSharedMemoryUnregister", name=name))

    register = "SystemSharedMemoryRegister"
    ok(rpc(register, name="a", key=key, byte_size=64))
    taken = ("ALREADY_EXISTS", "shared memory region 'a' already in manager")
    assert rpc(register, name="a", key=key, byte_size=64) == taken
    assert regions(rpc) == regions(rpc, "a") == {"a": ("a", key, 0, 64)}
    unregister("a")
    unregister("never there")
    assert regions(rpc) == {}
    assert regions(rpc, "a") == ("NOT_FOUND", "Unable to find system shared memory region: 'a'")
    ok(rpc(register, name="b", key=key[1:], offset=PAGE, byte_size=PAGE))
    assert regions(rpc) == {"b": ("b", key[1:], PAGE, PAGE)}
    unregister()
    assert regions(rpc) == {}


@rule("6.10.2")
def test_regions_that_cannot_be_registered(rpc: Rpc, key: str) -> None:
    def register(**fields: Any) -> Any:
        return rpc("SystemSharedMemoryRegister", **{"name": "r", "key": key, "byte_size": 8, **fields})

    for bad in ("/not_there", "", "/sub/x", "/../etc/passwd"):
        assert register(key=bad) == ("INTERNAL", f"Unable to open shared memory region: '{bad}'")
    failed = "failed to register shared memory region 'r': "
    address = f"{failed}unable to process address spaceInvalid argument"
    assert register(byte_size=1 << 20) == ("INVALID_ARGUMENT", f"{failed}invalid args")
    assert register(offset=2 * PAGE) == ("INVALID_ARGUMENT", f"{failed}invalid args")
    assert register(byte_size=0) == ("INVALID_ARGUMENT", address)
    assert register(offset=100) == ("INVALID_ARGUMENT", address)
    assert regions(rpc) == {}


@rule("6.10.5")
def test_cuda_regions(rpc: Rpc, region: str, client: Client) -> None:
    status, text = rpc("CudaSharedMemoryRegister", name="c", raw_handle=b"x" * 64, byte_size=8)
    assert status == "INVALID_ARGUMENT"
    if client.side == "lab":
        assert text == "failed to register CUDA shared memory region: 'c', GPUs not supported"
    else:  # it has GPU support, and found no GPU
        assert text == "failed to register shared memory region: invalid args"
    assert not ok(rpc("CudaSharedMemoryStatus")).regions
    system = "The region named 'a' is registered as system shared memory, not CUDA shared memory"
    assert rpc("CudaSharedMemoryStatus", name="a") == ("NOT_FOUND", system)
    unknown = "Unable to find cuda shared memory region: 'zz'"
    assert rpc("CudaSharedMemoryStatus", name="zz") == ("NOT_FOUND", unknown)
    ok(rpc("CudaSharedMemoryUnregister", name="a"))
    ok(rpc("CudaSharedMemoryUnregister"))
    assert set(regions(rpc)) == {"a"}


def in_region(size: Any = 8, offset: Any = None, name: Any = "a") -> dict[str, Any]:
    found = {"shared_memory_region": name, "shared_memory_byte_size": size, "shared_memory_offset": offset}
    return {key: value for key, value in found.items() if value is not None}


@rule("6.10.4")
def test_tensors_are_read_and_written_in_place(rpc: Rpc, region: str) -> None:
    inputs = [tensor(parameters=in_region(offset=16))]
    assert list(ok(rpc.infer("echo", inputs)).raw_output_contents) == [np.array([4, 5], np.float32).tobytes()]
    answer = ok(rpc.infer("echo", inputs, outputs=[output(**in_region(16, 256))]))
    assert (list(answer.outputs[0].shape), list(answer.raw_output_contents)) == ([2], [b""])
    assert not answer.outputs[0].parameters
    assert floats(region, 256, 4) == [4, 5, 66, 67]
    # raw data of an input in shared memory is nobody's
    assert list(ok(rpc.infer("echo", inputs, [PAIR])).raw_output_contents) == [np.array([4, 5], np.float32).tobytes()]


@rule("6.10.4", "6.13.1")
def test_a_stream_uses_regions_too(rpc: Rpc, region: str) -> None:
    request = message("echo", [tensor(parameters=in_region(offset=16))], outputs=[output(**in_region(8, 512))])
    (found,) = rpc.stream([request])
    assert (found.error_message, list(found.infer_response.raw_output_contents)) == ("", [b""])
    assert floats(region, 512, 2) == [4, 5]


KIND = "invalid value type for '{}' parameter for tensor 'IN', expected {}."
WITHOUT = "'{}' can not be specified without 'shared_memory_region' parameter for tensor 'IN'"
BOTH = "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'IN'"
BEYOND = "Invalid offset + byte size for shared memory region: 'a'"
BEFORE = "Invalid offset for shared memory region: 'a'"
UNFOUND = "Unable to find shared memory region: 'zz'"
BAD_USES: list[tuple[dict[str, Any], str, str]] = [
    (in_region(None), "INVALID_ARGUMENT", BOTH),
    (in_region(0), "INVALID_ARGUMENT", BEYOND),
    (in_region(-8), "INVALID_ARGUMENT", BEYOND),
    (in_region(8, PAGE), "INVALID_ARGUMENT", BEFORE),
    (in_region(8, PAGE - 1), "INVALID_ARGUMENT", BEYOND),
    (in_region(8, -8), "INVALID_ARGUMENT", BEFORE),
    (in_region(name="zz"), "NOT_FOUND", UNFOUND),
    (in_region(name=4), "INVALID_ARGUMENT", KIND.format("shared_memory_region", "string_param")),
    (in_region("8"), "INVALID_ARGUMENT", KIND.format("shared_memory_byte_size", "int64_param")),
    (in_region(8, "8"), "INVALID_ARGUMENT", KIND.format("shared_memory_offset", "int64_param")),
    (in_region(name=None), "INVALID_ARGUMENT", WITHOUT.format("shared_memory_byte_size")),
    (in_region(None, 8, None), "INVALID_ARGUMENT", WITHOUT.format("shared_memory_offset")),
]


@rule("6.10.4")
@pytest.mark.parametrize(("parameters", "status", "text"), BAD_USES)
def test_uses_that_cannot_be(rpc: Rpc, region: str, parameters: dict[str, Any], status: str, text: str) -> None:
    assert rpc.infer("echo", [tensor(parameters=parameters)], [PAIR]) == (status, text)
    assert rpc.infer("echo", [tensor()], [PAIR], outputs=[output(**parameters)]) == (status, text)


NO_REGION: list[tuple[dict[str, Any], str]] = [
    (in_region("8", "8", None), WITHOUT.format("shared_memory_offset")),
    (in_region("8", None, None), WITHOUT.format("shared_memory_byte_size")),
    (in_region("8", "8"), KIND.format("shared_memory_offset", "int64_param")),
    (in_region(None, "8"), KIND.format("shared_memory_offset", "int64_param")),
]


@rule("6.10.4")
@pytest.mark.parametrize(("parameters", "text"), NO_REGION)
def test_which_of_several_mistakes_is_reported(rpc: Rpc, parameters: dict[str, Any], text: str) -> None:
    for request in (
        message("echo", [tensor(parameters=parameters)], [PAIR]),
        message("echo", [tensor()], [PAIR], outputs=[output(**parameters)]),
    ):
        assert rpc("ModelInfer", request) == ("INVALID_ARGUMENT", text)


@rule("6.10.4", "6.7.1")
@pytest.mark.parametrize("raw", [[], [PAIR]])
def test_contents_beside_a_region(rpc: Rpc, raw: list[bytes]) -> None:
    text = "unexpected 'content' provided when using shared memory for input tensor 'IN' for model 'echo'"
    inputs = [tensor(parameters=in_region(name="zz"), typed=True)]
    assert rpc.infer("echo", inputs, raw) == ("INVALID_ARGUMENT", text)


@rule("6.10.4", "5.4.1")
def test_sizes_that_do_not_fit_the_tensor(rpc: Rpc, region: str) -> None:
    assert rpc.infer("echo", [tensor(parameters=in_region(12))]) == (
        "INVALID_ARGUMENT",
        "[request id: <id_unknown>] input byte size mismatch for input 'IN' for model 'echo'. Expected 8, got 12",
    )
    assert rpc.infer("echo", [tensor()], [PAIR], outputs=[output(**in_region(4))]) == (
        "INTERNAL",
        "shared memory size specified with the request for output 'IN' (4 bytes) should be at least 8 bytes to hold "
        "the results",
    )
    assert floats(region, 0, 2) == [0, 1]
