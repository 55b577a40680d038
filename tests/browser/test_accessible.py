"""What is ours can be used without a mouse and without good eyes: axe-core finds no serious fault in our own nodes, and
keys alone reach all of it."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import POLLING
from tests.browser.test_extension import ECHO, LOAD, accept, marked, panel, toolbar
from tests.browser.test_notebook_in_lab import button
from tests.models import cell, initializes

pytestmark = pytest.mark.timeout(300)

#: A model that fails now and then, so that cards and views have something bad to say.
MODEL = """%%triton_model odd --max-batch-size 4 --dynamic-batching 200 --input X:FP32[1] --output Y:FP32[1]
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        kind = pb_utils.MetricFamily.COUNTER
        self.family = pb_utils.MetricFamily(name="odd_total", description="odd ones", kind=kind)
        self.odd = self.family.Metric(labels={"where": "here"})
        pb_utils.Logger.log_warn("mind the gap")

    def execute(self, requests):
        responses = []
        for request in requests:
            self.odd.increment(1)
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            error = pb_utils.TritonError("not negative") if x.min() < 0 else None
            responses.append(pb_utils.InferenceResponse([] if error else [pb_utils.Tensor("Y", x)], error=error))
        return responses
"""
BROKEN = cell("bad", initializes('args["nope"]'))
KINDS = ("timeline", "streams", "metrics", "memory", "graph")
VIEWS = [f"view{n} = odd.view('{kind}'); view{n}" for n, kind in enumerate(KINDS)]
REQUESTS = """import numpy as np
for n in range(40):
    list(odd.infer(inputs={"X": np.full((1, 1), n % 5 - 1, "float32")}, raise_on_error=False))"""
#: Everything that is ours on a page.
OURS = [".tl-live", ".tl-form", ".tl-panel", ".tritonlab-mark", ".tritonlab-mark-export", ".tritonlab-panel"]

#: Changes the theme while each canvas has something to draw, as it does when events come.
TO_DARK = """async theme => {
    let over = false;
    new MutationObserver(() => (over = true)).observe(document.body, { attributeFilter: ["data-jp-theme-name"] });
    const move = () => {
        if (over) return;
        document.querySelectorAll(".tl-canvas").forEach(one => one.dispatchEvent(new PointerEvent("pointermove")));
        setTimeout(move);
    };
    move();
    await jupyterapp.commands.execute("apputils:change-theme", { theme });
    while (!over) await new Promise(requestAnimationFrame);
}"""
#: Whether a canvas has the background of lanes that the light theme gives it.
LIGHT_BANDS = """() => [...document.querySelectorAll(".tl-canvas")].some(one => {
    const { data } = one.getContext("2d").getImageData(0, 0, one.width, one.height);
    let light = 0;
    for (let i = 0; i < data.length; i += 4) light += data[i] > 225 && data[i + 2] > 225 && data[i + 3] === 255;
    return light > data.length / 4 / 20;
})"""


#: What axe looks at in each theme: in the second only at colours, as nothing else has changed.
OPTIONS: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}},
}


def faults(lab: Any, *ours: str, **options: Any) -> list[str]:
    """Return what axe finds within these nodes that is serious or critical."""
    options["resultTypes"] = ["violations"]
    found = Axe().run(lab.page, {"include": [[selector] for selector in ours]}, options)
    return [
        f"{violation['id']}: {node['target']} {node['html'][:200]} {[each['message'] for each in node['any']]}"
        for violation in found.response["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def no_faults(lab: Any, *ours: str, **options: Any) -> None:
    """Fail if axe finds the same once all is drawn: in the midst of a change of theme colours are of both."""
    for _ in range(20):
        if not (found := faults(lab, *ours, **options)):
            return
        lab.page.wait_for_timeout(500)
    assert found == []


def test_axe_finds_nothing_serious(lab: Any) -> None:
    lab.jupyter.theme("light")
    lab.jupyter.write("axe.ipynb", [LOAD, MODEL, *VIEWS, REQUESTS, BROKEN])
    lab.page.set_viewport_size({"width": 1280, "height": 4200})  # all of it is drawn
    lab.open("axe.ipynb")
    for index in range(len(VIEWS) + 4):
        lab.run(index)
    marked(lab, len(VIEWS) + 3, "failed")
    output = lab.cell(1)
    button(output, "Playground").click()
    output.get_by_label("X value").fill("1")
    button(output, "Send").click()
    output.locator(".tl-value:visible").first.wait_for()
    button(output, "Send N").click()
    output.locator(".tl-histogram:visible").wait_for()
    output.get_by_text("Request options").click()
    lab.page.locator(".tl-view canvas").first.wait_for()
    lab.wait_text(panel(lab).locator("[role=log]"), "mind the gap")
    # JupyterLab's body is empty for axe, which takes all that overflows it for hidden, and would not see its colours
    style = lab.page.add_style_tag(content="body { height: 100vh; }")
    for theme, options in OPTIONS.items():
        if theme == "dark":
            lab.change_theme(theme, TO_DARK)
            lab.page.wait_for_function(f"() => !({LIGHT_BANDS})()", polling=POLLING)  # canvases follow, too
        no_faults(lab, *OURS, **options)
        lab.shot(f"axe_{theme}")
        toolbar(lab).click()
        lab.wait_text(lab.page.locator(".tritonlab-export"), "config.pbtxt")
        no_faults(lab, ".tritonlab-export", **options)
        lab.page.locator(".tritonlab-export input[type=text]").press("Escape")
        lab.page.locator(".tritonlab-export").wait_for(state="detached")
    style.evaluate("style => style.remove()")
    assert lab.errors == []


def tab_to(lab: Any, name: str, back: bool = False) -> None:
    """Press Tab until the element of this name has the focus."""
    for _ in range(40):
        lab.page.keyboard.press("Shift+Tab" if back else "Tab")
        if lab.page.evaluate("() => document.activeElement.getAttribute('aria-label') ?? ''").startswith(name):
            return
    raise AssertionError(f"Tab does not reach {name!r}")


def choose(lab: Any, command: str) -> None:
    """Run a command from the palette, by keys alone."""
    lab.page.keyboard.press("Control+Shift+C")
    lab.page.locator(".lm-CommandPalette-input:focus").wait_for()
    lab.page.keyboard.type(command)
    lab.page.locator(".lm-CommandPalette-item.lm-mod-active", has_text=command).wait_for()
    lab.page.keyboard.press("Enter")


def test_keys_alone_reach_all_of_it(lab: Any) -> None:
    lab.jupyter.theme("light")
    lab.jupyter.write("keys_alone.ipynb", [LOAD, ECHO, "'below'"])
    lab.open("keys_alone.ipynb")
    lab.run(0)
    lab.run(1)
    marked(lab, 1, "ready")
    lab.page.keyboard.press("Escape")

    # the mark leads into its cell
    tab_to(lab, "echo, version 1,")
    lab.page.keyboard.press("Enter")
    lab.page.locator(".jp-mod-editMode .jp-Cell[data-windowed-list-index='1'] .cm-content:focus").wait_for()
    lab.page.keyboard.press("Escape")

    # the panel: the focus stays with the model whose button went
    choose(lab, "Show Triton Panel")
    side_panel = lab.page.locator("#tritonlab-panel")
    lab.page.locator("#tritonlab-panel:focus [data-model=echo]").wait_for()
    tab_to(lab, "Unload echo")
    lab.page.keyboard.press("Space")
    side_panel.get_by_role("button", name="Load echo", exact=True).and_(lab.page.locator(":focus")).wait_for()
    lab.page.keyboard.press("Enter")
    side_panel.locator("[data-model=echo][data-state=READY]").wait_for()
    marked(lab, 1, "ready")
    tab_to(lab, "Level")
    lab.page.keyboard.press("End")
    lab.page.wait_for_function("() => document.activeElement.value === 'ERROR'")
    tab_to(lab, "Search the log")
    lab.page.keyboard.type("nothing")
    lab.wait_text(side_panel.locator("[role=log]"), "no lines")

    # the export, from the panel's button to the closed dialog; the focus comes back
    tab_to(lab, "Export echo", back=True)
    lab.page.keyboard.press("Enter")
    dialog = lab.page.locator(".tritonlab-export")
    lab.wait_text(dialog, "Repository directory")
    dialog.locator("input:focus").wait_for()
    lab.page.keyboard.press("Control+a")
    lab.page.keyboard.type("by_keys")
    lab.wait_text(dialog, str(lab.jupyter.notebooks / "by_keys"))
    accept(lab).and_(lab.page.locator(":enabled")).wait_for()
    lab.page.keyboard.press("Enter")
    dialog.locator("[role=status]").wait_for()
    lab.page.keyboard.press("Enter")
    dialog.wait_for(state="detached")
    assert (lab.jupyter.notebooks / "by_keys" / "echo" / "1" / "model.py").is_file()
    assert lab.errors == []
