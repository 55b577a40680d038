"""The configuration's metrics: counts of model versions, the machine's usage, and the text of /metrics (rule 5.13)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ...core.clock import Clock
from ...core.config.model_config import ModelConfig
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.metrics.infer_stats import InferStats
from ...core.metrics.latency_stats import Histogram, LatencyStats
from ...core.metrics.metric_registry import MetricRegistry
from ...core.metrics.metrics_config import MetricsConfig, first_response_buckets
from ...core.metrics.model_metrics import ModelMetrics
from ...core.metrics.server_metrics import (
    CpuUsage,
    GpuUsage,
    cache_families,
    cpu_families,
    gpu_families,
    pinned_families,
)
from ...core.observe.instrument import Instrument
from ...core.status import TritonError
from ...ipc.gpu.nvml import Nvml
from ...ipc.gpu.visible_gpus import VisibleGpus
from ..models.model_lifecycle import ModelVersion


class FirstResponses(Instrument):
    """The times from requests to their first response, error or not (rule 5.13.2)."""

    def __init__(self, find: Callable[[str, int], ModelVersion]) -> None:
        self._find = find
        #: serials of requests with a response that wait for more; one thread at a time has a request
        self._begun: set[int] = set()

    def response_sent(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        first = request.serial not in self._begun
        if response.final:
            self._begun.discard(request.serial)
        else:
            self._begun.add(request.serial)
        if first and not response.empty:
            try:
                histogram = self._find(request.model_name, response.model_version).first_response
            except TritonError:
                return  # unloaded meanwhile, and its lines with it
            if histogram is not None:
                histogram.observe((now - request.request_start) / 1e6)


class MachineUsage:
    """The usage of the machine: /proc, and the GPUs through NVML if present.

    No thread is needed: a request for the metrics reads the numbers, at most once per interval, and otherwise gets
    those of the last reading. Triton's own thread reads all the time. Any thread may call any method. `clock()` is
    monotonic nanoseconds, `proc` the directory of /proc.
    """

    def __init__(self, interval_ms: float, clock: Callable[[], int], proc: Path = Path("/proc")) -> None:
        self._interval = int(interval_ms * 1e6)
        self._clock = clock
        self._proc = proc
        self._lock = threading.Lock()  # guards all fields below
        self._nvml = Nvml.load()
        self._ticks = self._cpu_ticks()
        self._read_at = clock()
        self._cpu = CpuUsage(0.0, *self._memory())
        self._gpus = self._nvml.usages() if self._nvml else []

    def read(self) -> tuple[CpuUsage, list[GpuUsage]]:
        with self._lock:
            now = self._clock()
            if now - self._read_at >= self._interval:
                self._read_at = now
                before, self._ticks = self._ticks, self._cpu_ticks()
                busy, total = (after - b for after, b in zip(self._ticks, before, strict=True))
                self._cpu = CpuUsage(busy / total if total > 0 else self._cpu.utilization, *self._memory())
                self._gpus = self._nvml.usages() if self._nvml else []
            return self._cpu, self._gpus

    def _cpu_ticks(self) -> tuple[int, int]:
        """Return busy ticks and all ticks of all CPUs since the machine started; zeros without /proc."""
        try:
            first = (self._proc / "stat").read_text().partition("\n")[0]
        except OSError:
            return 0, 0
        ticks = [int(number) for number in first.split()[1:9]]  # guest time is part of user time
        idle = ticks[3] + ticks[4]
        return sum(ticks) - idle, sum(ticks)

    def _memory(self) -> tuple[int, int]:
        """Return the bytes of the machine's memory, and the bytes in use."""
        try:
            lines = (self._proc / "meminfo").read_text().splitlines()
        except OSError:
            return 0, 0
        kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        total = kilobytes["MemTotal"]
        return total << 10, (total - kilobytes["MemAvailable"]) << 10


class ServerMetrics:
    """The metrics that a server shows by its configuration. A feature that is off costs a request nothing, since each
    model version gets its counters when it is loaded.
    """

    def __init__(self, config: MetricsConfig, registry: MetricRegistry, clock: Clock, gpus: VisibleGpus) -> None:
        self._config = config
        self._registry = registry
        self._clock = clock
        self._gpus = gpus
        #: made at the first look at the metrics: opening the GPUs' driver takes longer than starting a server
        self._machine: MachineUsage | None = None

    def stats(self) -> InferStats:
        """Return the counters of a new version."""
        if self._config.summary_latencies:
            return LatencyStats(self._config.summary_quantiles, self._clock.now)
        return InferStats()

    def first_response(self, config: ModelConfig) -> Histogram | None:
        """Return the histogram of a new version with that configuration."""
        return Histogram(first_response_buckets(config)) if self._config.histogram_latencies else None

    def text(
        self, versions: Iterable[ModelVersion], cache: Mapping[str, float] | None = None, of_model: str = ""
    ) -> str:
        """Return the text of /metrics. `cache`: the numbers of the local response cache, if any
        (`core.server_metrics.cache_families`). `of_model`: as in `MetricRegistry.expose`.
        """
        versions = list(versions)
        cpu, gpus = self._usage(versions)
        models = [
            ModelMetrics(
                v.name,
                v.version,
                v.stats,
                v.scheduler.pending if v.serves else 0,  # a loading version has no scheduler yet
                tags=v.config.metric_tags,
                load_ns=v.load_ns,
                cached=v.config.response_cache.enable,
                first_response=v.first_response,
                gpu_uuid=_gpu_uuid(v, self._gpus),
                namespace=v.files.namespace,
            )
            for v in versions
        ]
        families = pinned_families() + gpu_families(gpus)
        families += cpu_families(cpu) if self._config.cpu else []
        families += cache_families(cache) if cache is not None else []
        return self._registry.expose(models, families, self._config, of_model=of_model)

    def _usage(self, versions: Sequence[ModelVersion]) -> tuple[CpuUsage, list[GpuUsage]]:
        config = self._config
        if not config.cpu and not config.gpu:
            return CpuUsage(), []
        if self._machine is None:
            self._machine = MachineUsage(config.interval_ms, self._clock.now)
        cpu, gpus = self._machine.read()
        if config.gpu and self._gpus.simulated:
            gpus = _simulated_usage(self._gpus, versions)
        return cpu, gpus if config.gpu else []


def _simulated_usage(gpus: VisibleGpus, versions: Sequence[ModelVersion]) -> list[GpuUsage]:
    pids = [os.getpid(), *(instance.pid for version in versions for instance in version.instances if instance.pid)]
    held = [gpus.held(pid) for pid in pids]
    return [
        GpuUsage(gpu.uuid, memory_total=gpu.total_bytes, memory_used=sum(each.get(gpu.ordinal, 0) for each in held))
        for gpu in gpus.all
    ]


def _gpu_uuid(version: ModelVersion, gpus: VisibleGpus) -> str:
    """Return the UUID of the GPU of the instances. Triton counts per GPU; here a version has one set of counters, so a
    version with instances on several GPUs gets no label.
    """
    devices = {instance.plan.device_id if instance.plan.kind == "GPU" else -1 for instance in version.instances}
    device = devices.pop() if len(devices) == 1 else -1
    return gpus.uuid(device) if device >= 0 else ""
