"""The subcommands of `%triton`, one row each: its arguments, and the one call that it makes."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...core.error_pages import error_pages
from ...server.api.server import UNLOAD_SECONDS
from ...tools.deploy.releases import DEFAULT_TARGET
from ..views.record.record_view import KINDS
from . import model_commands as models
from . import request_commands as requests
from . import server_commands as server
from .parsing import LineParser, parse, seconds, unknown
from .subcommand import Context, JsonFacts, MarkdownText, Text


@dataclass(frozen=True)
class Subcommand:
    """One subcommand. `parser` reads its arguments; `run` does it and returns what the cell shows, or
    None."""

    parser: LineParser
    run: Callable[[Context, argparse.Namespace], Any]


def run(context: Context, line: str) -> Any:
    """Run `%triton <line>` and return what the cell shows. Raises UsageError for a line that cannot be read."""
    name, _, rest = line.strip().partition(" ")
    command = COMMANDS.get(name or "status")
    if command is None:
        raise unknown("%triton has no command", name, COMMANDS)
    if command.parser.get_default("raw"):
        line, as_json = _without_json(rest)
        arguments = argparse.Namespace(rest=line, json=as_json)
    else:
        arguments = parse(command.parser, rest)
    result = command.run(replace(context, json=arguments.json), arguments)
    return JsonFacts.from_result(result) if arguments.json else result


def _without_json(rest: str) -> tuple[str, bool]:
    """Return a line without `--json` at its begin or end, and whether that was there; for lines with an expression,
    which no parser reads.
    """
    words = rest.strip()
    if words == "--json" or words.startswith("--json "):
        return words.removeprefix("--json").strip(), True
    if words.endswith(" --json"):
        return words.removesuffix("--json").strip(), True
    return rest, False


def _export(context: Context, arguments: argparse.Namespace) -> Any:
    from .export_command import export_named  # with what makes environments and deploy files

    return export_named(context, arguments)


def _preflight(context: Context, arguments: argparse.Namespace) -> Any:
    return context.model(arguments.name).preflight(target=arguments.target)


def _help(context: Context, arguments: argparse.Namespace) -> Text:
    word = arguments.command
    if word in COMMANDS:
        return Text(COMMANDS[word].parser.format_help())
    if word is not None:
        page = error_pages().get(word)
        if page is None:
            raise unknown("%triton has no command and no page about an error", word, [*COMMANDS, *error_pages()])
        return MarkdownText(str(page), page._asdict())
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


#: The option of the commands that judge by a release.
_TARGET = (
    ("--target",),
    {
        "default": DEFAULT_TARGET,
        "metavar": "RELEASE",
        "help": "where it is to run: 2.49, 24.08, kserve, dynamo or ray (2.51)",
    },
)
_INCLUDE = "a file or pattern that is otherwise left out: hidden, or larger than 100 MB"
#: What comes after the name of the first model in `%triton export`.
_EXPORT_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("place",),
        {"nargs": "*", "metavar": "[NAME ...] DIR", "help": "more models, and last the repository (model_repository)"},
    ),
    (("--overwrite",), {"action": "store_true", "help": "replace what is there, keep a backup"}),
    (("--alone",), {"action": "store_true", "help": "without the models that its steps or its BLS calls name"}),
    (("--zip",), {"action": "store_true", "help": "also pack it, beside the repository"}),
    (("--dry-run",), {"action": "store_true", "help": "write nothing, show what would be written"}),
    _TARGET,
    (("--capture",), {"action": "store_true", "help": "write what other cells define in front of the model"}),
    (
        ("--artifact",),
        {"action": "append", "default": [], "metavar": "FILE=EXPR", "help": "keep a value as a file beside model.py"},
    ),
    (("--include",), {"action": "append", "default": [], "metavar": "NAME", "help": _INCLUDE}),
    (
        ("--env",),
        {"default": "none", "help": "requirements (a lock), dir or archive (relocatable), or the path of a prefix"},
    ),
    (
        ("--env-python",),
        {"default": "", "metavar": "VERSION", "help": "the Python of --env, as 3.12 (this one's; the image's)"},
    ),
    (("--env-budget",), {"type": int, "metavar": "MB", "help": "refuse an environment that is larger"}),
    (
        ("--deploy",),
        {"default": "", "metavar": "KINDS", "help": "files beside models/ that deploy it: docker,k8s,kserve,ray"},
    ),
    (
        ("--verify",),
        {"nargs": "?", "const": True, "help": "prove it on real releases of Triton: --verify=2.51,2.41 (the target)"},
    ),
    (("--last",), {"type": int, "metavar": "N", "help": "how many last requests of each model --verify sends (all)"}),
)

COMMANDS = {
    "status": _command("status", models.status, "show all models, or the card of one", _name(nargs="?")),
    "load": _command(
        "load",
        models.load,
        "load a model again, or one from a model directory or a model.py",
        _name(),
        (("path",), {"nargs": "?", "help": "a model directory or a model.py"}),
        (("--config",), {"help": "a config.pbtxt file, or its text"}),
    ),
    "open": _command(
        "open",
        models.open_repository,
        "serve the models of a repository, and load again what changes",
        (("directory",), {"help": "the model repository"}),
        (("models",), {"nargs": "*", "help": "the only ones to serve; all if none is named"}),
        (("--into",), {"metavar": "DIR", "help": "copy models without version directories to this repository first"}),
    ),
    "unload": _command(
        "unload",
        models.unload,
        "take a model out of service, and the ensembles that contain it",
        _name(),
        (("--dependents",), {"action": "store_true", "help": "of an ensemble, also the models loaded for it alone"}),
        (
            ("--timeout",),
            {
                "type": seconds,
                "default": UNLOAD_SECONDS,
                "help": "seconds for requests and finalize, then it is killed",
            },
        ),
    ),
    "kill": _command(
        "kill",
        models.kill,
        "end now what hangs: what is left of a model that was loaded again or unloaded, else the processes that hold "
        "requests, and others take over",
        _name(),
    ),
    "index": _command(
        "index",
        models.index,
        "show the repository index: models, versions, states and reasons",
        (("--ready",), {"action": "store_true", "help": "READY versions only"}),
    ),
    "playground": _command("playground", requests.playground, "open a form for sending requests", _name()),
    "view": _command(
        "view",
        server.view,
        "show what a model does, live: its batches and why each closed, its streams, metrics, memory or calls",
        _name(nargs="?"),
        (("kind",), {"nargs": "?", "help": f"{', '.join(KINDS)}; the first if none is named"}),
    ),
    "load_test": _command(
        "load_test",
        requests.load_test,
        "measure throughput and latency: of one client, with a form for more, or with --concurrency 1,2,8 or "
        "--request-rate 100,500",
        _name(),
        (("--concurrency", "-c"), {"metavar": "N,N", "help": "so many clients at once: 1,2,8"}),
        (("--request-rate", "-r"), {"metavar": "R,R", "help": "so many requests per second: 100,500"}),
        (("--duration", "-d"), {"type": seconds, "help": "seconds that each is measured; else until it is stable"}),
        (("--batch", "-b"), {"type": int, "help": "rows of each request"}),
        (("--shape",), {"action": "append", "default": [], "metavar": "NAME:N,N", "help": "of an input of any size"}),
        (("--csv",), {"metavar": "FILE", "help": "also write perf_analyzer's columns to a file"}),
    ),
    "check": _command(
        "check",
        requests.check,
        "look for what goes wrong in company: batches, state, failures that spread, streams, sequences, leaks",
        _name(),
        (("--seconds", "-s"), {"type": seconds, "default": 60.0, "help": "about how long it may take (60)"}),
        (("--seed",), {"type": int, "default": 0, "help": "of the requests; the same seed makes the same ones"}),
        (("--relations",), {"metavar": "NAME,NAME", "help": "those to try: company,neighbours; all by default"}),
        (("--side-effects",), {"action": "store_true", "help": "also a model that talks to other models or services"}),
    ),
    "profile": _command(
        "profile",
        requests.profile,
        "show which lines of a model take the time, by batch size, or keep memory",
        _name(),
        (("--seconds", "-s"), {"type": seconds, "default": 3.0, "help": "how long (3)"}),
        (("--concurrency", "-c"), {"type": int, "default": 1, "help": "so many clients at once (1)"}),
        (("--batch", "-b"), {"type": int, "help": "rows of each request"}),
        (("--watch",), {"action": "store_true", "help": "send nothing, look at what others send"}),
        (("--memory",), {"action": "store_true", "help": "what each line still holds of what it allocated"}),
    ),
    "infer": _unread("infer", requests.infer, "send one request", "NAME INPUT0=expression, INPUT1=expression"),
    "golden": _unread(
        "golden",
        requests.golden,
        "keep responses and check that the model still gives them",
        "add [--error] NAME INPUT0=expression | check [NAME] | update [NAME]",
    ),
    "logs": _command(
        "logs",
        server.logs,
        "show what a model printed and logged",
        _name(nargs="?"),
        (("-n", "--lines"), {"type": int, "default": 40, "help": "how many lines, the last ones"}),
        (("--request",), {"metavar": "ID", "help": "only those of the request of this id or number"}),
    ),
    "why": _command("why", server.why, "show what waits for what, and why", _name(nargs="?")),
    "debug": _command(
        "debug",
        requests.debug,
        "type to a model that is paused at breakpoint()",
        _name(nargs="?"),
        (("--vscode",), {"action": "store_true", "help": "let VS Code attach, and print what it needs for that"}),
    ),
    "postmortem": _command(
        "postmortem",
        requests.postmortem,
        "look at a model's last exception, where its frames still live",
        _name(nargs="?"),
    ),
    "config": _command(
        "config",
        models.config,
        "show the complete config that a model runs with",
        _name(),
        (("--clear",), {"action": "store_true", "help": "forget the config text that was given"}),
    ),
    "export": _command(
        "export",
        _export,
        "write a model repository for a real server",
        _name(),
        *_EXPORT_OPTIONS,
    ),
    "artifact": _unread(
        "artifact",
        models.artifact,
        "keep a value of the notebook as a file beside model.py, which is exported with it",
        "NAME weights.pt=expression",
    ),
    "preflight": _command(
        "preflight",
        _preflight,
        "show what of a model will not work on a release of Triton, and what to do",
        _name(),
        _TARGET,
    ),
    "serve": _unread(
        "serve",
        server.serve,
        "open HTTP, gRPC and metrics ports",
        "[--http-port 8000] [--no-token] [--allow-model-control=true] … (flags of `tritonlab serve` about ports); "
        "--dynamo: show the commands that serve the models in a fleet of NVIDIA Dynamo",
    ),
    "stop": _command("stop", server.stop, "close the ports; models stay loaded"),
    "statistics": _command(
        "statistics", server.statistics, "show how often models ran, and how long", _name(nargs="?")
    ),
    "metrics": _command(
        "metrics", server.metrics, "show the text of /metrics, or one model's lines of it", _name(nargs="?")
    ),
    "trace": _command(
        "trace",
        server.trace,
        "write what the server does from now on to FILE, for ui.perfetto.dev; without FILE: end it",
        (("file",), {"nargs": "?", "help": "a JSON file, written when the trace ends"}),
    ),
    "edit": _command(
        "edit",
        models.edit,
        "put a model's source into the next cell, also of an opened repository",
        _name(),
    ),
    "help": _command(
        "help",
        _help,
        "show this list, one command's arguments, or the page about an error",
        (("command",), {"nargs": "?", "help": "a subcommand, or the topic that an error's hint names"}),
    ),
}
