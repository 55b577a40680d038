"""The value of one playground input: typed, random, or an expression of the notebook."""

from __future__ import annotations

import ast
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.data_type import DataType

_WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel")


class Mode(enum.Enum):
    """How an input gets its value."""

    RANDOM = "Random"
    TYPED = "Typed"
    PYTHON = "Python"


class ValueProblem(ValueError):
    """A value that cannot be read. The text names the input."""


@dataclass(frozen=True)
class InputSpec:
    """One input of a config. `dims` are without the batch dimension, which there is if `max_batch_size` > 0."""

    name: str
    datatype: DataType
    dims: tuple[int, ...]
    max_batch_size: int = 0
    optional: bool = False

    def shape(self, batch: int, variable: Sequence[int]) -> tuple[int, ...]:
        """The full shape for a batch size and the sizes of the variable dimensions, in order."""
        sizes = iter(variable)
        dims = [next(sizes, 1) if dim < 0 else dim for dim in self.dims]
        return (batch, *dims) if self.max_batch_size > 0 else tuple(dims)


def input_specs(config: Mapping[str, Any]) -> tuple[InputSpec, ...]:
    """The inputs of a config in its JSON form."""
    return tuple(
        InputSpec(
            str(tensor["name"]),
            DataType.from_config_name(tensor["data_type"]),
            tuple(tensor["dims"]),
            config["max_batch_size"],
            bool(tensor.get("optional")),
        )
        for tensor in config["input"]
    )


def random_value(spec: InputSpec, shape: tuple[int, ...], random: np.random.Generator) -> NDArray[Any]:
    """Something plausible: [0, 1) for floats, 0 to 9 for integers, words for BYTES."""
    if spec.datatype is DataType.BYTES:
        return np.array(random.choice(_WORDS, size=shape), dtype=np.object_).reshape(shape)
    if spec.datatype is DataType.BOOL:
        return random.integers(0, 2, size=shape).astype(np.bool_)
    if spec.datatype is DataType.BF16:
        # the upper half of a float32 is a BF16 (rule 1.6.5)
        return (random.random(size=shape, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if spec.datatype.numpy.kind == "f":
        return random.random(size=shape).astype(spec.datatype.numpy)
    return random.integers(0, 10, size=shape).astype(spec.datatype.numpy)


def typed_value(spec: InputSpec, text: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """What a person typed: nested lists, a flat list, or one element for all, in the input's own datatype.

    A list with as many elements as `shape` gets that shape. Any other keeps its own, so that what the server says about
    it can be seen. For BYTES, text that is no Python literal is one element. Raises ValueProblem.
    """
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if spec.datatype is not DataType.BYTES:
            raise ValueProblem(f"{spec.name}: {text.strip()!r} is no number and no list of numbers") from None
        value = text
    if spec.datatype is DataType.BYTES and not isinstance(value, (str, bytes, list, tuple)):
        value = text
    if not isinstance(value, (list, tuple)):
        return _filled(spec, value, shape)
    array = _array(spec, value)
    return array.reshape(shape) if array.size == int(np.prod(shape)) else array


def python_value(spec: InputSpec, expression: str, namespace: Mapping[str, Any]) -> Any:
    """What `expression` gives in the notebook. Arrays keep their type and shape, so that a mismatch is seen."""
    if not expression.strip():
        raise ValueProblem(f"{spec.name}: type a Python expression, for example numpy.zeros((1, 4), 'float32')")
    try:
        return eval(compile(expression.strip(), f"<{spec.name}>", "eval"), dict(namespace))
    except Exception as error:
        raise ValueProblem(f"{spec.name}: {type(error).__name__}: {error}") from error


def _filled(spec: InputSpec, value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.empty(shape, dtype=np.object_)
    array[...] = value
    return array if spec.datatype is DataType.BYTES else _cast(spec, array)


def _array(spec: InputSpec, value: Any) -> NDArray[Any]:
    try:
        array = np.array(value, dtype=np.object_)
    except ValueError as error:
        raise ValueProblem(f"{spec.name}: the lists have different lengths ({error})") from None
    return array if spec.datatype is DataType.BYTES else _cast(spec, array)


def _cast(spec: InputSpec, array: NDArray[Any]) -> NDArray[Any]:
    try:
        if spec.datatype is DataType.BF16:
            return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return array.astype(spec.datatype.numpy)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueProblem(f"{spec.name}: not {spec.datatype.name}: {error}") from None
