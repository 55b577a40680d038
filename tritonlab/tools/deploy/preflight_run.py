"""`tritonlab preflight`: models of a directory, loaded here and judged for the place where they are to run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...core.config.model_config import ConfigError
from ...core.status import TritonError
from ...core.version import DEFAULT_TARGET
from ...exchanges.golden import GoldenSet, golden_beside
from ...repository.layout import is_model_directory, model_names
from ...server.api.server import Server
from .preflight.finding import Finding, Prediction, Preflight, say_once
from .preflight.judge import judge, preflight, subject_in
from .preflight.trial import try_models
from .releases import UnknownTarget, find_target

#: Exit statuses: nothing stops the models, something does, or there was nothing to judge.
PASSED, FAILED, NOTHING = 0, 1, 2
_REPOSITORY = Path("model_repository")


def run(folder: str, target: str = DEFAULT_TARGET, *, as_json: bool = False) -> int:
    """Judge the model directory, the models of the repository, or the model of that name in ./model_repository, and
    print what is found. Return the exit status."""
    try:
        find_target(target)
        repository, names = _models(Path(folder))
    except (UnknownTarget, FileNotFoundError) as error:
        print(f"tritonlab: {error}", file=sys.stderr)
        return NOTHING
    found = say_once(_judge_models(repository, names, target))
    if as_json:
        print(json.dumps([each.to_dict() for each in found], indent=1))
    else:
        print("\n".join(map(str, found)))
    return PASSED if all(each.passed for each in found) else FAILED


def _models(folder: Path) -> tuple[Path, list[str]]:
    """Return the repository and the names of its models that are to be judged. Raises FileNotFoundError."""
    if not folder.is_dir() and (_REPOSITORY / folder).is_dir():
        folder = _REPOSITORY / folder
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no model directory, nor a repository, {folder}")
    folder = folder.resolve()
    if is_model_directory(folder):
        return folder.parent, [folder.name]
    names = model_names(folder)
    if not names:
        raise FileNotFoundError(f"{folder} is not a model directory: it has no config.pbtxt and no version directory")
    return folder, names


def _judge_models(repository: Path, names: list[str], target: str) -> Iterator[Preflight]:
    failed = {}
    with Server(repository, model_control_mode="explicit", warm=0) as server:
        for name in names:
            try:
                server.load(name)
            except TritonError as error:
                failed[name] = error.symptom().strip().splitlines()[0]
        loaded = [server.model(name) for name in names if name not in failed]
        trials = try_models(loaded, GoldenSet(golden_beside(repository)).cases())
        for name in names:
            if name in failed:
                yield _not_loaded(repository / name, target, failed[name])
            else:
                yield preflight(server.model(name), target, trial=trials.get(name))


def _not_loaded(directory: Path, target: str, why: str) -> Preflight:
    failed = Finding("P0", f"it does not load here ({why})", "fix that first", outcome=Prediction.LOAD)
    try:
        found = judge(subject_in(directory), target)
    except ConfigError:  # `why` says what is wrong with it
        return Preflight(directory.name, str(find_target(target)), (failed,))
    return replace(found, findings=(failed, *found.findings))
