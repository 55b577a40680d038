"""What the running `execute` waits for, as the server asks for it, so that it can find calls that wait for themselves
(rule 4.4.1)."""

from __future__ import annotations

import threading
from typing import AbstractSet, Dict, List, Optional, Sequence, Tuple

from ..api import own_threads
from ..api.infer_request import InferenceRequest
from ..wire.message_bodies import NeededCall, Needs
from .needed_calls import AwaitedCoroutine, needed_calls


class RunningExecute:
    """The `execute` that the main thread runs, if any, and the BLS calls that threads wait for."""

    def __init__(self) -> None:
        #: its requests; None between two
        self.requests: Optional[List[InferenceRequest]] = None
        #: its coroutine, if the main thread waits for one
        self.coroutine: Optional[AwaitedCoroutine] = None
        #: INFER id and number of responses had of the calls that threads wait for, by thread
        self.calls: Dict[int, Tuple[int, int]] = {}
        self._main = threading.get_ident()

    def wait_kind(self) -> int:
        """Return what a wait of this thread means for `execute`; see INFER in the COMMANDS table."""
        requests = self.requests
        return 0 if requests is None or threading.get_ident() != self._main else self._kind(requests, frozenset())

    def needs(self) -> Needs:
        """Return the answer to WAITS. May be called from any thread."""
        requests = self.requests
        if requests is None:
            return Needs(0, [])
        calls, threads = needed_calls(self._main, self.calls.copy(), self.coroutine)
        return Needs(self._kind(requests, threads), [NeededCall(*call) for call in sorted(calls)])

    def _kind(self, requests: Sequence[InferenceRequest], waiting: AbstractSet[int]) -> int:
        """Return 2 if nothing but what `execute` returns could answer its requests while these threads wait, else
        1."""
        for request in requests:
            if request._sender is not None:
                break
        else:
            return 2
        # the main thread is the one that asks, and the stub's own never answer a request
        never = {self._main, *own_threads.own(), *waiting}
        return 1 if any(thread.ident not in never for thread in threading.enumerate()) else 2
