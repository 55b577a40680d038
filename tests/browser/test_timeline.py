"""The timeline in JupyterLab: moves while a cell runs, says why, works by keyboard."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(300)

OPTIONS = "--max-batch-size 8 --dynamic-batching 3000 --instances 2 --input X:FP32[4] --output Y:FP32[4]"
MODEL = f"""%%triton_model embed {OPTIONS}
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.004 + 0.001 * len(requests))
        arrays = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        if any(array[0, 0] < 0 for array in arrays):
            raise ValueError("no negative numbers")
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", array)]) for array in arrays]
"""
LOAD = """import random, time
import numpy as np
sent = []
for n in range(250):
    array = np.full((1, 4), -1 if n == 120 else n, "float32")
    sent.append(embed.infer(inputs={"X": array}, request_id=f"r{n}", raise_on_error=False))
    time.sleep(random.expovariate(120))
answers = [list(one) for one in sent]
print(len(answers), "answered")"""


def wait(lab: Any, canvas: Any, condition: str) -> None:
    lab.until(canvas, f"canvas => {condition}")


def test_the_timeline_moves_and_says_why(lab: Any, view_of: Any) -> None:
    view = view_of("timeline", MODEL, "embed.view()", LOAD)
    canvas = view.locator("canvas")
    lab.wait_text(view, "Batch sizes")
    wait(lab, canvas, "canvas.dataset.lanes === 'embed_0_0 embed_0_1'")  # before they have executed anything
    height = view.bounding_box()["height"]
    lab.start(3)
    moves = "canvas.dataset.axis.endsWith('| now | time before now; 500 ms between two marks')"
    wait(lab, canvas, f"+canvas.dataset.batches > 5 && +canvas.dataset.frames > 5 && {moves}")
    lab.shot("timeline_running", view)
    assert view.bounding_box()["height"] == height
    view.locator("[data-do=follow]").click()
    paused = re.compile(r"^paused at \d\d:\d\d:\d\d$")
    expect(view.locator(".tl-summary")).to_have_text(paused)
    wait(
        lab, canvas, "/^(\\d\\d:\\d\\d:\\d\\d\\.\\d [|] )+time of day, \\d\\d \\w+ \\d{4}; /.test(canvas.dataset.axis)"
    )
    seen = canvas.evaluate("canvas => [canvas.dataset.frames, canvas.dataset.kept, canvas.toDataURL()]")
    lab.wait_text(lab.cell(3), "250 answered")
    assert canvas.evaluate("canvas => [canvas.dataset.frames, canvas.dataset.kept, canvas.toDataURL()]") == seen
    expect(view.locator(".tl-summary")).to_have_text(paused)
    view.locator("[data-do=follow]").click()
    wait(lab, canvas, "+canvas.dataset.kept > 250")
    assert int(canvas.get_attribute("data-dropped")) == 0
    view.locator("[data-do=fit]").click()
    lab.shots("timeline_all", view)
    assert view.bounding_box()["height"] == height
    canvas.focus()
    canvas.press("ArrowRight")
    lab.wait_text(view.locator(".tl-detail"), "closed because")
    wait(lab, canvas, "canvas.dataset.selection === '0'")
    canvas.press("ArrowDown")
    lab.wait_text(view.locator(".tl-detail"), ": X [1, 4], waited")  # of two instances either may end first
    lab.wait_text(view.locator(".tl-detail"), "got X = <Tensor FP32 [1, 4] [[")
    assert view.bounding_box()["height"] == height
    canvas.press("ArrowRight")
    canvas.press("ArrowRight")
    canvas.press("ArrowDown")
    canvas.press("w")
    canvas.press("Enter")
    lab.wait_text(view.locator(".tl-twin"), "longest wait")
    lab.shots("timeline_selected", view)
    expect(canvas).to_have_attribute("aria-label", re.compile("Timeline of embed. "))
    replay_of_sliders(lab, view, canvas)


def replay_of_sliders(lab: Any, view: Any, canvas: Any) -> None:
    """Check that a moved slider draws what would have happened, and what happens once the model is reloaded with it."""
    view.locator("[data-do=what-if]").click()
    panel = view.locator(".tl-whatif")
    wait(lab, canvas, "canvas.dataset.replayedPart === 'all' && canvas.dataset.replayedLanes === '2'")
    of_these_settings = int(canvas.get_attribute("data-replayed"))
    expect(panel.locator("[data-do=reload]")).to_be_disabled()
    delay = panel.locator("[data-field=max_queue_delay_microseconds]")
    delay.focus()
    delay.press("End")
    lab.wait_text(panel, "100 ms")
    wait(lab, canvas, f"canvas.dataset.replayedPart === 'all' && +canvas.dataset.replayed < {of_these_settings}")
    lab.wait_text(panel.locator(".tl-ifs"), "requests/s")
    delay.press("Home")
    instances = panel.locator("[data-field=instances]")
    instances.focus()
    instances.press("ArrowRight")
    wait(lab, canvas, "canvas.dataset.replayedPart === 'all' && canvas.dataset.replayedLanes === '3'")
    lab.shots("timeline_what_if", panel)
    panel.locator("[data-do=reload]").click()
    lab.wait_text(panel, "Loaded with 3 instances, batches up to 8, delay 0 µs")
    expect(panel.locator("[data-do=reload]")).to_be_disabled()
    # the new instance has a lane before it executes, and nothing is cut off in a narrow page
    view.locator("[data-do=what-if]").click()
    view.locator("[data-do=follow]").click()
    wait(lab, canvas, "canvas.dataset.lanes === 'embed_0_0 embed_0_1 embed_0_2'")
    lab.page.set_viewport_size({"width": 600, "height": 900})
    lab.page.evaluate("window.jupyterapp.shell.collapseLeft()")
    wait(lab, canvas, "canvas.clientWidth < 500 && canvas.width === canvas.clientWidth * devicePixelRatio")
    assert view.evaluate("view => view.scrollWidth <= view.clientWidth")
    lab.shots("timeline_narrow", view)
