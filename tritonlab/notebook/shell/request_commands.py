"""The subcommands that send requests to a model: one request, kept ones, a profile; and its debugger."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...core.inference.data_type import DataType
from ...exchanges.golden import GoldenReport, GoldenSet, golden_directory
from ...exchanges.sending import ask, asks_of
from ...server.api.debugging import EditorAttach, follow_pauses
from ...server.api.needed_models import stood_in_words
from ...server.api.request_maker import make_tensors, smallest_shapes
from ..authoring.cells import user_namespace
from ..authoring.errors import ExpressionError, OptionError
from ..authoring.workspace import Workspace
from ..views.opener import open_playground
from .subcommand import Context, Text

if TYPE_CHECKING:
    from ...record.line_profile import LineProfile
    from ...server.api.model import Model
    from ..views.playground.playground import Playground

#: The actions of `%triton golden`.
VERBS = ("add", "check", "update")
_GOLDEN_USAGE = "%triton golden add [--error] NAME INPUT0=expression, … | check [NAME] | update [NAME]"
#: The most seconds that the replay after a load takes.
_PATIENCE = 10.0


def infer(context: Context, line: str) -> Any:
    name, _, rest = line.strip().partition(" ")
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


def playground(context: Context, name: str) -> Playground:
    return open_playground(context.workspace, context.model(name))


def golden(context: Context, line: str) -> GoldenReport | Text:
    """Keep, check or update golden cases. Raises OptionError."""
    verb, _, rest = line.strip().partition(" ")
    is_error = rest.split()[:1] == ["--error"]
    name, _, inputs = (rest.strip().removeprefix("--error") if is_error else rest).strip().partition(" ")
    server = context.workspace.server
    suite = GoldenSet(ask=asks_of(server), why_not_real=lambda model: stood_in_words(server.model(model)))
    try:
        if verb in ("check", "update") and not inputs:
            if name:
                server.model(name).config()  # raises for a model that is not loaded
            if verb == "check":
                return suite.check(model=name or None)
            paths = [str(path) for path in suite.update(model=name or None)]
            return Text("\n".join(["renewed:", *paths]) if paths else "every answer is as it was", {"renewed": paths})
        if verb == "add" and name:
            return _add_golden(suite, server.model(name), inputs, is_error)
    except (ValueError, FileExistsError) as error:
        raise OptionError(str(error)) from None
    raise OptionError(_GOLDEN_USAGE, fix=_GOLDEN_USAGE)


def _add_golden(suite: GoldenSet, model: Model, inputs: str, is_error: bool) -> Text:
    """Send a request and keep its answer. Return the file, the error if that is kept instead of an answer, and why the
    answer is not the model's own."""
    outcome = ask(model, model.create_request(inputs=inputs_of(model, inputs)))
    path, error, why_not_real = suite.add(outcome, error=is_error), str(outcome.error or ""), stood_in_words(model)
    lines = [f"kept: {path}"]
    lines += [f"what is kept is an error: {error}"] * bool(error)
    lines += [f"what is kept is not the model's own answer: {why_not_real}"] * bool(why_not_real)
    return Text("\n".join(lines), {"kept": str(path), "error": error or None, "why_not_real": why_not_real or None})


def inputs_of(model: Model, text: str) -> dict[str, Any]:
    """Return the tensors of `INPUT0=expression, …`. Lists are cast without a warning, because programs for Triton do
    not have this form.

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
    directory = golden_directory()
    if not (directory / name).is_dir():
        return
    suite = GoldenSet(directory, ask=asks_of(workspace.server))
    try:
        print(suite.check(model=name, seconds=_PATIENCE))
    except ValueError as error:
        print(f"golden: {error}")


def profile(
    context: Context,
    name: str,
    seconds: float = 3.0,
    concurrency: int = 1,
    watch: bool = False,
    memory: bool = False,
    **load: Any,
) -> LineProfile:
    """Profile a model under random requests of the smallest shapes, or with `watch` under the requests of others."""
    model = context.model(name)
    if watch:
        return model.profile(seconds=seconds, memory=memory)
    load |= {"concurrency": concurrency, "shapes": smallest_shapes(model.config())}
    return model.profile(seconds=seconds, memory=memory, **load)


def debug(context: Context, name: str | None = None, vscode: bool = False) -> EditorAttach | None:
    """Type to a paused model until it goes on; without a name, to the model that paused first. With `vscode` let an
    editor attach to the model instead."""
    workspace = context.workspace
    if vscode:
        return _editor(workspace, name)
    if name is None:
        follow_pauses(workspace.server.debugger, None)
    else:
        model = workspace.server.model(name)
        model.config()  # raises for a model that is not loaded
        model.debug()
    return None


def _editor(workspace: Workspace, name: str | None) -> EditorAttach:
    """Allow an editor to attach to a model, at the author's own file if the model is not from a cell."""
    if name is None:
        raise OptionError("name a model: %triton debug NAME --vscode")
    model = workspace.server.model(name)
    served = model.directory / str(model.metadata()["versions"][-1]) / model.config()["default_model_filename"]
    origin, _ = workspace.sources.locate(str(served), 1)
    local = os.path.dirname(os.path.abspath(origin)) if os.path.basename(origin) == served.name else ""
    return model.attach(local)


def postmortem(context: Context, name: str | None = None) -> None:
    """Type to a debugger on the last exception of a model; without a name, of the model that failed last."""
    server = context.workspace.server
    if name is None:
        failures = [server.model(each).failures for each, _ in server.models()]
        last = max((each[-1].to_dict() for each in failures if each), key=lambda each: each["time_ns"], default=None)
        if last is None:
            raise OptionError("no model has failed")
        name = last["model"]
    server.model(name).postmortem()
