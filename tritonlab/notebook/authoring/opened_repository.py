"""An opened repository, served in place. A cell's model of the same name takes precedence."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ...core.clock import SystemClock
from ...core.plain_facts import by_number
from ...core.quoting import magic_line
from ...core.status import ModelLoadError, NotFoundError, TritonError
from ...engine.schedulers.timer import Timer
from ...figures.tables import text_table
from ...repository.layout import fingerprint, is_model_directory
from ...repository.loose_models import arrange, find_loose_models
from ...repository.model_repository_manager import ModelRepositoryManager
from ...repository.place import make_repository, removed_at_error, repository_path
from ...server.models.backend_choice import choice_words
from ...server.models.backends import answer_words
from ...server.models.repository_poller import RepositoryPoller
from ...server.models.startup_models import load_models
from ...server.observe.why import failed_load
from ...tool_table import tool_function
from .base_directory import BaseDirectory, models_in_order
from .errors import FileError
from .model_cells import imported_cells

if TYPE_CHECKING:
    from ...server.api.model import Model
    from ...tools.deploy.report import RepositoryReport
    from .workspace import Workspace

#: Seconds between two checks of the files, and the share of the time that checks may take.
_POLL_SECONDS = 1.0
_SHARE = 0.02


@dataclass(frozen=True)
class OpenedFacts:
    """The facts about one model of an opened repository.

    `kind`: `Python`, `ensemble`, or `backend NAME`; "" if its config cannot be read. `state`: READY, LOADING, WAITING
    (others load first), UNLOADED, FAILED, NOT LOADED, NOT SERVED (another model of the name is served), CLOSED or NOT
    OPENED (only other models were requested). `in_cells`: whether cells of the notebook write it now. `reason`: why it
    does not serve; `advice`: what to do.
    """

    name: str
    kind: str
    state: str
    version: str = ""
    in_cells: bool = False
    #: in plain words, the program that answers for a model of another backend than Python's
    answers: str = ""
    reason: str = ""
    advice: str = ""
    #: whether the user has to choose the program that answers: the backend is missing, or a substitute answers
    to_choose: bool = False

    def lines(self) -> list[str]:
        """Return the lines below its row."""
        fix = f"Fix: {self.advice}" if self.advice else ""
        return [line for line in (self.answers, self.reason, fix) if line]


class NoModel(NotFoundError, KeyError):
    """A name that no model of a repository has."""

    def __init__(self, name: str, repository: Path, known: Sequence[str]) -> None:
        super().__init__(f"there is no model '{name}' in {repository}: {', '.join(known) or 'it has none'}")


class OpenedModel:
    """One model of an opened repository, identified by its directory."""

    def __init__(self, repository: OpenedRepository, name: str) -> None:
        self.name = name
        self._repository = repository
        self._workspace = repository.workspace

    @property
    def directory(self) -> Path:
        """Its directory in the repository."""
        return self._repository.path / self.name

    @property
    def model(self) -> Model:
        """The handle on the model that serves with this name."""
        return self._workspace.server.model(self.name)

    @property
    def in_cells(self) -> bool:
        """Whether cells of the notebook write it now."""
        base = self._workspace.draft(self.name).base
        return base is not None and base.path == self.directory

    def to_cells(self, version: int | None = None) -> list[str]:
        """Return the texts of cells that write the model: its config, helper files, and last the cell that loads it.
        Other files stay in place and are used from there.

        version: the version whose files are shown, by default the newest that is served. Raises FileError for a model
        that no cell can hold.
        """
        return imported_cells(self.name, BaseDirectory.read(self.directory), version=version)

    def load(self) -> Model:
        """Serve the model as it is in the repository, and forget the content of cells that replaced it. Raises
        ModelLoadError; then the version that served goes on."""
        return self._repository.take_back(self.name)

    def choose(self, backend: str | Mapping[str, Any]) -> Model:
        """Serve the model with this choice of a backend, as `tritonlab.reset(backends={NAME: backend})` does, while the
        server and its other models go on. The choice ends with the server.

        backend: `"real"`, `"stand-in"`, `"recorded"`, `"borrow:HOST:8001"`, or a mapping with their fields. Raises
        InvalidArgumentError for any other value, and ModelLoadError.
        """
        self._workspace.server.core.choose_backend(self.name, backend)
        return self.load()

    def facts(self) -> OpenedFacts:
        """Return the facts about the model: its kind, its state, and what to do if it does not serve."""
        return self._repository.facts_of(self.name)

    def __repr__(self) -> str:
        return text_of([self.facts()])


class OpenedRepository(Mapping[str, OpenedModel]):
    """The models of the directory `path`, by their names.

    Guarantees: a model that cannot be loaded does not stop the others; a model whose files change is soon loaded
    again.
    """

    def __init__(self, workspace: Workspace, path: Path) -> None:
        self.workspace = workspace
        self.path = path
        self._names: list[str] | None = None
        self._repository = ModelRepositoryManager([path])
        self._clock = SystemClock()
        self._timer = Timer(self._clock)
        self._lock = threading.Lock()  # guards the two below
        self._closed = False
        self._poller: RepositoryPoller | None = None
        #: whether models are loaded that were not loaded before
        self._is_loading = False
        workspace.server.core.register_model_repository(path, behind=True)
        workspace.repositories[path] = self

    @classmethod
    def open(
        cls,
        workspace: Workspace,
        directory: str | PathLike[str],
        names: Sequence[str] | None = None,
        *,
        into: str | PathLike[str] | None = None,
    ) -> Self:
        """Serve the models of a repository in the workspace's server. A repository that is open already is checked
        again. `names`: the only models to serve; None serves all, also later ones. `into`: the repository into which
        models without version directories are copied first; an existing model there is kept.

        Raises FileError for a directory that is not a repository, NotFoundError for a name that is not in it.
        """
        path = repository_in(directory) if into is None else _arranged(directory, into)
        there = ModelRepositoryManager([path]).names()
        for name in names or ():
            if name not in there:
                raise NoModel(name, path, there)
        found = workspace.repositories.get(path)
        opened = found if isinstance(found, cls) else cls(workspace, path)
        opened.refresh(names)
        return opened

    # -- its models

    def __getitem__(self, name: str) -> OpenedModel:
        if name not in self._repository.names():
            raise NoModel(name, self.path, list(self))
        return OpenedModel(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._repository.names(), key=by_number))

    def __len__(self) -> int:
        return len(self._repository.names())

    def in_order(self) -> list[str]:
        """Return the names, each after the models that it needs: an ensemble's steps, and the targets of BLS calls."""
        return models_in_order({name: BaseDirectory.read(self.path / name) for name in self})

    # -- serving

    def refresh(self, names: Sequence[str] | None = None) -> None:
        """Load changed models, and try failed ones again. `names`: the only models to serve from now on, None for all.
        Blocks until every model serves or has failed; an interrupt ends the loads, and serving models go on."""
        self._names = None if names is None else list(names)
        with self._lock:
            first, self._poller = self._poller is None, self._poller or self._new_poller()
            poller = self._poller
        if first:
            poller.start()
        loaded = [name for name in self if self.is_served_from_here(name)]
        self._is_loading, core = True, self.workspace.server.core
        try:
            load_models(core.control, loaded, core.options.model_load_thread_count)
        finally:
            self._is_loading = False
            for name in loaded:
                self.workspace.changed(name)

    def _new_poller(self) -> RepositoryPoller:
        began = time.perf_counter()
        for paths in self._repository.directories().values():
            for path in paths:
                fingerprint(path)
        pause = max(_POLL_SECONDS, (time.perf_counter() - began) / _SHARE)
        return RepositoryPoller(self._repository, self, self._clock, self._timer, seconds=pause)

    def load_model(self, name: str) -> None:
        """Load a model whose files have changed. Called by the poll."""
        server = self.workspace.server
        state, reason = server.model(name).state, server.model(name).reason
        if self._closed or not self.is_served_from_here(name) or (state, reason) == ("UNAVAILABLE", "unloaded"):
            return
        try:
            server.load(name)
        finally:
            self.workspace.changed(name)

    def unload_model(self, name: str) -> None:
        """Unload a model whose directory is gone. Called by the poll."""
        if not self._closed and not self._is_elsewhere(name):
            self.workspace.unload(name, wait=False)

    def is_served_from_here(self, name: str) -> bool:
        """Return whether the server loads the repository's model under this name."""
        is_named = self._names is None or name in self._names
        return is_named and self._directory(name) == self.path / name

    def _directory(self, name: str) -> Path | None:
        """Return the directory from which the server loads a model of this name."""
        places = self.workspace.server.core.repository.directories().get(name, [])
        return places[0] if places else None

    def _is_elsewhere(self, name: str) -> bool:
        return self._directory(name) not in (None, self.path / name)

    def take_back(self, name: str) -> Model:
        """Serve the model as it is here. Raises ModelLoadError, NotFoundError once the repository is closed."""
        if self._closed:
            raise NotFoundError(f"{self.path} is closed: open it again")
        if self._names is not None and name not in self._names:
            self._names.append(name)
        workspace = self.workspace
        if self._is_elsewhere(name):
            workspace.forget(name)
        workspace.server.load(name)
        workspace.changed(name)
        return workspace.server.model(name)

    def close(self, *, unload: bool = True) -> None:
        """Stop serving its models. Models that cells have replaced go on. `unload=False`: the server ends anyway."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._poller is not None:
            self._poller.stop()
        self._timer.close()
        served = [name for name in self.in_order() if self.is_served_from_here(name)] if unload else []
        self.workspace.server.core.unregister_model_repository(self.path)
        self.workspace.repositories.pop(self.path, None)
        for name in reversed(served):
            self.workspace.unload(name, wait=False)
            self.workspace.server.core.control.drop_failed(name)

    # -- results

    def export(self, directory: str | PathLike[str], **options: Any) -> RepositoryReport:
        """Write the whole repository: models of cells as they were loaded last, all others as they are here, loaded or
        not, and the files next to them. Unedited files are equal byte for byte, modes, links and empty directories
        included; `env` adds its parameter to the configs.

        Options are `overwrite`, `include`, `target`, `env`, `deploy`, `verify`, `last`, `dry_run`, `about`, `say` and
        `cancel`, as of `tritonlab.export`. `env` and `deploy` need all models to be served. Raises ExportConflict,
        NoRepository, and UnknownOption for another option.
        """
        write: Callable[..., RepositoryReport] = tool_function("OpenedRepository.export")
        return write(self, directory, **options)

    def facts(self) -> list[OpenedFacts]:
        """Return the facts about each model."""
        found = []
        for name in self:
            with contextlib.suppress(FileError):  # it has just gone
                found.append(self.facts_of(name))
        return found

    def facts_of(self, name: str) -> OpenedFacts:
        base = BaseDirectory.read(self.path / name)
        in_cells = self[name].in_cells
        seen = OpenedFacts(name, base.kind, "", in_cells=in_cells)
        if self._closed:
            return replace(seen, state="CLOSED")
        if not in_cells and self._is_elsewhere(name):
            reason, advice = self._clash(name)
            return replace(seen, state="NOT SERVED", reason=reason, advice=advice)
        if not in_cells and self._names is not None and name not in self._names:
            return replace(seen, state="NOT OPENED")
        return self._served(seen, base)

    def _clash(self, name: str) -> tuple[str, str]:
        """Return why another model of this name serves, and how to serve this one."""
        directory = self._directory(name)
        if directory is not None and directory.parent == self.workspace.repository:
            reason = "a cell of this notebook writes a model of this name, which serves"
            return reason, f"opened[{name!r}].load() serves this one instead, and forgets the cell's"
        where = str(directory.parent) if directory is not None else "another repository"
        reason = f"the model of this name in {where} serves, which was opened before"
        return reason, f"close that one first: tritonlab.open({where!r}).close()"

    def _served(self, seen: OpenedFacts, base: BaseDirectory) -> OpenedFacts:
        server = self.workspace.server
        known = server.core.model(seen.name)
        state, version = server.model(seen.name).state, ""
        reason = advice = ""
        if known is not None and known.versions:
            version = str(max(known.versions))
            config = known.versions[max(known.versions)].config
            seen = replace(seen, answers=answer_words(config), to_choose=bool(choice_words(config)))
        report = self.workspace.report(seen.name)
        failure = report.error if report is not None and report.error is not None else known and known.failure
        if server.core.control.loading(seen.name):
            state = "LOADING"
        elif failure:
            failed = failure if isinstance(failure, TritonError) else ModelLoadError(str(failure))
            reason, advice = self._why(seen.name, failed, serves=bool(version))
            state = state if version else "FAILED"
            seen = replace(seen, to_choose=seen.kind.startswith("backend "))
        elif state == "UNAVAILABLE":
            unloaded = server.model(seen.name).reason == "unloaded"
            state, reason = ("UNLOADED", "") if unloaded else ("FAILED", server.model(seen.name).reason)
        elif state == "UNKNOWN" and self._is_loading:
            state = "WAITING"
        elif state == "UNKNOWN":
            state, advice = "NOT LOADED", "open the repository again"
        return replace(seen, state=state, version=version, reason=reason, advice=advice)

    def _why(self, name: str, failure: TritonError, *, serves: bool) -> tuple[str, str]:
        """Return why a load failed, and what to do."""
        text, _, offer = self.workspace.server.model(name).reason.partition("\n")
        if offer and offer == getattr(failure, "reason", ""):  # of a backend that is missing
            return text.partition(": ")[2], f"{offer} Then open the repository again."
        found = failed_load(name, failure, serves=serves)
        reason = found.text.partition(" failed: ")[2].rstrip(";. ") + "."
        return f"{found.where}: {reason}" if found.where else reason, found.fix or ""

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        return {"path": str(self.path), "models": [asdict(row) for row in self.facts()]}

    def text(self) -> str:
        return f"{self.path}\n{text_of(self.facts())}"


def text_of(rows: Sequence[OpenedFacts]) -> str:
    """Return the table as text."""
    if not rows:
        return "no models"
    table = [("model", "kind", "state", "in cells")]
    table += [(row.name, row.kind or "unknown", row.state, "yes" if row.in_cells else "") for row in rows]
    lines = text_table(table)
    more = []
    for line, row in zip(lines[1:], rows, strict=True):
        more += [line, *(f"    {text}" for text in row.lines())]
    return "\n".join([lines[0], *more])


def repository_in(directory: str | PathLike[str]) -> Path:
    """Return the path of a repository. Raises FileError for any other directory."""
    path = _existing(directory)
    if loose := find_loose_models(path):
        command = magic_line("%triton", "open", os.fspath(directory), "--into", "models")
        names = ", ".join(model.name for model in loose[:3]) + (f" and {len(loose) - 3} more" if len(loose) > 3 else "")
        fix = f"{command} copies them to models/NAME/1 and serves those"
        raise FileError(
            f"{os.fspath(directory)!r} is not a repository: its models have no version directories, as in the examples "
            f"of NVIDIA's python_backend ({names}): {fix}",
            field=str(path),
            fix=fix,
        )
    if is_model_directory(path):
        command = magic_line("%triton", "load", path.name, os.fspath(directory))
        fix = f"open {os.fspath(path.parent)!r}, or load this one: {command}"
        raise FileError(f"{os.fspath(directory)!r} is one model, not a repository: {fix}", field=str(path), fix=fix)
    return path


def _existing(directory: str | PathLike[str]) -> Path:
    path = Path(os.path.abspath(Path(directory).expanduser()))
    if not path.is_dir():
        raise FileError(f"there is no directory {os.fspath(directory)!r}", field=os.fspath(directory))
    return path


def _arranged(directory: str | PathLike[str], into: str | PathLike[str]) -> Path:
    """Copy the models of a directory that have no version directories into a repository, and return its path. Raises
    FileError if there are none, NoRepository."""
    loose = find_loose_models(_existing(directory))
    if not loose:
        fix = "open it without a place to copy its models to"
        text = f"{os.fspath(directory)!r} has no models without version directories: {fix}"
        raise FileError(text, field=os.fspath(directory), fix=fix)
    path = repository_path(into)
    with removed_at_error(path, f"the models were not copied to {path}"):
        arrange(loose, make_repository(path))
    return path
