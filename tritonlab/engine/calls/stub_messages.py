"""`StubMessages`, the handlers of a stub's messages: responses, log lines, exceptions, growing memory, calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.status import ModelError
from ...ipc.gpu.device_tensors import DeviceTensors
from ...ipc.link.block_reader import BlockReader
from ...ipc.link.stub_link import NO_RESPONSE, Log, Raised, Response, StubLink
from ..execution.execution import StubExecutor
from ..execution.response_factory import build_response
from ..life.instance_plan import InstancePlan, InstanceServices

_LEVELS = ("INFO", "WARNING", "ERROR", "VERBOSE")


class StubMessages:
    """The handlers of one stub's messages. `on_call(link, id, call)` answers its calls."""

    def __init__(
        self,
        executor: StubExecutor,
        plan: InstancePlan,
        services: InstanceServices[Any],
        on_call: Callable[[StubLink, int, Any], None],
    ) -> None:
        self._stub = stub = executor.stub
        self._plan = plan
        self._inflight = executor.inflight
        self._services = services
        self._keeper = executor.keeper
        self._on_call = on_call
        stub.link.region.on_grow = partial(self._on_grow, "kernel")
        stub.link.stub_region.on_grow = partial(self._on_grow, "stub")

    def handle_all_links(self) -> None:
        """Handle messages over the stub's link, and over the links of processes that it forks."""
        self.handle_link(self._stub.link)
        forks = self._stub.process.forks
        forks.on_link, forks.on_end = self.handle_link, self._services.on_link_end

    def handle_link(self, link: StubLink) -> None:
        """Handle messages over one link, of the stub or of a process that it forked."""
        link.devices = DeviceTensors(self._services.pool.gpu_buffers, inputs=self._plan.device_inputs)
        link.on_message(Response, partial(self._on_response, link))
        link.on_message(Log, self._on_log)
        link.on_message(Raised, self._on_raised)
        link.on_calls(partial(self._on_call, link))

    def _on_response(self, link: StubLink, handle: int, sent: Response) -> None:
        stub = self._stub
        reader = BlockReader(link, sent.block)
        request = self._inflight.get(handle)
        if request is not None:
            stub.process.output.drain_all()
            final = bool(sent.flags)
            version, reshapes = self._plan.source.version, self._plan.reshapes
            output = [sent.tensors, sent.error, sent.parameters]
            copies = self._services.copies
            response = build_response(request, reader, output, version, final=final, copies=copies, reshapes=reshapes)
            response.empty = bool(sent.flags & NO_RESPONSE)
            if isinstance(response.error, ModelError):
                response.error.log = stub.last_lines()
                self._keeper.attach(response.error, [request])
            elif response.error is not None:
                self._keeper.answered_with_error()
            self._inflight.respond(request, response)
            if link is not stub.link:  # the caller may be reading the stub's own link, not this one
                stub.process.monitor.wake()
        reader.finish(more=not sent.flags)

    def _on_log(self, ident: int, record: Log) -> None:
        self._stub.process.output.drain_all()  # so that earlier prints come first
        stream = "log" if record.file else "server"
        self._stub.log(stream, level=_LEVELS[record.level], text=record.text, file=record.file, line=record.line)

    def _on_raised(self, ident: int, raised: Raised) -> None:
        stub = self._stub
        stub.process.output.drain_all()
        unheard = all(request.serial not in self._inflight for request in stub.whose())
        stub.log(stream="server", level="ERROR", text=raised.text, file=raised.file, line=raised.line, unheard=unheard)

    def _on_grow(self, region: str, size: int, used: int) -> None:
        hook = self._services.instruments.shm
        if hook is not None:
            hook(self._plan.label, region, size, used, self._services.clock.now())
