"""The memory of a model's instances: shared memory by direction, resident bytes, GPU memory, and Triton's need."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ....core.short_number import mib_text
from ....record.live_state import InstanceMemory, shm_size
from ....record.metric_record import MetricRecord
from ....record.recording import Recording
from ....server.observe.first_looks import gpu_memory_text
from .metrics import EVERY, Metrics

_FAMILIES = {
    "inputs": "shared memory for inputs and BLS responses; it only grows",
    "inputs_used": "of that in use now",
    "outputs": "shared memory for outputs and BLS requests; it only grows",
    "resident": "memory of the process",
}


class Memory(Metrics):
    """A view of memory, measured while it is open and when its text is read. `measured` returns the current memory of
    the instances, `simulated` whether GPUs are simulated.
    """

    LABEL = "Memory"
    NOTHING = "no instance of the model runs"

    def __init__(self, name: str, measured: Callable[[], list[InstanceMemory]], simulated: bool) -> None:
        super().__init__(Recording(), name, lambda: "")
        self._measured = measured
        self._simulated = simulated
        self._stamp: object = None
        self._stamped_at = -EVERY
        for family, about in _FAMILIES.items():
            self.recording.metrics.describe(family, "bytes", about)

    def _read(self, text: str, now: int) -> None:
        self.measure(now)

    def stamp(self) -> object:
        now = time.monotonic()
        if now - self._stamped_at >= EVERY:  # the ticker calls more often than GPUs should be queried
            self._stamped_at = now
            self._stamp = [(one.instance, one.inputs, one.outputs, one.gpus) for one in self._measured()]
        return self._stamp

    def renew(self) -> None:
        self._stamped_at = -EVERY
        super().renew()

    def measure(self, now: int) -> list[InstanceMemory]:
        found = self._measured()
        record: MetricRecord = self.recording.metrics
        if found and record.keep("instance", [one.instance for one in found]):  # those of the version before
            self.begin_again()
        for one in found:
            for family in _FAMILIES:
                record.add(family, {"instance": one.instance}, getattr(one, family), now)
            for gpu, held in sorted(one.gpus.items()):
                record.describe("gpu", "bytes", f"{'simulated ' * self._simulated}memory of GPUs")
                record.add("gpu", {"instance": one.instance, "gpu": str(gpu)}, held, now)
        self.update(summary=_need(found) if found else "")
        return found

    def news(self) -> tuple[dict[str, Any] | None, list[bytes]]:
        message, buffers = super().news()
        if message is not None and "warnings" in message:
            message["warnings"] = []  # the warnings about custom metrics
        return message, buffers

    def text(self) -> str:
        found = self.measure(time.monotonic_ns())
        if not found:
            return f"Memory of {self.name}: no instance runs."
        lines = [
            f"  {one.instance}  shared {mib_text(one.inputs)} for inputs ({mib_text(one.inputs_used)} in use), "
            f"{mib_text(one.outputs)} for outputs; resident {mib_text(one.resident)}{self._of_gpus(one)}"
            for one in found
        ]
        return "\n".join([f"Memory of {self.name}: {_need(found)}", *lines])

    def _of_gpus(self, one: InstanceMemory) -> str:
        held = [gpu_memory_text(size, gpu, self._simulated) for gpu, size in sorted(one.gpus.items())]
        return "; " * bool(held) + ", ".join(held)

    def to_dict(self) -> dict[str, Any]:
        found = self.measure(time.monotonic_ns())
        return {"model": self.name, "instances": [one._asdict() for one in found], "shm_size": shm_size(found)}

    def _renew_record(self) -> None:
        self.measure(time.monotonic_ns())


def _need(found: list[InstanceMemory]) -> str:
    return f"the same on Triton takes about --shm-size={shm_size(found) >> 20}m."
