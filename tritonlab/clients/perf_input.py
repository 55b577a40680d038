"""A request as input data of perf_analyzer (`--input-data FILE`), which otherwise sends random
values.
"""

from __future__ import annotations

import base64
from typing import Any

from ..core.explained import Explained
from ..core.inference.data_type import DataType
from ..core.inference.infer_request import InferenceRequest
from ..core.inference.tensor import Tensor
from ..core.status import Code
from .literal import MOST_BYTES, TooLarge


class NotSendable(Explained, ValueError):
    """A request that this kind of client cannot send."""

    code = Code.UNSUPPORTED


def perf_input(request: InferenceRequest, batching: bool) -> dict[str, Any]:
    """Return the JSON document. For a model that batches, each row is an entry of its own without the batch dimension,
    because perf_analyzer makes the batches itself (`-b`).

    Raises NotSendable for text that is not UTF-8, TooLarge.
    """
    if sum(tensor.byte_size for tensor in request.inputs.values()) > MOST_BYTES:
        raise TooLarge(f"more than {MOST_BYTES:,} bytes are too many for JSON")
    if not batching:
        return {"data": [{name: _entry(tensor, list(tensor.shape)) for name, tensor in request.inputs.items()}]}
    rows = min((tensor.shape[0] for tensor in request.inputs.values() if tensor.shape), default=1)
    return {
        "data": [
            {name: _entry(tensor, list(tensor.shape[1:]), row) for name, tensor in request.inputs.items()}
            for row in range(rows)
        ]
    }


def _entry(tensor: Tensor, shape: list[int], row: int | None = None) -> dict[str, Any]:
    array = tensor.data.reshape(tensor.shape) if tensor.datatype is not DataType.BYTES else tensor.numpy()
    elements = array if row is None else array[row]
    if tensor.datatype in (DataType.FP16, DataType.BF16):  # JSON has no numbers for these
        return {"b64": base64.b64encode(elements.tobytes()).decode(), "shape": shape}
    if tensor.datatype is not DataType.BYTES:
        return {"content": elements.ravel().tolist(), "shape": shape}
    try:
        return {"content": [element.decode() for element in elements.flat], "shape": shape}
    except UnicodeDecodeError:
        raise NotSendable("perf_analyzer reads text from JSON, and this is not UTF-8") from None
