"""The lines of a model in JupyterLab: the margin below a cell, and the lines of a batch that is clicked."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(300)

MODEL = """%%triton_model tokens --max-batch-size 8 --dynamic-batching 2000 --input X:FP32[4] --output Y:FP32[4]
import time
import numpy as np
import triton_python_backend_utils as pb_utils

def attention(x):
    time.sleep(0.004)  # <- what eats the milliseconds
    return np.tanh(x)

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            scores = attention(x)
            time.sleep(0.001)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", scores)]))
        return responses
"""
PROFILE = "%triton profile tokens --seconds 1 --concurrency 4"


def test_the_margin_is_beside_the_lines_of_the_cell(lab: Any, theme: str) -> None:
    lab.jupyter.write("lines.ipynb", ["%load_ext tritonlab", MODEL, PROFILE])
    lab.open("lines.ipynb")
    lab.run(0)
    lab.run(1)
    cell = lab.run(2)
    panel = cell.locator(".tl-panel").last
    lab.wait_text(panel, "Lines of tokens: ")
    lab.wait_text(panel, "Cell In[2]")
    slow = panel.locator("tr", has_text="time.sleep(0.004)")
    expect(slow.locator(".tl-margin")).to_contain_text("█" * 12)
    expect(slow.locator("td", has_text="7").first).to_be_visible()  # its number in the cell
    lab.shots("line_profile", cell)
    assert (lab.foreign, lab.errors) == ([], [])


def test_a_batch_of_the_timeline_opens_its_lines(view_of: Any, lab: Any, theme: str) -> None:
    send = "found = tokens.profile(seconds=0.6, concurrency=1)"
    view = view_of("batch_lines", MODEL, "%triton view tokens", send)
    lab.run(3)
    canvas = view.locator("canvas").first
    lab.until(canvas, "e => +e.dataset.batches > 3")
    canvas.focus()
    canvas.press("ArrowLeft")
    view.get_by_role("button", name="Lines of batches of size 1").click()
    lab.wait_text(view.locator(".tl-batch-lines"), "Lines of tokens in batches of 1: ")
    lab.wait_text(view.locator(".tl-batch-lines tr").nth(1), "time.sleep(0.004)")
    lab.wait_text(view.locator(".tl-batch-lines tr").nth(1), "Cell In[2], line 7")
    lab.shots("batch_lines", view)
    assert (lab.foreign, lab.errors) == ([], [])
