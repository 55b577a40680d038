"""Custom metrics in JupyterLab."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(300)

MODEL = """%%triton_model scorer --max-batch-size 4 --input X:FP32[1] --output Y:FP32[1]
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        family = pb_utils.MetricFamily
        self.rows = family(name="scored_rows_total", description="rows that were scored", kind=family.COUNTER)
        self.last = family(name="last_score", description="the last score", kind=family.GAUGE)
        self.scores = family(name="score", description="all scores", kind=family.HISTOGRAM)
        self.metrics = {
            part: (self.rows.Metric(labels={"part": part}), self.last.Metric(labels={"part": part}))
            for part in ("low", "high")
        }
        self.tenths = {}
        self.histogram = self.scores.Metric(labels={}, buckets=[0.2, 0.5, 0.8])

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            if x[0, 0] < 0:
                raise ValueError("less than nothing")
            rows, last = self.metrics["low" if x[0, 0] < 0.5 else "high"]
            rows.increment(len(x))
            part = f"from 0.{int(x[0, 0] * 10)}"
            if part not in self.tenths:
                self.tenths[part] = self.rows.Metric(labels={"part": part})
            self.tenths[part].increment(len(x))
            last.set(float(x[0, 0]))
            self.histogram.observe(float(x[0, 0]))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]))
        return responses
"""
LOAD = """import random, time, tritonlab
for n in range(300):
    scorer(X=[[random.betavariate(2, 3)]])
    if n % 3 == 0:
        try:
            scorer(X=[[-1.0]])
        except tritonlab.TritonError:
            pass
    time.sleep(0.01)
print("scored")"""


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_metrics_move(lab: Any, theme: str, view_of: Any) -> None:
    view = view_of("metrics", MODEL, "%triton view scorer metrics", LOAD, "%triton view scorer memory")
    canvas = view.locator("canvas")
    lab.until(canvas, "c => +c.dataset.families === 9")  # also of metrics without a value yet
    height = view.bounding_box()["height"]
    lab.run(3)
    lab.until(canvas, "c => +c.dataset.series >= 13 && +c.dataset.kept > 600")
    assert view.bounding_box()["height"] == height  # also with more label sets than a chart has rows
    lab.scroll_to(canvas)
    lab.shot(f"metrics_{theme}")
    canvas.focus()
    canvas.press("Enter")
    lab.wait_text(view.locator(".tl-twin"), "nv_inference_exec_count")
    lab.wait_text(view.locator(".tl-twin"), "part=low")
    lab.wait_text(view.locator(".tl-twin"), "part=from 0.2")
    lab.wait_text(view.locator(".tl-twin"), " of compute per second")
    lab.shot(f"metrics_table_{theme}", view.locator(".tl-twin"))
    failures = re.compile("nv_inference_request_failure: .*version=1, reason=BACKEND 100")
    expect(canvas).to_have_attribute("aria-label", failures)
    expect(canvas).to_have_attribute("aria-label", re.compile("score: 300 observed"))
    memory_of_the_same(lab, theme)


def memory_of_the_same(lab: Any, theme: str) -> None:
    view = lab.run(4).locator(".tl-view")
    canvas = view.locator("canvas")
    lab.until(canvas, "c => +c.dataset.series === 4 && +c.dataset.kept >= 8")
    canvas.focus()
    canvas.press("Enter")
    lab.wait_text(view.locator(".tl-twin"), "resident")
    lab.wait_text(view.locator(".tl-twin"), "MiB")
    label = re.compile(re.escape("Memory of scorer. the same on Triton takes about --shm-size=3m."))
    expect(canvas).to_have_attribute("aria-label", label)
    lab.wait_text(view.locator(".tl-summary"), "--shm-size=3m")
    lab.shot(f"memory_{theme}", view)
