"""The calls of the export panel: what can be chosen, what an export would do, the export itself, and what ends it."""

from __future__ import annotations

import ast
import builtins
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...core.plain_facts import JsonAnswer, Tell
from ...core.source.source_file import SourceFile
from ...core.source.undefined_names import undefined_names
from ...core.status import InvalidArgumentError, NotFoundError
from ...exchanges.golden import GoldenSet
from ...exchanges.last_cases import last_cases
from ...repository.model_tree import Omission, Omitted, read_tree
from ...repository.place import repository_path
from ...server.api.needed_models import needed_models
from ...tools.deploy import left_out
from ...tools.deploy.environment.lock import EnvironmentRefused
from ...tools.deploy.environment.placed import CHOICES
from ...tools.deploy.manifests.files import KINDS
from ...tools.deploy.releases import DEFAULT_TARGET, UnknownTarget, find, find_target, releases, table_facts
from ...tools.deploy.report import ExportReport
from ...tools.deploy.verify.judgement import NO_REQUEST
from ...tools.deploy.verify.wheels import NoWheel, find_wheel
from ...tools.deploy.whole_export import ExportOptionError
from ..authoring.cells import user_namespace
from ..authoring.errors import NotebookError
from ..authoring.exporting import export_models
from ..authoring.workspace import Workspace

#: Where paths of the notebook's server begin, seen from the kernel: the notebook's directory, if nobody moved since.
_START = Path.cwd()
#: Seconds between two messages about the bytes that were copied.
_TELL_EVERY = 0.1

#: The exports that are under way, and the last that were written, by the name that the window gave each.
_running: dict[str, threading.Event] = {}
_done: dict[str, ExportReport] = {}
_guard = threading.Lock()  # guards both
_KEPT = 8


def choices(workspace: Workspace) -> JsonAnswer:
    """Return the targets, environments and kinds of deploy files that there are (`tritonlab releases`)."""
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
    alone: bool = False,
    include: Sequence[str] = (),
    target: str = DEFAULT_TARGET,
    env: str = "none",
    deploy: Sequence[str] = (),
    capture: bool = False,
    artifacts: Mapping[str, str] | None = None,
    verify: Sequence[str] = (),
    last: int | None = None,
) -> JsonAnswer:
    """Return what `export` would do with each model and with those that they need, what it would bring, and what
    pre-flight finds; nothing is written. A refusal is part of the choice that it is about."""
    refused: dict[str, JsonAnswer] = {}
    report = _dry_run(
        workspace,
        models,
        directory=directory,
        refused=refused,
        alone=alone,
        include=include,
        target=target,
        env=env,
        deploy=deploy,
    )
    captured = _captured(workspace, models, refused) if capture else {}
    users = dict(_users(workspace, models, alone))
    return {
        "directory": str(repository_path(directory)),
        "models": [
            _planned(workspace, each, users=users, captured=captured, include=include) for each in report.reports
        ],
        "bytes": report.bytes,
        "beside": _beside(report),
        "environment": _environment(report),
        "artifacts": [_artifact(file, text) for file, text in (artifacts or {}).items()],
        "requests": _requests(workspace, report, last) if verify else None,
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
    """Write the models, and those they need, as a repository, with all that was chosen (`tritonlab.export`). Artifacts
    are expressions of the notebook. Meanwhile `job` can be cancelled."""
    values = {file: _value(file, text) for file, text in (artifacts or {}).items()}
    cancel = threading.Event()
    with _guard:
        _running[job] = cancel
    try:
        report = export_models(
            workspace,
            list(models),
            directory,
            artifacts=values,
            progress=_progress(tell),
            say=lambda line: tell({"line": line}),
            cancel=cancel,
            **options,
        )
    finally:
        with _guard:
            _running.pop(job, None)
    with _guard:
        _done[job] = report
        for old in list(_done)[:-_KEPT]:
            del _done[old]
    return _written(report)


def zip_export(workspace: Workspace, job: str) -> JsonAnswer:
    """Pack what an export has written, beside the repository (`report.zip()`)."""
    with _guard:
        report = _done.get(job)
    if report is None:
        raise NotFoundError("that export is not known any more: export again")
    archive = report.zip()
    path = archive.path
    return {"path": str(path), "relative": os.path.relpath(path, _START), "bytes": path.stat().st_size}


def cancel_export(workspace: Workspace, job: str) -> JsonAnswer:
    """Ask an export to end; it takes back what it has begun. Return whether it was under way."""
    with _guard:
        found = _running.get(job)
    if found is not None:
        found.set()
    return {"cancelled": found is not None}


# -- what would be done


class _Captured(NamedTuple):
    """The names that would be written in front of a model, and whether these are all that it lacks."""

    names: list[str]
    is_whole: bool


def _dry_run(
    workspace: Workspace,
    models: Sequence[str],
    directory: str,
    refused: dict[str, JsonAnswer],
    alone: bool,
    include: Sequence[str],
    target: str,
    env: str,
    deploy: Sequence[str],
) -> ExportReport:
    """Return the report of a dry run, without the environment or the deploy files if these are refused."""
    while True:
        try:
            return export_models(
                workspace,
                list(models),
                directory,
                alone=alone,
                include=include,
                target=target,
                env="none" if "env" in refused else env,
                deploy=() if "deploy" in refused else deploy,
                dry_run=True,
            )
        except EnvironmentRefused as error:
            refused["env"] = {"text": str(error), "fix": error.remedy()}
        except ExportOptionError as error:
            refused["deploy"] = {"text": str(error), "fix": error.remedy(), "is_place": error.is_place}


def _users(workspace: Workspace, models: Sequence[str], alone: bool) -> Iterator[tuple[str, str]]:
    """Yield the models that go with those requested, each with one that needs it."""
    for name in () if alone else reversed(models):
        for needed in needed_models(workspace.server.model(name)).loaded:
            if needed.name not in models:
                yield needed.name, name


def _planned(
    workspace: Workspace,
    report: ExportReport,
    users: Mapping[str, str],
    captured: Mapping[str, _Captured],
    include: Sequence[str],
) -> dict[str, Any]:
    plan, name, found = report.plan, report.path.name, report.preflight
    kinds = {kind: list(getattr(plan, kind)) for kind in ("added", "changed", "removed", "unchanged")}
    directory = Path(workspace.server.model(name).directory)
    left = read_tree(
        directory, include=(), inside=workspace.server.core.repository.inside_of(name, directory)
    ).left_out
    written = captured.get(name, _Captured([], False))
    findings = found.cited(workspace.shell.cite).findings if found is not None else ()
    listed = {*map(str, findings), *left_out.sentences(each for each in left if each.path not in include)}
    return {
        "name": name,
        "needed_by": users.get(name, ""),
        "path": str(plan.path),
        "exists": plan.path.exists(),
        "differs": plan.differs,
        "bytes": plan.bytes,
        **kinds,
        "warnings": [each for each in plan.warnings if each not in listed],
        "findings": [each.to_dict() for each in findings if not (each.row == "P1" and written.is_whole)],
        "notes": list(found.notes) if found is not None else [],
        "captured": written.names,
        "left_out": list(_left_out(left, include)),
    }


def _left_out(left: Sequence[Omitted], include: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the files that are left out unless they are requested, including those that are."""
    for entry in left:
        if entry.reason not in (Omission.DANGLING, Omission.SPECIAL):
            large = int(entry.detail) if entry.reason is Omission.LARGE else None
            yield {"path": entry.path, "why": entry.reason.value, "bytes": large, "included": entry.path in include}


def _captured(workspace: Workspace, models: Sequence[str], refused: dict[str, JsonAnswer]) -> dict[str, _Captured]:
    """Return what would be captured, by model."""
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


def _beside(report: ExportReport) -> JsonAnswer:
    return report.beside.to_dict() if report.beside is not None and report.beside.files else None


def _environment(report: ExportReport) -> JsonAnswer:
    found = report.environment
    return {**found.to_dict(), "text": str(found)} if found is not None else None


def _artifact(file: str, text: str) -> dict[str, Any]:
    """Return whether an expression can be kept as a file, and the bytes of a variable that knows how many it has."""
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


def _requests(workspace: Workspace, report: ExportReport, most: int | None) -> dict[str, Any]:
    """Return how many requests would be sent for a proof, and which models get none. `kept`: the most last requests of
    one model that there are, of which `most` are sent."""
    names = [each.path.name for each in report.reports]
    kept = Counter(case.model for case in GoldenSet().cases() if case.model in names)
    models = [workspace.server.model(name) for name in names]
    there = Counter(case.model for case in last_cases(models))
    last = there if most is None else Counter(case.model for case in last_cases(models, most))
    text = f"{kept.total()} golden, and {last.total()} of the {there.total()} last ones of the notebook"
    silent = [name for name in names if not kept[name] + last[name]]
    problem = f"there is none for {', '.join(silent)}, so nothing is proved of it: {NO_REQUEST}" if silent else ""
    return {"text": text, "problem": problem, "kept": max(there.values(), default=0)}


def _judge(release: str) -> dict[str, Any]:
    """Return who would judge at a release, and what it takes to have it."""
    if release == "path":
        return {"release": release, "problem": "", "cached": True, "text": "the tritonserver on PATH"}
    try:
        wheel = find_wheel(find(release).triton.value)
    except (UnknownTarget, NoWheel) as error:
        return {"release": release, "problem": str(error), "cached": False, "text": ""}
    text = "is in the cache" if wheel.is_cached else f"{wheel.size}, kept for the next time"
    return {"release": release, "problem": "", "cached": wheel.is_cached, "text": f"Triton {wheel.triton}: {text}"}


# -- what is done


def _value(file: str, text: str) -> Any:
    """Return the value of an expression of the notebook. Raises InvalidArgumentError."""
    try:
        return eval(text, dict(user_namespace()))
    except Exception as error:  # of the author's expression; our frames tell nothing
        raise InvalidArgumentError(f"{file} = {text}: {type(error).__name__}: {error}") from None


def _progress(tell: Tell) -> Callable[[int, int], None]:
    last = 0.0

    def copied(done: int, total: int) -> None:
        nonlocal last
        if done >= total or time.monotonic() - last >= _TELL_EVERY:
            last = time.monotonic()
            tell({"done": done, "total": total})

    return copied


def _written(report: ExportReport) -> dict[str, Any]:
    verdict = report.verification
    return {
        "repository": str(report.repository),
        "relative": os.path.relpath(report.repository, _START),
        "models": [
            {
                "name": each.path.name,
                "path": str(each.path),
                "files": list(each.plan.files),
                "changed": each.plan.differs,
                "backup": str(each.backup) if each.backup is not None else "",
                "warnings": list(each.plan.warnings),
            }
            for each in report.reports
        ],
        "beside": _beside(report),
        "environment": _environment(report),
        "tree": report.tree(),
        "commands": list(report.commands()),
        "verification": {
            "passed": verdict.passed,
            "releases": [
                {"triton": each.release, "passed": each.passed, "verified": each.verified, "verdict": each.verdict}
                for each in verdict.releases
            ],
            "not_verified": list(verdict.not_verified),
            "page": str(verdict.page),
            "relative": os.path.relpath(verdict.page, _START),
        }
        if verdict is not None
        else None,
    }
