"""Load tests in JupyterLab: from the form, and from a cell that waits for one."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.models import answers, cell

pytestmark = pytest.mark.timeout(300)

MODEL = cell(
    "doubled --max-batch-size 16 --dynamic-batching 200 --input X:FP32[-1] --output Y:FP32[-1]",
    answers("2 * x", reads="X", writes="Y").replace("responses = []", "import time; time.sleep(0.005); responses = []"),
)
#: Would take a minute and more.
CELL = "found = doubled.load_test(concurrency=[1, 4], seconds=30, shapes={'X': [4]})\nfound.stopped"


def test_a_load_test_is_started_followed_and_stopped(lab: Any) -> None:
    lab.jupyter.write("load_test.ipynb", ["%load_ext tritonlab", MODEL, "%triton load_test doubled", CELL])
    lab.open("load_test.ipynb")
    lab.run(0)
    lab.run(1)
    panel = lab.run(2).locator(".tl-load")
    shape, levels = panel.get_by_label("Shape of X"), panel.get_by_label("levels of load")
    expect(shape).to_have_value("1")  # any size, so the form has to say one
    levels.fill("1, many")
    levels.press("Enter")  # starts the test; the cell does not run again
    lab.wait_text(panel.get_by_role("alert"), "'1, many' is not a list of numbers")
    levels.fill("1, 4")
    shape.fill("8")
    panel.get_by_label("Seconds each").fill("0.6")
    panel.get_by_role("button", name="Start").click()
    lab.until(panel, "e => e.dataset.state === 'running' && +e.dataset.looks >= 2")
    lab.wait_text(panel.locator(".tl-figures"), "inferences/s")
    expect(panel.get_by_role("button", name="Start")).to_be_disabled()
    lab.shot("load_test_running", panel)
    lab.until(panel, "e => e.dataset.state === 'ended'")
    expect(panel.locator("tbody tr")).to_have_count(2)
    expect(panel.locator("svg circle")).to_have_count(4)
    lab.shot("load_test_ended", panel)

    panel.get_by_label("Seconds each").fill("30")
    panel.get_by_role("button", name="Start").click()
    lab.until(panel, "e => e.dataset.state === 'running'")
    panel.get_by_role("button", name="Stop").click()
    lab.wait_text(panel, "(stopped)")

    cell = lab.start(3)  # the cell waits, so that only a subshell can hear of the button
    panel = cell.locator(".tl-load")
    lab.until(panel, "e => +e.dataset.looks >= 2")
    panel.get_by_role("button", name="Stop").click()
    lab.wait_text(cell.locator(".jp-OutputArea-executeResult"), "'stopped'")
    lab.wait_text(cell.locator(".jp-OutputArea"), "Load test of doubled, in this kernel: stopped after")
    assert (lab.foreign, lab.errors) == ([], [])
