"""The way of a request through the package, from the notebook's call or from a client's bytes to the stub and back: how
deep, how wide.

`python -m tests.request_walk` prints it; `make sizes` does so beside the sizes. It counts the calls of one request
to an `add_sub` that serves already, as `sys.setprofile` reports them: in the kernel on the caller's thread, over HTTP
on all threads of the server.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import tritonclient.http

from tests.models import ADD_SUB, ADD_SUB_CONFIG
from tests.serving import write_model
from tests.test_layering import PACKAGE
from tritonlab import Model, Server
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints


@dataclass
class Walk:
    """The calls of one request: our frames on the stack when its message is sent, outermost first, our modules that
    have run by its end, and how often a function of ours was called. `is_on`: whether events count."""

    place: str
    is_on: bool = True
    sent: list[str] = field(default_factory=list)
    modules: set[str] = field(default_factory=set)
    calls: int = 0

    def __str__(self) -> str:
        return (
            f"a request {self.place}: {len(self.sent)} frames deep when it is sent to the stub, "
            f"{len(self.modules)} modules, {self.calls} calls"
        )

    def on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count an event of `sys.setprofile`."""
        if not self.is_on:
            return
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
    found = Walk("in the kernel")
    for _ in range(10):
        model(INPUT0=array, INPUT1=array)
    sys.setprofile(found.on_event)
    try:
        model(INPUT0=array, INPUT1=array)
    finally:
        sys.setprofile(None)
    return found


def walk_over_http(server: Server, name: str) -> Walk:
    """Send a model of `server` a request over HTTP and return its way through the server."""
    found = Walk("over HTTP", is_on=False)
    threading.setprofile(found.on_event)  # for the threads that begin from now on
    try:
        with Endpoints(server.core, EndpointOptions(http_port=0, grpc=False, metrics=False)) as endpoints:
            tensors = [tritonclient.http.InferInput(each, [4], "FP32") for each in ("INPUT0", "INPUT1")]
            for each in tensors:
                each.set_data_from_numpy(np.ones(4, np.float32))
            with tritonclient.http.InferenceServerClient(endpoints.http) as client:
                for _ in range(10):
                    client.infer(name, tensors)
                found.is_on = True
                client.infer(name, tensors)
                found.is_on = False
    finally:
        threading.setprofile(None)
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        write_model(Path(scratch), "add_sub", ADD_SUB, ADD_SUB_CONFIG)
        with Server([scratch]) as server:
            ways = [walk(server.model("add_sub")), walk_over_http(server, "add_sub")]
    for found in ways:
        sys.stdout.write("\n    ".join([str(found), *found.sent]) + "\n")


if __name__ == "__main__":
    main()
