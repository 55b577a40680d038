"""The marks of the cells of models, as JSON for a window."""

from __future__ import annotations

import linecache
import re
from typing import Any

from ...core.status import ModelError
from ..authoring.draft import Draft
from ..authoring.workspace import Workspace
from ..views.card.model_facts import current_facts

#: States that will not last, so that they are looked at again.
_MOVING = ("LOADING", "UNLOADING", "NOT READY")


#: The place in the file that Python adds to a SyntaxError's text; the cell's line is told instead.
_PLACE = re.compile(r" \(\S+, line \d+\)$")


class CellStates:
    """The models of one workspace and the cells they come from.

    Guarantees: any thread may ask; the answer stays equal as long as nothing has changed.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        #: whether one is on the move
        self.moving = False
        #: the cell that a model was loaded from, the last time that this went well
        self._served: dict[str, str] = {}

    def now(self) -> list[dict[str, Any]]:
        """Return one dict for each model: its `name`, `version`, `state` and `reason`; `cell`, the text of the cell
        that it was last loaded from or tried to be; `served`, the text of the cell that serves; and `error`, the `text`
        of why the last load failed and the `line` of `cell`. Texts are "" and None where no cell is known."""
        models = [self._facts(name) for name in self.workspace.names()]
        self.moving = any(model["state"] in _MOVING for model in models)
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
    """Return the cell that the model's source is from, as its author wrote it; "" if it is from elsewhere."""
    origin = _origin(draft)
    lines = linecache.getlines(origin) if origin else []
    first = next((number for number, line in enumerate(lines) if line.startswith("#%%")), None)
    if first is None:
        return ""
    # the magic is kept as a comment, see `running_body`
    return "".join([*lines[:first], lines[first][1:], *lines[first + 1 :]])


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
