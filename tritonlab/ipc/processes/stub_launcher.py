"""The start and the end of a stub process with its link.

The end has steps, each with a deadline: FINALIZE (the author's `finalize` runs), time to exit, end of the link, SIGTERM
to the stub's session, SIGKILL to it. If the server dies, a stub needs no step: its life pipe ends and the operating
system kills its session.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from ...stub._pb_stub.wire.ipc_message import STACKS_SIGNAL
from ...stub._pb_stub.wire.message_bodies import Hello
from ...stub._pb_stub.wire.serialization import WIRE_VERSION
from ...stub._pb_stub.wire.shm_manager import Region, RegionReader, SharedMemoryError, create_region_file
from ..link.fork_links import ForkLinks
from ..link.link_reader import LinkReader, Watch
from ..link.stub_connection import Answer
from ..link.stub_link import MonitorLink, StubLink
from ..zygotes.first_imports import FirstImports
from ..zygotes.zygote_process import ZygoteProcess
from .child_process import ChildProcess, DeathCause
from .interpreter import STUB, Interpreter
from .memory_room import ROOM
from .stub_log import StubOutput

#: The server's own Python, which runs models that bring no environment or stub of their own.
KERNEL = Interpreter(sys.executable)

#: Deadlines in seconds. FINALIZE has none in Triton (rule 2.8.2), but a server that shuts down must not wait for ever.
HELLO_TIMEOUT = 60.0
FINALIZE_TIMEOUT = 30.0
RUNG_TIMEOUT = 2.0


class StubStartError(Exception):
    """The error of a stub process that did not start: reason and output. `was_killed`: by a signal from outside."""

    was_killed = False


@dataclass(frozen=True)
class ShmSettings:
    """The sizes of a stub's regions in bytes (rule 2.9). `limit` None lets them grow until memory is full."""

    default_byte_size: int = 1 << 20
    growth_byte_size: int = 1 << 20
    limit: int | None = None


DEFAULT_SHM = ShmSettings()


class StubEnds:
    """The sockets, regions and pipes for a new stub. Raises OSError, and leaves nothing open, if the process has no
    descriptors left.

    `inherited` are the stub's own ends, in the order in which its entry point takes them.
    """

    def __init__(self) -> None:
        with ExitStack() as ours, ExitStack() as theirs:
            self.region = create_region_file("tritonlab kernel")
            ours.callback(os.close, self.region)
            self.stub_region = create_region_file("tritonlab stub")
            ours.callback(os.close, self.stub_region)
            self.control, control = socket.socketpair()
            ours.enter_context(self.control)
            theirs.enter_context(control)
            self.monitor, monitor = socket.socketpair()
            ours.enter_context(self.monitor)
            theirs.enter_context(monitor)
            life, self.life = _pipe(theirs, ours)
            #: for the links of processes that the stub forks
            self.door, door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.enter_context(self.door)
            theirs.enter_context(door)
            self.stdout, self.stdout_write = _pipe(ours, theirs)
            self.stderr, self.stderr_write = _pipe(ours, theirs)
            self.inherited = (control.fileno(), monitor.fileno(), self.region, self.stub_region, life, door.fileno())
            self._ours, self._theirs = ours.pop_all(), theirs.pop_all()

    def close_theirs(self) -> None:
        """Close the stub's ends, once it has them or cannot get them any more."""
        self._theirs.close()

    def close(self) -> None:
        """Close the ends of both sides, unless ours has been taken over."""
        self._theirs.close()
        self._ours.close()


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


#: Starts a stub with its ends of the link, and the sizes of its regions.
Begin = Callable[[StubEnds, tuple[int, int, int | None]], ChildProcess]


def new_process(interpreter: Interpreter) -> Begin:
    """Return a function that starts a stub as a new process of the interpreter."""

    def begin(ends: StubEnds, sizes: tuple[int, int, int | None]) -> ChildProcess:
        control, monitor, *regions, life, door = ends.inherited
        numbers = [control, monitor, *regions, *(size or 0 for size in sizes), life, door]
        return ChildProcess.start(
            [interpreter.executable, str(STUB), *map(str, numbers)],
            environment=interpreter.variables(os.environ),
            stdout=ends.stdout_write,
            stderr=ends.stderr_write,
            inherited=ends.inherited,
        )

    return begin


def fork_of(zygote: ZygoteProcess, paths: Sequence[str]) -> Begin:
    """Return a function that makes the zygote fork a stub for a model with modules of its own in `paths`. The function
    raises ForkRefused or ZygoteError."""

    def begin(ends: StubEnds, sizes: tuple[int, int, int | None]) -> ChildProcess:
        return zygote.fork(sizes, paths, [*ends.inherited, ends.stdout_write, ends.stderr_write])

    return begin


class StubProcess:
    """A stub process with its link. At first it has no model; a model's instance takes it from the pool."""

    def __init__(
        self,
        link_reader: LinkReader,
        *,
        interpreter: Interpreter = KERNEL,
        shm: ShmSettings = DEFAULT_SHM,
        begin: Begin | None = None,
        like: StubProcess | None = None,
    ) -> None:
        """Start the process by `begin`, by default as a new process of the interpreter. `like`: a stub that was started
        just now for the same model. `await_hello` waits until it is up. Raises StubStartError if no process could be
        started, and the errors of `begin`."""
        self.interpreter = interpreter
        #: which modules the model has to import itself, and why; empty if the process has all of them
        self.imports_again = ""
        #: the model's first imports; None if they were not looked up
        self.first_imports: FirstImports | None = None
        #: the zygote that forked it; None if it was started as a new process
        self.zygote: ZygoteProcess | None = None
        self._link_reader = link_reader
        self._watches: dict[int, Watch] = {}
        self._ended = threading.Event()
        self._end_lock = threading.Lock()  # one thread alone sets _ended, and then closes everything
        #: whether its process has ended by a signal from outside; known once it is reaped
        self.was_killed = False
        ends = StubEnds()
        with ExitStack() as undo:
            undo.callback(ends.close)
            try:
                self._start(ends, shm, undo, begin or new_process(interpreter))
                self.cause: DeathCause = DeathCause(self.child, like.cause if like is not None else None)
            except (OSError, SharedMemoryError) as error:
                raise StubStartError(f"cannot start the stub with '{interpreter.executable}': {error}") from error
            finally:
                ends.close_theirs()
            try:
                self._listen(ends)
            except OSError as error:
                raise StubStartError(f"no more stubs can be started: {error}") from error
            undo.pop_all()
        _running.add(self)

    def _start(self, ends: StubEnds, shm: ShmSettings, undo: ExitStack, begin: Begin) -> None:
        sizes = (shm.default_byte_size, shm.growth_byte_size, shm.limit)
        region = Region(ends.region, *sizes)
        region.has_room = ROOM.has
        os.ftruncate(ends.stub_region, shm.default_byte_size)
        self._regions = (region, RegionReader(ends.stub_region))
        self.forks = ForkLinks(ends.door, self._link_reader, *sizes)
        undo.callback(self.forks.close)
        self.child = begin(ends, sizes)
        self.pid = self.child.pid
        undo.callback(self.child.close)
        undo.callback(self.child.kill)

    def _listen(self, ends: StubEnds) -> None:
        self._life_write = ends.life
        self.output = StubOutput(ends.stdout, ends.stderr)
        self.link = StubLink(ends.control, *self._regions, self._link_reader)
        self.monitor = MonitorLink(ends.monitor, *self._regions, self._link_reader)
        callbacks: tuple[tuple[int, Callable[[int], None]], ...] = (
            (ends.stdout, partial(self._on_output, ends.stdout)),
            (ends.stderr, partial(self._on_output, ends.stderr)),
            (self.child.exit_fd, self._on_exit),
        )
        for fd, callback in callbacks:
            self._watches[fd] = Watch(self._link_reader, fd, callback)
        links = (self.link.watch, self.monitor.watch, self.forks.watch)
        self._link_reader.start((*links, *self._watches.values()))

    def await_hello(self, timeout: float = HELLO_TIMEOUT) -> None:
        """Wait until the stub is up, for `timeout` seconds at most.

        Raises InterpreterError if its Python is to blame, else StubStartError with its output; the process has ended
        then.
        """
        self.link.await_answer(self.link.hello, timeout)
        hello: Hello | None = self.link.hello.value
        program = self.interpreter.executable
        if hello is None:
            why = self.link.lost_reason
            died = self.link.lost and self.child.wait(0.5)
            self.was_killed = died and self.cause.is_kill()
            self.kill()
            if self.interpreter is not KERNEL:
                self.interpreter.check()
            printed = "\n".join(self.output.held[-20:])
            what = (
                f"exited with {self.child.exit_reason()}" if died else why or f"did not answer within {timeout:.0f} s"
            )
            if died and (words := self.cause.words()):
                what += f". {words.removesuffix('.')}"
            failed = StubStartError(f"the stub ({program}) {what}" + (f":\n{printed}" if printed else ""))
            failed.was_killed = self.was_killed
            raise failed
        if hello.wire_version != WIRE_VERSION:
            self.kill()
            raise StubStartError(
                f"the stub ({program}) speaks wire version {hello.wire_version}, not {WIRE_VERSION}: it is of another "
                "release of tritonlab than this process, which must be restarted after an installation"
            )

    def _on_output(self, fd: int, events: int) -> None:
        if self.output.drain(fd):
            self._watches[fd].arm()

    def _on_exit(self, events: int) -> None:
        """End the link, because the process has ended. Its socket may stay open in processes that the model forked."""
        self.link.shutdown()
        self.monitor.shutdown()

    def region_memory(self) -> int:
        """Return the bytes of memory that its two regions take."""
        return sum(region.memory() for region in self._regions)

    def give_back(self, timeout: float) -> bool:
        """Make the stub return its unused memory to the system, and return the unused memory of the server's region for
        it.

        The command lists the blocks that the server no longer reads, and the answer does the same for the stub. Wait
        for `timeout` seconds at most; return whether the stub has answered.
        """
        answer = self.link.give_back()
        has_answered = self.link.await_answer(answer, timeout) and answer.value is not None
        if has_answered:
            self.link.devices.given_back(answer.value)
        self._regions[0].give_back()
        return has_answered

    def signal_stacks(self) -> bool:
        """Make the stub write its threads' stacks to stderr, even if no thread can run. Returns False if that is
        impossible: the system has no such signal, or the stub does not handle it yet and would die."""
        if STACKS_SIGNAL is None or self.link.hello.value is None:
            return False
        if not self._ended.is_set():
            self.child.send_signal(STACKS_SIGNAL)
        return True

    # -- the end

    def finalize(self, timeout: float = FINALIZE_TIMEOUT) -> Answer | None:
        """Run the author's `finalize` and end the process. Returns the answer to `finalize`, or None if it did not come
        within `timeout` seconds."""
        outcome = None
        if not self.link.lost:
            answer = self.link.finalize()
            if self.link.await_answer(answer, timeout) and not answer.lost:
                outcome = answer
                self.child.wait(RUNG_TIMEOUT)  # time for its exit functions, threads and buffers
        self._climb_down(grace=RUNG_TIMEOUT)
        return outcome

    def kill(self, why: str = "") -> None:
        """End the process without running `finalize`. `why`: a sentence for the errors of its requests."""
        if why:
            self.cause.requested, self.was_killed = why, True
        self._climb_down(grace=0.0)

    def _climb_down(self, grace: float) -> None:
        if self._ended.is_set():
            return  # by now its process id may be another's
        self.link.shutdown()
        self.monitor.shutdown()
        if grace and not self.child.wait(grace):
            self.child.terminate()
            self.child.wait(grace)
        self.child.kill()
        self._release()

    def reap(self) -> None:
        """End a process whose link was lost, collect its exit status and last lines, and free everything."""
        if self._ended.is_set():
            return
        self.was_killed = self.child.wait(0.5) and self.cause.is_kill()
        self.child.kill()
        self._release()

    def _release(self) -> None:
        with self._end_lock:
            if self._ended.is_set():
                return
            self._ended.set()
        _running.discard(self)
        for watch in self._watches.values():
            watch.remove()
        self.child.close()
        self.output.close()
        self.forks.close()
        self.link.close()
        self.link.devices.close()
        self.monitor.close()
        os.close(self._life_write)
        for region in self._regions:
            region.close()

    def forget(self) -> None:
        """Drop, in a forked child, the descriptors that would keep the stub alive longer than the server."""
        self._ended.set()
        os.close(self._life_write)
        self.link.forget()
        self.monitor.forget()
        self.forks.forget()


_running: weakref.WeakSet[StubProcess] = weakref.WeakSet()


def _forget_all() -> None:
    for stub in list(_running):
        stub.forget()
    _running.clear()


os.register_at_fork(after_in_child=_forget_all)
