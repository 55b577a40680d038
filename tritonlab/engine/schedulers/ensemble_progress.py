"""`EnsembleProgress`, the decisions for one request of an ensemble (rules 5.7.1, 5.7.6, 5.7.7).

A *round* is a set of tensors that belong together. The request's inputs begin one round; each response of a decoupled
step begins another. A tensor computed from a round joins that round. Rounds never meet (the load refuses ensembles
where they would). So a step runs once per round, as soon as the round has all tensors that it reads, and a round with
all outputs becomes a response.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...core.config.ensemble_graph import EnsembleGraph, Step
from ...core.inference.tensor import Tensor


class Round:
    """Tensors by name; None if the step did not produce the tensor. `left` counts per tensor the readers still to come,
    steps and the response; at 0 the tensor is dropped, so that its memory is freed early.
    """

    __slots__ = ("answered", "awaited", "left", "tensors")

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor | None] = {}
        self.awaited: dict[int, int] = {}  # step -> the tensors that it still waits for
        self.left: dict[str, int] = {}
        self.answered = False


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One request to a step's model."""

    step: Step
    round: Round
    inputs: dict[str, Tensor]


@dataclass(slots=True)
class EnsembleWork:
    """The work of a decision: first `responses` to the client, then `runs` of steps. `final`: nothing follows; the last
    response carries the flag, or an empty response if there is none. `deadlock` names the outputs that can no longer be
    produced, if there was no response at all; then the request fails.
    """

    responses: list[dict[str, Tensor]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    final: bool = False
    deadlock: tuple[str, ...] = ()


class EnsembleProgress:
    """The decisions for one request. `requested`: the outputs for the client; empty means all. Not thread-safe."""

    def __init__(self, graph: EnsembleGraph, requested: Iterable[str] = ()) -> None:
        names = set(requested)
        self._graph = graph
        self._outputs = {name: r for name, r in graph.outputs.items() if name in names} if names else graph.outputs
        self._needed = graph.needed(self._outputs) if names else None
        self._responses = 0
        #: runs that have not ended
        self.running = 0

    def start(self, inputs: Mapping[str, Tensor]) -> EnsembleWork:
        """Return the first steps. A missing optional input is passed on as missing; a request without a required input
        waits in vain (rule 5.7.6).
        """
        first: dict[str, Tensor | None] = {name: None for name in self._graph.optional_inputs}
        first.update(inputs)
        return self._end(self._fill(Round(), first, EnsembleWork()))

    def responded(self, run: Run, outputs: Mapping[str, Tensor] | None, final: bool) -> EnsembleWork:
        """Return the work after a response of a step's model. `outputs` is None if it only marks the end."""
        work = EnsembleWork()
        self.running -= final
        if outputs is not None:
            found = {tensor: outputs.get(name) for name, tensor in run.step.outputs.items()}
            self._fill(Round() if run.step.decoupled else run.round, found, work)
        return self._end(work)

    def _fill(self, round_: Round, tensors: Mapping[str, Tensor | None], work: EnsembleWork) -> EnsembleWork:
        """Add tensors to a round, and add the work that they make possible to `work`."""
        graph = self._graph
        ready: list[Step] = []
        for name, tensor in tensors.items():
            readers = [
                step for step in graph.readers.get(name, ()) if self._needed is None or step.number in self._needed
            ]
            uses = len(readers) + (name in self._outputs)
            if not uses:
                continue
            round_.tensors[name], round_.left[name] = tensor, uses
            for step in readers:
                awaited = round_.awaited.get(step.number, len(step.reads)) - 1
                round_.awaited[step.number] = awaited
                if not awaited:
                    ready.append(step)
        if not round_.answered and all(reading.tensor in round_.tensors for reading in self._outputs.values()):
            round_.answered = True
            self._responses += 1
            work.responses.append(
                {
                    name: reading.read(tensor)
                    for name, reading in self._outputs.items()
                    if (tensor := round_.tensors[reading.tensor]) is not None
                }
            )
            self._used(round_, self._outputs)
        for step in sorted(ready, key=lambda step: step.number):
            inputs = {r.name: r.read(t) for r in step.inputs if (t := round_.tensors[r.tensor]) is not None}
            work.runs.append(Run(step, round_, inputs))
            self.running += 1
            self._used(round_, step.reads)
        return work

    @staticmethod
    def _used(round_: Round, names: Iterable[str]) -> None:
        for name in names:
            round_.left[name] -= 1
            if not round_.left[name]:
                round_.tensors[name] = None

    def _end(self, work: EnsembleWork) -> EnsembleWork:
        if self.running:
            return work
        work.final = True
        if not self._responses and not self._graph.decoupled:
            work.deadlock = tuple(self._outputs)
        return work
