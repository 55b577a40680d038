"""`%triton export`, a model repository and on request the files to run and prove it elsewhere; `%triton preflight`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from IPython.display import display

from ...core.quoting import magic_line
from ...core.version import DEFAULT_TARGET
from ...notebook.authoring.errors import OptionError
from ...notebook.shell.model_commands import named_value
from ...notebook.shell.subcommand import Context
from .environment.placed import EnvironmentOptions
from .export_options import ExportOptionError, ExportOptions
from .export_panel import DEFAULT_DIRECTORY
from .exporting import export_models
from .image_build import ImageReport, with_docker
from .preflight.finding import Preflight
from .report import ExportArchive, ExportReport

_MB = 1_000_000


def export_named(
    context: Context,
    name: str,
    place: Sequence[str] = (),
    zip: bool = False,
    artifact: Sequence[str] = (),
    env: str = "none",
    env_python: str = "",
    env_budget: int | None = None,
    build: bool = False,
    run_image: bool = False,
    engine: str = "",
    **keywords: Any,
) -> ExportReport | ExportArchive | ImageReport:
    """Export the models that the line names, with `keywords` of `tritonlab.export`. With `zip` the report is displayed
    and the zip file is the cell's result; so it is with the built image. An interrupt of the cell cancels the export.
    Raises NotFoundError for a model that is not loaded, with the reason, and OptionError."""
    *others, directory = place or [DEFAULT_DIRECTORY]
    names = [name, *others]
    for each in names:
        context.model(each)  # raises
    builds = build or run_image or bool(engine)
    if builds:
        keywords["deploy"] = with_docker(keywords.get("deploy", ""))
    budget = None if env_budget is None else env_budget * _MB
    options = ExportOptions.from_keywords(
        **keywords,
        env=EnvironmentOptions(env, python=env_python, budget=budget),
        artifacts=dict(_artifacts(artifact)),
        say=None if context.json else print,
    )
    try:
        report = export_models(lambda: context.workspace, names, directory, options)
    except ExportOptionError as error:
        text, fix = str(error), error.remedy()
        if error.is_place:
            kinds = magic_line(f"--deploy={keywords.get('deploy', '')}")
            fix = f"{magic_line('%triton', 'export', *names)} {fix} {kinds}"
            text = f"{text}, as with {fix}"
        raise OptionError(text, fix=fix) from None
    except KeyboardInterrupt:
        options.cancel.set()
        raise
    if not (zip or builds) or keywords.get("dry_run"):
        return report
    if not context.json:
        display(report)
    if not builds:
        return report.zip()
    if zip:
        display(report.zip())
    try:
        return report.build(engine, run=run_image)
    except ExportOptionError as error:
        raise OptionError(str(error), fix=error.remedy()) from None


def _artifacts(texts: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the files and values of `weights.pt=expression`. Raises OptionError."""
    found = []
    for text in texts:
        named = named_value(text)
        if named is None:
            raise OptionError(f"write --artifact weights.pt=expression, not {text!r}")
        found.append(named)
    return found


def preflight(context: Context, name: str, target: str = DEFAULT_TARGET) -> Preflight:
    return context.model(name).preflight(target=target)
