"""Warnings of faults that Triton passes on silently, at the first looks at each version that becomes READY.

Outputs that differ from the config, and responses that have none (rule 3.4); the stub itself reports an output that it
drops because the config lacks it, as only the stub sees it. Instances that use another device than their own: most
often a model uses "cuda" and never reads its GPU's number. And, at any time, printed lines that Triton's stubs could
not print: their standard output is ASCII (rule 2.1.8).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from ...core.config.model_config import ModelConfig
from ...core.config.model_config_rules import is_decoupled, is_ensemble
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor
from ...core.observe.instrument import Instrument, Instruments
from ...core.short_number import short_number
from ...core.status import TritonError
from ...engine.life.instance_plan import InstancePlan
from ...ipc.gpu.visible_gpus import VisibleGpus
from ...ipc.processes.stub_log import MISPLACED, UNCHECKED, UNPRINTABLE, LogBook, LogRecord
from ..models.model_lifecycle import ModelVersion

#: How many responses of a version are checked.
ENOUGH = 32
#: The executions of a version after which its instances are checked, the last one for good.
LOOKS = (1, 2, 4, 8, 16, 32)
#: The most characters shown of a printed line.
_SHOWN = 40

Note = TypeVar("Note")


class FirstLooks(Instrument, Generic[Note]):
    """The versions under observation, each with a note. `listener` listens only while there are any, so that later
    responses and executions cost nothing.
    """

    def __init__(
        self, instruments: Instruments, find: Callable[[str, int], ModelVersion], log: LogBook, listener: Instrument
    ) -> None:
        self._instruments = instruments
        self._find = find
        self._log = log
        self._listener = listener
        self._lock = threading.RLock()  # guards the other fields, and whether the listener listens
        self._versions: dict[tuple[str, int], Note] = {}

    def _begin(self, key: tuple[str, int], note: Note) -> None:
        with self._lock:
            if not self._versions:
                self._instruments.add(self._listener)
            self._versions[key] = note

    def _end(self, key: tuple[str, int]) -> None:
        with self._lock:
            self._versions.pop(key, None)
            if not self._versions:
                self._instruments.remove(self._listener)


class OutputCheck(FirstLooks["VersionCheck | None"]):
    """The check of each version's first responses. Each finding is logged once, as an UNCHECKED warning."""

    def __init__(self, instruments: Instruments, find: Callable[[str, int], ModelVersion], log: LogBook) -> None:
        super().__init__(instruments, find, log, _Responses(self))

    def model_state(self, model: str, version: int, state: str, reason: str, now: int) -> None:
        if state == "READY":
            self._begin((model, version), None)  # its config is read at its first response

    def look(self, request: InferenceRequest, response: InferenceResponse) -> None:
        key = response.model_name, response.model_version
        if response.error is not None or response.empty or request.null:
            return
        with self._lock:
            if key not in self._versions:
                return
            check = self._versions[key]
            if check is None:
                try:
                    config = self._find(*key).config
                except TritonError:  # unloaded meanwhile
                    return self._end(key)
                if is_ensemble(config):  # its tensors were checked when it was loaded
                    return self._end(key)
                check = self._versions[key] = VersionCheck(config)
            warnings = list(check.warnings(request, response))
            if check.seen >= ENOUGH:
                self._end(key)
        for warning in warnings:
            record = LogRecord.from_server("WARNING", f"{UNCHECKED}{warning}.", *key)
            self._log.add(replace(record, request_ids=(request.request_id,), serials=(request.serial,)))


class _Responses(Instrument):
    def __init__(self, check: OutputCheck) -> None:
        self._check = check

    def response_sent(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        self._check.look(request, response)


class PlacementCheck(FirstLooks[int]):
    """The check of the devices on which the instances of each version hold memory, from outside (`VisibleGpus.held`),
    when it is READY and after some of its first executions. Findings are logged once per instance, as a warning that
    begins with MISPLACED. Without a GPU it never begins.
    """

    def __init__(
        self, instruments: Instruments, find: Callable[[str, int], ModelVersion], log: LogBook, gpus: VisibleGpus
    ) -> None:
        super().__init__(instruments, find, log, _Executions(self))
        self._gpus = gpus
        self._checked: set[int] = set()

    def model_state(self, model: str, version: int, state: str, reason: str, now: int) -> None:
        if state == "READY" and self._gpus.all:
            self._begin((model, version), 0)
            self._look_soon(model, version)

    def executed(self, model: str, version: int) -> None:
        key = model, version
        with self._lock:
            if key not in self._versions:
                return
            self._versions[key] = count = self._versions[key] + 1
            if count >= LOOKS[-1]:
                self._end(key)
        if count in LOOKS:
            self._look_soon(model, version)

    def _look_soon(self, model: str, version: int) -> None:
        # on another thread: a hook must not block, and the driver may be slow
        threading.Thread(target=self.look, args=(model, version), name="placement", daemon=True).start()

    def look(self, model: str, version: int) -> None:
        """Check a version now."""
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
    def __init__(self, check: PlacementCheck) -> None:
        self._check = check

    def batch_executed(self, model: str, version: int, *more: Any) -> None:
        self._check.executed(model, version)


class PrintCheck(Instrument):
    """A listener for printed lines. The first line of a process that is not ASCII is followed by a warning in the log
    that begins with UNPRINTABLE.
    """

    def __init__(self, log: LogBook) -> None:
        self._log = log
        self._warned: set[int] = set()

    def log(self, record: Any) -> None:
        if record.stream != "stdout" or record.text.isascii() or record.pid in self._warned:
            return
        self._warned.add(record.pid)
        line = record.text if len(record.text) <= _SHOWN else f"{record.text[: _SHOWN - 1]}…"
        text = (
            f"{UNPRINTABLE}print() of '{line}' raises UnicodeEncodeError in its stubs for Python 3.11 to 3.13, and in "
            "older ones unless LANG is UTF-8; after sys.stdout.reconfigure(encoding='utf-8') in model.py it does not."
        )
        self._log.add(replace(record, stream="server", level="WARNING", text=text, file="", line=0))


class VersionCheck:
    """The promises of one version's config, and the ones that were found broken."""

    def __init__(self, config: ModelConfig) -> None:
        self._outputs = {output.name: output for output in config.output}
        self._batches = config.max_batch_size > 0
        self._decoupled = is_decoupled(config)
        self._absent = dict.fromkeys(self._outputs, 0)  # output -> responses that should have it and lack it
        self._warned: set[tuple[str, str]] = set()
        self.seen = 0

    def warnings(self, request: InferenceRequest, response: InferenceResponse) -> Iterator[str]:
        """Return the faults of this response that were not reported before."""
        self.seen += 1
        for (name, kind), text in self._differences(request, response):
            if (name, kind) not in self._warned:
                self._warned.add((name, kind))
                yield text

    def _differences(
        self, request: InferenceRequest, response: InferenceResponse
    ) -> Iterator[tuple[tuple[str, str], str]]:
        promised = [name for name in self._outputs if name in (request.requested_outputs or self._outputs)]
        if promised and not response.outputs:
            names = ", ".join(f"'{name}'" for name in promised)
            yield ("", "none"), f"a response has none; the config promises {names}"
            return
        for name, tensor in response.outputs.items():
            if (output := self._outputs.get(name)) is not None:
                yield from self._tensor(name, output, tensor, request.batch_size)
        for name in promised:
            self._absent[name] += name not in response.outputs
            # a decoupled model may send its outputs in several responses
            if self._absent[name] == (ENOUGH if self._decoupled else 1) and name not in response.outputs:
                what = f"none of {ENOUGH} responses has" if self._decoupled else "a response does not have"
                yield (name, "absent"), f"{what} '{name}', which the config promises"

    def _tensor(
        self, name: str, output: ModelConfig, tensor: Tensor, rows: int
    ) -> Iterator[tuple[tuple[str, str], str]]:
        if int(tensor.datatype) != output.data_type:
            configured = DataType(output.data_type).name
            yield (name, "datatype"), f"'{name}' is {tensor.datatype.name} where the config says {configured}"
        dims = ([-1] if self._batches else []) + list(output.dims)
        fits = len(dims) == len(tensor.shape) and all(
            dim in (-1, size) for dim, size in zip(dims, tensor.shape, strict=True)
        )
        # a reshape is for models whose outputs have another shape with as many elements
        same = output.HasField("reshape") and math.prod(tensor.shape) == math.prod(output.dims) * rows
        if not fits and not same:
            configured = ", ".join(["batch"] * self._batches + ["any" if dim < 0 else str(dim) for dim in output.dims])
            yield (name, "shape"), f"'{name}' has shape {list(tensor.shape)} where the config says [{configured}]"
        elif fits and self._batches and not self._decoupled and tensor.shape[0] != rows:
            yield (name, "rows"), f"'{name}' has {tensor.shape[0]} rows for a request of {rows}"


def misplaced(plan: InstancePlan, held: Mapping[int, int], simulated: bool) -> str:
    """Return a sentence about memory of other GPUs than the one of the instance; empty without such memory, or if the
    model itself chooses its devices (KIND_MODEL).
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
