"""`UnknownOption` refuses a keyword argument that a call does not take."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .explained import Explained
from .status import Code


class UnknownOption(Explained, TypeError):
    """A call got a keyword argument that it does not take. A notebook shows the cell's line for it, and no frames of
    ours."""

    code = Code.INVALID_ARG

    @staticmethod
    def check(call: str, given: Iterable[str], known: Collection[str]) -> None:
        """Raises UnknownOption for the first of `given` that is not `known`."""
        for name in sorted(given):
            if name not in known:
                raise UnknownOption(f"{call}() has no option '{name}': {', '.join(known)}")
