"""Checks of the structure of an ensemble's graph, before any composing model is looked at (rule 5.7.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

from .model_config import ConfigError, ModelConfig


@dataclass
class _Tensor:
    """An ensemble tensor, a node of the graph. `sources` are the tensors read by the step that writes it."""

    written: bool = False
    sources: list[str] = field(default_factory=list)
    readers: list[str] = field(default_factory=list)


def validate_ensemble(config: ModelConfig) -> None:
    """Raise ConfigError if the ensemble's steps and tensors form no valid graph. Stray quotes are Triton's."""
    name = config.name
    if config.platform != "ensemble":
        raise ConfigError(f"ensemble scheduling cannot be set for model '{name}' whose platform is not ensemble")
    if config.instance_group:
        raise ConfigError(f"instance group should not be specified for ensemble '{name}'")
    if config.HasField("optimization"):
        raise ConfigError(f"optimization should not be specified for ensemble '{name}'")
    if config.model_warmup:
        raise ConfigError(f"model_warmup can not be specified for ensemble '{name}'")
    if not config.ensemble_scheduling.step:
        raise ConfigError(f"must specify 'step' for ensemble '{name}'")
    graph = _graph(config)
    _check_data_flow(config, graph)


def _graph(config: ModelConfig) -> dict[str, _Tensor]:
    graph: dict[str, _Tensor] = {}
    for number, step in enumerate(config.ensemble_scheduling.step):
        where = f"in step {number} of ensemble '{config.name}'"
        for part in ("model_name", "input_map", "output_map"):
            if not getattr(step, part):
                raise ConfigError(f"must specify '{part}' {where}")
        written = []
        for name in step.output_map.values():
            tensor = graph.setdefault(name, _Tensor())
            if tensor.written:
                raise ConfigError(
                    f"ensemble tensor '{name}' can appear in an output map only once for ensemble '{config.name}' "
                    f"step {number}"
                )
            tensor.written = True
            tensor.sources += step.input_map.values()
            written.append(name)
        for name in step.input_map.values():
            graph.setdefault(name, _Tensor()).readers += written
    return graph


def _check_data_flow(config: ModelConfig, graph: dict[str, _Tensor]) -> None:
    for tensor in config.input:
        if tensor.name not in graph:
            raise ConfigError(f"ensemble input '{tensor.name}' for ensemble {config.name}' is not used")
    ready = _reachable(config, graph)
    for tensor in config.output:
        if tensor.name not in graph:
            raise ConfigError(f"ensemble output '{tensor.name}' for ensemble {config.name}' is not used")
        if tensor.name not in ready:
            missing = _missing_source(tensor.name, graph, ready)
            raise ConfigError(
                f"output '{tensor.name}' for ensemble '{config.name}' is not written"
                + (f": at least one of its depending tensors, '{missing}', is not connected" if missing else "")
            )
    outputs = {tensor.name for tensor in config.output}
    # Backwards, because Triton walks a C++ hash map, whose newest entry usually comes first.
    for name, node in reversed(graph.items()):
        if name not in outputs and (name not in ready or not node.readers):
            raise ConfigError(f"ensemble tensor '{name}' is unused in ensemble '{config.name}'")


def _reachable(config: ModelConfig, graph: dict[str, _Tensor]) -> set[str]:
    """Return the names of the tensors that will exist once the ensemble's inputs are given."""
    ready = {tensor.name for tensor in config.input}
    waiting = list(ready)
    while waiting:
        for name in graph[waiting.pop()].readers:
            if name not in ready and ready.issuperset(graph[name].sources):
                ready.add(name)
                waiting.append(name)
    return ready


def _missing_source(name: str, graph: dict[str, _Tensor], ready: set[str]) -> str:
    """Return the tensor upstream of `name` that no step writes; an empty text if `name` only waits in a cycle."""
    seen: set[str] = set()
    stack = [name]
    while stack:
        current = stack.pop()
        if not graph[current].written:
            return current
        seen.add(current)
        stack += [s for s in reversed(graph[current].sources) if s not in ready and s not in seen]
    return ""
