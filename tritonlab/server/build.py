"""The composition of a server: its parts are made and connected only here, and never exchanged later.

A part gets the parts below it as objects, and calls to the parts above it, and to the server, as functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..core.clock import Clock, SystemClock
from ..core.inference.copies import Copies
from ..core.metrics.metric_registry import MetricRegistry
from ..core.metrics.metrics_config import MetricsConfig
from ..core.observe.failure_capsule import FailureBook
from ..core.observe.instrument import Instruments
from ..core.observe.log_settings import LogSetting, LogSettings
from ..core.observe.trace_settings import TraceSetting, TraceSettings
from ..core.status import InvalidArgumentError
from ..engine.calls.request_executor import RequestExecutor
from ..engine.calls.stub_calls import StubCalls
from ..engine.debugging.debugger import Debugger
from ..engine.life.instance_plan import InstanceServices
from ..engine.life.model_instance import ModelInstance
from ..engine.schedulers.timer import Timer
from ..ipc.gpu.gpu_buffers import GpuBuffers
from ..ipc.gpu.visible_gpus import VisibleGpus
from ..ipc.link.link_reader import LinkReader
from ..ipc.link.wait_policy import Cores
from ..ipc.processes.memory_room import ROOM
from ..ipc.processes.stub_launcher import StubProcess
from ..ipc.processes.stub_pool import StubPool
from ..repository.model_repository_manager import ModelRepositoryManager, check_repositories
from ..stub._pb_stub.devices.gpus import CUDA, SIMULATED
from .models.backend_choice import BackendChoices
from .models.backend_config import shm_settings
from .models.backends import Backends
from .models.global_map import GlobalMap
from .models.model_control import CONTROL_MODES, ModelControl
from .models.model_lifecycle import LoadServices
from .models.repository_poller import RepositoryPoller
from .models.serving_instances import ExecutionOptions
from .observe.announcer import Announcer
from .observe.idle_memory import IdleMemory
from .observe.metrics_text import FirstResponses, ServerMetrics
from .observe.requests_in_flight import survey
from .observe.tracer import Tracer
from .observe.watchdog import Watchdog
from .options import Options

#: Starts a request of a model or an ensemble; its second argument is the version if it was found before.
Infer = Callable[..., None]


class Parts(NamedTuple):
    """The parts of a server. Its models share `services`, their instances `services.instances`."""

    services: LoadServices
    metrics: MetricRegistry
    server_metrics: ServerMetrics
    trace_settings: TraceSettings
    log_settings: LogSettings
    link_reader: LinkReader
    tracer: Tracer
    executor: RequestExecutor
    control: ModelControl
    idle_memory: IdleMemory
    watchdog: Watchdog
    #: None outside the poll mode
    poller: RepositoryPoller | None


def build(repositories: Sequence[str | Path], options: Options, infer: Infer, metrics: MetricRegistry | None) -> Parts:
    """Build a server's parts; nothing runs yet. `metrics`: custom metrics that servers share. Raises TritonError."""
    mode = _control_mode(options)
    repository = _repository(repositories, options, choices := BackendChoices(options.backends))
    models = GlobalMap(repository.namespacing)
    clock, instruments = options.clock or SystemClock(), Instruments()
    timer, announcer = Timer(clock), Announcer(clock, instruments)
    later = partial(_call_later, clock, timer)
    gpus = VisibleGpus(options.simulated_gpus, partial(announcer.say, "WARNING"))
    trace_settings, tracer = _tracing(options, models, instruments, announcer)
    executor = _executor(options, infer, models, announcer, tracer, later=later, clock=clock, instruments=instruments)
    debugger = Debugger(later, options.postmortem_seconds)
    metrics = metrics if metrics is not None else MetricRegistry(announcer.metric, announcer.metric_made)
    server_metrics = ServerMetrics(config := options.metrics_config or MetricsConfig(), metrics, clock, gpus)
    if config.histogram_latencies:
        instruments.add(FirstResponses(models.find))
    link_reader = LinkReader(cores := Cores())
    pool = _pool(options, link_reader, gpus)
    calls = _stub_calls(models, lambda: control, metrics, executor=executor, announcer=announcer, debugger=debugger)
    instances = InstanceServices(
        pool,
        clock,
        instruments=instruments,
        log=announcer.log,
        cores=cores,
        on_call=calls,
        on_link_end=calls.end,
        later=later,
        failures=FailureBook(options.kept_failures),
        debugger=debugger,
    )
    services = _load_services(
        options, infer, models, choices, instances=instances, timer=timer, gpus=gpus, metrics=server_metrics
    )
    control = ModelControl(
        repository,
        models,
        services,
        mode,
        on_state=announcer.model_state,
        on_wait=announcer.unloading_waits,
        drain_seconds=options.drain_seconds,
    )
    idle = IdleMemory(partial(_model_processes, control), pool.memory, pool.gpu_buffers)
    ROOM.add(idle.give_back_now)
    watchdog = _watchdog(options, clock, timer, control, executor=executor, announcer=announcer, idle_memory=idle)
    return Parts(
        services=services,
        metrics=metrics,
        server_metrics=server_metrics,
        trace_settings=trace_settings,
        log_settings=LogSettings(options.log_setting or LogSetting()),
        link_reader=link_reader,
        tracer=tracer,
        executor=executor,
        control=control,
        idle_memory=idle,
        watchdog=watchdog,
        poller=_poller(options, repository, control=control, clock=clock, timer=timer),
    )


def _pool(options: Options, link_reader: LinkReader, gpus: VisibleGpus) -> StubPool:
    shm = shm_settings(options.backend_config or {})
    buffers = GpuBuffers(SIMULATED if gpus.simulated else CUDA, options.cuda_memory_pool_sizes)
    return StubPool(link_reader, warm=options.warm, shm=shm, gpu_buffers=buffers, audits=options.audit_reads)


def _executor(
    options: Options,
    infer: Infer,
    models: GlobalMap,
    announcer: Announcer,
    tracer: Tracer,
    later: Callable[[int, Callable[[], None]], None],
    clock: Clock,
    instruments: Instruments,
) -> RequestExecutor:
    return RequestExecutor(
        infer=infer,
        find=models.find,
        clock=clock,
        later=later,
        patience=int(options.watchdog_seconds * 1e9),
        adopt=tracer.adopt,
        called=announcer.called,
        copies=Copies(instruments, clock),
    )


def _load_services(
    options: Options,
    infer: Infer,
    models: GlobalMap,
    choices: BackendChoices,
    instances: InstanceServices[ModelInstance],
    timer: Timer,
    gpus: VisibleGpus,
    metrics: ServerMetrics,
) -> LoadServices:
    return LoadServices(
        instances,
        timer,
        backends=Backends(options.backend_directory, instances.log, choices, options.backend_config),
        infer=infer,
        find=models.find,
        stats=metrics.stats,
        first_response=metrics.first_response,
        gpus=gpus,
        auto_complete=not options.strict_model_config,
        load_retries=options.model_load_retry_count,
        execution=_execution_options(options),
    )


def check_options(options: Options) -> None:
    """Raise InvalidArgumentError for options with which no server can be built; builds nothing."""
    _control_mode(options)
    shm_settings(options.backend_config or {})
    BackendChoices(options.backends)
    _execution_options(options)
    VisibleGpus(options.simulated_gpus)


def _control_mode(options: Options) -> str:
    mode = options.model_control_mode
    if mode not in CONTROL_MODES:
        raise InvalidArgumentError(f"model_control_mode is '{mode}', expected one of {', '.join(CONTROL_MODES)}")
    return mode


def _execution_options(options: Options) -> ExecutionOptions:
    return ExecutionOptions.from_settings(
        options.cache_config, options.rate_limit, options.rate_limit_resource, options.count_warmup
    )


def _repository(
    repositories: Sequence[str | Path], options: Options, choices: BackendChoices
) -> ModelRepositoryManager:
    check_repositories(repositories)
    return ModelRepositoryManager(
        repositories,
        strict=options.strict_model_config,
        config_name=options.model_config_name,
        namespacing=options.model_namespacing,
        replaced=choices.replaces,
    )


def _tracing(
    options: Options, models: GlobalMap, instruments: Instruments, announcer: Announcer
) -> tuple[TraceSettings, Tracer]:
    settings = TraceSettings(options.trace_setting or TraceSetting(), models.ready, lambda: tracer.refresh())
    tracer = Tracer(settings, instruments, announcer.say)
    return settings, tracer


def _watchdog(
    options: Options,
    clock: Clock,
    timer: Timer,
    control: ModelControl,
    executor: RequestExecutor,
    announcer: Announcer,
    idle_memory: IdleMemory,
) -> Watchdog:
    return Watchdog(
        seconds=options.watchdog_seconds,
        clock=clock,
        timer=timer,
        survey=lambda: survey(control.running(), executor.calls(), clock.now()),
        calls=executor.calls,
        warn=announcer.requests_wait,
        on_quiet=idle_memory.look,
    )


def _stub_calls(
    models: GlobalMap,
    control: Callable[[], ModelControl],
    metrics: MetricRegistry,
    executor: RequestExecutor,
    announcer: Announcer,
    debugger: Debugger,
) -> StubCalls:
    return StubCalls(
        metrics,
        executor,
        announcer.polled,
        debugger,
        load=lambda *model: control().load(*model),
        unload=lambda *model: control().unload(*model),
        ready=models.ready,
    )


def _poller(
    options: Options, repository: ModelRepositoryManager, control: ModelControl, clock: Clock, timer: Timer
) -> RepositoryPoller | None:
    if options.model_control_mode != "poll":
        return None
    return RepositoryPoller(repository, control, clock, timer, seconds=options.repository_poll_secs)


def _call_later(clock: Clock, timer: Timer, ns: int, function: Callable[[], None]) -> None:
    timer.call_at(clock.now() + ns, function)


def _model_processes(control: ModelControl) -> list[StubProcess]:
    instances = [instance for version in control.running() for instance in version.instances]
    return [stub.process for instance in instances if (stub := instance.stub) is not None]
