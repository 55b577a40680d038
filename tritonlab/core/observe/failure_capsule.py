"""`FailureCapsule`, a record to understand and repeat a failure of an author's code: the requests with their tensors,
the exception with its frames and variables, and the place and time.

The `FailureBook` keeps the last few of each model. They outlive reloads, because a fixed model gets the same requests
again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...stub._pb_stub.wire.message_bodies import FrameState
from ...stub._pb_stub.wire.serialization import bounded
from ..inference.data_type import DataType
from ..inference.infer_request import InferenceRequest, ModelRequest
from ..inference.infer_response import ParameterValue
from ..inference.tensor import Tensor
from ..plain_facts import plain
from ..status import RemoteException

#: The most bytes kept of one tensor and of one failure; beyond them only a description is kept.
MOST_TENSOR = 1 << 20
MOST_CAPSULE = 4 << 20
_MOST_HEADLINE = 300


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """A tensor of a kept request. `tensor` is None if it was too large; then `head` is a text of its first elements."""

    datatype: DataType
    shape: tuple[int, ...]
    byte_size: int
    tensor: Tensor | None
    head: str = ""

    @property
    def text(self) -> str:
        """Return datatype, shape and the first elements."""
        return (self.head if self.tensor is None else repr(self.tensor)).removeprefix("<Tensor ").removesuffix(">")

    def to_dict(self) -> dict[str, Any]:
        return {
            "datatype": self.datatype.name,
            "shape": list(self.shape),
            "byte_size": self.byte_size,
            "cut": self.tensor is None,
            "values": self.text,
        }


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """A request that failed, as it was sent to the model. Its `inputs` are as the model saw them."""

    inputs: dict[str, KeptTensor]
    serial: int
    request_id: str
    correlation_id: int | str
    flags: int
    priority: int
    timeout: int
    requested_outputs: tuple[str, ...]
    parameters: dict[str, ParameterValue]
    batch_size: int
    #: The calling instance and the number of its execution, if it is a BLS call.
    caller: tuple[str, int] | None = None

    @property
    def cut(self) -> list[str]:
        """Return the names of the inputs that were too large to keep."""
        return [name for name, record in self.inputs.items() if record.tensor is None]

    def to_dict(self) -> dict[str, Any]:
        return {
            "serial": self.serial,
            "request_id": self.request_id,
            "correlation_id": self.correlation_id,
            "flags": self.flags,
            "parameters": plain(self.parameters),
            "requested_outputs": list(self.requested_outputs),
            "batch_size": self.batch_size,
            "inputs": {name: record.to_dict() for name, record in self.inputs.items()},
        }


@dataclass(frozen=True, slots=True)
class FailureCapsule:
    """One failure. `time_ns` is wall-clock nanoseconds; `phase` is the running method (`execute`, `initialize`,
    `finalize`); `text` is the clients' error text.

    `requests` are the failed requests in the order of the batch; `left_out` is the number not kept.
    `batch_id` numbers the instance's executions; 0 outside of any. `frames` are outermost first. `failed_calls` are the
    failures of models called by the same execution.
    """

    time_ns: int
    model: str
    version: int
    instance: str
    pid: int
    phase: str
    batch_id: int
    text: str
    exception: RemoteException | None
    frames: tuple[FrameState, ...]
    requests: tuple[KeptRequest, ...]
    left_out: int = 0
    failed_calls: tuple[FailureCapsule, ...] = ()

    @property
    def headline(self) -> str:
        """Return the exception in one line, or the first line of the clients' error text."""
        text = str(self.exception) if self.exception is not None else self.text.partition("message: ")[2] or self.text
        return bounded(text.strip().partition("\n")[0], _MOST_HEADLINE)

    @property
    def place(self) -> FrameState | None:
        """Return the innermost frame with variables in a file of the author; None if there is none."""
        own = [frame for frame in self.frames if frame.variables] or self.frames
        return own[-1] if own else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "version": self.version,
            "instance": self.instance,
            "pid": self.pid,
            "phase": self.phase,
            "batch_id": self.batch_id,
            "time_ns": self.time_ns,
            "error": self.text,
            "exception": self.exception.to_wire() if self.exception is not None else None,
            "frames": [
                {**frame._asdict(), "variables": {name: text for name, text in frame.variables}}
                for frame in self.frames
            ],
            "requests": [request.to_dict() for request in self.requests],
            "requests_left_out": self.left_out,
            "failed_calls": [call.to_dict() for call in self.failed_calls],
        }


#: The most requests kept of a batch.
_MOST_REQUESTS = 64


def keep_requests(requests: Sequence[InferenceRequest]) -> tuple[tuple[KeptRequest, ...], int]:
    """Copy the requests without tensors that are too large. Also return how many requests were left out."""
    room = MOST_CAPSULE
    records = []
    clients = [request for request in requests if not request.null]
    for request in clients[:_MOST_REQUESTS]:
        inputs = {}
        for name, tensor in request.inputs.items():
            inputs[name] = found = keep_tensor(tensor, room)
            room -= found.byte_size if found.tensor is not None else 0
        settings = request.settings()
        settings["requested_outputs"] = tuple(request.requested_outputs)
        settings["parameters"] = dict(request.parameters or {})
        caller = request.caller if isinstance(request, ModelRequest) else None
        records.append(KeptRequest(inputs, request.serial, **settings, batch_size=request.batch_size, caller=caller))
    return tuple(records), len(clients) - len(records)


def keep_tensor(tensor: Tensor, room: int) -> KeptTensor:
    """Copy a tensor of at most `room` and MOST_TENSOR bytes; of a larger one keep the first elements as text."""
    size = tensor.byte_size
    if size > min(room, MOST_TENSOR):
        return KeptTensor(tensor.datatype, tensor.shape, byte_size=size, tensor=None, head=repr(tensor))
    # a copy: the client may change its array, or the memory is shared with it
    return KeptTensor(tensor.datatype, tensor.shape, size, tensor.copy())


class FailureBook:
    """The last failures of each model of a server, at most `kept` of each; 0 keeps none."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()  # guards the next three fields
        self._capsules: dict[str, deque[FailureCapsule]] = {}
        self._total: dict[str, int] = {}
        self._answered: dict[str, int] = {}

    def add(self, capsule: FailureCapsule) -> None:
        model = capsule.model
        with self._lock:
            self._total[model] = self._total.get(model, 0) + 1
            self._capsules.setdefault(model, deque(maxlen=self.capacity)).append(capsule)

    def answered_with_error(self, model: str) -> None:
        """Count a response with an error of the author (`pb_utils.TritonError`): the model works, nothing is kept."""
        with self._lock:
            self._answered[model] = self._answered.get(model, 0) + 1

    def of_model(self, model: str) -> tuple[list[FailureCapsule], int, int]:
        """Return the kept failures of the model, oldest first, the number of all its failures, and the number of
        responses with an error of the author.
        """
        with self._lock:
            capsules = list(self._capsules.get(model, ()))
            return capsules, self._total.get(model, 0), self._answered.get(model, 0)

    def of_calls(self, instance: str, batch_id: int, since: int) -> tuple[FailureCapsule, ...]:
        """Return the failures of models called by an execution, oldest first. `since`: the start of the instance's
        stub, in wall-clock nanoseconds; a later stub numbers its executions from 1 again.
        """
        with self._lock:
            capsules = [capsule for book in self._capsules.values() for capsule in book if capsule.time_ns >= since]
        caller = (instance, batch_id)
        found = [capsule for capsule in capsules if any(request.caller == caller for request in capsule.requests)]
        return tuple(sorted(found, key=lambda capsule: capsule.time_ns))

    def find(self, model: str, serials: Iterable[int]) -> FailureCapsule | None:
        """Return the last failure of one of these requests."""
        wanted = set(serials)
        capsules, _, _ = self.of_model(model)
        return next((c for c in reversed(capsules) if any(r.serial in wanted for r in c.requests)), None)
