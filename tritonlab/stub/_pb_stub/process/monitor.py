"""The stub's monitor, which answers queries about the process while its main thread runs the author's code."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Dict, Optional, Type

from ..api import own_threads
from ..wire.connection import Connection, LinkClosed
from ..wire.ipc_message import BY_NUMBER, NUMBER
from ..wire.message_bodies import (
    Attach,
    Awake,
    DumpStacks,
    IsReady,
    ListModules,
    Postmortem,
    Profile,
    ReadsRecorded,
    TellReads,
    Waits,
    Wake,
)
from . import link_pdb
from .author_call import result_of
from .line_profiler import LineProfiler
from .model_context import ModelContext
from .module_facts import files_of_modules
from .reads_record import ReadsRecord
from .stub_bridge import StubBridge
from .thread_stacks import all_stacks


class Monitor:
    """A thread that reads the monitor socket. When that socket ends, the server has ended, and this process ends."""

    def __init__(
        self, bridge: StubBridge, context: ModelContext, connection: Connection, reads: Optional[ReadsRecord] = None
    ) -> None:
        self._bridge = bridge
        self._context = context
        self._connection = connection
        self._handlers: Dict[Type[Any], Callable[[Any], Any]] = {
            DumpStacks: lambda body: all_stacks(context.loop),
            ListModules: lambda body: files_of_modules(),
            Waits: lambda body: bridge.running.needs(),
            TellReads: self._tell_reads,
            Postmortem: lambda body: bridge.last_error.look(body.begin),
            Wake: lambda body: bridge.tell(Awake()),
            Profile: LineProfiler(bridge, context).answer,
        }
        self._reads = reads

    def start(self) -> None:
        """Start the thread."""
        own_threads.start("monitor", self._watch)

    def _watch(self) -> None:
        try:
            while True:
                message = self._connection.receive()
                assert message is not None
                command, ident, fields = message
                kind = BY_NUMBER[command].body
                # on a separate thread: a hanging one must not prevent this one from reporting its place
                if kind is IsReady:
                    own_threads.start("is_ready", self._answer, ident, self._is_ready, runs_authors=True)
                elif kind is Attach:
                    own_threads.start("attach", self._answer, ident, link_pdb.connect, BY_NUMBER[command].read(fields))
                else:
                    self._answer(ident, self._handlers[kind], BY_NUMBER[command].read(fields))
        except LinkClosed:
            os._exit(1)

    def _answer(self, ident: int, handler: Callable[[Any], Any], body: Any = None) -> None:
        with contextlib.suppress(LinkClosed):  # _watch notices it too
            self._connection.send(NUMBER["RESULT"], ident, result_of(self._bridge, handler, body))

    def _tell_reads(self, body: TellReads) -> ReadsRecorded:
        assert self._reads is not None
        self._reads.set_recording(body.record)
        return self._reads.recorded()

    def _is_ready(self, body: Any) -> Optional[bool]:
        return self._context.is_ready()
