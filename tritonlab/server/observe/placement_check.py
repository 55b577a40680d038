"""Warnings of instances that use another device than the one they were put on, which Triton does not notice: most often
a model uses "cuda" and never reads which GPU it has.

Where a process holds memory is seen from outside (`VisibleGpus.held`), when a version is READY and after some of its
first executions. Then the check takes itself off; where there is no GPU it never begins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from ...core.observe.instrument import Instrument, Instruments
from ...core.short_number import short_number
from ...core.status import TritonError
from ...engine.life.instance_plan import InstancePlan
from ...ipc.gpu.visible_gpus import VisibleGpus
from ...ipc.processes.stub_log import MISPLACED, LogBook, LogRecord
from ..models.model_lifecycle import ModelVersion

#: The executions of a version after which it is looked at, the last one for good.
LOOKS = (1, 2, 4, 8, 16, 32)


class PlacementCheck(Instrument):
    """The look at the instances of each version that becomes READY. What it finds goes into the log, once per instance,
    as a warning that begins with MISPLACED.
    """

    def __init__(
        self, instruments: Instruments, find: Callable[[str, int], ModelVersion], gpus: VisibleGpus, log: LogBook
    ) -> None:
        self._instruments = instruments
        self._find = find
        self._gpus = gpus
        self._log = log
        self._listener = _Executions(self)
        self._lock = threading.Lock()  # guards the rest, and whether _listener listens
        #: version -> its executions
        self._counts: dict[tuple[str, int], int] = {}
        self._checked: set[int] = set()

    def model_state(self, model: str, version: int, state: str, reason: str, now: int) -> None:
        if state != "READY" or not self._gpus.all:
            return
        with self._lock:
            if not self._counts:
                self._instruments.add(self._listener)
            self._counts[model, version] = 0
        self._begin((model, version))

    def executed(self, key: tuple[str, int]) -> None:
        with self._lock:
            if key not in self._counts:
                return
            self._counts[key] = count = self._counts[key] + 1
            if count >= LOOKS[-1]:
                del self._counts[key]
                if not self._counts:
                    self._instruments.remove(self._listener)
        if count in LOOKS:
            self._begin(key)

    def _begin(self, key: tuple[str, int]) -> None:
        # not here: a hook must not block, and the driver may take its time
        threading.Thread(target=self.look, args=key, name="placement", daemon=True).start()

    def look(self, model: str, version: int) -> None:
        """Look at a version now."""
        try:
            instances = self._find(model, version).instances
        except TritonError:  # unloaded meanwhile
            return
        for instance in instances:
            if (pid := instance.pid) is None or pid in self._checked:
                continue
            if warning := misplaced(instance.plan, self._gpus.held(pid), self._gpus.simulated):
                self._warn(model, version, instance=instance.name, pid=pid, warning=warning)

    def _warn(self, model: str, version: int, instance: str, pid: int, warning: str) -> None:
        with self._lock:
            new = pid not in self._checked
            self._checked.add(pid)
        if new:
            text = f"{MISPLACED}{warning}"
            self._log.add(LogRecord.from_server("WARNING", text, model, version, instance=instance, pid=pid))


class _Executions(Instrument):
    """The listener to executions, while there are versions to look at."""

    def __init__(self, check: PlacementCheck) -> None:
        self._check = check

    def batch_executed(self, model: str, version: int, *more: Any) -> None:
        self._check.executed((model, version))


def misplaced(plan: InstancePlan, held: Mapping[int, int], simulated: bool) -> str:
    """Return a sentence about memory of other GPUs than the one of the instance; empty if there is none, or
    if its model chooses for itself (KIND_MODEL).
    """
    others = {gpu: size for gpu, size in held.items() if plan.kind != "GPU" or gpu != plan.device_id}
    if not others or plan.kind == "MODEL":
        return ""
    where = f"GPU {plan.device_id}" if plan.kind == "GPU" else plan.kind
    there = ", ".join(gpu_memory_text(size, gpu, simulated) for gpu, size in sorted(others.items()))
    key = "device_id" if plan.kind == "GPU" else "kind"
    choice = f'choose the device by args["model_instance_{key}"]'
    return f"'{plan.name}' was placed on {where} and holds {there}; {choice}."


def gpu_memory_text(size: int, gpu: int, simulated: bool) -> str:
    """Return "4 MiB of simulated GPU 1"."""
    scaled = f"{short_number(size / (1 << 20))} MiB" if size < 1 << 30 else f"{short_number(size / (1 << 30))} GiB"
    return f"{scaled} of {'simulated ' * simulated}GPU {gpu}"
