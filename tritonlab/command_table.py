"""The table of subcommands that both command lines read: `%triton` in a notebook and `tritonlab` in a shell.

A row names its function, `module:function`, which is imported when the subcommand runs: a shell imports only one
command's modules, `%load_ext tritonlab` none. The function has the defaults of the arguments.

Another distribution adds its own by an entry point of the group `tritonlab.tools`, which is a `Tool`:

    [project.entry-points."tritonlab.tools"]
    greetings = "greetings:TOOL"

They are searched when a subcommand is not one of tritonlab's own, and for help and completion: the search takes 10
to 40 ms, and the import of its module 70 (2026-11-28, two busy cores).
"""

from __future__ import annotations

import argparse
import functools
import math
import pkgutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


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

    def takes(self, *arguments: Argument) -> Command:
        """Return the same subcommand with arguments, in the order of its help."""
        return replace(self, arguments=arguments)

    @property
    def description(self) -> str:
        """Its purpose and, if the function reads the line itself, its usage."""
        return f"{self.about}: {self.usage}" if self.is_raw else self.about

    def find(self) -> Callable[..., Any]:
        """Import the function and return it."""
        place = self.function if ":" in self.function else f"{self.function}:{self.name}"
        found: Callable[..., Any] = pkgutil.resolve_name(place)
        return found

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments to the parser of the subcommand."""
        for each in self.arguments:
            parser.add_argument(*each.names, **{"default": argparse.SUPPRESS, **each.settings})


@dataclass(frozen=True)
class Tool:
    """The additions of one part of tritonlab, or of another package. Everything is imported at its first use."""

    name: str
    #: subcommands of `%triton`, in the order of its help
    magics: Sequence[Command] = ()
    #: subcommands of `tritonlab`, in the order of its help
    commands: Sequence[Command] = ()


def magic_commands() -> dict[str, Command]:
    """Return the subcommands of `%triton` by name."""
    return {command.name: command for tool in (*_installed_tools(), *TOOLS) for command in tool.magics}


def shell_commands(only_ours: bool = False) -> dict[str, Command]:
    """Return the subcommands of `tritonlab` by name."""
    others = () if only_ours else _installed_tools()
    return {command.name: command for tool in (*others, *TOOLS) for command in tool.commands}


@functools.cache
def _installed_tools() -> tuple[Tool, ...]:
    """Return the tools of other distributions. One that cannot be imported is left out, with a warning."""
    from importlib import metadata

    found = []
    for entry in metadata.entry_points(group=GROUP):
        try:
            tool = entry.load()
            if not isinstance(tool, Tool):
                raise TypeError(f"it is no tritonlab.command_table.Tool, but {type(tool).__name__}")
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


def names(text: str) -> list[str] | None:
    """Return the value of an option of the form NAME,NAME; None for an empty text."""
    return text.split(",") if text else None


#: The group of entry points with the tools of other distributions.
GROUP = "tritonlab.tools"

#: Modules with functions of the names of their subcommands.
_MODELS = "tritonlab.notebook.shell.model_commands"
_REQUESTS = "tritonlab.notebook.shell.request_commands"
_SERVER = "tritonlab.notebook.shell.server_commands"

_NAME = Argument("name", help="a model")
_ANY_NAME = Argument("name", nargs="?", help="a model")
_TARGET = Argument("--target", metavar="RELEASE", help="where it is to run: 2.49, 24.08, kserve, dynamo or ray (2.51)")
_SEED = Argument("--seed", type=int, help="of the requests; the same seed makes the same ones")
_JUNIT = Argument("--junit", metavar="FILE", type=Path, help="write the results as JUnit's XML")
_REPOSITORY = {"metavar": "DIR", "type": Path, "required": True}
_ONLY = Argument("--model", dest="models", action="append", metavar="NAME", help="only this one of them")

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
    Command(
        "load_test",
        _REQUESTS,
        "measure throughput and latency: of one client, with a form for more, or with --concurrency 1,2,8 or "
        "--request-rate 100,500",
    ).takes(
        _NAME,
        Argument("--concurrency", "-c", metavar="N,N", help="so many clients at once: 1,2,8"),
        Argument("--request-rate", "-r", metavar="R,R", help="so many requests per second: 100,500"),
        Argument("--duration", "-d", type=seconds, help="seconds that each is measured; else until it is stable"),
        Argument("--batch", "-b", type=int, help="rows of each request"),
        Argument("--shape", action="append", metavar="NAME:N,N", help="of an input of any size"),
        Argument("--csv", metavar="FILE", help="also write perf_analyzer's columns to a file"),
    ),
    Command(
        "check",
        _REQUESTS,
        "look for what goes wrong in company: batches, state, failures that spread, streams, sequences, leaks",
    ).takes(
        _NAME,
        Argument("--seconds", "-s", type=seconds, help="about how long it may take (60)"),
        _SEED,
        Argument(
            "--relations", type=names, metavar="NAME,NAME", help="those to try: company,neighbours; all by default"
        ),
        Argument("--side-effects", action="store_true", help="also a model that talks to other models or services"),
    ),
    Command("profile", _REQUESTS, "show which lines of a model take the time, by batch size, or keep memory").takes(
        _NAME,
        Argument("--seconds", "-s", type=seconds, help="how long (3)"),
        Argument("--concurrency", "-c", type=int, help="so many clients at once (1)"),
        Argument("--batch", "-b", type=int, help="rows of each request"),
        Argument("--watch", action="store_true", help="send nothing, look at what others send"),
        Argument("--memory", action="store_true", help="what each line still holds of what it allocated"),
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
        "export", "tritonlab.notebook.shell.export_command:export_named", "write a model repository for a real server"
    ).takes(
        _NAME,
        Argument(
            "place", nargs="*", metavar="[NAME ...] DIR", help="more models, and last the repository (model_repository)"
        ),
        Argument("--overwrite", action="store_true", help="replace what is there, keep a backup"),
        Argument("--alone", action="store_true", help="without the models that its steps or its BLS calls name"),
        Argument("--zip", action="store_true", help="also pack it, beside the repository"),
        Argument("--dry-run", action="store_true", help="write nothing, show what would be written"),
        _TARGET,
        Argument("--capture", action="store_true", help="write what other cells define in front of the model"),
        Argument("--artifact", action="append", metavar="FILE=EXPR", help="keep a value as a file beside model.py"),
        Argument(
            "--include",
            action="append",
            metavar="NAME",
            help="a file or pattern that is otherwise left out: hidden, or larger than 100 MB",
        ),
        Argument("--env", help="requirements (a lock), dir or archive (relocatable), or the path of a prefix"),
        Argument("--env-python", metavar="VERSION", help="the Python of --env, as 3.12 (this one's; the image's)"),
        Argument("--env-budget", type=int, metavar="MB", help="refuse an environment that is larger"),
        Argument("--deploy", metavar="KINDS", help="files beside models/ that deploy it: docker,k8s,kserve,ray"),
        Argument(
            "--verify",
            nargs="?",
            const=True,
            help="prove it on real releases of Triton: --verify=2.51,2.41 (the target)",
        ),
        Argument("--last", type=int, metavar="N", help="how many last requests of each model --verify sends (all)"),
    ),
    Command(
        "artifact",
        _MODELS,
        "keep a value of the notebook as a file beside model.py, which is exported with it",
        usage="NAME weights.pt=expression",
        is_raw=True,
    ),
    Command("preflight", _MODELS, "show what of a model will not work on a release of Triton, and what to do").takes(
        _NAME, _TARGET
    ),
    Command(
        "serve",
        _SERVER,
        "open HTTP, gRPC and metrics ports",
        usage="[--http-port 8000] [--no-token] [--allow-model-control=true] … (flags of `tritonlab serve` about "
        "ports); --dynamo: show the commands that serve the models in a fleet of NVIDIA Dynamo",
        is_raw=True,
    ),
    Command("stop", _SERVER, "close the ports; models stay loaded"),
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
        "says what of this machine and environment is missing or does not fit, and the mend",
    ).takes(Argument("--json", dest="as_json", action="store_true", help="print it as JSON")),
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
        "releases",
        "tritonlab.tools.deploy.releases:print_table",
        "prints which releases of Triton there are, what they bring and what they lack",
    ).takes(
        Argument("--sources", action="store_true", help="also where each cell of the table is from"),
        Argument("--json", dest="as_json", action="store_true", help="print the table as JSON, with the sources"),
    ),
    Command(
        "preflight",
        "tritonlab.preflight_run:run",
        "loads models, and prints what of them will not work on a release of Triton, and what to do",
    ).takes(
        Argument(
            "folder",
            metavar="DIR_OR_NAME",
            help="a model directory, a model repository, or the name of a model in ./model_repository",
        ),
        Argument("--target", help="2.49, its container as 24.08, kserve, dynamo or ray (2.51)"),
        Argument("--json", dest="as_json", action="store_true", help="print the findings as JSON"),
    ),
    Command(
        "check",
        "tritonlab.check_run:run",
        "looks for what goes wrong with models in company: batches, state, failures that spread, leaks",
    ).takes(
        Argument("--model-repository", dest="repository", help="the models to check", **_REPOSITORY),
        _ONLY,
        Argument("--seconds", type=float, help="about how long each model may take (60)"),
        _SEED,
        Argument("--relations", type=names, metavar="NAME,NAME", help="those to try, as company,neighbours; else all"),
        Argument("--side-effects", action="store_true", help="also models that talk to others"),
        _JUNIT,
        Argument("--tests", metavar="DIR", type=Path, help="write a pytest of each finding"),
        Argument("--json", dest="as_json", action="store_true", help="print the results as JSON"),
    ),
    Command(
        "verify",
        "tritonlab.tools.deploy.verify.verification:run",
        "proves an exported repository on real Triton servers, with this machine's Python and files hidden",
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
    Command(
        "worker",
        "tritonlab.dynamo.worker:run",
        "serves a model repository as a worker of an NVIDIA Dynamo fleet, whose frontends clients call",
        note="It needs ai-dynamo, in this environment; DYN_* variables go to its runtime.",
    ).takes(
        Argument("--dynamo", action="store_true", required=True, help="the kind of fleet; there is one"),
        Argument("--model-repository", help="the models to serve", **_REPOSITORY),
        _ONLY,
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

#: tritonlab's tools, in order; a later subcommand replaces an earlier one of the same name, and tritonlab's replace
#: others.
TOOLS = (Tool("tritonlab", _MAGICS, _COMMANDS),)
