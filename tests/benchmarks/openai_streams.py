"""Streams through the port of OpenAI's API: the delay of each chunk, the time until a client that leaves has cancelled
its request, and the growth of the server.

    python -m tests.benchmarks.openai_streams [delay] [leaving] [growth] [aiperf=DIR/bin/aiperf]

The model sends the time of sending as its text, of the clock that all processes share, so that a client sees how long
each chunk took from `sender.send` to its socket. `aiperf` compares the times that NVIDIA's AIPerf measures with the
histograms on /metrics and with the model's own times: it needs a virtual environment with `pip install aiperf`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import psutil

from tests.serve_process import ServeProcess
from tests.serving import eventually, write_model

STREAMS, SECONDS, GAP = 64, 10.0, 0.05
LEAVING = 30
WARM, MANY, AT_ONCE = 1_000, 10_000, 32
FIRST, BETWEEN, TEXTS = 0.2, 0.04, 50
REQUESTS, AGREE = 40, 0.05
#: A tokenizer whose tokens are words, as AIPerf reads it.
TOKENIZER = """
import sys
import tokenizers, transformers
words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"word": 0, "</s>": 1}, unk_token="word"))
words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
made = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>", unk_token="word")
made.save_pretrained(sys.argv[1])
"""
#: A prompt is JSON: `gap` seconds between `count` texts, and a file for the time at which the model saw the end. Any
#: other prompt gets TEXTS texts, the first after FIRST seconds and the others BETWEEN seconds apart.
MODEL = """
import json
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.streams, self.came = [], threading.Event()
        threading.Thread(target=self.run, daemon=True).start()

    def execute(self, requests):
        for request in requests:
            prompt = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[0]
            usual = {"first": FIRST, "gap": BETWEEN, "count": TEXTS}
            asked = json.loads(prompt) if prompt.startswith(b"{") else usual
            due = time.monotonic() + asked.get("first", asked["gap"])
            self.streams.append([due, asked["gap"], asked["count"], asked.get("file"), request.get_response_sender()])
        self.came.set()

    def run(self):
        while True:
            self.came.wait()
            now = time.monotonic()
            for stream in list(self.streams):
                due, gap, count, file, sender = stream
                if file and sender.is_cancelled():
                    with open(file, "w") as seen:
                        seen.write(str(time.monotonic_ns()))
                    count = 0
                if count and due > now:
                    continue
                if count:
                    text = np.array([str(time.monotonic_ns()) + " "], dtype=np.object_)
                    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", text)]))
                    stream[0], stream[2] = due + gap, count - 1
                else:
                    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                    self.streams.remove(stream)
            if not self.streams:
                self.came.clear()
                continue
            time.sleep(max(0.0, min(min(each[0] for each in self.streams) - time.monotonic(), 0.001)))
"""
CONFIG = """
backend: "python"
model_transaction_policy { decoupled: true }
input [ { name: "text_input" data_type: TYPE_STRING dims: [1] } ]
output [ { name: "text_output" data_type: TYPE_STRING dims: [1] } ]
"""


async def open_answer(
    port: int, stream: bool = True, **prompt: Any
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    document = {"model": "timed", "prompt": json.dumps(prompt), "stream": stream, "max_tokens": 1 << 30}
    body = json.dumps(document).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    return reader, writer


async def delays_of(port: int, **prompt: Any) -> list[float]:
    """Return the milliseconds that each chunk of a stream took."""
    reader, writer = await open_answer(port, **prompt)
    found = []
    async for line in reader:
        now = time.monotonic_ns()
        if line.startswith(b"data: {") and (text := json.loads(line[6:])["choices"][0]["text"]):
            found.append((now - int(text)) / 1e6)
        if line.startswith(b"data: [DONE]"):
            break
    writer.close()
    return found


async def delay(port: int) -> None:
    psutil.cpu_percent(None)  # the next call measures from here
    streams = [delays_of(port, gap=GAP, count=int(SECONDS / GAP)) for _ in range(STREAMS)]
    found = np.concatenate(await asyncio.gather(*streams))
    busy = psutil.cpu_percent(None)
    assert len(found) == STREAMS * int(SECONDS / GAP)
    p50, p95, p99 = np.percentile(found, [50, 95, 99])
    print(
        f"delay: {STREAMS} streams of a text each {GAP * 1e3:g} ms, {len(found)} chunks from sender.send to the "
        f"client: p50 {p50:.2f} ms, p95 {p95:.2f} ms, p99 {p99:.2f} ms ({os.cpu_count()} cores, {busy:.0f}% busy, "
        f"load average {os.getloadavg()[0]:.1f})"
    )


async def leaving(port: int, scratch: Path) -> None:
    for stream in (True, False):
        found = []
        for number in range(LEAVING):
            file = scratch / f"seen-{stream}-{number}"
            reader, writer = await open_answer(port, stream, gap=0.005, count=1 << 30, file=str(file))
            await (reader.readuntil(b"data: {") if stream else asyncio.sleep(0.05))
            left = time.monotonic_ns()
            writer.transport.abort()
            while not file.exists() or not (seen := file.read_text()):
                await asyncio.sleep(0.002)
            found.append((int(seen) - left) / 1e6)
        kind = "a stream" if stream else "one answer"
        print(
            f"leaving {kind}: is_cancelled() is True after p50 {np.median(found):.1f} ms, at most {max(found):.1f} ms, "
            f"{LEAVING} times"
        )


async def growth(port: int, pid: int) -> None:
    async def streams(count: int) -> None:
        left = iter(range(count))

        async def client() -> None:
            for _ in left:
                assert len(await delays_of(port, gap=0.001, count=10)) == 10

        await asyncio.gather(*(client() for _ in range(AT_ONCE)))

    def sizes() -> list[float]:
        server = psutil.Process(pid)
        found = [server.memory_info().rss, sum(each.memory_info().rss for each in server.children(recursive=True))]
        return [size / (1 << 20) for size in found]

    await streams(WARM)
    before, begun = sizes(), time.monotonic()
    for part in range(1, 3):
        await streams(MANY // 2)
        server, children = sizes()
        print(
            f"growth: {part * MANY // 2} streams of 10 texts after {WARM} in {time.monotonic() - begun:.0f} s: server "
            f"{before[0]:.1f} -> {server:.1f} MiB, its processes {before[1]:.1f} -> {children:.1f} MiB"
        )


def aiperf(program: str, port: int, metrics: Callable[[], str], scratch: Path) -> None:
    python, tokenizer = Path(program).with_name("python"), scratch / "tokenizer"
    subprocess.run([python, "-c", TOKENIZER, str(tokenizer)], check=True)
    command = [program, "profile", "--model=timed", f"--url=http://127.0.0.1:{port}", "--endpoint-type=completions"]
    command += ["--streaming", f"--tokenizer={tokenizer}", "--concurrency=4", f"--request-count={REQUESTS}"]
    command += ["--isl=5", f"--osl={TEXTS}", f"--artifact-dir={scratch / 'aiperf'}", "--ui=none"]
    before = metrics()
    subprocess.run(command, cwd=scratch, stdout=subprocess.DEVNULL, check=True)
    after = metrics()
    (file,) = (scratch / "aiperf").rglob("profile_export_aiperf.json")
    theirs = json.loads(file.read_text())

    def mean(name: str) -> float:
        parts = [f"tritonlab:{name}_{kind}" for kind in ("sum", "count")]
        total, count = (_number(after, part) - _number(before, part) for part in parts)
        return 1e3 * total / count

    pairs = {
        "time_to_first_token": ("time_to_first_token_seconds", FIRST),
        "inter_token_latency": ("request_time_per_output_token_seconds", BETWEEN),
        "request_latency": ("e2e_request_latency_seconds", FIRST + (TEXTS - 1) * BETWEEN),
    }
    apart = {}
    for name, (ours, known) in pairs.items():
        there, here = theirs[name]["p50"], mean(ours)  # its clients begin slowly
        apart[name] = abs(there - here) / there
        print(
            f"aiperf: {name} {there:.2f} ms, on /metrics {here:.2f} ms ({100 * apart[name]:.2f}% apart), of the model "
            f"{known * 1e3:g} ms (load average {os.getloadavg()[0]:.1f})"
        )
    assert all(each < AGREE for each in apart.values())


def _number(text: str, name: str) -> float:
    found = (line for line in text.splitlines() if line.startswith(f"{name}{{"))
    return float(next(found, "0").rpartition(" ")[2])


def main(parts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        repository = scratch / "models"
        times = f"FIRST, BETWEEN, TEXTS = {FIRST}, {BETWEEN}, {TEXTS}\n"
        write_model(repository, "timed", times + MODEL, CONFIG)
        with ServeProcess(repository, scratch, "--openai-port=0") as process:
            eventually(lambda: "Started OpenAI" in process.serving().stderr, 60)
            port = int(process.place("OpenAI").rpartition(":")[2])
            if not parts or "delay" in parts:
                asyncio.run(delay(port))
            if not parts or "leaving" in parts:
                asyncio.run(leaving(port, scratch))
            if not parts or "growth" in parts:
                asyncio.run(growth(port, process.pid))
            for program in (part.partition("=")[2] for part in parts if part.startswith("aiperf=")):
                aiperf(program, port, lambda: urlopen(f"http://{process.metrics}/metrics").read().decode(), scratch)


if __name__ == "__main__":
    main(sys.argv[1:])
