"""Odd requests, to be answered by an engine as a server of ours answers them directly."""

from __future__ import annotations

import contextlib
import queue
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tritonclient.grpc as grpcclient

from tests.models import answers
from tests.serving import SCRIPTED, SCRIPTED_CONFIG, config, write_model

#: Adds one to a batch of any number of rows, zero included.
ROWS = answers("x + 1")


class OddRequest(NamedTuple):
    """A request: the model, its inputs as arrays of numpy by name, and which outputs are wanted, all if none."""

    model: str
    inputs: Mapping[str, Any]
    outputs: tuple[str, ...] = ()


def _scripted(code: str, *outputs: str, **inputs: Any) -> OddRequest:
    return OddRequest("scripted", {"CODE": np.array([code.encode()], dtype=object), **inputs}, outputs)


_TEXTS = np.array([b"", b"\xff\x00", "héllo".encode(), b"x" * 70_000], dtype=object)
_NUMBERS = np.array([np.nan, np.inf, -np.inf, 1e-45, -0.0], np.float32)

REQUESTS = {
    "texts that are not UTF-8": _scripted("return [answer(TEXT=tensor(request, 'Y').as_numpy())]", Y=_TEXTS),
    "no texts": _scripted("return [answer(TEXT=tensor(request, 'Y').as_numpy())]", Y=np.empty(0, object)),
    "numbers that are not finite": _scripted("return [answer(OUT=tensor(request, 'X').as_numpy())]", X=_NUMBERS),
    "no numbers": _scripted("return [answer(OUT=tensor(request, 'X').as_numpy())]", X=np.empty(0, np.float32)),
    "1 MiB": _scripted("return [answer(OUT=tensor(request, 'X').as_numpy())]", X=np.arange(1 << 18, dtype=np.float32)),
    "an output that nobody wants": _scripted("return [answer(OUT=np.float32([1]), TEXT=np.array([b'a']))]", "TEXT"),
    "an output that is not made": _scripted("return [answer(OUT=np.float32([1]))]", "TEXT"),
    "an output that does not exist": _scripted("return [answer(OUT=np.float32([1]))]", "NONE"),
    "no output": _scripted("return [pb_utils.InferenceResponse([])]"),
    "it raises": _scripted("raise ValueError('no \\u00e9 \"quoted\" {braces}')"),
    "an error of its own": _scripted("return [pb_utils.InferenceResponse(error=pb_utils.TritonError('a\\nb'))]"),
    "a code of its own": _scripted(
        "return [pb_utils.InferenceResponse(error=pb_utils.TritonError('x', pb_utils.TritonError.NOT_FOUND))]",
    ),
    "no answer": _scripted("return []"),
    "answers too many": _scripted("return [answer(), answer()]"),
    "another type than declared": _scripted("return [answer(OUT=np.int64([1]))]"),
    "it dies": _scripted("os._exit(3)"),
    "after it died": _scripted("return [answer(OUT=np.float32([1]))]"),
    "an input is missing": OddRequest("scripted", {"X": np.float32([1])}),
    "an input too many": _scripted("return [answer()]", OTHER=np.float32([1])),
    "an input of another type": _scripted("return [answer()]", X=np.int32([1])),
    "an input of another shape": _scripted("return [answer()]", X=np.zeros((2, 2), np.float32)),
    "no rows": OddRequest("rows", {"IN": np.empty((0, 3), np.float32)}),
    "too many rows": OddRequest("rows", {"IN": np.zeros((9, 3), np.float32)}),
    "no batch dimension": OddRequest("rows", {"IN": np.zeros(3, np.float32)}),
    "a full batch": OddRequest("rows", {"IN": np.arange(24, dtype=np.float32).reshape(8, 3)}),
    "a model that does not exist": OddRequest("nothing", {"IN": np.float32([1])}),
}


def _streamed(code: str) -> OddRequest:
    body = "sender = request.get_response_sender()\n" + code
    return OddRequest("streamed", {"CODE": np.array([body.encode()], dtype=object)})


_SEND = "sender.send(answer(OUT=np.float32([{}])))\n"
_END = "sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)"
_ERROR = "sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError('broken off')))\n"

#: Asked for as streams.
STREAMS = {
    "no response": _streamed(_END),
    "two responses": _streamed(_SEND.format(1) + _SEND.format(2) + _END),
    "a response without outputs": _streamed("sender.send(pb_utils.InferenceResponse([]))\n" + _END),
    "an error, and a response after it": _streamed(_SEND.format(1) + _ERROR + _SEND.format(2) + _END),
    "a response, then it raises": _streamed(_SEND.format(1) + "raise ValueError('gone')"),
    "a response, then it dies": _streamed(_SEND.format(1) + "time.sleep(0.3); os._exit(3)"),
}


def write_odd(repository: Path) -> None:
    """Write the models of `REQUESTS` that can be loaded."""
    write_model(repository, "scripted", SCRIPTED, SCRIPTED_CONFIG)
    decoupled = SCRIPTED_CONFIG + "model_transaction_policy { decoupled: true }"
    write_model(repository, "streamed", SCRIPTED, decoupled)
    write_model(repository, "rows", ROWS, config("IN FP32 3", "OUT FP32 3", "max_batch_size: 8"))


def inputs_of(client_module: Any, request: OddRequest) -> Iterator[Any]:
    """Yield the inputs for the client of `tritonclient.grpc` or `tritonclient.http`."""
    for name, array in request.inputs.items():
        kind = {"O": "BYTES", "i": f"INT{8 * array.itemsize}", "f": f"FP{8 * array.itemsize}"}[array.dtype.kind]
        found = client_module.InferInput(name, array.shape, kind)
        found.set_data_from_numpy(array)
        yield found


def answer_of(client_module: Any, client: Any, request: OddRequest) -> str:
    """Return what a client sees: the outputs, or the text of the error, without numbers of processes."""
    wanted = [client_module.InferRequestedOutput(name) for name in request.outputs] or None
    try:
        return outputs_of(client.infer(request.model, list(inputs_of(client_module, request)), outputs=wanted))
    except Exception as error:
        return error_text(error)


def answers_of(client: Any, request: OddRequest) -> list[str]:
    """Return what a stream of `tritonclient.grpc` gets until nothing comes for a second."""
    responses: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: responses.put((result, error)))
    client.async_stream_infer(request.model, list(inputs_of(grpcclient, request)))
    found = []
    with contextlib.suppress(queue.Empty):
        while True:
            result, error = responses.get(timeout=1)
            found.append(outputs_of(result) if error is None else error_text(error))
    client.stop_stream()
    return found


def error_text(error: object) -> str:
    return "error: " + re.sub(r"\d{3,}", "N", str(error))


def outputs_of(result: Any) -> str:
    """Return the outputs of a result."""
    response = result.get_response()
    names = [each["name"] if isinstance(each, dict) else each.name for each in
             (response.get("outputs", []) if isinstance(response, dict) else response.outputs)]  # fmt: skip
    arrays = {name: result.as_numpy(name) for name in names}
    return str({name: (str(each.dtype), each.shape, each.tolist()) for name, each in sorted(arrays.items())})
