"""What the author's objects need from the process around them: one interface, installed once per process.

Inside a stub it is `stub_bridge.StubBridge`; tests install a fake; a plain `import triton_python_backend_utils` in a
notebook has this base class,
which refuses with a sentence instead of waiting for a server that is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Optional

if TYPE_CHECKING:
    from .infer_request import InferenceRequest
    from .infer_response import InferenceResponse


class BridgeError(Exception):
    """The server refused a call. `text` is its message, `code` its Triton error code (rule 1.2)."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class Bridge:
    """The calls an author's object makes to the server. This base class is the one without a server."""

    #: "import" | "auto_complete" | "construct" | "initialize" | "execute" | "finalize" | "" outside a stub
    phase = ""
    instance_name = ""
    #: `<model directory>/<version>`, what get_model_dir() returns (rule 1.1.5)
    model_dir = ""

    def log(self, level: int, message: str, file: str, line: int) -> None:
        """One Logger record; level as in rule 1.2 (0 INFO, 1 WARNING, 2 ERROR, 3 VERBOSE)."""
        self._refuse("Logger")

    def call(self, command: str, body: Any) -> Any:
        """A round trip to the server; `command` is a call of the COMMANDS table. Raises BridgeError with the
        server's text."""
        self._refuse(command)

    def is_cancelled(self, handle: int) -> bool:
        """Whether the client of a received request has cancelled it; asks the server each time (rule 1.7.11)."""
        self._refuse("is_cancelled()")
        return False

    def send_response(self, handle: int, response: "Optional[InferenceResponse]", flags: int) -> None:
        """Sends one response of a received request. The checks of rule 1.9.2 are the sender's."""
        self._refuse("InferenceResponseSender.send()")

    def infer(self, request: "InferenceRequest", decoupled: bool) -> "Iterator[InferenceResponse]":
        """Runs a BLS request; yields its responses as they come. The iterator has `cancel()`."""
        self._refuse("exec()")
        return iter(())

    def _refuse(self, what: str) -> None:
        raise BridgeError("%s needs a running model: it works inside a stub process, not in this one" % what)


_current = Bridge()


def install(bridge: Bridge) -> None:
    """Makes `bridge` the one that every author-facing object of this process uses."""
    global _current
    _current = bridge


def current() -> Bridge:
    return _current
