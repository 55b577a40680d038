"""Calls of the author's objects to the server, and the texts of their failures (rules 1.14.4 and
1.15.3)."""

from __future__ import annotations

from typing import Any

from . import bridge
from .bridge import BridgeError
from .errors import TritonModelException

#: Nobody could answer a call here; Triton waits for ever (rule 1.18)
_SILENT_PHASES = ("import", "auto_complete")


def call_server(what: str, prefix: str, message: Any) -> Any:
    """Ask the server and return its answer. `what` names the author's call, `prefix` starts the text of a failure.

    Raises TritonModelException for a failure, and at once where Triton would hang (rule 1.18.2).
    """
    link = bridge.current()
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
