"""The stub's inbox, which gives each message to its owner, on any reading thread: commands to the main loop, answers to
the thread that waits for them.

Leader / follower: any thread that waits (the main loop for its next command, the author's threads for an answer) may
read the socket, but one at a time. The leader passes every message to its owner; when it has its own it steps down and
wakes the others. A single waiting caller reads for itself, and no other thread has to wake it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Deque, Dict

from ..wire.connection import Connection, Message
from ..wire.ipc_message import BY_NUMBER, NUMBER

_REPLY = NUMBER["REPLY"]
_INFER_RESPONSE = NUMBER["INFER_RESPONSE"]


class Inbox:
    """The messages of one connection, sorted by owner. Methods that wait raise LinkClosed when the server is gone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._commands: Deque[Message] = deque()
        self._boxes: Dict[int, Deque[Any]] = {}  # call id -> the bodies that have arrived for it
        self._lead = threading.Lock()  # held by the reading thread
        self._turn = threading.Condition(threading.Lock())  # guards _waiting; notified when a follower must look again
        self._waiting = 0

    def next_command(self, spin: float) -> Message:
        """Return the next command for the main loop. Polls for `spin` seconds, then sleeps until a command arrives."""
        commands = self._commands
        self._pump(commands, spin)
        return commands.popleft()

    def open(self, ident: int) -> Deque[Any]:
        """Return a box for the answers to the call `ident`. Open it before the call is sent."""
        box: Deque[Any] = deque()
        self._boxes[ident] = box
        return box

    def await_one(self, box: Deque[Any]) -> None:
        """Wait until an answer is in the box."""
        self._pump(box)

    def drain(self) -> None:
        """Distribute the messages that have arrived, without waiting; does nothing while another thread reads. A busy
        stub calls it to learn which of its blocks are free.
        """
        if not self._lead.acquire(False):
            return
        try:
            message = self._connection.try_receive()
            while message is not None:
                self._hand_over(message)
                message = self._connection.try_receive()
        finally:
            self._step_down()

    def close(self, ident: int) -> None:
        """Give up a box. Later answers for it return to the server unread."""
        self._boxes.pop(ident, None)

    def _pump(self, box: Deque[Any], spin: float = 0.0) -> None:
        """Read, or wait while another thread reads, until the box has an answer."""
        while not box:
            if not self._lead.acquire(False):
                with self._turn:
                    self._waiting += 1
                    # checked under the lock: the leader notifies under it after every message and when it steps down
                    if not box and self._lead.locked():
                        self._turn.wait()
                    self._waiting -= 1
                continue
            try:
                while not box:
                    message = self._connection.receive(spin)
                    assert message is not None
                    self._hand_over(message)
                    if self._waiting:
                        with self._turn:
                            self._turn.notify_all()
            finally:
                self._step_down()

    def _step_down(self) -> None:
        self._lead.release()
        if self._waiting:
            with self._turn:
                self._turn.notify_all()

    def _hand_over(self, message: Message) -> None:
        command, ident, fields = message
        if command in (_REPLY, _INFER_RESPONSE):
            body = BY_NUMBER[command].read(fields)
            box = self._boxes.get(ident)
            if box is not None:
                box.append(body)
            elif command == _INFER_RESPONSE and body.block is not None:
                self._connection.freed.append(body.block)
        else:
            self._commands.append(message)
