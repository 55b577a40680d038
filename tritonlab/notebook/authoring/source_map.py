"""The files of a model that a notebook writes, and the cells from which their lines came."""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...core.status import Frame, RemoteException

#: Where the message of a SyntaxError names a line.
_LINE = re.compile(r"\bline (\d+)\b")

#: The number of processes whose executed text is remembered.
_PROCESSES = 200

Locate = Callable[[str, int], "tuple[str, int]"]


@dataclass(frozen=True)
class Segment:
    """Lines `first` to `last` (from 1) of a model file, which were written at `line + offset` of `origin`.

    `origin` is the text's name in `linecache`: a cell's file name, or a path.
    """

    first: int
    last: int
    origin: str
    offset: int


def whole(text: str, origin: str, offset: int) -> tuple[Segment, ...]:
    """Return the segments of a file that is one piece of `origin`. They include one further line, because a syntax
    error may name the line after the last one.
    """
    return (Segment(1, text.count("\n") + 2, origin, offset),)


@dataclass(frozen=True)
class ModelFile:
    """One file of a model: its bytes, or the path from which it is copied at each load.

    `segments`: the origins of its lines. `link`: the target, if it is a link instead. `like`: the file whose mode it
    gets.
    """

    content: bytes | Path
    segments: tuple[Segment, ...] = ()
    link: str = ""
    like: Path | None = None

    def text(self) -> str:
        return (self.content if isinstance(self.content, bytes) else self.content.read_bytes()).decode()


class SourceMap:
    """The cells from which the lines of model files on disk were written.

    Guarantees: `locate` never fails; an unregistered file or line is its own origin. Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards everything below
        self._segments: dict[str, tuple[Segment, ...]] = {}
        #: by process id, the text that it executes; the last ones, each from the time of its start
        self._of_process: dict[int, dict[str, tuple[Segment, ...]]] = {}

    def replace(self, directory: str, files: Mapping[str, Sequence[Segment]]) -> dict[str, tuple[Segment, ...]]:
        """Set `files` (absolute path -> segments) as all content below `directory`. Returns the content before."""
        root = os.path.join(os.path.realpath(directory), "")
        with self._lock:
            before = {path: found for path, found in self._segments.items() if path.startswith(root)}
            for path in before:
                del self._segments[path]
            for path, found in files.items():
                if found:
                    self._segments[_resolve(path)] = tuple(found)
        return before

    def remember(self, directory: str, processes: Iterable[int]) -> None:
        """Remember the content below `directory` as the text that these processes execute, also after later changes. A
        remembered process keeps its text."""
        root = os.path.join(os.path.realpath(directory), "")
        with self._lock:
            found = {path: segments for path, segments in self._segments.items() if path.startswith(root)}
            for process in processes:
                self._of_process.setdefault(process, found)
            for process in list(self._of_process)[:-_PROCESSES]:
                del self._of_process[process]

    def forget(self, processes: Iterable[int]) -> None:
        """Undo `remember`, because the text that these processes execute has moved."""
        with self._lock:
            for process in processes:
                self._of_process.pop(process, None)

    def of_process(self, process: int) -> Locate | None:
        """Return `locate` for the text that a process executes, which may have been replaced; None if unknown."""
        with self._lock:
            known = self._of_process.get(process)
        return None if known is None else functools.partial(_locate, known)

    def earlier(self, file: str, line: int) -> list[tuple[str, int]]:
        """Return the origins of the line in replaced files, the latest first."""
        with self._lock:
            known = list({id(one): one for one in reversed(self._of_process.values())}.values())
        return [found for one in known if (found := _locate(one, file, line)) != (file, line)]

    def locate(self, file: str, line: int) -> tuple[str, int]:
        """Return the origin of `line` of `file`, a path as the server gave it to the stub (rule 2.1.5)."""
        with self._lock:
            return _locate(self._segments, file, line)


def _resolve(file: str) -> str:
    """Return the path without links; only the file itself may be a link into the directory where it was found."""
    folder, name = os.path.split(file)
    return os.path.join(os.path.realpath(folder), name)


def _locate(known: Mapping[str, Sequence[Segment]], file: str, line: int) -> tuple[str, int]:
    for segment in known.get(_resolve(file)) or known.get(os.path.realpath(file), ()):
        if segment.first <= line <= segment.last:
            return segment.origin, line + segment.offset
    return file, line


def located(exception: RemoteException, locate: Locate) -> RemoteException:
    """Return the exception with every frame, and a SyntaxError's place, where the author wrote it."""
    detail, text = dict(exception.detail), exception.text
    file, line, message = detail.get("filename"), detail.get("lineno"), detail.get("msg")
    if isinstance(file, str) and isinstance(line, int):
        detail["filename"], detail["lineno"] = locate(file, line)
        if isinstance(detail.get("end_lineno"), int):
            detail["end_lineno"] += detail["lineno"] - line
        if isinstance(message, str):  # "expected an indented block after function definition on line 3"
            detail["msg"] = _LINE.sub(lambda found: f"line {locate(file, int(found[1]))[1]}", message)
            text = text.replace(message, detail["msg"], 1)
    return replace(
        exception,
        text=text,
        frames=tuple(Frame(*locate(frame.file, frame.line), frame.function) for frame in exception.frames),
        detail=detail,
        cause=located(exception.cause, locate) if exception.cause is not None else None,
        exceptions=tuple(located(member, locate) for member in exception.exceptions),
    )
