from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from tritonlab.stub._pb_stub.api.errors import TritonModelException
from tritonlab.stub._pb_stub.api.pb_tensor import Tensor
from tritonlab.stub._pb_stub.api.simulated_array import SimulatedArray
from tritonlab.stub._pb_stub.devices.gpus import SIMULATED
from tritonlab.stub._pb_stub.process.region_tensors import add_wires
from tritonlab.stub._pb_stub.wire.device_memory import DevicePlace, packed
from tritonlab.stub._pb_stub.wire.serialization import encode_bytes_tensor

NUMERIC = {
    "?": 1, "B": 2, "H": 3, "I": 4, "Q": 5, "b": 6, "h": 7, "i": 8, "q": 9, "e": 10, "f": 11, "d": 12,
}  # fmt: skip


class Lease:
    """A lease of a block, as that of a region; it hands out the copy-on-write memory `private`, if there is any."""

    def __init__(self, private: np.ndarray[Any, Any] | None = None) -> None:
        self.private = private
        self.sizes: list[int] = []

    def private_array(self, view: memoryview) -> np.ndarray[Any, Any] | None:
        self.sizes.append(view.nbytes)
        return self.private


def received(array: np.ndarray[Any, Any], lease: Any = None) -> Tensor:
    """Return `array` as an input that came over the link."""
    datatype = next((n for char, n in NUMERIC.items() if np.dtype(char) == array.dtype), 13)
    data = encode_bytes_tensor(array) if datatype == 13 else array.tobytes()
    return Tensor._received("IN", datatype, list(array.shape), memoryview(data), lease)


# -- built


@pytest.mark.rule("1.4.1")
@pytest.mark.parametrize("value", [[1], (1,), 1, None, "x", np.float32(1)])
def test_only_arrays_make_tensors(value: Any) -> None:
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        Tensor("a", value)


@pytest.mark.rule("1.4.1")
def test_keywords_and_other_counts_are_refused() -> None:
    for arguments, keywords in (((), {"name": "a", "ndarray": np.zeros(1)}), (("a",), {}), (("a", np.zeros(1), 2), {})):
        with pytest.raises(TypeError):
            Tensor(*arguments, **keywords)  # type: ignore[arg-type, misc]


@pytest.mark.rule("1.4.1")
def test_a_name_that_is_no_text_is_refused() -> None:
    for name in (1, None, "a\ud800"):
        with pytest.raises(TypeError):
            Tensor(name, np.zeros(1))  # type: ignore[arg-type]
    assert Tensor("é", np.zeros(1)).name() == "é"


@pytest.mark.rule("1.4.2")
def test_an_empty_name_is_refused() -> None:
    with pytest.raises(TritonModelException, match=r"^Tensor name cannot be an empty string\.$"):
        Tensor("", np.zeros(1))


@pytest.mark.rule("1.4.3", "1.4.4")
@pytest.mark.parametrize(("char", "datatype"), [*NUMERIC.items(), ("O", 13), ("S3", 13)])
def test_dtypes_and_their_datatypes(char: str, datatype: int) -> None:
    found, shape, _ = Tensor("a", np.zeros((2, 1), char))._wire()
    assert (found, shape) == (datatype, [2, 1])


@pytest.mark.rule("1.4.3")
@pytest.mark.parametrize("dtype", ["c8", "M8[s]", "m8[s]", "U3", "g", "V4", [("a", "i4")], ">f4", ">i2"])
def test_other_dtypes_are_refused(dtype: Any) -> None:
    with pytest.raises(TritonModelException, match=r"^NumPy dtype is not supported\.$"):
        Tensor("a", np.zeros(1, dtype))


@pytest.mark.rule("1.4.5")
def test_a_contiguous_array_is_aliased_until_it_is_sent() -> None:
    array = np.arange(4)
    tensor = Tensor("a", array)
    array[0] = 9
    assert tensor.as_numpy() is array
    assert tensor._wire()[2] is array


@pytest.mark.rule("1.4.5")
def test_another_layout_is_copied_once() -> None:
    array = np.arange(6.0).reshape(2, 3).T
    tensor = Tensor("a", array)
    copy = tensor.as_numpy()
    array[0, 0] = 9
    assert copy is tensor.as_numpy() is tensor._wire()[2]
    assert copy.flags.c_contiguous and copy[0, 0] == 0.0


@pytest.mark.rule("1.4.6")
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1, 1)])
def test_scalars_and_empty_arrays(shape: tuple[int, ...]) -> None:
    tensor = Tensor("a", np.ones(shape))
    assert tensor.shape() == list(shape)
    assert tensor.as_numpy().shape == shape


@pytest.mark.rule("1.4.7", "1.6.2")
def test_elements_are_encoded_at_construction() -> None:
    array = np.array(["a", None, 5, b"\xff"], dtype=object)
    tensor = Tensor("a", array)
    array[0] = "changed"
    assert tensor.as_numpy() is array
    sent = Tensor._received("b", 13, [4], memoryview(tensor._wire()[2]), None).as_numpy()
    assert sent.tolist() == [b"a", b"None", b"5", b"\xff"]


@pytest.mark.rule("1.4.8")
def test_the_shape_is_a_new_list_and_that_of_construction() -> None:
    array = np.zeros((2, 3))
    tensor = Tensor("a", array)
    tensor.shape().append(4)
    array.shape = (3, 2)
    assert tensor.shape() == [2, 3]


@pytest.mark.rule("1.4.9")
def test_triton_dtype_never_works() -> None:
    with pytest.raises(TypeError, match="Unable to convert function return value to a Python type!"):
        Tensor("a", np.zeros(1)).triton_dtype()


# -- received


@pytest.mark.rule("1.4.11")
@pytest.mark.parametrize("char", NUMERIC)
def test_an_input_gives_one_private_writable_array(char: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(char)
    tensor = received(values)
    array = tensor.as_numpy()
    assert array.dtype == values.dtype and array.tolist() == values.tolist()
    assert array is tensor.as_numpy() and array.flags.writeable and not array.flags.owndata


@pytest.mark.rule("1.4.11")
def test_writing_to_the_array_does_not_change_the_tensor() -> None:
    tensor = received(np.arange(3))
    tensor.as_numpy()[:] = 7
    assert np.frombuffer(tensor._wire()[2], np.int64).tolist() == [0, 1, 2]
    assert np.from_dlpack(tensor).tolist() == [0, 1, 2]


@pytest.mark.rule("1.4.11")
def test_bytes_inputs_are_decoded_once() -> None:
    tensor = received(np.array([[b"a"], [b""]], dtype=object))
    array = tensor.as_numpy()
    assert array.dtype == object and array.shape == (2, 1) and array.tolist() == [[b"a"], [b""]]
    assert tensor.as_numpy() is array


@pytest.mark.rule("1.6.3")
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x05\x00", "Invalid bytes tensor data: incomplete length field"),
        (b"\x05\x00\x00\x00a", "Invalid bytes tensor data: string extends beyond buffer"),
    ],
)
def test_broken_bytes_are_refused(data: bytes, text: str) -> None:
    with pytest.raises(TritonModelException, match=f"^{text}$"):
        Tensor._received("a", 13, [1], memoryview(data), None).as_numpy()


@pytest.mark.rule("1.4.11")
def test_a_large_input_is_mapped_privately_where_the_lease_can() -> None:
    values = np.arange(1 << 18, dtype=np.float32)
    private = np.array(values.view(np.uint8))
    lease = Lease(private)
    array = received(values, lease).as_numpy()
    assert lease.sizes == [1 << 20]
    assert np.shares_memory(array, private) and array[5] == 5.0
    # a lease that cannot leaves the copy to the tensor
    assert received(values, Lease()).as_numpy()[5] == 5.0


def test_a_small_input_needs_no_mapping() -> None:
    lease = Lease()
    received(np.arange(3), lease).as_numpy()
    assert lease.sizes == []


@pytest.mark.rule("1.4.13")
def test_the_lease_lives_as_long_as_the_tensor() -> None:
    lease = Lease()
    gone = weakref.ref(lease)
    tensor = received(np.arange(3), lease)
    del lease
    array = tensor.as_numpy()
    assert gone() is not None
    del tensor
    gc.collect()
    assert gone() is None
    assert array.tolist() == [0, 1, 2]


@pytest.mark.rule("1.4.10", "1.6.5")
def test_bf16_has_no_numpy_form() -> None:
    tensor = Tensor._received("a", 14, [2], memoryview(b"\x80\x3f\x00\x40"), None)
    with pytest.raises(TritonModelException, match="Tensor dtype is BF16 and cannot be converted to NumPy"):
        tensor.as_numpy()
    assert tensor._wire()[0] == 14


@pytest.mark.rule("1.4.10", "1.5.9")
def test_a_device_tensor_has_no_numpy_form_and_says_where_it_is() -> None:
    tensor = Tensor._received("a", 11, [2], memoryview(b""), None, 2, 1)
    assert not tensor.is_cpu()
    assert tensor.__dlpack_device__() == (2, 1)
    with pytest.raises(TritonModelException, match=r"^Tensor is stored in GPU and cannot be converted to NumPy\.$"):
        tensor.as_numpy()
    own = Tensor.from_dlpack("b", SimulatedArray(np.ones(2, np.float32), 1))
    with pytest.raises(TritonModelException, match=r"^Tensor 'b' in the memory of GPU 1 cannot be sent"):
        own._wire()
    place = packed(DevicePlace(SIMULATED.export(1, own._keep.pointer), 0, 8))
    gone = Tensor._received("c", 11, [2], memoryview(place), None, 2, 1)
    with pytest.raises(TritonModelException, match=r"^Tensor 'c' in the memory of GPU 1 cannot be read: opening"):
        gone.to_dlpack()


@pytest.mark.rule("1.5.8", "1.5.9", "1.5.10")
def test_imported_device_memory_is_handed_on_and_let_go() -> None:
    free = SIMULATED.free_bytes(1)
    array = SimulatedArray(np.arange(3, dtype=np.float32), 1)
    tensor = Tensor.from_dlpack("a", array)
    assert (tensor.is_cpu(), tensor.shape(), tensor.__dlpack_device__()) == (False, [3], (2, 1))
    capsule = tensor.__dlpack__(stream=7)
    del tensor, array
    assert SimulatedArray.from_dlpack(Tensor.from_dlpack("b", capsule)).numpy().tolist() == [0, 1, 2]
    del capsule
    assert SIMULATED.free_bytes(1) == free


def sent(tensor: Tensor) -> tuple[Any, bool]:
    """Return the bytes that are sent of it, and whether they may become others."""
    wires: list[Any] = []
    changeable: list[Any] = []
    add_wires(wires, [tensor], changeable)
    return wires[0][3], bool(changeable)


@pytest.mark.rule("1.4.7")
def test_who_could_change_what_was_sent() -> None:
    own = np.ones(1024)
    # made here: pytest keeps what an assertion's expression is made of
    tensors = {
        "the author's array": Tensor("a", own),
        "a view": Tensor("a", np.ones(2048)[:1024]),
        "imported": Tensor.from_dlpack("a", Tensor("b", own).to_dlpack()),
        "nobody's": Tensor("a", np.ones(1024)),
        "small": Tensor("a", np.ones(2)),
        "encoded": Tensor("a", np.array([b"x"] * 1024)),
        "received": Tensor._received("a", 12, [1024], memoryview(bytes(8192)), None),
    }
    changeable = [name for name, tensor in tensors.items() if sent(tensor)[1]]
    assert changeable == ["the author's array", "a view", "imported", "nobody's"]


@pytest.mark.rule("1.4.7")
@pytest.mark.parametrize("array", [np.ones(2), np.ones((2, 2))[:1, :1], np.array(1.0), np.zeros(0)])
def test_what_a_small_tensor_has_sent_it_sends_again(array: np.ndarray[Any, Any]) -> None:
    tensor, before = Tensor("a", array), array.tobytes()
    assert bytes(sent(tensor)[0]) == before
    array[...] = 5
    assert tensor.as_numpy().tolist() == array.tolist()
    assert bytes(tensor._wire()[2]) == before
    assert tensor._wire()[:2] == (12, list(array.shape))
    if array.size:
        assert np.from_dlpack(tensor).tobytes() == before
