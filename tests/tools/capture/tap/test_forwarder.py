"""The forwarding of bytes, between real sockets."""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tritonlab.tools.capture.tap import forwarder
from tritonlab.tools.capture.tap.copied_bytes import CopyReader, CopySender, Record, RecordKind
from tritonlab.tools.capture.tap.forwarder import Forwarder, Rehearsal, Upstream

SOON = 30.0


class Scene:
    """A forwarder on a thread, whose server is a listening socket of the test."""

    def __init__(self, most_bytes: int = 1 << 24) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(SOON)
        front = socket.create_server(("127.0.0.1", 0))
        self._front = front.getsockname()
        self.link, end = socket.socketpair()
        self.copies = CopySender(end, most_bytes)
        upstream = Upstream("127.0.0.1", self.listener.getsockname()[1])
        self.forwarder = Forwarder([(front, upstream)], self.copies)
        self.thread = threading.Thread(target=self.forwarder.run)
        self.thread.start()

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Return the client's socket and the server's."""
        client = socket.create_connection(self._front, timeout=SOON)
        server, _ = self.listener.accept()
        server.settimeout(SOON)
        return client, server

    def client(self) -> socket.socket:
        return socket.create_connection(self._front, timeout=SOON)

    def records(self) -> list[Record]:
        """End the forwarder, and return the copies that came."""
        self.stop()
        found: list[Record] = []
        reader = threading.Thread(target=lambda: found.extend(CopyReader(self.link)))
        reader.start()
        self.copies.finish(SOON)
        reader.join(SOON)
        return [record for record in found if record.connection]

    def stop(self) -> None:
        if self.thread.is_alive():
            self.forwarder.end()
            self.forwarder.end()
        self.thread.join(SOON)
        assert not self.thread.is_alive()

    def close(self) -> None:
        self.stop()
        for sock in (self.listener, self.link, self.copies.link):
            sock.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.close()


def read_all(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(1 << 16), b""))


def test_bytes_are_forwarded_and_copied(scene: Scene) -> None:
    client, server = scene.connect()
    with client, server:
        client.sendall(b"question")
        assert server.recv(100) == b"question"
        server.sendall(b"answer")
        assert client.recv(100) == b"answer"
        client.shutdown(socket.SHUT_WR)
        assert server.recv(100) == b""
        server.sendall(b"after the client's end")
        assert client.recv(100) == b"after the client's end"
        server.close()
        assert client.recv(100) == b""
    found = [(record.kind, record.data) for record in scene.records()]
    assert [kind for kind, _ in found] == [
        *(RecordKind.OPENED, RecordKind.FROM_CLIENT, RecordKind.FROM_SERVER, RecordKind.CLIENT_ENDED),
        *(RecordKind.FROM_SERVER, RecordKind.SERVER_ENDED, RecordKind.CLOSED),
    ]
    assert found[1][1] == b"question" and found[2][1] == b"answer"


def test_a_slow_client_holds_the_server_back(scene: Scene) -> None:
    client, server = scene.connect()
    with client, server:
        server.setblocking(False)
        sent = 0
        with pytest.raises(BlockingIOError):
            for _ in range(2000):
                sent += server.send(bytes(1 << 16))
                threading.Event().wait(0.0002)
        assert sent < 64 << 20  # the buffers of four sockets, and one piece
        received = 0
        while received < sent:
            received += len(client.recv(1 << 20))
        assert received == sent


def test_a_large_answer_arrives_whole(scene: Scene) -> None:
    data = os.urandom(1 << 20) * 8
    client, server = scene.connect()
    with client, server:
        sender = threading.Thread(target=lambda: (server.sendall(data), server.close()))
        sender.start()
        assert read_all(client) == data
        sender.join()
    assert b"".join(record.data for record in scene.records() if record.kind == RecordKind.FROM_SERVER) == data


def receive(sock: socket.socket, size: int) -> None:
    while size:
        size -= len(sock.recv(size))


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_reset_is_passed_on_after_the_bytes_before_it(scene: Scene, side: str) -> None:
    client, server = scene.connect()
    with client, server:
        one, other = (client, server) if side == "client" else (server, client)
        one.sendall(b"last words")
        assert other.recv(100) == b"last words"
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
        with pytest.raises(ConnectionResetError):
            other.recv(100)


def test_an_answer_before_the_end_of_the_request_arrives(scene: Scene) -> None:
    client, server = scene.connect()
    with client, server:
        client.sendall(b"x" * 1000)
        server.recv(10)
        server.sendall(b"413 too large")
        server.close()  # with unread bytes, which resets the connection
        assert client.recv(100) == b"413 too large"


def test_without_a_server_the_connection_is_reset(scene: Scene) -> None:
    scene.listener.close()
    with pytest.raises(ConnectionResetError), scene.client() as client:  # while it connects, or after
        client.recv(1)


def test_a_capture_that_cannot_follow_loses_the_connection_alone() -> None:
    scene = Scene(most_bytes=1 << 20)
    first, first_server = scene.connect()
    with first, first_server:
        for _ in range(100):
            first.sendall(bytes(1 << 16))
            receive(first_server, 1 << 16)
    second, second_server = scene.connect()
    with second, second_server:
        second.sendall(b"later")
        assert second_server.recv(100) == b"later"
    found = scene.records()
    assert scene.copies.lost_bytes > 0
    assert [record.connection for record in found if record.kind == RecordKind.LOST] == [1]
    assert (2, RecordKind.FROM_CLIENT, b"later") in [(each.connection, each.kind, each.data) for each in found]
    scene.close()


def test_requests_are_forwarded_without_a_capture(scene: Scene, capfd: pytest.CaptureFixture[str]) -> None:
    scene.link.close()
    client, server = scene.connect()
    with client, server:
        for _ in range(3):
            client.sendall(b"question")
            assert server.recv(100) == b"question"
            server.sendall(b"answer")
            assert client.recv(100) == b"answer"
    scene.stop()
    assert "the capture has ended; requests are forwarded without it" in capfd.readouterr().err


def test_an_idle_connection_ends_when_the_tap_does(scene: Scene) -> None:
    client, server = scene.connect()
    with client, server:
        client.sendall(b"question")
        assert server.recv(100) == b"question"
        scene.forwarder.end()
        reader = CopyReader(scene.link)
        for record in reader:
            if record.kind == RecordKind.DRAINING:
                break
        reader.tell_idle(1, 0)  # it has seen nothing of it: more is under way
        server.sendall(b"answer")
        assert client.recv(100) == b"answer"
        reader.tell_idle(1, 2)
        assert client.recv(100) == b"" and server.recv(100) == b""
        scene.thread.join(SOON)
        assert not scene.thread.is_alive()


def test_the_end_does_not_wait_for_names_of_idle_connections() -> None:
    link, end = socket.socketpair()
    copies, reader = CopySender(end, 1 << 24), CopyReader(link)
    for _ in range(20_000):  # more names than the buffer of a socket takes
        copies.add(RecordKind.FROM_CLIENT, 1, 0, b"x" * 100)
    found: list[Record] = []

    def read() -> None:
        for record in reader:
            found.append(record)
            reader.tell_idle(1, 1)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    copies.finish(SOON)
    thread.join(SOON / 10)
    assert len(found) == 20_000
    link.close()
    end.close()


class FullSocket(socket.socket):
    """A listening socket that once has no file descriptor for a connection."""

    is_full = True

    def accept(self) -> tuple[socket.socket, object]:
        if self.is_full:
            self.is_full = False
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


def test_two_listeners_meet_the_limit_of_open_files_in_one_turn(scene: Scene) -> None:
    fronts = [FullSocket(fileno=socket.create_server(("127.0.0.1", 0)).detach()) for _ in range(2)]
    link, end = socket.socketpair()
    upstream = Upstream(*scene.listener.getsockname())
    forwarder = Forwarder([(front, upstream) for front in fronts], CopySender(end, 1 << 20), grace=0.0)
    clients = [socket.create_connection(front.getsockname()) for front in fronts]  # both wait for the first turn
    thread = threading.Thread(target=forwarder.run)
    thread.start()
    servers = [scene.listener.accept()[0] for _ in clients]
    forwarder.end()
    thread.join(SOON)
    assert not thread.is_alive()
    for sock in (*clients, *servers, link, end):
        sock.close()


def test_rehearsals_after_a_piece_reach_neither_the_capture_nor_the_sides(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Semaphore(0)
    end = Rehearsal.end

    def count(rehearsal: Rehearsal) -> None:
        end(rehearsal)
        ended.release()

    monkeypatch.setattr(Rehearsal, "end", count)
    client, server = scene.connect()
    assert not ended.acquire(blocking=False)  # nothing was sent so far
    client.sendall(b"one")
    assert server.recv(16) == b"one"
    assert all(ended.acquire(timeout=SOON) for _ in range(3))
    client.sendall(b"two")
    assert server.recv(16) == b"two"
    client.close()
    assert server.recv(16) == b""
    sent = [each.data for each in scene.records() if each.kind in (RecordKind.FROM_CLIENT, RecordKind.FROM_SERVER)]
    assert sent == [b"one", b"two"]
    server.close()


def test_there_are_no_rehearsals_without_traffic(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "_ACTIVE_NS", 0)  # the last piece is always too long ago
    begun = list[Rehearsal]()
    monkeypatch.setattr(Rehearsal, "begin", begun.append)
    client, server = scene.connect()
    client.sendall(b"one")
    assert server.recv(16) == b"one"
    client.close()
    scene.stop()
    assert not begun
    server.close()
