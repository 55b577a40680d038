"""The ensembles and their models: the models that a load needs first, and the ensembles that an unload takes down (rule
5.7.4).

Pure: built from configurations, whether or not their models are loaded. Ensembles may contain ensembles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ...core.config.model_config import ModelConfig
from ...core.config.model_config_rules import is_ensemble, step_model


def composing_models(config: ModelConfig) -> tuple[str, ...]:
    """Return the identifiers of the models that an ensemble's steps name, each once, in order; else none."""
    if not is_ensemble(config):
        return ()
    return tuple(dict.fromkeys(step_model(step) for step in config.ensemble_scheduling.step))


def required_models(
    configs: Mapping[str, ModelConfig], find: Callable[[str], ModelConfig | None]
) -> dict[str, ModelConfig]:
    """Return the models that must be loaded with `configs`: their composing models, directly or not, without
    themselves.

    `find` reads the configuration of a model that is not loaded yet; it returns None if the model is loaded, or cannot
    be read.
    """
    found: dict[str, ModelConfig] = {}
    seen = set(configs)
    waiting = [name for config in configs.values() for name in composing_models(config)]
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        config = find(name)
        if config is not None:
            found[name] = config
            waiting += composing_models(config)
    return found


class DependencyGraph:
    """The dependencies among `configs`, by identifier; a composing model without a config is only a name."""

    def __init__(self, configs: Mapping[str, ModelConfig]) -> None:
        self._composing = {name: composing_models(config) for name, config in configs.items()}
        self._ensembles: dict[str, list[str]] = {}
        for name, models in self._composing.items():
            for model in models:
                self._ensembles.setdefault(model, []).append(name)

    def composing(self, name: str) -> tuple[str, ...]:
        """Return the direct composing models of an ensemble."""
        return self._composing.get(name, ())

    def dependents(self, names: Iterable[str]) -> list[str]:
        """Return the ensembles that contain one of `names`, directly or not, without `names` themselves: they become
        unavailable with these. An ensemble comes after the ensembles that it contains: the order of a reload.
        """
        changed = set(names)
        found: set[str] = set()
        waiting = list(changed)
        while waiting:
            for ensemble in self._ensembles.get(waiting.pop(), ()):
                if ensemble not in found and ensemble not in changed:
                    found.add(ensemble)
                    waiting.append(ensemble)
        return self.load_order(found)

    def load_order(self, names: Iterable[str]) -> list[str]:
        """Return `names` sorted by name, but each ensemble after its models. Ensembles that contain themselves are at
        any place; `circle` finds them.
        """
        wanted = sorted(set(names))
        order: dict[str, None] = {}
        entered: set[str] = set()

        def visit(name: str) -> None:
            if name in entered:
                return
            entered.add(name)
            for model in self._composing.get(name, ()):
                visit(model)
            order[name] = None

        for name in wanted:
            visit(name)
        return [name for name in order if name in wanted]

    def circle(self, name: str) -> str:
        """Return the text of the refusal if ensemble `name` contains itself, directly or not; else empty."""
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            current = waiting.pop()
            for model in self._composing.get(current, ()):
                if model == name:
                    return f"circular dependency between ensembles: {name} -> ... -> {current} -> {name}"
                if model not in seen:
                    seen.add(model)
                    waiting.append(model)
        return ""

    def needed_by_none_but(self, name: str, explicit: Iterable[str]) -> list[str]:
        """Return the models that `unload_dependents` unloads with ensemble `name`: those it contains, directly or not,
        that were not loaded by name (`explicit`) and are in no other ensemble. Ensembles come before their models: the
        order of unloading.
        """
        staying = set(explicit)
        going = {name}
        waiting = [name]
        while waiting:
            for model in self._composing.get(waiting.pop(0), ()):
                if model not in staying and model not in going and going.issuperset(self._ensembles[model]):
                    going.add(model)
                    waiting.append(model)
        return self.load_order(going - {name})[::-1]
