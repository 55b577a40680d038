"""The card in JupyterLab: it follows the model, its buttons act and say why not, and it is true without a kernel."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import POLLING
from tests.browser.test_notebook_in_lab import MODEL, button

pytestmark = pytest.mark.timeout(300)

SLOW = """%%triton_model slow
import time
class TritonPythonModel:
    def initialize(self, args):
        for part in range(600):
            print("fetching part", part, flush=True)
            time.sleep(0.5)

    def execute(self, requests):
        return [None for _ in requests]
"""
QUICK = SLOW.replace("range(600)", "range(0)")
DIES = """%%triton_model dies
import os
class TritonPythonModel:
    def initialize(self, args):
        if os.path.exists("dead"):
            raise ValueError("not again")

    def execute(self, requests):
        open("dead", "w").close()
        os._exit(3)
"""
HANGS = """%%triton_model hangs --input IN:FP32[1] --output OUT:FP32[1]
import time
class TritonPythonModel:
    def execute(self, requests):
        time.sleep(600)
"""


def card(lab: Any, index: int) -> Any:
    return lab.cell(index).locator(".tl-live .tl-card")


def reaches(lab: Any, index: int, state: str) -> Any:
    found = lab.cell(index).locator(f".tl-live .tl-card[data-state='{state}']")
    found.wait_for()
    return found


def wait_saved_form(lab: Any, text: str) -> None:
    """Wait until the outputs that would be saved contain this text."""
    cells = "window.jupyterapp.shell.currentWidget.content.widgets"
    is_there = f"text => {cells}.some(c => JSON.stringify(c.model.toJSON().outputs ?? '').includes(text))"
    lab.page.wait_for_function(is_there, arg=text, polling=POLLING)


def test_a_card_follows_what_other_cells_do(lab: Any) -> None:
    config = "%%triton_config add_sub\ninstance_group [ { count: 2 } ]\n"
    cells = ["%load_ext tritonlab", MODEL, "%triton unload add_sub", config, "%triton status"]
    lab.jupyter.write("follow.ipynb", cells)
    lab.open("follow.ipynb")
    lab.run(0)
    lab.run(1)
    reaches(lab, 1, "READY")
    lab.run(2)
    reaches(lab, 1, "UNLOADED")
    expect(lab.cell(1).locator(".tl-static .tl-card")).to_contain_text("was READY at")  # what its cell has done
    button(lab.cell(1), "Load").click()
    reaches(lab, 1, "READY")
    lab.run(3)
    lab.wait_text(card(lab, 1), "2 instances on CPU")
    status = lab.run(4)
    lab.wait_text(status, "READY")
    button(lab.cell(1), "Unload").click()
    reaches(lab, 1, "UNLOADED")
    reaches(lab, 3, "UNLOADED")  # the other card of the model
    lab.wait_text(status.locator(".tl-live"), "UNLOADED")
    assert lab.errors == []


def test_a_death_is_seen_and_a_failed_button_says_why(lab: Any) -> None:
    lab.jupyter.write("dies.ipynb", ["%load_ext tritonlab", DIES, "list(dies.infer(inputs={}, raise_on_error=False))"])
    lab.open("dies.ipynb")
    lab.run(0)
    lab.run(1)
    lab.run(2)
    reaches(lab, 1, "NOT READY")
    lab.wait_text(card(lab, 1), "not again")
    button(lab.cell(1), "Unload").click()
    reaches(lab, 1, "UNLOADED")
    button(lab.cell(1), "Load").click()
    lab.wait_text(card(lab, 1).locator("[role=alert]"), "Cell In[2], line 6")
    reaches(lab, 1, "FAILED")
    lab.shot("card_failed", card(lab, 1))


def test_a_slow_load_is_seen_and_stopped(lab: Any) -> None:
    lab.jupyter.write("slow.ipynb", ["%load_ext tritonlab", QUICK, SLOW, "slow.state"])
    lab.open("slow.ipynb")
    lab.run(0)
    lab.run(1)
    lab.start(2)
    reaches(lab, 2, "LOADING")
    lab.wait_text(card(lab, 2), "fetching part 2")
    clock = card(lab, 2).locator(".tl-clock")
    before = float(clock.inner_text().split()[0])
    lab.until(clock, f"clock => parseFloat(clock.textContent) > {before}")
    lab.shot("card_loading", card(lab, 2))
    stopped = time.monotonic()
    button(lab.cell(2), "Stop").click()
    reaches(lab, 2, "READY")
    assert time.monotonic() - stopped < 30  # it would have gone on for five minutes
    lab.wait_text(lab.cell(2), "KeyboardInterrupt")
    lab.wait_text(lab.cell(2), "line 7, in initialize()")
    lab.wait_text(card(lab, 2), "keeps serving")
    lab.wait_text(lab.run(3), "READY")
    lab.shot("card_stopped", card(lab, 2))


def test_a_hung_model_is_replaced_and_unloaded(lab: Any) -> None:
    call = "waiting = hangs.infer(inputs={'IN': [1.0]}, raise_on_error=False)"
    fixed = HANGS.replace("time.sleep(600)", "return [None for _ in requests]")
    wait = "next(waiting).error.message"
    lab.jupyter.write("hangs.ipynb", ["%load_ext tritonlab", HANGS, call, fixed, wait, "hangs.state"])
    lab.open("hangs.ipynb")
    for index in range(4):
        lab.run(index)
    lab.wait_text(card(lab, 3), "waits for 1 unanswered request of 'hangs_0'")
    lab.wait_text(card(lab, 3), "It is killed in ")
    card(lab, 3).get_by_text("what it executes").click()
    lab.wait_text(card(lab, 3), "Cell In[2], line 5, in execute")  # the cell that it executes, and not this one
    lab.wait_text(card(lab, 3), "time.sleep(600)")
    lab.shot("card_draining", card(lab, 3))
    lab.start(4)  # the kernel waits for the model, and the button is served all the same
    expect(lab.cell(4).locator(".jp-InputArea-prompt")).to_have_text("[*]:")
    button(lab.cell(3), "Kill old process").click()
    lab.wait_text(lab.cell(4), "Server exited before the request completed")
    card(lab, 3).filter(has_not_text="unanswered request").wait_for()

    # an unload of one that hangs leaves the kernel free
    lab.run(1)
    lab.run(2)
    button(lab.cell(1), "Unload").click()
    reaches(lab, 1, "UNLOADING")
    lab.wait_text(lab.run(5), "UNLOADING")
    reaches(lab, 1, "UNLOADED")  # by itself, after 10 seconds


def test_the_form_stays_when_its_cell_runs_again_and_its_figure_in_the_file(lab: Any) -> None:
    lab.jupyter.write("again.ipynb", ["%load_ext tritonlab", MODEL])
    lab.open("again.ipynb")
    lab.run(0)
    lab.run(1)
    button(lab.cell(1), "Playground").click()
    button(lab.cell(1), "Send").click()
    lab.cell(1).locator(".tl-value:visible").first.wait_for()
    lab.cell(1).locator("select").first.select_option("Typed")
    lab.cell(1).locator("textarea").first.fill("7.25")
    before = lab.cell(1).locator(".tl-value:visible").first.inner_text()
    editor = lab.cell(1).locator(".cm-content").first
    editor.click()
    editor.press("Control+End")
    editor.press_sequentially("# changed")
    lab.run(1)
    expect(lab.cell(1).locator("textarea").first).to_have_value("7.25")
    expect(lab.cell(1).locator(".tl-value:visible").first).to_have_text(before, use_inner_text=True)

    # the notebook that is saved says what was
    reaches(lab, 1, "READY")
    wait_saved_form(lab, "was READY at ")
    lab.save()
    lab.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    still = lab.cell(1).locator(".tl-static .tl-card")
    still.filter(has_text="was READY at ").wait_for()
    (lab.jupyter.notebooks / "opened.ipynb").write_bytes((lab.jupyter.notebooks / "again.ipynb").read_bytes())
    lab.open("opened.ipynb")
    still.filter(has_text="was READY at ").wait_for()
    lab.page.wait_for_timeout(1500)
    output = lab.cell(1).locator(".jp-OutputArea").first
    expect(output).not_to_contain_text(re.compile("displaying widget|VBox"), use_inner_text=True)
    expect(output.locator("button:visible")).to_have_count(0)
    lab.shot("card_without_kernel", still)


def test_a_second_view_of_the_output_follows_too(lab: Any) -> None:
    lab.jupyter.write("views.ipynb", ["%load_ext tritonlab", QUICK])
    lab.open("views.ipynb")
    lab.run(0)
    lab.run(1)
    reaches(lab, 1, "READY")
    lab.page.evaluate("() => window.jupyterapp.commands.execute('notebook:create-output-view')")
    second = lab.page.locator(".jp-LinkedOutputView .tl-live .tl-card")
    second.and_(lab.page.locator("[data-state=READY]")).wait_for()
    button(lab.page.locator(".jp-LinkedOutputView"), "Unload").click()
    second.and_(lab.page.locator("[data-state=UNLOADED]")).wait_for()
    reaches(lab, 1, "UNLOADED")
    expect(lab.page.locator(".jp-LinkedOutputView .tl-static .tl-card")).not_to_be_visible()
