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
#: Another view of it.
SHOW = "\n".join(FILL.splitlines()[-2:])
#: A view of another version than the page.
OLD = FILL.replace("\nview = ", "\nimport tritonlab.notebook.views.record.record_view as rv\nrv.PROTOCOL = 0\nview = ")
CELLS = ["%load_ext tritonlab", FILL, SHOW, "1 + 1", "view.close()", "view.failed(ValueError('no'))", OLD]


def drawn(lab: Any, index: int) -> Any:
    """Return the view of a cell, which is run, with all that it shows."""
    found = lab.run(index).locator(".tl-view")
    lab.until(found.locator("canvas"), "c => +c.dataset.kept === 400")
    return found


def test_a_view_that_is_gone_leaves_its_figure_and_says_why(lab: Any) -> None:
    lab.jupyter.theme("light")
    lab.jupyter.write("gone.ipynb", CELLS)
    lab.open("gone.ipynb")
    lab.run(0)
    view = drawn(lab, 1)
    lab.save()
    saved = json.loads((lab.jupyter.notebooks / "gone.ipynb").read_text())
    (static, *_) = saved["cells"][1]["outputs"]
    assert "<img class='tl-stored'" in "".join(static["data"]["text/html"])
    assert "".join(static["data"]["text/plain"]).startswith("Timeline of add: 200 requests in 200 batches (1 each)")

    # it fails in the kernel
    lab.run(5)
    lab.wait_text(view.locator(".tl-report"), "This view has stopped: ValueError: no")
    assert lab.errors == []

    # it is closed while it draws
    view = drawn(lab, 2)
    picture = lab.cell(2).locator(".tl-static img")
    expect(picture).not_to_be_visible()
    lab.run(4)
    picture.wait_for()
    expect(view).not_to_be_visible()
    expect(lab.cell(2)).to_contain_text("200 requests in 200 batches")
    assert lab.errors == []

    # its kernel restarts
    drawn(lab, 2)
    expect(picture).not_to_be_visible()
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    picture.wait_for()
    lab.wait_until_idle()
    lab.run(3)
    assert lab.errors == []

    # its state is of another version
    lab.run(0)
    lab.wait_text(lab.run(6).locator(".tl-report"), "This view is of another version of tritonlab. Run its cell again.")
    assert lab.errors == []
