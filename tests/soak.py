"""What a kernel keeps of each verb: `python -m tests.soak --minutes 60 [VERB ...]` prints the table.

Each verb has a kernel of its own, and takes turns with the others; one more kernel runs all verbs in a mix. Cells are
sent as a notebook sends them, so `Out` keeps what they return; the last columns say what is left without it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .kernels import start_kernel

#: Seconds of one turn of a verb, and calls before the second reading.
TURN, FIRST = 4.0, 10

MODEL = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        x = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", a * 2)]) for a in x]
"""

SETUP = '''
%load_ext tritonlab
import ctypes, gc, json, shutil, sys, threading, time
from pathlib import Path
import ipywidgets, numpy as np, psutil, tritonlab
from IPython.display import display
SOURCE = MODEL_TEXT
FAILS = SOURCE.replace("return", "raise ValueError(len(x)); return")
HANGS = SOURCE.replace("return", "import time; time.sleep(60); return")
STREAMS = SOURCE.split("        return")[0] + """
        for request, a in zip(requests, x):
            sender = request.get_response_sender()
            for _ in range(5):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", a * 2)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
tensors = dict(inputs=["X:FP32[4]"], outputs=["Y:FP32[4]"])
add = tritonlab.load("add", SOURCE, max_batch_size=8, dynamic_batching=100, **tensors)
x, row = np.ones((1, 4), np.float32), np.ones(4, np.float32)
there = Path.cwd()
opened_from = there / "opened"
(opened_from / "other" / "1").mkdir(parents=True)
(opened_from / "other" / "1" / "model.py").write_text(SOURCE)
(opened_from / "other" / "config.pbtxt").write_text("""backend: "python"
input [{ name: "X" data_type: TYPE_FP32 dims: [4] }] output [{ name: "Y" data_type: TYPE_FP32 dims: [4] }]""")

class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

_mallinfo = ctypes.CDLL(None).mallinfo2
_mallinfo.restype = Mallinfo

def _reading():
    gc.collect()
    rollup = dict(line.split()[:2] for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    info, process = _mallinfo(), psutil.Process()
    print(json.dumps({
        "dirty": int(rollup["Private_Dirty:"]) / 1024, "blocks": sys.getallocatedblocks() / 1000,
        "malloc": (info.uordblks + info.hblkhd) / 2**20, "free": info.fordblks / 2**20,
        "objects": len(gc.get_objects()) / 1000, "threads": process.num_threads(), "fds": process.num_fds(),
    }))

'''

#: verb -> its cell. A blank line parts cells.
VERBS = {
    "nothing": "None",
    "infer": "for _ in range(200): add(X=x)",
    "async_infer": "for _ in range(20): [r async for r in add.async_infer(inputs={'X': x})]",
    "stream": "for _ in range(20): list(streams.infer(inputs={'X': row}))",
    "sequence": "for flags in (1, 0, 0, 2): list(sequence.infer(inputs={'X': x}, correlation_id=7, flags=flags))",
    "playground": "form = tritonlab.playground(add); display(form); form.send({'X': x}); form.close()",
    "playground_kept": "%triton playground add",
    "card": "%triton status add",
    "status": "%triton status",
    "view_timeline": "add(X=x); display(add.view()); add.view()",
    "view_streams": "list(streams.infer(inputs={'X': row})); streams.view('streams')",
    "view_metrics": "add(X=x); add.view('metrics')",
    "view_memory": "add(X=x); add.view('memory')",
    "view_graph": "add(X=x); add.view('graph')",
    "plot": "add(X=x); add.view().plot()",
    "load_test": "add.load_test(concurrency=[1, 4], seconds=0.3, warmup=0)",
    "tune": "add.tune(p99_ms=50, seconds=3)",
    "check": "add.check(3)",
    "profile": "add.profile([{'X': x}] * 20)",
    "profile_memory": "add.profile([{'X': x}] * 20, memory=True)",
    "what_if": "add(X=x); add.what_if(max_queue_delay_microseconds=500)",
    "golden": "%triton golden add add X=x\n\n%triton golden check\n\n%triton golden update\n\n"
    "shutil.rmtree(tritonlab.golden().directory)",
    "preflight": "add.preflight()",
    "export": "report = tritonlab.export(add, there / 'exported'); display(report); shutil.rmtree(there / 'exported')",
    "reload": "%%triton_model again --input X:FP32[4] --output Y:FP32[4]\nSOURCE_OF_MODEL",
    "load": "again = tritonlab.load('again', SOURCE + f'# {time.time()}', **tensors); again(X=row)",
    "failure": "fails(X=row)",
    "postmortem": "fails(X=row)\n\n%triton postmortem fails",
    "why": "%triton why",
    "kill": "def ask():\n    try:\n        hangs(X=row)\n    except tritonlab.TritonError: pass\n"
    "thread = threading.Thread(target=ask); thread.start()\ntime.sleep(0.3)\n\n%triton why\n\n"
    "%triton kill hangs\n\nthread.join()",
    "serve": "ports = tritonlab.serve(http_port=0, grpc_port=0, metrics_port=0, token=''); display(ports)\n"
    "far = tritonlab.connect(ports.http).model('add'); far(X=x)\n"
    "far = tritonlab.connect('grpc://' + ports.grpc).model('add'); far(X=x)\nports.stop()",
    "metrics": "%triton metrics",
    "statistics": "%triton statistics",
    "trace": "%triton trace t.json\n\nadd(X=x)\n\n%triton trace",
    "logs": "%triton logs",
    "recording": "tritonlab.recording().save(there / 'r'); tritonlab.view(there / 'r', model='add')",
    "open": "opened = tritonlab.open(opened_from); display(opened); opened['other'].model(X=row); opened.close()",
}

#: Models that one verb alone needs.
MODELS = {
    "streams": "streams = tritonlab.load('streams', STREAMS, decoupled=True, **tensors)",
    "sequence": "sequence = tritonlab.load('sequence', SOURCE, config={'backend': 'python', 'max_batch_size': 8, "
    "'input': [{'name': 'X', 'data_type': 'TYPE_FP32', 'dims': [4]}], 'output': [{'name': 'Y', 'data_type': "
    "'TYPE_FP32', 'dims': [4]}], 'sequence_batching': {}})",
    "fails": "fails = tritonlab.load('fails', FAILS, **tensors)",
    "hangs": "hangs = tritonlab.load('hangs', HANGS, **tensors)",
}


class Kernel:
    """A kernel that runs cells and reads its memory."""

    def __init__(self, directory: Path, cells: str) -> None:
        directory.mkdir()
        self._manager, self._client = start_kernel({**os.environ, "XDG_CACHE_HOME": str(directory)})
        self.errors: Counter[str] = Counter()
        self._run(f"%cd -q {directory}", history=False)
        self._run(SETUP.replace("MODEL_TEXT", repr(MODEL)), history=False)
        for name, source in MODELS.items():
            if name in cells:
                self._run(source, history=False)
        self.run("add(X=x)")

    def run(self, cell: str) -> None:
        for part in cell.split("\n\n"):
            self._run(part)

    def _run(self, source: str, *, history: bool = True) -> str:
        source = source.replace("SOURCE_OF_MODEL", f"{MODEL}# {time.time()}")
        text: list[str] = []

        def keep(message: Mapping[str, Any]) -> None:
            if message["msg_type"] == "stream":
                text.append(message["content"]["text"])

        reply = self._client.execute_interactive(
            source,
            store_history=history,
            output_hook=keep,
            timeout=300,
            allow_stdin=True,
            stdin_hook=lambda message: self._client.input("q"),
        )
        if reply["content"]["status"] == "error":
            error = f"{reply['content']['ename']}: {reply['content']['evalue'][:60]}"
            if error not in self.errors:
                print(source.splitlines()[0], error, flush=True)
            self.errors[error] += 1
        return "".join(text)

    def read(self, before: str = "") -> dict[str, float]:
        found: dict[str, float] = json.loads(self._run(f"{before}\n_reading()", history=False).splitlines()[-1])
        return found

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


#: What each last reading comes after.
ENDS = {
    "without Out": "%reset -f out\nimport sys",
    "trimmed": "gc.collect(); ctypes.CDLL(None).malloc_trim(0)",
    "stopped": "tritonlab.reset()",
}


class Alone:
    """One verb in a kernel of its own."""

    def __init__(self, verb: str, directory: Path) -> None:
        self.verb = verb
        self.calls = 0
        self.kernel = Kernel(directory / verb, VERBS[verb])
        self.readings = {"start": self.kernel.read()}

    def take_turn(self) -> None:
        end = time.monotonic() + TURN
        while time.monotonic() < end:
            self.kernel.run(VERBS[self.verb])
            self.calls += 1
            if self.calls == FIRST:
                self.readings["10 calls"] = self.kernel.read()

    def finish(self) -> None:
        self.readings["end"] = self.kernel.read()
        for name, cell in ENDS.items():
            self.readings[name] = self.kernel.read(cell)
        self.kernel.close()

    def row(self) -> str:
        read = self.readings
        first = read.get("10 calls", read["start"])
        slope = (read["end"]["dirty"] - first["dirty"]) / max(self.calls - FIRST, 1) * 1000
        dirty = [f"{reading['dirty']:.1f}" for reading in (read["start"], first, read["end"])]
        rest = [f"{read[name]['dirty']:.1f}" for name in ENDS]
        inside = [f"{first[name]:.0f} {read['end'][name]:.0f} {read['without Out'][name]:.0f}" for name in INSIDE]
        cells = [self.verb, str(self.calls), *dirty, f"{slope:.0f}", *rest, *inside, str(dict(self.kernel.errors))]
        return " | ".join(cells)


#: What a reading counts besides dirty memory, each after 10 calls, at the end, and without `Out`.
INSIDE = ("malloc", "free", "blocks", "objects", "threads", "fds")
HEAD = " | ".join(["verb", "calls", "start", "10 calls", "end", "KB/call", *ENDS, *INSIDE, "errors"])


def run_mix(directory: Path, end: float, lines: list[str]) -> None:
    """Run all verbs by chance in one kernel, and write its memory each minute and the growth during each verb."""
    chance = random.Random(0)
    kernel = Kernel(directory / "mix", "".join(MODELS))
    last = kernel.read()
    calls: Counter[str] = Counter()
    grown: dict[str, float] = dict.fromkeys(VERBS, 0.0)
    began, printed = time.monotonic(), 0.0
    while time.monotonic() < end:
        verb = chance.choice(list(VERBS))
        kernel.run(VERBS[verb])
        now = kernel.read()
        calls[verb] += 1
        grown[verb] += now["dirty"] - last["dirty"]
        last = now
        if time.monotonic() - printed > 60:
            printed = time.monotonic()
            lines.append(f"mix {(printed - began) / 60:.0f} min, {calls.total()} calls: {now}")
            print(lines[-1], flush=True)
    for name, cell in {"idle": "time.sleep(30)", **ENDS}.items():
        lines.append(f"mix {name}: {kernel.read(cell)}")
    by_growth = sorted(calls, key=lambda verb: -grown[verb])
    lines += [f"mix {verb}: {calls[verb]} calls, {grown[verb]:+.1f} MB" for verb in by_growth]
    lines.append(f"mix errors: {dict(kernel.errors)}")
    kernel.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verbs", nargs="*", metavar="VERB")
    parser.add_argument("--minutes", type=float, default=60.0)
    arguments = parser.parse_args()
    verbs = arguments.verbs or list(VERBS)
    with tempfile.TemporaryDirectory() as scratch, started(verbs, Path(scratch)) as alone:
        end = time.monotonic() + arguments.minutes * 60
        lines: list[str] = []
        mix = threading.Thread(target=run_mix, args=(Path(scratch), end, lines))
        mix.start()
        while time.monotonic() < end:
            for each in alone:
                each.take_turn()
        mix.join()
        print("\n".join([*lines, HEAD]), flush=True)
        for each in alone:
            each.finish()
            print(each.row(), flush=True)


@contextlib.contextmanager
def started(verbs: list[str], directory: Path) -> Iterator[list[Alone]]:
    alone: list[Alone] = []
    try:
        for verb in verbs:
            alone.append(Alone(verb, directory))
        yield alone
    finally:
        for each in alone:
            with contextlib.suppress(Exception):
                each.kernel.close()


if __name__ == "__main__":
    main()
