from __future__ import annotations

import threading

from tritonlab.stub._pb_stub.process.stub_bridge import DeferredCalls


def test_calls_are_made_in_order_also_those_from_before_the_start() -> None:
    calls = DeferredCalls()
    done: list[object] = []
    over = threading.Event()
    calls.put(lambda: done.append("before"))
    assert done == []
    calls.start()
    calls.put(lambda: done.append(threading.current_thread() is calls.thread))
    calls.put(over.set)
    assert over.wait(60)
    assert done == ["before", True]


def test_a_second_start_starts_no_second_thread() -> None:
    calls = DeferredCalls()
    calls.start()
    first = calls.thread
    calls.start()
    assert calls.thread is first


def test_an_errand_may_be_left_by_a_destructor_of_an_errand() -> None:
    """As when the collector runs in the middle of one."""
    calls = DeferredCalls()
    over = threading.Event()

    class Dropped:
        def __del__(self) -> None:
            calls.put(over.set)

    calls.start()
    calls.put(lambda: Dropped() and None)
    assert over.wait(60)
