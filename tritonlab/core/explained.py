"""`Explained`, the base of errors that give programs what they give people: a code, the place of the cause, and what to
do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .plain_facts import plain

#: Returns where an error is as its author knows it, such as the line of a cell, and advice; "" for what it cannot tell.
Explain: TypeAlias = "Callable[[Explained], tuple[str, str]]"


class Explained:
    """The base of errors that have `code`, `where` and `fix`, besides their text, which these do not change."""

    #: one of `status.Code`
    code: Any
    #: set by what hands the error to an author in a notebook, called when `where` or `fix` is read
    explained_by: Explain | None = None

    @property
    def where(self) -> str | None:
        """The line of a cell or file, or the field, that the error is about; None if unknown."""
        explain = self.explained_by
        return (explain(self)[0] if explain is not None else "") or self.place() or None

    @property
    def fix(self) -> str | None:
        """What to do about it; None if unknown."""
        explain = self.explained_by
        return self.remedy() or (explain(self)[1] if explain is not None else "") or None

    def to_dict(self) -> dict[str, Any]:
        """Return `error` (the class), `code`, `where`, `fix` and `text` as JSON values."""
        kind, text = type(self).__name__, str(self).strip()
        return {"error": kind, "code": plain(self.code), "where": self.where, "fix": self.fix, "text": text}

    # -- for subclasses

    def place(self) -> str:
        """Return the place of the cause, a line of a file as Python writes it: `File "model.py", line 3`."""
        return ""

    def remedy(self) -> str:
        """Return what to do, if the error itself knows."""
        return ""

    def symptom(self) -> str:
        """Return the text that advice is looked up for."""
        return str(self)
