"""The table of tools: a row is a part of tritonlab in `tritonlab/tools/`, or of another package, and all that it adds.

The house, everything outside of `tritonlab/tools/`, imports no tool. It reads this table, which names functions as
`module:function`; they are imported when they are called: a shell imports only one command's modules, `%load_ext
tritonlab` none.

Another distribution adds its own by an entry point of the group `tritonlab.tools`, which is a `Tool`:

    [project.entry-points."tritonlab.tools"]
    greetings = "greetings:TOOL"

They are searched when a name is not one of tritonlab's own, for help and completion, and in an idle notebook before the
first card: the search takes 10 to 40 ms, and the import of its module 70 (2026-11-28, two busy cores).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import pkgutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any


class ToolMissing(ImportError):
    """A tool of tritonlab that this installation lacks."""

    def _render_traceback_(self) -> list[str]:
        """Return the text that IPython shows: the sentence alone."""
        return [f"{type(self).__name__}: {self}"]


class Argument:
    """An argument of a subcommand: the names and settings for `argparse.ArgumentParser.add_argument`."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings


@dataclass(frozen=True)
class Command:
    """A subcommand of `%triton` or of `tritonlab`."""

    name: str
    #: `module:function`, or the module of a function of the same name. It gets the given arguments by name. For
    #: `%triton` it gets a `Context` first, and returns the value that the cell shows; for `tritonlab` it returns the
    #: exit status, or None for 0
    function: str
    #: its purpose, in lower case and without a full stop
    about: str
    arguments: tuple[Argument, ...] = ()
    #: its usage after the name, if argparse's does not fit
    usage: str = ""
    #: the function reads the line itself, and gets its text (`%triton`) or its words (`tritonlab`)
    is_raw: bool = False
    #: more sentences for its help (`tritonlab`)
    note: str = ""
    #: the subcommand after which help lists it; by default it is listed at the end
    after: str = ""

    def takes(self, *arguments: Argument) -> Command:
        """Return the same subcommand with arguments, in the order of its help."""
        return replace(self, arguments=arguments)

    @property
    def description(self) -> str:
        """Its purpose and, if the function reads the line itself, its usage."""
        return f"{self.about}: {self.usage}" if self.is_raw else self.about

    def find(self) -> Callable[..., Any]:
        """Import the function and return it. Raises ToolMissing."""
        return _find(self.function if ":" in self.function else f"{self.function}:{self.name}")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments to the parser of the subcommand."""
        for each in self.arguments:
            parser.add_argument(*each.names, **{"default": argparse.SUPPRESS, **each.settings})


@dataclass(frozen=True)
class Panel:
    """A button of a model's card, and the panel that it opens below the card."""

    #: its key, for `card.press(name)`
    name: str
    label: str
    tooltip: str
    #: a class with the base `notebook.views.card.card_panel.CardPanel`, `module:class`. It is called with the model and
    #: a function to be called when the panel has a result, which the stored form of the card then shows
    factory: str


@dataclass(frozen=True)
class Port:
    """A port that a server opens beside those of Triton, at the address of HTTP and under the same access rules."""

    #: the option `NAME-port` of `serve`; with `%triton serve --NAME` its usual number
    name: str
    #: its word in the log and in the list of open ports
    title: str
    about: str
    usual: int
    #: a class that is called with the server's core, its access rules and the memory for bodies of requests, and has
    #: the methods of `frontends.endpoints.Frontend`, and `client(address, token)`: the options of a client
    factory: str


@dataclass(frozen=True)
class Tool:
    """The additions of one part of tritonlab, or of another package. Each field is a kind of hook."""

    name: str
    #: Subcommands of `%triton`.
    magics: Sequence[Command] = ()
    #: Subcommands of `tritonlab`.
    commands: Sequence[Command] = ()
    #: Functions by public names: `Model.NAME` and `Server.NAME` are methods, whose function gets the object first;
    #: others are the functions that tritonlab itself documents and leaves to a tool: `export`, `RemoteServer.push`.
    functions: Mapping[str, str] = field(default_factory=dict)
    #: Buttons of the card of a model that serves, each with its panel.
    panels: Sequence[Panel] = ()
    #: Calls of JupyterLab's windows by name: each function gets the workspace and the call's arguments by name, and
    #: `tell`, which sends its progress, if it has that parameter; it returns JSON values.
    calls: Mapping[str, str] = field(default_factory=dict)
    #: Replies to questions of a view's browser module, by kind of view: a function of the running model and of
    #: `send(content, buffers)`, which returns an object with `reply(content)`, or None for a model without replies.
    lanes: Mapping[str, str] = field(default_factory=dict)
    #: Further rows of pre-flight: each function gets a `Subject` and a `Target`, and yields `Finding`s
    #: (`tools/deploy/preflight/`).
    preflight: Sequence[str] = ()
    #: Ports of a server.
    ports: Sequence[Port] = ()


def magic_commands() -> dict[str, Command]:
    """Return the subcommands of `%triton` by name, in the order of help."""
    return _in_order(command for tool in _tools() for command in tool.magics)


def magic_words() -> dict[str, str]:
    """Return other words, separated by blanks, for each subcommand of `%triton`."""
    return {name: _OTHER_WORDS.get(name, "") for name in magic_commands()}


def shell_commands(only_ours: bool = False) -> dict[str, Command]:
    """Return the subcommands of `tritonlab` by name, in the order of help."""
    return _in_order(command for tool in (TOOLS if only_ours else _tools()) for command in tool.commands)


def tool_function(name: str) -> Callable[..., Any]:
    """Import the function of a public name, such as `Model.check`, and return it. Raises ToolMissing, and KeyError for
    a name that no tool has."""
    return _find(_by_name("functions", name))


def tool_methods(kind: str) -> set[str]:
    """Return the names of the methods of `Model` or `Server` that tools have."""
    found = {name.partition(".") for tool in _tools() for name in tool.functions}
    return {name for owner, _, name in found if owner == kind}


@functools.cache  # each card asks
def panels() -> dict[str, Panel]:
    """Return the panels of a model's card by name, in the order of their buttons."""
    found: dict[str, Panel] = {}
    for panel in (panel for tool in _tools() for panel in tool.panels):
        found.setdefault(panel.name, panel)
    return found


def find_panel(panel: Panel) -> Callable[..., Any]:
    """Import the class of a panel and return it. Raises ToolMissing."""
    return _find(panel.factory)


def window_call(name: str) -> Callable[..., Any]:
    """Import the function of a call from JupyterLab and return it. Raises ToolMissing, and KeyError for a name that no
    tool has."""
    return _find(_by_name("calls", name))


def view_lanes(kind: str) -> list[Callable[..., Any]]:
    """Return the functions with replies to questions of a kind of view, of the tools that are installed."""
    places = [tool.lanes[kind] for tool in _tools() if kind in tool.lanes]
    return list(_installed(places))


def preflight_rows() -> list[Callable[..., Any]]:
    """Return the functions with further rows of pre-flight, of the tools that are installed."""
    return list(_installed([place for tool in _tools() for place in tool.preflight]))


def ports() -> dict[str, Port]:
    """Return the ports that a server can open beside those of Triton, by name."""
    found: dict[str, Port] = {}
    for port in (port for tool in _tools() for port in tool.ports):
        found.setdefault(port.name, port)
    return found


def find_port(port: Port) -> Callable[..., Any]:
    """Import the class of a port and return it. Raises ToolMissing."""
    return _find(port.factory)


def _in_order(commands: Iterator[Command]) -> dict[str, Command]:
    """Return commands by name, the first one of each, in the order of help."""
    found: dict[str, Command] = {}
    for command in commands:
        found.setdefault(command.name, command)
    names: list[str] = []
    for name, command in found.items():
        names.insert(names.index(command.after) + 1 if command.after in names else len(names), name)
    return {name: found[name] for name in names}


def _by_name(kind: str, name: str) -> str:
    """Return the place of a function. Other distributions are searched only for a name that is not one of tritonlab's
    own. Raises KeyError."""
    for tools in (lambda: TOOLS, installed_tools):
        for tool in tools():
            found: Mapping[str, str] = getattr(tool, kind)
            if name in found:
                return found[name]
    raise KeyError(name)


def _find(place: str) -> Callable[..., Any]:
    """Import a function. Raises ToolMissing."""
    try:
        found: Callable[..., Any] = pkgutil.resolve_name(place)
    except ModuleNotFoundError as error:
        if not f"{error.name}.".startswith(_OURS):
            raise
        tool = place.removeprefix(_OURS).partition(".")[0]
        raise ToolMissing(
            f"tritonlab is installed without its tool '{tool}': pip install --force-reinstall tritonlab brings it"
        ) from None
    return found


def _installed(places: Sequence[str]) -> Iterator[Callable[..., Any]]:
    for place in places:
        with contextlib.suppress(ToolMissing):
            yield _find(place)


def _tools() -> tuple[Tool, ...]:
    """Return all tools, tritonlab's first: they count where two have a name in common."""
    return (*TOOLS, *installed_tools())


@functools.cache
def installed_tools() -> tuple[Tool, ...]:
    """Return the tools of other distributions. One that cannot be imported is left out, with a warning."""
    from importlib import metadata

    found = []
    for entry in metadata.entry_points(group=GROUP):
        try:
            tool = entry.load()
            if not isinstance(tool, Tool):
                raise TypeError(f"it is no tritonlab.tool_table.Tool, but {type(tool).__name__}")
            found.append(tool)
        except Exception as error:  # a foreign module may raise anything
            warnings.warn(
                f"the tool '{entry.name}' of {entry.value} is left out: {type(error).__name__}: {error}", stacklevel=2
            )
    return tuple(found)


def seconds(text: str) -> float:
    """Return the value of an option that is a time in seconds. Raises ValueError."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(text)
    return value


def share(text: str) -> float:
    """Return the value of an option that is a share, as 0.01 or 1%. Raises ValueError."""
    value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value <= 1:
        raise ValueError(text)
    return value


def names(text: str) -> list[str] | None:
    """Return the value of an option of the form NAME,NAME; None for an empty text."""
    return text.split(",") if text else None


def numbers(text: str) -> list[float]:
    """Return the value of an option of the form N,N. Raises ValueError."""
    return [float(word) for word in text.split(",")]


def _models_to(use: str) -> tuple[Argument, Argument]:
    """Return the arguments for a model repository, and for the only models of it."""
    return Argument("--model-repository", dest="repository", metavar="DIR", type=Path, required=True, help=use), _ONLY


#: The group of entry points with the tools of other distributions.
GROUP = "tritonlab.tools"
#: The beginning of the names of modules of tritonlab's own tools.
_OURS = "tritonlab.tools."

#: Modules with functions of the names of their subcommands.
_MODELS = "tritonlab.notebook.shell.model_commands"
_REQUESTS = "tritonlab.notebook.shell.request_commands"
_SERVER = "tritonlab.notebook.shell.server_commands"

_NAME = Argument("name", help="a model")
_ANY_NAME = Argument("name", nargs="?", help="a model")
_TARGET = Argument("--target", metavar="RELEASE", help="where it is to run: 2.49, 24.08, kserve, dynamo or ray (2.51)")
_SEED = Argument("--seed", type=int, help="of the requests; the same seed makes the same ones")
_JSON = Argument("--json", dest="as_json", action="store_true", help="print the results as JSON")
_BATCH = Argument("--batch", "-b", type=int, help="rows of each request")
_LOAD = (
    Argument("--seconds", "-s", type=seconds, help="how long each is measured; else until it is stable"),
    _BATCH,
)
_JUNIT = Argument("--junit", metavar="FILE", type=Path, help="write the results as JUnit's XML")
_ONLY = Argument("--model", dest="models", action="append", metavar="NAME", help="only this one of them")
_IMAGE = (
    Argument("--build", action="store_true", help="build the image with docker, podman or nerdctl (--deploy=docker)"),
    Argument("--run", dest="run_image", action="store_true", help="build it, start it, and wait until it is ready"),
    Argument("--engine", metavar="NAME", help="the container engine to build it with (the first that answers)"),
)
_WRITTEN = (
    Argument("--overwrite", action="store_true", help="replace what is there, keep a backup"),
    Argument("--dry-run", action="store_true", help="write nothing, show what would be written"),
    _TARGET,
    Argument(
        "--include",
        action="append",
        metavar="NAME",
        help="a file or pattern that is otherwise left out: hidden, or larger than 100 MB",
    ),
    Argument("--env", help="requirements (a lock), dir or archive (relocatable), or the path of a prefix"),
    Argument("--deploy", metavar="KINDS", help="files beside models/ that deploy it: docker,k8s,kserve,ray"),
    Argument("--about", metavar="TEXT", help="the purpose of the models in one line, for their README"),
)
_RATE = {"metavar": "R,R", "help": "so many requests per second: 100,500"}
_PROFILE = (
    Argument("--seconds", "-s", type=seconds, help="how long (3)"),
    Argument("--concurrency", "-c", type=int, help="so many clients at once (1)"),
    _BATCH,
    Argument("--memory", action="store_true", help="what each line still holds of what it allocated"),
)
_CHECKED = (
    Argument("--seconds", "-s", type=seconds, help="about how long each model may take (60)"),
    _SEED,
    Argument("--relations", type=names, metavar="NAME,NAME", help="those to try: company,neighbours; all by default"),
    Argument("--side-effects", action="store_true", help="also a model that talks to other models or services"),
)
_PUSH = (
    Argument("url", metavar="URL", nargs="+", help="host:port, grpcs://host:port or kube://namespace/service:port"),
    Argument("--proof", metavar="PROOF", help="golden (the default), last, none, or a golden set or capture"),
    Argument("--ca", metavar="FILE", help="PEM file of the authority, or of the server's certificate (the system's)"),
    Argument("--certificate", metavar="FILE", help="PEM file of the client's certificate"),
    Argument("--key", metavar="FILE", help="PEM file of its key"),
    Argument("--server-name", metavar="NAME", help="the name in the server's certificate, if it is not the host's"),
    Argument("--token-file", metavar="FILE", help="file with the token that the server requires"),
)

_MAGICS = (
    Command("status", _MODELS, "show all models, or the card of one").takes(_ANY_NAME),
    Command("load", _MODELS, "load a model again, or one from a model directory or a model.py").takes(
        _NAME,
        Argument("path", nargs="?", help="a model directory or a model.py"),
        Argument("--config", help="a config.pbtxt file, or its text"),
    ),
    Command(
        "open",
        "tritonlab.notebook.shell.model_commands:open_repository",
        "serve the models of a repository, and load again what changes",
    ).takes(
        Argument("directory", help="the model repository"),
        Argument("models", nargs="*", help="the only ones to serve; all if none is named"),
        Argument("--into", metavar="DIR", help="copy models without version directories to this repository first"),
    ),
    Command("watch", _MODELS, "load a model again whenever its files on disk change, and show its card").takes(
        _ANY_NAME, Argument("--stop", action="store_true", help="no longer; without a name, none of them")
    ),
    Command("unload", _MODELS, "take a model out of service, and the ensembles that contain it").takes(
        _NAME,
        Argument("--dependents", action="store_true", help="of an ensemble, also the models loaded for it alone"),
        Argument("--timeout", type=seconds, help="seconds for requests and finalize, then it is killed"),
    ),
    Command(
        "kill",
        _MODELS,
        "end now what hangs: what is left of a model that was loaded again or unloaded, else the processes that hold "
        "requests, and others take over",
    ).takes(_NAME),
    Command("index", _MODELS, "show the repository index: models, versions, states and reasons").takes(
        Argument("--ready", action="store_true", help="READY versions only")
    ),
    Command("playground", _REQUESTS, "open a form for sending requests").takes(_NAME),
    Command(
        "view",
        _SERVER,
        "show what a model does, live: its batches and why each closed, its streams, metrics, memory or calls",
    ).takes(
        _ANY_NAME,
        Argument("kind", nargs="?", help="timeline, streams, metrics, graph, memory; the first if none is named"),
    ),
    Command("profile", _REQUESTS, "show which lines of a model take the time, by batch size, or keep memory").takes(
        _NAME,
        *_PROFILE,
        Argument("--watch", action="store_true", help="send nothing, look at what others send"),
    ),
    Command("infer", _REQUESTS, "send one request", usage="NAME INPUT0=expression, INPUT1=expression", is_raw=True),
    Command(
        "golden",
        _REQUESTS,
        "keep responses and check that the model still gives them",
        usage="add [--error] NAME INPUT0=expression | check [NAME] | update [NAME]",
        is_raw=True,
    ),
    Command("logs", _SERVER, "show what a model printed and logged").takes(
        _ANY_NAME,
        Argument("-n", "--lines", type=int, help="how many lines, the last ones"),
        Argument("--request", metavar="ID", help="only those of the request of this id or number"),
    ),
    Command("why", _SERVER, "show what waits for what, and why").takes(_ANY_NAME),
    Command("debug", _REQUESTS, "type to a model that is paused at breakpoint()").takes(
        _ANY_NAME,
        Argument("--vscode", action="store_true", help="let VS Code attach, and print what it needs for that"),
    ),
    Command("postmortem", _REQUESTS, "look at a model's last exception, where its frames still live").takes(_ANY_NAME),
    Command("config", _MODELS, "show the complete config that a model runs with").takes(
        _NAME, Argument("--clear", action="store_true", help="forget the config text that was given")
    ),
    Command(
        "artifact",
        _MODELS,
        "keep a value of the notebook as a file beside model.py, which is exported with it",
        usage="NAME weights.pt=expression",
        is_raw=True,
    ),
    Command(
        "serve",
        _SERVER,
        "open HTTP, gRPC and metrics ports",
        usage="[--http-port 8000] [--no-token] [--allow-model-control=true] … (flags of `tritonlab serve` about "
        "ports); --dynamo: show the commands that serve the models in a fleet of NVIDIA Dynamo",
        is_raw=True,
    ),
    Command("stop", _SERVER, "close the ports; models stay loaded until %triton unload"),
    Command("statistics", _SERVER, "show how often models ran, and how long").takes(_ANY_NAME),
    Command("metrics", _SERVER, "show the text of /metrics, or one model's lines of it").takes(_ANY_NAME),
    Command(
        "trace", _SERVER, "write what the server does from now on to FILE, for ui.perfetto.dev; without FILE: end it"
    ).takes(Argument("file", nargs="?", help="a JSON file, written when the trace ends")),
    Command("edit", _MODELS, "put a model's source into the next cell, also of an opened repository").takes(_NAME),
    Command(
        "help",
        "tritonlab.notebook.shell.commands:show_help",
        "show this list, one command's arguments, or the page about an error",
    ).takes(Argument("command", nargs="?", help="a subcommand, or the topic that an error's hint names")),
)

#: Other words that people type for subcommands of `%triton`; the error for one names the subcommand.
_OTHER_WORDS = {
    "status": "card health list ls models ps state",
    "load": "refresh reload restart start",
    "unload": "del delete drop remove rm",
    "kill": "abort cancel interrupt terminate",
    "index": "repository versions",
    "playground": "form gui try ui",
    "view": "dashboard live monitor plot show top",
    "load_test": "bench benchmark load-test perf perf_analyzer stress",
    "check": "lint test validate verify",
    "profile": "flamegraph hotspots lines profiler",
    "infer": "ask call generate predict query request run send stream",
    "golden": "expect keep record snapshot",
    "logs": "errors log output prints stderr stdout tail",
    "why": "hangs pending queue stuck waits",
    "debug": "attach breakpoint debugger pdb",
    "postmortem": "exception pm post-mortem traceback",
    "config": "metadata pbtxt schema settings",
    "export": "build deploy docker package save write",
    "push": "publish upload",
    "artifact": "weights",
    "serve": "expose grpc http listen ports",
    "stop": "close exit quit shutdown",
    "statistics": "counts latency stats throughput times",
    "metrics": "prometheus",
    "trace": "perfetto",
    "edit": "code source",
    "help": "commands docs man usage",
}

_COMMANDS = (
    Command(
        "serve",
        "tritonlab.frontends.cli.serve:run",
        "serves a model repository over HTTP and gRPC, as tritonserver does",
        is_raw=True,
    ),
    Command(
        "lab",
        "tritonlab.quickstart:run",
        "opens JupyterLab on a copy of the quickstart",
        usage="[-h] [DIR] [-- OPTION ...]",
    ).takes(
        Argument(
            "words",
            metavar="DIR, OPTION",
            nargs="*",
            help="where the copy goes (the working directory), and options of jupyter lab: "
            "tritonlab lab -- --ip=0.0.0.0",
        )
    ),
    Command(
        "doctor",
        "tritonlab.doctor:run",
        "says what of this machine and environment is missing or does not fit, and how to fix it",
    ).takes(_JSON),
    Command(
        "stub",
        "tritonlab.ipc.processes.own_stub:run",
        "makes a model run with another Python: writes its own triton_python_backend_stub",
    ).takes(
        Argument("directory", metavar="MODEL_DIRECTORY", type=Path, help="<model repository>/<model>"),
        Argument("--python", required=True, help="a Python from 3.8 on, with numpy: a path, or a name on PATH"),
        Argument(
            "--force",
            action="store_true",
            help="replace a triton_python_backend_stub that was not written by this command",
        ),
    ),
    Command(
        "test", "tritonlab.golden_run:run", "sends the requests of golden sets again, and compares the responses"
    ).takes(
        Argument(
            "paths",
            metavar="NOTEBOOK_OR_DIR",
            type=Path,
            nargs="+",
            help="a notebook, which is run, a directory of notebooks, or a model repository DIR beside DIR.golden",
        ),
        _JUNIT,
        Argument("--timeout", type=float, metavar="SECONDS", help="for each cell (600)"),
    ),
    Command(
        "worker",
        "tritonlab.dynamo.worker:run",
        "serves a model repository as a worker of an NVIDIA Dynamo fleet, whose frontends clients call",
        note="It needs ai-dynamo, in this environment; DYN_* variables go to its runtime.",
    ).takes(
        Argument("--dynamo", action="store_true", required=True, help="the kind of fleet; there is one"),
        *_models_to("the models to serve"),
        Argument("--namespace", help="keeps fleets apart (dynamo)"),
        Argument(
            "--discovery",
            choices=["file", "etcd", "kubernetes"],
            help="how frontends find it ($DYN_DISCOVERY_BACKEND, or file: then $DYN_FILE_KV names the directory)",
        ),
        Argument(
            "--host", help="where frontends reach it ($DYN_TCP_RPC_HOST, or 127.0.0.1: only those of this machine)"
        ),
    ),
)

_MEASURE = Tool(
    "measure",
    functions={
        "Model.load_test": "tritonlab.tools.measure.load_testing.load_test:load_test",
        "Model.tune": "tritonlab.tools.measure.tuning.tune:tune_model",
        "Model.what_if": "tritonlab.tools.measure.tuning.tuned_model:what_if",
        "load_panel": "tritonlab.tools.measure.load_testing.load_panel:LoadPanel",
    },
    lanes={"timeline": "tritonlab.tools.measure.tuning.what_if_lanes:lanes_of"},
    magics=(
        Command(
            "load_test",
            "tritonlab.tools.measure.load_testing.load_commands",
            "measure throughput and latency: of one client, with a form for more, or with --concurrency 1,2,8 or "
            "--request-rate 100,500",
            after="view",
        ).takes(
            _NAME,
            Argument("--concurrency", "-c", metavar="N,N", help="so many clients at once: 1,2,8"),
            Argument("--request-rate", "-r", **_RATE),
            *_LOAD,
            Argument("--shape", action="append", metavar="NAME:N,N", help="of an input of any size"),
            Argument("--csv", metavar="FILE", help="also write perf_analyzer's columns to a file"),
        ),
    ),
    commands=(
        Command(
            "load-test",
            "tritonlab.tools.measure.measure_run:load_test",
            "measures throughput and latency of models under load",
            after="check",
        ).takes(
            *_models_to("the models to measure"),
            Argument("--concurrency", "-c", type=numbers, metavar="N,N", help="so many clients at once: 1,2,8 (1)"),
            Argument("--request-rate", "-r", type=numbers, **_RATE),
            *_LOAD,
            _SEED,
            Argument("--save", metavar="DIR", type=Path, help="keep the results there, a file for each model"),
            Argument("--baseline", metavar="DIR", type=Path, help="compare with the results that were kept there"),
            Argument("--tolerance", type=float, metavar="SHARE", help="by which a number may be worse (0.1)"),
            _JUNIT,
            _JSON,
        ),
        Command(
            "profile",
            "tritonlab.tools.measure.measure_run:profile",
            "shows which lines of models take the time under load, or keep memory",
            after="load-test",
        ).takes(
            *_models_to("the models to profile"),
            *_PROFILE,
            _SEED,
            _JUNIT,
            _JSON,
        ),
        Command(
            "tune",
            "tritonlab.tools.measure.measure_run:tune",
            "finds the settings of models with the most requests per second",
            note="The files of the repository stay as they are; the lines for config.pbtxt are in the result.",
            after="profile",
        ).takes(
            *_models_to("the models to tune"),
            Argument("--p99-ms", type=float, metavar="MS", help="99 of 100 requests must be answered within it"),
            Argument("--seconds", type=seconds, help="about the most that each model may take (60)"),
            Argument("--max-instances", type=int, metavar="N", help="the most instances"),
            Argument("--max-batch-size", type=int, metavar="N", help="the largest batch"),
            _JUNIT,
            _JSON,
        ),
        Command(
            "golden",
            "tritonlab.tools.measure.measure_run:golden",
            "records answers of models beside their repository, with which `tritonlab test` compares",
            after="test",
        ).takes(
            Argument("action", choices=["record"], help="record: keep the present answers"),
            *_models_to("the models to ask"),
            Argument("--count", type=int, metavar="N", help="requests of random values to a model without cases (3)"),
            _SEED,
            _JUNIT,
            _JSON,
        ),
    ),
)

_CHECK = Tool(
    "check",
    functions={
        "Model.check": "tritonlab.tools.check.run:check",
        "testing.check_case": "tritonlab.tools.check.run:check_case",
        "testing.requests_for": "tritonlab.tools.check.strategies:requests_for",
    },
    panels=(
        Panel(
            "check",
            "Check…",
            "look for what goes wrong in company: batches, state, failures that spread, leaks",
            "tritonlab.tools.check.check_panel:CheckPanel",
        ),
    ),
    magics=(
        Command(
            "check",
            "tritonlab.tools.check.check_commands",
            "look for what goes wrong in company: batches, state, failures that spread, streams, sequences, leaks",
            after="load_test",
        ).takes(
            _NAME,
            *_CHECKED,
        ),
    ),
    commands=(
        Command(
            "check",
            "tritonlab.tools.check.check_run:run",
            "looks for what goes wrong with models in company: batches, state, failures that spread, leaks",
            after="test",
        ).takes(
            *_models_to("the models to check"),
            *_CHECKED,
            _JUNIT,
            Argument("--tests", metavar="DIR", type=Path, help="write a pytest of each finding"),
            _JSON,
        ),
    ),
)

_DEPLOY = Tool(
    "deploy",
    functions={
        "Model.preflight": "tritonlab.tools.deploy.preflight.judge:preflight_of",
        "OpenedRepository.export": "tritonlab.tools.deploy.whole_repository:export_opened",
        "export": "tritonlab.tools.deploy.exporting:export_notebook",
        "verify": "tritonlab.tools.deploy.verify.verification:verify",
    },
    panels=(
        Panel(
            "export",
            "Export…",
            "write a model repository for a real server",
            "tritonlab.tools.deploy.export_panel:ExportPanel",
        ),
    ),
    calls={
        "export_choices": "tritonlab.tools.deploy.window_calls:choices",
        "plan": "tritonlab.tools.deploy.window_calls:plan",
        "export": "tritonlab.tools.deploy.window_calls:export",
        "cancel_export": "tritonlab.tools.deploy.window_calls:cancel_export",
        "zip_export": "tritonlab.tools.deploy.window_calls:zip_export",
    },
    magics=(
        Command(
            "export",
            "tritonlab.tools.deploy.deploy_commands:export_named",
            "write a model repository for a real server",
            after="config",
        ).takes(
            _NAME,
            Argument(
                "place",
                nargs="*",
                metavar="[NAME ...] DIR",
                help="more models, and last the repository (model_repository)",
            ),
            *_WRITTEN,
            Argument("--alone", action="store_true", help="without the models that its steps or its BLS calls name"),
            Argument("--zip", action="store_true", help="also pack it, beside the repository"),
            Argument("--capture", action="store_true", help="write what other cells define in front of the model"),
            Argument("--artifact", action="append", metavar="FILE=EXPR", help="keep a value as a file beside model.py"),
            Argument("--env-python", metavar="VERSION", help="the Python of --env, as 3.12 (this one's; the image's)"),
            Argument("--env-budget", type=int, metavar="MB", help="refuse an environment that is larger"),
            Argument(
                "--verify",
                nargs="?",
                const=True,
                help="prove it on real releases of Triton: --verify=2.51,2.41 (the target)",
            ),
            Argument("--last", type=int, metavar="N", help="how many last requests of each model --verify sends (all)"),
            *_IMAGE,
        ),
        Command(
            "preflight",
            "tritonlab.tools.deploy.deploy_commands",
            "show what of a model will not work on a release of Triton, and what to do",
            after="artifact",
        ).takes(_NAME, _TARGET),
    ),
    commands=(
        Command(
            "releases",
            "tritonlab.tools.deploy.releases:print_table",
            "prints which releases of Triton there are, what they bring and what they lack",
            after="test",
        ).takes(
            Argument("--sources", action="store_true", help="also where each cell of the table is from"),
            Argument("--json", dest="as_json", action="store_true", help="print the table as JSON, with the sources"),
        ),
        Command(
            "export",
            "tritonlab.tools.deploy.export_run:run",
            "writes the models of a repository, or of a notebook that it runs, for a real server",
            after="releases",
        ).takes(
            Argument("source", metavar="DIR_OR_NOTEBOOK", type=Path, help="a model repository, or an .ipynb"),
            Argument("directory", metavar="OUT", type=Path, help="the repository to write; OUT/models with --deploy"),
            *_WRITTEN,
            Argument("--verify", nargs="?", const=True, metavar="RELEASES", help="prove it on releases (the target)"),
            *_IMAGE,
            _JSON,
        ),
        Command(
            "preflight",
            "tritonlab.tools.deploy.preflight_run:run",
            "loads models, and prints what of them will not work on a release of Triton, and what to do",
            after="export",
        ).takes(
            Argument(
                "folder",
                metavar="DIR_OR_NAME",
                help="a model directory, a model repository, or the name of a model in ./model_repository",
            ),
            _TARGET,
            _JSON,
        ),
        Command(
            "verify",
            "tritonlab.tools.deploy.verify.verification:run",
            "proves an exported repository on real Triton servers, with this machine's Python and files hidden",
            after="check",
        ).takes(
            Argument("directory", metavar="DIR", type=Path, help="a model repository, or a directory with models/"),
            Argument(
                "--triton",
                metavar="RELEASES",
                help="2.51,2.41, or tags of containers (24.10), or path: the tritonserver on PATH (2.51)",
            ),
            Argument(
                "--requests",
                metavar="PATH",
                help="golden: those that lie with the export and DIR.golden (the default), or golden cases elsewhere",
            ),
            Argument("--hide", action="append", type=Path, metavar="PATH", help="hide this, too"),
            Argument("--python", metavar="VERSION", help="of the stub for models without an environment"),
        ),
    ),
)

_OPENAI = Tool(
    "openai",
    ports=(
        Port(
            "openai",
            "OpenAI",
            "OpenAI's API for models that take a text: its port, 0 for any free one. Default: it is not open.",
            9000,
            "tritonlab.tools.openai.openai_server:OpenAIServer",
        ),
    ),
)

_CAPTURE_RULES = (
    Argument("--sample", type=share, metavar="SHARE", help="keep this share of the requests: 1%% or 0.01"),
    Argument("--per-minute", type=int, metavar="N", help="keep at most so many in a minute"),
    Argument("--only", action="append", metavar="KIND", help="keep those that failed: errors, or took long: slow=0.2"),
    Argument(
        "--redact",
        action="append",
        metavar="PATTERN=HOW",
        help="never write the tensors and parameters of these names: TEXT=drop, 'user*'=hash, input.IMAGE=shape",
    ),
    Argument("--max-mb", type=int, metavar="N", help="the largest size of the file in megabytes (1074)"),
)

_CAPTURE_SOURCES = Argument(
    "--from",
    dest="sources",
    nargs="+",
    metavar="SOURCE",
    help="make it of trace files of Triton (levels TIMESTAMPS and TENSORS), or of CloudEvents of KServe's logger",
)

_REPLAYED = (
    Argument("--speed", metavar="N", help="factor of the recorded pace (1); max: as fast as it goes"),
    Argument("--limit", type=int, metavar="N", help="the most requests of each model"),
    Argument("--seconds", "-s", type=seconds, help="only so many seconds of the capture"),
)

_CAPTURE = Tool(
    "capture",
    functions={
        "capture": "tritonlab.tools.capture.server_capture:capture",
        "capture_from": "tritonlab.tools.capture.capture_source:capture_from",
        "Model.replay": "tritonlab.tools.capture.replay.replaying:replay",
        "RemoteServer.push": "tritonlab.tools.capture.push.push_run:push",
    },
    panels=(
        Panel(
            "replay",
            "Replay…",
            "send the requests of a capture again, and see which answers changed",
            "tritonlab.tools.capture.replay.replay_panel:ReplayPanel",
        ),
        Panel(
            "push",
            "Push…",
            "load the model on a running Triton, prove it there, or undo that",
            "tritonlab.tools.capture.push.push_panel:PushPanel",
        ),
    ),
    magics=(
        Command(
            "capture",
            "tritonlab.tools.capture.capture_commands",
            "write the requests of clients, with their answers, to FILE from now on; without FILE: show it",
            after="trace",
        ).takes(
            Argument("file", nargs="?", help="a new file, which pandas.read_feather reads"),
            Argument("models", nargs="*", metavar="NAME", help="the only models; all if none is named"),
            Argument("--stop", action="store_true", help="end it, or all captures without FILE"),
            _CAPTURE_SOURCES,
            *_CAPTURE_RULES,
        ),
        Command(
            "replay",
            "tritonlab.tools.capture.replay.replay_commands",
            "send the requests of a capture again, and show which answers changed",
            after="check",
        ).takes(
            _NAME,
            Argument("capture", metavar="FILE", help="the capture"),
            Argument("--against", metavar="NAME", help="the old model, for its noise and its latencies"),
            *_REPLAYED,
        ),
        Command(
            "push",
            "tritonlab.tools.capture.push.push_commands",
            "load a model on a running Triton and prove it there, or undo that",
            after="export",
        ).takes(_NAME, *_PUSH),
    ),
    commands=(
        Command(
            "capture",
            "tritonlab.tools.capture.capture_commands:run",
            "makes a capture of trace files of Triton, or of files of CloudEvents from KServe's logger",
        ).takes(
            Argument("file", metavar="FILE", help="the new file, which pandas.read_feather reads"),
            Argument(*_CAPTURE_SOURCES.names, required=True, **_CAPTURE_SOURCES.settings),
            *_CAPTURE_RULES,
            _JSON,
        ),
        Command(
            "replay",
            "tritonlab.tools.capture.replay.replay_commands:run",
            "sends the requests of a capture to models, and says which answers changed",
            after="check",
        ).takes(
            Argument("capture", metavar="CAPTURE", type=Path, help="the file of a capture"),
            *_models_to("the models to ask"),
            Argument("--against", metavar="URL", help="a server with the old models, for their noise and latencies"),
            *_REPLAYED,
            Argument(
                "--fail-on",
                type=names,
                metavar="KIND,KIND",
                help="of values,shapes,datatypes,outputs,responses,errors,latency (all but latency)",
            ),
            _JUNIT,
            Argument("--page", metavar="FILE", type=Path, help="write a page for other people"),
            _JSON,
        ),
        Command(
            "tap",
            "tritonlab.tools.capture.tap.tap_command",
            "forwards the connections of clients to a server, over HTTP or gRPC, and captures the requests on them",
            note="Bytes are forwarded as they are. Where the capture cannot follow, it loses requests and says how "
            "many; clients do not notice. SIGTERM ends it when the requests under way are answered.",
            after="capture",
        ).takes(
            Argument(
                "--listen",
                action="append",
                required=True,
                metavar="[HOST]:PORT",
                help="where clients connect; may be given again, each with its --upstream",
            ),
            Argument("--upstream", action="append", required=True, metavar="HOST:PORT", help="the server"),
            Argument("--write", required=True, type=Path, metavar="FILE", help="the new file of the capture"),
            Argument("--grace", type=seconds, help="how long requests under way may take after SIGTERM (25)"),
            *_CAPTURE_RULES,
        ),
        Command(
            "push",
            "tritonlab.tools.capture.push.push_commands:run",
            "loads models of a repository on a running Triton, proves them there, and undoes it if an answer differs",
            after="export",
        ).takes(
            Argument("source", metavar="DIR", type=Path, help="a model repository; DIR.golden has the proof"),
            *_PUSH,
            _ONLY,
            _JSON,
        ),
    ),
)

#: tritonlab and its tools; where two have a name in common, the first one counts, and tritonlab's before others'.
TOOLS = (Tool("tritonlab", _MAGICS, _COMMANDS), _MEASURE, _CHECK, _DEPLOY, _OPENAI, _CAPTURE)
