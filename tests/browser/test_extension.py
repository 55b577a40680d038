"""The JupyterLab extension: marks of cells, the export from its buttons, restarts, reloads, several notebooks."""

from __future__ import annotations

import re
from typing import Any

import psutil
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PATIENCE, POLLING, Lab
from tests.models import IDENTITY, cell, initializes

pytestmark = pytest.mark.timeout(300)

LOAD = "%load_ext tritonlab"
ECHO = cell("echo --input IN:FP32[-1] --output OUT:FP32[-1]", IDENTITY)
BROKEN = cell("broken", initializes('args["nope"]'))
SLOW = cell("slow --input IN:FP32[-1] --output OUT:FP32[-1]", initializes("import time; time.sleep(3)"))
#: Keeps the mouse on each toast: it stays while the mouse is there, else for ten seconds, in which a test on a busy
#: machine may not look.
KEEP_TOASTS = """() => {
    const over = () => new MouseEvent('mouseover', { bubbles: true });
    const each = () => document.querySelectorAll('.Toastify__toast').forEach(toast => toast.dispatchEvent(over()));
    window.keepingToasts = setInterval(each, 100);
}"""


def mark(lab: Any, index: int) -> Any:
    return lab.cell(index).locator(".tritonlab-mark")


def marked(lab: Any, index: int, kind: str) -> Any:
    found = lab.cell(index).locator(f".tritonlab-mark[data-mark={kind}]")
    found.wait_for()
    return found


def toolbar(lab: Any) -> Any:
    return lab.page.locator(".jp-NotebookPanel-toolbar [data-jp-item-name='tritonlab-export'] jp-button:visible")


def cell_button(lab: Any, index: int) -> Any:
    return lab.cell(index).locator(".jp-cell-toolbar [data-jp-item-name='tritonlab-export'] jp-button")


def accept(lab: Any) -> Any:
    return lab.page.locator(".tritonlab-export .jp-Dialog-footer .jp-mod-accept")


def open_notebook(lab: Any, name: str, cells: list[str], theme: str = "light") -> None:
    lab.jupyter.theme(theme)
    lab.jupyter.write(f"{name}.ipynb", cells)
    lab.open(f"{name}.ipynb")


@pytest.mark.parametrize("theme", ["light"])
def test_export_from_the_notebooks_toolbar(lab: Any, theme: str) -> None:
    open_notebook(lab, f"export_{theme}_ext", [LOAD, ECHO, ECHO.replace("echo", "again")], theme)
    for index in range(3):
        lab.run(index)
    marked(lab, 2, "ready")
    lab.shot(f"ext_marks_{theme}")
    toolbar(lab).click()
    dialog = lab.page.locator(".tritonlab-export")
    lab.wait_text(dialog.locator(".tritonlab-plan"), "config.pbtxt")
    directory = lab.jupyter.notebooks / f"repository_{theme}"
    dialog.locator("input[type=text]").fill(directory.name)
    lab.wait_text(dialog, str(directory))
    lab.shot(f"ext_export_plan_{theme}")
    accept(lab).click()
    dialog.locator("[role=status]").wait_for()
    assert {path.name for path in directory.iterdir()} == {"echo", "again"}
    assert (directory / "echo" / "1" / "model.py").read_text() == ECHO.partition("\n")[2]
    lab.shot(f"ext_export_done_{theme}")
    dialog.locator("a").click()
    lab.page.locator(".jp-FileBrowser .jp-BreadCrumbs", has_text=directory.name).wait_for()
    lab.page.keyboard.press("Escape")
    assert lab.foreign == []
    assert lab.errors == []


def test_the_mark_follows_the_model_and_its_cell(lab: Any) -> None:
    open_notebook(lab, "marks", [LOAD, ECHO, BROKEN, SLOW, "%triton unload echo"])
    for index in range(3):
        lab.run(index)
    expect(marked(lab, 1, "ready")).to_have_text("READY", use_inner_text=True)
    failed = marked(lab, 2, "failed")
    expect(failed).to_have_text(re.compile(r"^failed\nline 4$"), use_inner_text=True)
    expect(failed).to_have_attribute("title", re.compile("KeyError: 'nope'"))
    lab.start(3)
    marked(lab, 3, "loading")
    failed.click()  # to the line that is to blame, while another cell runs
    expect(lab.page.locator("#jp-main-statusbar")).to_contain_text("Ln 4")
    lab.shot("ext_marks_failed")
    marked(lab, 3, "ready")

    editor = lab.cell(1).locator(".cm-content")
    editor.click()
    editor.press("Control+End")
    editor.press_sequentially("# edited")
    marked(lab, 1, "stale")
    lab.shot("ext_marks_stale")
    for _ in "# edited":
        editor.press("Backspace")
    marked(lab, 1, "ready")
    lab.run(4)
    marked(lab, 1, "off")


def test_export_of_a_cell_shows_what_it_would_replace(lab: Any) -> None:
    open_notebook(lab, "replace", [LOAD, ECHO, BROKEN])
    lab.run(0)
    lab.run(1)
    marked(lab, 1, "ready")
    model = lab.jupyter.notebooks / "model_repository" / "echo" / "1" / "model.py"
    model.parent.mkdir(parents=True)
    model.write_text("# by hand\n")
    lab.shot("ext_cell_toolbar")
    expect(cell_button(lab, 1)).to_be_visible()  # where the line below it is not too long
    lab.cell(1).locator(".tritonlab-mark-export").click()
    dialog = lab.page.locator(".tritonlab-export")
    lab.wait_text(dialog.locator("[data-kind=changed]"), "1/model.py")
    lab.wait_text(accept(lab), "Replace, keep a backup")
    lab.shot("ext_export_replace")
    lab.page.keyboard.press("Enter")
    lab.wait_text(dialog.locator("[role=status]"), "The former echo is now")
    assert model.read_text() == ECHO.partition("\n")[2]
    lab.page.keyboard.press("Enter")
    dialog.wait_for(state="detached")
    # another cell is not a model that could be exported
    lab.cell(0).locator(".cm-content").click()
    expect(cell_button(lab, 0)).not_to_be_visible()


def test_an_export_that_fails_says_why(lab: Any) -> None:
    open_notebook(lab, "fails", [LOAD, ECHO])
    lab.run(0)
    lab.run(1)
    marked(lab, 1, "ready")
    lab.cell(1).locator(".tritonlab-mark-export").click()
    dialog = lab.page.locator(".tritonlab-export")
    where = dialog.get_by_label("Repository directory")
    where.fill("fails.ipynb")
    lab.wait_text(dialog.get_by_role("alert"), "fails.ipynb is not a directory")
    expect(accept(lab)).to_be_disabled()

    # what the plan cannot know
    theirs = lab.jupyter.notebooks / "kept" / "echo"
    theirs.mkdir(parents=True)
    (lab.jupyter.notebooks / "kept.backup").write_text("in the way")
    where.fill("kept")
    lab.wait_text(accept(lab), "Replace, keep a backup")
    (theirs / "mine.txt").write_text("precious")
    accept(lab).click()
    lab.wait_text(dialog, "mine.txt")  # it has looked again
    expect(dialog.get_by_role("alert")).to_contain_text("was not replaced, because its backup")
    lab.shot("ext_export_failed")
    assert (theirs / "mine.txt").read_text() == "precious" and lab.errors == []
    lab.page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


def test_the_cell_that_loads_tritonlab_is_added_and_both_are_run(lab: Any) -> None:
    open_notebook(lab, "offered", ["1 + 1", ECHO])
    lab.run(0)
    lab.wait_text(lab.run(1), "UsageError")
    toast = lab.page.locator(".Toastify__toast", has_text="has not loaded tritonlab")
    toast.hover()
    lab.shot("ext_offered")
    toast.get_by_role("button", name="Add %load_ext tritonlab").click()
    expect(lab.cell(1).locator(".cm-content").first).to_have_text(LOAD)
    marked(lab, 2, "ready")
    expect(lab.cell(2).locator(".jp-OutputArea").first).not_to_contain_text("UsageError")
    assert lab.cell(0).locator(".cm-content").first.inner_text() == "1 + 1"
    assert lab.errors == []


def test_the_offer_goes_when_a_cell_has_loaded_tritonlab(lab: Any) -> None:
    open_notebook(lab, "loaded", [ECHO, LOAD])
    lab.wait_text(lab.run(0), "UsageError")
    toast = lab.page.locator(".Toastify__toast", has_text="has not loaded tritonlab")
    expect(toast).to_have_count(1)
    lab.run(1)
    expect(toast).to_have_count(0, timeout=10_000)  # by itself it goes after 20 s


def test_without_tritonlab_in_the_kernel_a_toast_helps(lab: Any) -> None:
    open_notebook(lab, "without", [ECHO])
    lab.page.evaluate(KEEP_TOASTS)
    toolbar(lab).click()
    toast = lab.page.locator(".Toastify__toast", has_text="has not loaded tritonlab")
    expect(toast).to_contain_text("pip install 'tritonlab[lab]'")
    lab.shot("ext_without")
    lab.page.evaluate("clearInterval(window.keepingToasts)")
    toast.locator("button", has_text="%load_ext tritonlab").click()
    lab.run(0)
    marked(lab, 0, "ready")


def test_interrupt_restart_reload_and_another_window(lab: Any) -> None:
    open_notebook(lab, "again", [LOAD, ECHO, WAITS, CALL, "%triton view echo"])
    for index in range(3):
        lab.run(index)
    marked(lab, 1, "ready")
    before = processes(lab)

    # an interrupt ends the cell that waits, and no model
    lab.start(3)
    lab.page.wait_for_function(WAITS_FOR_ONE, polling=POLLING)
    lab.page.evaluate(f"{KERNEL}.interrupt()")
    lab.wait_text(lab.cell(3).locator(".jp-OutputArea"), "RequestInterrupted")
    assert processes(lab) == before and len(before) == 2

    # a restart leaves no process behind
    lab.page.evaluate(f"{KERNEL}.restart()")
    mark(lab, 1).wait_for(state="detached")
    _, left = psutil.wait_procs(list(before), timeout=PATIENCE)
    assert left == []
    lab.run(0)
    lab.run(1)
    marked(lab, 1, "ready")

    # after a reload of the page the view is live again, with what it showed
    canvas = lab.run(4).locator(".tl-view canvas")
    lab.page.evaluate(f"{KERNEL}.requestExecute({{ code: 'echo(IN=[1.0])' }}).done.then(() => null)")
    lab.until(canvas, KEPT)
    lab.save()
    lab.reload()
    marked(lab, 1, "ready")
    canvas.wait_for()
    lab.until(canvas, KEPT)

    # another window of the same notebook and kernel, and in it another notebook with a kernel of its own
    two = Lab(lab.jupyter, lab.page.context.new_page())
    two.load("second/tree/again.ipynb")
    marked(two, 1, "ready")
    assert answer(two.page, "unload", name="echo") == {"name": "echo"}
    marked(lab, 1, "off")
    lab.jupyter.write("two.ipynb", [LOAD, ECHO.replace("echo", "second")])
    two.open("two.ipynb")
    two.run(0)
    two.run(1)
    marked(two, 1, "ready")
    assert [model["name"] for model in answer(two.page, "models")["models"]] == ["second"]
    assert [model["name"] for model in answer(lab.page, "models")["models"]] == ["echo"]
    two.page.close()


KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
#: Whether the kernel has a request in flight that is executed.
WAITS_FOR_ONE = """() => window.jupyterapp.commands.execute('tritonlab:overview')
    .then(overview => overview.requests.some(one => one.state === 'executing'))"""
KEPT = "canvas => +canvas.dataset.kept > 0"


def processes(lab: Any) -> set[psutil.Process]:
    """Return the processes of the models that serve."""
    models = answer(lab.page, "overview")["models"]
    return {psutil.Process(each["pid"]) for model in models for each in model["instances"]}


def answer(page: Any, command: str, **arguments: Any) -> Any:
    """Return what a command of the extension answers."""
    call = "([id, args]) => window.jupyterapp.commands.execute(id, args)"
    return page.evaluate(call, [f"tritonlab:{command}", arguments])


WAITS = """%%triton_model waits --input IN:FP32[-1] --output OUT:FP32[-1]
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        for number in range(60):
            print("line", number)
        pb_utils.Logger.log_warn("mind the gap")

    def execute(self, requests):
        print("waiting", flush=True)
        while not requests[0].is_cancelled():
            time.sleep(0.01)
        error = pb_utils.TritonError("gone", pb_utils.TritonError.CANCELLED)
        return [pb_utils.InferenceResponse(error=error) for request in requests]
"""
LAST_LINE_IS_SEEN = """() => {
    const log = document.querySelector("#tritonlab-panel [role=log]");
    const last = [...log.querySelectorAll("[data-level]")].at(-1).getBoundingClientRect();
    return log.scrollHeight > log.clientHeight && last.bottom <= log.getBoundingClientRect().bottom;
}"""
CALL = "import numpy as np\nwaits(IN=np.ones(1, 'float32'))"
FOREVER = SLOW.replace("time.sleep(3)", "time.sleep(600)").replace("slow", "forever")


def panel(lab: Any) -> Any:
    side_panel = lab.page.locator("#tritonlab-panel")
    if not side_panel.is_visible():
        lab.page.locator(".jp-SideBar [data-id='tritonlab-panel']").click()
    return side_panel


@pytest.mark.parametrize("theme", ["dark"])
def test_the_panel_shows_the_server_and_ends_what_a_busy_cell_waits_for(lab: Any, theme: str) -> None:
    open_notebook(lab, f"panel_{theme}", [ECHO, "for _ in range(200): echo(IN=[1.0])", WAITS, CALL, FOREVER], theme)
    side_panel = panel(lab)
    side_panel.locator("button", has_text="%load_ext tritonlab").click()
    side_panel.locator("text=None yet").wait_for()
    for index in range(3):
        lab.run(index)
    row = side_panel.locator("[data-model=echo]")
    lab.wait_text(row, "200 answered")
    lab.wait_text(row, "p99")
    lab.wait_text(side_panel.locator("[role=log]"), "mind the gap")
    lab.page.wait_for_function(LAST_LINE_IS_SEEN, polling=POLLING)

    # a cell that waits for an answer: the panel is served meanwhile, and ends it
    lab.start(3)
    lab.wait_text(side_panel.locator("[data-serial]"), "executing")
    lab.wait_text(side_panel.locator("[role=log]"), "waiting")
    assert lab.cell(3).locator(".jp-InputArea-prompt").inner_text() == "[*]:"
    lab.page.wait_for_timeout(1200)  # the panel has asked again
    assert lab.page.evaluate(f"({IDLE})()") is False
    expect(lab.page.locator("#jp-main-statusbar")).to_contain_text("| Busy")
    lab.shot(f"ext_panel_busy_{theme}")
    side_panel.get_by_role("button", name="Cancel request").click()
    lab.wait_text(lab.cell(3).locator(".jp-OutputArea"), "gone")

    # one that loads what never ends
    lab.start(4)
    side_panel.get_by_role("button", name="Stop loading forever").click()
    lab.page.wait_for_function(IDLE, polling=POLLING)
    marked(lab, 4, "failed")

    side_panel.get_by_label("Level").select_option("WARNING")
    side_panel.locator("[role=log]", has_text="waiting").wait_for(state="detached")
    side_panel.get_by_role("button", name="Unload echo").click()
    side_panel.locator("[data-model=echo][data-state=UNLOADED]").wait_for()
    side_panel.get_by_role("button", name="Load echo").click()
    side_panel.locator("[data-model=echo][data-state=READY]").wait_for()
    lab.shot(f"ext_panel_{theme}")
    lab.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    side_panel.locator("button", has_text="%load_ext tritonlab").wait_for()
    assert lab.foreign == []
    assert lab.errors == []


IDLE = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"


CONFIG = """%%triton_config echo
max_batch_size: 8  # rows
dynamic_batching { max_queue_delay_microseconds: 500 }
"""


ENSEMBLE = """%%triton_config twice
platform: "ensemble"
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
ensemble_scheduling { step { model_name: "echo" model_version: -1
  input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } }
"""


def test_the_config_of_an_ensemble_keeps_its_colours_when_it_is_loaded(lab: Any) -> None:
    open_notebook(lab, "ensemble", [LOAD, ECHO, ENSEMBLE])
    for index in range(3):
        lab.run(index)
    lab.cell(2).locator(".tl-of-config").first.wait_for(state="attached")  # its static form is hidden
    colours = [
        lab.cell(2).locator(".cm-line > span", has_text=words).first.evaluate("span => getComputedStyle(span).color")
        for words in ("%%triton_config", "platform", '"ensemble"')
    ]
    assert len(set(colours)) == 3


def hover_again(lab: Any, locator: Any) -> None:
    """Hover where the mouse may be already, after the theme has changed under it."""
    lab.page.mouse.move(0, 0)
    locator.hover()


def test_what_is_written_has_the_colours_of_what_it_is(lab: Any) -> None:
    open_notebook(lab, "colours", [ECHO.replace(" --output", " \\\n    --output"), CONFIG, LOAD])
    expect(lab.cell(0).locator(".tritonlab-line")).to_have_count(2)
    line = lab.cell(0).locator(".cm-content")
    expect(line.locator(".tritonlab-word-name")).to_have_text("echo")
    options = "[...line.querySelectorAll('.tritonlab-word-option')].map(word => word.textContent).join('')"
    lab.until(line, f"line => {options} === '--input--output'")
    code = "window.jupyterapp.shell.currentWidget.content.widgets.map(c => c.model.mimeType)"
    lab.page.wait_for_function(f"() => {code}[1] === 'text/x-pbtxt' && {code}[0] === 'text/x-ipython'")

    def colour(words: str) -> Any:
        script = "element => getComputedStyle(element).color"
        return lab.cell(1).locator(".cm-line span", has_text=words).first.evaluate(script)

    for theme in lab.themes():
        assert len({colour("max_batch_size"), colour("8"), colour("# rows")}) == 3
        lab.shot(f"ext_colours_{theme}")

    # what Triton would refuse is underlined as one types, and a field says what it is for; the kernel knows both
    lab.run(2)
    lab.cell(1).locator(".cm-line", has_text="dynamic_batching").click()
    editor = lab.cell(1).locator(".cm-content")
    editor.press("Control+End")
    editor.press_sequentially("max_batchsize: 9 ")
    refused = lab.cell(1).locator(".cm-lintRange-error")
    expect(refused).to_have_text("max_batchsize")  # as it is typed other words are refused
    for theme in lab.themes():
        hover_again(lab, refused)
        lab.wait_text(lab.page.locator(".cm-tooltip"), "Did you mean max_batch_size?")
        lab.shot(f"ext_config_refused_{theme}")
    for _ in range(3):
        editor.press("Control+Backspace")
    refused.wait_for(state="detached")
    for theme in lab.themes():
        hover_again(lab, lab.cell(1).locator(".cm-line span", has_text="max_queue_delay_microseconds"))
        lab.wait_text(lab.page.locator(".tritonlab-help"), "may wait for others")
        lab.shot(f"ext_config_help_{theme}")
    (lab.jupyter.notebooks / "config.pbtxt").write_text(CONFIG.partition("\n")[2] + "backend: 3")
    lab.page.evaluate("window.jupyterapp.commands.execute('docmanager:open', {path: 'config.pbtxt'})")
    lab.page.locator(".jp-FileEditor .cm-line span", has_text="max_batch_size").wait_for()
    lab.page.locator(".jp-FileEditor .cm-lintRange-error", has_text="3").wait_for()
    file = lab.page.locator(".jp-FileEditor .cm-content")
    file.click()
    lab.page.keyboard.press("Control+End")
    lab.page.keyboard.type("\ndynamic_batching { preserve")
    lab.page.keyboard.press("Tab")
    offered = lab.page.locator(".jp-Completer:visible")
    lab.wait_text(offered, "preserve_ordering:")
    lab.page.keyboard.press("Enter")
    lab.wait_text(file, "dynamic_batching { preserve_ordering: ")
    lab.page.keyboard.press("Tab")
    lab.wait_text(offered, "true")
    lab.shots("ext_pbtxt_file")
    assert lab.errors == []
