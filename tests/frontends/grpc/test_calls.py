"""The server under the frontend: calls, streams, their ends, and what misbehaving clients may do to it."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined]
from packaging.requirements import Requirement

from tests.serving import eventually
from tests.test_layering import ROOT
from tritonlab.core.status import UnavailableError
from tritonlab.frontends.grpc import NEWEST, calls
from tritonlab.frontends.grpc.calls import CallServer, GRPCCall, RefusedCall, StreamCall, UnaryCall
from tritonlab.frontends.shared.request_memory import too_much_unread
from tritonlab.server.options import MAX_UNREAD_SIZE

OPTIONS = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
SECONDS = 10


class Unary(UnaryCall):
    """An echo of one message; it waits for the test at `wait`, and fails at `fail` and `raise`."""

    waiting: SimpleQueue[Unary] = SimpleQueue()

    def __init__(self, event: Any) -> None:
        self.gone = threading.Event()
        super().__init__(event)

    def handle(self, message: bytes) -> None:
        if message == b"fail":
            self.fail(grpc.StatusCode.NOT_FOUND, "nothing: \u00fc")
        elif message == b"raise":
            raise ValueError("a defect")
        elif message == b"wait":
            self.waiting.put(self)
        elif message == b"metadata":
            self.respond(repr([tuple(pair) for pair in self.metadata if pair[0] == "key"]).encode())
        else:
            self.respond(message)

    def cancelled(self) -> None:
        self.gone.set()


class Compressed(Unary):
    compression = "gzip"


class Stream(StreamCall):
    """An echo of each message; it waits for the test at `wait`, and fails at `raise`."""

    waiting: SimpleQueue[Stream] = SimpleQueue()
    MOST = MAX_UNREAD_SIZE

    def __init__(self, event: Any) -> None:
        self.gone = threading.Event()
        self.read = 0
        super().__init__(event, self.MOST)

    def handle(self, message: bytes) -> None:
        self.read += 1
        if message == b"wait":
            self.waiting.put(self)
        elif message == b"raise":
            raise ValueError("a defect")
        elif message == b"end":
            self.end(grpc.StatusCode.ABORTED, "enough")
        else:
            self.write(message)

    def closed(self) -> None:
        self.end()

    def cancelled(self) -> None:
        self.gone.set()


METHODS: dict[str, Callable[[Any], GRPCCall]] = {
    "/s/Unary": Unary,
    "/s/Compressed": Compressed,
    "/s/Stream": Stream,
    "/s/Refused": lambda event: RefusedCall(event, grpc.StatusCode.UNAVAILABLE, "not you"),
}


@pytest.fixture
def server() -> Iterator[CallServer]:
    found = CallServer(METHODS, OPTIONS)
    yield found
    found.stop()


@pytest.fixture
def channel(server: CallServer) -> Iterator[grpc.Channel]:
    port = server.listen("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}", OPTIONS) as found:
        yield found


def unary(channel: grpc.Channel, method: str = "/s/Unary") -> Any:
    return channel.unary_unary(method, None, None)


def streamed(channel: grpc.Channel, messages: Iterator[bytes]) -> Any:
    return channel.stream_stream("/s/Stream", None, None)(messages, timeout=SECONDS)


def refusal(call: Any, *arguments: Any, **options: Any) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as raised:
        call(*arguments, timeout=SECONDS, **options)
    return raised.value.code().name, raised.value.details()


def test_a_call_is_answered(channel: grpc.Channel) -> None:
    for message in (b"", b"x", bytes(5 << 20)):
        assert unary(channel)(message, timeout=SECONDS) == message


def test_a_call_says_what_came_beside_it(channel: grpc.Channel) -> None:
    found = unary(channel)(b"metadata", metadata=[("key", "a"), ("key", "b")], timeout=SECONDS)
    assert found == b"[('key', 'a'), ('key', 'b')]"


def test_errors_have_a_code_and_a_text(channel: grpc.Channel) -> None:
    assert refusal(unary(channel), b"fail") == ("NOT_FOUND", "nothing: \u00fc")
    assert refusal(unary(channel, "/s/Refused"), b"x") == ("UNAVAILABLE", "not you")
    assert refusal(unary(channel, "/s/Unknown"), b"x") == ("UNIMPLEMENTED", "")
    with pytest.raises(grpc.RpcError, match="not you"):
        list(channel.stream_stream("/s/Refused", None, None)(iter([b"x"]), timeout=SECONDS))


def test_a_defect_of_ours_fails_its_call_alone(channel: grpc.Channel, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        assert refusal(unary(channel), b"raise") == ("INTERNAL", "ValueError: a defect")
        with pytest.raises(grpc.RpcError, match="ValueError: a defect"):
            list(streamed(channel, iter([b"raise"])))
    assert unary(channel)(b"x", timeout=SECONDS) == b"x"


def test_responses_are_compressed_where_the_client_can_read_that(channel: grpc.Channel) -> None:
    call = channel.unary_unary("/s/Compressed", None, None)
    message, state = call.with_call(bytes(10_000), timeout=SECONDS)
    assert message == bytes(10_000)
    assert dict(state.initial_metadata()).get("grpc-encoding", "gzip") == "gzip"


def test_a_client_that_gives_up_is_noticed(channel: grpc.Channel) -> None:
    call = unary(channel).future(b"wait")
    waiting = Unary.waiting.get(timeout=SECONDS)
    call.cancel()
    assert waiting.gone.wait(SECONDS)
    waiting.respond(b"too late")
    assert unary(channel)(b"x", timeout=SECONDS) == b"x"


def test_a_deadline_that_passes_is_noticed(channel: grpc.Channel) -> None:
    call = unary(channel).future(b"wait", timeout=0.2)
    waiting = Unary.waiting.get(timeout=SECONDS)
    assert waiting.gone.wait(SECONDS)
    assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_it_is_busy_until_a_call_is_over_but_not_with_an_idle_stream(server: CallServer, channel: grpc.Channel) -> None:
    assert not server.is_busy()
    call = unary(channel).future(b"wait", timeout=SECONDS)
    waiting = Unary.waiting.get(timeout=SECONDS)
    assert server.is_busy()
    waiting.respond(b"done")
    assert call.result(SECONDS) == b"done"
    eventually(lambda: not server.is_busy())
    cancelled = unary(channel).future(b"wait", timeout=SECONDS)
    Unary.waiting.get(timeout=SECONDS)
    cancelled.cancel()
    assert refusal(unary(channel, "/s/Refused"), b"x") == ("UNAVAILABLE", "not you")
    messages: SimpleQueue[bytes | None] = SimpleQueue()
    answers = streamed(channel, iter(messages.get, None))
    messages.put(b"wait")
    stream = Stream.waiting.get(timeout=SECONDS)
    eventually(lambda: not server.is_busy())
    stream.write(bytes(64 << 20))  # more than what is sent to a client that does not read
    assert server.is_busy()
    assert len(next(answers)) == 64 << 20
    eventually(lambda: not server.is_busy())
    messages.put(None)
    assert list(answers) == []


def test_a_call_may_be_answered_on_any_thread_and_others_pass_it(channel: grpc.Channel) -> None:
    slow = unary(channel).future(b"wait", timeout=SECONDS)
    waiting = Unary.waiting.get(timeout=SECONDS)
    assert [unary(channel)(b"%d" % i, timeout=SECONDS) for i in range(20)] == [b"%d" % i for i in range(20)]
    waiting.respond(b"at last")
    assert slow.result(SECONDS) == b"at last"


def test_the_serving_thread_writes_an_answer_that_is_handed_over(
    channel: grpc.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    def end(call: Unary, message: bytes) -> Callable[[], None]:
        return lambda: call.handle(threading.current_thread().name.encode() if message == b"name" else message)

    found = {}
    with caplog.at_level(logging.CRITICAL):
        for message in (b"name", b"fail", b"raise"):
            call = unary(channel).future(b"wait", timeout=SECONDS)
            waiting = Unary.waiting.get(timeout=SECONDS)
            waiting.hand_over(end(waiting, message))
            error = call.exception(SECONDS)
            found[message] = call.result() if error is None else (call.code().name, call.details())
    assert found == {
        b"name": b"grpc",
        b"fail": ("NOT_FOUND", "nothing: \u00fc"),
        b"raise": ("INTERNAL", "ValueError: a defect"),
    }
    gone = unary(channel).future(b"wait", timeout=SECONDS)
    waiting = Unary.waiting.get(timeout=SECONDS)
    gone.cancel()
    assert waiting.gone.wait(SECONDS)
    waiting.hand_over(end(waiting, b"x"))  # nobody waits for it
    assert unary(channel)(b"x", timeout=SECONDS) == b"x"


def test_an_immediate_answer_and_the_end_of_its_call_are_one_event(
    server: CallServer, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: list[Any] = []
    monkeypatch.setattr(calls, "_ignore", alone.append)
    for message in (b"x", b"fail", b"raise"):
        with contextlib.suppress(grpc.RpcError):
            unary(channel)(message, timeout=SECONDS)
    later = unary(channel).future(b"wait", timeout=SECONDS)
    waiting = Unary.waiting.get(timeout=SECONDS)
    unary(channel)(b"x", timeout=SECONDS)  # By now the one thread has left the call that waits.
    waiting.respond(b"later")
    assert later.result(SECONDS) == b"later"
    server.stop()  # after the events of all calls
    assert len(alone) == 1


def test_many_calls_at_once(channel: grpc.Channel) -> None:
    pending = [unary(channel).future(b"%d" % i, timeout=SECONDS) for i in range(500)]
    assert [call.result(SECONDS) for call in pending] == [b"%d" % i for i in range(500)]


# -- streams


def test_a_stream_keeps_the_order_and_ends_when_its_client_does(channel: grpc.Channel) -> None:
    sent = [b"%d" % i for i in range(1000)]
    assert list(streamed(channel, iter(sent))) == sent
    assert list(streamed(channel, iter([]))) == []


def test_many_writes_at_once_arrive_in_order(channel: grpc.Channel) -> None:
    """More than one write waits while one is under way."""
    messages: SimpleQueue[bytes | None] = SimpleQueue()
    call = streamed(channel, iter(messages.get, None))
    messages.put(b"wait")
    stream = Stream.waiting.get(timeout=SECONDS)
    sent = [b"%d" % i for i in range(5000)]
    for message in sent:
        stream.write(message)
    stream.end()
    assert list(call) == sent
    messages.put(None)


def test_the_end_comes_after_what_was_written(channel: grpc.Channel) -> None:
    messages: SimpleQueue[bytes | None] = SimpleQueue()
    call = streamed(channel, iter(messages.get, None))
    for message in (b"a", b"b", b"end"):
        messages.put(message)
    assert [next(call), next(call)] == [b"a", b"b"]
    with pytest.raises(grpc.RpcError) as raised:
        next(call)
    assert (raised.value.code(), raised.value.details()) == (grpc.StatusCode.ABORTED, "enough")
    messages.put(None)


def test_writes_after_the_end_are_dropped(channel: grpc.Channel) -> None:
    messages: SimpleQueue[bytes | None] = SimpleQueue()
    call = streamed(channel, iter(messages.get, None))
    messages.put(b"wait")
    stream = Stream.waiting.get(timeout=SECONDS)
    stream.end()
    stream.write(b"late")
    stream.end(grpc.StatusCode.INTERNAL, "late")
    assert list(call) == []
    messages.put(None)


def test_a_stream_that_is_cancelled_is_noticed(channel: grpc.Channel) -> None:
    messages: SimpleQueue[bytes | None] = SimpleQueue()
    call = streamed(channel, iter(messages.get, None))
    messages.put(b"wait")
    stream = Stream.waiting.get(timeout=SECONDS)
    call.cancel()
    assert stream.gone.wait(SECONDS)
    stream.write(b"late")
    messages.put(None)
    assert unary(channel)(b"x", timeout=SECONDS) == b"x"


def test_a_client_that_reads_nothing_loses_its_stream(channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stream, "MOST", 4 << 20)
    messages: SimpleQueue[bytes | None] = SimpleQueue()
    call = streamed(channel, iter(messages.get, None))
    messages.put(b"wait")
    stream = Stream.waiting.get(timeout=SECONDS)
    block = bytes(1 << 20)
    for _ in range(100):
        stream.write(block)
    assert stream.gone.wait(SECONDS)
    assert not stream._unsent
    with pytest.raises(grpc.RpcError) as raised:
        list(call)
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert raised.value.details() == too_much_unread(4 << 20)
    messages.put(None)


def test_no_more_is_read_from_a_client_that_reads_little(
    channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Echoes of a client that only sends: reading stops before memory fills, and goes on when it reads."""
    monkeypatch.setattr(Stream, "MOST", 8 << 20)
    block = bytes(3 << 20)
    found = streamed(channel, iter([block] * 40))
    received = 0
    for message in found:
        received += len(message)
    assert received == 40 * len(block)


def test_one_message_may_be_larger_than_what_may_wait(channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stream, "MOST", 1 << 20)
    block = bytes(3 << 20)
    assert list(streamed(channel, iter([block, block]))) == [block, block]


# -- the server


def test_a_port_that_is_in_use_is_an_error(server: CallServer, channel: grpc.Channel) -> None:
    other = CallServer(METHODS, OPTIONS)
    port = server.listen("127.0.0.1:0")
    with pytest.raises((OSError, RuntimeError)):
        other.listen(f"127.0.0.1:{port}")
    other.start()
    other.stop()


def test_servers_side_by_side() -> None:
    servers = [CallServer(METHODS, OPTIONS) for _ in range(4)]
    ports = [server.listen("127.0.0.1:0") for server in servers]
    for server in servers:
        server.start()
    for port in ports:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert unary(channel)(b"x", timeout=SECONDS) == b"x"
    for server in servers:
        server.stop()


def test_stop_lets_calls_end_and_takes_no_new_ones(server: CallServer, channel: grpc.Channel) -> None:
    call = unary(channel).future(b"wait", timeout=SECONDS)
    waiting = Unary.waiting.get(timeout=SECONDS)
    stopper = threading.Thread(target=server.stop, args=(SECONDS,))
    stopper.start()
    waiting.respond(b"x")
    assert call.result(SECONDS) == b"x"
    stopper.join(SECONDS)
    assert not stopper.is_alive()
    assert refusal(unary(channel), b"x")[0] == "UNAVAILABLE"


def test_a_call_that_comes_while_the_server_stops_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Blocking(UnaryCall):
        def handle(self, message: bytes) -> None:
            entered.set()
            go_on.wait(SECONDS)
            self.respond(message)

    server = CallServer({"/s/Unary": Blocking}, OPTIONS)
    port = server.listen("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}", OPTIONS) as channel:
        first = unary(channel).future(b"1", timeout=SECONDS)
        assert entered.wait(SECONDS)
        second = unary(channel).future(b"2", timeout=SECONDS)
        stopper = threading.Thread(target=server.stop, args=(SECONDS,))
        stopper.start()
        assert eventually(lambda: not server._running)
        go_on.set()
        assert first.result(SECONDS) == b"1"
        second.exception(SECONDS)  # It was answered or refused, as it came before or after the stop.
        stopper.join(SECONDS)
    assert not caplog.records


def test_stop_cancels_what_does_not_end(server: CallServer, channel: grpc.Channel) -> None:
    call = unary(channel).future(b"wait", timeout=SECONDS)
    messages: SimpleQueue[bytes | None] = SimpleQueue()
    stream = streamed(channel, iter(messages.get, None))
    messages.put(b"wait")
    waiting, other = Unary.waiting.get(timeout=SECONDS), Stream.waiting.get(timeout=SECONDS)
    server.stop(0.05)
    assert waiting.gone.wait(SECONDS)
    assert other.gone.wait(SECONDS)
    assert call.exception(SECONDS) is not None
    with pytest.raises(grpc.RpcError):
        list(stream)
    messages.put(None)


def test_stop_twice_and_without_a_start() -> None:
    CallServer(METHODS, OPTIONS).stop()
    server = CallServer(METHODS, OPTIONS)
    server.listen("127.0.0.1:0")
    server.start()
    server.stop()
    server.stop()


def test_threads_end_with_the_server() -> None:
    before = set(threading.enumerate())
    server = CallServer(METHODS, OPTIONS)
    server.listen("127.0.0.1:0")
    server.start()
    server.stop()
    eventually(lambda: set(threading.enumerate()) <= before)


#: A server answers while its process starts others, as the warm pool does; nothing is printed.
FORKS = """
import os, subprocess, sys, threading
import grpc
sys.path.insert(0, {root!r})
from tritonlab.frontends.grpc.calls import CallServer, UnaryCall
from tritonlab.ipc.link.link_reader import LinkReader
from tritonlab.ipc.processes.stub_launcher import StubProcess

class Echo(UnaryCall):
    def handle(self, message):
        self.respond(message)

server = CallServer({{"/s/Unary": Echo}}, [])
port = server.listen("127.0.0.1:0")
server.start()
channel = grpc.insecure_channel(f"127.0.0.1:{{port}}")
call = channel.unary_unary("/s/Unary", None, None)
reader = LinkReader()
stop = threading.Event()
def call_again():
    while not stop.is_set():
        assert call(b"x", timeout=10) == b"x"
caller = threading.Thread(target=call_again)
caller.start()
for _ in range(3):
    stub = StubProcess(reader)
    stub.kill()
    assert call(b"x", timeout=10) == b"x"
stop.set()
caller.join()
channel.close()
server.stop()
reader.close()
print("done")
"""


@pytest.mark.parametrize("support", ["0", "1"])
def test_stubs_start_beside_a_running_server_in_silence(support: str, pytestconfig: pytest.Config) -> None:
    """`support`: grpcio's fork handlers, which complain where a process with calls under way is forked."""
    environment = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": support}
    done = subprocess.run(
        [sys.executable, "-c", FORKS.format(root=str(pytestconfig.rootpath))],
        capture_output=True, text=True, timeout=60, env=environment, check=False,
    )  # fmt: skip
    # the client may see the connection end before it has closed it itself, and says so
    warnings = [line for line in done.stderr.splitlines() if "Got goaway" not in line]
    assert (done.returncode, done.stdout, warnings) == (0, "done\n", [])


# -- what is no client


def test_idle_and_confused_connections_hold_nobody_up(server: CallServer) -> None:
    port = server.listen("127.0.0.1:0")
    server.start()
    threads = threading.active_count()
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
    openings = [b"", preface, b"GET / HTTP/1.1\r\n\r\n", preface[:10], preface + b"\xff" * 100]
    sockets = []
    try:
        for number in range(200):
            sockets.append(socket.create_connection(("127.0.0.1", port)))
            sockets[-1].sendall(openings[number % len(openings)])
        for each in sockets[::7]:
            each.shutdown(socket.SHUT_WR)
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert unary(channel)(b"x", timeout=SECONDS) == b"x"
        eventually(lambda: threading.active_count() <= threads)
    finally:
        for each in sockets:
            each.close()


# -- the private parts of grpcio


@pytest.mark.parametrize("name", [*calls._USED, *calls._OPERATIONS])
def test_a_grpcio_without_a_part_that_is_used_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(cygrpc, name)
    with pytest.raises(UnavailableError, match=rf"grpcio .*{name}.*: pip install 'grpcio<[\d.]+', or serve without it"):
        calls.load_cygrpc()


def test_other_arguments_and_parts_that_are_gone_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cygrpc, "SendMessageOperation", lambda message: None)
    with pytest.raises(UnavailableError, match="argument"):
        calls.load_cygrpc()
    monkeypatch.setattr(cygrpc, "CompletionQueue", object)
    with pytest.raises(UnavailableError, match="'poll'"):
        calls.load_cygrpc()


def test_no_grpcio_is_allowed_that_was_not_tested() -> None:
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (specifier,) = [each.specifier for each in map(Requirement, requirements) if each.name == "grpcio"]
    major, minor = NEWEST
    assert f"{major}.{minor}.99" in specifier and f"{major}.{minor + 1}.0" not in specifier
