"""Starts a stub process and ends it.

The end is a ladder, each rung with a deadline: FINALIZE (the author's `finalize` runs), time to leave, end of the link,
SIGTERM to the stub's session, SIGKILL to it. A stub whose kernel dies needs no ladder: its life pipe ends and the
operating system kills its session.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..stub._pb_stub.wire.ipc_message import STACKS_SIGNAL
from ..stub._pb_stub.wire.serialization import WIRE_VERSION
from ..stub._pb_stub.wire.shm_manager import Region, RegionReader, SharedMemoryError
from .fork_links import ForkLinks
from .interpreter import Interpreter
from .link_reader import LinkReader, Watch
from .out_of_memory import memory_limit, memory_words, oom_kills, own_peak, peak_memory
from .stub_connection import Answer
from .stub_ends import StubEnds
from .stub_link import MonitorLink, StubLink
from .stub_log import StubOutput

STUB = Path(__file__).parent.parent / "stub" / "triton_python_backend_stub.py"

#: What runs the kernel runs the models, unless they bring an environment or a stub of their own.
KERNEL = Interpreter(sys.executable)

#: Seconds. FINALIZE has none in Triton (rule 2.8.2); a kernel that shuts down must not wait for ever.
HELLO_TIMEOUT = 60.0
FINALIZE_TIMEOUT = 30.0
RUNG_TIMEOUT = 2.0


class StubStartError(Exception):
    """A stub process did not come up; the text says why and holds what it printed."""


@dataclass(frozen=True)
class ShmSettings:
    """Sizes of a stub's regions in bytes (rule 2.9). `limit` None: until the machine has no more."""

    default_byte_size: int = 1 << 20
    growth_byte_size: int = 1 << 20
    limit: int | None = None


DEFAULT_SHM = ShmSettings()


class _Process(subprocess.Popen[bytes]):
    """A process that also tells how much memory it had, in bytes (0: unknown)."""

    peak = 0
    #: what the operating system says of it even if it used less: until its exec it was a copy of this process
    _inherited = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._inherited = peak_memory()

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        # Popen's own, with wait4 for waitpid: nothing public gives the usage of one ended child
        try:
            pid, status, usage = os.wait4(self.pid, wait_flags)
        except ChildProcessError:
            return self.pid, 0
        if pid == self.pid:
            self.peak = own_peak(usage.ru_maxrss * 1024, self._inherited)
        return pid, status


class StubProcess:
    """A stub with its link, not yet a model: what the pool keeps warm and an instance takes over."""

    def __init__(
        self,
        link_reader: LinkReader,
        *,
        interpreter: Interpreter = KERNEL,
        shm: ShmSettings = DEFAULT_SHM,
    ) -> None:
        self.interpreter = interpreter
        self.environment = interpreter.variables(os.environ)
        self._link_reader = link_reader
        self._watches: dict[int, Watch] = {}
        self._early: list[tuple[str, str]] = []
        self._ended = threading.Event()
        self._end_lock = threading.Lock()
        self._oom_kills = 0  # that were known when a model took it
        ends = StubEnds()
        try:
            self._start(ends, shm)
        except (OSError, SharedMemoryError) as error:
            ends.close()
            raise StubStartError(f"cannot start the stub with '{interpreter.executable}': {error}") from error
        finally:
            ends.close_theirs()
        self._life_write = ends.life
        self.output = StubOutput(ends.stdout, ends.stderr, lambda stream, text: self._early.append((stream, text)))
        try:
            for fd in self.output.fds:
                self._watch(fd, partial(self._on_output, fd))
            region, reader = self._regions
            self.link = StubLink(ends.control, region, reader, link_reader)
            self.monitor = MonitorLink(ends.monitor, region, reader, link_reader)
            self._watch(self._exit_fd, self._on_exit)
            self.forks.start()
        except OSError as error:
            self._signal(signal.SIGKILL)
            self.process.wait()
            self.output.close()
            for fd in (self._life_write, self._exit_fd):
                os.close(fd)
            for end in (ends.control, ends.monitor, self.forks, *self._regions):
                end.close()
            raise StubStartError(f"no stub is started any more: {error}") from error
        _running.add(self)

    def _start(self, ends: StubEnds, shm: ShmSettings) -> None:
        sizes = (shm.default_byte_size, shm.growth_byte_size, shm.limit)
        region = Region(ends.region, *sizes)
        os.ftruncate(ends.stub_region, shm.default_byte_size)
        self.forks = ForkLinks(self._link_reader, *sizes)
        try:
            door = self.forks.theirs.fileno()
            control, monitor, *regions, life = ends.inherited
            numbers = [control, monitor, *regions, *(size or 0 for size in sizes), life, door]
            self.process = _Process(
                [self.interpreter.executable, str(STUB), *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=ends.stdout_write,
                stderr=ends.stderr_write,
                env=self.environment,
                pass_fds=(*ends.inherited, door),
                start_new_session=True,  # an interrupt of the kernel must not reach it
            )
        except OSError:
            self.forks.close()
            raise
        try:
            self._exit_fd = os.pidfd_open(self.process.pid)
        except OSError:
            self._signal(signal.SIGKILL)
            self.process.wait()
            self.forks.close()
            raise
        self._regions = (region, RegionReader(ends.stub_region))

    def _watch(self, fd: int, callback: Callable[[int], None]) -> None:
        self._watches[fd] = self._link_reader.watch(fd, callback)
        self._watches[fd].start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def await_hello(self, timeout: float = HELLO_TIMEOUT) -> None:
        """Waits until the stub is up. Raises InterpreterError if its Python is to blame, else StubStartError with what
        it printed."""
        hello = self.link.await_hello(timeout)
        program = self.interpreter.executable
        if hello is None:
            why = self.link.lost_reason
            died = self.link.lost and self._wait(0.5)
            self.kill()
            if self.interpreter is not KERNEL:
                self.interpreter.check()
            printed = "\n".join(text for _, text in self._early[-20:])
            what = f"exited with {self.exit_reason()}" if died else why or f"did not answer within {timeout:.0f} s"
            raise StubStartError(f"the stub ({program}) {what}" + (f":\n{printed}" if printed else ""))
        if hello.wire_version != WIRE_VERSION:
            self.kill()
            raise StubStartError(f"the stub ({program}) speaks wire version {hello.wire_version}, not {WIRE_VERSION}")

    def adopt_output(self, emit: Callable[[str, str], None]) -> None:
        """A model takes the stub: its lines go to `emit(stream, text)`, those it printed before included."""
        self._oom_kills = oom_kills()
        self.output.retarget(emit)
        for stream, text in self._early:
            emit(stream, text)
        self._early.clear()

    def drain_output(self) -> None:
        """Takes what the pipes hold now, so that the lines of a finished execution are there before its answer is."""
        self.output.drain_all()

    def _on_output(self, fd: int, events: int) -> None:
        if self.output.drain(fd):
            self._watches[fd].arm()

    def _on_exit(self, events: int) -> None:
        """The process has ended. Its socket may not: what the model forked holds a copy of the other end."""
        self.link.shutdown()
        self.monitor.shutdown()

    def give_back(self, timeout: float) -> None:
        """Has the stub return the memory it does not use to the system, and does so with what lies there for it. The
        stub hears of the blocks that nobody reads any more with the question, the kernel with the answer."""
        self.link.await_answer(self.link.give_back(), timeout)
        self._regions[0].give_back()

    # -- the end

    def finalize(self, timeout: float = FINALIZE_TIMEOUT) -> Answer | None:
        """Runs the author's `finalize` and ends the process; what came of `finalize`, None if nothing did in time."""
        outcome = None
        if not self.link.lost:
            answer = self.link.finalize()
            if self.link.await_answer(answer, timeout) and not answer.lost:
                outcome = answer
                self._wait(RUNG_TIMEOUT)  # it leaves as any program does: exit functions, threads, buffers
        self._climb_down(grace=RUNG_TIMEOUT)
        return outcome

    def kill(self) -> None:
        """Ends the process without asking."""
        self._climb_down(grace=0.0)

    def _climb_down(self, grace: float) -> None:
        if self._ended.is_set():
            return  # its process id may be another's by now
        self.link.shutdown()
        self.monitor.shutdown()
        if not (grace and self._wait(grace)):
            if grace:
                self._signal(signal.SIGTERM)
            if not (grace and self._wait(grace)):
                self._signal(signal.SIGKILL)
                self.process.wait()
        # whatever the model forked and left behind
        self._signal(signal.SIGKILL)
        self._release()

    def _wait(self, seconds: float) -> bool:
        ended = select.poll()  # Popen.wait(timeout) looks every 50 ms
        ended.register(self._exit_fd, select.POLLIN)
        if not ended.poll(seconds * 1000):
            return False
        self.process.wait()
        return True

    def signal_stacks(self) -> bool:
        """Has the stub write the stacks of its threads to stderr, even if none of them can run; False if it cannot be
        asked: there is no such signal, or it would die of it as it does not handle it yet."""
        if STACKS_SIGNAL is None or self.link.await_hello(0) is None:
            return False
        self._signal_stub(STACKS_SIGNAL)
        return True

    def _signal_stub(self, number: int) -> None:
        """Sends a signal to the stub alone, not to what it forked; nothing if it has ended."""
        with self._end_lock:  # until then the descriptor is not another process's
            if not self._ended.is_set():
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(self._exit_fd, number)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def reap(self) -> None:
        """Called after the link was lost: makes sure the process is gone, collects its exit status and last lines,
        frees everything."""
        if self._ended.is_set():
            return
        if not self._wait(0.5):
            self._signal(signal.SIGKILL)
            self.process.wait()
        self._signal(signal.SIGKILL)
        self._release()

    def exit_signal(self) -> str:
        """The name of the signal that ended it; empty if none did."""
        code = self.process.poll()
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name if code is not None and code < 0 else ""
        return f"signal {-(code or 0)}"

    def memory_words(self) -> str:
        """What to say of its memory, if that may be why it was killed."""
        if self.exit_signal() != "SIGKILL":
            return ""
        return memory_words(self.process.peak, memory_limit(), oom_kills() - self._oom_kills)

    def exit_reason(self) -> str:
        """`signal SIGSEGV (Segmentation fault)` or `exit status 3`, once it has ended."""
        code = self.process.poll()
        if code is None:
            return "no exit yet"
        if code < 0:
            with contextlib.suppress(ValueError):
                number = signal.Signals(-code)
                return f"signal {number.name} ({signal.strsignal(number)})"
            return f"signal {-code}"
        return f"exit status {code}"

    def _release(self) -> None:
        with self._end_lock:
            if self._ended.is_set():
                return
            self._ended.set()
        _running.discard(self)
        for watch in self._watches.values():
            watch.remove()
        os.close(self._exit_fd)
        self.output.close()
        self.forks.close()
        self.link.close()
        self.monitor.close()
        os.close(self._life_write)
        for region in self._regions:
            region.close()

    def forget(self) -> None:
        """Called in a forked child: drops the descriptors that would keep the stub alive after the kernel, and the
        right to end it."""
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
