from __future__ import annotations

from tritonlab.core.metrics.prometheus_text import render
from tritonlab.core.metrics.server_metrics import (
    CpuUsage,
    GpuUsage,
    cache_families,
    cpu_families,
    gpu_families,
    pinned_families,
)


def test_no_gpu_no_line() -> None:
    assert render(gpu_families([])) == ""


def test_a_gpu_says_what_it_can() -> None:
    text = render(gpu_families([GpuUsage("GPU-1", 0.5, 100, 10, 70.5, None, 3.25)]))
    assert [line for line in text.splitlines() if not line.startswith("# TYPE")] == [
        "# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)",
        'nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5',
        "# HELP nv_gpu_memory_total_bytes GPU total memory, in bytes",
        'nv_gpu_memory_total_bytes{gpu_uuid="GPU-1"} 100',
        "# HELP nv_gpu_memory_used_bytes GPU used memory, in bytes",
        'nv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} 10',
        "# HELP nv_gpu_power_usage GPU power usage in watts",
        'nv_gpu_power_usage{gpu_uuid="GPU-1"} 70.5',
        "# HELP nv_energy_consumption GPU energy consumption in joules since the Triton Server started",
        'nv_energy_consumption{gpu_uuid="GPU-1"} 3.25',
    ]


def test_the_machine_and_the_cache() -> None:
    numbers = dict.fromkeys(
        (
            "util",
            "num_entries",
            "num_hits",
            "num_misses",
            "num_lookups",
            "num_evictions",
            "lookup_duration",
            "insertion_duration",
        ),
        3,
    )
    text = render([*pinned_families(), *cpu_families(CpuUsage(0.25, 10, 4)), *cache_families(numbers)])
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        "nv_pinned_memory_pool_total_bytes 268435456",
        "nv_pinned_memory_pool_used_bytes 0",
        "nv_cpu_utilization 0.25",
        "nv_cpu_memory_total_bytes 10",
        "nv_cpu_memory_used_bytes 4",
        *(f"nv_cache_{name} 3" for name in numbers),
    ]
