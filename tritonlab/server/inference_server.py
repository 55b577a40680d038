"""The server: finds the version a request is for, hands it over, and controls which models are loaded."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.clock import Clock, SystemClock
from ..core.infer_request import InferenceRequest, RequestState
from ..core.instrument import Instruments
from ..core.metrics import MetricRegistry
from ..core.model_config_rules import config_differs
from ..core.status import (
    InvalidArgumentError,
    ModelError,
    ModelLoadError,
    NotFoundError,
    TritonError,
    UnavailableError,
)
from ..instances.instance_plan import InstanceServices
from ..instances.request_executor import RequestExecutor
from ..instances.stub_calls import StubCalls
from ..ipc.link_reader import LinkReader
from ..ipc.spin import SpinBudget
from ..ipc.stub_log import LogBook, LogRecord
from ..ipc.stub_pool import StubPool
from ..schedulers.timer import Timer
from .backend_config import shm_settings
from .backends import Backends
from .model_lifecycle import LoadServices, ModelEvent, ModelState, ModelVersion
from .model_repository_manager import ModelFiles, ModelRepositoryManager
from .requests_in_flight import HeldRequest, survey
from .watchdog import Watchdog

#: Seconds without a sign of life after which a request is reported.
WATCHDOG_SECONDS = 10.0
CONTROL_MODES = ("none", "explicit")
#: Seconds a server that stops waits for requests that execute (the peer's --exit-timeout-secs).
EXIT_TIMEOUT = 30.0


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


class InferenceServer:
    """The core behind every surface. Requests and model control may come from any thread."""

    def __init__(
        self,
        repositories: Sequence[str | Path],
        *,
        model_control_mode: str = "none",
        startup_models: Sequence[str] = (),
        backend_config: Mapping[str, str] | None = None,
        backend_directory: str | Path | None = None,
        strict_model_config: bool = False,
        strict_readiness: bool = True,
        clock: Clock | None = None,
        warm_stubs: int = 2,
        watchdog_seconds: float = WATCHDOG_SECONDS,
    ) -> None:
        if model_control_mode not in CONTROL_MODES:
            raise InvalidArgumentError(
                f"model_control_mode is '{model_control_mode}', expected one of {', '.join(CONTROL_MODES)}"
            )
        shm = shm_settings(backend_config or {})
        self.clock = clock or SystemClock()
        self.instruments = Instruments()
        self.metrics = MetricRegistry(self._on_metric)
        self.log = LogBook(self._on_log)
        self.repository = ModelRepositoryManager(repositories)
        self.explicit = model_control_mode == "explicit"
        self._strict_readiness = strict_readiness
        self._link_reader = LinkReader()
        self.pool = StubPool(self._link_reader, size=warm_stubs, shm=shm)
        self._timer = Timer(self.clock)
        self._backends = Backends(backend_directory)
        self._executor = RequestExecutor(
            self.infer, self.find, self.clock, self._call_later, int(watchdog_seconds * 1e9)
        )
        calls = StubCalls(self.metrics, self._executor, self)
        self._services = LoadServices(
            InstanceServices(self.pool, self.clock, self.instruments, self.log, SpinBudget(), calls, calls.end),
            self._timer,
            self._backends,
            auto_complete=not strict_model_config,
        )
        self._serials = itertools.count(1)
        self._models: dict[str, LoadedModel] = {}
        self._models_lock = threading.Lock()  # guards additions to _models
        self._endings: dict[threading.Thread, ModelVersion] = {}
        self._watchdog = Watchdog(
            watchdog_seconds, self.clock, self._timer, self.requests, self._executor.calls, self._on_waiting
        )
        self._stopped = False
        _servers.add(self)
        self._start(startup_models)

    def _start(self, startup_models: Sequence[str]) -> None:
        names = list(startup_models) if self.explicit else self.repository.names()
        if names == ["*"]:
            names = self.repository.names()
        try:
            for name in names:
                self._load(name, None, None)
        except BaseException:
            self.stop()
            raise

    # -- inference

    def find(self, name: str, version: int = -1) -> ModelVersion:
        """The READY version a request is for. Raises NotFoundError (rule 5.4.1)."""
        model = self._models.get(name)
        if model is None or (not model.versions and not model.ended):
            raise NotFoundError(f"Request for unknown model: '{name}' is not found")
        found = model.latest if version == -1 else model.versions.get(version)
        if found is not None:
            return found
        if not model.versions:
            raise NotFoundError(f"Request for unknown model: '{name}' has no available versions")
        raise NotFoundError(f"Request for unknown model: '{name}' version {version} is not found")

    def infer(self, request: InferenceRequest) -> None:
        """Starts a request; its responses go to `request.on_response`. Raises TritonError if it is refused; then
        nothing was executed."""
        if request.state is not RequestState.INITIALIZED:
            raise InvalidArgumentError(f"{request.prefix}the request was sent before; create another one")
        request.request_start = self.clock.now()
        request.serial = next(self._serials)
        inputs = request.inputs
        while True:
            version = self.find(request.model_name, request.model_version)
            try:
                version.enqueue(request)
                if not self._watchdog.armed:
                    self._watchdog.arm()
                return
            except UnavailableError:
                if version.state is ModelState.READY:
                    raise  # a full queue is counted nowhere (measured)
                # it was replaced, or unloaded, after it was found: nobody may see a gap (rule 5.11.2)
                request.inputs = inputs  # the check may have reshaped them

    def _call_later(self, ns: int, function: Callable[[], None]) -> None:
        self._timer.call_at(self.clock.now() + ns, function)

    # -- model control

    def load(
        self, name: str, config: dict[str, Any] | str | None = None, files: dict[str, bytes] | None = None
    ) -> LoadedModel:
        """Loads or reloads a model; blocking. A reload that fails leaves the versions that serve as they are (rule
        2.5.8).

        Raises ModelLoadError, or UnavailableError outside the explicit mode.
        """
        self._require_explicit()
        return self._load(name, config, files)

    def _require_explicit(self) -> None:
        if not self.explicit:
            raise UnavailableError("explicit model load / unload is not allowed if polling is enabled")

    def _load(self, name: str, config: dict[str, Any] | str | None, files: dict[str, bytes] | None) -> LoadedModel:
        with self._models_lock:
            model = self._models.setdefault(name, LoadedModel(name))  # so that a second load of it waits for this one
        with model.lock:
            if self._stopped:
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

    def unload(self, name: str, unload_dependents: bool = False, wait: bool = True) -> None:
        """Stops serving a model at once and lets it end; an unknown one is ignored (rule 5.11.5). `wait`: until it
        has ended.

        `unload_dependents` has no effect: only ensembles have dependents, and none can be loaded.
        """
        self._require_explicit()
        model = self._models.get(name)
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

    def model_ready(self, name: str, version: str = "") -> bool:
        """Rule 1.15.7. Raises NotFoundError for an unknown model, InvalidArgumentError for a version that is no
        number."""
        return self.find(name, parse_version(version)).ready()

    def models(self) -> list[LoadedModel]:
        """Every model that was loaded, or tried, at least once."""
        return [model for _, model in sorted(self._models.items()) if model.versions or model.ended]

    def model(self, name: str) -> LoadedModel | None:
        return self._models.get(name)

    def index(self) -> list[dict[str, str]]:
        """The repository index (rule 5.11.7): models never loaded have a name only."""
        entries: list[dict[str, str]] = []
        for name in sorted({*self.repository.names(), *(model.name for model in self.models())}):
            model = self._models.get(name)
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
        return entries

    def ready(self) -> bool:
        """Rule 5.11.9: nothing is loading, failed or without a living stub."""
        if self._stopped:
            return False
        if not self._strict_readiness:
            return True
        for model in self.models():
            if any(not version.ready() for version in model.versions.values()):
                return False
            ended = [pair for number, pair in model.ended.items() if number not in model.versions]
            if any(state is not ModelState.UNAVAILABLE or reason != "unloaded" for state, reason in ended):
                return False
        return True

    # -- observation

    def requests(self) -> list[HeldRequest]:
        """Every request in flight, also those of versions that are being unloaded, oldest first."""
        versions = [v for model in self.models() for v in model.versions.values()]
        return survey([*versions, *list(self._endings.values())], self._executor.calls(), self.clock.now())

    def _on_waiting(self, held: HeldRequest, text: str) -> None:
        name = held.instance.plan.name if held.instance is not None else ""
        version = held.version
        self.log.add(LogRecord(time.time_ns(), version.name, version.version, name, "server", "WARNING", text))

    def _on_state(self, version: ModelVersion, reason: str) -> None:
        hook = self.instruments.model_state
        if hook is not None:
            hook(version.name, version.version, version.state.value, reason, self.clock.now())

    def _on_log(self, record: LogRecord) -> None:
        hook = self.instruments.log
        if hook is not None:
            hook(record)

    def _on_metric(self, name: str, labels: Mapping[str, str], value: float) -> None:
        hook = self.instruments.metric
        if hook is not None:
            hook(name, labels, value, self.clock.now())

    def _say(self, model: str, text: str) -> None:
        self.log.add(LogRecord(time.time_ns(), model, -1, "", "server", "ERROR", text))

    # -- end

    def stop(self, timeout: float = EXIT_TIMEOUT) -> None:
        """Unloads everything and ends all processes and threads. Blocking; safe to call twice.

        Requests that still execute after `timeout` seconds fail, and their stubs are killed.
        """
        if self._stopped:
            return
        self._stopped = True
        for model in list(self._models.values()):
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
        self.pool.close()
        self._timer.close()
        self._backends.close()
        if not sys.is_finalizing():
            self._link_reader.close()


_servers: weakref.WeakSet[InferenceServer] = weakref.WeakSet()


def _forget_all() -> None:
    """In a forked child: the stubs are the parent's. Nothing here may talk to them, least of all end them at exit."""
    for server in _servers:
        server._models = {}
        server._stopped = True


os.register_at_fork(after_in_child=_forget_all)


def parse_version(text: str) -> int:
    """`""` is -1, the latest. Raises InvalidArgumentError with the peer's texts (rule 1.15.7)."""
    if not text:
        return -1
    try:
        number = int(text)
    except ValueError:
        detail = " (details: stol)"
    else:
        if number > 0:
            return number
        detail = ""
    raise InvalidArgumentError(
        f"failed to get model version from specified version string '{text}'{detail}, "
        "version should be an integral value > 0"
    )
