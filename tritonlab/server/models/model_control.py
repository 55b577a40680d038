"""Model control loads, reloads and unloads models with what depends on them, keeps the repository index, and ends them
all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from ...core.ensemble_consistency import ComposingModel, check_composing_models, complete_ensemble
from ...core.model_config import ConfigError, ModelConfig, renamed
from ...core.model_config_rules import is_ensemble
from ...core.status import Code, ModelError, ModelLoadError, TritonError, UnavailableError, UnsupportedError
from ...ipc.interrupts import shielded
from ...ipc.stub_log import LogRecord
from .dependency_graph import DependencyGraph, composing_models, required_models
from .endings import Ending, Endings
from .global_map import GlobalMap
from .loaded_model import Changes, LoadedModel, find_changes
from .model_lifecycle import LoadServices, ModelEvent, ModelState, ModelVersion
from .model_repository_manager import ModelFiles, ModelRepositoryManager, check_name

CONTROL_MODES = ("none", "poll", "explicit")


class ModelControl:
    """Loads and unloads the models of a repository; any thread may call. `on_state` hears of every state of every
    version, `on_wait` of versions whose end is waited for, with a sentence about it."""

    def __init__(
        self,
        repository: ModelRepositoryManager,
        services: LoadServices,
        mode: str,
        on_state: Callable[[ModelVersion, str], None],
        on_wait: Callable[[ModelVersion, str], None],
        drain_seconds: float = 0,
    ) -> None:
        self.repository = repository
        #: by identifier; requests look here without a lock
        self.models = GlobalMap(repository.namespacing)
        self.explicit = mode == "explicit"
        self.stopped = False
        self._services = services
        self._on_state = on_state
        self._lock = threading.Lock()  # guards additions to models
        self._drain_seconds = drain_seconds
        self._endings = Endings(on_wait, services.instances.clock, services.instances.later)
        self._loading: set[ModelVersion] = set()

    # -- load

    def load(self, name: str, config: dict[str, Any] | str | None, files: dict[str, bytes] | None) -> None:
        """Loads the models of this name, all that can be. Raises ModelLoadError, InvalidArgumentError (rule
        5.11.4), or UnavailableError outside the explicit mode."""
        self._require_explicit()
        check_name(self.repository.split(name)[1])
        failed: list[ModelLoadError] = []
        for identifier in self.repository.identifiers(name) if not files else [name]:
            try:
                self.load_model(identifier, config, files)
            except ModelLoadError as error:
                failed.append(error)
        if failed:
            raise ModelLoadError.joined(failed)

    def _require_explicit(self) -> None:
        if not self.explicit:
            raise UnavailableError("explicit model load / unload is not allowed if polling is enabled")

    def require_explicit_for(self, what: str) -> None:
        if not self.explicit:
            raise UnsupportedError(f"{what} is not allowed if model control mode is not EXPLICIT")

    def load_model(
        self,
        identifier: str,
        config: dict[str, Any] | str | None = None,
        files: dict[str, bytes] | None = None,
        *,
        by_name: bool = True,
    ) -> LoadedModel:
        """Loads or reloads, whatever the control mode, and then the ensembles that contain it. `by_name`: not merely as
        part of an ensemble. Raises ModelLoadError, UnavailableError once the server stops."""
        with self._lock:
            namespace, name = self.repository.split(identifier)
            # so that a second load of it waits for this one
            model = self.models.setdefault(identifier, LoadedModel(name, namespace))
        with model.lock:
            if self.stopped:
                raise UnavailableError("Server is stopping")
            try:
                found = self.repository.read(identifier, config, files)
            except ModelLoadError as error:
                self._say(name, f"{error.message}: {error.reason}")
                raise
            model.listed = True
            if is_ensemble(found.config):
                found = self._load_composing(model, found)
            changes = find_changes(model.versions, model.files, found)
            if changes.nothing(model.versions):
                failed = tuple(number for number in changes.keep if model.versions[number].failed())
                if not failed:
                    return model
                # nothing has changed, but whoever loads it now does not want to wait for the next try
                changes = Changes(failed, tuple(number for number in changes.keep if number not in failed))
            self._swap(model, found, changes)
            # a load that did nothing leaves it as it was: part of an ensemble only (measured)
            model.explicit = model.explicit or by_name
        self._reload_dependents([identifier], f"since '{identifier}' was loaded")
        return model

    def _swap(self, model: LoadedModel, found: ModelFiles, changes: Changes) -> None:
        """Has the versions of `changes` take over from those that serve; with the model's lock held."""
        if not found.versions:
            text = f"at least one version must be available under the version policy of model '{model.identifier}'"
            raise ModelLoadError(f"load failed for model '{model.identifier}': {text}\n", reason=text)
        if changes.update:
            self._update_instances(model, found, changes.keep)
        loaded = self._load_versions(model, found, changes.load)
        old = model.versions
        model.serve({number: loaded.get(number) or old[number] for number in found.versions}, found)
        for number in loaded:
            model.ended.pop(number, None)
        replaced = [version for number, version in old.items() if model.versions.get(number) is not version]
        endings = [self._end(model, version) for version in replaced]
        if self._drain_seconds > 0:
            self._endings.limit(endings, self._drain_seconds)

    def _load_versions(
        self, model: LoadedModel, found: ModelFiles, numbers: Collection[int]
    ) -> dict[int, ModelVersion]:
        """All of them or, with an exception, none."""
        loaded: dict[int, ModelVersion] = {}
        failed: dict[int, TritonError] = {}
        try:
            for number in numbers:
                outcome = self._load_version(model, found, number)
                if isinstance(outcome, ModelVersion):
                    loaded[number] = outcome
                else:
                    failed[number] = outcome
        except BaseException:  # an interrupt: nobody will ever serve what was loaded
            for version in loaded.values():
                version.abort()
            raise
        if failed:
            for version in loaded.values():
                self._end(model, version)
            raise self._load_failure(model.identifier, failed)
        return loaded

    def _update_instances(self, model: LoadedModel, found: ModelFiles, numbers: Collection[int]) -> None:
        failed: dict[int, TritonError] = {}
        for number in numbers:
            try:
                model.versions[number].update_instances(found)
            except TritonError as error:
                self._say(model.name, f"failed to update '{model.identifier}' version {number}: {error.message}")
                failed[number] = error
        if failed:
            raise self._load_failure(model.identifier, failed, ModelState.READY)

    def _load_version(self, model: LoadedModel, found: ModelFiles, number: int) -> ModelVersion | TritonError:
        """The version, or why it does not load; then it was tried again as often as `load_retries` says."""
        retries = self._services.load_retries
        while True:
            version = ModelVersion(found, number, self._services, self._on_state)
            error = self._try_version(version)
            if error is None:
                return version
            self._say(model.name, f"failed to load '{model.identifier}' version {number}: {version.reason}")
            if not retries or self.stopped:
                break
            retries -= 1
        if number not in model.versions:
            model.ended[number] = (version.state, version.reason)
        return error

    def _try_version(self, version: ModelVersion) -> TritonError | None:
        self._loading.add(version)
        try:
            if self.stopped:  # after the line above: `_abort_loads` sees it, or this is seen here
                raise UnavailableError("Server is stopping")
            version.load()
        except TritonError as error:
            return error
        finally:
            self._loading.discard(version)
        return None

    @staticmethod
    def _load_failure(
        name: str, failed: dict[int, TritonError], state: ModelState = ModelState.UNAVAILABLE
    ) -> ModelLoadError:
        lines = [
            f"version {number} is at {state.value} state: {error.code.text}: {error.message};\n"
            for number, error in sorted(failed.items())
        ]
        first = failed[min(failed)]
        error = ModelLoadError(f"load failed for model '{name}': {''.join(lines)}", reason=first.message)
        if isinstance(first, ModelError):
            error.exception, error.log = first.exception, first.log
            error.reason = first.reason or first.message
        return error

    def _say(self, model: str, text: str) -> None:
        self._services.instances.log.add(LogRecord(time.time_ns(), model, -1, "", "server", "ERROR", text))

    # -- ensembles

    def config(self, identifier: str) -> ModelConfig | None:
        """The configuration of a model: as it serves, else as it lies on disk; None if it cannot be read."""
        model = self.models.get(identifier)
        if model is not None and model.files is not None:
            return model.files.config
        try:
            found = self.repository.read(identifier)
            return self.models.resolve(found.config, found.namespace, self.repository.namespaces)
        except TritonError:
            return None

    def _graph(self) -> DependencyGraph:
        """What depends on what among the ensembles that somebody wants."""
        with self._lock:
            models = list(self.models.values())
        return DependencyGraph({model.identifier: model.wanted.config for model in models if model.wanted is not None})

    def _load_composing(self, model: LoadedModel, found: ModelFiles) -> ModelFiles:
        """Loads what an ensemble contains and is not loaded yet, and checks that they fit (rules 5.7.3, 5.7.4); the
        ensemble with its final configuration. Raises ModelLoadError; then the ensemble does not serve any more."""
        name = model.identifier
        resolved = self.models.resolve(found.config, found.namespace, self.repository.namespaces)
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
                text = f"failed to load '{model.name}', failed to poll from model repository"
                raise ModelLoadError(text, code=Code.INTERNAL, reason=unreadable[0])
            there = {part: known for part, known in parts.items() if known is not None}
            check_composing_models(renamed(found.config, name), there)
        except ConfigError as error:
            self._retire(model)
            text = f"load failed for model '{name}': {error.reason}\n"
            raise ModelLoadError(text, reason=error.detail or "; ".join(unreadable) or error.reason) from None
        return replace(found, config=complete_ensemble(found.config, there))

    def _composing(self, identifier: str, unreadable: list[str]) -> ComposingModel | None:
        """One model of an ensemble, loaded if it can be; None if there is none of this name, or more than one, or it
        cannot be read: then why goes into `unreadable`."""
        model = self.models.get(identifier)
        failure = ""
        if model is None or not model.versions:
            if not self.repository.holds(identifier):
                return None
            try:
                model = self.load_model(identifier, by_name=False)
            except ModelLoadError as error:
                if error.code is Code.INTERNAL:
                    unreadable.append(error.reason)
                    return None
                failure = error.message.partition(": ")[2].removesuffix("\n")
                model = self.models[identifier]
        versions = {number: renamed(version.config, identifier) for number, version in model.versions.items()}
        return ComposingModel(versions, failure, model.wanted is not None)

    def _reload_dependents(self, changed: Sequence[str], cause: str) -> None:
        """Loads the ensembles that contain a model anew, also those that its absence had taken down (rule 5.7.4), and
        those whose steps name another model now (rule 5.11.12)."""
        graph = self._graph()
        wanted = [files for model in list(self.models.values()) if (files := model.wanted) is not None]
        anew = [files.identifier for files in wanted if self.models.resolves_anew(files.config, files.namespace)]
        for ensemble in graph.load_order({*graph.dependents([*changed, *anew]), *anew}):
            model = self.models[ensemble]
            with model.lock:
                if model.wanted is None or self.stopped:
                    continue
                try:
                    found = self._load_composing(model, model.wanted)
                    self._swap(model, found, Changes(found.versions))
                except TritonError as error:
                    self._say(model.name, f"{error.message} ({cause})")

    # -- unload

    def unload(self, name: str, unload_dependents: bool, wait: bool, timeout: float | None = None) -> None:
        """Raises UnavailableError outside the explicit mode, InvalidArgumentError (rule 5.11.4). `wait`: until all have
        ended. `timeout`: what has not ended after so many seconds is ended then, also what a reload or an earlier call
        took out of service."""
        self._require_explicit()
        check_name(self.repository.split(name)[1])
        endings: list[Ending] = []
        for model in self.models.named(name):
            endings += self.unload_model(model.identifier, unload_dependents)
        if timeout is not None:
            endings += self.draining(name)
        if wait:
            self._endings.wait(list(dict.fromkeys(endings)), timeout)
        elif timeout is not None:
            self._endings.limit(list(dict.fromkeys(endings)), timeout)

    def unload_model(self, identifier: str, unload_dependents: bool = False) -> list[Ending]:
        """Stops serving a model at once, and the ensembles that contain it, and lets them end; an unknown one is
        ignored (rule 5.11.5). `unload_dependents`: of an ensemble also the models that only it needs, if nobody loaded
        them by name."""
        if identifier not in self.models:
            return []
        names = [identifier]
        if unload_dependents:
            explicit = [model.identifier for model in self.known() if model.explicit]
            names += self._graph().needed_by_none_but(identifier, explicit)
        endings: list[Ending] = []
        for each in names:
            model = self.models[each]
            model.wanted, model.explicit, model.listed = None, False, False
            for ensemble in reversed(self._graph().dependents([each])):
                endings += self._retire(self.models[ensemble], endings)
            endings += self._retire(model, endings)
        if not self.explicit:
            self._reload_dependents([], f"since '{identifier}' was unloaded")
        return endings

    def _retire(self, model: LoadedModel, after: Sequence[Ending] = ()) -> list[Ending]:
        def retire() -> list[Ending]:
            versions = model.versions
            model.serve({}, None)
            return [self._end(model, version, after) for version in versions.values()]

        with model.lock:
            return shielded(retire)  # a version that neither serves nor ends would stay for ever

    def _end(self, model: LoadedModel, version: ModelVersion, after: Sequence[Ending] = ()) -> Ending:
        """Unloads a version that no longer serves, in the background. `after`: unloads of the ensembles that contain
        it, whose last requests it still serves."""
        if version.version not in model.versions:
            model.ended[version.version] = (ModelState.UNLOADING, "")
        version.advance(ModelEvent.UNLOAD)

        def ended() -> None:
            if version.version not in model.versions:
                model.ended[version.version] = (version.state, version.reason)

        return self._endings.begin(version, tuple(after), ended)

    # -- state

    def known(self) -> list[LoadedModel]:
        """Every model that was loaded, or tried, at least once."""
        return [model for _, model in sorted(self.models.items()) if model.versions or model.ended]

    def running(self) -> list[ModelVersion]:
        """Every version that may have requests in flight, also those that are being unloaded."""
        serving = [version for model in self.known() for version in model.versions.values()]
        return [*serving, *self._endings.versions()]

    def draining(self, name: str = "") -> list[Ending]:
        """The versions, of one model or all, that serve no new requests and have not ended, oldest first."""
        return self._endings.of([m.identifier for m in self.known() if not name or name in (m.name, m.identifier)])

    def kill(self, endings: Sequence[Ending]) -> None:
        """Ends them at once. Blocking, some seconds at most."""
        self._endings.kill(endings)

    def all_ready(self) -> bool:
        """Rule 5.11.9: nothing is loading, failed or without a living stub."""
        return all(model.settled() for model in self.known())

    # -- end

    def stop(self, timeout: float) -> None:
        """Unloads everything; requests that still execute after `timeout` seconds, or at an interrupt, fail, and their
        stubs are killed."""
        self.stopped = True
        try:
            self._abort_loads()
            graph = self._graph()
            ended: dict[str, list[Ending]] = {}
            for name in reversed(graph.load_order(list(self.models))):
                after = [ending for ensemble in graph.dependents([name]) for ending in ended.get(ensemble, ())]
                ended[name] = self._retire(self.models[name], after)
            self._endings.wait(self._endings.of(self.models), timeout)
        except BaseException:
            for version in self.running():
                version.abort()
            raise

    def _abort_loads(self) -> None:
        """What loads now serves nobody. Again and again, since a load may be between two steps that can be ended."""
        while loading := list(self._loading):
            for version in loading:
                version.abort()
            time.sleep(0.01)

    def forget(self) -> None:
        """Called in a forked child: the stubs are the parent's. Nothing may talk to them, least of all end them at
        exit."""
        self.models.clear()
        self.stopped = True
