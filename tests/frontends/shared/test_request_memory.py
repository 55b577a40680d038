from __future__ import annotations

import gc
import json
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.conformance.raw_http import RawHTTP
from tests.conformance.rules import rule
from tests.models import executes
from tests.serving import SOON, Lab, config, eventually
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints
from tritonlab.frontends.shared import request_memory
from tritonlab.frontends.shared.request_memory import Body, NoRoomError, RequestMemory, TooLargeError, too_much_unread
from tritonlab.ipc.processes.memory_room import RESERVE, ROOM

MB = 1 << 20


def test_one_request_may_take_a_quarter_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, most, over_grpc in (
        (16 << 30, 4 << 30, 2 << 30),
        (100 * MB, 64 * MB, 64 * MB),
        (0, 1 << 30, 512 * MB),
    ):
        monkeypatch.setattr(request_memory, "memory_limit", lambda limit=limit: limit)
        memory = RequestMemory()
        assert (memory.most, memory.total, memory.most_at_once) == (most, 2 * most, over_grpc)
    assert RequestMemory(5).most == RequestMemory(5).most_at_once == 5


def test_a_request_that_is_too_large_is_refused_with_what_sets_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    RequestMemory(5).check(5)
    with pytest.raises(TooLargeError) as raised:
        RequestMemory(5).check(6)
    assert str(raised.value) == (
        "The request has 6 bytes, more than the limit of 5; '--max-message-size=<bytes>' of 'tritonlab serve', or "
        "max_message_size of 'Options' and 'serve()', sets another."
    )
    monkeypatch.setattr(request_memory, "memory_limit", lambda: 400 * MB)
    with pytest.raises(TooLargeError, match=f"limit of {100 * MB}, a quarter of the memory there is;"):
        RequestMemory().check(101 * MB)


def test_a_body_is_counted_as_long_as_it_lives() -> None:
    memory = RequestMemory(10)
    body = memory.body(b"1234")
    body.add(b"567890")
    assert bytes(body) == b"1234567890"
    with pytest.raises(TooLargeError, match="The request has 11 bytes"):
        body.add(b"1")
    with pytest.raises(NoRoomError, match="take 6 of the 20 bytes"):
        memory.take(15, 0)
    view = memoryview(body)
    del body
    with pytest.raises(NoRoomError):
        memory.take(15, 0)
    del view
    memory.take(15, 0)


def test_what_is_held_is_counted_until_it_is_dropped() -> None:
    memory = RequestMemory(10)
    held = memory.hold(20)
    with pytest.raises(NoRoomError):
        memory.hold(1)
    del held
    memory.hold(20)


def test_what_only_a_cycle_holds_is_no_reason_to_refuse() -> None:
    memory = RequestMemory(10)
    gc.disable()
    try:
        cycle: list[object] = [memory.hold(20)]
        cycle.append(cycle)
        del cycle
        memory.take(20, 0)
    finally:
        gc.enable()


def test_a_piece_for_which_there_is_no_memory_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(Body):
        def extend(self, piece: object) -> None:
            raise MemoryError

    monkeypatch.setattr(request_memory, "Body", Full)
    memory = RequestMemory(10)
    with pytest.raises(NoRoomError, match="no memory for a request of 3 bytes"):
        memory.body(b"1").add(b"23")
    memory.take(20, 0)  # nothing is left of it


def test_any_thread_may_take() -> None:
    memory = RequestMemory(8000)

    def hold() -> None:
        for _ in range(2000):
            memory.hold(1)

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    memory.take(memory.total, 0)


MOST = 1 << 20
#: Sends numbers, each with so many bytes behind it. A file beside it says how many it has sent.
COUNTS = executes(
    "for request in requests:\n"
    "    count, size = request.inputs()[0].as_numpy().tolist()\n"
    "    sender, sent = request.get_response_sender(), 0\n"
    "    while sent < count and not request.is_cancelled():\n"
    '        text = np.array([b"%d " % sent + b"x" * size], dtype=object)\n'
    '        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)]))\n'
    "        sent += 1\n"
    '    pathlib.Path(__file__).with_name("sent").write_text(str(sent))\n'
    "    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)",
    imports="import pathlib",
)


@pytest.fixture(scope="module")
def counts(lab: Lab) -> Lab:
    lab.load("counts", COUNTS, config("IN INT32 2", "OUT STRING 1", "model_transaction_policy { decoupled: true }"))
    return lab


@pytest.fixture
def endpoints(counts: Lab) -> Iterator[Endpoints]:
    options = EndpointOptions(http_port=0, grpc_port=0, metrics=False, max_unread_size=MOST)
    with Endpoints(counts.server.core, options) as found:
        yield found


def infer_request(count: int, size: int) -> Any:
    request = service_pb2.ModelInferRequest(model_name="counts")
    tensor = request.inputs.add(name="IN", datatype="INT32", shape=[2])
    tensor.contents.int_contents.extend([count, size])
    return request


def number(text: bytes) -> int:
    return int(text.split()[0])


def sent(counts: Lab) -> int:
    """Wait until the model has stopped, and return how many responses it had sent."""
    path = counts.repository / "counts" / "1" / "sent"
    eventually(lambda: path.exists() and path.read_text() != "")
    found = int(path.read_text())
    path.unlink()
    return found


def test_a_slow_reader_of_events(endpoints: Endpoints, counts: Lab) -> None:
    http = RawHTTP("lab", endpoints.http)
    body = json.dumps({"IN": [1_000_000, 10_000]}).encode()
    head = f"POST /v2/models/counts/generate_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    with closing(http.connect()) as connection:
        connection.sendall(head.encode() + body)
        assert sent(counts) < 10_000  # 100 MB of 10 GB, with what sockets take
        found = b""
        while piece := connection.recv(1 << 20):
            found += piece
    events = [line.removeprefix(b"data: ") for line in found.split(b"\n") if line.startswith(b"data: ")]
    texts = [json.loads(event) for event in events]
    assert texts.pop() == {"error": too_much_unread(MOST)}
    assert [number(text["OUT"].encode()) for text in texts] == list(range(len(texts)))
    assert len(texts) * 10_000 > MOST


def test_a_slow_reader_of_a_grpc_stream(endpoints: Endpoints, counts: Lab) -> None:
    requests: SimpleQueue[Any] = SimpleQueue()
    requests.put(infer_request(1_000_000, 10_000))
    with grpc.insecure_channel(endpoints.grpc) as channel:
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter(requests.get, None))
        assert sent(counts) < 10_000
        found = []
        with pytest.raises(grpc.RpcError) as raised:
            found.extend(number(answer.infer_response.raw_output_contents[0][4:]) for answer in call)
        requests.put(None)
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert raised.value.details() == too_much_unread(MOST)
    assert found == list(range(len(found)))


#: Answers with the size of its input, once the file beside it is gone.
SIZES = executes(
    'while pathlib.Path(__file__).with_name("hold").exists():\n'
    "    time.sleep(0.001)\n"
    "sizes = [np.array([request.inputs()[0].as_numpy().nbytes], np.int64) for request in requests]\n"
    'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", size)]) for size in sizes]',
    imports="import pathlib, time",
)


@rule("6.3.8")
@pytest.mark.parametrize(
    ("protocol", "status"),
    [(tritonclient.http, "503"), (tritonclient.grpc, "StatusCode.RESOURCE_EXHAUSTED")],
    ids=["http", "grpc"],
)
def test_inputs_in_shared_memory_are_admitted_by_what_all_requests_will_take(
    lab: Lab, protocol: Any, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.load("sizes", SIZES, config("IN UINT8 -1", "OUT INT64 1"))
    hold = lab.repository / "sizes" / "1" / "hold"
    hold.touch()
    region = Path("/dev/shm") / f"tritonlab_test_{uuid.uuid4().hex}"
    region.write_bytes(bytes(2 * MB))
    monkeypatch.setattr(ROOM, "_memory_left", lambda: 9 * MB + RESERVE)
    monkeypatch.setattr(ROOM, "_looked", float("-inf"))
    options = EndpointOptions(http_port=0, grpc_port=0, metrics=False, client_shm=True)
    with Endpoints(lab.server.core, options) as endpoints, ThreadPoolExecutor() as threads:
        with closing(protocol.InferenceServerClient(getattr(endpoints, protocol.__name__[-4:]))) as client:
            client.register_system_shared_memory("r", region.name, 2 * MB)

        def infer() -> int:
            tensor = protocol.InferInput("IN", [2 * MB], "UINT8")
            tensor.set_shared_memory("r", 2 * MB)
            with closing(protocol.InferenceServerClient(getattr(endpoints, protocol.__name__[-4:]))) as client:
                return int(client.infer("sizes", [tensor]).as_numpy("OUT")[0])

        both = {threads.submit(infer) for _ in range(2)}  # each is a copy, and two more in the model's process
        try:
            (refused,), (admitted,) = wait(both, SOON, FIRST_COMPLETED)
        finally:
            hold.unlink()
        with pytest.raises(InferenceServerException) as raised:
            refused.result()
        text = f"There is no memory for a request of {2 * MB} bytes. Send it again later."
        assert (raised.value.status(), raised.value.message()) == (status, text)
        assert admitted.result() == 2 * MB
        assert infer() == 2 * MB
    region.unlink()
