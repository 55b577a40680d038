"""A `DebugSession` is one pause of a model in its debugger; a `Desk` is where a person types the lines."""

from __future__ import annotations

import threading
from typing import Protocol

from ...ipc.link.stub_link import Prompt, StubLink


class DebuggedInstance(Protocol):
    """The model instance whose stub has a debugger."""

    debugged: DebugSessions

    @property
    def name(self) -> str: ...

    def say(self, text: str, level: str) -> None:
        """Add a line to the log, in the instance's name."""

    def wait_for_another(self, waits: bool) -> None:
        """Note that its `execute` waits for a line, so that the caller stops reading the stub's answer itself."""

    def wake_reader(self, link: StubLink) -> None:
        """Wake the caller that reads the stub's own link, if `link` is another."""


class DebugSession:
    """One pause of a model, from its first prompt until it goes on; or, where nothing is `live`, a look at an
    exception.

    Guarantees: each prompt is answered once.
    """

    def __init__(self, instance: DebuggedInstance, model: str, link: StubLink, first: Prompt) -> None:
        self.instance = instance
        self.model = model
        self.link = link
        self.live = first.live
        self.snapshot = first.snapshot
        #: the prompt that waits for a line, if one does
        self.prompt: Prompt | None = None
        self._call = 0
        self._lock = threading.Lock()  # guards the two above
        #: whether somebody types, or has typed, its lines
        self.attended = False
        #: whether the author has left it, so that its next prompt ends it
        self.left = False
        self.ended = False

    @property
    def place(self) -> str:
        """Where it waits, in the words of tracebacks: `File "model.py", line 7`; empty if it does not wait."""
        prompt = self.prompt
        return f'File "{prompt.file}", line {prompt.line}' if prompt is not None else ""

    def ask(self, call: int, prompt: Prompt) -> None:
        """Take a prompt, which came as the call of that number."""
        with self._lock:
            self.prompt, self._call = prompt, call
        self.instance.wait_for_another(True)

    def answer(self, line: str | None) -> None:
        """Give the debugger a line; None: nobody types one, and the model goes on. Does nothing if it waits for
        none."""
        with self._lock:
            if self.prompt is None:
                return
            self.prompt = None
        self.instance.wait_for_another(False)
        if not self.link.lost:
            self.link.reply(self._call, line)

    def story(self, why: str) -> str:
        """Return the log text about a model that goes on because of `why`: what the author would have seen."""
        if self.attended:
            return f"'{self.instance.name}' goes on at {self.place}, because {why}."
        if not self.live:
            return f"{why.capitalize()}. This is where '{self.instance.name}' raised:\n{self.snapshot}"
        return f"'{self.instance.name}' is at a breakpoint and goes on, because {why}.\n{self.snapshot}"


class DebugSessions(list[DebugSession]):
    """The sessions of one instance."""

    #: the last one that looked at an exception
    looked: DebugSession | None = None

    @property
    def place(self) -> str:
        """Where a debugger has paused the model, as `DebugSession.place`; empty if none has."""
        if not self:
            return ""
        return next((session.place for session in self.copy() if session.live and session.place), "")

    @property
    def words(self) -> str:
        """The same for the end of a sentence about what the instance does."""
        return f", which is paused in the debugger at {place}" if (place := self.place) else ""


class Desk(Protocol):
    """The place where a person types. Its methods are called on any thread, and must not block; but `read` does."""

    def can_read(self) -> bool:
        """Return whether somebody could type a line at all."""

    def reads_here(self) -> bool:
        """Return whether this thread, which waits for a model, may read lines now."""

    def read(self, session: DebugSession, prompt: Prompt) -> str | None:
        """Show what the debugger printed and return the line that is typed; None if nobody can. May raise
        KeyboardInterrupt."""

    def say(self, session: DebugSession, text: str) -> None:
        """Show a text of the debugger, or about it."""
