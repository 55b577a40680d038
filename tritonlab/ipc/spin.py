"""When polling for an answer is worth a core: only while there are more cores than busy processes."""

from __future__ import annotations

import os

#: Longest poll after activity. A blocking receive costs 90-125 us p50 on a 2-core virtual machine, one met while
#: polling 16 us.
SPIN_US = 200


class SpinBudget:
    """Knows how many stubs are executing. Its set is changed by atomic operations only, so it needs no lock."""

    def __init__(self, cores: int | None = None) -> None:
        self._cores = cores or len(os.sched_getaffinity(0))
        self._executing: set[int] = set()

    def enter(self, instance: int) -> None:
        self._executing.add(instance)

    def leave(self, instance: int) -> None:
        self._executing.discard(instance)

    @property
    def allowed(self) -> bool:
        """Whether the kernel and the executing stubs leave a core for each that polls."""
        return len(self._executing) < self._cores
