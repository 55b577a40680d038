"""The method `replay` of models, both local and remote."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any

from ...core.unknown_option import explains_unknown
from ...tool_table import tool_function


class Replayable:
    """A model with the method `replay`."""

    name: str
    version: int

    @explains_unknown
    def replay(
        self,
        capture: str | PathLike[str] | Iterable[Any],
        *,
        against: Any = None,
        of: str = "",
        speed: float | None = 1.0,
        limit: int | None = None,
        seconds: float | None = None,
        in_flight: int = 256,
        progress: Callable[[str], object] | None = None,
    ) -> Any:
        """Send the requests of a capture to the model, and return the `ReplayVerdict`: which of its answers differ from
        the recorded ones, grouped by cause.

        Requests are sent in the recorded order and at the recorded pace, through the batcher, those of a sequence one
        after the other. Values of floats are the same within the tolerance of their datatype; all else has to be equal.
        An interrupt ends the replay with the answers so far.

        Args:
            capture: a capture, its path, or an iterable of `CapturedRequest`.
            against: the old model, of this server or another one, which is replayed before and after: answers that it
                gives, too, are no change, its differences from itself are noise, and latencies are compared with its
                own. The model itself learns only the noise.
            of: the model whose requests are sent, if the capture has several and none of this name.
            speed: the factor of the pace; None: as fast as it goes.
            limit: the most requests to send.
            seconds: replay only so many seconds of the capture.
            in_flight: the most requests without an answer.
            progress: called with a line; it returns False to end the replay.

        The verdict has `groups`, whose examples `to_golden()`, `to_pytest(DIR)` and `keep_failure()` keep, and
        `save("report.html")`, `plot(ax)` and `panel()`, with buttons. Raises InvalidArgumentError for a capture without
        requests to the model, ValueError for a file that is not a capture.
        """
        options = {"limit": limit, "seconds": seconds, "in_flight": in_flight, "progress": progress}
        return tool_function("Model.replay")(self, capture, against=against, of=of, speed=speed, **options)
