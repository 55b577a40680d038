"""The source map knows which line of which cell a line of a model file came from."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...core.status import Frame, RemoteException

#: Where the message of a SyntaxError names a line.
_LINE = re.compile(r"\bline (\d+)\b")

Locate = Callable[[str, int], "tuple[str, int]"]


@dataclass(frozen=True)
class Segment:
    """Says that lines `first` to `last` (from 1) of a model file were written at `line + offset` of `origin`.

    `origin` is the name `linecache` knows the text by: a cell's file name, or a path.
    """

    first: int
    last: int
    origin: str
    offset: int


def whole(text: str, origin: str, offset: int) -> tuple[Segment, ...]:
    """Returns the segments of a file that is one piece of `origin`. They go one line further, because a syntax error
    may name the line after the last one.
    """
    return (Segment(1, text.count("\n") + 2, origin, offset),)


class SourceMap:
    """Maps lines of model files on disk to the cells they were written from.

    Guarantees: `locate` never fails; a file or line nobody registered is its own origin. Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _segments
        self._segments: dict[str, tuple[Segment, ...]] = {}

    def replace(self, directory: str, files: Mapping[str, Sequence[Segment]]) -> dict[str, tuple[Segment, ...]]:
        """Makes `files` (absolute path -> segments) all that is known below `directory`. Returns what was before."""
        root = os.path.join(os.path.realpath(directory), "")
        with self._lock:
            before = {path: found for path, found in self._segments.items() if path.startswith(root)}
            for path in before:
                del self._segments[path]
            self._segments.update((os.path.realpath(path), tuple(found)) for path, found in files.items() if found)
        return before

    def locate(self, file: str, line: int) -> tuple[str, int]:
        """Returns the origin of `line` of `file`, a path in the form in which the server gave it to the stub (rule
        2.1.5).
        """
        with self._lock:
            segments = self._segments.get(os.path.realpath(file), ())
        for segment in segments:
            if segment.first <= line <= segment.last:
                return segment.origin, line + segment.offset
        return file, line


def located(exception: RemoteException, locate: Locate) -> RemoteException:
    """Returns the exception with every frame, and a SyntaxError's place, where the author wrote it."""
    detail, text = dict(exception.detail), exception.text
    file, line, said = detail.get("filename"), detail.get("lineno"), detail.get("msg")
    if isinstance(file, str) and isinstance(line, int):
        detail["filename"], detail["lineno"] = locate(file, line)
        if isinstance(detail.get("end_lineno"), int):
            detail["end_lineno"] += detail["lineno"] - line
        if isinstance(said, str):  # "expected an indented block after function definition on line 3"
            detail["msg"] = _LINE.sub(lambda found: f"line {locate(file, int(found[1]))[1]}", said)
            text = text.replace(said, detail["msg"], 1)
    return replace(
        exception,
        text=text,
        frames=tuple(Frame(*locate(frame.file, frame.line), frame.function) for frame in exception.frames),
        detail=detail,
        cause=located(exception.cause, locate) if exception.cause is not None else None,
    )
