"""An export that may open no more files says so and leaves nothing, however many it could open before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, resource, sys
from pathlib import Path
from tests.models import IDENTITY
from tests.serving import Lab, config
from tritonlab import export
from tritonlab.repository.place import NoRepository

root = Path(sys.argv[1])
lab = Lab(root / "models", warm=0)  # a standby comes half a second later, and opens and closes files meanwhile
model = lab.load("plain", IDENTITY, config("IN FP32 -1", "OUT FP32 -1"))
export(model, root / "first")  # which imports what it needs
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
refused = 0
for spare in range(20):
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    for file in taken[:spare]:
        os.close(file)
    error = None
    try:
        export(model, root / "out")
    except NoRepository as raised:
        error = raised
    for file in taken[spare:]:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if error is None:
        break
    refused += 1
    assert "was not exported" in str(error) and "`ulimit -n`" in str(error), error
    assert sorted(os.listdir(root)) == ["first", "first.export.json", "models"], os.listdir(root)
left = ["first", "first.export.json", "models", "out", "out.export.json"]
assert refused >= 2 and sorted(os.listdir(root)) == left, (refused, os.listdir(root))
lab.server.stop()
"""


def test_too_many_open_files_are_named_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=120, cwd=root
    )
    assert done.returncode == 0, done.stderr
