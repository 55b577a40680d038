"""The models that a server knows, by identifier, and the lookup of the models that a name means (rule 5.11.12), and of
the versions that a client's text means."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import ClassVar

from ...core.config.model_config import ModelConfig
from ...core.status import InvalidArgumentError, NotFoundError, UnavailableError
from .dependency_graph import DependencyGraph, composing_models
from .loaded_model import LoadedModel
from .model_lifecycle import ModelVersion

_NUMBER = re.compile(r"[ \t-\r]*[+-]?[0-9]{1,99}")


def is_meant(model: LoadedModel | ModelVersion, name: str) -> bool:
    """Return whether a name, or an identifier, means the model; "" means every model."""
    return not name or name in (model.name, model.identifier)


class GlobalMap(dict[str, LoadedModel]):
    """The models by identifier; entries are never removed, so requests read them without a lock.
    `namespacing`: whether several models may have one name.
    """

    #: in a process forked from one with models, the end of the errors for unknown models; "" elsewhere
    left_behind: ClassVar[str] = ""

    def __init__(self, namespacing: bool) -> None:
        self.namespacing = namespacing
        self._lock = threading.Lock()  # guards additions

    def add(self, identifier: str, namespace: str, name: str) -> LoadedModel:
        """Return the model of this identifier; add a new one if it is unknown."""
        with self._lock:
            return self.setdefault(identifier, LoadedModel(name, namespace))

    def known(self, name: str = "") -> list[LoadedModel]:
        """Return every model, or the models of a name or identifier, that was loaded, or tried, at least once."""
        return [model for _, model in sorted(self.items()) if is_meant(model, name) and model.is_known]

    def settled(self) -> bool:
        """Return whether nothing is loading, failed or without a living stub (rule 5.11.9)."""
        return all(model.settled() for model in self.known())

    def graph(self) -> DependencyGraph:
        """Return the dependencies among the ensembles that are wanted: loaded or tried, and not unloaded."""
        with self._lock:
            models = list(self.values())
        return DependencyGraph({model.identifier: model.wanted.config for model in models if model.wanted is not None})

    def named(self, name: str) -> list[LoadedModel]:
        """Return the models of this name, or identifier, that were loaded, or tried, and not unloaded since."""
        return [model for model in list(self.values()) if model.listed and name in (model.name, model.identifier)]

    def only(self, name: str) -> LoadedModel:
        """Return the one model that a name means. Raises NotFoundError, InvalidArgumentError, with Triton's texts."""
        found = self.named(name)
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidArgumentError(
                f"There are {len(found)} identifiers of model '{name}' in global map, model namespace must be provided "
                "to resolve ambiguity."
            )
        unknown = f"Request for unknown model: '{name}' is not found{self.left_behind}"
        if not self.namespacing:
            raise NotFoundError(unknown)
        if any(model.name == name and model.not_ready for model in list(self.values())):
            raise NotFoundError(f"Identifier of model '{name}' is not found in global map")
        raise InvalidArgumentError(unknown)

    def find(self, name: str, version: int = -1) -> ModelVersion:
        """Return the READY version for a request. Raises NotFoundError, UnavailableError (rules 5.4.1, 5.11.6)."""
        model = self.get(name)
        # `latest` is read once: the model may be unloaded meanwhile
        if version == -1 and model is not None and (latest := model.latest) is not None:
            return latest
        if model is None or not model.is_known:
            model = self.only(name)
            name = model.identifier
            if not model.is_known:
                raise NotFoundError(f"Request for unknown model: '{name}' is not found")
        found = model.latest if version == -1 else model.versions.get(version)
        if found is not None:
            return found
        if version in model.not_ready:
            raise UnavailableError(f"Request for unknown model: '{name}' version {version} is not at ready state")
        if version == -1:
            raise NotFoundError(f"Request for unknown model: '{name}' has no available versions")
        raise NotFoundError(f"Request for unknown model: '{name}' version {version} is not found")

    def ready(self, name: str, version: str = "") -> bool:
        """Return whether a version can answer; an unknown version cannot (rule 1.15.7). Raises InvalidArgumentError for
        a version that is not a number, and for a name that several models have.
        """
        try:
            return self.find(name, parse_version(version)).ready()
        except (NotFoundError, UnavailableError):
            return False

    def resolve(
        self, config: ModelConfig, namespace: str, more: Callable[[str], Sequence[str]] = lambda name: ()
    ) -> ModelConfig:
        """Return the configuration of an ensemble with the namespaces of its models: the ensemble's own if it has the
        model, else the only one that has it. `more`: other namespaces that have a model of a name.
        """
        resolved = ModelConfig()
        resolved.CopyFrom(config)
        for step in resolved.ensemble_scheduling.step:
            found = {*(model.namespace for model in self.named(step.model_name)), *more(step.model_name)}
            step.model_namespace = namespace if namespace in found else min(found) if len(found) == 1 else ""
        return resolved

    def is_resolved_differently(self, config: ModelConfig, namespace: str) -> bool:
        """Return whether the steps of a resolved ensemble now name other models, all of them known."""
        if not self.namespacing:
            return False
        resolved = self.resolve(config, namespace)
        return resolved != config and all(self.named(model) for model in composing_models(resolved))


def parse_version(text: str) -> int:
    """Return the number of a version in a client's text; `""` is -1, the latest. Raises InvalidArgumentError with
    Triton's texts (rule 1.15.7).

    Triton reads only the leading number: `1x` is 1 (measured).
    """
    if not text:
        return -1
    digits = _NUMBER.match(text)
    if digits is None or not -(1 << 63) <= int(digits[0]) < 1 << 63:
        detail = " (details: stol)"
    elif (number := int(digits[0])) >= 0:
        return number
    else:
        detail = ""
    raise InvalidArgumentError(
        f"failed to get model version from specified version string '{text}'{detail}, "
        "version should be an integral value > 0"
    )
