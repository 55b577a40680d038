"""The instances of a serving version, replaced while it serves (rule 5.11.2)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ...core.config.model_config import ModelConfig
from ...core.config.model_config_rules import InstanceSpec, instance_args, instance_specs
from ...core.inference.output_reshape import OutputReshapes
from ...core.inference.request_rules import RequestRules
from ...core.metrics.infer_stats import InferStats
from ...core.status import ModelError, TritonError, UnavailableError
from ...engine.execution.rate_limiter import Limits, RateLimiter, make_rate_limiter
from ...engine.life.instance_group import abort_instances, make_instances, start_instances, stop_instances
from ...engine.life.instance_plan import InstanceEvents, InstancePlan, InstanceServices
from ...engine.life.model_instance import ModelInstance
from ...engine.life.model_stub import ModelSource, ModelStub
from ...engine.life.warmup import Warmup
from ...engine.schedulers.dynamic_batch_scheduler import DynamicBatchScheduler
from ...engine.schedulers.scheduler import InstanceScheduler
from .backend_config import check_stub_name
from .backends import force_cpu_only
from .response_cache import ResponseCache, parse_cache_config

Instance = TypeVar("Instance")
#: The properties that two instances must share to replace one another: device, and the group without name and count.
Signature = tuple[int, bytes]


@dataclass(frozen=True)
class ExecutionOptions:
    """The server's options of execution. `limiter` and `cache` are None if the server has none. `count_warmup`: whether
    warmup counts in the statistics.
    """

    limiter: RateLimiter | None = None
    cache: ResponseCache | None = None
    count_warmup: bool = True

    @staticmethod
    def from_settings(
        cache_config: str, rate_limit: str, rate_limit_resource: Limits | None, count_warmup: bool
    ) -> ExecutionOptions:
        """Make the options from the server's arguments. Raises InvalidArgumentError."""
        size = parse_cache_config(cache_config)
        limiter = make_rate_limiter(rate_limit, rate_limit_resource)
        return ExecutionOptions(limiter, ResponseCache(size) if size else None, count_warmup)


class ServingInstances:
    """The start, changes and end of a version's instances; its scheduler is informed of each step. `directory`: the
    model's. `simulated`: whether the GPUs are simulated.
    """

    def __init__(
        self,
        source: ModelSource,
        directory: Path,
        rules: RequestRules,
        scheduler: InstanceScheduler,
        services: InstanceServices[ModelInstance],
        stats: InferStats,
        execution: ExecutionOptions,
        simulated: bool,
    ) -> None:
        #: replaced whole, never changed
        self.serving: list[ModelInstance] = []
        #: the replaced instances, which finish their last requests
        self.leaving: dict[ModelInstance, threading.Thread] = {}
        self._source = source
        self._directory = directory
        self._rules = rules
        self._scheduler = scheduler
        self._services = services
        self._stats = stats
        self._execution = execution
        self._simulated = simulated
        #: the configuration and group by which each was started
        self._origins: dict[ModelInstance, tuple[ModelConfig, InstanceSpec]] = {}
        self._starting: list[ModelInstance] = []

    def start(self, config: ModelConfig, first: ModelStub) -> None:
        """Start all instances of a final configuration; `first` already imports the model for the first of them.
        Blocks. Raises TritonError; then none runs.
        """
        self.serving = self._start(config, instance_specs(config), first)
        self._starting = []

    def update(self, config: ModelConfig) -> None:
        """Start the additional instances of `config`, then end the surplus ones; equal instances continue, whatever
        their names. Blocks until the start is over. Raises TritonError; then nothing has changed.
        """
        wanted = [(spec, _signature(config, spec)) for spec in instance_specs(config)]
        staying, new = match_instances([(i, _signature(*self._origins[i])) for i in self.serving], wanted)
        started = self._start(config, new) if new else []
        leaving = [instance for instance in self.serving if instance not in staying]
        self.serving = [*staying, *started]
        self._starting = []
        for instance in leaving:
            name = f"end {instance.plan.name}"
            thread = threading.Thread(target=self._leave, args=(instance,), name=name, daemon=True)
            self.leaving[instance] = thread
            thread.start()

    def stop(self) -> None:
        """Wait until all have finished their requests and finalized, after the scheduler has stopped. Blocks."""
        stop_instances(self.serving)
        for thread in list(self.leaving.values()):
            thread.join()
        self._unregister(self.serving)

    def abort(self) -> None:
        """End all at once, also starting ones; waiting and executing requests fail."""
        self._drop([*self.serving, *self.leaving, *self._starting])

    def _drop(self, instances: Sequence[ModelInstance]) -> None:
        abort_instances(instances)
        for instance in instances:
            self._scheduler.instance_gone(instance, UnavailableError("Server exited before the request completed"))
        self._unregister(instances)

    def warming(self) -> list[ModelInstance]:
        """Return the instances that execute their warmup."""
        return [instance for instance in [*self.serving, *self._starting] if instance.warmup is not None]

    def _start(
        self, config: ModelConfig, specs: Sequence[InstanceSpec], first: ModelStub | None = None
    ) -> list[ModelInstance]:
        plans = self._plans(config, specs)
        instances = make_instances(plans, self._services, self._stats, self._events(config))
        self._starting = instances
        try:
            start_instances(instances, first)
            self._limit(instances, specs)
            for instance, spec in zip(instances, specs, strict=True):
                self._origins[instance] = config, spec
                if not spec.passive:
                    self._scheduler.instance_ready(instance)
        except BaseException:  # an interrupt may come after the last one has started
            self._drop(instances)
            raise
        return instances

    def _plans(self, config: ModelConfig, specs: Sequence[InstanceSpec]) -> list[InstancePlan]:
        warmup = None
        if config.model_warmup:
            warmup = Warmup(config, self._directory, self._rules, counted=self._execution.count_warmup)
        reshapes, device_inputs = OutputReshapes.from_config(config), not force_cpu_only(config)
        directory, version = str(self._directory), self._source.version
        for spec in specs:
            check_stub_name(spec.name)
        return [
            InstancePlan(
                source=self._source,
                name=spec.name,
                kind=spec.kind,
                device_id=spec.device_id,
                args=instance_args(config, spec, model_directory=directory, version=version),
                outputs=self._rules.output_names,
                decoupled=self._rules.decoupled,
                reshapes=reshapes,
                warmup=warmup,
                passive=spec.passive,
                simulated=self._simulated,
                device_inputs=device_inputs,
            )
            for spec in specs
        ]

    def _events(self, config: ModelConfig) -> InstanceEvents[ModelInstance]:
        events = InstanceEvents(
            idle=self._scheduler.instance_idle,
            away=self._scheduler.instance_away,
            gone=self._instance_gone,
            ready=self._scheduler.instance_ready,
            reschedule=self._scheduler.reschedule,
            iterative=config.sequence_batching.iterative_sequence,
            leads=not (config.dynamic_batching.preserve_ordering or config.sequence_batching.oldest.preserve_ordering),
        )
        limiter = self._execution.limiter
        return events if limiter is None else limiter.events(events)

    def _limit(self, instances: Sequence[ModelInstance], specs: Sequence[InstanceSpec]) -> None:
        """Register the resources that instances need (rule 5.10.2), after `initialize` as Triton does. Raises
        InvalidArgumentError for resources that will never exist.
        """
        limiter = self._execution.limiter
        if limiter is None:
            return
        try:
            for instance, spec in zip(instances, specs, strict=True):
                if not spec.passive:
                    limiter.register(instance, spec.rate_limiter, spec.device_id)
                    instance.limiter = limiter
        except TritonError:
            stop_instances(instances)
            raise

    def _unregister(self, instances: Sequence[ModelInstance]) -> None:
        if (limiter := self._execution.limiter) is not None:
            for instance in instances:
                limiter.unregister(instance)

    def _instance_gone(self, instance: ModelInstance) -> None:
        reason = instance.replacement.last_death
        error = ModelError(f"Stub process '{instance.plan.name}' is not healthy.", reason=reason)
        self._scheduler.instance_gone(instance, error)

    def _leave(self, instance: ModelInstance) -> None:
        """Remove one instance from a scheduler that continues, and end it."""
        assert isinstance(self._scheduler, DynamicBatchScheduler)  # see `loaded_model.find_changes`
        left = threading.Event()
        instance.retire()
        self._scheduler.instance_leaves(instance, left.set)
        left.wait()
        self._instance_gone(instance)
        self._unregister([instance])
        instance.stop()
        self._origins.pop(instance, None)
        self.leaving.pop(instance, None)


def match_instances(
    running: Sequence[tuple[Instance, Signature]], wanted: Sequence[tuple[InstanceSpec, Signature]]
) -> tuple[list[Instance], list[InstanceSpec]]:
    """Return the running instances to keep, and the instances to start.

    The last of equal ones stays, as in Triton, so the names may come out odd: of three, `m_0_1` and `m_0_2` stay for
    two, and a third is then another `m_0_2` (measured).
    """
    free: dict[Signature, list[Instance]] = {}
    for instance, signature in running:
        free.setdefault(signature, []).append(instance)
    staying: list[Instance] = []
    new: list[InstanceSpec] = []
    for spec, signature in wanted:
        if free.get(signature):
            staying.append(free[signature].pop())
        else:
            new.append(spec)
    return staying, new


def _signature(config: ModelConfig, spec: InstanceSpec) -> Signature:
    group = next(group for group in config.instance_group if group.name == spec.group)
    rest = type(group)()
    rest.CopyFrom(group)
    for field in ("name", "count", "gpus"):
        rest.ClearField(field)
    return spec.device_id, rest.SerializeToString(deterministic=True)
