"""The layout of a call graph: the place of each call's box, and the tensors that lead from one box to another.

Calls are below their callers, indented. Steps of an ensemble are in rows: a step is below all steps from which it
reads. Each box has the names of its incoming tensors above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ....core.config.ensemble_graph import EnsembleGraph, Step
from ....record.call_tree import Call

WIDTH, HEIGHT, LINE = 232, 50, 13
#: The box for the client's result of an ensemble.
ANSWER = "answer"
_GAP, _INDENT = 26, 28
#: Boxes side by side; more go into the next row.
_COLUMNS = 3
#: From this number on, the calls of one model share one box.
_MANY = 4


@dataclass
class Box:
    """A model's box at (x, y). `calls` is empty for a step that was not run; `tensors`: incoming ones, in words."""

    title: str
    calls: list[Call]
    tensors: list[str]
    x: float = 0
    y: float = 0

    @property
    def height(self) -> int:
        return HEIGHT // 2 if self.title == ANSWER else HEIGHT


@dataclass
class Arrow:
    """An arrow from one box to another, by number. `made`: whether it stands for a call, not only for a tensor. `past`:
    whether there are boxes between the two.
    """

    source: int
    target: int
    made: bool
    past: bool = False


@dataclass
class GraphLayout:
    """The boxes, each after the boxes above it, the arrows, and the size of the whole."""

    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    width: float = 0
    height: float = 0


@dataclass
class _Member:
    """A box of a row. `reads`: the places of the members from which it reads, -1 for the caller; `depth`: its row."""

    box: Box
    reads: list[int]
    depth: int = 0


def layout(root: Call, graph: EnsembleGraph | None) -> GraphLayout:
    """Place a request and its calls. `graph`: the graph of the request's ensemble, None for another model."""
    made = GraphLayout()
    box = Box(root.model, [root], tensors(root.inputs))
    made.height = _lay_out(made, box, graph, x=0.0, y=len(box.tensors) * LINE + 4) + 2
    made.width = max(box.x for box in made.boxes) + WIDTH + 2
    return made


def tensors(inputs: Iterable[tuple[str, str, Sequence[int]]]) -> list[str]:
    """Return a line for each tensor: `X FP32 [1, 4]`."""
    return [" ".join(filter(None, (name, kind, f"[{', '.join(map(str, shape))}]"))) for name, kind, shape in inputs]


def _lay_out(made: GraphLayout, box: Box, graph: EnsembleGraph | None, x: float, y: float) -> float:
    """Place a box and all boxes below it; return where the room below begins."""
    box.x, box.y = x, y
    number = len(made.boxes)
    made.boxes.append(box)
    calls = [call for one in box.calls for call in one.calls]
    members = _steps(graph, box.calls[0], calls) if graph is not None else _groups(calls)
    bottom = y + box.height
    places: dict[int, int] = {}
    for depth in sorted({member.depth for member in members}):
        row = [(n, member) for n, member in enumerate(members) if member.depth == depth]
        for begin in range(0, len(row), _COLUMNS):
            line = row[begin : begin + _COLUMNS]
            top = bottom + _GAP + max(len(member.box.tensors) for _, member in line) * LINE
            at, bottom = x + _INDENT, 0.0
            for n, member in line:
                places[n] = len(made.boxes)
                bottom = max(bottom, _lay_out(made, member.box, graph=None, x=at, y=top))
                at = max(one.x for one in made.boxes[places[n] :]) + WIDTH + _INDENT
                made.arrows += [
                    Arrow(places[source], places[n], False, member.depth > members[source].depth + 1)
                    for source in member.reads
                    if source >= 0
                ]
                if -1 in member.reads:
                    made.arrows.append(Arrow(number, places[n], graph is None))
    return bottom


def _groups(calls: Sequence[Call]) -> list[_Member]:
    """Return a member for each call, or one for all calls of a model if they are many."""
    by_model: dict[tuple[str, int], list[Call]] = {}
    for call in calls:
        by_model.setdefault((call.model, call.step), []).append(call)
    found = []
    for (model, step), same in by_model.items():
        title = f"step {step} · {model}" if step >= 0 else model
        parts = [same] if len(same) >= _MANY or step >= 0 else [[call] for call in same]
        found += [_Member(Box(_counted(title, part), part, tensors(part[0].inputs)), [-1]) for part in parts]
    return sorted(found, key=lambda member: member.box.calls[0].arrived)


def _steps(graph: EnsembleGraph, root: Call, calls: Sequence[Call]) -> list[_Member]:
    """Return a member for each step of an ensemble, and one for its response to `root`."""
    places = {step.number: index for index, step in enumerate(graph.steps)}
    found: list[_Member] = []
    for step in graph.steps:
        own = [call for call in calls if call.step == step.number]
        read = {reading.tensor for reading in step.inputs}
        title = _counted(f"step {step.number} · {step.model_name}", own)
        found.append(_Member(Box(title, own, _lines(step, own)), _writers(graph, places, read)))
    for _ in found:  # a step is below the steps from which it reads
        for member in found:
            member.depth = max((found[n].depth + 1 for n in member.reads if n >= 0), default=0)
    read = {reading.tensor for reading in graph.outputs.values()}
    # Shapes of responses are not recorded: these are the configured ones, with the request's batch.
    batch = [root.inputs[0][2][0] if root.inputs else -1] if graph.batches else []
    lines = tensors((name, "", [*batch, *reading.dims]) for name, reading in graph.outputs.items())
    answer = _Member(Box(ANSWER, [], lines), _writers(graph, places, read))
    answer.depth = max((member.depth + 1 for member in found), default=0)
    return [*found, answer]


def _writers(graph: EnsembleGraph, places: dict[int, int], read: Iterable[str]) -> list[int]:
    """Return the places of the steps that write the tensors; -1 for tensors that the client sends."""
    written = [graph.writers.get(tensor) for tensor in read]
    return sorted({-1 if one is None else places[one[0].number] for one in written})


def _lines(step: Step, calls: Sequence[Call]) -> list[str]:
    """Return the incoming tensors with their shapes, after their names in the ensemble."""
    shapes = {name: (kind, shape) for name, kind, shape in calls[0].inputs} if calls else {}
    found = []
    for reading in step.inputs:
        if calls and reading.name not in shapes:
            continue  # an optional tensor that no step wrote
        kind, shape = shapes.get(reading.name, ("", reading.dims))
        (line,) = tensors([(reading.name, kind, shape)])
        found.append(line if reading.tensor == reading.name else f"{reading.tensor} as {line}")
    return found


def _counted(title: str, calls: Sequence[Call]) -> str:
    return f"{title} \u00d7 {len(calls)}" if len(calls) > 1 else title
