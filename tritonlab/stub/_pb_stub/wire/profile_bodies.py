"""The bodies of the messages about the lines of the author's code: how long each takes, and what memory it keeps."""

from __future__ import annotations

from typing import Any, List, NamedTuple


class Profile(NamedTuple):
    """Begin to look at the author's lines, or end it and tell what was found. `memory`: what each line keeps of what it
    allocates, instead of its time. `batching`: whether the first dimension of an input is that of a batch."""

    begin: bool
    memory: bool
    batching: bool


class Profiled(NamedTuple):
    """What was found until now; nothing at the begin.

    `times`: for each line `[file, line, size, own_ns, total_ns, hits]`; `size` is that of the batch that `execute` had,
    0 for threads that work beside it; `total_ns` includes the author's functions that the line calls; `hits` is 0 where
    it is not counted. `memory`: for each line `[file, line, bytes, blocks]` that are still held. `way`: `monitoring`,
    `sampling`, `monitoring, then sampling` or `tracemalloc`; empty if nothing was looked at.
    """

    times: List[Any]
    memory: List[Any]
    way: str
    nanoseconds: int
