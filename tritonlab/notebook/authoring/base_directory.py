"""The model directory from which a notebook's model was taken: its files count unless a cell writes them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from ...core.config.model_config import ConfigError, ModelConfig, read_config
from ...core.config.model_config_rules import is_ensemble, polled
from ...repository.layout import CONFIG_FILE, MODEL_FILE, names_in, version_numbers
from ...repository.model_repository_manager import select_versions
from ...repository.model_tree import ModelTree, is_environment, leads_out, read_tree
from ...server.api.needed_models import named_in
from .errors import FileError
from .original_text import OriginalText, is_text
from .source_map import ModelFile, Segment

#: Larger files are not shown as texts in a cell.
MOST_BYTES = 256_000


@dataclass(frozen=True)
class BaseDirectory:
    """One model's directory in a repository with an owner of its own. Nothing is written there.

    `config`: the config on disk, filled in as a server does at a load; None if it cannot be read, and `refusal` is the
    reason. `versions`: those that the version policy selects, lowest first.
    """

    path: Path
    versions: tuple[int, ...]
    config: ModelConfig | None
    refusal: ConfigError | None = None

    @classmethod
    def read(cls, path: str | PathLike[str]) -> BaseDirectory:
        """Raise FileError if there is no such directory."""
        directory = Path(os.path.abspath(Path(path).expanduser()))
        if not directory.is_dir():
            fix = "name the directory that has the model's config.pbtxt and version directories"
            raise FileError(f"there is no model directory {os.fspath(path)!r}: {fix}", field=os.fspath(path), fix=fix)
        numbers = version_numbers(directory)
        first = min(map(str, numbers), default="")
        inside = names_in(directory / first) if first else []
        try:
            config = polled(read_config(directory / CONFIG_FILE), model_name=directory.name, files=inside)
        except ConfigError as error:
            return cls(directory, tuple(numbers), None, error)
        return cls(directory, select_versions(config, numbers), config)

    @cached_property
    def tree(self) -> ModelTree:
        """Its files and links, as they were at the first use."""
        return read_tree(self.path, inside=(self.path.parent,))

    @property
    def has_config(self) -> bool:
        return (self.path / CONFIG_FILE).is_file()

    @property
    def is_python(self) -> bool:
        """Whether the Python backend runs it, even if only its files show that."""
        if self.config is not None:
            return bool(self.config.backend == "python")
        return self.model_path(self.newest()) in self.tree.files

    @property
    def is_ensemble(self) -> bool:
        return self.config is not None and is_ensemble(self.config)

    @property
    def kind(self) -> str:
        """The backend of the model: `Python`, `ensemble`, `backend NAME`; "" if its config does not name it."""
        if self.is_ensemble:
            return "ensemble"
        if self.is_python:
            return "Python"
        return f"backend {self.config.backend}" if self.config is not None and self.config.backend else ""

    def needs(self) -> list[str]:
        """Return the models that its files name: the steps of an ensemble, else the targets of BLS calls."""
        if self.config is not None and self.is_ensemble:
            return list(dict.fromkeys(step.model_name for step in self.config.ensemble_scheduling.step))
        python = [file for file in self.tree.files if file.startswith(f"{self.newest()}/") and file.endswith(".py")]
        found = (other for file in python for other in named_in((self.path / file).read_bytes()))
        return [other for other in dict.fromkeys(found) if other != self.path.name]

    @property
    def model_file(self) -> str:
        """The name of the file with the model's class."""
        return (self.config.default_model_filename if self.config is not None else "") or MODEL_FILE

    def model_path(self, version: int) -> str:
        return os.path.normpath(f"{version}/{self.model_file}")

    def newest(self) -> int:
        """Return the newest version that is served and has a model file, else the newest; 1 if there is none."""
        with_file = [version for version in self.versions if self.model_path(version) in self.tree.files]
        return max(with_file or self.versions or (1,))

    def config_text(self) -> str:
        """Return the text of config.pbtxt as a cell shows it; "" if there is none."""
        return self.original(CONFIG_FILE).text if self.has_config else ""

    def original(self, file: str) -> OriginalText:
        return OriginalText((self.path / file).read_bytes(), is_python=file.endswith(".py"))

    def files(self) -> Mapping[str, ModelFile]:
        """Return its files except config.pbtxt, as links to their places: some have gigabytes."""
        files = [file for file in self.tree.files if file != CONFIG_FILE]
        linked = {link: ModelFile(os.fsencode(end), link=end) for link, end in self.tree.links.items()}
        for link in [link for link in linked if link.isdecimal() and (self.path / link).is_dir()]:
            del linked[link]  # a source is written into this version
            files += [f"{link}/{file}" for file in read_tree(self.path / link).files]
        return {**{file: self._linked(file) for file in files}, **linked}

    def _linked(self, file: str) -> ModelFile:
        path = self.path / file
        # places in it are cited in its own directory
        segments = (Segment(1, 1 << 31, str(path), 0),) if file.endswith(".py") else ()
        return ModelFile(path, segments, link=str(path))

    def written(self, file: str, text: ModelFile) -> ModelFile:
        """Return the file with a cell's text: unchanged lines keep their bytes, the file its mode. Raises FileError."""
        path = self.path / file
        if file not in self.tree.files or not isinstance(text.content, bytes):
            return text
        return ModelFile(self.original(file).edited(text.content.decode()), text.segments, like=path)

    def texts(self, version: int) -> Iterator[str]:
        """Yield the files that a cell can hold and an author would edit, imported files first: Python files of the
        version except the model's own, and label files.
        """
        labels = {output.label_filename for output in self.config.output} if self.config is not None else set()
        python = [file for file in self.tree.files if file.startswith(f"{version}/") and file.endswith(".py")]
        helpers = [file for file in python if file != self.model_path(version) and not _in_environment(file, self.tree)]
        # packages before the files next to the model, which import them
        for file in (*sorted(helpers, key=lambda file: (-file.count("/"), file)), *sorted(labels & {*self.tree.files})):
            if self.can_be_cell(file):
                yield file

    def can_be_cell(self, file: str) -> bool:
        """Return whether the file lies in the repository and is a text of a size that a cell can hold."""
        path = self.path / file
        if leads_out(path, (self.path, self.path.parent)) or path.stat().st_size > MOST_BYTES:
            return False
        content = path.read_bytes()
        return is_text(content) and bool(content.strip())


def models_in_order(bases: Mapping[str, BaseDirectory]) -> list[str]:
    """Return the names of a repository's models, each after the models that it needs."""
    needs = {name: [other for other in base.needs() if other in bases] for name, base in bases.items()}
    done: dict[str, None] = {}

    def visit(name: str, above: tuple[str, ...]) -> None:
        for other in needs[name]:
            if other not in above and other not in done:
                visit(other, (*above, other))
        done[name] = None

    for name in bases:
        if name not in done:
            visit(name, (name,))
    return list(done)


def _in_environment(file: str, tree: ModelTree) -> bool:
    return any(is_environment(tree.root / parent) for parent in list(Path(file).parents)[:-1])
