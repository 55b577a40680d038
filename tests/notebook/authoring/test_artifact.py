"""Values of the notebook as files."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tritonlab.notebook.authoring.artifact import artifact_of
from tritonlab.notebook.authoring.errors import FileError


@pytest.mark.parametrize(
    "array", [np.ma.masked_array([1, 2], mask=[0, 1]), np.ones(2, ml_dtypes.bfloat16), np.array([object()])]
)
def test_an_array_that_numpy_does_not_read_as_it_was_is_refused(array: Any) -> None:
    for path, value in (("x.npy", array), ("x.npz", {"x": array})):
        with pytest.raises(FileError, match=f"cannot be kept as {path}"):
            artifact_of(path, value)
