"""The new directory of one model of an opened repository, which is exported as it lies there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...core.config.model_config import ConfigError, read_config
from ...notebook.authoring.opened_repository import OpenedRepository
from ...repository.layout import CONFIG_FILE
from ...repository.model_tree import ModelTree, read_tree
from ...server.api.model import Model
from ...server.models.backend_choice import choice_words
from . import left_out
from .own_backends import OwnBackend, find_own_backend
from .preflight.judge import subject_in, subject_of
from .preflight.subject import Subject
from .secrets import secret_sentences, why_secret


@dataclass(frozen=True)
class OpenedBuild:
    """One model to be exported, by the name of its directory. `model`: as it is served here, None if it is
    not; `root`: the repository; `warnings`: the facts of its row; `backend`: the Python-based backend that is exported
    with it."""

    name: str
    directory: Path
    model: Model | None
    root: Path
    include: Sequence[str] = ()
    warnings: Sequence[str] = ()
    backend: OwnBackend | None = None
    absent: Sequence[str] = ()

    @cached_property
    def subject(self) -> Subject | None:
        """The subject of pre-flight: the model as it is served, else its files; None if its config cannot be read."""
        if self.model is not None:
            return subject_of(self.model, self.include)
        with contextlib.suppress(ConfigError):
            return subject_in(self.directory, self.include)
        return None

    @cached_property
    def _tree(self) -> ModelTree:
        return read_tree(self.directory, include=self.include, inside=(self.root,), why_secret=why_secret)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """The parts of the model that must be copied before it can be deployed."""
        return tuple(left_out.incomplete(self._tree.left_out))

    def copied_size(self) -> int:
        """Return the bytes of the files that `write` copies."""
        return self._tree.size()

    def write(self, new: Path, copied: Callable[[str, int], object]) -> tuple[str, ...]:
        """Write the model to `new`, unchanged, and return warnings."""
        new.mkdir(parents=True)
        self._tree.copy(new, copied=copied)
        secrets = secret_sentences(self.directory, self._tree.files)
        about = (f"{sentence}: {remedy}" for sentence, remedy, _ in secrets)
        return (*self.warnings, *left_out.sentences(self._tree.left_out), *about)


def build_of(opened: OpenedRepository, name: str, include: Sequence[str]) -> OpenedBuild:
    """Return the build of a model of an opened repository: as its cells have written it, or as it lies there."""
    directory, warnings = _find_exported(opened, name)
    model = opened.workspace.server.model(name) if opened.is_served_from_here(name) else None
    model = model if model is not None and model.ready() else None
    backend = _own_backend(opened, name)
    return OpenedBuild(name, directory, model, root=opened.path, include=include, warnings=warnings, backend=backend)


def _find_exported(opened: OpenedRepository, name: str) -> tuple[Path, Sequence[str]]:
    """Return the directory that is exported, and the facts of its row."""
    workspace = opened.workspace
    report, known = workspace.report(name), workspace.server.core.model(name)
    if not opened[name].in_cells or report is None:
        # the repository's own files are exported, whichever backend answers here
        here = known.versions.values() if known is not None and opened.is_served_from_here(name) else ()
        answers = next((words for version in here if (words := choice_words(version.config))), "")
        return opened.path / name, [*left_out.never_ran(answers)]
    directory, exported = workspace.repository / name, "what could not be loaded"
    if report.ready_at:
        exported = "the version that serves"
    elif not directory.is_dir():  # models that are not Python, for example, are not written
        directory, exported = opened.path / name, "the model as it lies in the repository"
    warnings = [f"its cells did not load when they ran last: {exported} was exported"] if report.error else []
    return directory, warnings


def _own_backend(opened: OpenedRepository, name: str) -> OwnBackend | None:
    """Return the Python-based backend of a model. Raises NotDeployable if it has gone."""
    core = opened.workspace.server.core
    known = core.model(name)
    configs = [version.config for version in known.versions.values()] if known is not None else []
    if not configs:
        with contextlib.suppress(ConfigError):
            configs = [read_config(opened.path / name / CONFIG_FILE)]
    return find_own_backend(name, configs[0], core.options.backend_directory) if configs else None
