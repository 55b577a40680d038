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

from ..core.clock import SystemClock
from ..core.infer_request import InferenceRequest, RequestState
from ..core.instrument import Instruments
from ..core.log_settings import LogSetting, LogSettings
from ..core.metrics import MetricRegistry
from ..core.metrics_config import MetricsConfig
from ..core.model_config import ModelConfig
from ..core.scratch_directory import remove_abandoned
from ..core.status import (
    InvalidArgumentError,
    ModelLoadError,
    NotFoundError,
    TritonError,
    UnavailableError,
)
from ..core.trace_settings import TraceSetting, TraceSettings
from ..instances.instance_plan import InstanceServices
from ..instances.request_executor import RequestExecutor
from ..instances.stub_calls import StubCalls
from ..ipc.link_reader import LinkReader
from ..ipc.spin import SpinBudget
from ..ipc.stub_launcher import StubProcess
from ..ipc.stub_log import LogBook, LogRecord
from ..ipc.stub_pool import StubPool
from ..schedulers.timer import Timer
from .models.backend_config import shm_settings
from .models.backends import Backends
from .models.execution_options import ExecutionOptions
from .models.loaded_model import LoadedModel
from .models.model_control import CONTROL_MODES, ModelControl
from .models.model_lifecycle import LoadServices, ModelState, ModelVersion
from .models.model_repository_manager import ModelRepositoryManager, check_repositories
from .models.repository_poller import RepositoryPoller
from .models.startup_models import load_startup_models
from .observe.idle_memory import IdleMemory, MemoryUse
from .observe.metrics_text import FirstResponses, ServerMetrics
from .observe.repository_index import repository_index
from .observe.requests_in_flight import HeldRequest, survey
from .observe.tracer import Tracer
from .observe.watchdog import Watchdog
from .options import Options
from .server_metadata import EXTENSIONS, SERVER_VERSION, parse_version

#: Seconds a server that stops waits for requests that execute (Triton's --exit-timeout-secs).
EXIT_TIMEOUT = 30.0
#: Seconds a stub has to say where it is, after an interrupt.
_EXPLAIN_SECONDS = 0.5


class InferenceServer:
    """The core behind every surface. Requests and model control may come from any thread."""

    def __init__(
        self,
        repositories: Sequence[str | Path],
        options: Options | None = None,
        *,
        load_models: bool = True,
        metrics: MetricRegistry | None = None,
    ) -> None:
        """`load_models=False`: `load_startup_models` is called later, when listeners have been added. `metrics`: the
        custom ones, where servers share them; then no `metric` hook hears of them."""
        self._options = options = options or Options()
        mode = options.model_control_mode
        if mode not in CONTROL_MODES:
            raise InvalidArgumentError(f"model_control_mode is '{mode}', expected one of {', '.join(CONTROL_MODES)}")
        shm = shm_settings(options.backend_config or {})
        self._execution = ExecutionOptions.of(
            options.cache_config, options.rate_limit, options.rate_limit_resource, options.count_warmup
        )
        check_repositories(repositories)
        self.clock = options.clock or SystemClock()
        self.instruments = Instruments()
        self.metrics = metrics if metrics is not None else MetricRegistry(self._on_metric)
        self._metrics = ServerMetrics(options.metrics_config or MetricsConfig(), self.metrics, self.clock)
        self.log = LogBook(self._on_log)
        self.trace_settings = TraceSettings(options.trace_setting or TraceSetting(), self.model_ready, self._on_trace)
        self.log_settings = LogSettings(options.log_setting or LogSetting())
        self.repository = ModelRepositoryManager(
            repositories,
            strict=options.strict_model_config,
            config_name=options.model_config_name,
            namespacing=options.model_namespacing,
        )
        spin = SpinBudget()
        self._link_reader = LinkReader(spin)
        self.pool = StubPool(self._link_reader, size=options.warm_stubs, shm=shm)
        self._timer = Timer(self.clock)
        self._backends = Backends(options.backend_directory, self.log)
        if options.metrics_config is not None and options.metrics_config.histogram_latencies:
            self.instruments.add(FirstResponses(self.find))
        self._trace_lock = threading.Lock()  # guards the choice of `infer`
        self.tracer = Tracer(self.trace_settings, self.instruments, self._tell)
        self._executor = RequestExecutor(
            self.infer, self.find, self.clock, self._call_later, int(options.watchdog_seconds * 1e9), self.tracer.adopt
        )
        calls = StubCalls(self.metrics, self._executor, self)
        services = LoadServices(
            InstanceServices(
                self.pool, self.clock, self.instruments, self.log, spin, calls, calls.end, self._call_later
            ),
            self._timer,
            self._backends,
            self.infer,
            self.find,
            metrics=self._metrics,
            auto_complete=not options.strict_model_config,
            load_retries=options.model_load_retry_count,
            execution=self._execution,
        )
        self._control = ModelControl(self.repository, services, mode, self._on_state, self._on_unloading)
        self._models = self._control.models
        self._serials = itertools.count(1)
        self._idle_memory = IdleMemory(self._model_processes)
        self._watchdog = Watchdog(
            options.watchdog_seconds,
            self.clock,
            self._timer,
            self.requests,
            self._executor.calls,
            self._on_waiting,
            self._idle_memory.look,
        )
        self._on_trace()
        _servers.add(self)
        remove_abandoned()
        self._poller: RepositoryPoller | None = None
        if mode == "poll":
            self._poller = RepositoryPoller(
                self.repository, self._control, self.clock, self._timer, options.repository_poll_secs
            )
        if load_models:
            failed = self.load_startup_models()
            if failed and options.exit_on_error:
                self.stop()
                raise ModelLoadError.at_start(failed)

    def load_startup_models(self) -> dict[str, TritonError]:
        """Loads what is to be loaded at the start, all that can be; the failures by model name."""
        try:
            if self._poller is not None:
                self._poller.start()
            options = self._options
            return load_startup_models(self._control, options.startup_models, options.model_load_thread_count)
        except BaseException:
            self.stop()
            raise

    # -- inference

    def find(self, name: str, version: int = -1) -> ModelVersion:
        """The READY version a request is for. Raises NotFoundError, UnavailableError (rules 5.4.1, 5.11.6)."""
        model = self._models.get(name)
        if model is None or not (model.versions or model.ended):
            model = self._models.only(name)
            name = model.identifier
            if not (model.versions or model.ended):
                raise NotFoundError(f"Request for unknown model: '{name}' is not found")
        found = model.latest if version == -1 else model.versions.get(version)
        if found is not None:
            return found
        if version in model.ended:
            raise UnavailableError(f"Request for unknown model: '{name}' version {version} is not at ready state")
        if version == -1:
            raise NotFoundError(f"Request for unknown model: '{name}' has no available versions")
        raise NotFoundError(f"Request for unknown model: '{name}' version {version} is not found")

    def infer(self, request: InferenceRequest, version: ModelVersion | None = None) -> None:
        """Starts a request; its responses go to `request.on_response`. `version`: the one that `find` gave for it.
        Raises TritonError if it is refused; then nothing was executed."""
        if request.state is not RequestState.INITIALIZED:
            raise InvalidArgumentError(f"{request.prefix}the request was sent before; create another one")
        request.request_start = self.clock.now()
        request.serial = next(self._serials)
        inputs = request.inputs
        while True:
            version = version or self.find(request.model_name, request.model_version)
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
                version = None

    def explain(self, request: InferenceRequest) -> str:
        """What a request waits for now, in sentences and stacks; empty if it is not in flight. Blocking, a second at
        most; an interrupt of the caller ends the wait and nothing else."""
        found: list[str] = []
        asker = threading.Thread(
            target=lambda: found.append(self._watchdog.explain(request, _EXPLAIN_SECONDS)), name="explain", daemon=True
        )
        asker.start()
        asker.join()
        return "".join(found)

    def _infer_traced(self, request: InferenceRequest, version: ModelVersion | None = None) -> None:
        """`infer` of clients' requests while the trace settings let some of them be traced. What models and ensembles
        ask goes to `infer` itself: it is traced where its parent is."""
        trace = request.trace or self.tracer.begin(request)
        try:
            InferenceServer.infer(self, request, version)
        except BaseException:
            if trace is not None:
                self.tracer.forget(trace)
            raise

    def _on_trace(self) -> None:
        with self._trace_lock:
            if self.tracer.refresh():
                self.infer = self._infer_traced  # type: ignore[method-assign]
            else:
                self.__dict__.pop("infer", None)

    def _call_later(self, ns: int, function: Callable[[], None]) -> None:
        self._timer.call_at(self.clock.now() + ns, function)

    # -- model control

    def load(
        self, name: str, config: dict[str, Any] | str | None = None, files: dict[str, bytes] | None = None
    ) -> None:
        """Loads or reloads a model; blocking. A reload that fails leaves the versions that serve as they are (rule
        2.5.8).

        Raises ModelLoadError, or UnavailableError outside the explicit mode.
        """
        self._control.load(name, config, files)

    def unload(
        self, name: str, unload_dependents: bool = False, wait: bool = True, timeout: float | None = None
    ) -> None:
        """Stops serving a model at once and lets it end; an unknown one is ignored (rule 5.11.5). `wait`: until it
        has ended; with a `timeout` so many seconds, then requests that still execute fail and stubs are killed. Raises
        UnavailableError outside the explicit mode."""
        self._control.unload(name, unload_dependents, wait, timeout)

    def poll_model_repository(self) -> None:
        """Looks for changes now; their loads go on in the background. Raises UnavailableError outside the poll mode."""
        if self._poller is None:
            raise UnavailableError("polling is disabled")
        self._poller.poll()

    def register_model_repository(self, path: str | Path, name_mapping: Mapping[str, str] | None = None) -> None:
        """One more repository to load from; `name_mapping`: directories of it that are models of other names. Raises
        UnsupportedError outside the explicit mode, InvalidArgumentError, AlreadyExistsError (rule 5.11.11)."""
        self._control.require_explicit_for("repository registration")
        self.repository.register(path, name_mapping)

    def unregister_model_repository(self, path: str | Path) -> None:
        """Forgets a repository; what was loaded from it goes on. Raises UnsupportedError, InvalidArgumentError."""
        self._control.require_explicit_for("repository unregistration")
        self.repository.unregister(path)

    def index(self, ready: bool = False) -> list[dict[str, str]]:
        """The repository index (rule 5.11.7): `name`, and `version`, `state`, `reason` of versions that were loaded or
        tried. `ready`: READY versions only."""
        return list(repository_index(self.repository, self._models, ready))

    def models(self) -> list[LoadedModel]:
        """Every model that was loaded, or tried, at least once."""
        return self._control.known()

    def model(self, name: str) -> LoadedModel | None:
        try:
            return self._models.get(name) or self._models.only(name)
        except TritonError:
            return None

    # -- state

    def live(self) -> bool:
        return not self._control.stopped

    def ready(self) -> bool:
        """Rule 5.11.9: nothing is loading, failed or without a living stub."""
        return self.live() and (not self._options.strict_readiness or self._control.all_ready())

    def model_ready(self, name: str, version: str = "") -> bool:
        """Rule 1.15.7. Raises NotFoundError for an unknown model, InvalidArgumentError for a version that is no
        number."""
        try:
            return self.find(name, parse_version(version)).ready()
        except UnavailableError:
            return False

    def server_metadata(self) -> dict[str, Any]:
        """`name`, `version` and `extensions` (rule 6.2)."""
        return {"name": self._options.server_id, "version": SERVER_VERSION, "extensions": list(EXTENSIONS)}

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """Name, READY versions, platform, inputs and outputs with the shapes a client sends (rule 6.1.2).

        Raises NotFoundError, InvalidArgumentError, as all calls for one model here do.
        """
        number = parse_version(version)
        found = self.find(name, number)
        return found.rules.metadata(sorted(self._models[found.identifier].versions) if number == -1 else [number])

    def model_config(self, name: str, version: str = "") -> ModelConfig:
        """The complete configuration (rule 5.2)."""
        return self.find(name, parse_version(version)).config

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """The statistics of rule 5.12.1, nanoseconds, of one version or all that serve; without a name of all models.
        Raises InvalidArgumentError."""
        number = parse_version(version)
        found = self._serving()
        if name:
            found = [each for each in found if name in (each.name, each.identifier)]
            if not found:
                raise InvalidArgumentError(f"requested model '{name}' is not available")
            found = [each for each in found if number in (-1, each.version)]
            if not found:
                raise InvalidArgumentError(f"requested model version is not available for model '{name}'")
        return {"model_stats": [each.stats.to_dict(each.name, each.version) for each in found]}

    def metrics_text(self) -> str:
        """Prometheus text, as on Triton's /metrics."""
        cache = self._execution.cache
        return self._metrics.text(self._serving(), cache.metrics() if cache is not None else None)

    def _serving(self) -> list[ModelVersion]:
        return [version for model in self.models() for version in model.versions.values()]

    # -- observation

    def requests(self) -> list[HeldRequest]:
        """Every request in flight, also those of versions that are being unloaded, oldest first."""
        return survey(self._control.running(), self._executor.calls(), self.clock.now())

    def memory(self) -> MemoryUse:
        """What this process and those of the models have in memory now."""
        return self._idle_memory.use()

    def _model_processes(self) -> list[StubProcess]:
        instances = [instance for version in self._control.running() for instance in version.instances]
        return [stub.process for instance in instances if (stub := instance.stub) is not None]

    def _on_waiting(self, held: HeldRequest, text: str) -> None:
        name = held.instance.plan.name if held.instance is not None else ""
        version = held.version
        self.log.add(LogRecord(time.time_ns(), version.name, version.version, name, "server", "WARNING", text))
        hook = self.instruments.requests_wait
        if hook is not None:
            hook(version.name, text, self.clock.now())

    def _on_unloading(self, version: ModelVersion, text: str) -> None:
        self.log.add(LogRecord(time.time_ns(), version.name, version.version, "", "server", "WARNING", text))
        hook = self.instruments.requests_wait
        if hook is not None:
            hook(version.name, text, self.clock.now())

    def _tell(self, level: str, text: str) -> None:
        self.log.add(LogRecord(time.time_ns(), "", -1, "", "server", level, text))

    def _on_state(self, version: ModelVersion, reason: str) -> None:
        hook = self.instruments.model_state
        if hook is not None:
            hook(version.identifier, version.version, version.state.value, reason, self.clock.now())

    def _on_log(self, record: LogRecord) -> None:
        hook = self.instruments.log
        if hook is not None:
            hook(record)

    def _on_metric(self, name: str, labels: Mapping[str, str], value: float) -> None:
        hook = self.instruments.metric
        if hook is not None:
            hook(name, labels, value, self.clock.now())

    # -- end

    def stop(self, timeout: float = EXIT_TIMEOUT) -> None:
        """Unloads everything and ends all processes and threads. Blocking; safe to call twice.

        Requests that still execute after `timeout` seconds, or when the caller is interrupted, fail, and their stubs
        are killed.
        """
        if self._control.stopped:
            return
        if self._poller is not None:
            self._poller.stop()
        try:
            self._control.stop(timeout)
        finally:  # an interrupt has ended what was waited for
            self._close()

    def _close(self) -> None:
        self.tracer.close()
        self.pool.close()
        self._timer.close()
        self._backends.close()
        if not sys.is_finalizing():
            self._link_reader.close()


_servers: weakref.WeakSet[InferenceServer] = weakref.WeakSet()


def _forget_all() -> None:
    """In a forked child."""
    for server in _servers:
        server._control.forget()


os.register_at_fork(after_in_child=_forget_all)
