"""The models a notebook is writing: their files on disk, and the server that runs them.

Every magic, button and public function for writing models is a call of `Workspace`; nothing here needs IPython.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.model_config import ModelConfig, print_pbtxt
from ...core.scratch_directory import ScratchDirectory
from ...core.status import ModelError, TritonError
from .config_options import ConfigOptions
from .config_text import ConfigText
from .draft import CONFIG_FILE, MODEL_FILE, Draft, Files, ModelFile, Source, model_path
from .errors import FileError
from .model_directory import ModelDirectory, Stamp, stamp_of
from .source_map import Segment, SourceMap, located, whole
from .syntax import check_syntax

if TYPE_CHECKING:
    from ...frontends.endpoints import Endpoints
    from ...ipc.stub_log import LogRecord
    from ...server.api.model import Model
    from ...server.api.server import Server
    from ...server.observe.chrome_trace import ChromeTrace
    from .cells import CellBody


#: Seconds that a cell waits for a model that ends.
UNLOAD_SECONDS = 10.0


@dataclass(frozen=True)
class LoadReport:
    """How the last load of a model went: what its card shows.

    `seconds`: from the call to READY, or to the failure. `log`: what the model printed and logged meanwhile.
    `ready_at`: when the version that serves now became ready, wall clock seconds, 0 if none does. `error`: why the last
    load failed.
    """

    name: str
    seconds: float
    log: tuple[LogRecord, ...]
    ready_at: float
    error: BaseException | None = None
    #: the processes that ran the files as they are on disk now
    pids: frozenset[int] = frozenset()


class Workspace:
    """The notebook's models: one draft and one directory of `repository` each, served by `server`.

    Guarantees: a load that fails leaves the files of the last good one on disk, as the server leaves its version
    serving (rule 2.5.8). One lock: loads run one after the other, from any thread.
    """

    def __init__(self, server: Server, repository: Path) -> None:
        self.server = server
        server.check_outputs()
        self.repository = repository
        self.sources = SourceMap()
        #: the author's traceback of an error as plain text; set by whoever can show cells
        self.describe_error: Callable[[BaseException], str] = lambda error: ""
        #: the open ports of the server, while there are any
        self.endpoints: Endpoints | None = None
        #: what `%triton trace` collects, while it does
        self.tracing: ChromeTrace | None = None
        self._lock = threading.RLock()  # guards everything below and the directories
        self._reports: dict[str, LoadReport] = {}
        self._drafts: dict[str, Draft] = {}
        #: what each model's directory held when it was loaded last
        self._loaded: dict[str, dict[str, bytes | Stamp]] = {}
        self._directories: dict[str, ModelDirectory] = {}
        self._spare = ScratchDirectory(f"{repository.name}.", repository.parent)

    def load(
        self,
        name: str,
        source: Source | None = None,
        *,
        config: str | Mapping[str, Any] | PathLike[str] | None = None,
        files: Files | None = None,
        version: int | None = None,
        options: ConfigOptions | None = None,
        body: CellBody | None = None,
        if_changed: bool = False,
    ) -> Model:
        """Writes the model, loads it, and returns it READY.

        source: the text of model.py, a class, or a path to a model.py or to a model directory; None loads again what is
        there. config: config.pbtxt as text or path, or its JSON form as a dict. files: what else lies beside model.py,
        paths to copy or a dict of name -> bytes or path. options: None keeps those of the last load if `source` is
        None. body: the cell `source` is from. if_changed: a model that serves just this is not loaded again.

        Raises ModelLoadError, ConfigError, NotebookError or OSError; whatever served before still does.
        """
        started = time.perf_counter()
        with self._lock:
            draft = self._drafts.get(name, Draft())
            if version is not None:
                draft = draft.with_version(version)
            if source is not None:
                draft = draft.with_source(source, body.origin if body else "", body.offset if body else 0)
            if options is not None:
                draft = replace(draft, options=options)
            if config is not None:
                draft = draft.with_config(config)
            if files is not None:
                draft = draft.with_files(files)
            self._drafts[name] = draft
            if if_changed and self._serves(name, draft):
                self._map_lines(name, draft)  # the cells may have run again, under other numbers
                return self.server.model(name)
            return self._load(name, draft, started)

    def write_file(self, name: str, path: str, content: bytes | str, *, body: CellBody | None = None) -> str:
        """Adds a helper file to the model, used from the next load on. Returns its path in the model directory.

        `path` is relative to the version directory, where `import` finds it (rule 2.1.5). Raises FileError.
        """
        data = content.encode() if isinstance(content, str) else content
        segments = whole(data.decode(), body.origin, body.offset) if body is not None else ()
        with self._lock:
            draft = self._drafts.get(name, Draft())
            relative = model_path(path, draft.version)
            if relative == draft.model_path:
                raise FileError(f"{MODEL_FILE} is what %%triton_model {name} writes; a helper file needs another name")
            self._drafts[name] = replace(draft, beside={**draft.beside, path: ModelFile(data, segments)})
        return relative

    def write_config(self, name: str, text: str, *, body: CellBody | None = None) -> ModelConfig:
        """Makes `text` the model's config from the next load on; an empty one takes the former back.

        Raises ConfigTextError with line and column; then the former text stays.
        """
        said = ConfigText(text, body.label, body.offset) if body is not None else ConfigText(text)
        config = said.parse(name)
        with self._lock:
            self._drafts[name] = replace(self._drafts.get(name, Draft()), cell_config=said)
        return config

    def draft(self, name: str) -> Draft:
        """What the notebook has said about the model so far."""
        with self._lock:
            return self._drafts.get(name, Draft())

    def report(self, name: str) -> LoadReport | None:
        """How the model's last load went; None for one this workspace never loaded."""
        with self._lock:
            return self._reports.get(name)

    def is_current(self, record: LogRecord) -> bool:
        """Whether the process that wrote the line runs the model's files as they are now, so that `sources` knows its
        lines."""
        report = self.report(record.model)
        known = report.pids if report is not None else frozenset()
        return record.pid in known or record.pid in _pids(self.server, record.model)

    def output_warnings(self, name: str) -> list[str]:
        """What was found of the outputs of the version that serves, each once: Triton would pass it on unsaid."""
        report = self.report(name)
        since = report.ready_at * 1e9 if report is not None else 0.0
        found = [
            record.text
            for record in self.server.logs(name)
            if record.unchecked and (self.is_current(record) if record.pid else record.time_ns >= since)
        ]
        return list(dict.fromkeys(found))

    def unload(self, name: str, *, unload_dependents: bool = False, timeout: float | None = UNLOAD_SECONDS) -> None:
        """Unloads the model, and the ensembles that contain it, and waits until it is gone. Its files and its draft
        stay: it can be loaded again.

        `unload_dependents`: of an ensemble, also the models loaded for it alone. `timeout`: seconds it may take; then,
        or at an interrupt, its requests fail and its processes are killed."""
        try:
            self.server.unload(name, unload_dependents, timeout=timeout)
        finally:  # an interrupted wait has ended it, too
            with self._lock:
                if name in self._reports:
                    self._reports[name] = replace(self._reports[name], ready_at=0.0, error=None)

    def serve(self, arguments: Sequence[str] = (), **options: Any) -> Endpoints:
        """Opens the server's endpoints, in the place of those that are open; without any argument those may stay.

        `arguments`: flags of `%triton serve`. `options`: fields of `EndpointOptions` and `AccessRules`. Raises
        OptionError, or TritonError for a port that cannot be opened.
        """
        from . import serving

        with self._lock:
            if self.endpoints is None or arguments or options:
                self.stop_serving()
                self.endpoints = serving.open_endpoints(self.server, arguments, **options)
            return self.endpoints

    def serving_flags(self) -> list[str]:
        """The flags that `serve` takes."""
        from . import serving

        return serving.flags()

    def stop_serving(self) -> None:
        """Closes the endpoints; models stay loaded."""
        with self._lock:
            if self.endpoints is not None:
                self.endpoints.stop()
                self.endpoints = None

    def close(self) -> None:
        """Closes the endpoints and removes what it keeps beside the repository. Models keep serving; nothing can be
        loaded any more."""
        self.stop_serving()
        if self.tracing is not None:
            self.tracing.stop()
        self._spare.remove()

    def names(self) -> list[str]:
        """The models this notebook has written and those the server knows, in alphabetical order."""
        with self._lock:
            written = set(self._drafts)
        return sorted(written | {name for name, _ in self.server.models()})

    def _serves(self, name: str, draft: Draft) -> bool:
        """Whether the last load of the model was good, of exactly this, and still serves."""
        report = self._reports.get(name)
        if report is None or report.error is not None or not self.server.model(name).ready():
            return False
        return self._loaded.get(name) == _content(name, draft)

    def _map_lines(self, name: str, draft: Draft) -> dict[str, tuple[Segment, ...]]:
        """Makes the lines of the model's files known by the cells of `draft`. Returns what was known before."""
        path = self._directory(name).path
        return self.sources.replace(
            str(path), {str(path / relative): file.segments for relative, file in draft.tree().items()}
        )

    def _load(self, name: str, draft: Draft, started: float) -> Model:
        if not draft.loadable(name):
            raise FileError(f"there is no {MODEL_FILE} for {name!r} yet: run a %%triton_model {name} cell first")
        config_text = _config_to_write(name, draft)
        content = _content(name, draft)
        directory = self._directory(name)
        before = self._reports.get(name)
        ready_at = before.ready_at if before is not None else 0.0
        tree = draft.tree()
        known = self._map_lines(name, draft)
        since, error = _Since(self.server, name), None
        try:
            # another interpreter may know a syntax this one does not
            foreign = "EXECUTION_ENV_PATH" in config_text or "triton_python_backend_stub" in tree
            if draft.source is not None and not foreign:
                path = str(directory.path / draft.model_path)
                check_syntax(draft.source.text(), path, model=name, version=draft.version, sources=self.sources)
            directory.replace({**tree, CONFIG_FILE: ModelFile(config_text.encode())}, draft.version)
            model = self.server.load(name)
        except BaseException as failure:
            error = failure
            if isinstance(failure, ModelError) and failure.exception is not None:
                failure.exception = located(failure.exception, self.sources.locate)
            if ready_at:
                directory.restore()
                self.sources.replace(str(directory.path), known)
                if draft.source is None and not self.server.model(name).ready():
                    # an ensemble that no longer fits its models is taken down, as by Triton (rule 5.7.3)
                    with contextlib.suppress(TritonError):
                        self.server.load(name)
            raise
        else:
            ready_at = time.time()
            self._loaded[name] = content
            return model
        finally:
            directory.forget()
            log = since.printed()
            pids = before.pids if error is not None and before is not None and ready_at else since.pids(log)
            self._reports[name] = LoadReport(name, time.perf_counter() - started, log, ready_at, error, pids)

    def _directory(self, name: str) -> ModelDirectory:
        if name not in self._directories:
            self._directories[name] = ModelDirectory(self.repository / name, self._spare.path)
        return self._directories[name]


class _Since:
    """What processes of the model that start from now on print and log. Those that serve already may print, too."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._name = name
        self._begin = time.time_ns()
        self._before = _pids(server, name)

    def printed(self) -> tuple[LogRecord, ...]:
        return tuple(
            record
            for record in self._server.logs(self._name)
            if record.time_ns >= self._begin and record.stream != "server" and record.pid not in self._before
        )

    def pids(self, printed: tuple[LogRecord, ...]) -> frozenset[int]:
        """The processes that wrote `printed` and those that serve now."""
        return frozenset(record.pid for record in printed) | _pids(self._server, self._name)


def _pids(server: Server, name: str) -> frozenset[int]:
    """The processes of a model's instances; none if it is not loaded."""
    try:
        return frozenset(instance["pid"] for instance in server.model(name).instances())
    except TritonError:
        return frozenset()


def _content(name: str, draft: Draft) -> dict[str, bytes | Stamp]:
    """What the model's directory holds, files that are copied as their stamps. Raises OSError for one that is gone."""
    files = {**draft.tree(), CONFIG_FILE: ModelFile(_config_to_write(name, draft).encode())}
    return {
        path: file.content if isinstance(file.content, bytes) else stamp_of(file.content)
        for path, file in files.items()
    }


def _config_to_write(name: str, draft: Draft) -> str:
    """The text of config.pbtxt: as its author wrote it, where name, backend and options add nothing."""
    config = draft.options.apply(draft.config, name)
    config.name = config.name or name
    if not config.platform:
        config.backend = config.backend or "python"
    return draft.config.text if config == draft.config.parse(name) else print_pbtxt(config)
