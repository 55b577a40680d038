"""The output of faulthandler in a stub that dies of a signal or is blocked by C code: the place in Python."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...core.status import Frame, LoadInterrupted, RemoteException
from ...ipc.processes.interpreter import STUB

#: The most lines of faulthandler that are kept: it prints at most a hundred frames.
_KEPT = 150
_BEGIN = "Fatal Python error: "
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)')

#: A line of `StubMonitor.dump_stacks`.
_STACK_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)')

#: The names of signals in faulthandler. Python's own fatal errors have other texts and end in SIGABRT.
_SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Floating point exception": "SIGFPE",
    "Floating-point exception": "SIGFPE",
    "Illegal instruction": "SIGILL",
}


class CrashReport:
    """The last report of faulthandler among the lines of a stub's stderr."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Add one line of stderr, at almost no cost until a crash."""
        if line.startswith(_BEGIN):
            self.lines.clear()
            self.lines.append(line)
        elif 0 < len(self.lines) < _KEPT:
            self.lines.append(line)

    def exception(self, signal: str) -> RemoteException | None:
        """Return the death by `signal` (`SIGSEGV`) as an exception of that name, raised at the reported place in
        Python. Returns None without a report, or if it is of another signal, in a process that the model forked.
        """
        if not self.lines:
            return None
        text = self.lines[0].removeprefix(_BEGIN).strip()
        if _SIGNALS.get(text, "SIGABRT") != signal:
            return None
        return RemoteException(type_name=signal, text=text, frames=tuple(self._frames()))

    def _frames(self) -> list[Frame]:
        """Return the frames of the thread that crashed, outermost first, without the stub's own."""
        frames: list[Frame] = []
        for line in self.lines:
            found = _FRAME.fullmatch(line)
            if found is None:
                if frames:
                    break
                continue
            if not is_stub_frame(line):
                number = int(found["line"]) if found["line"].isdecimal() else 0
                frames.append(Frame(found["file"], number, found["function"]))
        return frames[::-1]


def is_stub_frame(line: str) -> bool:
    """Return whether a line of faulthandler is a frame of the stub, not of the author's code or its callees."""
    found = _FRAME.fullmatch(line)
    return found is not None and found["file"].startswith(f"{STUB.parent}/")


def blocked_stacks(lines: Iterable[str]) -> str:
    """Return the author's part of faulthandler's output on all threads, innermost call first."""
    threads: list[list[str]] = []
    for line in lines:
        if line.startswith(("Current thread ", "Thread ")):
            threads.append([line])
        elif threads and _FRAME.fullmatch(line) is not None and not is_stub_frame(line):
            threads[-1].append(line)
    # without the stub's frames, a thread of the stub has only its start left
    blocked = [thread for thread in threads if any("/threading.py" not in frame for frame in thread[1:])]
    return "\n".join(line for thread in blocked for line in thread)


def interrupted_load(instance: str, stacks: str, during: str = "") -> LoadInterrupted:
    """Return the interrupt of a load, with the place of the model's main thread, which is first in `stacks`. `during`
    ends the sentence if no model exists yet.
    """
    text = f"the load of '{instance}' was interrupted{during and ' '}{during}"
    thread = stacks.split("\nThread '", 1)[0]
    found = [_STACK_FRAME.fullmatch(line) for line in thread.splitlines()]
    frames = tuple(Frame(frame["file"], int(frame["line"]), frame["function"]) for frame in found if frame is not None)
    exception = RemoteException("KeyboardInterrupt", f"{text} here", frames) if frames else None
    return LoadInterrupted(f"{text}.", exception)


def place_of(exception: RemoteException, model_file: str) -> str:
    """Return the place for a sentence: the model's innermost line, and its call."""
    if not exception.frames:
        return ""
    innermost = exception.frames[-1]
    own = next((frame for frame in reversed(exception.frames) if frame.file == model_file), innermost)
    place = f"{own.file}:{own.line} in {own.function}"
    return place if own is innermost else f"{place}, which had called {innermost.function}"
