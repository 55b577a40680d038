"""`%triton export`: a model repository, and on request what it takes to run and to prove it elsewhere."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Sequence
from typing import Any

from IPython.display import display

from ...export.environment.placed import EnvironmentOptions
from ...export.report import ExportArchive, ExportReport
from ...export.whole_export import ExportOptionError
from ..authoring.cells import user_namespace
from ..authoring.errors import OptionError
from ..authoring.exporting import export_models
from ..authoring.workspace import Workspace
from ..views.card.export_panel import DEFAULT_DIRECTORY

_MB = 1_000_000


def export_named(workspace: Workspace, arguments: argparse.Namespace, as_json: bool) -> ExportReport | ExportArchive:
    """Export the models that the line names. With --zip the report is displayed and the zip file is what the cell
    shows. An interrupt of the cell cancels the export. Raises OptionError."""
    *others, directory = arguments.place or [DEFAULT_DIRECTORY]
    names = [arguments.name, *others]
    say: Callable[[str], None] = (lambda text: None) if as_json else print
    cancel = threading.Event()
    try:
        report = export_models(
            workspace,
            names,
            directory,
            overwrite=arguments.overwrite,
            alone=arguments.alone,
            include=arguments.include,
            target=arguments.target,
            env=_environment(arguments),
            deploy=arguments.deploy,
            capture=arguments.capture,
            artifacts=dict(_artifacts(arguments.artifact)),
            verify=arguments.verify,
            dry_run=arguments.dry_run,
            say=say,
            cancel=cancel,
        )
    except ExportOptionError as error:
        raise _option_error(error, names, arguments.deploy) from None
    except KeyboardInterrupt:
        cancel.set()
        raise
    if not arguments.zip or arguments.dry_run:
        return report
    if not as_json:
        display(report)
    return report.zip()


def _environment(arguments: argparse.Namespace) -> EnvironmentOptions:
    budget = None if arguments.env_budget is None else arguments.env_budget * _MB
    return EnvironmentOptions(arguments.env, arguments.target, python=arguments.env_python, budget=budget)


def _artifacts(texts: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the files and values of `weights.pt=expression`. Raises OptionError."""
    found = []
    for text in texts:
        path, equals, expression = (part.strip() for part in text.partition("="))
        if not path or not equals or not expression:
            raise OptionError(f"write --artifact weights.pt=expression, not {text!r}")
        try:
            found.append((path, eval(expression, dict(user_namespace()))))
        except Exception as error:  # of the author's expression; our frames tell nothing
            raise OptionError(f"{expression!r}: {type(error).__name__}: {error}") from None
    return found


def _option_error(error: ExportOptionError, names: Sequence[str], deploy: str) -> OptionError:
    """Return the error with the line to write instead."""
    if error.is_place:
        fix = f"%triton export {' '.join(names)} {error.remedy()} --deploy={deploy}"
        return OptionError(f"{error}, as with {fix}", fix=fix)
    return OptionError(str(error), fix=error.remedy())
