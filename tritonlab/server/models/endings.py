"""`Endings` lets versions that no longer serve end, each on a thread of its own, and waits for them as long as it is
told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from .model_lifecycle import ModelVersion

#: Seconds of waiting after which it is said what is waited for.
_SILENT = 1.0
#: Seconds for what follows at once when a stub was killed.
_KILLED = 5.0


class Ending:
    """One version that ends. `over` is set when it has: an interrupted `Thread.join` takes a thread that runs for one
    that has ended (Python 3.11)."""

    def __init__(self, version: ModelVersion) -> None:
        self.version = version
        self.over = threading.Event()


class Endings:
    """`tell` gets a version that is waited for and a sentence about it. Any thread may call."""

    def __init__(self, tell: Callable[[ModelVersion, str], None]) -> None:
        self._tell = tell
        self._running: dict[Ending, None] = {}

    def begin(self, version: ModelVersion, before: Sequence[Ending], ended: Callable[[], None]) -> Ending:
        """Unloads the version in the background, after `before` are over; then calls `ended`."""
        ending = Ending(version)

        def end() -> None:
            try:
                _await(before, None)
                version.unload()
                ended()
            finally:
                self._running.pop(ending, None)
                ending.over.set()

        self._running[ending] = None
        threading.Thread(target=end, name=f"unload {version.name}", daemon=True).start()
        return ending

    def versions(self) -> list[ModelVersion]:
        """Those that have not ended."""
        return [ending.version for ending in list(self._running)]

    def of(self, identifiers: Iterable[str]) -> list[Ending]:
        """Those of these models, older versions that a reload took out of service among them."""
        wanted = set(identifiers)
        return [ending for ending in list(self._running) if ending.version.identifier in wanted]

    def wait(self, endings: Sequence[Ending], timeout: float | None) -> None:
        """Blocking. What has not ended after `timeout` seconds, or when the caller is interrupted, is ended at once:
        its requests fail and its stubs are killed. Without a timeout it ends by itself, and an interrupt ends only the
        waiting."""
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
            late = [ending for ending in endings if not ending.over.is_set()]
            for ending in late:
                ending.version.abort()
            _await(late, time.monotonic() + _KILLED)

    def _say(self, endings: Sequence[Ending], end: float) -> None:
        for ending in endings:
            version = ending.version
            if not ending.over.is_set() and (awaited := version.awaited()):
                left = max(end - time.monotonic(), 0)
                text = f"'{version.identifier}' is being unloaded and waits for {awaited}."
                self._tell(version, f"{text} It is ended in {left:.0f} s; an interrupt ends it now.")


def _await(endings: Sequence[Ending], end: float | None) -> None:
    for ending in endings:
        ending.over.wait(None if end is None else max(end - time.monotonic(), 0))
