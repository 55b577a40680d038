"""The Python-based backends of exported models. Their code lies outside of the models' directories, and is exported
next to the repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...core.config.model_config import ModelConfig
from ...repository.layout import MODEL_FILE
from ...repository.model_tree import ModelTree, read_tree
from ...server.models.backend_choice import choice_words
from ...server.models.backends import DEFAULT_DIRECTORY, PACKED_ENVIRONMENT, runs_shipped
from .left_out import NotDeployable, sentences, starts_our_stub
from .secrets import secret_sentences, why_secret


def backends_of(repository: Path) -> Path:
    """Return the directory for the backends that are exported with a repository: `backends` next to `models`, otherwise
    `<name>.backends`."""
    return repository.with_name("backends" if repository.name == "models" else f"{repository.name}.backends")


def backends_in(directory: Path) -> list[Path]:
    """Return the Python-based backends of a backend directory, sorted."""
    return sorted(path.parent for path in directory.glob(f"*/{MODEL_FILE}"))


@dataclass(frozen=True)
class OwnBackend:
    """A Python-based backend of this machine's backend directory. `include`: patterns of hidden, large or outside files
    to include."""

    home: Path
    include: Sequence[str] = ()

    @property
    def name(self) -> str:
        return self.home.name

    @cached_property
    def tree(self) -> ModelTree:
        return read_tree(self.home, include=self.include, needed=[PACKED_ENVIRONMENT], why_secret=why_secret)

    @property
    def _not_copied(self) -> list[str]:
        return starts_our_stub(self.home, self.tree.files)

    def size(self) -> int:
        """Return the bytes of the files that `write` copies."""
        return self.tree.size(besides=self._not_copied)

    def write(self, directory: Path, copied: Callable[[str, int], object] = lambda file, size: None) -> None:
        """Write the backend to `directory`, which must not exist."""
        directory.mkdir(parents=True)
        self.tree.copy(directory, besides=self._not_copied, copied=copied)

    def warnings(self, repository: Path) -> Iterator[str]:
        """Yield where it is exported with a repository and what to do, and which of its files are left out."""
        place = f"{backends_of(repository).name}/{self.name}"
        yield (
            f"its backend '{self.name}' is a Python-based backend, exported to {place}/ next to the repository: a "
            f"Triton server needs it as {DEFAULT_DIRECTORY}/{self.name}/"
        )
        yield from (f"of the backend '{self.name}', {each}" for each in sentences(self.tree.left_out))
        for sentence, remedy, _ in secret_sentences(self.home, self.tree.files):
            yield f"of the backend '{self.name}', {sentence}: {remedy}"


def find_own_backend(
    model: str, config: ModelConfig, directory: str | Path | None, include: Sequence[str] = ()
) -> OwnBackend | None:
    """Return the Python-based backend that runs a model; None for another kind, and if something else answers for the
    model. Raises NotDeployable if it is missing.

    Args:
        model: the name of the model.
        config: as it is served, or as it was written.
        directory: the backend directory of the server, None for Triton's.
        include: patterns of hidden, large or outside files to include.
    """
    name = config.backend
    if name in ("", "python") or config.runtime not in ("", MODEL_FILE) or choice_words(config) or runs_shipped(config):
        return None
    home = Path(directory or DEFAULT_DIRECTORY).absolute() / name
    if not (home / MODEL_FILE).is_file():
        if not config.runtime:  # the model is not served, and its backend may be a compiled one
            return None
        raise NotDeployable(
            f"'{model}' cannot be exported: it is run by the backend '{name}', and {home / MODEL_FILE} does not exist. "
            "Put the backend there and load the model again, or name its directory with "
            "tritonlab.reset(backend_directory=...)"
        )
    return OwnBackend(home, tuple(include))
