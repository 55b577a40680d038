"""Models that are loaded again when their files on disk change: `%triton watch`."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from ...core.clock import Clock, SystemClock
from ...engine.schedulers.scheduler import WakeUp
from ...engine.schedulers.timer import Timer
from ...server.models.repository_poller import run_in_thread
from .draft import Draft
from .errors import FileError, NotebookError

#: Nanoseconds between two looks at the files. A change counts once a second look finds the same.
_PAUSE = 500_000_000

#: path -> (modification time ns, size); None for a file that is not there
_Stamps = dict[Path, tuple[int, int] | None]


class ModelWatch:
    """The watch over the files of models. `draft` returns the draft of a model, `load` loads it from its files; `run`
    starts a load, which must not block the timer.

    Guarantees: a load that fails leaves the version that serves, and is tried again at the next change; the model's
    card shows it, as every load.
    """

    def __init__(
        self,
        draft: Callable[[str], Draft],
        load: Callable[[str], object],
        clock: Clock | None = None,
        timer: WakeUp | None = None,
        run: Callable[[Callable[[], None]], None] = run_in_thread,
    ) -> None:
        self._draft = draft
        self._load_from_disk = load
        self._clock = clock or SystemClock()
        self._timer = timer or Timer(self._clock)
        self._run = run
        self._lock = threading.Lock()  # guards all fields below
        self._loaded: dict[str, _Stamps] = {}
        self._changing: dict[str, _Stamps] = {}
        self._busy: set[str] = set()
        self._looks = False

    def add(self, name: str) -> list[Path]:
        """Watch the files of a model, and return them. Raises FileError for a model without files on disk."""
        files = files_on_disk(self._draft(name))
        if not files:
            fix = f"%%triton_model {name} --file PATH"
            text = f"'{name}' has no file on disk to watch: its cells write all of it; {fix} names one"
            raise FileError(text, field=name, fix=fix)
        with self._lock:
            self._loaded[name] = _stamps(files)
            starts, self._looks = not self._looks, True
        if starts:
            self._next()
        return files

    def remove(self, name: str) -> bool:
        """Watch a model no longer. Returns False if it was not watched."""
        with self._lock:
            self._changing.pop(name, None)
            return self._loaded.pop(name, None) is not None

    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._loaded)

    def close(self) -> None:
        with self._lock:
            self._loaded.clear()
        if isinstance(self._timer, Timer):
            self._timer.close()

    def _next(self) -> None:
        self._timer.call_at(self._clock.now() + _PAUSE, self._look)

    def _look(self) -> None:
        with self._lock:
            watched = dict(self._loaded)
            self._looks = bool(watched)
        for name, loaded in watched.items():
            try:
                seen = _stamps(files_on_disk(self._draft(name)))
            except (NotebookError, OSError):  # of what a cell has just written, which showed it
                continue
            with self._lock:
                settled = self._changing.pop(name, None) == seen
                # a file that is not there is being replaced by an editor
                if seen == loaded or None in seen.values() or name in self._busy or name not in self._loaded:
                    continue
                if not settled:  # it may be half written
                    self._changing[name] = seen
                    continue
                self._loaded[name] = seen
                self._busy.add(name)
            self._run(lambda name=name: self._load(name))  # type: ignore[misc]
        if watched:
            self._next()

    def _load(self, name: str) -> None:
        try:
            with contextlib.suppress(Exception):  # of the author's code; the card shows it
                self._load_from_disk(name)
        finally:
            with self._lock:
                self._busy.discard(name)


def files_on_disk(draft: Draft) -> list[Path]:
    """Return the files outside of the notebook that a model's next load reads: its source, and helper files."""
    found = [file.content for file in draft.tree.values() if isinstance(file.content, Path)]
    if draft.source_path is not None:
        found.append(draft.source_path)
    return list(dict.fromkeys(found))


def _stamps(files: list[Path]) -> _Stamps:
    found: _Stamps = {}
    for path in files:
        try:
            status = os.stat(path)
            found[path] = (status.st_mtime_ns, status.st_size)
        except OSError:
            found[path] = None
    return found
