"""The export of models of a notebook: by their names, with values of its cells and what other cells define."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from ...core.status import InvalidArgumentError
from ...exchanges.exchange import Exchange
from ...exchanges.golden import GoldenSet
from ...record.recorder import MOST
from ...tools.deploy.child_command import Say
from ...tools.deploy.environment.placed import EnvironmentOptions
from ...tools.deploy.releases import DEFAULT_TARGET
from ...tools.deploy.report import ExportReport
from ...tools.deploy.repository import Progress
from ...tools.deploy.whole_export import WholeExport
from .artifact import artifact_of
from .cells import user_namespace
from .errors import OptionError
from .workspace import Workspace

if TYPE_CHECKING:
    from ...server.api.model import Model


def export_models(
    workspace: Workspace | None,
    models: Model | str | Sequence[Model | str],
    directory: str | PathLike[str],
    *,
    target: str = DEFAULT_TARGET,
    env: str | EnvironmentOptions | None = None,
    deploy: str | Sequence[str] = (),
    capture: bool = False,
    artifacts: Mapping[str, Any] | None = None,
    verify: bool | str | Sequence[str] | None = None,
    last: int | None = None,
    requests: Sequence[Exchange] | None = None,
    dry_run: bool = False,
    progress: Progress = lambda done, total: None,
    say: Say = lambda text: None,
    cancel: threading.Event | None = None,
    **options: Any,
) -> ExportReport:
    """Export models as `tritonlab.export` does. `workspace`: of the notebook, None if nothing of it is needed;
    `last`: how many of the last requests of each model are sent to prove the export, by default all that are kept;
    `requests`: what is sent to prove the export besides the last requests, by default the golden ones; `options`: those
    of `export.repository.export`."""
    chosen = [models] if isinstance(models, str) or not isinstance(models, Sequence) else list(models)
    whole = WholeExport(
        target,
        env=env or "none",
        deploy=_words(deploy),
        verify=[target] if verify is True else _words(verify or ()),
        last=MOST if last is None else last,
        cases=GoldenSet().cases() if requests is None and (deploy or verify) else requests or (),
    )
    whole.check(directory)
    if (capture or artifacts) and not dry_run:
        assert workspace is not None, "what is written again is the notebook's"
        _write_artifacts(workspace, _own_names(workspace, chosen), artifacts or {}, capture)
    found = [_model(workspace, each) for each in chosen]
    return whole.write(found, directory, dry_run=dry_run, progress=progress, say=say, cancel=cancel, **options)


def _words(names: str | Sequence[str]) -> list[str]:
    """Return `a,b` and `["a", "b"]` as a list."""
    parts = names.split(",") if isinstance(names, str) else names
    return [part.strip() for part in parts if part.strip()]


def _own_names(workspace: Workspace, models: Sequence[Model | str]) -> list[str]:
    """Return the names of the models. Raises InvalidArgumentError for one of another server."""
    for model in models:
        if not isinstance(model, str) and model.server is not workspace.server:
            raise InvalidArgumentError(f"{model.name}: capture and artifacts are for models of this notebook")
    return [model if isinstance(model, str) else model.name for model in models]


def _model(workspace: Workspace | None, model: Model | str) -> Model:
    if not isinstance(model, str):
        return model
    assert workspace is not None, "a name is one of the notebook's"
    found = workspace.server.model(model)
    found.config()  # raises for one that is not loaded
    return found


def _write_artifacts(workspace: Workspace, names: Sequence[str], artifacts: Mapping[str, Any], capture: bool) -> None:
    """Keep the values as files of the models, write in front of each model what other cells define if `capture` is set,
    and load those that have changed."""
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
