"""`tritonlab tap` as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.reference import ROOT

STOP_SECONDS = 60.0


class TapProcess:
    """A tap in front of servers, each at an address of its own. A `with` kills what is left of it.

    upstreams: addresses of the servers; `addresses`: those of the tap, in the same order
    """

    def __init__(self, upstreams: Sequence[str], file: Path, *options: str) -> None:
        pairs = [word for each in upstreams for word in ("--listen", "127.0.0.1:0", "--upstream", each)]
        command = [sys.executable, "-m", "tritonlab", "tap", *pairs, "--write", str(file), *options]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in upstreams]
        if not all(lines):
            raise RuntimeError(self.process.communicate(timeout=STOP_SECONDS)[1])
        self.addresses = [line.split()[1] for line in lines]

    def stop(self) -> str:
        """End it orderly, and return its report."""
        self.process.terminate()
        out, err = self.process.communicate(timeout=STOP_SECONDS)
        assert self.process.returncode == 0, err
        return out + err

    def __enter__(self) -> TapProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()
