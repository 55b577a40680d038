"""A raw binary request: the whole body is the data of the model's only input (rule 6.5.3)."""

from __future__ import annotations

import numpy as np

from ...core.config.model_config import ModelConfig
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest, RequestSpec
from ...core.inference.tensor import Tensor, wire_elements
from ...core.status import InvalidArgumentError


def raw_request(
    body: bytes | bytearray | memoryview, model: str, version: int, config: ModelConfig
) -> InferenceRequest:
    """Return the request. Its shape follows from the model's configuration: batch 1, at most one variable dimension.

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
    """Give the variable dimension the elements that the fixed ones leave."""
    variable = [index for index, size in enumerate(dims) if size == -1]
    if len(variable) > 1:
        raise InvalidArgumentError(
            f"{request.prefix}The shape of the raw input '{name}' can not be deduced because there are more than one "
            "variable-sized dimension"
        )
    for index in variable:
        dims[index] = 1
        dims[index] = elements // int(np.prod(dims))
