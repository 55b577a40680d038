"""Which models are loaded: load, reload, unload, the repository index, and the end of all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..core.model_config_rules import config_differs
from ..core.status import InvalidArgumentError, ModelError, ModelLoadError, TritonError, UnavailableError
from ..ipc.stub_log import LogRecord
from .model_lifecycle import LoadServices, ModelEvent, ModelState, ModelVersion
from .model_repository_manager import ModelFiles, ModelRepositoryManager

CONTROL_MODES = ("none", "explicit")


class LoadedModel:
    """All a server knows of one model name: its versions, and what became of those that are gone."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.RLock()  # one load or unload of the model at a time
        #: replaced whole, never changed, so that requests read it without the lock
        self.versions: dict[int, ModelVersion] = {}
        self.latest: ModelVersion | None = None
        self.files: ModelFiles | None = None
        #: version -> (state, reason) of versions that do not serve: failed or unloaded
        self.ended: dict[int, tuple[ModelState, str]] = {}

    def serve(self, versions: dict[int, ModelVersion], files: ModelFiles | None) -> None:
        """New requests go to these versions from now on."""
        self.versions = versions
        self.latest = versions[max(versions)] if versions else None
        self.files = files


class ModelControl:
    """Loads and unloads the models of a repository; any thread may call. `on_state` hears of every state of every
    version."""

    def __init__(
        self,
        repository: ModelRepositoryManager,
        services: LoadServices,
        mode: str,
        on_state: Callable[[ModelVersion, str], None],
    ) -> None:
        self.repository = repository
        #: by name; requests look here without a lock
        self.models: dict[str, LoadedModel] = {}
        self.explicit = mode == "explicit"
        self.stopped = False
        self._services = services
        self._on_state = on_state
        self._lock = threading.Lock()  # guards additions to models
        self._endings: dict[threading.Thread, ModelVersion] = {}

    def start(self, startup_models: Sequence[str]) -> dict[str, TritonError]:
        """Loads what is to be loaded at the start, all that can be; the failures by model name. Raises
        InvalidArgumentError if `*` is named beside others."""
        if "*" in startup_models and len(startup_models) > 1:
            raise InvalidArgumentError("Wildcard model name '*' must be the ONLY startup model if specified at all.")
        names = list(startup_models) if self.explicit else self.repository.names()
        if names == ["*"]:
            names = self.repository.names()
        failed: dict[str, TritonError] = {}
        for name in names:
            try:
                self.load_model(name, None, None)
            except TritonError as error:
                failed[name] = error
        return failed

    # -- load

    def load(self, name: str, config: dict[str, Any] | str | None, files: dict[str, bytes] | None) -> LoadedModel:
        """Raises ModelLoadError, or UnavailableError outside the explicit mode."""
        self._require_explicit()
        return self.load_model(name, config, files)

    def _require_explicit(self) -> None:
        if not self.explicit:
            raise UnavailableError("explicit model load / unload is not allowed if polling is enabled")

    def load_model(self, name: str, config: dict[str, Any] | str | None, files: dict[str, bytes] | None) -> LoadedModel:
        """Loads or reloads, whatever the control mode."""
        with self._lock:
            model = self.models.setdefault(name, LoadedModel(name))  # so that a second load of it waits for this one
        with model.lock:
            if self.stopped:
                raise UnavailableError("Server is stopping")
            try:
                found = self.repository.read(name, config, files)
            except ModelLoadError as error:
                self._say(name, f"{error.message}: {error.reason}")
                raise
            if self._unchanged(model, found):
                return model
            if not found.versions:
                text = f"at least one version must be available under the version policy of model '{name}'"
                raise ModelLoadError(f"load failed for model '{name}': {text}\n", reason=text)
            versions = self._load_versions(model, found)
            failed = {number: error for number, error in versions.items() if isinstance(error, TritonError)}
            loaded = {number: version for number, version in versions.items() if isinstance(version, ModelVersion)}
            if failed:
                for version in loaded.values():
                    version.advance(ModelEvent.UNLOAD)
                    version.unload()
                raise self._load_failure(name, failed)
            old = model.versions
            model.serve(loaded, found)
            for number in loaded:
                model.ended.pop(number, None)
        for version in old.values():
            self._end(model, version)
        return model

    @staticmethod
    def _unchanged(model: LoadedModel, found: ModelFiles) -> bool:
        """Rule 5.11.2: a load that would change nothing does nothing."""
        now = model.files
        return (
            now is not None
            and bool(model.versions)
            and found.fingerprint == now.fingerprint
            and found.versions == now.versions
            and found.override == now.override
            and found.temporary is None
            and not config_differs(now.config, found.config)
        )

    def _load_versions(self, model: LoadedModel, found: ModelFiles) -> dict[int, ModelVersion | TritonError]:
        versions: dict[int, ModelVersion | TritonError] = {}
        try:
            for number in found.versions:
                versions[number] = self._load_version(model, found, number)
        except BaseException:  # an interrupt: nobody will ever serve what was loaded
            for version in versions.values():
                if isinstance(version, ModelVersion):
                    version.abort()
            raise
        return versions

    def _load_version(self, model: LoadedModel, found: ModelFiles, number: int) -> ModelVersion | TritonError:
        version = ModelVersion(found, number, self._services, self._on_state)
        try:
            version.load()
        except TritonError as error:
            if number not in model.versions:
                model.ended[number] = (version.state, version.reason)
            self._say(model.name, f"failed to load '{model.name}' version {number}: {version.reason}")
            return error
        return version

    @staticmethod
    def _load_failure(name: str, failed: dict[int, TritonError]) -> ModelLoadError:
        lines = [
            f"version {number} is at UNAVAILABLE state: {error.code.text}: {error.message};\n"
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

    # -- unload

    def unload(self, name: str, unload_dependents: bool, wait: bool) -> None:
        """Stops serving a model at once and lets it end; an unknown one is ignored (rule 5.11.5). `wait`: until it
        has ended.

        `unload_dependents` has no effect: only ensembles have dependents, and none can be loaded.
        """
        self._require_explicit()
        model = self.models.get(name)
        if model is None:
            return
        with model.lock:
            versions = model.versions
            for number in versions:
                model.ended[number] = (ModelState.UNLOADING, "")
            model.serve({}, None)
        threads = [self._end(model, version) for version in versions.values()]
        if wait:
            for thread in threads:
                thread.join()

    def _end(self, model: LoadedModel, version: ModelVersion) -> threading.Thread:
        """Unloads a version that no longer serves, in the background."""
        version.advance(ModelEvent.UNLOAD)

        def end() -> None:
            try:
                version.unload()
                if version.version not in model.versions:
                    model.ended[version.version] = (version.state, version.reason)
            finally:
                self._endings.pop(threading.current_thread(), None)

        thread = threading.Thread(target=end, name=f"unload {version.name}", daemon=True)
        self._endings[thread] = version
        thread.start()
        return thread

    # -- state

    def known(self) -> list[LoadedModel]:
        """Every model that was loaded, or tried, at least once."""
        return [model for _, model in sorted(self.models.items()) if model.versions or model.ended]

    def running(self) -> list[ModelVersion]:
        """Every version that may have requests in flight, also those that are being unloaded."""
        serving = [version for model in self.known() for version in model.versions.values()]
        return [*serving, *list(self._endings.values())]

    def index(self, ready: bool) -> list[dict[str, str]]:
        """The repository index (rule 5.11.7): models never loaded have a name only. `ready`: READY versions only."""
        entries: list[dict[str, str]] = []
        for name in sorted({*self.repository.names(), *(model.name for model in self.known())}):
            model = self.models.get(name)
            states = (
                {}
                if model is None
                else {
                    **{v: (s.value, r) for v, (s, r) in model.ended.items()},
                    **{n: (v.state.value, v.reason) for n, v in model.versions.items()},
                }
            )
            for number, (state, reason) in sorted(states.items()):
                entry = {"name": name, "version": str(number), "state": state}
                entries.append({**entry, "reason": reason} if reason else entry)
            if not states:
                entries.append({"name": name})
        return [entry for entry in entries if not ready or entry.get("state") == ModelState.READY.value]

    def all_ready(self) -> bool:
        """Rule 5.11.9: nothing is loading, failed or without a living stub."""
        for model in self.known():
            if any(not version.ready() for version in model.versions.values()):
                return False
            ended = [pair for number, pair in model.ended.items() if number not in model.versions]
            if any(state is not ModelState.UNAVAILABLE or reason != "unloaded" for state, reason in ended):
                return False
        return True

    # -- end

    def stop(self, timeout: float) -> None:
        """Unloads everything; requests that still execute after `timeout` seconds fail, and their stubs are killed."""
        self.stopped = True
        for model in list(self.models.values()):
            with model.lock:
                versions = model.versions
                model.serve({}, None)
            for version in versions.values():
                self._end(model, version)
        end = time.monotonic() + timeout
        endings = list(self._endings.items())
        for thread, _ in endings:
            thread.join(max(end - time.monotonic(), 0))
        for thread, version in endings:
            if thread.is_alive():
                version.abort()
                thread.join()

    def forget(self) -> None:
        """In a forked child: the stubs are the parent's. Nothing may talk to them, least of all end them at exit."""
        self.models.clear()
        self.stopped = True
