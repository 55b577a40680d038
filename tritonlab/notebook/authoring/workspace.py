"""The models that a notebook is writing: their files on disk, and the server that runs them.

Every magic, button and public function for writing models is a call of `Workspace`; nothing here needs IPython.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.config.model_config import ModelConfig
from ...core.explained import Explained, Explanation
from ...core.plain_facts import by_number
from ...core.quoting import magic_line
from ...core.scratch_directory import ScratchDirectory
from ...repository.model_directory import ModelDirectory
from ...repository.model_names import ADVICE, name_fault
from ...server.api.server import UNLOAD_SECONDS, Server
from .config_options import ConfigOptions
from .config_text import ConfigText
from .draft import Draft, Files, Source, model_path
from .errors import FileError, OptionError
from .notebook_ports import NotebookPorts
from .sample_config import load_by_sample
from .source_map import ModelFile, SourceMap, whole
from .written_model import LoadProgress, LoadReport, WrittenModel, pids_of

if TYPE_CHECKING:
    from ...ipc.processes.stub_log import LogRecord
    from ...server.api.model import Model
    from ...server.observe.chrome_trace import ChromeTrace
    from .cells import CellBody
    from .model_watch import ModelWatch
    from .settings import Settings


class NoShell:
    """The place where a workspace is used: this class for a program without cells, `NotebookShell` for a notebook."""

    def describe_error(self, error: BaseException) -> str:
        """Return the author's traceback of an error as plain text; "" if it is not the author's."""
        return ""

    def explain(self, error: Explained) -> Explanation:
        """Return the line of the cell for an error, advice, and the page about it."""
        return Explanation()

    def cite(self, text: str) -> str:
        """Return a text with lines of cells in the place of lines of models' files."""
        return text

    def cite_for(self, record: LogRecord) -> Callable[[str], str]:
        """Return a function like `cite` for the version that wrote a line of the log."""
        return str

    def running_cell(self) -> str:
        """Return the cell that runs in the calling thread, "In[3]"; "" without a cell."""
        return ""

    def follow(self, workspace: Workspace) -> None:
        """Show the events of this workspace's models from now on, and of no others."""


class Workspace:
    """The notebook's models: one draft and one directory of `repository` each, served by `server`.

    One lock makes loads run one after the other, from any thread.
    """

    def __init__(self, server: Server, repository: Path, shell: NoShell | None = None) -> None:
        """shell: the place where the workspace is used, by default a program without cells."""
        self.server = server
        server.check_outputs()
        server.check_placement()
        server.check_prints()
        self.repository = repository
        self.sources = SourceMap()
        #: called after a load or an unload of a model, also a failed one; set where models are shown
        self.changed: Callable[[str], None] = lambda name: None
        self.ports = NotebookPorts(server)
        #: each `OpenedRepository` by its path
        self.repositories: dict[Path, Any] = {}
        #: the collector of `%triton trace`, while it runs
        self.tracing: ChromeTrace | None = None
        #: the models whose settings a tuning is changing
        self.tuned: set[str] = set()
        self._lock = threading.RLock()  # guards everything below and the directories
        self._models: dict[str, WrittenModel] = {}
        self._watch: ModelWatch | None = None
        self._spare = ScratchDirectory(f"{repository.name}.", repository.parent)
        self.shell = NoShell()
        if shell is not None:
            self.show_in(shell)

    def show_in(self, shell: NoShell) -> None:
        """Use the workspace in this shell from now on."""
        self.shell = shell
        shell.follow(self)

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
        capture: Mapping[str, Any] | None = None,
        base: str | PathLike[str] | None = None,
        sample: Mapping[str, Any] | None = None,
    ) -> Model:
        """Write the model, load it, and return it READY. `tritonlab.load` documents the other arguments.

        Args:
            options: None keeps the options of the last load if `source` is None.
            body: the cell of `source`.
            if_changed: whether to keep a model that already serves exactly this.
            capture: the variables of the notebook; those that the source uses and does not define are written before
                it.

        Raises ModelLoadError, ConfigError, NotebookError or OSError; then a version that served before goes on
        serving.
        """
        started = time.perf_counter()
        cell = (body.number if body is not None else "") or self.shell.running_cell()
        with self._lock:
            draft = self.draft(name).with_changes(
                source, config=config, files=files, version=version, options=options, body=body, base=base
            )
            draft = draft if capture is None else draft.with_captured(capture)
            if sample is None:
                return self._serve(draft, started, cell, if_changed)
            return self._serve_by_sample(draft, sample, cell)

    def _serve_by_sample(self, draft: Draft, sample: Mapping[str, Any], cell: str) -> Model:
        """Serve the draft with the tensors of a sample in its config. If that fails after the model has answered the
        sample, which takes a load of its own, load the former draft again."""
        name, probed = draft.name, False
        former = self.draft(name) if self.server.model(name).ready() else None

        def load(options: ConfigOptions, behind: str) -> Model:
            nonlocal probed
            model = self._serve(replace(draft, options=options).with_more(behind), time.perf_counter(), cell)
            probed = True
            return model

        try:
            return load_by_sample(sample, draft.options, draft.config.message, load)
        except BaseException:
            if probed and not (former is not None and self._is_served_again(former, cell)):
                self.unload(name, wait=False)
            if name in self._models:
                self._models[name].draft = draft
            raise

    def _is_served_again(self, former: Draft, cell: str) -> bool:
        try:
            return self._serve(former, time.perf_counter(), cell).ready()
        except Exception:  # its files may have changed; the error of the present load is raised
            return False

    def load_from_disk(self, name: str) -> Model:
        """Load the model again, with its source and helper files as they are on disk now. Raises as `load`."""
        with self._lock:
            return self._serve(self.draft(name).read_again(), time.perf_counter(), "")

    def watch(self) -> ModelWatch:
        """Return the watch over files of models on disk, which is made at the first call."""
        with self._lock:
            if self._watch is None:
                from .model_watch import ModelWatch

                self._watch = ModelWatch(self.draft, self.load_from_disk)
            return self._watch

    def _serve(self, draft: Draft, started: float, cell: str, if_changed: bool = False) -> Model:
        """Write the draft and serve it. `started`: when the load was requested, and `cell`: by which."""
        name = draft.name
        with self._lock:
            if not draft.loadable:  # nothing is remembered: a misspelt name would be listed as a model
                fix = f"run a {magic_line('%%triton_model', name)} cell first"
                raise FileError(f"there is no {draft.model_file} for {name!r} yet: {fix}", fix=fix)
            written = self._written(name, has_stub=draft.source is not None)
            written.draft = draft
            self.server.core.repository.write_over(name, draft.base.path if draft.base is not None else None)
            if if_changed and written.serves_draft():
                written.map_lines_again()
                return self.server.model(name)
            try:
                return written.load(started, cell)
            except Exception as error:
                if isinstance(error, Explained):
                    error.explained_by = self.shell.explain
                raise
            finally:
                self.changed(name)

    def tune(self, name: str, settings: Settings | None) -> Model:
        """Load the model with other batching and instances; None keeps its config's. They count until its source or
        config is written again; no cell's text changes. Raises the errors of `load`, and then nothing has changed."""
        with self._lock:
            written = self._written(name)
            before = written.seconds_to_ready
            former, written.draft = written.draft, replace(written.draft, settings=settings)
            try:
                model = self.load(name)
                written.keep_seconds(before)
                return model
            except BaseException:
                written.draft = former
                raise

    @contextmanager
    def mark_tuned(self, name: str) -> Iterator[None]:
        """Show on the cards of the model, within the context, that a tuning changes its settings."""
        self.tuned.add(name)
        self.changed(name)
        try:
            yield
        finally:
            self.tuned.discard(name)
            self.changed(name)

    def stop_loading(self, name: str) -> None:
        """End a running load: it raises KeyboardInterrupt in the main thread, as an interrupt of the cell does, and
        ModelLoadError elsewhere. This call does not wait for its end.
        """
        progress, main = self.loading(name), threading.main_thread()
        if progress is None or progress.thread is not main or main.ident is None:
            self.server.stop_loading(name)
        else:  # to the thread: another may take a signal to the process, and the main thread would sleep on
            signal.pthread_kill(main.ident, signal.SIGINT)

    def write_file(self, name: str, path: str, content: bytes | str, *, body: CellBody | None = None) -> str:
        """Add a helper file to the model, used from the next load on. Returns its path in the model directory.

        `path` is relative to the version directory, where `import` finds it (rule 2.1.5). Raises FileError.
        """
        data = content.encode() if isinstance(content, str) else content
        segments = whole(data.decode(), body.origin, body.offset) if body is not None else ()
        with self._lock:
            draft = self.draft(name)
            relative = model_path(path, draft.version)
            if relative == draft.model_path:
                raise FileError(
                    f"{draft.model_file} is what {magic_line('%%triton_model', name)} writes; a helper file needs "
                    "another name"
                )
            self._written(name).draft = draft.with_file(path, ModelFile(data, segments))
        return relative

    def write_config(
        self,
        name: str,
        text: str,
        *,
        body: CellBody | None = None,
        base: str | PathLike[str] | None = None,
        files: Files | None = None,
    ) -> ModelConfig:
        """Make `text` the model's config from the next load on; an empty text restores the former config. `base`: the
        model directory of a model without a source of its own, such as an ensemble; `files`: files of the version
        directory, which the next config replaces; both as in `load`.

        Raises ConfigTextError with line and column, FileError; then the former text is kept.
        """
        parsed = ConfigText(text, model=name)
        if body is not None:
            parsed = replace(parsed, source=body.label, offset=body.offset)
        config = parsed.message
        with self._lock:
            written = self._written(name)
            draft = written.draft if written.draft.source is not None else written.draft.without_base()
            draft = draft if base is None else draft.with_base(base)
            written.draft = draft.with_cell_config(parsed, files or ())
        return config

    def awaits_source(self, name: str, written: str) -> bool:
        """Return whether a failed load belongs to the cell of the model's source, and not to the cell that has just
        written `written`, config.pbtxt or the path of a file.
        """
        model = self._models.get(name)
        return model is not None and model.awaits_source(written)

    # Views call the next five methods while a load holds the lock. They need no lock: the data that they read is
    # replaced as a whole.

    def draft(self, name: str) -> Draft:
        """Return the model's content that the notebook has written so far."""
        written = self._models.get(name)
        return written.draft if written is not None else Draft(name)

    def report(self, name: str) -> LoadReport | None:
        """Return the model's last load; None for a model that this workspace has never loaded."""
        written = self._models.get(name)
        return written.report if written is not None else None

    def written(self, name: str) -> tuple[Settings | None, Callable[[Settings | None], object]] | None:
        """Return the settings with which the model was loaded besides its config, and the function that loads it with
        others; None for a model that this workspace has never loaded."""
        if self.report(name) is None:
            return None
        return self.draft(name).settings, partial(self.tune, name)

    def loading(self, name: str) -> LoadProgress | None:
        """Return the running load, if there is one."""
        written = self._models.get(name)
        return written.progress if written is not None else None

    def names(self) -> list[str]:
        """Return the models that this notebook has written or the server has, sorted by name, numbers as numbers."""
        return sorted({*list(self._models), *(name for name, _ in self.server.models())}, key=by_number)

    def is_current(self, record: LogRecord) -> bool:
        """Return whether the process that wrote the line runs the current files, so that `sources` has its lines."""
        report = self.report(record.model)
        known = report.pids if report is not None else frozenset()
        return record.pid in known or record.pid in pids_of(self.server, record.model)

    def unchecked_warnings(self, name: str) -> list[str]:
        """Return the warnings about the serving version that Triton does not give, each once: about its outputs and the
        devices of its instances.
        """
        found = [record for record in self.server.logs(name) if record.unchecked]
        if not found:
            return []
        report = self.report(name)
        since = report.ready_at * 1e9 if report is not None else 0.0
        current = [each for each in found if (self.is_current(each) if each.pid else each.time_ns >= since)]
        return list(dict.fromkeys(record.text for record in current))

    def unload(
        self,
        name: str,
        *,
        unload_dependents: bool = False,
        timeout: float | None = UNLOAD_SECONDS,
        wait: bool = True,
    ) -> None:
        """Unload the model, and the ensembles that contain it, and wait until it is gone. Its files and its draft
        stay, so it can be loaded again.

        `unload_dependents`: with an ensemble, also unload the models loaded only for it. `timeout`: the seconds for
        this; then, or at an interrupt, its requests fail and its processes are killed. `wait=False`: return at once,
        while it ends in the background.
        """
        try:
            self.server.unload(name, unload_dependents, wait=wait, timeout=timeout)
        finally:  # an interrupted wait has ended it, too
            with self._lock:
                written = self._models.get(name)
                if written is not None and written.report is not None:
                    written.report = replace(written.report, ready_at=0.0, error=None)
            self.changed(name)

    def forget(self, name: str) -> None:
        """Drop a model's written content and its directory; a repository may have another model of this name. The
        serving version goes on until that model is loaded."""
        with self._lock:
            written = self._models.pop(name, None)
            if written is not None:
                written.remove()
            self.server.core.repository.write_over(name, None)
        self.changed(name)

    def close(self) -> None:
        """Close the ports and remove the workspace's files next to the repository. Models keep serving, but no model
        can be loaded any more.
        """
        self.ports.close()
        for opened in list(self.repositories.values()):
            opened.close(unload=False)
        if self.tracing is not None:
            self.tracing.stop()
        if self._watch is not None:
            self._watch.close()
        self._spare.remove()

    def _written(self, name: str, has_stub: bool = False) -> WrittenModel:
        """Return the model, a new one if it was never written. Raises OptionError for a name that a model, or a model
        of the Python backend, cannot have."""
        if fault := name_fault(name, has_stub):
            raise OptionError(f"{name!r} cannot be the name of a model: it {fault}; {ADVICE}", fix=ADVICE, field=name)
        if name not in self._models:
            directory = ModelDirectory(self.repository / name, self._spare.path)
            self._models[name] = WrittenModel(name, self.server, directory, self.sources)
        return self._models[name]
