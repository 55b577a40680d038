"""The memory that clients may take in this process: for each request, for all requests of one server, and for responses
that their client does not read.

Triton has no bound over HTTP: a body of any announced size is collected until memory ends (measured). Here that would
end the notebook. So one request may take a quarter of the memory (over gRPC an eighth), all requests half of it, and
only while memory is left for them (`MemoryRoom`). A request is in memory up to three times at once:

    as it comes     its body; over gRPC grpcio's pieces, the same in a row, and the message made of that;
                    copies of its inputs in the client's shared memory
    as it is sent   the message and the model's input in the shared region; the message goes then
    in `execute`    that input, the model's output, and the same in its own region
    as it leaves    the output in the region; over gRPC the message made of it, and grpcio's copy;
                    pages of the client's shared memory that did not exist before

Triton also keeps all responses that a client does not read, until its memory is used up.

Not counted are the first piece of a body, messages of up to 64 KB, and the pieces that grpcio holds of an incomplete
message: each call may have one such message, whose own size is limited.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from ...core.status import UnavailableError
from ...ipc.processes.memory_room import ROOM, MemoryRoom
from ...ipc.processes.out_of_memory import memory_limit

#: Bytes of memory that a waiting response takes besides its own, about.
OVERHEAD = 150

#: Messages up to this size in bytes are not counted.
UNCOUNTED = 1 << 16
#: The most if the memory of the machine is unknown.
_UNKNOWN = 1 << 30
#: How many copies of a received request will be in memory besides itself, before its answer is sent.
_LATER = 2
#: A request that announces at least this many bytes is refused before they come if there is no memory for them.
_ANNOUNCED = 16 << 20
#: A container with little memory may still have messages of this size.
_LEAST = 64 << 20


T = TypeVar("T")


class TooLargeError(Exception):
    """The refusal of a request that would take too much memory, with the text for the client."""


class NoRoomError(TooLargeError):
    """The refusal of a request that could be accepted once others are done."""


class _Count:
    """A number of bytes. Any thread may add to it; destructors subtract from it, see `RequestMemory`."""

    def __init__(self) -> None:
        #: bytes to subtract
        self.returned: deque[int] = deque()
        self._lock = threading.Lock()  # guards _bytes
        self._bytes = 0

    def add(self, nbytes: int, most: int = sys.maxsize) -> bool:
        """Add bytes, unless the sum would be more than `most`. Return whether they were added."""
        with self._lock:
            while self.returned:
                self._bytes -= self.returned.popleft()
            if self._bytes + nbytes > most:
                return False
            self._bytes += nbytes
            return True

    def hold(self, nbytes: int) -> HeldMemory:
        """Add bytes as long as the returned object lives."""
        self.add(nbytes)
        return HeldMemory(self.returned, nbytes)

    @property
    def total(self) -> int:
        self.add(0)
        return self._bytes


class RequestMemory:
    """The memory of all requests of one server, in bytes. `most`: the limit of one request; 0 means a quarter of the
    memory. `room`: the memory that is left.

    Any thread may take memory. Destructors return it; they may run at any moment and so take no lock.
    """

    def __init__(self, most: int = 0, room: MemoryRoom = ROOM) -> None:
        self.most = most or max((memory_limit() or 4 * _UNKNOWN) // 4, _LEAST)
        #: the limit of a message that is counted only once it is complete, and in memory three times by then
        self.most_at_once = most or max(self.most // 2, _LEAST)
        self.total = 2 * self.most
        #: a message of this many bytes is taken without a check
        self.unasked = min(self.most, UNCOUNTED)
        self.room = room
        self._why = "" if most else ", a quarter of the memory there is"
        self._messages = _Count()
        self._copies = _Count()  # what inputs in clients' shared memory will take, in addition to now
        self._writes = _Count()  # pages of clients' shared memory that are written now

    @property
    def later(self) -> int:
        """Return the bytes that the received requests will take at most, in addition to those that they take now."""
        return _LATER * self._messages.total + self._copies.total

    def check(self, size: int, what: str = "The request") -> None:
        """Raise TooLargeError for a request, or another message, of more bytes than allowed."""
        if size > self.most:
            raise TooLargeError(
                f"{what} has {size} bytes, more than the limit of {self.most}{self._why}; '--max-message-size=<bytes>' "
                "of 'tritonlab serve', or max_message_size of 'Options' and 'serve()', sets another."
            )

    def announce(self, size: int) -> None:
        """Raise TooLargeError, or NoRoomError, for a request whose body will have so many bytes."""
        self.check(size)
        if size > _ANNOUNCED and not self.room.has(0, (1 + _LATER) * size):
            raise no_memory(size)

    def take(self, nbytes: int, size: int, allocated: int = 0) -> None:
        """Count bytes of a request that now has `size` bytes, `allocated` of them in memory. Raise NoRoomError if all
        requests together would take too many, or no memory is left for them."""
        messages = self._messages
        if not messages.add(nbytes, self.total):
            gc.collect()  # a body may be in an unreachable cycle
            if not messages.add(nbytes, self.total):
                raise NoRoomError(
                    f"The requests that are received or executed now take {messages.total} of the {self.total} bytes "
                    "that they may take together ('--max-message-size', twice). Send this one again later."
                )
        if not self.room.has(nbytes - allocated, self.later):
            messages.returned.append(nbytes)
            raise no_memory(size)

    def hold(self, nbytes: int) -> HeldMemory:
        """Count a message of so many bytes as long as the returned object lives. Raise NoRoomError."""
        self.take(nbytes, nbytes, allocated=nbytes)
        return HeldMemory(self._messages.returned, nbytes)

    def body(self, start: bytes | bytearray) -> Body:
        """Return a body that begins with `start`."""
        return Body(start, self, self._messages.hold(0))

    def copy(self, nbytes: int, make: Callable[[], T]) -> tuple[T, HeldMemory]:
        """Return the result of `make`, which copies an input of so many bytes, and the object that counts the request
        until its answer is sent. Raise NoRoomError if no memory is left for it. The limits of messages do not apply.
        """
        held = self._copies.hold((1 + _LATER) * nbytes)
        if not self.room.has(nbytes, self.later - nbytes):
            raise no_memory(nbytes)
        made = make()
        held.release(nbytes)
        return made, held

    def hold_write(self, nbytes: int) -> HeldMemory:
        """Count new pages of so many bytes while they are written. Raise UnavailableError if no memory is left."""
        held = self._writes.hold(nbytes)
        if not self.room.has(nbytes, self._writes.total - nbytes):
            raise no_response_memory(nbytes)
        return held


def no_memory(size: int) -> NoRoomError:
    """Return the refusal of a request of `size` bytes for which no memory is left."""
    return NoRoomError(f"There is no memory for a request of {size} bytes. Send it again later.")


def no_response_memory(size: int) -> UnavailableError:
    """Return the error of a response of `size` bytes for which no memory is left."""
    return UnavailableError(f"There is no memory for a response of {size} bytes.")


class HeldMemory:
    """Bytes that are counted until this object is gone."""

    __slots__ = ("_returned", "nbytes")

    def __init__(self, returned: deque[int], nbytes: int) -> None:
        self._returned = returned
        self.nbytes = nbytes

    def release(self, nbytes: int) -> None:
        """Count so many bytes less."""
        self.nbytes -= nbytes
        self._returned.append(nbytes)

    def __del__(self) -> None:
        self._returned.append(self.nbytes)


class Body(bytearray):
    """The body of a request that comes in pieces. It is counted as long as `held` lives, which the body keeps."""

    __slots__ = ("_memory", "held")

    def __init__(self, start: bytes | bytearray, memory: RequestMemory, held: HeldMemory) -> None:
        super().__init__(start)
        self._memory = memory
        self.held = held

    def add(self, piece: bytes) -> None:
        """Append a piece. Raise TooLargeError; then the body must not be used any more."""
        size = len(self) + len(piece)
        self._memory.check(size)
        self._memory.take(len(piece), size)
        self.held.nbytes += len(piece)
        try:
            self.extend(piece)
        except MemoryError:
            raise no_memory(size) from None


def too_much_unread(most: int) -> str:
    """Return the error of a client that has left more than `most` bytes unread."""
    return (
        f"the client has left more than {most} bytes of responses unread; read them as they come, or ask for fewer "
        "('--max-unread-size=<bytes>' of 'tritonlab serve', or max_unread_size of 'Options' and 'serve()', sets "
        "another limit)"
    )
