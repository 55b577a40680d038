"""`breakpoint()` in a model's cell, in JupyterLab: the prompt under the cell, and the ways in which a prompt can lock a
notebook (jupyter/notebook#3516): an interrupt, cleared outputs and the cell run again, a restart, a closed page."""

from __future__ import annotations

import time
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import POLLING, Lab
from tests.browser.test_extension import panel
from tests.models import CALL_STOPS, STOPS

pytestmark = pytest.mark.timeout(300)

LOAD = "%load_ext tritonlab"
AFTER = "6 * 7"
#: seconds in which the notebook has to be usable again: 10 on a machine that does nothing else, which CI's is not
CLEAN = 60.0


def paused(lab: Lab, name: str, send: str = CALL_STOPS) -> Any:
    """Open a notebook, send a request, and return the box for the debugger's line."""
    lab.jupyter.write(f"{name}.ipynb", [LOAD, STOPS, send, AFTER, CALL_STOPS])
    lab.open(f"{name}.ipynb")
    lab.run(0)
    lab.run(1)
    lab.start(2)
    return box(lab)


def box(lab: Lab, cell: int = 2) -> Any:
    found = lab.cell(cell).locator("input.jp-Stdin-input")
    found.wait_for()
    return found


def typed(lab: Lab, line: str) -> None:
    """Type a line and wait until its box has gone: JupyterLab keeps it for half a second."""
    used = box(lab).element_handle()
    used.fill(line)
    used.press("Enter")
    used.wait_for_element_state("hidden")


def usable(lab: Lab, began: float) -> None:
    """Wait until another cell runs, and check how long that took."""
    lab.wait_text(lab.run(3), "42")
    assert time.monotonic() - began < CLEAN


def wait_idle(lab: Lab) -> None:
    lab.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'", polling=POLLING
    )


@pytest.mark.parametrize("theme", ["light"])
def test_the_debugger_is_typed_to_under_the_cell(lab: Lab, theme: str) -> None:
    lab.jupyter.theme(theme)
    paused(lab, f"typed_{theme}")
    typed(lab, "p x")
    lab.wait_text(lab.cell(2), "array([1., 2.], dtype=float32)")
    typed(lab, "l")
    lab.wait_text(lab.cell(2), "8  ->\t        x = x + 1")
    box(lab)
    lab.shot(f"breakpoint_{theme}", lab.cell(2))
    typed(lab, "c")
    lab.wait_text(lab.cell(2), "[2.0, 3.0]")
    assert lab.errors == []


def test_the_panel_stops_a_model_at_the_line_with_the_cursor(lab: Lab) -> None:
    lab.jupyter.write("here.ipynb", [LOAD, STOPS.replace("        breakpoint()\n", ""), CALL_STOPS])
    lab.open("here.ipynb")
    lab.run(0)
    lab.run(1)
    text = lab.cell(1).locator(".cm-content").first
    text.locator(".cm-line", has_text="x = x + 1").click()
    lab.cell(2).locator(".cm-content").first.click()  # the cell of the model need not be the active one
    button = panel(lab).get_by_role("button", name="Break stops at the line with the cursor")
    button.click()
    expect(text).to_contain_text("breakpoint()")
    lab.shot("breakpoint_from_the_panel")
    lab.start(2)
    lab.wait_text(lab.cell(2), "-> x = x + 1")
    typed(lab, "c")
    lab.wait_text(lab.cell(2), "[2.0, 3.0]")
    button.click()
    expect(text).not_to_contain_text("breakpoint()")
    assert (lab.foreign, lab.errors) == ([], [])


def test_no_way_to_leave_a_prompt_locks_the_notebook(lab: Lab) -> None:
    paused(lab, "left")
    began = time.monotonic()
    lab.page.keyboard.press("Escape")
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()")
    lab.wait_text(lab.cell(2), "the debugger of 'stops_0' was left")
    wait_idle(lab)
    usable(lab, began)
    lab.shot("breakpoint_interrupted", lab.cell(2))

    # cleared, then run again: JupyterLab refuses that while the kernel waits for a line; the box above is still there
    lab.start(4)
    box(lab, 4)
    began = time.monotonic()
    lab.page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-cell-output')")
    lab.cell(4).locator("input.jp-Stdin-input").wait_for(state="detached")
    lab.wait_text(lab.cell(4), "its output was cleared or its page closed")
    wait_idle(lab)
    usable(lab, began)
    lab.start(2)
    box(lab)

    # the kernel is restarted while the debugger waits
    began = time.monotonic()
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    wait_idle(lab)
    usable(lab, began)
    lab.run(0)
    lab.run(1)
    lab.start(2)
    typed(lab, "c")
    lab.wait_text(lab.cell(2), "[2.0, 3.0]")


def test_a_page_that_is_closed_leaves_the_debugger(lab: Lab) -> None:
    ended = lab.jupyter.notebooks / "ended.txt"
    first = Lab(lab.jupyter, lab.page.context.new_page())
    paused(first, "closed", f"try: print({CALL_STOPS})\nfinally: open({ended.name!r}, 'w').close()")
    first.save()
    assert not ended.exists()
    began = time.monotonic()
    first.page.close()
    while not ended.exists():
        assert time.monotonic() - began < CLEAN
        time.sleep(0.1)
    lab.open("closed.ipynb")
    lab.start(2)
    typed(lab, "c")
    lab.wait_text(lab.cell(2), "[2.0, 3.0]")
