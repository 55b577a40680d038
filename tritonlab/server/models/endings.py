"""The ends of versions that no longer serve, each on its own thread, awaited or cut short."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...core.clock import Clock
from ...engine.life.model_instance import ModelInstance
from ...ipc.link.interrupts import shielded
from .loaded_model import LoadedModel
from .model_lifecycle import ModelEvent, ModelState, ModelVersion

#: Seconds of waiting after which the log has the reason.
_SILENT = 1.0
#: Seconds within which a version ends after its stub was killed.
_KILLED = 5.0


class Ending:
    """One version that ends. `ended` is set after its end: an interrupted `Thread.join` takes a running thread for an
    ended one (Python 3.11).
    """

    def __init__(self, version: ModelVersion) -> None:
        self.version = version
        self.ended = threading.Event()
        #: its begin, wall clock seconds
        self.since = time.time()
        #: the time at which it is ended by force, `Clock.now()` nanoseconds
        self.limit: int | None = None

    def to_dict(self, now: int) -> dict[str, Any]:
        """Return the facts for people and views; times in seconds."""
        version = self.version
        return {
            "model": version.identifier,
            "version": version.version,
            "since": self.since,
            "ends_in": max(self.limit - now, 0) / 1e9 if self.limit is not None else None,
            "awaits": version.awaited(),
            "pids": [instance.pid for instance in self._instances() if instance.pid is not None],
        }

    def stacks(self, timeout: float) -> dict[str, str]:
        """Return the stacks of its instances' threads, by instance name; the text is empty for an instance that does
        not answer in `timeout` seconds.
        """
        stubs = {instance.name: instance.stub for instance in self._instances()}
        return {name: stub.dump_stacks(timeout) for name, stub in stubs.items() if stub is not None}

    def _instances(self) -> list[ModelInstance]:
        return [*self.version.instances, *self.version.leaving]


class Endings:
    """The versions that no longer serve, until they have ended. `tell` gets an awaited version and a sentence about it.
    `later(ns, function)` calls a function that must not block. Any thread may call.
    """

    def __init__(
        self,
        tell: Callable[[ModelVersion, str], None],
        clock: Clock,
        later: Callable[[int, Callable[[], None]], None],
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._later = later
        self._running: dict[Ending, None] = {}

    def retire(self, model: LoadedModel, after: Sequence[Ending] = ()) -> list[Ending]:
        """Take all versions of a model out of service and let them end. `after`: as in `end`."""

        def retire() -> list[Ending]:
            versions = model.versions
            model.serve({}, None)
            return [self.end(model, version, after) for version in versions.values()]

        with model.lock:
            return shielded(retire)  # a version that neither serves nor ends would stay for ever

    def end(self, model: LoadedModel, version: ModelVersion, after: Sequence[Ending] = ()) -> Ending:
        """Unload a version that no longer serves, in the background. `after`: unloads of the ensembles that contain it,
        for whose last requests it still serves.
        """
        if version.version not in model.versions:
            model.not_ready[version.version] = (ModelState.UNLOADING, "")
        version.advance(ModelEvent.UNLOAD)

        ending, before = Ending(version), tuple(after)

        def end() -> None:
            try:
                _await(before, None)
                version.unload()
                if model.not_ready.get(version.version) == (ModelState.UNLOADING, ""):  # it may be loading again by now
                    model.not_ready[version.version] = (version.state, version.reason)
            finally:
                self._running.pop(ending, None)
                ending.ended.set()

        self._running[ending] = None
        threading.Thread(target=end, name=f"unload {version.name}", daemon=True).start()
        return ending

    def running(self) -> list[Ending]:
        """Return the versions that have not ended, oldest first."""
        return list(self._running)

    def forget(self) -> None:
        """Forget them in a forked child, where their threads do not exist."""
        self._running.clear()

    def limit(self, endings: Sequence[Ending], seconds: float | None) -> None:
        """End these versions after that many seconds, if they have not ended; None sets no limit. Does not block."""
        if seconds is None:
            return
        nanoseconds = int(seconds * 1e9)
        for ending in endings:
            limit = self._clock.now() + nanoseconds
            ending.limit = min(limit, ending.limit or limit)
        if endings:
            # versions that end earlier are dropped earlier: each edit of a cell replaces a version
            self._later(nanoseconds, partial(self._end_late, weakref.WeakSet(endings), seconds))

    def _end_late(self, endings: weakref.WeakSet[Ending], seconds: float) -> None:
        """End the versions that have not ended in time; called on the timer's thread."""
        late = [ending for ending in endings if not ending.ended.is_set()]
        for ending in late:
            version = ending.version
            awaited = version.awaited() or "its last steps"
            text = f"'{version.identifier}' version {version.version} did not end in {seconds:g} s and is killed"
            self._tell(version, f"{text}: it waits for {awaited}.")
        if late:
            threading.Thread(target=self.kill, args=(late,), name="kill", daemon=True).start()

    def kill(self, endings: Sequence[Ending]) -> None:
        """End these versions now: their requests fail and their stubs are killed."""
        for ending in endings:
            ending.version.abort()
        _await(endings, time.monotonic() + _KILLED)

    def wait(self, endings: Sequence[Ending], timeout: float | None) -> None:
        """Block until these versions have ended.

        After `timeout` seconds, or if the caller is interrupted, the remaining versions are ended at once: their
        requests fail and their stubs are killed. Without a timeout they end by themselves, and an interrupt ends only
        the wait.
        """
        if timeout is None:
            _await(endings, None)
            return
        end = time.monotonic() + timeout
        try:
            if timeout > _SILENT:
                _await(endings, end - timeout + _SILENT)
                self._say(endings, end)
            _await(endings, end)
        finally:
            self.kill([ending for ending in endings if not ending.ended.is_set()])

    def _say(self, endings: Sequence[Ending], end: float) -> None:
        for ending in endings:
            version = ending.version
            if not ending.ended.is_set() and (awaited := version.awaited()):
                left = max(end - time.monotonic(), 0)
                text = f"'{version.identifier}' is being unloaded and waits for {awaited}."
                self._tell(version, f"{text} It is ended in {left:.0f} s; an interrupt ends it now.")


def _await(endings: Sequence[Ending], end: float | None) -> None:
    for ending in endings:
        ending.ended.wait(None if end is None else max(end - time.monotonic(), 0))
