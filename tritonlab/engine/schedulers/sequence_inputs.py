"""`SequenceInputs`, the inputs that do not come from clients: controls and implicit state (rules 5.6.5, 5.6.10)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.config.model_config import ModelConfig, messages
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest, NullRequest
from ...core.inference.tensor import Tensor
from ...core.status import InvalidArgumentError
from ...repository.layout import read_file

_Control = messages.ModelSequenceBatching.Control

#: Field of a control that holds its (false, true) pair -> datatype of its tensor.
_PAIRS = {"int32_false_true": DataType.INT32, "fp32_false_true": DataType.FP32, "bool_false_true": DataType.BOOL}


class SequenceInputs:
    """The controls and state that are added to requests on their way to the model. All are constant per model, except
    the values that depend on a request's flags and correlation id.

    `directory` is the model directory with the files of initial states. Raises InternalError or InvalidArgumentError
    for an unusable file; both are load errors.
    """

    def __init__(self, config: ModelConfig, directory: Path) -> None:
        self._shape = (1, 1) if config.max_batch_size else (1,)
        self._flags: list[tuple[str, int, tuple[Tensor, Tensor]]] = []
        self._ids: list[tuple[str, DataType]] = []
        self._states = {
            state.input_name: _initial_state(state, directory, batching=bool(config.max_batch_size))
            for state in config.sequence_batching.state
            if state.data_type  # a state without a datatype loads (measured), and no tensor can be made of it
        }
        # In the order of their kinds: if one tensor has two controls, the later one wins (measured).
        for kind, flag in (("START", SEQUENCE_START), ("END", SEQUENCE_END), ("READY", 0)):
            for name, control in _controls(config, kind):
                self._flags.append((name, flag, self._pair(control)))
        for name, control in _controls(config, "CORRID"):
            self._ids.append((name, DataType(control.data_type)))

    @property
    def tells_null_requests(self) -> bool:
        """Whether a control tells the model which requests of a batch are null (rule 5.6.7)."""
        return any(flag == 0 for _, flag, _ in self._flags)

    def _pair(self, control: Any) -> tuple[Tensor, Tensor]:
        """Return the control's tensors for false and true."""
        field = next(field for field in _PAIRS if getattr(control, field))
        datatype = _PAIRS[field]
        no, yes = (
            Tensor(datatype, self._shape, np.full(self._shape, value, datatype.numpy))
            for value in getattr(control, field)
        )
        return no, yes

    def complete(self, request: InferenceRequest) -> None:
        """Give the request a new dict of inputs with controls and state; the client's dict does not change. Calling it
        again is harmless.
        """
        inputs = dict(request.inputs)
        ready = not request.null
        for name, flag, pair in self._flags:
            inputs[name] = pair[bool(request.flags & flag) if flag else ready]
        for name, datatype in self._ids:
            inputs[name] = self._id_tensor(request.correlation_id, datatype)
        inputs.update(self._states)
        request.inputs = inputs

    def null_request(self, like: InferenceRequest) -> NullRequest:
        """Return the null request of an empty slot (rule 5.6.7): its inputs have the shapes of `like`, id and flags
        are 0.

        Triton leaves the inputs uninitialised; here they are zeros and empty strings.
        """
        inputs: Mapping[str, Tensor] = {
            name: Tensor(tensor.datatype, tensor.shape, _zeros(tensor.datatype, tensor.shape))
            for name, tensor in like.inputs.items()
        }
        request = NullRequest(like.model_name, dict(inputs), model_version=like.model_version)
        self.complete(request)
        return request

    def _id_tensor(self, correlation_id: int | str, datatype: DataType) -> Tensor:
        if datatype is DataType.BYTES:
            # 2.51 cannot do this at all (rule 5.6.6); later releases send an int id as its digits
            data = np.frombuffer(_string(str(correlation_id) if correlation_id else ""), np.uint8)
            return Tensor(datatype, self._shape, data)
        number = correlation_id if isinstance(correlation_id, int) else _number_of(correlation_id)
        wrapped = np.array(number & 0xFFFF_FFFF_FFFF_FFFF, np.uint64).astype(datatype.numpy)
        return Tensor(datatype, self._shape, wrapped.reshape(self._shape))


def _controls(config: ModelConfig, kind: str) -> list[tuple[str, Any]]:
    """Return each (tensor name, control) of that kind; validation allows one."""
    return [
        (control_input.name, control)
        for control_input in config.sequence_batching.control_input
        for control in control_input.control
        if _Control.Kind.Name(control.kind) == f"CONTROL_SEQUENCE_{kind}"
    ]


def _string(text: str) -> bytes:
    """Return a string element in the form of tensors."""
    encoded = text.encode()
    return len(encoded).to_bytes(4, "little") + encoded


def _number_of(correlation_id: str) -> int:
    """Return a string id's value in an integer control. Triton reads the first 8 bytes of the string element as the
    number.

    Measured: 'str' is 32216184615075843. For an id below four characters Triton also reads the memory after it; here
    zeros follow.
    """
    return int.from_bytes((_string(correlation_id) + bytes(8))[:8], "little")


def _zeros(datatype: DataType, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array of zeros, or of as many empty strings."""
    if datatype is DataType.BYTES:
        return np.zeros(4 * prod(shape), np.uint8)
    return np.zeros(shape, datatype.numpy)


def _initial_state(state: Any, directory: Path, *, batching: bool) -> Tensor:
    """Return the value of a state input in every request; the Python backend never writes state (rule 5.6.10).

    Variable dims are 1, whatever dims an initial state has (measured). Without an initial state Triton passes
    uninitialised memory; here it is zeros.
    """
    datatype = DataType(state.data_type)
    shape = tuple(1 if dim == -1 else dim for dim in state.dims)
    data = _zeros(datatype, shape)
    for initial in state.initial_state:
        if initial.WhichOneof("state_data") == "data_file":
            data = _read_state(initial, datatype, shape, directory)
    return Tensor(datatype, (1, *shape) if batching else shape, data.reshape(-1))


def _read_state(initial: Any, datatype: DataType, shape: tuple[int, ...], directory: Path) -> NDArray[Any]:
    content = read_file(directory / "initial_state" / initial.data_file)
    if datatype is DataType.BYTES:
        return np.frombuffer(content, np.uint8)
    expected = prod(initial.dims) * datatype.byte_size
    if len(content) < expected:
        # the missing blank is Triton's
        raise InvalidArgumentError(
            f"initial_state setting expects {expected} bytes, but the data provided from {initial.data_file}only "
            f"has {len(content)} bytes."
        )
    return np.frombuffer(content, datatype.numpy, count=prod(shape))
