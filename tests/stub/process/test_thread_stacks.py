from __future__ import annotations

import asyncio
import gc
import threading
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from tritonlab.stub._pb_stub.api import own_threads
from tritonlab.stub._pb_stub.process import author_error, thread_stacks
from tritonlab.stub._pb_stub.process.needed_calls import needed_calls
from tritonlab.stub._pb_stub.process.stub_bridge import DeferredCalls
from tritonlab.stub._pb_stub.process.thread_stacks import all_stacks


class Blocked:
    """A thread of the author's that waits."""

    def __init__(self, name: str) -> None:
        self.there = threading.Event()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work, name=name, daemon=True)
        self.thread.start()
        assert self.there.wait(60)

    def work(self) -> None:
        self.deeper()

    def deeper(self) -> None:
        self.there.set()
        self.over.wait(60)  # this line


class Kept:
    """A value of the author's."""


@pytest.mark.parametrize("look", [all_stacks, lambda: needed_calls(threading.main_thread().ident or 0, {})])
def test_a_look_at_the_threads_keeps_nothing_of_the_authors(look: Callable[[], object]) -> None:
    found: list[weakref.ref[Kept]] = []
    looked = threading.Event()
    there = threading.Event()

    def work() -> None:
        kept = Kept()
        found.append(weakref.ref(kept))
        there.set()
        looked.wait(60)

    thread = threading.Thread(target=work)
    gc.disable()
    try:
        thread.start()
        assert there.wait(60)
        look()
        looked.set()
        thread.join()
        assert found[0]() is None
    finally:
        gc.enable()


def part(text: str, title: str) -> list[str]:
    """Return the lines below a title."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(title)) + 1
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith(" ")), len(lines))
    return lines[start:end]


def test_a_thread_is_listed_with_its_name_and_source_lines() -> None:
    blocked = Blocked("the author's")
    lines = part(all_stacks(), "Thread 'the author's' (most recent call last):")
    blocked.over.set()
    assert [line.strip() for line in lines[:4]][1::2] == ["self.deeper()", "self.over.wait(60)  # this line"]
    assert "in work" in lines[0]
    assert f'File "{__file__}"' in lines[0]  # the start of a thread is not shown


def test_our_threads_and_the_calling_one_are_not_listed() -> None:
    calls = DeferredCalls()
    calls.start()
    over = threading.Event()
    own_threads.start("monitor", over.wait, 10)
    own_threads.start("is_ready", over.wait, 10, runs_authors=True)
    namesake = Blocked("errands")
    text = all_stacks()
    namesake.over.set()
    over.set()
    assert text.count("Thread 'errands'") == 1  # the author's, who may choose any name
    assert "Thread 'is_ready'" in text
    assert "monitor" not in text
    assert "all_stacks" not in text


def test_the_main_thread_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = Blocked("other")
    found: list[str] = []
    caller = threading.Thread(target=lambda: found.append(all_stacks()))
    caller.start()
    caller.join(60)
    blocked.over.set()
    assert found[0].startswith("Thread 'MainThread' (most recent call last):\n")
    assert "Thread 'other'" in found[0]


def test_a_thread_in_our_code_says_which_call_of_ours_it_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = Blocked("waits in ours")
    monkeypatch.setattr(author_error, "_OURS", threading.__file__)
    monkeypatch.setattr(author_error, "_LIBRARY", "/nowhere/")
    lines = part(all_stacks(), "Thread 'waits in ours'")
    blocked.over.set()
    assert lines[-1] == "  [in wait]"


def test_a_thread_with_nothing_of_the_authors(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = Blocked("idle")
    monkeypatch.setattr(author_error, "_OURS", __file__)
    lines = part(all_stacks(), "Thread 'idle'")
    blocked.over.set()
    assert lines == ["  nothing of the model"]


def test_the_tasks_of_a_loop_show_the_whole_chain() -> None:
    async def inner() -> None:
        await asyncio.sleep(10)  # inner line

    async def outer() -> None:
        await inner()  # outer line

    async def look() -> str:
        task = asyncio.create_task(outer(), name="T")
        await asyncio.sleep(0)
        text = all_stacks(asyncio.get_running_loop())
        task.cancel()
        return text

    lines = part(asyncio.run(look()), "Task 'T'")
    assert [line.strip() for line in lines][1:4:2] == [
        "await inner()  # outer line",
        "await asyncio.sleep(10)  # inner line",
    ]


def test_a_call_of_an_executor_has_its_name() -> None:
    """There is nothing of the author's on that thread."""
    frames = [("/lib/python3/threading.py", "run"), ("/lib/python3/concurrent/thread.py", "run")]
    frames += [("/stub/awaited_calls.py", "run"), ("/stub/infer_request.py", "exec"), ("/stub/bridge.py", "infer")]
    summaries = [traceback.FrameSummary(file, 1, name, lookup_line=False) for file, name in frames]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(author_error, "_OURS", "/stub/")
        patch.setattr(author_error, "_LIBRARY", "/lib/python3/")
        assert thread_stacks._part("Thread 'asyncio_0'", summaries) == "Thread 'asyncio_0':\n  [in exec]"


@pytest.mark.parametrize(
    ("file", "around"),
    [
        ("<frozen importlib._bootstrap>", True),
        (threading.__file__, True),
        ("<string>", False),
        ("/m/1/model.py", False),
        (str(Path(threading.__file__).parent / "site-packages" / "torch" / "x.py"), False),
    ],
)
def test_what_is_around_the_authors_code(file: str, around: bool) -> None:
    assert author_error.is_around(file) == around


def test_without_a_loop_there_are_no_tasks() -> None:
    assert "Task" not in all_stacks(None).replace("Task 'T'", "")
