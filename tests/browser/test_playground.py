"""The playground's form in JupyterLab: keys, labels, files, many requests, a request that is stuck."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.models import answers, cell

pytestmark = pytest.mark.timeout(300)

MODEL = """%%triton_model double --max-batch-size 8 --dynamic-batching 200 --input A:FP32[2] --input FLAG:BOOL[1] \
--output OUT:FP32[2] --output COUNT:INT32[1]
import time
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "A").as_numpy()
            while a[0, 0] < 0 and not request.is_cancelled():
                time.sleep(0.02)
            if request.is_cancelled():
                error = pb_utils.TritonError("nobody waits", pb_utils.TritonError.CANCELLED)
                responses.append(pb_utils.InferenceResponse(error=error))
                continue
            count = np.full((len(a), 1), len(a), np.int32)
            responses.append(pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", a * 2), pb_utils.Tensor("COUNT", count)]))
        return responses
"""
IMAGE = cell(
    "negative --input PICTURE:UINT8[-1,-1,3] --output NEGATIVE:UINT8[-1,-1,3]",
    answers("255 - x", reads="PICTURE", writes="NEGATIVE"),
)


def opened(lab: Any, name: str, model: str) -> Any:
    """Return the output of the model's cell, its playground open and its keys at work."""
    lab.jupyter.write(f"{name}.ipynb", ["%load_ext tritonlab", model, "'below'"])
    lab.open(f"{name}.ipynb")
    lab.run(0)
    output = lab.run(1)
    output.get_by_role("button", name="Playground").click()
    output.locator(".tl-form[data-keys=on]").wait_for()
    return output


def active_cell(lab: Any) -> int:
    return int(lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"))


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_keys_stay_in_the_form(lab: Any, theme: str) -> None:
    output = opened(lab, f"keys_{theme}", MODEL)
    value = output.get_by_label("A value")
    value.click()
    value.fill("1, 2\n3, 4")
    lab.page.keyboard.press("Control+Enter")
    lab.wait_text(output.locator(".tl-value:visible").first, "[[2. 4.]\n [6. 8.]]")
    expect(output.get_by_label("batch size")).to_have_value("2")
    lab.shot(f"form_{theme}", output.locator(".tl-value:visible").last)

    number = output.get_by_label("seed")
    number.fill("7")
    lab.page.keyboard.press("Control+Enter")  # the field says it only when it is left
    lab.wait_text(output.locator(".tl-value:visible").first, "[[2. 4.]")
    lab.page.keyboard.press("ArrowUp")
    assert number.input_value() == "8"
    lab.wait_until_idle()
    assert number.input_value() == "8"  # the kernel's answer to the 7 has not replaced it

    flag = output.get_by_label("FLAG is")
    flag.focus()
    lab.page.keyboard.press("ArrowDown")
    expect(flag).to_have_value("Typed")
    lab.page.keyboard.press("x")
    lab.page.keyboard.press("ArrowUp")
    expect(flag).to_have_value("Random")
    flag.select_option("Typed")
    flags = output.get_by_label("FLAG value")
    flags.fill("true\nfalse")
    lab.page.keyboard.press("Control+Enter")
    lab.wait_text(output.locator(".tl-value:visible").first, "[[2. 4.]")

    assert active_cell(lab) == 1
    assert lab.cell(2).locator(".jp-InputArea-prompt").inner_text().strip() == "[ ]:"
    assert lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length") == 3
    assert lab.foreign == [] and lab.errors == []


def test_every_field_has_a_label(lab: Any, theme: str) -> None:
    output = opened(lab, f"labels_{theme}", MODEL)
    output.get_by_text("Request options").click()
    output.get_by_label("priority").wait_for()
    header = output.locator(".jupyter-widget-Collapse-header")
    lab.until(header, "e => getComputedStyle(e).borderTopColor !== getComputedStyle(e).color")  # a faint line
    lab.shot(f"options_{theme}", output.get_by_label("priority"))
    unnamed = lab.page.evaluate(
        """() => [...document.querySelectorAll('.tl-form :is(input, select, textarea)')]
            .filter(field => field.type !== 'file')
            .filter(field => !(field.labels && [...field.labels].some(label => label.textContent.trim())))
            .map(field => field.outerHTML)"""
    )
    assert unnamed == []
    output.get_by_label("COUNT", exact=True).uncheck()
    output.get_by_role("button", name="Send", exact=True).click()
    output.locator(".tl-value:visible").first.wait_for()
    expect(output.locator(".tl-value:visible")).to_have_count(1)
    assert lab.errors == []


def test_many_requests_have_percentiles_and_a_histogram(lab: Any, theme: str) -> None:
    output = opened(lab, f"many_{theme}", MODEL)
    output.get_by_label("A value").fill("1")
    output.get_by_label(re.compile("^N, at most 4,096")).fill("200")
    output.get_by_role("button", name="Send N").click()
    lab.wait_text(output, "200 of 200 requests answered")
    lab.wait_text(output, "requests/s")
    expect(output).to_contain_text(re.compile(r"p50\s+p95\s+p99\s+max\s+total"), use_inner_text=True)
    histogram = output.locator(".tl-histogram:visible")
    expect(histogram).to_have_attribute("aria-label", re.compile("^Latencies of 200 requests"))
    lab.shot(f"many_{theme}", histogram)


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_a_stuck_request_says_where_it_is(lab: Any, theme: str) -> None:
    output = opened(lab, f"stuck_{theme}", MODEL)
    output.get_by_label("A value").fill("-1")
    lab.page.keyboard.press("Control+Enter")
    lab.wait_text(output, "waiting for the final response for 1 s")
    lab.wait_text(output, "time.sleep(0.02)")
    lab.wait_text(output, "executes it")
    lab.shot(f"stuck_{theme}", output.locator(".tl-value:visible").last)
    output.get_by_role("button", name="Cancel").click()
    lab.wait_text(output, "CANCELLED")
    lab.wait_text(output, "nobody waits")
    expect(output).not_to_contain_text("is what the client gets", use_inner_text=True)
    lab.shot(f"cancelled_{theme}", output.locator(".tl-note").last)


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_pictures_go_in_by_file_and_come_out(lab: Any, theme: str) -> None:
    output = opened(lab, f"picture_{theme}", IMAGE)
    output.get_by_label("PICTURE is").select_option("File")
    file = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").resize((120, 80)).save(file, "png")
    with lab.page.expect_file_chooser() as chooser:
        output.get_by_role("button", name="Choose files").click()
    chooser.value.set_files([{"name": "ramp.png", "mimeType": "image/png", "buffer": file.getvalue()}])
    lab.wait_text(output, "ramp.png: UINT8 [80, 120, 3]")
    output.get_by_role("button", name="Send", exact=True).click()
    picture = output.locator("img[alt='NEGATIVE, picture 1']:visible")
    lab.until(picture, "image => image.naturalWidth === 120 && image.naturalHeight === 80")
    lab.shot(f"picture_{theme}", picture)


def test_the_request_is_copied_as_a_program(lab: Any, theme: str) -> None:
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    output = opened(lab, f"copy_{theme}", MODEL)
    output.get_by_label("A value").fill("1, 2")
    output.get_by_label("Copy as").select_option("tritonclient gRPC")
    snippet = output.get_by_label("The request as a program")
    expect(snippet).to_have_value(re.compile(re.escape("np.array([[1.0, 2.0]], dtype=np.float32)")))
    output.get_by_role("button", name="Copy", exact=True).click()
    lab.page.wait_for_function(
        "text => navigator.clipboard.readText().then(copied => copied === text)", arg=snippet.input_value()
    )
    lab.shot(f"copy_{theme}", snippet)


def test_two_servers_answer_side_by_side(lab: Any, theme: str) -> None:
    output = opened(lab, f"compare_{theme}", MODEL)
    output.get_by_label("A value").fill("1, 2")
    output.get_by_role("button", name="Compare").click()
    lab.wait_text(output, "name a server to compare with")
    output.get_by_label("other server").fill("gRPC")
    output.get_by_role("button", name="Compare").click()
    lab.wait_text(output, "%triton serve opens them")
    lab.page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.widgets[2].model.sharedModel.setSource(
            '%triton serve --http-port 0 --grpc-port 0 --metrics-port 0')"""
    )
    lab.run(2)
    output.get_by_role("button", name="Compare").click()
    lab.wait_text(output, "the same")
    same = re.compile(r"OUT\s+FP32 \[1, 2\] \[\[2. 4.\]\]\s+FP32 \[1, 2\] \[\[2. 4.\]\]\s+equal")
    expect(output).to_contain_text(same, use_inner_text=True)
    lab.shot(f"compare_{theme}", output.locator(".tl-compare"))
