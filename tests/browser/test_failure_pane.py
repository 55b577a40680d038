"""A failing cell in JupyterLab: the pane below it tells where and with what, and sends it again after a fix."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(300)

MODEL = """%%triton_model halve --input X:FP32[-1] --output Y:FP32[-1]
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.largest = 100

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            share = 1 / self.spread(x)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * share)]))
        return responses

    def spread(self, x):
        low, high = float(x.min()), float(x.max())
        if high == low:
            raise ZeroDivisionError("all values are the same")
        return high - low
"""
FIXED = MODEL.replace('raise ZeroDivisionError("all values are the same")', "return 1.0")
REQUEST = "import numpy as np\nhalve(X=np.full(4, 7, np.float32))"


def test_fail_fix_replay(lab: Any, theme: str) -> None:
    name = f"failure_{theme}.ipynb"
    lab.jupyter.write(name, ["%load_ext tritonlab", MODEL, REQUEST, FIXED])
    lab.open(name)
    lab.run(0)
    lab.run(1)
    output = lab.run(2)
    pane = output.locator(".tl-live .tl-failure")
    lab.wait_text(pane, "ZeroDivisionError: all values are the same")
    first = pane.locator(".tl-frame").first
    expect(first).to_contain_text("Cell In[2], line 19, in spread")
    expect(first.locator("b")).to_contain_text("raise ZeroDivisionError")
    expect(first.locator("tr", has_text="low")).to_have_text("low\t7.0", use_inner_text=True)
    expect(pane).to_contain_text("[7., 7., 7., 7.]")
    lab.shot(f"failure_{theme}", pane)
    pane.get_by_role("button", name="Replay").click()
    lab.wait_text(pane, "It fails the same: ZeroDivisionError")
    pane.get_by_role("button", name="Copy as pytest").click()
    lab.wait_text(pane.locator(".tl-program"), "def test_halve_failure():")
    expect(pane.locator("a.tl-file")).to_have_text(["test_halve_failure.py", "test_halve_failure.npz"])
    lab.run(3)
    pane.get_by_role("button", name="Replay").press("Enter")
    lab.wait_text(pane, "Answered in")
    expect(pane.locator(".tl-result")).to_contain_text("Y FP32 [4] [7., 7., 7., 7.]")
    lab.shot(f"failure_fixed_{theme}", pane)
    assert "Error displaying widget" not in output.inner_text()
    assert (lab.foreign, lab.errors) == ([], [])
