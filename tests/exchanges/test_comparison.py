from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import InvalidArgumentError
from tritonlab.exchanges.comparison import compare, tolerance
from tritonlab.exchanges.exchange import Exchange, arrivals_of

REQUEST = InferenceRequest("m", {})


def outcome(*responses: dict[str, Any], error: str = "") -> Exchange:
    made = [{name: Tensor.from_numpy(np.asarray(value)) for name, value in each.items()} for each in responses]
    return Exchange(REQUEST, arrivals_of(made), InvalidArgumentError(error) if error else None)


def test_floats_may_differ_a_little_and_all_else_not() -> None:
    assert tolerance(DataType.FP32) == (1e-5, 1e-7)
    assert tolerance(DataType.INT32) == tolerance(DataType.BYTES) == (0, 0)
    one = outcome({"A": np.array([1, 2], np.float32), "B": np.array([7])})
    near = compare(one, outcome({"A": np.array([1, 2.00001], np.float32), "B": np.array([7])}))
    assert near.same and str(near.tensors[0]).startswith("A: the same within tolerance, largest difference 1e-05")
    assert str(near.tensors[1]) == "B: equal"
    far = compare(one, outcome({"A": np.array([1, 2.5], np.float32), "B": np.array([8])}))
    assert str(far) == (
        "different\n"
        "A: differs, largest difference 0.5 (0.2 relative), first at [1]\n"
        "B: differs, largest difference 1 (0.12 relative), first at [0]"
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_small_values_are_compared_with_the_largest_of_them(dtype: Any) -> None:
    tiny = np.finfo(dtype).eps ** 2 if dtype is not np.float16 else 1e-5

    def is_same(one: list[float], other: list[float]) -> bool:
        return compare(outcome({"A": np.array(one, dtype)}), outcome({"A": np.array(other, dtype)})).same

    assert not is_same([tiny], [7 * tiny]) and not is_same([0], [tiny]) and not is_same([tiny, 0], [tiny, tiny])
    assert is_same([1, tiny], [1, 7 * tiny]) and is_same([0.5, 0], [0.5, tiny])
    assert is_same([tiny], [tiny]) and is_same([np.inf, 1, 0], [np.inf, 1, tiny])


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        (np.array([1, 2]), np.array([1.0, 2.0]), "datatype INT64 | FP64"),
        (np.array([[1, 2]]), np.array([1, 2]), "shape [1, 2] | [2]"),
        (np.array([b"a", b"b"], object), np.array([b"a", b"c" * 50], object), "b'b' | b'" + "c" * 40 + "...' at [1]"),
    ],
)
def test_what_differs_besides_numbers_is_reported(one: Any, other: Any, text: str) -> None:
    found = compare(outcome({"A": one}), outcome({"A": other}))
    assert not found.same and str(found.tensors[0]) == f"A: {text}"


def test_not_a_number_equals_itself_and_infinity_is_far_from_all() -> None:
    odd = np.array([np.nan, np.inf, 1], np.float32)
    assert compare(outcome({"A": odd}), outcome({"A": odd.copy()})).same
    (diff,) = compare(outcome({"A": odd}), outcome({"A": np.array([np.nan, 5, 1], np.float32)})).tensors
    assert not diff.same and diff.first == (1,) and diff.largest_absolute == float("inf")
    (diff,) = compare(outcome({"A": odd}), outcome({"A": np.array([0, np.inf, 1], np.float32)})).tensors
    assert not diff.same and diff.first == (0,)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize(
    ("one", "other"), [(1, np.inf), (np.inf, 1), (-np.inf, np.inf), (np.inf, -np.inf), (0, np.inf)]
)
def test_infinity_is_not_within_tolerance_of_another_value(one: float, other: float, dtype: str) -> None:
    (diff,) = compare(outcome({"A": np.array([one], dtype)}), outcome({"A": np.array([other], dtype)})).tensors
    assert not diff.same and diff.first == (0,) and diff.largest_absolute == float("inf")


@pytest.mark.parametrize(("one", "other", "apart"), [(2**53, 2**53 + 1, 1), (-(2**63), 2**63 - 1, 2**64 - 1)])
def test_whole_numbers_beyond_the_floats_are_compared_exactly(one: int, other: int, apart: int) -> None:
    (diff,) = compare(outcome({"A": np.array([one])}), outcome({"A": np.array([other])})).tensors
    assert not diff.same and diff.largest_absolute == float(apart)
    assert str(diff).startswith("A: differs, largest difference ")


def test_unsigned_differences_do_not_wrap() -> None:
    (diff,) = compare(outcome({"A": np.array([1], np.uint8)}), outcome({"A": np.array([2], np.uint8)})).tensors
    assert diff.largest_absolute == 1


def test_outputs_responses_and_errors_that_one_side_has_alone() -> None:
    found = compare(outcome({"A": [1], "B": [1]}), outcome({"A": [1], "C": [1]}, {"A": [2]}, error="no"))
    assert found.lines() == [
        "different",
        "errors: none | no",
        "responses: 1 | 2",
        "A: equal",
        "B: only in the first answer",
        "C: only in the second answer",
    ]
    assert compare(outcome(error="no"), outcome(error="no\n")).same
    assert json.loads(json.dumps(found.to_dict()))["responses"] == [1, 2]


def test_bytes_that_are_no_elements_are_compared_as_they_are() -> None:
    """A server may send them, and a capture has them."""

    def cut(data: bytes) -> Exchange:
        tensor = Tensor(DataType.BYTES, (2,), np.frombuffer(data, np.uint8))
        return Exchange(REQUEST, arrivals_of([{"OUT": tensor}]))

    one, other = cut(b"\x05\0\0\0ab"), cut(b"\x05\0\0\0ac")
    assert compare(one, one).same
    assert compare(one, other).lines() == ["different", "OUT: its bytes are no elements of BYTES"]
