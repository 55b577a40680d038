"""The outputs of a response by their names."""

from __future__ import annotations

import numpy as np
import pytest

from tritonlab.core.inference.infer_response import InferenceResponse, NoSuchOutput
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InternalError


def test_an_output_is_read_by_its_name() -> None:
    response = InferenceResponse(outputs={"OUT": Tensor.from_numpy(np.arange(3, dtype=np.int32))})
    assert response["OUT"].tolist() == [0, 1, 2]
    with pytest.raises(NoSuchOutput, match=r"did you mean 'OUT'"):
        response["OUTT"]
    with pytest.raises(TypeError, match="not iterable"):
        list(response)  # type: ignore[call-overload]


def test_the_error_of_a_response_is_raised_where_it_is_read() -> None:
    with pytest.raises(InternalError, match="no weights"):
        InferenceResponse(error=InternalError("no weights"))["OUT"]
