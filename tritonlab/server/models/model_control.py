"""Model control loads, reloads and unloads models with what depends on them, keeps the repository index, and ends them
all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ...core.config.model_config_rules import is_ensemble
from ...core.status import Code, ModelLoadError, TritonError, UnavailableError, UnsupportedError
from .endings import Ending, Endings
from .ensemble_completion import EnsembleCompletion
from .global_map import GlobalMap
from .loaded_model import Changes, LoadedModel, find_changes
from .model_lifecycle import ModelVersion
from .model_repository_manager import ModelRepositoryManager, check_name
from .version_load import LoadServices
from .version_loader import VersionLoader

CONTROL_MODES = ("none", "poll", "explicit")


class ModelControl:
    """The loads and unloads of the models of a repository, from any thread. `on_state` gets every state of every
    version, `on_wait` versions whose end is waited for, with a sentence about it.
    """

    def __init__(
        self,
        repository: ModelRepositoryManager,
        services: LoadServices,
        mode: str,
        on_state: Callable[[ModelVersion, str], None],
        on_wait: Callable[[ModelVersion, str], None],
        drain_seconds: float | None = None,
    ) -> None:
        self.repository = repository
        #: by identifier; requests look here without a lock
        self.models = GlobalMap(repository.namespacing)
        self.explicit = mode == "explicit"
        self._endings = Endings(on_wait, services.instances.clock, services.instances.later)
        self._loader = VersionLoader(services, on_state, self._endings, drain_seconds)
        load = partial(self.load_model, by_name=False)
        self.ensembles = EnsembleCompletion(repository, self.models, load, self._endings)

    @property
    def stopped(self) -> bool:
        """Return whether it loads nothing any more."""
        return self._loader.stopped

    # -- load

    def load(self, name: str, config: dict[str, Any] | str | None, files: dict[str, bytes] | None) -> None:
        """Load all models of this name that can be loaded. Raises ModelLoadError, InvalidArgumentError (rule 5.11.4),
        or UnavailableError outside the explicit mode.
        """
        self._require_explicit()
        check_name(self.repository.split(name)[1])
        failed: list[ModelLoadError] = []
        for identifier in self.repository.identifiers(name) if not files else [name]:
            followed = self.ensembles.follow_files(identifier)
            failed += followed.failed  # the ensemble is loaded all the same (measured)
            try:
                self.load_model(identifier, config, files, changed=followed.changed)
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
        changed: bool = False,
    ) -> LoadedModel:
        """Load or reload a model in any control mode, and then the ensembles that contain it. `by_name`: not merely as
        part of an ensemble. `changed`: it is an ensemble, and a model of it was loaded again. Raises ModelLoadError,
        UnavailableError once the server stops."""
        namespace, name = self.repository.split(identifier)
        model = self.models.add(identifier, name, namespace)
        with model.lock, model.trying():  # a second load of it waits for this one
            if self.stopped:
                raise UnavailableError("Server is stopping")
            try:
                found = self.repository.read(identifier, config, files)
            except ModelLoadError as error:
                self._loader.say(name, f"{error.message}: {error.reason}")
                raise
            model.listed = True
            if is_ensemble(found.config):
                with _refusal_logged(model, self._loader):
                    found = self.ensembles.complete(model, found, changed)
            changes = find_changes(model.versions, model.files, found)
            if changes.nothing(model.versions):
                failed = tuple(number for number in changes.keep if model.versions[number].failed())
                if not failed:
                    return model
                # nothing has changed, but whoever loads it now does not want to wait for the next try
                changes = Changes(failed, tuple(number for number in changes.keep if number not in failed))
            self._loader.swap(model, found, changes)
            # a load that did nothing leaves it as it was: part of an ensemble only (measured)
            model.explicit = model.explicit or by_name
        self._reload_dependents([identifier], f"since '{identifier}' was loaded")
        return model

    def _reload_dependents(self, changed: Sequence[str], cause: str) -> None:
        """Load again the ensembles that contain a model, also those that its absence had taken down (rule 5.7.4), and
        those whose steps name another model now (rule 5.11.12).
        """
        graph = self.models.graph()
        wanted = [files for model in list(self.models.values()) if (files := model.wanted) is not None]
        differently = self.models.is_resolved_differently
        renamed = [files.identifier for files in wanted if differently(files.config, files.namespace)]
        for ensemble in graph.load_order({*graph.dependents([*changed, *renamed]), *renamed}):
            model = self.models[ensemble]
            with model.lock:
                if model.wanted is None or self.stopped:
                    continue
                try:
                    with model.trying():
                        found = self.ensembles.complete(model, model.wanted, changed=True)
                        self._loader.swap(model, found, Changes(found.versions))
                except TritonError as error:
                    self._loader.say(model.name, f"{error.message} ({cause})")

    # -- unload

    def unload(self, name: str, unload_dependents: bool, wait: bool, timeout: float | None = None) -> None:
        """Unload the model of this name. Raises UnavailableError outside the explicit mode, InvalidArgumentError (rule
        5.11.4). `wait`: block until all have ended. `timeout`: the seconds after which they are ended, also what a
        reload or an earlier call took out of service.
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
        ignored (rule 5.11.5). `unload_dependents`: of an ensemble also the models that only it needs, if nobody loaded
        them by name."""
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

    # -- state

    def running(self) -> list[ModelVersion]:
        """Return every version that may have requests in flight, also those that are being unloaded."""
        serving = [version for model in self.models.known() for version in model.versions.values()]
        return [*serving, *self._endings.versions()]

    def loading(self) -> list[ModelVersion]:
        """Return the versions that are being loaded."""
        return self._loader.loading()

    def draining(self, name: str = "") -> list[Ending]:
        """Return the versions, of one model or all, that serve no new requests and have not ended, oldest first."""
        return self._endings.of_models([model.identifier for model in self.models.known(name)])

    def stop_loading(self, name: str) -> None:
        """Make the loads fail that go on for the models of this name."""
        self._loader.end(name)

    def kill(self, endings: Sequence[Ending]) -> None:
        """End these versions at once. Blocks some seconds at most."""
        self._endings.kill(endings)

    # -- end

    def stop(self, timeout: float) -> None:
        """Unload everything; requests that still execute after `timeout` seconds, or at an interrupt, fail, and their
        stubs are killed."""
        try:
            self._loader.stop()
            graph = self.models.graph()
            ended: dict[str, list[Ending]] = {}
            for name in reversed(graph.load_order(list(self.models))):
                after = [ending for ensemble in graph.dependents([name]) for ending in ended.get(ensemble, ())]
                ended[name] = self._endings.retire(self.models[name], after)
            self._endings.wait(self._endings.of_models(self.models), timeout)
        except BaseException:
            for version in self.running():
                version.abort()
            raise

    def forget(self) -> None:
        """Drop the stubs in a forked child, because they are the parent's: nothing may talk to them, least of all end
        them at exit.
        """
        self.models.clear()
        self._loader.stopped = True


@contextmanager
def _refusal_logged(model: LoadedModel, loader: VersionLoader) -> Iterator[None]:
    """Log what the check of an ensemble inside finds, as Triton does."""
    try:
        yield
    except ModelLoadError as error:
        if model.refusal is not None and error.code is Code.INVALID_ARG:
            loader.say(model.name, f"{error.code.text}: {model.refusal.text}")
        raise
