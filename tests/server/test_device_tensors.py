"""Tensors in the memory of simulated GPUs, from the kernel to real stubs and back."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conformance.rules import rule
from tests.serving import DECOUPLED, SCRIPTED, SCRIPTED_CONFIG, Lab, Script, eventually, in_threads
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InvalidArgumentError, UnavailableError, UnsupportedError
from tritonlab.exchanges.remote.remote_server import connect
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints
from tritonlab.ipc.gpu.gpu_buffers import GpuBuffers
from tritonlab.record.tensor_peek import TensorPeek
from tritonlab.stub._pb_stub.api.dlpack import export_device
from tritonlab.stub._pb_stub.api.simulated_array import SimulatedArray
from tritonlab.stub._pb_stub.devices.gpus import SIMULATED

MIB = 1 << 20
ON_DEVICE = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }'
#: For scripts that read and make device memory in the stub.
GPU = "from _pb_stub.api.simulated_array import SimulatedArray\n"
HANDED_ON = """
x = tensor(request, 'X')
x._name = 'OUT'  # an identity model names both the same
return [pb_utils.InferenceResponse([x])]
"""
DOUBLED = (
    GPU
    + """
here = SimulatedArray.from_dlpack(tensor(request, 'X'))
made = SimulatedArray(here.numpy() * 2, here.device)
return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack('OUT', made)])]
"""
)
MADE = (
    GPU
    + "return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack('OUT', SimulatedArray(np.float32([1, 2])))])]"
)


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("repository"), simulated_gpus=2, cuda_memory_pool_sizes={1: MIB})
    yield lab
    lab.server.stop()


@pytest.fixture
def script(gpus: Lab) -> Script:
    return gpus.script("device", SCRIPTED_CONFIG + ON_DEVICE)


@pytest.fixture
def on_host(gpus: Lab) -> Script:
    return gpus.script("host")


def array(count: int = 4) -> NDArray[np.float32]:
    return np.arange(count, dtype=np.float32)


def sent(script: Script, code: str, **inputs: Any) -> Tensor:
    """Return the output OUT of the only response."""
    (response,) = script.infer(code, **inputs)
    return response.outputs["OUT"]


def read(tensor: Tensor) -> NDArray[Any]:
    return SimulatedArray.from_dlpack(tensor).numpy()


def buffers(gpus: Lab) -> GpuBuffers:
    return gpus.server.core.pool.gpu_buffers


def in_use(gpus: Lab, device: int = 0) -> int:
    gc.collect()
    return buffers(gpus).use(device)[0]


# -- there and back


def test_a_tensor_goes_to_the_model_and_comes_back_on_the_device(script: Script) -> None:
    before = SIMULATED.copied
    x = SimulatedArray(array(), device=1)
    found = sent(script, DOUBLED, X=x)
    assert (found.memory_type, found.device_id, found.shape) == (2, 1, (4,))
    assert (found.__dlpack_device__(), repr(found)) == ((2, 1), "<Tensor FP32 [4] in the memory of simulated GPU 1>")
    after = SIMULATED.copied
    assert after.to_device - before.to_device == x.nbytes, "only the test's own array was copied to the device"
    assert after.to_host == before.to_host
    assert read(found).tolist() == [0, 2, 4, 6]


def test_a_model_that_hands_a_tensor_on_copies_nothing_and_maps_nothing(script: Script) -> None:
    x = SimulatedArray(array())
    staged = sent(script, HANDED_ON, X=x)
    before = SIMULATED.copied
    again = sent(script, HANDED_ON, X=staged)
    assert SIMULATED.copied == before
    assert again.data is staged.data
    assert read(again).tolist() == [0, 1, 2, 3]


@rule("1.4.10", "1.5.8")
def test_the_model_sees_a_tensor_on_a_gpu(script: Script) -> None:
    x = SimulatedArray(array(), device=1)
    assert (
        script.text("(tensor(request, 'X').is_cpu(), tensor(request, 'X').__dlpack_device__())", X=x)
        == "(False, (2, 1))"
    )
    error = script.fails("tensor(request, 'X').as_numpy()", X=x)
    assert "Tensor is stored in GPU and cannot be converted to NumPy." in error.message


@rule("2.12.1")
def test_by_default_a_model_gets_inputs_in_host_memory_and_the_answer_is_on_the_host(on_host: Script) -> None:
    before = SIMULATED.copied
    found = on_host("return [answer(OUT=tensor(request, 'X').as_numpy() + 1)]", X=SimulatedArray(array()))
    assert found["OUT"].tolist() == [1, 2, 3, 4]
    assert SIMULATED.copied.to_host - before.to_host == 16
    assert on_host.text("tensor(request, 'X').is_cpu()", X=SimulatedArray(array())) == "True"


def test_an_answer_comes_to_the_host_if_the_request_came_from_there(script: Script) -> None:
    found = sent(script, MADE)
    assert (found.memory_type, found.numpy().tolist()) == (0, [1, 2])


def test_an_output_on_the_device_stays_there_though_the_inputs_were_forced_to_the_host(on_host: Script) -> None:
    assert read(sent(on_host, MADE, X=SimulatedArray(array()))).tolist() == [1, 2]


@pytest.mark.parametrize("shape", [(0,), (5,), (300_000,)])
def test_tensors_of_every_size_cross(script: Script, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, np.float32)
    assert read(sent(script, DOUBLED, X=SimulatedArray(array))).tolist() == (array * 2).tolist()


def test_bf16_crosses(script: Script) -> None:
    class BF16:
        """An array of bit patterns that says they are BF16."""

        def __init__(self) -> None:
            self.inner = SimulatedArray(np.uint16([0x3F80, 0x4000]))

        def __dlpack__(self, stream: Any = None) -> Any:
            return export_device(self.inner._address, 0, 14, [2], self.inner)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.inner.__dlpack_device__()

    code = "z = tensor(request, 'Z'); z._name = 'B'; return [pb_utils.InferenceResponse([z])]"
    (response,) = script.infer(code, Z=BF16())
    found = response.outputs["B"]
    assert (found.datatype.name, found.memory_type) == ("BF16", 2)
    assert read(found).tolist() == [0x3F80, 0x4000]


def test_what_is_no_tensor_is_refused(script: Script) -> None:
    with pytest.raises(InvalidArgumentError, match="_Cuda has elements that Triton has no datatype for"):
        script.infer("return [answer()]", X=_Cuda("<c8"))
    with pytest.raises(InvalidArgumentError, match="not C-contiguous"):
        script.infer("return [answer()]", X=_Cuda("<f4", (8,)))


class _Cuda:
    """An array as numba's are: with the CUDA array interface, without DLPack."""

    def __init__(self, typestr: str = "<f4", strides: tuple[int, ...] | None = None) -> None:
        self.inner = SimulatedArray(array())
        size = int(typestr[-1])
        self.__cuda_array_interface__ = {
            "shape": (16 // size,),
            "typestr": typestr,
            "data": (self.inner._address, False),
            "version": 3,
            "strides": strides,
            "stream": 1,
        }


def test_the_cuda_array_interface_is_read(script: Script) -> None:
    assert read(sent(script, DOUBLED, X=_Cuda())).tolist() == [0, 2, 4, 6]


# -- in the kernel


def test_numpy_says_where_the_tensor_is_and_how_to_copy_it(script: Script) -> None:
    found = sent(script, DOUBLED, X=SimulatedArray(array()))
    for access in (found.numpy, lambda: np.asarray(found), lambda: found.data.shape):
        with pytest.raises(UnsupportedError, match=r"in the memory of GPU 0, where numpy .* tensor.to_host\(\)"):
            access()
    assert found.to_host().numpy().tolist() == [0, 2, 4, 6]
    assert np.from_dlpack(found, device="cpu").tolist() == [0, 2, 4, 6]  # type: ignore[call-overload]
    assert found.to_dict()["values"] == "in the memory of simulated GPU 0"


def test_what_is_written_to_a_response_is_sent_with_it(script: Script) -> None:
    found = sent(script, DOUBLED, X=SimulatedArray(array()))
    SimulatedArray.from_dlpack(found).write(np.float32([5, 6, 7, 8]))
    assert read(sent(script, DOUBLED, X=found)).tolist() == [10, 12, 14, 16]


def test_a_simulated_array_needs_a_server_with_simulated_gpus(tmp_path: Any) -> None:
    lab = Lab(tmp_path)
    try:
        script = lab.script(config_text=SCRIPTED_CONFIG + ON_DEVICE)
        assert "Options(simulated_gpus=…)" in script.fails("return []", X=SimulatedArray(array())).message
    finally:
        lab.server.stop()


# -- models that call models


@pytest.fixture
def caller(gpus: Lab, script: Script) -> Script:
    return gpus.script("caller", SCRIPTED_CONFIG + ON_DEVICE)


def call(more: str, then: str, preferred: str = "") -> str:
    memory = f", preferred_memory=pb_utils.PreferredMemory(pb_utils.{preferred})" if preferred else ""
    return f"""
code = pb_utils.Tensor('CODE', np.array([{more!r}], dtype=object))
inputs = [code] + [each for each in request.inputs() if each.name() == 'X']
call = pb_utils.InferenceRequest(model_name='device', inputs=inputs, requested_output_names=['OUT']{memory})
got = call.exec()
assert not got.has_error(), got.error().message()
out = pb_utils.get_output_tensor_by_name(got, 'OUT')
{then}
"""


@rule("1.12.2", "4.1.4")
def test_outputs_of_a_call_stay_where_the_called_model_left_them(caller: Script) -> None:
    then = "return [answer(TEXT=np.array([str((out.is_cpu(), out.__dlpack_device__()))], dtype=object))]"
    x = SimulatedArray(array(), device=1)
    (response,) = caller.infer(call(DOUBLED, then), X=x)
    assert response.outputs["TEXT"].numpy()[0] == b"(False, (2, 1))"
    assert read(sent(caller, call(DOUBLED, "return [pb_utils.InferenceResponse([out])]"), X=x)).tolist() == [0, 2, 4, 6]


@rule("1.12.2")
@pytest.mark.parametrize(
    ("code", "preferred", "place"),
    [
        (MADE, "TRITONSERVER_MEMORY_CPU", (1, 0)),
        ("return [answer(OUT=np.float32([1, 2]))]", "TRITONSERVER_MEMORY_GPU, 1", (2, 1)),
        ("return [answer(OUT=np.float32([1, 2]))]", "TRITONSERVER_MEMORY_GPU, 70", (1, 0)),
        ("return [answer(OUT=np.float32([1, 2]))]", "TRITONSERVER_MEMORY_CPU", (1, 0)),
    ],
)
def test_preferred_memory_is_met_where_it_can_be(
    caller: Script, code: str, preferred: str, place: tuple[int, int]
) -> None:
    then = "values = (SimulatedArray.from_dlpack(out).numpy() if not out.is_cpu() else out.as_numpy()).tolist()\n"
    then = GPU + then + "return [answer(TEXT=np.array([str((out.__dlpack_device__(), values))], dtype=object))]"
    (text,) = caller(call(code, then, preferred))["TEXT"]
    assert text.decode() == str((place, [1.0, 2.0]))


def test_an_ensemble_keeps_tensors_on_the_device_between_its_steps(gpus: Lab, script: Script) -> None:
    tensors = """
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
"""
    step = """
step {{ model_name: "doubles" model_version: -1
  input_map {{ key: "X" value: "{}" }} output_map {{ key: "OUT" value: "{}" }} }}
"""
    steps = (
        f'platform: "ensemble" {tensors} ensemble_scheduling {{ {step.format("X", "M")} {step.format("M", "OUT")} }}'
    )
    source = SCRIPTED.replace('tensor(requests[0], "CODE").as_numpy().reshape(-1)[0].decode()', repr(DOUBLED))
    gpus.load("doubles", source, f'backend: "python" {tensors} instance_group {{ kind: KIND_CPU }} {ON_DEVICE}')
    gpus.write("twice", "", steps)
    (gpus.repository / "twice" / "1" / "model.py").unlink()
    model = gpus.server.load("twice")
    before = SIMULATED.copied.to_host
    (response,) = model.infer(inputs={"X": SimulatedArray(array())})
    assert SIMULATED.copied.to_host == before
    assert read(response.outputs["OUT"]).tolist() == [0, 4, 8, 12]


def test_an_ensemble_answers_a_client_of_the_host_there(gpus: Lab) -> None:
    source = SCRIPTED.replace('tensor(requests[0], "CODE").as_numpy().reshape(-1)[0].decode()', repr(MADE))
    tensors = """
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
"""
    gpus.load("makes", source, f'backend: "python" {tensors} instance_group {{ kind: KIND_CPU }}')
    step = 'input_map { key: "X" value: "X" } output_map { key: "OUT" value: "OUT" }'
    step = f'step {{ model_name: "makes" model_version: -1 {step} }}'
    gpus.write("around", "", f'platform: "ensemble" {tensors} ensemble_scheduling {{ {step} }}')
    (gpus.repository / "around" / "1" / "model.py").unlink()
    (response,) = gpus.server.load("around").infer(inputs={"X": array()})
    assert response.outputs["OUT"].numpy().tolist() == [1, 2]


def test_a_decoupled_model_sends_tensors_on_the_device(gpus: Lab) -> None:
    streams = gpus.script("streams", SCRIPTED_CONFIG + ON_DEVICE + DECOUPLED)
    code = GPU + (
        "sender = request.get_response_sender()\n"
        "for n in range(3):\n"
        "    out = pb_utils.Tensor.from_dlpack('OUT', SimulatedArray(np.float32([n]), 1))\n"
        "    sender.send(pb_utils.InferenceResponse([out]))\n"
        "sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)"
    )
    found = [each.outputs["OUT"] for each in streams.infer(code, X=SimulatedArray(array())) if each.outputs]
    assert [read(each).tolist() for each in found] == [[0], [1], [2]]
    assert {each.device_id for each in found} == {1}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_remote_client_sends_and_gets_the_bytes(gpus: Lab, on_host: Script, protocol: str) -> None:
    doubled = np.array([b"return [answer(OUT=tensor(request, 'X').as_numpy() * 2)]"], dtype=np.object_)
    made = np.array([MADE.encode()], dtype=np.object_)
    with Endpoints(gpus.server.core, EndpointOptions(http_port=0, grpc_port=0, metrics=False)) as endpoints:
        model = connect(f"{protocol}://{endpoints.places[protocol.upper()]}").model("host")
        assert model(CODE=doubled, X=SimulatedArray(array()))["OUT"].tolist() == [0, 2, 4, 6]
        assert model(CODE=made)["OUT"].tolist() == [1, 2]


# -- lifetimes


def test_memory_is_used_again_request_after_request(gpus: Lab, script: Script) -> None:
    sent(script, DOUBLED, X=SimulatedArray(array(1000)))
    sent(script, DOUBLED, X=SimulatedArray(array(1000)))
    before, held = in_use(gpus), SIMULATED.free_bytes(0)
    for _ in range(200):
        sent(script, DOUBLED, X=SimulatedArray(array(1000)))
    assert in_use(gpus) == before
    gc.collect()
    assert SIMULATED.free_bytes(0) == held


def test_many_threads_get_their_own_tensors_while_memory_is_released(gpus: Lab) -> None:
    script = gpus.script("many", SCRIPTED_CONFIG.replace("count: 1", "count: 2") + ON_DEVICE)
    idle = gpus.server.core._parts.idle_memory

    def send_often(caller: int) -> None:
        for n in range(15):
            x = array(100 + caller) + n
            kept = sent(script, DOUBLED if n % 3 else HANDED_ON, X=SimulatedArray(x, device=caller % 2))
            if caller == 0:
                idle.give_back(idle._processes())
            assert read(kept).tolist() == (x * (2 if n % 3 else 1)).tolist()

    in_threads(4, send_often)


def test_a_kept_response_keeps_its_memory_when_others_come_and_its_stub_dies(gpus: Lab, script: Script) -> None:
    kept = [sent(script, DOUBLED, X=SimulatedArray(array() + n)) for n in range(5)]
    handed = [sent(script, HANDED_ON, X=SimulatedArray(array() + n)) for n in range(5)]
    pid = script.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: script.instance.pid != pid and script.model.ready())
    for _ in range(20):
        sent(script, DOUBLED, X=SimulatedArray(array() + 100))
    for n, (first, second) in enumerate(zip(kept, handed, strict=True)):
        assert read(first).tolist() == ((array() + n) * 2).tolist()
        assert read(second).tolist() == (array() + n).tolist()


def test_a_killed_stub_gives_its_memory_back(gpus: Lab) -> None:
    script = gpus.script("killed", SCRIPTED_CONFIG + ON_DEVICE)
    before = in_use(gpus)
    sent(script, DOUBLED, X=SimulatedArray(array()))
    assert in_use(gpus) > before
    pid = script.pid
    error = script.fails("os.kill(os.getpid(), signal.SIGKILL)", X=SimulatedArray(array()))
    assert "is not healthy" in error.message
    eventually(lambda: script.instance.pid != pid and script.model.ready())
    del error
    eventually(lambda: in_use(gpus) == before)


def test_an_input_that_the_model_keeps_is_not_overwritten(script: Script) -> None:
    script("self.kept['x'] = tensor(request, 'X'); return [answer()]", X=SimulatedArray(array() + 7))
    for _ in range(5):
        sent(script, DOUBLED, X=SimulatedArray(array()))
    read_kept = GPU + "return [answer(OUT=SimulatedArray.from_dlpack(self.kept.pop('x')).numpy())]"
    assert script(read_kept)["OUT"].tolist() == [7, 8, 9, 10]


@rule("1.4.7")
def test_a_tensor_sent_twice_is_sent_as_it_was_at_first(script: Script) -> None:
    keep = GPU + (
        "made = self.kept['made'] = SimulatedArray(np.float32([1, 2]))\n"
        "out = self.kept['out'] = pb_utils.Tensor.from_dlpack('OUT', made)\n"
        "return [pb_utils.InferenceResponse([out])]"
    )
    x = SimulatedArray(array())
    first = sent(script, keep, X=x)
    changed = "self.kept['made'].write(np.float32([8, 9])); return [pb_utils.InferenceResponse([self.kept['out']])]"
    assert read(sent(script, changed, X=x)).tolist() == [1, 2] == read(first).tolist()
    script("self.kept.clear(); return [answer()]")


# -- the pool, and where it ends


def test_a_full_pool_is_followed_by_an_allocation_that_is_freed_when_memory_is_released(
    gpus: Lab, script: Script
) -> None:
    # 4 MB; the pool of device 1 has one
    sent(script, DOUBLED, X=SimulatedArray(np.ones(MIB, np.float32), device=1))
    gc.collect()
    _, allocated = buffers(gpus).use(1)
    assert allocated > 4 * MIB and buffers(gpus).grown

    idle = gpus.server.core._parts.idle_memory

    def is_released() -> bool:
        idle.give_back(idle._processes())  # does nothing while the server itself is at it
        return buffers(gpus).use(1)[1] <= MIB

    eventually(is_released)
    assert not buffers(gpus).grown
    assert read(sent(script, DOUBLED, X=SimulatedArray(array(), device=1))).tolist() == [0, 2, 4, 6]


def test_a_device_without_room_says_so_and_the_model_goes_on(script: Script) -> None:
    array = SimulatedArray(np.ones(2 * MIB, np.float32), device=1)
    taken = SIMULATED.allocate(1, SIMULATED.free_bytes(1) - 64)
    try:
        error = script.fails("return [answer()]", X=array)
        assert isinstance(error, UnavailableError)
        assert "no memory for a tensor on GPU 1" in error.message and "CUDA_ERROR_OUT_OF_MEMORY" in error.message
        large = "SimulatedArray(np.ones(5 << 20, np.float32), 1)"
        code = f"{GPU}return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack('OUT', {large})])]"
        error = script.fails(code)
        assert "Tensor 'OUT' in the memory of GPU 1 cannot be sent" in error.message
        assert "CUDA_ERROR_OUT_OF_MEMORY" in error.message
    finally:
        SIMULATED.free(1, taken)
    assert read(sent(script, DOUBLED, X=array)).tolist() == [2] * 2 * MIB


# -- who looks on


def test_a_look_at_the_values_tells_where_they_are_and_holds_no_memory(gpus: Lab, script: Script) -> None:
    peek = TensorPeek("device")
    gpus.server.instruments.add(peek)
    try:
        (response,) = script.infer(DOUBLED, X=SimulatedArray(array()))
    finally:
        gpus.server.instruments.remove(peek)
    (serial,) = peek._seen
    assert "sent OUT = <Tensor FP32 [4] in the memory of simulated GPU 0>" in peek.lines(serial)
    memory = weakref.ref(response.outputs["OUT"].data)
    del response
    gc.collect()
    assert memory() is None


def test_a_failure_is_kept_with_the_values_of_its_inputs(gpus: Lab, script: Script) -> None:
    script.fails("raise ValueError('on purpose')", X=SimulatedArray(array()))
    capsules, _, _ = gpus.server.core.failures.of_model("device")
    tensor = capsules[-1].requests[0].inputs["X"].tensor
    assert tensor is not None and tensor.numpy().tolist() == [0, 1, 2, 3]


# -- forked processes


def test_the_error_of_a_process_that_the_model_forked_says_that_it_cannot_use_the_gpu(script: Script) -> None:
    code = (
        GPU
        + """
made = SimulatedArray(np.float32([1, 2]))
read, write = os.pipe()
if not os.fork():
    try:
        made.numpy()
    except BaseException as error:
        os.write(write, str(error).encode())
    finally:
        os._exit(0)
os.close(write)
text = os.read(read, 1000).decode()
os.close(read)
os.wait()
return [answer(TEXT=np.array([text], dtype=object))]
"""
    )
    (text,) = script(code)["TEXT"]
    assert b"CUDA_ERROR_NOT_INITIALIZED" in text and b"spawn" in text
