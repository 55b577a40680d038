"""Sentences about what an export leaves out of a model directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..repository.model_tree import Omission, Omitted

_NAMED = 3


def incomplete(left_out: Iterable[Omitted]) -> list[str]:
    """Return the sentences about large files, without which the model cannot be deployed."""
    return [*sentences(entry for entry in left_out if entry.reason is Omission.LARGE)]


def sentences(left_out: Iterable[Omitted]) -> Iterator[str]:
    """Yield what is left out and what to do, one sentence for all that is hidden."""
    each = list(left_out)
    hidden = [entry.path for entry in each if entry.reason is Omission.HIDDEN]
    if hidden:
        more = len(hidden) - _NAMED
        named = ", ".join(hidden[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        name = hidden[0].rstrip("/") if len(hidden) == 1 else "NAME"
        was, each_of = ("is hidden and was", "it") if len(hidden) == 1 else ("are hidden and were", "one")
        yield f"{named} {was} left out: include=[{name!r}] (--include {name}) exports {each_of}"
    for entry in each:
        if entry.reason is Omission.LARGE:
            path, size = entry.path, f"{int(entry.detail) / 1e6:,.0f} MB"
            yield (
                f"{path} has {size} and was left out, and the model does not deploy until it is there: "
                f"include=[{path!r}] (--include {path}) copies it"
            )
        elif entry.reason is Omission.DANGLING:
            gone = f"its link {entry.path} leads to '{entry.detail}', which is not there or left out"
            yield f"{gone}, and was left out: put the file there, or remove the link"
