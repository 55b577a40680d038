"""`Explained`, the base of errors that give programs what they give people: a code, the place of the cause, and what to
do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .plain_facts import plain


class Explained:
    """The base of errors that have `code`, `where` and `fix`, besides their text, which these do not change."""

    #: one of `status.Code`
    code: Any
    #: names the cell for a place that is a line of a model's file; set by the notebook
    cite: ClassVar[Callable[[str], str]] = staticmethod(lambda place: place)
    #: returns advice about a text, "" if there is none; set by the notebook
    advise: ClassVar[Callable[[str], str]] = staticmethod(lambda text: "")

    @property
    def where(self) -> str | None:
        """The line of a cell or file, or the field, that the error is about; None if unknown."""
        return Explained.cite(self.place()) or None

    @property
    def fix(self) -> str | None:
        """What to do about it; None if unknown."""
        return self.remedy() or Explained.advise(self.symptom()) or None

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
