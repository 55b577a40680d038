"""`EnsembleCompletion` loads what an ensemble contains, and gives it the configuration that follows from those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...core.ensemble_consistency import ComposingModel, check_composing_models, complete_ensemble
from ...core.model_config import ConfigError, ModelConfig, renamed
from ...core.status import Code, ModelLoadError, TritonError
from .dependency_graph import DependencyGraph, composing_models, required_models
from .endings import Endings
from .global_map import GlobalMap
from .loaded_model import LoadedModel
from .model_repository_manager import ModelFiles, ModelRepositoryManager, poll_failure


class EnsembleCompletion:
    """Completes the ensembles among `models`. `load` loads a model that an ensemble needs."""

    def __init__(
        self,
        repository: ModelRepositoryManager,
        models: GlobalMap,
        load: Callable[[str], LoadedModel],
        endings: Endings,
    ) -> None:
        self._repository = repository
        self._models = models
        self._load = load
        self._endings = endings

    def config(self, identifier: str) -> ModelConfig | None:
        """Returns the configuration of a model: the one that serves, else the one on disk; None if that cannot be
        read."""
        model = self._models.get(identifier)
        if model is not None and model.files is not None:
            return model.files.config
        return self._read(identifier)

    def _read(self, identifier: str) -> ModelConfig | None:
        try:
            found = self._repository.read(identifier)
            return self._models.resolve(found.config, found.namespace, self._repository.namespaces)
        except TritonError:
            return None

    def follow_files(self, identifier: str) -> list[ModelLoadError]:
        """Loads what an ensemble contains anew where its files have changed, before somebody's load of the ensemble
        (rule 5.7.4). What then fails to load goes on serving as it was. Returns the error of the ensemble's load if
        one of its models cannot be read.
        """
        model = self._models.get(identifier)
        if model is not None and model.versions and model.wanted is None:
            return []  # it serves, and is no ensemble
        found = self._read(identifier)
        if found is None:
            return []
        configs = {identifier: found, **required_models({identifier: found}, self.config)}
        unreadable: list[str] = []
        for part in DependencyGraph(configs).load_order(configs.keys() - {identifier}):
            known = self._models.get(part)
            # what a load brought with files has no others that could change
            if known is not None and known.files is not None and known.files.temporary is None:
                try:
                    self._load(part)
                except ModelLoadError as error:
                    unreadable += [error.reason] * (error.code is Code.INTERNAL)
        return [poll_failure(self._repository.split(identifier)[1], unreadable[0])] if unreadable else []

    def complete(self, model: LoadedModel, found: ModelFiles) -> ModelFiles:
        """Loads what an ensemble contains and is not loaded yet, checks that the models fit (rules 5.7.3, 5.7.4), and
        returns the ensemble with its final configuration. Raises ModelLoadError; then the ensemble does not serve any
        more.
        """
        name = model.identifier
        resolved = self._models.resolve(found.config, found.namespace, self._repository.namespaces)
        found = replace(found, config=resolved)
        configs = {name: found.config, **required_models({name: found.config}, self.config)}
        unreadable: list[str] = []
        try:
            circle = DependencyGraph(configs).circle(name)
            if circle:
                raise ConfigError(circle)
            tried = model.wanted is not None
            model.wanted = None  # the loads of its own models must not load it
            try:
                parts = {part: self._composing(part, unreadable) for part in composing_models(found.config)}
            finally:
                model.wanted = found
            if unreadable and tried:  # at the first load it is merely not available (measured)
                raise poll_failure(model.name, unreadable[0])
            there = {part: known for part, known in parts.items() if known is not None}
            check_composing_models(renamed(found.config, name), there)
        except ConfigError as error:
            self._endings.retire(model)
            text = f"load failed for model '{name}': {error.reason}\n"
            raise ModelLoadError(text, reason=error.detail or "; ".join(unreadable) or error.reason) from None
        return replace(found, config=complete_ensemble(found.config, there))

    def _composing(self, identifier: str, unreadable: list[str]) -> ComposingModel | None:
        """Returns one model of an ensemble, loaded if it can be. Returns None if there is no model of this name, or
        more than one, or it cannot be read; then `unreadable` gets the reason.
        """
        model = self._models.get(identifier)
        failure = ""
        if model is None or not model.versions:
            if not self._repository.holds(identifier):
                return None
            try:
                model = self._load(identifier)
            except ModelLoadError as error:
                if error.code is Code.INTERNAL:
                    unreadable.append(error.reason)
                    return None
                failure = error.message.partition(": ")[2].removesuffix("\n")
                model = self._models[identifier]
        versions = {number: renamed(version.config, identifier) for number, version in model.versions.items()}
        return ComposingModel(versions, failure, model.wanted is not None)
