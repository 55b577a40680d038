"""These tests check when the machine counts as quiet, with a /proc/uptime of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonlab.ipc.link.idle_machine import IdleMachine

SECOND = 1_000_000_000


class Machine:
    """Two cores that have been up for 1000 s."""

    def __init__(self, directory: Path, busy: float = 0.0) -> None:
        self.file = directory / "uptime"
        self._up = self._busy = 0.0
        self.quiet = IdleMachine(self.file, cores=2)
        self.run(1000, busy)

    def run(self, seconds: float, busy: float) -> None:
        """`busy` cores are in use."""
        self._up += seconds
        self._busy += busy * seconds
        self.file.write_text(f"{self._up:.2f} {2 * self._up - self._busy:.2f}\n")

    def now(self) -> bool:
        return self.quiet(int(self._up * SECOND))


@pytest.mark.parametrize(("busy", "quiet"), [(0.0, True), (0.4, True), (0.6, False), (1.0, False), (2.0, False)])
def test_it_is_quiet_while_less_than_half_a_core_is_in_use(tmp_path: Path, busy: float, quiet: bool) -> None:
    assert Machine(tmp_path, busy).now() is quiet  # since the machine started
    machine = Machine(tmp_path)
    assert machine.now()
    machine.run(2, busy)
    assert machine.now() is quiet
    machine.run(2, 0.0)
    assert machine.now()


def test_it_looks_again_after_a_second(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.now()
    machine.run(0.6, 2.0)
    assert machine.now()
    machine.run(0.6, 2.0)
    assert not machine.now()


@pytest.mark.parametrize("content", [None, "", "unknown", "1 2 3"])
def test_it_is_never_quiet_where_the_system_does_not_tell(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "uptime"
    if content is not None:
        file.write_text(content)
    assert not IdleMachine(file, cores=2)(SECOND)


def test_this_machine_tells() -> None:
    up, idle = map(float, Path("/proc/uptime").read_text().split())
    assert up > 0 and idle >= 0
