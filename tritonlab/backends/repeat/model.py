"""Models that answer each element of an input separately, as Triton's example backend `repeat` does (rule 2.16.2). Its
texts are taken from the public sources of repeat_backend (0c21b88) and not proved against a server."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from tritonlab_backend import BackendError, Senders, bracketed

_FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """One instance: a response for each element of IN, each DELAY ms after the previous one."""

    def initialize(self, args: Mapping[str, str]) -> None:
        _check(json.loads(args["model_config"]))
        self._senders = Senders()

    def execute(self, requests: Sequence[Any]) -> None:
        wait = 0
        for request in requests:
            sender = request.get_response_sender()
            inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
            elements, delays, wait = inputs["IN"], inputs["DELAY"], int(inputs["WAIT"].reshape(-1)[0])
            if elements.shape != delays.shape:
                text = (
                    f"expected IN and DELAY shape to match, got {bracketed(elements.shape)} and "
                    f"{bracketed(delays.shape)}"
                )
                error = pb_utils.TritonError(text, pb_utils.TritonError.INVALID_ARG)
                sender.send(pb_utils.InferenceResponse([], error), _FINAL)
                continue
            self._senders.start(_send_each, sender, elements, delays)
        time.sleep(wait / 1000)

    def finalize(self) -> None:
        self._senders.join()


def _send_each(sender: Any, elements: Any, delays: Any) -> None:
    for index, (element, delay) in enumerate(zip(elements, delays, strict=True)):
        time.sleep(int(delay) / 1000)
        outputs = [
            pb_utils.Tensor("OUT", np.array([element], np.int32)),
            pb_utils.Tensor("IDX", np.array([index], np.uint32)),
        ]
        sender.send(pb_utils.InferenceResponse(outputs))
    sender.send(flags=_FINAL)


def _check(config: Mapping[str, Any]) -> None:
    if config["max_batch_size"] != 0:
        raise BackendError("repeat backend only supports models with max_batch_size == 0")
    inputs, outputs = config["input"], config["output"]
    for tensors, number, role in ((inputs, 3, "input"), (outputs, 2, "output")):
        if len(tensors) != number:
            raise BackendError(f"expected {number} {role}s, got {len(tensors)}")
    named = list(zip((*inputs, *outputs), ("IN", "DELAY", "WAIT", "OUT", "IDX"), _PLACES, strict=True))
    for tensor, name, ordinal in named:
        if tensor["name"] != name:
            raise BackendError(f"expected {ordinal} tensor name to be {name}, got {tensor['name']}")
    dims = {name: [int(dim) for dim in tensor["dims"]] for tensor, name, _ in named}
    if len(dims["IN"]) != 1:
        raise BackendError(f"expected IN shape to have one dimension, got {bracketed(dims['IN'])}")
    if dims["IN"] != dims["DELAY"]:
        text = f"expected IN and DELAY shape to match, got {bracketed(dims['IN'])} and {bracketed(dims['DELAY'])}"
        raise BackendError(text)
    for name in ("WAIT", "OUT", "IDX"):
        if dims[name] != [1]:
            raise BackendError(f"expected {name} shape to be [1], got {bracketed(dims[name])}")
    for tensor, name, _ in named:
        expected = "INT32" if name in ("IN", "OUT") else "UINT32"
        if tensor["data_type"] != f"TYPE_{expected}":
            raise BackendError(f"expected {name} datatype to be {expected}, got {tensor['data_type']}")


_PLACES = ("first input", "second input", "third input", "first output", "second output")
