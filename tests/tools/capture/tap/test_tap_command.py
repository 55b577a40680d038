"""`tritonlab tap` as a process: what ends it, what it cannot read, and what it refuses."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import random
import resource
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.serving import eventually
from tests.tap_process import TapProcess
from tritonlab.__main__ import main
from tritonlab.tools.capture.capture_file import Capture

from .test_tapped_http import INFER, answer, document, reply


class Answers(http.server.BaseHTTPRequestHandler):
    """A server that answers every request with ten times its number; that of 99 once `go_on` is set. At
    98 it resets the connection, as the system does for a server that is killed."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    go_on = threading.Event()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        number = json.loads(body)["inputs"][0]["data"][0]
        if number == 99:
            self.go_on.wait(30)
        if number == 98:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(reply(answer(number * 10)))

    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture
def upstream() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def client(tap: TapProcess) -> contextlib.closing[http.client.HTTPConnection]:
    return contextlib.closing(http.client.HTTPConnection(tap.addresses[0], timeout=30))


def send(connection: http.client.HTTPConnection, number: int) -> int:
    connection.request("POST", INFER, document(number))
    found: int = json.loads(connection.getresponse().read())["outputs"][0]["data"][0]
    return found


def is_open(host: str, port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex((host, port)) == 0


def numbers(file: Path) -> list[int]:
    return [int(one.exchange.request.inputs["IN"].numpy()[0]) for one in Capture(file)]


def test_odd_bytes_and_an_orderly_end(upstream: str, tmp_path: Path) -> None:
    file, rng = tmp_path / "day.arrow", random.Random(5)
    with TapProcess([upstream], file) as tap, client(tap) as kept:
        host, port = tap.addresses[0].split(":")
        assert send(kept, 1) == 10
        beginnings = (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01", b"POST / HTTP/1.1\r\n", b"PRI")
        for number in range(100):
            with socket.create_connection((host, int(port)), timeout=30) as odd:
                odd.sendall(rng.choice(beginnings) + rng.randbytes(rng.randrange(200)))
                if number % 2:
                    odd.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if number % 10 == 0:
                assert send(kept, number) == number * 10
        with client(tap) as other, pytest.raises(ConnectionResetError):
            send(other, 98)
        under_way: list[int] = []
        asking = threading.Thread(target=lambda: under_way.append(send(kept, 99)))
        Answers.go_on.clear()
        asking.start()
        threading.Event().wait(0.05)
        tap.process.send_signal(signal.SIGTERM)
        eventually(lambda: not is_open(host, int(port)))
        Answers.go_on.set()
        asking.join(30)
        assert under_way == [990]
        report = tap.stop()  # a second signal does no harm, and the connection is closed by then or now
    assert numbers(file) == [1, *range(0, 100, 10), 98, 99]
    (lost,) = [one.exchange for one in Capture(file) if not one.exchange.answered]
    assert lost.unanswered == "the server closed the connection" and lost.failed and not lost.arrivals
    assert "it is encrypted (TLS)" in report and "13 requests" in report and Capture(file).facts["source"] == "tap"


@pytest.mark.parametrize("killed", ["tap", "capture"])
def test_a_kill(upstream: str, tmp_path: Path, killed: str) -> None:
    file = tmp_path / "day.arrow"
    with TapProcess([upstream], file) as tap, client(tap) as kept:
        assert [send(kept, number) for number in range(20)] == list(range(0, 200, 10))
        (child,) = psutil.Process(tap.process.pid).children()
        eventually(lambda: file.stat().st_size > 0 and len(numbers(file)) == 20)
        if killed == "tap":
            tap.process.kill()
            child.wait(30)
        else:
            child.kill()
            assert tap.process.stderr is not None
            warning = tap.process.stderr.readline()
            assert [send(kept, number) for number in range(20)] == list(range(0, 200, 10))
            tap.process.terminate()
            kept.close()
            _, err = tap.process.communicate(timeout=30)
            assert tap.process.returncode == 1 and "has ended too early" in err
            assert "the capture has ended; requests are forwarded without it" in warning
    assert numbers(file) == list(range(20))


def test_a_full_disk(upstream: str, tmp_path: Path) -> None:
    file = tmp_path / "day.arrow"
    with TapProcess([upstream], file) as tap, client(tap) as kept:
        assert send(kept, 7) == 70
        eventually(lambda: file.stat().st_size > 0 and numbers(file) == [7])
        (child,) = psutil.Process(tap.process.pid).children()
        _, most = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (file.stat().st_size, most))
        assert [send(kept, number) for number in range(50)] == list(range(0, 500, 10))
        kept.close()
        report = tap.stop()
    assert numbers(file) == [7] and "lost: 50" in report


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--listen", ":0", "--upstream", "localhost"], "--upstream localhost is not HOST:PORT"),
        (["--listen", ":x", "--upstream", "localhost:1"], "--listen :x is not HOST:PORT"),
        (["--listen", ":0", "--listen", ":0", "--upstream", "localhost:1"], "each --listen needs one"),
    ],
)
def test_addresses_that_are_refused(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tap", "--write", "day.arrow", *words]) == 1
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(("words", "why"), [([], "File exists"), (["--redact", "x"], "--redact x has no PATTERN=HOW")])
def test_a_capture_that_cannot_begin(words: list[str], why: str, tmp_path: Path) -> None:
    file = tmp_path / "day.arrow"
    file.touch()
    with pytest.raises(RuntimeError, match=why):
        TapProcess(["127.0.0.1:1"], file, *words)
