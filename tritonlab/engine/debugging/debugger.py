"""The prompts of the debuggers in stubs, shown where lines can be typed, the notebook's `Desk`.

A model that stops at `breakpoint()` requests one line after the other. The cell that waits for the model answers, on
the kernel's main thread; for a request from elsewhere, follow the pause with `%triton debug`. No pause lasts for ever:
if no line can be or is typed, the model continues, and its log has the frames and variables.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from ...core.quoting import magic_line
from ...ipc.link.interrupts import interruptible
from ...ipc.link.stub_link import Prompt, Resumed, StubLink
from .debug_session import DebugSession, DebugSessions, Desk

#: Seconds of a pause without a typist: before the desk is told to find one, and before the pause ends.
NOTICE_SECONDS = 1.0
UNATTENDED_SECONDS = 300.0
#: Seconds until a place's frames and variables are logged again, if no line can be typed.
_REPEAT_SECONDS = 10.0
#: The line for the debugger when the author has left it.
_QUIT = "quit"


class Debugger:
    """The sessions of a server. `later` calls a function, which must not block, after that many nanoseconds.

    Guarantees: no handler of a message blocks; without a desk, or a way to type there, a model continues at once.
    """

    def __init__(self, later: Callable[[int, Callable[[], None]], None], keeps: float = 0.0) -> None:
        """`keeps`: seconds for which stubs keep the last exception of `execute` alive (`look`)."""
        self.keeps = keeps
        self.desk = Desk()
        self._later = later
        self._changed = threading.Condition()  # guards the sessions; notified at each change of one
        #: the sessions by their link and number; empty while no model is in a debugger
        self.running: dict[tuple[StubLink, int], DebugSession] = {}
        #: the lock on which the main thread sleeps until a response arrives
        self._sleeper: threading.Lock | None = None
        self._described_at: dict[str, float] = {}  # place -> the time when its frames and variables were logged

    # -- calls of stubs, on whichever thread reads

    def prompt(self, sessions: DebugSessions, model: str, link: StubLink, call: int, prompt: Prompt) -> None:
        """Take a prompt of an instance of `model`, with these sessions, which arrived as the call of that number."""
        with self._changed:
            session = self.running.get((link, prompt.session))
            fresh = session is None
            if session is None:
                session = self.running[link, prompt.session] = DebugSession(sessions, model, link, prompt)
                sessions.append(session)
                if not session.live:
                    sessions.looked = session
            session.ask(call, prompt)
            self._changed.notify_all()
        if not self.desk.can_read():
            self._go_on(session, "nobody can type here")
        elif session.left:
            session.answer(_QUIT)
        else:
            sessions.wake_reader(link)
            self._wake_sleeper()
            if fresh:
                self._later(int(NOTICE_SECONDS * 1e9), lambda: self._seek(session))
                self._later(int(UNATTENDED_SECONDS * 1e9), lambda: self._give_up(session))

    def _wake_sleeper(self) -> None:
        sleeper = self._sleeper
        if sleeper is not None and sleeper.locked():
            with contextlib.suppress(RuntimeError):  # a response has arrived meanwhile
                sleeper.release()

    def resumed(self, link: StubLink, resumed: Resumed) -> None:
        """End a session whose model continues."""
        session = self._end((link, resumed.session))
        if session is not None and session.attended and resumed.text:
            self.desk.say(session, resumed.text)

    def end(self, link: StubLink) -> None:
        """End the sessions of a process that has ended."""
        with self._changed:
            keys = [key for key in self.running if key[0] is link]
        for key in keys:
            self._end(key)

    def _end(self, key: tuple[StubLink, int]) -> DebugSession | None:
        with self._changed:
            session = self.running.pop(key, None)
            if session is not None:
                session.prompt, session.ended = None, True
                session.sessions.remove(session)
                self._changed.notify_all()
        return session

    # -- queries of other modules

    def sessions(self, model: str | None = None) -> list[DebugSession]:
        """Return the sessions of a model, or all, oldest first."""
        with self._changed:
            return [one for one in self.running.values() if model in (None, one.model)]

    def words(self, model: str | None = None) -> str:
        """Return the instances, all or of this model, that a debugger has paused, and where; empty if none is."""
        paused = [session for session in self.sessions(model) if session.live and session.place]
        return "; ".join(f"'{one.sessions.name}' is paused in the debugger at {one.place}" for one in paused)

    # -- for the thread that waits for a model

    def sleep(self, sleeper: threading.Lock, done: Callable[[], bool]) -> None:
        """Sleep until `sleeper` is released. If a model pauses meanwhile, read lines for it until it continues. Raises
        KeyboardInterrupt with a text if the author has left the debugger.
        """
        self._sleeper = sleeper
        try:
            if not done() and self.waiting() is None:
                interruptible(sleeper.acquire)
        finally:
            self._sleeper = None
        self.serve_all()

    def waiting(self) -> DebugSession | None:
        """Return a pause that waits for a line, if one can be typed; otherwise `prompt` lets the model continue."""
        if not self.running or not self.desk.can_read():
            return None
        return next((session for session in self.sessions() if session.prompt is not None and session.live), None)

    def serve_all(self) -> None:
        """Read lines for all pauses that wait for one now. Raises KeyboardInterrupt like `sleep`."""
        while (session := self.waiting()) is not None:
            self.serve(session)

    # -- for the typist

    def serve(self, session: DebugSession) -> None:
        """Read one line for the session if it waits for one. Raises KeyboardInterrupt like `sleep`."""
        prompt, place = session.prompt, session.place
        if prompt is None:
            return
        before, session.attended = session.attended, True
        try:
            line = interruptible(self.desk.read, session, prompt)
        except KeyboardInterrupt as interrupt:
            self._leave(session, place, str(interrupt) or "interrupted")
        if line is None:
            session.attended = before
            self._go_on(session, "nobody can type here")
        else:
            session.answer(line)

    def follow(self, session: DebugSession) -> None:
        """Read the session's lines until its model continues. Raises KeyboardInterrupt like `sleep`."""
        session.attended = True
        while True:
            try:
                with self._changed:
                    self._changed.wait_for(
                        lambda: session.ended or (session.prompt is not None and self.desk.can_read())
                    )
            except KeyboardInterrupt:
                self._leave(session, session.place, "interrupted")
            if session.ended:
                return
            self.serve(session)

    def wait_for(self, holds: Callable[[], bool], seconds: float) -> None:
        """Wait until the condition on the sessions holds, for at most that many seconds."""
        with self._changed:
            self._changed.wait_for(holds, seconds)

    def _leave(self, session: DebugSession, place: str, why: str) -> NoReturn:
        session.left = True
        session.answer(_QUIT)
        where = f" at {place}" if place else ""
        what = ", and its request fails with BdbQuit" if session.live else ""
        raise KeyboardInterrupt(f"the debugger of '{session.sessions.name}' was left{where} ({why}){what}.") from None

    # -- the end of pauses without a typist

    def _seek(self, session: DebugSession) -> None:
        """Find a typist for a pause without one."""
        if session.live and session.prompt is not None and not session.attended:
            name, minutes = session.model, UNATTENDED_SECONDS / 60
            command = magic_line("%triton", "debug", name)
            text = (
                f"Model '{name}' is paused in the debugger at {session.place}. Type to it with `{command}`, "
                f"once no cell runs; it goes on by itself in {minutes:g} minutes."
            )
            session.sessions.say(text, "WARNING")
            self.desk.say(session, text)

    def _give_up(self, session: DebugSession) -> None:
        if not session.attended and session.prompt is not None:
            self._go_on(session, "nobody typed anything")

    def _go_on(self, session: DebugSession, why: str) -> None:
        """Let the model continue; the frames and variables for the author go to its log and the desk."""
        text, place, now = session.story(why), session.place, time.monotonic()
        if session.live and now - self._described_at.get(place, -_REPEAT_SECONDS) < _REPEAT_SECONDS:
            text = f"'{session.sessions.name}' goes on at {place} again, because {why}."
        else:
            self._described_at[place] = now
        if session.live:
            session.sessions.say(text, "WARNING")
        self.desk.say(session, text)
        session.answer(None)

    def close(self) -> None:
        """Let every paused model continue, because the server stops."""
        self.desk = Desk()
        for session in self.sessions():
            self._go_on(session, "the server stops")
