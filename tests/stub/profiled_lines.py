"""Functions whose lines take known times, and their profile, in any Python of the stub.

    python profiled_lines.py STUB SECONDS

Each function takes the time of its marked lines itself. What is printed is JSON: for each function the seconds of each
line as it took them, and as the profile saw them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np

SQUARE = np.random.rand(120, 120).astype(np.float32)
WIDE = np.random.rand(200_000).astype(np.float32)
PEOPLE = [{"age": n % 90, "name": str(n)} for n in range(6000)]
TRUE: dict[str, float] = {}
now = time.perf_counter


def took(line: str, since: float) -> float:
    end = now()
    TRUE[line] = TRUE.get(line, 0.0) + end - since
    return now()


def lock_and_sleep() -> None:
    t = now()
    sum([k * k for k in range(40_000)])  # sum
    t = took("sum", t)
    time.sleep(0.0004)  # sleep
    took("sleep", t)


def loop_and_matmul() -> None:
    t = now()
    for _ in range(20_000): pass  # loop  # noqa: E701
    t = took("loop", t)
    SQUARE @ SQUARE  # matmul
    took("matmul", t)


def two_loops() -> None:
    t = now()
    for _ in range(30_000): pass  # long  # noqa: E701
    t = took("long", t)
    for _ in range(6_000): pass  # short  # noqa: E701
    took("short", t)


def sort_and_json() -> None:
    t = now()
    sorted(PEOPLE, key=lambda one: one["age"])  # sort
    t = took("sort", t)
    json.dumps(PEOPLE)  # dump
    took("dump", t)


def numpy_and_list() -> None:
    t = now()
    np.exp(np.sqrt(WIDE))  # numpy
    t = took("numpy", t)
    (WIDE[:2000] * 2).tolist()  # list
    took("list", t)


def text() -> None:
    t = now()
    " ".join(str(n) for n in range(8000))  # join
    t = took("join", t)
    time.sleep(0.0002)  # sleep
    took("sleep", t)


def called() -> None:
    t = now()
    helper()
    t = took("inner", t)
    time.sleep(0.001)  # sleep
    took("sleep", t)


def helper() -> None:
    for _ in range(60_000): pass  # inner  # noqa: E701


def file_work() -> None:
    t = now()
    with open(os.devnull, "wb", buffering=0) as file:  # open
        t = took("open", t)
        for _ in range(3000): file.write(b"x")  # write  # noqa: E701
        took("write", t)


def sleeps() -> None:
    t = now()
    time.sleep(0.004)  # long
    t = took("long", t)
    time.sleep(0.001)  # short
    took("short", t)


POOL = ThreadPoolExecutor(2)


def pool() -> None:
    t = now()
    list(POOL.map(worker, [25_000]))  # waits
    took("works", t)
    t = now()
    for _ in range(5_000): pass  # after  # noqa: E701
    took("after", t)


def worker(count: int) -> None:
    for _ in range(count): pass  # works  # noqa: E701


LOOP = asyncio.new_event_loop()


def coroutines() -> None:
    LOOP.run_until_complete(outer())


async def outer() -> None:
    t = now()
    await asyncio.sleep(0.003)  # waits
    t = took("waits", t)
    for _ in range(20_000): pass  # computes  # noqa: E701
    took("computes", t)


def large_integers() -> None:
    t = now()
    pow(7, 40_000, 10**600)  # power
    t = took("power", t)
    for _ in range(4_000): pass  # loop  # noqa: E701
    took("loop", t)


PROFILES: list[Callable[[], None]] = [lock_and_sleep, loop_and_matmul, two_loops, sort_and_json, numpy_and_list, text]
PROFILES += [called, file_work, sleeps, pool, coroutines, large_integers]


def profile(function: Callable[[], None], seconds: float) -> dict[str, Any]:
    from _pb_stub.process.line_profiler import _Times  # type: ignore[import-not-found]
    from _pb_stub.process.needed_calls import RunningExecute  # type: ignore[import-not-found]

    marks = {}
    with open(__file__, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if "  # " in line and not line.startswith("#"):
                marks[number] = line.split("  # ")[1].strip()
    running = RunningExecute()
    loop = LOOP if function is coroutines else None
    context: Any = SimpleNamespace(loop=loop, loop_thread=threading.get_ident())
    TRUE.clear()
    times = _Times(SimpleNamespace(running=running), context, threading.get_ident(), False)
    end = now() + seconds
    while now() < end:
        running.requests = [None]
        function()
        running.requests = None
    times.stop()
    seen: dict[str, float] = {}
    for file, line, _, own, _, _ in times.lines():
        if os.path.samefile(file, __file__) and line in marks and marks[line] in TRUE:
            seen[marks[line]] = seen.get(marks[line], 0.0) + own / 1e9
    return {"true": dict(TRUE), "seen": seen, "way": times.way}


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    print(json.dumps({function.__name__: profile(function, float(sys.argv[2])) for function in PROFILES}))
