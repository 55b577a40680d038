"""The replacement of an instance's dead stub: its requests fail with the reason, and it starts again.

After a failed start, or repeated deaths of stubs that executed nothing, it starts again after growing pauses
(`RestartPolicy`), for as long as the model is loaded; Triton never does (rule 2.6.1). From the first pause until a
start succeeds the instance is gone for its scheduler, which refuses its requests with Triton's text. A pause needs no
thread, only an entry of the server's timer.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from ...core.clock import Clock
from ...core.status import CancelledError, ModelError, TritonError
from ..execution.execution import Death
from ..execution.payload import Payload
from .instance_plan import BoundEvents
from .instance_state import InstanceLife

_log = logging.getLogger(__name__)

_SECOND = 1_000_000_000
FIRST_PAUSE = _SECOND // 4
LONGEST_PAUSE = 60 * _SECOND
#: A stub that lived for this long did not die of its start.
_LONG_LIFE = LONGEST_PAUSE
#: The number of successive deaths without an execution that are followed by a start at once; a model's own threads may
#: kill it.
FREE_DEATHS = 2
#: The same for stubs that were killed; failed starts count too. A kill shows nothing about the model, but it may be the
#: model's own, or by a program that kills any process with this much memory.
FREE_KILLS = 8


def pause_after(failures: int) -> int:
    """Return the nanoseconds before the next start, after that many successive failures."""
    return min(FIRST_PAUSE << min(failures - 1, 10), LONGEST_PAUSE)


class RestartPolicy:
    """The rule for the wait before an instance starts another stub, by its successive failures. Each method returns the
    nanoseconds before the next start.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._kills = 0

    def after_death(self, *, has_requests: bool, has_worked: bool, is_killed: bool) -> int:
        """Count the death of a stub that was READY. `has_requests`: it died with requests in flight; `has_worked`: it
        had executed something, or lived long enough.
        """
        if has_requests or has_worked:
            self.failures, self._kills = int(not has_requests), 0
        elif is_killed and self._is_free_kill():
            return 0
        else:
            self.failures += 1
        return pause_after(self.failures) if self.failures > FREE_DEATHS else 0

    def after_failed_start(self, *, is_killed: bool) -> int:
        """Count a start that failed, because the model raised an error or its stub ended."""
        if is_killed and self._is_free_kill():
            return 0
        self.failures += 1
        return pause_after(self.failures)

    def _is_free_kill(self) -> bool:
        self._kills += 1
        return self._kills <= FREE_KILLS


class ReplacedInstance(Protocol):
    """The instance whose stub is replaced (`model_instance.ModelInstance`)."""

    @property
    def name(self) -> str: ...

    def start(self) -> None:
        """Start a stub; blocks. Raises the error of a failed start; then the instance is FAILED, unless stopped."""
        ...

    def bury(self, death: Death, error: TritonError) -> None:
        """Fail the requests in flight when the stub died."""
        ...

    def execute(self, payload: Payload) -> None: ...

    def refuse(self, payload: Payload, error: TritonError) -> None: ...

    def say(self, text: str) -> None:
        """Add an error to the server's log."""
        ...


class StubReplacement:
    """The replacement of the stubs of one instance. `later(ns, function)` calls a function that must not block.

    Guarantees: one start at a time. A payload that arrives during a replacement (`hold`) is executed by the new stub,
    or fails. After `end` no stub starts.
    """

    def __init__(
        self,
        instance: ReplacedInstance,
        life: InstanceLife,
        events: BoundEvents[Any],
        clock: Clock,
        later: Callable[[int, Callable[[], None]], None],
    ) -> None:
        #: the number of restarts of the instance
        self.count = 0
        #: the reason why its last stub ended
        self.last_death = ""
        #: why it does not run, and the time of its next start (`Clock.now()` nanoseconds); empty and None while it runs
        self.failure = ""
        self.next_try: int | None = None
        self._instance = instance
        self._life = life
        self._events = events
        self._clock = clock
        self._later = later
        self._lock = threading.Lock()  # guards the next five fields
        self._tasks: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None
        self._ended = False
        self._waiting: Payload | None = None
        self._gone = False  # whether the scheduler was informed that the instance is gone
        # only the replacing thread uses the rest
        self._error: TritonError  # of the last death
        self._policy = RestartPolicy()
        self._started = clock.now()

    def begin(self, death: Death) -> None:
        """Begin to replace a dead stub. Does not block."""
        self._submit(lambda: self._follow(death))

    def hold(self, payload: Payload) -> bool:
        """Keep a payload that the scheduler sent while the stub was dying. Returns False if the scheduler was already
        informed that the instance is gone.
        """
        with self._lock:
            if self._gone:
                return False
            self._waiting = payload
            return True

    def end(self, error: TritonError) -> None:
        """Start no more stubs, because the instance was stopped; waiting payloads fail with `error`."""
        with self._lock:
            self._ended = True
        self.join()
        self.next_try = None
        self._refuse_waiting(error)

    def join(self) -> None:
        """Wait until no work is left for now."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    # -- one thread at a time, while work is left

    def _submit(self, task: Callable[[], None]) -> None:
        with self._lock:
            self._tasks.append(task)
            if self._thread is None:
                name = f"restart {self._instance.name}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._tasks:
                    self._thread = None
                    return
                task = self._tasks.popleft()
            task()

    def _follow(self, death: Death) -> None:
        # This returns an idle or executing instance to the scheduler; otherwise a payload is on its way, and `execute`
        # does it.
        returns = self._events.away() or death.execution is not None
        self._error = error = death.stub.unhealthy()
        self.last_death = error.reason
        self._instance.say(f"{error.message} {error.reason}")
        self._instance.bury(death, error)
        has_worked = death.worked or self._clock.now() - self._started >= _LONG_LIFE
        pause = self._policy.after_death(
            has_requests=bool(death.requests), has_worked=has_worked, is_killed=error.was_killed
        )
        if not pause:
            self._start(returns)
        else:
            self._life.give_up()
            self._pause(pause, f"it died {self._policy.failures} times without a request in between. {error.reason}")

    def _start(self, returns: bool) -> None:
        """Start a stub. With `returns` the instance is returned to the scheduler."""
        while True:
            try:
                self._instance.start()
                break
            except Exception as failure:
                if not self._is_retried(failure):
                    return
        if self._life.stopped:
            return  # stopped during its start; `end` fails the payloads that wait for it
        self.count += 1
        self.failure, self.next_try = "", None
        self._started = self._clock.now()
        with self._lock:
            gone, self._gone = self._gone, False
            waiting, self._waiting = self._waiting, None
        if gone:
            self._events.ready()
        elif waiting is not None and not all(request.cancelled for request in waiting.requests):
            self._instance.execute(waiting)
        elif waiting is not None:
            self._instance.refuse(waiting, CancelledError("Request cancelled"))
            self._events.idle()
        elif returns:
            self._events.idle()

    def _is_retried(self, failure: Exception) -> bool:
        """Return whether a failed start is repeated at once; otherwise note the time of the next one."""
        if not isinstance(failure, TritonError):
            _log.exception("'%s' could not be started again", self._instance.name)
        what = f"it could not be started again: {_text_of(failure)}"
        pause = self._policy.after_failed_start(is_killed=isinstance(failure, ModelError) and failure.was_killed)
        if not pause and self._life.try_again():
            self._instance.say(f"'{self._instance.name}' does not run: {what} Next try at once.")
            return True
        traceback = failure.message.partition("\n")[2] if isinstance(failure, TritonError) else ""
        self._pause(pause or FIRST_PAUSE, what, traceback)
        return False

    def _pause(self, pause: int, failure: str, more: str = "") -> None:
        """Note why the instance does not run, and start it again later, unless stopped. `more` is added to the log."""
        with self._lock:
            known, self._gone = self._gone, True
        self._refuse_waiting(self._error)
        if not self._life.stopped:
            self.failure, self.next_try = failure, self._clock.now() + pause
            text = f"'{self._instance.name}' does not run: {failure} Next try in {pause / _SECOND:g} s."
            self._instance.say(f"{text}\n{more}".rstrip())
            # the timer must not keep a model that is unloaded meanwhile
            self._later(pause, partial(_call, weakref.WeakMethod(self._due)))
        if not known:
            self._events.gone()

    def _due(self) -> None:
        with self._lock:
            if self._ended:
                return
        self._submit(self._try_again)

    def _try_again(self) -> None:
        if self._life.try_again():
            self._start(False)

    def _refuse_waiting(self, error: TritonError) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._instance.refuse(waiting, error)


def _call(method: weakref.WeakMethod[Callable[[], None]]) -> None:
    if (bound := method()) is not None:
        bound()


def _text_of(failure: Exception) -> str:
    if not isinstance(failure, TritonError):
        return f"{type(failure).__name__}: {failure}."
    first = failure.message.partition("\n")[0]  # the rest is the author's traceback
    reason = failure.reason if isinstance(failure, ModelError) else ""
    return " ".join(sentence.rstrip(".") + "." for sentence in (first, reason) if sentence)
