from __future__ import annotations

import threading

from tritonlab.stub._pb_stub.process.errands import Errands


def test_errands_are_done_in_order_also_those_from_before_the_start() -> None:
    errands = Errands()
    done: list[object] = []
    over = threading.Event()
    errands.put(lambda: done.append("before"))
    assert done == []
    errands.start()
    errands.put(lambda: done.append(threading.current_thread() is errands.thread))
    errands.put(over.set)
    assert over.wait(60)
    assert done == ["before", True]


def test_a_second_start_starts_no_second_thread() -> None:
    errands = Errands()
    errands.start()
    first = errands.thread
    errands.start()
    assert errands.thread is first


def test_an_errand_may_be_left_by_a_destructor_of_an_errand() -> None:
    """As when the collector runs in the middle of one."""
    errands = Errands()
    over = threading.Event()

    class Left:
        def __del__(self) -> None:
            errands.put(over.set)

    errands.start()
    errands.put(lambda: Left() and None)
    assert over.wait(60)
