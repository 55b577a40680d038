"""The playground without a mouse, and with what is not a number: sounds, JSON, dropped files, a hundred inputs."""

from __future__ import annotations

import io
import re
import time
import wave
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.models import answers, cell

pytestmark = pytest.mark.timeout(300)

MODEL = cell("twice --max-batch-size 8 --input A:FP32[2] --output OUT:FP32[2]", answers("x * 2", reads="A"))
KINDS = """%%triton_model kinds --input SOUND:INT16[-1] --input DOC:STRING[1] --output ECHO_AUDIO:INT16[-1] \
--output ENVELOPE:FP32[-1] --output REPORT:STRING[1]
import json
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        sound = pb_utils.get_input_tensor_by_name(request, "SOUND").as_numpy()
        said = json.loads(pb_utils.get_input_tensor_by_name(request, "DOC").as_numpy()[0])
        report = json.dumps({"samples": len(sound), "said": said}).encode()
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("ECHO_AUDIO", sound[::-1].copy()),
            pb_utils.Tensor("ENVELOPE", np.abs(sound).astype(np.float32)),
            pb_utils.Tensor("REPORT", np.array([report], dtype=object))])
"""
HUNDRED = """import tritonlab
tensors = [f"{kind} {{ name: '{name}{n}' data_type: TYPE_FP32 dims: [2] }}" for n in range(100)
           for kind, name in (("input", "IN"), ("output", "OUT"))]
source = '''
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([
            pb_utils.Tensor(t.name().replace("IN", "OUT"), t.as_numpy()) for t in r.inputs()]) for r in requests]
'''
many = tritonlab.load("many", source, config="\\n".join(tensors))
form = tritonlab.playground(many)
form"""


@pytest.fixture
def theme(request: Any, jupyter: Any) -> str:
    jupyter.theme(request.param)
    return str(request.param)


def opened(lab: Any, name: str, *cells: str) -> None:
    lab.jupyter.write(f"{name}.ipynb", ["%load_ext tritonlab", *cells])
    lab.open(f"{name}.ipynb")
    lab.run(0)


def tab_to(lab: Any, label: str, most: int = 60) -> None:
    """Press Tab until the control of that label, or text, has the focus."""
    seen = []
    for _ in range(most):
        lab.page.keyboard.press("Tab")
        seen.append(
            lab.page.evaluate(
                """() => {
                    const found = document.activeElement;
                    const label = found.labels?.[0]?.textContent || found.ariaLabel || found.textContent || "";
                    return label.trim().slice(0, 40);
                }"""
            )
        )
        if seen[-1] == label:
            return
    raise AssertionError(f"Tab does not reach {label!r}: {seen}")


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_without_a_mouse(lab: Any, theme: str) -> None:
    """Form, answer, history, the difference of two answers, and the copy of a program."""
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab.page.set_viewport_size({"width": 640, "height": 900})
    opened(lab, f"keyboard_{theme}", MODEL)
    output = lab.run(1)
    keys = lab.page.keyboard
    keys.press("Escape")
    tab_to(lab, "Playground")
    keys.press("Enter")
    output.locator(".tl-form[data-keys=on]").wait_for()
    tab_to(lab, "A value")
    keys.press("Control+a")
    keys.type("1, 2")
    keys.press("Control+Enter")
    lab.wait_text(output.locator(".tl-value:visible").first, "[[2. 4.]]")
    keys.press("Control+a")
    keys.type("3, 4")
    keys.press("Control+Enter")
    lab.wait_text(output.locator(".tl-value:visible").first, "[[6. 8.]]")
    lab.wait_text(output.get_by_label("History"), "2: ")

    tab_to(lab, "History")
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    lab.wait_text(output.locator(".tl-value:visible").first, "[[2. 4.]]")
    tab_to(lab, "Replay")
    lab.shot(f"keyboard_{theme}", output.get_by_role("button", name="Replay", exact=True))
    keys.press("Enter")
    lab.wait_text(output.locator(".tl-compare"), "equal")
    lab.shot(f"keyboard_diff_{theme}", output.locator(".tl-compare"))

    tab_back(lab, "Copy as")
    keys.press("ArrowDown")
    snippet = output.get_by_label("The request as a program")
    snippet.wait_for()
    tab_to(lab, "Copy")
    keys.press("Enter")
    expect(snippet).to_have_value(re.compile("3.0, 4.0"))
    lab.page.wait_for_function(
        "text => navigator.clipboard.readText().then(copied => copied === text)", arg=snippet.input_value()
    )
    lab.shot(f"keyboard_copy_{theme}", snippet)
    assert lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.activeCellIndex") == 1
    assert lab.errors == [] and lab.foreign == []


def tab_back(lab: Any, label: str) -> None:
    for _ in range(20):
        if lab.page.evaluate("() => document.activeElement.labels?.[0]?.textContent.trim()") == label:
            return
        lab.page.keyboard.press("Shift+Tab")
    raise AssertionError(f"Shift+Tab does not reach {label!r}")


def wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as target:
        target.setnchannels(1)
        target.setsampwidth(2)
        target.setframerate(16_000)
        target.writeframes((np.sin(np.arange(4000) / 9) * np.linspace(0, 20_000, 4000)).astype("<i2").tobytes())
    return file.getvalue()


def drop(lab: Any, row: Any, name: str, content: bytes) -> None:
    files = lab.page.evaluate_handle(
        """([name, content]) => {
            const found = new DataTransfer();
            found.items.add(new File([new Uint8Array(content)], name));
            return found;
        }""",
        [name, list(content)],
    )
    row.dispatch_event("dragover", {"dataTransfer": files})
    expect(row).to_have_class(re.compile("tl-drop"))
    row.dispatch_event("drop", {"dataTransfer": files})


@pytest.mark.parametrize("theme", ["light"], indirect=True)
def test_sounds_documents_and_a_hundred_inputs(lab: Any, theme: str) -> None:
    opened(lab, f"kinds_{theme}", KINDS, HUNDRED, "form.inputs.made.__len__()")
    output = lab.run(1)
    output.get_by_role("button", name="Playground").click()
    output.locator(".tl-form[data-keys=on]").wait_for()
    drop(lab, output.locator(".tl-input-0"), "tone.wav", wav())
    lab.wait_text(output, "tone.wav: INT16 [4000]")
    document = output.get_by_label("DOC value")
    document.fill('{"words": ["one", "two"],}')
    lab.wait_text(output, "not JSON: ")
    document.fill('{"words": ["one", "two"]}')
    lab.wait_text(output, "a JSON object with 1 key")
    lab.page.keyboard.press("Control+Enter")
    player = output.locator("audio:visible")
    player.wait_for()
    lab.until(player, "player => Math.abs(player.duration - 0.25) < 0.01")
    lab.wait_text(output, '"samples": 4000')
    expect(output.locator("svg.tl-curve:visible")).to_have_count(3)  # of the file and of two outputs
    lab.shot(f"kinds_{theme}", output.locator("audio:visible"))

    began = time.monotonic()
    output = lab.run(2)
    output.locator(".tl-form[data-keys=on] .tl-input").nth(9).wait_for()
    print(f"a form of 100 inputs, with its model: {time.monotonic() - began:.2f} s")
    expect(output.locator(".tl-input")).to_have_count(10)
    expect(output.locator(".tl-static")).not_to_be_visible()  # it stands there for when the kernel is gone
    output.get_by_label("find an input").fill("IN7")
    output.get_by_label("IN77 value").fill("5, 6")
    output.get_by_role("button", name="Send", exact=True).click()
    lab.wait_text(output, "and 50 more outputs")
    lab.shot(f"hundred_{theme}", output.locator(".tl-input").first)
    lab.wait_text(lab.run(3), "19")  # the first page, and those with a 7 that were not on it
    assert lab.errors == [] and lab.foreign == []
