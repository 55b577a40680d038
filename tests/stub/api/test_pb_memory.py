from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.stub.fake_bridge import FakeBridge
from tritonlab.stub._pb_stub.api.enums import ErrorCode, MemoryType
from tritonlab.stub._pb_stub.api.pb_memory import InferenceTrace, PreferredMemory, SharedMemory, shared_memory

CPU = MemoryType.TRITONSERVER_MEMORY_CPU


@pytest.mark.rule("1.12.1")
@pytest.mark.parametrize("arguments", [(1,), (), (CPU, 1.0), (ErrorCode.INTERNAL,), (CPU, None)])
def test_the_type_is_an_enumeration_member(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        PreferredMemory(*arguments)
    assert PreferredMemory(preferred_memory_type=CPU, preferred_device_id=1)._device_id == 1


@pytest.mark.rule("1.11.1")
def test_a_trace_has_a_context_or_none() -> None:
    assert InferenceTrace._from_context(None).get_context() is None
    assert InferenceTrace._from_context("{}").get_context() == "{}"
    with pytest.raises(TypeError, match="No constructor defined!"):
        InferenceTrace()


@pytest.mark.rule("1.1.4")
def test_free_memory_is_that_of_the_stubs_region(fake_bridge: FakeBridge) -> None:
    assert shared_memory.free_memory() == 0
    fake_bridge.region = SimpleNamespace(size=100, used=30)  # type: ignore[attr-defined]
    assert shared_memory.free_memory() == 70
    with pytest.raises(TypeError, match="No constructor defined!"):
        SharedMemory()
