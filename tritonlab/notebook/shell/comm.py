"""The kernel's end of the JupyterLab extension: one comm for each window, messages of JSON both ways, no port.

A window sends `{"id": 7, "do": "export", "with": {…}}` and gets `{"id": 7, "ok": …}` or `{"id": 7, "error": …}`, before
that `{"id": 7, "progress": …}` from a long call; `comm_calls.CALLS` lists the calls. Without a call it gets `{"hello":
…}` and, at every change, `{"models": […]}`; while a debugger waits for a line, `{"typing": true}`, which it answers
with a call of that name. `extension/src/protocol.ts` is the other half, with the same `PROTOCOL`.
"""

from __future__ import annotations

import contextvars
import importlib
import importlib.util
import inspect
import linecache
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ...core.plain_facts import JsonAnswer, Tell
from ...core.status import ModelError, TritonError
from ...core.version import VERSION
from ...tool_table import window_call
from ..authoring.draft import Draft
from ..authoring.workspace import Workspace
from ..views.card.model_facts import MOVING, current_facts
from ..views.card.model_states import ModelStates
from ..views.kernel_status import kernel_status
from .comm_calls import CALLS

#: Changes with the meaning of a message; a window with another number reports that and sends no calls.
PROTOCOL = 3
TARGET = "tritonlab"

#: The place in the file that Python adds to a SyntaxError's text; the cell's line is shown instead.
_PLACE = re.compile(r" \(\S+, line \d+\)$")


class Windows:
    """The open comms of a kernel, about the models of `workspace`.

    Guarantees: a call is answered while a cell runs and while others are still being answered, since each has a thread
    of its own; `follow` may be called again and again.
    """

    def __init__(self, workspace: Callable[[], Workspace]) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()  # guards everything below
        self._open: dict[str, Window] = {}
        self._followed: ModelStates | None = None
        self._cells: CellStates | None = None

    def opened(self, comm: Any, message: Any) -> None:
        """Add a window. The comm manager calls this when a window opens a comm."""
        kernel_status.keep_busy(message)
        window = Window(comm, self._answer)
        with self._lock:
            self._open[comm.comm_id] = window
        comm.on_close(lambda message: self._closed(comm.comm_id))
        window.send({"hello": {"protocol": PROTOCOL, "version": VERSION}})
        workspace = self._workspace()
        self.follow(workspace)
        # the store's thread sends the models: sent here they might come after newer ones
        ModelStates.for_server(workspace.server).poke("")

    def follow(self, workspace: Workspace) -> None:
        """Send the windows, if there are any, the models of this workspace from now on, and of no others."""
        with self._lock:
            before = self._followed
            self._followed = ModelStates.for_server(workspace.server) if self._open else None
            now = self._followed
        if before is not now:
            if before is not None:
                before.leave(self._look)
            if now is not None:
                workspace.changed = now.poke
                now.follow(self._look)

    def request_prompt(self, waits: bool) -> int:
        """Ask the windows whether they show a box for a line of input, to which they answer with the call `typing`; or
        report that the kernel does not wait for a line any more. Return the number of windows.
        """
        with self._lock:
            windows = list(self._open.values())
        for window in windows:
            window.send({"typing": waits})
        return len(windows)

    def _closed(self, comm_id: str) -> None:
        with self._lock:
            self._open.pop(comm_id, None)
        self.follow(self._workspace())

    def _states(self, workspace: Workspace) -> CellStates:
        with self._lock:
            if self._cells is None or self._cells.workspace is not workspace:
                self._cells = CellStates(workspace)
            return self._cells

    def _look(self) -> bool:
        """Send the windows the changes; return True while a model is being loaded or unloaded. The store calls this
        when something may have changed.
        """
        with self._lock:
            windows = list(self._open.values())
        states = self._states(self._workspace())
        models = states.now()
        for window in windows:
            window.tell(models)
        return states.moving

    def _answer(self, do: str, arguments: Mapping[str, Any], tell: Tell) -> JsonAnswer:
        try:
            call = CALLS.get(do) or window_call(do)
        except KeyError:
            raise ValueError(f"tritonlab {VERSION} has no call {do!r}") from None
        tells = {"tell": tell} if "tell" in inspect.signature(call).parameters else {}
        return call(self._workspace(), **arguments, **tells)


class Window:
    """One comm. `answer(do, given, tell)` handles a call and may raise."""

    def __init__(self, comm: Any, answer: Callable[[str, Mapping[str, Any], Tell], JsonAnswer]) -> None:
        self._comm = comm
        self._answer = answer
        self._sent: JsonAnswer = None
        # ipykernel 7.4 serves the window's next message where the kernel last sent from. With the parent of the opening
        # message that is the window's subshell, from any thread; otherwise it would be the main thread, and a call
        # would wait for the running cell.
        self._context = contextvars.copy_context()
        comm.on_msg(self._received)

    def send(self, content: Mapping[str, Any]) -> None:
        self._context.copy().run(self._comm.send, dict(content))

    def tell(self, models: JsonAnswer) -> None:
        """Send the models if they differ from the last ones sent to the window."""
        if models != self._sent:
            self._sent = models
            self.send({"models": models})

    def _received(self, message: Any) -> None:
        kernel_status.keep_busy(message)
        data = message["content"]["data"]
        threading.Thread(target=self._serve, args=(data,), name="tritonlab extension", daemon=True).start()

    def _serve(self, call: Mapping[str, Any]) -> None:
        def tell(facts: JsonAnswer) -> None:
            self.send({"id": call.get("id"), "progress": facts})

        try:
            answer = {"ok": self._answer(call["do"], call.get("with") or {}, tell)}
        except Exception as error:
            kind = error.code.name if isinstance(error, TritonError) else type(error).__name__
            answer = {"error": {"kind": kind, "text": str(error) or type(error).__name__}}
        self.send({"id": call.get("id"), **answer})


def listen(workspace: Callable[[], Workspace]) -> Windows:
    """Allow windows to open comms to this kernel. Does nothing in Colab, which has no `comm`."""
    windows = Windows(workspace)
    if importlib.util.find_spec("comm") is not None:
        importlib.import_module("comm").get_comm_manager().register_target(TARGET, windows.opened)
    return windows


class CellStates:
    """The models of one workspace and their cells.

    Guarantees: any thread may call it; the result stays equal as long as nothing has changed.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        #: whether a model is changing
        self.moving = False
        #: the cell of a model's last good load
        self._served: dict[str, str] = {}

    def now(self) -> list[dict[str, Any]]:
        """Return one dict for each model: its `name`, `version`, `state` and `reason`; `cell`, the text of the cell of
        its last load or attempt; `served`, the text of the cell that serves; and `error`, the `text` of the last load's
        error and the `line` of `cell`. Texts are "" and None if no cell is known."""
        models = [self._facts(name) for name in self.workspace.names()]
        self.moving = any(model["state"] in MOVING for model in models)
        return models

    def _facts(self, name: str) -> dict[str, Any]:
        facts = current_facts(self.workspace, name)
        draft, report = self.workspace.draft(name), self.workspace.report(name)
        cell = cell_text(draft)
        error = None
        if facts.state != "LOADING" and report is not None:
            if report.error is not None:
                error = {"text": _first_line(report.error), "line": _cell_line(draft, report.error)}
            elif report.ready_at:
                self._served[name] = cell
        return {
            "name": name,
            "version": facts.version,
            "state": facts.state,
            "reason": facts.reason,
            "cell": cell,
            "served": self._served.get(name, "") if facts.state != "FAILED" else "",
            "error": error,
        }


def cell_text(draft: Draft) -> str:
    """Return the cell of the model's source, as its author wrote it; "" if the source is from elsewhere."""
    origin = _origin(draft)
    lines = linecache.getlines(origin) if origin else []
    first = next((number for number, line in enumerate(lines) if line.startswith("#%%")), None)
    if first is None:
        return ""
    # the magic is kept as a comment, see `running_body`
    last = next(number for number in range(first, len(lines)) if not lines[number].rstrip().endswith("\\"))
    return "".join([*lines[:first], *(line[1:] for line in lines[first : last + 1]), *lines[last + 1 :]])


def _origin(draft: Draft) -> str:
    segments = draft.source.segments if draft.source is not None else ()
    return segments[0].origin if segments else ""


def _first_line(error: BaseException) -> str:
    exception = error.exception if isinstance(error, ModelError) else None
    text = str(exception or error).strip().partition("\n")[0] or type(error).__name__
    return _PLACE.sub("", text) if exception is not None and exception.detail else text


def _cell_line(draft: Draft, error: BaseException) -> int | None:
    """Return the line of the model's cell that the error names, the innermost one."""
    exception = error.exception if isinstance(error, ModelError) else None
    origin = _origin(draft)
    if exception is None or not origin:
        return None
    if exception.detail.get("filename") == origin and exception.detail.get("lineno"):
        return int(exception.detail["lineno"])
    return next((frame.line for frame in reversed(exception.frames) if frame.file == origin), None)
