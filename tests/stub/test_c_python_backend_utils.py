from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from tests.stub.fake_bridge import FakeBridge
from tritonlab.stub import c_python_backend_utils as native


@pytest.mark.rule("1.1.6")
def test_classes_and_objects_show_under_the_compiled_modules_name() -> None:
    classes = [thing for name in native.__all__ if isinstance(thing := getattr(native, name), type)]
    assert {kind.__module__ for kind in classes} == {"c_python_backend_utils"}
    assert repr(native.Tensor("a", np.zeros(1))).startswith("<c_python_backend_utils.Tensor object at 0x")


@pytest.mark.rule("1.1.4")
def test_what_a_model_finds_here_only(pb_utils: ModuleType) -> None:
    for name in (
        "InferenceResponseSender", "ResponseIterator", "InferenceTrace", "Metric", "MetricKind", "MemoryType",
        "SharedMemory",
    ):  # fmt: skip
        assert hasattr(native, name) and not hasattr(pb_utils, name)


@pytest.mark.rule("1.1.3")
def test_what_is_attached_is_the_same_object(pb_utils: ModuleType) -> None:
    for name in set(native.__all__) & set(dir(pb_utils)):
        assert getattr(pb_utils, name) is getattr(native, name)


@pytest.mark.rule("1.1.5")
def test_the_model_directory_is_the_stubs(fake_bridge: FakeBridge) -> None:
    assert native.get_model_dir() == "/repository/m/1"
    with pytest.raises(TypeError, match="incompatible function arguments"):
        native.get_model_dir(1)
