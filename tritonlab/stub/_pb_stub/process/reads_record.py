"""What the author's code reads outside of its model: files and environment variables, noted while the model is loaded,
and while it executes only when that is requested.

While recording, `open`, `os.mkdir` and the class of `os.environ` are others. An audit hook would see more, what C code
opens, but it cannot be removed, and the reading of every message is an event: 1.6 us each, measured (`marshal.loads`
0.28 us without a hook, 1.93 us with one that returns at once; Python 3.11, 2026-11-24), of the 60 us that a request
takes. A read counts if the author's code makes it, or calls what does; what libraries read on their own account, at
their import, does not.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import sys
from typing import Any, Dict, List, Optional, Set, Tuple

from ..wire.message_bodies import ReadFile, ReadsRecorded, ReadVariable

#: Where a deployed server has files of its own.
_EVERYWHERE = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib/", "/lib64/", "/bin/", "/opt/tritonserver/")
_PACKAGES = ("%ssite-packages%s" % (os.sep, os.sep), "%sdist-packages%s" % (os.sep, os.sep))
#: The most of each kind that is kept.
_MOST = 200
_LIBRARY = os.path.dirname(os.__file__)
_STUB_DIRECTORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_MAPPINGS = os.path.join(_LIBRARY, "_collections_abc.py")
_MAPPING_FILES = {"<frozen os>", "<frozen _collections_abc>", os.__file__, _MAPPINGS}
#: Functions of mappings that read all variables, or set one.
_BULK = {"copy", "__iter__", "setdefault", "__eq__", "__repr__", "__or__", "__ror__"}

Place = Tuple[str, int]


class ReadsRecord:
    """The record of this process. Threads may read files at the same time; a dict takes that."""

    def __init__(self) -> None:
        self.recording = False
        self._open = _RecordedOpen(self)
        self._mkdir = _RecordedMkdir(self)
        self._model_directory = ""
        self._working_directory = ""
        self._files: Dict[str, Tuple[str, int, bool]] = {}
        self._variables: Dict[str, Place] = {}
        #: variables that the model has set itself, then files that it has written and directories that it has made
        self._own: Set[str] = set()
        self._written: Set[str] = set()
        self._environment_class: Any = None

    def begin(self, version_directory: str) -> None:
        """Record from now on. Called before the author's module is imported."""
        self._model_directory = os.path.dirname(os.path.realpath(version_directory))
        self._working_directory = _working_directory()
        self.set_recording(True)

    def set_recording(self, on: bool) -> None:
        """Begin again, or end, what `begin` has begun."""
        if on == self.recording:
            return
        self.recording = on
        modules: Tuple[Any, ...] = (builtins, io)
        for module in modules:
            if module.open is (self._open.real if on else self._open):  # otherwise a library has put another there
                module.open = self._open if on else self._open.real
        if os.mkdir is (self._mkdir.real if on else self._mkdir):
            vars(os)["mkdir"] = self._mkdir if on else self._mkdir.real  # os.makedirs looks it up there
        if on:
            self._environment_class = type(os.environ)
        _set_class(os.environ, _recorded_class(self._environment_class, self) if on else self._environment_class)

    def recorded(self) -> ReadsRecorded:
        """Return what was read so far. May be called on any thread."""
        files = [ReadFile(path, *place) for path, place in list(self._files.items())]
        variables = [ReadVariable(name, *place) for name, place in list(self._variables.items())]
        version = "%d.%d.%d" % sys.version_info[:3]
        return ReadsRecorded(version, self._working_directory, files, variables, sorted(self._written.copy()))

    # -- files

    def note_file(self, path: Any, mode: Any, frame: Any) -> None:
        """Note a file that is opened by `frame`."""
        if isinstance(path, int):
            return
        given = os.fsdecode(path)
        path = os.path.abspath(given)
        if set(mode) & set("wxa+"):
            self.note_written(path)
            return
        if path in self._files or self._is_written(path) or self._is_brought(path) or len(self._files) >= _MOST:
            return
        place = self._authors_place(frame)
        if place is not None:
            self._files[path] = (*place, not os.path.isabs(given))

    def note_written(self, path: Any) -> None:
        """Note a file that is opened for writing, or a directory that was made: what is in it is the model's own."""
        if isinstance(path, int) or len(self._written) >= _MOST:
            return
        path = os.path.abspath(os.fsdecode(path))
        if not self._is_written(path):
            self._written.add(path)

    def _is_written(self, path: str) -> bool:
        """Return whether the model has written the file itself, or made a directory that it is in."""
        while path not in self._written:
            path, below = os.path.dirname(path), path
            if path == below:
                return False
        return True

    def _is_brought(self, path: str) -> bool:
        """Return whether a deployed server has the file, too, or a package of the environment brings it."""
        real = os.path.realpath(path)
        if real == self._model_directory or real.startswith(self._model_directory + os.sep):
            return True
        roots = (sys.prefix, sys.base_prefix, sys.exec_prefix, _LIBRARY, _STUB_DIRECTORY)
        return path.startswith(_EVERYWHERE) or any(real.startswith(os.path.realpath(r) + os.sep) for r in roots)

    def _authors_place(self, frame: Any) -> Optional[Place]:
        """Return the author's line that has made this call; None if none has, or it was an import."""
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith("<frozen importlib"):
                return None
            if self._is_authors(name):
                return name, frame.f_lineno
            frame = frame.f_back
        return None

    def _is_authors(self, file: str) -> bool:
        if any(part in file for part in _PACKAGES) or file.startswith((_LIBRARY + os.sep, _STUB_DIRECTORY + os.sep)):
            return False
        return any(
            root and os.path.realpath(file).startswith(root + os.sep)
            for root in (self._model_directory, self._working_directory)
        )

    # -- variables

    def note_variable(self, name: Any, frame: Any) -> None:
        """Note a variable that is read by `frame`, the caller of the mapping's method."""
        while frame is not None and frame.f_code.co_filename in _MAPPING_FILES:
            if frame.f_code.co_name in _BULK:
                return
            frame = frame.f_back
        if not isinstance(name, str) or name in self._own or name in self._variables or len(self._variables) >= _MOST:
            return
        if frame is not None and self._is_authors(frame.f_code.co_filename):
            self._variables[name] = (frame.f_code.co_filename, frame.f_lineno)

    def note_set(self, name: Any) -> None:
        self._own.add(name)


class _RecordedOpen:
    """`open` while recording. An object, because a function would become a method where a class keeps it."""

    def __init__(self, record: ReadsRecord) -> None:
        self.real = open
        self._record = record

    def __call__(self, file: Any, mode: Any = "r", *arguments: Any, **settings: Any) -> Any:
        if self._record.recording:
            with contextlib.suppress(Exception):  # an error here would be the author's
                self._record.note_file(file, mode, sys._getframe(1))
        return self.real(file, mode, *arguments, **settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class _RecordedMkdir:
    """`os.mkdir` while recording."""

    def __init__(self, record: ReadsRecord) -> None:
        self.real = os.mkdir
        self._record = record

    def __call__(self, path: Any, *arguments: Any, **settings: Any) -> None:
        self.real(path, *arguments, **settings)  # raises for a directory that is there, whose files are not the model's
        if self._record.recording and settings.get("dir_fd") is None:
            with contextlib.suppress(Exception):  # an error here would be the author's
                self._record.note_written(path)


def _recorded_class(kind: Any, record: ReadsRecord) -> Any:
    """Return a subclass of the class of `os.environ` that notes what is read."""
    bulk: List[Tuple[int, int]] = [(0, 0)]

    class Recorded(kind):  # type: ignore[misc]
        def __getitem__(self, key: Any) -> Any:
            value = super().__getitem__(key)  # raises for one that is not set, on which nothing depends
            frame = sys._getframe(1)
            if (id(frame), frame.f_lasti) != bulk[0]:
                record.note_variable(key, frame)
            return value

        def keys(self) -> Any:
            frame = sys._getframe(1)
            bulk[0] = (id(frame), frame.f_lasti)  # dict(os.environ) asks for each of them, at the same instruction
            return super().keys()

        def __setitem__(self, key: Any, value: Any) -> None:
            record.note_set(key)
            super().__setitem__(key, value)

    Recorded.__name__, Recorded.__qualname__ = kind.__name__, kind.__qualname__
    return Recorded


def _set_class(environment: Any, kind: Any) -> None:
    with contextlib.suppress(TypeError):  # a library has put something else there
        environment.__class__ = kind


def _working_directory() -> str:
    try:
        return os.path.realpath(os.getcwd())
    except OSError:
        return ""
