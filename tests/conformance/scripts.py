"""Scripts for SCRIPTED models: what they may use, how a test sends them and reads their answers."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.serving import pause

from .clients import DEADLINE, Answer, Client

#: Inputs and outputs of a model that runs these scripts, for `config`.
TENSORS = ("CODE STRING 1", "OUT INT32 -1;TEXT STRING -1")

#: `request_to` makes a BLS request that has another model run `code`, `got` reads a response, `reply` makes the list
#: that `execute` returns to answer with `value`, `mark` writes it into a file, at once or not at all.
PRELUDE = """
import asyncio, gc, json, os, threading, time
T, R, E = pb_utils.Tensor, pb_utils.InferenceResponse, pb_utils.TritonError
request = requests[0]
sender = request.get_response_sender

def request_to(name, code, outputs=(), **more):
    text = T("CODE", np.array([code.encode()], dtype=object).reshape((1, 1) if "batch" in name else (1,)))
    return pb_utils.InferenceRequest(inputs=[text], requested_output_names=list(outputs), model_name=name, **more)

def got(response):
    if response.has_error():
        return response.error().message()
    return {t.name(): t.as_numpy().tolist() for t in response.output_tensors()}

def number(n):
    return R([T("OUT", np.array([n], np.int32))])

def text(value):
    return R([T("TEXT", np.array([repr(value)], dtype=object))])

def reply(value):
    return [text(value)]

def mark(path, value=None):
    with open(path + ".part", "w") as file:
        file.write(repr(value))
    os.rename(path + ".part", path)

def until(holds):
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)
"""


def code(body: str, **names: object) -> str:
    """Return the script `body` after constants of it."""
    return PRELUDE + "".join(f"{name} = {value!r}\n" for name, value in names.items()) + body


def script(body: str, **names: object) -> dict[str, np.ndarray[Any, Any]]:
    """Return the inputs of a request that lets a model run `body`."""
    return {"CODE": np.array([code(body, **names).encode()], dtype=np.object_)}


def batched(inputs: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the inputs as a batch of one."""
    return {name: array[None] for name, array in inputs.items()}


def read(answer: Answer) -> Any:
    """Return what a script answered with `reply`."""
    assert answer.error == ""
    return ast.literal_eval(answer.outputs["TEXT"].reshape(-1)[0].decode())


def run(client: Client, name: str, body: str, deadline: float = DEADLINE, /, **names: object) -> Any:
    """Let a model run a script that ends with `reply`, within so many seconds, and return its value."""
    return read(client.infer(name, script(body, **names), deadline=deadline))


def eventually(holds: Callable[[], Any]) -> Any:
    """Wait for something that happens in another process, and return its value."""
    begun = time.monotonic()
    while not (value := holds()):
        waited = time.monotonic() - begun
        assert waited < DEADLINE, "it did not happen"
        pause(waited)
    return value


def marked(path: Path) -> Any:
    """Wait for what a script writes with `mark`, and return it."""
    eventually(path.exists)
    return ast.literal_eval(path.read_text())
