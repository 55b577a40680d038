"""The package by the names under which programs look for it."""

from __future__ import annotations

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


def test_its_errors_are_those_of_tritonlab() -> None:
    assert tritonserver.TritonError is tritonlab.TritonError
    codes = {getattr(tritonserver, name)("x").code.name for name in NAMES if name.endswith("Error")}
    assert codes == {"UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS"}


def test_it_costs_nothing_where_it_is_not_asked_for() -> None:
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
