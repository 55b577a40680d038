from __future__ import annotations

import subprocess
import sys

import pytest

#: Faults of a process that takes and frees 32 MB twenty times.
FAULTS = """
import resource, sys
from tritonlab.frontends.cli.serve import keep_freed_memory

if sys.argv[1] == "kept" and not keep_freed_memory():
    sys.exit(3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    bytes(32 << 20)
    b"1" * (32 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("this malloc is not glibc's")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_freed_memory_is_used_again() -> None:
    assert faults("kept") * 4 < faults("given back")
