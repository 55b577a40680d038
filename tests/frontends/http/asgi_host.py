"""A host that speaks ASGI, for tests: one request, and what is sent for it."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What the application has sent. `cut`: whether an exception ended it."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    cut: bool = False

    def json(self) -> Any:
        return json.loads(self.body)


class AsgiHost:
    """A host of one application. With `pieces`, bodies come in pieces of so many bytes."""

    def __init__(self, app: Any, pieces: int = 1 << 30) -> None:
        self._app = app
        self._pieces = pieces

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: tuple[tuple[bytes, bytes], ...] = ((b"host", b"localhost"),),
        gone_after: int | None = None,
        root: str = "",
        gone: asyncio.Event | None = None,
    ) -> Answer:
        """Send a request; `gone_after`: the client goes after so many messages of the answer, or when `gone` is set."""
        parts = [body[n : n + self._pieces] for n in range(0, len(body), self._pieces)] or [b""]
        sent: list[dict[str, Any]] = []
        gone = gone or asyncio.Event()

        async def receive() -> dict[str, Any]:
            if parts:
                part = parts.pop(0)
                return {"type": "http.request", "body": part, "more_body": bool(parts)}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)
            if gone_after is not None and len(sent) >= gone_after:
                gone.set()
                await asyncio.sleep(0)

        scope = {
            "type": "http", "method": method, "path": root + path, "raw_path": (root + path).encode() + b"?q=1",
            "root_path": root, "headers": headers,
        }  # fmt: skip
        cut = False
        try:
            await asyncio.wait_for(self._app(scope, receive, send), 30)
        except Exception:
            cut = True
        bodies = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(sent[0]["status"], dict(sent[0]["headers"]), bodies, cut)

    async def live(self, *requests: tuple[str, str, bytes]) -> list[Answer]:
        """Send requests between the two lifespan events, and return the answers."""
        stop = asyncio.Event()
        words = ["lifespan.startup", "lifespan.shutdown"]
        events: list[str] = []

        async def receive() -> dict[str, Any]:
            if len(words) == 1:
                await stop.wait()
            return {"type": words.pop(0)}

        async def send(message: dict[str, Any]) -> None:
            events.append(message["type"])

        life = asyncio.ensure_future(self._app({"type": "lifespan"}, receive, send))
        while not events:
            await asyncio.sleep(0)
        answers = [await self.request(*arguments) for arguments in requests]
        stop.set()
        await life
        assert events == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        return answers
