"""Requests made from a model's configuration."""

from __future__ import annotations

import itertools

import numpy as np

from tritonlab.check.generated import FILLS, Generator, RequestShape
from tritonlab.check.sample import Sample
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.tensor import Tensor

ANY_SIZE = """
max_batch_size: 4
input [{ name: "X" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "Y" data_type: TYPE_FP32 dims: [-1] }]
"""


def test_a_batch_dimension_is_added_where_there_is_none() -> None:
    shape = RequestShape(parse_pbtxt(ANY_SIZE, "config.pbtxt"))
    for array in (np.float32([1, 2]), np.float32([[1, 2]])):
        sample = shape.with_batch(Sample({"X": Tensor.from_numpy(array)}))
        assert sample.inputs["X"].numpy().tolist() == [[1, 2]]


def test_all_sizes_are_tried_until_one_is_taken_and_that_one_more_often_then() -> None:
    shape = RequestShape(parse_pbtxt(ANY_SIZE, "config.pbtxt"))
    made = Generator(shape, np.random.default_rng(0), {})
    sizes: list[int] = []
    for sample in itertools.islice(made.candidates(FILLS[0], lambda: 3 in sizes), 24):
        sizes.append(sample.inputs["X"].shape[1])
    first = sizes.index(3)
    assert len(set(sizes[:first])) == first < 6
    assert set(sizes[first : first + 7]) == {3}
    assert len(set(sizes[first + 7 :])) == 6
