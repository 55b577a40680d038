"""pdb in a stub: its prompts cross the link, and a person in a notebook types the lines. It can also look at the last
exception of `execute`.

A stub has no terminal. So `pdb.Pdb`, which `breakpoint()`, `pdb.set_trace()` and `pdb.post_mortem()` make, is replaced
by a class that requests each line from the server. Triton's stub reads the end of its standard input instead, and the
request fails with BdbQuit.
"""

from __future__ import annotations

import bdb
import contextlib
import importlib
import itertools
import linecache
import pdb
import sys
import threading
import time
from typing import Any, List, Optional, Tuple

from ..api import bridge, own_threads
from ..api.bridge import BridgeError
from ..wire.message_bodies import Attach, Prompt, Resumed
from ..wire.serialization import bounded
from .author_error import is_library
from .frame_states import PATIENCE, variables_of

_sessions = itertools.count(1)
#: Modules of the stub by name: the debugger does not stop there.
_SKIPPED = ("_pb_stub.*", "triton_python_backend_utils", "c_python_backend_utils", "__main__")


def install() -> None:
    """Make every debugger of this process request its lines from the server."""
    pdb.Pdb = LinkPdb  # type: ignore[misc]


def connect(to: Attach) -> None:
    """Connect debugpy with the server's relay for editors. Raises ImportError if this Python has no debugpy."""
    debugpy = importlib.import_module("debugpy")
    debugpy.configure(subProcess=False)  # a child would show the token on its command line
    debugpy.connect(("127.0.0.1", to.port), access_token=to.token)


class LinkPdb(pdb.Pdb):
    """A pdb whose lines come over the link. It shows only the author's frames, and once the author's code has returned
    to the stub's it stops only at breakpoints.
    """

    def __init__(
        self,
        completekey: str = "tab",
        stdin: Any = None,
        stdout: Any = None,
        skip: Any = None,
        nosigint: bool = True,
        readrc: bool = True,
        **rest: Any,
    ) -> None:
        self._talk: Any = None
        if stdin is None and stdout is None:
            stdin = stdout = self._talk = _PromptStream(self)
        super().__init__(completekey, stdin, stdout, skip or _SKIPPED, nosigint, readrc, **rest)

    def trace_dispatch(self, frame: Any, event: str, arg: Any) -> Any:
        try:
            return super().trace_dispatch(frame, event, arg)
        except bdb.BdbQuit:
            raise bdb.BdbQuit("the debugger was left") from None

    def dispatch_return(self, frame: Any, arg: Any) -> Any:
        trace = super().dispatch_return(frame, arg)
        if _is_outermost(frame):
            self.set_continue()  # otherwise a step would lead to the next request, and trace everything between
            return None
        return trace

    def get_stack(self, f: Any, t: Any) -> Tuple[List[Any], int]:
        stack, index = super().get_stack(f, t)
        first = next((place for place, (frame, _) in enumerate(stack) if not _is_library(frame)), 0)
        return stack[first:], max(index - first, 0)

    def set_continue(self) -> None:
        super().set_continue()
        self._resumed()

    def set_quit(self) -> None:
        super().set_quit()
        self._resumed()

    def _resumed(self) -> None:
        if self._talk is not None:
            self._talk.end()

    def examine(self, traceback: Any) -> None:
        """Debug the frames that an exception has passed, and return when the author has finished."""
        self._talk.live = False
        self.reset()
        self.interaction(None, traceback)
        self._talk.end()


class _PromptStream:
    """The input and output of a LinkPdb. Its output is sent with the next request for a line."""

    def __init__(self, debugger: LinkPdb) -> None:
        self.live = True
        self._debugger = debugger
        self._session = 0  # 0 between two pauses
        self._printed: List[str] = []

    def write(self, text: str) -> None:
        self._printed.append(text)

    def flush(self) -> None:
        pass

    def readline(self) -> str:
        text, newline, prompt = self._taken().rpartition("\n")
        frame, line_number = self._debugger.stack[self._debugger.curindex]
        file, snapshot = self._debugger.canonic(frame.f_code.co_filename), ""
        if not self._session:
            self._session = next(_sessions)
            snapshot = snapshot_of(self._debugger.stack)
        line: Optional[str] = None
        try:
            question = Prompt(
                self._session,
                self.live,
                text=text + newline,
                prompt=prompt,
                file=file,
                line=line_number,
                snapshot=bounded(snapshot),
            )
            line = bridge.current().call(question)
        except BridgeError:  # during import and auto_complete_config, when no calls are possible
            print(snapshot, flush=True)
        return "continue\n" if line is None else line + "\n"

    def end(self) -> None:
        """Report that the thread continues."""
        session, self._session = self._session, 0
        if session:
            with contextlib.suppress(BridgeError):
                bridge.current().call(Resumed(session, self._taken()))

    def _taken(self) -> str:
        text, self._printed = "".join(self._printed), []
        return bounded(text)


def _is_library(frame: Any) -> bool:
    return is_library(frame.f_code.co_filename)


def _is_outermost(frame: Any) -> bool:
    frame = frame.f_back
    while frame is not None:
        if not _is_library(frame):
            return False
        frame = frame.f_back
    return True


def snapshot_of(stack: List[Any]) -> str:
    """Return the frames, outermost first, with their lines, and the variables of the innermost."""
    lines = []
    for frame, number in stack:
        code = frame.f_code
        lines.append('  File "%s", line %d, in %s' % (code.co_filename, number, code.co_name))
        text = linecache.getline(code.co_filename, number, frame.f_globals).strip()
        if text:
            lines.append("    " + text)
    if stack:
        lines += ["  %s = %s" % pair for pair in variables_of(stack[-1][0], time.monotonic() + PATIENCE)]
    return "\n".join(lines)


class LastError:
    """The last exception of `execute`, kept alive for a while, so that a debugger can look at its frames and objects.

    All objects of the frames stay in memory with it, also the batch's tensors and GPU memory: of one exception at most,
    until the next one or until its time is up. It is kept only if a server requests it, as notebooks do. Any thread may
    call any method.
    """

    def __init__(self) -> None:
        #: how long it is kept; 0: not at all
        self.seconds = 0.0
        self._lock = threading.Lock()  # guards the other fields
        self._error: Optional[BaseException] = None
        self._since = 0.0
        self._dropped = threading.Event()  # set by `_drop_in_time` when it ends
        self._dropped.set()

    def keep(self, error: BaseException) -> None:
        """Keep this exception and drop the one before."""
        if not self.seconds or isinstance(error, bdb.BdbQuit):  # which the author has already seen
            return
        with self._lock:
            self._error, self._since = error, time.monotonic()
            if self._dropped.is_set():
                self._dropped.clear()
                own_threads.start("last error", self._drop_in_time)

    def _drop_in_time(self) -> None:
        while True:
            with self._lock:
                left = self._since + self.seconds - time.monotonic()
                if left <= 0:
                    self._error = None
                    self._dropped.set()
                    return
            time.sleep(left)

    def look(self, begin: bool) -> Optional[float]:
        """Return how many seconds ago it was raised, None if there is none. `begin`: a debugger examines it, on a
        separate thread; the model continues to serve.
        """
        with self._lock:
            error, age = self._error, time.monotonic() - self._since
        if error is None:
            return None
        if begin:
            own_threads.start("postmortem", _examine, error, runs_authors=True)
        return age


def _examine(error: Any) -> None:
    debugger = LinkPdb()
    debugger.message("%s: %s" % (type(error).__name__, error))
    # since Python 3.13 it takes the exception, whose causes can be looked at too
    debugger.examine(error if sys.version_info >= (3, 13) else error.__traceback__)
