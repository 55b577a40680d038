"""The server: it finds the version of each request, submits the request to it, and controls the loading of models."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..core.config.model_config import ModelConfig
from ..core.inference.infer_request import InferenceRequest, RequestState
from ..core.metrics.metric_registry import MetricRegistry
from ..core.scratch_directory import remove_abandoned
from ..core.status import (
    InvalidArgumentError,
    ModelLoadError,
    TritonError,
    UnavailableError,
)
from ..engine.life.model_instance import ModelInstance
from ..ipc.link.link_reader import LoopReader
from ..repository.model_repository_manager import ModelRepositoryManager
from .build import build
from .models.backend_choice import Written
from .models.global_map import parse_version
from .models.loaded_model import LoadedModel
from .models.model_lifecycle import ModelState, ModelVersion
from .models.startup_models import load_startup_models
from .observe.requests_in_flight import HeldRequest, survey
from .observe.why import ServerSnapshot, Why, why
from .options import Options
from .server_metadata import EXTENSIONS, SERVER_VERSION

_RELEASED = RequestState.RELEASED
#: The index's reason for a name that two repositories have (rule 5.11.10).
_NOT_UNIQUE = "model appears in two or more repositories"
#: Seconds that a stopping server waits for executing requests (Triton's --exit-timeout-secs).
EXIT_TIMEOUT = 30.0
_KILLED_ON_REQUEST = (
    "It was killed on request: by `%triton kill`, the button of its card or panel, or server.kill(). "
    "Another process takes over."
)
#: Seconds for a stub to report its place, after an interrupt.
_EXPLAIN_SECONDS = 0.5


class InferenceServer:
    """The core behind every surface: it takes requests, and loads and unloads models, from any thread."""

    def __init__(
        self,
        repositories: Sequence[str | Path],
        options: Options | None = None,
        *,
        load_models: bool = True,
        metrics: MetricRegistry | None = None,
    ) -> None:
        """Build the server. `load_models=False`: the caller calls `load_startup_models` later, when listeners have
        been added. `metrics`: the custom metrics, if servers share them; then the `metric` hook is not called.
        """
        self.options = options = options or Options()
        parts = build(repositories, options, partial(self.infer, from_model=True), metrics)
        services, shared = parts.services, parts.services.instances
        self.clock = shared.clock
        self.instruments = shared.instruments
        self.log = shared.log
        self.failures = shared.failures
        self.pool = shared.pool
        self.debugger = shared.debugger
        self.gpus = services.gpus
        self.metrics = parts.metrics
        self.trace_settings = parts.trace_settings
        self.log_settings = parts.log_settings
        #: loads and unloads models, from any thread
        self.control = parts.control
        #: the models that were loaded or tried, by identifier
        self.models = parts.control.models
        self.repository = parts.control.repository
        self.idle_memory = parts.idle_memory
        #: for endpoints: bytes of one request, and of one answer over gRPC; 0 for a share of the memory
        self.max_message_size = options.max_message_size
        self.max_unread_size = options.max_unread_size
        self.tracer = parts.tracer
        self._parts = parts
        self._watchdog = parts.watchdog
        #: (model, input) pairs with an earlier warning about a cast of lists
        self.casts: set[tuple[str, str]] = set()
        self._serials = itertools.count(1)
        self.tracer.refresh()
        _servers.add(self)
        remove_abandoned()
        if load_models:
            failed = self.load_startup_models()
            if failed and options.exit_on_error:
                self.stop()
                raise ModelLoadError.at_start(failed)

    def load_startup_models(self) -> dict[str, TritonError]:
        """Load all loadable models of the start, and return the failures by model name."""
        try:
            if self._parts.poller is not None:
                self._parts.poller.start()
            options = self.options
            return load_startup_models(self.control, options.startup_models, options.model_load_thread_count)
        except BaseException:
            self.stop()
            raise

    # -- inference

    def find(self, name: str, version: int = -1) -> ModelVersion:
        """Return the READY version for a request. Raises NotFoundError, UnavailableError (rules 5.4.1, 5.11.6)."""
        return self.models.find(name, version)

    def infer(
        self, request: InferenceRequest, version: ModelVersion | None = None, *, from_model: bool = False
    ) -> None:
        """Start a request; its responses go to `request.on_response`. `version`: the result of `find` for it.
        `from_model`: the sender is a model or an ensemble, so the request is traced with its parent. Raises TritonError
        if it is refused; then nothing was executed.
        """
        if self.tracer.active and not from_model:
            self._infer_traced(request, version)
            return
        if request.state is not RequestState.INITIALIZED:
            raise InvalidArgumentError(f"{request.prefix}the request was sent before; create another one")
        request.request_start = self.clock.now()
        request.serial = next(self._serials)
        inputs = request.inputs
        while True:
            version = version or self.find(request.model_name, request.model_version)
            try:
                version.rules.check(request)
                version.submit(request)
                if not self._watchdog.armed:
                    self._watchdog.arm()
                return
            except UnavailableError:
                if version.state is ModelState.READY:
                    raise  # a full queue is counted nowhere (measured)
                # replaced or unloaded after it was found: no client may notice a gap (rule 5.11.2)
                request.inputs = inputs  # the check may have reshaped them
                version = None

    def infer_here(self, request: InferenceRequest, version: ModelVersion | None = None) -> None:
        """Do as `infer`, for a thread that only waits for the answer: it reads an immediate answer itself."""
        request.waiting_thread = threading.get_ident()
        try:
            self.infer(request, version)
        finally:
            request.waiting_thread = 0
            executor = request.reserved_lead or request.executor
            if executor is not None:
                request.reserved_lead = None
                executor.lead(lambda: request.executor is None or request.state is _RELEASED, patient=False)

    def loop_reader(self) -> LoopReader:
        """Return the reader by which the event loop of this thread reads the answers to its requests
        (`InferenceRequest.reader`); the loop must `read` it when it is readable, and close it.
        """
        return self._parts.link_reader.in_loop()

    def explain(self, request: InferenceRequest) -> str:
        """Return the reason of a request's wait, in sentences and stacks; empty if it is not in flight. Blocks a second
        at most; an interrupt of the caller ends only the wait.
        """
        found: list[str] = []
        asker = threading.Thread(
            target=lambda: found.append(self._watchdog.explain(request, _EXPLAIN_SECONDS)), name="explain", daemon=True
        )
        asker.start()
        asker.join()
        return "".join(found)

    def _infer_traced(self, request: InferenceRequest, version: ModelVersion | None) -> None:
        """Do as `infer`, for clients' requests while the trace settings may select some of them."""
        trace = request.trace or self.tracer.begin(request)
        try:
            self.infer(request, version, from_model=True)
        except BaseException:
            if trace is not None:
                self.tracer.forget(trace)
            raise

    # -- model control

    def choose_backend(self, name: str, written: Written) -> None:
        """Choose the answers for a model of another backend than Python's from its next load on, like the option
        `backends`. Raises InvalidArgumentError.
        """
        self._parts.services.backends.choices.choose(name, written)
        for model in self.models.known():
            if model.name == name:
                model.reload_all()

    def poll_model_repository(self) -> None:
        """Look for changes in the repositories now; changes that are the same half a second later are loaded in the
        background. Raises UnavailableError outside the poll mode.
        """
        if self._parts.poller is None:
            raise UnavailableError("polling is disabled")
        self._parts.poller.poll()

    def register_model_repository(
        self, path: str | Path, name_mapping: Mapping[str, str] | None = None, *, behind: bool = False
    ) -> None:
        """Add a repository to load from; `name_mapping` maps its directories to other model names, and with `behind`
        models of other repositories precede its models of the same name. Raises UnsupportedError outside the explicit
        mode, InvalidArgumentError, AlreadyExistsError (rule 5.11.11).
        """
        self.control.require_explicit_for("repository registration")
        self.repository.register(path, name_mapping, behind=behind)

    def unregister_model_repository(self, path: str | Path) -> None:
        """Forget a repository; models loaded from it continue. Raises UnsupportedError, InvalidArgumentError."""
        self.control.require_explicit_for("repository unregistration")
        self.repository.unregister(path)

    def kill_serving(self, name: str) -> list[dict[str, Any]]:
        """Kill the serving processes of a model with requests in flight: these fail, and other processes take over.
        Return the facts of each, in the form of an ending.
        """
        killed: dict[ModelInstance, dict[str, Any]] = {}
        for held in self.requests(name):
            version, instance = held.version, held.instance
            if not version.serves:
                continue
            if instance is None or instance in killed or (stub := instance.stub) is None:
                continue
            killed[instance] = {
                "model": version.identifier,
                "version": version.version,
                "since": time.time() - held.age / 1e9,
                "ends_in": None,
                "awaits": instance.awaited(),
                "pids": [stub.process.pid],
            }
            stub.process.kill(_KILLED_ON_REQUEST)
        return list(killed.values())

    # -- its current state

    def live(self) -> bool:
        return not self.control.stopped

    def ready(self) -> bool:
        """Return whether nothing is loading, failed or without a living stub (rule 5.11.9)."""
        return self.live() and (not self.options.strict_readiness or self.models.settled())

    def model_ready(self, name: str, version: str = "") -> bool:
        """Return whether a version can answer; an unknown version cannot (rule 1.15.7). Raises InvalidArgumentError for
        a version that is not a number, and for a name that several models have.
        """
        return self.models.ready(name, version)

    def index(self, ready: bool = False) -> list[dict[str, str]]:
        """Return the repository index (rule 5.11.7): `name`, and `version`, `state`, `reason` of versions that were
        loaded or tried. `ready`: list READY versions only.
        """
        return list(repository_index(self.repository, self.models, ready))

    def model(self, name: str) -> LoadedModel | None:
        found = self.models.get(name)
        if found is None and len(named := self.models.named(name)) == 1:
            return named[0]
        return found

    def requests(self, name: str = "") -> list[HeldRequest]:
        """Return the requests in flight, of one model or all, also of versions that are being unloaded, oldest
        first.
        """
        return survey(self.control.running(name), self._parts.executor.calls(), self.clock.now())

    def server_metadata(self) -> dict[str, Any]:
        """Return `name`, `version` and `extensions` (rule 6.2)."""
        return {"name": self.options.server_id, "version": SERVER_VERSION, "extensions": list(EXTENSIONS)}

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """Return the name, READY versions, platform, inputs and outputs, with the shapes for clients (rule 6.1.2)."""
        number = parse_version(version)
        found = self.models.find(name, number)
        return found.rules.metadata(sorted(self.models[found.identifier].versions) if number == -1 else [number])

    def model_config(self, name: str, version: str = "") -> ModelConfig:
        """Return the complete configuration (rule 5.2)."""
        return self.models.find(name, parse_version(version)).config

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Return the statistics of rule 5.12.1, in nanoseconds, of one version or of all serving ones; without a name,
        of all models. Raises InvalidArgumentError.
        """
        number = parse_version(version)
        found = [each for model in self.models.known() for each in model.versions.values()]
        if name:
            found = [each for each in found if name in (each.name, each.identifier)]
            if not found:
                raise InvalidArgumentError(f"requested model '{name}' is not available{self.models.left_behind}")
            found = [each for each in found if number in (-1, each.version)]
            if not found:
                raise InvalidArgumentError(f"requested model version is not available for model '{name}'")
        return {"model_stats": [each.stats.to_dict(each.name, each.version) for each in found]}

    def metrics_text(self, model: str = "") -> str:
        """Return Prometheus text, as on Triton's /metrics. Of one model: the samples that name it in their labels, and
        its code's custom metrics.
        """
        cache = self._parts.services.execution.cache
        # a version has one set of lines: the serving one comes first, then an ending one, then a loading one
        versions: dict[tuple[str, int], ModelVersion] = {}
        for each in [*self.control.running(), *self.control.loading()]:
            versions.setdefault((each.identifier, each.version), each)
        numbers = cache.metrics() if cache is not None else None
        text = self._parts.server_metrics.text(versions.values(), numbers, model)
        return "".join(line for line in text.splitlines(keepends=True) if not (model and line.startswith("#")))

    def why(self, name: str = "") -> Why:
        """Return the reasons of all waits, of one model or all, and why the last loads failed. Blocks while the stubs
        on the way report, a second each at most.
        """
        control = self.control
        seen = ServerSnapshot(
            models=[model for _, model in sorted(control.models.items())],
            versions=control.running(),
            loading=control.loading(),
            held=self.requests(),
            calls=self._parts.executor.calls(),
            failures=self.failures,
            now=self.clock.now(),
        )
        return why(seen, name)

    # -- end

    def stop(self, timeout: float = EXIT_TIMEOUT) -> None:
        """Unload everything and end all processes and threads; blocks, and is safe to call twice. After `timeout`
        seconds, or if the caller is interrupted, requests that still execute fail, and their stubs are killed.
        """
        if self.control.stopped:
            return
        if self._parts.poller is not None:
            self._parts.poller.stop()
        self.debugger.close()
        try:
            self.control.stop(timeout)
        finally:  # an interrupt has ended the awaited versions
            self._close()
            if hook := self.instruments.server_stopped:
                hook()

    def _close(self) -> None:
        self.tracer.flush()
        self.pool.close()
        self._parts.services.timer.close()
        self._parts.services.backends.close()
        if not sys.is_finalizing():
            self._parts.link_reader.close()
        self.idle_memory.give_back([])  # no later look will come


_servers: weakref.WeakSet[InferenceServer] = weakref.WeakSet()


def _forget_all() -> None:
    """Make each server of a forked child drop its stubs, which belong to the parent."""
    for server in _servers:
        server.control.forget()


os.register_at_fork(after_in_child=_forget_all)


def repository_index(
    repository: ModelRepositoryManager, models: Mapping[str, LoadedModel], ready: bool = False
) -> Iterator[dict[str, str]]:
    """Yield the rows of the repository index (rule 5.11.7): `name` of each model, and `version`, `state`, `reason` of
    versions that were loaded or tried. `models`: these models, by identifier. `ready`: list READY versions only.
    """
    for identifier, directories in repository.directories().items():
        name = repository.split(identifier)[1]
        if len(directories) > 1:
            yield {"name": name, "state": ModelState.UNAVAILABLE.value, "reason": _NOT_UNIQUE}
            continue
        model = models.get(identifier)
        if model is None or not model.is_known:
            if not ready:
                yield {"name": name}
            continue
        for number, (state, reason) in model.states().items():
            if not ready or state == ModelState.READY.value:
                entry = {"name": name, "version": str(number), "state": state}
                yield {**entry, "reason": reason} if reason else entry
