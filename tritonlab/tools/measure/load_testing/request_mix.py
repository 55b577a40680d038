"""The requests of a load test: their inputs, the frequency of each, and their sequences."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....core.inference.data_type import DataType
from ....core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from ....core.inference.infer_response import ParameterValue
from ....core.inference.tensor import Tensor
from ....core.status import InvalidArgumentError

#: The upper limit of random integers, and the number of letters of random texts: values that most models accept.
_MOST, _LETTERS = 100, 16
_BLOCK = 4096

Tensors = dict[str, Tensor]
Inputs = Mapping[str, Any] | InferenceRequest | Sequence[Any] | Callable[[int], Any]


@dataclass(slots=True, eq=False)
class Lane:
    """A sender of one request after the other: one client of a closed loop, or one sequence after the other."""

    number: int
    correlation_id: int = 0
    position: int = 0


class ModelInputs:
    """The inputs of a model, from its metadata, to convert given values and to make random ones.

    `metadata` and `config` are the ones of `Model`; `config` is None for a server that returns none, and then a first
    dimension of -1 counts as the batch dimension.
    """

    def __init__(self, name: str, metadata: Mapping[str, Any], config: Mapping[str, Any] | None) -> None:
        self.name = name
        self.types = {described["name"]: DataType[described["datatype"]] for described in metadata["inputs"]}
        self.outputs = {described["name"]: DataType[described["datatype"]] for described in metadata.get("outputs", ())}
        self._shapes = {
            described["name"]: [int(size) for size in described["shape"]] for described in metadata["inputs"]
        }
        known = config or {}
        self._optional = {described["name"] for described in known.get("input", ()) if described.get("optional")}
        self.batches = int(known.get("max_batch_size", 0)) > 0
        if config is None:
            self.batches = all(shape[:1] == [-1] for shape in self._shapes.values())
        self.sequences = "sequence_batching" in known
        self.decoupled = bool((known.get("model_transaction_policy") or {}).get("decoupled"))

    def tensors(self, values: Mapping[str, Any]) -> Tensors:
        return {name: Tensor.from_any(value, self.types.get(name, DataType.INVALID)) for name, value in values.items()}

    def rows(self, tensors: Tensors) -> int:
        """Return the batch size of a request."""
        first = next(iter(tensors.values()), None)
        return int(first.shape[0]) if self.batches and first is not None and first.shape else 1

    def repeat_rows(self, tensors: Tensors, batch: int) -> Tensors:
        """Return the inputs with `batch` rows: the given rows, repeated as needed."""
        if not self.batches:
            raise InvalidArgumentError(f"model '{self.name}' does not batch, so that batch={batch} cannot be sent")
        found = {}
        for name, tensor in tensors.items():
            array = tensor.numpy()
            found[name] = Tensor.from_numpy(np.take(array, np.arange(batch) % array.shape[0], axis=0))
        return found

    def random(self, batch: int, shapes: Mapping[str, Sequence[int]], random: np.random.Generator) -> Tensors:
        """Return random values for all inputs that are not optional. `shapes`: the shapes of inputs with variable
        dimensions, without the batch dimension. Raises InvalidArgumentError if one is missing.
        """
        if unknown := sorted(set(shapes) - set(self.types)):
            raise InvalidArgumentError(f"model '{self.name}' has no input '{unknown[0]}', which shapes names")
        found = {}
        for name, datatype in self.types.items():
            if name in self._optional and name not in shapes:
                continue
            dims = self._shapes[name][1 if self.batches else 0 :]
            shape = list(shapes.get(name, dims))
            if any(size < 0 for size in shape):
                raise InvalidArgumentError(
                    f"input '{name}' of model '{self.name}' has shape {dims}, where -1 is any size: "
                    f"give shapes={{'{name}': [...]}}, or send inputs={{...}}"
                )
            found[name] = _random_tensor(datatype, ([batch] if self.batches else []) + shape, random)
        return found


def _random_tensor(datatype: DataType, shape: list[int], random: np.random.Generator) -> Tensor:
    if datatype is DataType.BYTES:
        letters = random.integers(97, 123, (*shape, _LETTERS), np.uint8)
        texts = np.array([row.tobytes() for row in letters.reshape(-1, _LETTERS)], np.object_)
        return Tensor.from_numpy(texts.reshape(shape))
    if datatype is DataType.BF16:  # the upper half of a float is the same in BF16
        bits = random.random(shape, np.float32).view(np.uint32) >> 16
        return Tensor(datatype, tuple(shape), np.ascontiguousarray(bits.astype(np.uint16)))
    kind = datatype.numpy.kind
    values = random.random(shape) if kind == "f" else random.integers(0, 2 if kind == "b" else _MOST, shape)
    return Tensor(datatype, tuple(shape), np.ascontiguousarray(values.astype(datatype.numpy)))


class RequestMix:
    """A source of requests. Not thread-safe except for `request`, which takes its own lock where needed."""

    def __init__(
        self,
        model: ModelInputs,
        version: int = -1,
        *,
        inputs: Inputs | None = None,
        weights: Sequence[float] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        batch: int | None = None,
        parameters: dict[str, ParameterValue] | None = None,
        priority: int = 0,
        timeout: int = 0,
        sequence_length: int = 20,
        seed: int = 0,
    ) -> None:
        self.model = model
        self._version = version
        self._batch = batch
        self._parameters = parameters
        self._priority, self._timeout = priority, timeout
        self._length = sequence_length
        #: makes the inputs of request n; without it, requests take their inputs from `fixed`
        self._make = inputs if callable(inputs) else None
        #: the inputs that are sent repeatedly
        self.fixed: list[Tensors] = []
        if self._make is None:
            self.fixed = self._prepare(inputs, shapes or {}, np.random.default_rng(seed))
        elif weights is not None:
            raise InvalidArgumentError("weights need a list of inputs, not a function")
        self._rows = {id(tensors): model.rows(tensors) for tensors in self.fixed}
        self._picks = _picks(len(self.fixed), weights, seed)
        self._numbers = itertools.count()
        # random start, so that they differ from the sequences of another client
        self._sequence_ids = itertools.count(int.from_bytes(os.urandom(5), "big"))

    def _prepare(self, inputs: Any, shapes: Mapping[str, Sequence[int]], random: np.random.Generator) -> list[Tensors]:
        if inputs is None:
            return [self.model.random(self._batch or 1, shapes, random)]
        many = [inputs] if isinstance(inputs, (Mapping, InferenceRequest)) else list(inputs)
        if not many:
            raise InvalidArgumentError("the list of inputs is empty")
        return [self._read(one) for one in many]

    def _read(self, values: Any) -> Tensors:
        tensors = values.inputs if isinstance(values, InferenceRequest) else self.model.tensors(values)
        if self._batch is not None and self._batch != self.model.rows(tensors):
            return self.model.repeat_rows(tensors, self._batch)
        return tensors

    def request(self, lane: Lane) -> InferenceRequest:
        """Return the next request of a lane."""
        # `next` of a count or of a cycle is one step of the interpreter, so it needs no lock
        if self._make is not None:
            tensors = self._read(self._make(next(self._numbers)))
            rows = self.model.rows(tensors)
        else:
            tensors = self.fixed[next(self._picks)]
            rows = self._rows[id(tensors)]
        request = InferenceRequest(
            self.model.name,
            tensors,
            model_version=self._version,
            priority=self._priority,
            timeout=self._timeout,
            parameters=self._parameters,
        )
        request.batch_size = rows
        if self.model.sequences:
            self._continue_sequence(request, lane)
        return request

    def last(self, lane: Lane) -> InferenceRequest | None:
        """Return the request that ends the lane's sequence, which would otherwise keep its slot in the server; None if
        no sequence is open.
        """
        if not lane.position:
            return None
        lane.position = self._length - 1
        return self.request(lane)

    def _continue_sequence(self, request: InferenceRequest, lane: Lane) -> None:
        """Make the request the next one of the lane's sequence."""
        if lane.position == 0:
            lane.correlation_id = next(self._sequence_ids)
        last = lane.position == self._length - 1
        request.correlation_id = lane.correlation_id
        request.flags = (SEQUENCE_START if lane.position == 0 else 0) | (SEQUENCE_END if last else 0)
        lane.position = 0 if last else lane.position + 1


def _picks(count: int, weights: Sequence[float] | None, seed: int) -> Iterator[int]:
    """Yield the indices of the inputs to send, without end: in turn, or at random by `weights`."""
    if weights is None:
        return itertools.cycle(range(count))
    shares = np.asarray(weights, float)
    if len(shares) != count or not (shares >= 0).all() or not shares.sum() > 0:
        raise InvalidArgumentError(f"{count} inputs need {count} weights that are not negative, not {list(weights)}")
    drawn = np.random.default_rng(seed).choice(count, _BLOCK, p=shares / shares.sum())
    return itertools.cycle(drawn.tolist())
