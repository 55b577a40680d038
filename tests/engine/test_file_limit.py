"""Files that a process may no longer open: it says so, and what to do, instead of blaming the stub."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.models import IDENTITY
from tests.serving import config

SCRIPT = """
import os, resource, sys
from tritonlab import Server
from tritonlab.core.status import TritonError

with Server(sys.argv[1], model_control_mode="explicit", warm=0) as server:
    server.load("first")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    refused = []
    for spare in range(0, 200, 2):
        open_now = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + spare, limit))
        try:
            server.load("second")
            break
        except TritonError as error:
            refused.append(str(error))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    assert server.model("first").ready() and server.model("second").ready()
    print(*refused, sep="\\n")
"""


def test_too_many_open_files_are_named_as_the_cause(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "model.py").write_text(textwrap.dedent(IDENTITY))
        (tmp_path / name / "config.pbtxt").write_text(config("IN FP32 -1", "OUT FP32 -1"))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=120, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    refused = [line for line in done.stdout.splitlines() if "Stub process" in line]
    assert refused, done.stdout
    for line in refused:
        assert "cannot be started: too many open files: this process may have " in line, line
        assert "`ulimit -n`" in line
    assert "not healthy" not in done.stdout
