"""An `Explained` error tells a program what it tells a person: its code, where the cause is, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .plain_facts import plain


class Explained:
    """Is a base of errors that have `code`, `where` and `fix`, besides their text, which these do not change."""

    #: one of `status.Code`
    code: Any
    #: names the cell in a place that is a line of a model's file; handed in by the notebook
    cite: ClassVar[Callable[[str], str]] = staticmethod(lambda place: place)
    #: returns advice about a text, "" if there is none; handed in by the notebook
    advise: ClassVar[Callable[[str], str]] = staticmethod(lambda text: "")

    @property
    def where(self) -> str | None:
        """Returns the line of a cell or file, or the field, that the error is about; None if it does not say."""
        return Explained.cite(self.place()) or None

    @property
    def fix(self) -> str | None:
        """Returns what to do about it; None if that is not known."""
        return self.remedy() or Explained.advise(self.symptom()) or None

    def to_dict(self) -> dict[str, Any]:
        """Returns `error` (the class), `code`, `where`, `fix` and `text` as JSON values."""
        kind, text = type(self).__name__, str(self).strip()
        return {"error": kind, "code": plain(self.code), "where": self.where, "fix": self.fix, "text": text}

    # -- for subclasses

    def place(self) -> str:
        """Returns where the cause is, a line of a file as Python writes it: `File "model.py", line 3`."""
        return ""

    def remedy(self) -> str:
        """Returns what to do, if the error itself knows."""
        return ""

    def symptom(self) -> str:
        """Returns the text that advice is looked up for."""
        return str(self)
