"""`tritonlab check`: the models of a repository, checked without a notebook."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core.whole_file import write_file
from ...exchanges.golden import GoldenSet, golden_beside
from ...repository.layout import chosen_models
from ...server.api.model import Model
from ...server.api.server import Server
from ..each_model import FAILED, NOTHING, PASSED, judge_each
from .check_result import CheckResult, junit_xml
from .run import CheckOptions, check_model


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
    golden = GoldenSet(golden_beside(repository))

    def check(server: Server, model: Model) -> CheckResult:
        options = CheckOptions(
            seconds, seed, relations=relations, side_effects=side_effects, progress=_progress(model.name)
        )
        return check_model(model, options, golden=golden)

    results: list[tuple[str, CheckResult | str]] = []
    for name, result in judge_each(repository, chosen, check):
        results.append((name, result))
        if isinstance(result, str):
            continue
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
