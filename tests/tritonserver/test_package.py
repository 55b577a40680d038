"""The package, by the names under which programs look for it."""

from __future__ import annotations

import inspect
import operator
import subprocess
import sys

import pytest

import tritonlab
import tritonlab.tritonserver as tritonserver

NAMES = [
    "AlreadyExistsError",
    "DLDeviceType",
    "DataType",
    "InferenceRequest",
    "InferenceResponse",
    "InstanceGroupKind",
    "InternalError",
    "InvalidArgumentError",
    "LogFormat",
    "MemoryBuffer",
    "MemoryType",
    "Metric",
    "MetricFamily",
    "MetricFormat",
    "MetricKind",
    "Model",
    "ModelBatchFlag",
    "ModelControlMode",
    "ModelTxnPropertyFlag",
    "NotFoundError",
    "Options",
    "RateLimitMode",
    "RateLimiterResource",
    "Server",
    "Tensor",
    "TritonError",
    "UnavailableError",
    "UnknownError",
    "UnsupportedError",
]

MEMBERS = {
    "DataType": "INVALID BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 BYTES BF16",
    "MemoryType": "CPU CPU_PINNED GPU",
    "InstanceGroupKind": "AUTO CPU GPU MODEL",
    "LogFormat": "DEFAULT ISO8601",
    "MetricFormat": "PROMETHEUS",
    "MetricKind": "COUNTER GAUGE",
    "ModelBatchFlag": "UNKNOWN FIRST_DIM",
    "ModelControlMode": "NONE POLL EXPLICIT",
    "ModelTxnPropertyFlag": "ONE_TO_ONE DECOUPLED",
    "RateLimitMode": "OFF EXEC_COUNT",
}
FIRST = {"ModelBatchFlag": 1, "ModelTxnPropertyFlag": 1}


@pytest.mark.rule("6.16")
def test_all_public_names() -> None:
    assert len(NAMES) == 29
    assert set(NAMES) | {"AsyncResponseIterator", "ResponseIterator", "__version__"} == set(tritonserver.__all__)
    assert all(hasattr(tritonserver, name) for name in tritonserver.__all__)


@pytest.mark.rule("6.16")
@pytest.mark.parametrize("name", MEMBERS)
def test_enums_have_the_members_and_numbers_of_the_c_api(name: str) -> None:
    kind = getattr(tritonserver, name)
    assert list(kind.__members__) == MEMBERS[name].split()
    start = FIRST.get(name, 0)
    assert [int(member) for member in kind] == list(range(start, start + len(kind)))
    first = next(iter(kind))
    assert kind(start) is first and [10, 11, 12][first] == 10 + start and first != start
    assert repr(first) == f"<TRITONSERVER_{name}.{first.name}: {start}>"


SIGNATURES = {
    "Options": "model_repository server_id model_control_mode startup_models strict_model_config rate_limiter_mode "
    "rate_limiter_resources pinned_memory_pool_size cuda_memory_pool_sizes cache_config cache_directory "
    "min_supported_compute_capability exit_on_error strict_readiness exit_timeout buffer_manager_thread_count "
    "model_load_thread_count model_load_retry_count model_namespacing enable_peer_access log_file log_info log_warn "
    "log_error log_format log_verbose metrics gpu_metrics cpu_metrics metrics_interval backend_directory "
    "repo_agent_directory model_load_device_limits backend_configuration host_policies metrics_configuration "
    "log_callback",  # of 26.08, last: programs give it by name
    "Server.start": "self wait_until_ready polling_interval timeout",
    "Server.model": "self model_name model_version",
    "Server.models": "self exclude_not_ready",
    "Server.load": "self model_name parameters",
    "Server.unload": "self model unload_dependents wait_until_unloaded polling_interval timeout",
    "Server.register_model_repository": "self repository_path name_mapping",
    "Server.unregister_model_repository": "self repository_path",
    "Server.metrics": "self metric_format",
    "Model": "server name version state reason",
    "Model.infer": "self inference_request raise_on_error fields",
    "Model.async_infer": "self inference_request raise_on_error fields",
    "Model.config": "self config_version",
    "InferenceRequest": "model request_id flags correlation_id priority timeout inputs parameters output_memory_type "
    "response_queue",
    "InferenceResponse": "model request_id parameters outputs error classification_label final",
    "AsyncResponseIterator": "model request inference_request raise_on_error loop",
    "ResponseIterator": "model request inference_request raise_on_error",
    "Tensor": "data_type shape memory_buffer",
    "Tensor.from_dlpack": "obj",
    "Tensor.from_bytes_array": "bytes_array",
    "Tensor.from_string_array": "string_array",
    "Tensor.to_device": "self device",
    "MemoryBuffer": "data_ptr memory_type memory_type_id size owner",
    "MemoryBuffer.from_dlpack": "owner",
    "RateLimiterResource": "name count device",
    "Metric": "family labels",
    "MetricFamily": "kind name description",
}


@pytest.mark.rule("6.16")
@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_have_the_names_and_places_that_programs_use(name: str) -> None:
    found = operator.attrgetter(name)(tritonserver)
    assert list(inspect.signature(found).parameters) == SIGNATURES[name].split()


def test_its_errors_are_those_of_tritonlab() -> None:
    assert tritonserver.TritonError is tritonlab.TritonError
    codes = {getattr(tritonserver, name)("x").code.name for name in NAMES if name.endswith("Error")}
    assert codes == {"UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS"}


def test_it_costs_nothing_where_it_is_not_used() -> None:
    code = "import sys, tritonlab; sys.exit(any('tritonserver' in name for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


PROGRAM = """
import sys
import tritonlab.tritonserver
try:
    import tritonserver
except ModuleNotFoundError:
    pass
else:
    raise AssertionError("the name is not taken unasked")
sys.modules["tritonserver"] = tritonlab.tritonserver

import tritonserver
import tritonserver._api._response
from tritonserver._api._server import Server
from tritonserver._c.triton_bindings import InvalidArgumentError, TRITONSERVER_DataType

assert tritonserver is tritonlab.tritonserver and Server is tritonserver.Server
assert tritonserver._api._response is sys.modules["tritonlab.tritonserver._api._response"]
assert tritonserver._api._response.__spec__.name == "tritonlab.tritonserver._api._response"
try:
    import tritonserver._api._nothing
except ModuleNotFoundError as error:
    assert error.name == "tritonserver._api._nothing", error.name
else:
    raise AssertionError
"""


def test_a_program_that_imports_tritonserver() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
