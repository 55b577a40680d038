"""The proof of captures on the real server under load: `make capture`.

Clients send requests over HTTP, gRPC and gRPC streams through a tap, and note what they sent and got; the server traces
all of it at level TENSORS. The capture of the tap, and that of the trace, are compared with the clients' notes, and
replayed to a copy of the model, which answers as before, and to one with a bug in 0.1 % of the inputs, all of which are
found.
`--requests 1000` is quicker.
"""

from __future__ import annotations

import argparse
import os
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tritonclient.grpc
import tritonclient.http
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException

from tests.benchmarks.measuring import place
from tests.conformance.models import config
from tests.conformance.reference import ReferenceServer, missing
from tests.models import executes
from tests.serving import eventually
from tests.tap_process import TapProcess
from tritonlab import Server
from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.capture.capture_file import Capture, CapturedRequest
from tritonlab.tools.capture.capture_rules import CaptureRules
from tritonlab.tools.capture.capture_source import convert

REQUESTS = 20_000
WAIT_SECONDS = 120.0
#: Clients of each kind, each on a thread of its own.
CLIENTS = 2
#: Requests of a stream under way.
DEPTH = 16
#: Doubles numbers and reverses a text; refuses each request whose first number is negative.
MODEL = executes("""
    responses = []
    for request in requests:
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        text = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
        if x[0, 0] < 0:
            responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("negative")))
            continue
        turned = np.array([[each[::-1] for each in row] for row in text], np.object_)
        outputs = [pb_utils.Tensor("Y", x * 2), pb_utils.Tensor("TURNED", turned)]
        responses.append(pb_utils.InferenceResponse(outputs))
    return responses
""")
#: What the bug needs: one input in 1000 has such a first number.
LEAST, MOST = 0.0, 0.00125
BUG = MODEL.replace("x * 2)", f"x * 2 + np.float32(0.25) * ({LEAST} < x[0, 0] < {MOST}))")
CONFIG = config("X FP32 -1; TEXT STRING 1", "Y FP32 -1; TURNED STRING 1", "max_batch_size: 8\ndynamic_batching { }")


class Note(NamedTuple):
    """A request and its answer, as the client has them: None for an error, whose text is `error`."""

    x: NDArray[Any]
    text: bytes
    y: NDArray[Any] | None
    turned: bytes | None
    error: str


class Day(NamedTuple):
    """The notes of all clients by request id, and the files that the tap and the server wrote."""

    notes: dict[str, Note]
    file: Path
    traces: Sequence[Path]
    seconds: float
    report: str


def serve(scratch: Path) -> ReferenceServer:
    """Start the real server, which traces all requests at level TENSORS, with the model."""
    repository = scratch / "real"
    place(repository, "turn", MODEL, CONFIG)
    trace = [
        f"--trace-config={each}" for each in (f"triton,file={scratch / 'trace.json'}", "rate=1", "level=TIMESTAMPS")
    ]
    arguments = [*trace, "--trace-config=level=TENSORS", "--trace-config=count=-1", "--load-model=turn"]
    return ReferenceServer(repository, scratch, arguments)


def run(requests: int, scratch: Path) -> Day:
    """Send requests through a tap."""
    notes: dict[str, Note] = {}
    file = scratch / "day.arrow"
    with serve(scratch) as real, TapProcess([real.http, real.grpc], file) as tap:
        http, grpc = tap.addresses
        ways: list[Callable[[str, int], dict[str, Note]]] = [
            *[lambda name, count: by_calls(tritonclient.http, http, name, count)] * CLIENTS,
            *[lambda name, count: by_calls(tritonclient.grpc, grpc, name, count)] * CLIENTS,
            *[lambda name, count: by_stream(grpc, name, count)] * CLIENTS,
        ]
        share = -(-requests // len(ways))
        errors: list[BaseException] = []

        def work(way: Callable[[str, int], dict[str, Note]], name: str) -> None:
            try:
                notes.update(way(name, share))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(way, f"c{number}")) for number, way in enumerate(ways)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - started
        if errors:
            raise errors[0]
        report = tap.stop()
    return Day(notes, file, sorted(scratch.glob("trace.json*")), seconds, report)


def made(rng: np.random.Generator, number: int) -> tuple[NDArray[Any], bytes]:
    """Return the inputs of a request: up to 300 numbers, now and then 100,000; each hundredth is refused."""
    x = rng.standard_normal((1, 100_000 if number % 500 == 7 else int(rng.integers(1, 300)))).astype(np.float32)
    x[0, 0] = -1 if number % 100 == 3 else abs(x[0, 0])
    return x, rng.bytes(int(rng.integers(0, 30))).hex().encode()


def inputs(library: Any, x: NDArray[Any], text: bytes) -> list[Any]:
    found = [library.InferInput("X", list(x.shape), "FP32"), library.InferInput("TEXT", [1, 1], "BYTES")]
    found[0].set_data_from_numpy(x)
    found[1].set_data_from_numpy(np.array([[text]], np.object_))
    return found


def noted(x: NDArray[Any], text: bytes, result: Any, error: Any) -> Note:
    if error is not None:
        return Note(x, text, None, None, error.message())
    return Note(x, text, result.as_numpy("Y"), result.as_numpy("TURNED")[0, 0], "")


def by_calls(library: Any, address: str, name: str, count: int) -> dict[str, Note]:
    """Send requests one after the other."""
    rng, notes = np.random.default_rng(int(name[1:])), {}
    with library.InferenceServerClient(address) as client:
        for number in range(count):
            x, text = made(rng, number)
            result = error = None
            try:
                result = client.infer("turn", inputs(library, x, text), request_id=f"{name}-{number}")
            except InferenceServerException as problem:
                if problem.status() == "StatusCode.UNAVAILABLE":
                    raise
                error = problem
            notes[f"{name}-{number}"] = noted(x, text, result, error)
    return notes


def by_stream(address: str, name: str, count: int) -> dict[str, Note]:
    """Send requests over one stream, some of them under way together."""
    rng, notes = np.random.default_rng(int(name[1:])), {}
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    sent: dict[str, tuple[NDArray[Any], bytes]] = {}

    def take() -> None:
        result, error = answers.get(timeout=WAIT_SECONDS)
        ident = result.get_response().id if error is None else error.request_id()
        notes[ident] = noted(*sent.pop(ident), result, error)

    with tritonclient.grpc.InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for number in range(count):
            if len(sent) >= DEPTH:
                take()
            ident, (x, text) = f"{name}-{number}", made(rng, number)
            if x[0, 0] < 0:
                x[0, 0] = 0  # the client does not learn which request an error of a stream belongs to
            sent[ident] = x, text
            client.async_stream_infer("turn", inputs(tritonclient.grpc, x, text), request_id=ident)
        while sent:
            take()
        client.stop_stream()
    return notes


def same(one: CapturedRequest, place: str, tensor: Tensor, noted: NDArray[Any]) -> bool:
    """Compare numbers: bit by bit, or to six digits where the capture says that it is not exact, as of a trace."""
    if place not in one.withheld:
        return tensor.numpy().tobytes() == noted.tobytes()
    return tensor.shape == noted.shape and np.allclose(tensor.numpy(), noted, rtol=1e-5, atol=1e-6)


def differences(notes: dict[str, Note], capture: Capture) -> list[str]:
    """Return a line for each request that the capture has otherwise than its client, or lacks, or has twice."""
    found: list[str] = []
    seen: set[str] = set()
    for one in capture:
        exchange = one.exchange
        ident = exchange.request.request_id
        note = notes.get(ident)
        if note is None or ident in seen:
            found.append(f"{ident}: {'nobody sent it' if note is None else 'twice'}")
            continue
        seen.add(ident)
        sent = exchange.request.inputs
        if not (same(one, "input.X", sent["X"], note.x) and sent["TEXT"].numpy().tolist() == [[note.text]]):
            found.append(f"{ident}: other inputs")
        if note.error and exchange.unanswered and not exchange.arrivals:
            continue  # a trace does not have the texts of errors, and says so
        if exchange.error_text != note.error:
            found.append(f"{ident}: error {exchange.error_text!r} for {note.error!r}; {exchange.unanswered}")
        elif note.y is not None:
            outputs = exchange.outputs
            if not (
                same(one, "output.0.Y", outputs["Y"], note.y) and outputs["TURNED"].numpy().tolist() == [[note.turned]]
            ):
                found.append(f"{ident}: other outputs")
            if not exchange.answered or exchange.total_ns <= 0 or exchange.unsent or exchange.unanswered:
                found.append(f"{ident}: incomplete: {exchange.unsent} {exchange.unanswered}")
    return found + [f"{ident}: not captured" for ident in notes if ident not in seen]


def tell(name: str, notes: dict[str, Note], file: Path) -> int:
    """Print how a capture compares with the notes; return the number of differences."""
    capture = Capture(file)
    found = differences(notes, capture)
    print(f"{name}: {len(capture):,} of {len(notes):,} requests, {file.stat().st_size / 1e6:.1f} MB, "
          f"{len(found):,} differences, left out: {capture.left_out or 'none'}")  # fmt: skip
    for line in found[:10]:
        print(f"  {line}")
    return len(found)


def replay(name: str, file: Path, scratch: Path) -> int:
    """Replay a capture to a copy of the model and to one with a bug, in a server of this process. Print the verdicts,
    and return how many are wrong. A trace has no errors, so they are not compared."""
    place(scratch / "copies", "turn", MODEL, CONFIG)
    place(scratch / "copies", "bug", BUG, CONFIG)
    numbers = (one.exchange.request.inputs["X"].numpy()[0, 0] for one in Capture(file))
    hit = [number for number, value in enumerate(numbers) if LEAST < value < MOST]
    begin = time.perf_counter()
    with Server(scratch / "copies") as server:
        as_before, found = (server.model(each).replay(file, of="turn", speed=None) for each in ("turn", "bug"))
    print(f"{name}, in {time.perf_counter() - begin:.1f} s: {as_before.text()}")
    print(f"{name}, with a bug that {len(hit)} inputs meet: {found.text()}")
    groups = [[change.number for change in group.changes] for group in found.groups]
    return int(not as_before.ok) + int(groups != [hit])


def kill_upstream(scratch: Path) -> int:
    """Kill the real server behind a tap, start it again, and compare what both answered with the capture. Return the
    number of differences."""
    scratch.mkdir()
    file = scratch / "killed.arrow"
    with serve(scratch) as real, TapProcess([real.http, real.grpc], file) as tap:
        notes = by_calls(tritonclient.http, tap.addresses[0], "c1", 200)
        os.killpg(real.pid, signal.SIGKILL)
        eventually(lambda: not real.running(), WAIT_SECONDS)
        try:
            by_calls(tritonclient.grpc, tap.addresses[1], "c9", 1)
        except InferenceServerException as error:
            print(f"while the server is killed: {error.message()}")
        real.start()
        notes |= by_calls(tritonclient.http, tap.addresses[0], "c2", 200)
        notes |= by_calls(tritonclient.grpc, tap.addresses[1], "c3", 200)
        tap.stop()
    return tell("tap, whose server was killed", notes, file)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=REQUESTS)
    arguments = parser.parse_args()
    if (why := missing()) is not None:
        print(why)
        return 1
    with tempfile.TemporaryDirectory(prefix="tritonlab-capture-") as directory:
        scratch = Path(directory)
        day = run(arguments.requests, scratch)
        print(f"{len(day.notes):,} requests in {day.seconds:.1f} s, {len(day.notes) / day.seconds:,.0f}/s")
        print(day.report.strip())
        count = tell("tap", day.notes, day.file) + kill_upstream(scratch / "killed")
        traced = scratch / "traced.arrow"
        print(repr(convert(day.traces, traced, CaptureRules())))
        count += tell("trace", day.notes, traced)
        count += replay("tap", day.file, scratch) + replay("trace", traced, scratch)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
