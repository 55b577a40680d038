"""The bodies of the messages of forking processes: of a zygote, from which stubs are forked, and of a model that forks.

As in `message_bodies`, each is a NamedTuple, and `ipc_message.COMMANDS` has its row.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence


class Knock(NamedTuple):
    """Request a link for a process that the model forked; one end of a socket pair is sent with it."""

    pid: int


class ForkLink(NamedTuple):
    """Give a forked process its link; the descriptors of its regions are sent with it. `limit` 0: none."""

    size: int
    growth: int
    limit: int


class ImportStep(NamedTuple):
    """An import that a model makes before anything else: `import module`, or `from module import names`. `optional`:
    the model continues without the module. `own`: a file of the author, whose imports are steps themselves.
    """

    module: str
    names: Sequence[str]
    optional: bool
    own: bool


class Grow(NamedTuple):
    """Fork a zygote that makes these imports, with these environment variables and working directory; its end of a
    socket and its life pipe are sent with it.
    """

    steps: List[ImportStep]
    environment: Dict[str, str]
    directory: str


class Grown(NamedTuple):
    """A zygote is up, after that many of its imports; if fewer than all, it has ended, for this reason. `peak`: the
    most memory it had, in bytes.
    """

    steps: int
    left_out: str
    peak: int


class Fork(NamedTuple):
    """Fork a stub; its descriptors are sent with it. `paths` are its model's, as in IMPORT; `limit` 0: none."""

    size: int
    growth: int
    limit: int
    paths: List[str]


class Forked(NamedTuple):
    """The forked process, which is the kernel's child, or 0 and the reason for the failure. `stale`: the zygote will
    never fork again.
    """

    pid: int
    refused: str
    stale: bool
