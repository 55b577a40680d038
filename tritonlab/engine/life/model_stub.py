"""`ModelStub`, one model's life in a stub: import, auto-complete, initialize, finalize. Its errors are Triton's."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ...core.inference.infer_request import InferenceRequest
from ...core.os_limits import explained
from ...core.status import Frame, ModelError, UnavailableError
from ...ipc.link.interrupts import shielded
from ...ipc.link.stub_connection import Answer
from ...ipc.link.stub_link import MonitorLink, NeededCall, Needs, Profiled, ReadsRecorded
from ...ipc.processes.interpreter import Interpreter, InterpreterError
from ...ipc.processes.stub_launcher import KERNEL, StubProcess, StubStartError
from ...ipc.processes.stub_log import LogBook, LogRecord
from ...ipc.processes.stub_pool import StubPool
from ..debugging.debugger import Debugger
from ..execution.response_factory import failure_of
from .stub_death import CrashReport, blocked_stacks, interrupted_load, place_of

#: Seconds a query waits for `is_ready()` (rule 2.7.3).
READY_TIMEOUT = 5.0
_KEPT_LINES = 20
#: More than an error keeps, because the lines of a crash report are removed from them.
_REMEMBERED_LINES = 200
#: Seconds to wait, after an interrupt, for the stub's report of the model's place.
_INTERRUPTED_SECONDS = 2.0
#: Seconds between looks for a debugger's prompt, while another thread reads the link.
_LOOK_SECONDS = 0.05
#: Seconds to wait for the output of a signal handler.
_BLOCKED_SECONDS = 0.5


@dataclass(frozen=True)
class ModelSource:
    """The place of a model's code, and its form in the stub. `module` is `<version>.<stem>`; `paths` are appended to
    sys.path (rule 2.1.5).

    `interpreter` is the stub's Python, `variables` are added to its environment.
    """

    model: str
    version: int
    module: str
    path: str
    paths: tuple[str, ...]
    model_dir: str
    interpreter: Interpreter = KERNEL
    variables: Mapping[str, str] = field(default_factory=dict)


class ReadyQuery(NamedTuple):
    """One running query. `joined`: it shares the call of an earlier query that is not yet answered."""

    answer: Answer
    joined: bool


class ReadinessCheck:
    """The queries of the author's `is_ready()`, over the monitor socket, which answers even during `execute` (rule
    2.7). Queries during a call share its answer, so a slow one never runs twice at once.

    Guarantees: `ask` and `await_ready` may be called from any thread.
    """

    def __init__(self, monitor: MonitorLink, instance: str) -> None:
        self._monitor = monitor
        self._instance = instance
        self._lock = threading.Lock()  # guards _running
        self._running: Answer | None = None

    def ask(self) -> ReadyQuery:
        """Start `is_ready()`, or join the running call."""
        with self._lock:
            joined = self._running is not None and not self._running.done()
            if not joined:
                self._running = self._monitor.is_ready()
            assert self._running is not None
            return ReadyQuery(self._running, joined)

    def await_ready(self, query: ReadyQuery, timeout: float = READY_TIMEOUT) -> bool:
        """Wait for the answer. Returns False if the model has no `is_ready`, which means always ready; else True.

        Raises UnavailableError with Triton's text if it is not ready: `is_ready` returned False or no bool, raised, or
        took more than `timeout` seconds.
        """
        if not self._monitor.await_answer(query.answer, timeout):
            whose = "in-flight" if query.joined else "user-defined"
            raise UnavailableError(f"Timed out waiting for {whose} is_ready() response")
        if query.answer.lost:
            raise UnavailableError(f"Stub process '{self._instance}' is not healthy.")
        if query.answer.failure is not None:
            raise UnavailableError(query.answer.failure.text)
        if query.answer.value is False:
            raise UnavailableError(f"Model '{self._instance}' is not ready (user-defined check failed).")
        return query.answer.value is not None


class ModelStub:
    """One stub process that works for one model. Methods that wait raise ModelError with the text for clients."""

    def __init__(
        self, pool: StubPool, source: ModelSource, instance: str, log: LogBook, like: StubProcess | None = None
    ) -> None:
        """Take a stub from the pool and begin the model's import there without waiting. `like`: as in `acquire`."""
        self.source = source
        self.instance = instance
        #: its name in log lines (`InstancePlan.label`)
        self.label = instance
        #: returns the requests behind its current output and log lines
        self.whose: Callable[[], Collection[InferenceRequest]] = tuple
        self._log = log
        #: the last lines that this process, not an earlier one of the instance, printed and logged
        self._printed: deque[str] = deque(maxlen=_REMEMBERED_LINES)
        self._crash = CrashReport()
        #: the lines of stderr, kept only while faulthandler is dumping the stacks
        self._blocked: list[str] | None = None
        #: called when the process has ended, for any reason; perhaps more than once
        self.on_end: Callable[[], None] = lambda: None
        #: serves the prompts of a `breakpoint()` in `initialize`, on the thread that waits for it
        self.debugger: Debugger | None = None
        try:
            shielded(self._begin, pool, like)
        except (StubStartError, OSError) as error:
            raise _not_started(self.instance, error) from error
        except KeyboardInterrupt as interrupt:
            if hasattr(self, "process"):
                self.process.kill()
            raise interrupted_load(instance, "", str(interrupt)) from None

    def _begin(self, pool: StubPool, like: StubProcess | None) -> None:
        """Take a stub and begin the import. An interrupt between them would lose the process, or a zygote's answer."""
        source = self.source
        lines: list[str] = []
        self.process: StubProcess = pool.acquire(
            source.interpreter, model=source.path, paths=source.paths, say=lines.append, like=like
        )
        for text in lines:
            self.log("server", "INFO", text)
        self.process.output.retarget(self._on_line)
        self.link = self.process.link
        self.readiness = ReadinessCheck(self.process.monitor, self.instance)
        self._imported = self.link.import_model(
            module=source.module,
            path=source.path,
            paths=source.paths,
            model_dir=source.model_dir,
            instance=self.instance,
            env={**source.interpreter.variables(os.environ), **source.variables},
            cwd=_current_directory(),
            audits=pool.audits,
        )

    def _on_line(self, stream: str, text: str) -> None:
        level = "INFO" if stream == "stdout" else "WARNING"
        if stream == "stderr":
            self._crash.add(text)
            if self._blocked is not None:
                self._blocked.append(text)
        self.log(stream, level, text)

    def log(self, stream: str, level: str, text: str, file: str = "", line: int = 0, unheard: bool = False) -> None:
        """Add a line to the server's log under the name of the instance and of the requests in execution."""
        source = self.source
        if stream != "server":
            self._printed.append(text)
        requests = [request for request in self.whose() if not request.null]
        self._log.add(
            LogRecord(
                time_ns=time.time_ns(),
                model=source.model,
                version=source.version,
                instance=self.label,
                stream=stream,
                level=level,
                text=text,
                file=file,
                line=line,
                request_ids=tuple(request.request_id for request in requests),
                pid=self.process.pid,
                serials=tuple(request.serial for request in requests),
                unheard=unheard,
            )
        )

    def await_import(self) -> bool:
        """Wait until the model's module is imported. Return whether `auto_complete` may do anything."""
        try:
            self.process.await_hello()
        except InterpreterError as error:
            raise ModelError(str(error)) from error
        except StubStartError as error:
            raise _not_started(self.instance, error) from error
        except KeyboardInterrupt as interrupt:
            raise interrupted_load(self.instance, "", str(interrupt)) from None
        return bool(self._outcome(lambda: self._imported))

    def auto_complete(self, config: str) -> dict[str, Any] | None:
        """Return the config after auto_complete_config (JSON text); None if the model has no such method."""
        returned = self._outcome(partial(self.link.auto_complete, config))
        return None if returned is None else json.loads(returned)

    def initialize(self, args: dict[str, str], outputs: tuple[str, ...], decoupled: bool, tells_failures: bool) -> None:
        keep = self.debugger.keeps if self.debugger is not None else 0.0
        self._outcome(
            partial(self.link.initialize, args, outputs, decoupled, tells_failures=tells_failures, postmortem_s=keep)
        )

    def _outcome(self, ask: Callable[[], Answer]) -> Any:
        """Return the stub's answer, for which it waits without a deadline: a slow model is not a dead one (rule 2.2.3).
        The command is sent within, as an interrupt may come as soon as the stub has it.
        """
        debugger = self.debugger
        try:
            answer = ask()
            if debugger is not None and debugger.desk.reads_here():
                self._await_with(debugger, answer)
            else:
                self.link.await_answer(answer)
        except KeyboardInterrupt:
            raise interrupted_load(self.instance, self.dump_stacks(_INTERRUPTED_SECONDS)) from None
        if answer.lost:
            raise self.unhealthy()
        self.process.output.drain_all(ended=True)
        if answer.failure is not None:
            raise failure_of(answer.failure, self.last_lines())
        return answer.value

    def _await_with(self, debugger: Debugger, answer: Answer) -> None:
        """Wait for the answer, and read the lines of pauses that come meanwhile."""
        running = debugger.running
        while not answer.done():
            if not self.link.lead(lambda: answer.done() or (len(running) > 0 and debugger.waiting() is not None)):
                answer.wait(_LOOK_SECONDS)
            if running:
                debugger.serve_all()

    def unhealthy(self) -> ModelError:
        """Return the error for all waits for this stub after its death."""
        self.process.reap()
        self.on_end()
        reason = f"The stub process of '{self.instance}' ended with {self.process.child.exit_reason()}."
        crash = self._crash.exception(self.process.child.exit_signal())
        if self.link.lost_reason not in ("", "closed", "the other end closed the link"):
            reason += f" ({self.link.lost_reason})"
        else:
            if crash is not None and (place := place_of(crash, self.source.path)):
                reason += f" Python was at {place}."
            if words := self.process.cause.words():
                reason += f" {words}"
        log = self.last_lines(besides=self._crash.lines if crash is not None else ())
        died = ModelError(f"Stub process '{self.instance}' is not healthy.", reason=reason, exception=crash, log=log)
        died.was_killed = self.process.was_killed
        return died

    def died(self) -> ModelError | None:
        """Return the reason why the stub is not healthy; None while it is."""
        return self.unhealthy() if self.link.lost else None

    def last_lines(self, besides: Collection[str] = ()) -> tuple[str, ...]:
        """Return the last lines that this process printed, without the lines in `besides`."""
        return tuple([text for text in self._printed.copy() if text not in besides][-_KEPT_LINES:])

    def dump_stacks(self, timeout: float) -> str:
        """Return the stacks of the stub's threads as text; empty if they did not come within `timeout` seconds."""
        answer = self.process.monitor.dump_stacks()
        if not self.process.monitor.await_answer(answer, timeout):
            return self._blocked_stacks()
        return str(answer.value) if not answer.lost else ""

    def modules(self, timeout: float) -> dict[str, str]:
        """Return the files of the modules that the stub has imported, by name; empty after `timeout` seconds."""
        return dict(self._value(self.process.monitor.list_modules(), timeout) or {})

    def waits(self, timeout: float) -> tuple[int, list[NeededCall]]:
        """Return the waits of the running `execute`, as WAITS reports them; empty after more than `timeout` seconds."""
        needs: Needs | None = self._value(self.process.monitor.waits(), timeout)
        return (needs.wait, needs.calls) if needs is not None else (0, [])

    def reads(self, record: bool, timeout: float) -> ReadsRecorded | None:
        """Return the reads of the author's code outside of its model: during the load, and during executions since
        `record` was set; None if that took more than `timeout` seconds. `record`: record executions from now on.
        """
        found: ReadsRecorded | None = self._value(self.process.monitor.tell_reads(record), timeout)
        return found

    def profile(self, begin: bool, memory: bool, batching: bool, timeout: float) -> Profiled | None:
        """Begin or end a profile of the author's lines, and return its results so far; None if that took more than
        `timeout` seconds. `memory` and `batching` are as in the message."""
        found: Profiled | None = self._value(self.process.monitor.profile(begin, memory, batching), timeout)
        return found

    def _value(self, answer: Answer, timeout: float) -> Any:
        """Return the monitor's answer; None if it is empty or took more than `timeout` seconds."""
        came = self.process.monitor.await_answer(answer, timeout) and not answer.lost and not answer.failure
        return answer.value if came else None

    def _blocked_stacks(self) -> str:
        """Return the stacks of a stub whose monitor thread cannot run. They also appear among the model's own lines."""
        lines: list[str] = []
        self._blocked = lines
        if not self.process.signal_stacks():
            self._blocked = None
            return ""
        end = time.monotonic() + _BLOCKED_SECONDS
        while time.monotonic() < end:
            time.sleep(0.02)  # the other lines follow the first one at once
            before = len(lines)
            self.process.output.drain_all()
            if lines and len(lines) == before:
                break
        self._blocked = None
        stacks = blocked_stacks(lines)
        return f"C code holds the interpreter's lock (the GIL).\n{stacks}" if stacks else ""

    def finalize(self) -> None:
        """Run the author's `finalize` and end the process; its exceptions are logged and ignored (rule 2.8.2)."""
        outcome = self.process.finalize()
        self.on_end()
        if outcome is not None and outcome.failure is not None:
            raised = failure_of(outcome.failure).exception
            place = raised.frames[-1] if raised is not None and raised.frames else Frame("", 0, "")
            self.log(
                stream="server",
                level="INFO",
                text=f"finalize failed: {outcome.failure.text}",
                file=place.file,
                line=place.line,
            )

    def kill(self) -> None:
        self.process.kill()
        self.on_end()


def _current_directory() -> str:
    """Return the server's directory; empty if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _not_started(instance: str, error: Exception) -> ModelError:
    limit = explained(error)
    what = "is not healthy." if limit is None else f"cannot be started: {limit}"
    failed = ModelError(f"Stub process '{instance}' {what}", reason=str(error))
    failed.was_killed = isinstance(error, StubStartError) and error.was_killed
    return failed
