"""From the launcher's card to a timeline, with what JupyterLab's own toolbars and commands offer."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_extension import answer, marked

pytestmark = pytest.mark.timeout(300)

COMMANDS = """() => {
    const { commands } = window.jupyterapp;
    const ours = commands.listCommands().filter(id => id.startsWith('tritonlab:'));
    return Promise.all(ours.map(async id => [id, (await commands.describedBy(id)).args, commands.caption(id)]));
}"""


def tool(lab: Any, name: str) -> Any:
    return lab.page.locator(f".jp-NotebookPanel-toolbar [data-jp-item-name='tritonlab-{name}'] jp-button:visible")


def test_from_the_launcher_to_a_timeline(lab: Any) -> None:
    lab.jupyter.theme("light")
    lab.load("fresh")
    lab.page.locator(".jp-LauncherCard", has_text="Triton model").click()
    lab.wait_until_idle()
    lab.shot("ext_new_notebook")
    for index in (1, 2):
        lab.run(index)
    marked(lab, 2, "ready")
    lab.wait_text(lab.run(3), "array([11., 22., 33.], dtype=float32)")
    lab.cell(2).locator(".cm-content").click()
    tool(lab, "playground").click()
    form = lab.cell(3)
    form.get_by_role("button", name="Send", exact=True).click()
    form.locator(".tl-value:visible").first.wait_for()
    expect(form).to_contain_text("%triton playground add")

    # the timeline of the only model, whatever cell is active
    tool(lab, "timeline").click()
    canvas = lab.cell(4).locator(".tl-view canvas")
    lab.until(canvas, "c => +c.dataset.kept > 0")
    lab.shot("ext_toolbar")

    # as a program does it: the cell that is there is run again, and the answer is plain JSON
    lab.cell(2).locator(".cm-content").click()
    assert answer(lab.page, "playground", name="add") == {"name": "add", "cell": 3, "ran": True}
    described = {id: (args, caption) for id, args, caption in lab.page.evaluate(COMMANDS)}
    assert len(described) >= 14
    for args, caption in described.values():
        assert args["type"] == "object" and caption
    assert lab.page.evaluate("jupyterapp.shell.currentWidget.content.widgets.length") == 6
    assert lab.page.locator(".Toastify__toast").count() == 0  # as in `make lab`: no question about news
    assert lab.errors == []
