"""Requests made from a model's configuration: values that most models accept, and the edge values of its
declaration."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.config.model_config import ModelConfig
from ...core.inference.data_type import DataType
from ...core.inference.tensor import Tensor
from ...core.status import InvalidArgumentError
from .sample import Sample

#: Sizes of a variable dimension, smallest first. All dimensions of one request have the same size, as a model that adds
#: two inputs needs.
_SIZES = (2, 4, 1, 8, 3, 16)
#: Sizes that are tried after one of the above was accepted: one more than a power of two, and usual sizes of buffers.
LONG_SIZES = (17, 64, 513)
_WORDS = ("ab", "cat sat", "x", "the quick brown fox", "12", "Grüße", "a-b_c", "hello world", "7", "0.5")

Random = np.random.Generator
#: Fills an array with that datatype and shape.
Fill = Callable[[DataType, tuple[int, ...], Random], NDArray[Any]]


def _plain_values(datatype: DataType, shape: tuple[int, ...], random: Random) -> NDArray[Any]:
    """Return small values: letters, integers, and floats of which some are negative."""
    if datatype is DataType.BYTES:
        return _texts(list(_WORDS), shape, random)
    if datatype is DataType.BOOL:
        return random.integers(0, 2, shape).astype(np.bool_)
    if datatype is DataType.BF16:
        bits = (random.integers(-16, 17, shape).astype(np.float32) / 4).view(np.uint32) >> 16
        return np.asarray(bits, np.uint16)
    if datatype.numpy.kind == "f":
        return (random.integers(-40, 41, shape) / 4).astype(datatype.numpy)
    return random.integers(1, 10, shape).astype(datatype.numpy)


def _texts_of(make: Callable[[Random], Sequence[str]]) -> Fill:
    """Return a kind of values with these texts."""

    def fill(datatype: DataType, shape: tuple[int, ...], random: Random) -> NDArray[Any]:
        if datatype is DataType.BYTES:
            return _texts(make(random), shape, random)
        return _plain_values(datatype, shape, random)

    return fill


_numbers_as_text = _texts_of(lambda random: [str(number) for number in random.integers(0, 100, 8)])
_json_texts = _texts_of(
    lambda random: [json.dumps({"text": word, "id": int(random.integers(0, 100))}) for word in _WORDS[:4]]
)


def _from_zero_to_one(datatype: DataType, shape: tuple[int, ...], random: Random) -> NDArray[Any]:
    if datatype.numpy.kind == "f":
        return np.asarray(random.integers(0, 65, shape) / 64, datatype.numpy)
    if datatype.numpy.kind in "iu" and datatype is not DataType.BF16:
        return random.integers(0, 2, shape).astype(datatype.numpy)
    return _plain_values(datatype, shape, random)


def new_values(datatype: DataType, shape: tuple[int, ...], random: Random) -> NDArray[Any]:
    """Return values that no earlier request had: random texts, and numbers with many digits."""
    if datatype is DataType.BYTES:
        return _objects(shape, lambda: f"text {int(random.integers(1 << 60)):x}".encode())
    if datatype.numpy.kind == "f":
        return np.asarray(random.normal(size=shape) * 8, datatype.numpy)
    return _plain_values(datatype, shape, random)


#: Kinds of values; those that most models accept come first.
FILLS: tuple[Fill, ...] = (_plain_values, _numbers_as_text, _from_zero_to_one, _json_texts)


def _texts(choices: Sequence[str], shape: tuple[int, ...], random: Random) -> NDArray[Any]:
    return _objects(shape, lambda: choices[int(random.integers(len(choices)))].encode())


def _objects(shape: tuple[int, ...], make: Callable[[], object]) -> NDArray[Any]:
    array = np.empty(shape, np.object_)
    for index in np.ndindex(shape):
        array[index] = make()
    return array


def tensor_of(datatype: DataType, array: NDArray[Any]) -> Tensor:
    """Return a tensor over an array in the datatype's own form, bit patterns for BF16."""
    if datatype is DataType.BYTES:
        return Tensor.from_numpy(array)
    return Tensor(datatype, array.shape, np.ascontiguousarray(array).reshape(array.shape))


def array_of(tensor: Tensor) -> NDArray[Any]:
    """Return the array of a tensor in the datatype's own form."""
    return tensor.numpy() if tensor.datatype is not DataType.BF16 else tensor.data.reshape(tensor.shape)


class RequestShape:
    """The form of a model's requests: names, datatypes and dims of its inputs, without the batch dimension."""

    def __init__(self, config: ModelConfig) -> None:
        self.batches = config.max_batch_size > 0
        self.most_rows = max(int(config.max_batch_size), 1)
        self.types = {one.name: DataType(one.data_type) for one in config.input}
        self.dims = {one.name: [int(size) for size in one.dims] for one in config.input}
        self.optional = {one.name for one in config.input if one.optional}
        self.ragged = {one.name for one in config.input if one.allow_ragged_batch}

    @property
    def is_variable(self) -> bool:
        return any(-1 in dims for dims in self.dims.values())

    def elements(self, size: int) -> int:
        """Return how many elements a request of one row has. `size`: the size of variable dimensions."""
        return sum(int(np.prod(self.shape(name, 1, size), dtype=np.int64)) for name in self.types)

    def shape(self, name: str, rows: int, size: int) -> tuple[int, ...]:
        dims = tuple(size if each < 0 else each for each in self.dims[name])
        return (rows, *dims) if self.batches else dims

    def make_inputs(self, random: Random, fill: Fill, rows: int, size: int) -> dict[str, Tensor]:
        """Return inputs with `rows` rows. `size`: the size of variable dimensions."""
        return {
            name: tensor_of(datatype, fill(datatype, self.shape(name, rows, size), random))
            for name, datatype in self.types.items()
        }

    def with_batch(self, sample: Sample) -> Sample:
        """Return the request with a batch dimension, if the model requires one and the inputs lack it."""
        lacks = [len(one.shape) == len(self.dims.get(name, [])) for name, one in sample.inputs.items()]
        if not (self.batches and all(lacks)):
            return sample
        return sample.with_inputs(
            {name: Tensor(one.datatype, (1, *one.shape), one.data) for name, one in sample.inputs.items()}
        )

    def rows(self, sample: Sample) -> int:
        first = next(iter(sample.inputs.values()), None)
        return int(first.shape[0]) if self.batches and first is not None and first.shape else 1


class Generator:
    """The source of the requests of a check. `given`: for some inputs, the function that makes their values; each call
    returns one value, without the batch dimension.
    """

    def __init__(self, shape: RequestShape, random: Random, given: Mapping[str, Callable[[], Any]]) -> None:
        if unknown := sorted(set(given) - set(shape.types)):
            known = ", ".join(shape.types)
            raise InvalidArgumentError(f"strategies name '{unknown[0]}', which is not an input; there are {known}")
        self.shape = shape
        self._random = random
        self._given = given
        #: the inputs whose values are not generated
        self.given_names = frozenset(given)
        self.has_given = bool(given)

    def candidates(self, fill: Fill, is_taken: Callable[[], bool]) -> Iterator[Sample]:
        """Yield requests without end: of varying sizes until the model accepts one, then mostly of that size."""
        sizes = _SIZES if self.shape.is_variable else (1,)
        size, taken = sizes[0], 0
        for number in range(1 << 30):
            taken += is_taken()
            if not 0 < taken < 8:
                size = sizes[number % len(sizes)]
            rows = 1 if number % 4 < 3 or not self.shape.batches else min(2 + number % 3, self.shape.most_rows)
            made = self.one(fill, rows, size)
            if number % 2 and self.shape.optional and len(self.shape.optional) < len(made.inputs):
                needed = {name: one for name, one in made.inputs.items() if name not in self.shape.optional}
                made = made.with_inputs(needed)
            yield made

    def one(self, fill: Fill, rows: int, size: int) -> Sample:
        inputs = self.shape.make_inputs(self._random, fill, rows, size)
        for name in self._given:
            inputs[name] = self._draw_tensor(name, rows)
        return Sample(inputs)

    def _draw_tensor(self, name: str, rows: int) -> Tensor:
        datatype = self.shape.types[name]
        values = [self._given[name]() for _ in range(rows if self.shape.batches else 1)]
        try:
            tensors = [Tensor.from_any(_shape_value(one, self.shape.dims[name]), datatype) for one in values]
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"strategies['{name}']: {error.message}") from error
        if not self.shape.batches:
            return tensors[0]
        if datatype is DataType.BYTES:
            return Tensor.from_numpy(np.stack([one.numpy() for one in tensors]))
        if len({one.shape for one in tensors}) > 1:
            tensors = tensors[:1] * len(tensors)
        return tensor_of(datatype, np.stack([one.data.reshape(one.shape) for one in tensors]))


def _shape_value(value: Any, dims: Sequence[int]) -> Any:
    """Return a scalar as an array with the dims, if these are all ones."""
    if isinstance(value, (str, bytes, int, float, bool)) and dims and all(size in (1, -1) for size in dims):
        array: Any = value
        for _ in dims:
            array = [array]
        return array
    return value


#: Edge values: their description, and how they fill an array of floats, integers or texts.
FLOAT_EDGES: Mapping[str, float] = {
    "1000": 1000.0,
    "-1000": -1000.0,
    "NaN": np.nan,
    "infinity": np.inf,
    "-infinity": -np.inf,
    "zero": 0.0,
    "-1": -1.0,
}
TEXT_EDGES: Mapping[str, bytes] = {
    "an empty text": b"",
    "a blank": b" ",
    "a text that is not ASCII": "Zoë ☃ 日本語 🎈".encode(),
    "a text with a NUL": b"a\0b",
    "bytes that are not UTF-8": b"\xff\xfe caf\xe9 \x80",
    "a line end": b"a\nb\n",
    "a text of 100,000 letters": b"abcdefghi " * 10_000,
}


def value_edges(datatype: DataType) -> Iterator[tuple[str, Any]]:
    """Yield the edge values of a datatype, each with its description."""
    if datatype is DataType.BYTES:
        yield from TEXT_EDGES.items()
    elif datatype is DataType.BF16 or datatype is DataType.BOOL:
        return
    elif datatype.numpy.kind == "f":
        yield from FLOAT_EDGES.items()
        kind: Any = datatype.numpy
        most = float(np.finfo(kind).max)
        yield "the largest number", most
        yield "the smallest number", -most
    else:
        yield "zero", 0
        limits: Any = np.iinfo(datatype.numpy)
        if limits.min < 0:
            yield "-1", -1
            yield "the smallest number", int(limits.min)
        yield "the largest number", int(limits.max)


def is_extreme(words: str) -> bool:
    """Return whether an edge value, by its description, is an extreme of its datatype."""
    return words.endswith((" is the largest number", " is the smallest number"))


def near_collisions(sample: Sample) -> Iterator[Sample]:
    """Yield requests that are easily confused with this one: the same elements in another order, the same sum, the same
    beginning, one changed element, and requests that are equal after rounding or stripping."""
    for name, tensor in sample.inputs.items():
        if tensor.datatype is DataType.BF16 or tensor.datatype is DataType.BOOL:
            continue
        array = tensor.numpy()
        flat = array.reshape(-1)
        made = []
        if flat.size > 1:
            made += [flat[::-1], np.roll(flat, 1)]
        if flat.size:
            changed = flat.copy()
            last = changed[-1]
            with np.errstate(over="ignore"):
                changed[-1] = bytes(last) + b"x" if tensor.datatype is DataType.BYTES else last + 1
                made.append(changed)
                if flat.size > 1 and tensor.datatype is not DataType.BYTES:
                    same_sum = changed.copy()
                    same_sum[0] = flat[0] - 1
                    made.append(same_sum)
            if tensor.datatype.numpy.kind == "f":
                made += _change_last_digits(flat)
            if tensor.datatype is DataType.BYTES:
                texts = [bytes(one) for one in flat]
                changes = [[one[:1] * 64 + tail for one in texts] for tail in (b"", b"b", b"c")]
                changes += [[*texts[:-1], texts[-1] + b" "], [one.swapcase() for one in texts]]
                made += [_objects(flat.shape, iter(change).__next__) for change in changes]
        for each in made:
            yield sample.with_input(name, tensor_of(tensor.datatype, each.reshape(array.shape)))
    for one, other in pairwise(sample.inputs):  # two inputs exchanged
        first, second = sample.inputs[one], sample.inputs[other]
        if first.datatype is second.datatype and first.shape == second.shape:
            yield sample.with_inputs({**sample.inputs, one: second, other: first})


def _change_last_digits(flat: NDArray[Any]) -> list[NDArray[Any]]:
    """Return copies that differ in the last digits only, which a cache key would cut off."""
    made = [np.trunc(flat)]
    for little in (0.004, 0.03, -0.03):
        changed = flat.copy()
        changed[-1] += little
        made.append(changed)
    return [one for one in made if (one != flat).any()]


def fill_tensor(tensor: Tensor, value: Any) -> Tensor:
    """Return a tensor of the same shape filled with that value."""
    if tensor.datatype is DataType.BYTES:
        return Tensor.from_numpy(_objects(tensor.shape, lambda: value))
    return tensor_of(tensor.datatype, np.full(tensor.shape, value, tensor.datatype.numpy))


def with_rows(sample: Sample, rows: Sequence[int]) -> Sample:
    """Return the request with only these of its rows."""
    inputs = {
        name: tensor_of(tensor.datatype, np.take(array_of(tensor), list(rows), axis=0))
        for name, tensor in sample.inputs.items()
    }
    return sample.with_inputs(inputs)


def join_rows(samples: Sequence[Sample]) -> Sample:
    """Return one request with the rows of all; their shapes may differ in the rows only."""
    inputs = {
        name: tensor_of(first.datatype, np.concatenate([array_of(one.inputs[name]) for one in samples]))
        for name, first in samples[0].inputs.items()
    }
    return samples[0].with_inputs(inputs)
