from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.serving import eventually
from tritonlab.ipc.link.link_reader import LinkReader, LoopReader, Watch
from tritonlab.ipc.link.wait_policy import Cores, WaitPolicy


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


class Arrivals:
    """A count of the events of one descriptor, which only the test arms again."""

    def __init__(self) -> None:
        self.count = threading.Semaphore(0)

    def __call__(self, events: int) -> None:
        self.count.release()

    def once_more(self) -> bool:
        return self.count.acquire(timeout=60)

    def nothing(self) -> bool:
        return not self.count.acquire(timeout=0.05)


def test_an_armed_descriptor_reports_once(link_reader: LinkReader, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    arrivals = Arrivals()
    watch = Watch(link_reader, ours.fileno(), arrivals)
    theirs.send(b"1")
    assert arrivals.nothing()
    watch.start()
    assert arrivals.once_more()
    theirs.send(b"2")
    assert arrivals.nothing()
    watch.arm()
    assert arrivals.once_more()
    watch.remove()


def test_an_event_of_a_numbers_last_owner_is_not_the_new_ones(link_reader: LinkReader) -> None:
    """It was read from epoll before the old watch was removed, and is handled after the new one has started."""
    pairs = [socket.socketpair() for _ in range(3)]
    (first, _), (second, _), (new, new_peer) = pairs
    entered, go = threading.Semaphore(0), threading.Semaphore(0)

    def busy(events: int) -> None:
        entered.release()
        go.acquire()

    watch = Watch(link_reader, first.fileno(), busy)
    old = Watch(link_reader, second.fileno(), Arrivals())
    watch.start()
    old.start()
    pairs[0][1].send(b"1")
    entered.acquire()
    watch.arm()
    pairs[1][1].send(b"1")  # both are ready now: they come together
    go.release()
    entered.acquire()
    old.remove()
    number = second.fileno()
    os.dup2(new.fileno(), number)
    arrivals = Arrivals()
    Watch(link_reader, number, arrivals).start()
    go.release()
    assert arrivals.nothing()
    new_peer.send(b"1")
    assert arrivals.once_more()
    for pair in pairs:
        for end in pair:
            end.close()


def test_it_polls_while_a_model_waits_for_another(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    cores = Cores(2)
    WaitPolicy(cores).block(True)
    before = set(threading.enumerate())
    reader = LinkReader(cores)
    arrivals = Arrivals()
    watch = Watch(reader, ours.fileno(), arrivals)
    watch.start()
    for _ in range(3):
        theirs.send(b"1")
        assert arrivals.once_more()
        ours.recv(1)
        watch.arm()
    watch.remove()
    reader.close()
    eventually(lambda: set(threading.enumerate()) <= before)


def test_one_that_is_not_armed_for_reading_reports_nothing(
    link_reader: LinkReader, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    arrivals = Arrivals()
    watch = Watch(link_reader, ours.fileno(), arrivals)
    watch.start()
    watch.arm(readable=False)
    theirs.send(b"1")
    assert arrivals.nothing()
    watch.arm(readable=False, writable=True)
    assert arrivals.once_more()
    watch.remove()


def test_one_that_is_disarmed_is_not_disarmed_again(
    link_reader: LinkReader, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that follows a pause disarms twice, before it is sent and before its answer is read."""
    ours, theirs = pair
    arrivals = Arrivals()
    watch = Watch(link_reader, ours.fileno(), arrivals)
    watch.start()
    calls: list[int] = []

    class Counting:
        def modify(self, fd: int, mask: int) -> None:
            calls.append(mask)
            epoll.modify(fd, mask)

    epoll, counting = link_reader.epoll, Counting()
    with monkeypatch.context() as patch:
        patch.setattr(link_reader, "epoll", counting)
        watch.arm(readable=False)
        watch.arm(readable=False)
        assert len(calls) == 1
        watch.arm()
        watch.arm()  # needed each time: an event may have come between
        assert len(calls) == 3
    theirs.send(b"1")
    assert arrivals.once_more()
    watch.remove()


def test_a_removed_watch_does_nothing_any_more(
    link_reader: LinkReader, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    arrivals = Arrivals()
    watch = Watch(link_reader, ours.fileno(), arrivals)
    watch.start()
    watch.remove()
    watch.remove()
    watch.arm()
    theirs.send(b"1")
    assert arrivals.nothing()


def test_an_old_watch_does_not_touch_the_new_owner_of_its_number(
    link_reader: LinkReader, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    old = Watch(link_reader, ours.fileno(), Arrivals())
    old.start()
    old.remove()
    arrivals = Arrivals()
    new = Watch(link_reader, ours.fileno(), arrivals)
    new.start()
    old.arm(readable=False)
    old.remove()
    theirs.send(b"1")
    assert arrivals.once_more()
    new.remove()


def test_a_callback_that_raises_does_not_end_the_thread(
    link_reader: LinkReader, pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = pair
    arrivals, entered = Arrivals(), Arrivals()

    def broken(events: int) -> None:
        entered(events)
        raise IndexError

    raising = Watch(link_reader, ours.fileno(), broken)
    raising.start()
    theirs.send(b"1")
    # An event may be reported again, so two descriptors that are both ready may come in either order.
    assert entered.once_more()
    read, write = os.pipe()
    watch = Watch(link_reader, read, arrivals)
    watch.start()
    os.write(write, b"x")
    assert arrivals.once_more()
    assert "IndexError" in caplog.text
    raising.remove()
    watch.remove()
    os.close(read)
    os.close(write)


def test_after_close_nothing_can_be_started_and_the_rest_is_ignored(pair: tuple[socket.socket, socket.socket]) -> None:
    reader = LinkReader()
    ours, _ = pair
    watch = Watch(reader, ours.fileno(), Arrivals())
    watch.start()
    reader.close()
    watch.arm()
    watch.remove()
    with pytest.raises(OSError, match="stopping"):
        Watch(reader, ours.fileno(), Arrivals()).start()


# -- in an event loop


@pytest.fixture
def loop_reader(link_reader: LinkReader) -> Iterator[LoopReader]:
    """Yield the reader of an event loop that this test plays: it reads when the test calls it."""
    reader = link_reader.in_loop()
    yield reader
    if reader.running:
        reader.close()


def readable(reader: LoopReader) -> bool:
    return bool(select.select([reader.fileno()], [], [], 0)[0])


def test_what_is_moved_is_read_by_the_event_loop_alone_and_as_often_as_it_comes(
    link_reader: LinkReader, loop_reader: LoopReader, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    threads: list[int] = []

    def hear(events: int) -> None:
        threads.append(threading.get_ident())
        ours.recv(1)

    watch = Watch(link_reader, ours.fileno(), hear)
    watch.start()
    watch.move(loop_reader, readable=True, writable=False)
    for count in range(1, 4):
        assert not readable(loop_reader)
        theirs.send(b"x")
        assert select.select([loop_reader.fileno()], [], [], 60)[0]
        loop_reader.read()
        assert threads == [threading.get_ident()] * count
    watch.remove()
    theirs.send(b"x")
    assert not readable(loop_reader)


def test_a_moved_watch_that_is_disarmed_leaves_the_event_loop_in_peace(
    link_reader: LinkReader, loop_reader: LoopReader, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    arrivals = Arrivals()
    watch = Watch(link_reader, ours.fileno(), arrivals)
    watch.start()
    watch.move(loop_reader, readable=False, writable=False)
    theirs.send(b"x")
    assert not readable(loop_reader)
    watch.arm()
    assert readable(loop_reader)
    watch.arm(readable=False)
    assert not readable(loop_reader)
    watch.arm(readable=False, writable=True)
    assert readable(loop_reader)
    watch.move(None, readable=True, writable=False)
    assert arrivals.once_more() and not readable(loop_reader)
    watch.remove()


def test_an_armed_watch_of_an_event_loop_is_armed_without_a_system_call(
    link_reader: LinkReader, loop_reader: LoopReader, pair: tuple[socket.socket, socket.socket]
) -> None:
    watch = Watch(link_reader, pair[0].fileno(), Arrivals())
    watch.start()
    watch.move(loop_reader, readable=True, writable=False)
    epoll = loop_reader.epoll
    loop_reader.epoll = None  # type: ignore[assignment]
    watch.arm()
    loop_reader.epoll = epoll
    watch.remove()


def test_the_link_reader_has_what_an_event_loop_had_that_has_ended(
    link_reader: LinkReader, loop_reader: LoopReader, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    arrivals = Arrivals()
    watch = Watch(link_reader, ours.fileno(), arrivals)
    watch.start()
    watch.move(loop_reader, readable=True, writable=False)
    theirs.send(b"x")
    loop_reader.close()
    assert arrivals.once_more()
    watch.move(loop_reader, readable=True, writable=False)  # a request of the last moment
    watch.arm()
    assert arrivals.once_more()
    watch.remove()


def test_a_watch_that_has_ended_is_not_moved(
    link_reader: LinkReader, loop_reader: LoopReader, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    watch = Watch(link_reader, ours.fileno(), Arrivals())
    watch.start()
    watch.remove()
    watch.move(loop_reader, readable=True, writable=False)
    theirs.send(b"x")
    assert not readable(loop_reader) and not loop_reader.watches


def test_an_event_loop_that_ends_after_the_link_reader(pair: tuple[socket.socket, socket.socket]) -> None:
    reader = LinkReader()
    loop_reader = reader.in_loop()
    watch = Watch(reader, pair[0].fileno(), Arrivals())
    watch.start()
    watch.move(loop_reader, readable=True, writable=False)
    reader.close()
    loop_reader.close()
    watch.arm()
    watch.remove()
