"""The subcommands that send requests to a model: one, kept ones, a load, a check, a profile; and its debugger."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.inference.data_type import DataType
from ...exchanges.golden import GoldenReport, GoldenSet
from ...exchanges.sending import ask, asks_of
from ...server.api.debugging import EditorAttach, follow_pauses
from ...server.api.needed_models import stood_in_words
from ...server.api.request_maker import make_tensors
from ...tools.measure.load_testing.load_tested import smallest_shapes
from ..authoring.cells import user_namespace
from ..authoring.errors import ExpressionError, OptionError
from ..authoring.workspace import Workspace
from ..views.opener import open_load_panel, open_playground
from ..views.widget import in_kernel
from .subcommand import Context

if TYPE_CHECKING:
    from ...record.line_profile import LineProfile
    from ...server.api.model import Model
    from ..views.playground.playground import Playground

#: What `%triton golden` does.
VERBS = ("add", "check", "update")
_GOLDEN_USAGE = "%triton golden add [--error] NAME INPUT0=expression, … | check [NAME] | update [NAME]"
#: Seconds that the replay after a load may keep the author waiting.
_PATIENCE = 10.0
#: The characters of the line that says what a check tries now.
_WIDTH = 110


def infer(context: Context, arguments: argparse.Namespace) -> Any:
    name, _, rest = arguments.rest.strip().partition(" ")
    if not name:
        usage = "%triton infer NAME INPUT0=expression, INPUT1=expression"
        raise OptionError(f"name a model: {usage}", fix=usage)
    model = context.model(name)
    answers = model.infer(inputs=inputs_of(model, rest))
    if context.json:
        return {"responses": list(answers)}
    responses = [{name: tensor.numpy() for name, tensor in response.outputs.items()} for response in answers]
    decoupled = model.config().get("model_transaction_policy", {}).get("decoupled")
    return responses if decoupled or len(responses) != 1 else responses[0]


def playground(context: Context, arguments: argparse.Namespace) -> Playground:
    return open_playground(context.workspace, context.model(arguments.name))


class GoldenUpdated:
    """The files whose answers have changed."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def to_dict(self) -> dict[str, Any]:
        return {"renewed": [str(path) for path in self.paths]}

    def __repr__(self) -> str:
        return "\n".join(["renewed:", *map(str, self.paths)]) if self.paths else "every answer is as it was"


class GoldenAdded:
    """The file of a new case, the error that is kept if there was no answer, and why the answer is not the model's
    own."""

    def __init__(self, path: Path, error: str = "", why_not_real: str = "") -> None:
        self.path = path
        self.error = error
        self.why_not_real = why_not_real

    def to_dict(self) -> dict[str, Any]:
        return {"kept": str(self.path), "error": self.error or None, "why_not_real": self.why_not_real or None}

    def __repr__(self) -> str:
        lines = [f"kept: {self.path}"]
        lines += [f"what is kept is an error: {self.error}"] * bool(self.error)
        lines += [f"what is kept is not the model's own answer: {self.why_not_real}"] * bool(self.why_not_real)
        return "\n".join(lines)


def golden(context: Context, arguments: argparse.Namespace) -> GoldenReport | GoldenUpdated | GoldenAdded:
    """Do what `%triton golden <line>` says. Raises OptionError."""
    workspace = context.workspace
    verb, _, rest = arguments.rest.strip().partition(" ")
    is_error = rest.split()[:1] == ["--error"]
    name, _, inputs = (rest.strip().removeprefix("--error") if is_error else rest).strip().partition(" ")
    server = workspace.server
    suite = GoldenSet(ask=asks_of(server), why_not_real=lambda model: stood_in_words(server.model(model)))
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
            return GoldenAdded(
                suite.add(outcome, error=is_error), str(outcome.error or ""), why_not_real=stood_in_words(model)
            )
    except (ValueError, FileExistsError) as error:
        raise OptionError(str(error)) from None
    raise OptionError(_GOLDEN_USAGE, fix=_GOLDEN_USAGE)


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


def load_test(context: Context, arguments: argparse.Namespace) -> Any:
    """Run a load test. If no load is named it is one client's, and what is returned is the form with its result, since
    without a browser nobody could press Start.
    """
    model, options = context.model(arguments.name), dict[str, Any]()
    for name in ("concurrency", "request_rate"):
        if (text := getattr(arguments, name)) is not None:
            options[name] = _numbers(text)
    options |= {name: value for name in ("duration", "batch") if (value := getattr(arguments, name)) is not None}
    if arguments.shape:
        options["shapes"] = dict(_shape(text) for text in arguments.shape)
    if not options:
        options["shapes"] = smallest_shapes(model.config())
        if not arguments.csv and not arguments.json:
            panel = open_load_panel(model)
            panel.measure(**options)
            return panel
    result = model.load_test(**options, progress=not arguments.json)
    if arguments.csv:
        result.to_csv(arguments.csv)
    return result


def _shape(text: str) -> tuple[str, list[int]]:
    name, colon, dims = text.rpartition(":")
    if not colon or not all(word.strip().isdecimal() for word in dims.split(",")):
        raise OptionError(f"'{text}' is not a shape: write NAME:3,64", fix="write NAME:3,64")
    return name, [int(word) for word in dims.split(",")]


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise OptionError(f"'{text}' is not a list of numbers: write 1,2,8", fix="write 1,2,8") from None


def check(context: Context, arguments: argparse.Namespace) -> Any:
    """Check a model and return the result. An interrupt ends it with what was found until then."""
    relations = arguments.relations.split(",") if arguments.relations else None
    model = context.model(arguments.name)
    show = None if arguments.json else _changing_line()
    try:
        return model.check(
            arguments.seconds,
            seed=arguments.seed,
            relations=relations,
            side_effects=arguments.side_effects,
            progress=show,
        )
    finally:
        if show is not None:
            show("")


def _changing_line() -> Callable[[object], None]:
    """Return what shows a text in place of the one before. A notebook stores the last, where it would store every line
    that a carriage return begins."""
    if not in_kernel():
        return lambda text: print(f"\r{str(text)[:_WIDTH]:<{_WIDTH}}\r", end="", flush=True)
    display: Any = importlib.import_module("IPython.display").display
    handle = display({"text/plain": ""}, raw=True, display_id=True)

    def show(text: object) -> None:
        handle.update({"text/plain": str(text)}, raw=True)

    return show


def profile(context: Context, arguments: argparse.Namespace) -> LineProfile:
    """Profile a model under random requests of the smallest shapes, or with --watch under those of others."""
    model = context.model(arguments.name)
    if arguments.watch:
        return model.profile(seconds=arguments.seconds, memory=arguments.memory)
    load: dict[str, Any] = {"concurrency": arguments.concurrency, "shapes": smallest_shapes(model.config())}
    if arguments.batch is not None:
        load["batch"] = arguments.batch
    return model.profile(seconds=arguments.seconds, memory=arguments.memory, **load)


def debug(context: Context, arguments: argparse.Namespace) -> EditorAttach | None:
    """Type to a paused model until it goes on; without a name, to the one that paused first. With --vscode let an
    editor attach to the model instead."""
    workspace, name = context.workspace, arguments.name
    if arguments.vscode:
        return _editor(workspace, name)
    if name is None:
        follow_pauses(workspace.server.debugger, None)
    else:
        model = workspace.server.model(name)
        model.config()  # raises for one that is not loaded
        model.debug()
    return None


def _editor(workspace: Workspace, name: str | None) -> EditorAttach:
    """Let an editor attach to a model, at the author's own file if the model is not from a cell."""
    if name is None:
        raise OptionError("name a model: %triton debug NAME --vscode")
    model = workspace.server.model(name)
    served = model.directory / str(model.metadata()["versions"][-1]) / model.config()["default_model_filename"]
    origin, _ = workspace.sources.locate(str(served), 1)
    local = os.path.dirname(os.path.abspath(origin)) if os.path.basename(origin) == served.name else ""
    return model.attach(local)


def postmortem(context: Context, arguments: argparse.Namespace) -> None:
    """Type to a debugger that looks at the last exception of a model; without a name, of the one that failed last."""
    server, name = context.workspace.server, arguments.name
    if name is None:
        failures = [server.model(each).failures for each, _ in server.models()]
        last = max((each[-1].to_dict() for each in failures if each), key=lambda each: each["time_ns"], default=None)
        if last is None:
            raise OptionError("no model has failed")
        name = last["model"]
    server.model(name).postmortem()
