from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tritonlab
from tests.ensembles import ensemble_text, graph, model_text, step
from tests.models import executes
from tests.pictures import read, texts, titles
from tests.record.events import RecorderHooks, make_request
from tests.serving import Lab
from tritonlab.core.inference.infer_request import StepRequest
from tritonlab.engine.schedulers.sequence_occupancy import Occupancy, SlotUse, WaitingSequence
from tritonlab.notebook.views.figures.graph_figure import graph_figure, sequence_figure
from tritonlab.notebook.views.figures.graph_layout import layout
from tritonlab.notebook.views.record.graph import Graph
from tritonlab.record.call_tree import Call
from tritonlab.testing import MS

ECHO = executes("""
    for request in requests:
        for name in ("small", "small"):
            if len(request.inputs()) > 1:
                given = pb_utils.Tensor("IN", request.inputs()[0].as_numpy())
                pb_utils.InferenceRequest(model_name=name, inputs=[given], requested_output_names=["OUT"]).exec()
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
""")
MODELS = {"one": model_text(), "two": model_text("A B")}
PIPE = ensemble_text(step("one", "IN=X", "OUT=Z"), step("two", "A=Z B=X", "OUT=Y"))


def ran(model: str, step: int, begin: int, *calls: Call, inputs: tuple[str, ...] = ("IN",), failure: str = "") -> Call:
    times = begin * MS, begin * MS, (begin + 1) * MS, (begin + 3) * MS
    shapes: list[tuple[str, str, tuple[int, ...]]] = [(name, "FP32", (4,)) for name in inputs]
    who = model, 0, 7, "r7", step, f"{model}_0"
    return Call(*who, 1, 1, 1, 1, "full", *times, failure=failure, inputs=shapes, calls=[*calls])


def test_a_step_stands_below_what_it_reads_and_calls_below_their_caller() -> None:
    calls = [ran("small", -1, n) for n in range(5)]
    root = ran("pipe", -1, 0, ran("one", 0, 0), ran("two", 1, 3, *calls, inputs=("A", "B")), inputs=("X",))
    placed = layout(root, graph(PIPE, MODELS))
    titles = [box.title for box in placed.boxes]
    assert titles == ["pipe", "step 0 · one", "step 1 · two", "small \u00d7 5", "answer"]
    assert [box.y for box in placed.boxes] == sorted(box.y for box in placed.boxes)
    assert placed.boxes[2].tensors == ["Z as A FP32 [4]", "X as B FP32 [4]"]
    assert placed.boxes[4].tensors == ["Y [-1]"]
    arrows = {(titles[arrow.source], titles[arrow.target]) for arrow in placed.arrows}
    assert arrows == {
        ("pipe", "step 0 · one"),
        ("pipe", "step 1 · two"),
        ("step 0 · one", "step 1 · two"),
        ("step 1 · two", "small \u00d7 5"),
        ("step 1 · two", "answer"),
    }
    assert placed.height >= placed.boxes[-1].y + placed.boxes[-1].height


def test_the_answer_of_an_ensemble_that_batches_has_its_requests_batch() -> None:
    models = {"one": model_text(batch=8)}
    pipe = ensemble_text(step("one", "IN=X", "OUT=Y"), batch=8)
    root = ran("pipe", -1, 0, ran("one", 0, 0), inputs=("X",))
    root.inputs = [("X", "FP32", (3, 4))]
    assert layout(root, graph(pipe, models)).boxes[-1].tensors == ["Y [3, -1]"]
    root.inputs = []  # it was recorded without them
    assert layout(root, graph(pipe, models)).boxes[-1].tensors == ["Y [-1, -1]"]


def test_boxes_side_by_side_do_not_overlap() -> None:
    below = ran("wide", -1, 0, *(ran(f"leaf{n}", -1, n) for n in range(3)))
    placed = layout(ran("root", -1, 0, below, ran("b", -1, 1), ran("c", -1, 2), ran("d", -1, 3)), None)
    places = [(box.x, box.y) for box in placed.boxes]
    for n, (x, y) in enumerate(places):
        assert all(abs(x - a) >= 232 or abs(y - b) >= 50 for a, b in places[n + 1 :])


def test_the_figure_says_who_failed_and_what_was_not_run() -> None:
    root = ran("pipe", -1, 0, ran("one", 0, 0, failure="r7: <no>"), failure="r7: no", inputs=("X",))
    svg, legend = read(graph_figure(root, graph(PIPE, MODELS)))
    assert "not run" in texts(svg)
    assert any("failed: r7: <no>" in title for title in titles(svg))
    assert legend == ["waited", "ran", "failed"] and "bars: the 3 ms of the request" in texts(svg)


def test_slots_show_what_they_have_and_when_it_ends() -> None:
    uses = [SlotUse(0, 17, 2, True, 30 * MS), SlotUse(1, "text", 0, False, None)]
    occupied = Occupancy(3, 60 * MS, [("m_0_0", uses)], [WaitingSequence("late", 1, 5 * MS)])
    svg, legend = read(sequence_figure(occupied))
    words = texts(svg)
    assert words[:2] == ["m_0_0", "2 of 3 slots taken; a sequence ends after 60 ms without a request"]
    assert words[2:5] == ["17 · executing, 2 queued", "30 ms", "text · ends"]
    assert legend == ["time until the sequence ends, executing now", "time until the sequence ends, idle"]
    assert words[5:] == ["1 sequence without a slot", "late: 1 waiting for 5 ms"]
    text = repr(Graph(RecorderHooks().recording, "m", sequences=lambda: [occupied])).splitlines()
    assert text == [
        "Graph of m: no request has been executed yet.",
        "  m_0_0  2 of 3 slots taken: 17 executing, 2 queued, ends in 30 ms; text",
        "  backlog  1 waiting, late for 5 ms",
    ]


def test_a_person_goes_from_request_to_request() -> None:
    hooks = RecorderHooks()
    for serial, took in ((1, 2), (2, 9), (3, 1)):
        hooks.execute(make_request(serial, at=serial * 10), start=serial * 10, end=serial * 10 + took)
    view = Graph(hooks.recording, "add", sequences=list)
    message, _ = view.news()
    assert message is not None
    assert (message["summary"], message["following"], message["kept"]) == ("request 3 took 1 ms.", True, 3)
    assert view.news() == (None, [])

    def after(choice: Any) -> str:
        view.on_message({"do": "choose", "which": choice})
        message, _ = view.news()
        assert message is not None
        return str(message["summary"])

    assert after(-1) == "request 2 took 9 ms."
    assert (after(-1), after(-1)) == ("request 1 took 2 ms.", "request 1 took 2 ms.")
    assert after("slowest") == "request 2 took 9 ms."
    assert after("last") == "request 3 took 1 ms."
    assert view.news() == (None, [])


def test_a_recording_from_a_file_has_the_calls(tmp_path: Path) -> None:
    hooks = RecorderHooks()
    whole = make_request(1, model="pipe")
    made = StepRequest(whole, "one", 1, whole.inputs, (), lambda *_: None, lambda _: None, 2)
    made.serial = 2
    hooks.execute(made, start=0, end=1)
    hooks.execute(whole, start=0, end=2)
    path = hooks.recording.save(tmp_path / "day.npz")
    view = tritonlab.view(path, "graph", "pipe")
    assert repr(view).splitlines()[1:] == [
        "  pipe (IN INT32 [1, 2]): request 1 on add_0_0, version 1: came at 0 µs, waited 0 µs, ran 2 ms.",
        "    step 2 one (IN INT32 [1, 2]): request 2 on add_0_0, version 1: came at 0 µs, waited 0 µs, ran 1 ms.",
    ]
    assert "<img" in view.html()


def test_an_ensemble_in_service_shows_its_steps_and_their_calls(lab: Lab) -> None:
    lab.load("small", ECHO, model_text())
    lab.load("one", ECHO, model_text())
    lab.load("two", ECHO, model_text("A B"))
    pipe = lab.load("pipe", "", PIPE)
    view = pipe.view("graph")
    pipe(X=np.ones(3, np.float32))
    first, *lines = repr(view).splitlines()
    assert first.endswith("and made 4 calls.")
    assert [line.split(" (")[0] for line in lines] == [
        "  pipe",
        "    step 0 one",
        "    step 1 two",
        "      small",
        "      small",
    ]
    assert "1 request in 1 batch" in repr(pipe.view())  # its own requests have a timeline, too
