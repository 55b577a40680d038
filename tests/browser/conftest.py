"""A real JupyterLab in a real Chromium for the tests, isolated from the machine's settings and from the network.

One page serves test after test, in either theme: to load JupyterLab takes 6.5 s of processor time, to open a notebook
in it 0.6 s (measured with Chromium 142 and JupyterLab 4.5, November 2026). Where a test needs another page, it shares
the cache of those before.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import expect, sync_playwright

from tests import kernels
from tests.test_makefile import QUIET

#: The first draws the same pages without the window of a browser around them, and takes a quarter less of a processor.
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for path in map(shutil.which, _BROWSERS) if path), None)
ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
#: Whether pictures are taken. They are for people, and in CI nobody looks at them.
TAKES_PICTURES = "CI" not in os.environ
#: Longest that a test waits for a page, in seconds: CI runs other tests beside these.
PATIENCE = 60.0
#: Longest that JupyterLab takes to start, once a run; with thirty processes on two cores it took more than a minute.
START_PATIENCE = 150.0
#: Milliseconds between two looks at a page: at every frame, the default, they take ten times the processor.
POLLING = 100
#: The module and the application of JupyterLab, and of Notebook 7.
LAB, NOTEBOOK = ("jupyterlab", "LabApp"), ("notebook", "JupyterNotebookApp")
#: Planets that move while a page loads or changes its theme: 0.3 s of processor time.
SPLASH = "@jupyterlab/apputils-extension:splash"
_THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
#: No name but this machine's address is found. A page's own route would do, too, but it asks Python about each request:
#: 0.3 s of processor time for each JupyterLab that is loaded.
CHROMIUM_FLAGS = [
    *("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

#: Draws what moves ten times a second: without a GPU each frame takes the processor. A frame that is not requested by
#: the one before comes as ever, and so does each while `everyFrame` is true.
FRAMES = """(() => {
    const [request, cancel] = [requestAnimationFrame.bind(window), cancelAnimationFrame.bind(window)];
    let moves = false;
    const draw = callback => time => {
        moves = true;
        try {
            callback(time);
        } finally {
            moves = false;
        }
    };
    window.requestAnimationFrame = callback => moves && !window.everyFrame
        ? -setTimeout(() => draw(callback)(performance.now()), 100)
        : request(draw(callback));
    window.cancelAnimationFrame = number => number < 0 ? clearTimeout(-number) : cancel(number);
})()"""

expect.set_options(timeout=PATIENCE * 1000)


@dataclass
class JupyterServer:
    url: str
    notebooks: Path
    settings: Path
    #: The theme of pages that are loaded from now on.
    theme_name: str = "light"

    def write(self, name: str, cells: list[str]) -> None:
        """Write a notebook of code cells."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.notebooks / name)

    def theme(self, name: str) -> None:
        """Set the theme of pages that are opened from now on."""
        folder = self.settings / "@jupyterlab" / "apputils-extension"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "themes.jupyterlab-settings").write_text(json.dumps({"theme": _THEMES[name]}))
        self.theme_name = name

    def disable(self, *extensions: str) -> None:
        """Disable extensions, and no others, in pages that are loaded from now on."""
        file = self.settings.parent / "config" / "labconfig" / "page_config.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"disabledExtensions": dict.fromkeys((*extensions, SPLASH), True)}))


def python_path() -> str:
    """Return the path for programs that import tritonlab from these sources."""
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


#: What the tests of this folder share, by name. It ends with the last of them: Playwright keeps an event loop running
#: in this thread, where other tests call asyncio.run(), and others count processes and descriptors. A fixture of scope
#: "package" would live as long as the session, because the folder is not a package.
_shared: dict[str, Any] = {}
_ends = contextlib.ExitStack()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    try:
        return (yield)
    finally:
        if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
            _shared.clear()
            _ends.close()


def _share(name: str, start: Callable[[], contextlib.AbstractContextManager[Any]]) -> Any:
    if name not in _shared:
        _shared[name] = _ends.enter_context(start())
    return _shared[name]


@pytest.fixture(scope="module")
def jupyter(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> JupyterServer:
    server: JupyterServer = _share("jupyter", lambda: serving(tmp_path_factory.mktemp("jupyter")))
    return server


@contextmanager
def serving(base: Path, prefix: str = "", app: tuple[str, str] = LAB) -> Iterator[JupyterServer]:
    """Run a JupyterLab, or another `app` of its kind, with all its files below `base` and its addresses below
    `prefix`.
    """
    module, name = app
    environment = {**os.environ, "PYTHONPATH": python_path()}
    environment |= {f"JUPYTER_{kind}_DIR": str(base / kind.lower()) for kind in ("CONFIG", "DATA")}
    environment["JUPYTER_RUNTIME_DIR"] = runtime = kernels.runtime_directory()
    environment |= {f"JUPYTERLAB_{kind}_DIR": str(base / kind.lower()) for kind in ("SETTINGS", "WORKSPACES")}
    environment["IPYTHONDIR"] = str(base / "ipython")
    notebooks, settings = base / "notebooks", base / "settings"
    notebooks.mkdir()
    command = [sys.executable, "-m", module, "--no-browser", "--allow-root", "--port=0"]
    command += ["--ip=127.0.0.1", "--IdentityProvider.token=", f"--{name}.expose_app_in_browser=True"]
    command += [kernels.OPTION, f"--ServerApp.root_dir={notebooks}", f"--ServerApp.base_url={prefix or '/'}"]
    (base / "app_settings").mkdir()
    (base / "app_settings" / "overrides.json").write_text(json.dumps(QUIET))
    command += [f"--{name}.app_settings_dir={base / 'app_settings'}"]
    # the bundle of these sources, whatever is installed
    (base / "labextensions").mkdir()
    (base / "labextensions" / "tritonlab").symlink_to(ROOT / "tritonlab" / "labextension")
    # under Notebook 7 it is JupyterLab, an extension of the same server, that sends the files
    command += [f"--{each}.extra_labextensions_path={base / 'labextensions'}" for each in {name, "LabApp"}]
    with open(base / "server.log", "wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=notebooks)
    try:
        port = _port_once_up(Path(runtime, f"jpserver-{process.pid}.json"), prefix, process, base / "server.log")
        server = JupyterServer(f"http://127.0.0.1:{port}{prefix}", notebooks, settings)
        server.theme("light")
        server.disable()
        yield server
    finally:
        _end(process)


def _port_once_up(found: Path, prefix: str, process: subprocess.Popen[bytes], log: Path) -> int:
    """Wait until the server answers and return the port that it has chosen, which it writes to a file."""
    deadline = time.monotonic() + START_PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            port = int(json.loads(found.read_text())["port"])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{prefix}/api", timeout=PATIENCE):
                return port
        except (OSError, ValueError):  # not there, half written, or not listening yet
            time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server with its kernels, which it waits for as long as they like."""
    kernels = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        for kernel in kernels:
            with contextlib.suppress(psutil.NoSuchProcess):
                kernel.kill()


@pytest.fixture(scope="module")
def chromium() -> Any:
    if CHROMIUM is None:
        # in CI a browser test that does not run proves nothing
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no chromium on this machine")
    return _share("chromium", _running_chromium)


@contextmanager
def _running_chromium() -> Iterator[Any]:
    with sync_playwright() as api:
        browser = api.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


#: The size of a page, in pixels.
_SIZE = {"width": 1280, "height": 900}
#: Opens a notebook in a page that shows nothing else.
_OPEN = """async path => {
    const { commands, shell } = window.jupyterapp;
    const opened = await commands.execute('docmanager:open', { path });
    for (const other of [...shell.widgets('main')]) if (other !== opened) other.dispose();
}"""
#: Changes the theme, as the menu does.
_CHANGE_THEME = """async theme => {
    await window.jupyterapp.commands.execute('apputils:change-theme', { theme });
    while (document.body.dataset.jpThemeName !== theme) await new Promise(requestAnimationFrame);
}"""
#: Closes all that was opened, and returns what else the next test would find. No question is asked about changes.
_CLOSE = """async () => {
    const { commands, shell } = window.jupyterapp;
    for (const widget of [...shell.widgets('main')]) widget.dispose();
    shell.activateById('filebrowser');
    shell.collapseRight();
    const toasts = () => [...document.querySelectorAll('.Toastify__toast')];
    for (const { id } of toasts()) await commands.execute('apputils:dismiss-notification', { id });
    for (let frame = 0; toasts().length && frame < 100; frame++) await new Promise(requestAnimationFrame);
    const left = [...shell.widgets('left')].filter(widget => widget.isVisible).map(widget => widget.id);
    const over = document.querySelectorAll('.jp-Dialog, .Toastify__toast, .lm-Menu').length;
    const sides = [...shell.widgets('down'), ...shell.widgets('right')].filter(widget => widget.isVisible).length;
    return `${left} ${sides} ${over} ${document.body.dataset.jpThemeName}`;
}"""


class Lab:
    """One notebook open in one page. `foreign` lists addresses outside this machine that the page requested, `errors`
    what the page threw, `console` what it wrote to the browser's console as errors.
    """

    def __init__(self, jupyter: JupyterServer, page: Any) -> None:
        self.jupyter = jupyter
        self.page = page
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self.console: list[str] = []
        #: Whether another test may use the page; one that changes what `close` does not see says no.
        self.reusable = True
        self._loads = 0
        #: The theme of the JupyterLab that `load` loaded; "" before.
        self._theme = ""
        page.on("console", lambda line: self.console.append(line.text) if line.type == "error" else None)
        page.on("request", self._note_request)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("domcontentloaded", self._count_load)

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith((self.jupyter.url, "data:", "blob:")):
            self.foreign.append(request.url)

    def _count_load(self, page: Any) -> None:
        self._loads += 1

    def open(self, name: str) -> None:
        """Open a notebook, alone in the page: in the JupyterLab that is there, or in a new one."""
        if self._theme and not self._loads:
            if self._theme != self.jupyter.theme_name:
                self.change_theme(self.jupyter.theme_name)
            self.page.evaluate(_OPEN, name)
        else:
            self.load(f"{Path(name).stem}/tree/{name}")
        self.wait_until_idle()

    def load(self, address: str) -> None:
        """Load JupyterLab at an address that begins with a workspace; in one of another test, its tabs come back."""
        self.page.goto(f"{self.jupyter.url}/lab/workspaces/{address}")
        self._theme = self.jupyter.theme_name
        self._loads = 0

    def reload(self) -> None:
        """Load the page again, which opens what was open."""
        self.page.reload()
        self._loads = 0

    def themes(self) -> Iterator[str]:
        """Set each theme in the page, one after the other, and return its name; at the end the first is set again."""
        first = self.jupyter.theme_name
        for theme in (first, *(other for other in _THEMES if other != first)):
            if theme != first:
                self.change_theme(theme)
            yield theme
        self.change_theme(first)

    def change_theme(self, theme: str, change: str = _CHANGE_THEME) -> None:
        self.page.evaluate(change, _THEMES[theme])
        if self._theme:
            self._theme = theme

    def close(self) -> bool:
        """Close what the test opened; return whether the page is as JupyterLab is after it was loaded."""
        if not (self.reusable and self._theme and not self._loads and not self.page.is_closed()):
            return False
        if self.page.context.pages != [self.page]:
            return False
        self.page.set_viewport_size(_SIZE)
        return bool(self.page.evaluate(_CLOSE) == f"filebrowser 0 0 {_THEMES[self._theme]}")

    def begin(self) -> None:
        """Forget what an earlier test met."""
        self.foreign, self.errors, self.console = [], [], []

    def wait_until_idle(self) -> None:
        """Wait until the current notebook's kernel is idle and connected."""
        # the status line says idle before the kernel's socket is open, and a key press would be lost
        self.page.wait_for_function(
            """() => {
                const kernel = window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel;
                return kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
            }""",
            timeout=PATIENCE * 1000,
            polling=POLLING,
        )

    def start(self, index: int) -> Any:
        """Start the cell, and do not wait."""
        cell = self.cell(index)
        editor = cell.locator(".cm-content").first
        editor.click()
        # the number of an earlier run is not this one's
        cell.locator(".jp-InputArea-prompt").evaluate("prompt => (prompt.textContent = '')")
        editor.press("Control+Enter")
        return cell

    def run(self, index: int, timeout: float = PATIENCE) -> Any:
        """Run the cell, wait for its end, and return its output area."""
        cell = self.start(index)
        expect(cell.locator(".jp-InputArea-prompt")).to_have_text(re.compile(r"\[\d+\]"), timeout=timeout * 1000)
        return cell.locator(".jp-OutputArea").first

    def until(self, locator: Any, condition: str) -> None:
        """Wait until JavaScript finds that it holds for the element, which may be drawn again meanwhile."""
        deadline = time.monotonic() + PATIENCE
        while not locator.evaluate(condition):
            assert time.monotonic() < deadline, (
                f"{condition} did not come true of {locator.evaluate('e => e.outerHTML')}"
            )
            self.page.wait_for_timeout(50)

    def save(self) -> None:
        """Save the notebook, and wait until it is written; a live view may have changed it again by then."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")

    def wait_text(self, locator: Any, text: str) -> None:
        """Wait until the element's text contains `text`; the element may be drawn again meanwhile."""
        try:
            locator.first.filter(has_text=text).wait_for()
        except PlaywrightTimeout:
            there = locator.first.inner_text() if locator.count() else "nothing"
            raise AssertionError(f"{text!r} did not come; there is:\n{there}") from None

    def cell(self, index: int) -> Any:
        return self.page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{index}']")

    def scroll_to(self, locator: Any) -> None:
        """Bring the element into sight; it may be drawn again at that moment, which Playwright's own way refuses."""
        locator.evaluate("element => element.scrollIntoViewIfNeeded()")

    def shot(self, name: str, scroll_to: Any = None) -> None:
        if scroll_to is not None:
            self.scroll_to(scroll_to)
        if not TAKES_PICTURES:
            return
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(SCREENSHOTS / f"{name}.png"))

    def shots(self, name: str, scroll_to: Any = None) -> None:
        """Take a picture in each theme."""
        for theme in self.themes():
            self.shot(f"{name}_{theme}", scroll_to)


@pytest.fixture(params=["light"])
def theme(request: Any, jupyter: JupyterServer) -> str:
    """Return JupyterLab's theme, which it sets: light, unless the test asks for the dark one or for both, with
    `indirect`.
    """
    jupyter.theme(request.param)
    return str(request.param)


@pytest.fixture
def view_of(lab: Lab, theme: str) -> Iterator[Callable[..., Any]]:
    """Open a notebook of these cells; the first makes a model and the second shows a view, which is returned."""

    def opened(kind: str, *cells: str) -> Any:
        name = f"{kind}_{theme}.ipynb"
        lab.jupyter.write(name, ["%load_ext tritonlab", *cells])
        lab.open(name)
        lab.run(0)
        lab.run(1)
        view = lab.run(2).locator(".tl-view")
        view.locator("canvas, .tl-graph").first.wait_for()
        return view

    yield opened
    assert (lab.foreign, lab.errors) == ([], [])


class Pages:
    """The page that is used by test after test, while it is as new."""

    def __init__(self, jupyter: JupyterServer, chromium: Any) -> None:
        self._jupyter = jupyter
        self._chromium = chromium
        self._kept: Lab | None = None
        #: Of all pages until a test fails: what JupyterLab consists of is in its cache, compiled.
        self._context: Any = None

    def lend(self, request: pytest.FixtureRequest) -> Iterator[Lab]:
        """Yield a page for one test."""
        lab, failed = self.take(), request.session.testsfailed
        yield lab
        self.give_back(lab, passed=request.session.testsfailed == failed)

    def take(self) -> Lab:
        """Return the page that was given back, or a new one."""
        lab, self._kept = self._kept, None
        if lab is None:
            self._jupyter.theme(self._jupyter.theme_name)  # a page may have set another
            self._context = self._context or new_context(self._chromium)
            lab = Lab(self._jupyter, self._context.new_page())
        lab.begin()
        return lab

    def give_back(self, lab: Lab, passed: bool) -> None:
        """Take a page after a test, and end what the test has started."""
        context = lab.page.context
        context.clear_permissions()
        if passed and lab.close():
            self._kept = lab
        else:
            for page in context.pages:
                page.close()
        _end_kernels(self._jupyter, context)
        if not passed:
            self.close()

    def close(self) -> None:
        """Close all pages."""
        if self._context is not None:
            self._context.close()
        self._context = self._kept = None


def new_context(chromium: Any) -> Any:
    """Return a context of the browser, without cookies and permissions, for pages of the usual size."""
    context = chromium.new_context(viewport=_SIZE)
    context.set_default_timeout(PATIENCE * 1000)
    context.add_init_script(FRAMES)
    return context


@pytest.fixture(scope="module")
def pages(jupyter: JupyterServer, chromium: Any) -> Pages:
    pages: Pages = _share("pages", lambda: contextlib.nullcontext(Pages(jupyter, chromium)))
    return pages


@pytest.fixture
def lab(pages: Pages, request: pytest.FixtureRequest) -> Iterator[Lab]:
    yield from pages.lend(request)


def _end_kernels(jupyter: JupyterServer, context: Any) -> None:
    """End what the test has started: eighty kernels and their stubs would take all memory by the end of the run."""
    sessions = f"{jupyter.url}/api/sessions"
    cookies = {cookie["name"]: cookie["value"] for cookie in context.cookies(jupyter.url)}
    for session in context.request.get(sessions, timeout=PATIENCE * 1000).json():
        token = {"X-XSRFToken": cookies["_xsrf"]}
        answer = context.request.delete(f"{sessions}/{session['id']}", headers=token, timeout=PATIENCE * 1000)
        assert answer.ok or answer.status == 404, answer.text()  # 404: it has ended meanwhile
