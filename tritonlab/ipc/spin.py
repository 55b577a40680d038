"""The spin budget says when polling for an answer is worth a core: only while there are more cores than busy
processes."""

from __future__ import annotations

import os

#: Longest poll of a caller for its answer. A blocking receive costs 90-125 us p50 on a 2-core virtual machine, one met
#: while polling 16 us.
SPIN_US = 200
#: Longest poll of a stub for its next command, if the last one came as soon; between two requests of a client over the
#: network lie 300 us. add_sub over HTTP took 640 us p50 with 200 us here, 540 us with this.
STUB_SPIN_US = 1000


class SpinBudget:
    """Knows how many stubs are executing, and which of those only wait for another model's answer. Its sets are
    changed by atomic operations only, so it needs no lock."""

    def __init__(self, cores: int | None = None) -> None:
        self._cores = cores or len(os.sched_getaffinity(0))
        self._executing: set[int] = set()
        self._blocked: set[int] = set()

    def enter(self, instance: int) -> None:
        self._executing.add(instance)

    def leave(self, instance: int) -> None:
        self._executing.discard(instance)
        self._blocked.discard(instance)

    def block(self, instance: int) -> None:
        """Its `execute` waits for the answer of another model, until `unblock`: it needs no core."""
        self._blocked.add(instance)

    def unblock(self, instance: int) -> None:
        self._blocked.discard(instance)

    def blocks(self, instance: int) -> bool:
        return instance in self._blocked

    @property
    def allowed(self) -> bool:
        """Whether the kernel and the executing stubs leave a core for each that polls."""
        return len(self._executing) - len(self._blocked) < self._cores

    @property
    def relaying(self) -> bool:
        """Whether what comes next goes from one stub to another, and a core is free to wait for it."""
        return bool(self._blocked) and self.allowed
