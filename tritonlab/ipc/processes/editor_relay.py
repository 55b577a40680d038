"""The way from editors to the debugger in a stub: a Unix socket in a directory that only this user can enter.

A debugger runs any code that its client sends. `debugpy.listen` accepts everyone who reaches loopback, which is every
user of the machine, and passes the token of its own adapter process on a command line, which every user can read. So
the stub's debugpy listens nowhere. It connects to this process (`debugpy.connect`), which holds the port before the
stub gets its number, and shows the token that it got over the stub's own link; then the port is closed. A client
without the token, such as another user in the stub's place, gets nothing and is disconnected.

An editor starts `editor_adapter.py` as its debug adapter, a copy next to the socket. One editor at a time is connected.
If it goes without disconnecting, the relay disconnects for it, so that threads go on and the next editor finds no
breakpoints. The protocol is DAP: JSON documents behind a `Content-Length`.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import re
import secrets
import selectors
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...core.scratch_directory import ScratchDirectory
from . import editor_adapter

LOOPBACK = "127.0.0.1"

_PIECE = 1 << 16
#: Bytes that a client may send before it has shown the token, and such clients at a time.
_UNKNOWN_BYTES, _UNKNOWN = 1 << 12, 16
#: The number of the request that disconnects for an editor; editors count from 1.
_LEAVE = 1 << 30
_LENGTH = re.compile(rb"(?:^|\r\n)Content-Length: *([0-9]+)", re.IGNORECASE)


class EditorRelay:
    """The connection of one stub's debugger with editors, until the stub ends.

    The stub's debugpy connects to `port` of loopback with `token`. Then an editor may start `adapter`. A thread of its
    own does the work.
    """

    def __init__(self) -> None:
        self.token = secrets.token_hex(24)
        self._directory = ScratchDirectory("editor-")
        self._port = socket.create_server((LOOPBACK, 0))
        self.port: int = self._port.getsockname()[1]
        self._door = _listen(self._directory.path / editor_adapter.SOCKET)
        self.adapter = self._directory.path / "editor_adapter.py"
        shutil.copyfile(editor_adapter.__file__, self.adapter)
        self._editor: _Peer | None = None
        threading.Thread(target=self._run, name="editor relay", daemon=True).start()

    def close(self) -> None:
        """End before a debugger connected."""
        with contextlib.suppress(OSError):
            self._port.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        with self._door:
            try:
                with self._port:
                    debugger = self._await_debugger()
                with contextlib.suppress(OSError, ValueError), debugger.socket:
                    self._unblock(debugger)
                    self._relay(debugger)
            except OSError:  # closed
                pass
            finally:
                if self._editor is not None:
                    self._editor.end()
                self._directory.remove()

    def _await_debugger(self) -> _Peer:
        """Return the client that has the token. Raises OSError once the port is closed."""
        unknown: list[_Peer] = []
        with selectors.DefaultSelector() as selector:
            selector.register(self._port, selectors.EVENT_READ)
            try:
                while True:
                    for key, _ in selector.select():
                        client: _Peer = key.data or _Peer(self._port.accept()[0])
                        if key.data is None:
                            client.ask(1, "pydevdAuthorize")
                            selector.register(client.socket, selectors.EVENT_READ, client)
                            unknown.append(client)
                            refused = unknown[0] if len(unknown) > _UNKNOWN else None
                        else:
                            has_token = self._has_token(client)
                            if has_token:
                                unknown.remove(client)
                                client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                                return client
                            refused = client if has_token is False else None
                        if refused in unknown:
                            unknown.remove(refused)
                            selector.unregister(refused.socket)
                            refused.socket.close()
            finally:
                for client in unknown:
                    client.socket.close()

    def _has_token(self, client: _Peer) -> bool | None:
        """Return whether a client has shown the token; None while it may still do so."""
        try:
            for message in client.receive(_UNKNOWN_BYTES):
                answer = _document(message)
                if answer.get("command") == "pydevdAuthorize":
                    return hmac.compare_digest(answer["body"]["clientAccessToken"].encode(), self.token.encode())
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return False
        return None

    @staticmethod
    def _unblock(debugger: _Peer) -> None:
        """Resume the stub, which waits in `debugpy.connect` for a first client to be ready."""
        commands = ("initialize", "attach", "configurationDone", "disconnect")
        for number, command in enumerate(commands, _LEAVE - len(commands) + 1):
            debugger.ask(number, command, {"adapterID": "debugpy"} if command == "initialize" else {})
        while not any(_is_leave(message) for message in debugger.receive()):
            pass

    def _relay(self, debugger: _Peer) -> None:
        """Pass messages on until the debugger goes. Raises OSError or ValueError then."""
        with selectors.DefaultSelector() as selector:
            selector.register(debugger.socket, selectors.EVENT_READ)
            selector.register(self._door, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is debugger.socket:
                        if self._hand_on(debugger.receive()):
                            selector.register(self._door, selectors.EVENT_READ)
                    elif key.fileobj is self._door:
                        editor = _Peer(self._door.accept()[0])
                        if self._editor is None:
                            self._editor = editor
                            selector.register(editor.socket, selectors.EVENT_READ)
                        else:
                            editor.socket.close()
                    elif self._editor is not None:
                        try:
                            messages = b"".join(self._editor.receive())
                        except (OSError, ValueError):
                            selector.unregister(self._editor.socket)
                            self._editor.socket.close()
                            self._editor = None
                            debugger.ask(_LEAVE, "disconnect")
                            selector.unregister(self._door)  # the next editor waits until this one is forgotten
                            break  # one that has come meanwhile, too
                        else:
                            debugger.socket.sendall(messages)

    def _hand_on(self, messages: Iterator[bytes]) -> bool:
        """Send messages of the debugger to the editor. Return whether the debugger detached after an editor left."""
        is_free = False
        for message in messages:
            if self._editor is not None:
                with contextlib.suppress(OSError):  # its end is read next
                    self._editor.socket.sendall(message)
            else:
                is_free = is_free or _is_leave(message)
        return is_free


class _Peer:
    """One end that speaks DAP."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._data = bytearray()

    def ask(self, number: int, command: str, arguments: Any = None) -> None:
        """Send a request, if the other side is still there."""
        self._send({"seq": number, "type": "request", "command": command, "arguments": arguments or {}})

    def end(self) -> None:
        """Report to an editor that the debugged process has ended, and close its connection."""
        with self.socket:
            self._send({"seq": _LEAVE, "type": "event", "event": "terminated"})

    def _send(self, document: Any) -> None:
        body = json.dumps(document).encode()
        with contextlib.suppress(OSError):  # which is read next
            self.socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def receive(self, limit: int = 0) -> Iterator[bytes]:
        """Wait for bytes and yield each complete message. Raises ValueError at the end of the stream, for a message
        that is not DAP, and for a message of more than `limit` bytes, if set."""
        data = self.socket.recv(_PIECE)
        if not data:
            raise ValueError("the other side has closed the connection")
        self._data += data
        while (end := self._data.find(b"\r\n\r\n") + 4) >= 4:
            length = _LENGTH.search(self._data[:end])
            if length is None:
                raise ValueError("a message without a length")
            end += int(length[1])
            if limit and end > limit:
                raise ValueError("a message is too long")
            if len(self._data) < end:
                return
            message = bytes(self._data[:end])
            del self._data[:end]
            yield message
        if len(self._data) > _PIECE:
            raise ValueError("a head without an end")


def _listen(path: Path) -> socket.socket:
    """Listen at a path of any length; the path of a socket has at most 107 bytes."""
    door = socket.socket(socket.AF_UNIX)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        door.bind(f"/proc/self/fd/{directory}/{path.name}")
        door.listen()
    except BaseException:
        door.close()
        raise
    finally:
        os.close(directory)
    return door


def _document(message: bytes) -> dict[str, Any]:
    found = json.loads(message.partition(b"\r\n\r\n")[2])
    return found if isinstance(found, dict) else {}


def _is_leave(message: bytes) -> bool:
    return _document(message).get("request_seq") == _LEAVE
