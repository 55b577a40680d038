"""The body of an infer request, decoded: JSON, then the binary data of its inputs (rules 6.3 and 6.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...core.config.model_config import ModelConfig, dims_text
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import ClientRequest, InferenceRequest, RequestSpec
from ...core.inference.infer_response import ParameterValue
from ...core.inference.tensor import Tensor, wire_elements
from ...core.status import InternalError, InvalidArgumentError, TritonError
from ..shared.infer_exchange import OutputPlan
from ..shared.request_memory import HeldMemory
from ..shared.request_parameters import set_parameters
from ..shared.shared_memory_manager import SharedMemoryManager
from . import json_tensor
from .infer_encoder import BINARY, BINARY_OUTPUT, JSON, RequestedOutputs
from .json_document import (
    INT64,
    MissingMember,
    about,
    as_array,
    as_bool,
    as_c_string,
    as_uint,
    find,
    member,
    members,
    parse,
)
from .large_json import LargeArray
from .plain_inputs import KnownTexts, plain_data, plain_input
from .rapidjson_reader import PIECE

T = TypeVar("T")

_MAX_INT64 = INT64.stop - 1
_MAX_UINT32 = 2**32 - 1
_DATATYPES = {datatype.name: datatype for datatype in DataType if datatype is not DataType.INVALID}


class JsonParameters:
    """The values of request parameters in JSON (rule 6.3.3)."""

    def correlation_id(self, value: Any) -> int | str:
        try:
            return as_uint(value)
        except TritonError:
            return _read(as_c_string, "sequence_id", value)

    def boolean(self, key: str, value: Any) -> bool:
        return _read(as_bool, key, value)

    def unsigned(self, key: str, value: Any) -> int:
        return _read(as_uint, key, value)

    def reserved(self, key: str, value: Any) -> None:
        raise InvalidArgumentError(
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified."
        )

    def other(self, key: str, value: Any) -> ParameterValue:
        return model_parameter(key, value)


def model_parameter(key: str, value: Any) -> ParameterValue:
    """Return the value of a parameter for the model. Doubles are accepted although the text of the error omits them;
    integers of more than 64 bits become doubles (measured)."""
    kind = type(value)
    if kind is int:
        return value if value in INT64 else float(value)
    if kind is str:
        return as_c_string(value)
    if kind in (bool, float):
        return value  # type: ignore[no-any-return]
    if kind is MissingMember:
        raise InternalError(f"parameter key '{key}' was not found in the JSON")
    raise InvalidArgumentError(f"parameter '{key}' has invalid type. It should be either 'int', 'bool', or 'string'.")


class InferDecoder:
    """The decoder of one server's requests. `max_input_size`: the most bytes of the JSON, or of a raw binary body."""

    def __init__(self, shared_memory: SharedMemoryManager, max_input_size: int) -> None:
        self._shared_memory = shared_memory
        self._max_input_size = max_input_size
        self._known = KnownTexts()

    def decode(
        self,
        body: bytes | bytearray | memoryview,
        json_size: int,
        model: str,
        version: int,
        config: ModelConfig | None = None,
        held: list[HeldMemory] | None = None,
    ) -> tuple[InferenceRequest, RequestedOutputs]:
        """Return the request, and the form of its outputs. The first `json_size` bytes are JSON; if 0, the body is the
        only input of the model with that `config`. `held`: a list of objects that count the memory of inputs in the
        client's shared memory until they are dropped.

        Inputs are views of `body`. Raises TritonError with Triton's text for the first fault, in Triton's order of
        checks: id, parameters, inputs, superfluous data, outputs; and NoRoomError if no memory is left for inputs in
        the client's shared memory.
        """
        if not json_size and config is not None:
            self.check_size(len(body))
            return raw_request(body, model, version, config), RequestedOutputs(default=BINARY)
        kind = ClientRequest if self._shared_memory.any_cuda else InferenceRequest
        data = memoryview(body)
        json_part = data[:json_size] if json_size > PIECE else bytes(data[:json_size])
        known = self._known.get(json_part) if type(json_part) is bytes else None
        if known is not None and json_size + known.size == len(data):
            tensors = known.tensors(data, json_size)
            return kind(model, tensors, model_version=version, requested_outputs=known.requested), known.outputs
        self.check_size(json_size)
        request = kind(model, {}, model_version=version)
        document = parse(json_part)
        outputs = RequestedOutputs()
        set_id(request, document)
        is_set, parameters = find(document, "parameters")
        if is_set:
            self._set_parameters(request, parameters, outputs)
        inputs = _member(as_array, "inputs", document)
        blobs = _Blobs(data, json_size, model)
        for entry in inputs:
            if not _add_plain_input(request, entry, blobs) and not _add_plain_data(request, entry):
                self._add_input(request, entry, blobs, [] if held is None else held)
        blobs.finish()
        is_set, _ = find(document, "outputs")
        if is_set:
            outputs.by_name = self._outputs(_member(as_array, "outputs", document))
            request.requested_outputs = tuple(outputs.by_name)
        if type(json_part) is bytes and json_size < len(data):
            self._known.remember(json_part, document, outputs)
        return request, outputs

    def check_size(self, size: int) -> None:
        """Raise InvalidArgumentError if there is more JSON than allowed (rule 6.3.5)."""
        if size > self._max_input_size:
            raise InvalidArgumentError(
                f"Request JSON size of {size} bytes exceeds the maximum allowed value of {self._max_input_size} bytes. "
                "Use --http-max-input-size to increase the limit."
            )

    def _set_parameters(self, request: RequestSpec, parameters: Any, outputs: RequestedOutputs) -> None:
        if parameters == BINARY_OUTPUT and parameters["binary_data_output"] is True:
            outputs.default = BINARY
            return
        try:
            named = members(parameters)
        except TritonError as error:
            raise about("failed to get request params.", error) from None
        values = JsonParameters()
        before: dict[str, Any] = {}
        for key, value in named.items():
            if key == "binary_data_output":
                set_parameters(request, before, values)
                before = {}
                outputs.default = BINARY if _read(as_bool, "binary_data_output", value) else JSON
            else:
                before[key] = value
        set_parameters(request, before, values)

    # -- inputs

    def _add_input(self, request: RequestSpec, entry: Any, blobs: _Blobs, held: list[HeldMemory]) -> None:
        _, parameters = find(entry, "parameters")
        has_data, data = find(entry, "data")
        has_binary, binary_size = find(parameters, "binary_data_size")
        in_region, _ = find(parameters, "shared_memory_region")
        if has_data + has_binary + in_region != 1:
            raise _wrong_content(has_data, has_binary, in_region)
        name = _member(as_c_string, "name", entry)
        datatype = _DATATYPES.get(_member(as_c_string, "datatype", entry), DataType.INVALID)
        shape = _shape(name, _member(as_array, "shape", entry))
        if name in request.inputs:
            raise InvalidArgumentError(f"{request.prefix}input '{name}' already exists in request")
        raw: NDArray[Any]
        if has_binary:
            raw = wire_elements(blobs.take(name, _read(as_uint, "binary_data_size", binary_size)), datatype)
            request.inputs[name] = Tensor(datatype, shape, raw)
            return
        region = _region(parameters)
        if region is not None:
            request.inputs[name] = self._shared_memory.tensor(region, datatype, shape, held)
            return
        count = element_count(name, shape, datatype)
        if count:
            elements = data if type(data) is LargeArray else _read(as_array, "data", data)
            raw = json_tensor.elements(name, datatype, elements, count)
        else:  # with any data (measured)
            raw = wire_elements(memoryview(b""), datatype)
        request.inputs[name] = Tensor(datatype, shape, raw)

    # -- outputs

    def _outputs(self, entries: list[Any]) -> dict[str, OutputPlan]:
        found: dict[str, OutputPlan] = {}
        for entry in entries:
            _, parameters = find(entry, "parameters")
            if find(parameters, "shared_memory_region")[0]:
                _check_region_output(parameters)
            name = _member(as_c_string, "name", entry)
            if name in found:  # since 2026-04 (rule 5.4.1)
                raise InvalidArgumentError(f"output '{name}' already exists in request")
            found[name] = self._output(parameters)
        return found

    def _output(self, parameters: Any) -> OutputPlan:
        is_set, value = find(parameters, "classification")
        classes = _read(as_uint, "classification", value, "set") & _MAX_UINT32 if is_set else 0  # cut (measured)
        region = _region(parameters)
        if region is not None:
            self._shared_memory.check(*region)
            return OutputPlan(*region)
        is_set, value = find(parameters, "binary_data")
        binary = is_set and _read(as_bool, "binary_data", value)
        if classes:
            return OutputPlan(classes=classes, binary=binary)
        return BINARY if binary else JSON


def _add_plain_input(request: RequestSpec, entry: Any, blobs: _Blobs) -> bool:
    """Add an input that has nothing unusual; return False if it must be read member by member."""
    plain = plain_input(entry)
    if plain is None or plain.name in request.inputs or plain.size > blobs.left:
        return False
    data = np.frombuffer(blobs.take(plain.name, plain.size), plain.dtype)
    request.inputs[plain.name] = Tensor(plain.datatype, plain.shape, data)
    return True


def _add_plain_data(request: RequestSpec, entry: Any) -> bool:
    """Add an input of numbers in the JSON that has nothing unusual; return False as `_add_plain_input` does."""
    found = plain_data(entry)
    if found is None or found[0] in request.inputs:
        return False
    request.inputs[found[0]] = found[1]
    return True


def set_id(request: RequestSpec, document: Any) -> None:
    is_set, value = find(document, "id")
    if is_set:
        request.request_id = _read(as_c_string, "id", value)


class _Blobs:
    """The binary data behind the JSON, in the order of the inputs."""

    def __init__(self, data: memoryview, start: int, model: str) -> None:
        self._data = data
        self._at = start
        self._model = model

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, name: str, size: int) -> memoryview:
        end = self._at + size
        if end > len(self._data):
            raise InvalidArgumentError(
                f"unexpected size for input '{name}', expecting {end - len(self._data)} additional bytes for model "
                f"'{self._model}'"
            )
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def finish(self) -> None:
        if self._at != len(self._data):
            raise InvalidArgumentError(f"unexpected additional input data for model '{self._model}'")


def element_count(name: str, shape: tuple[int, ...], datatype: DataType) -> int:
    """Return the number of elements of a shape; 0 without dimensions. Raises InvalidArgumentError for a number that no
    memory holds (rule 6.3.5)."""
    count = math.prod(shape) if shape else 0
    if count > _MAX_INT64:
        raise InvalidArgumentError(
            f"invalid shape for input '{name}': shape {dims_text(shape)} causes total element count to exceed maximum "
            f"size of {_MAX_INT64}"
        )
    if count * datatype.byte_size > _MAX_INT64:
        raise InvalidArgumentError(f"byte size overflow for input '{name}'")
    return count


def _shape(name: str, entries: list[Any]) -> tuple[int, ...]:
    shape = tuple([_read(as_uint, "shape", size) for size in entries])
    if any(size > _MAX_INT64 for size in shape):
        raise InvalidArgumentError(
            f"invalid shape for input '{name}': shape {dims_text(shape)} contains one or more invalid dimensions"
        )
    return shape


def _region(parameters: Any) -> tuple[str, int, int] | None:
    """Return region, offset and size of an input or output in shared memory; None without a region. Offset and size
    are checked even then (measured)."""
    in_region, region = find(parameters, "shared_memory_region")
    name = _read(as_c_string, "shared_memory_region", region) if in_region else ""
    is_set, offset = find(parameters, "shared_memory_offset")
    offset = _read(as_uint, "shared_memory_offset", offset) if is_set else 0
    is_set, size = find(parameters, "shared_memory_byte_size")
    size = _read(as_uint, "shared_memory_byte_size", size) if is_set else 0
    return (name, offset, size) if in_region else None


def _check_region_output(parameters: Any) -> None:
    if find(parameters, "classification")[0]:
        raise InvalidArgumentError("Output can't set both 'shared_memory_region' and 'classification'")
    is_set, binary = find(parameters, "binary_data")
    if is_set and _read(as_bool, "binary_data", binary, "set"):
        raise InvalidArgumentError("Output can't set both 'shared_memory_region' and 'binary_data'")


def _wrong_content(has_data: bool, has_binary: bool, in_region: bool) -> InvalidArgumentError:
    sources = {"data": has_data, "binary_data_size": has_binary, "shared_memory_region": in_region}
    names = "".join(f" '{name}'" for name, there in sources.items() if there)
    return InvalidArgumentError(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
        f"'shared_memory_region' in 'parameters'. But{f' set{names}' if names else ' no field is set'}"
    )


def _member(read: Callable[[Any], T], name: str, entry: Any) -> T:
    """Read a member of an object. Raises as `_read` does."""
    try:
        return read(member(entry, name))
    except TritonError as error:
        raise about(f"Unable to parse '{name}'", error) from None


def _read(read: Callable[[Any], T], name: str, value: Any, verb: str = "parse") -> T:
    """Read the value of a field. Raises its error with the field's name."""
    try:
        return read(value)
    except TritonError as error:
        raise about(f"Unable to {verb} '{name}'", error) from None


def raw_request(
    body: bytes | bytearray | memoryview, model: str, version: int, config: ModelConfig
) -> InferenceRequest:
    """Return the request whose body is the data of the model's only input (rule 6.5.3). Its shape follows from the
    configuration: batch 1, at most one variable dimension.

    Raises InvalidArgumentError with Triton's text.
    """
    request = InferenceRequest(model, {}, model_version=version)
    if len(config.input) != 1:
        raise InvalidArgumentError(
            f"{request.prefix}Raw request must only have 1 input (found 1) to be deduced but got {len(config.input)} "
            f"inputs in '{model}' model configuration"
        )
    (wanted,) = config.input
    datatype = DataType(wanted.data_type)
    dims = list(wanted.dims)
    if datatype is DataType.BYTES:
        if dims != [1]:
            raise InvalidArgumentError(
                f"{request.prefix}For BYTE datatype raw input '{wanted.name}', the model must have input shape [1]"
            )
        data = np.frombuffer(len(body).to_bytes(4, "little") + body, dtype=np.uint8)
    else:
        _deduce(request, wanted.name, dims, len(body) // datatype.byte_size)
        expected = int(np.prod(dims)) * datatype.byte_size
        if expected != len(body):
            raise InvalidArgumentError(
                f"{request.prefix}input byte size mismatch for input 'raw_input' for model '{model}'. "
                f"Expected {expected}, got {len(body)}"
            )
        data = wire_elements(memoryview(body), datatype)
    shape = (1, *dims) if config.max_batch_size else tuple(dims)
    request.inputs[wanted.name] = Tensor(datatype, shape, data)
    return request


def _deduce(request: RequestSpec, name: str, dims: list[int], elements: int) -> None:
    """Give the variable dimension the elements that the fixed dimensions leave."""
    variable = [index for index, size in enumerate(dims) if size == -1]
    if len(variable) > 1:
        raise InvalidArgumentError(
            f"{request.prefix}The shape of the raw input '{name}' can not be deduced because there are more than one "
            "variable-sized dimension"
        )
    for index in variable:
        dims[index] = 1
        dims[index] = elements // int(np.prod(dims))
