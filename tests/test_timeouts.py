from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.serving import NO_PLUGINS

HANGS = """
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

def test_hangs():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(Event().wait).result()

def test_next(): Thread(target=Event().wait).start()
"""


def test_a_test_that_goes_on_waiting_after_its_time_fails_and_the_run_ends(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(HANGS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 2\n")
    command = [sys.executable, "-m", "pytest", "-p", "pytest_timeout", "-p", "tests.timeouts", "-q"]
    environment = {**os.environ, **NO_PLUGINS, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout
    assert "Timeout (0:00:01)!" in done.stderr and " in wait\n" in done.stderr, done.stderr


def test_an_interrupt_that_leaves_a_test_fails_it_and_not_the_worker(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_ends(): raise KeyboardInterrupt\ndef test_next(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "tests.timeouts", "-q", "-n", "1"]
    environment = {**os.environ, **NO_PLUGINS, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout
