"""Interrupts of a call of ours at each place where Python may do so, once each."""

from __future__ import annotations

import ctypes
import dis
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import chain, pairwise, repeat
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tritonlab

_OURS = str(Path(tritonlab.__file__).parent)


@cache
def _before(code: CodeType) -> frozenset[int]:
    """Return the instructions that stand before one after which Python looks for signals."""
    instructions = list(dis.get_instructions(code))
    return frozenset(
        one.offset
        for one, following in pairwise(instructions)
        if "CALL" in following.opname or following.opname in ("RESUME", "JUMP_BACKWARD")
    )


class Interrupter:
    """A source of interrupts: each `with interrupter.shot():` interrupts the main thread where none before it did; then
    `hit` says whether there was such a place.
    """

    def __init__(self) -> None:
        self.places: set[tuple[CodeType, int]] = set()
        self.hit = False

    @contextmanager
    def shot(self) -> Iterator[None]:
        self.hit = False
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        if self.hit or not frame.f_code.co_filename.startswith(_OURS):
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        place = (frame.f_code, frame.f_lasti)
        if event != "opcode" or self.hit or frame.f_lasti not in _before(frame.f_code) or place in self.places:
            return self._step
        self.places.add(place)
        self.hit = True
        send = _one_interrupt()
        sys.settrace(send)
        return send  # before the next instruction


def _one_interrupt() -> Callable[..., Any]:
    """Return a trace function that sends an interrupt when it is called first. It runs no Python code, so the handler
    runs where the traced code looks for signals; with os.kill in a trace function of Python's it would run in that.
    """
    send = ctypes.CDLL(None)["raise"]
    numbers = chain([ctypes.c_int(signal.SIGINT)], repeat(ctypes.c_int(0)))
    send.argtypes = [_argument(numbers), *[_argument(repeat(ctypes.c_int(0)))] * 2]
    send.restype = None
    return send


def _argument(values: Iterator[ctypes.c_int]) -> type:
    """Return the type of an argument that is the next of `values`, whatever its text."""
    return type("Argument", (), {"from_param": staticmethod(partial(next, values))})
