"""Pre-flight of a model that a server runs, or that lies in a directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.config.model_config import ModelConfig, parse_pbtxt, read_config
from ...ipc.link.stub_link import ReadsRecorded
from ...ipc.processes.execution_env import MODEL_DIRECTORY, PARAMETER
from ...profile.live_state import memory_use, shm_size
from ...repository.layout import CONFIG_FILE
from ...repository.model_tree import ModelTree, read_tree
from ...server.models.backends import runs_shipped
from ..needed_models import needed_models
from .finding import Preflight
from .judge import DEFAULT_TARGET, judge
from .subject import Subject

if TYPE_CHECKING:
    from ...server.api.model import Model


def preflight(model: Model, target: str = DEFAULT_TARGET, *, replay: Callable[[], object] = lambda: None) -> Preflight:
    """Return what of a loaded model will not work at the target: a release of Triton as 2.49, its container as 24.08,
    or kserve, dynamo or ray.

    What its code reads is known of the time when it was loaded; `replay` sends requests during which it is recorded,
    too. Raises UnknownTarget.
    """
    model.reads(record=True)
    try:
        replay()
    finally:
        reads = model.reads()
    found = judge(subject_of(model, reads=reads), target)
    needed = ", ".join(other.name for other in needed_models(model).loaded)
    note = f"it needs {needed}, which pre-flight judges by name: %triton preflight NAME"
    return replace(found, notes=(*found.notes, note)) if needed else found


def subject_of(model: Model, include: Sequence[str] = (), reads: Sequence[ReadsRecorded] | None = None) -> Subject:
    """Return what pre-flight looks at of a loaded model. `reads`: what its code has read, by default while loading."""
    config = parse_pbtxt(model.config_pbtxt(), "the served config")
    directory = Path(model.directory)
    is_its_own = not runs_shipped(config)  # otherwise it is this package's code that reads and imports
    found = (model.reads() if reads is None else reads) if is_its_own else ()
    shm = shm_size(memory_use(model.versions(), model.server_gpus))
    versions = tuple(model.metadata()["versions"])
    return Subject(
        model.name,
        tree=_tree(directory, config, include),
        config=config,
        reads=tuple(found),
        modules=model.modules() if is_its_own else {},
        shm_bytes=shm,
        versions=versions,
    )


def subject_in(directory: Path) -> Subject:
    """Return what can be seen of a model that is not loaded. Raises ConfigError."""
    config = read_config(directory / CONFIG_FILE)
    versions = tuple(sorted(path.name for path in directory.iterdir() if path.is_dir() and path.name.isdecimal()))
    return Subject(directory.name, _tree(directory, config, ()), config, versions=versions)


def _tree(directory: Path, config: ModelConfig, include: Sequence[str]) -> ModelTree:
    value = config.parameters[PARAMETER].string_value if PARAMETER in config.parameters else ""
    needed = [value.removeprefix(f"{MODEL_DIRECTORY}/")] if value.startswith(MODEL_DIRECTORY) else []
    return read_tree(directory, include=include, needed=needed)
