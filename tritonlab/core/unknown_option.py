"""The errors for a keyword argument that a call does not take, and for an attribute that an object does not have."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from .explained import Explained
from .status import Code

#: The name under which calls take a duration, and others for it.
_LASTS = frozenset({"seconds", "duration", "time", "budget", "budget_s"})
Called = TypeVar("Called", bound=Callable[..., Any])


class UnknownOption(Explained, TypeError):
    """A keyword argument that a call does not take. `advice` is the part of its text with the remedy. A notebook shows
    the line of the cell, and no frames of tritonlab.
    """

    code = Code.INVALID_ARG

    def __init__(self, text: str, advice: str = "", place: str = "") -> None:
        super().__init__(text)
        self.own_place, self.own_remedy = place, advice

    @staticmethod
    def check(call: str, names: Iterable[str], known: Collection[str]) -> None:
        """Raise UnknownOption for the first of `names` that is not `known`."""
        for name in sorted(names):
            if name not in known:
                advice = did_you_mean(name, known) or f"it takes {', '.join(known)}"
                raise UnknownOption(f"{call}() has no option '{name}': {advice}", advice, f"{call}({name}=…)")


class UnknownName(Explained, AttributeError):
    """An attribute or a method that an object does not have. `advice` is the part of its text with the remedy."""

    code = Code.INVALID_ARG

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.own_remedy = advice


def explains_unknown(called: Called) -> Called:
    """Make a function, method or dataclass raise UnknownOption, not a plain TypeError, for a keyword argument that it
    does not take.
    """
    function: Any = called.__init__ if isinstance(called, type) else called  # type: ignore[misc]
    parameters = list(inspect.signature(function).parameters.values())
    known = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    known = [name for name in known if name != "self"]

    @functools.wraps(function)
    def call(*values: Any, **options: Any) -> Any:
        UnknownOption.check(called.__name__, options, known)
        return function(*values, **options)

    if not isinstance(called, type):
        return call  # type: ignore[return-value]
    setattr(called, "__init__", call)  # noqa: B010  # mypy minds the plain assignment
    return called


def did_you_mean(word: str, known: Iterable[str], synonyms: Mapping[str, str] | None = None) -> str:
    """Return "did you mean 'add_sub'?" if `nearest` finds a word, else ""."""
    near = nearest(word, known, synonyms)
    return f"did you mean {near!r}?" if near else ""


def nearest(word: str, known: Iterable[str], synonyms: Mapping[str, str] | None = None) -> str:
    """Return the member of `known` that `word` means, or "": in another case, a synonym, or with nearly the same
    letters. `synonyms`: other words, separated by blanks, for members and for further lines.
    """
    names = list(known)
    meant = {other: name for name, words in (synonyms or {}).items() for other in words.split()}
    same = [name for name in names if name.casefold() == word.casefold()]
    others = [name for name in names if _LASTS.issuperset((name, word))]
    others += [meant[word.casefold()]] if word.casefold() in meant else []
    close = difflib.get_close_matches(word, names, n=1)
    close += [meant[other] for other in difflib.get_close_matches(word, meant, n=1)]
    return (same or others or close or [""])[0]
