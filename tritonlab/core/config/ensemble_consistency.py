"""Checks of an ensemble, when it is loaded, against the models its steps name (rules 5.7.3 and 5.7.7).

Triton compares each use of an ensemble tensor with the first one it meets: the ensemble's own inputs and outputs, then
the steps in their order. `connections` lists every use, with what is wrong with it, for views; `check_composing_models`
raises the first problem in Triton's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..inference.output_reshape import matches
from .model_config import ConfigError, ModelConfig, dims_text, messages
from .model_config_rules import is_decoupled, step_model


@dataclass(frozen=True)
class ComposingModel:
    """A composing model, as the load of its ensemble finds it. `configs`: the final configurations of its READY
    versions, by version. If none is READY, `failure` is the error of that model's own load, from its first version on.
    A model that is `missing` passes for one without inputs and outputs."""

    configs: Mapping[int, ModelConfig] = field(default_factory=dict)
    failure: str = ""
    is_ensemble: bool = False
    missing: bool = False

    def config(self, version: int = -1) -> ModelConfig:
        """Return the configuration of the version that a step names (-1: the latest). Raises KeyError if that version
        is not READY.
        """
        if self.missing:
            return ModelConfig()
        return self.configs[max(self.configs) if version == -1 else version]


@dataclass(frozen=True)
class StepConnection:
    """One entry of a step's input or output map. `shape` is the tensor's shape in the model's configuration, with -1
    first for the batch dimension if the model batches. `problem`: why the two ends do not fit, in Triton's words; empty
    if they do.
    """

    step: int
    model: str
    kind: str  # whether the entry is an `input` or an `output` of the model
    name: str
    tensor: str
    datatype: str
    shape: tuple[int, ...]
    problem: str = ""


@dataclass(frozen=True)
class _Use:
    """An ensemble tensor as the first model that uses it describes it."""

    model: str
    datatype: str
    dims: tuple[int, ...]
    full_dims: tuple[int, ...]

    @staticmethod
    def from_config(model: str, config: ModelConfig, tensor: Any, *, reshaped: bool = False) -> _Use:
        dims = tuple(tensor.reshape.shape if reshaped and tensor.HasField("reshape") else tensor.dims)
        full = (-1, *dims) if config.max_batch_size > 0 else dims
        return _Use(model, messages.DataType.Name(tensor.data_type), dims, full)


def check_composing_models(config: ModelConfig, models: Mapping[str, ComposingModel]) -> None:
    """Raise ConfigError if a step does not fit its model; clients get its text after `load failed for model '<e>': `.

    `models` are the composing models by name; a missing name is a model that does not exist.
    """
    _check_availability(config, models)
    for _, problem in _examine(config, models):
        if problem:
            raise ConfigError(problem)
    _check_origins(config, models)


def connections(config: ModelConfig, models: Mapping[str, ComposingModel]) -> list[StepConnection]:
    """Return one connection for each entry of the steps' maps. All of the models must exist."""
    return [found for found, _ in _examine(config, models) if found is not None]


def complete_ensemble(config: ModelConfig, models: Mapping[str, ComposingModel]) -> ModelConfig:
    """Return the configuration that is served: an ensemble is decoupled exactly if a composing model is, even if its
    own configuration differs (rule 5.7.7).
    """
    filled = ModelConfig()
    filled.CopyFrom(config)
    steps = config.ensemble_scheduling.step
    decoupled = any(is_decoupled(models[step_model(step)].config(step.model_version)) for step in steps)
    filled.model_transaction_policy.decoupled = decoupled
    return filled


def _check_availability(config: ModelConfig, models: Mapping[str, ComposingModel]) -> None:
    name = config.name
    for step in config.ensemble_scheduling.step:
        if step_model(step) not in models:
            text = f"ensemble {name} contains models that are not available or ambiguous: {step_model(step)}"
            raise ConfigError(text)
    for step in config.ensemble_scheduling.step:
        model = models[step_model(step)]
        if model.missing:
            continue
        depends = f"ensemble '{name}' depends on '{step_model(step)}'"
        if not model.configs and model.is_ensemble:
            raise ConfigError(
                f"{depends} which is not valid. Model '{step_model(step)}' failed with error: {model.failure}"
            )
        if not model.configs:
            raise ConfigError(
                f"{depends} which has no loaded version. Model '{step_model(step)}' loading failed with error: "
                f"{model.failure}"
            )
        if step.model_version != -1 and step.model_version not in model.configs:
            raise ConfigError(f"{depends} whose required version {step.model_version} is not loaded.")


def _examine(config: ModelConfig, models: Mapping[str, ComposingModel]) -> Iterator[tuple[StepConnection | None, str]]:
    """Yield connections and problems in the order in which Triton looks at them."""
    known = {
        tensor.name: _Use.from_config(config.name, config, tensor, reshaped=True)
        for tensor in (*config.input, *config.output)
    }
    about = f"in ensemble {config.name}, "
    for number, step in enumerate(config.ensemble_scheduling.step):
        name = step_model(step)
        model = models[name].config(step.model_version)
        if 0 < model.max_batch_size < config.max_batch_size:
            problem = (
                f"ensemble {config.name} allows maximum batch size {config.max_batch_size}, but it contains model "
                f"{name} which only allows maximum batch size to be {model.max_batch_size}"
            )
            yield None, problem
        yield from _step_map(number, kind="input", step=step, model=model, known=known, about=about)
        for tensor in model.input:
            if not tensor.optional and tensor.name not in step.input_map:
                yield None, f"{about}input {tensor.name} in model {name} is not mapped to any ensemble tensors"
        yield from _step_map(number, kind="output", step=step, model=model, known=known, about=about)


def _step_map(
    number: int, kind: str, step: Any, model: ModelConfig, known: dict[str, _Use], about: str
) -> Iterator[tuple[StepConnection, str]]:
    """Yield the connections of the step's input or output map."""
    tensors = {tensor.name: tensor for tensor in getattr(model, kind)}
    name, mapped = step_model(step), "mapping to" if kind == "input" else "mapped from"
    # a map has no order of its own; Triton's is not known
    for key, value in sorted(getattr(step, f"{kind}_map").items()):
        datatype, shape = "", tuple[int, ...]()
        if key in tensors:
            use = _Use.from_config(model.name, model, tensors[key])
            datatype, shape = use.datatype, use.full_dims
            difference = _difference(known.setdefault(value, use), use)
            problem = f"{about}ensemble tensor {value}: {difference}" if difference else ""
        else:
            problem = f"{about}ensemble tensor {value} is {mapped} non-existing {kind} {key} in model {name}"
        found = StepConnection(
            number, model.name, kind, name=key, tensor=value, datatype=datatype, shape=shape, problem=problem
        )
        yield found, problem


def _difference(first: _Use, second: _Use) -> str:
    """Return the difference between two uses of a tensor in words; "" if they are equal. Shapes may fit with or without
    the batch dimension, because a batching model may follow another one."""
    if first.datatype != second.datatype:
        return (
            f"inconsistent data type: {first.datatype} is inferred from model {first.model} while {second.datatype} "
            f"is inferred from model {second.model}"
        )
    if matches(first.dims, second.dims) or matches(first.full_dims, second.full_dims):
        return ""
    return (
        f"inconsistent shape: {dims_text(first.full_dims)} is inferred from model {first.model} while "
        f"{dims_text(second.full_dims)} is inferred from model {second.model}"
    )


def _check_origins(config: ModelConfig, models: Mapping[str, ComposingModel]) -> None:
    """Raise ConfigError if a step, or the ensemble's response, joins tensors that arrive a different number of times: a
    decoupled step may respond any number of times, other steps respond once.
    """
    #: ensemble tensor -> the number of the decoupled step whose responses carry it; -1 if it comes once per request
    origin = {tensor.name: -1 for tensor in config.input}
    waiting = dict(enumerate(config.ensemble_scheduling.step))
    mixed = f"in ensemble {config.name}, step of model '{config.name}' receives inputs originated from different "
    mixed += "decoupled models"
    while waiting:
        ready = [n for n, step in waiting.items() if all(t in origin for t in step.input_map.values())]
        for number in ready:
            step = waiting.pop(number)
            origins = {origin[tensor] for tensor in step.input_map.values()}
            if len(origins) > 1:
                raise ConfigError(mixed)
            decoupled = is_decoupled(models[step_model(step)].config(step.model_version))
            origin.update(dict.fromkeys(step.output_map.values(), number if decoupled else origins.pop()))
        if not ready:
            break  # a cycle that no output needs; the poll has refused it (rule 5.7.2)
    if len({origin[tensor.name] for tensor in config.output if tensor.name in origin}) > 1:
        raise ConfigError(mixed)
