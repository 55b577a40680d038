"""Answers made from the config alone, with the right shapes and types, and values by a rule (rule 2.17.1). The stand-in
replaces a model whose backend is missing here, so that the code around it can be written and run."""

from __future__ import annotations

import json
import math
import re
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from tritonlab_backend import BackendError, Senders, choice_settings, dims_of

_FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
#: The inputs and outputs of `backend: "vllm"`, which a config leaves to that backend: names, dimensions, and `?` for
#: optional.
_VLLM = {
    "input": {
        "TYPE_STRING": "text_input[1] image[-1]? sampling_parameters[1]?",
        "TYPE_BOOL": "stream[1]? exclude_input_in_output[1]? return_finish_reason[1]? return_cumulative_logprob[1]? "
        "return_logprobs[1]? return_num_input_tokens[1]? return_num_output_tokens[1]?",
    },
    "output": {
        "TYPE_STRING": "text_output[-1] finish_reason[-1] logprobs[-1]",
        "TYPE_FP32": "cumulative_logprob[-1]",
        "TYPE_UINT32": "num_input_tokens[1] num_output_tokens[-1]",
    },
}
_WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


class TritonPythonModel:
    """One instance of a stand-in."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        config = auto_complete_model_config.as_dict()
        if config["backend"] == "vllm":
            for role, tensors in _VLLM.items():
                known = {each["name"] for each in config[role]}
                config[role] += [each for each in _complete_tensors(tensors) if each["name"] not in known]
            config["model_transaction_policy"] = {"decoupled": True}
        return auto_complete_model_config

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        if not config["output"]:
            raise BackendError(
                f"a stand-in for '{config['name']}' needs the inputs and outputs in config.pbtxt: without the model's "
                "own backend nothing can be read from its file"
            )
        self._settings = choice_settings(config)
        self._inputs = {each["name"]: each for each in config["input"]}
        self._outputs = config["output"]
        self._batches = config["max_batch_size"] > 0
        self._decoupled = pb_utils.using_decoupled_model_transaction_policy(config)
        self._torch = _torch_for_bf16(config)
        self._senders = Senders()

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        if not self._decoupled:
            return [self._response(request) for request in requests]
        for request in requests:
            self._senders.start(self._send, request, request.get_response_sender())
        return None

    def finalize(self) -> None:
        self._senders.join()

    def _send(self, request: Any, sender: Any) -> None:
        for _ in range(self._settings.get("responses", 1)):
            if sender.is_cancelled():
                break
            sender.send(self._response(request))
        sender.send(flags=_FINAL)

    def _response(self, request: Any) -> Any:
        wanted = request.requested_output_names()
        arrays = {tensor.name(): _array(tensor) for tensor in request.inputs()}
        outputs, elements = [], 0
        for described in self._outputs:
            if described["name"] in wanted:
                shape = self._shape(described, arrays)
                elements += math.prod(shape)
                outputs.append(self._tensor(described, shape, arrays))
        delay = self._settings.get("delay_ms", 0) + self._settings.get("delay_ms_per_element", 0) * elements
        if delay:
            time.sleep(delay / 1000)
        return pb_utils.InferenceResponse(outputs)

    def _shape(self, described: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the shape of an output. A dimension of -1 gets its size from the same dimension of an input if that is
        -1 as well, otherwise from `size` of the choice."""
        batch = [next(iter(arrays.values())).shape[0] if arrays else 1] if self._batches else []
        return (*batch, *(self._size(axis, dim, arrays) for axis, dim in enumerate(dims_of(described))))

    def _size(self, axis: int, dim: int, arrays: Mapping[str, Any]) -> int:
        if dim >= 0:
            return dim
        for name, array in arrays.items():
            dims = dims_of(self._inputs[name]) if name in self._inputs else []
            if len(dims) > axis and dims[axis] == -1:
                return int(array.shape[axis + self._batches])
        return int(self._settings.get("size", 1))

    def _tensor(self, described: Mapping[str, Any], shape: tuple[int, ...], arrays: Mapping[str, Any]) -> Any:
        name, data_type = described["name"], described["data_type"]
        rule = self._settings.get("values", "zeros")
        if data_type == "TYPE_BF16":
            array = _array_of("TYPE_FP32", shape, rule, self._random(name, arrays))
            return pb_utils.Tensor.from_dlpack(name, self._torch.from_numpy(array).to(self._torch.bfloat16))
        source = self._source(described, arrays) if rule == "echo" else None
        if source is not None:
            # as many elements as needed, repeated from the beginning
            return pb_utils.Tensor(name, np.resize(source, shape))
        return pb_utils.Tensor(name, _array_of(data_type, shape, rule, self._random(name, arrays)))

    def _source(self, described: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
        """Return the input that an output repeats: the first of its type, preferably with the same dimensions."""
        same = [each for each in self._inputs.values() if each["data_type"] == described["data_type"]]
        same.sort(key=lambda each: dims_of(each) != dims_of(described))
        found = next((arrays[each["name"]] for each in same if each["name"] in arrays), None)
        return found if found is not None and found.size else None

    def _random(self, name: str, arrays: Mapping[str, Any]) -> Any:
        """Return a generator: the same inputs get the same answer, on any machine."""
        seen = zlib.crc32(name.encode())
        for each in sorted(arrays):
            seen = zlib.crc32(
                arrays[each].astype("S").tobytes() if arrays[each].dtype == object else arrays[each], seen
            )
        return np.random.default_rng([self._settings.get("seed", 0), seen])


def _complete_tensors(tensors: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the tensors of a row of the table, in the form of a config: each is `NAME[DIM]`, with a `?` if optional."""
    for data_type, names in tensors.items():
        for name, dim, optional in re.findall(r"(\w+)\[(-?\d)\](\??)", names):
            tensor = {"name": name, "data_type": data_type, "dims": [int(dim)]}
            yield {**tensor, "optional": True} if optional else tensor


def _array(tensor: Any) -> Any:
    try:
        return tensor.as_numpy()
    except pb_utils.TritonModelException:  # for BF16 the shape is enough
        return np.zeros(tensor.shape(), np.uint16)


def _array_of(data_type: str, shape: tuple[int, ...], rule: str, random: Any) -> Any:
    if data_type == "TYPE_STRING":
        if rule != "random":
            return np.full(shape, b"", np.object_)
        words = np.empty(shape, np.object_)
        for index in np.ndindex(*shape):
            words[index] = _WORDS[random.integers(len(_WORDS))].encode()
        return words
    dtype = np.dtype(pb_utils.triton_string_to_numpy(data_type))
    if rule != "random":
        return np.zeros(shape, dtype)
    if dtype.kind == "f":
        return random.random(shape).astype(dtype)
    return random.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)


def _torch_for_bf16(config: Mapping[str, Any]) -> Any:
    """Return torch if an output is BF16, which numpy does not have."""
    if all(each["data_type"] != "TYPE_BF16" for each in config["output"]):
        return None
    try:
        import torch
    except ImportError:
        raise BackendError(f"a stand-in for '{config['name']}' needs torch for its BF16 outputs") from None
    return torch
