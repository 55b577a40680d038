"""The lines that are seen to take time are those that take it: known times, in several Pythons."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.interpreters import environment
from tests.stub import profiled_lines

STUB = Path(__file__).parents[3] / "tritonlab" / "stub"
#: Seconds of each function: some 130 looks.
SECONDS = 0.8
#: Of two lines of which one takes so many times the time of the other, the order is right.
CLEAR = 3.0
#: By how much a share of the time may be off, four standard deviations of 60 looks: on a busy machine there are fewer.
OFF = 0.26


@pytest.mark.parametrize("version", ["3.9", "3.11", "3.13"])
def test_lines_are_seen_in_the_order_of_their_times(version: str) -> None:
    python = environment(version) / "bin" / "python"
    done = subprocess.run(
        [str(python), profiled_lines.__file__, str(STUB), str(SECONDS)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 12
    wrong = {}
    for name, times in found.items():
        true, seen = times["true"], times["seen"]
        whole, all_seen = sum(true.values()), sum(seen.values()) or 1.0
        for one, other in itertools.permutations(true, 2):
            if true[one] > CLEAR * true[other] and seen.get(one, 0.0) <= seen.get(other, 0.0):
                wrong[f"{name}: {one} before {other}"] = times
        if name != "pool":  # its thread hands the interpreter's lock over, which takes time of no line
            for line in true:
                if abs(seen.get(line, 0.0) / all_seen - true[line] / whole) > OFF:
                    wrong[f"{name}: {line}"] = times
    assert wrong == {}
    assert {times["way"] for times in found.values()} <= {"sampling", "monitoring", "monitoring, then sampling"}
