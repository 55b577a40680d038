"""The history of a form: requests to view, to send again, and to compare."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from ....core.plain_facts import few_lines
from ....core.process_bound import ProcessBound
from ....core.short_number import duration_text
from ....exchanges.exchange import Exchange
from .fields import button, quiet_choice

#: How many requests are kept, and the most bytes that the tensors of one may have.
MOST = 20
MOST_BYTES = 16_000_000
#: The value for no chosen request; None itself would leave the field blank.
_NONE = -1


class History(ProcessBound):
    """The last requests with their responses, the newest first. `show` is called with the chosen request, `replay` with
    the request to send again.
    """

    _elsewhere = "pickle its `to_dict()`"

    def __init__(
        self,
        show: Callable[[Exchange], object],
        replay: Callable[[Exchange], object],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._show = show
        self._replay = replay
        self._now = now
        self._count = 0
        self.outcomes: list[tuple[str, Exchange]] = []
        self.choice = quiet_choice("History", [("History", _NONE)], "230px")
        tip = "Send it again, and show its responses then and now side by side"
        self.button = button("Replay", self._press, tip, disabled=True)
        self.box = widgets.HBox([self.choice, self.button], layout=widgets.Layout(flex_flow="row wrap"))
        self.choice.observe(lambda change: self._choose(), names="value")

    def add(self, outcome: Exchange) -> None:
        """Keep a request that has ended, unless it was the last one kept or is too large."""
        if (self.outcomes and self.outcomes[0][1].request is outcome.request) or _bytes(outcome) > MOST_BYTES:
            return
        self._count += 1
        ended = "cancelled" if outcome.cancelled else "failed" if outcome.failed else "answered"
        took = f" in {duration_text(outcome.total_ns / 1e9)}" if outcome.total_ns else ""
        when = time.strftime("%H:%M:%S", time.localtime(self._now()))
        self.outcomes.insert(0, (f"{self._count}: {when} {ended}{took}", outcome))
        del self.outcomes[MOST:]
        self.choice.options = [("History", _NONE), *((text, number) for number, (text, _) in enumerate(self.outcomes))]
        self.choice.value = _NONE

    def to_dict(self) -> dict[str, Any]:
        """Return the requests with their responses as JSON values, the newest first."""
        return {"requests": [{"label": label, **outcome.to_dict()} for label, outcome in self.outcomes]}

    def __repr__(self) -> str:
        return few_lines("\n".join(label for label, _ in self.outcomes) or "no request was sent yet")

    def _chosen(self) -> Exchange | None:
        number = self.choice.value
        return None if number in (None, _NONE) else self.outcomes[number][1]

    def _choose(self) -> None:
        chosen = self._chosen()
        self.button.disabled = chosen is None
        if chosen is not None:
            self._show(chosen)

    def _press(self) -> None:
        chosen = self._chosen()
        if chosen is not None:
            self._replay(chosen)


def _bytes(outcome: Exchange) -> int:
    tensors = [*outcome.request.inputs.values()]
    tensors += [tensor for response in outcome.responses for tensor in response.outputs.values()]
    return sum(tensor.byte_size for tensor in tensors)
