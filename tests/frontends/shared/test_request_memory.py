from __future__ import annotations

import gc
import threading

import pytest

from tritonlab.frontends.shared import request_memory
from tritonlab.frontends.shared.request_memory import Body, NoRoomError, RequestMemory, TooLargeError

MB = 1 << 20


def test_one_request_may_take_a_quarter_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, most in ((16 << 30, 4 << 30), (100 * MB, 64 * MB), (0, 1 << 30)):
        monkeypatch.setattr(request_memory, "memory_limit", lambda limit=limit: limit)
        memory = RequestMemory()
        assert (memory.most, memory.total) == (most, 2 * most)
    assert RequestMemory(5).most == 5


def test_a_request_that_is_too_large_is_refused_with_what_sets_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    RequestMemory(5).check(5)
    with pytest.raises(TooLargeError) as raised:
        RequestMemory(5).check(6)
    assert str(raised.value) == (
        "The request has 6 bytes, more than the limit of 5; '--max-message-size=<bytes>' of 'tritonlab serve', or "
        "max_message_size of 'Options' and 'serve()', sets another."
    )
    monkeypatch.setattr(request_memory, "memory_limit", lambda: 400 * MB)
    with pytest.raises(TooLargeError, match=f"limit of {100 * MB}, a quarter of the memory there is;"):
        RequestMemory().check(101 * MB)


def test_a_body_is_counted_as_long_as_it_lives() -> None:
    memory = RequestMemory(10)
    body = memory.body(b"1234")
    body.add(b"567890")
    assert bytes(body) == b"1234567890"
    with pytest.raises(TooLargeError, match="The request has 11 bytes"):
        body.add(b"1")
    with pytest.raises(NoRoomError, match="take 6 of the 20 bytes"):
        memory.take(15)
    view = memoryview(body)
    del body
    with pytest.raises(NoRoomError):
        memory.take(15)
    del view
    memory.take(15)


def test_what_is_held_is_counted_until_it_is_dropped() -> None:
    memory = RequestMemory(10)
    held = memory.hold(20)
    with pytest.raises(NoRoomError):
        memory.hold(1)
    del held
    memory.hold(20)


def test_what_only_a_cycle_holds_is_no_reason_to_refuse() -> None:
    memory = RequestMemory(10)
    gc.disable()
    try:
        cycle: list[object] = [memory.hold(20)]
        cycle.append(cycle)
        del cycle
        memory.take(20)
    finally:
        gc.enable()


def test_a_piece_for_which_there_is_no_memory_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(Body):
        def extend(self, piece: object) -> None:
            raise MemoryError

    monkeypatch.setattr(request_memory, "Body", Full)
    memory = RequestMemory(10)
    with pytest.raises(NoRoomError, match="no memory for a request of 3 bytes"):
        memory.body(b"1").add(b"23")
    memory.take(20)  # nothing is left of it


def test_any_thread_may_take() -> None:
    memory = RequestMemory(8000)

    def hold() -> None:
        for _ in range(2000):
            memory.hold(1)

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    memory.take(memory.total)
