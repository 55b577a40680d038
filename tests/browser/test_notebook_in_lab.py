"""What an author does in JupyterLab: run the cell, read the card, play, export, see a traceback."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import POLLING, ROOT, TAKES_PICTURES
from tests.long_proofs import long
from tests.models import cell, streams

# a browser, a server and a kernel on a busy machine
pytestmark = pytest.mark.timeout(300)

OPTIONS = (
    "--max-batch-size 8 --dynamic-batching 200 --input INPUT0:FP32[4] --input INPUT1:FP32[-1] --output OUTPUT0:FP32[4]"
)
MODEL = f"""%%triton_model add_sub {OPTIONS}
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        print("loading weights for", args["model_instance_name"])

    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            if b.shape[1] == 3:
                raise ValueError("three columns are one too few")
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", a + b)]))
        return responses
"""
CALL = "add_sub(INPUT0=[[1.0, 2, 3, 4]], INPUT1=[[1.0, 1, 1]])"
BROKEN = """%%triton_model add_sub
class TritonPythonModel:
    def initialize(self, args):
        self.scale = args["scale"]
"""
CONFIG = """%%triton_config add_sub
max_batchsize: 8
"""
STREAM = cell(
    "count --decoupled --input N:INT32[1] --output I:INT32[1]",
    streams('np.array([n], "int32")', over="range(x[0])", reads="N", writes="I"),
)


def button(output: Any, name: str) -> Any:
    return output.locator("button", has_text=re.compile(rf"^\s*{re.escape(name)}\s*$"))


def test_from_a_cell_to_an_answer(lab: Any, theme: str) -> None:
    lab.jupyter.write("play.ipynb", ["%load_ext tritonlab", MODEL])
    lab.open("play.ipynb")
    lab.run(0)
    output = lab.run(1)
    card = output.locator(".tl-live .tl-card")
    expect(card).to_have_attribute("data-state", "READY")
    expect(card).to_contain_text("[batch ≤ 8, 4]")
    expect(card).to_contain_text("loading weights for add_sub_0")
    lab.shots("card")

    button(output, "Playground").click()
    button(output, "Send").click()
    value = output.locator(".tl-value:visible")
    value.wait_for()
    expect(output).to_contain_text("OUTPUT0")
    lab.shot("playground_light", value)

    output.locator("select").first.select_option("Typed")
    output.locator("textarea").first.fill("1.5")
    output.locator("select").nth(1).select_option("Python")
    output.locator("textarea").nth(1).fill("__import__('numpy').full((1, 4), 2, 'float32')")
    button(output, "Send").click()
    lab.wait_text(value, "[[3.5 3.5 3.5 3.5]]")

    button(output, "Send N").click()
    lab.wait_text(output, "32 of 32 requests answered")
    lab.shots("playground_many", output.locator("tbody").last)

    output.locator("textarea").nth(1).fill("[[1.0, 2, 3]]")
    button(output, "Send").click()
    lab.wait_text(output, "three columns are one too few")
    lab.wait_text(output, "Cell In[2], line 14")
    lab.shots("playground_error", output.locator(".tl-value:visible").last)

    repository = lab.jupyter.notebooks / "models"
    dialog = lab.page.locator(".tritonlab-export")
    for verb in ("add", "change"):
        button(output, "Export…").click()
        dialog.get_by_label("Repository directory").fill(repository.name)
        lab.wait_text(dialog.locator(".tritonlab-plan"), f"{verb} 1/model.py")
        lab.shots("export")
        button(dialog, "Replace, keep a backup" if verb == "change" else "Export").click()
        dialog.locator("[role=status]", has_text="Written to").wait_for()
        if verb == "add":
            button(dialog, "Close").click()
            (repository / "add_sub" / "1" / "model.py").write_text("# edited\n")
    lab.wait_text(dialog, "The former add_sub is now")
    button(dialog, "Zip").click()
    with lab.page.expect_download() as packed:
        dialog.locator("a[download]").click()
    assert packed.value.path().read_bytes() == repository.with_name("models-add_sub.zip").read_bytes()
    button(dialog, "Close").click()

    button(output, "Unload").click()
    output.locator(".tl-live .tl-card[data-state=UNLOADED]").wait_for()
    lab.shots("unloaded")
    assert lab.foreign == []
    assert lab.errors == []


@pytest.mark.parametrize("theme", ["dark"], indirect=True)
def test_errors_are_the_authors(lab: Any, theme: str) -> None:
    lab.jupyter.write(
        f"errors_{theme}.ipynb", ["%load_ext tritonlab", MODEL + "\n", CALL, BROKEN, CONFIG, "%triton status"]
    )
    lab.open(f"errors_{theme}.ipynb")
    lab.run(0)
    lab.run(1)
    lab.wait_text(lab.run(2), "Cell In[2], line 14, in execute()")
    lab.wait_text(lab.run(3), "Cell In[4], line 4, in initialize()")
    lab.wait_text(lab.cell(3), "keeps serving")
    lab.wait_text(lab.run(4), "Did you mean max_batch_size?")
    lab.shot(f"errors_{theme}")
    lab.wait_text(lab.run(5), "READY")
    lab.shot(f"status_{theme}", lab.cell(5))


def test_a_decoupled_model_shows_its_responses(lab: Any, theme: str) -> None:
    lab.jupyter.write(f"stream_{theme}.ipynb", ["%load_ext tritonlab", STREAM])
    lab.open(f"stream_{theme}.ipynb")
    lab.run(0)
    output = lab.run(1)
    button(output, "Playground").click()
    output.locator("select").first.select_option("Typed")
    output.locator("textarea").first.fill("3")
    button(output, "Send").click()
    lab.wait_text(output, "FINAL")
    output.locator("tbody tr:visible").nth(3).wait_for()
    lab.shot(f"stream_{theme}")


@long
def test_the_quickstart_reads_well(lab: Any, theme: str) -> None:
    notebook = (ROOT / "notebooks" / "00_quickstart.ipynb").read_text()
    release = 'RELEASE = \\"2.51\\"'
    assert release in notebook
    # fetches no server
    (lab.jupyter.notebooks / "quickstart.ipynb").write_text(notebook.replace(release, "RELEASE = None"))
    lab.open("quickstart.ipynb")
    lab.shot("quickstart_light_0")
    lab.page.get_by_role("menuitem", name="Run", exact=True).click()
    lab.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    lab.page.wait_for_function(
        """() => {
            const cells = window.jupyterapp.shell.currentWidget.content.widgets.filter(c => c.model.type === 'code');
            return cells.every(c => c.model.executionCount) && window.jupyterapp.shell.currentWidget
                .sessionContext.session.kernel.status === 'idle';
        }""",
        timeout=240_000,
        polling=POLLING,
    )
    failed = lab.page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.widgets.filter(c => c.model.type === 'code')
            .flatMap(c => c.model.outputs.toJSON()).filter(o => o.output_type === 'error').map(o => o.evalue)"""
    )
    (message,) = failed
    assert "message: NameError: name 'c' is not defined" in message
    lab.page.set_viewport_size({"width": 1280, "height": 1680})
    for name in lab.themes() if TAKES_PICTURES else ():
        for number in range(1, 6):
            top = 1560 * (number - 1)
            lab.page.evaluate("top => document.querySelector('.jp-WindowedPanel-outer').scrollTo(0, top)", top)
            lab.page.wait_for_timeout(300)
            lab.shot(f"quickstart_{name}_{number}")
