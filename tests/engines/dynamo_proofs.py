"""What a worker of ours carries, refuses and survives in a Dynamo fleet, and what several of them are worth."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient

from tests.conformance.reference import free_ports
from tests.engines import dynamo_rows
from tests.engines.direct import Direct, direct_server
from tests.engines.environment import environment, python_of
from tests.engines.figures import Figures
from tests.engines.fleet import START, Fleet, fleet, tensor
from tests.engines.load import Load, Outcome, measured
from tests.engines.models import DOUBLE, SLEEPER, SLEEPER_CONFIG, TOTAL, TOTAL_CONFIG, write_plain
from tests.engines.odd import REQUESTS, STREAMS, answer_of, answers_of, write_odd
from tests.serving import config, write_model

#: Callers, and seconds of each measurement.
CALLERS, SECONDS = 16, 10.0
_CONNECTION = re.compile(r"\d+\.\d+\.\d+\.\d+:\d+")


def run(scratch: Path, figures: Figures) -> None:
    """Prove and measure everything; `scratch` is an empty directory."""
    plain = scratch / "plain" / "models"
    plain.mkdir(parents=True)
    log = write_plain(plain)
    write_odd(plain)
    served = ("sleeper", "stream", "double", "scripted", "streamed", "rows")
    with fleet(scratch / "carried") as found:
        found.start(plain, *(f"--model={name}" for name in served)).await_serving(len(served))
        for name in served:
            found.await_ready(name)
        carried(found.client(), log, figures)
        with direct_server(plain) as direct:
            as_odd(found, direct, figures)
        refused(found, scratch / "refused", figures)
    dynamo_rows.run(scratch / "rows", figures)
    printed(scratch / "printed", figures)
    with fleet(scratch / "sequences") as found:
        sequences(found, scratch / "total", figures)
    sleepers = scratch / "sleepers"
    write_model(sleepers, "sleeper", SLEEPER, SLEEPER_CONFIG)
    with fleet(scratch / "scaled") as found:
        scaled(found, sleepers, figures)
        ended(found, sleepers, figures)


def carried(client: Any, log: Path, figures: Figures) -> None:
    """Prove what of a request reaches the model, and what of its answer the client."""
    parameters = {"p": "q", "n": 5, "b": True}
    wanted = [grpcclient.InferRequestedOutput("SEEN")]
    result = client.infer(
        "sleeper", [tensor([1, 2])], request_id="abc", parameters=parameters, timeout=7_000_000, outputs=wanted
    )
    seen, answer = json.loads(result.as_numpy("SEEN")[0]), result.get_response()
    figures.prove("request id, there and back", (seen["id"], answer.id), ("abc", "abc"))
    figures.prove("request parameters", seen["parameters"], parameters)
    figures.prove("timeout", seen["timeout"], 7_000_000)
    figures.prove("requested outputs", (seen["outputs"], [each.name for each in answer.outputs]), (["SEEN"], ["SEEN"]))
    values = {name: getattr(value, str(value.WhichOneof("parameter_choice"))) for name, value in
              answer.parameters.items()}  # fmt: skip
    figures.prove("response parameters", values, {"rp": "7", "n": 3})
    figures.prove("an error", _error(client, "double", [[-1]]), "Internal: negative")
    responses: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: responses.put((result, error)))
    client.async_stream_infer("stream", [tensor([3])])
    got = [responses.get(timeout=20)[0].as_numpy("OUT")[0] for _ in range(3)]
    figures.prove("a stream of three", (got, responses.empty()), ([0, 1, 2], True))
    log.write_text("")
    client.async_stream_infer("stream", [tensor([200])])
    responses.get(timeout=20)
    client.stop_stream(cancel_requests=True)
    figures.prove("a client that goes cancels its stream", _sent(log) < 100, True)
    log.write_text("")
    error = _error(client, "stream", [200], client_timeout=0.5)
    figures.prove("a deadline cancels its request", (_sent(log) < 100, bool(error)), (True, True))


def _sent(log: Path) -> int:
    """Return how many responses `stream` sent of the last request."""
    end = time.monotonic() + 20
    while not log.read_text() and time.monotonic() < end:
        time.sleep(0.05)
    return int((log.read_text() or "1000").split()[0])


def _error(client: Any, model: str, values: Any, **more: Any) -> str:
    """Return the error of a request, as the worker wrote it: the frontend puts its own words around it."""
    try:
        client.infer(model, [tensor(values)], **more)
    except Exception as error:
        return str(error).rpartition("WorkerError: ")[2].strip()
    return ""


def as_odd(found: Fleet, direct: Direct, figures: Figures) -> None:
    """Prove that odd requests are answered as directly, with the code of an error in its text, and that a stream
    ends with its first error."""
    for name, request in REQUESTS.items():
        plain = answer_of(grpcclient, grpcclient.InferenceServerClient(direct.grpc), request)
        answer = _unwrapped(answer_of(grpcclient, found.client(), request))
        figures.prove(f"as directly: {name}", answer, _worded(plain))
    for name, request in STREAMS.items():
        plains = answers_of(grpcclient.InferenceServerClient(direct.grpc), request)
        errors = [place for place, each in enumerate(plains, 1) if each.startswith("error")]
        answers = [_unwrapped(each) for each in answers_of(found.client(), request)]
        answers = [each.replace("error: Internal: ", "error: ") for each in answers]
        figures.prove(f"a stream as directly: {name}", answers, plains[: errors[0]] if errors else plains)


def _unwrapped(answer: str) -> str:
    """Return an answer without what the frontend writes around an error of a worker."""
    return f"error: {answer.rpartition('WorkerError: ')[2]}" if "WorkerError: " in answer else _worded(answer)


def _worded(answer: str) -> str:
    """Return an answer with the code of an error as a word; the frontend has its own words for an unknown model."""
    found = re.match(r"error: \[StatusCode\.(\w+)\] (.*)", answer, re.DOTALL)
    if found is None:
        return answer
    code = found[1].replace("_", " ").capitalize()
    return f"error: {code}" if "'nothing'" in found[2] else f"error: {code}: {found[2]}"


def refused(found: Fleet, scratch: Path, figures: Figures) -> None:
    """Prove what is refused, with the fleet of `carried` up."""
    write_model(scratch / "other", "double", DOUBLE, config("IN FP64 -1", "OUT FP64 -1", "max_batch_size: 8"))
    for version in (1, 2):
        policy = "version_policy { all { } }"
        write_model(scratch / "versions", "v", DOUBLE, config("IN FP32 -1", "OUT FP32 -1", policy), version=version)
    for name, text in (("other", "with another config"), ("versions", "Dynamo tells a worker none")):
        worker = found.start(scratch / name)
        status = worker.process.wait(90)
        figures.prove(f"refused at the start: {text}", (status, text in worker.log.read_text()), (1, True))
    values = np.zeros((1, 900_000), np.float32)
    begun = time.monotonic()
    found.client().infer("double", [tensor(values)])
    figures.add("3.6 MB there and back", f"{time.monotonic() - begun:.1f} s")
    figures.prove("above 4 MiB", bool(_error(found.client(), "double", np.zeros((1, 1_100_000), np.float32))), True)


def sequences(found: Fleet, repository: Path, figures: Figures) -> None:
    """Prove that 200 sequences are right with one worker, and that a second one is refused."""
    write_model(repository, "total", TOTAL, TOTAL_CONFIG)
    found.start(repository).await_serving(1)
    found.await_ready("total")
    client, right = found.client(), 0
    for number in range(1, 201):
        totals = [
            float(
                client.infer(
                    "total", [tensor([step])], sequence_id=number, sequence_start=step == 1, sequence_end=step == 3
                ).as_numpy("OUT")[0]
            )
            for step in (1, 2, 3)
        ]
        right += totals == [1, 3, 6]
    figures.add("sequences with one worker", f"{right} of 200 right", right == 200)
    second = found.start(repository)
    status = second.process.wait(90)
    figures.prove("a second worker for sequences", (status, "keeps sequences" in second.log.read_text()), (1, True))


def scaled(found: Fleet, repository: Path, figures: Figures) -> None:
    """Measure the rate of 1, 2 and 4 workers, and how soon the later ones take part."""
    found.start(repository).await_serving(1)
    found.await_ready("sleeper")
    measured(found.sleeper(), CALLERS, 2)
    one = measured(found.sleeper(), CALLERS, SECONDS)
    figures.add("1 worker", f"{one.rate:.1f}/s")
    load = Load(found.sleeper(), CALLERS)
    time.sleep(1)
    known = load.processes
    begun = time.monotonic()
    found.start(repository).await_serving(1)
    ready = time.monotonic() - begun
    took = load.answered_by(known, 30)
    outcome = load.end()
    figures.add(
        "a second worker takes part under load",
        f"{took or 0:.1f} s after it serves, which is {ready:.1f} s after its start; {len(outcome.errors)} lost",
        took is not None and took <= 10 and not outcome.errors,
        "10 s",
    )
    for workers, bar in ((2, 1.8), (4, 3.4)):
        while len(found.workers) < workers:
            found.start(repository).await_serving(1)
        time.sleep(3)
        outcome = measured(found.sleeper(), CALLERS, SECONDS)
        figures.add(f"{workers} workers", f"{outcome.rate:.1f}/s, {outcome.rate / one.rate:.2f} x",
                    outcome.rate >= bar * one.rate, f"{bar} x")  # fmt: skip
        even = len(outcome.by_process) == workers and outcome.spread <= 0.02
        figures.add(f"{workers} workers' spread", f"{100 * outcome.spread:.1f} %", even, "2 %")


def ended(found: Fleet, repository: Path, figures: Figures) -> None:
    """Measure what is lost when workers of four are ended, killed and stopped, under load."""
    load = Load(found.sleeper(), CALLERS)
    time.sleep(2)
    begun = time.monotonic()
    status = found.workers[0].end()
    took = time.monotonic() - begun
    time.sleep(2)
    outcome = load.end()
    figures.add(
        "SIGTERM under load",
        f"{len(outcome.errors)} lost of {outcome.answers}, ended with {status} after {took:.1f} s",
        not outcome.errors and not outcome.wrong and status == 0,
        "0 lost",
    )
    _add_kinds(outcome, figures)
    load = Load(found.sleeper(), CALLERS)
    time.sleep(2)
    os.kill(found.workers[1].pid, signal.SIGKILL)
    time.sleep(15)
    outcome = load.end()
    # a stream that ends was in flight on the killed worker; the rest was sent to it when it was dead
    later = sum("Stream ended" not in error for error in outcome.errors)
    figures.add(
        "SIGKILL of 1 of 3, 16 callers",
        f"{len(outcome.errors)} lost of {outcome.answers}, {later} of them sent to the dead one; {outcome.wrong} wrong",
        later <= 2 and len(outcome.errors) - later <= CALLERS and not outcome.wrong,
        "those in flight and two",
    )
    _add_kinds(outcome, figures)
    stopped = found.workers[2]
    os.kill(stopped.pid, signal.SIGSTOP)
    time.sleep(20)
    os.kill(stopped.pid, signal.SIGCONT)
    status = stopped.process.wait(60)
    figures.prove("a worker that was stopped for 20 s ends to be started again", status, os.EX_TEMPFAIL)


def _add_kinds(outcome: Outcome, figures: Figures) -> None:
    """Note the errors by kind."""
    for text, count in Counter(_CONNECTION.sub("...", error) for error in outcome.errors).items():
        figures.add("  lost with", f"{count} x {text[:160]}")


#: A kernel with a model that prints what `%triton serve --dynamo` shows, and lives until its input ends.
NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "tritonlab")
shell.run_cell_magic("triton_model", "double --input IN:FP32[-1] --output OUT:FP32[-1]", sys.argv[1])
print("SHOWN", shell.run_line_magic("triton", "serve --dynamo"), "END", flush=True)
sys.stdin.read()
"""


def printed(scratch: Path, figures: Figures) -> None:
    """Prove that what `%triton serve --dynamo` prints serves the notebook's model, run as it stands in two shells of an
    environment that has tritonlab and Dynamo. Only the ports are chosen here, by Dynamo's variables."""
    (scratch / "bin").mkdir(parents=True)
    command = scratch / "bin" / "tritonlab"  # as pip installs it there
    command.write_text(f'#!/bin/sh\nexec {python_of("dynamo")} -m tritonlab "$@"\n')
    command.chmod(0o755)
    port, metrics = free_ports(2)
    paths = os.pathsep.join([str(scratch / "bin"), str(Path(python_of("dynamo")).parent), os.environ["PATH"]])
    variables = environment(
        HOME=str(scratch), PATH=paths, DYN_HTTP_PORT=str(port), DYN_GRPC_METRICS_PORT=str(metrics), DYN_LOG="warn"
    )
    with contextlib.ExitStack() as ends:
        notebook = ends.enter_context(_process([sys.executable, "-c", NOTEBOOK, DOUBLE], scratch / "notebook.log"))
        text = _text_between(scratch / "notebook.log", "SHOWN ", " END")
        settings, frontend, worker, *_ = text.splitlines()
        for line in (frontend, worker):
            shell = ["bash", "-c", f"{settings}\n{line}"]
            ends.enter_context(_process(shell, scratch / f"{line.split()[0]}.log", variables))
        client, answer = grpcclient.InferenceServerClient(f"127.0.0.1:{port}"), []
        end = time.monotonic() + START
        while not answer and time.monotonic() < end and notebook.poll() is None:
            with contextlib.suppress(Exception):
                answer = client.infer("double", [tensor([1, 2])], client_timeout=10).as_numpy("OUT").tolist()
            time.sleep(0.2)
    figures.prove("what %triton serve --dynamo prints, as it stands", answer, [2, 4])


@contextlib.contextmanager
def _process(
    command: Sequence[str], log: Path, variables: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command with all that it starts, and end them together."""
    with log.open("w") as file:
        process = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _text_between(file: Path, before: str, after: str) -> str:
    """Wait for a text in a file."""
    end = time.monotonic() + START
    while after not in file.read_text():
        if time.monotonic() > end:
            raise RuntimeError(f"'{after.strip()}' did not come:\n{file.read_text()[-2000:]}")
        time.sleep(0.1)
    return file.read_text().partition(before)[2].partition(after)[0]
