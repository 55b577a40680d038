"""Results of tools that are kept in JSON files, and the comparison of a later result with one of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from ..core.foreign_file import read_text
from ..core.status import InvalidArgumentError
from ..core.whole_file import write_file
from ..figures.tables import table, text_table

_HEADS = ("", "before", "now", "")


class ResultChange(NamedTuple):
    """One fact of both results, in words. `is_worse`: whether it is worse now, by more than is allowed."""

    fact: str
    before: str
    now: str
    is_worse: bool
    note: str = ""


class ResultComparison:
    """The comparison of a result with an earlier one of the same tool."""

    def __init__(self, title: str, changes: Sequence[ResultChange]) -> None:
        self.title = title
        self.changes = tuple(changes)

    @property
    def ok(self) -> bool:
        """Whether nothing became worse."""
        return not any(change.is_worse for change in self.changes)

    def text(self) -> str:
        """Return a line for each fact."""
        return "\n".join([self._head(), *text_table([_HEADS, *map(_cells, self.changes)], numbers=(1, 2))])

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {"ok": self.ok, "changes": [change._asdict() for change in self.changes]}

    def html(self) -> str:
        rows = [list(_cells(change)) for change in self.changes]
        return f"<div class='tl-panel'><b>{escape(self._head())}</b>{table(_HEADS, rows, numbers=(1, 2))}</div>"

    def _head(self) -> str:
        worse = sum(change.is_worse for change in self.changes)
        return f"{self.title}: {f'{worse} worse' if worse else 'nothing worse'} than before"

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return self.text()


def _cells(change: ResultChange) -> tuple[str, str, str, str]:
    return change.fact, change.before, change.now, "worse" if change.is_worse else change.note


def save_result(path: str | PathLike[str], tool: str, facts: Mapping[str, Any]) -> Path:
    """Write the facts of a result as JSON, with the name of its tool. Raises OSError."""
    write_file(path, json.dumps({"tool": tool, **facts}, indent=1) + "\n")
    return Path(path)


def read_result(earlier: Any, tool: str, *facts: str) -> dict[str, Any]:
    """Return the facts of an earlier result: of the path of a saved one, of a `to_dict()`, or of the result itself.
    Raises InvalidArgumentError if it is not a result of the tool, or lacks one of `facts`, OSError if it cannot be
    read."""
    if isinstance(earlier, Mapping):
        found: Any = dict(earlier)
    elif hasattr(earlier, "to_dict"):
        found = earlier.to_dict()
    else:
        try:
            found = json.loads(read_text(Path(earlier)))
        except ValueError as error:
            raise InvalidArgumentError(f"{earlier} holds no saved result: {error}") from None
    if not isinstance(found, dict) or found.get("tool", tool) != tool or not {"model", *facts} <= found.keys():
        raise InvalidArgumentError(f"{earlier} is no saved result of {tool}: save(path) of a result writes one")
    return found
