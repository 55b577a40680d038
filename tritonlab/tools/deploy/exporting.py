"""The export of models of a notebook: by their names, with values of its cells and definitions of other cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

from ...core.status import InvalidArgumentError
from ...notebook.authoring.artifact import artifact_of
from ...notebook.authoring.cells import user_namespace
from ...notebook.authoring.errors import OptionError
from ...notebook.authoring.workspace import Workspace
from ...server.api.model import Model
from .export_options import ExportOptions
from .report import ExportReport
from .repository import export


def export_notebook(
    workspace: Callable[[], Workspace],
    models: Model | str | Sequence[Model | str],
    directory: str | PathLike[str],
    **options: Any,
) -> ExportReport:
    """Run `tritonlab.export`, with its keyword arguments."""
    return export_models(workspace, models, directory, ExportOptions.from_keywords(**options))


def export_models(
    workspace: Callable[[], Workspace],
    models: Model | str | Sequence[Model | str],
    directory: str | PathLike[str],
    options: ExportOptions,
) -> ExportReport:
    """Export models as `tritonlab.export` does. `workspace`: returns the notebook's workspace; it is called only for
    named models, and for changes to them."""
    options.check(directory)
    chosen = [models] if isinstance(models, str) or not isinstance(models, Sequence) else list(models)
    if (options.capture or options.artifacts) and not options.dry_run:
        _write_artifacts(workspace(), chosen, options.artifacts, options.capture)
    return export([_model(workspace, each) for each in chosen], directory, options)


def _model(workspace: Callable[[], Workspace], model: Model | str) -> Model:
    if not isinstance(model, str):
        return model
    found = workspace().server.model(model)
    found.config()  # raises for a model that is not loaded
    return found


def _write_artifacts(
    workspace: Workspace, models: Sequence[Model | str], artifacts: Mapping[str, Any], capture: bool
) -> None:
    """Keep the values as files of the models, with `capture` write the definitions of other cells before each model,
    and load changed models. Raises InvalidArgumentError for a model of another server."""
    for model in models:
        if not isinstance(model, str) and model.server is not workspace.server:
            raise InvalidArgumentError(f"{model.name}: capture and artifacts are for models of this notebook")
    names = [model if isinstance(model, str) else model.name for model in models]
    for path, value in artifacts.items():
        name, file = (names[0], path) if len(names) == 1 else _owner(path, names)
        workspace.write_file(name, file, artifact_of(file, value).data)
    for name in names:
        workspace.load(name, if_changed=True, capture=user_namespace() if capture else None)


def _owner(path: str, names: Sequence[str]) -> tuple[str, str]:
    name, _, file = path.partition("/")
    if name not in names or not file:
        fix = f"{names[0]}/{path}"
        raise OptionError(f"artifact {path!r} has to name its model, of {', '.join(names)}: {fix!r}", fix=fix)
    return name, file
