"""Models that wait until a test lets them go on, so that nothing depends on how long anything takes.

A model runs `GATE` and calls `pass_gate(self, names)` in `execute`: the names of its requests show as started, and a
request whose name begins with `hold` keeps the instance until the test opens it. Names are the first element of the
BYTES input NAME, or request ids.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .clients import PLAIN, Client, Inputs, Options, Pending
from .scripts import eventually

GATE = """
import os
import time


def pass_gate(directory, names):
    with open(directory + "/started", "a") as file:
        file.write("".join(name + "\\n" for name in names))
    for name in names:
        while name.startswith("hold") and not os.path.exists(directory + "/open." + name):
            time.sleep(0.002)
"""


def started(client: Client, model: str) -> list[str]:
    """Return the names of the requests whose call has begun, in that order."""
    file = client.repository / model / "started"
    return file.read_text().split() if file.exists() else []


def open_gate(client: Client, model: str, name: str) -> None:
    """Let the call of a request named `hold…` go on."""
    _gate(client, model, name).touch()


def _gate(client: Client, model: str, name: str) -> Path:
    return client.repository / model / f"open.{name}"


@contextmanager
def held(client: Client, model: str, inputs: Inputs, options: Options = PLAIN, name: str = "hold") -> Iterator[Pending]:
    """Keep an instance of the model busy with a request; what is sent to it meanwhile has to queue. The request is
    named `name`, which `inputs` or `options` must have."""
    _gate(client, model, name).unlink(missing_ok=True)
    before = started(client, model).count(name)
    pending = client.submit(model, inputs, options)
    try:
        eventually(lambda: started(client, model).count(name) > before or pending.answer.done())
        yield pending
    finally:
        open_gate(client, model, name)


def queued(client: Client, model: str) -> int:
    """Return how many requests of the model the server has accepted and not begun to execute."""
    start = f'nv_inference_pending_request_count{{model="{model}",'
    line = next(line for line in client.metrics().splitlines() if line.startswith(start))
    return int(float(line.rpartition(" ")[2]))


def submit_next(
    client: Client, model: str, inputs: Inputs, options: Options = PLAIN, name: str = "", patience: float = 0.5
) -> Pending:
    """Send a request, and return when the server has it: calls of a client may overtake one another on their way.

    Then it waits, has begun, was refused or answered. Where none of it can be seen, as it left the queue together with
    another that came, the next is sent after `patience` seconds.
    """
    if client.side == "lab":
        return client.submit(model, inputs, options)  # on this thread, up to the queue
    waiting, begun = queued(client, model), started(client, model).count(name)
    pending = client.submit(model, inputs, options)
    over = threading.Event()
    pending.answer.add_done_callback(lambda _: over.set())
    for _ in range(int(patience / 0.005)):
        if over.wait(0.005) or queued(client, model) > waiting or (name and started(client, model).count(name) > begun):
            break
    return pending
