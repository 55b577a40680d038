"""A repository as NVIDIA's image examples are, an ensemble around a network of another backend, from the file browser
to an edited export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper
from playwright.sync_api import expect

from tests.backends.onnx_models import onnx_model
from tests.models import initializes
from tests.notebook.repositories import contents

pytestmark = pytest.mark.timeout(300)

PREPROCESS = b"""\
import numpy as np\r
import triton_python_backend_utils as pb_utils\r
from scaling import SCALE\r
\r
\r
class TritonPythonModel:\r
    def execute(self, requests):\r
        images = [pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy() for request in requests]\r
        return [pb_utils.InferenceResponse([pb_utils.Tensor("PIXELS", self.pixels(image))]) for image in images]\r
\r
    def pixels(self, image):\r
        return (image / SCALE).astype(np.float32)  \r
"""


def config(name: str, runner: str, entry: str, result: str) -> bytes:
    return f"""\
# {name}
name: "{name}"
{runner}
max_batch_size: 4
input [ {{ {entry} }} ]
output [ {{ {result} }} ]
""".encode()


IMAGE = 'name: "IMAGE" data_type: TYPE_UINT8 dims: [ -1 ]'
ENSEMBLE = (
    config("ensemble_image", 'platform: "ensemble"', IMAGE, 'name: "SCORE" data_type: TYPE_FP32 dims: [ 1 ]')
    + b"""\
ensemble_scheduling {
  step [
    {
      model_name: "preprocess"
      model_version: -1
      input_map { key: "IMAGE" value: "IMAGE" }
      output_map { key: "PIXELS" value: "preprocessed_image" }
    },
    {
      model_name: "resnet50"
      model_version: -1
      input_map { key: "INPUT__0" value: "preprocessed_image" }
      output_map { key: "OUTPUT__0" value: "SCORE" }
    }
  ]
}
"""
)


#: What each of the two ways to have a step of another backend keeps: its file, and its line of the config.
ENGINES = {
    "onnx": ("model.onnx", 'platform: "onnxruntime_onnx"'),
    "tensorrt": ("model.plan", 'platform: "tensorrt_plan"'),
}


def write_models(root: Path, engine: str) -> None:
    pixels = 'name: "{}" data_type: TYPE_FP32 dims: [ {} ]'
    file, platform = ENGINES[engine]
    files = {
        "ensemble_image/config.pbtxt": ENSEMBLE,
        "preprocess/1/model.py": PREPROCESS,
        "preprocess/1/scaling.py": b"SCALE = 255.0\n",
        "preprocess/config.pbtxt": config("preprocess", 'backend: "python"', IMAGE, pixels.format("PIXELS", -1)),
        f"resnet50/1/{file}": network().SerializeToString() if engine == "onnx" else b"plan",
        "resnet50/config.pbtxt": config(
            "resnet50", platform, pixels.format("INPUT__0", -1), pixels.format("OUTPUT__0", 1)
        ),
    }
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (root / "ensemble_image" / "1").mkdir()


def network() -> Any:
    """Return an ONNX model that answers the mean of each image."""
    mean = helper.make_node("ReduceMean", ["INPUT__0"], ["OUTPUT__0"], axes=[1], keepdims=1)
    inputs = {"INPUT__0": (TensorProto.FLOAT, ["N", "pixels"])}
    return onnx_model([mean], inputs, {"OUTPUT__0": (TensorProto.FLOAT, ["N", 1])})


def row(table: Any, name: str) -> Any:
    return table.locator("tr", has=table.page.locator(f"td.tl-tensor:text-is('{name}')"))


def test_a_step_is_brought_into_a_cell_and_edited(lab: Any, theme: str) -> None:
    folder = lab.jupyter.notebooks / f"opening_{theme}"
    models = folder / "image_models"
    write_models(models, "onnx")
    before = contents(models)
    lab.jupyter.write(
        f"opening_{theme}/opening.ipynb",
        [
            "import numpy as np\nimport tritonlab\n\n%load_ext tritonlab",
            "%triton open image_models",
            "ensemble_image(IMAGE=np.array([[0, 255, 255]], np.uint8))['SCORE']",
            "ensemble_image.view('graph')",
            "tritonlab.open('image_models').export('exported')",
            "tritonlab.open('image_models')['resnet50'].choose('stand-in')",
        ],
    )
    lab.open(f"opening_{theme}/opening.ipynb")
    lab.run(0)
    table = lab.run(1).locator(".tl-live")
    for name in ("ensemble_image", "preprocess", "resnet50"):
        lab.wait_text(row(table, name), "READY")
    lab.wait_text(table, "real: the model itself, run by ONNX Runtime here")
    lab.wait_text(lab.run(2), "0.666")
    lab.shot(f"opened_{theme}", table)

    table.get_by_role("button", name="Bring into cells").nth(1).click()
    expect(lab.cell(4).locator(".cm-content")).to_contain_text(
        "%%triton_model preprocess --base image_models/preprocess"
    )
    expect(lab.cell(2).locator(".cm-content")).to_contain_text("%%triton_config preprocess")
    expect(lab.cell(3).locator(".cm-content")).to_contain_text("%%triton_file preprocess scaling.py")
    edited = "({ model: { sharedModel: it } }) => it.setSource(it.getSource().replace('/ SCALE', '/ SCALE * 2'))"
    lab.page.evaluate(f"() => ({edited})(jupyterapp.shell.currentWidget.content.widgets[4])")
    lab.run(2)
    lab.run(3)
    lab.wait_text(lab.run(4), "READY")
    lab.wait_text(row(table, "preprocess"), "in cells")
    lab.shot(f"opened_cells_{theme}", table)
    lab.wait_text(lab.run(5), "1.333")
    graph = lab.run(6).locator(".tl-graph")
    for name in ("preprocess", "resnet50"):
        expect(graph).to_contain_text(name)
    lab.shot(f"opened_graph_{theme}", graph)
    exported = lab.run(7)
    lab.wait_text(exported, "resnet50")
    expect(exported).not_to_contain_text("it did not answer itself here")
    lab.run(8)
    lab.wait_text(table, "stand-in that invents its answers (zeros)")
    real = table.get_by_role("button", name="Real")
    real.focus()
    lab.page.keyboard.press("Enter")
    expect(real).to_have_count(0)  # its own backend answers, so there is nothing to choose
    expect(table.locator("td.tl-tensor:text-is('resnet50')")).to_be_focused()
    after = contents(folder / "exported")
    assert {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)} == {
        "preprocess/1/model.py"
    }
    assert after["preprocess/1/model.py"][2] == PREPROCESS.replace(b"/ SCALE", b"/ SCALE * 2")
    assert contents(models) == before
    assert (lab.foreign, lab.errors) == ([], [])


def test_a_folder_is_opened_from_the_file_browser_and_the_launcher(lab: Any, theme: str) -> None:
    place = lab.jupyter.notebooks / f"folder_{theme}"
    write_models(place / "my models", "tensorrt")
    lab.load(f"folder_{theme}/tree/folder_{theme}")
    lab.page.locator(".jp-LauncherCard", has_text="Triton repository").wait_for()
    folder = lab.page.locator(".jp-DirListing-item[data-isdir='true']", has_text="my models")
    folder.click(button="right")
    lab.page.get_by_text("Open as Triton Repository").click()
    lab.wait_until_idle()
    table = lab.cell(2).locator(".tl-live")
    lab.wait_text(row(table, "preprocess"), "READY")
    lab.wait_text(row(table, "resnet50"), "FAILED")
    lab.wait_text(table, "unable to find backend library for backend 'tensorrt'")
    lab.shot(f"opened_folder_{theme}")
    borrow = table.get_by_role("textbox", name="gRPC address of the server to borrow resnet50 from")
    borrow.fill("nowhere")
    borrow.press("Enter")
    lab.wait_text(table, "expected the gRPC address of a server")
    table.get_by_role("button", name="Stand-in").focus()
    lab.page.keyboard.press("Enter")
    lab.wait_text(row(table, "resnet50"), "READY")
    lab.wait_text(table, "stand-in that invents its answers (zeros)")
    expect(table.get_by_role("button", name="Stand-in")).to_be_focused()
    lab.page.keyboard.press("Tab")
    expect(table.get_by_role("button", name="Recorded")).to_be_focused()
    lab.shot(f"opened_chosen_{theme}", table)

    lab.page.locator(".lm-TabBar-tab", has_text="Launcher").click()
    lab.page.locator(".jp-LauncherCard", has_text="Triton repository").click()
    dialog = lab.page.locator(".jp-Dialog")
    dialog.locator(".jp-DirListing-item", has_text="my models").click()
    lab.shot(f"opened_dialog_{theme}")
    dialog.get_by_role("button", name="Select").click()
    lab.page.locator(".lm-TabBar-tab.lm-mod-current", has_text="Untitled1.ipynb").wait_for()
    lab.wait_until_idle()
    lab.wait_text(row(lab.page.locator(".jp-NotebookPanel:visible .tl-live"), "preprocess"), "READY")
    assert (lab.foreign, lab.errors) == ([], [])


def test_what_loads_is_seen_and_can_be_interrupted(lab: Any, theme: str) -> None:
    folder = lab.jupyter.notebooks / f"slow_{theme}"
    write_models(folder / "models", "onnx")
    for number in range(6):
        directory = folder / "models" / f"slow{number}" / "1"
        directory.mkdir(parents=True)
        (directory / "model.py").write_text(initializes("import time; time.sleep(60)"))
        (directory.parent / "config.pbtxt").write_text('backend: "python"\n')
    lab.jupyter.write(f"slow_{theme}/slow.ipynb", ["%load_ext tritonlab", "%triton open models"])
    lab.open(f"slow_{theme}/slow.ipynb")
    lab.run(0)
    output = lab.start(1).locator(".jp-OutputArea").first
    table = output.locator(".tl-live")
    lab.wait_text(table, "2 of 9 models READY, 4 loading, 3 waiting")  # an ensemble comes last
    lab.wait_text(row(table, "preprocess"), "READY")
    expect(table).to_contain_text("WAITING")
    lab.shot(f"opening_{theme}", table)
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()")
    lab.wait_text(output, "was interrupted")  # with the model's line, unless its process had no time to tell it
    lab.wait_text(table, "2 of 9 models READY")
    expect(table).not_to_contain_text("LOADING")
    expect(table).to_contain_text("NOT LOADED")
    lab.shot(f"opening_interrupted_{theme}", table)
    expect(output.locator(".tl-live")).to_have_count(1)
    assert (lab.foreign, lab.errors) == ([], [])
