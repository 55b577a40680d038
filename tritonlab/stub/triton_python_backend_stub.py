"""Entry point of a stub process: `python triton_python_backend_stub.py CONTROL MONITOR KERNEL_REGION STUB_REGION
SIZE GROWTH LIMIT LIFE DOOR`.

All but the sizes are numbers of inherited descriptors. Standalone: the standard library and numpy, Python 3.8 or later,
started by path with any interpreter. Its directory is Triton's "backend directory": it holds
`triton_python_backend_utils.py`, and goes to the end of sys.path.
"""

from __future__ import annotations

import faulthandler
import os
import sys

_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    numbers = [int(argument) for argument in sys.argv[1:]]
    control_fd, monitor_fd, kernel_fd, stub_fd, size, growth, limit, life_fd, door_fd = numbers
    for fd in (control_fd, monitor_fd, kernel_fd, stub_fd, life_fd, door_fd):
        os.set_inheritable(fd, False)  # for us, not for the programs that the model starts
    sys.argv = [""]  # rule 2.1.5
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    faulthandler.enable(all_threads=False)  # a crash leaves the Python stack it happened on in the log
    _die_with_parent(life_fd)

    import platform
    import socket

    if _DIRECTORY not in sys.path:  # PYTHONSAFEPATH
        sys.path.append(_DIRECTORY)
    import c_python_backend_utils  # noqa: F401
    import numpy
    import triton_python_backend_utils  # noqa: F401  a warm stub has done its imports
    from _pb_stub.api import bridge
    from _pb_stub.process.forked import ForkGuard
    from _pb_stub.process.main_loop import MainLoop
    from _pb_stub.process.model_context import ModelContext
    from _pb_stub.process.stub_bridge import StubBridge
    from _pb_stub.wire import serialization
    from _pb_stub.wire.connection import Connection, LinkClosed
    from _pb_stub.wire.ipc_message import STACKS_SIGNAL
    from _pb_stub.wire.message_bodies import Hello
    from _pb_stub.wire.shm_manager import Region, RegionReader

    # python puts the script's directory first; Triton's backend directory comes last (ModelContext.load)
    sys.path.remove(_DIRECTORY)
    region = Region(stub_fd, size, growth, limit or None)
    control = Connection(socket.socket(fileno=control_fd), on_freed=region.free)
    monitor = Connection(socket.socket(fileno=monitor_fd))
    stub = StubBridge(control, region, RegionReader(kernel_fd))
    bridge.install(stub)
    ForkGuard(stub, [monitor], socket.socket(fileno=door_fd)).install()
    if STACKS_SIGNAL is not None:
        faulthandler.register(STACKS_SIGNAL, all_threads=True)
    stub.tell(Hello(serialization.WIRE_VERSION, platform.python_version(), numpy.__version__, os.getpid()))
    try:
        MainLoop(stub, ModelContext(stub, _DIRECTORY), monitor).run()
    except LinkClosed:
        os._exit(1)


def _die_with_parent(life_fd: int) -> None:
    """Has the operating system kill this process group when the kernel process, which holds the other end of this
    pipe, ends.

    The monitor thread notices the same, but cannot act while the author's C code holds the GIL; a signal needs no GIL.
    The whole group, so that processes which the model forked go too.
    """
    try:
        import fcntl
        import signal

        fcntl.fcntl(life_fd, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life_fd, getattr(fcntl, "F_SETSIG", 10), signal.SIGKILL)
        flags = fcntl.fcntl(life_fd, fcntl.F_GETFL)
        fcntl.fcntl(life_fd, fcntl.F_SETFL, flags | fcntl.FASYNC)
    except (ImportError, AttributeError, OSError):
        pass  # not Linux: the monitor thread alone


if __name__ == "__main__":
    main()
