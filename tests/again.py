"""A run of pytest in which the few tests that failed get a second run, alone.

    python -m tests.again -n 3 tests notebooks

Two workers and the real server, which crashes now and then, share two cores, and among ten thousand tests of processes,
sockets and a browser one or two meet a moment of the machine that they did not allow for. CPython's test runner answers
that with `--rerun`, and so does this one: what fails once more has failed, what passes is named at the end as racing,
to be fixed. A defect in the code fails both times, and failures in many files are no accident: they are not run again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

#: Failures in more files than these are not the machine's.
MOST = 5

_SOME_FAILED = 1  # pytest's exit status

#: Seconds after which a test ends its process and prints the stacks of all threads. pytest-timeout raises in the test
#: before that, but what the test does then may hang as well, and the whole run with it.
HANGS = 700


def run(arguments: Sequence[str], once_more: Sequence[str] = ()) -> int:
    """Run pytest with these arguments and return its exit status; that of the second run if there was one, which gets
    `once_more` instead.
    """
    with tempfile.TemporaryDirectory() as cache:
        began, before = time.monotonic(), psutil.cpu_times()
        status = _pytest(cache, arguments)
        _print_load(time.monotonic() - began, before)
        failed = _failed(Path(cache))
        if status != _SOME_FAILED or not 0 < len({test.partition("::")[0] for test in failed}) <= MOST:
            return status
        print(f"\n{len(failed)} failed and run again, alone:", *failed, sep="\n  ", flush=True)
        status = _pytest(cache, [*once_more, *failed])
        still = set(_failed(Path(cache)))
        racing = [test for test in failed if test not in still]
        if status in (0, _SOME_FAILED) and racing:
            print("RACING, passed when run again alone; fix them:", *racing, sep="\n  ", flush=True)
        return status


def _pytest(cache: str, arguments: Sequence[str]) -> int:
    settings = {"cache_dir": cache, "faulthandler_timeout": HANGS, "faulthandler_exit_on_timeout": "true"}
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    return subprocess.run([sys.executable, "-m", "pytest", *options, *arguments]).returncode


def _print_load(seconds: float, before: Any) -> None:
    """Print how busy the machine was: where it was, only less work makes the run shorter, elsewhere more workers do."""
    now = psutil.cpu_times()
    idle = now.idle - before.idle
    print(f"the processors were busy for {1 - idle / (sum(now) - sum(before)):.0%} of {seconds:.0f} s", flush=True)


def _failed(cache: Path) -> list[str]:
    kept = cache / "v" / "cache" / "lastfailed"
    return list(json.loads(kept.read_text())) if kept.exists() else []


if __name__ == "__main__":
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    sys.exit(run(sys.argv[1:split], sys.argv[split + 1 :]))
