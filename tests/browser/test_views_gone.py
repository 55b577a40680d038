"""Views whose kernel, page, recorder or version is gone say so, and break nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(300)

FILL = """import tritonlab
from tritonlab.record.recording import Recording
recording = tritonlab.recording()
record = recording.model("add")
for kind, word in (("instance", "add_0_0"), ("reason", "full"), ("shapes", ())):
    record.words.number(kind, word)
def batch(n):
    start = n * 2_000_000
    record.requests.add([n, start - 1_000_000, start - 900_000, n, 1, 0])
    record.batches.add([start, start + 1_500_000, 0, n, 1, 1, 1, 0, 1000, 1_400_000, 1000, 0, n])
for n in range(200):
    batch(n)
view = tritonlab.view(recording, "timeline", "add")
view"""


@pytest.fixture
def view(lab: Any, jupyter: Any, request: Any) -> Any:
    jupyter.theme("light")
    name = f"{request.node.name}.ipynb"
    lab.jupyter.write(name, ["%load_ext tritonlab", FILL, "1 + 1", "view.close()", "view.failed(ValueError('no'))"])
    lab.open(name)
    lab.run(0)
    found = lab.run(1).locator(".tl-view")
    lab.until(found.locator("canvas"), "c => +c.dataset.kept === 400")
    return found


def test_a_view_that_is_closed_while_it_draws_leaves_its_figure(lab: Any, view: Any) -> None:
    lab.run(3)
    picture = lab.cell(1).locator(".tl-static img")
    picture.wait_for()
    expect(view).not_to_be_visible()
    expect(lab.cell(1)).to_contain_text("200 requests in 200 batches")
    assert lab.errors == []


def test_a_kernel_that_restarts_under_an_open_view_leaves_its_figure(lab: Any, view: Any) -> None:
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    lab.cell(1).locator(".tl-static img").wait_for()
    lab.wait_until_idle()
    lab.run(2)
    assert lab.errors == []


def test_a_view_that_fails_in_the_kernel_says_so(lab: Any, view: Any) -> None:
    lab.run(4)
    lab.wait_text(view.locator(".tl-report"), "This view has stopped: ValueError: no")
    assert lab.errors == []


def test_a_state_of_another_version_says_so(lab: Any) -> None:
    older = "import tritonlab.notebook.views.record.record_view as rv"
    old = FILL.replace("\nview = ", f"\n{older}\nrv.PROTOCOL = 0\nview = ")
    lab.jupyter.write("old_view.ipynb", ["%load_ext tritonlab", old])
    lab.open("old_view.ipynb")
    lab.run(0)
    lab.wait_text(lab.run(1).locator(".tl-report"), "This view is of another version of tritonlab. Run its cell again.")
    assert lab.errors == []


def test_a_saved_notebook_shows_the_last_figure(lab: Any, view: Any) -> None:
    lab.save()
    saved = json.loads((lab.jupyter.notebooks / "test_a_saved_notebook_shows_the_last_figure.ipynb").read_text())
    (static, *_) = saved["cells"][1]["outputs"]
    assert "<img class='tl-stored'" in "".join(static["data"]["text/html"])
    assert "".join(static["data"]["text/plain"]).startswith("Timeline of add: 200 requests in 200 batches (1 each)")
