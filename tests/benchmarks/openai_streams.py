"""Streams through the port of OpenAI's API: the delay of each chunk, the time until a client that leaves has cancelled
its request, and the growth of the server.

    python -m tests.benchmarks.openai_streams [delay] [judged] [leaving] [growth] [aiperf=DIR/bin/aiperf]

The model sends the time of sending as its text, of the clock that all processes share, so that a client sees how long
each chunk took from `sender.send` to its socket. Its streams send at the same moment, or spread over the gap. A server
of a few lines, which sends the same without a model, shows how much of the delay is the client's and the machine's;
`judged` measures a real tritonserver's `generate_stream` by the same client, and ours.

`aiperf` compares the times that NVIDIA's AIPerf measures at the port with those of `load_test` over gRPC, and with its
times of the bare server. It needs a virtual environment with `pip install aiperf`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tests.conformance.reference import ReferenceServer
from tests.serve_process import ServeProcess
from tests.serving import eventually, write_model
from tritonlab.exchanges.remote.remote_server import connect

STREAMS, SECONDS, GAP = 64, 10.0, 0.05
LEAVING = 30
WARM, MANY, AT_ONCE = 1_000, 10_000, 32
FIRST, BETWEEN, TEXTS = 0.2, 0.04, 25
CLIENTS, REQUESTS, AGREE = 4, 40, 0.05
#: The times of the model in seconds, by AIPerf's names.
KNOWN = {"time_to_first_token": FIRST, "inter_token_latency": BETWEEN, "request_latency": FIRST + (TEXTS - 1) * BETWEEN}
TIMES = f"FIRST, BETWEEN, TEXTS = {FIRST}, {BETWEEN}, {TEXTS}\n"
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


OPENAI, GENERATE = "/v1/completions", "/v2/models/timed/generate_stream"
TIME = re.compile(rb'"text(?:_output)?": ?"(\d+) "')


async def open_answer(
    port: int, stream: bool = True, path: str = OPENAI, **prompt: Any
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    document: dict[str, Any] = {"text_input": json.dumps(prompt)}
    if path == OPENAI:
        document = {"model": "timed", "prompt": json.dumps(prompt), "stream": stream, "max_tokens": 1 << 30}
    body = json.dumps(document).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    return reader, writer


async def delays_of(port: int, path: str = OPENAI, **prompt: Any) -> list[float]:
    """Return the milliseconds that each chunk of a stream took."""
    reader, writer = await open_answer(port, path=path, **prompt)
    found: list[float] = []
    while len(found) < prompt["count"]:
        line = await reader.readline()
        now = time.monotonic_ns()
        if text := TIME.search(line):
            found.append((now - int(text[1])) / 1e6)
        assert line, found
    while path == OPENAI and not line.startswith(b"data: [DONE]"):
        line = await reader.readline()
        assert line
    writer.close()
    return found


async def delay(
    port: int, name: str, processes: list[psutil.Process], path: str = OPENAI, spread: bool = False
) -> None:
    """Print the delays of many streams, and the processor time for each chunk of the server and its models."""
    before = [sum(each.cpu_times()[:2]) for each in processes]
    firsts = [GAP * (1 + spread * number / STREAMS) for number in range(STREAMS)]
    streams = [delays_of(port, path, first=first, gap=GAP, count=int(SECONDS / GAP)) for first in firsts]
    found = np.concatenate(await asyncio.gather(*streams))
    p50, p95, p99 = np.percentile(found, [50, 95, 99])
    costs = [(sum(each.cpu_times()[:2]) - old) / len(found) for each, old in zip(processes, before, strict=True)]
    cost = ", ".join(f"{1e6 * each:.0f}" for each in costs)
    print(
        f"delay, {name}, {'spread' if spread else 'at once'}: {STREAMS} streams of a text each {GAP * 1e3:g} ms, "
        f"{len(found)} chunks: p50 {p50:.2f} ms, p95 {p95:.2f} ms, p99 {p99:.2f} ms ({cost} us each of its processes, "
        f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f})",
        flush=True,
    )


def delays(port: int, name: str, pid: int, path: str = OPENAI) -> None:
    server = psutil.Process(pid)
    for spread in (False, True):
        asyncio.run(delay(port, name, [server, *server.children(recursive=True)], path, spread))


def judged(repository: Path, scratch: Path) -> None:
    with ReferenceServer(repository, scratch, ["--model-control-mode=none"]) as real:
        eventually(lambda: "successfully loaded 'timed'" in real.log(), 60)
        delays(int(real.http.rpartition(":")[2]), "generate_stream of 2.51", real.pid, GENERATE)


#: A server that sends the model's texts without a model.
BARE = """
import asyncio, json, time


async def answer(reader, writer):
    while head := await reader.readuntil(b"\\r\\n\\r\\n"):
        size = int(head.lower().partition(b"content-length: ")[2].split()[0])
        prompt = json.loads(await reader.readexactly(size))["prompt"]
        usual = {"first": FIRST, "gap": BETWEEN, "count": TEXTS}
        asked = json.loads(prompt) if prompt[0] == "{" else usual
        due = time.monotonic() + asked["first"]
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\n")
        writer.write(b"Transfer-Encoding: chunked\\r\\n\\r\\n")
        for _ in range(asked["count"]):
            await asyncio.sleep(max(0, due - time.monotonic()))
            due += asked["gap"]
            choice = {"index": 0, "finish_reason": None, "text": f"{time.monotonic_ns()} ", "logprobs": None}
            kept = {"id": "cmpl-" + "0" * 32, "object": "text_completion", "created": 0, "model": "timed"}
            write(writer, json.dumps({**kept, "choices": [choice]}).encode())
        write(writer, b"[DONE]")
        writer.write(b"0\\r\\n\\r\\n")
        await writer.drain()


def write(writer, data):
    event = b"data: %b\\n\\n" % data
    writer.write(b"%x\\r\\n%b\\r\\n" % (len(event), event))


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
"""


@contextmanager
def bare_server() -> Iterator[tuple[str, int]]:
    """Return the address of the bare server, and its process."""
    program = [sys.executable, "-c", TIMES + BARE]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.terminate()


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


def by_aiperf(program: str, url: str, scratch: Path) -> dict[str, float]:
    """Return the medians in milliseconds that AIPerf measures of streams at an address."""
    python, tokenizer, made = Path(program).with_name("python"), scratch / "tokenizer", scratch / "aiperf"
    if not tokenizer.exists():
        subprocess.run([python, "-c", TOKENIZER, str(tokenizer)], check=True)
    command = [program, "profile", "--model=timed", f"--url={url}", "--endpoint-type=completions", "--ui=none"]
    command += ["--streaming", f"--tokenizer={tokenizer}", f"--concurrency={CLIENTS}", f"--request-count={REQUESTS}"]
    command += ["--isl=5", f"--osl={TEXTS}", f"--artifact-dir={made}"]
    shutil.rmtree(made, ignore_errors=True)
    subprocess.run(command, cwd=scratch, stdout=subprocess.DEVNULL, check=True)
    (file,) = made.rglob("profile_export_aiperf.json")
    found = json.loads(file.read_text())
    return {name: found[name]["p50"] for name in KNOWN}


def aiperf(program: str, port: int, process: ServeProcess, scratch: Path) -> None:
    with bare_server() as (address, _):
        alone = by_aiperf(program, address, scratch)
    theirs = by_aiperf(program, f"http://127.0.0.1:{port}", scratch)
    (row,) = (
        connect(f"grpc://{process.grpc}")
        .model("timed")
        .load_test(
            inputs={"text_input": ["word"]},
            concurrency=[CLIENTS],
            seconds=SECONDS,
            output_tokens="text_output",
            progress=False,
        )
        .rows
    )
    assert row.tokens is not None and row.tokens.time_to_first_token and row.tokens.inter_token_latency
    ours = {
        "time_to_first_token": row.tokens.time_to_first_token.p50 / 1e3,
        "inter_token_latency": row.tokens.inter_token_latency.p50 / 1e3,
        "request_latency": row.latency.p50 / 1e3,
    }
    apart = {name: abs(theirs[name] - ours[name]) / theirs[name] for name in KNOWN}
    for name, known in KNOWN.items():
        print(
            f"aiperf: {name} {theirs[name]:.2f} ms, by load_test {ours[name]:.2f} ms ({100 * apart[name]:.2f}% apart), "
            f"of the model {1e3 * known:g} ms; of a bare server {alone[name]:.2f} ms by AIPerf "
            f"(load average {os.getloadavg()[0]:.1f})"
        )
    assert all(each < AGREE for each in apart.values())


def main(parts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        repository = scratch / "models"
        write_model(repository, "timed", TIMES + MODEL, CONFIG)
        with ServeProcess(repository, scratch, "--openai-port=0") as process:
            eventually(lambda: "Started OpenAI" in process.serving().stderr, 60)
            port = int(process.place("OpenAI").rpartition(":")[2])
            if not parts or "delay" in parts:
                with bare_server() as (address, pid):
                    delays(int(address.rpartition(":")[2]), "a bare server", pid)
                delays(port, "ours", process.pid)
            if not parts or "judged" in parts:
                delays(int(process.http.rpartition(":")[2]), "our generate_stream", process.pid, GENERATE)
                judged(repository, scratch)
            if not parts or "leaving" in parts:
                asyncio.run(leaving(port, scratch))
            if not parts or "growth" in parts:
                asyncio.run(growth(port, process.pid))
            for program in (part.partition("=")[2] for part in parts if part.startswith("aiperf=")):
                aiperf(program, port, process, scratch)


if __name__ == "__main__":
    main(sys.argv[1:])
