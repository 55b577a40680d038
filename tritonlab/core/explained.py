"""`Explained`, the base of errors with a code, the place of the cause and a remedy, for programs and people alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

from .plain_facts import plain


class Explanation(NamedTuple):
    """A notebook's knowledge of an error; "" for unknown parts. `place`: the place as its author knows it, such as the
    line of a cell; `topic`: the page about it (`error_pages`).
    """

    place: str = ""
    advice: str = ""
    topic: str = ""


Explain: TypeAlias = "Callable[[Explained], Explanation]"


def blank(kind: type[Any], code: Any = None) -> Any:
    """Return an error without arguments and attributes, for `copy` and `pickle` to fill. `code`: for a class made for
    that code.
    """
    options = {} if code is None else {"code": code}
    return cast(Any, kind).__new__(kind, **options)


class Explained:
    """The base of errors that have `code`, `where` and `fix` besides their text, which stays unchanged."""

    #: one of `status.Code`
    code: Any
    #: a function of the notebook that shows the error, called when `where` or `fix` is read; in another process, its
    #: result
    explained_by: Explain | Explanation | None = None
    #: the place and the remedy that the error itself has, unless a subclass finds them later
    own_place = own_remedy = ""

    @property
    def where(self) -> str | None:
        """The line of a cell or file, or the field, that caused the error; None if unknown."""
        return self._explanation().place or self.place() or None

    @property
    def fix(self) -> str | None:
        """The remedy; None if unknown."""
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
        found = self.explained_by
        return found(self) if callable(found) else found or Explanation()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments with which `pickle` rebuilds the error without `__init__`, which may not take `args`."""
        args = cast(BaseException, self).args[:1]  # with a second one it is a response, for NVIDIA
        state = {"args": args, **vars(self)}
        if self.explained_by is not None:
            state["explained_by"] = self._explanation()
        return blank, (type(self),), state

    # -- for subclasses

    def place(self) -> str:
        """Return the place of the cause in Python's form: `File "model.py", line 3`."""
        return self.own_place

    def remedy(self) -> str:
        """Return the remedy that the error itself has."""
        return self.own_remedy

    def symptom(self) -> str:
        """Return the text by which advice is found."""
        return str(self)
