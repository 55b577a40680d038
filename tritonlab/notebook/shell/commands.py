"""The subcommands of `%triton`, one row each: its arguments, and the one call that it makes."""

from __future__ import annotations

import argparse
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...core.error_pages import error_pages
from ...core.plain_facts import by_number
from ...core.status import NotFoundError
from ...core.unknown_option import did_you_mean
from ...server.api.server import UNLOAD_SECONDS
from ..authoring.errors import OptionError
from ..authoring.workspace import Workspace
from ..model import Model
from ..opened import Repository
from ..views.card.card_display import LoadingCard, card_of
from ..views.card.draining import draining_text
from ..views.card.live_card import LiveCard
from ..views.card.statistics_text import samples, statistics_text
from ..views.card.status_table import StatusView
from ..views.opener import open_playground
from ..views.record.record_view import KINDS
from .artifact_command import artifact
from .check_command import CHECK
from .debug_commands import debug, postmortem
from .edit_command import edit
from .export_options import OPTIONS, TARGET
from .golden_commands import golden, inputs_of
from .load_commands import LOAD_TEST
from .logs import LogView, Places
from .parsing import LineParser, parse, unknown
from .profile_command import PROFILE
from .results import JsonFacts, Text, without_json
from .serve_command import serve
from .variables import bind
from .why_command import failed_load_of, why

if TYPE_CHECKING:
    from ...server.api.server import Server
    from ...server.observe.chrome_trace import ChromeTrace
    from ..views.playground.playground import Playground


@dataclass(frozen=True)
class Context:
    """What a subcommand may use."""

    shell: Any
    workspace: Workspace
    #: cites cells in a text about the models as they are now
    places: Places
    #: the cell shows JSON, and nothing else
    json: bool = False

    def model(self, name: str) -> Model:
        """Return the loaded model. Raises the client's NotFoundError for one that is not loaded, with why its last load
        by a cell failed.
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


def run(context: Context, line: str) -> Any:
    """Run `%triton <line>` and return what the cell shows. Raises UsageError for a line that cannot be read."""
    name, _, rest = line.strip().partition(" ")
    command = COMMANDS.get(name or "status")
    if command is None:
        raise unknown("%triton has no command", name, COMMANDS)
    if command.parser.get_default("raw"):
        line, as_json = without_json(rest)
        arguments = argparse.Namespace(rest=line, json=as_json)
    else:
        arguments = parse(command.parser, rest)
    result = command.run(replace(context, json=arguments.json), arguments)
    return JsonFacts.from_result(result) if arguments.json else result


@dataclass(frozen=True)
class Subcommand:
    """One subcommand. `parser` reads its arguments; `run` does it and returns what the cell shows, or
    None."""

    parser: LineParser
    run: Callable[[Context, argparse.Namespace], Any]


def _status(context: Context, arguments: argparse.Namespace) -> Any:
    if arguments.name is None:
        return StatusView(context.workspace)
    known = context.workspace.report(arguments.name)  # a failed load is told, too
    if not (context.json and known is not None):
        context.model(arguments.name)
    return card_of(context.workspace, arguments.name)


def _load(context: Context, arguments: argparse.Namespace) -> LiveCard | None:
    with LoadingCard(context.workspace, arguments.name, quiet=context.json):
        bind(context.shell, context.workspace.load(arguments.name, arguments.path, config=arguments.config))
    return card_of(context.workspace, arguments.name) if context.json else None


def _open(context: Context, arguments: argparse.Namespace) -> Repository:
    names = arguments.models or None
    opened = Repository.open(context.workspace, arguments.directory, names, into=arguments.into)
    for name in opened:
        if opened[name].facts().state == "READY" and (unbound := bind(context.shell, context.model(name))):
            print(unbound)
    return opened


def _unload(context: Context, arguments: argparse.Namespace) -> Text:
    """Unload a model and wait for a moment only, because the notebook belongs to its author, whatever the model
    does."""
    name, server = arguments.name, context.workspace.server
    if name not in context.workspace.names():
        context.model(name)  # raises; the server would say nothing, as Triton does
    dependents, timeout = arguments.dependents, arguments.timeout
    before = _serving(server)
    context.workspace.unload(name, unload_dependents=dependents, timeout=timeout, wait=False)
    end = time.monotonic() + _PATIENCE
    while (draining := server.draining(name)) and time.monotonic() < end:
        time.sleep(0.02)
    gone = sorted(before - _serving(server) - {name}, key=by_number)
    also = f", and {' and '.join(map(repr, gone))} with it" if gone else ""
    text = f"'{name}' is unloaded{also}" if name in before else f"'{name}' was not loaded"
    facts = {"model": name, "unloaded": [*([name] if name in before else []), *gone], "draining": draining}
    return Text("\n".join([text, *map(draining_text, draining)]), facts)


def _serving(server: Server) -> set[str]:
    return {name for name, _ in server.models(exclude_not_ready=True)}


def _kill(context: Context, arguments: argparse.Namespace) -> Text:
    name = arguments.name
    if name not in context.workspace.names():
        context.model(name)  # raises
    old, killed = context.workspace.server.draining(name), context.workspace.server.kill(name)
    if not killed:
        advice = f"%triton unload {name} takes it out of service"
        text = f"nothing of '{name}' is left to kill: no old process, and none that holds a request; {advice}"
        raise OptionError(text, fix=advice)
    pids = ", ".join(str(pid) for each in killed for pid in each["pids"])
    facts = {"model": name, "killed": killed}
    if not old:
        what = ", ".join(each["awaits"] for each in killed)
        return Text(f"killed what held {what}; another process takes over", facts)
    return Text(f"killed what was left of '{name}': process {pids}", facts)


def _index(context: Context, arguments: argparse.Namespace) -> Text:
    entries = sorted(context.workspace.server.index(arguments.ready), key=lambda entry: by_number(entry["name"]))
    return Text("\n".join(map(_index_line, entries)) or "no models", {"models": entries})


def _index_line(entry: dict[str, str]) -> str:
    """Show an entry, with the first line of its reason; the rest is a traceback, which the load showed."""
    state, reason = entry.get("state", "not loaded"), entry.get("reason", "").partition("\n")[0]
    return f"{entry['name']:<24} {entry.get('version', ''):>3}  {state:<11}  {reason}".rstrip()


def _logs(context: Context, arguments: argparse.Namespace) -> LogView:
    workspace, name = context.workspace, arguments.name
    records = workspace.server.logs(name)
    if not records and name is not None and name not in workspace.names():
        context.model(name)  # raises
    if arguments.request is not None:
        records = [record for record in records if record.is_of_request(arguments.request)]
    return LogView(records[-arguments.lines :], workspace.cite_for)


def _config(context: Context, arguments: argparse.Namespace) -> Any:
    if arguments.clear:
        if arguments.name not in context.workspace.names():
            context.model(arguments.name)  # raises
        context.workspace.write_config(arguments.name, "")
        return None
    model = context.model(arguments.name)
    return Text(model.config_pbtxt(), model.config())


def _export(context: Context, arguments: argparse.Namespace) -> Any:
    from .export_command import export_named  # with what makes environments and deploy files

    for name in (arguments.name, *arguments.place[:-1]):
        context.model(name)  # raises, with why it was not loaded
    return export_named(context.workspace, arguments, context.json)


def _infer(context: Context, arguments: argparse.Namespace) -> Any:
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


def _golden(context: Context, arguments: argparse.Namespace) -> Any:
    return golden(context.workspace, arguments.rest)


def _playground(context: Context, arguments: argparse.Namespace) -> Playground:
    return open_playground(context.workspace, context.model(arguments.name))


def _view(context: Context, arguments: argparse.Namespace) -> Any:
    name, kind = arguments.name, arguments.kind
    if name in KINDS and kind is None and name not in context.workspace.names():
        name, kind = None, name
    names = context.workspace.names()
    known = [*names, *(row["name"] for row in context.workspace.server.index())]
    if name is not None and name not in known and kind is None and did_you_mean(name, KINDS):
        raise unknown("there is no model and no view", name, [*names, *KINDS])
    if name is None:
        if len(names) != 1:
            fix = f"name a model: {', '.join(names)}" if names else ""
            raise OptionError(fix or "no model is loaded", fix=fix)
        name = names[0]
    return context.model(name).view(kind or KINDS[0])


def _stop(context: Context, arguments: argparse.Namespace) -> None:
    context.workspace.ports.close()


def _trace(context: Context, arguments: argparse.Namespace) -> ChromeTrace | None:
    workspace = context.workspace
    running, workspace.tracing = workspace.tracing, None
    if arguments.file is None:
        if running is None:
            advice = "'%triton trace FILE' begins a trace"
            raise OptionError(f"nothing is traced; {advice}", fix=advice)
        running.stop()
        return running
    if running is not None:
        running.stop()
    workspace.tracing = workspace.server.trace(arguments.file).start()
    return None


def _metrics(context: Context, arguments: argparse.Namespace) -> Text:
    if arguments.name is not None:
        context.model(arguments.name)
    lines = context.workspace.server.metrics(arguments.name or "").splitlines()
    return Text("\n".join(lines), {"metrics": samples(lines)} if context.json else None)


def _statistics(context: Context, arguments: argparse.Namespace) -> Text:
    if arguments.name is not None:
        context.model(arguments.name)
    statistics = context.workspace.server.statistics(arguments.name or "")
    return Text(statistics_text(statistics), statistics)


def _help(context: Context, arguments: argparse.Namespace) -> Text:
    word = arguments.command
    if word in COMMANDS:
        return Text(COMMANDS[word].parser.format_help())
    if word is not None:
        page = error_pages().get(word)
        if page is None:
            raise unknown("%triton has no command and no page about an error", word, [*COMMANDS, *error_pages()])
        return Text(str(page), page._asdict())
    descriptions = {name: command.parser.description for name, command in COMMANDS.items()}
    return Text("\n".join(summary()), {"commands": descriptions})


def summary() -> Iterator[str]:
    """Return what each subcommand is for."""
    descriptions = {name: command.parser.description or "" for name, command in COMMANDS.items()}
    for name, about in {**descriptions, "… --json": "what any of them shows, as JSON for programs"}.items():
        # JupyterLab breaks a line that is too long anywhere in a word
        yield textwrap.fill(
            about, 96, initial_indent=f"%triton {name:<12}", subsequent_indent=" " * 20, break_on_hyphens=False
        )


#: Seconds that `%triton unload` waits.
_PATIENCE = 1.0


def _command(name: str, run: Callable[[Context, argparse.Namespace], Any], about: str, *arguments: Any) -> Subcommand:
    parser = LineParser(f"triton {name}", description=about)
    for flags, settings in arguments:
        parser.add_argument(*flags, **settings)
    parser.add_argument("--json", action="store_true", help="show it as JSON")
    return Subcommand(parser, run)


def _unread(name: str, run: Callable[[Context, argparse.Namespace], Any], about: str, form: str) -> Subcommand:
    """Return a subcommand that reads its line, of this `form`, itself."""
    command = _command(name, run, f"{about}: {form}")
    command.parser.set_defaults(raw=True)
    command.parser.usage = f"triton {name} [--json] {form}"
    return command


def _name(**settings: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return ("name",), {"help": "a model", **settings}


_ABOUT_HELP = "show this list, one command's arguments, or the page about an error"
_COMMAND_OR_TOPIC = (("command",), {"nargs": "?", "help": "a subcommand, or the topic that an error's hint names"})

COMMANDS = {
    "status": _command("status", _status, "show all models, or the card of one", _name(nargs="?")),
    "load": _command(
        "load",
        _load,
        "load a model again, or one from a model directory or a model.py",
        _name(),
        (("path",), {"nargs": "?", "help": "a model directory or a model.py"}),
        (("--config",), {"help": "a config.pbtxt file, or its text"}),
    ),
    "open": _command(
        "open",
        _open,
        "serve the models of a repository, and load again what changes",
        (("directory",), {"help": "the model repository"}),
        (("models",), {"nargs": "*", "help": "the only ones to serve; all if none is named"}),
        (("--into",), {"metavar": "DIR", "help": "copy models without version directories to this repository first"}),
    ),
    "unload": _command(
        "unload",
        _unload,
        "take a model out of service, and the ensembles that contain it",
        _name(),
        (("--dependents",), {"action": "store_true", "help": "of an ensemble, also the models loaded for it alone"}),
        (
            ("--timeout",),
            {"type": float, "default": UNLOAD_SECONDS, "help": "seconds for requests and finalize, then it is killed"},
        ),
    ),
    "kill": _command(
        "kill",
        _kill,
        "end now what hangs: what is left of a model that was loaded again or unloaded, else the processes that hold "
        "requests, and others take over",
        _name(),
    ),
    "index": _command(
        "index",
        _index,
        "show the repository index: models, versions, states and reasons",
        (("--ready",), {"action": "store_true", "help": "READY versions only"}),
    ),
    "playground": _command("playground", _playground, "open a form for sending requests", _name()),
    "view": _command(
        "view",
        _view,
        "show what a model does, live: its batches and why each closed, its streams, metrics, memory or calls",
        _name(nargs="?"),
        (("kind",), {"nargs": "?", "help": f"{', '.join(KINDS)}; the first if none is named"}),
    ),
    "load_test": _command("load_test", *LOAD_TEST),
    "check": _command("check", *CHECK),
    "profile": _command("profile", *PROFILE),
    "infer": _unread("infer", _infer, "send one request", "NAME INPUT0=expression, INPUT1=expression"),
    "golden": _unread(
        "golden",
        _golden,
        "keep responses and check that the model still gives them",
        "add NAME INPUT0=expression | check [NAME] | update [NAME]",
    ),
    "logs": _command(
        "logs",
        _logs,
        "show what a model printed and logged",
        _name(nargs="?"),
        (("-n", "--lines"), {"type": int, "default": 40, "help": "how many lines, the last ones"}),
        (("--request",), {"metavar": "ID", "help": "only those of the request of this id or number"}),
    ),
    "why": _command(
        "why", lambda c, a: why(c.workspace, a.name), "show what waits for what, and why", _name(nargs="?")
    ),
    "debug": _command(
        "debug",
        lambda context, options: debug(context.workspace, options.name, vscode=options.vscode),
        "type to a model that is paused at breakpoint()",
        _name(nargs="?"),
        (("--vscode",), {"action": "store_true", "help": "let VS Code attach, and print what it needs for that"}),
    ),
    "postmortem": _command(
        "postmortem",
        lambda context, options: postmortem(context.workspace.server, options.name),
        "look at a model's last exception, where its frames still live",
        _name(nargs="?"),
    ),
    "config": _command(
        "config",
        _config,
        "show the complete config that a model runs with",
        _name(),
        (("--clear",), {"action": "store_true", "help": "forget the config text that was given"}),
    ),
    "export": _command(
        "export",
        _export,
        "write a model repository for a real server",
        _name(),
        *OPTIONS,
    ),
    "artifact": _unread(
        "artifact",
        lambda context, options: artifact(context.shell, context.workspace, options.rest),
        "keep a value of the notebook as a file beside model.py, which is exported with it",
        "NAME weights.pt=expression",
    ),
    "preflight": _command(
        "preflight",
        lambda context, options: context.model(options.name).preflight(target=options.target),
        "show what of a model will not work on a release of Triton, and what to do",
        _name(),
        TARGET,
    ),
    "serve": _unread(
        "serve",
        lambda context, options: serve(context.workspace, options.rest, as_json=context.json),
        "open HTTP, gRPC and metrics ports",
        "[--http-port 8000] [--no-token] [--allow-model-control=true] … (flags of `tritonlab serve` about ports); "
        "--dynamo: show the commands that serve the models in a fleet of NVIDIA Dynamo",
    ),
    "stop": _command("stop", _stop, "close the ports; models stay loaded"),
    "statistics": _command("statistics", _statistics, "show how often models ran, and how long", _name(nargs="?")),
    "metrics": _command("metrics", _metrics, "show the text of /metrics, or one model's lines of it", _name(nargs="?")),
    "trace": _command(
        "trace",
        _trace,
        "write what the server does from now on to FILE, for ui.perfetto.dev; without FILE: end it",
        (("file",), {"nargs": "?", "help": "a JSON file, written when the trace ends"}),
    ),
    "edit": _command(
        "edit",
        lambda context, options: edit(context.shell, context.workspace, options.name),
        "put a model's source into the next cell, also of an opened repository",
        _name(),
    ),
    "help": _command("help", _help, _ABOUT_HELP, _COMMAND_OR_TOPIC),
}
