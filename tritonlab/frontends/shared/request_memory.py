"""The memory that clients may take in this process: each request by itself, all of one server together, and responses
that wait because their client does not read them.

Triton has no bound over HTTP: a body of any announced size is collected until memory ends (measured). Here that would
end the notebook. A request, and an answer over gRPC, exists up to four times on its way: as the author's array, in the
shared region, as one message, and as grpcio's copy of it. So one may take a quarter of the memory, and all together
half of it.

Triton also keeps all responses that a client does not read, until its memory is used up.

Not counted are the first piece of a body, messages of up to 64 KB, and what grpcio holds of messages that have not come
wholly: each call may have one of those, which is bounded by itself.
"""

from __future__ import annotations

import gc
import threading
from collections import deque

from ...ipc.processes.out_of_memory import memory_limit

#: Bytes that a response which waits takes in memory beside its own, about.
OVERHEAD = 150

#: Messages of up to so many bytes are not counted.
UNCOUNTED = 1 << 16
#: The most where the memory of the machine is unknown.
_UNKNOWN = 1 << 30
#: A container with little memory may still have messages of this size.
_LEAST = 64 << 20


class TooLargeError(Exception):
    """The refusal of a request that would take too much memory, with the text for the client."""


class NoRoomError(TooLargeError):
    """The refusal of a request that could be accepted once others are done."""


class RequestMemory:
    """What all requests of one server take, in bytes. `most`: of one request; 0 is a quarter of the memory there is.

    Any thread may take. What is taken is returned by destructors, which may run at any moment and so take no lock.
    """

    def __init__(self, most: int = 0) -> None:
        self.most = most or max((memory_limit() or 4 * _UNKNOWN) // 4, _LEAST)
        self.total = 2 * self.most
        self._why = "" if most else ", a quarter of the memory there is"
        self._lock = threading.Lock()  # guards _used
        self._used = 0
        self._returned: deque[int] = deque()

    def check(self, size: int, what: str = "The request") -> None:
        """Raise TooLargeError for a request, or another message, that may not have so many bytes."""
        if size > self.most:
            raise TooLargeError(
                f"{what} has {size} bytes, more than the limit of {self.most}{self._why}; '--max-message-size=<bytes>' "
                "of 'tritonlab serve', or max_message_size of 'Options' and 'serve()', sets another."
            )

    def take(self, nbytes: int) -> None:
        """Count bytes. Raise NoRoomError if all requests together would take too many."""
        if not self._takes(nbytes):
            gc.collect()  # a body may be in a cycle that nobody uses any more
            if not self._takes(nbytes):
                raise NoRoomError(
                    f"The requests that are received or executed now take {self._used} of the {self.total} bytes that "
                    "they may take together ('--max-message-size', twice). Send this one again later."
                )

    def _takes(self, nbytes: int) -> bool:
        with self._lock:
            while self._returned:
                self._used -= self._returned.popleft()
            if self._used + nbytes > self.total:
                return False
            self._used += nbytes
            return True

    def hold(self, nbytes: int) -> HeldMemory:
        """Count bytes as long as the returned object lives. Raise NoRoomError."""
        self.take(nbytes)
        return HeldMemory(self._returned, nbytes)

    def body(self, start: bytes | bytearray) -> Body:
        """Return a body that begins with `start` and is counted as long as it lives."""
        return Body(start, self, self._returned)


class HeldMemory:
    """Bytes that are counted until this object is gone."""

    __slots__ = ("_nbytes", "_returned")

    def __init__(self, returned: deque[int], nbytes: int) -> None:
        self._returned = returned
        self._nbytes = nbytes

    def __del__(self) -> None:
        self._returned.append(self._nbytes)


class Body(bytearray):
    """The body of a request that comes in pieces. It is counted until its last reader is gone."""

    __slots__ = ("_counted", "_memory", "_returned")

    def __init__(self, start: bytes | bytearray, memory: RequestMemory, returned: deque[int]) -> None:
        super().__init__(start)
        self._memory = memory
        self._returned = returned
        self._counted = 0

    def add(self, piece: bytes) -> None:
        """Append a piece. Raise TooLargeError; then the body is not to be used any more."""
        size = len(self) + len(piece)
        self._memory.check(size)
        self._memory.take(len(piece))
        self._counted += len(piece)
        try:
            self.extend(piece)
        except MemoryError:
            raise NoRoomError(f"There is no memory for a request of {size} bytes. Send it again later.") from None

    def __del__(self) -> None:
        self._returned.append(self._counted)


def too_much_unread(most: int) -> str:
    """Return what a client hears that has left more than `most` bytes unread."""
    return (
        f"the client has left more than {most} bytes of responses unread; read them as they come, or ask for fewer "
        "('--max-unread-size=<bytes>' of 'tritonlab serve', or max_unread_size of 'Options' and 'serve()', sets "
        "another limit)"
    )
