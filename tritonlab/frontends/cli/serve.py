"""The process of `tritonlab serve`, from its command line to its exit status, as tritonserver's is.

status 0    a signal (SIGINT, SIGTERM) ended it, and every request in flight was answered
status 1    the command line, a port, the repository or a start-up model was refused, or the time to end ran out
by signal   a signal ended it while it was still loading
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any

from ...core.status import InternalError, InvalidArgumentError, TritonError
from ...ipc.processes.out_of_memory import memory_limit
from ...server.inference_server import InferenceServer
from ...server.observe.log_writer import LogWriter
from ..endpoints import Endpoints
from .command_line import usage
from .flag_values import CommandLineError
from .flags import GROUPS
from .server_options import ServerOptions, read_options
from .startup_log import backend_table, model_table, openness, option_table

#: Seconds after which the main thread looks for a signal that came on another thread.
_LOOK = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SERVICES = {"GRPC": "GRPCInferenceService", "HTTP": "HTTPService", "Metrics": "Metrics Service"}


#: Bytes that malloc keeps at most at the end of its heap, and the same as a share of all memory. An allocation of up to
#: half of that can be kept.
_MOST_KEPT = 512 << 20
_SHARE = 16
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h


def run(words: Sequence[str]) -> int:
    """Run `tritonlab serve <words>` as this process, and return the exit status."""
    keep_freed_memory()
    return serve(words)


def keep_freed_memory() -> bool:
    """Make glibc's malloc keep the memory of answered messages for the next ones, in this process from now on. Returns
    False if its malloc has no such settings.

    By default it takes memory for a message of many megabytes from the system and returns it afterwards, so that the
    system must zero every page of the next message. Measured, 64 MB there and back with tritonclient on 2 cores: 0.30
    instead of 0.26 GB/s over gRPC, 0.46 instead of 0.40 over HTTP. A notebook does not do this, because its memory is
    not ours to keep.

    All of it goes back when the server is idle (`server/observe/idle_memory.py`). That releases the end of one heap
    only, so all threads share one: after a mixed load of up to 32 MB, 138 to 185 MB stayed with the usual heaps, 2 to 7
    MB with one, and no request took longer.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    most = min(_MOST_KEPT, (memory_limit() or _MOST_KEPT * _SHARE) // _SHARE)
    settings = ((_M_MMAP_THRESHOLD, most // 2), (_M_TRIM_THRESHOLD, most), (_M_ARENA_MAX, 1))
    return all([bool(mallopt(name, value)) for name, value in settings])


def serve(arguments: Sequence[str]) -> int:
    """Run `tritonlab serve <arguments>` until a signal ends it, and return the exit status."""
    try:
        options = read_options(arguments)
    except (CommandLineError, TritonError) as error:
        print(f"tritonlab serve: {error}\n`tritonlab serve --help` shows the flags.", file=sys.stderr)
        return 1
    if options.help:
        print("Usage: tritonlab serve [--flag value | --flag=value] ...")
        print("\n".join(usage(GROUPS)))
        return 0
    with EndSignals() as signals:
        try:
            return _run(options, signals)
        except TritonError as error:
            print(f"error: {error.message}", file=sys.stderr)
            return 1
        except EndedEarly:
            pass
    # nothing was served yet: the status is the signal's, as without a handler
    signal.signal(signals.first, signal.SIG_DFL)
    os.kill(os.getpid(), signals.first)
    return 128 + signals.first  # needed in a container, whose first process is not ended by a signal without a handler


def _run(options: ServerOptions, signals: EndSignals) -> int:
    with signals.raising():
        core, log = _load(options)
    try:
        endpoints = Endpoints(
            core,
            options.endpoints,
            lambda service, address: log.write("INFO", f"Started {_SERVICES.get(service, service)} at {address}"),
        )
    except BaseException:
        _abandon(core, log, options)
        raise
    for level, text in openness(options.endpoints, endpoints.places, options.server["model_control_mode"]):
        log.write(level, text)
    signals.wait()
    return _end(core, endpoints, log, options.exit_timeout)


def _load(options: ServerOptions) -> tuple[InferenceServer, LogWriter]:
    """Return the server with its start-up models, and the writer of its log."""
    with _creating_server():
        # a model that is named twice is loaded once, as by Triton
        options.server["repositories"] = list(dict.fromkeys(options.server["repositories"]))
        if not options.server["repositories"]:
            raise InvalidArgumentError("--model-repository must be specified")
        core = options.make_server()
    log = LogWriter(core.log_settings)
    core.instruments.add(log)
    try:
        for flag in options.inert:
            log.write("WARNING", f"--{flag.name} has no effect: {flag.about}")
        if core.gpus.simulated:
            log.write("WARNING", f"GPUs are simulated, {len(core.gpus.all)} of them: no model is given a real one")
        options.endpoints.check_free()
        with _creating_server():
            failed = core.load_startup_models()
            for table in (
                backend_table(core, options.server),
                model_table(core),
                option_table(core, options.server, options.exit_timeout),
            ):
                log.write_table(table + "\n")
            if failed and options.exit_on_error:
                raise InternalError("failed to load all models")
        if failed:
            log.write("ERROR", "Internal: failed to load all models")
    except BaseException:
        _abandon(core, log, options)
        raise
    return core, log


def _abandon(core: InferenceServer, log: LogWriter, options: ServerOptions) -> None:
    core.stop(options.exit_timeout)
    log.close()


def _end(core: InferenceServer, endpoints: Endpoints, log: LogWriter, timeout: float) -> int:
    """Refuse further requests, and return when those in flight are answered, or after `timeout` seconds."""
    end = time.monotonic() + timeout
    log.write("INFO", "Waiting for in-flight requests to complete.")
    endpoints.stop(timeout)
    core.stop(max(end - time.monotonic(), 0))
    late = time.monotonic() >= end
    if late:
        log.write("ERROR", "failed to stop server: Internal - Exit timeout expired. Exiting immediately.")
    log.close()
    return int(late)


@contextlib.contextmanager
def _creating_server() -> Iterator[None]:
    """Add to errors, as Triton does, that they occurred while the server was made."""
    try:
        yield
    except TritonError as error:
        raise TritonError.from_code(error.code, f"creating server: {error.code.text} - {error.message}") from None


class EndedEarly(BaseException):
    """A signal that came while models were loaded. It is not an Exception, so that no `except Exception` stops it."""


class EndSignals:
    """The handling of SIGINT and SIGTERM between `__enter__` and `__exit__`: they end a `raising` context and `wait`.
    For the main thread only."""

    def __init__(self) -> None:
        # a handler may run in the middle of anything: of all queues, only this one's put is reentrant
        self._came: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._raises = False
        self._before: list[Any] = []
        #: the signal that came first
        self.first = 0

    def __enter__(self) -> EndSignals:
        # SIGTERM is handled like SIGINT, which is held back during indivisible steps (ipc/link/interrupts.py)
        handlers = (self._handle, lambda number, frame: signal.getsignal(signal.SIGINT)(number, frame))  # type: ignore
        self._before = [signal.signal(number, handler) for number, handler in zip(_SIGNALS, handlers, strict=True)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in zip(_SIGNALS, self._before, strict=True):
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):  # a pipe without a reader must not keep the server from ending
            os.write(1, f"Signal ({number}) received.\n".encode())
        self.first = self.first or number
        self._came.put(number)
        if self._raises:
            self._raises = False
            raise EndedEarly

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Make the first signal raise EndedEarly while the context lasts."""
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    def wait(self) -> None:
        """Block until a signal has come.

        Python runs handlers on the main thread. A signal that the operating system delivers to another thread does not
        wake it, so it wakes by itself now and then. Seen once in a whole run of the tests: a server under load that did
        not notice SIGTERM for a minute.
        """
        while True:
            with contextlib.suppress(queue.Empty):
                self._came.get(timeout=_LOOK)
                return
