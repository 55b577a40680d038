"""Descriptions of an exception that left the author's code: Triton's words for clients, the traceback for authors."""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
import types
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from ..wire.message_bodies import Failure
from ..wire.serialization import MAX_TEXT, bounded

#: `tritonlab/stub`: all of tritonlab's code that runs in a stub.
STUB_DIRECTORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: The modules that call the author's code, not those that it calls.
_PROCESS = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: The most frames reported of one exception, the innermost ones; Python raises RecursionError after a thousand.
_MAX_FRAMES = 4096
#: The most exceptions reported of a group, and of the groups in it.
_MAX_MEMBERS = 8
_OURS = STUB_DIRECTORY + os.sep
#: The file of the stub that Triton has in Python, too.
_UTILS = _OURS + "triton_python_backend_utils.py"
_LIBRARY = os.path.dirname(threading.__file__) + os.sep
_PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


def is_ours(file: str) -> bool:
    return file.startswith(_OURS)


def triton_text(error: BaseException, depth: int = 0) -> str:
    """Return `<Type>: <str>`, then the frames, innermost first, without source lines (rule 2.5.2).

    `depth` counts the errors raised while the text of another was made. Message and frames are each bounded (rule
    3.5.5).
    """
    message, why = _message(error, depth)
    text = "%s: %s" % (type(error).__name__, message)
    frames = _frames(error)
    if frames:
        text += "\n\nAt:\n" + bounded(frames)
    elif why:
        text += "\n"
    return text + why


def _frames(error: BaseException) -> str:
    try:
        trace = error.__traceback__
    except BaseException:
        return ""  # the author's class has a __getattribute__ that raises
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    # the frame and the chain of its callers, not the traceback: importlib cuts frames from tracebacks, and a frame that
    # raises its error again, or runs a `finally`, is no longer at the traceback's line
    frame = trace.tb_frame  # type: Any
    lines = []  # type: List[str]
    while frame is not None and len(lines) < _MAX_FRAMES:
        code = frame.f_code
        if not is_ours(code.co_filename) or _is_shown(code):
            line = -1 if frame.f_lineno is None else frame.f_lineno  # generated code may have no lines
            lines.append("  %s(%d): %s\n" % (code.co_filename, line, code.co_name))
        elif lines and code.co_filename.startswith(_PROCESS):
            break  # these frames called the model; the frames of pb_utils were called by it, and may call it in turn
        frame = frame.f_back
    return "".join(lines)


def _is_shown(code: types.CodeType) -> bool:
    """Return whether code of the stub is a function that Triton has in Python, which its texts show."""
    name = code.co_name
    return code.co_filename == _UTILS and (name == "__init__" or not name.startswith(("_", "<")))


def _message(error: BaseException, depth: int) -> Tuple[str, str]:
    """Return `str(error)`, or Triton's words if it is empty or raises, and the text after the frames. Characters
    that UTF-8 cannot encode are escaped, as pybind11 does, because no protocol could carry them."""
    try:
        text = bounded(str(error))
        return text.encode("utf-8", "backslashreplace").decode("utf-8") or "<EMPTY MESSAGE>", ""
    except BaseException as another:
        if depth > 3:  # each error's text raises another
            return _UNAVAILABLE, ""
        return _UNAVAILABLE, "\nMESSAGE UNAVAILABLE DUE TO EXCEPTION: " + triton_text(another, depth + 1)


_UNAVAILABLE = "<MESSAGE UNAVAILABLE DUE TO ANOTHER EXCEPTION>"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return "<exception str() failed>"  # printed by the traceback module


class _Room:
    """The room that is left for one exception, its causes and the exceptions of a group on the wire."""

    def __init__(self) -> None:
        self._left = 2 * MAX_TEXT  # characters
        self._members = _MAX_MEMBERS

    def take_members(self, error: BaseException) -> Iterator[BaseException]:
        """Yield as many exceptions of a group as fit; none for another exception."""
        members = getattr(error, "exceptions", ())
        for member in members if isinstance(members, tuple) else ():
            if self._members > 0 and isinstance(member, BaseException):
                self._members -= 1
                yield member

    def take(self, text: str) -> str:
        text = bounded(text, max(self._left, 0))
        self._left -= len(text) + 4  # quotes and comma, which would add up for a million empty notes
        return text

    def take_each(self, texts: Iterable[Any]) -> List[str]:
        """Return as many of the texts as fit; the last may be cut."""
        taken = []  # type: List[str]
        for text in texts:
            if self._left <= 0:
                break
            taken.append(self.take(str(text)))
        return taken


def to_wire(error: BaseException, seen: Optional[List[int]] = None, room: Optional[_Room] = None) -> Dict[str, Any]:
    """Return the exception as plain data (`core.status.RemoteException`): frames outermost first, without frames of the
    stub and of importlib.
    """
    seen = (seen or []) + [id(error)]
    room = room or _Room()
    cause, is_context = error.__cause__, False
    if cause is None and not error.__suppress_context__:
        cause, is_context = error.__context__, True
    frames = [
        [frame.filename, frame.lineno or 0, frame.name]
        for frame in _authors(traceback.extract_tb(error.__traceback__, -_MAX_FRAMES))
    ]
    wire = {
        "type": _qualified_name(type(error)),
        "text": room.take(_text(error)),
        "frames": frames,
        "cause": None,
        "is_context": is_context,
        "detail": {},
        "notes": room.take_each(getattr(error, "__notes__", ())),
        "exceptions": [to_wire(member, seen, room) for member in room.take_members(error) if id(member) not in seen],
    }  # type: Dict[str, Any]
    if isinstance(error, SyntaxError):
        wire["detail"] = {name: _plain(getattr(error, name, None), room) for name in _SYNTAX_DETAIL}
    if cause is not None and id(cause) not in seen and len(seen) < 16:
        wire["cause"] = to_wire(cause, seen, room)
    return wire


def _authors(frames: Iterable[traceback.FrameSummary]) -> List[traceback.FrameSummary]:
    """Return the frames for authors, without a library's through which the stub called their code, such as asyncio."""
    authors = []  # type: List[traceback.FrameSummary]
    between = []  # type: List[traceback.FrameSummary]
    by_us = False
    for frame in frames:
        if not is_authors(frame.filename):
            by_us = by_us or is_ours(frame.filename)
        elif by_us and not authors and is_library(frame.filename):
            between.append(frame)
        else:
            authors.append(frame)
    return authors or between


def is_authors(file: str) -> bool:
    """Return whether a frame of this file is shown to authors: it belongs neither to the stub nor to importlib."""
    return not is_ours(file) and not file.startswith("<frozen importlib")


def is_library(file: str) -> bool:
    """Return whether a frame of this file belongs to a library, not to the author's own files."""
    return is_around(file) or any(packages in file for packages in _PACKAGES)


def is_around(file: str) -> bool:
    """Return whether a frame of this file belongs to the stub or the standard library."""
    if file.startswith((_OURS, "<frozen ")):
        return True
    return file.startswith(_LIBRARY) and not any(packages in file for packages in _PACKAGES)


_SYNTAX_DETAIL = ("msg", "filename", "lineno", "offset", "text", "end_lineno", "end_offset")


def _plain(value: Any, room: _Room) -> Any:
    if type(value) is str:
        return room.take(value)
    return value if type(value) is int else None


def _qualified_name(kind: type) -> str:
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return "%s.%s" % (kind.__module__, kind.__qualname__)


def failure_of(error: BaseException, text: Optional[str] = None) -> Failure:
    """Return the error's form for the wire: its text, and the exception as plain data if possible."""
    exception = None  # type: Optional[Dict[str, Any]]
    with contextlib.suppress(BaseException):  # an author's exception may be too odd to read; this must not end the stub
        exception = to_wire(error)
    return Failure(triton_text(error) if text is None else text, 1, exception)


def traceback_text(error: BaseException) -> str:
    """Return the exception as Python prints it, with causes and groups, without frames of the stub and of importlib.
    Empty if the author's class makes it impossible.
    """
    lines, size = [], 0  # type: List[str], int
    with contextlib.suppress(BaseException):
        printed = traceback.TracebackException(type(error), error, error.__traceback__, limit=-_MAX_FRAMES)
        _strip(printed, 0)
        for line in printed.format():
            lines.append(line)
            size += len(line)
            if size > MAX_TEXT:
                break
    return bounded("".join(lines))


def _strip(printed: traceback.TracebackException, depth: int) -> None:
    printed.stack[:] = _authors(printed.stack)
    others = [printed.__cause__, printed.__context__, *(getattr(printed, "exceptions", None) or ())]
    for other in others:
        if other is not None and depth < 16:
            _strip(other, depth + 1)


def log_text(error: BaseException, text: str) -> str:
    """Return the log's text of an exception with the clients' text `text`: the same, as on Triton, followed by Python's
    traceback if that has more.
    """
    with contextlib.suppress(BaseException):
        if _has_more_to_say(error):
            return text + "\n" + traceback_text(error)
    return text


def _has_more_to_say(error: BaseException) -> bool:
    """Return whether the error has causes, notes or exceptions of a group, or passed through frames of generators or
    coroutines that are no longer on the stack.
    """
    if error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        return True
    if getattr(error, "__notes__", ()) or getattr(error, "exceptions", ()):
        return True
    passed = _authors(traceback.extract_tb(error.__traceback__, -_MAX_FRAMES))
    return len(passed) > sum(_UTILS not in line for line in _frames(error).splitlines())


def place_of(error: BaseException, model_path: str) -> Tuple[str, int]:
    """Return file and line of the author's innermost frame, in the model's own file if a frame is there."""
    with contextlib.suppress(BaseException):
        frames = _authors(traceback.extract_tb(error.__traceback__, -_MAX_FRAMES))
        own = [frame for frame in frames if frame.filename == model_path] or frames
        if own:
            return own[-1].filename, own[-1].lineno or 0
    return model_path, 0
