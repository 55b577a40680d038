"""The streams of a decoupled model in JupyterLab, and a cancellation that is measured."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.timeout(300)

#: Answers N times; POLLS says whether it looks at is_cancelled().
MODEL = """\
%%triton_model count --decoupled --instances 2 --input N:INT32[1] POLLS:BOOL[1] --output I:INT32[1] T:STRING[1]
import threading, time
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.run, args=(request, request.get_response_sender())).start()

    def run(self, request, sender):
        n, polls = (pb_utils.get_input_tensor_by_name(request, name).as_numpy()[0] for name in ("N", "POLLS"))
        for i in range(n):
            if polls and sender.is_cancelled():
                break
            text = f"word {i}, " if i or n != 12 else ""
            texts = pb_utils.Tensor("T", np.array([text], dtype=object))
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("I", np.array([i], "int32")), texts]))
            time.sleep(0.06 if n > 100 else 0.03)  # a busy browser takes seconds to reach Cancel
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
LOAD = """import numpy as np, time
sent = []
for n, polls in ((5, True), (12, True), (300, True), (260, False)):
    inputs = {"N": np.array([n], "int32"), "POLLS": np.array([polls])}
    sent.append(count.infer(inputs=inputs, request_id=f"s{n}"))
    time.sleep(0.1)
print("sent")"""


def test_streams_are_seen_and_stopped(lab: Any, theme: str, view_of: Any) -> None:
    view = view_of("streams", MODEL, "view = count.view('streams'); view", LOAD, "print(view)")
    canvas = view.locator("canvas")
    canvas.focus()
    for _ in range(4):
        canvas.press("-")  # a busy machine is slow, and all four are to be in view
    lab.run(3)
    lab.until(canvas, "c => +c.dataset.streams === 4 && +c.dataset.open >= 2")
    canvas.focus()
    for _ in range(3):
        canvas.press("ArrowDown")
    lab.wait_text(view.locator(".tl-detail"), "s300 on count_0_")
    lab.wait_text(view.locator(".tl-chosen-pane"), "s300")
    lab.wait_text(view.locator(".tl-pane").nth(0), "word 0, word 1, word 2, word 3, word 4,")
    lab.wait_text(view.locator(".tl-pane").nth(1), "The first response has no text")
    lab.wait_text(view.locator(".tl-texts"), "Tokens of these streams: time to first token p50")
    lab.shot(f"streams_running_{theme}", view)
    view.locator("[data-do=cancel]").click()
    lab.wait_text(view.locator(".tl-detail"), "is_cancelled() returned True after")
    lab.wait_text(view.locator(".tl-detail"), "the sender closed after")
    canvas.press("ArrowDown")
    view.locator("[data-do=cancel]").click()
    lab.wait_text(view.locator(".tl-detail"), "never polled: its model does not call is_cancelled()")
    lab.until(canvas, "c => +c.dataset.open === 0")
    for _ in range(6):
        canvas.press("+")
    lab.wait_text(view.locator(".tl-summary"), "of 4 streams in the time shown")  # all four have a pane below
    canvas.press("0")
    lab.until(view.locator(".tl-summary"), "words => words.textContent.endsWith('4 streams')")
    canvas.press("Enter")
    lab.wait_text(view.locator(".tl-twin"), "empty final")
    lab.shot(f"streams_{theme}", view)
    lab.wait_text(lab.run(4), "s300: Cancelled; is_cancelled() returned True after")
