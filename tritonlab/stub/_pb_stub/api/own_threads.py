"""The stub's own threads by ident, so that none of them is mistaken for the author's."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Callable, Dict, FrozenSet

#: ident -> whether the author's code may run there
_running: Dict[int, bool] = {}


def start(name: str, function: Callable[..., Any], *args: Any, runs_authors: bool = False) -> threading.Thread:
    """Start a daemon thread of the stub. `runs_authors`: it may call the author's code."""

    def run() -> None:
        ident = threading.get_ident()
        _running[ident] = runs_authors
        try:
            function(*args)
        finally:
            del _running[ident]

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def own() -> FrozenSet[int]:
    """Return the idents of the stub's threads."""
    return frozenset(_running.copy())


def count() -> int:
    """Return the number of the stub's threads."""
    return len(_running)


def without_authors() -> FrozenSet[int]:
    """Return the idents of the stub's threads that never call the author's code."""
    return frozenset(ident for ident, runs_authors in _running.copy().items() if not runs_authors)


def frames_of_others() -> Dict[int, Any]:
    """Return the innermost frame of every other thread. This thread's own frame would refer to the result: a cycle that
    keeps the author's frames and tensors until the garbage collector runs.
    """
    frames = sys._current_frames()
    del frames[threading.get_ident()]
    return frames


os.register_at_fork(after_in_child=_running.clear)  # a forked process has none of them, and reuses idents
