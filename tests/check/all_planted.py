"""Checks of all planted models, with all relations: `python -m tests.check.all_planted [SECONDS [NAME…]]`."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

from tests.check.planted import BUGS, CORRECT
from tests.check.test_check import write
from tritonlab.notebook.model import Server


def main(arguments: list[str]) -> int:
    seconds, names = float(arguments[0]) if arguments else 60.0, arguments[1:]
    wrong = 0
    for planted in (*BUGS, *CORRECT):
        if names and planted.name not in names:
            continue
        with tempfile.TemporaryDirectory() as directory:
            write(planted, Path(directory))
            with Server(directory, model_control_mode="explicit") as server:
                began = time.monotonic()
                result = server.load(planted.name).check(seconds)
        found = [one for one in result.findings if one.relation == planted.relation]
        good = any(re.search(planted.words, one.sentence) for one in found) if planted.relation else result.ok
        wrong += not good
        kinds = [f"{one.relation}/{one.case.kind}" for one in result.findings]
        spent = f"{time.monotonic() - began:.1f} s"
        wanted = planted.relation or "correct"
        print(f"{'good' if good else 'BAD '} {planted.name}: {wanted}; found {kinds}, {spent}", flush=True)
        if not good or names:
            print(result.text())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
