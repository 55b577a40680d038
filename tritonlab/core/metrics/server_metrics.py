"""The `nv_` metric families of the machine and of the response cache (rule 5.13.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .prometheus_text import PrintedFamily

#: Triton's default of --pinned-memory-pool-byte-size. Nothing is pinned here, so none of it is ever used.
PINNED_POOL_BYTES = 256 << 20


@dataclass(frozen=True)
class CpuUsage:
    """The load of the machine: `utilization` from 0 to 1, memory in bytes."""

    utilization: float = 0.0
    memory_total: int = 0
    memory_used: int = 0


@dataclass(frozen=True)
class GpuUsage:
    """The numbers of one GPU; None if the GPU does not report it. Power is in watts, energy in joules since the server
    started, memory in bytes, utilization from 0 to 1.
    """

    uuid: str
    utilization: float | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    power_usage: float | None = None
    power_limit: float | None = None
    energy: float | None = None


def pinned_families() -> list[PrintedFamily]:
    return [
        _gauge(
            "nv_pinned_memory_pool_total_bytes", "Pinned memory pool total memory size, in bytes", PINNED_POOL_BYTES
        ),
        _gauge("nv_pinned_memory_pool_used_bytes", "Pinned memory pool used memory size, in bytes", 0),
    ]


def cpu_families(usage: CpuUsage) -> list[PrintedFamily]:
    return [
        _gauge("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", usage.utilization),
        _gauge("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", usage.memory_total),
        _gauge("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", usage.memory_used),
    ]


#: name, kind, help, field of GpuUsage
_GPU = (
    ("nv_gpu_utilization", "gauge", "GPU utilization rate [0.0 - 1.0)", "utilization"),
    ("nv_gpu_memory_total_bytes", "gauge", "GPU total memory, in bytes", "memory_total"),
    ("nv_gpu_memory_used_bytes", "gauge", "GPU used memory, in bytes", "memory_used"),
    ("nv_gpu_power_usage", "gauge", "GPU power usage in watts", "power_usage"),
    ("nv_gpu_power_limit", "gauge", "GPU power management limit in watts", "power_limit"),
    (
        "nv_energy_consumption",
        "counter",
        "GPU energy consumption in joules since the Triton Server started",
        "energy",
    ),
)


def gpu_families(usages: Iterable[GpuUsage]) -> list[PrintedFamily]:
    """Return the families of the GPUs; like Triton, none without a GPU."""
    return [
        PrintedFamily(
            name,
            kind,
            text,
            [
                ("", [("gpu_uuid", usage.uuid)], value)
                for usage in usages
                if (value := getattr(usage, field)) is not None
            ],
        )
        for name, kind, text, field in _GPU
    ]


#: name (without `nv_cache_`) and help; durations are microseconds
_CACHE = {
    "util": "Cache utilization [0.0 - 1.0]",
    "num_entries": "Number of responses stored in response cache",
    "num_hits": "Number of cache hits in response cache",
    "num_misses": "Number of cache misses in response cache",
    "num_lookups": "Number of cache lookups in response cache",
    "num_evictions": "Number of cache evictions in response cache",
    "lookup_duration": "Total cache lookup duration (hit and miss), in microseconds",
    "insertion_duration": "Total cache insertion duration, in microseconds",
}


def cache_families(numbers: Mapping[str, float]) -> list[PrintedFamily]:
    """Return the families of the local cache. `numbers` are keyed by the metrics' names without `nv_cache_`."""
    return [_gauge(f"nv_cache_{name}", text, numbers[name]) for name, text in _CACHE.items()]


def _gauge(name: str, text: str, value: float) -> PrintedFamily:
    return PrintedFamily(name, "gauge", text, [("", (), value)])
