"""A pause of a model in its debugger (`DebugSession`), and the place for typing lines (`Desk`)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...ipc.link.stub_link import Prompt, StubLink


class DebugSession:
    """One pause of a model, from its first prompt until it continues; if nothing is `live`, the examination of an
    exception.

    Guarantees: each prompt is answered once.
    """

    def __init__(self, sessions: DebugSessions, model: str, link: StubLink, first: Prompt) -> None:
        #: all of its instance, with this one
        self.sessions = sessions
        self.model = model
        self.link = link
        self.live = first.live
        self.snapshot = first.snapshot
        #: the prompt that waits for a line, or None
        self.prompt: Prompt | None = None
        self._call = 0
        self._lock = threading.Lock()  # guards the two fields above
        #: whether its lines are, or were, typed
        self.attended = False
        #: whether the author has left it, which ends it at its next prompt
        self.left = False
        self.ended = False

    @property
    def place(self) -> str:
        """The place of the wait in the form of tracebacks: `File "model.py", line 7`; empty if it does not wait."""
        prompt = self.prompt
        return f'File "{prompt.file}", line {prompt.line}' if prompt is not None else ""

    def ask(self, call: int, prompt: Prompt) -> None:
        """Take a prompt, which arrived as the call of that number."""
        with self._lock:
            self.prompt, self._call = prompt, call
        self.sessions.wait_for_another(True)

    def answer(self, line: str | None) -> None:
        """Give the debugger a line, or None if none will come and the model continues. Ignored if no prompt waits."""
        with self._lock:
            if self.prompt is None:
                return
            self.prompt = None
        self.sessions.wait_for_another(False)
        if not self.link.lost:
            self.link.reply(self._call, line)

    def story(self, why: str) -> str:
        """Return the log text of a model that continues because of `why`, with the author's frames and variables."""
        if self.attended:
            return f"'{self.sessions.name}' goes on at {self.place}, because {why}."
        if not self.live:
            return f"{why.capitalize()}. This is where '{self.sessions.name}' raised:\n{self.snapshot}"
        return f"'{self.sessions.name}' is at a breakpoint and goes on, because {why}.\n{self.snapshot}"


class DebugSessions(list[DebugSession]):
    """The sessions of the instance of this name.

    `say(text, level)` adds a line to the log under that name. `wait_for_another` notes whether its `execute` waits for
    a line, so that the caller stops reading the stub's answer itself. `wake_reader(link)` wakes the caller that reads
    the stub's own link, unless `link` is that link.
    """

    def __init__(
        self,
        name: str,
        say: Callable[[str, str], None],
        wait_for_another: Callable[[bool], None],
        wake_reader: Callable[[StubLink], None],
    ) -> None:
        self.name = name
        self.say = say
        self.wait_for_another = wait_for_another
        self.wake_reader = wake_reader
        #: the latest examination of an exception
        self.looked: DebugSession | None = None

    @property
    def place(self) -> str:
        """The place where a debugger has paused the model, as in `DebugSession.place`; empty if none has."""
        if not self:
            return ""
        return next((session.place for session in self.copy() if session.live and session.place), "")

    @property
    def words(self) -> str:
        """The same as the end of a sentence about the instance's activity."""
        return f", which is paused in the debugger at {place}" if (place := self.place) else ""


class Desk:
    """The place for typing lines. At this one, of a server without a notebook, none can be.

    The methods are called on any thread; only `read` may block.
    """

    def can_read(self) -> bool:
        """Return whether a line could be typed at all."""
        return False

    def reads_here(self) -> bool:
        """Return whether this thread, which waits for a model, may read lines now."""
        return False

    def read(self, session: DebugSession, prompt: Prompt) -> str | None:
        """Show the debugger's output and return the typed line; None if none can be. May raise KeyboardInterrupt."""
        return None

    def say(self, session: DebugSession, text: str) -> None:
        """Show a text of or about the debugger."""
