"""`LiveView`, the base of all live views in a notebook: one Python class, one ES module, and a static form without a
kernel. The modules are TypeScript in `extension/src/views`, bundled into `notebook/static/`.

A view is shown as two outputs. The first is its static form, HTML with the same as text, for a saved notebook,
nbconvert and GitHub. It is renewed with `freeze`. The second is the widget, which hides the first while it lives. They
cannot be one output: JupyterLab (4.6 with jupyterlab_widgets 3.0.17) writes "Error displaying widget: model not found"
for the widget of a kernel that is gone, even if its output has other content. A style hides that line, so that a
reopened notebook shows only the static form. The rule is in the extension's sheet and, for a JupyterLab without our
extension that trusts the notebook, in a link within each static form: unlike <style>, which GitHub shows as text, a
link shows no words if it has no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import importlib
import importlib.util
import threading
import uuid
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from ...core.plain_facts import few_lines
from ...core.process_bound import ProcessBound
from ...tool_table import installed_tools
from .kernel_status import kernel_status
from .theme import STATIC, stored_html

#: The comm for requests of views while a cell runs (`base.ts`).
_TARGET = "tritonlab.view"
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

#: Hides the output after a static form until a widget is drawn in it.
_HIDES = ".jp-OutputArea-child:has(.tl-static)+*:has(>.lm-Panel):not(:has(>.lm-Panel>*)){display:none}"
_LINK = f"<link rel='stylesheet' href='data:text/css,{quote(_HIDES, safe='.:()*,')}'>"

#: Seconds after which the view of a waiting cell is shown. Most loads take 30 to 100 ms.
_PATIENCE = 0.3

#: The most views of one subject, or else of one class, whose live form stays open. ipywidgets keeps each until it
#: is closed, and nothing reports that its cell ran again.
_LIVING = 8

#: The views to which the browser may send requests, by id.
_views: weakref.WeakValueDictionary[str, LiveView] = weakref.WeakValueDictionary()
#: The last shown view of each subject.
_latest: weakref.WeakValueDictionary[Hashable, LiveView] = weakref.WeakValueDictionary()
#: The views with an open live form, the oldest first.
_living: list[LiveView] = []
_living_lock = threading.Lock()  # guards the list


class LiveView(ProcessBound):
    """The base of the views of a frontend. Subclasses set `MODULE` and define `text`, `html` and `on_message`.

    `state`: JSON; the module reads it as the trait `state`. Guarantees: every method may be called from any thread, and
    `on_message` comes on any: the main thread, or one of a subshell while a cell runs.
    """

    #: a file of `notebook/static/`, whose default export is anywidget's `{ render }`
    MODULE: ClassVar[str]
    _elsewhere = "pickle its `to_dict()`"

    def __init__(self, **state: Any) -> None:
        self.id = uuid.uuid4().hex[:12]
        self._state = state
        self._lock = threading.Lock()  # guards the next two and _state
        self._widget: Any = None
        self._is_shown = False
        self._fixed = False
        self._output = self.id  # the display id of its last output
        #: called when the static form is renewed; set by the card that shows this view below its buttons
        self.frozen: Callable[[], object] = lambda: None
        _views[self.id] = self

    # -- for subclasses

    def text(self) -> str:
        """Return the facts in words, for terminals and programs, which get 40 lines at most."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as JSON values, under stable keys; by default only the text."""
        return {"text": self.text()}

    @property
    def subject(self) -> Hashable | None:
        """The subject of the view, or None. When another view of the same subject is shown, the static form of this
        one no longer changes, so that each cell keeps the state at its time.
        """
        return None

    def html(self) -> str:
        """Return the static form. It uses classes of `theme.css`, and also reads well without any style."""
        raise NotImplementedError

    def on_message(self, content: Mapping[str, Any]) -> None:
        """Handle `content`: the module has called `send(model, content)`."""

    # -- for users of a view

    @property
    def state(self) -> dict[str, Any]:
        return dict(self._state)

    def update(self, **state: Any) -> None:
        """Change fields of the state in all views of it; unchanged fields are not sent."""
        with self._lock:
            if any(self._state.get(name, self) != value for name, value in state.items()):
                self._state = {**self._state, **state}
                if self._widget is not None:
                    self._widget.state = self._state

    def send(self, content: Mapping[str, Any], buffers: Sequence[bytes] = ()) -> None:
        """Send a message to the module: `model.on("msg:custom", (content, buffers) => …)`. Not for later views."""
        widget = self._widget
        if widget is not None:
            widget.send(dict(content), list(buffers))

    def freeze(self) -> None:
        """Renew the static form in its last output, unless it is fixed."""
        self.frozen()
        if self._is_shown and not self._fixed:
            _display(self._bundle(), display_id=self._output, update=True)

    def fix(self) -> None:
        """Keep the static form unchanged; the live form goes on."""
        self._fixed = True

    def close(self) -> None:
        """End the live form; the static form is visible from then on."""
        with self._lock:
            widget, self._widget = self._widget, None
        with _living_lock:
            _living[:] = [view for view in _living if view is not self]
        self.freeze()
        if widget is not None:
            close_widget(widget)

    @property
    def widget(self) -> Any:
        """Return the AnyWidget of this view, made at the first use; None if anywidget is not installed."""
        with self._lock:
            if self._widget is None and importlib.util.find_spec("anywidget") is not None:
                _listen()
                self._widget = _widget_class(self.MODULE)(state=self._state, view=self.id)
                self._widget.own_id = self._widget.model_id
                self._widget.on_msg(lambda widget, content, buffers: self.on_message(content))
            return self._widget

    def show(self, around: Any = None) -> None:
        """Display both forms. `around`: a widget that holds this one's, to be shown in its place."""
        if self._is_shown:
            self._output = uuid.uuid4().hex[:12]  # the earlier output keeps its moment
        if (subject := self.subject) is not None:
            before, _latest[subject] = _latest.get(subject), self
            if before is not None:
                before.fix()
        self._fixed = False
        _display(self._bundle(), display_id=self._output)
        self._is_shown = in_kernel()  # a terminal would print it again
        widget = around or (self.widget if self._is_shown else None)
        if widget is not None:
            show_widget(widget)
            _close_old(self)

    def _bundle(self) -> dict[str, Any]:
        return static_form(self.id, repr(self), self.html())

    def _ipython_display_(self) -> None:
        self.show()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return self._bundle()

    def __repr__(self) -> str:
        return few_lines(self.text())


def _close_old(latest: LiveView) -> None:
    """Close the oldest views of the subject of this view, which was just shown, if there are too many."""

    def kind(view: LiveView) -> Hashable:
        return view.subject or type(view).__qualname__

    with _living_lock:
        _living[:] = [*(view for view in _living if view is not latest), latest]
        old = [view for view in _living if kind(view) == kind(latest)][:-_LIVING]
    for view in old:
        view.close()


class SlowDisplay:
    """A view of a long step, shown below the running cell meanwhile, by a thread.

    `show`: returns the view that it has shown, or None.
    """

    def __init__(self, show: Callable[[], LiveView | None]) -> None:
        self._show = show
        self._lock = threading.Lock()  # guards the next two
        self._has_ended = False
        self._displayed: LiveView | None = None
        # a thread displays below the running cell only in the context of that cell
        context = contextvars.copy_context()
        self._timer = threading.Timer(_PATIENCE, context.run, (self._show_meanwhile,))

    def start(self) -> None:
        if in_kernel():
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> LiveView | None:
        """Return the shown view; nothing is shown from now on."""
        self._timer.cancel()
        with self._lock:
            self._has_ended = True
            return self._displayed

    def _show_meanwhile(self) -> None:
        with self._lock:
            if not self._has_ended:
                self._displayed = self._show()


def static_form(view: str, text: str, html: str) -> dict[str, Any]:
    """Return the shown output of a view without a live widget."""
    whole = f"<div class='tl-static tl-static-{view}'>{_LINK}{stored_html(html)}</div>"
    return {"text/plain": text, "text/html": whole}


def show_widget(widget: Any) -> None:
    """Display the live form of a view, below its static form, which has the text of both."""
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    _display({_WIDGET_VIEW: view, "text/plain": "", "text/html": ""})


def show_form(widget: Any, view: str, text: str, html: str, output: str) -> None:
    """Display widgets of ipywidgets with a static form; one of them calls `goLive` of `base.ts`. `output`: the display
    id of the static form, for `renew_form`.
    """
    _display(static_form(view, text, html), display_id=output)
    if in_kernel():
        show_widget(widget)


def renew_form(output: str, view: str, text: str, html: str) -> None:
    """Show another static form in an output of `show_form`."""
    if in_kernel():
        _display(static_form(view, text, html), display_id=output, update=True)


def in_kernel() -> bool:
    """Return whether displays go to a frontend; a terminal would print the repr of a widget."""
    shell = importlib.import_module("IPython").get_ipython()
    return getattr(shell, "kernel", None) is not None


def running_cell() -> str:
    """Return a value that distinguishes the running cell from all others; "" if there is none, as outside a kernel."""
    shell = importlib.import_module("IPython").get_ipython()
    parent = shell.get_parent() if hasattr(shell, "get_parent") else None  # ipykernel's parent header has it
    return str((parent or {}).get("header", {}).get("msg_id", ""))


def close_widget(widget: Any) -> None:
    """Close a widget and its parts, including layout and style: ipywidgets keeps each until it is closed."""
    parts = [widget.layout, *filter(None, [getattr(widget, "style", None)])]
    for child in getattr(widget, "children", ()):
        close_widget(child)
    for part in (widget, *parts):
        part.close()


def import_when_idle() -> None:
    """Make the imports of the first card once the running cell has ended, so that the next cell need not: measured 40
    ms. The kernel's own thread does it, because two threads that import the same packages in different orders may meet,
    and one then fails.
    """
    if in_kernel():
        with contextlib.suppress(RuntimeError):  # raised by a kernel that runs no event loop
            asyncio.get_running_loop().call_soon(_import_widgets)


def _import_widgets() -> None:
    with contextlib.suppress(Exception):  # the first card will work without them, or raise the error again
        for name in ("anywidget", "ipywidgets"):
            importlib.import_module(name)
        installed_tools()  # whose panels the first card offers


def module_text(name: str) -> str:
    """Return a bundled ES module."""
    return (STATIC / name).read_text(encoding="utf-8")


@functools.cache
def _widget_class(module: str) -> Any:
    """Make the class of a widget. A `class` statement would need anywidget at `import tritonlab`."""
    anywidget, traitlets = importlib.import_module("anywidget"), importlib.import_module("traitlets")
    members = {
        "_esm": module_text(module),
        "_css": (STATIC / "theme.css").read_text(encoding="utf-8"),
        "state": traitlets.Dict().tag(sync=True),
        "view": traitlets.Unicode().tag(sync=True),
        #: the model's id, by which the browser finds whether it has a kernel
        "own_id": traitlets.Unicode().tag(sync=True),
    }
    return type(f"LiveView_{Path(module).stem}", (anywidget.AnyWidget,), members)


def _display(bundle: dict[str, Any], **how: Any) -> None:
    importlib.import_module("IPython.display").display(bundle, raw=True, **how)


@functools.cache
def _listen() -> None:
    """Allow views to send requests while a cell runs. Colab has no `comm`."""
    if importlib.util.find_spec("comm") is not None:
        importlib.import_module("comm").get_comm_manager().register_target(_TARGET, _opened)


def _opened(comm: Any, message: Any) -> None:
    kernel_status.keep_busy(message)

    @comm.on_msg  # type: ignore[untyped-decorator]
    def received(message: Any) -> None:
        kernel_status.keep_busy(message)
        data = message["content"]["data"]
        view = _views.get(data["view"])
        if view is not None:
            view.on_message(data["content"])
