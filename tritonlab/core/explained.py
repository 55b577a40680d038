"""`Explained`, the base of errors that give programs what they give people: a code, the place of the cause, and what to
do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from .plain_facts import plain


class Explanation(NamedTuple):
    """What a notebook knows about an error; "" for what it does not. `place`: where it is as its author knows it, such
    as the line of a cell; `topic`: the page about it (`error_pages`)."""

    place: str = ""
    advice: str = ""
    topic: str = ""


Explain: TypeAlias = "Callable[[Explained], Explanation]"


class Explained:
    """The base of errors that have `code`, `where` and `fix`, besides their text, which these do not change."""

    #: one of `status.Code`
    code: Any
    #: set by what hands the error to an author in a notebook, called when `where` or `fix` is read
    explained_by: Explain | None = None

    @property
    def where(self) -> str | None:
        """The line of a cell or file, or the field, that the error is about; None if unknown."""
        return self._explanation().place or self.place() or None

    @property
    def fix(self) -> str | None:
        """What to do about it; None if unknown."""
        return self.remedy() or self._explanation().advice or None

    @property
    def topic(self) -> str | None:
        """The page about such errors, which `%triton help TOPIC` prints; None if there is none."""
        return self._explanation().topic or None

    def to_dict(self) -> dict[str, Any]:
        """Return `error` (the class), `code`, `where`, `fix`, `topic` and `text` as JSON values."""
        facts = {"error": type(self).__name__, "code": plain(self.code), "where": self.where, "fix": self.fix}
        return {**facts, "topic": self.topic, "text": str(self).strip()}

    def _explanation(self) -> Explanation:
        return self.explained_by(self) if self.explained_by is not None else Explanation()

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
