"""`RequestExamination`, the errors of requests that do not fit their model's configuration (rule 5.4).

`RequestRules` accepts valid requests and examines only the others, so nothing in this file needs to be fast.
Triton keeps inputs in a hash map that in practice hands out the newest first, so the checks walk them backwards: with
several bad inputs the same one is blamed.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ..config.model_config import ModelConfig, dims_text
from ..status import InvalidArgumentError
from .data_type import DataType
from .infer_request import InferenceRequest
from .output_reshape import matches
from .tensor import Tensor


class CutElementError(InvalidArgumentError):
    """A BYTES tensor that ends within its last element. In Triton the backend finds the error, so HTTP returns it as an
    error of the model's response (rule 6.1.1).
    """


_BATCHING_NOTE = (
    " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each "
    "input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting "
    "max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)


#: The most shapes of an input that are remembered.
_SIZES = 256


class InputRule:
    """The rule for one input of the configuration. `dims` exclude the batch dimension; -1 allows any size."""

    __slots__ = ("datatype", "dims", "element_size", "name", "optional", "reshape", "sizes")

    def __init__(self, tensor: Any) -> None:
        self.name: str = tensor.name
        self.datatype = DataType(tensor.data_type)
        self.dims = tuple(tensor.dims)
        self.optional: bool = tensor.optional
        self.reshape = tuple(tensor.reshape.shape) if tensor.HasField("reshape") else None
        self.element_size = self.datatype.byte_size
        #: the results of `fit` for the last shapes that fit; a look-up takes a tenth of the time of `fit`
        self.sizes: dict[tuple[int, ...], int] = {}

    def fit(self, shape: tuple[int, ...], batched: bool) -> int:
        """Return how many bytes a tensor of `shape` has, for BYTES how many elements; -1 if the shape does not fit.
        `batched`: its first dimension is the batch."""
        item = shape[1:] if batched else shape
        if item != self.dims and not matches(item, self.dims):
            return -1
        if len(self.sizes) >= _SIZES:
            self.sizes.clear()
        size = self.sizes[shape] = prod(shape) * (self.element_size or 1)
        return size


class RequestExamination:
    """The checks of one model version, in Triton's order."""

    def __init__(self, config: ModelConfig, model_name: str) -> None:
        self.model_name = model_name
        self.max_batch_size: int = config.max_batch_size
        self.output_names = tuple(tensor.name for tensor in config.output)
        self._rules = {tensor.name: InputRule(tensor) for tensor in config.input}
        # These count entries of the configuration, which may legally have a name twice.
        self._least, self._most = sum(not tensor.optional for tensor in config.input), len(config.input)

    def examine(self, request: InferenceRequest) -> int:
        """Return the batch size of a request that passes all checks (rule 5.4.1), 0 if the client sent 0 (rule 5.4.5).

        Raises InvalidArgumentError with Triton's text.
        """
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
            if not matches(shape, rule.dims):  # a -1 of the client fits any size (measured)
                raise self._wrong_shape(request, rule, tensor)
            if -1 in shape:
                raise InvalidArgumentError(
                    f"{request.prefix}All input dimensions should be specified for input '{name}' for model "
                    f"'{self.model_name}', got {dims_text(tensor.shape)}"
                )
            # A batch dimension of 0 counts as 1 (rule 5.4.5), a negative one as its 32 bits read as an unsigned number.
            items = batch & 0xFFFFFFFF or 1 << 32 if batch < 0 else max(batch, 1)
            self._check_size(request, rule, tensor, prod(shape) * items)
        return batch if self.max_batch_size else 1

    def _rule(self, name: str) -> InputRule:
        rule = self._rules.get(name)
        if rule is None:
            raise InvalidArgumentError(f"unexpected inference input '{name}' for model '{self.model_name}'")
        return rule

    def _check_outputs(self, request: InferenceRequest) -> None:
        seen = set()
        for name in request.requested_outputs:
            if name in seen:
                # 2.51 returns an output that is named twice once; Triton refuses it since 2026-04.
                raise InvalidArgumentError(f"output '{name}' already exists in request")
            seen.add(name)
        unknown = sorted(seen.difference(self.output_names), key=_as_sent)
        if unknown:
            raise InvalidArgumentError(f"unexpected inference output '{unknown[0]}' for model '{self.model_name}'")

    def _wrong_count(self, request: InferenceRequest) -> InvalidArgumentError:
        """Return the error for too few or too many inputs. Triton only compares the counts, and names the inputs in the
        message (rule 5.4.3). The lone `]` is Triton's.
        """
        inputs = request.inputs
        missing = [name for name, rule in self._rules.items() if not rule.optional and name not in inputs]
        least, most = self._least, self._most
        wanted = f"expected {most} inputs" if least == most else f"expected number of inputs between {least} and {most}"
        return InvalidArgumentError(
            f"{request.prefix}{wanted} but got {len(inputs)} inputs for model '{self.model_name}'. "
            f"Got input(s) [{_quoted(inputs)}], but missing required input(s) "
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

    def _wrong_shape(self, request: InferenceRequest, rule: InputRule, tensor: Tensor) -> InvalidArgumentError:
        expected = (-1, *rule.dims) if self.max_batch_size else rule.dims
        return InvalidArgumentError(
            f"{request.prefix}unexpected shape for input '{rule.name}' for model '{self.model_name}'. "
            f"Expected {dims_text(expected)}, got {dims_text(tensor.shape)}."
            + (_BATCHING_NOTE if self.max_batch_size else " ")
        )

    def _check_size(self, request: InferenceRequest, rule: InputRule, tensor: Tensor, count: int) -> None:
        if rule.datatype is DataType.BYTES:
            self._check_elements(request, rule.name, tensor.data.data, count)
        elif tensor.byte_size != count * rule.element_size:
            raise InvalidArgumentError(
                f"{request.prefix}input byte size mismatch for input '{rule.name}' for model '{self.model_name}'. "
                f"Expected {count * rule.element_size}, got {tensor.byte_size}"
            )

    def _check_elements(self, request: InferenceRequest, name: str, data: memoryview, count: int) -> None:
        """Walk the length prefixes of a BYTES tensor, which must hold exactly `count` elements."""
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
            if position > end and found == count:  # an earlier element that is cut off counts as whole (measured)
                raise CutElementError(
                    f"incomplete string data for inference input '{name}', expecting string of length {length} but "
                    f"only {end - start} bytes available"
                )
        if found != count:
            raise InvalidArgumentError(f"{request.prefix}expected {count} string elements {about}, got {found}")


def _word(datatype: DataType) -> str:
    """Return Triton's word for a datatype, also for an invalid one."""
    return datatype.name if datatype else "<invalid>"


def _quoted(names: Any) -> str:
    """Return the names quoted and joined: `'A','B'`."""
    return ",".join(f"'{name}'" for name in names)


def _as_sent(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")  # a name sent over HTTP may not be UTF-8
