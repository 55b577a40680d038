"""These classes say what an instance is made of, what it shares with the others of its server, and who hears of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from ..core.clock import Clock
from ..core.infer_request import InferenceRequest
from ..core.instrument import Instruments
from ..core.output_reshape import OutputReshapes
from ..ipc.spin import SpinBudget
from ..ipc.stub_link import StubLink
from ..ipc.stub_log import LogBook
from ..ipc.stub_pool import StubPool
from .model_stub import ModelSource
from .warmup import Warmup

#: `model_instance.ModelInstance`, which is built on these.
InstanceT = TypeVar("InstanceT")


@dataclass(frozen=True)
class InstancePlan:
    """What makes an instance: who it is and what its model is told."""

    source: ModelSource
    name: str
    kind: str
    device_id: int
    args: dict[str, str]
    outputs: tuple[str, ...]
    decoupled: bool
    #: the outputs whose shapes clients get differently
    reshapes: OutputReshapes | None = None
    #: what it executes before it is ready
    warmup: Warmup | None = None
    #: it gets no requests
    passive: bool = False


@dataclass
class InstanceServices(Generic[InstanceT]):
    """What all instances of a server share; handed in, so that nothing here reaches up."""

    pool: StubPool
    clock: Clock
    instruments: Instruments
    log: LogBook
    spin: SpinBudget
    #: does what a stub asks for: (instance, link, id, call); must not block, replies over the link
    on_call: Callable[[InstanceT, StubLink, int, Any], None]
    #: the stub behind the link has ended, or a process that it forked; perhaps called more than once
    on_link_end: Callable[[StubLink], None]
    #: calls a function, which must not block, after so many nanoseconds
    later: Callable[[int, Callable[[], None]], None]


@dataclass
class InstanceEvents(Generic[InstanceT]):
    """Says who hears of an instance: its scheduler. All are called without a lock held."""

    #: ready for a payload; called before the last payload's responses go out, so that the next one executes meanwhile
    idle: Callable[[InstanceT], None]
    #: its stub died: no payloads until the next `idle`; True if it was idle
    away: Callable[[InstanceT], bool]
    #: takes no payloads, unless it is `ready` once more
    gone: Callable[[InstanceT], None]
    #: was gone and takes payloads again
    ready: Callable[[InstanceT], None]
    #: a request released with RESCHEDULE, before `idle`; False if the model's scheduler takes none back, TritonError if
    #: not this one
    reschedule: Callable[[InferenceRequest], bool]
    #: whether requests may come back at all
    iterative: bool = False
    #: whether waiting callers may read the stub's answers; not where responses are held back for others (rule 5.5.7)
    leads: bool = True


class BoundEvents(Generic[InstanceT]):
    """Binds the events to one instance."""

    def __init__(self, instance: InstanceT, events: InstanceEvents[InstanceT]) -> None:
        self.reschedule = events.reschedule
        self.iterative = events.iterative
        self.leads = events.leads
        self.away = partial(events.away, instance)
        self.idle = partial(events.idle, instance)
        self.gone = partial(events.gone, instance)
        self.ready = partial(events.ready, instance)
