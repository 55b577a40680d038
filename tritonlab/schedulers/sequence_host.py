"""What the sequence batcher knows of an instance besides its slots."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ..core.infer_request import InferenceRequest
from ..instances.payload import Payload
from .response_order import ResponseOrder
from .scheduler import Instance
from .sequence_table import Failures, Slot


class Candidate:
    """A sequence's next request in the dynamic batcher of the oldest strategy; `queue_start` is when it came there."""

    __slots__ = ("batch_size", "inputs", "queue_start", "request", "slot")

    def __init__(self, slot: Slot, request: InferenceRequest, now: int) -> None:
        self.slot = slot
        self.request = request
        self.batch_size = request.batch_size
        self.inputs = request.inputs
        self.queue_start = now


class Host:
    """An instance: whether it can take a payload, what it executes, and the candidates that wait for it."""

    def __init__(self, index: int, instance: Instance, order: ResponseOrder | None) -> None:
        self.index = index
        self.instance = instance
        self.idle = False
        self.away = False
        self.executing: dict[int, Slot] = {}  # by serial of the request
        self.candidates: deque[Candidate] = deque()
        self.order = order


@dataclass
class Work:
    """What a decision wants done, after the lock."""

    payloads: list[tuple[Instance, Payload]] = field(default_factory=list)
    failures: Failures = field(default_factory=list)
