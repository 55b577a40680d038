from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from tritonlab.ipc.processes.stub_log import MAX_LINE, LogBook, LogRecord, StubOutput


def record(text: str = "line", model: str = "m") -> LogRecord:
    return LogRecord(0, model, 1, "m_0_0", "stdout", "INFO", text)


# -- LogBook


def test_records_are_kept_in_order_by_model() -> None:
    book = LogBook()
    for text, model in [("1", "a"), ("2", "b"), ("3", "a")]:
        book.add(record(text, model))
    assert [r.text for r in book.records()] == ["1", "2", "3"]
    assert [r.text for r in book.records("a")] == ["1", "3"]


def test_the_oldest_records_go_first() -> None:
    book = LogBook(capacity=3)
    for number in range(5):
        book.add(record(str(number)))
    assert [r.text for r in book.records()] == ["2", "3", "4"]


def test_long_lines_do_not_add_up() -> None:
    book = LogBook(kept_text=100)
    for number in range(10):
        book.add(record(str(number) * 40))
    assert [r.text[0] for r in book.records()] == ["8", "9"]


def test_a_line_that_is_too_long_by_itself_is_kept_until_the_next() -> None:
    book = LogBook(kept_text=10)
    book.add(record("x" * 40))
    assert len(book.records()) == 1
    book.add(record("y"))
    assert [r.text for r in book.records()] == ["y"]


def test_the_listener_hears_every_record() -> None:
    texts: list[str] = []
    book = LogBook(lambda r: texts.append(r.text), capacity=1)
    book.add(record("1"))
    book.add(record("2"))
    assert texts == ["1", "2"]


# -- StubOutput


class Pipes:
    """A StubOutput whose pipes the test writes to."""

    def __init__(self) -> None:
        out, self.stdout = os.pipe()
        err, self.stderr = os.pipe()
        self.lines: list[tuple[str, str]] = []
        self.output = StubOutput(out, err)
        self.output.retarget(lambda stream, text: self.lines.append((stream, text)))

    def write(self, data: bytes) -> None:
        os.write(self.stdout, data)
        self.output.drain_all()

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.lines]

    def close(self) -> None:
        os.close(self.stdout)
        os.close(self.stderr)
        self.output.close()


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    pipes = Pipes()
    yield pipes
    if pipes.output.fds:
        pipes.close()


class PolledElsewhere:
    """A poll object that another thread polls with."""

    def poll(self, timeout: int) -> list[tuple[int, int]]:
        raise RuntimeError("concurrent poll() invocation")


def test_lines_are_drained_while_another_thread_drains(pipes: Pipes) -> None:
    pipes.output._poll = PolledElsewhere()  # type: ignore[assignment]
    pipes.write(b"a line\n")
    assert pipes.texts == ["a line"]


def test_lines_come_with_their_stream(pipes: Pipes) -> None:
    os.write(pipes.stdout, b"one\n")
    os.write(pipes.stderr, b"two\n")
    pipes.output.drain_all()
    assert sorted(pipes.lines) == [("stderr", "two"), ("stdout", "one")]


@pytest.mark.parametrize(
    ("writes", "texts"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b", b"c\n"], ["abc"]),
        ([b"a\nb", b"c\n\n"], ["a", "bc", ""]),
        ([b"unfinished"], []),
        ([b"\xff\xfe\n"], ["\\xff\\xfe"]),
        (["\u00e9\u4f60".encode() + b"\n"], ["\u00e9\u4f60"]),
        ([b"\xc3", b"\xa9\n"], ["\u00e9"]),
        ([b"a\r\n"], ["a\r"]),
    ],
)
def test_bytes_become_lines(pipes: Pipes, writes: list[bytes], texts: list[str]) -> None:
    for data in writes:
        pipes.write(data)
    assert pipes.texts == texts


def test_a_line_without_a_newline_ends_with_the_code_that_printed_it(pipes: Pipes) -> None:
    pipes.write(b"whole\nhalf")
    assert pipes.texts == ["whole"]
    os.write(pipes.stderr, b"why")
    pipes.output.drain_all(ended=True)
    assert sorted(pipes.texts) == ["half", "whole", "why"]
    pipes.output.drain_all(ended=True)
    pipes.write(b"next\n")
    assert pipes.texts[3:] == ["next"]
    pipes.write(b"x" * MAX_LINE)
    pipes.write(b"x")
    pipes.output.drain_all(ended=True)
    assert pipes.texts[4].endswith(" … [1 bytes cut]")
    pipes.close()
    assert len(pipes.texts) == 5


@pytest.mark.parametrize("chunk", [MAX_LINE, 50_000, 1_000])
def test_a_line_without_end_is_cut_and_says_how_much(pipes: Pipes, chunk: int) -> None:
    left = 5 * MAX_LINE
    while left:
        size = min(chunk, left)
        pipes.write(b"x" * size)
        left -= size
    assert pipes.texts == []
    pipes.write(b"\nnext\n")
    assert pipes.texts == ["x" * MAX_LINE + f" … [{4 * MAX_LINE} bytes cut]", "next"]


def test_draining_ends_though_the_model_prints_on(pipes: Pipes) -> None:
    stop = threading.Event()

    def print_for_ever() -> None:
        while not stop.is_set():
            os.write(pipes.stdout, b"more and more and more\n" * 100)

    printer = threading.Thread(target=print_for_ever, daemon=True)
    printer.start()
    while not pipes.texts:
        pipes.output.drain_all()
    for _ in range(100):
        assert pipes.output.drain(pipes.output.fds[0])
    stop.set()
    while printer.is_alive():
        pipes.output.drain_all()
    assert set(pipes.texts) == {"more and more and more"}


def test_lines_that_another_thread_has_taken_are_waited_for(pipes: Pipes) -> None:
    taken, go_on = threading.Event(), threading.Event()

    def hand_on(stream: str, text: str) -> None:
        taken.set()
        go_on.wait(60)
        pipes.lines.append((stream, text))

    pipes.output.retarget(hand_on)
    os.write(pipes.stdout, b"line\n")
    first = threading.Thread(target=pipes.output.drain_all)
    first.start()
    assert taken.wait(60)
    drained: list[list[str]] = []

    def drain_too() -> None:
        pipes.output.drain_all()
        drained.append(pipes.texts)

    second = threading.Thread(target=drain_too)
    second.start()
    second.join(0.05)
    assert drained == []
    go_on.set()
    second.join(60)
    first.join(60)
    assert drained == [["line"]]


def test_close_emits_what_is_left(pipes: Pipes) -> None:
    os.write(pipes.stdout, b"whole\nunfinished")
    pipes.close()
    assert pipes.texts == ["whole", "unfinished"]
    assert pipes.output.fds == ()


def test_the_end_of_a_stream_is_reported(pipes: Pipes) -> None:
    out = pipes.output.fds[0]
    assert pipes.output.drain(out)
    os.close(pipes.stdout)
    assert not pipes.output.drain(out)
    pipes.stdout = os.dup(pipes.stderr)


def test_lines_are_held_until_somebody_takes_them() -> None:
    read, write = os.pipe()
    err, unused = os.pipe()
    output = StubOutput(read, err)
    os.write(write, b"one\ntwo\nthr")
    output.drain_all()
    assert output.held == ["one", "two"]
    taken: list[tuple[str, str]] = []
    output.retarget(lambda stream, text: taken.append((stream, text)))
    os.write(write, b"ee\n")
    output.drain_all()
    assert taken == [("stdout", "one"), ("stdout", "two"), ("stdout", "three")]
    assert output.held == []
    output.close()
    os.close(write)
    os.close(unused)


def test_later_lines_go_to_the_new_owner(pipes: Pipes) -> None:
    pipes.write(b"early\n")
    late: list[str] = []
    pipes.output.retarget(lambda stream, text: late.append(text))
    pipes.write(b"late\n")
    assert (pipes.texts, late) == (["early"], ["late"])
