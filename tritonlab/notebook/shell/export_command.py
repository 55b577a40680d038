"""`%triton export`: a model repository, and on request what it takes to run and to prove it elsewhere."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Sequence
from typing import Any

from IPython.display import display

from ...core.quoting import magic_line
from ...tools.deploy.environment.placed import EnvironmentOptions
from ...tools.deploy.report import ExportArchive, ExportReport
from ...tools.deploy.whole_export import ExportOptionError
from ..authoring.errors import OptionError
from ..authoring.exporting import export_models
from ..views.card.export_panel import DEFAULT_DIRECTORY
from .model_commands import named_value
from .subcommand import Context

_MB = 1_000_000


def export_named(context: Context, arguments: argparse.Namespace) -> ExportReport | ExportArchive:
    """Export the models that the line names. With --zip the report is displayed and the zip file is what the cell
    shows. An interrupt of the cell cancels the export. Raises NotFoundError for a model that is not loaded, with why,
    and OptionError."""
    *others, directory = arguments.place or [DEFAULT_DIRECTORY]
    names = [arguments.name, *others]
    for name in names:
        context.model(name)  # raises
    say: Callable[[str], None] = (lambda text: None) if context.json else print
    cancel = threading.Event()
    try:
        report = export_models(
            context.workspace,
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
            last=arguments.last,
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
    if not context.json:
        display(report)
    return report.zip()


def _environment(arguments: argparse.Namespace) -> EnvironmentOptions:
    budget = None if arguments.env_budget is None else arguments.env_budget * _MB
    return EnvironmentOptions(arguments.env, arguments.target, python=arguments.env_python, budget=budget)


def _artifacts(texts: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the files and values of `weights.pt=expression`. Raises OptionError."""
    found = []
    for text in texts:
        named = named_value(text)
        if named is None:
            raise OptionError(f"write --artifact weights.pt=expression, not {text!r}")
        found.append(named)
    return found


def _option_error(error: ExportOptionError, names: Sequence[str], deploy: str) -> OptionError:
    """Return the error with the line to write instead."""
    if error.is_place:
        fix = f"{magic_line('%triton', 'export', *names)} {error.remedy()} {magic_line(f'--deploy={deploy}')}"
        return OptionError(f"{error}, as with {fix}", fix=fix)
    return OptionError(str(error), fix=error.remedy())
