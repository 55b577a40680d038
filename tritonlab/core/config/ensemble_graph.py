"""The graph of an ensemble's steps, computed once per load: which step reads which tensor, and how shapes change on the
way.

    ensemble input --> step --> ensemble tensor --> step --> ensemble output

Tensors between a batching and a non-batching model gain or lose a batch dimension of 1 (rule 5.7.11): it is added where
they fit with it, and removed where they fit only without. No data is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..inference.output_reshape import matches, reshaped
from ..inference.tensor import Tensor
from .model_config import ModelConfig
from .model_config_rules import is_decoupled, step_model


@dataclass(frozen=True, slots=True)
class TensorRead:
    """The reading of ensemble tensor `tensor` by input `name` of a step's model, or output `name` of the ensemble.

    `batch` is 1 if the reader batches and the writer does not, -1 the other way round, else 0. `dims` are the reader's.
    `reshape` is the shape that an output of the ensemble has before it gets `dims` (rule 5.4.6).
    """

    name: str
    tensor: str
    dims: tuple[int, ...]
    batch: int
    reshape: tuple[int, ...] | None = None

    def read(self, tensor: Tensor) -> Tensor:
        """Return the tensor with the reader's shape: the same object, or a new header over the same data."""
        shape = self._shape(tensor.shape)
        return tensor if shape is tensor.shape else tensor.with_shape(shape)

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        wanted = self.dims if self.reshape is None else self.reshape
        if self.batch > 0 and matches(shape, wanted):
            shape = (1, *shape)
        elif self.batch < 0 and shape[:1] == (1,) and not matches(shape, wanted):
            shape = shape[1:]
        if self.reshape is None:
            return shape
        batch = shape[: len(shape) - len(self.reshape)]
        own = shape[len(batch) :]
        if len(batch) > 1 or not matches(own, self.reshape):
            return shape  # An output that does not fit its dims reaches the client unchanged, as from any model.
        return (*batch, *reshaped(own, self.reshape, self.dims))


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an ensemble. `reads` are the ensemble tensors that the step waits for. `outputs` maps its model's
    outputs to ensemble tensors. `requested` are the outputs requested of its model; empty means all.
    """

    number: int
    model_name: str
    model_version: int
    inputs: tuple[TensorRead, ...]
    outputs: dict[str, str]
    requested: tuple[str, ...]
    decoupled: bool
    reads: frozenset[str]

    def __str__(self) -> str:
        return f"step {self.number} (model '{self.model_name}')"


@dataclass(frozen=True)
class EnsembleGraph:
    """The steps of an ensemble whose configuration is complete (`ensemble_consistency.complete_ensemble`)."""

    name: str
    steps: tuple[Step, ...]
    #: ensemble tensor -> the steps that wait for it
    readers: dict[str, tuple[Step, ...]]
    #: ensemble tensor -> the step that writes it, and the model's name for it; without the ensemble's inputs
    writers: dict[str, tuple[Step, str]]
    outputs: dict[str, TensorRead]
    inputs: tuple[str, ...]
    optional_inputs: tuple[str, ...]
    decoupled: bool
    #: whether its tensors have a batch dimension in front of `dims`
    batches: bool
    max_inflight_requests: int

    @staticmethod
    def from_config(config: ModelConfig, find: Callable[[str, int], ModelConfig]) -> EnsembleGraph:
        """Build the graph. `find(name, version)` returns a composing model's final configuration (-1: the latest)."""
        models = [find(step_model(step), step.model_version) for step in config.ensemble_scheduling.step]
        batches = dict.fromkeys((tensor.name for tensor in config.input), config.max_batch_size > 0)
        for step, model in zip(config.ensemble_scheduling.step, models, strict=True):
            batches.update(dict.fromkeys(step.output_map.values(), model.max_batch_size > 0))
        steps = tuple(
            _step(number, step, model, batches)
            for number, (step, model) in enumerate(zip(config.ensemble_scheduling.step, models, strict=True))
        )
        tensors = {tensor for step in steps for tensor in step.reads}
        scheduling = config.ensemble_scheduling
        return EnsembleGraph(
            name=config.name,
            steps=steps,
            readers={tensor: tuple(step for step in steps if tensor in step.reads) for tensor in tensors},
            writers={tensor: (step, name) for step in steps for name, tensor in step.outputs.items()},
            outputs={
                tensor.name: _reading(
                    tensor.name, tensor=tensor.name, described=tensor, reader=config, batches=batches, reshaped=True
                )
                for tensor in config.output
            },
            inputs=tuple(tensor.name for tensor in config.input),
            optional_inputs=tuple(tensor.name for tensor in config.input if tensor.optional),
            decoupled=is_decoupled(config),
            batches=config.max_batch_size > 0,
            # Definitions of the message older than 25.11 do not have the field.
            max_inflight_requests=int(getattr(scheduling, "max_inflight_requests", 0)),
        )

    def needed(self, outputs: Iterable[str]) -> frozenset[int]:
        """Return the numbers of the steps that `outputs` depend on; the others are not run (rule 5.7.12)."""
        found: set[int] = set()
        waiting = list(outputs)
        while waiting:
            written = self.writers.get(waiting.pop())
            if written is not None and written[0].number not in found:
                found.add(written[0].number)
                waiting += written[0].reads
        return frozenset(found)

    def origin(self, tensor: str) -> str:
        """Return a phrase for people, the name of the step that writes an ensemble tensor."""
        written = self.writers.get(tensor)
        return "an input of the ensemble" if written is None else f"{written[1]} of {written[0]}"


def _step(number: int, step: Any, model: ModelConfig, batches: dict[str, bool]) -> Step:
    inputs = {tensor.name: tensor for tensor in model.input}
    outputs = dict(sorted(step.output_map.items()))
    return Step(
        number=number,
        model_name=step_model(step),
        model_version=step.model_version,
        inputs=tuple(
            _reading(name=key, tensor=value, described=inputs[key], reader=model, batches=batches)
            for key, value in sorted(step.input_map.items())
        ),
        outputs=outputs,
        # Naming all of them would make the check of each request slow.
        requested=() if outputs.keys() >= {tensor.name for tensor in model.output} else tuple(outputs),
        decoupled=is_decoupled(model),
        reads=frozenset(step.input_map.values()),
    )


def _reading(
    name: str, tensor: str, described: Any, reader: ModelConfig, batches: dict[str, bool], *, reshaped: bool = False
) -> TensorRead:
    batch = (reader.max_batch_size > 0) - batches[tensor]
    reshape = tuple(described.reshape.shape) if reshaped and described.HasField("reshape") else None
    return TensorRead(name, tensor, dims=tuple(described.dims), batch=batch, reshape=reshape)
