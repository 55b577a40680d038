from __future__ import annotations

import json
import select
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serving import eventually
from tritonlab.ipc.link.link_reader import LinkReader, LoopReader, Watch
from tritonlab.stub._pb_stub.wire.ipc_message import COMMANDS, CONTROL, FREED, HEADER, MAX_BODY, NUMBER, TO_KERNEL
from tritonlab.stub._pb_stub.wire.message_bodies import Failure, Finalize, Initialize, IsReady, Result
from tritonlab.stub._pb_stub.wire.serialization import WIRE_VERSION
from tritonlab.testing import FakeStub

LOG, RESPONSE, EXECUTE = NUMBER["LOG"], NUMBER["RESPONSE"], NUMBER["EXECUTE"]


def message(command: int, body: Any = None, ident: int = 0, freed: tuple[int, ...] = (), **lies: int) -> bytes:
    """Return a message as it lies on the wire, with a header that may lie."""
    text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    version, length = lies.get("version", WIRE_VERSION), lies.get("length", len(text))
    header = HEADER.pack(version + command + len(freed) + length, command, len(freed), length, ident)
    return header + b"".join(FREED.pack(offset) for offset in freed) + text


def listen(stub: FakeStub, command: int = LOG) -> list[Any]:
    """Return a list that gets the bodies of all messages from now on."""
    received: list[Any] = []
    stub.link.handlers[command] = lambda ident, body: received.append(body)
    return received


# -- questions and answers


def test_a_question_gets_its_answer(stub: FakeStub) -> None:
    answer = stub.link.ask(Finalize())
    ident, body = stub.expect("FINALIZE")
    assert body == []
    stub.send("RESULT", ident, Result("done"))
    assert stub.link.await_answer(answer, 60)
    assert (answer.value, answer.failure, answer.lost) == ("done", None, False)


def test_answers_may_come_in_any_order(stub: FakeStub) -> None:
    first, second = stub.link.ask(IsReady()), stub.link.ask(Finalize())
    idents = [stub.expect("IS_READY")[0], stub.expect("FINALIZE")[0]]
    stub.send("RESULT", idents[1], Result(None, Failure("two")))
    stub.send("RESULT", idents[0], Result(1))
    assert stub.link.await_answer(first, 60)
    assert stub.link.await_answer(second, 60)
    assert (first.value, second.failure) == (1, Failure("two"))


def test_waiting_ends_in_time_though_the_stub_goes_on_talking(stub: FakeStub) -> None:
    received = listen(stub)
    answer = stub.link.ask(Finalize())
    stop = threading.Event()

    def talk() -> None:
        while not stop.wait(0.002):
            stub.send("LOG", 0, [0, "f", 1, "still busy"])

    talker = threading.Thread(target=talk, daemon=True)
    talker.start()
    try:
        assert not stub.link.await_answer(answer, 0.05)
    finally:
        stop.set()
        talker.join()
    assert received


def test_what_a_stub_sent_before_it_left_is_read_though_it_reads_nothing_more(stub: FakeStub) -> None:
    received = listen(stub)
    assert stub.link.hold()
    stub.link.return_blocks()  # nobody reads it
    for number in range(3):
        stub.send("LOG", 0, [0, "f", number, ""])
    stub.die()
    stub.link.return_blocks()
    assert not stub.link.lost
    stub.link.lead(lambda: False)
    assert [body[2] for body in received] == [0, 1, 2]
    assert stub.link.lost_reason == "the other end closed the link"


def test_it_is_read_though_a_message_to_the_stub_fails(stub: FakeStub) -> None:
    """A process that a model forked may send and leave while the answer to a call of its own is on its way."""
    received = listen(stub)
    assert stub.link.hold()
    for number in range(3):
        stub.send("LOG", 0, [0, "f", number, ""])
    stub.die()
    answer = stub.link.ask(Finalize())
    assert not answer.done()
    stub.link.lead(lambda: False)
    assert [body[2] for body in received] == [0, 1, 2]
    assert answer.lost
    assert stub.link.lost_reason == "the other end closed the link"


def test_it_is_read_though_the_rest_of_a_message_to_the_stub_fails(stub: FakeStub) -> None:
    received = listen(stub)
    assert stub.link.hold()
    answer = stub.link.ask(Initialize({"large": "x" * (1 << 22)}, [], False, False, 0.0))
    assert stub.link._connection.unsent
    for number in range(3):
        stub.send("LOG", 0, [0, "f", number, ""])
    stub.die()
    eventually(lambda: stub.link.lost or not stub.link._connection.unsent)
    assert not stub.link.lost
    stub.link.lead(lambda: False)
    assert [body[2] for body in received] == [0, 1, 2]
    assert answer.lost


def test_without_a_caller_the_link_reader_hears_of_the_end_after_a_message_that_fails(stub: FakeStub) -> None:
    received = listen(stub)
    stub.send("LOG", 0, [0, "f", 1, ""])
    stub.die()
    answer = stub.link.ask(Finalize())
    eventually(lambda: stub.link.lost)
    assert answer.lost
    assert len(received) == 1


def test_a_question_on_a_lost_link_is_lost_at_once(stub: FakeStub) -> None:
    stub.die()
    eventually(lambda: stub.link.lost)
    answer = stub.link.ask(Finalize())
    assert answer.lost
    assert stub.link.await_answer(answer, 0)


# -- who reads


def test_without_a_caller_the_link_reader_reads(stub: FakeStub) -> None:
    received = listen(stub)
    stub.send("LOG", 0, "one")
    stub.send("LOG", 0, "two")
    eventually(lambda: received == ["one", "two"])


def test_a_leader_reads_on_its_own_thread(stub: FakeStub) -> None:
    threads: list[threading.Thread] = []
    stub.link.handlers[LOG] = lambda ident, body: threads.append(threading.current_thread())
    released = threading.Event()

    def send() -> None:
        released.wait(60)
        stub.send("LOG")

    sender = threading.Thread(target=send)
    sender.start()
    released.set()
    assert stub.link.lead(lambda: bool(threads))
    sender.join()
    assert threads == [threading.current_thread()]


def test_a_leader_ends_in_time_though_there_is_always_another_message(stub: FakeStub) -> None:
    count, enough = 0, 20_000  # more than anybody reads in the time

    def hear(ident: int, body: Any) -> None:
        nonlocal count
        count += 1
        if count < enough:
            stub.send("LOG")

    stub.link.handlers[LOG] = hear
    assert stub.link.hold(unwatch=True)
    stub.send("LOG")
    assert stub.link.lead(lambda: count == enough, spin=0.01, timeout=0.01)
    assert 0 < count < enough


def test_only_one_thread_leads(stub: FakeStub) -> None:
    received = listen(stub)
    entered = threading.Event()

    def done() -> bool:
        entered.set()
        return bool(received)

    leader = threading.Thread(target=lambda: stub.link.lead(done))
    leader.start()
    assert entered.wait(60)
    assert not stub.link.lead(lambda: False)
    stub.send("LOG", 0, 1)
    leader.join(60)
    assert not leader.is_alive()


def test_what_came_with_the_leaders_message_is_not_left_in_the_buffer(stub: FakeStub) -> None:
    """No event tells of bytes that were read already: the second message would wait for a third."""
    received = listen(stub)
    stub.link._arm_lock.acquire()  # the link reader sees nothing of this
    try:
        stub.link.watch.arm(readable=False)
        stub.send_bytes(message(LOG, 1) + message(LOG, 2) + message(LOG, 3)[:-1])
    finally:
        stub.link._arm_lock.release()
    assert stub.link.lead(lambda: bool(received))
    assert received == [1, 2]
    stub.send_bytes(message(LOG, 3)[-1:])
    eventually(lambda: received == [1, 2, 3])


def test_many_messages_at_once_all_arrive(stub: FakeStub) -> None:
    received = listen(stub)
    stub.send_bytes(b"".join(message(LOG, number) for number in range(1000)))
    eventually(lambda: len(received) == 1000)
    assert received == list(range(1000))


def test_after_a_leader_the_link_reader_reads_again(stub: FakeStub) -> None:
    received = listen(stub)
    for _ in range(50):
        stub.send("LOG")
        while not received:
            stub.link.lead(lambda: bool(received))
        stub.send("LOG")
        eventually(lambda: len(received) == 2)
        received.clear()


@pytest.mark.parametrize("unwatch", [False, True])
def test_what_is_held_is_left_to_the_thread_that_leads_next(stub: FakeStub, unwatch: bool) -> None:
    threads: list[threading.Thread] = []
    events: list[int] = []
    on_event = stub.link.watch.callback
    stub.link.watch.callback = lambda mask: (events.append(mask), on_event(mask))[1]  # type: ignore[func-returns-value]
    stub.link.handlers[LOG] = lambda ident, body: threads.append(threading.current_thread())
    assert stub.link.hold(unwatch=unwatch) and stub.link.held
    stub.send("LOG")
    others: list[bool] = []
    other = threading.Thread(target=lambda: others.extend([stub.link.held, stub.link.hold(), stub.link.lead(bool)]))
    other.start()
    other.join(60)
    assert others == [False] * 3
    assert stub.link.lead(lambda: bool(threads))
    assert threads == [threading.current_thread()] and not stub.link.held
    stub.send("LOG")
    eventually(lambda: len(threads) == 2)
    assert threads[1] is not threading.current_thread()
    assert not unwatch or len(events) == 1  # the first message woke nobody


@pytest.fixture
def loop_reader(link_reader: LinkReader) -> Iterator[LoopReader]:
    """Yield the reader of an event loop that this test's thread plays."""
    reader = link_reader.in_loop()
    yield reader
    reader.close()


def read(reader: LoopReader) -> None:
    """Read as the event loop does when something has come."""
    assert select.select([reader.fileno()], [], [], 60)[0]
    reader.read()


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_a_link_is_read_by_its_event_loop(stub: FakeStub, loop_reader: LoopReader) -> None:
    threads: list[threading.Thread] = []
    stub.link.handlers[LOG] = lambda ident, body: threads.append(threading.current_thread())
    assert stub.link.reader is None
    stub.link.read_by(loop_reader)
    assert stub.link.reader is loop_reader
    for count in range(1, 4):
        stub.send("LOG")
        read(loop_reader)
        assert threads == [threading.current_thread()] * count
    stub.link.read_by(None)
    stub.send("LOG")
    eventually(lambda: len(threads) == 4)
    assert threads[3] is not threading.current_thread() and stub.link.reader is None


def test_while_another_thread_leads_the_event_loop_hears_nothing(stub: FakeStub, loop_reader: LoopReader) -> None:
    received, entered = listen(stub), threading.Event()
    stub.link.read_by(loop_reader)

    def done() -> bool:
        entered.set()
        return len(received) == 2

    leader = in_thread(lambda: stub.link.lead(done))
    assert entered.wait(60)
    stub.send("LOG", 0, 1)
    eventually(lambda: received == [1])
    assert not select.select([loop_reader.fileno()], [], [], 0)[0]
    stub.send("LOG", 0, 2)
    leader.join(60)
    assert not leader.is_alive()
    stub.send("LOG", 0, 3)
    read(loop_reader)
    assert received == [1, 2, 3]


def test_an_event_loop_that_leads_disarms_nothing(
    stub: FakeStub, loop_reader: LoopReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for events meanwhile, so that would be two system calls a request for nothing."""
    received, armed = listen(stub), []
    stub.link.read_by(loop_reader)
    monkeypatch.setattr(Watch, "arm", lambda watch, **kinds: armed.append(kinds))
    assert stub.link.hold(unwatch=True)
    stub.send("LOG", 0, 1)
    assert stub.link.lead(lambda: bool(received))
    assert received == [1] and armed == [{"readable": True, "writable": False}]  # it was armed so before
    loop_reader.read()  # what it has led is not there any more
    assert received == [1]


def test_a_link_that_moves_while_a_message_is_handled_is_read_on(stub: FakeStub, loop_reader: LoopReader) -> None:
    received: list[Any] = []

    def hear(ident: int, body: Any) -> None:
        received.append((body, threading.get_ident()))
        stub.link.read_by(loop_reader if body == "to the loop" else None)

    stub.link.handlers[LOG] = hear
    for _ in range(3):
        stub.send("LOG", 0, "to the loop")
        eventually(lambda: stub.link.reader is loop_reader)
        stub.send("LOG", 0, "home")
        read(loop_reader)
        assert received[-1] == ("home", threading.get_ident())
        stub.send("LOG", 0, "here")
        eventually(lambda: received[-1][0] == "here")
        assert received[-1][1] != threading.get_ident()


def test_an_event_loop_hears_of_the_end_of_a_stub_after_its_last_message(
    stub: FakeStub, loop_reader: LoopReader
) -> None:
    received, lost = listen(stub), []
    stub.link.on_lost = lambda reason: lost.append((list(received), reason, threading.get_ident()))
    stub.link.read_by(loop_reader)
    answer = stub.link.ask(Finalize())
    stub.send("LOG", 0, "last words")
    stub.die()
    while not lost:
        read(loop_reader)
    (words, _, thread) = lost[0]
    assert words == ["last words"] and thread == threading.get_ident()
    assert stub.link.lost and answer.lost and not loop_reader.watches


def test_garbage_that_an_event_loop_reads_loses_the_link_and_nothing_else(
    stub: FakeStub, loop_reader: LoopReader
) -> None:
    stub.link.read_by(loop_reader)
    stub.send_bytes(b"\xff" * 100)
    read(loop_reader)
    assert stub.link.lost and "wire version" in stub.link.lost_reason
    stub.link.read_by(None)
    stub.link.read_by(loop_reader)
    assert not loop_reader.watches


def test_what_the_socket_did_not_take_is_sent_by_the_event_loop(stub: FakeStub, loop_reader: LoopReader) -> None:
    stub.link.read_by(loop_reader)
    large = "x" * (4 << 20)
    stub.link.post(LOG, 1, large)
    assert stub.link._connection.unsent
    taken: list[Any] = []
    receiver = in_thread(lambda: taken.append(stub.receive(60)))
    while stub.link._connection.unsent:
        read(loop_reader)
    receiver.join(60)
    assert taken == [(LOG, 1, large)]
    assert not select.select([loop_reader.fileno()], [], [], 0)[0]


def test_the_link_reader_reads_on_when_the_event_loop_has_ended(stub: FakeStub, link_reader: LinkReader) -> None:
    received, reader = listen(stub), link_reader.in_loop()
    stub.link.read_by(reader)
    stub.send("LOG", 0, 1)
    reader.close()
    eventually(lambda: received == [1])
    assert stub.link.reader is None


def test_a_caller_and_an_event_loop_lose_nothing_between_them(stub: FakeStub, loop_reader: LoopReader) -> None:
    received, count = listen(stub), 2000
    over = threading.Event()

    def lead() -> None:
        while not over.is_set():
            stub.link.lead(over.is_set, timeout=1e-4)

    def move() -> None:
        while not over.is_set():
            stub.link.read_by(loop_reader)
            stub.link.read_by(None)

    threads = [in_thread(lead), in_thread(move), in_thread(lambda: [stub.send("LOG", 0, n) for n in range(count)])]
    try:
        eventually(lambda: (loop_reader.read(), len(received) == count)[1])  # type: ignore[func-returns-value]
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
    assert received == list(range(count))


def test_a_lost_link_is_not_held(stub: FakeStub) -> None:
    stub.link.shutdown()
    eventually(lambda: stub.link.lost)
    assert not stub.link.hold()


def test_an_interrupted_leader_leaves_the_link_as_it_was(stub: FakeStub) -> None:
    received = listen(stub)

    def interrupt() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stub.link.lead(interrupt)
    stub.send("LOG", 0, "after")
    eventually(lambda: received == ["after"])
    assert stub.link.lead(lambda: True)


# -- more than the socket takes


LARGE = "x" * (8 << 20)


def test_a_message_larger_than_the_socket_is_sent_while_nobody_reads(stub: FakeStub) -> None:
    stub.link.post(EXECUTE, 1, LARGE)
    assert stub.receive() == (EXECUTE, 1, LARGE)


def test_a_leader_does_not_keep_the_rest_of_a_message_from_being_sent(stub: FakeStub) -> None:
    received = listen(stub, RESPONSE)
    stub.link.post(EXECUTE, 1, LARGE)
    leader = threading.Thread(target=lambda: stub.link.lead(lambda: bool(received)), daemon=True)
    leader.start()
    assert stub.receive()[:2] == (EXECUTE, 1)
    stub.send("RESPONSE", 7, "answer")
    leader.join(60)
    assert received == ["answer"]


def test_a_leader_that_leaves_does_not_either(stub: FakeStub) -> None:
    stub.link.post(EXECUTE, 1, LARGE)
    assert stub.link.lead(lambda: True)
    assert stub.receive()[:2] == (EXECUTE, 1)


def test_both_sides_may_send_more_than_the_socket_takes_at_once(stub: FakeStub) -> None:
    received = listen(stub)
    stub.link.post(EXECUTE, 1, LARGE)
    sender = threading.Thread(target=lambda: stub.send("LOG", 0, LARGE), daemon=True)
    sender.start()
    leader = threading.Thread(target=lambda: stub.link.lead(lambda: bool(received)), daemon=True)
    leader.start()
    sender.join(60)
    assert not sender.is_alive()
    assert stub.receive()[:2] == (EXECUTE, 1)
    leader.join(60)
    assert received == [LARGE]


def test_messages_keep_their_order_behind_a_large_one(stub: FakeStub) -> None:
    for number in range(20):
        stub.link.post(EXECUTE, number, LARGE[: 1 << 20])
    assert [stub.receive()[1] for _ in range(20)] == list(range(20))


# -- blocks


def test_blocks_the_stub_returns_are_free_again(stub: FakeStub) -> None:
    received = listen(stub)
    block = stub.link.region.allocate(100)
    stub.connection.freed.append(block)
    stub.send("LOG", 0, 1)
    eventually(lambda: bool(received))
    assert stub.link.region.used == 0


def test_blocks_we_return_travel_with_the_next_message(stub: FakeStub) -> None:
    block = stub.region.allocate(100)
    stub.link.freed.append(block)
    assert stub.region.used == 128
    stub.link.post(EXECUTE, 1, None)
    stub.expect("EXECUTE")
    assert stub.region.used == 0


# -- lies


LIES: dict[str, tuple[bytes, str]] = {
    "another wire version": (message(LOG, 1, version=WIRE_VERSION + 1), "wire version"),
    "unknown command": (message(200), "no such message: command 200"),
    "huge length": (message(LOG, length=MAX_BODY + 1), "no such message"),
    "body that is no JSON": (message(LOG, b"{'a': 1}"), "not valid JSON"),
    "body that is no text": (message(LOG, b"\xff\xfe"), "not valid JSON"),
    "two bodies": (message(LOG, b"1 2"), "longer than its JSON"),
    "nesting without end": (message(LOG, b"[" * 100_000), "not valid JSON"),
    "a command of the kernel's": (message(EXECUTE, [0, None, []]), "unexpected EXECUTE"),
    "an answer to nothing": (message(NUMBER["RESULT"], [1, None], ident=99), "unexpected result"),
    "an answer of another layout": (message(NUMBER["RESULT"], "yes", ident=1), "Result of another layout"),
    "a block that was never allocated": (message(LOG, 1, freed=(64,)), "freed twice or never allocated"),
    "a block freed twice": (message(LOG, 1, freed=(0, 0)), "freed twice or never allocated"),
    "a call nobody handles": (message(NUMBER["INFER"], 1), "unexpected INFER"),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("reader", ["the link reader", "a leader"])
def test_a_stub_that_lies_loses_its_link_and_nothing_else(stub: FakeStub, lie: str, reader: str) -> None:
    data, reason = LIES[lie]
    listen(stub)
    lost: list[str] = []
    stub.link.on_lost = lost.append
    answer = stub.link.ask(Initialize({}, [], False, False))
    stub.link.region.allocate(1)
    if reader == "a leader":
        leader = threading.Thread(target=lambda: stub.link.lead(answer.done), daemon=True)
        leader.start()
    stub.send_bytes(data)
    eventually(lambda: stub.link.lost)
    assert answer.wait(60)
    assert answer.lost
    eventually(lambda: lost)
    assert len(lost) == 1
    assert reason in stub.link.lost_reason
    if reader == "a leader":
        leader.join(60)
        assert not leader.is_alive()
    stub.link.post(EXECUTE, 1, None)  # silent: the loss was reported


READ_BY_THE_SERVER = [row.name for row in COMMANDS if (row.direction, row.way) == (TO_KERNEL, CONTROL)]


@pytest.mark.parametrize("flip", [0x01, 0x10, 0x80, 0xFB, 0xFF])
@pytest.mark.parametrize("freed", [(), (0,)])
@pytest.mark.parametrize("name", READ_BY_THE_SERVER)
def test_a_flipped_byte_of_any_message_ends_what_is_in_flight(
    link_reader: LinkReader, name: str, freed: tuple[int, ...], flip: int
) -> None:
    """Whatever byte it is: from the id on, the message is whole, and is refused or handled; before it, the stub's next
    bytes would be waited for."""
    whole = message(NUMBER[name], [0, "text"], 1, freed)
    start_of_id = HEADER.size - 8
    for position in range(start_of_id):
        stub = FakeStub(link_reader)
        try:
            handled = listen(stub, NUMBER[name])
            answer = stub.link.ask(Finalize())
            stub.link.region.allocate(1)
            data = bytearray(whole)
            data[position] ^= flip
            stub.send_bytes(bytes(data))
            assert answer.wait(60)
            assert answer.lost and not handled
            assert "damaged header" in stub.link.lost_reason
        finally:
            stub.close()


@pytest.mark.parametrize("name", READ_BY_THE_SERVER)
def test_a_flipped_byte_after_the_lengths_leaves_a_whole_message(link_reader: LinkReader, name: str) -> None:
    whole = message(NUMBER[name], [0, "text"], 1, (0,))
    for position in range(HEADER.size - 8, len(whole)):
        stub = FakeStub(link_reader)
        try:
            handled = listen(stub, NUMBER[name])
            stub.link.region.allocate(1)
            data = bytearray(whole)
            data[position] ^= 0xFF
            stub.send_bytes(bytes(data))
            eventually(lambda handled=handled, stub=stub: bool(handled) or stub.link.lost)
            assert bool(handled) == (position < HEADER.size)  # another id is for the handler to judge
        finally:
            stub.close()


def raise_(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    "handler",
    [
        lambda ident, body: [][1],
        lambda ident, body: raise_(RecursionError("deep")),
        lambda ident, body: raise_(AssertionError("a defect of ours")),
        lambda ident, body: raise_(MemoryError()),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_handler_that_raises_loses_the_link_instead_of_an_answer(
    stub: FakeStub, handler: Callable[[int, Any], Any]
) -> None:
    stub.link.handlers[LOG] = handler
    answer = stub.link.ask(Finalize())
    stub.send("LOG", 0, "x")
    assert answer.wait(60)
    assert answer.lost
    assert stub.link.lost_reason.startswith("LOG: ")


@pytest.mark.parametrize("cut", [0, 1, HEADER.size - 1, HEADER.size, HEADER.size + 3])
def test_a_stub_that_dies_within_a_message_is_lost(stub: FakeStub, cut: int) -> None:
    received = listen(stub)
    stub.send_bytes(message(LOG, "whole") + message(LOG, "never finished")[:cut])
    stub.die()
    eventually(lambda: stub.link.lost)
    assert received == ["whole"]


@given(st.lists(st.binary(max_size=200), max_size=5))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_never_does_more_than_losing_the_link(link_reader: LinkReader, chunks: list[bytes]) -> None:
    stub = FakeStub(link_reader)
    try:
        listen(stub)
        for chunk in chunks:
            stub.send_bytes(chunk)
        stub.die()
        eventually(lambda: stub.link.lost)
        assert stub.link.region.used == 0
    finally:
        stub.close()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda c: st.lists(c, max_size=4)))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_body_for_a_handler_that_unpacks(link_reader: LinkReader, body: Any) -> None:
    stub = FakeStub(link_reader)
    try:
        seen: list[Any] = []

        def handler(ident: int, body: Any) -> None:
            flags, _block, tensors, _error, _parameters = body
            seen.append(int(flags) + len(tensors))

        stub.link.handlers[RESPONSE] = handler
        stub.send("RESPONSE", 1, body)
        eventually(lambda: stub.link.lost or seen)
    finally:
        stub.close()


# -- the end


def test_closing_wakes_the_leader(stub: FakeStub) -> None:
    entered = threading.Event()

    def done() -> bool:
        entered.set()
        return False

    leader = threading.Thread(target=lambda: stub.link.lead(done), daemon=True)
    leader.start()
    assert entered.wait(60)
    stub.link.close()
    leader.join(60)
    assert not leader.is_alive()
    assert not stub.link.lead(lambda: False)


def test_shutdown_keeps_what_has_come_before(stub: FakeStub) -> None:
    """The process has ended, its last words are still in the socket."""
    received = listen(stub)
    stub.link.watch.arm(readable=False)
    stub.send("LOG", 0, "last words")
    stub.link.shutdown()
    stub.link.lead(lambda: False)
    assert received == ["last words"]
    assert stub.link.lost
