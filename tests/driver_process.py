"""A DriverProcess is another process with a simulated driver of its own: what a process does to memory of another is
tested with two."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.test_layering import PACKAGE

_LOOP = """
import json, sys
sys.path.insert(0, sys.argv[1])
from _pb_stub.devices.driver import DriverError
from _pb_stub.devices.gpus import SIMULATED
for line in sys.stdin:
    name, arguments = json.loads(line)
    made = bytearray if name == "copy_out" else bytes
    arguments = [made.fromhex(each) if isinstance(each, str) else each for each in arguments]
    try:
        value = getattr(SIMULATED, name)(*arguments)
        filled = arguments[-1].hex() if name == "copy_out" else None
        print(json.dumps([value.hex() if isinstance(value, bytes) else value, filled, None]), flush=True)
    except DriverError as error:
        print(json.dumps([None, None, str(error)]), flush=True)
"""


class DriverProcess:
    """A process that calls its driver's methods on request. Bytes go and come as hex text; use it in a `with`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LOOP, str(PACKAGE / "stub")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> DriverProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill the process and wait until it is gone."""
        self.process.kill()
        self.process.communicate()

    def call(self, name: str, *arguments: Any) -> Any:
        """Return what the method returns there. Raise AssertionError with the text of a DriverError."""
        assert self.process.stdin is not None and self.process.stdout is not None
        sent = [each.hex() if isinstance(each, (bytes, bytearray)) else each for each in arguments]
        self.process.stdin.write(json.dumps([name, sent]) + "\n")
        self.process.stdin.flush()
        value, filled, error = json.loads(self.process.stdout.readline())
        assert error is None, error
        return value if filled is None else bytes.fromhex(filled)
