"""Sentences about what an export leaves out of a model directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .model_tree import LeftOutPath, WhyLeftOut

_NAMED = 3


def sentences(left_out: Iterable[LeftOutPath]) -> Iterator[str]:
    """Yield what is left out and what to do, one sentence for all that is hidden."""
    each = list(left_out)
    hidden = [entry.path for entry in each if entry.reason is WhyLeftOut.HIDDEN]
    if hidden:
        more = len(hidden) - _NAMED
        named = ", ".join(hidden[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        which = hidden[0].rstrip("/") if len(hidden) == 1 else "NAME"
        was, each_of = ("is hidden and was", "it") if len(hidden) == 1 else ("are hidden and were", "one")
        yield f"{named} {was} left out: include=[{which!r}] (--include {which}) exports {each_of}"
    for entry in each:
        if entry.reason is WhyLeftOut.LARGE:
            path, size = entry.path, f"{int(entry.detail) / 1e6:,.0f} MB"
            yield f"{path} has {size} and was left out: include=[{path!r}] (--include {path}) exports it"
        elif entry.reason is WhyLeftOut.DANGLING:
            gone = f"its link {entry.path} leads to '{entry.detail}', which is not there or left out"
            yield f"{gone}, and was left out: put the file there, or remove the link"
