"""The zygote, from which stubs are forked: they have its imports, and share its memory until they write to it.

Measured with torch 2.13 on 2 cores: a stub that imports it needs 1.1 s of CPU time and 150 MB of its own. A fork takes
2.8 ms, for two copies of the page tables, and its stub has 5.5 MB of its own. Stubs that wait with finished imports
would be as quick for one edit; but each costs that second and those 150 MB, the second of two quick edits finds none,
and eight instances of a model take 1.2 GB instead of 190 MB.

A zygote has only one thread, which waits for the server. It forks a stub, or another zygote, which imports more. Either
becomes the server's child, like a process that the server starts itself: the process forked in between ends at once,
and the server, which is a child subreaper meanwhile (`man 2 prctl`), inherits its child.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import socket
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from ..wire.fork_bodies import Fork, Forked, Grow, Grown, ImportStep
from ..wire.ipc_message import read_zygote_message, zygote_message
from .preload import LeftOut, Preload, ProcessState, fork, seed_random_numbers
from .prints import flush_prints

#: The most bytes of a message, and the most descriptors with it.
_MESSAGE = 1 << 18
_MOST = 16


class StubArguments(NamedTuple):
    """The arguments of a stub's start: numbers of descriptors, sizes of its regions (0: no limit), and the environment
    variables during its imports.
    """

    control: int
    monitor: int
    server_region: int
    stub_region: int
    size: int
    growth: int
    limit: int
    life: int
    door: int
    environment: Dict[str, str]


class Zygote:
    """The process that forks stubs for the server. `die_with_server` is called with the life pipe in each process that
    is forked, once it leads a session."""

    def __init__(self, sock: socket.socket, life: int, die_with_server: Callable[[int], None]) -> None:
        for fd in (sock.fileno(), life):
            os.set_inheritable(fd, False)
        self._socket = sock
        self._life = life
        self._die_with_server = die_with_server
        self._environment = dict(os.environ)
        self._preload = Preload()
        self._question = 0  # the number of the request that is answered next
        #: the output of imports to stdout and stderr, which each stub writes again
        self._printed: Tuple[bytes, bytes] = (b"", b"")

    def run(self) -> StubArguments:
        """Follow the server's messages. Returns only in a forked stub."""
        self._grow(())
        while True:
            body, fds = self._receive()
            if isinstance(body, Grow):
                if self._fork(fds):
                    self._become(body, fds)
            elif self._may_fork(body, fds) and self._fork(fds):
                return self._become_stub(body, fds)

    def _receive(self) -> Tuple[Any, List[int]]:
        data, ancillary, _, _ = self._socket.recvmsg(_MESSAGE, socket.CMSG_SPACE(_MOST * 4), socket.MSG_CMSG_CLOEXEC)
        if not data:
            os._exit(0)
        fds = [
            int.from_bytes(part[at : at + 4], sys.byteorder) for *_, part in ancillary for at in range(0, len(part), 4)
        ]
        self._question, body = read_zygote_message(data)
        return body, fds

    def _tell(self, body: Any) -> None:
        try:
            self._socket.sendall(zygote_message(self._question, body))
        except OSError:
            os._exit(0)

    def _may_fork(self, body: Fork, fds: List[int]) -> bool:
        stale = self._preload.changed()
        shadow = "" if stale else self._preload.shadowed(body.paths)
        refused = stale or (shadow and "%s may be what one of them imports" % shadow)
        if refused:
            _close(fds)
            self._tell(Forked(0, refused, bool(stale)))
        return not refused

    def _fork(self, fds: List[int]) -> bool:
        """Fork a process that leads its own session, and report it to the server. Returns True in that process."""
        read, write = os.pipe()
        try:
            between = fork()
        except OSError as error:
            self._tell(Forked(0, str(error), False))
        else:
            if between == 0 and _forked_again(write):
                _close([read, write, self._life])
                self._socket.close()
                return True
            os.close(write)
            os.waitpid(between, 0)
            answer = os.read(read, 20)
            write = -1
            self._tell(Forked(int(answer), "", False) if answer else Forked(0, "no process was forked", False))
        _close([fd for fd in (read, write, *fds) if fd >= 0])
        return False

    def _become(self, body: Grow, fds: List[int]) -> None:
        """Turn a forked process into the zygote that imports more."""
        socket_fd, self._life = fds
        self._die_with_server(self._life)
        self._socket = socket.socket(fileno=socket_fd)
        if body.directory:
            os.chdir(body.directory)
        if body.environment != self._environment:
            os.environ.clear()
            os.environ.update(body.environment)
            self._environment = body.environment
        self._grow(body.steps)

    def _grow(self, steps: Sequence[ImportStep]) -> None:
        """Import, and report the steps that succeeded; a process with a failed step is useless."""
        since, printed, done = time.time(), _Printed(), 0
        state = ProcessState()
        try:
            state.check()
            for step in steps:
                self._preload.add(step)
                if not step.own:
                    with printed.dropped():
                        state.check()
                done += 1
        except LeftOut as why:
            self._tell(Grown(done, str(why), 0))
            os._exit(0)
        stdout, stderr = printed.taken()
        self._printed = (self._printed[0] + stdout, self._printed[1] + stderr)
        self._preload.settle(since)
        self._tell(Grown(len(steps), "", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))

    def _become_stub(self, body: Fork, fds: List[int]) -> StubArguments:
        control, monitor, server_region, stub_region, life, door, stdout, stderr = fds
        self._die_with_server(life)
        for fd, number, printed in ((stdout, 1, self._printed[0]), (stderr, 2, self._printed[1])):
            os.dup2(fd, number)
            os.close(fd)
            if printed:
                os.write(number, printed)
        _reopen(sys.stdout, 1)
        _reopen(sys.stderr, 2)
        with contextlib.suppress(BaseException):  # as `ProcessState` has tried it; it must not end the stub
            seed_random_numbers()
        sizes = (body.size, body.growth, body.limit)
        return StubArguments(control, monitor, server_region, stub_region, *sizes, life, door, self._environment)


class _Printed:
    """The output to stdout and stderr from now on until it is `taken`."""

    def __init__(self) -> None:
        self._files = [os.memfd_create("tritonlab printed") for _ in range(2)]
        self._originals = [os.dup(number) for number in (1, 2)]
        for file, number in zip(self._files, (1, 2)):
            os.dup2(file, number)

    @contextlib.contextmanager
    def dropped(self) -> Iterator[None]:
        """Drop output within this context: at a trial fork libraries print that they are forked."""
        flush_prints()
        sizes = [os.fstat(file).st_size for file in self._files]
        yield
        flush_prints()
        for file, size in zip(self._files, sizes):
            os.ftruncate(file, size)
            os.lseek(file, size, os.SEEK_SET)

    def taken(self) -> Tuple[bytes, bytes]:
        flush_prints()
        found = []
        for file, original, number in zip(self._files, self._originals, (1, 2)):
            os.dup2(original, number)
            os.close(original)
            found.append(os.pread(file, os.fstat(file).st_size, 0))
            os.close(file)
        return found[0], found[1]


def _reopen(stream: Any, number: int) -> None:
    """Inform a standard stream that its descriptor is now a pipe: it remembers the kind of file that it opened, and
    `reconfigure` queries its position. The object stays, since modules may have kept it.
    """
    if type(stream) is io.TextIOWrapper:
        raw = io.FileIO(number, "w", closefd=False)
        raw.name = stream.name
        stream.__init__(  # type: ignore[misc]
            io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True
        )


def _forked_again(write: int) -> bool:
    """Fork another process, write its id, and end this one. Returns True in the other."""
    try:
        pid = fork()
    except OSError:
        os._exit(1)
    if pid:
        os.write(write, b"%d" % pid)
        os._exit(0)
    os.setsid()
    # Python before 3.13 keeps the main thread's number of the parent
    getattr(threading.main_thread(), "_set_native_id", int)()
    return True


def _close(fds: List[int]) -> None:
    for fd in fds:
        os.close(fd)
