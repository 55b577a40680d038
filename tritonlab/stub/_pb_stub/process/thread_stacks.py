"""The stacks of a stub's threads and coroutines, by the author's lines without the stub's."""

from __future__ import annotations

import asyncio
import threading
import traceback
from typing import Any, List, Optional, Tuple

from ..api import own_threads
from ..wire.serialization import bounded
from .author_error import is_around, is_ours


def all_stacks(loop: Optional[asyncio.AbstractEventLoop] = None) -> str:
    """Return the stacks of all threads, the main thread first, and of the tasks of `loop`. The outermost call comes
    first, as in a traceback."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main, ours = threading.main_thread().ident, own_threads.without_authors()
    frames = sorted(own_threads.frames_of_others().items(), key=lambda item: (item[0] != main, item[0]))
    parts = [
        _part("Thread '%s'" % names.get(ident, "not of Python's"), list(traceback.extract_stack(frame)))
        for ident, frame in frames
        if ident not in ours
    ]
    tasks = asyncio.all_tasks(loop) if loop is not None else set()
    for task in sorted(tasks, key=lambda task: task.get_name()):
        parts.append(_part("Task '%s'" % task.get_name(), _task_stack(task)))
    return bounded("\n".join(parts))


def _task_stack(task: Any) -> List[traceback.FrameSummary]:
    """Return the frames of the coroutines that await one another; `Task.get_stack` has only the outermost."""
    summaries: List[traceback.FrameSummary] = []
    coroutine = task.get_coro()
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is None:
            break
        summaries += traceback.extract_stack(frame, limit=1)
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return summaries


def _part(title: str, summaries: List[traceback.FrameSummary]) -> str:
    own, waits_in = _authors(summaries)
    lines = [line.rstrip("\n") for line in traceback.format_list(own)]
    if waits_in:
        lines.append("  [in %s]" % waits_in)
    if not own:
        return "%s:\n%s" % (title, lines[0] if lines else "  nothing of the model")
    return "\n".join(["%s (most recent call last):" % title, *lines])


def _authors(summaries: List[traceback.FrameSummary]) -> Tuple[List[traceback.FrameSummary], str]:
    """Cut a stack to the author's frames and their callees; also return the stub's call in which it ended."""
    first = next((i for i, summary in enumerate(summaries) if not is_around(summary.filename)), len(summaries))
    own = summaries[first:]
    for index, summary in enumerate(own):
        if is_ours(summary.filename):
            return own[:index], summary.name
    called = [summary.name for summary in summaries if is_ours(summary.filename)]
    return own, "exec" if not own and "exec" in called else ""
