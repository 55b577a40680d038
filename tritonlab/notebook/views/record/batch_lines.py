"""`BatchLines`, the replies to a batch of the timeline whose lines a person wants to see."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from ....core.status import TritonError
from ....profile.line_profile import LineProfile
from ....profile.recording import Recording

#: Seconds for which the lines are looked at where no profile was made yet.
_LOOK = 3.0
#: The lines of a reply.
_LINES = 12

Profile = Callable[[float], LineProfile]


class BatchLines:
    """The lines of batches of a size: of the model's last profile, else of one that is made now, of what others send.
    `profile(seconds)` makes it.
    """

    def __init__(
        self, name: str, recording: Recording, profile: Profile, send: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._name = name
        self._recording = recording
        self._profile = profile
        self._send = send
        self._lock = threading.Lock()  # guards what follows
        self._wanted: int | None = None

    def reply(self, size: int) -> None:
        """Send the lines of batches of that size, at once or when they were looked at."""
        known = self._recording.line_profiles.get(self._name)
        if known is not None and size in known.sizes:
            self._tell(size, known)
            return
        self._send({"kind": "lines", "size": size, "title": f"Looking at the lines for {_LOOK:.0f} s …", "rows": []})
        with self._lock:
            looking, self._wanted = self._wanted is not None, size
        if not looking:
            threading.Thread(target=self._look, name="batch lines", daemon=True).start()

    def _look(self) -> None:
        try:
            found, problem = self._profile(_LOOK), ""
        except TritonError as error:
            found, problem = None, str(error)
        with self._lock:
            size, self._wanted = self._wanted or 0, None
        if found is None:
            self._send({"kind": "lines", "size": size, "title": problem, "rows": []})
        else:
            self._tell(size, found)

    def _tell(self, size: int, profile: LineProfile) -> None:
        found = profile.of(size)
        # a model whose threads do the work has its time beside its batches
        if not found.lines and 0 in profile.sizes:
            found = profile.of(0)
        title, *rest = found.text().splitlines()
        rows = [[*row, line.text.strip()] for line, row in found.table(_LINES)]
        text = " ".join([title, *rest]) if not rows else title
        self._send({"kind": "lines", "size": size, "title": text, "head": found.heads(), "rows": rows})
