"""Requests made from a model's configuration."""

from __future__ import annotations

import itertools

import numpy as np

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.check.generated import FILLS, Generator, RequestShape, near_collisions
from tritonlab.tools.check.sample import Sample

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


def test_near_collisions_have_the_same_elements_sum_or_begin() -> None:
    numbers = np.float32([[1, 2, 3, 4]])
    made = [one.inputs["X"].numpy() for one in near_collisions(Sample({"X": Tensor.from_numpy(numbers)}))]
    assert all(one.shape == (1, 4) and (one != numbers).any() for one in made)
    assert any(sorted(one.flat) == [1, 2, 3, 4] for one in made)
    assert any(one.sum() == 10 and sorted(one.flat) != [1, 2, 3, 4] for one in made)
    assert any((one[0, :3] == numbers[0, :3]).all() for one in made)
    texts = Sample({"T": Tensor.from_numpy(np.array([b"ab"], object))})
    begins = [bytes(one.inputs["T"].numpy()[0])[:40] for one in near_collisions(texts)]
    assert len(begins) - len(set(begins)) == 2


def test_near_collisions_are_equal_when_they_are_rounded() -> None:
    numbers = np.float32([[1.25, 9.75]])
    made = [one.inputs["X"].numpy() for one in near_collisions(Sample({"X": Tensor.from_numpy(numbers)}))]
    for digits in (1, 2):
        rounded = [f"{value:.{digits}f}" for value in numbers.flat]
        assert any([f"{value:.{digits}f}" for value in one.flat] == rounded for one in made), digits
    assert any((one.astype(int) == numbers.astype(int)).all() for one in made)
    texts = Sample({"T": Tensor.from_numpy(np.array([b"ab"], object))})
    assert any(bytes(one.inputs["T"].numpy()[0]) == b"ab " for one in near_collisions(texts))


def test_two_inputs_of_one_shape_are_exchanged() -> None:
    one, other = np.float32([1]), np.float32([2])
    sample = Sample({"A": Tensor.from_numpy(one), "B": Tensor.from_numpy(other)})
    assert [*near_collisions(sample)][-1].inputs["A"].numpy() == other
