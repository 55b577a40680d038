"""A model version's life: from files to READY, and to its end.

load:    import in two stubs at once -> auto_complete_config in the one that is thrown away
         -> merge, check -> initialize -> READY
reload:  the same beside the running version; only when the new one is READY it takes over,
         and the old one finishes and finalizes
unload:  no new requests, requests in flight end, finalize, process ends
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...core.delivery import deliver_error
from ...core.ensemble_graph import EnsembleGraph
from ...core.infer_request import InferenceRequest
from ...core.infer_stats import InferStats
from ...core.latency_stats import Histogram
from ...core.model_config import ConfigError, ModelConfig, to_json
from ...core.model_config_rules import (
    final,
    instance_specs,
    is_ensemble,
    merge_auto_complete,
    normalize_instance_groups,
    step_model,
)
from ...core.request_rules import RequestRules
from ...core.status import NotFoundError, TritonError, UnavailableError
from ...instances.instance_plan import InstanceServices
from ...instances.instance_state import InstanceState
from ...instances.model_instance import ModelInstance
from ...instances.model_stub import ModelSource, ModelStub
from ...ipc.stub_log import LogRecord
from ...schedulers.ensemble_scheduler import EnsembleScheduler
from ...schedulers.scheduler import Scheduler
from ...schedulers.scheduler_factory import SchedulerServices, make_scheduler
from ...schedulers.timer import Timer
from .backend_config import check_stub_name
from .backends import Backends, visible_gpus
from .execution_options import ExecutionOptions
from .label_provider import Labels, read_labels
from .model_repository_manager import ModelFiles
from .response_cache import CachedModel
from .serving_instances import ServingInstances


class ModelState(enum.Enum):
    """States as the repository index reports them (rule 5.11.7)."""

    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


class ModelEvent(enum.Enum):
    LOADED = "loaded"
    FAILED = "failed"
    UNLOAD = "unload"
    UNLOADED = "unloaded"


#: Any pair that is not here is a defect of ours and raises.
TRANSITIONS = {
    (ModelState.LOADING, ModelEvent.LOADED): ModelState.READY,
    (ModelState.LOADING, ModelEvent.FAILED): ModelState.UNAVAILABLE,
    (ModelState.READY, ModelEvent.UNLOAD): ModelState.UNLOADING,
    (ModelState.UNLOADING, ModelEvent.UNLOADED): ModelState.UNAVAILABLE,
}


class VersionMetrics(Protocol):
    """What a new version counts into, as the server's metrics configuration wants it."""

    def stats(self) -> InferStats: ...

    def first_response(self, config: ModelConfig) -> Histogram | None: ...


@dataclass(frozen=True)
class LoadServices:
    """What loading needs of the server."""

    instances: InstanceServices[ModelInstance]
    timer: Timer
    backends: Backends
    #: `InferenceServer.infer` and `.find`: ensembles ask their steps' models
    infer: Callable[[InferenceRequest], None]
    find: Callable[[str, int], ModelVersion]
    metrics: VersionMetrics
    auto_complete: bool = True
    #: how often a version that fails to load is tried again; negative is without end
    load_retries: int = 0
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)


class ModelVersion:
    """One loaded version: its configuration, rules, scheduler and instances.

    `on_state` hears of every state change with (version, reason).
    """

    def __init__(
        self,
        files: ModelFiles,
        version: int,
        services: LoadServices,
        on_state: Callable[[ModelVersion, str], None],
    ) -> None:
        self.name = files.name
        self.identifier = files.identifier
        self.version = version
        self.files = files
        self.state = ModelState.LOADING
        self.reason = ""
        self.load_ns = 0
        self.config: ModelConfig = files.config
        self.labels: Labels = {}
        self.rules: RequestRules
        self.scheduler: Scheduler
        self.stats = services.metrics.stats()
        self.first_response: Histogram | None = None
        self._running: ServingInstances | None = None
        self._stubs: list[ModelStub] = []  # that import the model, while it loads
        self._services = services
        self._on_state = on_state
        self._has_is_ready = True
        self._submit: Callable[[InferenceRequest], None]
        self._cached: CachedModel | None = None

    @property
    def instances(self) -> list[ModelInstance]:
        """Those that serve; none of an ensemble."""
        return self._running.serving if self._running is not None else []

    @property
    def leaving(self) -> list[ModelInstance]:
        """Those that only finish their last requests, since others serve now."""
        return list(self._running.leaving) if self._running is not None else []

    def advance(self, event: ModelEvent, reason: str = "") -> None:
        self.state = TRANSITIONS[self.state, event]
        self.reason = reason
        self._on_state(self, reason)

    # -- load

    def load(self) -> None:
        """Blocking. Raises TritonError with the text of `<Code>: <text>` in a load failure (rule 2.5.1)."""
        clock = self._services.instances.clock
        started = clock.now()
        self._on_state(self, "")
        try:
            self._load()
            self._submit = self._entrance()
        except TritonError as error:
            self.advance(ModelEvent.FAILED, f"{error.code.text}: {error.message}")
            raise
        except BaseException as error:
            self.advance(ModelEvent.FAILED, f"{type(error).__name__} while loading")
            raise
        self.load_ns = clock.now() - started
        self.advance(ModelEvent.LOADED)

    def _load(self) -> None:
        services = self._services
        if is_ensemble(self.files.config):
            self._load_ensemble()
            return
        check_stub_name(self.name)
        self.config, source = services.backends.resolve(self.files.config, self.files.directory, self.version)
        pool, log = services.instances.pool, services.instances.log
        auto = ModelStub(pool, source, f"{self.name}_auto_complete", log) if services.auto_complete else None
        first: ModelStub | None = None
        try:
            # while one stub is asked for the configuration, the first instance's imports the same module
            first = ModelStub(pool, source, _first_instance(self.files.config), log)
            self._stubs = [first] if auto is None else [auto, first]
            self.config = self._complete_config(auto)
            self._prepare(first, source)
        except BaseException:
            if first is not None:
                first.kill()
            raise
        finally:
            self._stubs = []
            if auto is not None:
                threading.Thread(target=auto.kill, name="end auto complete", daemon=True).start()

    def _load_ensemble(self) -> None:
        """Nothing starts: the steps' models serve already, and the graph was checked against them
        (`ensemble_consistency`)."""
        services = self._services
        steps = self.files.config.ensemble_scheduling.step
        named = {(step_model(step), step.model_version) for step in steps}
        composing = {(name, version): services.find(name, version) for name, version in named}
        for version in composing.values():
            version.stats.composing = True

        def find(name: str, version: int) -> ModelConfig:
            return composing[name, version].config

        def infer(request: InferenceRequest) -> None:
            try:
                services.infer(request)
            except (NotFoundError, UnavailableError):
                version = composing[request.model_name, request.model_version]
                if version.state is ModelState.READY:
                    raise  # its queue is full
                # unloaded since, and with it this ensemble, whose last requests it still serves (rule 5.7.4)
                version.enqueue(request)

        self.config = self._normalized(self.config)
        self.labels = read_labels(self.config, self.files.directory)
        self.rules = RequestRules(self.config, model_name=self.name)
        graph = EnsembleGraph.of(self.config, find)
        clock, instruments = services.instances.clock, services.instances.instruments
        self.scheduler = EnsembleScheduler(
            self.name, self.version, graph, infer, clock, instruments, self.stats, self._warn
        )

    def _complete_config(self, auto: ModelStub | None) -> ModelConfig:
        config = self.config
        if auto is not None:
            auto.await_import()
            returned = auto.auto_complete(to_json(config))
            if returned is not None:
                config = self._merged(config, returned)
        return self._normalized(config)

    @staticmethod
    def _normalized(config: ModelConfig) -> ModelConfig:
        try:
            return final(config, gpu_ids=visible_gpus())
        except ConfigError as error:
            raise TritonError.of(error.code, error.reason) from error

    def _merged(self, config: ModelConfig, returned: dict[str, Any]) -> ModelConfig:
        try:
            return merge_auto_complete(config, returned)
        except ConfigError as error:
            if not self.files.configured:
                raise TritonError.of(error.code, error.reason) from error
            # Triton goes on with the configuration it has and says nothing (measured)
            cause = f": {error.detail}" if error.detail else ""
            self._warn(f"what auto_complete_config returned is no model configuration and is dropped{cause}")
            return config

    def _prepare(self, first: ModelStub, source: ModelSource) -> None:
        services, execution = self._services.instances, self._services.execution
        config = self.config
        self.labels = read_labels(config, self.files.directory)
        self.rules = RequestRules(config, model_name=self.name)
        self.first_response = self._services.metrics.first_response(config)
        self.scheduler = make_scheduler(
            self.name,
            self.version,
            config,
            self.files.directory,
            SchedulerServices(
                services.clock, services.instruments, self._services.timer, self.stats, self._warn, execution.limiter
            ),
        )
        self._running = ServingInstances(
            source, self.files.directory, self.rules, self.scheduler, services, self.stats, execution
        )
        self._running.start(config, first)

    def update_instances(self, files: ModelFiles) -> None:
        """Other instances for a configuration that differs in nothing else (rule 5.11.2); the version goes on serving.
        Blocking. Raises TritonError; then nothing has changed, and `reason` says why."""
        assert self._running is not None
        config = ModelConfig()
        config.CopyFrom(self.config)
        config.ClearField("instance_group")
        config.instance_group.extend(files.config.instance_group)
        try:
            config = self._normalized(config)
            self._running.update(config)
        except TritonError as error:
            self.reason = f"{error.code.text}: {error.message}"
            raise
        self.config, self.files, self.reason = config, files, ""

    def _entrance(self) -> Callable[[InferenceRequest], None]:
        """Where checked requests go: decided here, so that what is off costs a request nothing."""
        services, cache = self._services.instances, self._services.execution.cache
        if self.instances and all(instance.plan.passive for instance in self.instances):
            return self._refuse
        if not self.config.response_cache.enable:
            return self.scheduler.enqueue
        if cache is None:
            self._warn(
                "response_cache has no effect: the server has no cache. In a notebook `tritonlab.reset(cache_config="
                "'local,size=<bytes>')` makes one that has, elsewhere Server(…, cache_config=…) or --cache-config."
            )
            return self.scheduler.enqueue
        self._cached = CachedModel(
            cache,
            self.name,
            self.version,
            self.scheduler.enqueue,
            self.stats,
            services.clock,
            services.instruments,
            self._warn,
        )
        return self._cached.enqueue

    def _refuse(self, request: InferenceRequest) -> None:
        """2.51 crashes here."""
        raise UnavailableError(
            f"{request.prefix}all instance groups of model '{self.name}' are passive: nothing executes its requests"
        )

    def _warn(self, text: str) -> None:
        self._say("WARNING", text)

    def _say(self, level: str, text: str) -> None:
        log = self._services.instances.log
        log.add(LogRecord(time.time_ns(), self.name, self.version, "", "server", level, text))

    # -- use

    def enqueue(self, request: InferenceRequest) -> None:
        """Checks the request and hands it to the scheduler. Raises TritonError; then nothing was executed."""
        self.rules.check(request)
        self._submit(request)

    def withdraw(self, request: InferenceRequest, error: TritonError) -> bool:
        """Takes a request out of the queue and ends it with `error`; False if it is not there (any more)."""
        if not self.scheduler.withdraw(request):
            return False
        services = self._services.instances
        deliver_error(request, self.version, error, services.instruments, services.clock)
        return True

    def ready(self) -> bool:
        """READY, every stub alive, and the author's `is_ready()` agrees (rules 2.6.2, 2.6.3, 2.7)."""
        if self.state is not ModelState.READY:
            return False
        if any(instance.state is not InstanceState.READY for instance in self.instances):
            return False
        return not self._has_is_ready or self._author_says_ready()

    def failed(self) -> bool:
        """Whether an instance does not run: its stub died, and no other has come up yet."""
        return any(instance.state is InstanceState.FAILED for instance in self.instances)

    def _author_says_ready(self) -> bool:
        """Asks all instances at once. Why one is not ready is told in the log only, as by Triton (rule 2.7.4)."""
        checks = [instance.stub.readiness for instance in self.instances if instance.stub is not None]
        queries = [check.ask() for check in checks]
        try:
            answers = [check.await_ready(query) for check, query in zip(checks, queries, strict=True)]
        except UnavailableError as error:
            self._say("VERBOSE", error.message)
            return False
        self._has_is_ready = any(answers)
        return True

    # -- end

    def unload(self, reason: str = "unloaded") -> None:
        """Blocking: lets requests end, finalizes, ends the processes. The state is UNLOADING already."""
        self.scheduler.stop()
        if self._running is not None:
            self._running.stop()
        self._leave()
        self.advance(ModelEvent.UNLOADED, reason)

    def awaited(self) -> str:
        """What an unload waits for, in words; empty if that is over in a moment."""
        found = [text for instance in [*self.instances, *self.leaving] if (text := instance.awaited())]
        pending = self.scheduler.pending
        return ", ".join([*found, *([f"{pending} more in the queue"] if pending else [])])

    def abort(self) -> None:
        """Ends everything at once, whatever the state: requests that wait or execute fail, a load fails."""
        for stub in self._stubs:
            stub.kill()
        if self._running is not None:
            self._running.abort()
        elif isinstance(scheduler := getattr(self, "scheduler", None), EnsembleScheduler):  # a failed load has none
            scheduler.abort()
        self._leave()

    def _leave(self) -> None:
        """What the server keeps of this version goes: cached answers."""
        if self._cached is not None:
            self._cached.close()

    def __repr__(self) -> str:
        return f"<ModelVersion {self.name}/{self.version} [{self.state.value} | {len(self.instances)} instances]>"


def _first_instance(config: ModelConfig) -> str:
    """The first instance's name, for the log lines of its import; the final configuration decides (rule 2.3.2)."""
    specs = instance_specs(normalize_instance_groups(config, gpu_ids=visible_gpus()))
    return specs[0].name if specs else config.name
