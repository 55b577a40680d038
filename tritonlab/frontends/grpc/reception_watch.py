"""The watch over the messages that gRPC receives. grpcio tells of a message once it has all of it, three times: in the
pieces that came, in a row, and as `bytes`. So what a message takes meanwhile shows only in the memory of this process.
"""

from __future__ import annotations

import os

from ...ipc.processes.memory_room import RESERVE
from ...server.observe.idle_memory import private
from ..shared.request_memory import RequestMemory, no_memory
from .calls import RECEIVING, UnaryCall

#: How often a message is in memory, once it has come, beside its pieces.
_COPIES = 2
#: A process that grows by less receives no message that matters.
_MUCH = 16 << 20
#: Bytes that clients of this machine send in a second, at most, and the seconds from one look to the next.
_RATE = 4 << 30
_LEAST, _MOST = 0.01, 1.0


class ReceptionWatch:
    """The messages of one server that are being received."""

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory

    def watch(self) -> float:
        """End the newest call that receives a message if there would be no memory for one of the size by which this
        process has grown since the oldest began. Return in how many seconds to look again."""
        now, size = private(os.getpid()), 0
        for call, least in list(RECEIVING.items()):
            RECEIVING[call] = least = now if least is None else min(now, least)
            size = max(size, now - least)
        size = min(size, self._memory.most)
        room = self._memory.room
        needed = _COPIES * size + self._memory.later
        if size > _MUCH and not room.has(0, needed) and RECEIVING:
            # a stream may only wait for its client
            *_, call = sorted(RECEIVING, key=lambda call: isinstance(call, UnaryCall))
            del RECEIVING[call]
            call.refuse_message(str(no_memory(size)))
        spare = room.left() - RESERVE - needed
        return min(max(spare / (1 + _COPIES) / _RATE, _LEAST), _MOST)
