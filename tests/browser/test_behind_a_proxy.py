"""All of it works below a prefix, behind a gateway that lets only Jupyter's own addresses through: there is one comm,
and no port, route or frame of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Lab, new_context, serving
from tests.browser.narrow_proxy import NarrowProxy
from tests.browser.test_extension import CALL, ECHO, LOAD, WAITS, accept, marked, panel, toolbar
from tests.browser.test_notebook_in_lab import button

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def behind(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, NarrowProxy]]:
    with serving(tmp_path_factory.mktemp("prefixed"), "/hub/user/ada") as jupyter, NarrowProxy(jupyter.url) as proxy:
        jupyter.url = proxy.url
        context = new_context(chromium)
        yield Lab(jupyter, context.new_page()), proxy
        context.close()


def test_a_prefix_and_a_narrow_gateway(behind: tuple[Lab, NarrowProxy]) -> None:
    lab, proxy = behind
    lab.jupyter.write("far.ipynb", [LOAD, ECHO, "%triton view echo", WAITS, CALL])
    lab.open("far.ipynb")
    for index in range(4):
        lab.run(index)
    marked(lab, 1, "ready")
    card = lab.cell(1).locator(".tl-live .tl-card[data-state=READY]")
    card.wait_for()

    output = lab.cell(1)
    button(output, "Playground").click()
    button(output, "Send").click()
    output.locator(".tl-value:visible").wait_for()
    canvas = lab.cell(2).locator(".tl-view canvas")
    lab.until(canvas, "c => +c.dataset.kept > 0")

    side_panel = panel(lab)
    lab.wait_text(side_panel.locator("[data-model=echo]"), "1 answered")
    lab.start(4)
    side_panel.get_by_role("button", name="Cancel request").click()
    lab.wait_text(lab.cell(4).locator(".jp-OutputArea"), "gone")

    toolbar(lab).click()
    dialog = lab.page.locator(".tritonlab-export")
    lab.wait_text(dialog.locator(".tritonlab-plan").first, "config.pbtxt")
    accept(lab).click()
    dialog.locator("[role=status]").wait_for()
    assert (lab.jupyter.notebooks / "model_repository" / "echo" / "config.pbtxt").is_file()
    lab.shot("ext_behind_a_proxy")
    dialog.locator("a").click()
    lab.page.locator(".jp-FileBrowser .jp-BreadCrumbs", has_text="model_repository").wait_for()
    assert lab.foreign == []
    assert lab.errors == []
    # JupyterLab's own question about language servers, which it can do without
    assert set(proxy.refused) <= {"GET /hub/user/ada/lsp/status"}
    assert lab.page.locator("iframe").count() == 0
