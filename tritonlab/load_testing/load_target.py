"""This module says what a load test needs of whatever it sends requests to: `KernelTarget` is a server in this process,
`clients.remote_target` one elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..core.infer_request import InferenceRequest
from .call_log import CallLog
from .request_mix import Lane, ModelInputs, RequestMix


class LoadTarget(Protocol):
    """Sends the requests of one load test to one model. `start` and `keep` are called on one thread of the test's own;
    the rest comes from another one. Every request that was sent has a row in `log` once it has ended.
    """

    #: where the model is, in words: `in this kernel`, `HTTP 127.0.0.1:8000`
    place: str
    inputs: ModelInputs

    def statistics(self) -> Mapping[str, Any] | None:
        """Returns what Triton's statistics say of the model now; None from a server that has none."""

    def open(self, log: CallLog, mix: RequestMix) -> None:
        """Begins a row: requests of `mix` end in `log` from now on."""

    def keep(self, lanes: Sequence[Lane], mix: RequestMix, halt: threading.Event) -> None:
        """Keeps one request of each lane under way until `halt` is set; it may return before the last ones end."""

    def start(self, request: InferenceRequest, due: int, lane: Lane) -> None:
        """Sends a request that was due at `due`, and does not wait for its end. Those of one lane go out in order."""

    def outstanding(self) -> int:
        """Returns how many requests are sent, or are to be sent, and have not ended."""

    def abandon(self) -> int:
        """Cancels the requests that have not ended, and forgets them. Returns how many they were."""
