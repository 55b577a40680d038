"""`%triton golden`, and the kept requests that are sent again after a model was loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...clients.golden import GoldenReport, GoldenSet
from ...clients.sending import ask, asks_of
from ...core.inference.data_type import DataType
from ...server.api.request_maker import make_tensors
from ..authoring.cells import user_namespace
from ..authoring.errors import ExpressionError, OptionError
from ..authoring.workspace import Workspace

if TYPE_CHECKING:
    from ...server.api.model import Model

#: What `%triton golden` does.
VERBS = ("add", "check", "update")
_USAGE = "%triton golden add NAME INPUT0=expression, … | check [NAME] | update [NAME]"
#: Seconds that the replay after a load may keep the author waiting.
_PATIENCE = 10.0


class GoldenUpdated:
    """The files whose answers have changed."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def to_dict(self) -> dict[str, Any]:
        return {"renewed": [str(path) for path in self.paths]}

    def __repr__(self) -> str:
        return "\n".join(["renewed:", *map(str, self.paths)]) if self.paths else "every answer is as it was"


class GoldenAdded:
    """The file of a new case, and the error that is kept if there was no answer."""

    def __init__(self, path: Path, error: str = "") -> None:
        self.path = path
        self.error = error

    def to_dict(self) -> dict[str, Any]:
        return {"kept": str(self.path), "error": self.error or None}

    def __repr__(self) -> str:
        return f"kept: {self.path}" + f"\nwhat is kept is an error: {self.error}" * bool(self.error)


def golden(workspace: Workspace, line: str) -> GoldenReport | GoldenUpdated | GoldenAdded:
    """Do what `%triton golden <line>` says. Raises OptionError."""
    verb, _, rest = line.strip().partition(" ")
    name, _, inputs = rest.strip().partition(" ")
    suite = GoldenSet(ask=asks_of(workspace.server))
    try:
        if verb in ("check", "update") and not inputs:
            if name:
                workspace.server.model(name).config()  # raises for one that is not loaded
            if verb == "update":
                return GoldenUpdated(suite.update(model=name or None))
            return suite.check(model=name or None)
        if verb == "add" and name:
            model = workspace.server.model(name)
            request = model.create_request(inputs=inputs_of(model, inputs))
            outcome = ask(model, request)
            return GoldenAdded(suite.add(outcome), str(outcome.error or ""))
    except (ValueError, FileExistsError) as error:
        raise OptionError(str(error)) from None
    raise OptionError(_USAGE, fix=_USAGE)


def inputs_of(model: Model, text: str) -> dict[str, Any]:
    """Return the tensors of `INPUT0=expression, …`. Lists are cast without a warning, because no program for Triton
    has this form.

    Raises OptionError.
    """
    inputs = named_values(text)
    types = {entry["name"]: DataType[entry["datatype"]] for entry in model.metadata()["inputs"]}
    return {name: tensor.to_host() for name, tensor in make_tensors(inputs, types).items()}


def named_values(text: str) -> dict[str, Any]:
    """Return the values of `INPUT0=expression, …`. Raises OptionError."""
    try:
        found: dict[str, Any] = eval(f"dict({text})", dict(user_namespace()))
        return found
    except SyntaxError:
        raise OptionError(f"{text!r} is not INPUT0=expression, INPUT1=expression") from None
    except Exception as error:
        raise ExpressionError.from_exception(text, error) from None


def replay(workspace: Workspace, name: str) -> None:
    """Send a model that was just loaded its kept requests, and print the verdict."""
    suite = GoldenSet(ask=asks_of(workspace.server))
    if not (suite.directory / name).is_dir():
        return
    try:
        print(suite.check(model=name, seconds=_PATIENCE))
    except ValueError as error:
        print(f"golden: {error}")
