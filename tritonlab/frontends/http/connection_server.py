"""A server of HTTP connections on a thread of its own, independent of the process's main thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext

import uvloop

from ..shared.access import AccessRules, Door
from ..shared.listener import BACKLOG, listen
from ..shared.request_memory import RequestMemory
from .connection import ConnectionHost, HttpConnection
from .reply import HttpReply, failure
from .request_parser import Request

#: Seconds for which an idle connection is kept, at least: longer than clients keep theirs; otherwise both sides might
#: close one at the same time.
KEEP_ALIVE = 3600

_log = logging.getLogger(__name__)


def _defect(error: Exception) -> HttpReply:
    _log.error("a request failed", exc_info=error)
    return failure(500, f"unexpected error: {type(error).__name__}: {error}")


class ConnectionServer(ConnectionHost):
    """A server with one listening socket, one event loop and one thread. It is started and stopped at most once.

    `app` is called on the event loop. `loop_context` is a context for as long as the event loop runs.
    `cancel_on_disconnect`: see ConnectionHost. `shares_port`: see `listen`.
    """

    def __init__(
        self,
        app: Callable[[Request], Awaitable[HttpReply]],
        name: str,
        access: AccessRules | None = None,
        defect: Callable[[Exception], HttpReply] = _defect,
        memory: RequestMemory | None = None,
        loop_context: Callable[[asyncio.AbstractEventLoop], AbstractContextManager[object]] = nullcontext,
        cancel_on_disconnect: bool = False,
        shares_port: bool = False,
    ) -> None:
        door = Door(access or AccessRules())
        super().__init__(app, defect, door, memory or RequestMemory(), cancel_on_disconnect)
        self._loop_context = loop_context
        self._shares_port = shares_port
        self._name = name
        self._timeout = 0.0
        self._begun = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def start(self, address: str, port: int) -> int:
        """Listen, and return the port. Raises UnavailableError or InvalidArgumentError as `listen` does."""
        listener = listen(address, port, self._shares_port)
        bound = int(listener.getsockname()[1])

        def run() -> None:
            try:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    loop = runner.get_loop()
                    with self._loop_context(loop):
                        runner.run(self._serve(listener))
            finally:
                listener.close()
                self._begun.set()

        self._thread = threading.Thread(target=run, name=self._name, daemon=True)
        self._thread.start()
        self._begun.wait()
        return bound

    def is_busy(self) -> bool:
        """Return whether a request is being received or an answer sent. Any thread may call it."""
        return any(connection.busy or connection.receives for connection in list(self.connections))

    def stop(self, timeout: float) -> None:
        """Refuse new connections, finish requests under way, and cut them off after `timeout` seconds."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._timeout = timeout
        assert self._loop is not None and self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        thread.join()

    async def _serve(self, listener: object) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await self._loop.create_server(lambda: HttpConnection(self), sock=listener, backlog=BACKLOG)  # type: ignore[call-overload]
        self._loop.call_later(KEEP_ALIVE, self.close_idle)
        self._begun.set()
        await self._stop.wait()
        self.stopping = True
        server.close()
        await asyncio.sleep(0)  # in which connections begin that were accepted before
        for connection in list(self.connections):
            connection.close()
        end = self._loop.time() + self._timeout
        while self.connections and self._loop.time() < end:
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()
        while self.connections:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)  # in which the last one is closed

    def close_idle(self) -> None:
        """Close connections on which nothing came since the last call."""
        for connection in list(self.connections):
            if not connection.busy and not connection.used:
                connection.close()
            connection.used = False
        asyncio.get_running_loop().call_later(KEEP_ALIVE, self.close_idle)
