"""The panel of *Export…*: one for the card, the toolbar and the button beside a cell; its choices, what pre-flight says
of each, deploy files, a cancelled export, and the verdict of a real Triton."""

from __future__ import annotations

import zipfile
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import ROOT
from tests.browser.test_accessible import OPTIONS, no_faults
from tests.browser.test_extension import LOAD, accept, marked, open_notebook, toolbar
from tritonlab.tools.deploy.verify.wheels import CACHE_VARIABLE

pytestmark = pytest.mark.timeout(300)

SCALE = "SCALE = 3.0"
#: Uses what another cell defines, and a call that releases before 2.39 do not have.
SCALED = """%%triton_model scaled --input IN:FP32[-1] --output OUT:FP32[-1]
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests if not request.is_cancelled()]

    def answer(self, request):
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", request.inputs()[0].as_numpy() * SCALE)])
"""
#: A judge that needs no server: it is slow enough to be cancelled, and says what a real one does.
JUDGE = """
import importlib
from tritonlab.tools.deploy.child_command import raise_if_cancelled
from tritonlab.tools.deploy.verify.release_verdict import ReleaseVerdict
from tritonlab.tools.deploy.verify.verdict import Verification
import time

def judged(directory, *, triton, say, cancel, **rest):
    for step in range(3):
        say(f"Triton {triton[0]}: step {step + 1} of 3")
        for _ in range(JUDGE_STEPS):
            raise_if_cancelled(cancel)
            time.sleep(0.05)
    page = directory / "verify.html"
    page.write_text("<!doctype html><html lang='en'><title>proved</title><h1>Proved</h1>")
    verdicts = (ReleaseVerdict(triton[0], "a fake judge", problem="nobody was asked"),)
    return Verification(directory, verdicts, ("Triton 2.51: nobody was asked",), page, page.with_suffix(".json"))

importlib.import_module("tritonlab.tools.deploy.verify.verification").verify = judged
JUDGE_STEPS = 40
"""
CELL = "window.jupyterapp.shell.currentWidget.content.activeCell.editor.focus()"


def panel(lab: Any) -> Any:
    return lab.page.locator(".tritonlab-export")


def option(lab: Any, name: str) -> Any:
    return panel(lab).get_by_role("group", name=name, exact=True)


def note(lab: Any, name: str) -> Any:
    return option(lab, name).locator(".tritonlab-note")


def test_what_preflight_says_stands_beside_each_choice(lab: Any) -> None:
    open_notebook(lab, "choices", [LOAD, SCALE, SCALED])
    for index in range(3):
        lab.run(index)
    (lab.jupyter.notebooks / "ours" / "models").mkdir(parents=True, exist_ok=True)
    marked(lab, 2, "ready")
    output = lab.cell(2).locator(".jp-OutputArea").first
    output.get_by_role("button", name="Export…").click()  # the card's
    lab.wait_text(note(lab, "Other cells"), "SCALE is used and not defined in the model's own files")
    for theme in lab.themes():
        lab.shot(f"export_panel_{theme}")
        no_faults(lab, ".tritonlab-export", **OPTIONS[theme])

    # Escape closes it wherever the focus is: on a choice, on the page as the button with it is gone, in a cell
    for focus in ("document.querySelector('.tritonlab-export select').focus()", "document.activeElement.blur()", CELL):
        lab.page.evaluate(f"() => {focus}")
        lab.page.keyboard.press("Escape")
        panel(lab).wait_for(state="detached")
        output.get_by_role("button", name="Export…").click()
        lab.wait_text(note(lab, "Other cells"), "SCALE is used and not defined in the model's own files")

    # another target lacks what the model uses
    expect(note(lab, "Target").locator("[data-stops=true]")).to_have_count(0)
    option(lab, "Target").get_by_role("combobox").select_option("2.36")
    lab.wait_text(note(lab, "Target").locator("[data-stops=true]"), "Fix:")
    option(lab, "Target").get_by_role("combobox").select_option("2.51")
    expect(note(lab, "Target").locator("[data-stops=true]")).to_have_count(0)

    # what is fixed is no longer reported
    option(lab, "Other cells").get_by_role("checkbox").check()
    lab.wait_text(note(lab, "Other cells"), "Written in front of scaled: SCALE")
    expect(note(lab, "Other cells").locator("[data-row=P1]")).to_have_count(0)

    # nothing can be exported before the panel knows what it would do
    pressed = "box => { box.click(); return document.querySelector('.tritonlab-export .jp-mod-accept').disabled; }"
    assert option(lab, "Other cells").get_by_role("checkbox").evaluate(pressed)
    expect(accept(lab)).to_be_enabled()
    option(lab, "Other cells").get_by_role("checkbox").check()

    # sizes before they are spent
    option(lab, "Environment").get_by_role("combobox").select_option("requirements")
    lab.wait_text(note(lab, "Environment"), "numpy")
    # no proof without requests, and it says so before it runs
    option(lab, "Proof").get_by_role("checkbox").check()
    lab.wait_text(note(lab, "Proof"), "Triton 2.51")
    lab.wait_text(note(lab, "Proof"), "There is none for scaled, so nothing is proved of it")

    # deploy files go beside a repository called models/, which the panel offers
    option(lab, "Deploy files").get_by_label("Docker and compose").check()
    lab.wait_text(note(lab, "Deploy files"), "beside a repository called models/")
    expect(accept(lab)).to_be_disabled()
    option(lab, "Deploy files").get_by_role("button", name="Export to model_repository/models").click()
    lab.wait_text(panel(lab).locator(".tritonlab-plans"), "deploy/Dockerfile")
    expect(accept(lab)).to_be_enabled()
    panel(lab).get_by_text("The same in Python").click()
    expect(panel(lab).locator(".tritonlab-python pre")).to_have_text(
        'tritonlab.export("scaled", "model_repository/models", env="requirements", deploy=["docker"], capture=True, '
        'verify=["2.51"])'
    )
    for theme in lab.themes():
        lab.shot(f"export_panel_chosen_{theme}")
        no_faults(lab, ".tritonlab-export", **OPTIONS[theme])
    lab.page.keyboard.press("Escape")
    panel(lab).wait_for(state="detached")
    assert not (lab.jupyter.notebooks / "model_repository").exists()
    assert (lab.foreign, lab.errors) == ([], [])


def test_an_export_with_deploy_files_and_a_verdict(lab: Any) -> None:
    wheels = f"import os\nos.environ[{CACHE_VARIABLE!r}] = {str(ROOT / 'build' / 'cache')!r}"
    cells = [f"{LOAD}\n{wheels}", SCALE, SCALED, "scaled(IN=[1.0, 2.0])", "import time; time.sleep(8)"]
    open_notebook(lab, "whole", cells)
    for index in range(4):
        lab.run(index)
    marked(lab, 2, "ready")
    lab.start(4)  # a cell that runs keeps nobody waiting
    toolbar(lab).click()
    panel(lab).get_by_label("Repository directory").fill("whole/models")
    option(lab, "Other cells").get_by_role("checkbox").check()
    option(lab, "Deploy files").get_by_label("Docker and compose").check()
    option(lab, "Deploy files").get_by_label("KServe").check()
    option(lab, "Proof").get_by_role("checkbox").check()
    lab.wait_text(note(lab, "Proof"), "Triton 2.51")
    lab.wait_text(note(lab, "Proof"), "Requests: 0 golden, and 1 of the 1 last ones of the notebook")
    taken = option(lab, "Proof").get_by_label("Last requests of each model to send")
    taken.select_option("none")
    lab.wait_text(note(lab, "Proof"), "There is none for scaled, so nothing is proved of it")
    for theme in lab.themes():
        lab.shot(f"export_panel_requests_{theme}")
        no_faults(lab, ".tritonlab-export", **OPTIONS[theme])
    taken.select_option("all 1")
    lab.wait_text(note(lab, "Proof"), "and 1 of the 1 last ones")
    accept(lab).click()
    lab.wait_text(panel(lab).locator(".tritonlab-now"), "Triton 2.51")
    lab.shot("export_panel_running")
    no_faults(lab, ".tritonlab-export")
    verdict = panel(lab).locator(".tritonlab-verdict")
    verdict.wait_for(timeout=240_000)  # a first run fetches a wheel of 40 MB and a Python
    lab.wait_text(verdict, "Proved on real Triton")
    lab.shot("export_panel_done")
    no_faults(lab, ".tritonlab-export")
    root = lab.jupyter.notebooks / "whole"
    assert (root / "deploy" / "Dockerfile").is_file() and (root / "README.md").is_file()
    panel(lab).get_by_role("button", name="Zip").click()  # as it is there, the verdict and its requests too
    panel(lab).get_by_role("link", name="models-scaled.zip").wait_for()
    packed = zipfile.ZipFile(root / "models-scaled.zip").namelist()
    assert {"verify.html", "export.json"} <= {*packed}
    assert [name for name in packed if name.startswith("requests/scaled/")]
    assert "SCALE = 3.0" in (root / "models" / "scaled" / "1" / "model.py").read_text()
    verdict.get_by_role("link").click()  # to the page, in JupyterLab
    lab.page.keyboard.press("Escape")
    lab.page.locator(".lm-TabBar-tabLabel", has_text="verify.html").wait_for()
    assert (lab.foreign, lab.errors) == ([], [])


def test_a_cancelled_export_ends_and_says_so(lab: Any) -> None:
    open_notebook(lab, "cancelled", [LOAD, SCALE, SCALED, JUDGE, "JUDGE_STEPS = 400"])
    for index in range(5):
        lab.run(index)
    marked(lab, 2, "ready")
    lab.cell(2).locator(".tritonlab-mark-export").click()
    panel(lab).get_by_label("Repository directory").fill("stopped")
    option(lab, "Proof").get_by_role("checkbox").check()
    lab.wait_text(note(lab, "Proof"), "Triton 2.51")
    accept(lab).click()
    lab.wait_text(panel(lab).locator(".tritonlab-now"), "step 1 of 3")
    lab.page.keyboard.press("Escape")  # the first ends what runs, the panel stays and says so
    lab.wait_text(panel(lab).get_by_role("alert"), "cancelled")
    expect(panel(lab).locator("progress")).to_have_count(0)
    lab.shot("export_panel_cancelled")
    lab.page.keyboard.press("Escape")
    panel(lab).wait_for(state="detached")
    assert lab.errors == []
