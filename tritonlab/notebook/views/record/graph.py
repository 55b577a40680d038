"""The graph of a request: the steps of an ensemble, the calls of a model (BLS), and their tensors and times; for a
sequence batcher the slots, the backlog, and the ends of idle sequences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....core.config.ensemble_graph import EnsembleGraph
from ....core.short_number import ns_text
from ....engine.schedulers.sequence_occupancy import Occupancy
from ....record.call_tree import Call, call_tree, rare_facts
from ....record.model_record import BATCHES, REQUESTS
from ....record.recording import Recording
from ..figures.graph_figure import call_text, graph_figure, sequence_figure
from ..figures.graph_layout import tensors
from .record_view import RecordView

#: Seconds between two drawings of the last request.
_PACE = 0.25
#: The most calls of the text, and slots of an instance.
_LINES, _SLOTS = 24, 8
#: The columns of a row of the table, after the depth of its call.
_COLUMNS = ("depth", "model", "name", "instance", "arrived", "queue", "compute", "requests", "inputs", "failure")


class Graph(RecordView):
    """The graph of one request, the last one unless one is chosen. `graph` returns the current graph of an ensemble, or
    None; `sequences` the slots of sequence batchers; `answers` returns in plain words the program that answers for a
    model, by name. A recording from a file has none of them.
    """

    MODULE = "graph.js"
    LABEL = "Graph"

    def __init__(
        self,
        recording: Recording,
        name: str,
        graph: Callable[[], EnsembleGraph | None] | None = None,
        sequences: Callable[[], list[Occupancy]] | None = None,
        answers: Callable[[str], str] = lambda name: "",
    ) -> None:
        super().__init__(recording, name, (lambda: {}) if sequences is not None else None)
        self._graph = graph or (lambda: None)
        self._sequences = sequences or (list[Occupancy])
        self._answers = answers
        self._chosen: int | None = None
        self._drawn_at = 0.0
        self._seen: Any = None

    # -- the choice of a request

    @property
    def row(self) -> int:
        """The row of the shown request in the model's record; -1 without a request."""
        requests = self.record.requests
        if self._chosen is not None and requests.dropped <= self._chosen < requests.total:
            return self._chosen
        return requests.total - 1

    def choose(self, row: int | None) -> None:
        """Show the request of a row, or always the last one with None."""
        self._chosen = row
        self._drawn_at, self._seen = 0.0, None

    def slowest(self) -> int | None:
        """Return the row of the slowest request in the record."""
        record = self.record
        with record.lock:
            requests, batches = record.requests.rows(), record.batches.rows()
            oldest, dropped = record.requests.dropped, record.batches.dropped
        number = requests[:, REQUESTS.index("batch")].astype(int) - dropped
        if not (number >= 0).any():
            return None
        took = batches[number, BATCHES.index("end")] - requests[:, REQUESTS.index("arrived")]
        took[number < 0] = 0
        return int(took.argmax()) + oldest

    def tree(self) -> Call | None:
        """Return the shown request with its calls."""
        return call_tree(self.recording, self.name, self.row, recent=self._chosen is None)

    # -- the browser's side

    def on_view_message(self, content: Mapping[str, Any]) -> None:
        if content.get("do") != "choose":
            return
        choice, requests = content["which"], self.record.requests
        if choice in (-1, 1):
            self.choose(min(max(self.row + choice, requests.dropped), requests.total - 1))
        else:
            self.choose(self.slowest() if choice == "slowest" else None)

    def _resume(self, known: Mapping[str, Any]) -> None:
        self._drawn_at, self._seen = 0.0, None

    def news(self) -> tuple[dict[str, Any] | None, list[bytes]]:
        now = time.monotonic()
        if now - self._drawn_at < _PACE:
            return None, []
        self._drawn_at = now
        sequences = self._sequences()
        seen = self.stamp(), sequences
        if seen == self._seen:
            return None, []
        self._seen = seen
        return {"kind": "graph", "following": self._chosen is None, **self._drawn(sequences)}, []

    def stamp(self) -> object:
        executed = sum(record.batches.total for record in list(self.recording.records.values()))
        return self.record.epoch, self.row, executed

    def _drawn(self, sequences: list[Occupancy]) -> dict[str, Any]:
        root = self.tree()
        message = {"slots": [sequence_figure(one) for one in sequences], "sequences": _sequence_lines(sequences)}
        if root is None:
            return {**message, "summary": "no request has been executed yet.", "figure": "", "table": [], "kept": 0}
        listed = list(root.walk())
        return {
            **message,
            "summary": self._summary(root, [call for _, call in listed]),
            "figure": graph_figure(root, self._graph()),
            "table": [_line(depth, call, root) for depth, call in listed],
            "kept": len(self.record.requests),
        }

    # -- without a browser

    def _summary(self, root: Call, listed: Sequence[Call]) -> str:
        calls = len(listed) - 1
        about = rare_facts(self.recording, self.name, self.row)
        took = f"{root.name} took {ns_text(root.end - root.arrived)}"
        made = f" and made {calls} call{'s' * (calls != 1)}" if calls else ""
        shared = f"; its batch of {root.count} requests made them together" if calls and root.count > 1 else ""
        models = dict.fromkeys(call.model for call in listed)
        others = "".join(f" {name}: {words}." for name in models if (words := self._answers(name)))
        return f"{took}{made}{shared}{f'; {about}' if about else ''}.{others}"

    def text(self) -> str:
        root, sequences = self.tree(), self._sequences()
        if root is None:
            return "\n".join([f"Graph of {self.name}: no request has been executed yet.", *_sequence_lines(sequences)])
        listed = list(root.walk())
        lines = [f"Graph of {self.name}: {self._summary(root, [call for _, call in listed])}"]
        for depth, call in listed[:_LINES]:
            step = f"step {call.step} " if call.step >= 0 else ""
            lines.append(
                f"  {'  ' * depth}{step}{call.model} ({'; '.join(tensors(call.inputs))}): {call_text(call, root)}"
            )
        if len(listed) > _LINES:
            lines.append(f"  and {len(listed) - _LINES} more")
        return "\n".join([*lines, *_sequence_lines(sequences)])

    def to_dict(self) -> dict[str, Any]:
        root, sequences = self.tree(), self._sequences()
        calls = list(root.walk()) if root is not None else []
        return {
            "model": self.name,
            "calls": [
                dict(zip(_COLUMNS, (depth, *_line(depth, call, calls[0][1])), strict=True)) for depth, call in calls
            ],
            "sequences": _sequence_lines(sequences),
        }

    def figure(self) -> str:
        """Return the shown request, and the slots of sequences, as SVG text."""
        return "".join(self._figures())

    def _figures(self) -> list[str]:
        root = self.tree()
        drawn = graph_figure(root, self._graph()) if root is not None else ""
        return [drawn, *map(sequence_figure, self._sequences())]

    def html(self) -> str:
        text = self.text()
        return self.page(text.split("\n", 1)[0], text, *self._figures())


def _line(depth: int, call: Call, root: Call) -> list[Any]:
    """Return the row of a call in the table."""
    step = f"step {call.step} · " if call.step >= 0 else ""
    times = [ns_text(ns) for ns in (call.arrived - root.arrived, call.start - call.arrived, call.end - call.start)]
    name = f"{chr(0xA0) * 4 * depth}{step}{call.model}"
    return [name, call.name, call.instance, *times, call.count, "; ".join(tensors(call.inputs)), call.failure]


def _sequence_lines(sequences: list[Occupancy]) -> list[str]:
    lines = []
    for occupied in sequences:
        for name, uses in occupied.instances:
            used = [
                f"{use.sequence}{' executing' if use.executing else ''}"
                + (f", {use.queued} queued" if use.queued else "")
                + ("" if use.idle_left is None else f", ends in {ns_text(max(use.idle_left, 0))}")
                for use in uses[:_SLOTS]
            ]
            more = f"; and {len(uses) - _SLOTS} more" if len(uses) > _SLOTS else ""
            lines.append(
                f"  {name}  {len(uses)} of {occupied.slots} slots taken{': ' * bool(used)}{'; '.join(used)}{more}"
            )
        if occupied.backlog:
            oldest = occupied.backlog[0]
            lines.append(f"  backlog  {len(occupied.backlog)} waiting, {oldest.sequence} for {ns_text(oldest.waited)}")
    return lines
