from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from tritonlab.ipc.link_reader import LinkReader


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


class Heard:
    """Counts the events of one descriptor; arms again only when told."""

    def __init__(self) -> None:
        self.count = threading.Semaphore(0)

    def __call__(self, events: int) -> None:
        self.count.release()

    def once_more(self) -> bool:
        return self.count.acquire(timeout=5)

    def nothing(self) -> bool:
        return not self.count.acquire(timeout=0.05)


def test_an_armed_descriptor_is_heard_once(link_reader: LinkReader, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    heard = Heard()
    link_reader.add(ours.fileno(), heard)
    theirs.send(b"1")
    assert heard.once_more()
    theirs.send(b"2")
    assert heard.nothing()
    link_reader.arm(ours.fileno())
    assert heard.once_more()
    link_reader.remove(ours.fileno())


def test_one_that_is_not_armed_for_reading_is_not_heard(
    link_reader: LinkReader, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    heard = Heard()
    link_reader.add(ours.fileno(), heard)
    link_reader.arm(ours.fileno(), readable=False)
    theirs.send(b"1")
    assert heard.nothing()
    link_reader.arm(ours.fileno(), readable=False, writable=True)
    assert heard.once_more()
    link_reader.remove(ours.fileno())


def test_a_removed_descriptor_can_be_armed_without_harm(
    link_reader: LinkReader, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    heard = Heard()
    link_reader.add(ours.fileno(), heard)
    link_reader.remove(ours.fileno())
    link_reader.remove(ours.fileno())
    link_reader.arm(ours.fileno())
    theirs.send(b"1")
    assert heard.nothing()


def test_a_callback_that_raises_does_not_end_the_thread(
    link_reader: LinkReader, pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = pair
    heard = Heard()
    link_reader.add(ours.fileno(), lambda events: [][events])
    theirs.send(b"1")
    read, write = os.pipe()
    link_reader.add(read, heard)
    os.write(write, b"x")
    assert heard.once_more()
    assert "IndexError" in caplog.text
    for fd in (ours.fileno(), read):
        link_reader.remove(fd)
    os.close(read)
    os.close(write)


def test_after_close_nothing_can_be_added_and_the_rest_is_ignored(pair: tuple[socket.socket, socket.socket]) -> None:
    reader = LinkReader()
    ours, _ = pair
    reader.add(ours.fileno(), Heard())
    reader.close()
    reader.arm(ours.fileno())
    reader.remove(ours.fileno())
    with pytest.raises(OSError, match="stopping"):
        reader.add(ours.fileno(), Heard())
