"""An exception of the stub process in a form that Python and IPython can show here."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from types import TracebackType
from typing import Any

from ...core.status import Frame, RemoteException

#: How often one line of a function is shown in a traceback.
_MOST_REPEATS = 3


def as_exception(remote: RemoteException, callers: TracebackType | None = None) -> BaseException:
    """Return an exception of the same type name, text, notes, frames and causes. None of the author's code runs.

    `callers`: frames of this process above the author's, outermost first.
    """
    exception = _syntax_error(remote) if remote.detail.get("filename") else _stand_in(remote)
    frames = _without_repeats(remote.frames)
    for note in remote.notes:
        exception.add_note(note)
    if left_out := len(remote.frames) - len(frames):
        exception.add_note(f"{left_out} more frames repeat those above")
    if remote.cause is not None:
        cause = as_exception(remote.cause)
        if remote.is_context:
            exception.__context__ = cause
        else:
            exception.__cause__ = cause
    return exception.with_traceback(_chain(callers, frames))


def _stand_in(remote: RemoteException) -> BaseException:
    """Make an exception that prints the same. It is not of the real class, which may not exist here, and whose
    constructor may do anything."""
    module, _, name = remote.type_name.rpartition(".")
    members = {"__str__": lambda self: remote.text, "__module__": module or "builtins", "__qualname__": name}
    exception: BaseException = type(name, (Exception,), members)()
    return exception


def _syntax_error(remote: RemoteException) -> BaseException:
    kind: Any = getattr(builtins, remote.type_name, SyntaxError)
    detail = remote.detail
    location = [detail.get(key) for key in ("filename", "lineno", "offset", "text", "end_lineno", "end_offset")]
    error: BaseException = kind(detail.get("msg") or remote.text, tuple(location))
    return error


def _without_repeats(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return the frames without most of those that a recursion repeats: in a kernel IPython would print all of them,
    which takes many seconds and thousands of lines."""
    counts, seen = Counter(frames), Counter[Frame]()
    distinct = []
    for frame in frames:
        seen[frame] += 1
        if counts[frame] <= _MOST_REPEATS or seen[frame] < _MOST_REPEATS or seen[frame] == counts[frame]:
            distinct.append(frame)
    return tuple(distinct)


def _chain(callers: TracebackType | None, frames: tuple[Frame, ...]) -> TracebackType | None:
    trace = None
    for frame in reversed(frames):
        there = _traceback_at(frame)
        trace = TracebackType(trace, there.tb_frame, there.tb_lasti, there.tb_lineno)
    local = []
    while callers is not None:
        local.append(callers)
        callers = callers.tb_next
    for caller in reversed(local):
        trace = TracebackType(trace, caller.tb_frame, caller.tb_lasti, caller.tb_lineno)
    return trace


def _traceback_at(frame: Frame) -> TracebackType:
    """Return the traceback entry of a `raise` that was compiled to stand at `frame`."""
    tree = ast.parse("raise signal")
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr)):
            node.lineno = node.end_lineno = max(frame.line, 1)
            node.col_offset = node.end_col_offset = -1  # no columns, else they would be marked in the author's line
    code = compile(tree, frame.file, "exec", dont_inherit=True)
    try:
        exec(code.replace(co_name=frame.function, co_qualname=frame.function), {"signal": _Signal()})
    except _Signal as raised:
        assert raised.__traceback__ is not None and raised.__traceback__.tb_next is not None
        return raised.__traceback__.tb_next
    raise AssertionError("the signal did not come back")


class _Signal(Exception):
    pass
