from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conformance.rules import rule
from tritonlab.core.config.model_config import ModelConfig
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.metrics.infer_stats import InferStats
from tritonlab.core.metrics.latency_stats import Histogram, LatencyStats
from tritonlab.core.metrics.metric_registry import MetricRegistry
from tritonlab.core.metrics.metrics_config import MetricsConfig
from tritonlab.core.metrics.server_metrics import CpuUsage, GpuUsage
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import InternalError, NotFoundError
from tritonlab.ipc.gpu.visible_gpus import VisibleGpus
from tritonlab.server.observe.metrics_text import FirstResponses, MachineUsage, ServerMetrics
from tritonlab.stub._pb_stub.devices.driver import DeviceFacts
from tritonlab.testing import MockClock


def test_a_version_counts_what_the_configuration_asks_for() -> None:
    def made(config: MetricsConfig) -> ServerMetrics:
        return ServerMetrics(config, MetricRegistry(), MockClock(), VisibleGpus())

    assert type(made(MetricsConfig()).stats()) is InferStats
    assert made(MetricsConfig()).first_response(ModelConfig()) is None
    assert isinstance(made(MetricsConfig(summary_latencies=True)).stats(), LatencyStats)
    assert made(MetricsConfig(histogram_latencies=True)).first_response(ModelConfig()) is not None


def visible(*uuids: str) -> VisibleGpus:
    gpus = VisibleGpus()
    gpus.all = tuple(DeviceFacts(ordinal, uuid, "", 0, (8, 0), False) for ordinal, uuid in enumerate(uuids))
    return gpus


def version(*instances: tuple[str, int], namespace: str = "") -> Any:
    """Return a version with instances of these kinds on these devices."""
    return SimpleNamespace(
        name="m",
        version=1,
        stats=InferStats(),
        scheduler=SimpleNamespace(pending=0),
        serves=True,
        config=ModelConfig(),
        load_ns=0,
        first_response=None,
        files=SimpleNamespace(namespace=namespace),
        instances=[SimpleNamespace(plan=SimpleNamespace(kind=kind, device_id=device)) for kind, device in instances],
    )


@pytest.mark.parametrize(
    ("instances", "label"),
    [
        ([("CPU", 0)], ""),
        ([("GPU", 1), ("GPU", 1)], 'gpu_uuid="GPU-b",'),
        ([("GPU", 0), ("GPU", 1)], ""),
        ([("GPU", 0), ("CPU", 0)], ""),
        ([("GPU", 7)], ""),
        ([], ""),
    ],
)
def test_the_gpu_of_a_model(monkeypatch: pytest.MonkeyPatch, instances: list[tuple[str, int]], label: str) -> None:
    used = [GpuUsage("GPU-b", 0.5), GpuUsage("GPU-a")]  # NVML counts in another order than CUDA
    monkeypatch.setattr(MachineUsage, "read", lambda self: (CpuUsage(0.25), used))
    metrics = ServerMetrics(MetricsConfig(), MetricRegistry(), MockClock(), visible("GPU-a", "GPU-b"))
    lines = metrics.text([version(*instances)]).splitlines()
    assert f'nv_inference_count{{{label}model="m",version="1"}} 0' in lines
    assert 'nv_gpu_utilization{gpu_uuid="GPU-b"} 0.5' in lines
    assert "nv_cpu_utilization 0.25" in lines


@rule("5.11.12", "5.13.1")
def test_models_of_one_name_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MachineUsage, "read", lambda self: (CpuUsage(), [GpuUsage("GPU-a")]))
    metrics = ServerMetrics(MetricsConfig(), MetricRegistry(), MockClock(), visible("GPU-a"))
    text = metrics.text([version(("CPU", 0), namespace="/a"), version(("GPU", 0), namespace="/b")])
    assert 'nv_inference_count{model="m",namespace="/a",version="1"} 0' in text
    assert 'nv_inference_count{gpu_uuid="GPU-a",model="m",namespace="/b",version="1"} 0' in text


@pytest.mark.parametrize(("cpu", "gpu"), [(True, False), (False, True), (False, False)])
def test_what_is_not_measured_is_left_out(monkeypatch: pytest.MonkeyPatch, cpu: bool, gpu: bool) -> None:
    monkeypatch.setattr(MachineUsage, "read", lambda self: (CpuUsage(), [GpuUsage("GPU-a", 0.5)]))
    text = ServerMetrics(MetricsConfig(cpu=cpu, gpu=gpu), MetricRegistry(), MockClock(), VisibleGpus()).text([])
    assert ("nv_cpu" in text, "nv_gpu" in text, "nv_pinned" in text) == (cpu, gpu, True)


class Bench:
    """`FirstResponses` on one model."""

    def __init__(self) -> None:
        self.instruments = Instruments()
        self.histogram = Histogram([2])
        self.instruments.add(FirstResponses(self.find))
        self.loaded = True

    def find(self, name: str, version: int) -> Any:
        if not self.loaded:
            raise NotFoundError("gone")
        assert (name, version) == ("m", 1)
        return SimpleNamespace(first_response=self.histogram)

    def send(self, request: InferenceRequest, ms: float, **fields: Any) -> None:
        hook = self.instruments.response_sent
        assert hook is not None
        hook(request, InferenceResponse("m", 1, **fields), int(ms * 1e6))

    @property
    def counted(self) -> list[float]:
        """Return the responses in all, the milliseconds in all, and the responses within the bound."""
        return [value for _, _, value in self.histogram.samples(())][:3]


def request(serial: int) -> InferenceRequest:
    made = InferenceRequest("m", {})
    made.serial = serial
    return made


@pytest.mark.rule("5.13.2")
def test_only_the_first_response_of_a_request_counts() -> None:
    bench = Bench()
    one, other = request(1), request(2)
    bench.send(one, 1, final=False)
    bench.send(other, 4, final=False)
    bench.send(one, 9, final=False)
    bench.send(one, 9, empty=True)
    bench.send(other, 9)
    assert bench.counted == [2, 5, 1]


@pytest.mark.rule("5.13.2")
def test_an_error_counts_and_a_final_flag_alone_does_not() -> None:
    bench = Bench()
    bench.send(request(1), 1, error=InternalError("no"))
    bench.send(request(2), 1, empty=True)
    assert bench.counted == [1, 1, 1]
    bench.loaded = False
    bench.send(request(3), 1)
    assert bench.counted == [1, 1, 1]
    assert bench.instruments.response_sent is not None


class Proc:
    """A /proc, and a clock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = 0
        self.set(busy=0, idle=0, free=1000)
        self.usage = MachineUsage(2000, lambda: self.now, directory)

    def set(self, busy: int, idle: int, free: int) -> None:
        (self.directory / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 77 77\ncpu0 1 1 1 1\n")
        (self.directory / "meminfo").write_text(f"MemTotal:   1000 kB\nMemFree: 1 kB\nMemAvailable:  {free} kB\n")


def test_utilization_is_that_of_the_last_interval(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    cpu, _ = proc.usage.read()
    assert (cpu.utilization, cpu.memory_total, cpu.memory_used) == (0.0, 1_024_000, 0)
    proc.set(busy=30, idle=70, free=400)
    proc.now += 1_999_999_999
    assert proc.usage.read()[0] == cpu
    proc.now += 1
    cpu, _ = proc.usage.read()
    assert (cpu.utilization, cpu.memory_used) == (0.3, 600 << 10)
    proc.set(busy=130, idle=70, free=400)
    proc.now += 2_000_000_000
    assert proc.usage.read()[0].utilization == 1.0


def test_a_machine_without_proc(tmp_path: Path) -> None:
    cpu, _ = MachineUsage(0, lambda: 0, tmp_path / "none").read()
    assert (cpu.utilization, cpu.memory_total, cpu.memory_used) == (0.0, 0, 0)
