"""Requests made of ModelInferRequest messages, with Triton's checks in Triton's order (rules 6.4, 6.7, 6.10)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.inference.data_type import DataType
from ...core.inference.infer_request import ClientRequest, InferenceRequest, RequestSpec
from ...core.inference.infer_response import ParameterValue
from ...core.inference.tensor import WIRE_ELEMENTS, Tensor, wire_elements
from ...core.status import InvalidArgumentError
from ...server.models.global_map import parse_version
from ...stub._pb_stub.wire.serialization import encode_bytes_tensor
from ..shared.access import Forwarded
from ..shared.infer_exchange import OutputPlan
from ..shared.request_memory import HeldMemory
from ..shared.request_parameters import check_forwarded, set_parameters
from ..shared.shared_memory_manager import SharedMemoryManager
from ..shared.work_pause import check_memory, pause_work
from .message_parser import DATATYPES, PlainHead, Raw

ENABLE_EMPTY_FINAL = "triton_enable_empty_final_response"

_UINT64 = 0xFFFFFFFFFFFFFFFF

_NEGATIVE = re.compile(r"\s*-0*[1-9]")

#: The fields of InferTensorContents in the order in which Triton checks them: the name in Triton's error, and the
#: datatypes that the field may have.
_CONTENTS: tuple[tuple[str, str, frozenset[DataType]], ...] = (
    ("bool_contents", "BOOL", frozenset({DataType.BOOL})),
    ("int_contents", "INT32", frozenset({DataType.INT8, DataType.INT16, DataType.INT32})),
    ("int64_contents", "INT64", frozenset({DataType.INT64})),
    ("uint_contents", "UINT32", frozenset({DataType.UINT8, DataType.UINT16, DataType.UINT32})),
    ("uint64_contents", "UINT64", frozenset({DataType.UINT64})),
    ("fp32_contents", "FP32", frozenset({DataType.FP32})),
    ("fp64_contents", "FP64", frozenset({DataType.FP64})),
    ("bytes_contents", "BYTES", frozenset({DataType.BYTES})),
)
#: Numbers that are read before other threads may run: 1 ms.
_AT_ONCE = 1 << 14
#: Elements are read at their width in the message, then cut to the datatype's width, as Triton does (measured).
_WIDTHS = {"int_contents": np.dtype(np.int32), "uint_contents": np.dtype(np.uint32)}


def checked_version(text: str) -> int:
    """Return the model version of a message; -1 for none. Raises InvalidArgumentError with the texts of rule 6.7.2."""
    if _NEGATIVE.match(text):
        raise InvalidArgumentError(
            f"invalid model version specified '{text}' , version should be an integral value > 0"
        )
    return parse_version(text)


class GrpcParameters:
    """The InferParameter values of one request: `shared.request_parameters.ParameterValues` with rule 6.4.2's texts."""

    def __init__(self) -> None:
        self.empty_final = False

    def correlation_id(self, value: Any) -> int | str:
        kind = value.WhichOneof("parameter_choice")
        if kind == "int64_param":
            return int(value.int64_param) & _UINT64  # negative ones wrap around, as for Triton
        if kind == "string_param":
            return str(value.string_param)
        raise _wrong_type("sequence_id", "int64_param or string_param.")

    def boolean(self, key: str, value: Any) -> bool:
        if value.WhichOneof("parameter_choice") != "bool_param":
            raise _wrong_type(key, "bool_param.")
        return bool(value.bool_param)

    def unsigned(self, key: str, value: Any) -> int:
        kind = value.WhichOneof("parameter_choice")
        if key == "timeout":
            if kind != "int64_param":
                raise _wrong_type(key, "int64_param.")
            return int(value.int64_param) & _UINT64
        if kind == "uint64_param":
            return int(value.uint64_param)
        if kind != "int64_param":
            raise _wrong_type(key, "int64_param or uint64_param.")
        if value.int64_param < 0:
            raise InvalidArgumentError(f"invalid value for '{key}', expected value >= 0.")
        return int(value.int64_param)

    def reserved(self, key: str, value: Any) -> None:
        if key != ENABLE_EMPTY_FINAL:
            raise InvalidArgumentError(
                "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys "
                f"starting with 'triton_' are allowed: {ENABLE_EMPTY_FINAL}"
            )
        self.empty_final = self.boolean(key, value)

    def other(self, key: str, value: Any) -> ParameterValue:
        kind = value.WhichOneof("parameter_choice")
        if kind not in ("int64_param", "bool_param", "string_param", "double_param"):
            raise _wrong_type(key, "int64_param, bool_param, or string_param.")
        found: ParameterValue = getattr(value, kind)
        return found


def _wrong_type(key: str, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"invalid value type for '{key}' parameter, expected {expected}")


class InferRequestReader:
    """The reader of requests from messages. `forwarded` returns the headers of a call that become parameters (rule
    6.14); None: no header does."""

    def __init__(self, shared_memory: SharedMemoryManager, forwarded: Forwarded | None = None) -> None:
        self._shared_memory = shared_memory
        self._forwarded = forwarded

    def read(
        self,
        message: Any,
        raw: Raw | dict[str, Tensor],
        version: int,
        metadata: Sequence[tuple[str, str | bytes]] = (),
        held: list[HeldMemory] | None = None,
    ) -> tuple[InferenceRequest, Mapping[str, OutputPlan] | None, bool]:
        """Read the request from the results of a `MessageParser`. Return it, the options of its outputs (None: none),
        and whether the client takes an empty final response. Raises TritonError, and NoRoomError if no memory is
        left for inputs in the client's shared memory. `held`: a list of objects that count their memory until they are
        dropped."""
        kind = ClientRequest if self._shared_memory.any_cuda else InferenceRequest
        request = kind(message.model_name, {}, model_version=version, request_id=message.id)
        forwarded = self._forwarded if metadata else None
        plans: Mapping[str, OutputPlan] | None = None
        empty_final = False
        if message.__class__ is PlainHead:
            if forwarded is not None:
                _forward_headers(request, metadata, forwarded)
            request.inputs, request.requested_outputs = raw, message.requested_outputs  # type: ignore[assignment]
        else:
            if message.parameters:
                values = GrpcParameters()
                set_parameters(request, message.parameters, values)
                empty_final = values.empty_final
            if len(message.inputs) > 1:
                _check_names(request, message.inputs)
            if forwarded is not None:
                _forward_headers(request, metadata, forwarded)
            self._set_inputs(request, message.inputs, raw, [] if held is None else held)  # type: ignore[arg-type]
            if message.outputs:
                plans = self._outputs(request, message.outputs)
        if plans is None and self._shared_memory.any_cuda:
            plans = {}  # outputs may be on a GPU
        return request, plans, empty_final

    def _set_inputs(self, request: RequestSpec, inputs: Any, raw: Raw, held: list[HeldMemory]) -> None:
        found = request.inputs
        count = len(raw)
        position = 0  # inputs in shared memory have no part in `raw`
        for each in inputs:
            datatype = DATATYPES.get(each.datatype, DataType.INVALID)
            if each.parameters and (region := _region(each.name, each.parameters)) is not None:
                if each.HasField("contents"):
                    raise InvalidArgumentError(
                        f"unexpected 'content' provided when using shared memory for input tensor '{each.name}' for "
                        f"model '{request.model_name}'"
                    )
                found[each.name] = self._shared_memory.tensor(region, datatype, tuple(each.shape), held)
                continue
            if each.HasField("contents"):
                if count:
                    raise InvalidArgumentError(
                        f"contents field must not be specified when using raw_input_contents for '{each.name}' for "
                        f"model '{request.model_name}'"
                    )
                data = _typed(each, datatype, request.model_name)
            elif position < count:
                data = wire_elements(raw[position], datatype)
                position += 1
            else:
                raise InvalidArgumentError(
                    f"unable to find data for input tensor '{each.name}' for model '{request.model_name}' in request."
                )
            found[each.name] = Tensor(datatype, tuple(each.shape), data)

    def _outputs(self, request: RequestSpec, outputs: Any) -> dict[str, OutputPlan] | None:
        request.requested_outputs = [each.name for each in outputs]
        plans: dict[str, OutputPlan] = {}
        for each in outputs:
            if not each.parameters:
                continue
            region = _region(each.name, each.parameters)
            classes = _classes(each.parameters)
            if region is not None:
                if classes:
                    raise InvalidArgumentError("output can't set both 'shared_memory_region' and 'classification'")
                self._shared_memory.check(*region)
                plans[each.name] = OutputPlan(*region)
            elif classes:
                plans[each.name] = OutputPlan(classes=classes)
        return plans or None


def _forward_headers(
    request: InferenceRequest, metadata: Sequence[tuple[str, str | bytes]], forwarded: Forwarded
) -> None:
    found = {}
    for name, value in metadata:
        if forwarded(name):
            check_forwarded(name)
            found[name] = value if isinstance(value, str) else value.decode("latin-1")
    if found:
        request.parameters = {**(request.parameters or {}), **found}


def _check_names(request: RequestSpec, inputs: Any) -> None:
    seen = set()
    for each in inputs:
        if each.name in seen:
            raise InvalidArgumentError(f"{request.prefix}input '{each.name}' already exists in request")
        seen.add(each.name)


def _region(name: str, parameters: Any) -> tuple[str, int, int] | None:
    """Return (region, offset, byte size) of a tensor in shared memory; None for a tensor elsewhere (rule 6.10.4)."""
    region = _of_kind(name, parameters, "shared_memory_region", "string_param")
    if region is None:
        for key in ("shared_memory_offset", "shared_memory_byte_size"):
            if key in parameters:
                raise InvalidArgumentError(
                    f"'{key}' can not be specified without 'shared_memory_region' parameter for tensor '{name}'"
                )
        return None
    offset = _of_kind(name, parameters, "shared_memory_offset", "int64_param")
    size = _of_kind(name, parameters, "shared_memory_byte_size", "int64_param")
    if size is None:
        raise InvalidArgumentError(
            "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor "
            f"'{name}'"
        )
    return region, offset or 0, size


def _of_kind(name: str, parameters: Any, key: str, kind: str) -> Any:
    """Return the value of a parameter, None if it is missing. Raises InvalidArgumentError for another kind of value."""
    if key not in parameters:
        return None
    value = parameters[key]
    if value.WhichOneof("parameter_choice") != kind:
        raise InvalidArgumentError(f"invalid value type for '{key}' parameter for tensor '{name}', expected {kind}.")
    return getattr(value, kind)


def _classes(parameters: Any) -> int:
    if "classification" not in parameters:
        return 0
    value = parameters["classification"]
    if value.WhichOneof("parameter_choice") != "int64_param":
        raise InvalidArgumentError("invalid value type for 'classification' parameter, expected int64_param")
    if value.int64_param <= 0:  # Triton gives this text for 0, too (measured)
        raise InvalidArgumentError("invalid value for 'classification' parameter, expected >= 0")
    return int(value.int64_param)


def _numbers(values: Any, width: Any) -> NDArray[Any]:
    """Return the elements of a repeated field, in pieces: 5 million at once stopped every other thread for 130 ms."""
    found = np.empty(len(values), width)
    for start in range(0, len(values), _AT_ONCE):
        if start:
            pause_work()
        piece = values[start : start + _AT_ONCE]
        found[start : start + len(piece)] = piece
    return found


def _texts(values: Any) -> bytearray:
    """Return the wire form of a repeated field of bytes."""
    found = bytearray()
    for start in range(0, len(values), _AT_ONCE):
        if start:
            pause_work()
            check_memory(len(found))  # they may grow by a copy
        found += encode_bytes_tensor(np.array(values[start : start + _AT_ONCE], np.object_))
    return found


def _typed(each: Any, datatype: DataType, model_name: str) -> NDArray[Any]:
    """Return the elements of `contents` (rule 6.7.1)."""
    contents = each.contents
    found: NDArray[Any] | None = None
    about = f"unexpected explicit tensor data for input tensor '{each.name}' for model '{model_name}'"
    for name, word, datatypes in _CONTENTS:
        values = getattr(contents, name)
        if not values:
            continue
        if found is not None:
            raise InvalidArgumentError(f"{about}, binary data was already supplied.")
        if datatype not in datatypes:
            expected = datatype.name if datatype else "<invalid>"
            raise InvalidArgumentError(f"{about} of type '{word}', expected datatype '{expected}'")
        if datatype is DataType.BYTES:
            found = np.frombuffer(_texts(values), np.uint8)
        else:
            width = _WIDTHS.get(name, datatype.numpy)
            found = _numbers(values, width).astype(datatype.numpy, copy=False)
    return np.empty(0, WIRE_ELEMENTS[datatype]) if found is None else found
