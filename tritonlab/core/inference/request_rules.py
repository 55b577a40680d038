"""`RequestRules`, the checks of a request against its model's configuration (rule 5.4), the same for every frontend.

A valid request is accepted as fast as possible, with numbers computed once per model version. Only for an invalid one
`RequestExamination` repeats the checks in Triton's order and raises the error.

Control and state inputs of sequence models are not inputs of the configuration, so a client that sends one is refused
like for any unknown name (rule 5.6.5).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ..config.model_config import ModelConfig
from ..config.model_config_rules import is_decoupled
from ..status import InvalidArgumentError, UnsupportedError
from .data_type import DataType
from .infer_request import InferenceRequest
from .output_reshape import reshaped
from .request_examination import RequestExamination
from .tensor import Tensor


class RequestRules(RequestExamination):
    """The rules for requests to one model version."""

    def __init__(self, config: ModelConfig, *, model_name: str) -> None:
        super().__init__(config, model_name)
        self.decoupled = is_decoupled(config)
        self._outputs = frozenset(self.output_names)
        #: the datatype that Python lists and scalars for each input are converted to
        self.input_types = {name: rule.datatype for name, rule in self._rules.items()}
        # Triton's backend reads the batch size from the first input. A sequence's control inputs count too.
        added = config.sequence_batching.control_input or config.sequence_batching.state
        self._adds_inputs = bool(added)
        self._needs_input = bool(self.max_batch_size and not added and not config.HasField("ensemble_scheduling"))
        # Requests differ where a dimension may have any size, or an input may be left out.
        rules = list(self._rules.values())
        fixed = not added and not [rule for rule in rules if -1 in rule.dims or rule.optional]
        #: the mark that requests have in common (`InferenceRequest.shape_key`)
        self._shape_key = object() if fixed else None
        self._reshapes = bool([rule for rule in rules if rule.reshape is not None])
        self._platform: str = config.platform or config.backend
        self._input_metadata = [self._metadata(tensor) for tensor in config.input]
        self._output_metadata = [self._metadata(tensor) for tensor in config.output]

    def check(self, request: InferenceRequest) -> None:
        """Accept `request`, set its batch size (1 without batching) and apply reshapes to its inputs.

        Raises InvalidArgumentError with Triton's text.
        """
        if request.correlation_id.__class__ is str:
            check_correlation_id(request.correlation_id)
        batch = self._accept(request)
        if not batch:
            batch = self.examine(request)
        if not request.inputs and self._needs_input:
            raise InvalidArgumentError(f"{request.prefix}out of bounds index 0: request has 0 inputs")
        request.batch_size = batch or 1
        request.shape_key = self._shape_key
        if self._reshapes:
            self._reshape(request)
        if not batch:
            request.shape_key = None
            request.inputs = {name: each.with_shape(each.shape[1:]) for name, each in request.inputs.items()}

    def _accept(self, request: InferenceRequest) -> int:
        """Return the batch size of a request that is certainly valid, 0 if the request needs a closer look."""
        inputs = request.inputs
        outputs = request.requested_outputs
        if outputs and not (self._outputs.issuperset(outputs) and len(set(outputs)) == len(outputs)):
            return 0
        if not self._least <= len(inputs) <= self._most:
            return 0
        rules = self._rules
        max_batch_size = self.max_batch_size
        batch = 0 if max_batch_size else 1
        for name, tensor in inputs.items():
            rule = rules.get(name)
            if rule is None or tensor.datatype is not rule.datatype:
                return 0
            shape = tensor.shape
            if max_batch_size:
                if not shape:
                    return 0
                if batch != shape[0]:
                    if batch:
                        return 0
                    batch = shape[0]
                if batch < 1:
                    return 0
            size = rule.sizes.get(shape)
            if size is None:
                size = rule.fit(shape, max_batch_size > 0)
            if rule.element_size:
                if tensor.data.nbytes != size:
                    return 0
            elif size < 0 or not _holds_elements(tensor.data, size):
                return 0
        return batch if batch <= max_batch_size or not max_batch_size else 0

    def _reshape(self, request: InferenceRequest) -> None:
        """Apply rule 5.4.6 to a new dict of new tensors over the same data, so that the caller's keep their shape."""
        batched = bool(self.max_batch_size)
        inputs = dict(request.inputs)
        for name, tensor in inputs.items():
            rule = self._rules[name]
            if rule.reshape is None:
                continue
            shape = reshaped(tensor.shape[1:] if batched else tensor.shape, rule.dims, rule.reshape)
            inputs[name] = tensor.with_shape((tensor.shape[0], *shape) if batched else shape)
        request.inputs = inputs

    def as_sent(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the inputs of a model as its client sent them: the reverse of `_reshape`, without the inputs that the
        scheduler added.
        """
        sent = {}
        for name, tensor in inputs.items():
            rule = self._rules.get(name)
            if rule is None and self._adds_inputs:
                continue
            if rule is not None and rule.reshape is not None:
                first = tensor.shape[: bool(self.max_batch_size)]
                tensor = tensor.with_shape((*first, *reshaped(tensor.shape[len(first) :], rule.reshape, rule.dims)))
            sent[name] = tensor
        return sent

    def refusal_of_single(self, caller: str, instead: str = "") -> UnsupportedError:
        """Return the error for a request that reaches a decoupled model through `caller`, which takes only one response
        (rule 3.7.4).
        """
        return UnsupportedError(f"{caller} doesn't support models with decoupled transaction policy{instead}")

    def expected_shape(self, name: str) -> str:
        """Return the shape a client must send for input `name`, for people: `[batch ≤ 8, 3, any]`. Raises KeyError for
        an unknown input.
        """
        sizes = ["any" if size == -1 else str(size) for size in self._rules[name].dims]
        if self.max_batch_size:
            sizes.insert(0, f"batch ≤ {self.max_batch_size}")
        return "[" + ", ".join(sizes) + "]"

    def metadata(self, versions: Sequence[int]) -> dict[str, Any]:
        """Return the model metadata of rule 6.1.2; `versions` are the READY ones."""
        return {
            "name": self.model_name,
            "versions": [str(version) for version in versions],
            "platform": self._platform,
            "inputs": [dict(tensor) for tensor in self._input_metadata],
            "outputs": [dict(tensor) for tensor in self._output_metadata],
        }

    def _metadata(self, tensor: Any) -> dict[str, Any]:
        shape = ([-1] if self.max_batch_size else []) + list(tensor.dims)
        return {"name": tensor.name, "datatype": DataType(tensor.data_type).name, "shape": shape}


#: The most bytes of a correlation id that is a string. Triton's message calls them characters.
MAX_CORRELATION_ID = 128


def check_correlation_id(value: int | str) -> None:
    """Raise UnsupportedError for a string that is too long (rule 5.6.1)."""
    if isinstance(value, str) and len(value.encode("utf-8", "surrogateescape")) > MAX_CORRELATION_ID:
        raise UnsupportedError(f"string correlation ID cannot be longer than {MAX_CORRELATION_ID} characters")


_length = struct.Struct("<I").unpack_from


def _holds_elements(data: NDArray[Any], count: int) -> bool:
    """Return whether the uint8 `data` is exactly `count` BYTES elements. One comparison is enough if all have the same
    length; otherwise the elements are walked.
    """
    buffer = data.data
    end = len(buffer)
    if count > 16 and end >= 4:
        width = 4 + _length(buffer)[0]
        if end == count * width:
            prefixes = data.reshape(count, width)[:, :4]
            if (prefixes == prefixes[0]).all():
                return True
    position = 0
    try:
        for _ in range(count):
            position += 4 + _length(buffer, position)[0]
    except struct.error:  # The last length is cut off or points beyond the end.
        return False
    return position == end and count >= 0
