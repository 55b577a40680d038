"""Checks in JupyterLab: from the card, with Stop, and from a cell."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.models import cell

pytestmark = pytest.mark.timeout(300)

MODEL = cell(
    "brightness --max-batch-size 8 --dynamic-batching 200 --input PIXELS:FP32[4] --output LEVELS:FP32[4]",
    """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        images = [pb_utils.get_input_tensor_by_name(request, "PIXELS").as_numpy() for request in requests]
        batch = np.abs(np.concatenate(images))
        batch /= max(batch.max(initial=0.0), 1e-6)
        parts = np.split(batch, np.cumsum([len(image) for image in images])[:-1])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("LEVELS", part)]) for part in parts]
""",
)


def test_a_check_is_started_from_the_card_and_stopped(lab: Any) -> None:
    lab.jupyter.write("check.ipynb", ["%load_ext tritonlab", MODEL])
    lab.open("check.ipynb")
    lab.run(0)
    card = lab.run(1)
    card.get_by_role("button", name="Check…").click()
    seconds = card.get_by_role("spinbutton")
    seconds.fill("600")
    seconds.press("Enter")
    card.get_by_role("button", name="Check", exact=True).click()
    lab.wait_text(card, "1 found")  # the line that says what is done now
    lab.shot("check_running", card)
    card.get_by_role("button", name="Stop").click()
    lab.wait_text(card, "Check of brightness: ")
    lab.wait_text(card, "What is in the other request gets into it.")
    lab.shot("check_ended", card.get_by_role("button", name="Check", exact=True))
    assert (lab.foreign, lab.errors) == ([], [])


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_a_cell_shows_the_result(theme: str, lab: Any) -> None:
    line = "%triton check brightness --seconds 600"
    tuning = "brightness.tune(seconds=600).run.stopped"
    lab.jupyter.write("check_cell.ipynb", ["%load_ext tritonlab", MODEL, line, tuning])
    lab.open("check_cell.ipynb")
    lab.run(0)
    lab.run(1)
    cell = lab.start(2)
    lab.wait_text(cell, "s left")
    expect(cell.locator(".tl-figures")).to_contain_text(re.compile("[1-9].*findings"))
    lab.shot("check_of_a_cell_dark", cell)
    cell.get_by_role("button", name="Stop").click()
    output = cell.locator(".jp-OutputArea-executeResult")
    lab.wait_text(output, "What is in the other request gets into it.")  # Stop keeps it
    lab.shot("check_dark", output)

    cell = lab.start(3)
    lab.wait_text(cell, "measuring batches with 1 instance")
    lab.wait_text(lab.cell(1).locator(".tl-live"), "It is being tuned")
    lab.shot("tuning_dark", cell)
    cell.get_by_role("button", name="Stop").click()
    lab.wait_text(cell.locator(".jp-OutputArea-executeResult"), "interrupted")
    assert lab.errors == []
