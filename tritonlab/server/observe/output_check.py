"""Warnings of outputs that Triton passes on without a word (rule 3.4): those that differ from the config, and
responses that have none.

It looks at the first responses of each model version and then takes itself off, so that later ones cost nothing. The
stub itself reports that it drops an output that the config does not have, because nobody else sees it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from ...core.config.model_config import ModelConfig
from ...core.config.model_config_rules import is_decoupled, is_ensemble
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor
from ...core.observe.instrument import Instrument, Instruments
from ...core.status import TritonError
from ...ipc.processes.stub_log import UNCHECKED, LogBook, LogRecord
from ..models.model_lifecycle import ModelVersion

#: How many responses of a version are looked at.
ENOUGH = 32


class OutputCheck(Instrument):
    """The check of the first responses of each version that becomes READY. What it finds goes once into the log, as a
    warning that begins with UNCHECKED.
    """

    def __init__(self, instruments: Instruments, find: Callable[[str, int], ModelVersion], log: LogBook) -> None:
        self._instruments = instruments
        self._find = find
        self._log = log
        self._look = _Look(self)
        self._lock = threading.Lock()  # guards _looked_at and whether _look listens
        self._looked_at: dict[tuple[str, int], VersionCheck | None] = {}

    def model_state(self, model: str, version: int, state: str, reason: str, now: int) -> None:
        if state != "READY":
            return
        with self._lock:
            if not self._looked_at:
                self._instruments.add(self._look)
            self._looked_at[model, version] = None  # its config is read with its first response

    def look(self, request: InferenceRequest, response: InferenceResponse) -> None:
        key = response.model_name, response.model_version
        if key not in self._looked_at or response.error is not None or response.empty or request.null:
            return
        check = self._looked_at.get(key)
        if check is None:
            try:
                config = self._find(*key).config
            except TritonError:  # unloaded meanwhile
                return self._enough(key)
            if is_ensemble(config):  # its tensors were checked when it was loaded
                return self._enough(key)
            check = self._looked_at[key] = VersionCheck(config)
        for warning in check.warnings(request, response):
            record = LogRecord.from_server("WARNING", f"{UNCHECKED}{warning}.", *key)
            self._log.add(replace(record, request_ids=(request.request_id,), serials=(request.serial,)))
        if check.seen >= ENOUGH:
            self._enough(key)

    def _enough(self, key: tuple[str, int]) -> None:
        with self._lock:
            self._looked_at.pop(key, None)
            if not self._looked_at:
                self._instruments.remove(self._look)


class _Look(Instrument):
    """The listener to responses, while there are versions to look at."""

    def __init__(self, check: OutputCheck) -> None:
        self._check = check

    def response_sent(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        self._check.look(request, response)


class VersionCheck:
    """What the config of one version promises, and which promises have been found broken."""

    def __init__(self, config: ModelConfig) -> None:
        self._outputs = {output.name: output for output in config.output}
        self._batches = config.max_batch_size > 0
        self._decoupled = is_decoupled(config)
        self._absent = dict.fromkeys(self._outputs, 0)  # output -> responses that were asked for it and have it not
        self._warned: set[tuple[str, str]] = set()
        self.seen = 0

    def warnings(self, request: InferenceRequest, response: InferenceResponse) -> Iterator[str]:
        """Return what is wrong with this response and was not reported before."""
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
            yield ("", "none"), f"a response has none; the config promises {_names(promised)}"
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
        # a reshape is for models that answer in another shape of as many elements
        same = output.HasField("reshape") and math.prod(tensor.shape) == math.prod(output.dims) * rows
        if not fits and not same:
            configured = ", ".join(["batch"] * self._batches + ["any" if dim < 0 else str(dim) for dim in output.dims])
            yield (name, "shape"), f"'{name}' has shape {list(tensor.shape)} where the config says [{configured}]"
        elif fits and self._batches and not self._decoupled and tensor.shape[0] != rows:
            yield (name, "rows"), f"'{name}' has {tensor.shape[0]} rows for a request of {rows}"


def _names(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
