"""Checks a request against its model's configuration (rule 5.4), the same way for every frontend.

Two passes. `_accept` says yes to a valid request as fast as it can, from numbers computed once per model version. Only
a request it does not like goes to `_examine`, which repeats the checks in Triton's order and words the error.
Triton keeps inputs in a hash map that in practice hands out the newest first, so `_examine` walks them backwards: with
several bad inputs the same one is blamed.

Control and state inputs of sequence models are not inputs of the configuration, so a client that sends one is refused
like for any unknown name (rule 5.6.5).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import Any

from numpy.typing import NDArray

from .data_type import DataType
from .infer_request import InferenceRequest
from .model_config import ModelConfig, dims_text
from .model_config_rules import is_decoupled
from .status import InvalidArgumentError, UnsupportedError
from .tensor import Tensor

_BATCHING_NOTE = (
    " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each "
    "input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting "
    "max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)


class _InputRule:
    """What one input of the configuration asks for. `dims` are without the batch dimension, -1 is any size."""

    __slots__ = ("datatype", "dims", "element_size", "fixed_size", "name", "optional", "reshape")

    def __init__(self, tensor: Any) -> None:
        self.name: str = tensor.name
        self.datatype = DataType(tensor.data_type)
        self.dims = tuple(tensor.dims)
        self.optional: bool = tensor.optional
        self.reshape = tuple(tensor.reshape.shape) if tensor.HasField("reshape") else None
        self.element_size = self.datatype.byte_size
        # bytes per batch item where the configuration alone decides them, else -1
        self.fixed_size = prod(self.dims) * self.element_size if self.element_size and -1 not in self.dims else -1

    def matches(self, shape: Sequence[int]) -> bool:
        """Whether `shape`, without the batch dimension, fits. Zero is a size like any other where dims say -1."""
        if len(shape) != len(self.dims):
            return False
        return all(wanted in (-1, size) for size, wanted in zip(shape, self.dims, strict=True))

    def reshaped(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """`shape` as the model sees it (rule 5.4.6): variable sizes carry over in their order."""
        assert self.reshape is not None
        variable = iter([size for size, wanted in zip(shape, self.dims, strict=True) if wanted == -1])
        return tuple(next(variable) if size == -1 else size for size in self.reshape)


class RequestRules:
    """The request checks of one model version."""

    def __init__(self, config: ModelConfig, *, model_name: str) -> None:
        self.model_name = model_name
        self.max_batch_size: int = config.max_batch_size
        self.decoupled = is_decoupled(config)
        self.input_names = tuple(tensor.name for tensor in config.input)
        self.output_names = tuple(tensor.name for tensor in config.output)
        self._outputs = frozenset(self.output_names)
        #: what each input's Python lists and scalars are read as
        self.input_types = {tensor.name: DataType(tensor.data_type) for tensor in config.input}
        self._rules = {tensor.name: _InputRule(tensor) for tensor in config.input}
        # Numbers as in the configuration, where a name may legally stand twice.
        self._most = len(config.input)
        self._least = sum(not tensor.optional for tensor in config.input)
        # Triton's backend reads the batch size from the first one. A sequence's controls are inputs, too.
        added = config.sequence_batching.control_input or config.sequence_batching.state
        self._needs_input = bool(self.max_batch_size and not added and not config.HasField("ensemble_scheduling"))
        self._reshapes = any(rule.reshape is not None for rule in self._rules.values())
        self._platform: str = config.platform or config.backend
        self._input_metadata = [self._metadata(tensor) for tensor in config.input]
        self._output_metadata = [self._metadata(tensor) for tensor in config.output]

    def check(self, request: InferenceRequest) -> None:
        """Accepts `request`, sets its batch size (1 without batching) and applies reshapes to its inputs.

        Raises InvalidArgumentError with Triton's text.
        """
        if request.correlation_id.__class__ is str:
            check_correlation_id(request.correlation_id)
        batch = self._accept(request)
        if not batch:
            batch = self._examine(request)
        if not request.inputs and self._needs_input:
            raise InvalidArgumentError(f"{request.prefix}out of bounds index 0: request has 0 inputs")
        request.batch_size = batch or 1
        if self._reshapes:
            self._reshape(request)
        if not batch:
            request.inputs = {name: _with_shape(each, each.shape[1:]) for name, each in request.inputs.items()}

    def _accept(self, request: InferenceRequest) -> int:
        """The batch size of a request that is certainly valid, 0 if it needs a closer look."""
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
                shape = shape[1:]
            if shape != rule.dims and not rule.matches(shape):
                return 0
            if rule.fixed_size > 0:
                if tensor.data.nbytes != rule.fixed_size * batch:
                    return 0
            elif rule.element_size:
                if tensor.data.nbytes != prod(shape) * rule.element_size * batch:
                    return 0
            elif not _holds_elements(tensor.data, prod(shape) * batch):
                return 0
        return batch if batch <= max_batch_size or not max_batch_size else 0

    def _examine(self, request: InferenceRequest) -> int:
        """Triton's checks in Triton's order (rule 5.4.1); the batch size if all of them pass, 0 if that is what the
        client says (rule 5.4.5)."""
        self._check_outputs(request)
        if not self._least <= len(request.inputs) <= self._most:
            raise self._wrong_count(request)
        batch = self._check_batch(request) if self.max_batch_size else 0
        for name, tensor in reversed(request.inputs.items()):
            rule = self._rule(name)
            if tensor.datatype != rule.datatype:
                raise InvalidArgumentError(
                    f"{request.prefix}inference input '{name}' data-type is '{_word(tensor.datatype)}', but model "
                    f"'{self.model_name}' expects '{rule.datatype.name}'"
                )
            shape = tuple(tensor.shape[1:] if self.max_batch_size else tensor.shape)
            if not rule.matches(shape):
                raise self._wrong_shape(request, rule, tensor)
            if any(size == -1 == wanted for size, wanted in zip(shape, rule.dims, strict=True)):
                raise InvalidArgumentError(
                    f"{request.prefix}All input dimensions should be specified for input '{name}' for model "
                    f"'{self.model_name}', got {dims_text(tensor.shape)}"
                )
            # A batch dimension of 0 counts as 1 (rule 5.4.5), a negative one as the 32 bits that it is.
            items = batch & 0xFFFFFFFF or 1 << 32 if batch < 0 else max(batch, 1)
            self._check_size(request, rule, tensor, prod(shape) * items)
        return batch if self.max_batch_size else 1

    def _rule(self, name: str) -> _InputRule:
        rule = self._rules.get(name)
        if rule is None:
            raise InvalidArgumentError(f"unexpected inference input '{name}' for model '{self.model_name}'")
        return rule

    def _check_outputs(self, request: InferenceRequest) -> None:
        seen = set()
        for name in request.requested_outputs:
            if name in seen:
                # 2.51 returns the output once; refused since 2026-04.
                raise InvalidArgumentError(f"output '{name}' already exists in request")
            seen.add(name)
        unknown = sorted(seen.difference(self.output_names), key=str.encode)
        if unknown:
            raise InvalidArgumentError(f"unexpected inference output '{unknown[0]}' for model '{self.model_name}'")

    def _wrong_count(self, request: InferenceRequest) -> InvalidArgumentError:
        """Names are only for the message: Triton compares numbers (rule 5.4.3). The lone `]` is its own."""
        given = request.inputs
        missing = [name for name, rule in self._rules.items() if not rule.optional and name not in given]
        wanted = (
            f"expected {self._most} inputs"
            if self._least == self._most
            else f"expected number of inputs between {self._least} and {self._most}"
        )
        return InvalidArgumentError(
            f"{request.prefix}{wanted} but got {len(given)} inputs for model '{self.model_name}'. "
            f"Got input(s) [{_quoted(given)}], but missing required input(s) "
            f"{'[' if missing else ''}{_quoted(missing)}]. Please provide all required input(s)."
        )

    def _check_batch(self, request: InferenceRequest) -> int:
        batch = 0
        for name, tensor in reversed(request.inputs.items()):
            self._rule(name)
            if not tensor.shape:
                raise InvalidArgumentError(
                    f"{request.prefix}input '{name}' has no shape but model requires batch dimension for "
                    f"'{self.model_name}'"
                )
            if batch and tensor.shape[0] != batch:
                raise InvalidArgumentError(
                    f"{request.prefix}input '{name}' batch size does not match other inputs for '{self.model_name}'"
                )
            batch = tensor.shape[0]
        if batch > self.max_batch_size:
            raise InvalidArgumentError(
                f"{request.prefix}inference request batch-size must be <= {self.max_batch_size} for '{self.model_name}'"
            )
        return batch

    def _wrong_shape(self, request: InferenceRequest, rule: _InputRule, tensor: Tensor) -> InvalidArgumentError:
        expected = (-1, *rule.dims) if self.max_batch_size else rule.dims
        return InvalidArgumentError(
            f"{request.prefix}unexpected shape for input '{rule.name}' for model '{self.model_name}'. "
            f"Expected {dims_text(expected)}, got {dims_text(tensor.shape)}."
            + (_BATCHING_NOTE if self.max_batch_size else " ")
        )

    def _check_size(self, request: InferenceRequest, rule: _InputRule, tensor: Tensor, count: int) -> None:
        if rule.datatype is DataType.BYTES:
            self._check_elements(request, rule.name, tensor.data.data, count)
        elif tensor.byte_size != count * rule.element_size:
            raise InvalidArgumentError(
                f"{request.prefix}input byte size mismatch for input '{rule.name}' for model '{self.model_name}'. "
                f"Expected {count * rule.element_size}, got {tensor.byte_size}"
            )

    def _check_elements(self, request: InferenceRequest, name: str, data: memoryview, count: int) -> None:
        """Walks the length prefixes of a BYTES tensor, which must hold exactly `count` elements."""
        about = f"for inference input '{name}' for model '{self.model_name}'"
        end = len(data)
        position = found = 0
        while position < end:
            start = position + 4
            if start > end:
                raise InvalidArgumentError(
                    f"{request.prefix}incomplete string length indicator {about}, expecting 4 bytes but only "
                    f"{end - position} bytes available. Please make sure the string length indicator is in one buffer."
                )
            length = int.from_bytes(data[position:start], "little")
            found += 1
            if found > count:
                raise InvalidArgumentError(
                    f"{request.prefix}unexpected number of string elements {found} {about}, expecting {count}"
                )
            position = start + length
            if position > end:
                raise InvalidArgumentError(
                    f"incomplete string data for inference input '{name}', expecting string of length {length} but "
                    f"only {end - start} bytes available"
                )
        if found != count:
            raise InvalidArgumentError(f"{request.prefix}expected {count} string elements {about}, got {found}")

    def _reshape(self, request: InferenceRequest) -> None:
        """Rule 5.4.6, on a new dict and new tensors over the same data: the caller's own keep their shape."""
        batched = bool(self.max_batch_size)
        inputs = dict(request.inputs)
        for name, tensor in inputs.items():
            rule = self._rules[name]
            if rule.reshape is None:
                continue
            shape = rule.reshaped(tensor.shape[1:] if batched else tensor.shape)
            inputs[name] = _with_shape(tensor, (tensor.shape[0], *shape) if batched else shape)
        request.inputs = inputs

    def expected_shape(self, name: str) -> str:
        """What a client must send for input `name`, for people: `[batch ≤ 8, 3, any]`. Raises KeyError."""
        sizes = ["any" if size == -1 else str(size) for size in self._rules[name].dims]
        if self.max_batch_size:
            sizes.insert(0, f"batch ≤ {self.max_batch_size}")
        return "[" + ", ".join(sizes) + "]"

    def metadata(self, versions: Sequence[int]) -> dict[str, Any]:
        """The model metadata of rule 6.1.2; `versions` are the READY ones."""
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


#: Bytes of a correlation id that is a string; what Triton calls characters.
MAX_CORRELATION_ID = 128


def check_correlation_id(given: int | str) -> None:
    """Raises UnsupportedError for a string that is too long (rule 5.6.1)."""
    if isinstance(given, str) and len(given.encode("utf-8", "surrogateescape")) > MAX_CORRELATION_ID:
        raise UnsupportedError(f"string correlation ID cannot be longer than {MAX_CORRELATION_ID} characters")


_length = struct.Struct("<I").unpack_from


def _holds_elements(data: NDArray[Any], count: int) -> bool:
    """Whether `data` is exactly `count` BYTES elements. Equal lengths are seen at once, others are walked."""
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
    except struct.error:  # the last length is cut off, or points beyond the end
        return False
    return position == end and count >= 0


def _with_shape(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Another header over the same data."""
    found = Tensor(tensor.datatype, shape, tensor.data)
    found.memory_type, found.device_id = tensor.memory_type, tensor.device_id
    return found


def _word(datatype: DataType) -> str:
    """What Triton calls a datatype, also one that is none."""
    return datatype.name if datatype else "<invalid>"


def _quoted(names: Any) -> str:
    """`'A','B'`"""
    return ",".join(f"'{name}'" for name in names)
