"""The entry point of a stub process: `python triton_python_backend_stub.py CONTROL MONITOR KERNEL_REGION
STUB_REGION SIZE GROWTH LIMIT LIFE DOOR`, or of a zygote, which forks stubs: `… zygote SOCKET LIFE`.

All but the sizes are numbers of inherited descriptors. It is self-contained: it needs the standard library and numpy,
Python 3.8 or later, and is started by path with any interpreter. Its directory is Triton's "backend directory": it
holds `triton_python_backend_utils.py`, and goes to the end of sys.path.
"""

from __future__ import annotations

import faulthandler
import os
import sys

_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    arguments = sys.argv[1:]
    forks = arguments[0] == "zygote"
    numbers = [int(argument) for argument in arguments[forks:]]
    sys.argv = [""]  # rule 2.1.5
    environment = dict(os.environ)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    faulthandler.enable(all_threads=False)  # after a crash the log has the Python stack of the thread that crashed
    _die_with_parent(numbers[1] if forks else numbers[7])
    try:  # if memory runs out, this process and processes that it forks are killed before the server
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # not Linux, or not allowed

    import socket

    if _DIRECTORY not in sys.path:  # PYTHONSAFEPATH
        sys.path.append(_DIRECTORY)
    import c_python_backend_utils  # noqa: F401
    import numpy  # noqa: F401
    import triton_python_backend_utils  # noqa: F401  a warm stub has done its imports
    from _pb_stub.api import signal_gate
    from _pb_stub.process import main_loop
    from _pb_stub.process.zygote import StubArguments, Zygote

    # python puts the script's directory first; Triton's backend directory comes last (ModelContext.load)
    sys.path.remove(_DIRECTORY)
    signal_gate.install()
    if forks:
        control, life = numbers
        main_loop.serve(Zygote(socket.socket(fileno=control), life, _die_with_parent).run(), _DIRECTORY)
    else:
        main_loop.serve(StubArguments(*numbers, environment), _DIRECTORY)


def _die_with_parent(life_fd: int) -> None:
    """Make the operating system kill this process group when the server process, which holds the other end of this
    pipe, ends.

    The monitor thread notices the same, but cannot act while the author's C code holds the GIL; a signal needs no GIL.
    The whole group is killed, so that processes forked by the model end too.
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
