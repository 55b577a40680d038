"""The life of a model version: from files to READY, and to its end.

load:    import in two stubs at once -> auto_complete_config in the one that is thrown away
         -> merge, check -> initialize -> READY
reload:  the same beside the running version; only when the new one is READY it takes over,
         and the old one finishes and finalizes
unload:  no new requests, requests in flight end, finalize, process ends

A configuration is completed in two steps, since a reload compares the result of the first before it starts anything:
`core.model_config_rules.polled` parses, autofills and validates when the repository is read, and `complete_config` here
calls the author's auto_complete_config, merges, normalises and validates.
"""

from __future__ import annotations

import enum
import os
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ...core.config.ensemble_graph import EnsembleGraph
from ...core.config.model_config import ConfigError, ModelConfig, placeholders, to_json
from ...core.config.model_config_rules import (
    final,
    instance_specs,
    is_ensemble,
    merge_auto_complete,
    normalize_instance_groups,
    step_model,
)
from ...core.config.model_config_validation import validate_instance_groups
from ...core.inference.delivery import deliver_error
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.request_rules import RequestRules
from ...core.metrics.infer_stats import InferStats
from ...core.metrics.latency_stats import Histogram
from ...core.status import InternalError, ModelError, NotFoundError, TritonError, UnavailableError
from ...engine.life.instance_plan import InstanceServices
from ...engine.life.instance_state import InstanceState
from ...engine.life.model_instance import ModelInstance
from ...engine.life.model_stub import ModelSource, ModelStub
from ...engine.schedulers.ensemble_scheduler import EnsembleScheduler
from ...engine.schedulers.scheduler import Scheduler, SchedulerServices
from ...engine.schedulers.scheduler_factory import make_scheduler
from ...engine.schedulers.timer import Timer
from ...ipc.gpu.visible_gpus import VisibleGpus
from ...ipc.processes.stub_log import LogBook, LogRecord
from ...repository.layout import MODEL_FILE, Labels, read_labels, read_version
from ...repository.model_repository_manager import ModelFiles
from .backend_config import check_stub_name
from .backends import Backends, MissingBackend, in_own_words
from .response_cache import CachedModel
from .serving_instances import ExecutionOptions, ServingInstances


class ModelState(enum.Enum):
    """The states as the repository index reports them (rule 5.11.7)."""

    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


class ModelEvent(enum.Enum):
    LOADED = "loaded"
    FAILED = "failed"
    UNLOAD = "unload"
    UNLOADED = "unloaded"


#: The error of a load that was stopped.
_STOPPED = "the load was stopped"

#: Any other pair is a defect of the server and raises.
TRANSITIONS = {
    (ModelState.LOADING, ModelEvent.LOADED): ModelState.READY,
    (ModelState.LOADING, ModelEvent.FAILED): ModelState.UNAVAILABLE,
    (ModelState.READY, ModelEvent.UNLOAD): ModelState.UNLOADING,
    (ModelState.UNLOADING, ModelEvent.UNLOADED): ModelState.UNAVAILABLE,
}


@dataclass(frozen=True)
class LoadServices:
    """The server's services for loading."""

    instances: InstanceServices[ModelInstance]
    timer: Timer
    backends: Backends
    #: `InferenceServer.infer` and `.find`, by which ensembles send requests to their steps' models
    infer: Callable[[InferenceRequest], None]
    find: Callable[[str, int], ModelVersion]
    #: make the counters of a new version, by the server's metrics configuration
    stats: Callable[[], InferStats]
    first_response: Callable[[ModelConfig], Histogram | None]
    gpus: VisibleGpus
    auto_complete: bool = True
    #: how often a version that fails to load is tried again; negative is without end
    load_retries: int = 0
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)


@dataclass(frozen=True)
class VersionParts:
    """The parts with which a version runs."""

    config: ModelConfig
    labels: Labels
    rules: RequestRules
    scheduler: Scheduler
    first_response: Histogram | None = None


class ModelVersion:
    """One loaded version: its configuration, rules, scheduler and instances.

    `on_state` gets every state change as (version, reason).
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
        self._is_stopped = False
        self.load_ns, self.load_started = 0, services.instances.clock.now()
        self.config: ModelConfig = files.config
        self.labels: Labels = {}
        self.rules: RequestRules
        self.scheduler: Scheduler
        self.stats = services.stats()
        self.first_response: Histogram | None = None
        self._say = partial(_say, services.instances.log, self.name, version)
        self._warn = partial(self._say, "WARNING")
        self.loading = VersionLoad(files, version, services=services, stats=self.stats, warn=self._warn)
        self._services = services
        self._on_state = on_state
        self._has_is_ready = True
        #: takes requests that `rules` have checked. Raises TritonError; then nothing was executed
        self.submit: Callable[[InferenceRequest], None]
        self._cached: CachedModel | None = None

    @property
    def instances(self) -> list[ModelInstance]:
        """The instances that serve; an ensemble has none."""
        running = self.loading.instances
        return running.serving if running is not None else []

    @property
    def leaving(self) -> list[ModelInstance]:
        """The replaced instances, which only finish their last requests."""
        running = self.loading.instances
        return list(running.leaving) if running is not None else []

    @property
    def warming(self) -> list[ModelInstance]:
        """The instances that execute their warmup."""
        running = self.loading.instances
        return running.warming() if running is not None else []

    @property
    def serves(self) -> bool:
        """Return whether new requests go to this version."""
        return self.state is ModelState.READY

    def advance(self, event: ModelEvent, reason: str = "") -> None:
        self.state = TRANSITIONS[self.state, event]
        self.reason = reason
        self._on_state(self, reason)

    # -- load

    def load(self) -> None:
        """Load the version; blocks. Raises TritonError; a load failure is `<Code>: <its text>` (rule 2.5.1)."""
        clock = self._services.instances.clock
        self.load_started = clock.now()
        self._on_state(self, "")
        try:
            parts = self.loading.make_parts()
            self.config, self.labels, self.rules = parts.config, parts.labels, parts.rules
            self.scheduler, self.first_response = parts.scheduler, parts.first_response
            self.submit = self._entrance()
        except TritonError as error:
            if self._is_stopped:  # which kills the stub: its end is not the failure
                stopped = UnavailableError(_STOPPED)
                self.advance(ModelEvent.FAILED, f"{stopped.code.text}: {stopped.message}")
                raise stopped from None
            offer = f"\n{error.offer}" if isinstance(error, MissingBackend) else ""
            self.advance(ModelEvent.FAILED, f"{error.code.text}: {error.message}{offer}")
            raise
        except Exception as error:  # with any files, only this version fails
            self._say("ERROR", "".join(traceback.format_exception(error)))
            failed = InternalError(f"{type(error).__name__}: {error}")
            self.advance(ModelEvent.FAILED, f"{failed.code.text}: {failed.message}")
            raise failed from error
        except BaseException as error:
            self.advance(ModelEvent.FAILED, str(error) or f"{type(error).__name__} while loading")
            raise
        self.load_ns = clock.now() - self.load_started
        self.advance(ModelEvent.LOADED)

    def update_instances(self, files: ModelFiles) -> None:
        """Replace the instances for a configuration that differs only in them (rule 5.11.2), while the version
        continues to serve; blocks. Raises TritonError; then nothing has changed, and `reason` says why.
        """
        assert self.loading.instances is not None
        config = ModelConfig()
        config.CopyFrom(self.config)
        config.ClearField("instance_group")
        config.instance_group.extend(files.config.instance_group)
        try:
            config = final_config(config, self._services.gpus)
            self.loading.instances.update(config)
        except TritonError as error:
            self.reason = f"{error.code.text}: {error.message}"
            raise
        self.config, self.files, self.reason = config, files, ""

    def _entrance(self) -> Callable[[InferenceRequest], None]:
        """Return the function that takes checked requests, chosen so that unused features cost a request nothing."""
        cache = self._services.execution.cache
        instances = self.instances
        if instances and all(instance.plan.passive for instance in instances):
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
            outputs=[output.name for output in self.config.output],
            execute=self.scheduler.enqueue,
            services=self.loading.scheduler_services(),
        )
        return self._cached.enqueue

    def _refuse(self, request: InferenceRequest) -> None:
        """Refuse a request that crashes Triton 2.51."""
        raise UnavailableError(
            f"{request.prefix}all instance groups of model '{self.name}' are passive: nothing executes its requests"
        )

    # -- use

    def withdraw(self, request: InferenceRequest, error: TritonError) -> bool:
        """Take a request out of the queue and end it with `error`; returns False if it is no longer queued."""
        if not self.scheduler.withdraw(request):
            return False
        services = self._services.instances
        deliver_error(request, self.version, error=error, instruments=services.instruments, clock=services.clock)
        return True

    def ready(self) -> bool:
        """Return whether it is READY, every stub lives, and `is_ready()` returns True (rules 2.6.2, 2.6.3, 2.7)."""
        if self.state is not ModelState.READY:
            return False
        if any(instance.state is not InstanceState.READY for instance in self.instances):
            return False
        return not self._has_is_ready or self._author_says_ready()

    def failed(self) -> bool:
        """Return whether an instance does not run: its stub died, and its successor is not READY yet."""
        return any(instance.state is InstanceState.FAILED for instance in self.instances)

    def _author_says_ready(self) -> bool:
        """Query all instances at once. Only the log has the reason why one is not ready, as in Triton (rule 2.7.4)."""
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
        """Wait for the requests to end, finalize, and end the processes; blocks. The state is already UNLOADING."""
        self.scheduler.stop()
        if self.loading.instances is not None:
            self.loading.instances.stop()
        self._leave()
        self.advance(ModelEvent.UNLOADED, reason)

    def awaited(self) -> str:
        """Return the waits of an unload in words; empty if it is almost over."""
        found = [text for instance in [*self.instances, *self.leaving] if (text := instance.awaited())]
        pending = self.scheduler.pending
        return ", ".join([*found, *([f"{pending} more in the queue"] if pending else [])])

    def stop_loading(self) -> None:
        """Make the running load fail."""
        self._is_stopped = True
        self.abort()

    def abort(self) -> None:
        """End everything at once, in any state: waiting and executing requests fail, a load fails."""
        self.loading.abort()
        if isinstance(scheduler := getattr(self, "scheduler", None), EnsembleScheduler):  # a failed load has none
            scheduler.abort()
        self._leave()

    def _leave(self) -> None:
        """Drop the server's data on this version: cached answers."""
        if self._cached is not None:
            self._cached.close()

    def __repr__(self) -> str:
        return f"<ModelVersion {self.name}/{self.version} [{self.state.value} | {len(self.instances)} instances]>"


class VersionLoad:
    """The load of a version, once. `warn` gets the lines that Triton writes to its log, or should write."""

    def __init__(
        self, files: ModelFiles, version: int, services: LoadServices, stats: InferStats, warn: Callable[[str], None]
    ) -> None:
        #: None for an ensemble, and for other models before the instances start
        self.instances: ServingInstances | None = None
        self._files = files
        self._version = version
        self._services = services
        self._stats = stats
        self._warn = warn
        self._importing: list[ModelStub] = []
        self._grouped: ModelConfig

    def make_parts(self) -> VersionParts:
        """Make the parts of the version, and start it; blocks. Raises TritonError; then nothing runs."""
        return self._ensemble() if is_ensemble(self._files.config) else self._model()

    def stacks(self, seconds: float) -> dict[str, str]:
        """Return the stacks of the processes that load it, by instance, as far as they answer in time."""
        return {stub.instance: text for stub in self._importing if (text := stub.dump_stacks(seconds))}

    def imports_again(self) -> str:
        """Return the modules that it imports itself while it loads, and why; empty if they were ready."""
        return next((stub.process.imports_again for stub in self._importing), "")

    def abort(self) -> None:
        """End all its processes, also while it loads; then `make_parts` raises."""
        for stub in self._importing:
            stub.kill()
        if self.instances is not None:
            self.instances.abort()

    def _model(self) -> VersionParts:
        services, files = self._services, self._files
        check_stub_name(files.name)
        self._check_directory()
        self._warn_of_placeholders()
        config, source = services.backends.resolve(files.config, files.directory, self._version, self._group)
        pool, log = services.instances.pool, services.instances.log
        auto = ModelStub(pool, source, f"{files.name}_auto_complete", log) if services.auto_complete else None
        first: ModelStub | None = None
        try:
            # while one stub runs auto_complete_config, the first instance's stub imports the same module
            specs = instance_specs(self._grouped)  # the final configuration may change its name (rule 2.3.2)
            instance = specs[0].name if specs else str(self._grouped.name)
            like = auto.process if auto is not None else None
            first = ModelStub(pool, source, instance=instance, log=log, like=like)
            self._importing = [first] if auto is None else [auto, first]
            config = complete_config(config, auto, configured=files.configured, warn=self._warn, gpus=services.gpus)
            return self._start(config, first, source)
        except BaseException as error:
            if first is not None:
                first.kill()
            if isinstance(error, ModelError):
                raise in_own_words(source, error) from error
            raise
        finally:
            self._importing = []
            if auto is not None:
                threading.Thread(target=auto.kill, name="end auto complete", daemon=True).start()

    def _check_directory(self) -> None:
        """Refuse a version whose number comes from a directory of another name (rule 2.1.1). Raises ModelError."""
        place, number = self._files.directory / str(self._version), self._version
        if number >= 0 and place.is_dir():
            return
        with os.scandir(place.parent) as entries:
            name = next((entry.name for entry in entries if read_version(entry) == number), place.name)
        if number < 0 or name != place.name:
            file = place / (self._files.config.default_model_filename or MODEL_FILE)
            raise ModelError(
                f"Python model file not found in '{file}'",
                reason=f"Triton reads the name of the directory '{name}' as version {number}: rename "
                "the directory, so that its name does not begin with a number, or move it out of the model's",
            )

    def _group(self, config: ModelConfig) -> None:
        """Give the configuration its instance groups and check them, as Triton does before it examines the model's
        environment and code (rule 5.3.3). Raises TritonError.
        """
        gpus = self._services.gpus.ordinals
        self._grouped = normalize_instance_groups(config, gpu_ids=gpus)
        try:
            validate_instance_groups(self._grouped, gpu_ids=gpus)
        except ConfigError as error:
            raise TritonError.from_code(error.code, error.reason) from error

    def _warn_of_placeholders(self) -> None:
        parameters = self._files.config.parameters
        for key in sorted(parameters):
            if unfilled := placeholders(parameters[key].string_value):
                self._warn(
                    f"the parameter '{key}' still has {', '.join(unfilled)} of its template: write a value for it"
                )

    def _start(self, config: ModelConfig, first: ModelStub, source: ModelSource) -> VersionParts:
        """Start the instances of the final configuration; `first` is already importing the model."""
        services, execution = self._services.instances, self._services.execution
        name, directory = self._files.name, self._files.directory
        labels = read_labels(config, directory, self._files.base)
        rules = RequestRules(config, model_name=name)
        first_response = self._services.first_response(config)
        scheduler = make_scheduler(name, self._version, config, directory, self.scheduler_services())
        simulated = self._services.gpus.simulated
        self.instances = ServingInstances(
            source,
            directory,
            rules=rules,
            scheduler=scheduler,
            services=services,
            stats=self._stats,
            execution=execution,
            simulated=simulated,
        )
        self.instances.start(config, first)
        return VersionParts(config, labels, rules=rules, scheduler=scheduler, first_response=first_response)

    def _ensemble(self) -> VersionParts:
        """Make the parts of an ensemble. Nothing starts: the steps' models already serve, and the graph was checked
        against them (`ensemble_consistency`).
        """
        services, files = self._services, self._files
        named = {(step_model(step), step.model_version) for step in files.config.ensemble_scheduling.step}
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
                if version.serves:
                    raise  # its queue is full
                # unloaded since, like this ensemble, for whose last requests it still serves (rule 5.7.4)
                version.rules.check(request)
                version.submit(request)

        config = final_config(files.config, services.gpus)
        labels = read_labels(config, files.directory, files.base)
        rules = RequestRules(config, model_name=files.name)
        graph = EnsembleGraph.from_config(config, find)
        scheduler = EnsembleScheduler(files.name, self._version, graph, infer, self.scheduler_services())
        return VersionParts(config, labels, rules, scheduler)

    def scheduler_services(self) -> SchedulerServices:
        shared, timer, limiter = self._services.instances, self._services.timer, self._services.execution.limiter
        return SchedulerServices(
            shared.clock, shared.instruments, timer, stats=self._stats, warn=self._warn, limiter=limiter
        )


def complete_config(
    config: ModelConfig, auto: ModelStub | None, configured: bool, warn: Callable[[str], None], gpus: VisibleGpus
) -> ModelConfig:
    """Return the final configuration, completed by the author's auto_complete_config in the stub `auto`. `configured`:
    whether a config.pbtxt exists. Raises TritonError.
    """
    if auto is not None and auto.await_import():
        returned = auto.auto_complete(to_json(config))
        try:
            config = config if returned is None else merge_auto_complete(config, returned)
        except ConfigError as error:
            if not configured:
                raise TritonError.from_code(error.code, error.reason) from error
            # Triton silently continues with its configuration (measured)
            cause = f": {error.detail}" if error.detail else ""
            warn(f"what auto_complete_config returned is not a model configuration and is dropped{cause}")
    return final_config(config, gpus)


def final_config(config: ModelConfig, gpus: VisibleGpus) -> ModelConfig:
    """Return the configuration with which a model runs (table 5.3.2), placed on these GPUs. Raises TritonError."""
    try:
        return final(config, gpu_ids=gpus.ordinals)
    except ConfigError as error:
        raise TritonError.from_code(error.code, error.reason) from error


def _say(log: LogBook, name: str, version: int, level: str, text: str) -> None:
    """Add a line to the server's log under the version's name."""
    log.add(LogRecord.from_server(level, text, name, version))
