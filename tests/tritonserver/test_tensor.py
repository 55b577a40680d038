from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any

import numpy as np
import pytest

import tritonlab.tritonserver as tritonserver
from tritonlab.tritonserver import (
    DataType,
    DLDeviceType,
    InvalidArgumentError,
    MemoryBuffer,
    MemoryType,
    Tensor,
    UnsupportedError,
)

HELLO = [b"a", "ü"]


# -- memory


def test_a_buffer_is_the_memory_of_its_owner() -> None:
    owner = np.arange(6, dtype=np.int16)
    buffer = MemoryBuffer.from_dlpack(owner)
    assert (buffer.data_ptr, buffer.size, buffer.owner) == (owner.ctypes.data, 12, owner)
    assert (buffer.memory_type, buffer.memory_type_id) == (MemoryType.CPU, 0)


@pytest.mark.parametrize(
    ("owner", "text"),
    [
        (object(), "Object does not support DLpack protocol"),
        (np.arange(6)[::2], "Only contiguous memory is supported"),
        (np.ones((2, 3)).T, "Only contiguous memory is supported"),
        (np.array(["a"], object), "Object does not support DLPack protocol: "),
    ],
)
@pytest.mark.rule("6.16.6")
def test_what_is_no_buffer(owner: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        MemoryBuffer.from_dlpack(owner)


def test_memory_that_only_a_capsule_holds() -> None:
    class Copying:
        """An array as some libraries have them: every export is of a copy that nobody else has."""

        def __dlpack__(self, **kwargs: Any) -> Any:
            return np.arange(1000, dtype=np.int32).__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    tensors = [Tensor.from_dlpack(Copying()) for _ in range(20)]
    assert all(np.from_dlpack(tensor).tolist() == list(range(1000)) for tensor in tensors)


# -- DLPack


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16,
              np.float32, np.float64]
)  # fmt: skip
def test_arrays_go_in_and_out_over_the_same_memory(dtype: Any) -> None:
    array = np.ones((1, 2, 3), dtype)
    tensor = Tensor.from_dlpack(array)
    back = np.from_dlpack(tensor)
    assert (back.dtype, back.shape, back.ctypes.data) == (array.dtype, (1, 2, 3), array.ctypes.data)
    assert (tensor.data_ptr, tensor.size, list(tensor.shape)) == (array.ctypes.data, array.nbytes, [1, 2, 3])
    assert tensor.__dlpack_device__() == (DLDeviceType.kDLCPU, 0) == array.__dlpack_device__()
    assert (tensor.memory_type, tensor.memory_type_id) == (MemoryType.CPU, 0)


def test_torch_and_bf16() -> None:
    torch = pytest.importorskip("torch")
    for sent in (torch.arange(4.0), torch.ones(2, 2, dtype=torch.bfloat16)):
        tensor = Tensor.from_dlpack(sent)
        back = torch.from_dlpack(tensor)
        assert torch.equal(back, sent) and back.data_ptr() == sent.data_ptr() == tensor.data_ptr
    assert tensor.data_type is DataType.BF16


@pytest.mark.rule("6.16.6")
def test_who_holds_whom() -> None:
    owner = np.ones(1 << 16)
    alone = sys.getrefcount(owner)
    tensor = Tensor.from_dlpack(owner)
    assert sys.getrefcount(owner) == alone + 1
    unused = sys.getrefcount(tensor)
    first = np.from_dlpack(tensor)
    assert sys.getrefcount(tensor) == unused + 1
    tensor.shape = [2, 1 << 15]
    second = np.from_dlpack(tensor)
    assert (first.shape, second.shape) == ((1 << 16,), (2, 1 << 15))
    address = tensor.data_ptr
    del tensor, owner
    assert first.ctypes.data == second.ctypes.data == address
    assert second.sum() == 1 << 16


@pytest.mark.parametrize("at_once", [1, 50])
def test_nothing_stays_behind(at_once: int) -> None:
    def there() -> int:
        return sum(type(found) is Tensor for found in gc.get_objects())

    async def exchange() -> None:
        owner = np.ones(1 << 10)
        tensor = Tensor.from_dlpack(owner)
        array = np.from_dlpack(tensor)
        await asyncio.sleep(0)
        del owner, tensor, array

    async def all_of_them() -> None:
        await asyncio.gather(*(exchange() for _ in range(at_once)))

    gc.collect()
    before = there()
    asyncio.run(all_of_them())
    assert there() == before


def test_a_capsule_that_nobody_reads() -> None:
    owner = np.ones(4)
    before = sys.getrefcount(owner)
    capsule = Tensor.from_dlpack(owner).__dlpack__()
    assert sys.getrefcount(owner) == before + 1
    del capsule
    assert sys.getrefcount(owner) == before


def test_what_a_consumer_may_request() -> None:
    tensor = Tensor.from_dlpack(np.arange(3))
    copied = np.from_dlpack(tensor, copy=True)
    assert copied.tolist() == [0, 1, 2] and copied.ctypes.data != tensor.data_ptr
    assert np.from_dlpack(tensor, device="cpu").ctypes.data == tensor.data_ptr
    with pytest.raises(BufferError, match="move it with to_device"):
        tensor.__dlpack__(dl_device=(2, 0))
    tensor.__dlpack__(stream=0)
    for stream in (1, "s"):
        with pytest.raises(UnsupportedError, match=f"memory type {MemoryType.CPU} and stream {stream} not supported"):
            tensor.__dlpack__(stream=stream)  # type: ignore[arg-type]


def test_what_dlpack_has_no_word_for() -> None:
    with pytest.raises(InvalidArgumentError, match=r"server data type. Can't convert .*BYTES to DLPack data type"):
        Tensor.from_bytes_array(["a"]).__dlpack__()
    with pytest.raises(InvalidArgumentError, match=r"Unsupported DLPack data type\. Can't convert complex64"):
        Tensor.from_dlpack(np.ones(1, np.complex64))
    readonly = np.ones(1)
    readonly.flags.writeable = False
    with pytest.raises(InvalidArgumentError, match="Object does not support DLPack protocol: "):
        Tensor.from_dlpack(readonly)


def test_a_shape_beyond_the_memory() -> None:
    tensor = Tensor.from_dlpack(np.ones(4, np.float32))
    tensor.shape = [5]
    with pytest.raises(InvalidArgumentError, match=r"shape \[5\] of float32 takes 20 bytes, the tensor has 16"):
        np.from_dlpack(tensor)
    tensor.shape, tensor.data_type = [0], DataType.FP64
    assert np.from_dlpack(tensor).shape == (0,)


# -- BYTES


@pytest.mark.parametrize("array", [HELLO, np.array(HELLO, object), np.array(["a", "ü"]), [["a"], ["ü"]]])
@pytest.mark.rule("6.16.6")
def test_texts_and_bytes(array: Any) -> None:
    for tensor in (Tensor.from_bytes_array(array), Tensor.from_string_array(array)):
        assert (tensor.data_type, tensor.size) == (DataType.BYTES, 4 + 1 + 4 + 2)
        texts = tensor.to_string_array()
        assert texts.ravel().tolist() == ["a", "ü"] and texts.dtype.kind == "U" and texts.shape == np.shape(array)
        assert tensor.to_bytes_array().ravel().tolist() == [b"a", "ü".encode()]
        assert tensor.data_type is DataType.BYTES  # as it was


def test_no_texts_at_all() -> None:
    assert Tensor.from_bytes_array(np.empty((0, 2), object)).to_string_array().shape == (0, 2)


def test_what_is_no_text() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Unsupported conversion from \[1\] to Triton BYTES Tensor\. Got"):
        Tensor.from_string_array([1])
    with pytest.raises(InvalidArgumentError, match=r"Tensor has data type TRITONSERVER_DataType.FP64 not .*BYTES"):
        Tensor.from_dlpack(np.ones(1)).to_bytes_array()


# -- what a request takes


@pytest.mark.parametrize(
    ("value", "data_type", "shape"),
    [
        ([1, 2], DataType.INT64, (2,)),
        ([[1.5]], DataType.FP64, (1, 1)),
        ([True], DataType.BOOL, (1,)),
        (["x"], DataType.BYTES, (1,)),
        (np.float16([1]), DataType.FP16, (1,)),
        (np.array(7, np.uint8), DataType.UINT8, ()),
    ],
)
def test_a_list_has_the_type_that_numpy_gives_it(value: Any, data_type: DataType, shape: tuple[int, ...]) -> None:
    tensor = Tensor._from_object(value)
    assert (tensor.data_type, tuple(tensor.shape)) == (data_type, shape)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "Input type <class 'str'> not supported. Must be one of"),
        (np.float32(1), "Input type <class 'numpy.float32'> not supported"),
        (None, "or the type must support __dlpack__"),
        ([[1], [1, 2]], r"Conversion from \[\[1\], \[1, 2\]\] to tensor not supported."),
        (np.ones(1, np.complex64), "Numpy data type. Can't convert <class 'numpy.complex64'> to Triton"),
    ],
)
def test_what_no_tensor_is_made_of(value: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        Tensor._from_object(value)


@pytest.mark.rule("6.16.6")
def test_arrays_of_any_order() -> None:
    for array in (np.arange(6)[::2], np.ones((2, 3)).T, np.arange(3, dtype=">i4")):
        assert np.array_equal(np.from_dlpack(Tensor._from_object(array)), array)


# -- devices

ON_CPU: list[Any] = ["cpu", "CPU", "cpu:0", MemoryType.CPU, (MemoryType.CPU, 0), (DLDeviceType.kDLCPU, 0)]


@pytest.mark.parametrize("device", ON_CPU)
def test_what_is_on_the_host_stays(device: Any) -> None:
    tensor = Tensor.from_dlpack(np.ones(2))
    assert tensor.to_device(device) is tensor is tensor.to_host()


@pytest.mark.parametrize("device", ["gpu", "gpu:1", MemoryType.GPU, (DLDeviceType.kDLCUDA, 0), "cpu_pinned", "cpu:1"])
@pytest.mark.rule("6.16.6")
def test_a_device_that_cannot_be_had(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(UnsupportedError, match=r"Conversion from \(.*CPU: 0>, 0\) to \(<.*>, [01]\) not supported\."):
        Tensor.from_dlpack(np.ones(2)).to_device(device)


@pytest.mark.parametrize(
    ("device", "text"),
    [
        ("tpu", "Unsupported Memory Type String. Can't convert TPU to Triton server memory type"),
        ("gpu:x", "Invalid memory type string gpu:x"),
        ("gpu:0:0", "Invalid memory type string gpu:0:0"),
        (("gpu", 0), "Invalid memory type"),
        (None, "Invalid memory type None"),
        ((DLDeviceType.kDLVulkan, 0), "Unsupported DLPack device type"),
    ],
)
def test_what_is_no_device(device: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        Tensor.from_dlpack(np.ones(2)).to_device(device)


def test_memory_of_a_gpu_cannot_be_read_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    tensor = Tensor(DataType.FP32, [1], MemoryBuffer(1 << 20, MemoryType.GPU, 0, 4, None))
    assert tensor.__dlpack_device__() == (DLDeviceType.kDLCUDA, 0)
    for use in (tensor.to_host, tensor.__dlpack__, tensor._to_core):
        with pytest.raises(UnsupportedError):
            use()


def test_pinned_memory_is_the_hosts() -> None:
    array = np.ones(2)
    tensor = Tensor(DataType.FP64, [2], MemoryBuffer(array.ctypes.data, MemoryType.CPU_PINNED, 0, 16, array))
    assert tensor.to_host() is tensor
    assert np.from_dlpack(tensor).tolist() == [1, 1]


def test_public_names_are_where_others_look_for_them() -> None:
    assert tritonserver._api._tensor.Tensor is Tensor
    assert tritonserver._api._memorybuffer.MemoryBuffer is MemoryBuffer
    assert tritonserver._c.triton_bindings.TRITONSERVER_DataType is DataType
