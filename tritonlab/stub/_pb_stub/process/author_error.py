"""An exception that left the author's code: Triton's text for clients, and the traceback in full for the author."""

from __future__ import annotations

import contextlib
import os
import traceback
from typing import Any, Dict, List, Optional, Tuple

_STUB_DIRECTORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _is_ours(file: str) -> bool:
    return file.startswith(_STUB_DIRECTORY + os.sep)


def triton_text(error: BaseException, depth: int = 0) -> str:
    """`<Type>: <str>`, then the frames innermost first without source lines (rule 2.5.2). `depth`: of errors whose own
    text it was to be part of."""
    message, why = _message(error, depth)
    text = "%s: %s" % (type(error).__name__, message)
    frames = _frames(error)
    if frames:
        text += "\n\nAt:\n" + frames
    elif why:
        text += "\n"
    return text + why


def _frames(error: BaseException) -> str:
    try:
        trace = error.__traceback__
    except BaseException:
        return ""  # a __getattribute__ of the author's
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    # the chain of callers, not the traceback: it still has the frames that importlib cuts from tracebacks
    frame, line = trace.tb_frame, trace.tb_lineno  # type: Any, int
    lines = []
    while frame is not None:
        code = frame.f_code
        if not _is_ours(code.co_filename):
            lines.append("  %s(%d): %s\n" % (code.co_filename, line, code.co_name))
        elif lines:
            break  # below the author's frames: what called the model; above them: what the model called
        frame = frame.f_back
        line = frame.f_lineno if frame is not None else 0
    return "".join(lines)


def _message(error: BaseException, depth: int) -> Tuple[str, str]:
    """`str(error)` with Triton's words for one that is empty or raises, and what then follows the frames. What is no
    Unicode is escaped, as by pybind11: no protocol could carry it."""
    try:
        return str(error).encode("utf-8", "backslashreplace").decode("utf-8") or "<EMPTY MESSAGE>", ""
    except BaseException as another:
        if depth > 3:  # each error's text raises another
            return _UNAVAILABLE, ""
        return _UNAVAILABLE, "\nMESSAGE UNAVAILABLE DUE TO EXCEPTION: " + triton_text(another, depth + 1)


_UNAVAILABLE = "<MESSAGE UNAVAILABLE DUE TO ANOTHER EXCEPTION>"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return "<exception str() failed>"  # what the traceback module prints


def to_wire(error: BaseException, seen: Optional[List[int]] = None) -> Dict[str, Any]:
    """The exception as plain data (`core.status.RemoteException`): outermost frame first, without the stub's and
    importlib's."""
    seen = (seen or []) + [id(error)]
    cause, is_context = error.__cause__, False
    if cause is None and not error.__suppress_context__:
        cause, is_context = error.__context__, True
    frames = [
        [frame.filename, frame.lineno or 0, frame.name]
        for frame in traceback.extract_tb(error.__traceback__)
        if not _is_ours(frame.filename) and not frame.filename.startswith("<frozen importlib")
    ]
    wire = {
        "type": _qualified_name(type(error)),
        "text": _text(error),
        "frames": frames,
        "cause": to_wire(cause, seen) if cause is not None and id(cause) not in seen and len(seen) < 16 else None,
        "is_context": is_context,
        "detail": {},
        "notes": [str(note) for note in getattr(error, "__notes__", ())],
    }  # type: Dict[str, Any]
    if isinstance(error, SyntaxError):
        wire["detail"] = {name: _plain(getattr(error, name, None)) for name in _SYNTAX_DETAIL}
    return wire


_SYNTAX_DETAIL = ("msg", "filename", "lineno", "offset", "text", "end_lineno", "end_offset")


def _plain(value: Any) -> Any:
    return value if type(value) in (str, int) else None


def _qualified_name(kind: type) -> str:
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return "%s.%s" % (kind.__module__, kind.__qualname__)


def outcome_of(error: BaseException, text: Optional[str] = None) -> Dict[str, Any]:
    """The value of a failed outcome on the wire."""
    exception = None  # type: Optional[Dict[str, Any]]
    with contextlib.suppress(BaseException):  # an author can make one too odd to look at; that must not end the stub
        exception = to_wire(error)
    return {"text": triton_text(error) if text is None else text, "code": 1, "exception": exception}
