"""The bridge from the author's objects to the process around them: one interface, installed once per process.

Inside a stub it is `stub_bridge.StubBridge`; tests install a fake; a plain `import triton_python_backend_utils` in a
notebook has this base class, which logs to stderr and refuses everything else with a sentence, where a wait for a
server would never end.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Iterator

from ..wire.ipc_message import ROW
from .errors import TritonModelException


class BridgeError(Exception):
    """A call that the server refused. `text` is the server's message, `code` its Triton error code (rule 1.2)."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


#: The author's call, where the command's name differs
_AUTHORS_WORDS = {
    "LOAD_MODEL": "load_model()",
    "UNLOAD_MODEL": "unload_model()",
    "IS_MODEL_READY": "is_model_ready()",
    "METRIC_FAMILY_NEW": "MetricFamily()",
    "METRIC_NEW": "MetricFamily.Metric()",
    "METRIC_OP": "a Metric",
}


class Bridge:
    """The calls that an author's object can make to the server. This base class is the bridge of a process without a
    server.

    A `request` is an InferenceRequest and a `response` an InferenceResponse or None. Their modules import this one, so
    it cannot name their types.
    """

    #: "import" | "auto_complete" | "construct" | "initialize" | "execute" | "finalize" | "" outside a stub
    phase = ""
    instance_name = ""
    #: `<model directory>/<version>`, the result of get_model_dir() (rule 1.1.5)
    model_dir = ""

    def log(self, level: int, message: str, file: str, line: int) -> None:
        """Write one Logger record; level as in rule 1.2 (0 INFO, 1 WARNING, 2 ERROR, 3 VERBOSE)."""
        sys.stderr.write(stderr_line(level, message, file, line))

    def call(self, message: Any) -> Any:
        """Send a call to the server and wait for its answer. `message` is the body of a call of the COMMANDS table.
        Raises BridgeError with the server's text.
        """
        command = ROW[type(message)].name
        self._refuse(_AUTHORS_WORDS.get(command, command))

    def is_cancelled(self, handle: int) -> bool:
        """Return whether the client of a received request has cancelled it, which the server knows (rule 1.7.11)."""
        self._refuse("is_cancelled()")
        return False

    def send_response(self, handle: int, response: Any, flags: int) -> None:
        """Send one response of a received request. The sender has made the checks of rule 1.9.2."""
        self._refuse("InferenceResponseSender.send()")

    def forgotten(self, handle: int, answered: bool) -> None:
        """Note that the last object that could end a received request is gone; `answered`: after it has sent a
        response. Destructors call it, on any thread and at any moment: it must neither block nor send.
        """

    def lend(self, imported: Any) -> Any:
        """Copy another library's device memory, a `dlpack.Imported`, to memory of the server, and return a Lent. Raises
        BridgeError or DriverError.
        """
        self._refuse("sending a tensor in GPU memory")

    def infer(self, request: Any, decoupled: bool) -> Iterator[Any]:
        """Run a BLS request; yields its responses as they arrive. The iterator has `cancel()`."""
        self._refuse("exec()")
        return iter(())

    def _refuse(self, what: str) -> None:
        raise BridgeError(
            "%s needs a running model: it works inside a stub process, not in this one "
            "(in a test, tritonlab.testing.FakeTriton stands in for the server)." % what
        )


_current = Bridge()


def stderr_line(level: int, message: str, file: str, line: int) -> str:
    """Format a Logger record as Triton prints it while no server listens (rule 1.13.4)."""
    now = time.time()
    stamp = time.strftime("%m%d %H:%M:%S", time.gmtime(now))
    return "%s%s.%06d %d %s:%d]  %s\n" % (
        "IWEI"[level],  # a verbose record has the letter I
        stamp,
        int(now % 1 * 1e6),
        threading.get_native_id(),
        file.rsplit("/", 1)[-1],
        line,
        message,
    )


def install(bridge: Bridge) -> None:
    """Make `bridge` the bridge of every author-facing object of this process."""
    global _current
    _current = bridge


def current() -> Bridge:
    return _current


#: No server could answer a call here; Triton waits for ever (rule 1.18).
_SILENT_PHASES = ("import", "auto_complete")


def call_server(what: str, prefix: str, message: Any) -> Any:
    """Send a call to the server and return its answer. `what` names the author's call, `prefix` starts the text of a
    failure.

    Raises TritonModelException for a failure (rules 1.14.4, 1.15.3), and at once if Triton would hang (rule 1.18.2).
    """
    link = current()
    if link.phase in _SILENT_PHASES:
        raise TritonModelException(
            "%s is not available during %s: the server answers no calls before the model is initialized."
            % (what, "auto_complete_config" if link.phase == "auto_complete" else "the import of the model")
        )
    try:
        return link.call(message)
    except BridgeError as error:
        # the server's text begins with "Failed to process the request for model '<instance>', message: "
        raise TritonModelException(prefix + error.text) from None
