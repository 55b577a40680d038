"""A stub in its process: its link, and the main loop, which takes commands, executes them and answers."""

from __future__ import annotations

import faulthandler
import os
import platform
import socket
import time
from typing import Any, Callable, Dict, Mapping, Optional, Type

import numpy

from ..api import bridge, signal_gate
from ..api.opened_memory import OPENED
from ..wire.connection import Connection, LinkClosed
from ..wire.ipc_message import BY_NUMBER, NUMBER, STACKS_SIGNAL
from ..wire.message_bodies import AutoComplete, Finalize, GiveBack, GivenBack, Hello, Import, Initialize
from ..wire.serialization import WIRE_VERSION
from ..wire.shm_manager import Region, RegionReader, trim_heap
from . import link_pdb
from .author_call import result_of
from .batch_executor import BatchExecutor
from .forked import ForkGuard
from .model_context import ModelContext
from .monitor import Monitor
from .reads_record import ReadsRecord
from .stub_bridge import StubBridge
from .zygote import StubArguments

_EXECUTE = NUMBER["EXECUTE"]
#: Seconds of polling for the next command, if polling pays at all.
_LEAST_SPIN = 2e-4


class MainLoop:
    """The loop on the process's main thread, as the author's code expects (signals, torch, tracing). One table maps
    commands to handlers."""

    def __init__(
        self,
        bridge: StubBridge,
        context: ModelContext,
        monitor: Connection,
        environment: Optional[Mapping[str, str]] = None,
        reads: Optional[ReadsRecord] = None,
    ) -> None:
        """`environment`: the process's variables at its start. `reads` records the model's reads while it is loaded."""
        self._bridge = bridge
        self._environment = environment
        self._context = context
        self._reads = reads
        self._monitor = Monitor(bridge, context, monitor, reads)
        self._executor: Optional[BatchExecutor] = None  # until INITIALIZE
        self._running = True
        self._handlers: Dict[Type[Any], Callable[[Any], Any]] = {
            Import: self._import,
            AutoComplete: lambda body: context.auto_complete_config(body.config),
            Initialize: self._initialize,
            Finalize: self._finalize,
            GiveBack: self._give_back,
        }

    def run(self) -> None:
        """Serve commands until FINALIZE. Raises LinkClosed if the server ends before."""
        self._monitor.start()
        self._bridge.deferred.start()
        spin = 0.0
        while self._running:
            waited_since = time.perf_counter()
            command, ident, fields = self._bridge.inbox.next_command(spin)
            idle = time.perf_counter() - waited_since
            if command == _EXECUTE:
                spin_us, block, entries = fields  # the row of an Execute
                longest = spin_us * 1e-6
                # twice as long as this command took to arrive; not at all if polling for it would have been in vain
                spin = min(max(idle * 2, _LEAST_SPIN), longest) if idle < longest else 0.0
                assert self._executor is not None
                self._executor.execute(ident, block, entries)
            else:
                row = BY_NUMBER[command]
                body = row.read(fields)
                self._bridge.tell(result_of(self._bridge, self._handlers[row.body], body), ident)

    def _import(self, body: Import) -> bool:
        if body.env != self._environment:  # otherwise unchanged: a preloaded module may have changed it
            os.environ.clear()
            os.environ.update(body.env)
        if body.cwd:
            os.chdir(body.cwd)
        self._bridge.model_dir = body.model_dir
        self._bridge.instance_name = body.instance
        if self._reads is not None:
            self._reads.begin(body.model_dir, body.audits)
        self._context.load(body.module, body.paths, body.path)
        return self._context.completes_config()

    def _initialize(self, body: Initialize) -> None:
        self._executor = BatchExecutor(self._bridge, self._context, body)
        self._bridge.declared = set(body.outputs)
        self._bridge.instance_name = body.args["model_instance_name"]
        self._bridge.tells_failures = body.tells_failures
        self._bridge.last_error.seconds = body.postmortem_s
        self._context.initialize(body.args)
        if self._reads is not None:
            self._reads.set_recording(False)

    def _finalize(self, body: Finalize) -> None:
        self._running = False
        self._context.finalize()

    def _give_back(self, body: GiveBack) -> GivenBack:
        self._bridge.region.give_back()
        trim_heap()
        returned = self._bridge.arena.give_back()
        return GivenBack([handle.hex() for handle in OPENED.give_back()], returned)


def serve(args: StubArguments, backend_directory: str) -> None:
    """Run a model until FINALIZE, or until the server is gone."""
    for fd in (args.control, args.monitor, args.server_region, args.stub_region, args.life, args.door):
        os.set_inheritable(fd, False)  # for the stub, not for programs started by the model
    region = Region(args.stub_region, args.size, args.growth, args.limit or None)
    control = Connection(socket.socket(fileno=args.control), on_freed=region.free, unpacks=True)
    monitor = Connection(socket.socket(fileno=args.monitor))
    stub = StubBridge(control, region, RegionReader(args.server_region))
    bridge.install(stub)
    link_pdb.install()
    ForkGuard(stub, [monitor], socket.socket(fileno=args.door)).install()
    if STACKS_SIGNAL is not None:
        faulthandler.register(STACKS_SIGNAL, file=2, all_threads=True)  # a library may have replaced sys.stderr
    try:
        stub.tell(Hello(WIRE_VERSION, platform.python_version(), numpy.__version__, os.getpid()))
        signal_gate.close()
        context = ModelContext(stub, backend_directory)
        MainLoop(stub, context, monitor, args.environment, reads=ReadsRecord()).run()
    except LinkClosed:
        os._exit(1)
    signal_gate.open()
