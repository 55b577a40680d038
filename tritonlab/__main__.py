"""The command line: `python -m tritonlab COMMAND`, or `tritonlab COMMAND`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import quickstart
from .core.version import VERSION
from .frontends.cli.freed_memory import keep_freed_memory
from .ipc.processes.interpreter import Interpreter, InterpreterError
from .ipc.processes.own_stub import NAME, write_own_stub
from .tools.deploy.releases import DEFAULT_TARGET, table_facts, table_text

DYNAMO_MISSING = (
    "NVIDIA Dynamo is not installed in this environment: `pip install ai-dynamo==1.6.1`, in one that is not your "
    "notebook's; where NVIDIA's package index cannot be reached, `pip install --no-deps ai-dynamo==1.6.1 "
    "ai-dynamo-runtime==1.6.1` and what its worker imports"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status, 0 for success."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["serve"]:  # the syntax of its flags is tritonserver's, not argparse's
        from .frontends.cli.serve import serve

        keep_freed_memory()
        return serve(words[1:])
    options = command_parser().parse_args(words)
    try:
        return options.run(options) or 0
    except (OSError, InterpreterError) as error:
        print(f"tritonlab: {error}", file=sys.stderr)
        return 1


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; the options of `serve` are not in it (`frontends/cli/flags.py`)."""
    parser = argparse.ArgumentParser(prog="tritonlab", description="Models of Triton's Python backend, without Triton.")
    parser.add_argument("--version", action="version", version=f"tritonlab {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    commands.add_parser("serve", help="serves a model repository over HTTP and gRPC, as tritonserver does")
    add_lab_command(commands)
    add_doctor_command(commands)
    add_stub_command(commands)
    add_test_command(commands)
    add_releases_command(commands)
    add_preflight_command(commands)
    add_check_command(commands)
    add_verify_command(commands)
    add_worker_command(commands)
    return parser


def add_lab_command(commands: Any) -> None:
    """Add `lab`, the first minute of a newcomer."""
    text = "opens JupyterLab on a copy of the quickstart"
    parser = commands.add_parser("lab", help=text, description=f"This command {text}.")
    parser.usage = "tritonlab lab [-h] [DIR] [-- OPTION ...]"
    about = "where the copy goes (the working directory), and options of jupyter lab: tritonlab lab -- --ip=0.0.0.0"
    parser.add_argument("words", metavar="DIR, OPTION", nargs="*", help=about)
    parser.set_defaults(run=lambda options: quickstart.open_lab(*split_words(options.words)))


def split_words(words: Sequence[str]) -> tuple[Path, Sequence[str]]:
    """Return the directory of a line of `lab`, and the options of `jupyter lab` in it."""
    if words and not words[0].startswith("-"):
        return Path(words[0]), words[1:]
    return Path(), words


def add_doctor_command(commands: Any) -> None:
    """Add `doctor`, whose exit status says whether notebooks and their models can work here."""
    text = "says what of this machine and environment is missing or does not fit, and the mend"
    parser = commands.add_parser("doctor", help=text, description=f"This command {text}.")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=examine_machine)


def examine_machine(options: argparse.Namespace) -> int:
    from . import doctor

    return doctor.run(as_json=options.json)


def add_stub_command(commands: Any) -> None:
    """Add `stub`, which sets the Python of one model where no EXECUTION_ENV_PATH does (rule 2.10.6)."""
    text = "makes a model run with another Python: writes its own triton_python_backend_stub"
    parser = commands.add_parser("stub", help=text, description=f"This command {text}.")
    parser.add_argument("directory", metavar="MODEL_DIRECTORY", type=Path, help="<model repository>/<model>")
    parser.add_argument("--python", required=True, help="a Python from 3.8 on, with numpy: a path, or a name on PATH")
    parser.add_argument("--force", action="store_true", help=f"replace a {NAME} that was not written by this command")
    parser.set_defaults(run=write_stub)


def add_test_command(commands: Any) -> None:
    """Add `test`, which checks the golden sets on machines without a browser."""
    text = "sends the requests of golden sets again, and compares the responses"
    parser = commands.add_parser("test", help=text, description=f"This command {text}.")
    parser.add_argument(
        "paths",
        metavar="NOTEBOOK_OR_DIR",
        type=Path,
        nargs="+",
        help="a notebook, which is run, a directory of notebooks, or a model repository DIR beside DIR.golden",
    )
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write the results as JUnit's XML")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="for each cell (600)")
    parser.set_defaults(run=ask_golden_sets)


def ask_golden_sets(options: argparse.Namespace) -> int:
    from . import golden_run

    return golden_run.run(options.paths, options.junit, options.timeout)


def add_releases_command(commands: Any) -> None:
    """Add `releases`, which prints the table that `--target` judges by."""
    text = "prints which releases of Triton there are, what they bring and what they lack"
    parser = commands.add_parser("releases", help=text, description=f"This command {text}.")
    parser.add_argument("--sources", action="store_true", help="also where each cell of the table is from")
    parser.add_argument("--json", action="store_true", help="print the table as JSON, with the sources")
    parser.set_defaults(run=print_releases)


def add_preflight_command(commands: Any) -> None:
    """Add `preflight`, whose exit status says whether the models will work at the target."""
    text = "loads models, and prints what of them will not work on a release of Triton, and what to do"
    parser = commands.add_parser("preflight", help=text, description=f"This command {text}.")
    about = "a model directory, a model repository, or the name of a model in ./model_repository"
    parser.add_argument("place", metavar="DIR_OR_NAME", help=about)
    targets = "2.49, its container as 24.08, kserve, dynamo or ray (2.51)"
    parser.add_argument("--target", default=DEFAULT_TARGET, help=targets)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(run=judge_models)


def judge_models(options: argparse.Namespace) -> int:
    from . import preflight_run

    return preflight_run.run(options.place, options.target, as_json=options.json)


def add_check_command(commands: Any) -> None:
    """Add `check`, whose exit status says whether anything was found."""
    text = "looks for what goes wrong with models in company: batches, state, failures that spread, leaks"
    parser = commands.add_parser("check", help=text, description=f"This command {text}.")
    parser.add_argument("--model-repository", metavar="DIR", type=Path, required=True, help="the models to check")
    parser.add_argument("--model", action="append", default=[], metavar="NAME", help="only this one of them")
    parser.add_argument("--seconds", type=float, default=60.0, help="about how long each model may take (60)")
    parser.add_argument("--seed", type=int, default=0, help="of the requests; the same seed makes the same ones")
    parser.add_argument("--relations", metavar="NAME,NAME", help="those to try, as company,neighbours; else all")
    parser.add_argument("--side-effects", action="store_true", help="also models that talk to others")
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write the results as JUnit's XML")
    parser.add_argument("--tests", metavar="DIR", type=Path, help="write a pytest of each finding")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.set_defaults(run=check_models)


def check_models(options: argparse.Namespace) -> int:
    from . import check_run  # with all relations, which other commands do not need

    return check_run.run(
        options.model_repository,
        options.model,
        seconds=options.seconds,
        seed=options.seed,
        relations=options.relations.split(",") if options.relations else None,
        side_effects=options.side_effects,
        junit=options.junit,
        tests=options.tests,
        as_json=options.json,
    )


def print_releases(options: argparse.Namespace) -> None:
    print(json.dumps(table_facts(), indent=1) if options.json else table_text(options.sources))


def add_verify_command(commands: Any) -> None:
    """Add `verify`, which asks real Triton servers."""
    text = "proves an exported repository on real Triton servers, with this machine's Python and files hidden"
    parser = commands.add_parser("verify", help=text, description=f"This command {text}.")
    parser.add_argument("directory", metavar="DIR", type=Path, help="a model repository, or a directory with models/")
    parser.add_argument(
        "--triton",
        metavar="RELEASES",
        default=DEFAULT_TARGET,
        help="2.51,2.41, or tags of containers (24.10), or path: the tritonserver on PATH (%(default)s)",
    )
    parser.add_argument(
        "--requests",
        default="golden",
        metavar="PATH",
        help="golden: those that lie with the export and DIR.golden (the default), or golden cases elsewhere",
    )
    parser.add_argument("--hide", action="append", default=[], type=Path, metavar="PATH", help="hide this, too")
    parser.add_argument("--python", default="", metavar="VERSION", help="of the stub for models without an environment")
    parser.set_defaults(run=verify_export)


def verify_export(options: argparse.Namespace) -> int:
    """Verify an export and print the verdict. Return 1 if it differs or could not be verified, 130 if it was
    interrupted."""
    # it imports grpcio, which reads its switches then; imported before `serve` sets them, gRPC is a tenth slower
    from .tools.deploy.verify import verification

    try:
        found = verification.verify(
            options.directory,
            triton=options.triton,
            requests=options.requests,
            hide=options.hide,
            python=options.python,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
    except ValueError as error:
        print(f"tritonlab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tritonlab: interrupted; nothing was left behind", file=sys.stderr)
        return 130
    print(found)
    return 0 if found.passed else 1


def add_worker_command(commands: Any) -> None:
    """Add `worker`, which serves models in a fleet of another program's."""
    text = "serves a model repository as a worker of an NVIDIA Dynamo fleet, whose frontends clients call"
    about = f"This command {text}. It needs ai-dynamo, in this environment; DYN_* variables go to its runtime."
    parser = commands.add_parser("worker", help=text, description=about)
    parser.add_argument("--dynamo", action="store_true", required=True, help="the kind of fleet; there is one")
    parser.add_argument("--model-repository", metavar="DIR", type=Path, required=True, help="the models to serve")
    parser.add_argument("--model", action="append", default=[], metavar="NAME", help="only this one of them")
    parser.add_argument("--namespace", default="dynamo", help="keeps fleets apart (%(default)s)")
    parser.add_argument(
        "--discovery",
        default=os.environ.get("DYN_DISCOVERY_BACKEND", "file"),
        choices=["file", "etcd", "kubernetes"],
        help="how frontends find it ($DYN_DISCOVERY_BACKEND, or file: then $DYN_FILE_KV names the directory)",
    )
    parser.add_argument(
        "--host",
        default=os.environ.get("DYN_TCP_RPC_HOST", "127.0.0.1"),
        help="where frontends reach it ($DYN_TCP_RPC_HOST, or %(default)s: only those of this machine)",
    )
    parser.set_defaults(run=serve_worker)


def serve_worker(options: argparse.Namespace) -> int:
    """Serve as a worker until a signal comes. Return 1 if the models cannot be served, 75 if it is to be started
    again."""
    if importlib.util.find_spec("dynamo") is None:
        print(f"tritonlab: {DYNAMO_MISSING}", file=sys.stderr)
        return 1
    from .dynamo.worker import WorkerOptions, run  # no other command needs it

    return run(
        WorkerOptions(
            options.model_repository,
            tuple(options.model),
            namespace=options.namespace,
            discovery=options.discovery,
            host=options.host,
        )
    )


def write_stub(options: argparse.Namespace) -> None:
    """Write a stub for one model. Raises OSError or InterpreterError; then nothing was written."""
    if not options.directory.is_dir():
        raise NotADirectoryError(f"{options.directory} is not a directory")
    # not resolved any further: the python of a virtual environment is a link, and must be started by that name
    python = os.path.abspath(shutil.which(options.python) or options.python)
    Interpreter(python).check()
    print(write_own_stub(options.directory, python, force=options.force))


if __name__ == "__main__":
    sys.exit(main())
