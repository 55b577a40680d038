"""The models that a notebook is writing: their files on disk, and the server that runs them.

Every magic, button and public function for writing models is a call of `Workspace`; nothing here needs IPython.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
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
    from ...tools.measure.tuning.settings import Settings
    from .cells import CellBody


class NoShell:
    """Where a workspace is used: here in a program without cells, in a notebook in a shell (`NotebookShell`)."""

    def describe_error(self, error: BaseException) -> str:
        """Return the author's traceback of an error as plain text; "" if it is not the author's."""
        return ""

    def explain(self, error: Explained) -> Explanation:
        """Return the line of a cell that an error is about, advice, and the page about it."""
        return Explanation()

    def cite(self, text: str) -> str:
        """Return a text that names lines of models' files with the lines of cells in their place."""
        return text

    def cite_for(self, record: LogRecord) -> Callable[[str], str]:
        """Return what does as `cite` for the version that wrote a line of the log."""
        return str

    def running_cell(self) -> str:
        """Return the cell that runs in the calling thread, "In[3]"; "" if none does."""
        return ""

    def follow(self, workspace: Workspace) -> None:
        """Show what happens to the models of this workspace from now on, and of no other."""


class Workspace:
    """The notebook's models: one draft and one directory of `repository` each, served by `server`.

    One lock makes loads run one after the other, from any thread.
    """

    def __init__(self, server: Server, repository: Path, shell: NoShell | None = None) -> None:
        """shell: where the workspace is used, by default in a program without cells."""
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
        #: what `%triton trace` collects, while it does
        self.tracing: ChromeTrace | None = None
        self._lock = threading.RLock()  # guards everything below and the directories
        self._models: dict[str, WrittenModel] = {}
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
        """Write the model, load it, and return it READY.

        source: the text of model.py, a class, or a path to a model.py or to a model directory; None loads again what is
        there. config: config.pbtxt as text or path, or its JSON form as a dict. files: what else lies beside model.py,
        paths to copy or a dict of name -> bytes or path. options: None keeps those of the last load if `source` is
        None. body: the cell `source` is from. if_changed: a model that serves just this is not loaded again. capture:
        the variables of the notebook; what of them the source uses and does not define is written in front of it. base:
        a model directory whose files count where neither the source nor cells write one; they are not copied. sample: a
        request, which gives the config the inputs that it has and the outputs that it is answered with.

        Raises ModelLoadError, ConfigError, NotebookError or OSError; a version that served before goes on serving then.
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

        def load(found: ConfigOptions, behind: str) -> Model:
            return self._serve(replace(draft, options=found).with_more(behind), time.perf_counter(), cell)

        return load_by_sample(sample, draft.options, draft.config.message, load)

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
        """Load the model with other batching and instances, None those of its config. They count until its source or
        config is written again; no cell's text changes. Raises what `load` does, and then nothing has changed."""
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

    def stop_loading(self, name: str) -> None:
        """End a load that goes on: it raises KeyboardInterrupt in the main thread, as an interrupt of the cell does,
        and ModelLoadError elsewhere. This call does not wait for that.
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
        self, name: str, text: str, *, body: CellBody | None = None, base: str | PathLike[str] | None = None
    ) -> ModelConfig:
        """Make `text` the model's config from the next load on; an empty one brings the former config back. `base`: the
        model directory of a model without a source of its own, such as an ensemble; as in `load`.

        Raises ConfigTextError with line and column, FileError; then the former text stays.
        """
        parsed = ConfigText(text, model=name)
        if body is not None:
            parsed = replace(parsed, source=body.label, offset=body.offset)
        config = parsed.message
        with self._lock:
            written = self._written(name)
            draft = written.draft if written.draft.source is not None else written.draft.without_base()
            written.draft = (draft if base is None else draft.with_base(base)).with_cell_config(parsed)
        return config

    def awaits_source(self, name: str, written: str) -> bool:
        """Return whether a load that failed is for the cell of the model's source to judge, not for the one that has
        just written `written`, which is config.pbtxt or the path of a file.
        """
        model = self._models.get(name)
        return model is not None and model.awaits_source(written)

    # Views call the next five while a load holds the lock, and they need none: what they read is replaced whole.

    def draft(self, name: str) -> Draft:
        """Return what the notebook has written of the model so far."""
        written = self._models.get(name)
        return written.draft if written is not None else Draft(name)

    def report(self, name: str) -> LoadReport | None:
        """Return the model's last load; None for a model that this workspace never loaded."""
        written = self._models.get(name)
        return written.report if written is not None else None

    def written(self, name: str) -> tuple[Settings | None, Callable[[Settings | None], object]] | None:
        """Return the settings that the model was loaded with besides its config, and what loads it with others; None
        for a model that this workspace never loaded."""
        if self.report(name) is None:
            return None
        return self.draft(name).settings, partial(self.tune, name)

    def loading(self, name: str) -> LoadProgress | None:
        """Return the load that goes on, if one does."""
        written = self._models.get(name)
        return written.progress if written is not None else None

    def names(self) -> list[str]:
        """Return the models that this notebook has written and those that the server knows, in alphabetical order,
        numbers in theirs."""
        return sorted({*list(self._models), *(name for name, _ in self.server.models())}, key=by_number)

    def is_current(self, record: LogRecord) -> bool:
        """Return whether the process that wrote the line runs the model's files as they are now, so that `sources`
        knows its lines.
        """
        report = self.report(record.model)
        known = report.pids if report is not None else frozenset()
        return record.pid in known or record.pid in pids_of(self.server, record.model)

    def unchecked_warnings(self, name: str) -> list[str]:
        """Return the warnings about the version that serves of what Triton does not notice, each once: its outputs,
        and the devices that its instances use.
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

        `unload_dependents`: with an ensemble, also unload the models loaded for it alone. `timeout`: the seconds it may
        take; then, or at an interrupt, its requests fail and its processes are killed. `wait=False`: return at once,
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
        """Drop what was written of a model, and its directory; a repository may have another of this name. What serves
        goes on until that is loaded."""
        with self._lock:
            written = self._models.pop(name, None)
            if written is not None:
                written.remove()
            self.server.core.repository.write_over(name, None)
        self.changed(name)

    def close(self) -> None:
        """Close the ports and remove what the workspace keeps beside the repository. Models keep serving, but nothing
        can be loaded any more.
        """
        self.ports.close()
        for opened in list(self.repositories.values()):
            opened.close(unload=False)
        if self.tracing is not None:
            self.tracing.stop()
        self._spare.remove()

    def _written(self, name: str, has_stub: bool = False) -> WrittenModel:
        """Return the model, a new one if nothing was written of it yet. Raises OptionError for a name that no model can
        have, or no model of the Python backend."""
        if fault := name_fault(name, has_stub):
            raise OptionError(f"{name!r} cannot be the name of a model: it {fault}; {ADVICE}", fix=ADVICE, field=name)
        if name not in self._models:
            directory = ModelDirectory(self.repository / name, self._spare.path)
            self._models[name] = WrittenModel(name, self.server, directory, self.sources)
        return self._models[name]
