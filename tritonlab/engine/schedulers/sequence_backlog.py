"""`SequenceBacklog`, the sequences without a slot, with their requests. It has no lock and no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from ...core.inference.infer_request import SEQUENCE_END, InferenceRequest

Id = int | str


class BacklogSequence:
    """The requests of a sequence without a slot. `expires` is the earliest of their timeouts, None without any."""

    __slots__ = ("expires", "last_seen", "queue", "sequence")

    def __init__(self, sequence: Id) -> None:
        self.sequence = sequence
        self.queue: deque[InferenceRequest] = deque()
        self.expires: int | None = None
        self.last_seen = 0

    def add(self, request: InferenceRequest, now: int) -> None:
        self.queue.append(request)
        self.last_seen = now
        if request.timeout:
            until = now + request.timeout * 1000
            self.expires = until if self.expires is None else min(self.expires, until)


class SequenceBacklog:
    """The waiting sequences, in the order of their first requests. `ident in backlog`: that sequence waits and its END
    has not arrived.
    """

    def __init__(self) -> None:
        self._sequences: deque[BacklogSequence] = deque()
        self._open: dict[Id, BacklogSequence] = {}

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[BacklogSequence]:
        return iter(self._sequences)

    def __contains__(self, ident: Id) -> bool:
        return ident in self._open

    def add(self, request: InferenceRequest, now: int) -> None:
        """Queue a request at its sequence; the first request of a sequence adds it."""
        ident = request.correlation_id
        entry = self._open.get(ident)
        if entry is None:
            entry = self._open[ident] = BacklogSequence(ident)
            self._sequences.append(entry)
        entry.add(request, now)
        if request.flags & SEQUENCE_END:
            del self._open[ident]

    def pop(self) -> tuple[BacklogSequence, bool]:
        """Remove the oldest sequence, which gets a slot. Return it, and whether it may get more requests."""
        entry = self._sequences.popleft()
        return entry, self._close(entry)

    def expire(self, now: int) -> list[InferenceRequest]:
        """Take out the sequences that timed out; return all their requests."""
        late = [entry for entry in self._sequences if entry.expires is not None and entry.expires <= now]
        for entry in late:
            self._sequences.remove(entry)
            self._close(entry)
        return [request for entry in late for request in entry.queue]

    def close(self) -> None:
        """Allow no more requests for the sequences."""
        self._open.clear()

    def clear(self) -> list[InferenceRequest]:
        """Take out all sequences and return their requests."""
        requests = self.requests()
        self._sequences.clear()
        self._open.clear()
        return requests

    def requests(self) -> list[InferenceRequest]:
        """Return the waiting requests, those of the oldest sequence first."""
        return [request for entry in self._sequences for request in entry.queue]

    def deadlines(self) -> Iterable[int]:
        """Yield the times at which `expire` has work."""
        return [entry.expires for entry in self._sequences if entry.expires is not None]

    def _close(self, entry: BacklogSequence) -> bool:
        if self._open.get(entry.sequence) is not entry:
            return False
        del self._open[entry.sequence]
        return True
