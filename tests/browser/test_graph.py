"""The calls of an ensemble and of a model, and the slots of sequences, in JupyterLab."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(300)

MODELS = '''import time
import numpy as np
import tritonlab

ECHO = """
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep({seconds})
        {calls}
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
"""
ASK = """for _ in range(5):
            (given, *_) = requests[0].inputs()
            tensor = pb_utils.Tensor("IN", given.as_numpy())
            pb_utils.InferenceRequest(model_name="clean", inputs=[tensor], requested_output_names=["OUT"]).exec()"""

def tensor(kind, name):
    return f'{kind} {{ name: "{name}" data_type: TYPE_FP32 dims: [-1] }}\\n'

def step(model, reads, writes):
    maps = "".join(f'input_map {{ key: "{n}" value: "{t}" }}' for n, t in reads.items())
    return f'step {{ model_name: "{model}" model_version: -1 {maps} output_map {{ key: "OUT" value: "{writes}" }} }}\\n'

quick = 'backend: "python"\\nmax_batch_size: 0\\n' + tensor("output", "OUT")
tritonlab.load("clean", ECHO.format(seconds=0.002, calls=""), config=quick + tensor("input", "IN"))
tritonlab.load("embed", ECHO.format(seconds=0.01, calls=""), config=quick + tensor("input", "IN"))
two = tensor("input", "A") + tensor("input", "B")
tritonlab.load("rank", ECHO.format(seconds=0.004, calls=ASK), config=quick + two)
steps = [step("clean", {"IN": "TEXT"}, "CLEAN"), step("embed", {"IN": "CLEAN"}, "EMBEDDED")]
steps.append(step("rank", {"A": "CLEAN", "B": "EMBEDDED"}, "RANKED"))
search = tritonlab.load(
    "search",
    config='platform: "ensemble"\\n' + tensor("input", "TEXT") + tensor("output", "RANKED")
    + "ensemble_scheduling { " + "".join(steps) + " }",
)
for n in range(3):
    search.infer(inputs={"TEXT": np.ones(n + 1, "float32")}, request_id=f"q{n}", raise_on_error=True)
print("loaded")'''
SEQUENCES = """counted = tritonlab.load("counted", ECHO.format(seconds=0, calls=""), config='''
backend: "python"
max_batch_size: 3
sequence_batching { max_sequence_idle_microseconds: 60000000 }
instance_group [{ kind: KIND_CPU }]
''' + tensor("input", "IN") + tensor("output", "OUT"))
one = np.ones((1, 1), "float32")
for n in range(1, 4):
    next(counted.infer(inputs={"IN": one}, correlation_id=n, flags=1))
late = counted.infer(inputs={"IN": one}, correlation_id="late", flags=1)
counted.view("graph")"""
#: The texts of a graph that are in another font than the page's, or do not end within their boxes.
OUTSIDE = """graph => [...graph.querySelectorAll('[data-box] text')].filter((text) => {
    const frame = text.closest('[data-box]').querySelector('rect').getBoundingClientRect();
    const isLabs = getComputedStyle(text).fontFamily === getComputedStyle(graph).fontFamily;
    return !isLabs || text.getBoundingClientRect().right > frame.right;
}).map((text) => text.textContent)"""


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_calls_and_slots_are_seen(lab: Any, theme: str, view_of: Any) -> None:
    view = view_of("graph", MODELS, "search.view('graph')", SEQUENCES)
    graph = view.locator(".tl-graph")
    lab.wait_text(view.locator(".tl-summary"), "q2 took")
    expect(graph).to_have_attribute("data-boxes", "6")  # the request, three steps, five calls as one, the answer
    graph.focus()
    graph.press("ArrowLeft")
    lab.wait_text(view.locator(".tl-summary"), "q1 took")
    expect(graph).to_contain_text("TEXT FP32 [2]")
    for _ in range(2):
        graph.press("ArrowDown")
    lab.wait_text(view.locator(".tl-detail"), "q1 on clean_0")
    graph.press("Enter")
    lab.wait_text(view.locator(".tl-twin"), "step 2 · rank")
    lab.shot(f"graph_{theme}", view)
    assert graph.evaluate(OUTSIDE) == []
    view.locator("[data-do=slowest]").click()
    expect(graph).to_have_attribute("data-following", "false")
    expect(graph).to_have_attribute("aria-label", re.compile("Graph of search. q"))

    slots = lab.run(3).locator(".tl-view .tl-graph")
    lab.wait_text(slots, "1 sequence without a slot")
    expect(slots).to_contain_text("3 of 3 slots taken")
    lab.shot(f"graph_slots_{theme}", slots)
