"""The calls of the export panel: the choices, a dry run, the export itself, and its cancellation."""

from __future__ import annotations

import ast
import builtins
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ...core.plain_facts import JsonAnswer, Tell
from ...core.source.source_file import SourceFile
from ...core.source.undefined_names import undefined_names
from ...core.status import InvalidArgumentError, NotFoundError
from ...core.version import DEFAULT_TARGET
from ...exchanges.golden import GoldenSet
from ...exchanges.last_cases import last_cases
from ...notebook.authoring.cells import user_namespace
from ...notebook.authoring.errors import NotebookError
from ...notebook.authoring.workspace import Workspace
from ...repository.model_tree import Omission, Omitted, read_tree
from ...server.api.needed_models import needed_models
from . import left_out
from .environment.lock import EnvironmentRefused
from .environment.placed import CHOICES
from .export_options import NO_ENVIRONMENT, ExportOptionError, ExportOptions
from .exporting import export_models
from .manifests.files import KINDS
from .releases import UnknownTarget, find, find_target, releases, table_facts
from .report import ExportReport
from .secrets import why_secret
from .verify.judgement import NO_REQUEST
from .verify.wheels import NoWheel, find_wheel

#: The start of paths of the notebook's server, seen from the kernel: the notebook's directory, unless it was moved.
_START = Path.cwd()
#: Seconds between two messages about the bytes that were copied.
_TELL_EVERY = 0.1

#: The exports under way, and the last ones written, by the name from the window.
_running: dict[str, threading.Event] = {}
_done: dict[str, ExportReport] = {}
_guard = threading.Lock()  # guards both
_KEPT = 8


def choices(workspace: Workspace) -> JsonAnswer:
    """Return the known targets, environments and kinds of deploy files (`tritonlab releases`)."""
    places = [{"name": name, "text": str(find_target(name)), "started": True} for name in table_facts()["targets"]]
    known = [
        {"name": str(release.triton), "text": f"Triton {release}", "started": release.is_started}
        for release in reversed(releases())
    ]
    return {"targets": [*known, *places], "target": DEFAULT_TARGET, "environments": list(CHOICES), "kinds": list(KINDS)}


def plan(
    workspace: Workspace,
    models: Sequence[str],
    directory: str,
    *,
    artifacts: Mapping[str, str] | None = None,
    verify: Sequence[str] = (),
    **chosen: Any,
) -> JsonAnswer:
    """Return a dry run of `export` for each model and the models that it needs: the actions, the files, and the
    findings of pre-flight. Nothing is written. A refusal is part of its choice."""
    options = ExportOptions.from_keywords(**chosen, dry_run=True)
    refused: dict[str, JsonAnswer] = {}
    while True:  # without the environment or the deploy files if these are refused
        try:
            report = export_models(lambda: workspace, list(models), directory, options)
            break
        except EnvironmentRefused as error:
            refused["env"] = {"text": str(error), "fix": error.remedy()}
            options = replace(options, env=NO_ENVIRONMENT)
        except ExportOptionError as error:
            refused["deploy"] = {"text": str(error), "fix": error.remedy(), "is_place": error.is_place}
            options = replace(options, deploy=())
    captured = _captured(workspace, models, refused) if options.capture else {}
    users = dict(_users(workspace, models, options.alone))
    found = _answer(report)
    for facts, each in zip(found["models"], report.reports, strict=True):
        name = each.path.name
        facts["needed_by"] = users.get(name, "")
        facts |= _details(workspace, each, captured.get(name, _Captured([], False)), options.include)
    return {
        **found,
        "artifacts": [_artifact(file, text) for file, text in (artifacts or {}).items()],
        "requests": _requests(workspace, report, options.last) if verify else None,
        "verify": [*map(_judge, verify)],
        "refused": refused,
    }


def export(
    workspace: Workspace,
    models: Sequence[str],
    directory: str,
    *,
    artifacts: Mapping[str, str] | None = None,
    job: str = "",
    tell: Tell,
    **options: Any,
) -> JsonAnswer:
    """Write the models, and those that they need, as a repository, with all choices (`tritonlab.export`). Artifacts are
    expressions of the notebook. Meanwhile `job` can be cancelled."""
    values = {file: _value(file, text) for file, text in (artifacts or {}).items()}
    chosen = ExportOptions.from_keywords(
        **options, artifacts=values, progress=_progress(tell), say=lambda line: tell({"line": line})
    )
    with _guard:
        _running[job] = chosen.cancel
    try:
        report = export_models(lambda: workspace, list(models), directory, chosen)
    finally:
        with _guard:
            _running.pop(job, None)
    with _guard:
        _done[job] = report
        for old in list(_done)[:-_KEPT]:
            del _done[old]
    found = _answer(report)
    if report.verification is not None:
        found["verification"]["relative"] = os.path.relpath(report.verification.page, _START)
    return found


def _answer(report: ExportReport) -> dict[str, Any]:
    """Return the report as JSON values, with the texts that the window shows. `relative`: the repository, as seen from
    the notebook's directory."""
    found = {**report.to_dict(), "tree": report.tree(), "relative": os.path.relpath(report.repository, _START)}
    if report.environment is not None:
        found["environment"]["text"] = str(report.environment)
    if report.beside is None or not report.beside.files:
        found["beside"] = None
    return found


def zip_export(workspace: Workspace, job: str) -> JsonAnswer:
    """Pack the files of an export, next to the repository (`report.zip()`)."""
    with _guard:
        report = _done.get(job)
    if report is None:
        raise NotFoundError("that export is not known any more: export again")
    archive = report.zip()
    return {**archive.to_dict(), "relative": os.path.relpath(archive.path, _START)}


def cancel_export(workspace: Workspace, job: str) -> JsonAnswer:
    """Cancel an export, which removes the files it has begun. Return whether it was under way."""
    with _guard:
        found = _running.get(job)
    if found is not None:
        found.set()
    return {"cancelled": found is not None}


# -- the dry run


class _Captured(NamedTuple):
    """The names that would be written before a model, and whether the model lacks only these."""

    names: list[str]
    is_whole: bool


def _users(workspace: Workspace, models: Sequence[str], alone: bool) -> Iterator[tuple[str, str]]:
    """Yield the models that go with the requested ones, each with a model that needs it."""
    for name in () if alone else reversed(models):
        for needed in needed_models(workspace.server.model(name)).loaded:
            if needed.name not in models:
                yield needed.name, name


def _details(workspace: Workspace, report: ExportReport, written: _Captured, include: Sequence[str]) -> dict[str, Any]:
    """Return the panel's content for a model besides its report: `warnings` except those shown next to a choice, such
    as `findings` and `left_out`; the `notes` of pre-flight; the `captured` names."""
    plan, found = report.plan, report.preflight
    directory = Path(workspace.server.model(report.path.name).directory)
    inside = workspace.server.core.repository.inside_of(report.path.name, directory)
    left = read_tree(directory, include=(), inside=inside, why_secret=why_secret).left_out
    findings = found.cited(workspace.shell.cite).findings if found is not None else ()
    listed = {*map(str, findings), *left_out.sentences(each for each in left if each.path not in include)}
    return {
        "exists": plan.path.exists(),
        "warnings": [each for each in plan.warnings if each not in listed],
        "findings": [each.to_dict() for each in findings if not (each.row == "P1" and written.is_whole)],
        "notes": list(found.notes) if found is not None else [],
        "captured": written.names,
        "left_out": list(_left_out(left, include)),
    }


def _left_out(left: Sequence[Omitted], include: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the files that are left out unless requested, including the requested ones."""
    for entry in left:
        if entry.reason not in (Omission.DANGLING, Omission.SPECIAL):
            large = int(entry.detail) if entry.reason is Omission.LARGE else None
            yield {"path": entry.path, "why": entry.reason.value, "bytes": large, "included": entry.path in include}


def _captured(workspace: Workspace, models: Sequence[str], refused: dict[str, JsonAnswer]) -> dict[str, _Captured]:
    """Return the names that would be captured, by model."""
    found = {}
    for name in models:
        draft = workspace.draft(name)
        if draft.source is None:
            continue
        before = _undefined(draft.source.text())
        try:
            after = draft.with_captured(user_namespace()).source
        except NotebookError as error:
            refused["capture"] = {"text": f"{name}: {error}", "fix": error.remedy()}
            continue
        left = _undefined(after.text()) if after is not None else before
        found[name] = _Captured([each for each in before if each not in left], not left)
    return found


def _undefined(text: str) -> dict[str, int]:
    try:
        return undefined_names(SourceFile("model.py", text, ast.parse(text)))
    except (SyntaxError, ValueError):
        return {}


def _artifact(file: str, text: str) -> dict[str, Any]:
    """Return whether an expression can be kept as a file, and the bytes of a variable with a known size."""
    known, size, problem = user_namespace(), None, ""
    try:
        names = [each for each in ast.walk(ast.parse(text, mode="eval")) if isinstance(each, ast.Name)]
    except (SyntaxError, ValueError) as error:
        problem = f"{text!r} is not an expression: {getattr(error, 'msg', error)}"
    else:
        own = {each.id for each in names if isinstance(each.ctx, ast.Store)}  # of a comprehension
        missing = {each.id for each in names} - own - known.keys() - vars(builtins).keys()
        problem = f"the notebook does not define {', '.join(sorted(missing))}" if missing else ""
        size = getattr(known.get(text.strip()), "nbytes", None)
    return {"file": file, "problem": problem, "bytes": size if isinstance(size, int) else None}


def _requests(workspace: Workspace, report: ExportReport, most: int) -> dict[str, Any]:
    """Return how many requests would be sent for a proof, and the models without requests. `kept`: the largest number
    of last requests of a model, of which `most` are sent."""
    names = [each.path.name for each in report.reports]
    kept = Counter(case.model for case in GoldenSet().cases() if case.model in names)
    models = [workspace.server.model(name) for name in names]
    there = Counter(case.model for case in last_cases(models))
    last = Counter(case.model for case in last_cases(models, most))
    text = f"{kept.total()} golden, and {last.total()} of the {there.total()} last ones of the notebook"
    silent = [name for name in names if not kept[name] + last[name]]
    problem = f"there is none for {', '.join(silent)}, so nothing is proved of it: {NO_REQUEST}" if silent else ""
    return {"text": text, "problem": problem, "kept": max(there.values(), default=0)}


def _judge(release: str) -> dict[str, Any]:
    """Return the judge of a release, and how to get it."""
    if release == "path":
        return {"release": release, "problem": "", "cached": True, "text": "the tritonserver on PATH"}
    try:
        wheel = find_wheel(find(release).triton.value)
    except (UnknownTarget, NoWheel) as error:
        return {"release": release, "problem": str(error), "cached": False, "text": ""}
    text = "is in the cache" if wheel.is_cached else f"{wheel.size}, kept for the next time"
    return {"release": release, "problem": "", "cached": wheel.is_cached, "text": f"Triton {wheel.triton}: {text}"}


# -- the export


def _value(file: str, text: str) -> Any:
    """Return the value of an expression of the notebook. Raises InvalidArgumentError."""
    try:
        return eval(text, dict(user_namespace()))
    except Exception as error:  # the error is the expression's; our frames do not help
        raise InvalidArgumentError(f"{file} = {text}: {type(error).__name__}: {error}") from None


def _progress(tell: Tell) -> Callable[[int, int], None]:
    last = 0.0

    def copied(done: int, total: int) -> None:
        nonlocal last
        if done >= total or time.monotonic() - last >= _TELL_EVERY:
            last = time.monotonic()
            tell({"done": done, "total": total})

    return copied
