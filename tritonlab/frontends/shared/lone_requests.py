"""Whether requests come one at a time. Then the thread that received one may read the stub's
answer itself (`InferenceServer.infer_here`), so that no two threads have to wake each other.

Where several clients send at once it must not wait, because batches are made of what comes meanwhile. Measured when
this came, add_sub over HTTP with one caller on two cores took 310 us p50 instead of 450.

A connection that sends one request after the other says so as `sender`, and is alone once it has sent some in a row.
Without that, a quick client that is back before PAUSE is over was taken for several: with tritonclient 40 % of the
requests of a loop, and p50 was a quarter longer. The time alone says too little where one thread reads both the
clients and the stubs: with 8 connections many a request came long enough after the last answer, and the thread polled
for the answer while the other 7 waited to be read.
"""

from __future__ import annotations

import time

from ...core.inference.infer_request import InferenceRequest

#: Requests of one sender, none of another between them, after which it is taken for the only one.
IN_A_ROW = 4
#: Seconds that most clients need from an answer to their next request; what comes earlier may have been there before.
PAUSE = 150e-6


class LoneRequests:
    """The requests under way at one endpoint. One thread may call `begin`, any thread `end`."""

    def __init__(self) -> None:
        self._under_way: set[int] = set()
        self._last_end = 0.0
        self._sender: object = None
        self._in_a_row = 0

    def begin(self, request: InferenceRequest, sender: object = None) -> bool:
        """Add a request; return whether it is alone. `sender` stands for a connection that has one request under way at
        a time: its next one cannot have been there before."""
        if sender is None or sender is not self._sender:
            self._sender, self._in_a_row = sender, 0
        self._in_a_row += 1
        if sender is not None:
            alone = not self._under_way and self._in_a_row > IN_A_ROW
        else:
            alone = not self._under_way and time.perf_counter() - self._last_end > PAUSE
        self._under_way.add(id(request))
        return alone

    def end(self, request: InferenceRequest) -> None:
        """Remove a request that is answered, or was refused."""
        self._under_way.discard(id(request))
        self._last_end = time.perf_counter()
