"""What a model version runs on: its final configuration, rules, scheduler and instances.

A configuration is completed in two steps, since a reload compares what the first gave before it starts anything:
`core.model_config_rules.polled` parses, autofills and validates when the repository is read, and `complete_config` here
calls the author's auto_complete_config, merges, normalises and validates.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

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
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.request_rules import RequestRules
from ...core.metrics.infer_stats import InferStats
from ...core.metrics.latency_stats import Histogram
from ...core.status import NotFoundError, TritonError, UnavailableError
from ...instances.life.instance_plan import InstanceServices
from ...instances.life.model_instance import ModelInstance
from ...instances.life.model_stub import ModelSource, ModelStub
from ...ipc.gpu.visible_gpus import VisibleGpus
from ...schedulers.ensemble_scheduler import EnsembleScheduler
from ...schedulers.scheduler import Scheduler
from ...schedulers.scheduler_factory import SchedulerServices, make_scheduler
from ...schedulers.timer import Timer
from .backend_config import check_stub_name
from .backends import Backends
from .execution_options import ExecutionOptions
from .label_provider import Labels, read_labels
from .model_repository_manager import ModelFiles
from .serving_instances import ServingInstances


class VersionMetrics(Protocol):
    """The maker of what a new version counts into, by the server's metrics configuration."""

    def stats(self) -> InferStats: ...

    def first_response(self, config: ModelConfig) -> Histogram | None: ...


class ComposingVersion(Protocol):
    """What an ensemble needs of the version that a step names (`model_lifecycle.ModelVersion`)."""

    config: ModelConfig
    stats: InferStats

    @property
    def serves(self) -> bool: ...

    def enqueue(self, request: InferenceRequest) -> None: ...


@dataclass(frozen=True)
class LoadServices:
    """What loading needs of the server."""

    instances: InstanceServices[ModelInstance]
    timer: Timer
    backends: Backends
    #: `InferenceServer.infer` and `.find`: ensembles ask their steps' models
    infer: Callable[[InferenceRequest], None]
    find: Callable[[str, int], ComposingVersion]
    metrics: VersionMetrics
    gpus: VisibleGpus
    auto_complete: bool = True
    #: how often a version that fails to load is tried again; negative is without end
    load_retries: int = 0
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)


@dataclass(frozen=True)
class VersionParts:
    """What a version runs on."""

    config: ModelConfig
    labels: Labels
    rules: RequestRules
    scheduler: Scheduler
    first_response: Histogram | None = None


class VersionLoad:
    """The load of a version, once. `warn` gets what Triton writes into its log, and what it should write."""

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

    def load(self) -> VersionParts:
        """Load the version; blocks. Raises TritonError; then nothing runs."""
        return self._ensemble() if is_ensemble(self._files.config) else self._model()

    def stacks(self, seconds: float) -> dict[str, str]:
        """Return what the processes are doing that load it, by instance, as far as each says so in that time."""
        return {stub.instance: text for stub in self._importing if (text := stub.dump_stacks(seconds))}

    def imports_anew(self) -> str:
        """Return which modules it imports itself while it loads, and why; empty if they were ready."""
        return next((stub.process.imports_anew for stub in self._importing), "")

    def abort(self) -> None:
        """End all that runs, also while it loads; then `load` raises."""
        for stub in self._importing:
            stub.kill()
        if self.instances is not None:
            self.instances.abort()

    def _model(self) -> VersionParts:
        services, files = self._services, self._files
        check_stub_name(files.name)
        self._warn_of_placeholders()
        check = partial(check_instance_groups, gpus=services.gpus)
        config, source = services.backends.resolve(files.config, files.directory, self._version, check)
        pool, log = services.instances.pool, services.instances.log
        auto = ModelStub(pool, source, f"{files.name}_auto_complete", log) if services.auto_complete else None
        first: ModelStub | None = None
        try:
            # while one stub is asked for the configuration, the first instance's imports the same module
            first = ModelStub(pool, source, _first_instance(files.config, services.gpus), log)
            self._importing = [first] if auto is None else [auto, first]
            config = complete_config(config, auto, files.configured, self._warn, services.gpus)
            return self._start(config, first, source)
        except BaseException:
            if first is not None:
                first.kill()
            raise
        finally:
            self._importing = []
            if auto is not None:
                threading.Thread(target=auto.kill, name="end auto complete", daemon=True).start()

    def _warn_of_placeholders(self) -> None:
        parameters = self._files.config.parameters
        for key in sorted(parameters):
            if unfilled := placeholders(parameters[key].string_value):
                self._warn(
                    f"the parameter '{key}' still has {', '.join(unfilled)} of its template: write a value for it"
                )

    def _start(self, config: ModelConfig, first: ModelStub, source: ModelSource) -> VersionParts:
        """Start the instances of the final configuration; `first` imports the model already."""
        services, execution = self._services.instances, self._services.execution
        name, directory = self._files.name, self._files.directory
        labels = read_labels(config, directory)
        rules = RequestRules(config, model_name=name)
        first_response = self._services.metrics.first_response(config)
        timer, clock, instruments = self._services.timer, services.clock, services.instruments
        shared = SchedulerServices(clock, instruments, timer, self._stats, self._warn, execution.limiter)
        scheduler = make_scheduler(name, self._version, config, directory, services=shared)
        simulated = self._services.gpus.simulated
        self.instances = ServingInstances(
            source, directory, rules, scheduler, services, self._stats, execution, simulated
        )
        self.instances.start(config, first)
        return VersionParts(config, labels, rules, scheduler, first_response)

    def _ensemble(self) -> VersionParts:
        """Make the parts of an ensemble. Nothing starts: the steps' models serve already, and the graph was checked
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
                # unloaded since, and with it this ensemble, whose last requests it still serves (rule 5.7.4)
                version.enqueue(request)

        config = final_config(files.config, services.gpus)
        labels = read_labels(config, files.directory)
        rules = RequestRules(config, model_name=files.name)
        graph = EnsembleGraph.from_config(config, find)
        clock, instruments = services.instances.clock, services.instances.instruments
        scheduler = EnsembleScheduler(
            files.name, self._version, graph, infer, clock, instruments, self._stats, self._warn
        )
        return VersionParts(config, labels, rules, scheduler)


def complete_config(
    config: ModelConfig, auto: ModelStub | None, configured: bool, warn: Callable[[str], None], gpus: VisibleGpus
) -> ModelConfig:
    """Return the final configuration, with what the author's auto_complete_config, called in the stub `auto`, adds to
    it. `configured`: whether there is a config.pbtxt. Raises TritonError.
    """
    if auto is not None:
        auto.await_import()
        returned = auto.auto_complete(to_json(config))
        try:
            config = config if returned is None else merge_auto_complete(config, returned)
        except ConfigError as error:
            if not configured:
                raise TritonError.from_code(error.code, error.reason) from error
            # Triton goes on with the configuration it has and says nothing (measured)
            cause = f": {error.detail}" if error.detail else ""
            warn(f"what auto_complete_config returned is not a model configuration and is dropped{cause}")
    return final_config(config, gpus)


def final_config(config: ModelConfig, gpus: VisibleGpus) -> ModelConfig:
    """Return the configuration that a model runs with (table 5.3.2), placed on these GPUs. Raises TritonError."""
    try:
        return final(config, gpu_ids=gpus.ordinals)
    except ConfigError as error:
        raise TritonError.from_code(error.code, error.reason) from error


def check_instance_groups(config: ModelConfig, gpus: VisibleGpus) -> None:
    """Check the instance groups, which Triton does before it looks at the model's environment and its code (rule
    5.3.3). Raises TritonError."""
    grouped = normalize_instance_groups(config, gpu_ids=gpus.ordinals)
    try:
        validate_instance_groups(grouped, gpu_ids=gpus.ordinals)
    except ConfigError as error:
        raise TritonError.from_code(error.code, error.reason) from error


def _first_instance(config: ModelConfig, gpus: VisibleGpus) -> str:
    """Return the first instance's name, for the log lines of its import; the final configuration decides (rule
    2.3.2)."""
    specs = instance_specs(normalize_instance_groups(config, gpu_ids=gpus.ordinals))
    return specs[0].name if specs else config.name
