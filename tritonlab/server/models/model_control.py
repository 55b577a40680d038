"""`ModelControl`, which loads, reloads and unloads models with their dependents, and ends them all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from ...core.config.model_config_rules import is_ensemble
from ...core.status import Code, ModelError, ModelLoadError, TritonError, UnavailableError, UnsupportedError
from ...ipc.link.interrupts import shielded
from ...ipc.processes.stub_log import LogRecord
from ...repository.model_repository_manager import ModelFiles, ModelRepositoryManager, check_name
from .backends import MissingBackend
from .endings import Ending, Endings
from .ensemble_completion import NOT_FOLLOWED, EnsembleCompletion, StepReload
from .global_map import GlobalMap, is_meant
from .loaded_model import Changes, LoadedModel, find_changes
from .model_lifecycle import LoadServices, ModelState, ModelVersion

CONTROL_MODES = ("none", "poll", "explicit")

#: State and reason of a version that loads for the first time.
_LOADING = (ModelState.LOADING, "")
#: Seconds within which a load ends after its stubs were killed, even on a busy machine.
_ABORTED = 30.0


class ModelControl:
    """The loads and unloads of the models of a repository, from any thread. `on_state` gets every state of every
    version, `on_wait` gets awaited versions, with a sentence about the wait.
    """

    def __init__(
        self,
        repository: ModelRepositoryManager,
        models: GlobalMap,
        services: LoadServices,
        mode: str,
        on_state: Callable[[ModelVersion, str], None],
        on_wait: Callable[[ModelVersion, str], None],
        drain_seconds: float | None = None,
    ) -> None:
        self.repository = repository
        #: by identifier; requests read it without a lock
        self.models = models
        self.explicit = mode == "explicit"
        #: set once nothing may load any more
        self.stopped = False
        self._services = services
        self._on_state = on_state
        self._drain_seconds = drain_seconds
        self._loading: set[ModelVersion] = set()
        self._endings = Endings(on_wait, services.instances.clock, services.instances.later)
        load = partial(self.load_model, by_name=False)
        self.ensembles = EnsembleCompletion(repository, self.models, load, self._endings)

    # -- load

    def load(
        self, name: str, config: dict[str, Any] | str | None = None, files: dict[str, bytes] | None = None
    ) -> None:
        """Load or reload all loadable models of this name, and block until they serve. A failed reload keeps the
        serving versions (rule 2.5.8). Raises ModelLoadError, InvalidArgumentError (rule 5.11.4), or UnavailableError
        outside the explicit mode.
        """
        self._require_explicit()
        check_name(self.repository.split(name)[1])
        failed: list[ModelLoadError] = []
        for identifier in self.repository.identifiers(name) if not files else [name]:
            turn = known.turn if (known := self.models.get(identifier)) is not None else 0
            followed = self.ensembles.follow_files(identifier)  # outside the lock: it loads other models
            try:
                self.load_model(identifier, config, files, followed=followed, turn=turn)
                failed += followed.failed  # the ensemble is loaded anyway (measured)
            except ModelLoadError as error:
                failed.append(error)
        if failed:
            raise ModelLoadError.joined(failed)

    def _require_explicit(self) -> None:
        if not self.explicit:
            raise UnavailableError("explicit model load / unload is not allowed if polling is enabled")

    def require_explicit_for(self, what: str) -> None:
        """Raise UnsupportedError outside the explicit mode."""
        if not self.explicit:
            raise UnsupportedError(f"{what} is not allowed if model control mode is not EXPLICIT")

    def load_model(
        self,
        identifier: str,
        config: dict[str, Any] | str | None = None,
        files: dict[str, bytes] | None = None,
        *,
        by_name: bool = True,
        followed: StepReload = NOT_FOLLOWED,
        turn: int = -1,
    ) -> LoadedModel:
        """Load or reload a model in any control mode, and then the ensembles that contain it. `by_name`: not only as
        part of an ensemble. `followed`: the result of `follow_files` for it; `turn`: the model's turn before that.
        Raises ModelLoadError, UnavailableError once the server stops.
        """
        model = self._known(identifier)
        with model.lock, model.trying():  # a second load of it waits for this one
            if self.stopped:
                raise UnavailableError(f"Server is stopping{self.models.left_behind}")
            # files read before another load got the lock may be older than that load's
            found = followed.found if model.turn == turn and config is None and not files else None
            model.turn += 1
            try:
                found = found or self.repository.read(identifier, config, files)
            except ModelLoadError as error:
                self._say(model.name, f"{error.message}: {error.reason}")
                raise
            model.listed = True
            if is_ensemble(found.config):
                found = self._complete(model, found, followed)
            changes = find_changes(model.versions, None if model.is_stale else model.files, found)
            if changes.nothing(model.versions):
                failed = tuple(number for number in changes.keep if model.versions[number].failed())
                if not failed:
                    return model
                # nothing has changed, but this load must not wait for the next try
                changes = Changes(failed, tuple(number for number in changes.keep if number not in failed))
            self._swap(model, found, changes)
            # an unneeded load keeps the mark: part of an ensemble only (measured)
            model.explicit = model.explicit or by_name
        self._reload_dependents([identifier], f"since '{identifier}' was loaded")
        return model

    def _known(self, identifier: str) -> LoadedModel:
        """Return the model; add a new one if it is unknown."""
        return self.models.get(identifier) or self.models.add(identifier, *self.repository.split(identifier))

    def _reload_dependents(self, changed: Sequence[str], cause: str) -> None:
        """Load the ensembles that contain a model again, also ensembles that its absence had taken down (rule 5.7.4)
        and ensembles whose steps now mean another model (rule 5.11.12).
        """
        wanted = [files for model in list(self.models.values()) if (files := model.wanted) is not None]
        if not wanted:
            return  # no ensembles exist
        graph = self.models.graph()
        differently = self.models.is_resolved_differently
        renamed = [files.identifier for files in wanted if differently(files.config, files.namespace)]
        for ensemble in graph.load_order({*graph.dependents([*changed, *renamed]), *renamed}):
            model = self.models[ensemble]
            with model.lock:
                if model.wanted is None or self.stopped:
                    continue
                try:
                    with model.trying():
                        found = self.ensembles.complete(model, model.wanted, StepReload(changed=True))
                        self._swap(model, found, Changes(found.versions))
                except TritonError as error:
                    self._say(model.name, f"{error.message} ({cause})")

    def _complete(self, model: LoadedModel, found: ModelFiles, followed: StepReload) -> ModelFiles:
        """Complete an ensemble, and log the findings of a failed check of its models, as Triton does."""
        try:
            return self.ensembles.complete(model, found, followed)
        except ModelLoadError as error:
            if model.refusal is not None and error.code is Code.INVALID_ARG:
                self._say(model.name, f"{error.code.text}: {model.refusal.text}")
            raise

    # -- versions

    def _swap(self, model: LoadedModel, found: ModelFiles, changes: Changes) -> None:
        """Replace the serving versions by the versions of `changes`. Raises ModelLoadError; then the old ones continue.
        The caller holds the model's lock.
        """
        model.is_without_version = not found.versions
        if not found.versions:
            text = f"at least one version must be available under the version policy of model '{model.identifier}'"
            self._say(model.name, f"failed to load model '{model.identifier}': {text}")
            raise ModelLoadError(f"load failed for model '{model.identifier}': {text}\n", reason=text)
        if changes.update:
            self._update_instances(model, found, changes.keep)
        begun: list[ModelVersion] = []
        try:
            loaded = self._load_versions(model, found, changes.load, begun)
            shielded(self._serve, model, found, loaded)
        except TritonError:
            raise
        except BaseException:  # an interrupt: the versions begun here will never serve
            for version in begun:
                if model.versions.get(version.version) is not version:
                    version.abort()
            raise

    def _serve(self, model: LoadedModel, found: ModelFiles, loaded: Mapping[int, ModelVersion]) -> None:
        """Make these versions, and the others of `found` that already serve, the model's, and end the replaced ones."""
        old = model.versions
        model.serve({number: loaded.get(number) or old[number] for number in found.versions}, found)
        for number in loaded:
            model.not_ready.pop(number, None)
        replaced = [version for number, version in old.items() if model.versions.get(number) is not version]
        endings = [self._endings.end(model, version) for version in replaced]
        self._endings.limit(endings, self._drain_seconds)

    def _load_versions(
        self, model: LoadedModel, found: ModelFiles, numbers: Collection[int], begun: list[ModelVersion]
    ) -> dict[int, ModelVersion]:
        """Return the versions of these numbers, loaded. Raises ModelLoadError; then none is loaded. `begun` gets every
        version that begins to load.
        """
        loaded: dict[int, ModelVersion] = {}
        failed: dict[int, TritonError] = {}
        first = [number for number in numbers if number not in model.versions]
        before = {number: pair for number, pair in model.not_ready.copy().items() if pair[0] is ModelState.UNAVAILABLE}
        model.not_ready |= dict.fromkeys(first, _LOADING)
        try:
            for number in numbers:
                outcome = self._load_version(model, found, number, begun)
                if isinstance(outcome, ModelVersion):
                    loaded[number] = outcome
                else:
                    failed[number] = outcome
        except BaseException:  # an interrupt: versions that have not loaded were not tried
            for number in first:
                if model.not_ready[number] == _LOADING:
                    del model.not_ready[number]
            model.not_ready = {**before, **model.not_ready}
            raise
        if failed:
            for version in loaded.values():
                self._endings.end(model, version)
            raise _load_failure(model.identifier, failed, ModelState.UNAVAILABLE)
        return loaded

    def _update_instances(self, model: LoadedModel, found: ModelFiles, numbers: Collection[int]) -> None:
        """Replace the instances of serving versions. Raises ModelLoadError; versions that failed serve as before."""
        failed: dict[int, TritonError] = {}
        for number in numbers:
            try:
                model.versions[number].update_instances(found)
            except TritonError as error:
                self._say(model.name, f"failed to update '{model.identifier}' version {number}: {error.message}")
                failed[number] = error
        if failed:
            raise _load_failure(model.identifier, failed, ModelState.READY)

    def _load_version(
        self, model: LoadedModel, found: ModelFiles, number: int, begun: list[ModelVersion]
    ) -> ModelVersion | TritonError:
        """Return the version, or the reason why it does not load, after as many tries as `load_retries` allows."""
        retries = self._services.load_retries
        while True:
            version = ModelVersion(found, number, self._services, self._on_state)
            begun.append(version)
            try:
                self._loading.add(version)
                if self.stopped:  # after the line above: either `stop` sees it, or this code sees `stop`
                    raise UnavailableError(f"Server is stopping{self.models.left_behind}")
                version.load()
                return version
            except TritonError as problem:
                error = problem
            finally:
                self._loading.discard(version)
            self._say(model.name, f"failed to load '{model.identifier}' version {number}: {version.reason}")
            if not retries or self.stopped:
                break
            retries -= 1
        if number not in model.versions:
            model.not_ready[number] = (version.state, version.reason)
        return error

    def _say(self, model: str, text: str) -> None:
        """Add an error to the server's log under the model's name."""
        self._services.instances.log.add(LogRecord.from_server("ERROR", text, model))

    # -- unload

    def unload(
        self, name: str, unload_dependents: bool = False, wait: bool = True, timeout: float | None = None
    ) -> None:
        """Stop serving a model at once and let it end; an unknown one is ignored (rule 5.11.5). `wait`: block until all
        its versions have ended. `timeout`: the seconds after which requests that still execute fail and stubs are
        killed, also for versions that a reload or an earlier call took out of service. Raises UnavailableError outside
        the explicit mode, InvalidArgumentError (rule 5.11.4).
        """
        self._require_explicit()
        check_name(self.repository.split(name)[1])
        endings: list[Ending] = []
        for model in self.models.named(name):
            endings += self.unload_model(model.identifier, unload_dependents)
        if timeout is not None:
            endings += self.draining(name)
        if wait:
            self._endings.wait(list(dict.fromkeys(endings)), timeout)
        else:
            self._endings.limit(list(dict.fromkeys(endings)), timeout)

    def unload_model(self, identifier: str, unload_dependents: bool = False) -> list[Ending]:
        """Stop serving a model at once, and the ensembles that contain it, and let them end; an unknown one is
        ignored (rule 5.11.5). `unload_dependents`: also the models that only this ensemble needs, if they were not
        loaded by name.
        """
        if identifier not in self.models:
            return []
        names = [identifier]
        if unload_dependents:
            explicit = [model.identifier for model in self.models.known() if model.explicit]
            names += self.models.graph().needed_by_none_but(identifier, explicit)
        endings: list[Ending] = []
        for each in names:
            model = self.models[each]
            model.forget()
            for ensemble in reversed(self.models.graph().dependents([each])):
                endings += self._endings.retire(self.models[ensemble], endings)
            endings += self._endings.retire(model, endings)
        if not self.explicit:
            self._reload_dependents([], f"since '{identifier}' was unloaded")
        return endings

    def drop_failed(self, name: str) -> None:
        """Forget the models of this name that could not be loaded and are no longer in a repository: the server is not
        ready while it knows them, and they cannot be repaired. Triton remembers them (rule 5.11.9).
        """
        for model in self.models.known(name):
            with model.lock:
                if not (model.versions or model.settled() or model.identifier in self.repository.names()):
                    model.forget()
                    model.not_ready, model.is_without_version = {}, False

    # -- state

    def running(self, name: str = "") -> list[ModelVersion]:
        """Return every version, of one model or all, that may have requests in flight, also those being unloaded."""
        serving = [version for model in self.models.known(name) for version in model.versions.values()]
        return [*serving, *(ending.version for ending in self.draining(name))]

    def loading(self, name: str = "") -> list[ModelVersion]:
        """Return the versions, of one model or all, that are being loaded."""
        return [version for version in list(self._loading) if is_meant(version, name)]

    def draining(self, name: str = "") -> list[Ending]:
        """Return the versions, of one model or all, that serve no new requests and have not ended, oldest first."""
        return [ending for ending in self._endings.running() if is_meant(ending.version, name)]

    def stop_loading(self, name: str) -> None:
        """Make the running loads of the models of this name fail."""
        for version in self.loading(name):
            version.stop_loading()

    def kill(self, endings: Sequence[Ending]) -> None:
        """End these versions at once. Blocks for a few seconds at most."""
        self._endings.kill(endings)

    # -- end

    def stop(self, timeout: float) -> None:
        """Unload everything; after `timeout` seconds, or at an interrupt, requests that still execute fail, and their
        stubs are killed.
        """
        try:
            held = self._abort_loads()
            graph = self.models.graph()
            ended: dict[str, list[Ending]] = {}
            for name in reversed(graph.load_order(list(self.models))):
                if name in held:  # the load holds the model's lock
                    for version in self.models[name].versions.values():
                        version.abort()
                    continue
                after = [ending for ensemble in graph.dependents([name]) for ending in ended.get(ensemble, ())]
                ended[name] = self._endings.retire(self.models[name], after)
            self._endings.wait(self._endings.running(), timeout)
        except BaseException:
            for version in self.running():
                version.abort()
            raise

    def _abort_loads(self) -> set[str]:
        """End the running loads, which would serve no request, and allow no new ones. A load may be between two steps
        that can be ended, so this is repeated, but not for ever: a load that reads from a named pipe or a hanging disk
        cannot be ended, and fails at its next step. Return the models with such a load.
        """
        self.stopped = True
        end = time.monotonic() + _ABORTED
        while (loading := self.loading()) and time.monotonic() < end:
            for version in loading:
                version.abort()
            time.sleep(0.01)
        return {version.identifier for version in loading}

    def forget(self) -> None:
        """Drop the stubs in a forked child: they belong to the parent, so the child must not talk to them, least of all
        end them at exit.
        """
        if self.models:
            GlobalMap.left_behind = (
                f"; this process was forked from {os.getppid()}, whose models it cannot use: call tritonlab.serve() "
                "there and tritonlab.connect(ADDRESS, headers=…).model(NAME) here, or load the model here"
            )
        self.models.clear()
        self._endings.forget()
        self.stopped = True


def _load_failure(name: str, failed: Mapping[int, TritonError], state: ModelState) -> ModelLoadError:
    versions = [
        f"version {number} is at {state.value} state: {error.code.text}: {error.message};"
        for number, error in sorted(failed.items())
    ]
    first = failed[min(failed)]
    error = ModelLoadError(f"load failed for model '{name}': {''.join(versions)}\n", reason=first.message)
    if isinstance(first, ModelError):
        error.exception, error.log = first.exception, first.log
        error.reason = first.reason or first.message
    if isinstance(first, MissingBackend):
        error.reason = first.offer
    return error
