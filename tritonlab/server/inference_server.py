"""The server: it finds the version of each request, submits the request to it, and controls which models are loaded."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.inference.infer_request import InferenceRequest, RequestState
from ..core.metrics.metric_registry import MetricRegistry
from ..core.scratch_directory import remove_abandoned
from ..core.status import (
    InvalidArgumentError,
    ModelLoadError,
    NotFoundError,
    TritonError,
    UnavailableError,
)
from ..engine.life.model_instance import ModelInstance
from ..ipc.link.link_reader import LoopReader
from .build import build
from .models.backend_choice import Written
from .models.endings import Ending
from .models.loaded_model import LoadedModel
from .models.model_lifecycle import ModelState, ModelVersion
from .models.startup_models import load_models, load_startup_models
from .observe.idle_memory import MemoryUse
from .observe.requests_in_flight import HeldRequest, survey
from .observe.why import ServerSnapshot, Why, why
from .options import Options
from .server_facts import ServerFacts, repository_index
from .server_metadata import parse_version

_RELEASED = RequestState.RELEASED
#: Seconds a server that stops waits for requests that execute (Triton's --exit-timeout-secs).
EXIT_TIMEOUT = 30.0
_KILLED_ON_REQUEST = (
    "It was killed on request: by `%triton kill`, the button of its card or panel, or server.kill(). "
    "Another process takes over."
)
#: Seconds within which a stub has to say where it is, after an interrupt.
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
        been added. `metrics`: the custom ones, where servers share them; then no `metric` hook hears of them.
        """
        self._options = options = options or Options()
        parts = build(repositories, options, self, metrics)
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
        self.repository = parts.control.repository
        self.idle_memory = parts.idle_memory
        #: for endpoints: bytes of one request, and of one answer over gRPC; 0 for a share of the memory
        self.max_message_size = options.max_message_size
        self.max_unread_size = options.max_unread_size
        self.tracer = parts.tracer
        self._parts = parts
        self._control = parts.control
        self._models = parts.control.models
        self._choices = services.backends.choices
        self._watchdog = parts.watchdog
        self.facts = ServerFacts(
            options.server_id,
            self._models,
            self._control.loading,
            self._control.running,
            parts.server_metrics,
            services.execution,
        )
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
        """Load all models of the start that can be loaded, and return the failures by model name."""
        try:
            if self._parts.poller is not None:
                self._parts.poller.start()
            options = self._options
            return load_startup_models(self._control, options.startup_models, options.model_load_thread_count)
        except BaseException:
            self.stop()
            raise

    # -- inference

    def find(self, name: str, version: int = -1) -> ModelVersion:
        """Return the READY version that a request is for. Raises NotFoundError, UnavailableError (rules 5.4.1,
        5.11.6).
        """
        return self._models.find(name, version)

    def infer(
        self, request: InferenceRequest, version: ModelVersion | None = None, *, from_model: bool = False
    ) -> None:
        """Start a request; its responses go to `request.on_response`. `version`: the one that `find` gave for it.
        `from_model`: a model or an ensemble sends it, and the request is traced where its parent is. Raises TritonError
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
                # it was replaced, or unloaded, after it was found: nobody may see a gap (rule 5.11.2)
                request.inputs = inputs  # the check may have reshaped them
                version = None

    def infer_here(self, request: InferenceRequest, version: ModelVersion | None = None) -> None:
        """Do as `infer`, for a thread that only waits for the answer: it reads that itself if it comes at once."""
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
        """Return what lets the event loop of this thread read the answers to its requests (`InferenceRequest.reader`);
        the loop has to `read` it when it is readable, and to close it."""
        return self._parts.link_reader.in_loop()

    def explain(self, request: InferenceRequest) -> str:
        """Return what a request waits for now, in sentences and stacks; empty if it is not in flight. Blocks a second
        at most; an interrupt of the caller ends the wait and nothing else.
        """
        found: list[str] = []
        asker = threading.Thread(
            target=lambda: found.append(self._watchdog.explain(request, _EXPLAIN_SECONDS)), name="explain", daemon=True
        )
        asker.start()
        asker.join()
        return "".join(found)

    def _infer_traced(self, request: InferenceRequest, version: ModelVersion | None) -> None:
        """Do as `infer`, for clients' requests while the trace settings let some of them be traced."""
        trace = request.trace or self.tracer.begin(request)
        try:
            self.infer(request, version, from_model=True)
        except BaseException:
            if trace is not None:
                self.tracer.forget(trace)
            raise

    # -- model control

    def load(
        self, name: str, config: dict[str, Any] | str | None = None, files: dict[str, bytes] | None = None
    ) -> None:
        """Load or reload a model and block until it serves. A reload that fails leaves the versions that serve (rule
        2.5.8). Raises ModelLoadError, or UnavailableError outside the explicit mode.
        """
        self._control.load(name, config, files)

    def choose_backend(self, name: str, written: Written) -> None:
        """Choose what answers for a model of another backend than Python's from its next load on, as the option
        `backends` does. Raises InvalidArgumentError."""
        self._choices.choose(name, written)
        for model in self._models.known():
            if model.name == name:
                model.reload_all()

    def load_all(self, names: Sequence[str]) -> dict[str, TritonError]:
        """Load those of the models that can be loaded, several at a time, ensembles after their parts, and return the
        failures by name."""
        return load_models(self._control, names, self._options.model_load_thread_count)

    def unload(
        self, name: str, unload_dependents: bool = False, wait: bool = True, timeout: float | None = None
    ) -> None:
        """Stop serving a model at once and let it end; an unknown one is ignored (rule 5.11.5). `wait`: block until
        it has ended. `timeout`: the seconds after which requests that still execute fail and stubs are killed. Raises
        UnavailableError outside the explicit mode.
        """
        self._control.unload(name, unload_dependents, wait, timeout)

    def poll_model_repository(self) -> None:
        """Look for changes in the repositories now; those that are still the same half a second later are loaded in the
        background. Raises UnavailableError outside the poll mode.
        """
        if self._parts.poller is None:
            raise UnavailableError("polling is disabled")
        self._parts.poller.poll()

    def register_model_repository(
        self, path: str | Path, name_mapping: Mapping[str, str] | None = None, *, behind: bool = False
    ) -> None:
        """Add a repository to load from; `name_mapping` gives directories of it other model names, and `behind` lets
        models of other repositories count before those of the same name in it. Raises
        UnsupportedError outside the explicit mode, InvalidArgumentError, AlreadyExistsError (rule 5.11.11).
        """
        self._control.require_explicit_for("repository registration")
        self.repository.register(path, name_mapping, behind=behind)

    def unregister_model_repository(self, path: str | Path) -> None:
        """Forget a repository; what was loaded from it goes on. Raises UnsupportedError, InvalidArgumentError."""
        self._control.require_explicit_for("repository unregistration")
        self.repository.unregister(path)

    def stop_loading(self, name: str) -> None:
        """End the loads of a model that go on, so that they fail."""
        self._control.stop_loading(name)

    def drop_failed(self, name: str) -> None:
        """Forget a model of this name that could not be loaded and that no repository has any more."""
        self._control.drop_failed(name)

    def kill(self, endings: Sequence[Ending]) -> None:
        """End these versions at once: their requests fail and their stubs are killed. Blocks some seconds at most."""
        self._control.kill(endings)

    def kill_serving(self, name: str) -> list[dict[str, Any]]:
        """Kill the processes of a model that serve and have requests in flight: those fail, and other processes take
        over. Return the facts of each, as those of an ending.
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

    # -- what it does now

    @property
    def options(self) -> Options:
        return self._options

    def live(self) -> bool:
        return not self._control.stopped

    def ready(self) -> bool:
        """Return whether nothing is loading, failed or without a living stub (rule 5.11.9)."""
        return self.live() and (not self._options.strict_readiness or self._models.settled())

    def model_ready(self, name: str, version: str = "") -> bool:
        """Return whether a version can answer; what is unknown cannot (rule 1.15.7). Raises InvalidArgumentError for a
        version that is not a number, and for a name that several models have.
        """
        try:
            return self._models.find(name, parse_version(version)).ready()
        except (NotFoundError, UnavailableError):
            return False

    def index(self, ready: bool = False) -> list[dict[str, str]]:
        """Return the repository index (rule 5.11.7): `name`, and `version`, `state`, `reason` of versions that were
        loaded or tried. `ready`: list READY versions only.
        """
        return list(repository_index(self.repository, self._models, ready))

    def models(self) -> list[LoadedModel]:
        """Return every model that was loaded, or tried, at least once."""
        return self._models.known()

    def model(self, name: str) -> LoadedModel | None:
        found = self._models.get(name)
        if found is None and len(named := self._models.named(name)) == 1:
            return named[0]
        return found

    def requests(self, name: str = "") -> list[HeldRequest]:
        """Return the requests in flight, of one model or all, also those of versions that are being unloaded, oldest
        first."""
        return survey(self._control.running(name), self._parts.executor.calls(), self.clock.now())

    def loading(self, name: str = "") -> list[ModelVersion]:
        """Return the versions, of one model or all, that are being loaded."""
        return [version for version in self._control.loading() if not name or version.name == name]

    def draining(self, name: str = "") -> list[Ending]:
        """Return the versions, of one model or all, that serve no new requests and have not ended, oldest first."""
        return self._control.draining(name)

    def memory(self) -> MemoryUse:
        """Return what this process and those of the models take in memory now."""
        return self._parts.idle_memory.use()

    def why(self, name: str = "") -> Why:
        """Return what everything waits for, of one model or of all, and why the last loads failed. Blocks while the
        stubs on the way say what they are doing, a second each at most.
        """
        control, calls, now = self._control, self._parts.executor.calls(), self.clock.now()
        held = survey(control.running(), calls, now)
        models = [model for _, model in sorted(control.models.items())]
        return why(
            ServerSnapshot(
                models,
                versions=control.running(),
                loading=control.loading(),
                held=held,
                calls=calls,
                failures=self.failures,
                now=now,
            ),
            name,
        )

    # -- end

    def stop(self, timeout: float = EXIT_TIMEOUT) -> None:
        """Unload everything and end all processes and threads; blocks, and is safe to call twice. Requests that still
        execute after `timeout` seconds, or when the caller is interrupted, fail, and their stubs are killed.
        """
        if self._control.stopped:
            return
        if self._parts.poller is not None:
            self._parts.poller.stop()
        self.debugger.close()
        try:
            self._control.stop(timeout)
        finally:  # an interrupt has ended the versions that were waited for
            self._close()

    def _close(self) -> None:
        self.tracer.close()
        self.pool.close()
        self._parts.services.timer.close()
        self._parts.services.backends.close()
        if not sys.is_finalizing():
            self._parts.link_reader.close()
        self.idle_memory.give_back([])  # nothing looks later


_servers: weakref.WeakSet[InferenceServer] = weakref.WeakSet()


def _forget_all() -> None:
    """Let each server of a forked child drop its stubs, which are the parent's."""
    for server in _servers:
        server._control.forget()


os.register_at_fork(after_in_child=_forget_all)
