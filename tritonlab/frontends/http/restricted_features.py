"""The rule that keeps clients away from restricted endpoints unless they send a certain header (rule 6.1.3)."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.status import InvalidArgumentError
from ..shared.access import CATEGORIES
from .reply import TEXT, Headers, HttpReply, failure, header


class RestrictedFeatures:
    """The refusal of requests that lack the header of their category. `table`: category -> (header name, value)."""

    def __init__(self, table: Mapping[str, tuple[str, str]]) -> None:
        unknown = sorted(set(table) - set(CATEGORIES))
        if unknown:
            expected = ", ".join(CATEGORIES)
            raise InvalidArgumentError(f"unknown restricted api '{unknown[0]}', expected one of {expected}")
        self._table = {
            category: (key, key.lower().encode("latin-1"), value) for category, (key, value) in table.items()
        }

    def refusal(self, category: str, headers: Headers) -> HttpReply | None:
        """Return the answer to a client that may not use endpoints of the category; None if it may."""
        wanted = self._table.get(category)
        if wanted is None or header(headers, wanted[1]) == wanted[2]:
            return None
        return failure(403, f"This API is restricted, expecting header '{wanted[0]}'", TEXT)
