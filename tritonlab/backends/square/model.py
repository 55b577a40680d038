"""Models that answer the number n n times, as Triton's example backend `square` does (rule 2.16.3). Its texts are taken
from the public sources of square_backend (035d100) and not proved against a server."""

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
    """One instance: for IN = n, n responses with OUT = n. By parameters, the last of them may fail or be left out."""

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        _check(config)
        self._infer_delay = _number(config, "CUSTOM_INFER_DELAY_NS") / 1e9
        self._output_delay = _number(config, "CUSTOM_OUTPUT_DELAY_NS") / 1e9
        self._fails = _number(config, "CUSTOM_FAIL_COUNT")
        self._empty = _number(config, "CUSTOM_EMPTY_COUNT")
        self._senders = Senders()

    def execute(self, requests: Sequence[Any]) -> None:
        for request in requests:
            array = request.inputs()[0].as_numpy()
            self._senders.start(self._send, request.get_response_sender(), int(array.reshape(-1)[0]), array.ndim)

    def finalize(self) -> None:
        self._senders.join()

    def _send(self, sender: Any, number: int, rank: int) -> None:
        for index in range(number):
            time.sleep(self._infer_delay)
            if index + self._empty >= number:
                continue
            time.sleep(self._output_delay)
            if index + self._fails + self._empty >= number:
                error = pb_utils.TritonError("simulated failure", pb_utils.TritonError.UNKNOWN)
                sender.send(pb_utils.InferenceResponse([], error))
            else:
                output = pb_utils.Tensor("OUT", np.full((1,) * rank, number, np.int32))
                sender.send(pb_utils.InferenceResponse([output]))
        sender.send(flags=_FINAL)


def _number(config: Mapping[str, Any], key: str) -> int:
    """Return a parameter; 0, as in Triton, for one that is not a number."""
    text: str = config.get("parameters", {}).get(key, {}).get("string_value", "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _check(config: Mapping[str, Any]) -> None:
    for role, name in (("input", "IN"), ("output", "OUT")):
        if len(config[role]) != 1:
            raise BackendError(f"expected 1 {role}, got {len(config[role])}")
        tensor = config[role][0]
        if tensor["name"] != name:
            raise BackendError(f"expected first {role} tensor name to be {name}, got {tensor['name']}")
        dims = [int(dim) for dim in tensor["dims"]]
        if dims != [1]:
            raise BackendError(f"expected {name} shape to be [1], got {bracketed(dims)}")
        if tensor["data_type"] != "TYPE_INT32":
            raise BackendError(f"expected {name} datatype to be INT32, got {tensor['data_type']}")
