"""The log of a load test: a row of numbers for each request, without an object."""

from __future__ import annotations

import itertools
import threading
from collections import deque

import numpy as np
from numpy.typing import NDArray

from .token_times import TokenLog

#: A row is one request that has ended. `due`: its planned time in an open loop, otherwise `sent`. `sent`: when it was
#: sent; `first`: when its first response came, 0 if none did; `done`: its last. `send`, `receive`: how long the client
#: took to write and to read. `responses`: the number of non-empty ones; `error`: its number among the texts, 0 for
#: none; `batch`: its batch size. Times are nanoseconds of the monotonic clock.
COLUMNS = ("due", "sent", "first", "done", "send", "receive", "responses", "error", "batch")
DUE, SENT, FIRST, DONE, SEND, RECEIVE, RESPONSES, ERROR, BATCH = range(len(COLUMNS))
#: How far two rows may differ from the order in which their requests ended.
_DISORDER = 1_000_000_000

Rows = NDArray[np.int64]


def without_errors(rows: Rows) -> Rows:
    good: Rows = rows[rows[:, ERROR] == 0]
    return good


class CallLog:
    """The log of ended requests, from any thread.

    Rows are added to a deque, whose `append` needs no lock: thousands of requests end each second.
    """

    def __init__(self, tokens: TokenLog | None = None) -> None:
        #: the tokens of streams, if they are counted
        self.tokens = tokens
        self._fresh: deque[tuple[int, ...]] = deque()
        self._lock = threading.Lock()  # guards `_blocks`
        self._blocks: list[Rows] = []
        self._numbers: dict[str, int] = {}
        self._free_numbers = itertools.count(1)
        #: adds a row
        self.add = self._fresh.append

    def error_number(self, text: str) -> int:
        """Return the number of an error's text; call it from any thread."""
        return self._numbers.setdefault(text, next(self._free_numbers))

    def rows(self, begin: int = 0, end: int | None = None) -> Rows:
        """Return the rows of requests that ended after `begin` and not after `end`."""
        fresh = self._fresh
        with self._lock:
            rows = [fresh.popleft() for _ in range(len(fresh))]
            if rows:
                self._blocks.append(np.array(rows, np.int64))
            # requests end almost in order, so older blocks have no rows for a late `begin`
            blocks = [block for block in self._blocks if int(block[-1, DONE]) > begin - _DISORDER]
        found = np.concatenate(blocks) if blocks else np.zeros((0, len(COLUMNS)), np.int64)
        in_window = found[:, DONE] > begin
        return found[in_window if end is None else in_window & (found[:, DONE] <= end)]

    def errors(self, rows: Rows) -> dict[str, int]:
        """Return the texts of the errors in `rows` and how often each came, the most frequent first."""
        texts = {number: text for text, number in list(self._numbers.items())}
        numbers, counts = np.unique(rows[rows[:, ERROR] > 0, ERROR], return_counts=True)
        found = {texts[int(number)]: int(count) for number, count in zip(numbers, counts, strict=True)}
        return dict(sorted(found.items(), key=lambda one: -one[1]))
