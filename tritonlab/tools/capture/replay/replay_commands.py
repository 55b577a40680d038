"""`%triton replay`, and `tritonlab replay`, which sends a capture to the models of a repository."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ....core.junit import JUnitTest, junit_xml
from ....core.status import TritonError
from ....core.whole_file import write_file
from ....exchanges.remote.remote_server import connect
from ....notebook.shell.subcommand import Context
from ....repository.layout import chosen_models
from ....server.api.model import Model
from ....server.api.server import Server
from ...each_model import FAILED, NOTHING, PASSED, judge_each
from ..capture_file import Capture
from .replay_verdict import DEFAULT_FAIL_ON, FAIL_ON, ReplayVerdict, page_of
from .replaying import replay as replay_capture


def replay(context: Context, name: str, capture: str, against: str = "", **options: Any) -> ReplayVerdict:
    """Replay a capture in a notebook and return the verdict. An interrupt ends it with the answers so far."""
    old = context.model(against) if against else None
    return replay_capture(context.model(name), capture, against=old, **_paced(options))


def run(
    capture: Path,
    repository: Path,
    *,
    models: Sequence[str] = (),
    against: str = "",
    speed: str = "1",
    limit: int | None = None,
    seconds: float | None = None,
    fail_on: Sequence[str] | None = None,
    junit: Path | None = None,
    page: Path | None = None,
    as_json: bool = False,
) -> int:
    """Replay a capture to the models of a repository that it has requests to, and print the verdicts. Return the exit
    status.

    Args:
        capture: the file.
        repository: the model repository.
        models: the only ones of them.
        against: the address of a server with the old models.
        speed: the factor of the recorded pace, or `max`.
        limit: the most requests to each model.
        seconds: replay only so many seconds of the capture.
        fail_on: the kinds of changes for which the exit status is 1.
        junit: where JUnit's XML goes.
        page: where the page goes.
        as_json: whether the verdicts are printed as JSON.
    """
    words = DEFAULT_FAIL_ON if fail_on is None else tuple(fail_on)
    try:
        if unknown := [word for word in words if word not in FAIL_ON]:
            raise ValueError(f"--fail-on has no '{unknown[0]}': it takes {','.join(FAIL_ON)}")
        found = Capture(capture)
        named = {each.exchange.model for each in found}
        chosen = [name for name in chosen_models(repository, models) if name in named]
        options = _paced({"speed": speed, "limit": limit, "seconds": seconds})
        elsewhere = connect(against) if against else None
    except (OSError, ValueError, TritonError) as error:
        print(f"tritonlab: {error}", file=sys.stderr)
        return NOTHING
    verdicts: list[ReplayVerdict] = []
    problems: dict[str, str] = {}

    def judge(server: Server, model: Model) -> ReplayVerdict:
        old = elsewhere.model(model.name) if elsewhere is not None else None
        return replay_capture(model, found, against=old, **options)

    with elsewhere or nullcontext():
        for name, verdict in judge_each(repository, chosen, judge):
            if isinstance(verdict, str):
                problems[name] = verdict
                continue
            verdicts.append(verdict)
            if not as_json:
                print(verdict.text(), flush=True)
            if verdict.stopped:
                break
        _write(verdicts, problems, words, junit=junit, page=page)
    if as_json:
        print(json.dumps([verdict.to_dict() for verdict in verdicts], indent=1))
    if not chosen:
        has = ", ".join(sorted(named)) or "none"
        print(f"tritonlab: no request was sent: the capture has requests to {has}", file=sys.stderr)
    if any(verdict.failures(words) for verdict in verdicts):
        return FAILED
    is_complete = bool(verdicts) and not problems and all(each.proves and not each.stopped for each in verdicts)
    return PASSED if is_complete else NOTHING


def _paced(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `replay` that are given. Raises ValueError for a speed that is neither a number nor
    `max`."""
    found = {name: value for name, value in options.items() if value is not None}
    if "speed" in found:
        found["speed"] = None if found["speed"] == "max" else float(found["speed"])
    return found


def _write(
    verdicts: Sequence[ReplayVerdict],
    problems: dict[str, str],
    words: Sequence[str],
    *,
    junit: Path | None,
    page: Path | None,
) -> None:
    for path in (junit, page):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
    if junit is not None:
        suites = [(verdict.model.name, verdict.junit_tests(words)) for verdict in verdicts]
        suites += [(name, [JUnitTest("replay", error=problem)]) for name, problem in problems.items()]
        write_file(junit, junit_xml(suites))
    if page is not None and verdicts:
        write_file(page, page_of(verdicts))
