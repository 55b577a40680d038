"""`EnsembleCompletion`, which loads the models of an ensemble and completes its configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...core.config.ensemble_consistency import ComposingModel, check_composing_models, complete_ensemble
from ...core.config.model_config import ConfigError, ModelConfig, renamed
from ...core.config.model_config_rules import is_ensemble
from ...core.status import Code, ModelLoadError, TritonError
from ...repository.layout import place_time
from ...repository.model_repository_manager import ModelFiles, ModelRepositoryManager, poll_failure
from .dependency_graph import DependencyGraph, composing_models, required_models
from .endings import Endings
from .global_map import GlobalMap
from .loaded_model import LoadedModel, Refusal


class EnsembleCompletion:
    """The completion of the ensembles among `models`. `load` loads a model that an ensemble needs."""

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
        """Return the configuration of a model: the serving one, else the one on disk; None if it cannot be read."""
        model = self._models.get(identifier)
        if model is not None and model.files is not None:
            return model.files.config
        try:
            return self._resolved(self._repository.read(identifier))
        except TritonError:
            return None

    def _resolved(self, found: ModelFiles) -> ModelConfig:
        return self._models.resolve(found.config, found.namespace, self._repository.namespaces)

    def follow_files(self, identifier: str) -> StepReload:
        """Load the models of an ensemble again whose files have changed, before a load of the ensemble by name (rule
        5.7.4). Models that then fail to load continue to serve as before.
        """
        model = self._models.get(identifier)
        if model is not None and model.versions and model.wanted is None:
            return StepReload()  # it serves, and is not an ensemble
        try:
            found = self._repository.read(identifier)
            if not is_ensemble(found.config):
                return StepReload(found)
            config = self._resolved(found)
        except TritonError:
            return StepReload()
        configs = {identifier: config, **required_models({identifier: config}, self.config)}
        unreadable: list[str] = []
        changed = False
        for part in DependencyGraph(configs).load_order(configs.keys() - {identifier}):
            known = self._models.get(part)
            # models loaded with files have no other files that could change
            if known is not None and known.files is not None and known.files.temporary is None:
                before = known.versions
                try:
                    self._load(part)
                except ModelLoadError as error:
                    unreadable += [error.reason] * (error.code is Code.INTERNAL)
                changed = changed or known.versions is not before
        name = self._repository.split(identifier)[1]
        return StepReload(None, changed, [poll_failure(name, reason) for reason in unreadable[:1]])

    def complete(self, model: LoadedModel, found: ModelFiles, followed: StepReload) -> ModelFiles:
        """Load the missing models of an ensemble, check that the models fit (rules 5.7.3, 5.7.4), and return the
        ensemble with its final configuration. `followed`: the reloads of its models since its last check. Raises
        ModelLoadError; then the ensemble no longer serves.
        """
        name = model.identifier
        resolved = self._models.resolve(found.config, found.namespace, self._repository.namespaces)
        found = replace(found, config=resolved)
        configs = {name: found.config, **required_models({name: found.config}, self.config)}
        steps = _Steps(followed.changed)
        placed = place_time(found.directory)  # before its models load: later changes are changes
        missing: frozenset[str] = frozenset()
        try:
            circle = DependencyGraph(configs).circle(name)
            if circle:
                raise ConfigError(circle)
            last = model.refusal if model.wanted is not None and _is_same(model.wanted, found) else None
            if last is not None and last.place_time != placed:
                last = None  # its files were moved away and back
            model.wanted = None  # loads of its own models must not load the ensemble
            try:
                parts = {part: self._composing(part, steps) for part in composing_models(found.config)}
            finally:
                model.wanted = found
            missing = frozenset(part for part, known in parts.items() if known is None)
            there = {part: known for part, known in parts.items() if known is not None}
            if last is not None and not last.missing - missing:  # the missing ones were reported earlier (measured)
                unpolled = [*(error.reason for error in followed.failed), *steps.unpolled]
                if unpolled and not steps.changed:
                    raise poll_failure(model.name, f"{last.text}; {unpolled[0]}")
                there |= dict.fromkeys(missing, ComposingModel(missing=True))
            check_composing_models(renamed(found.config, name), there)
        except ConfigError as error:
            self._endings.retire(model)
            model.refusal = Refusal(error.reason, missing, placed)
            text = f"load failed for model '{name}': {error.reason}\n"
            raise ModelLoadError(text, reason=error.detail or "; ".join(steps.unpolled) or error.reason) from None
        model.refusal = None
        return replace(found, config=complete_ensemble(found.config, there))

    def _composing(self, identifier: str, steps: _Steps) -> ComposingModel | None:
        """Return one model of an ensemble, loaded if possible. Return None if no model or several models have this
        name, or it cannot be read.
        """
        model = self._models.get(identifier)
        failure = ""
        if model is None or not model.versions:
            if not self._repository.holds(identifier):
                steps.unpolled.append(self._why_unpolled(identifier))
                return None
            try:
                model = self._load(identifier)
            except ModelLoadError as error:
                model = self._models[identifier]
                if error.code is Code.INTERNAL:
                    steps.unpolled.append(error.reason)
                    if model.refusal is None:
                        return None
                    failure = model.refusal.text  # an ensemble; one of its own models cannot be read
                else:
                    steps.changed = True
                    failure = error.message.partition(": ")[2].removesuffix("\n")
            else:
                steps.changed = True
        versions = {number: renamed(version.config, identifier) for number, version in model.versions.items()}
        return ComposingModel(versions, failure, model.wanted is not None)

    def _why_unpolled(self, identifier: str) -> str:
        try:
            self._repository.read(identifier)
        except ModelLoadError as error:
            return error.reason
        return ""


def _is_same(before: ModelFiles, now: ModelFiles) -> bool:
    """Return whether an ensemble was read again unchanged; even a comment in its configuration is a change."""
    return before.config == now.config and before.fingerprint == now.fingerprint


class StepReload(NamedTuple):
    """The outcome of a check of the files of an ensemble's models: whether one was loaded again, and the error of the
    ensemble's load if one cannot be read. `found`: the files of a model that is not an ensemble, if they were read; an
    ensemble's files may have changed while its models were loaded.
    """

    found: ModelFiles | None = None
    changed: bool = False
    failed: Sequence[ModelLoadError] = ()


NOT_FOLLOWED = StepReload()


@dataclass
class _Steps:
    """The findings about its models during an ensemble's load: whether one was loaded, or tried, since the last check,
    and why others cannot be read."""

    changed: bool
    unpolled: list[str] = field(default_factory=list)
