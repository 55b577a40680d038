"""Servers whose memory a cgroup limits, and the requests that would fill it: `python -m tests.memory_limits`.

Each way in gets one request of just below an eighth, of just below a quarter, and of half of the limit, three in a row
of a fifth, and four at once of just below an eighth and a quarter. None of them may end the server, `tritonlab serve`
or a kernel of a notebook; a model's process may be killed, which is started again. `--control` takes the admission
away, and the server is killed. Needs root and cgroups; one limit takes minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, pairwise
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from tritonclient.grpc import service_pb2

from tests.ensembles import ensemble_text, step
from tests.kernels import start_kernel
from tests.memory_group import MemoryGroup
from tests.models import answers, executes, streams
from tests.serve_process import ServeProcess
from tests.serving import DECOUPLED, alive, config, write_model
from tritonlab.frontends.grpc.infer_response_writer import varint

MB = 1 << 20
#: Seconds of one request.
_PATIENCE = 180.0
#: The largest document that is read, about (`--http-max-input-size`).
_JSON = 63 * MB
#: Responses of the decoupled model.
_MANY = 8
_STEPS = 3

#: Taken away for the control: the look at what is left.
_WITHOUT_ADMISSION = """
from tritonlab.ipc.processes.memory_room import MemoryRoom
MemoryRoom.has = lambda self, nbytes, later=0: True
MemoryRoom.left = lambda self: 1 << 60
"""

_KERNEL = """
import numpy as np
import tritonlab
tritonlab.reset(cache_config="local,size={cache}")
_opened = tritonlab.open({repository!r})
_ports = tritonlab.serve(token="", http_port=0, grpc_port=0, metrics_port=0, client_shm=True)

def call(size):
    try:
        return "" if tritonlab.default_server().model("xor")(IN=np.zeros(size, np.uint8))["OUT"].nbytes == size else "?"
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}"

print("PORTS", _ports.http, _ports.grpc, flush=True)
"""


def write_models(repository: Path) -> None:
    """Write the models, whose answer is as large as their request unless their name tells otherwise."""
    flat = "IN UINT8 -1", "OUT UINT8 -1"
    xor = answers("x ^ 0x5A")
    write_model(repository, "xor", xor, config(*flat))
    write_model(repository, "double", answers("np.concatenate([x, x])"), config(*flat))
    write_model(repository, "strings", answers("x[::-1]"), config("IN STRING -1", "OUT STRING -1"))
    many = streams("x ^ np.uint8(n)", f"range({_MANY})")
    write_model(repository, "many", many, config(*flat, DECOUPLED))
    batched = "max_batch_size: 64", "dynamic_batching { max_queue_delay_microseconds: 100000 }"
    write_model(repository, "batch", xor, config(*flat, *batched))
    calls = executes(
        "found = []\n"
        "for request in requests:\n"
        '    kept = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()]\n'
        f"    for _ in range({_STEPS}):\n"
        '        call = pb_utils.InferenceRequest(model_name="xor", requested_output_names=["OUT"],\n'
        '            inputs=[pb_utils.Tensor("IN", kept[-1] + 1)])\n'
        "        answer = call.exec()\n"
        "        if answer.has_error():\n"
        "            raise pb_utils.TritonModelException(answer.error().message())\n"
        '        kept.append(pb_utils.get_output_tensor_by_name(answer, "OUT").as_numpy())\n'
        '    found.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", kept[-1])]))\n'
        "return found"
    )
    write_model(repository, "bls", calls, config(*flat))
    names = ["X", *(f"S{n}" for n in range(1, _STEPS)), "Y"]
    steps = [step("xor", f"IN={reads}", f"OUT={writes}") for reads, writes in pairwise(names)]
    io = 'input { name: "X" data_type: TYPE_UINT8 dims: -1 } output { name: "Y" data_type: TYPE_UINT8 dims: -1 }\n'
    (repository / "ensemble" / "1").mkdir(parents=True)
    (repository / "ensemble" / "config.pbtxt").write_text(ensemble_text(*steps, io=io))
    write_model(repository, "cached", xor, config(*flat, "response_cache { enable: true }"))


# -- the servers


class Served:
    """`tritonlab serve` in a group."""

    def __init__(self, group: MemoryGroup, repository: Path, scratch: Path, limit: int, admits: bool) -> None:
        arguments = [f"--cache-config=local,size={limit // 4}", "--allow-client-shm=true"]
        start = f"{'' if admits else _WITHOUT_ADMISSION}\nfrom tritonlab.__main__ import main\nmain()"
        program = [sys.executable, "-c", start]
        self._process = group.start(lambda: ServeProcess(repository, scratch, *arguments, program=program))
        self._process.serving()
        self.pid = self._process.pid
        self.http, self.grpc = self._process.http, self._process.grpc

    def close(self) -> None:
        self._process.__exit__()


class Notebook:
    """A kernel in a group, whose notebook serves."""

    def __init__(self, group: MemoryGroup, repository: Path, scratch: Path, limit: int, admits: bool) -> None:
        self._manager, self._client = group.start(lambda: start_kernel(dict(os.environ)))
        self._lock = threading.Lock()
        code = _KERNEL.format(repository=str(repository), cache=limit // 4)
        printed = self._run(("" if admits else _WITHOUT_ADMISSION) + code)
        found = re.search(r"PORTS (\S+) (\S+)", printed)
        assert found is not None, printed
        self.http, self.grpc = found[1], found[2]
        self.pid = int(self._run("import os; print(os.getpid())"))

    def _run(self, code: str) -> str:
        printed: list[str] = []

        def note(message: dict[str, Any]) -> None:
            content = message["content"]
            printed.append(content.get("text", "") + "\n".join(content.get("traceback", ())))

        with self._lock:
            self._client.execute_interactive(code, timeout=_PATIENCE, output_hook=note)
        return "".join(printed)

    def call(self, size: int) -> str:
        """Call the model in a cell."""
        return self._run(f"print(call({size}))").strip()

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


Server = Served | Notebook
SERVERS: dict[str, type[Server]] = {"Served": Served, "Notebook": Notebook}
Way = Callable[[Server, int], str]
# -- the ways in: each sends a request with so many bytes, and returns what is wrong with the answer, "" for nothing


def _exchange(server: Server, path: str, size: int, pieces: Iterator[bytes], head_size: int = 0) -> str:
    connection = http.client.HTTPConnection(server.http, timeout=_PATIENCE)
    with contextlib.closing(connection):
        connection.putrequest("POST", path)
        connection.putheader("Content-Length", str(size))
        if head_size:
            connection.putheader("Inference-Header-Content-Length", str(head_size))
        connection.endheaders()
        with contextlib.suppress(OSError):  # it was refused meanwhile
            for piece in pieces:
                connection.send(piece)
        answer = connection.getresponse()
        if answer.status != 200:
            return f"{answer.status} {answer.read(4096).decode(errors='replace')}"
        tail = b""
        while piece := answer.read(MB):
            tail = piece[-300:]
        return f"200 {tail.decode(errors='replace')}" if b'"error"' in tail else ""


def _repeated(piece: bytes, size: int) -> Iterator[bytes]:
    """Yield so many bytes."""
    for start in range(0, size, len(piece)):
        yield piece[: size - start]


def binary(model: str, *, reads: str = "IN", shape: tuple[int, ...] = (), element: bytes = b"\0") -> Way:
    """Return the way of binary data over HTTP: these bytes again and again, but no two requests are equal, as a cache
    would know them."""
    numbers = count(1)

    def send(server: Server, size: int) -> str:
        size -= size % len(element)
        kind = "BYTES" if len(element) > 1 else "UINT8"
        described = {"name": reads, "shape": [*shape, size // len(element)], "datatype": kind}
        tensor = {**described, "parameters": {"binary_data_size": size}}
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        first = element[:-2] + next(numbers).to_bytes(2, "little") if len(element) > 1 else bytes([next(numbers) % 256])

        def pieces() -> Iterator[bytes]:
            yield from (head, first)
            yield from _repeated(element * (MB // len(element)), size - len(first))

        return _exchange(server, f"/v2/models/{model}/infer", len(head) + size, pieces(), len(head))

    return send


def document(model: str, datatype: str, element: bytes) -> Way:
    """Return the way of JSON over HTTP, of an array of this element."""

    def send(server: Server, size: int) -> str:
        number = min(size, _JSON) // (len(element) + 1)
        start = b'{"inputs":[{"name":"IN","datatype":"%b","shape":[%d],"data":[' % (datatype.encode(), number)
        end = element + b"]}]}"
        between = (element + b",") * (MB // (len(element) + 1))
        length = (number - 1) * (len(element) + 1)

        def pieces() -> Iterator[bytes]:
            yield start
            yield from _repeated(between, length)
            yield end

        return _exchange(server, f"/v2/models/{model}/infer", len(start) + length + len(end), pieces())

    return send


def generate(server: Server, size: int) -> str:
    """Send one text."""
    start, end = b'{"IN":"', b'"}'
    size = min(size, _JSON)

    def pieces() -> Iterator[bytes]:
        yield start
        yield from _repeated(b"a" * MB, size)
        yield end

    return _exchange(server, "/v2/models/strings/generate", len(start) + size + len(end), pieces())


def generate_stream(server: Server, size: int) -> str:
    """Send one array; the answers come one by one."""
    start, end = b'{"IN":[0', b"]}"
    size = min(size, _JSON)

    def pieces() -> Iterator[bytes]:
        yield start
        yield from _repeated(b",0" * (MB // 2), size - size % 2)
        yield end

    length = len(start) + size - size % 2 + len(end)
    return _exchange(server, "/v2/models/many/generate_stream", length, pieces())


def region(server: Server, size: int) -> str:
    """Have inputs and outputs in shared memory of the client."""
    memory = shared_memory.SharedMemory(create=True, size=2 * size)
    name = memory.name
    try:
        tell = json.dumps({"key": f"/{name}", "offset": 0, "byte_size": 2 * size}).encode()
        if text := _exchange(server, f"/v2/systemsharedmemory/region/{name}/register", len(tell), iter([tell])):
            return text
        place = {"shared_memory_region": name, "shared_memory_byte_size": size}
        tensor = {"name": "IN", "shape": [size], "datatype": "UINT8", "parameters": place}
        wanted = {"name": "OUT", "parameters": {**place, "shared_memory_offset": size}}
        body = json.dumps({"inputs": [tensor], "outputs": [wanted]}).encode()
        text = _exchange(server, "/v2/models/xor/infer", len(body), iter([body]))
        _exchange(server, f"/v2/systemsharedmemory/region/{name}/unregister", 0, iter(()))
        return text
    finally:
        memory.close()
        memory.unlink()


_UNBOUNDED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_SERVICE = "/inference.GRPCInferenceService/"


def _message(model: str, size: int) -> bytes:
    request = service_pb2.ModelInferRequest(model_name=model)
    tensor = request.inputs.add()
    tensor.name, tensor.datatype = "IN", "UINT8"
    tensor.shape.append(size)
    request.raw_input_contents.append(bytes(size))
    return bytes(request.SerializeToString())


def _typed(size: int) -> bytes:
    """Return a request of empty strings that are not raw: two bytes each."""
    request = service_pb2.ModelInferRequest(model_name="strings")
    tensor = request.inputs.add()
    tensor.name, tensor.datatype = "IN", "BYTES"
    tensor.shape.append(size // 2)
    contents = b"\x42\0" * (size // 2)  # bytes_contents of InferTensorContents
    head, inner = tensor.SerializeToString(), b"\x2a" + varint(len(contents)) + contents
    return b"".join((b"\x0a\7strings", b"\x2a", varint(len(head) + len(inner)), head, inner))


def unary(message: Callable[[int], bytes], server: Server, size: int) -> str:
    """Send a message in a call of gRPC."""
    with grpc.insecure_channel(server.grpc, _UNBOUNDED) as channel:
        try:
            channel.unary_unary(_SERVICE + "ModelInfer", None, None)(message(size), timeout=_PATIENCE)
        except grpc.RpcError as error:
            return f"{error.code().name} {error.details()}"
    return ""


def stream(server: Server, size: int) -> str:
    """Send a request in a stream, and read all that comes."""
    final = threading.Event()

    def requests() -> Iterator[bytes]:
        yield _message("many", size)
        final.wait(_PATIENCE)

    with grpc.insecure_channel(server.grpc, _UNBOUNDED) as channel:
        try:
            call = channel.stream_stream(_SERVICE + "ModelStreamInfer", None, None)(requests(), timeout=_PATIENCE)
            for count_, answer in enumerate(call, 1):
                if len(answer) < MB and (text := service_pb2.ModelStreamInferResponse.FromString(answer).error_message):
                    return str(text)
                if count_ >= _MANY:
                    return ""
        except grpc.RpcError as error:
            return f"{error.code().name} {error.details()}"
        finally:
            final.set()
    return "the stream has ended"


def rows(server: Server, size: int) -> str:
    """Send 64 requests at once that have so many bytes together."""
    send = binary("batch", shape=(1,))
    with ThreadPoolExecutor(64) as threads:
        found = [text for text in threads.map(lambda _: send(server, size // 64), range(64)) if text]
    return f"{len(found)} of 64: {found[0]}" if found else ""


def cell(server: Server, size: int) -> str:
    """Call the model in a cell of the notebook."""
    assert isinstance(server, Notebook)
    return server.call(size)


WAYS: dict[str, Way] = {
    "HTTP": binary("xor"),
    "HTTP JSON of integers": document("xor", "UINT8", b"0"),
    "HTTP JSON of strings": document("strings", "BYTES", b'"ab"'),
    "HTTP of small BYTES": binary("strings", element=b"\2\0\0\0ab"),
    "HTTP to twice as much": binary("double"),
    "HTTP with a cache": binary("cached"),
    "HTTP, 64 to one batch": rows,
    "HTTP to BLS": binary("bls"),
    "HTTP to an ensemble": binary("ensemble", reads="X"),
    "shared memory": region,
    "generate": generate,
    "generate_stream": generate_stream,
    "gRPC": partial(unary, partial(_message, "xor")),
    "gRPC of typed strings": partial(unary, _typed),
    "gRPC stream, decoupled": stream,
    "a cell": cell,
}


class Load(NamedTuple):
    """So many requests at once, again and again, of a share of the limit."""

    name: str
    clients: int
    times: int
    share: float


#: A little less than a quarter, which is the limit of one request, and than an eighth, the limit of one over gRPC.
_QUARTER = 0.2499
_EIGHTH = 0.124
LOADS = (
    Load("one", 1, 1, _EIGHTH),
    Load("one", 1, 1, _QUARTER),
    Load("one", 1, 1, 1 / 2),
    Load("three in a row", 1, 3, 1 / 5),
    Load("four at once", 4, 1, _EIGHTH),
    Load("four at once", 4, 1, _QUARTER),
)


def _short(text: str) -> str:
    return re.sub(r"\d{4,}", "N", text)[:110].replace("\n", " ")


def _outcome(send: Way, server: Server, size: int) -> str:
    try:
        return _short(send(server, size))
    except Exception as error:
        return _short(f"{type(error).__name__}: {error}")


def is_well(server: Server) -> bool:
    """Return whether the server lives, and answers a small request soon."""
    deadline = time.monotonic() + 60
    while alive(server.pid) and time.monotonic() < deadline:
        if not _outcome(WAYS["HTTP"], server, 1000):
            return True
        time.sleep(0.2)
    return False


class Trial:
    """A server with a limit that gets one load after the other; a new one once it has ended. A context manager."""

    def __init__(self, make: type[Server], limit: int, admits: bool) -> None:
        self._make = make
        self._limit = limit
        self._admits = admits
        self._stack = contextlib.ExitStack()
        self._server: Server | None = None
        self._group: MemoryGroup

    def _start(self) -> Server:
        self._stack.close()
        scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        write_models(scratch / "models")
        self._group = self._stack.enter_context(MemoryGroup(self._limit))
        server = self._make(self._group, scratch / "models", scratch, self._limit, self._admits)
        self._stack.callback(server.close)
        assert is_well(server)
        return server

    def measure(self, way: str, load: Load) -> tuple[bool, str]:
        """Send the load. Return whether the server lives, and the row."""
        server = self._server = self._server or self._start()
        self._group.reset_peak()
        kills, begun = self._group.kills(), time.monotonic()
        size = int(self._limit * load.share)
        found: list[str] = []
        for _ in range(load.times):
            with ThreadPoolExecutor(load.clients) as threads:
                found += threads.map(partial(_outcome, WAYS[way], server), [size] * load.clients)
        lives = is_well(server)
        if not lives:
            self._server = None
        refused = Counter(filter(None, found))
        return lives, "  ".join(
            (
                f"{self._limit // MB:5} MB  {self._make.__name__:8} {way:24} {size // MB:5} MB {load.name:14}",
                f"answered {len(found) - refused.total()}/{len(found)}",
                f"{'lives ' if lives else 'KILLED'}  kills of the system {self._group.kills() - kills:2}",
                f"peak {self._group.peak() // MB:5} MB  {time.monotonic() - begun:5.1f} s",
                "; ".join(f"{number} x {text}" for text, number in refused.items()),
            )
        )

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limits", type=int, nargs="+", default=[1, 2, 5], help="GB of memory")
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--worst", action="store_true", help="only the last load, which is the heaviest")
    parser.add_argument("--control", action="store_true", help="admit everything: the server is to be killed")
    options = parser.parse_args()
    dead = 0
    for limit in options.limits:
        for make in options.servers:
            for way in options.ways:
                if way == "a cell" and make != "Notebook":
                    continue
                with Trial(SERVERS[make], limit << 30, not options.control) as trial:
                    for load in LOADS[-1:] if options.worst else LOADS:
                        lives, row = trial.measure(way, load)
                        dead += not lives
                        print(row, flush=True)
    print(f"{dead} loads have ended the server")
    sys.exit(bool(dead) is not options.control)


if __name__ == "__main__":
    main()
