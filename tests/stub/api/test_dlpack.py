from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonlab.stub._pb_stub.api import dlpack
from tritonlab.stub._pb_stub.api.errors import TritonModelException
from tritonlab.stub._pb_stub.api.pb_tensor import Tensor

STUB = Path(dlpack.__file__).parents[2]
DTYPES = "?bBhHiIqQefd"


@pytest.fixture(scope="module")
def torch() -> Any:
    """Import torch only here: every worker of a run would pay for an import at the head."""
    return pytest.importorskip("torch")


class Producer:
    """A library with one tensor; `patches` falsify the fields that describe it."""

    def __init__(self, array: np.ndarray[Any, Any], device: tuple[int, int] = (1, 0), **patches: int) -> None:
        self.array = array
        self.device = device
        self.patches = patches
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **kwargs: Any) -> Any:
        self.streams.append(kwargs)
        capsule = self.array.__dlpack__()
        address = dlpack._pointer_of(capsule, b"dltensor")
        tensor = dlpack._DLManagedTensor.from_address(address).tensor
        tensor.device_type, tensor.device_id = self.device
        for name, value in self.patches.items():
            setattr(tensor, name, value)
        return capsule


# -- taking in


@pytest.mark.rule("1.5.1")
def test_what_is_no_dlpack_is_refused() -> None:
    class Half:
        def __dlpack__(self) -> Any:
            raise AssertionError

    for thing in (1, Half(), None):
        with pytest.raises(TritonModelException) as error:
            Tensor.from_dlpack("a", thing)
        assert str(error.value) == (
            "Provided tensor is not supported. Tensor must be a DLPack capsule         or have `__dlpack__` and "
            "`__dlpack_device__` attributes"
        )


@pytest.mark.rule("1.5.3")
def test_a_capsule_of_another_name_is_refused_and_left_alone() -> None:
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    name = b"other"
    with pytest.raises(TritonModelException, match="must be a DLPack capsule"):
        Tensor.from_dlpack("a", make(8, name, None))


@pytest.mark.rule("1.4.2")
def test_the_name_is_checked_first() -> None:
    with pytest.raises(TritonModelException, match="empty string"):
        Tensor.from_dlpack("", 1)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        Tensor.from_dlpack(1, 1)  # type: ignore[arg-type]


@pytest.mark.rule("1.5.3", "1.5.7")
@pytest.mark.parametrize("char", DTYPES)
def test_numpy_arrays_come_in_without_a_copy(char: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(char)
    tensor = Tensor.from_dlpack("a", array) if char != "?" else Tensor.from_dlpack("a", Tensor("b", array))
    array[0, 0] = 1
    assert tensor._wire()[:2] == Tensor("b", array)._wire()[:2]
    assert bytes(tensor._wire()[2]) == array.tobytes()


@pytest.mark.rule("1.5.7")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64"])
def test_torch_tensors_come_in_and_go_out(torch: Any, dtype: str) -> None:
    source = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    tensor = Tensor.from_dlpack("a", source)
    assert tensor.as_numpy().tolist() == source.tolist()
    assert torch.equal(torch.from_dlpack(tensor.to_dlpack()), source)
    assert torch.equal(torch.from_dlpack(tensor), source)


@pytest.mark.rule("1.6.5", "1.4.4")
def test_bf16_crosses_by_dlpack_both_ways(torch: Any) -> None:
    source = torch.arange(6).reshape(2, 3).to(torch.bfloat16)
    tensor = Tensor.from_dlpack("a", source)
    datatype, shape, data = tensor._wire()
    assert (datatype, shape, data.nbytes) == (14, [2, 3], 12)
    assert torch.equal(torch.from_dlpack(tensor), source)
    back = Tensor._received("b", 14, shape, memoryview(bytes(data)), None)
    assert torch.equal(torch.from_dlpack(back.to_dlpack()), source)


@pytest.mark.rule("1.4.7")
def test_the_array_of_an_imported_tensor_is_a_copy(torch: Any) -> None:
    source = torch.arange(3)
    tensor = Tensor.from_dlpack("a", source)
    array = tensor.as_numpy()
    array[0] = 9
    assert tensor.as_numpy() is array
    assert source.tolist() == [0, 1, 2]
    assert bytes(tensor._wire()[2]) == np.arange(3).tobytes()


@pytest.mark.rule("1.5.2")
def test_a_stream_is_named_for_cuda_only() -> None:
    cpu, cuda = Producer(np.zeros(2)), Producer(np.zeros(2), (2, 1))
    Tensor.from_dlpack("a", cpu)
    Tensor.from_dlpack("a", cuda)
    assert (cpu.streams, cuda.streams) == ([{}], [{"stream": 1}])


@pytest.mark.rule("1.5.9", "1.4.10")
def test_a_cuda_tensor_keeps_its_producers_memory_and_is_not_read() -> None:
    array = np.zeros(2)
    gone = weakref.ref(array)
    tensor = Tensor.from_dlpack("a", Producer(array, (2, 1)))
    del array
    assert not tensor.is_cpu() and tensor.__dlpack_device__() == (2, 1)
    with pytest.raises(TritonModelException, match="stored in GPU"):
        tensor.as_numpy()
    assert gone() is not None
    del tensor
    gc.collect()
    assert gone() is None


@pytest.mark.rule("1.5.6")
def test_devices() -> None:
    assert Tensor.from_dlpack("a", Producer(np.zeros(2), (3, 0))).is_cpu()
    with pytest.raises(TritonModelException, match=r"^DLDevice type 4 is not support by Python backend\.$"):
        Tensor.from_dlpack("a", Producer(np.zeros(2), (4, 0)))


@pytest.mark.rule("1.5.7")
@pytest.mark.parametrize(
    ("patches", "text"),
    [
        ({"code": 5}, "Dtype is invalid."),
        ({"lanes": 2}, "Dtype is invalid."),
        ({"bits": 4}, "Dtype is invalid."),
        ({"code": 4, "bits": 32}, "Expected BF16 tensor to have 16 bits, but had: 32"),
    ],
)
def test_element_types_without_a_datatype(patches: dict[str, int], text: str) -> None:
    with pytest.raises(TritonModelException) as error:
        Tensor.from_dlpack("a", Producer(np.zeros(2), **patches))
    assert str(error.value) == text


@pytest.mark.rule("1.5.7")
def test_the_byte_offset_counts() -> None:
    assert Tensor.from_dlpack("a", Producer(np.arange(4), byte_offset=8, ndim=0)).as_numpy().tolist() == 1


@pytest.mark.rule("1.5.5")
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3).T,
        np.arange(6.0).reshape(2, 3)[:, ::2],
        # Triton reads these as if they were contiguous; refused here, so that no wrong data goes out there
        np.arange(6)[::2],
        np.arange(6)[::-1],
        np.arange(12).reshape(4, 3)[::2],
        np.arange(24).reshape(2, 3, 4)[:, :2],
    ],
)
def test_only_contiguous_memory_is_taken(array: np.ndarray[Any, Any]) -> None:
    with pytest.raises(TritonModelException) as error:
        Tensor.from_dlpack("a", array)
    assert str(error.value) == (
        "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are supported."
    )


@pytest.mark.rule("1.5.5")
@pytest.mark.parametrize(
    "array",
    [
        np.arange(24).reshape(2, 3, 4)[:1, :2],
        np.arange(6).reshape(2, 3)[:1],
        np.arange(6).reshape(6, 1)[:, :1],
        np.zeros((0, 3))[:, ::2],
        np.array(3.0),
    ],
)
def test_strides_of_single_and_missing_elements_do_not_count(array: np.ndarray[Any, Any]) -> None:
    assert Tensor.from_dlpack("a", array).as_numpy().tolist() == array.tolist()


@pytest.mark.rule("1.5.3")
def test_a_refused_capsule_stays_its_producers() -> None:
    array = np.arange(6)[::2]
    gone = weakref.ref(array)
    capsule = array.__dlpack__()
    with pytest.raises(TritonModelException):
        Tensor.from_dlpack("a", capsule)
    assert repr(capsule).startswith('<capsule object "dltensor"')
    del array, capsule
    gc.collect()
    assert gone() is None


@pytest.mark.rule("1.5.3")
def test_a_consumed_capsule_has_the_standard_name() -> None:
    capsule = np.arange(3).__dlpack__()
    Tensor.from_dlpack("a", capsule)
    assert repr(capsule).startswith('<capsule object "used_dltensor"')


@pytest.mark.rule("1.5.4")
def test_a_capsule_may_be_taken_twice_while_its_memory_lives() -> None:
    capsule = Tensor("a", np.arange(3)).to_dlpack()
    first, second = Tensor.from_dlpack("a", capsule), Tensor.from_dlpack("b", capsule)
    del first
    gc.collect()
    assert second.as_numpy().tolist() == [0, 1, 2]
    del second
    gc.collect()
    with pytest.raises(TritonModelException, match="already consumed"):
        Tensor.from_dlpack("c", capsule)


@pytest.mark.rule("1.5.9")
def test_the_memory_is_released_with_the_last_that_looks_at_it() -> None:
    array = np.arange(3)
    gone = weakref.ref(array)
    tensor = Tensor.from_dlpack("a", array)
    del array
    consumer = np.from_dlpack(tensor)
    del tensor
    gc.collect()
    assert gone() is not None and consumer.tolist() == [0, 1, 2]
    del consumer
    gc.collect()
    assert gone() is None


# -- giving out


@pytest.mark.rule("1.5.8")
def test_strings_have_no_dlpack() -> None:
    tensor = Tensor("a", np.array([b"x"]))
    for export in (tensor.to_dlpack, tensor.__dlpack__):
        with pytest.raises(TritonModelException, match=r"^DLPack does not have support for string tensors\.$"):
            export()
    assert tensor.__dlpack_device__() == (1, 0)


@pytest.mark.rule("1.5.8")
@pytest.mark.parametrize("char", DTYPES)
def test_every_numeric_dtype_goes_out(torch: Any, char: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(char)
    found = torch.from_dlpack(Tensor("a", array).to_dlpack())
    assert found.numpy().dtype == array.dtype and found.tolist() == array.tolist()


@pytest.mark.rule("1.5.8")
def test_a_built_tensor_shares_its_memory(torch: Any) -> None:
    array = np.arange(3.0)
    view = torch.from_dlpack(Tensor("a", array))
    view[1] = 8
    assert array[1] == 8.0


@pytest.mark.rule("1.4.11")
def test_writes_through_dlpack_reach_what_is_sent_but_not_the_received_bytes(torch: Any) -> None:
    region = bytearray(np.arange(3).tobytes())
    tensor = Tensor._received("a", 9, [3], memoryview(region), None)
    torch.from_dlpack(tensor)[0] = 9
    assert np.frombuffer(tensor._wire()[2], np.int64).tolist() == [9, 1, 2]
    assert bytes(region) == np.arange(3).tobytes()
    assert tensor.as_numpy().tolist() == [0, 1, 2]


def test_read_only_memory_goes_out_as_a_copy(torch: Any) -> None:
    array = np.frombuffer(np.arange(3).tobytes(), np.int64)
    assert not array.flags.writeable
    view = torch.from_dlpack(Tensor("a", array))
    view[0] = 9
    assert array.tolist() == [0, 1, 2]


@pytest.mark.rule("1.5.8")
def test_newer_keywords_are_refused_so_that_consumers_fall_back() -> None:
    with pytest.raises(TypeError):
        Tensor("a", np.zeros(1)).__dlpack__(max_version=(1, 0))  # type: ignore[call-arg]
    assert np.from_dlpack(Tensor("a", np.zeros(1))).tolist() == [0.0]


def test_dropped_capsules_neither_leak_nor_crash() -> None:
    array = np.arange(1000.0)
    gone = weakref.ref(array)
    tensor = Tensor("a", array)
    capsules = [tensor.to_dlpack() for _ in range(100)]
    taken = [Tensor.from_dlpack("b", capsule) for capsule in capsules[::2]]
    del array, tensor, capsules, taken
    gc.collect()
    assert gone() is None


def test_capsules_dropped_while_an_exception_is_on_its_way_and_at_exit() -> None:
    """Destructors run at the worst moments; a process of its own shows a crash that a test could not survive."""
    script = """
        import sys
        sys.path.append(sys.argv[1])
        import numpy as np
        from _pb_stub.api.pb_tensor import Tensor

        def refuse(capsule):
            raise ValueError("no")

        for _ in range(1000):
            try:
                refuse(Tensor("a", np.zeros(8)).to_dlpack())
            except ValueError:
                pass
            try:
                refuse(Tensor.from_dlpack("a", np.zeros(8)))
            except ValueError:
                pass
        left = [Tensor("a", np.zeros(8)).to_dlpack(), np.zeros(8).__dlpack__()]
        kept = [Tensor.from_dlpack("b", capsule) for capsule in left]
        sys.modules["left"] = left
        cycle = [left]
        cycle.append(cycle)
        print("ok")
    """
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(script), str(STUB)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


@pytest.mark.rule("1.5.10")
@pytest.mark.parametrize("array", [np.arange(3.0), np.array([True]), np.zeros(0), np.array(1)])
def test_a_consumer_holds_the_tensor(torch: Any, array: np.ndarray[Any, Any]) -> None:
    tensor = Tensor("a", array)
    consumer = torch.from_dlpack(tensor)
    gone = weakref.ref(tensor)
    del tensor
    assert gone() is not None
    view = consumer.view(consumer.shape)
    del consumer
    assert gone() is not None
    del view
    assert gone() is None


@pytest.mark.rule("1.5.10")
def test_an_imported_tensor_is_held_as_well(torch: Any) -> None:
    tensor = Tensor.from_dlpack("a", torch.arange(3))
    capsule = tensor.to_dlpack()
    gone = weakref.ref(tensor)
    del tensor
    assert gone() is not None
    assert torch.from_dlpack(capsule).tolist() == [0, 1, 2]
    with pytest.raises((RuntimeError, ValueError)):
        torch.from_dlpack(capsule)
    del capsule
    assert gone() is None
