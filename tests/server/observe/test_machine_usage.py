from __future__ import annotations

from pathlib import Path

from tritonlab.server.observe.machine_usage import MachineUsage


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
