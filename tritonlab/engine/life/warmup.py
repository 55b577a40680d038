"""The requests of `model_warmup`, which an instance executes between `initialize` and READY (rule 5.8).

As on Triton they bypass the scheduler and go to the instance: no controls are added, and the response cache is
not used. A stub that replaces a dead one is cold like the first one and warms up again (Triton starts none again).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.clock import Clock
from ...core.config.model_config import ModelConfig, dims_text
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.request_rules import RequestRules
from ...core.inference.tensor import Tensor
from ...core.metrics.infer_stats import InferStats
from ...core.status import Code, InvalidArgumentError, ModelError, ModelLoadError, TritonError
from ...ipc.processes.out_of_memory import memory_limit
from ...repository.layout import read_file
from ..execution.payload import Payload

#: Seconds between checks whether a stub has died without an answer.
_LOOK = 0.1
#: The serials of warmup requests, which no client's request reaches: listeners get both. Browsers read them as doubles.
_serials = itertools.count(1 << 52)
#: The most requests made of one sample; more than any batch holds.
_MOST_REQUESTS = 1 << 20


class Warmup:
    """The samples of a final configuration. `directory` is the model's; data files are in its `warmup/`.
    `counted`: whether the executions count in the statistics, as on Triton."""

    def __init__(self, config: ModelConfig, directory: Path, rules: RequestRules, *, counted: bool = True) -> None:
        self.counted = counted
        self._config = config
        self._directory = directory
        self._rules = rules

    def samples(self) -> Iterator[tuple[str, list[InferenceRequest]]]:
        """Yield for each call the sample's name and its requests, `batch_size` requests of batch 1 (rule 5.8.2).
        Raises TritonError for a sample that cannot be made."""
        for setting in self._config.model_warmup:
            if setting.batch_size == 0:
                continue  # measured, with and without a batch dimension
            if setting.batch_size > _MOST_REQUESTS:
                limit = max(self.largest_batch(), 1)
                raise InvalidArgumentError(
                    f"batch size {setting.batch_size} for '{self._config.name}', max allowed is {limit}"
                )
            sample = self._sample(setting)
            for _ in range(max(setting.count, 1)):
                yield setting.name, [InferenceRequest(self._config.name, sample) for _ in range(setting.batch_size)]

    def largest_batch(self) -> int:
        return int(self._config.max_batch_size)

    # -- the content of the samples

    def _sample(self, setting: Any) -> dict[str, Tensor]:
        """Return the inputs of a request of batch 1, checked like a client's. Inputs outside of the configuration,
        mainly controls, are passed on unchecked, as by Triton.
        """
        config = self._config
        tensors = {name: self._tensor(name, spec) for name, spec in sorted(setting.inputs.items())}
        declared = {tensor.name for tensor in config.input}
        request = InferenceRequest(config.name, {name: t for name, t in tensors.items() if name in declared})
        self._rules.check(request)
        return {**{name: t for name, t in tensors.items() if name not in declared}, **request.inputs}

    def _tensor(self, name: str, spec: Any) -> Tensor:
        if any(dim < 0 for dim in spec.dims):
            raise InvalidArgumentError(
                f"warmup setting expects all variable-size dimensions are specified for input '{name}'"
            )
        datatype = DataType(spec.data_type)
        shape = (1, *spec.dims) if self._config.max_batch_size else tuple(spec.dims)
        return Tensor(datatype, shape, self._data(name, spec, datatype, prod(spec.dims)))

    def _data(self, name: str, spec: Any, datatype: DataType, count: int) -> NDArray[Any]:
        kind = spec.WhichOneof("input_data_type")
        size = count * (datatype.byte_size or 4)  # an empty string is only its 4 bytes of length
        if kind == "input_data_file":
            content = read_file(self._directory / "warmup" / spec.input_data_file)
            if not datatype.byte_size:
                return np.frombuffer(content, np.uint8)
            if len(content) < size:
                # the missing blank is Triton's
                raise InvalidArgumentError(
                    f"[request id: <id_unknown>] warmup setting expects {size} bytes, but the data provided from "
                    f"{spec.input_data_file}only has {len(content)} bytes"
                )
            return np.frombuffer(content[:size], datatype.numpy)
        if kind is None:
            raise InvalidArgumentError(
                f"[request id: <id_unknown>] warmup setting expects input '{name}' to have input_data_type set"
            )
        if 0 < memory_limit() < size:  # 2.51 crashes
            raise InvalidArgumentError(
                f"[request id: <id_unknown>] warmup setting needs {size} bytes of input '{name}', dims "
                f"{dims_text(spec.dims)}: more than there is memory for"
            )
        if not datatype.byte_size:
            return np.zeros(size, np.uint8)  # random strings are empty strings too
        if kind == "zero_data":
            return np.zeros(count, datatype.numpy)
        data = np.random.default_rng().integers(0, 256, size, np.uint8)
        return data % 2 == 1 if datatype is DataType.BOOL else data.view(datatype.numpy)


class WarmupRun:
    """The warmup of one instance. `send(payload, stats)` sends a payload to its stub and records it in `stats`; `died`
    returns the error of a dead stub.

    Records pass through here: they show the end of a call even if all its requests were answered through their
    senders.
    """

    def __init__(
        self,
        warmup: Warmup,
        instance: str,
        clock: Clock,
        stats: InferStats,
        send: Callable[[Payload, InferStats], object],
        died: Callable[[], ModelError | None],
    ) -> None:
        #: the name of the running sample
        self.sample = ""
        self._stats = _Recorder(stats if warmup.counted else None, self._on_recorded)
        self._warmup = warmup
        self._instance = instance
        self._clock = clock
        self._send = send
        self._died = died
        self._open: set[int] = set()  # serials of the requests without a final response; 0 is the call itself
        self._errors: list[TritonError] = []
        self._ended = threading.Event()

    def run(self) -> None:
        """Execute the samples; blocks. Raises the TritonError of the first that cannot be made or fails."""
        for name, requests in self._warmup.samples():
            self.sample = name
            errors = self._errors_of(requests)
            if errors:
                raise _failure(name, errors)

    def _errors_of(self, requests: list[InferenceRequest]) -> list[TritonError]:
        count, most = len(requests), self._warmup.largest_batch()
        if count > max(most, 1):
            text = f"batch size {count} for '{self._instance}', max allowed is {most}"
            return [InvalidArgumentError(text)] * count
        now = self._clock.now()
        for request in requests:
            request.serial = next(_serials)
            request.request_start = request.queue_start = now
            request.push(self._on_response)
        self._errors = []
        self._open = {0, *(request.serial for request in requests)}
        self._ended.clear()
        self._send(Payload(requests, count, "warmup"), self._stats)
        while not self._ended.wait(_LOOK):
            if (error := self._died()) is not None:
                return [error] * count
        return self._errors

    def _on_response(self, request: InferenceRequest, response: InferenceResponse) -> None:
        if response.error is not None:
            self._errors.append(response.error)
        if response.final:
            self._close(request.serial)

    def _on_recorded(self) -> None:
        self._close(0)

    def _close(self, serial: int) -> None:
        self._open.discard(serial)
        if not self._open:
            self._ended.set()


class _Recorder(InferStats):
    """A recorder that passes on executions that count."""

    __slots__ = ("_counted", "_recorded")

    def __init__(self, counted: InferStats | None, recorded: Callable[[], None]) -> None:
        super().__init__()
        self._counted = counted
        self._recorded = recorded

    def record_batch(self, *batch: Any, **named: Any) -> None:
        if self._counted is not None:
            self._counted.record_batch(*batch, **named)
        self._recorded()


def _failure(sample: str, errors: list[TritonError]) -> ModelLoadError:
    """Return the error of a failed sample: Triton's text (rule 5.8.4), which 2.51 does not always survive (section 8),
    and the facts for the author."""
    text = f"failed to run warmup sample '{sample}': {''.join(f'{error.message}; ' for error in errors)}"
    first = errors[0]
    if not isinstance(first, ModelError):
        return ModelLoadError(text, code=Code.INVALID_ARG)
    failed = ModelLoadError(
        text, code=Code.INVALID_ARG, reason=first.reason or text, exception=first.exception, log=first.log
    )
    failed.was_killed = first.was_killed
    return failed
