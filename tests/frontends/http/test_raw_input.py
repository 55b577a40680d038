from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.rules import rule
from tritonlab.core.config.model_config import from_json
from tritonlab.core.status import InvalidArgumentError
from tritonlab.frontends.http.raw_input import raw_request


def config(*inputs: tuple[str, list[int]], batch: int = 0) -> Any:
    tensors = [{"name": f"IN{n}", "data_type": kind, "dims": dims} for n, (kind, dims) in enumerate(inputs)]
    return from_json({"name": "m", "max_batch_size": batch, "input": tensors})


@rule("6.5.3")
@pytest.mark.parametrize(
    ("wanted", "batch", "size", "shape"),
    [
        (("TYPE_FP32", [-1]), 0, 8, (2,)),
        (("TYPE_FP32", [-1]), 0, 0, (0,)),
        (("TYPE_FP32", [2, -1]), 4, 24, (1, 2, 3)),
        (("TYPE_INT8", [3]), 0, 3, (3,)),
    ],
)
def test_the_shape_is_what_the_body_fills(wanted: Any, batch: int, size: int, shape: tuple[int, ...]) -> None:
    request = raw_request(bytes(size), "m", -1, config(wanted, batch=batch))
    assert (request.inputs["IN0"].shape, request.inputs["IN0"].byte_size) == (shape, size)


@rule("6.5.3")
def test_the_body_is_one_string() -> None:
    tensor = raw_request(b"hello", "m", -1, config(("TYPE_STRING", [1]))).inputs["IN0"]
    assert tensor.to_bytes_array().tolist() == [b"hello"]


@rule("6.5.3")
@pytest.mark.parametrize(
    ("wanted", "size", "text"),
    [
        ([("TYPE_FP32", [4])], 12, "input byte size mismatch for input 'raw_input' for model 'm'. Expected 16, got 12"),
        ([("TYPE_FP32", [-1])], 7, "input byte size mismatch for input 'raw_input' for model 'm'. Expected 4, got 7"),
        (
            [("TYPE_FP32", [-1, -1])],
            8,
            "The shape of the raw input 'IN0' can not be deduced because there are more than one variable-sized "
            "dimension",
        ),
        ([("TYPE_STRING", [-1])], 8, "For BYTE datatype raw input 'IN0', the model must have input shape [1]"),
        (
            [("TYPE_FP32", [1]), ("TYPE_FP32", [1])],
            4,
            "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'm' model configuration",
        ),
    ],
)
def test_what_cannot_be_deduced(wanted: Any, size: int, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        raw_request(bytes(size), "m", -1, config(*wanted))
    assert raised.value.message == f"[request id: <id_unknown>] {text}"
