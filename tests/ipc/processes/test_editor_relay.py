"""The relay between editors and a debugger: it accepts only the debugger that has its token, and editors come through
its socket.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import eventually
from tritonlab.core import scratch_directory
from tritonlab.ipc.processes.editor_relay import LOOPBACK, EditorRelay

SECONDS = 20


_opened: list[End] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while _opened:
        end = _opened.pop()
        end.file.close()
        end.link.close()


@pytest.fixture
def relay(closed: None) -> Iterator[EditorRelay]:
    relay = EditorRelay()
    yield relay
    relay.close()
    for end in _opened:
        with contextlib.suppress(OSError):
            end.link.shutdown(socket.SHUT_RDWR)
    eventually(lambda: not relay.adapter.exists())


class End:
    """One end of a connection that speaks DAP."""

    def __init__(self, link: socket.socket) -> None:
        link.settimeout(SECONDS)
        self.link = link
        self.file = link.makefile("rb")
        _opened.append(self)

    def read(self) -> dict[str, Any] | None:
        head = self.file.readline()
        if not head:
            return None
        assert self.file.readline() == b"\r\n"
        message: dict[str, Any] = json.loads(self.file.read(int(head.partition(b":")[2])))
        return message

    def write(self, **message: Any) -> None:
        body = json.dumps(message).encode()
        self.link.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def respond(self, request: dict[str, Any] | None, **body: Any) -> None:
        assert request is not None
        self.write(type="response", request_seq=request["seq"], command=request["command"], success=True, body=body)


def connect(relay: EditorRelay) -> End:
    return End(socket.create_connection((LOOPBACK, relay.port), SECONDS))


def debugger(relay: EditorRelay) -> End:
    """Connect a debugger that has the token and has answered all that lets its process go on."""
    end = connect(relay)
    end.respond(end.read(), clientAccessToken=relay.token)
    for command in ("initialize", "attach", "configurationDone", "disconnect"):
        request = end.read()
        assert request is not None and request["command"] == command
        end.respond(request)
    return end


def editor(relay: EditorRelay) -> End:
    link = socket.socket(socket.AF_UNIX)
    link.connect(str(relay.adapter.parent / "socket"))
    return End(link)


def is_closed(end: End) -> bool:
    try:
        return end.read() is None
    except ConnectionResetError:
        return True


WRONG = {
    "another-token": b'{"type": "response", "command": "pydevdAuthorize", "body": {"clientAccessToken": "0"}}',
    "no-token": b'{"type": "response", "command": "pydevdAuthorize", "body": {"clientAccessToken": null}}',
    "no-text": b'{"type": "response", "command": "pydevdAuthorize", "body": {"clientAccessToken": "\\ud800"}}',
    "no-body": b'{"type": "response", "command": "pydevdAuthorize"}',
    "not-json": b"x",
    "deep": b"[" * 4000,
    "long": b"0" * 5000,
}


@pytest.mark.parametrize("case", WRONG)
def test_a_debugger_without_the_token_is_cut_off(relay: EditorRelay, case: str) -> None:
    rogue, silent = connect(relay), connect(relay)
    request = rogue.read()
    assert request is not None and request["command"] == "pydevdAuthorize"
    assert relay.token not in str(request)
    rogue.link.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(WRONG[case]), WRONG[case]))
    assert is_closed(rogue)
    debugger(relay)
    assert silent.read()
    assert is_closed(silent)
    with pytest.raises(ConnectionRefusedError):
        connect(relay)


def test_many_that_say_nothing_keep_no_debugger_out(relay: EditorRelay) -> None:
    silent = [connect(relay) for _ in range(40)]
    debugger(relay)
    assert all(end.read() and is_closed(end) for end in silent)


def test_no_other_user_can_enter(relay: EditorRelay) -> None:
    assert stat.S_IMODE(os.stat(relay.adapter.parent).st_mode) == 0o700


def test_the_path_may_be_longer_than_that_of_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("d" * 120)
    long.mkdir()
    monkeypatch.setattr(scratch_directory, "_own_directory", lambda: long)
    relay = EditorRelay()
    with debugger(relay).link as link:
        command = [sys.executable, str(relay.adapter)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as adapter:
            assert adapter.stdin is not None and adapter.stdout is not None
            adapter.stdin.write(b"Content-Length: 2\r\n\r\n{}")
            adapter.stdin.flush()
            assert link.recv(100) == b"Content-Length: 2\r\n\r\n{}"
            link.sendall(b"Content-Length: 4\r\n\r\n1234")
            assert adapter.stdout.read(25) == b"Content-Length: 4\r\n\r\n1234"
            adapter.stdin.close()
            assert adapter.wait(SECONDS) == 0


def test_an_editor_that_goes_is_taken_leave_of(relay: EditorRelay) -> None:
    end, first = debugger(relay), editor(relay)
    first.write(seq=1, type="request", command="initialize")
    assert end.read() == {"seq": 1, "type": "request", "command": "initialize"}
    first.link.sendall(b"Content-Length: 100\r\n\r\nhalf")
    first.link.shutdown(socket.SHUT_RDWR)
    leave = end.read()
    assert leave is not None and leave["command"] == "disconnect"
    second = editor(relay)  # which waits until the debugger has forgotten the first
    second.write(seq=1, type="request", command="initialize")
    end.write(type="event", event="output")
    end.respond(leave)
    assert (end.read() or {})["command"] == "initialize"
    end.write(type="event", event="stopped")
    assert second.read() == {"type": "event", "event": "stopped"}
    end.link.shutdown(socket.SHUT_RDWR)
    assert (second.read() or {})["event"] == "terminated"
    assert second.read() is None


def test_an_editor_that_comes_as_another_goes_waits(relay: EditorRelay, monkeypatch: pytest.MonkeyPatch) -> None:
    may_look = threading.Event()

    class Selector(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            assert may_look.wait(SECONDS)
            return sorted(super().select(timeout), key=lambda ready: ready[0].fileobj is relay._door)

    monkeypatch.setattr(selectors, "DefaultSelector", Selector)
    may_look.set()
    end, first = debugger(relay), editor(relay)
    first.write(seq=1, type="request", command="initialize")
    assert (end.read() or {})["command"] == "initialize"
    may_look.clear()
    first.write(seq=2, type="request", command="attach")
    assert (end.read() or {})["command"] == "attach"
    first.link.shutdown(socket.SHUT_RDWR)
    second = editor(relay)
    may_look.set()
    leave = end.read()
    end.write(type="event", event="output")  # for the first
    end.respond(leave)
    end.write(type="event", event="stopped")
    second.write(seq=1, type="request", command="initialize")
    assert (end.read() or {})["command"] == "initialize"
    end.write(type="event", event="continued")
    assert second.read() == {"type": "event", "event": "continued"}


def test_an_adapter_whose_model_has_gone_says_so(relay: EditorRelay, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter.py"
    adapter.write_bytes(relay.adapter.read_bytes())
    answer = subprocess.run([sys.executable, adapter], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"no debugger waits in {tmp_path} (No such file or directory): the model's process")
