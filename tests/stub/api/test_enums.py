from __future__ import annotations

import copy

import pytest

from tritonlab.stub import c_python_backend_utils as native
from tritonlab.stub._pb_stub.api.enums import ErrorCode, LogLevel, MemoryType, MetricKind

pytestmark = pytest.mark.rule("1.2")


def test_the_numbers_are_tritons() -> None:
    assert [int(code) for code in ErrorCode.__members__.values()] == list(range(8))
    assert list(ErrorCode.__members__)[3] == "INVALID_ARG"
    assert [int(LogLevel.INFO), int(LogLevel.VERBOSE), int(MetricKind.HISTOGRAM)] == [0, 3, 2]


@pytest.mark.rule("1.2.1")
def test_memory_numbers_are_not_those_of_the_c_api() -> None:
    assert (int(MemoryType.TRITONSERVER_MEMORY_GPU), int(MemoryType.TRITONSERVER_MEMORY_CPU)) == (0, 1)


@pytest.mark.rule("1.1.6")
def test_reprs_are_tritons() -> None:
    assert repr(ErrorCode.INTERNAL) == "<__ErrorCode.INTERNAL: 1>"
    assert str(LogLevel.ERROR) == "LogLevel.ERROR"
    assert repr(ErrorCode(9)) == "<__ErrorCode.???: 9>"
    assert native.TRITONSERVER_MEMORY_CPU is MemoryType.TRITONSERVER_MEMORY_CPU


def test_members_equal_numbers_and_have_no_order() -> None:
    assert ErrorCode.INTERNAL == 1
    assert ErrorCode.INTERNAL == MemoryType.TRITONSERVER_MEMORY_CPU
    assert ErrorCode.INTERNAL != "INTERNAL"
    assert {ErrorCode.INTERNAL: "x"}[1] == "x"
    with pytest.raises(TypeError):
        ErrorCode.INTERNAL < ErrorCode.NOT_FOUND  # type: ignore[operator]  # noqa: B015


def test_members_are_fixed_and_survive_copies() -> None:
    with pytest.raises(AttributeError):
        ErrorCode.INTERNAL.name = "x"  # type: ignore[misc]
    assert copy.deepcopy(ErrorCode.INTERNAL) == ErrorCode.INTERNAL
    assert copy.copy(MemoryType.TRITONSERVER_MEMORY_GPU) == 0


def test_only_integers_make_members() -> None:
    with pytest.raises(TypeError, match="value: int"):
        ErrorCode("1")  # type: ignore[arg-type]
