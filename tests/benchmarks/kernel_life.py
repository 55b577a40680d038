"""A kernel watched from outside: what it keeps, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.conformance.models import ADD_SUB, ADD_SUB_CONFIG
from tests.conformance.reference import ROOT

from .measuring import place


def child(scratch: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a kernel, `python -m tests.benchmarks.kernel_process ...`, which prints JSON lines."""
    repository = scratch / "child"
    place(repository, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    place(repository, "pair", ADD_SUB, ADD_SUB_CONFIG.replace("KIND_CPU", "KIND_CPU count: 2"))
    command = [sys.executable, "-m", "tests.benchmarks.kernel_process", str(repository), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def growth(scratch: Path) -> float:
    """Return the MB by which kernel and stub together grew between request 1,000 and request 20,000."""
    with child(scratch, "soak") as process:
        assert process.stdout is not None
        early, late = (json.loads(process.stdout.readline()) for _ in range(2))
    return float(max(late["kernel"] - early["kernel"], late["stub"] - early["stub"])) / 1e6


def churned(scratch: Path, models: int = 50) -> dict[str, float]:
    """Return by how much a kernel grew between 20,000 and 100,000 requests to models loaded and unloaded at random:
    MB of memory, descriptors, threads."""
    for number in range(models):
        place(scratch / "child", f"model_{number}", ADD_SUB, ADD_SUB_CONFIG)
    with child(scratch, "churn") as process:
        assert process.stdout is not None
        early, late = (json.loads(process.stdout.readline()) for _ in range(2))
    grown = {name: float(late[name] - early[name]) for name in late}
    return {**grown, "memory": grown["memory"] / 1e6}


def left_after_sigkill(scratch: Path) -> int:
    """Return how many processes of a killed kernel are there 2 s later, and how many new names in /dev/shm."""
    before = set(os.listdir("/dev/shm"))
    with child(scratch, "wait") as process:
        assert process.stdout is not None
        pids = json.loads(process.stdout.readline())["children"]
        assert pids, "the kernel started no stub"
        process.send_signal(signal.SIGKILL)
        process.wait()
    time.sleep(2)
    alive = [pid for pid in pids if running(pid)]
    return len(alive) + len(set(os.listdir("/dev/shm")) - before)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
