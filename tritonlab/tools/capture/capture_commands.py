"""`%triton capture` and `tritonlab capture`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core.status import TritonError
from ...notebook.authoring.errors import OptionError
from ...notebook.shell.subcommand import Context, Text
from .capture_rules import CaptureRules
from .capture_source import convert
from .server_capture import RunningCapture


def run(file: str, sources: Sequence[str], as_json: bool = False, **options: Any) -> int:
    """Make a capture of files, and print its counts. Return 1 if requests were lost."""
    try:
        report = convert([Path(each) for each in sources], file, rules_of(**options))
    except (OSError, ValueError, TritonError) as error:
        print(f"tritonlab capture: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report.to_dict()) if as_json else report)
    return 1 if report.lost else 0


def capture(
    context: Context,
    file: str | None = None,
    models: Sequence[str] = (),
    stop: bool = False,
    sources: Sequence[str] = (),
    **options: Any,
) -> Any:
    """Begin, show or end captures of the notebook's server, or make one of files."""
    if sources and file is not None:
        return convert([Path(each) for each in sources], file, rules_of(**options))
    server = context.workspace.server
    found = [each for each in server.instruments if isinstance(each, RunningCapture)]
    if file is not None and not stop:
        for name in models:
            context.check_known(name)
        return RunningCapture(server, file, models, rules_of(**options))
    if file is not None:
        found = [each for each in found if os.path.abspath(each.report.path) == os.path.abspath(file)]
    if not found:
        advice = "'%triton capture FILE' begins a capture"
        raise OptionError(f"nothing is captured{'' if file is None else f' to {file}'}; {advice}", fix=advice)
    for each in found if stop else ():
        each.stop()
    if len(found) == 1:
        return found[0]
    return Text("\n".join(map(repr, found)), {"captures": [each.to_dict() for each in found]})


def rules_of(
    sample: float = 1.0,
    per_minute: int = 0,
    only: Sequence[str] = (),
    redact: Sequence[str] = (),
    max_mb: int | None = None,
) -> CaptureRules:
    """Return the rules that the options of a command name. Raises OptionError."""
    slower_than = None
    for kind in only:
        name, _, seconds = kind.partition("=")
        if name == "slow" and _is_number(seconds):
            slower_than = float(seconds)
        elif kind != "errors":
            raise OptionError(f"--only {kind} names no kind of requests: write errors, or slow=0.2 for seconds")
    ways = {}
    for rule in redact:
        pattern, equals, way = rule.rpartition("=")
        if not equals or not pattern:
            raise OptionError(f"--redact {rule} has no PATTERN=HOW: write TEXT=drop, TEXT=hash or TEXT=shape")
        ways[pattern] = way
    size: dict[str, Any] = {} if max_mb is None else {"most_bytes": max_mb * 10**6}
    try:
        return CaptureRules(
            share=sample,
            per_minute=per_minute,
            only_errors="errors" in only,
            slower_than=slower_than,
            redact=ways,
            **size,
        )
    except ValueError as error:
        raise OptionError(str(error)) from None


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False
