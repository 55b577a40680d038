"""The bodies of the messages of a debugger in a stub; `message_bodies` has those of all others."""

from __future__ import annotations

from typing import NamedTuple


class Prompt(NamedTuple):
    """Read a line for a debugger, which has paused a thread. `session` counts the pauses of a process; `live` False: it
    looks at an exception, and nothing is paused. `text`: what it printed since the last line, `file` and `line`: the
    place it shows. `snapshot`: frames and variables, for where nobody can type; only with a session's first prompt."""

    session: int
    live: bool
    text: str
    prompt: str
    file: str
    line: int
    snapshot: str


class Postmortem(NamedTuple):
    """Say how many seconds ago `execute` raised the exception that is kept; with `begin`, let a debugger look at it."""

    begin: bool


class Attach(NamedTuple):
    """Connect debugpy with `port` of 127.0.0.1, where `EditorRelay` knows it by `token`."""

    port: int
    token: str


class Resumed(NamedTuple):
    """The debugger has let the thread go on; `text` is what it printed last."""

    session: int
    text: str
