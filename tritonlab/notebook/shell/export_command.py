"""`%triton export`: a model repository, and on request what it takes to run and to prove it elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from IPython.display import display

from ...clients.golden import GoldenSet
from ...export.deploy.files import KINDS, write_deploy_files
from ...export.deploy.of_models import deployment_of
from ...export.environment.lock import imports_of
from ...export.environment.placed import LOCK, EnvironmentOptions, place_environment
from ...export.report import ExportArchive, ExportReport
from ...export.repository import export
from ...export.verify.verdict import Verification
from ...export.verify.verification import verify
from ...repository.place import repository_path
from ..authoring.cells import user_namespace
from ..authoring.errors import OptionError
from ..authoring.workspace import Workspace
from ..model import Model

#: The repository of an export with deploy files, which are written beside it.
MODELS = "models"


def export_model(
    workspace: Workspace, model: Model, arguments: argparse.Namespace, as_json: bool
) -> ExportReport | ExportArchive | Verification:
    """Export a model. With --zip the report is displayed and the zip file is what the cell shows; with --verify it is
    the verdict of real servers. With --capture what other cells define is first written in front of the model, which is
    loaded again if that changes it. Raises OptionError for --deploy outside of a repository called models."""
    kinds = [kind.strip() for kind in arguments.deploy.split(",") if kind.strip()]
    _check_kinds(kinds, model.name, arguments.directory)
    if arguments.capture:
        workspace.load(model.name, if_changed=True, capture=user_namespace())
    report = export(
        model,
        arguments.directory,
        overwrite=arguments.overwrite,
        alone=arguments.alone,
        include=arguments.include,
        target=arguments.target,
    )
    say: Callable[[str], None] = (lambda text: None) if as_json else print
    if arguments.env != "none":
        _place_environment(workspace, report, arguments, say, beside=bool(kinds))
    if kinds:
        _write_deploy_files(workspace, report, arguments, kinds, say)
    if not arguments.zip and not arguments.verify:
        return report
    if not as_json:
        display(report)
    if not arguments.verify:
        return report.zip()
    return verify(report.repository, triton=arguments.verify, requests=GoldenSet().cases(), say=say)


def _check_kinds(kinds: list[str], name: str, directory: str) -> None:
    if wrong := [kind for kind in kinds if kind not in KINDS]:
        raise OptionError(f"--deploy={wrong[0]}: there are {', '.join(KINDS)}")
    if kinds and repository_path(directory).name != MODELS:
        fix = f"%triton export {name} {directory.rstrip('/')}/{MODELS} --deploy={','.join(kinds)}"
        raise OptionError(f"deploy files are written beside a repository called {MODELS}/: {fix}", fix=fix)


def _place_environment(
    workspace: Workspace,
    report: ExportReport,
    arguments: argparse.Namespace,
    say: Callable[[str], None],
    beside: bool,
) -> None:
    models = [workspace.server.model(each.path.name) for each in report.reports]
    repository = report.repository
    place_environment(
        {repository / model.name: imports_of(model) for model in models if model.modules()},
        EnvironmentOptions(arguments.env, arguments.target),
        lock=repository.with_name(LOCK if beside else f"{repository.name}.{LOCK}"),
        say=say,
    )


def _write_deploy_files(
    workspace: Workspace,
    report: ExportReport,
    arguments: argparse.Namespace,
    kinds: list[str],
    say: Callable[[str], None],
) -> None:
    root = report.repository.parent
    models = [workspace.server.model(each.path.name) for each in report.reports]
    deployed = deployment_of(
        models, arguments.target, cases=GoldenSet().cases(), has_lock=arguments.env == "requirements"
    )
    try:
        written = write_deploy_files(root, deployed, kinds, overwrite=arguments.overwrite)
    except FileExistsError as error:
        text = f"{error}. The models were exported, the deploy files were not: --overwrite replaces both"
        raise OptionError(text, fix="--overwrite") from None
    say(f"{len(written)} files were written in {root}; README.md there says how to run them")
