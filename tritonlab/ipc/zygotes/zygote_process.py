"""`ZygoteProcess`, the server's end of a process that forks stubs (`stub/_pb_stub/process/zygote.py`)."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ...stub._pb_stub.wire.fork_bodies import Fork, Forked, Grow, Grown, ImportStep
from ...stub._pb_stub.wire.ipc_message import read_zygote_message, zygote_message
from ...stub._pb_stub.wire.serialization import WireError
from ..link.link_reader import Watch
from ..processes.child_process import ChildProcess
from ..processes.child_subreaper import inheriting
from ..processes.interpreter import STUB, Interpreter
from ..processes.out_of_memory import own_peak

#: Deadlines in seconds. A fork takes milliseconds, an import with cold caches half a minute.
_ANSWER_TIMEOUT = 20.0
_GROW_TIMEOUT = 60.0
_LAST_ANSWER = 2.0
_MESSAGE = 1 << 18


class ZygoteError(Exception):
    """A zygote that has ended or does not answer."""


class ForkRefused(Exception):
    """The reason why a zygote does not fork: a new process would import something else. `stale`: for any model."""

    def __init__(self, why: str, stale: bool = False) -> None:
        super().__init__(why)
        self.stale = stale


class ImportLeftOut(Exception):
    """The reason why an import was not made, after the first `steps` of those requested."""

    def __init__(self, why: str, steps: int = 0) -> None:
        super().__init__(why)
        self.steps = steps


class ZygoteProcess:
    """One process that has made the imports `steps`.

    Guarantees: any thread may call any method. Its forks become children of this process, and do not depend on the
    zygote any more.
    """

    def __init__(self, steps: Sequence[ImportStep], sock: socket.socket, life: int, child: ChildProcess) -> None:
        """Take over the descriptors. `await_grown` waits until the process is up."""
        self.steps = tuple(steps)
        self.child = child
        self.used = 0.0  # `time.monotonic()` of its last fork, except for a twin
        #: watches for the end of its process; to be removed before the process is closed
        self.watch: Watch | None = None
        self._socket = sock
        self._life = life
        self._peak = 0
        self._lock = threading.Lock()  # held from a question to its answer
        self._numbers = itertools.count(1)  # of the questions
        self._state = threading.Lock()  # guards _closed
        self._closed = False
        self._has_failed = False  # whether it failed to answer, which is known before its end
        _running.add(self)

    @staticmethod
    def start(interpreter: Interpreter, environment: Mapping[str, str]) -> ZygoteProcess:
        """Start a new process, without imports. Raises OSError."""

        def begin(fds: tuple[int, int]) -> ChildProcess:
            return ChildProcess.start(
                [interpreter.executable, str(STUB), "zygote", *map(str, fds)],
                environment=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                inherited=fds,
            )

        return _linked((), begin)

    def twin(self, environment: Mapping[str, str], directory: str) -> ZygoteProcess:
        """Fork a zygote with the same imports, in the same place. Raises as `grow` and `await_grown` do."""
        body = Grow([], dict(environment), directory)
        twin = _linked(self.steps, lambda fds: self._fork(body, fds))
        twin.await_grown()
        return twin

    def grow(self, steps: Sequence[ImportStep], environment: Mapping[str, str], directory: str) -> ZygoteProcess:
        """Fork a zygote that also makes these imports, with these variables and in this directory. Raises ForkRefused,
        ZygoteError or OSError."""
        body = Grow(list(steps), dict(environment), directory)
        grown = _linked([*self.steps, *steps], lambda fds: self._fork(body, fds))
        self.used = time.monotonic()
        return grown

    def await_grown(self) -> None:
        """Wait for its imports. Raises ImportLeftOut if one was not made, or ZygoteError; then the process is gone."""
        try:
            _, grown = self._receive(_GROW_TIMEOUT)
        except ZygoteError:
            self.end()
            raise ZygoteError(f"it ended with {self.child.exit_reason()}") from None
        assert isinstance(grown, Grown)
        if grown.left_out:
            self.end()
            raise ImportLeftOut(grown.left_out, grown.steps)
        self._peak = grown.peak

    def fork(self, sizes: tuple[int, int, int | None], paths: Sequence[str], inherited: Sequence[int]) -> ChildProcess:
        """Fork a stub with these descriptors. Raises ForkRefused, ZygoteError or OSError."""
        size, growth, limit = sizes
        stub = self._fork(Fork(size, growth, limit or 0, list(paths)), inherited)
        self.used = time.monotonic()
        return stub

    def _fork(self, body: Fork | Grow, fds: Sequence[int]) -> ChildProcess:
        with inheriting():
            forked = self._ask(body, fds)
        if not forked.pid:
            raise ForkRefused(forked.refused, forked.stale)
        return ChildProcess(_ForkedProcess(forked.pid, self._peak))

    def _ask(self, body: Any, fds: Sequence[int]) -> Forked:
        with self._lock:
            question = next(self._numbers)
            try:
                socket.send_fds(self._socket, [zygote_message(question, body)], list(fds))
            except OSError as error:
                raise self._failed(str(error)) from None
            while True:
                number, answer = self._receive(_ANSWER_TIMEOUT)
                assert isinstance(answer, Forked)
                if number == question:
                    return answer
                _end_unowned(answer.pid)  # an interrupt came before its answer was read

    def _receive(self, timeout: float) -> tuple[int, Any]:
        """Return an answer and the number of its question. Waits with `poll`: a timeout of the socket would make the
        other end non-blocking, too."""
        try:
            readable = select.poll()
            readable.register(self._socket, select.POLLIN)
            if not readable.poll(timeout * 1000):
                self.child.send_signal(9)
                raise self._failed(f"it did not answer within {timeout:.0f} s")
            data = self._socket.recv(_MESSAGE)
            if not data:
                raise self._failed("it has ended")
            return read_zygote_message(data)
        except (OSError, TypeError, ValueError, WireError) as error:  # ValueError: `end` has closed the socket
            raise self._failed(str(error)) from None

    def _failed(self, why: str) -> ZygoteError:
        self._has_failed = True
        return ZygoteError(why)

    @property
    def alive(self) -> bool:
        """Return whether the zygote runs."""
        return not self._closed and not self._has_failed and not self.child.wait(0)

    def end(self) -> None:
        """End the zygote; its forks go on."""
        with self._state:
            if self._closed:
                return
            self._closed = True
        _running.discard(self)
        if self.watch is not None:
            self.watch.remove()
        # A process that it has just forked is known only from the answer; without that answer it would never be ended.
        answered = self._lock.acquire(timeout=_LAST_ANSWER)
        self.child.kill()
        self.child.close()
        if not answered:
            self._lock.acquire()  # the question fails now
        self._socket.close()
        self._lock.release()
        os.close(self._life)

    def forget(self) -> None:
        """Drop, in a forked child of the server, the descriptors that would keep the zygote alive after the server."""
        self._closed = True
        self._socket.close()
        with contextlib.suppress(OSError):
            os.close(self._life)

    def __repr__(self) -> str:
        return f"<ZygoteProcess {self.child.pid} [{', '.join(step.module for step in self.steps)}]>"


class _ForkedProcess:
    """A process forked by a zygote, as a ChildProcess. `inherited`: its memory at the start, in bytes."""

    def __init__(self, pid: int, inherited: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.peak = 0
        self._inherited = inherited
        self._lock = threading.Lock()  # held by the one thread that waits

    def wait(self) -> int:
        with self._lock:
            if self.returncode is None:
                try:
                    _, status, usage = os.wait4(self.pid, 0)
                    self.peak = own_peak(usage.ru_maxrss * 1024, self._inherited)
                    self.returncode = os.waitstatus_to_exitcode(status)
                except ChildProcessError:  # other code in this process has waited for all children
                    self.returncode = 0
            return self.returncode


def _end_unowned(pid: int) -> None:
    """End and collect a process whose descriptors were closed before its number arrived. If it is not a child of this
    process, it ends by itself, because its life pipe is closed."""
    with contextlib.suppress(OSError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # raises for a process that is not our child
        child = ChildProcess(_ForkedProcess(pid, 0))
        child.kill()
        child.close()


def _linked(steps: Sequence[ImportStep], begin: Callable[[tuple[int, int]], ChildProcess]) -> ZygoteProcess:
    """Return the zygote that `begin` starts with its ends of a socket pair and of a life pipe."""
    with ExitStack() as ours, ExitStack() as theirs:
        sock, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.enter_context(sock)
        theirs.enter_context(other)
        life, life_write = os.pipe()
        theirs.callback(os.close, life)
        ours.callback(os.close, life_write)
        child = begin((other.fileno(), life))
        ours.pop_all()
    return ZygoteProcess(steps, sock, life_write, child)


_running: weakref.WeakSet[ZygoteProcess] = weakref.WeakSet()


def _forget_all() -> None:
    for zygote in list(_running):
        zygote.forget()
    _running.clear()


os.register_at_fork(after_in_child=_forget_all)
