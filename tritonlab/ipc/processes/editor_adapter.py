"""The debug adapter that an editor starts: its standard input and output lead to the debugger in a model's process.

tritonlab puts a copy of this file next to a Unix socket, into a directory that only its user can enter. It needs only a
Python from 3.8 on.
"""

import contextlib
import os
import socket
import sys
import threading

#: The name of the Unix socket next to this file.
SOCKET = "socket"
_PIECE = 1 << 16


def main() -> None:
    os.chdir(os.path.dirname(os.path.abspath(__file__)))  # because the path of a socket has at most 107 bytes
    link = socket.socket(socket.AF_UNIX)
    try:
        link.connect(SOCKET)
    except OSError as error:
        sys.exit(
            f"no debugger waits in {os.getcwd()} ({error.strerror}): the model's process has ended, or the model was "
            "loaded again; '%triton debug NAME --vscode' prints its new configuration"
        )
    threading.Thread(target=_send, args=(link,), daemon=True).start()
    with contextlib.suppress(OSError):  # the editor has gone
        while True:
            data = link.recv(_PIECE)
            if not data:
                break
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


def _send(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            data = os.read(0, _PIECE)
            if not data:
                break
            link.sendall(data)
        link.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
