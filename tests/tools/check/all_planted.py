"""Checks of all planted models, with all relations: `python -m tests.tools.check.all_planted [SECONDS [NAME…]]`."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

from tests.tools.check import held, planted
from tests.tools.check.exam import every
from tests.tools.check.test_check import write
from tritonlab.notebook.model import Server


def main(arguments: list[str]) -> int:
    seconds, names = float(arguments[0]) if arguments else 60.0, arguments[1:]
    wrong = 0
    for model in (*planted.BUGS, *held.BUGS, *planted.CORRECT, *held.CORRECT):
        if names and model.name not in names:
            continue
        with tempfile.TemporaryDirectory() as directory:
            write(model, Path(directory))
            with Server(directory, model_control_mode="explicit") as server:
                began = time.monotonic()
                result = server.load(model.name).check(seconds)
        found = [one for one in every(result) if re.fullmatch(model.relation, one.relation)]
        good = any(re.search(model.words, one.sentence) for one in found) if model.relation else result.ok
        wrong += not good
        kinds = [f"{one.relation}/{one.case.kind}" + f" +{len(one.also)}" * bool(one.also) for one in result.findings]
        spent = f"{time.monotonic() - began:.1f} s"
        wanted = model.relation or "correct"
        print(f"{'good' if good else 'BAD '} {model.name}: {wanted}; found {kinds}, {spent}", flush=True)
        if not good or names:
            print(result.text())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
