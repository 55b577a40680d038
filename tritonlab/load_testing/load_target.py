"""The interface that a load test sends to: `LocalTarget` for a server in this process, `clients.remote_target` for one
elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..core.inference.infer_request import InferenceRequest
from .call_log import CallLog
from .request_mix import Lane, ModelInputs, RequestMix


class LoadTarget(Protocol):
    """The sender of one load test to one model. `start` and `keep` are called on one thread of the test's own; the rest
    comes from another one. Every request that was sent has a row in `log` once it has ended.
    """

    #: where the model is, in words: `in this kernel`, `HTTP 127.0.0.1:8000`
    place: str
    inputs: ModelInputs

    def statistics(self) -> Mapping[str, Any] | None:
        """Return Triton's current statistics of the model; None from a server that has none."""

    def open(self, log: CallLog, mix: RequestMix) -> None:
        """Begin a row: requests of `mix` end in `log` from now on."""

    def keep(self, lanes: Sequence[Lane], mix: RequestMix, halt: threading.Event) -> None:
        """Keep one request of each lane under way until `halt` is set; it may return before the last ones end."""

    def start(self, request: InferenceRequest, due: int, lane: Lane) -> None:
        """Send a request that was due at `due`, without waiting for its end. Those of one lane go out in order."""

    def outstanding(self) -> int:
        """Return how many requests are sent, or are to be sent, and have not ended."""

    def abandon(self) -> int:
        """Cancel the requests that have not ended, and forget them. Return how many they were."""
