"""The subcommand `tritonlab tap`."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....core.short_number import size_text
from .copied_bytes import CopySender
from .forwarder import Forwarder, Upstream

#: Bytes of copies that wait for the capture.
MOST_WAITING = 256 << 20
#: Seconds for the capture to start, and to read and write the rest at the end.
_START_SECONDS, _END_SECONDS = 60.0, 60.0


def tap(
    listen: Sequence[str],
    upstream: Sequence[str],
    write: Path,
    grace: float = 25.0,
    **rules: Any,
) -> int:
    """Forward connections until SIGTERM or SIGINT, and capture the requests on them.

    Args:
        listen: addresses to listen at, `[HOST]:PORT`.
        upstream: the server of each of them, `HOST:PORT`.
        write: the file of the capture.
        grace: seconds that requests under way may take after the signal.
        rules: the options of `tritonlab capture`.

    Returns the exit status: 1 if the capture has failed. Raises OSError for an address that cannot be used.
    """
    if len(listen) != len(upstream):
        raise OSError(f"{len(listen)} --listen and {len(upstream)} --upstream: each --listen needs one")
    servers = [Upstream(*_address(text, "--upstream")) for text in upstream]
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(_listening(*_address(text, "--listen"))) for text in listen]
        link, end = socket.socketpair()
        opened.enter_context(link)
        facts = {"source": "tap", "server": ", ".join(map(str, servers))}
        process = _start_capture(end, [link, *sockets], write, facts, rules)
        error = _started(link)
        if error:
            process.kill()  # it may hang
            process.join()
            print(f"tritonlab: {error}", file=sys.stderr)
            return 1
        copies = CopySender(link, MOST_WAITING)
        forwarder = Forwarder(list(zip(sockets, servers, strict=True)), copies, grace)
        for sock, server in zip(sockets, servers, strict=True):
            host, port = sock.getsockname()[:2]
            print(f"tap: {host}:{port} -> {server}, captured in {write}", flush=True)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: forwarder.end())
        gc.freeze()  # later collections skip all objects so far
        forwarder.run()
        copies.finish(_END_SECONDS)
        process.join(_END_SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
    if process.exitcode:
        print("tritonlab tap: the capture has ended too early; its file has what it wrote before", file=sys.stderr)
    if copies.lost_bytes:
        print(f"not captured: {size_text(copies.lost_bytes)} of {forwarder.count:,} connections, {_WHY_LOST}")
    return 1 if process.exitcode else 0


_WHY_LOST = "because the capture was too slow"


def _address(text: str, option: str) -> tuple[str, int]:
    """Return host and port of an address. Raises OSError for a text that is none."""
    host, _, port = text.removeprefix("http://").removeprefix("grpc://").rstrip("/").rpartition(":")
    if not port.isdecimal() or int(port) > 0xFFFF or "/" in host:
        raise OSError(f"{option} {text} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _listening(host: str, port: int) -> socket.socket:
    """Return a listening socket: without a host, of IPv4 and, if the system has it, IPv6."""
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def _start_capture(
    link: socket.socket, others: Sequence[socket.socket], path: Path, facts: Mapping[str, Any], rules: Mapping[str, Any]
) -> Any:
    """Start the process of the capture, without the sockets of this process."""
    process = multiprocessing.get_context("fork").Process(
        target=_capture, args=(link, others, path, facts, rules), name="capture", daemon=False
    )
    process.start()
    link.close()
    return process


def _capture(
    link: socket.socket, others: Sequence[socket.socket], path: Path, facts: Mapping[str, Any], rules: Mapping[str, Any]
) -> None:
    for sock in others:
        sock.close()
    from .capture_process import serve_copies

    sys.exit(serve_copies(link, path, facts, rules, MOST_WAITING))


def _started(link: socket.socket) -> str:
    """Wait for the capture to begin, and return its error; empty if there is none."""
    link.settimeout(_START_SECONDS)
    answer = b""
    try:
        while not answer.endswith(b"\n"):
            piece = link.recv(4096)
            if not piece:
                return "the process of the capture has ended"
            answer += piece
    except TimeoutError:
        return "the process of the capture does not start"
    return answer.decode(errors="replace").strip()
