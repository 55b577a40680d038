"""The way of a request through the package, from the notebook's call to the stub and back: how deep, how wide.

`python -m tests.request_walk` prints it; `make sizes` does so beside the sizes. It counts the calls of one request
to an `add_sub` that serves already, on the caller's thread, as `sys.setprofile` reports them.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from tests.models import ADD_SUB, ADD_SUB_CONFIG
from tests.serving import write_model
from tests.test_layering import PACKAGE
from tritonlab import Model, Server


@dataclass
class Walk:
    """The calls of one request: our frames on the stack when its message is sent, outermost first, our modules that
    have run by its end, and how often a function of ours was called."""

    sent: list[str] = field(default_factory=list)
    modules: set[str] = field(default_factory=set)
    calls: int = 0

    def __str__(self) -> str:
        return (
            f"a request in the kernel: {len(self.sent)} frames deep when it is sent to the stub, "
            f"{len(self.modules)} modules, {self.calls} calls"
        )

    def on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count an event of `sys.setprofile`."""
        module = _module(frame)
        if event == "call" and module:
            self.calls += 1
            self.modules.add(module)
        elif event == "c_call" and argument.__name__ == "send" and not self.sent:
            self.sent = [name for caller in _stack(frame) if (name := _name(caller))]


def _stack(frame: FrameType) -> list[FrameType]:
    """Return the frames of the thread, outermost first."""
    found: list[FrameType] = []
    caller: FrameType | None = frame
    while caller is not None:
        found.append(caller)
        caller = caller.f_back
    return found[::-1]


def _module(frame: FrameType) -> str:
    """Return the path of our module that the frame is of; "" if it is of another's."""
    path = Path(frame.f_code.co_filename)
    return str(path.relative_to(PACKAGE)) if path.is_relative_to(PACKAGE) else ""


def _name(frame: FrameType) -> str:
    module = _module(frame)
    return f"{module} {frame.f_code.co_qualname}" if module else ""


def walk(model: Model) -> Walk:
    """Send `model` a request and return its way."""
    array = np.ones(4, np.float32)
    found = Walk()
    for _ in range(10):
        model(INPUT0=array, INPUT1=array)
    sys.setprofile(found.on_event)
    try:
        model(INPUT0=array, INPUT1=array)
    finally:
        sys.setprofile(None)
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        write_model(Path(scratch), "add_sub", ADD_SUB, ADD_SUB_CONFIG)
        with Server([scratch]) as server:
            found = walk(server.model("add_sub"))
    sys.stdout.write("\n    ".join([str(found), *found.sent]) + "\n")


if __name__ == "__main__":
    main()
