"""The answers of one pass of a replay, until a later pass is compared with them."""

from __future__ import annotations

import pickle
from tempfile import SpooledTemporaryFile

from ....exchanges.exchange import Exchange
from .paced_sending import Replayed

#: The bytes that are kept in memory; beyond them all are in a file without a name.
_MEMORY_BYTES = 64 << 20


class KeptAnswers:
    """Answers by number of request, until `close`. Raises OSError if the disk does not take them."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115  # `close` closes it
        self._places: dict[int, int] = {}

    def add(self, replayed: Replayed) -> None:
        self._places[replayed.planned.number] = self._file.seek(0, 2)
        pickle.dump((replayed.exchange.arrivals, replayed.exchange.error), self._file)

    def get(self, replayed: Replayed) -> Exchange | None:
        """Return the kept answer to the same request, None if there is none."""
        place = self._places.get(replayed.planned.number)
        if place is None:
            return None
        self._file.seek(place)
        return Exchange(replayed.exchange.request, *pickle.load(self._file))

    def close(self) -> None:
        self._file.close()
