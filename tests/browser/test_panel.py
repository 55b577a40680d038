"""The panel at JupyterLab's left side: words, long names, what ends a request that nothing cancels, and a restart."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_extension import ECHO, LOAD, marked, open_notebook, panel
from tests.models import cell, executes

pytestmark = pytest.mark.timeout(300)

LONG = "a_model_with_a_name_that_is_longer_than_any_panel_is_wide"
HANGS = cell("hangs --input IN:FP32[-1] --output OUT:FP32[-1]", executes("while True:\n    pass"))
IS_CUT = "name => name.scrollWidth > name.clientWidth && getComputedStyle(name).textOverflow === 'ellipsis'"
FITS = "panel => panel.scrollWidth <= panel.clientWidth"
#: The state and the buttons of a row stand in one line, whatever the length of the model's name is.
STAY_TOGETHER = """row => {
    const copy = row.parentNode.appendChild(row.cloneNode(true)), name = copy.querySelector('h3');
    const parts = [...copy.querySelectorAll('.tritonlab-state, button')], middle = part => {
        const { top, bottom } = part.getBoundingClientRect();
        return Math.round((top + bottom) / 2);
    };
    const torn = Array.from({ length: 60 }, (_, length) => length).filter(length => {
        name.textContent = 'n'.repeat(length + 1);
        return new Set(parts.map(middle)).size > 1 || copy.scrollWidth > copy.clientWidth;
    });
    copy.remove();
    return parts.length === 5 && torn.length === 0;
}"""
RESTART = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"


def test_the_panel_offers_what_ends_a_request_that_nothing_cancels(lab: Any) -> None:
    open_notebook(lab, "ends", [LOAD, ECHO.replace("echo", LONG), HANGS, "hangs(IN=[1.0])"])
    for index in range(3):
        lab.run(index)
    side_panel = panel(lab)
    name = side_panel.locator(f"[data-model={LONG}] h3")
    expect(name).to_have_attribute("title", LONG)
    lab.until(name, IS_CUT)
    lab.until(side_panel.locator("[data-model=hangs] > .tritonlab-row"), STAY_TOGETHER)
    lab.start(3)
    row = side_panel.locator("[data-serial]")
    row.get_by_role("button", name="Cancel request").click()
    lab.wait_text(row, "Python code cannot be cancelled: it goes on until it looks at request.is_cancelled()")
    for theme in lab.themes():
        lab.until(side_panel, FITS)
        lab.shot(f"panel_ends_{theme}")
    row.get_by_role("button", name="Kill the process of hangs").click()
    lab.wait_text(lab.cell(3).locator(".jp-OutputArea"), "ended with signal SIGKILL")
    row.wait_for(state="detached")
    expect(side_panel).to_contain_text(re.compile(r"This kernel uses [\d,]+ MB of memory, its 2 model processes use"))
    lab.shots("panel")
    assert (lab.foreign, lab.errors, lab.console) == ([], [], [])


def test_a_restart_of_the_kernel_writes_no_errors_to_the_console(lab: Any) -> None:
    cells = [LOAD, ECHO, "%triton view echo", "%triton playground echo", "%triton status", "echo(IN=[1.0])"]
    open_notebook(lab, "restarted", cells)
    side_panel = panel(lab)
    for index in range(6):
        lab.run(index)
    lab.cell(1).get_by_role("button", name="Playground").click()
    lab.cell(1).locator(".tl-form").wait_for()
    assert lab.console == []
    lab.page.evaluate(RESTART)
    side_panel.locator("button", has_text="%load_ext tritonlab").wait_for()
    lab.page.wait_for_timeout(3000)  # what the views of the dead kernel would do
    assert (lab.errors, lab.console) == ([], [])
    for index in range(3):
        lab.run(index)
    marked(lab, 1, "ready")
    lab.shot("restarted", lab.cell(2))
    assert (lab.foreign, lab.errors, lab.console) == ([], [], [])


def test_the_launchers_card_shows_the_trident(lab: Any, theme: str) -> None:
    lab.load("launcher")
    card = lab.page.locator(".jp-LauncherCard", has_text="Triton model")
    card.wait_for()
    for name in lab.themes():
        lab.until(card.locator("img"), "image => image.complete && image.naturalWidth > 0")
        assert card.locator(".jp-LauncherCard-noKernelIcon").count() == 0
        lab.shot(f"launcher_{name}", card)
