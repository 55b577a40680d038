from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serving import eventually
from tritonlab.stub._pb_stub.wire.connection import Connection, LinkClosed, Message
from tritonlab.stub._pb_stub.wire.ipc_message import HEADER, MAX_FREED, NUMBER
from tritonlab.stub._pb_stub.wire.serialization import WIRE_VERSION, WireError, encode_body

LOG = NUMBER["LOG"]


class Row(NamedTuple):
    """A body that is a type of its own."""

    a: int


class Pair:
    """Two connections on one socket pair."""

    def __init__(self) -> None:
        self.sockets = socket.socketpair()
        self.freed: list[int] = []
        self.a = Connection(self.sockets[0])
        self.b = Connection(self.sockets[1], on_freed=self.freed.append, unpacks=True)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    for sock in pair.sockets:
        sock.close()


BODIES: dict[str, object] = {
    "none": None,
    "zero": 0,
    "text": "text",
    "unicode": "\u00e9\u4f60\U0001f600",
    "lone surrogate": "\ud800",
    "list": [1, [2.5, None, True]],
    "dict": {"a": {"b": []}},
    "infinity": float("inf"),
    "long": "x" * 300_000,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_message_arrives_as_it_was_sent(pair: Pair, body: object) -> None:
    sender = threading.Thread(target=lambda: pair.a.send(LOG, (1 << 64) - 1, body))
    sender.start()
    assert pair.b.receive(timeout=60) == (LOG, (1 << 64) - 1, body)
    sender.join()


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_packed_message_arrives_as_it_was_sent(pair: Pair, body: object) -> None:
    whole = pair.a.post(LOG, (1 << 64) - 1, body, packed=True)
    sender = threading.Thread(target=lambda: whole or eventually(pair.a.flush))
    sender.start()
    assert pair.b.receive(timeout=60) == (LOG, (1 << 64) - 1, body)
    sender.join()


def test_what_cannot_be_packed_is_sent_as_json(pair: Pair) -> None:
    class Text(str):
        __slots__ = ()

    pair.a.post(LOG, 1, [Text("a"), Row(1)], packed=True)
    assert pair.b.receive(timeout=60) == (LOG, 1, ["a", [1]])


def test_a_kernel_unpacks_nothing(pair: Pair) -> None:
    """It reads what a stub sends, whatever has become of that."""
    pair.b.post(LOG, 1, [1], packed=True)
    with pytest.raises(WireError, match="no such message: command 164 with"):
        pair.a.receive(timeout=60)


def test_nothing_there_is_none(pair: Pair) -> None:
    assert pair.b.try_receive() is None
    assert pair.b.take_buffered() is None
    assert pair.b.receive(timeout=0.0) is None
    assert not pair.b.wait(timeout=0.0)


def test_several_messages_of_one_read_come_one_by_one(pair: Pair) -> None:
    for number in range(3):
        pair.a.send(LOG, number)
    assert pair.b.wait(timeout=60)
    assert pair.b.try_receive() == (LOG, 0, None)
    assert pair.b.take_buffered() == (LOG, 1, None)
    assert pair.b.receive() == (LOG, 2, None)
    assert pair.b.take_buffered() is None


@given(st.lists(st.tuples(st.integers(0, 1 << 63), st.text(max_size=40)), max_size=30), st.integers(1, 70))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_messages_are_whole_however_the_bytes_come(pair: Pair, messages: list[tuple[int, str]], step: int) -> None:
    data = b"".join(pair.a._frame(LOG, ident, encode_body(text)) for ident, text in messages)
    received = []
    for position in range(0, len(data), step):
        pair.sockets[0].sendall(data[position : position + step])
        while (message := pair.b.try_receive()) is not None:
            received.append(message)
    assert [(ident, body) for _, ident, body in received] == messages


def test_a_message_across_the_end_of_the_buffer(pair: Pair) -> None:
    body = "y" * 10_000
    for number in range(40):
        pair.a.send(LOG, number, body)
        if number % 3 == 2:
            for expected in range(number - 2, number + 1):
                assert pair.b.receive(timeout=60) == (LOG, expected, body)


def test_the_buffer_is_allocated_when_something_is_received(pair: Pair) -> None:
    assert len(pair.b._buffer) == 0
    pair.a.send(LOG, 1, "x")
    assert pair.b.receive(timeout=60) == (LOG, 1, "x")
    assert len(pair.b._buffer) == 1 << 16


def test_a_large_message_does_not_keep_its_buffer(pair: Pair) -> None:
    sender = threading.Thread(target=lambda: pair.a.send(LOG, 1, "z" * (8 << 20)))
    sender.start()
    assert pair.b.receive(timeout=60) is not None
    sender.join()
    pair.a.send(LOG, 2)
    assert pair.b.receive(timeout=60) == (LOG, 2, None)
    assert len(pair.b._buffer) == 1 << 16


def test_the_buffer_does_not_grow_with_the_traffic(pair: Pair) -> None:
    body = "w" * 700
    for _ in range(500):
        for _ in range(3):
            pair.a.send(LOG, 1, body)
        for _ in range(2):
            assert pair.b.receive(timeout=60) is not None  # always one behind, so that it is never empty
        if pair.b._end - pair.b._start > 20_000:
            while pair.b.take_buffered() is not None:
                pass
    assert len(pair.b._buffer) <= 1 << 17


# -- freed blocks


def test_freed_blocks_go_with_the_next_message_once(pair: Pair) -> None:
    pair.a.freed += [64, 128, 192]
    pair.a.send(LOG, 1)
    pair.a.send(LOG, 2)
    assert pair.b.receive(timeout=60) == (LOG, 1, None)
    assert sorted(pair.freed) == [64, 128, 192]
    pair.b.receive(timeout=60)
    assert len(pair.freed) == 3


def test_more_freed_blocks_than_one_message_holds(pair: Pair) -> None:
    pair.a.freed += range(MAX_FREED + 10)
    sender = threading.Thread(target=lambda: pair.a.send(LOG, 1))
    sender.start()
    pair.b.receive(timeout=60)
    assert len(pair.freed) == MAX_FREED
    pair.a.send(LOG, 2)
    pair.b.receive(timeout=60)
    assert sorted(pair.freed) == list(range(MAX_FREED + 10))
    sender.join()


def test_threads_that_send_at_once_share_the_freed_blocks(pair: Pair) -> None:
    """Leases die on any thread while others send; none may be lost, sent twice, or trip over an empty list."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(4)

    def send(first: int) -> None:
        try:
            barrier.wait(60)
            for number in range(300):
                pair.a.freed.append(first + number)
                pair.a.send(LOG, first + number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=send, args=(1000 * index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    idents = sorted(message[1] for message in (pair.b.receive(timeout=60) for _ in range(1200)) if message)
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert idents == sorted(1000 * index + number for index in range(4) for number in range(300))
    assert sorted([*pair.freed, *pair.a.freed]) == idents


# -- a socket that is full


def test_post_keeps_what_the_socket_does_not_take(pair: Pair) -> None:
    body = "x" * (4 << 20)
    assert not pair.a.post(LOG, 1, body)
    assert pair.a.unsent
    assert not pair.a.post(LOG, 2)  # behind the first, whatever room there is
    received: list[Message] = []
    while len(received) < 2:
        if (message := pair.b.try_receive()) is not None:
            received.append(message)
        pair.a.flush()
    assert received == [(LOG, 1, body), (LOG, 2, None)]
    assert not pair.a.unsent
    assert pair.a.post(LOG, 3)


def test_send_waits_for_room(pair: Pair) -> None:
    sender = threading.Thread(target=lambda: pair.a.send(LOG, 1, "x" * (4 << 20)))
    sender.start()
    sender.join(0.05)
    assert sender.is_alive()
    assert pair.b.receive(timeout=60) is not None
    sender.join(60)
    assert not sender.is_alive()


# -- the end


@pytest.mark.parametrize("act", ["receive", "try_receive", "send", "post", "flush"])
def test_a_closed_link_is_distinguished_from_all_else(pair: Pair, act: str) -> None:
    if act == "flush":
        pair.a.post(LOG, 1, "x" * (4 << 20))
    pair.sockets[1].close()
    actions = {
        "receive": lambda: pair.a.receive(timeout=60),
        "try_receive": pair.a.try_receive,
        "send": lambda: pair.a.send(LOG, 1),
        "post": lambda: pair.a.post(LOG, 1),
        "flush": pair.a.flush,
    }
    with pytest.raises(LinkClosed):
        actions[act]()


def test_what_was_sent_before_the_end_is_still_received(pair: Pair) -> None:
    pair.a.send(LOG, 1)
    pair.sockets[0].close()
    assert pair.b.receive() == (LOG, 1, None)
    with pytest.raises(LinkClosed):
        pair.b.receive()


def test_shutdown_wakes_both_sides(pair: Pair) -> None:
    pair.a.shutdown()
    pair.a.shutdown()
    for connection in (pair.a, pair.b):
        with pytest.raises(LinkClosed):
            connection.receive(timeout=60)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ((WIRE_VERSION + 1, LOG, 0, 0, 0), f"wire version {WIRE_VERSION + 1}, expected {WIRE_VERSION}"),
        ((WIRE_VERSION, 127, 0, 0, 0), "no such message: command 127 with 0 bytes"),
        ((WIRE_VERSION, LOG, 0, (1 << 30) + 1, 0), "no such message: command 36 with 1073741825 bytes"),
    ],
)
def test_a_header_that_no_honest_peer_sends(pair: Pair, header: tuple[int, ...], reason: str) -> None:
    pair.sockets[0].send(HEADER.pack(sum(header[:4]), *header[1:]))
    with pytest.raises(WireError, match=reason):
        pair.b.receive(timeout=60)


def test_a_spinning_receive_finds_what_comes_meanwhile(pair: Pair) -> None:
    sender = threading.Timer(0.005, lambda: pair.a.send(LOG, 1))
    sender.start()
    assert pair.b.receive(spin=5.0) == (LOG, 1, None)
    sender.join()


def test_a_part_that_comes_while_it_spins_is_no_message(pair: Pair) -> None:
    data = pair.a._frame(LOG, 1, encode_body("text"))
    pair.sockets[0].sendall(data[:7])
    assert pair.b.receive(spin=60.0, timeout=0) is None
    pair.sockets[0].sendall(data[7:])
    assert pair.b.receive() == (LOG, 1, "text")


def test_after_the_spin_it_sleeps(pair: Pair) -> None:
    sender = threading.Timer(0.02, lambda: pair.a.send(LOG, 1))
    sender.start()
    assert pair.b.receive(spin=0.001, timeout=5) == (LOG, 1, None)
    sender.join()
