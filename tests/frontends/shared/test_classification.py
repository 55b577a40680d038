from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conformance.rules import rule
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InvalidArgumentError
from tritonlab.frontends.shared.classification import MAX_ELEMENTS, classify

LABELS = ("cat", "dog")


def classes(array: Any, count: int, labels: tuple[str, ...] = (), batched: bool = False) -> Any:
    tensor = classify(Tensor.from_numpy(array), count, labels, batched=batched)
    assert tensor.datatype is DataType.BYTES
    return [text.decode() for text in tensor.to_bytes_array().reshape(-1)], tensor.shape


@rule("6.6.1")
def test_the_highest_come_first_with_index_and_label() -> None:
    assert classes(np.float32([1, 5, 3]), 2, LABELS) == (["5.000000:1:dog", "3.000000:2"], (2,))
    assert classes(np.float32([[1, 5], [3, 4]]), 3) == (["5.000000:1", "4.000000:3", "3.000000:2"], (3,))
    assert classes(np.float64([1.23456789]), 9) == (["1.234568:0"], (1,))


@rule("6.6.1")
def test_each_batch_entry_has_its_own() -> None:
    array = np.int32([[1, 5, 3], [7, 2, 9]])
    assert classes(array, 2, LABELS, batched=True) == (["5:1:dog", "3:2", "9:2", "7:0:cat"], (2, 2))


@rule("6.6.1")
def test_integers_are_printed_as_they_are_and_equals_keep_their_order() -> None:
    assert classes(np.uint64([2**64 - 1, 5, 5]), 3)[0] == ["18446744073709551615:0", "5:1", "5:2"]
    assert classes(np.int64([-(2**63), 4]), 2)[0] == ["4:1", "-9223372036854775808:0"]
    assert classes(np.float32([np.nan, 1, np.inf]), 3)[0] == ["nan:0", "inf:2", "1.000000:1"]


def test_nothing_has_no_classes() -> None:
    """Triton crashes (measured)."""
    assert classes(np.float32([]), 2) == ([], (0,))
    assert classes(np.zeros((0, 3), np.float32), 2, batched=True) == ([], (0,))


@rule("6.6.4")
@pytest.mark.parametrize("array", [np.array([b"x"], dtype=object), np.array([True]), np.float16([1])])
def test_some_datatypes_have_no_order(array: Any) -> None:
    tensor = Tensor.from_numpy(array)
    with pytest.raises(InvalidArgumentError) as raised:
        classify(tensor, 1)
    assert raised.value.message == (
        f"class result not available for output due to unsupported type '{tensor.datatype.name}'"
    )


@rule("6.6.4")
def test_a_million_elements_are_the_most() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^classification output tensor too large$"):
        classify(Tensor.from_numpy(np.zeros(MAX_ELEMENTS + 1, np.int8)), 1)
