from __future__ import annotations

import subprocess
import sys
import tracemalloc
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor, wire_elements
from tritonlab.core.status import InvalidArgumentError, UnsupportedError

NUMERIC = [d for d in DataType if d not in (DataType.INVALID, DataType.BYTES, DataType.BF16)]


@pytest.mark.parametrize("datatype", NUMERIC)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3)])
def test_numeric_arrays_are_views_both_ways(datatype: DataType, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, dtype=datatype.numpy)
    tensor = Tensor.from_numpy(array)
    assert (tensor.datatype, tensor.shape, tensor.byte_size) == (datatype, shape, array.nbytes)
    assert np.shares_memory(tensor.numpy(), array) or not array.size
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_what_is_not_contiguous_or_native_is_copied() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    for other in (array.T, array[:, ::2], array.astype(">i4")):
        tensor = Tensor.from_numpy(other)
        assert tensor.data.flags.c_contiguous
        assert tensor.data.dtype.isnative
        np.testing.assert_array_equal(tensor.numpy(), other)


@pytest.mark.parametrize(
    "array",
    [
        np.array([[b"a", b""], [b"\0b\0", b"long" * 50]], dtype=object),
        np.array([], dtype=object).reshape(0, 3),
        np.array(b"x", dtype=object),
    ],
)
def test_bytes_go_to_the_wire_form_and_back(array: Any) -> None:
    tensor = Tensor.from_numpy(array)
    assert (tensor.datatype, tensor.shape) == (DataType.BYTES, array.shape)
    assert tensor.data.dtype == np.uint8 and tensor.data.ndim == 1
    assert tensor.byte_size == sum(4 + len(element) for element in array.flat)
    found = tensor.numpy()
    assert (found.dtype, found.shape, list(found.flat)) == (np.dtype(object), array.shape, list(array.flat))
    assert tensor.numpy() is found  # decoded once


def test_text_arrays_are_utf8() -> None:
    assert Tensor.from_numpy(np.array(["ä"])).to_bytes_array().tolist() == ["ä".encode()]
    assert Tensor.from_numpy(np.array([b"ab"])).numpy().tolist() == [b"ab"]


def test_dtypes_without_a_word_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="numpy dtype 'complex128' has no Triton datatype"):
        Tensor.from_numpy(np.zeros(2, dtype=complex))


@pytest.mark.parametrize(
    ("value", "datatype", "found", "shape"),
    [
        ([1, 2], DataType.FP32, DataType.FP32, (2,)),
        ([[1], [2]], DataType.UINT8, DataType.UINT8, (2, 1)),
        (1.5, DataType.FP16, DataType.FP16, ()),
        (True, DataType.BOOL, DataType.BOOL, ()),
        (True, DataType.INT8, DataType.INT8, ()),
        ([], DataType.INT64, DataType.INT64, (0,)),
        ([1, 2**63], DataType.UINT64, DataType.UINT64, (2,)),
        ([np.array([1, 2]), np.array([3, 4])], DataType.INT8, DataType.INT8, (2, 2)),
        # without an expectation numpy chooses
        ([1, 2], DataType.INVALID, DataType.INT64, (2,)),
        ([1.0], DataType.BF16, DataType.FP64, (1,)),
        ("text", DataType.INVALID, DataType.BYTES, ()),
        ("text", DataType.BYTES, DataType.BYTES, ()),
        ([["a", b"b"]], DataType.BYTES, DataType.BYTES, (1, 2)),
        ([1, None], DataType.BYTES, DataType.BYTES, (2,)),
        # arrays and numpy scalars keep their dtype, so that a mismatch is reported
        (np.ones(2, dtype=np.float64), DataType.FP32, DataType.FP64, (2,)),
        (np.float16(1), DataType.FP32, DataType.FP16, ()),
        (np.bytes_(b"x"), DataType.FP32, DataType.BYTES, ()),
    ],
)
def test_from_any(value: Any, datatype: DataType, found: DataType, shape: tuple[int, ...]) -> None:
    tensor = Tensor.from_any(value, datatype)
    assert (tensor.datatype, tensor.shape) == (found, shape)


def test_from_any_keeps_values() -> None:
    assert Tensor.from_any([1, 2**63], DataType.UINT64).numpy().tolist() == [1, 2**63]
    assert Tensor.from_any(["a", b"b\0", "ä"], DataType.BYTES).numpy().tolist() == [b"a", b"b\0", "ä".encode()]
    assert Tensor.from_any(np.bytes_(b"x\0y")).numpy().item() == b"x\0y"


def test_from_any_takes_a_tensor_as_it_is() -> None:
    tensor = Tensor.from_numpy(np.ones(1))
    assert Tensor.from_any(tensor, DataType.INT8) is tensor


@pytest.mark.parametrize(
    ("value", "datatype", "text"),
    [
        ([1.5], DataType.INT32, "float64 values cannot be read as INT32"),
        ([1, 0], DataType.BOOL, "int64 values cannot be read as BOOL"),
        (["x"], DataType.FP32, "text cannot be read as FP32"),
        ([None], DataType.FP32, "an element of type NoneType cannot be read as FP32"),
        ([300], DataType.INT8, "list cannot be read as a tensor: Python integer 300 out of bounds for int8"),
        ([-1], DataType.UINT8, "list cannot be read as a tensor: Python integer -1 out of bounds for uint8"),
        ([2**64], DataType.UINT64, "list cannot be read as a tensor: Python int"),
        ([[1], [2, 3]], DataType.FP32, "lists of different lengths cannot be read as a tensor"),
        ([["a"], ["b", "c"]], DataType.BYTES, "lists of different lengths cannot be read as a tensor"),
    ],
)
def test_what_no_tensor_can_be_made_of(value: Any, datatype: DataType, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        Tensor.from_any(value, datatype)


def test_bf16_has_no_numpy_form() -> None:
    tensor = Tensor(DataType.BF16, (2,), np.array([16256, 0], dtype=np.uint16))
    assert tensor.byte_size == 4
    with pytest.raises(UnsupportedError, match=r"torch\.from_dlpack"):
        tensor.numpy()


def test_to_bytes_array_is_for_bytes_only() -> None:
    with pytest.raises(InvalidArgumentError, match="tensor has datatype FP64, not BYTES"):
        Tensor.from_numpy(np.ones(1)).to_bytes_array()


def test_numpy_reads_a_tensor() -> None:
    array = np.arange(3, dtype=np.int32)
    tensor = Tensor.from_numpy(array)
    assert np.shares_memory(np.asarray(tensor), array)
    assert np.shares_memory(np.from_dlpack(tensor), array)
    assert not np.shares_memory(np.array(tensor, copy=True), array)
    assert np.asarray(tensor, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy is needed"):
        np.asarray(tensor, dtype=np.float32, copy=False)


class ForeignArray:
    """An array of another library on another device, which copies itself to the host on request."""

    def __init__(self, array: Any, *, can_copy: bool) -> None:
        self.array = array
        self.can_copy = can_copy

    def __dlpack_device__(self) -> tuple[int, int]:
        return (10, 0)  # kDLROCM

    def __dlpack__(self, *, dl_device: tuple[int, int] | None = None, **options: Any) -> Any:
        if dl_device != (1, 0) or not self.can_copy:
            raise BufferError("stays where it is")
        return self.array.__dlpack__()


def test_arrays_of_other_devices_come_to_the_host() -> None:
    array = np.arange(3, dtype=np.float32)
    assert Tensor.from_any(ForeignArray(array, can_copy=True)).numpy().tolist() == [0, 1, 2]
    with pytest.raises(InvalidArgumentError, match="ForeignArray cannot be read as a tensor: stays where it is"):
        Tensor.from_any(ForeignArray(array, can_copy=False))


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    source = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    tensor = Tensor.from_any(source.requires_grad_())
    assert (tensor.datatype, tensor.shape) == (DataType.FP32, (2, 3))
    source.detach()[0, 0] = 7
    assert tensor.numpy()[0, 0] == 7  # a view
    assert Tensor.from_any(source.T).numpy().tolist() == source.T.tolist()
    assert torch.from_dlpack(tensor).tolist() == source.tolist()


def test_torch_bf16_makes_the_round_trip() -> None:
    torch = pytest.importorskip("torch")
    source = torch.tensor([1.0, -2.5], dtype=torch.bfloat16)
    tensor = Tensor.from_any(source)
    assert (tensor.datatype, tensor.shape, tensor.byte_size) == (DataType.BF16, (2,), 4)
    assert torch.equal(torch.from_dlpack(tensor), source)
    tensor.data.flags.writeable = False
    assert torch.equal(torch.from_dlpack(tensor), source)


@pytest.mark.parametrize("kind", ["complex64", "float8_e4m3fn", "sparse"])
def test_torch_tensors_that_do_not_fit(kind: str) -> None:
    torch = pytest.importorskip("torch")
    source = torch.ones(2, 2).to_sparse() if kind == "sparse" else torch.ones(2).to(getattr(torch, kind))
    with pytest.raises(InvalidArgumentError):
        Tensor.from_any(source)


def test_torch_parameters_and_other_kinds_of_tensor() -> None:
    torch = pytest.importorskip("torch")

    class Mine(torch.Tensor):
        pass

    for source in (torch.nn.Parameter(torch.ones(2)), torch.ones(2).as_subclass(Mine)):
        assert Tensor.from_any(source).numpy().tolist() == [1, 1]


class Refuses:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize("make", [lambda: types.ModuleType("torch"), Refuses])
def test_a_stand_in_for_torch_takes_no_part(monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]) -> None:
    monkeypatch.setitem(sys.modules, "torch", make())
    assert Tensor.from_any([1, 2], DataType.INT32).numpy().tolist() == [1, 2]
    assert Tensor.from_any(np.float32(3)).numpy().tolist() == 3


def test_torch_is_not_imported_for_the_sake_of_a_check() -> None:
    """A fresh interpreter: others import torch into this one."""
    code = """
import sys
import numpy as np
from tritonlab.core.inference.tensor import Tensor, wire_elements
Tensor.from_any([1, 2]); Tensor.from_any(np.ones(2)); Tensor.from_any("x")
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.ones((2, 3)), "FP64 [2, 3] [[1., 1., 1.], [1., 1., 1.]]"),
        (np.float32(0.1), "FP32 [] 0.1"),
        (np.arange(9, dtype=np.int8), "INT8 [9] [0, 1, 2, 3, 4, 5, 6, 7, …]"),
        (np.array([[True]]), "BOOL [1, 1] [[ True]]"),
        (np.zeros((0, 4), np.float16), "FP16 [0, 4] []"),
        (np.array([b"a\0", b"x" * 50], object), f"BYTES [2] [b'a\\x00', b'{'x' * 40}'…]"),
        (np.array([[b"a"]] * 9, object), f"BYTES [9, 1] [{', '.join(['b' + repr('a')] * 8)}, …]"),
    ],
)
def test_repr(array: Any, text: str) -> None:
    assert repr(Tensor.from_numpy(np.asarray(array))) == f"<Tensor {text}>"


def test_repr_of_bf16_and_of_a_shape_that_lies() -> None:
    bits = np.array([0x3F80, 0xC000], np.uint16)
    assert repr(Tensor(DataType.BF16, (2,), bits)) == "<Tensor BF16 [2] [ 1., -2.]>"
    assert repr(Tensor(DataType.UINT16, (9, 9), bits)) == "<Tensor UINT16 [9, 9] [16256, 49152]>"
    assert repr(Tensor(DataType.BYTES, (2,), np.full(6, 255, np.uint8))) == "<Tensor BYTES [2] [b'\\xff\\xff'…]>"


def test_repr_copies_nothing_of_a_large_tensor() -> None:
    text = np.frombuffer((4).to_bytes(4, "little") + b"abcd", np.uint8)
    texts = Tensor(DataType.BYTES, (1 << 21,), np.tile(text, 1 << 21))
    large = [Tensor.from_numpy(np.zeros(1 << 24, np.float32)), texts]
    tracemalloc.start()
    try:
        for tensor in large:
            assert "…" in repr(tensor)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("datatype", list(DataType))
def test_bytes_of_a_client_are_read_as_elements_where_they_are_whole_ones(datatype: DataType) -> None:
    """BYTES stay in wire form; what is cut off is reported by the checks, in Triton's words."""
    data = bytes(range(16))
    read = wire_elements(data, datatype)
    assert read.dtype == (datatype.numpy if datatype.byte_size else np.uint8)
    assert read.tobytes() == data and not read.flags.writeable
    cut = wire_elements(memoryview(data)[:7], datatype)
    assert cut.tobytes() == data[:7]
    assert cut.dtype == (read.dtype if read.itemsize == 1 else np.uint8)
