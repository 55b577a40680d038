"""`tritonlab check`: the models of a repository, checked without a notebook."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core.status import TritonError
from ...core.whole_file import write_file
from ...exchanges.golden import GoldenSet, golden_beside
from ...repository.layout import chosen_models
from ...server.api.server import Server
from .check_result import CheckResult, junit_xml
from .run import CheckOptions, check_model

#: Exit statuses: nothing was found, something was, or a model could not be checked.
PASSED, FAILED, NOTHING = 0, 1, 2


def run(
    repository: Path,
    models: Sequence[str] = (),
    *,
    seconds: float = 60.0,
    seed: int = 0,
    relations: Sequence[str] | None = None,
    side_effects: bool = False,
    junit: Path | None = None,
    tests: Path | None = None,
    as_json: bool = False,
) -> int:
    """Check models of a repository, all of them if `models` is empty, and print what is found. Return the exit status.

    `junit`: where JUnit's XML goes; `tests`: where a pytest of each finding goes.
    """
    try:
        chosen = chosen_models(repository, models)
    except FileNotFoundError as error:
        print(f"tritonlab: {error}", file=sys.stderr)
        return NOTHING
    results: list[tuple[str, CheckResult | str]] = []
    golden = GoldenSet(golden_beside(repository))
    with Server(repository, model_control_mode="explicit") as server:
        for name in chosen:
            options = CheckOptions(
                seconds, seed, relations=relations, side_effects=side_effects, progress=_progress(name)
            )
            try:
                result = check_model(server.load(name), options, golden=golden)
            except TritonError as error:
                why = error.line()
                results.append((name, why))
                print(f"tritonlab: {name}: {why}", file=sys.stderr, flush=True)
                continue
            results.append((name, result))
            if not as_json:
                print(result.text(), flush=True)
            if result.stopped:
                break
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps([_facts(name, result) for name, result in results], indent=1))
    if junit is not None:
        junit.parent.mkdir(parents=True, exist_ok=True)
        write_file(junit, junit_xml(results))
    checked = [result for _, result in results if isinstance(result, CheckResult)]
    findings = [finding for result in checked for finding in result.findings]
    if tests is not None:
        tests.mkdir(parents=True, exist_ok=True)
        for finding in findings:
            finding.to_pytest(tests)
    if findings:
        return FAILED
    is_complete = len(checked) == len(results) and all(each.checked and not each.stopped for each in checked)
    return PASSED if is_complete else NOTHING


def _progress(name: str) -> Any:
    if not sys.stderr.isatty():
        return None
    return lambda doing: print(f"\r\x1b[K{name}: {doing}", end="", file=sys.stderr, flush=True)


def _facts(name: str, result: CheckResult | str) -> dict[str, Any]:
    """Return a result as JSON values; for a model that could not be checked, its name and why."""
    return result.to_dict() if isinstance(result, CheckResult) else {"model": name, "checked": False, "error": result}
