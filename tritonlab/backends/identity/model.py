"""Models that answer their inputs, as Triton's example backend `identity` does (rule 2.16.1). Its texts are taken from
the public sources of identity_backend (09f60ae) and not proved against a server."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import triton_python_backend_utils as pb_utils
from tritonlab_backend import BackendError, bracketed, dims_of, parameters_of


class TritonPythonModel:
    """One instance: each OUTPUT<index> is the INPUT<index> of the request."""

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        _check(config)
        parameters = parameters_of(config)
        time.sleep(int(parameters.get("creation_delay_sec", "0")))
        delay = int(parameters.get("execute_delay_ms", "0"))
        if int(parameters.get("instance_wise_delay_multiplier", "0")) > 0:
            delay *= max(int(args["model_instance_device_id"]), 1)
        self._delay = delay / 1000
        self._outputs = [each["name"] for each in config["output"]]
        family = pb_utils.MetricFamily(
            name="input_byte_size_counter",
            description="Cumulative input byte size of all requests received by the model",
            kind=pb_utils.MetricFamily.COUNTER,
        )
        self._family = family  # its metrics are removed with it
        self._bytes = family.Metric(labels={"model": args["model_name"], "version": args["model_version"]})

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        if self._delay:
            time.sleep(self._delay)
        return [self._response(request) for request in requests]

    def _response(self, request: Any) -> Any:
        inputs = {tensor.name(): tensor for tensor in request.inputs()}
        wanted = request.requested_output_names()
        tensors = []
        for name in (each for each in self._outputs if each in wanted):
            source = f"INPUT{name.removeprefix('OUTPUT')}"
            if source not in inputs:
                error = pb_utils.TritonError(f"failed to get input '{source}'", pb_utils.TritonError.UNSUPPORTED)
                return pb_utils.InferenceResponse([], error)
            array = inputs[source].as_numpy()
            self._bytes.increment(_byte_size(array))
            tensors.append(pb_utils.Tensor(name, array))
        return pb_utils.InferenceResponse(tensors)


def _byte_size(array: Any) -> int:
    return sum(4 + len(each) for each in array.reshape(-1)) if array.dtype == object else int(array.nbytes)


def _check(config: Mapping[str, Any]) -> None:
    if len(config["input"]) != len(config["output"]):
        raise BackendError("model configuration must have equal input/output pairs")
    inputs, outputs = _by_index(config, "input"), _by_index(config, "output")
    for index, (data_type, shape) in sorted(outputs.items()):
        if index not in inputs:
            raise BackendError("expected input and output indices to match")
        of_input, shape_of_input = inputs[index]
        if of_input != data_type:
            raise BackendError(f"expected input and output datatype to match, got {of_input} and {data_type}")
        if shape_of_input != shape:
            text = f"expected input and output shape to match, got {bracketed(shape_of_input)} and {bracketed(shape)}"
            raise BackendError(text)


def _by_index(config: Mapping[str, Any], role: str) -> dict[str, tuple[str, list[int]]]:
    """Return the data type and the shape of each tensor by the index after INPUT or OUTPUT in its name."""
    found = {}
    for each in config[role]:
        name, prefix = each["name"], role.upper()
        if not name.startswith(prefix):
            raise BackendError(f"expected {role} name to follow {prefix}<index> pattern, got '{name}'")
        found[name.removeprefix(prefix)] = (each["data_type"], dims_of(each))
    return found
