"""The base of live views in JupyterLab: served while a cell runs, truthful without a kernel."""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_card_in_lab import wait_saved_form

pytestmark = pytest.mark.timeout(300)

#: A view whose HTML counts how often it was refreshed: while it is in sight, once a second.
VIEW = """
from tritonlab.notebook.views.widget import LiveView

class Counter(LiveView):
    MODULE = "panel.js"

    def text(self):
        return f"was at {self.state['count']}"

    def html(self):
        return f"<div class='tl-card still'>{self.text()}</div>"

    def on_message(self, content):
        count = self.state["count"] + (content == {"do": "refresh"})
        self.update(count=count, html=f"<span class='count'>live {count}</span>")
        self.freeze()
        self.send({})

view = Counter(count=0, html="<span class='count'>live 0</span>")
view
"""
COUNTED = re.compile("was at [1-9]")
#: Runs until a file comes.
BUSY = "import os, time\nwhile not os.path.exists('go_on'): time.sleep(0.01)"


def live(lab: Any, index: int) -> Any:
    return lab.cell(index).locator(".tl-live")


def still(lab: Any, index: int) -> Any:
    return lab.cell(index).locator(".still")


def test_a_view_answers_while_a_cell_runs(lab: Any) -> None:
    lab.jupyter.write("live.ipynb", [VIEW, BUSY])
    lab.open("live.ipynb")
    lab.run(0)
    lab.wait_text(live(lab, 0).locator(".count"), "live ")
    expect(still(lab, 0)).not_to_be_visible()
    prompt = lab.start(1).locator(".jp-InputArea-prompt")
    expect(prompt).to_have_text("[*]:")
    count = int(live(lab, 0).locator(".count").inner_text().removeprefix("live "))
    lab.until(live(lab, 0), f"view => Number(view.querySelector('.count').textContent.slice(5)) >= {count + 2}")
    assert prompt.inner_text() == "[*]:"  # it was served meanwhile
    (lab.jupyter.notebooks / "go_on").touch()
    expect(prompt).to_have_text("[2]:")
    assert lab.foreign == []


def test_without_a_kernel_its_static_form_is_seen(lab: Any) -> None:
    lab.jupyter.write("still.ipynb", [VIEW])
    lab.open("still.ipynb")
    lab.run(0)
    lab.wait_text(live(lab, 0).locator(".count"), "live 1")
    wait_saved_form(lab, "was at 1")
    lab.save()

    # a restart in the same page, then the saved notebook as another one, whose kernel has run nothing
    lab.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    still(lab, 0).filter(has_text=COUNTED).wait_for()
    live(lab, 0).wait_for(state="hidden")
    expect(lab.cell(0)).not_to_contain_text("Error", use_inner_text=True)
    shutil.copy(lab.jupyter.notebooks / "still.ipynb", lab.jupyter.notebooks / "again.ipynb")
    lab.open("again.ipynb")
    still(lab, 0).filter(has_text=COUNTED).wait_for()
    lab.page.wait_for_timeout(1500)  # the line comes when the widgets of the kernel are known
    expect(lab.cell(0).locator(".jp-OutputArea").first).not_to_contain_text("displaying widget", use_inner_text=True)
    lab.shot("live_view_without_kernel")


def test_nbconvert_shows_the_static_form(lab: Any) -> None:
    from nbconvert import HTMLExporter

    lab.jupyter.write("page.ipynb", [VIEW])
    lab.open("page.ipynb")
    lab.run(0)
    live(lab, 0).wait_for()
    wait_saved_form(lab, "was at ")
    lab.save()
    html, _ = HTMLExporter().from_filename(str(lab.jupyter.notebooks / "page.ipynb"))
    page = lab.page.context.new_page()
    page.set_content(html)
    text = page.locator("body").inner_text()
    page.close()
    assert "was at " in text
    assert "rror displaying" not in text and "VBox" not in text
