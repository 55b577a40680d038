"""Fakes for tests of models, of the server and of code that uses it.

load_class, build_args, build_request    a model.py in the test's own process
FakeTriton                               the server around it: logs, metrics, response senders, BLS
model_loader                             loads models into a real server and unloads them
MockClock, FakeTimer                     time passes when `advance` is called
FakeInstance                             takes payloads from a scheduler, responds when `finish` is called
FakeStub                                 the stub's end of a real link, driven by the test
RecordingInstrument                      every hook call as a tuple, in order
requests_for                             strategies of hypothesis for the inputs of a model's requests
check_case                               a finding of `Model.check`, done again; its tests call it
SimulatedArray                           an array on a GPU of `Options(simulated_gpus=…)`
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .core.inference.infer_request import InferenceRequest, RequestEvent
from .core.inference.infer_response import InferenceResponse
from .core.observe.instrument import HOOKS, Instrument
from .engine.execution.payload import Payload
from .ipc.link.link_reader import LinkReader
from .ipc.link.stub_link import StubLink
from .model_testing import FakeTriton, build_args, build_request, load_class
from .notebook.authoring.config_options import LOAD_ARGUMENTS, ConfigOptions
from .notebook.authoring.draft import Source
from .notebook.authoring.workspace import Workspace
from .server.api.model import Model
from .server.api.server import Server
from .stub._pb_stub.api.simulated_array import SimulatedArray
from .stub._pb_stub.wire.connection import Connection, Message
from .stub._pb_stub.wire.ipc_message import BY_NUMBER, NUMBER
from .stub._pb_stub.wire.shm_manager import Region, RegionReader, create_region_file
from .tool_table import tool_function

if TYPE_CHECKING:
    from .tools.check.run import check_case
    from .tools.check.strategies import requests_for

__all__ = [
    "MS",
    "FakeInstance",
    "FakeStub",
    "FakeTimer",
    "FakeTriton",
    "MockClock",
    "RecordingInstrument",
    "SimulatedArray",
    "build_args",
    "build_request",
    "check_case",
    "collect",
    "load_class",
    "model_loader",
    "requests_for",
]

MS = 1_000_000


def __getattr__(name: str) -> Any:
    """Return a function of a tool."""
    if name in ("check_case", "requests_for"):
        return tool_function(f"testing.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class MockClock:
    """A `core.clock.Clock` that stands still until `advance`. Times are nanoseconds."""

    def __init__(self, now: int = 0, wall: int = 1_700_000_000_000_000_000) -> None:
        self._now = now
        self._wall = wall

    def now(self) -> int:
        return self._now

    def wall(self) -> int:
        return self._wall

    def advance(self, ns: int) -> None:
        """Move both clocks forward. Raises ValueError for a step back."""
        if ns < 0:
            raise ValueError(f"time does not run back: {ns} ns")
        self._now += ns
        self._wall += ns

    def __repr__(self) -> str:
        return f"<MockClock {self._now} ns>"


class FakeTimer:
    """A `schedulers.timer.Timer` without a thread: a due call is made as `advance` moves the clock past it."""

    def __init__(self, clock: MockClock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    @property
    def deadlines(self) -> list[int]:
        """The deadlines still to come, soonest first, in nanoseconds of the clock."""
        return sorted(when for when, _, _ in self._heap)

    def call_at(self, when: int, function: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (when, next(self._order), function))

    def advance(self, ns: int) -> None:
        """Move the clock by `ns`, and stop at each deadline on the way to make the due call."""
        end = self._clock.now() + ns
        while self._heap and self._heap[0][0] <= end:
            when, _, function = heapq.heappop(self._heap)
            self._clock.advance(max(when - self._clock.now(), 0))
            function()
        self._clock.advance(end - self._clock.now())


class _Idle(Protocol):
    def instance_idle(self, instance: Any) -> None: ...


class FakeInstance:
    """The fake of a model instance for a scheduler. Payloads pile up in `payloads` until `finish` responds to the
    oldest.
    """

    def __init__(self, name: str = "fake_0_0") -> None:
        self.name = name
        self.payloads: list[Payload] = []

    def execute(self, payload: Payload) -> None:
        for request in payload.requests:
            request.advance(RequestEvent.EXECUTE)
        self.payloads.append(payload)

    @property
    def sizes(self) -> list[int]:
        """The batch sizes of the payloads in execution."""
        return [payload.size for payload in self.payloads]

    def finish(self, scheduler: _Idle) -> Payload:
        """End the oldest payload. As with a real instance, the scheduler is called before the clients get responses."""
        payload = self.payloads.pop(0)
        scheduler.instance_idle(self)
        for request in payload.requests:
            request.respond(InferenceResponse(request.model_name, 1, request.request_id))
        return payload

    def __repr__(self) -> str:
        return f"<FakeInstance {self.name} {self.sizes}>"


class FakeStub:
    """The stub's end of a link in this process: sockets and regions are real, and the test plays the stub.

    `link` is the server's end. `connection`, `region` and `server_region` are the stub's: it sends with the first,
    writes to the second and reads from the third.
    """

    def __init__(self, link_reader: LinkReader, size: int = 1 << 20) -> None:
        self._fds = [create_region_file("fake kernel"), create_region_file("fake stub")]
        ours, theirs = socket.socketpair()
        server_region = Region(self._fds[0], size)
        self.region = Region(self._fds[1], size)
        self.link = StubLink(ours, server_region, RegionReader(self._fds[1]), link_reader)
        self.link.watch.start()
        self.server_region = RegionReader(self._fds[0])
        self._socket = theirs
        self.connection = Connection(theirs, on_freed=self.region.free, unpacks=True)

    def receive(self, timeout: float = 5.0) -> Message:
        """Return the server's next message: command number, id, body. Raises TimeoutError after `timeout` seconds."""
        message = self.connection.receive(timeout=timeout)
        if message is None:
            raise TimeoutError("the server sent nothing")
        return message

    def expect(self, command: str, timeout: float = 5.0) -> tuple[int, Any]:
        """Return the id and body of the next message, which must be a `command`."""
        number, ident, body = self.receive(timeout)
        if number != NUMBER[command]:
            raise AssertionError(f"expected {command}, got {BY_NUMBER[number].name} {body!r}")
        return ident, body

    def send(self, command: str, ident: int = 0, body: Any = None) -> None:
        """Send a message in the form of a correct stub."""
        self.connection.send(NUMBER[command], ident, body)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that no correct stub would send."""
        self._socket.sendall(data)

    def die(self) -> None:
        """Close the stub's side, like the death of the process."""
        self._socket.close()

    def close(self) -> None:
        self.link.close()
        self._socket.close()
        for fd in self._fds:
            os.close(fd)


class RecordingInstrument(Instrument):
    """An instrument that keeps every hook call as `(hook name, *arguments)` in `events`."""

    def __init__(self) -> None:
        self.events: deque[tuple[Any, ...]] = deque()

    def named(self, hook: str) -> list[tuple[Any, ...]]:
        """Return the arguments of each call of one hook, oldest first. Raises ValueError for a hook that does not
        exist.
        """
        if hook not in HOOKS:
            raise ValueError(f"hook '{hook}' does not exist")
        return [event[1:] for event in list(self.events) if event[0] == hook]


def _record(hook: str) -> Callable[..., None]:
    def record(self: RecordingInstrument, *arguments: Any) -> None:
        self.events.append((hook, *arguments))

    return record


for _hook in HOOKS:
    setattr(RecordingInstrument, _hook, _record(_hook))


def collect(request: InferenceRequest) -> list[InferenceResponse]:
    """Return a list to which the responses of `request` are appended as they arrive."""
    responses: list[InferenceResponse] = []
    request.on_response = lambda _, response: responses.append(response)
    return responses


@contextlib.contextmanager
def model_loader(server: Server) -> Iterator[Callable[..., Model]]:
    """Yield a function that loads models into `server` as `tritonlab.load` does; at the end they are unloaded.

    `load("add_sub", source, config=...)` takes a class, a text, or the path of a model.py or model directory;
    `load("models/add_sub")` takes a model directory alone. The server's first repository must be writable.
    """
    workspace = Workspace(server, server.repositories[0])

    def load(name: str | PathLike[str], source: Source | None = None, **settings: Any) -> Model:
        directory = Path(name)
        if source is None and directory.is_dir():
            name, source = directory.resolve().name, directory
        authored = {key: settings.pop(key) for key in LOAD_ARGUMENTS if key in settings}
        options = ConfigOptions.from_keywords(**settings) if settings else None
        return workspace.load(str(name), source, options=options, **authored)

    try:
        yield load
    finally:
        for name in workspace.names():
            if workspace.report(name) is not None:
                workspace.unload(name)
        workspace.close()
