"""The parts of a subcommand of `%triton`: its context, and the texts that it returns, for people and programs."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from ...core.explained import Explained
from ...core.plain_facts import few_lines, plain
from ...core.status import NotFoundError
from ...server.observe.why import Reason, failed_load
from ..authoring.workspace import Workspace
from ..model import Model
from ..views.theme import stored_html

if TYPE_CHECKING:
    from ...server.api.model import Model as ServedModel


@dataclass(frozen=True)
class Context:
    """The shell and the workspace of a subcommand."""

    shell: Any
    workspace: Workspace
    #: whether the cell shows only JSON
    json: bool = False

    def model(self, name: str) -> Model:
        """Return the loaded model. Raises the client's NotFoundError for a model that is not loaded, with the error of
        its last load by a cell.
        """
        model = Model(self.workspace.server, name, workspace=self.workspace)
        try:
            model.config()
        except NotFoundError as error:
            reason = failed_load_of(self.workspace, name)
            if reason is None:
                raise
            raise NotFoundError("\n".join([f"{error.message}:", *reason.all_lines()])) from None
        return model

    def check_known(self, name: str | None) -> None:
        """Raise as `model` does if neither the notebook nor its server has a model of this name."""
        if name is not None and name not in self.workspace.names():
            self.model(name)


def failed_load_of(workspace: Workspace, name: str) -> Reason | None:
    """Return the error of a model's last load by a cell, which the server may never have received."""
    report = workspace.report(name)
    error = report.error if report is not None else None
    if report is None or not isinstance(error, Exception) or not isinstance(error, Explained):
        return None
    return failed_load(name, error, serves=bool(report.ready_at)).cited(workspace.shell.cite)


def bind(shell: Any, model: ServedModel) -> str:
    """Bind the model to a variable of its name. If the name cannot be a variable, or has another value, return the
    reason and how to get the model."""
    name = model.name
    holds = shell.user_ns.get(name)
    if not name.isidentifier() or iskeyword(name):
        why = f"no variable can be called {name!r}"
    elif holds is not None and type(holds) is not type(model):
        why = f"the variable {name!r} holds something else"
    elif holds is None and hasattr(builtins, name):  # otherwise `print` would be a model from here on
        why = f"the variable {name!r} is Python's own"
    else:
        shell.user_ns[name] = model
        return ""
    return f"{why}; the model is tritonlab.default_server().model({name!r})"


class Text:
    """A text that a cell shows as it is, and the facts in it: `facts`, or the text itself.

    A program that reads the output gets the first lines; a person in a browser all of them.
    """

    def __init__(self, text: str, facts: Mapping[str, Any] | None = None) -> None:
        self.text = text
        self._facts = facts

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(self._facts if self._facts is not None else {"text": self.text})
        return found

    def __repr__(self) -> str:
        text = few_lines(self.text)
        return text if text == self.text else f"{text}: print(_.text) shows them"

    def _repr_html_(self) -> str | None:
        """Return a long text whole; a short one is shown as it is."""
        if repr(self) == self.text:
            return None
        return stored_html(f"<div class='tl-panel'><pre class='tl-lines'>{escape(self.text)}</pre></div>")


class MarkdownText(Text):
    """A text in Markdown, which a notebook renders."""

    def _repr_html_(self) -> str | None:
        return None

    def _repr_markdown_(self) -> str:
        return self.text


class JsonFacts(dict[str, Any]):
    """The result of `--json`: a dict whose text is JSON, on one line."""

    @staticmethod
    def from_result(result: Any) -> JsonFacts:
        """Return the facts of a subcommand's result; an empty dict for None."""
        return JsonFacts(plain(result) if result is not None else {})

    def __repr__(self) -> str:
        return json.dumps(self, ensure_ascii=False, allow_nan=False)
