"""The parts of an instance, its share of the server's services, and the events that it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from ...core.clock import Clock
from ...core.inference.copies import Copies
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.output_reshape import OutputReshapes
from ...core.observe.failure_capsule import FailureBook
from ...core.observe.instrument import Instruments
from ...ipc.link.stub_link import StubLink
from ...ipc.link.wait_policy import Cores
from ...ipc.processes.stub_log import LogBook
from ...ipc.processes.stub_pool import StubPool
from ..debugging.debugger import Debugger
from .model_stub import ModelSource
from .warmup import Warmup

#: `model_instance.ModelInstance`, which builds on this module.
InstanceT = TypeVar("InstanceT")


@dataclass(frozen=True)
class InstancePlan:
    """The identity of an instance and the arguments of its model."""

    source: ModelSource
    name: str
    kind: str
    device_id: int
    args: dict[str, str]
    outputs: tuple[str, ...]
    decoupled: bool
    #: the reshapes of outputs that have another shape for clients
    reshapes: OutputReshapes | None = None
    #: the requests executed before the instance is ready
    warmup: Warmup | None = None
    #: whether it gets no requests
    passive: bool = False
    #: whether it has no GPU
    simulated: bool = False
    #: whether inputs in GPU memory arrive there, not in host memory (rule 2.12.1)
    device_inputs: bool = False

    @cached_property
    def label(self) -> str:
        """The name of the instance for views and listeners; the instances of one group on several GPUs share it."""
        if self.kind != "GPU":
            return self.name
        return f"{self.name} on {'simulated ' * self.simulated}GPU {self.device_id}"


@dataclass
class InstanceServices(Generic[InstanceT]):
    """The services that all instances of a server share, passed in so that this package imports nothing above it."""

    pool: StubPool
    clock: Clock
    instruments: Instruments
    log: LogBook
    cores: Cores
    #: answers a stub's calls: (instance, link, id, call); must not block, replies over the link
    on_call: Callable[[InstanceT, StubLink, int, Any], None]
    #: called when the stub behind the link, or a process forked by it, has ended; perhaps more than once
    on_link_end: Callable[[StubLink], None]
    #: calls a function, which must not block, after that many nanoseconds
    later: Callable[[int, Callable[[], None]], None]
    failures: FailureBook
    debugger: Debugger

    def __post_init__(self) -> None:
        #: reports the copies of requests' tensors between the host and GPUs
        self.copies = Copies(self.instruments, self.clock)


@dataclass
class InstanceEvents(Generic[InstanceT]):
    """The calls by which an instance reports events to its scheduler. All are called without a lock held."""

    #: ready for a payload; called before the last payload's responses are sent, so that the next one executes meanwhile
    idle: Callable[[InstanceT], None]
    #: its stub died: no payloads until the next `idle`; returns whether it was idle
    away: Callable[[InstanceT], bool]
    #: takes no payloads until it is `ready` again
    gone: Callable[[InstanceT], None]
    #: was gone and takes payloads again
    ready: Callable[[InstanceT], None]
    #: takes back a request released with RESCHEDULE, before `idle`; False if the scheduler takes none back, TritonError
    #: if it refuses this one
    reschedule: Callable[[InferenceRequest], bool]
    #: whether the scheduler takes requests back at all
    iterative: bool = False
    #: whether waiting callers may read the stub's answers; False if responses wait for earlier requests' (rule 5.5.7)
    leads: bool = True


class BoundEvents(Generic[InstanceT]):
    """The events bound to one instance."""

    def __init__(self, instance: InstanceT, events: InstanceEvents[InstanceT]) -> None:
        self.reschedule = events.reschedule
        self.iterative = events.iterative
        self.leads = events.leads
        self.away = partial(events.away, instance)
        self.idle = partial(events.idle, instance)
        self.gone = partial(events.gone, instance)
        self.ready = partial(events.ready, instance)
