"""A stub in its process: its link, and its main loop until that ends."""

from __future__ import annotations

import faulthandler
import os
import platform
import socket

import numpy

from ..api import bridge, signal_gate
from ..wire.connection import Connection, LinkClosed
from ..wire.ipc_message import STACKS_SIGNAL
from ..wire.message_bodies import Hello
from ..wire.serialization import WIRE_VERSION
from ..wire.shm_manager import Region, RegionReader
from . import link_pdb
from .forked import ForkGuard
from .main_loop import MainLoop
from .model_context import ModelContext
from .reads_record import ReadsRecord
from .stub_bridge import StubBridge
from .zygote import StubArguments


def serve(args: StubArguments, backend_directory: str) -> None:
    """Run a model until FINALIZE, or until the server is gone."""
    for fd in (args.control, args.monitor, args.server_region, args.stub_region, args.life, args.door):
        os.set_inheritable(fd, False)  # for us, not for the programs that the model starts
    region = Region(args.stub_region, args.size, args.growth, args.limit or None)
    control = Connection(socket.socket(fileno=args.control), on_freed=region.free, unpacks=True)
    monitor = Connection(socket.socket(fileno=args.monitor))
    stub = StubBridge(control, region, RegionReader(args.server_region))
    bridge.install(stub)
    link_pdb.install()
    ForkGuard(stub, [monitor], socket.socket(fileno=args.door)).install()
    if STACKS_SIGNAL is not None:
        faulthandler.register(STACKS_SIGNAL, file=2, all_threads=True)  # a library may have replaced sys.stderr
    stub.tell(Hello(WIRE_VERSION, platform.python_version(), numpy.__version__, os.getpid()))
    signal_gate.close()
    try:
        context = ModelContext(stub, backend_directory)
        MainLoop(stub, context, monitor, args.environment, reads=ReadsRecord()).run()
    except LinkClosed:
        os._exit(1)
    signal_gate.open()
