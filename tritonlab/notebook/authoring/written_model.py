"""One model of a notebook: its draft, its directory, the result of its last load, and the running load."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.source.source_file import UNPARSABLE
from ...core.status import LoadInterrupted, ModelError, ModelLoadError, RemoteException, TritonError
from ...repository.model_directory import Edited, Link, Made, ModelDirectory, Stamp, stamp_of
from .draft import Draft
from .errors import refused_files
from .source_map import ModelFile, Segment, SourceMap, located

if TYPE_CHECKING:
    from ...ipc.processes.stub_log import LogRecord
    from ...server.api.model import Model
    from ...server.api.server import Server
    from .settings import Settings


@dataclass(frozen=True)
class LoadReport:
    """The last load of a model, for its card.

    `seconds`: from the call to READY, or to the failure. `log`: the model's output meanwhile. `ready_at`: when the
    serving version became ready, wall clock seconds, 0 if none serves. `error`: why the last load failed. `cell`: the
    cell that loaded it, "In[3]"; "" for a button.
    """

    name: str
    seconds: float
    log: tuple[LogRecord, ...]
    ready_at: float
    error: BaseException | None = None
    #: the processes that ran the current files on disk
    pids: frozenset[int] = frozenset()
    cell: str = ""


@dataclass(frozen=True)
class LoadProgress:
    """A running load. `started`: `time.perf_counter()`. `thread`: the thread whose interrupt ends the load. `cell`: as
    in `LoadReport`.
    """

    started: float
    thread: threading.Thread
    printed: Callable[[], tuple[LogRecord, ...]]
    cell: str = ""

    def age(self) -> float:
        return time.perf_counter() - self.started


class PrintedSince:
    """The output of a model's processes that start from now on, without the processes that are `running` already, which
    may print, too.
    """

    def __init__(self, server: Server, name: str, running: frozenset[int]) -> None:
        self._server = server
        self._name = name
        self._begin = time.time_ns()
        self._before = running

    def records(self) -> tuple[LogRecord, ...]:
        return tuple(
            record
            for record in self._server.logs(self._name)
            if record.time_ns >= self._begin and record.stream != "server" and record.pid not in self._before
        )


class WrittenModel:
    """One draft and its directory in the repository, served by `server`. The workspace's lock guards it.

    Guarantees: a failed load keeps the files of the last good load on disk, just as the server keeps its version
    serving (rule 2.5.8).
    """

    def __init__(self, name: str, server: Server, directory: ModelDirectory, sources: SourceMap) -> None:
        self.name = name
        self.draft = Draft(name)
        self.report: LoadReport | None = None
        #: how long the load of the serving version took, by its settings: tuning loads it with others, and then as
        #: before
        self.seconds_to_ready: dict[Settings | None, float] = {}
        #: the running load, if there is one
        self.progress: LoadProgress | None = None
        self._server = server
        self._directory = directory
        self._sources = sources
        #: the content of the directory at the last load
        self._loaded: dict[str, bytes | Stamp] = {}
        #: the content of the source of the last good load
        self._good_source: bytes | Path | None = None

    def awaits_source(self, written: str) -> bool:
        """Return whether the source was never loaded well, or its cell comes after the cell of `written`."""
        source = self.draft.source
        return source is not None and (source.content != self._good_source or written in self.draft.before_source)

    def serves_draft(self) -> bool:
        """Return whether the last load was good, loaded exactly this draft, and its version still serves."""
        if self.report is None or self.report.error is not None or not self._server.model(self.name).ready():
            return False
        return self._loaded == _content(self.draft.all_files())

    def map_lines(self) -> dict[str, tuple[Segment, ...]]:
        """Register the cells from which the lines of the draft's files come. Returns the registration before."""
        path = self._directory.path
        return self._sources.replace(
            str(path), {str(path / relative): file.segments for relative, file in self.draft.tree.items()}
        )

    def map_lines_again(self) -> None:
        """Do the same for a draft that serves: its cells may have run again, under other numbers."""
        self.map_lines()
        running = pids_of(self._server, self.name)
        self._sources.forget(running)
        self._sources.remember(str(self._directory.path), running)

    def load(self, started: float, cell: str = "") -> Model:
        """Write the draft and load it. `started`: when the load was requested, and `cell`: by which, for the report.

        Raises the errors of `Workspace.load`; then a version that served before goes on serving.
        """
        files = self.draft.all_files()
        content = _content(files)
        before, ready_at = self.report, self.report.ready_at if self.report is not None else 0.0
        path = str(self._directory.path)
        running = pids_of(self._server, self.name)
        if running:
            self._sources.remember(path, running)  # some processes were started since the last load
        known = self.map_lines()
        printed, error = PrintedSince(self._server, self.name, running), None
        self.progress = LoadProgress(started, threading.current_thread(), printed.records, cell)
        try:
            self._write(files)
            self._server.core.control.load(self.name)
        except BaseException as failure:
            error = failure
            if isinstance(failure, (ModelError, LoadInterrupted)) and failure.exception is not None:
                failure.exception = located(failure.exception, self._sources.locate)
            self._sources.remember(path, (record.pid for record in printed.records()))
            if ready_at:
                self._put_back(known)
            raise
        else:
            ready_at = time.time()
            self._loaded = content
            self.seconds_to_ready = {self.draft.settings: time.perf_counter() - started}
            self._good_source = self.draft.source.content if self.draft.source is not None else None
            return self._server.model(self.name)
        finally:
            self._directory.forget()
            log = printed.records()
            if error is not None and before is not None and ready_at:
                pids = before.pids
            else:
                pids = frozenset(record.pid for record in log) | pids_of(self._server, self.name)
                self._sources.remember(path, pids)
            seconds = time.perf_counter() - started
            self.report = LoadReport(self.name, seconds, log, ready_at, error=error, pids=pids, cell=cell)
            self.progress = None

    def keep_seconds(self, before: Mapping[Settings | None, float]) -> None:
        """Report the earlier duration for a load with settings that were loaded before: the load that ends a tuning is
        not the author's."""
        self.seconds_to_ready = {**self.seconds_to_ready, **before}
        if self.report is not None:
            self.report = replace(self.report, seconds=self.seconds_to_ready[self.draft.settings])

    def _write(self, files: Mapping[str, ModelFile]) -> None:
        """Write the files. Raises ModelLoadError for a model.py that is not Python; then nothing is written."""
        draft = self.draft
        # another interpreter may have a newer syntax
        foreign = b"EXECUTION_ENV_PATH" in (draft.config_content or b"") or "triton_python_backend_stub" in files
        if draft.source is not None and not foreign:
            path = str(self._directory.path / draft.model_path)
            _check_syntax(draft.source.text(), path, model=self.name, version=draft.version, sources=self._sources)
        with refused_files():
            directories = draft.base.tree.directories if draft.base is not None else ()
            self._directory.replace({path: _made(file) for path, file in files.items()}, draft.version, directories)

    def remove(self) -> None:
        """Remove its directory; the processes that serve from it go on."""
        self._sources.replace(str(self._directory.path), {})
        self._directory.remove()

    def _put_back(self, known: Mapping[str, tuple[Segment, ...]]) -> None:
        """Restore the files and lines of the serving version."""
        self._directory.restore()
        self._sources.replace(str(self._directory.path), known)
        if self.draft.source is None and not self._server.model(self.name).ready():
            # an ensemble that no longer fits its models is unloaded, as by Triton (rule 5.7.3)
            with contextlib.suppress(TritonError):
                self._server.load(self.name)


def _made(file: ModelFile) -> Made:
    if file.link:
        return Link(file.link)
    return Edited(file.content, file.like) if file.like and isinstance(file.content, bytes) else file.content


def _content(files: Mapping[str, ModelFile]) -> dict[str, bytes | Stamp]:
    """Return a value that distinguishes `files` from others; copied files are compared by their stamps.

    Raises FileError for a missing file.
    """
    with refused_files():
        return {
            path: file.content if isinstance(file.content, bytes) else stamp_of(file.content)
            for path, file in files.items()
        }


def pids_of(server: Server, name: str) -> frozenset[int]:
    """Return the process ids of a model's instances; none if it is not loaded."""
    model = server.core.model(name)
    serving = model.latest if model is not None else None
    return frozenset([pid for instance in serving.instances if (pid := instance.pid)] if serving is not None else [])


def _check_syntax(text: str, path: str, *, model: str, version: int, sources: SourceMap) -> None:
    """Raise the ModelLoadError in which loading `text` from `path` would end, with the author's place."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the stub shows them, once
            # no file has this name: Python takes the line for the error from the file, where the last text still is
            compile(text, os.path.join(os.devnull, os.path.basename(path)), "exec", dont_inherit=True)
    except UNPARSABLE as error:
        if isinstance(error, SyntaxError):
            error.filename = path
        message = f"load failed for model '{model}': version {version} is at UNAVAILABLE state: Internal: "
        message += f"{type(error).__name__}: {error};\n"  # rule 2.5.1
        raise ModelLoadError(message, exception=located(_as_remote(error), sources.locate)) from None


def _as_remote(error: Exception) -> RemoteException:
    detail = {}
    if isinstance(error, SyntaxError):
        detail = {
            "msg": error.msg,
            "filename": error.filename,
            "lineno": error.lineno,
            "offset": error.offset,
            "text": error.text,
            "end_lineno": error.end_lineno,
            "end_offset": error.end_offset,
        }
    return RemoteException(type(error).__name__, str(error), detail=detail)
