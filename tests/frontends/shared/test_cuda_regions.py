"""CUDA shared memory: a client in another process makes memory of a (simulated) GPU and registers it by its handle."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from tests.conformance.rules import rule
from tests.driver_process import DriverProcess
from tests.models import IDENTITY, answers, executes
from tests.serving import Lab, config, eventually
from tritonlab.core.status import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    TritonError,
)
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints
from tritonlab.frontends.shared.cuda_region import CudaRegion, ServerGpus
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager
from tritonlab.ipc.gpu.gpu_buffers import GpuBuffers
from tritonlab.ipc.gpu.visible_gpus import VisibleGpus
from tritonlab.record.record_facts import DeviceCopies, device_copies
from tritonlab.record.recorder import Recorder
from tritonlab.stub._pb_stub.devices.gpus import SIMULATED

SIZE = 4096
BAD = "failed to register shared memory region: invalid args"
DOUBLE = answers("2 * x")

#: Computes on the simulated device, whose memory only its driver reads: nothing is counted as a copy.
DOUBLE_THERE = executes(
    "arrays = [SimulatedArray.from_dlpack(request.inputs()[0]) for request in requests]\n"
    "made = [SimulatedArray(array.numpy() * 2, array.device) for array in arrays]\n"
    'return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", each)]) for each in made]',
    imports="from _pb_stub.api.simulated_array import SimulatedArray",
)
ON_DEVICE = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }'


class GpuClient:
    """A client's process with memory of GPU 0, as `tritonclient.utils.cuda_shared_memory` makes it of a real one."""

    def __init__(self, process: DriverProcess) -> None:
        self._process = process
        self._address = process.call("allocate", 0, SIZE)
        self.write(0, bytes(SIZE))
        self.handle = bytes.fromhex(process.call("export", 0, self._address))

    def write(self, offset: int, data: bytes) -> None:
        self._process.call("copy_in", 0, self._address + offset, data)

    def read(self, offset: int, size: int) -> bytes:
        found = self._process.call("copy_out", 0, self._address + offset, bytes(size))
        assert isinstance(found, bytes)
        return found


@pytest.fixture
def client() -> Iterator[GpuClient]:
    with DriverProcess() as process:
        yield GpuClient(process)


@pytest.fixture
def manager() -> SharedMemoryManager:
    return SharedMemoryManager(True, ServerGpus(VisibleGpus(simulated=2), GpuBuffers(SIMULATED)))


def refusal(error: type[TritonError], text: str) -> AbstractContextManager[object]:
    return pytest.raises(error, match=f"^{re.escape(text)}")


# the table of regions


@rule("6.10.5")
def test_what_a_client_wrote_is_read_and_what_is_written_it_reads(
    manager: SharedMemoryManager, client: GpuClient
) -> None:
    manager.register_cuda("a", client.handle, 0, SIZE)
    client.write(8, b"12345678")
    assert bytes(manager.read("a", 6, 12)) == b"\0\0" + b"12345678" + b"\0\0"
    manager.write("a", 16, np.array([[1, 2]], np.uint16))
    manager.write("a", SIZE - 1, b"x")
    assert client.read(16, 4) == b"\1\0\2\0"
    assert client.read(SIZE - 1, 1) == b"x"


@rule("6.10.3", "6.10.5")
def test_status_and_unregister_mind_the_kind(manager: SharedMemoryManager, client: GpuClient) -> None:
    path = Path("/dev/shm") / f"tritonlab_test_{client.handle.hex()[:40]}"
    path.write_bytes(bytes(64))
    try:
        manager.register_system("s", f"/{path.name}", 0, 64)
    finally:
        path.unlink()
    manager.register_cuda("b", client.handle, 0, 16)
    manager.register_cuda("a", client.handle, 0, SIZE)
    facts = [{"name": "a", "device_id": 0, "byte_size": SIZE}, {"name": "b", "device_id": 0, "byte_size": 16}]
    assert manager.status(kind=CudaRegion) == facts
    assert manager.status("b", CudaRegion) == facts[1:]
    assert [entry["name"] for entry in manager.status()] == ["s"]
    with refusal(NotFoundError, "The region named 'a' is registered as CUDA shared memory, not system shared memory"):
        manager.status("a")
    with refusal(AlreadyExistsError, "shared memory region 's' already in manager"):
        manager.register_cuda("s", client.handle, 0, SIZE)
    manager.unregister("a")
    manager.unregister("s", CudaRegion)
    manager.unregister()
    assert manager.status(kind=CudaRegion) == facts
    manager.unregister("b", CudaRegion)
    assert manager.status(kind=CudaRegion) == facts[:1]
    manager.unregister(kind=CudaRegion)
    assert not manager.in_use


@rule("6.10.5")
def test_a_handle_that_is_none(manager: SharedMemoryManager, client: GpuClient) -> None:
    with refusal(InvalidArgumentError, f"{BAD}: 'a', opening another process"):
        manager.register_cuda("a", b"x" * 64, 0, SIZE)
    with refusal(InvalidArgumentError, f"{BAD}: 'a', opening another process"):
        manager.register_cuda("a", client.handle, 1, SIZE)
    with refusal(InvalidArgumentError, f"{BAD}: 'a', GPU 2 does not exist; this server has GPUs 0 and 1"):
        manager.register_cuda("a", client.handle, 2, SIZE)
    with refusal(InvalidArgumentError, "failed to register shared memory region 'a': invalid args"):
        manager.register_cuda("a", client.handle, 0, SIZE + 1)
    assert not manager.in_use


def test_memory_of_this_process_is_refused_with_a_reason(manager: SharedMemoryManager) -> None:
    address = SIMULATED.allocate(0, 64)
    try:
        with pytest.raises(InvalidArgumentError, match="A handle can be opened by another process only"):
            manager.register_cuda("a", SIMULATED.export(0, address), 0, 64)
    finally:
        SIMULATED.free(0, address)


def test_a_client_that_is_gone_fails_what_uses_its_memory(manager: SharedMemoryManager) -> None:
    with DriverProcess() as process:
        manager.register_cuda("a", GpuClient(process).handle, 0, SIZE)
    why = "its owner has no such memory.*has freed the memory, or has ended"
    with pytest.raises(InternalError, match=f"^failed to read shared memory region 'a': .*{why}"):
        manager.read("a", 0, 8)
    with pytest.raises(InternalError, match=f"^failed to write shared memory region 'a': .*{why}"):
        manager.write("a", 0, b"x")
    manager.unregister("a", CudaRegion)


@rule("6.10.4")
def test_bounds_are_those_of_the_region(manager: SharedMemoryManager, client: GpuClient) -> None:
    manager.register_cuda("a", client.handle, 0, 64)
    for offset, size in ((60, 8), (0, 65)):
        with refusal(InvalidArgumentError, "Invalid offset + byte size for shared memory region: 'a'"):
            manager.read("a", offset, size)
    with refusal(InvalidArgumentError, "Invalid offset for shared memory region: 'a'"):
        manager.write("a", 64, b"x")


def test_the_mapping_ends_with_its_last_user(manager: SharedMemoryManager, client: GpuClient) -> None:
    manager.register_cuda("a", client.handle, 0, SIZE)
    manager.register_cuda("b", client.handle, 0, SIZE)
    region = manager._find("a", 0, 8)
    manager.unregister(kind=CudaRegion)
    assert isinstance(region, CudaRegion)
    address = region.memory.address
    assert bytes(region.read(0, 8)) == bytes(8)  # of a request that is under way
    del region
    with pytest.raises(Exception, match="address"):
        SIMULATED.base_of(address)


# over the network


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("repository"), simulated_gpus=1)
    yield lab
    lab.server.stop()


@pytest.fixture(scope="module", params=["http", "grpc"])
def connection(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Any]:
    lab.load("double", DOUBLE, config("IN FP32 -1", "OUT FP32 -1"))
    lab.load("double_there", DOUBLE_THERE, config("IN FP32 -1", "OUT FP32 -1", ON_DEVICE))
    made = DOUBLE_THERE.replace("array.numpy() * 2, array.device", "np.full(2, 3, np.float32)")
    made = made.replace("SimulatedArray.from_dlpack(request.inputs()[0])", "request.inputs()[0]")
    lab.load("made_there", made, config("IN FP32 -1", "OUT FP32 -1", ON_DEVICE))
    lab.load("text", IDENTITY, config("IN STRING -1", "OUT STRING -1", ON_DEVICE))
    options = EndpointOptions(client_shm=True, http_port=0, grpc_port=0, metrics=False)
    with Endpoints.from_server(lab.server, options) as endpoints:
        module = getattr(tritonclient, request.param)
        client = module.InferenceServerClient(getattr(endpoints, request.param))
        client.module = module
        yield client
        client.close()


@pytest.fixture
def registered(connection: Any, client: GpuClient) -> Iterator[Callable[..., Any]]:
    """Yield a function that sends a request with input and output in the client's region and returns the answer."""
    module = connection.module
    connection.register_cuda_shared_memory("r", base64.b64encode(client.handle), 0, SIZE)

    def infer(model: str, size: int, at: int, to: int, room: int | None = None) -> Any:
        tensor = module.InferInput("IN", [size // 4], "FP32")
        tensor.set_shared_memory("r", size, offset=at)
        wanted = module.InferRequestedOutput("OUT")
        wanted.set_shared_memory("r", size if room is None else room, offset=to)
        return connection.infer(model, [tensor], outputs=[wanted])

    yield infer
    connection.unregister_cuda_shared_memory("r")


def test_tensors_come_from_and_go_to_a_clients_gpu(registered: Callable[..., Any], client: GpuClient, lab: Lab) -> None:
    numbers = np.arange(8, dtype=np.float32)
    client.write(64, numbers.tobytes())
    recording = Recorder.for_instruments(lab.server.instruments).recording
    recording.clear()
    registered("double", 32, 64, 128)
    assert client.read(128, 32) == (2 * numbers).tobytes()
    # the request may be answered before its reader has reported it
    eventually(lambda: device_copies(recording.model("double")) == DeviceCopies(1, 32, 32, simulated=True))


def test_a_model_on_the_gpu_gets_and_gives_tensors_without_a_copy_to_the_host(
    registered: Callable[..., Any], client: GpuClient, lab: Lab
) -> None:
    recording = Recorder.for_instruments(lab.server.instruments).recording
    recording.clear()
    numbers = np.arange(8, dtype=np.float32)
    client.write(0, numbers.tobytes())
    before = SIMULATED.copied
    registered("double_there", 32, 0, 256)
    after = SIMULATED.copied
    assert (after.to_device, after.to_host) == (before.to_device, before.to_host)
    assert client.read(256, 32) == (2 * numbers).tobytes()
    assert device_copies(recording.model("double_there")) is None


def test_an_output_on_the_gpu_that_the_client_wants_elsewhere_is_brought_to_the_host(
    registered: Callable[..., Any], connection: Any, client: GpuClient, lab: Lab
) -> None:
    recording = Recorder.for_instruments(lab.server.instruments).recording
    recording.clear()
    client.write(0, np.arange(8, dtype=np.float32).tobytes())
    tensor = connection.module.InferInput("IN", [8], "FP32")
    tensor.set_shared_memory("r", 32)
    found = connection.infer("double_there", [tensor]).as_numpy("OUT")
    assert found.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert device_copies(recording.model("double_there")) == DeviceCopies(1, 0, 32, simulated=True)


def test_an_output_goes_from_the_gpu_to_the_clients_though_the_input_came_from_the_host(
    registered: Callable[..., Any], connection: Any, client: GpuClient, lab: Lab
) -> None:
    recording = Recorder.for_instruments(lab.server.instruments).recording
    recording.clear()
    tensor = connection.module.InferInput("IN", [2], "FP32")
    tensor.set_data_from_numpy(np.ones(2, np.float32))
    wanted = connection.module.InferRequestedOutput("OUT")
    wanted.set_shared_memory("r", 8, offset=512)
    connection.infer("made_there", [tensor], outputs=[wanted])
    assert client.read(512, 8) == np.full(2, 3, np.float32).tobytes()
    assert device_copies(recording.model("made_there")) is None
    assert connection.infer("made_there", [tensor]).as_numpy("OUT").tolist() == [3, 3]
    assert device_copies(recording.model("made_there")) == DeviceCopies(1, 0, 8, simulated=True)


def test_text_is_read_to_the_host(registered: Callable[..., Any], connection: Any, client: GpuClient, lab: Lab) -> None:
    recording = Recorder.for_instruments(lab.server.instruments).recording
    recording.clear()
    text = serialize_byte_tensor(np.array([b"a", b"bc"], object)).item()
    client.write(0, text)
    tensor = connection.module.InferInput("IN", [2], "BYTES")
    tensor.set_shared_memory("r", len(text))
    assert connection.infer("text", [tensor]).as_numpy("OUT").tolist() == [b"a", b"bc"]
    eventually(lambda: device_copies(recording.model("text")) == DeviceCopies(1, 0, len(text), simulated=True))


def test_status_over_the_network(connection: Any, registered: Callable[..., Any]) -> None:
    status = connection.get_cuda_shared_memory_status()
    if connection.module is tritonclient.http:
        assert status == [{"name": "r", "device_id": 0, "byte_size": SIZE}]
        assert connection.get_system_shared_memory_status() == []
    else:
        assert [(r.name, r.device_id, r.byte_size) for r in status.regions.values()] == [("r", 0, SIZE)]
        assert not connection.get_system_shared_memory_status().regions
    connection.unregister_cuda_shared_memory()
    with pytest.raises(InferenceServerException, match="Unable to find cuda shared memory region: 'r'"):
        connection.get_cuda_shared_memory_status("r")


def test_an_output_without_room_fails_its_request_only(registered: Callable[..., Any], client: GpuClient) -> None:
    with pytest.raises(InferenceServerException, match=r"should be at least 32 bytes to hold the results"):
        registered("double", 32, 0, 64, room=16)
    registered("double", 32, 0, 64)
