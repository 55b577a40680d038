"""The proof of replays, the second part of `make capture`.

It captures 20,000 requests to a model of a server of its own and replays them to a copy, to one with a planted bug, and
to models with noise. It prints each figure, and fails if a change is missed or one is reported that does not exist.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tests.models import answers
from tests.serving import config, write_model
from tests.tools.capture.replay.captures import request_of
from tritonlab import Model, Server
from tritonlab.exchanges.sending import ask
from tritonlab.tools.capture.capture_file import Capture, CapturedRequest, CaptureFile
from tritonlab.tools.capture.replay.replay_verdict import ReplayVerdict

BATCHES = "dynamic_batching { max_queue_delay_microseconds: 200 }"
CONFIG = config("IN FP32 4", "OUT FP32 4", "max_batch_size: 16", BATCHES)
#: The noise of dropout: each element is kept with probability 0.9.
DROPOUT = "(x @ np.ones((4, 4)) * (rng.random(x.shape) < 0.9) / 0.9{more}).astype(np.float32)"
#: Its standard deviation for elements of about 2: 2 * sqrt(0.1 / 0.9).
SIGMA = 2 * (0.1 / 0.9) ** 0.5
NOISE = "rng = np.random.default_rng()"
MODELS = {
    "sound": answers("np.tanh(x) * 3"),
    "copy": answers("np.tanh(x) * 3"),
    # one row in 1000 has the first element below 0.001
    "planted": answers("np.tanh(x) * 3 + np.float32(0.01) * (x[:, :1] < 0.001)"),
    "dropout": answers(DROPOUT.format(more=""), imports=NOISE),
    "biased": answers(DROPOUT.format(more=f" + {3 * SIGMA}"), imports=NOISE),
    "slightly": answers(DROPOUT.format(more=f" + {0.1 * SIGMA}"), imports=NOISE),
}


@contextmanager
def serve_models() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="replay-proof-") as directory:
        for name, source in MODELS.items():
            write_model(Path(directory), name, source, CONFIG)
        with Server(directory) as server:
            yield server


def write_capture(model: Model, count: int, path: Path, seed: int = 0) -> Capture:
    """Send requests of random values, 16 at once, and write them with their answers."""
    random, lock = np.random.default_rng(seed), threading.Lock()
    values = random.random((count, 1, 4)).astype(np.float32)
    begin = time.monotonic_ns()
    found: list[CapturedRequest] = []

    def send(number: int) -> None:
        at = time.monotonic_ns() - begin
        exchange = ask(model, request_of(model.name, {"IN": values[number]}, request_id=str(number)))
        with lock:
            found.append(CapturedRequest(exchange, at))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(send, range(count)))
    file = CaptureFile(path, {"source": "proof"})
    found.sort(key=lambda each: each.at_ns)
    for first in range(0, count, 1000):
        file.append(found[first : first + 1000])
    file.close()
    return Capture(path)


def planted_numbers(capture: Capture) -> list[int]:
    """Return the requests that the planted bug hits."""
    rows = (each.exchange.request.inputs["IN"].numpy()[0, 0] for each in capture)
    return [number for number, value in enumerate(rows) if value < 0.001]


def prove(server: Server, count: int, directory: Path) -> None:
    """Run all proofs and print their figures."""
    model = server.model
    capture = write_capture(model("sound"), count, directory / "sound")
    print(f"captured {len(capture):,} requests, {capture.path.stat().st_size:,} bytes")

    def run(name: str, subject: Model, what: Capture, against: Model | None = None) -> ReplayVerdict:
        begin, used = time.perf_counter(), time.process_time()
        found = subject.replay(what, against=against, speed=None)
        assert isinstance(found, ReplayVerdict)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - used
        print(f"{name} ({seconds:.1f} s, {cpu:.1f} s of this process):\n  {found.verdict}")
        for group in found.groups:
            print(f"  {group.lines()[0]}")
        return found

    assert run("a copy", model("copy"), capture).ok
    planted = [run(f"planted bug, {turn}", model("planted"), capture) for turn in ("once", "again")]
    expected = planted_numbers(capture)
    (group,) = planted[0].groups
    assert [change.number for change in group.changes] == expected, (len(group.changes), len(expected))
    assert planted[0].text() == planted[1].text() and planted[0].to_dict() == planted[1].to_dict()
    print(f"  all {len(expected)} of the planted bug, nothing else, one group, twice the same report")
    noisy = write_capture(model("dropout"), count, directory / "dropout", seed=1)
    for against in (model("dropout"), model("dropout", 1)):
        assert run("dropout, no change", model("dropout"), noisy, against).ok
        (shifted,) = run("dropout, 3 sigma higher", model("biased"), noisy, _or_itself(against, model("biased"))).groups
        assert "is higher" in shifted.note
    if count >= 5000:
        (slight,) = run("dropout, 0.1 sigma higher", model("slightly"), noisy, model("dropout")).groups
        assert "is higher" in slight.note


def _or_itself(against: Model, itself: Model) -> Model:
    """Return the old model, or the model itself in the place of the handle without a version."""
    return against if against.version != -1 else itself


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="requests to capture")
    options = parser.parse_args(words)
    with serve_models() as server, tempfile.TemporaryDirectory() as directory:
        prove(server, options.count, Path(directory))
    print("all proved")


if __name__ == "__main__":
    main()
