"""The value of one playground input: typed, random, a file, or an expression of the notebook."""

from __future__ import annotations

import ast
import enum
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.explained import Explained
from ....core.inference.data_type import DataType
from ....core.inference.tensor import Tensor
from ....core.status import Code
from ....server.api.model_signature import shape_text

_WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel")
#: Lower-case spellings of values that Python spells otherwise.
_NAMES = {"true": True, "false": False, "nan": math.nan, "inf": math.inf, "infinity": math.inf}


#: The most values made at random; larger inputs repeat them.
_MOST_RANDOM = 1 << 20


class Mode(enum.Enum):
    """The sources of an input's value."""

    RANDOM = "Random"
    TYPED = "Typed"
    FILE = "File"
    PYTHON = "Python"


class ValueProblem(Explained, ValueError):
    """An error for a value that cannot be read. The text names the input."""

    code = Code.INVALID_ARG

    def place(self) -> str:
        return str(self).partition(":")[0]


class UnfitFile(ValueError):
    """An error for a file that cannot be read, or not as a value of this input."""


@dataclass(frozen=True)
class InputSpec:
    """One input of a config. `dims` are without the batch dimension, which exists if `max_batch_size` > 0."""

    name: str
    datatype: DataType
    dims: tuple[int, ...]
    max_batch_size: int = 0
    optional: bool = False

    def to_dict(
        self, mode: Mode, text: str = "", files: Sequence[str] = (), sent: bool | None = None
    ) -> dict[str, Any]:
        """Return the input and the source of its value, as JSON values."""
        return {
            "datatype": self.datatype.name,
            "shape": shape_text(self.dims, self.max_batch_size),
            "sent": not self.optional if sent is None else sent,
            "mode": mode.value,
            "text": text,
            "files": list(files),
        }

    @property
    def batching(self) -> bool:
        return self.max_batch_size > 0

    def shape(self, batch: int, variable: Sequence[int]) -> tuple[int, ...]:
        """Return the full shape for a batch size and the sizes of the variable dimensions, in order."""
        sizes = iter(variable)
        dims = [next(sizes, 1) if dim < 0 else dim for dim in self.dims]
        return (batch, *dims) if self.batching else tuple(dims)

    def is_element(self, shape: Sequence[int]) -> bool:
        """Return whether `shape` is the shape of one row, without a batch dimension."""
        if len(shape) != len(self.dims):
            return False
        return all(want in (-1, size) for want, size in zip(self.dims, shape, strict=True))


def input_specs(config: Mapping[str, Any]) -> tuple[InputSpec, ...]:
    """Return the inputs of a config in its JSON form."""
    return tuple(
        InputSpec(
            name=str(tensor["name"]),
            datatype=DataType.from_config_name(tensor["data_type"]),
            dims=tuple(tensor["dims"]),
            max_batch_size=config["max_batch_size"],
            optional=bool(tensor.get("optional")),
        )
        for tensor in config["input"]
    )


def random_value(spec: InputSpec, shape: tuple[int, ...], random: np.random.Generator) -> NDArray[Any]:
    """Return plausible random values: [0, 1) in thousandths for floats, 0 to 9 for integers, words for BYTES. Floats
    are FP64, so that they can be shown in few digits: `typed_value` of the shown text is the value that is sent.
    """
    if math.prod(shape) > _MOST_RANDOM:  # so many elements are not checked one by one
        block = random_value(spec, (_MOST_RANDOM,), random)
        return np.resize(block if spec.datatype is DataType.BF16 else block.astype(spec.datatype.numpy), shape)
    if spec.datatype is DataType.BYTES:
        return np.array(random.choice(_WORDS, size=shape), dtype=np.object_).reshape(shape)
    if spec.datatype is DataType.BOOL:
        return random.integers(0, 2, size=shape).astype(np.bool_)
    if spec.datatype is DataType.BF16 or spec.datatype.numpy.kind == "f":
        return random.integers(0, 1000, size=shape) / 1000
    return random.integers(0, 10, size=shape).astype(spec.datatype.numpy)


def as_text(value: NDArray[Any]) -> str:
    """Return the elements as one would type them, a row of the first dimension on each line."""
    if value.ndim < 2:
        return str(value.tolist())
    return "[" + ",\n ".join(str(row) for row in value.tolist()) + "]"


def typed_value(spec: InputSpec, text: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the typed value, in the input's own datatype: one element for all of `shape`, or elements.

    Elements may be nested lists, a list without brackets, or a row on each line. They get a shape that the config
    allows: `shape` if their number fits it, else a row for each item of the batch, or as many rows as they fill. If no
    shape fits they keep their own, so that the server's error about it can be seen. In text for BYTES that is not a
    Python literal, each line is an element, with its spaces; a JSON document, a single line, or lines whose number does
    not fit are one element, with the line ends. Raises ValueProblem.
    """
    value = _read(spec, text)
    if value is text and (lines := _lines(spec, text, shape)) is not None:
        return lines
    if not isinstance(value, (list, tuple)):
        return filled(spec, value, shape)
    try:
        array = np.array(value, dtype=np.object_)
    except ValueError as error:
        raise ValueProblem(f"{spec.name}: the lists have different lengths ({error})") from None
    return cast(spec, fitted(spec, array, shape))


def fitted(spec: InputSpec, array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return `array` in a shape that the config allows, or unchanged if none fits."""
    if spec.batching and array.ndim == len(shape) and spec.is_element(array.shape[1:]):
        return array
    if array.size == math.prod(shape):
        return array.reshape(shape)
    if spec.is_element(array.shape):
        return np.repeat(array[None], shape[0], axis=0) if spec.batching else array
    row = math.prod(spec.dims)
    if spec.batching and array.ndim == 1 and min(spec.dims, default=1) > 0 and array.size % row == 0:
        return array.reshape(-1, *spec.dims)
    return array


def python_value(spec: InputSpec, expression: str, namespace: Mapping[str, Any]) -> Any:
    """Return the value of `expression` in the notebook. Arrays keep their type and shape, so that a mismatch is seen; a
    dict for a BYTES input becomes its JSON.
    """
    if not expression.strip():
        raise ValueProblem(f"{spec.name}: type a Python expression, for example numpy.zeros((1, 4), 'float32')")
    try:
        value = eval(compile(expression.strip(), f"<{spec.name}>", "eval"), dict(namespace))
        if isinstance(value, dict) and spec.datatype is DataType.BYTES:
            return filled(spec, json.dumps(value), spec.shape(1, ()))
        return value
    except Exception as error:
        raise ValueProblem(f"{spec.name}: {type(error).__name__}: {error}") from error


def cast(spec: InputSpec, array: NDArray[Any]) -> NDArray[Any]:
    """Return `array` in the input's datatype. Raises ValueProblem if that would change the value of an element."""
    datatype = spec.datatype
    if datatype is DataType.BYTES or (array.dtype == datatype.numpy and datatype is not DataType.BF16):
        return array
    try:
        with np.errstate(over="raise"):  # numpy would make 70000 an FP16 infinity
            if datatype is DataType.BF16:
                # the upper half of a float32 is a BF16 (rule 1.6.5)
                return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            if datatype.numpy.kind in "bui":
                for element in array.flat:
                    _check_whole(element, (0, 1) if datatype is DataType.BOOL else None)
            return array.astype(datatype.numpy)
    except FloatingPointError:
        raise ValueProblem(f"{spec.name}: not {datatype.name}: a number is too large for it") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueProblem(f"{spec.name}: not {datatype.name}: {error}") from None


def as_sent(spec: InputSpec, array: NDArray[Any]) -> NDArray[Any] | Tensor:
    """Return a request's value for an array of the form: numpy has no BF16, whose bits would be taken for UINT16."""
    if spec.datatype is DataType.BF16 and array.dtype == np.uint16:
        return Tensor(spec.datatype, array.shape, np.ascontiguousarray(array))
    return array


def _check_whole(element: Any, among: tuple[int, ...] | None) -> None:
    # numpy would cut 1.5 to 1, and take any text for true
    if isinstance(element, str) or element != int(element) or (among is not None and element not in among):
        raise ValueError(repr(element))


class _Names(ast.NodeTransformer):
    """The replacement of `true`, `nan` and such by their values."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        value = _NAMES.get(node.id.lower())
        return node if value is None else ast.copy_location(ast.Constant(value), node)


def _lines(spec: InputSpec, text: str, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Return the lines of a text as elements; None for one line, a document, or more lines than fit."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or text.lstrip()[:1] in ("{", "["):
        return None
    array = fitted(spec, np.array(lines, dtype=np.object_), shape)
    return array if spec.is_element(array.shape[1:] if spec.batching else array.shape) else None


def _literal(text: str) -> Any:
    return ast.literal_eval(_Names().visit(ast.parse(text, mode="eval")))


def _read(spec: InputSpec, text: str) -> Any:
    try:
        try:
            value = _literal(text.strip())
        except SyntaxError:
            if "\n" not in text or spec.datatype is DataType.BYTES:
                raise
            lines = [line.strip().rstrip(",") for line in text.splitlines()]
            value = [_literal(line) for line in lines if line]
        if spec.datatype is DataType.BYTES and isinstance(value, list) and not _texts(value):
            return text  # a document, like an object
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        if spec.datatype is not DataType.BYTES:
            raise ValueProblem(f"{spec.name}: {text.strip()!r} is not a number or a list of numbers") from None
        return text
    if spec.datatype is DataType.BYTES and not isinstance(value, (str, bytes, list, tuple)):
        return text
    return value


def _texts(value: Any) -> bool:
    return all(map(_texts, value)) if isinstance(value, (list, tuple)) else isinstance(value, (str, bytes))


def filled(spec: InputSpec, value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array whose elements are all `value`. Raises ValueProblem."""
    array = np.empty(shape, dtype=np.object_)
    array[...] = value
    return cast(spec, array)
