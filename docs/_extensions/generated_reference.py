"""The pages of the site that are written from the code: the API, the magics, the command line, the fields of a model's
configuration, the rule book, the releases of Triton, and the notebooks, which are copied to where Sphinx finds them."""

from __future__ import annotations

import argparse
import ast
import enum
import functools
import importlib
import importlib.metadata
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from pygments.lexers.python import PythonLexer
from tritonclient.grpc import model_config_pb2

import tritonlab
import tritonlab.testing
import tritonlab.tritonserver as tritonserver
from tritonlab.__main__ import command_parser
from tritonlab.core.error_pages import error_pages
from tritonlab.core.inference.infer_request import TRANSITIONS as REQUEST_MOVES
from tritonlab.engine.life.instance_state import TRANSITIONS as INSTANCE_MOVES
from tritonlab.frontends.cli.flags import GROUPS
from tritonlab.notebook.shell.commands import parser_of
from tritonlab.notebook.shell.magics import TritonMagics
from tritonlab.notebook.shell.parsing import line_parser
from tritonlab.server.models.model_lifecycle import TRANSITIONS as MODEL_MOVES
from tritonlab.tool_table import magic_commands
from tritonlab.tools.deploy.releases import table_text

PACKAGE = Path(tritonlab.__file__).parent
ROOT = PACKAGE.parent
#: What tritonlab.ray has for those who have Ray, without which it cannot be imported.
RAY = ("make_application", "application", "map_batches")
CELL_MAGICS = ("triton_model", "triton_config", "triton_file")
#: The notebook that is the tutorial; the others answer a question each.
TUTORIAL = "00_quickstart"
#: The headings of the index of notebooks, by the number of the first notebook below each.
SECTIONS = {
    "00": "Begin",
    "10": "Write a model",
    "25": "Batch, and tune",
    "30": "Call other models, and send many responses",
    "50": "Watch it in service",
    "60": "Build a pipeline",
    "70": "Long jobs",
    "75": "Debug, check, test",
    "82": "Accelerators",
    "90": "Serve and deploy",
}
#: What users call the subject of a page, for the index and the search; a test types these and others.
SEARCH_WORDS = {
    "10_numpy_and_pytorch": ["pytorch model", "pytorch weights", "torch", "load weights"],
    "20_configuration": ["config.pbtxt", "model configuration", "input shapes"],
    "25_batching": ["dynamic batching", "batch not full", "queue delay", "wait for a batch"],
    "26_tuning": ["load test", "throughput", "best batch size", "latency percentiles", "find the best settings"],
    "30_calling_other_models": ["call another model", "BLS", "business logic scripting"],
    "40_many_responses": ["decoupled", "response sender", "many responses"],
    "45_streams": ["stream tokens", "server-sent events"],
    "55_metrics": ["custom metric", "prometheus", "grafana"],
    "62_whole_pipeline": ["onnx model", "stand-in for an engine", "tensorrt without a gpu"],
    "65_ensembles": ["ensemble", "pipeline of models"],
    "75_debugging": ["debug a model", "breakpoint", "debugger", "model hangs", "traceback"],
    "78_checking_a_model": ["memory leak", "wrong answers in a batch", "find bugs"],
    "79_replaying_requests": ["replay production traffic", "capture requests", "compare two versions"],
    "80_testing_a_model": ["unit test", "pytest", "golden set", "continuous integration"],
    "82_gpus": ["use a gpu", "cuda", "gpu memory"],
    "90_serving": ["curl", "http client", "grpc client", "token for clients", "serve a model"],
    "92_deploying": ["docker", "kubernetes", "conda environment", "export a model", "deploy"],
}
_ABOUT_QUESTIONS = """\
# How-to guides, by question

Each notebook answers one question and runs as it is: `make lab` opens them. The times are those of 2 cores, from the
first cell to the last."""
#: A line of a docstring that explains an attribute or a parameter.
_EXPLAINED = re.compile(r"(?P<names>\*{0,2}[a-z]\w*(?:, \*{0,2}[a-z]\w*)*): (?P<text>.*)")


def write_pages(app: Any) -> None:
    """Write the generated pages below the source directory; Sphinx calls it before it reads them."""
    source = Path(app.srcdir)
    pages = {
        "reference/api.md": api_page(),
        "reference/returned.md": returned_page(),
        "reference/in-a-model.md": in_a_model_page(),
        "reference/testing.md": testing_page(),
        "reference/tritonserver.md": tritonserver_page(),
        "reference/ray.md": ray_page(),
        "reference/magics.md": magics_page(),
        "reference/command-line.md": command_line_page(),
        "reference/configuration.md": configuration_page(),
        "reference/states.md": states_page(),
        "reference/differences.inc": differences_list(),
        "reference/rules.md": (PACKAGE / "semantics.md").read_text(encoding="utf-8"),
        "reference/releases.md": releases_page(),
        "how-to/index.md": how_to_page(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        "contributing.md": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "]("),
    }
    pages |= {f"reference/errors/{name}.md": text for name, text in error_files().items()}
    for name, text in pages.items():
        write_if_changed(source / name, text)
    for notebook in notebooks():
        text = notebook.read_text(encoding="utf-8")
        if notebook.stem == TUTORIAL:  # the notebooks lie side by side, their pages do not
            text = re.sub(r"\]\((?=\d\d_)", "](../how-to/", text).replace("](README.md", "](../how-to/index.md")
            write_if_changed(source / "tutorial" / notebook.name, text)
        else:
            write_if_changed(source / "how-to" / notebook.name, with_search_words(notebook.stem, to_tutorial(text)))


def with_search_words(name: str, text: str) -> str:
    """Return a notebook whose last cell has the words that users search for, also as main entries of the index, which
    the search lists first."""
    words = SEARCH_WORDS.get(name)
    if words is None:
        return text
    notebook = json.loads(text)
    entries = "\n\n".join(f"```{{index}} ! {word}\n```" for word in words)
    source = f"{entries}\n\n*In other words: {', '.join(words)}.*"
    notebook["cells"].append({"cell_type": "markdown", "id": "search-words", "metadata": {}, "source": source})
    return json.dumps(notebook)


def notebooks() -> list[Path]:
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def write_if_changed(path: Path, text: str) -> None:
    """Write a page only if it differs, as Sphinx reads again what is newer than its last build."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def directive(name: str, target: str, **options: str) -> str:
    """Return one of autodoc's directives, which speak reStructuredText, for a page of Markdown."""
    lines = [f".. {name}:: {target}"]
    lines += [f"   :{option.replace('_', '-')}: {value}".rstrip() for option, value in options.items()]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```\n"


# -- states, and differences from Triton


_STATES = {
    "model version": (
        "The states of the repository index: `%triton index`, and `index` of the protocols.",
        MODEL_MOVES,
        {
            "LOADING": "its files are read, its instances are started and initialized",
            "READY": "it takes requests",
            "UNLOADING": "it takes no more requests; those that it has are answered, then its instances end",
            "UNAVAILABLE": "it could not be loaded, or was unloaded; the index has the reason",
        },
    ),
    "instance": (
        "Each instance is a process. `%triton status NAME` shows their states.",
        INSTANCE_MOVES,
        {
            "STARTING": "its process imports `model.py` and calls `initialize`",
            "READY": "it executes, or waits for a batch",
            "RESTARTING": "its process died or was killed, and another one starts in its place",
            "FAILED": "it could not be started; requests to it fail, and it is tried again after a pause",
            "STOPPED": "its model was unloaded or loaded again",
        },
    ),
    "request": (
        "`server.requests()` lists those that are not answered.",
        REQUEST_MOVES,
        {
            "INITIALIZED": "it was received and is not queued yet",
            "PENDING": "it waits in its model's queue, for a batch or for an instance",
            "EXECUTING": "an instance has it",
            "RELEASED": "its last response was delivered",
        },
    ),
}


def states_page() -> str:
    """The states of models, instances and requests, and the moves between them, from the tables of the code."""
    head = "# States of models, instances and requests"
    parts = [f"{head}\n\nAny move that is not in these tables is an error of tritonlab."]
    for subject, (about, moves, meanings) in _STATES.items():
        states = dict.fromkeys(state.name for move in moves.items() for state in (move[0][0], move[1]))
        rows = [f"| {name} | {meanings[name]} |" for name in states]
        steps = [f"| {old.name} | {event.name.lower()} | {new.name} |" for (old, event), new in moves.items()]
        parts.append(f"## A {subject}\n\n{about}\n\n| state | meaning |\n|---|---|\n" + "\n".join(rows))
        parts.append("| from | event | to |\n|---|---|---|\n" + "\n".join(steps))
    return "\n\n".join(parts).replace("## A instance", "## An instance") + "\n"


_RULE = re.compile(r"\*\*(\d+\.\d+\.\d+)\*\*")
_SENTENCE = re.compile(r"(?<=[.;])\s+(?=[A-Z`])|\s(?=tritonlab )(?<=[.;] )")


def differences_list() -> str:
    """The list of what differs from Triton: the sentences of the rule book that name tritonlab."""
    parts, rows, title = [], [], ""
    number = ""
    for line in [*(PACKAGE / "semantics.md").read_text(encoding="utf-8").splitlines(), "## end"]:
        if line.startswith("## "):
            if rows:
                parts.append(f"## {title}\n\n" + "\n".join(rows))
            rows, title, number = [], line[3:], ""
        if found := _RULE.search(line):
            number = found[1]
        if "tritonlab" not in line or line.startswith(("|", "#")) or not number:
            continue
        sentences = [text.strip() for text in _SENTENCE.split(_RULE.sub("", line).lstrip("- "))]
        for at, sentence in enumerate(sentences):
            if "tritonlab" in sentence:
                rows.append(f"- {number}: {' '.join(sentences[max(at - 1, 0) : at + 1])}")
    return "\n\n".join(parts) + "\n"


# -- the notebooks, by question


class Question(NamedTuple):
    """A notebook as the index shows it: `answer` is the first sentence of its answer, `time` how long it runs, `needs`
    what tritonlab does not install for it."""

    name: str
    title: str
    answer: str
    time: str
    needs: Sequence[str]


def question_of(notebook: Path) -> Question:
    """Read the first cell: the title, a paragraph that begins with the answer, and a last line about the run."""
    source = "".join(json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"])
    title, answer, *_ = [" ".join(paragraph.split()) for paragraph in source.split("\n\n")]
    time = re.search(r"^\*Runs in about (.+?)\.", source, re.MULTILINE)
    needs = re.search(r" Needs `pip install (.+?)`", source)
    sentences = re.split(r"(?<=[.?!]) ", answer)
    answer = " ".join(sentences[: 2 if len(sentences[0]) < 5 else 1])  # a yes wants the next
    return Question(
        notebook.stem, title.lstrip("# "), answer, time[1] if time else "", needs[1].split() if needs else ()
    )


def without_what_they_need() -> list[str]:
    """Return the notebooks that cannot run here, as patterns of pages."""
    return [
        f"*/{notebook.name}"
        for notebook in notebooks()
        if not {name.lower() for name in question_of(notebook).needs} <= installed()
    ]


@functools.cache
def installed() -> frozenset[str]:
    return frozenset(found.name.lower() for found in importlib.metadata.distributions() if found.name)


def questions_page() -> str:
    """The index of the notebooks, as `notebooks/README.md` has it."""
    parts = [_ABOUT_QUESTIONS]
    for notebook in notebooks():
        question = question_of(notebook)
        if heading := SECTIONS.get(question.name[:2]):
            parts.append(f"## {heading}")
        parts.append(f"- [{question.title}]({notebook.name}) ({question.time})<br>{question.answer}")
    return re.sub(r"(?m)^(- .*)\n\n(?=- )", r"\1\n", "\n\n".join(parts)) + "\n"


def how_to_page() -> str:
    names = [notebook.stem for notebook in notebooks() if notebook.stem != TUTORIAL]
    return "\n".join([to_tutorial(questions_page()), "```{toctree}", ":hidden:", "", *names, "```"])


def to_tutorial(text: str) -> str:
    """Return the text of a how-to page with its links to the tutorial, which has a directory of its own in the site."""
    return text.replace(f"]({TUTORIAL}.ipynb", f"](../tutorial/{TUTORIAL}.ipynb").replace("](README.md", "](index.md")


def releases_page() -> str:
    about = "What each release of Triton brings and lacks for a Python model, as `tritonlab releases` prints it."
    return f"# Releases of Triton\n\n{about}\n\n{fenced(table_text())}"


# -- the API


def list_explained(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Make a list of the lines `name: text` of a docstring, with their indented continuation, also below `Args:`, as
    the reader sees it in the code; Sphinx calls it with each docstring."""
    if "Args:" in lines:
        begin = lines.index("Args:") + 1
        end = next((n for n in range(begin, len(lines)) if not lines[n].startswith(" ")), len(lines))
        lines[begin:end] = [line.removeprefix("    ") for line in lines[begin:end]]
    if sum(bool(_EXPLAINED.fullmatch(line)) for line in lines) < 2:
        return
    shown: list[str] = []
    in_list = False
    for line in lines:
        found = _EXPLAINED.fullmatch(line)
        if found:
            names = ", ".join(f"``{name}``" for name in found["names"].split(", "))
            shown += [*([] if in_list else [""]), f"- {names}: {found['text']}"]
            in_list = True
        elif in_list and line.startswith(" "):
            shown.append(f"  {line.strip()}")
        else:
            shown += [*([""] if in_list and line.strip() else []), line]
            in_list = in_list and not line.strip()
    lines[:] = shown


def name_no_lambda(app: Any, what: str, name: str, value: Any, options: Any, signature: str, returned: str) -> Any:
    """Show a default that is a function without a name as an ellipsis; Sphinx calls it with each signature."""
    if not signature or "<lambda>" not in signature:
        return None
    return re.sub(r"<function [^<>]*<lambda>>", "…", signature), returned


def public_objects() -> dict[str, Any]:
    """The public names of the package; `open` is one, though no `import *` may bring it."""
    return {name: getattr(tritonlab, name) for name in sorted([*tritonlab.__all__, "open"])}


def api_page() -> str:
    about = (
        "All that is public is a name of `tritonlab`; what calls return is on [its own page](returned.md). More is in "
        "[what a model imports](in-a-model.md), [what tests import](testing.md), [tritonlab.tritonserver]"
        "(tritonserver.md) and [tritonlab.ray](ray.md)."
    )
    return names_page("Python API", about, "tritonlab", public_objects(), inherited_members="Exception")


def in_a_model_page() -> str:
    about = (
        "`import triton_python_backend_utils as pb_utils` is what a model.py begins with. The names are Triton's, and "
        "behave so; the [rule book](rules.md) says how, and which differ on purpose."
    )
    module = importlib.import_module("triton_python_backend_utils")  # there is one since tritonlab was imported
    names = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    names = {name: value for name, value in names.items() if not inspect.ismodule(value)}
    return names_page("In a model: pb_utils", about, "triton_python_backend_utils", names)


def testing_page() -> str:
    names = {name: getattr(tritonlab.testing, name) for name in tritonlab.testing.__all__}
    about, _, table = (inspect.getdoc(tritonlab.testing) or "").partition("\n\n")
    plugin = ast.parse((PACKAGE / "site_packages" / "pytest_tritonlab.py").read_text(encoding="utf-8"))
    _, fixtures, _ = (ast.get_docstring(plugin) or "").split("\n\n", maxsplit=2)
    with_pytest = "The pytest plugin is installed with tritonlab, and needs no line in a conftest.py:"
    parts = [about, two_columns(table), with_pytest, two_columns(fixtures)]
    return names_page("In tests: tritonlab.testing, and pytest", "\n\n".join(parts), "tritonlab.testing", names)


def two_columns(text: str) -> str:
    """Return lines of a name, blanks and what it is as a table."""
    rows = [re.split(r" {2,}", line.strip(), maxsplit=1) for line in text.splitlines()]
    return "\n".join(["| name | |", "|---|---|", *(f"| `{name}` | {cell(about)} |" for name, about in rows)])


def tritonserver_page() -> str:
    about = (inspect.getdoc(tritonserver) or "").partition("\n\n")[0]
    about += " `TritonError`, which its errors are, is that of the [API](api.md)."
    names = {name: getattr(tritonserver, name) for name in tritonserver.__all__ if name != "__version__"}
    names = {name: value for name, value in names.items() if value is not tritonlab.TritonError}
    inherited = "Exception, int"
    return names_page("tritonlab.tritonserver", about, "tritonlab.tritonserver", names, inherited_members=inherited)


def ray_page() -> str:
    """The page of what Ray is needed for; autodoc does without it (`autodoc_mock_imports`)."""
    about = "`pip install 'tritonlab[ray]'`. How it works, and what was measured: [engines](../explanation/engines.md)."
    calls = [directive("autofunction", f"tritonlab.ray.{name}") for name in RAY]
    return "\n\n".join(["# tritonlab.ray", about, *calls])


def names_page(title: str, about: str, module: str, names: Mapping[str, Any], **options: str) -> str:
    """Return the page of the public names of a module: functions first, then classes, then constants."""
    functions = sorted(name for name, value in names.items() if inspect.isroutine(value))
    classes = sorted(name for name, value in names.items() if inspect.isclass(value))
    parts = [f"# {title}", about]
    if functions:
        parts += ["## Functions", *(directive("autofunction", f"{module}.{name}") for name in functions)]
    parts.append("## Classes")
    for name in classes:
        parts += [f"### {name}", directive("autoclass", f"{module}.{name}", members="", **options)]
    if constants := sorted(set(names) - {*functions, *classes}):
        rows = [f"| `{name}` | {constant(names[name])} |" for name in constants]
        parts += ["## Constants", "\n".join(["| name | value |", "|---|---|", *rows])]
    return "\n\n".join(parts)


def constant(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"`{key}`: `{kind.__name__}`" for key, kind in value.items())
    return f"`{value.value if isinstance(value, enum.Enum) else value!r}`"


#: What calls reach, but only the server itself uses.
INSIDE = ("core", "frontends.shared", "engine", "ipc.", "server.inference_server", "server.models", "stub")
#: A class that is only the base of a public one, and those of the above that authors get.
BASES = ("tritonlab.server.api.model", "tritonlab.server.api.server")
GIVEN_OUT = ("LogRecord",)


def returned_classes() -> list[type]:
    """The classes of the package that public calls return and that have no public name, and what theirs return."""
    public = {value for value in public_objects().values() if inspect.isclass(value)}
    waiting = [*public_objects().values()]
    found: list[type] = []
    while waiting:
        for returned in results_of(waiting.pop()):
            if returned not in public and returned not in found:
                found.append(returned)
                waiting.append(returned)
    return sorted(found, key=lambda cls: cls.__name__)


def results_of(value: Any) -> Iterator[type]:
    """The package's own classes that a call of `value`, or of a public method of it, returns."""
    calls = [value]
    if inspect.isclass(value):
        names = [name for name in dir(value) if name in ("__getitem__", "__next__") or not name.startswith("_")]
        calls = [getattr(value, name) for name in names]
    for call in calls:
        call = inspect.unwrap(call.fget if isinstance(call, property) else getattr(call, "__func__", call))
        if inspect.isfunction(call) and call.__module__.startswith("tritonlab."):
            for name in re.findall(r"\w+", str(call.__annotations__.get("return"))):
                cls = class_named(name, call.__module__)
                if cls is not None and cls.__doc__ and not is_inside(cls):
                    yield cls


def is_inside(cls: type) -> bool:
    module = cls.__module__
    if not module.startswith("tritonlab.") or module in BASES:
        return True
    return module.removeprefix("tritonlab.").startswith(INSIDE) and cls.__name__ not in GIVEN_OUT


@functools.cache
def class_named(name: str, module: str) -> type | None:
    """Return the class that a type hint of the module means, also of those imported for type checkers only."""
    found = getattr(sys.modules[module], name, None)
    if found is None:
        for node in imports_of(module):
            if name in [alias.name for alias in node.names]:
                package = sys.modules[module].__package__
                found = getattr(importlib.import_module("." * node.level + (node.module or ""), package), name)
    return found if inspect.isclass(found) else None


@functools.cache
def imports_of(module: str) -> list[ast.ImportFrom]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def returned_page() -> str:
    parts = [
        "# What calls return",
        "Objects of these classes come from calls of the [API](api.md). Nobody makes them, and their modules may move "
        "between releases; their attributes and methods do not.",
    ]
    for cls in returned_classes():
        parts += [
            f"## {cls.__name__}",
            directive("autoclass", f"{cls.__module__}.{cls.__name__}", members="", no_index=""),
        ]
    return "\n\n".join(parts)


# -- magics and commands


def help_of(parser: argparse.ArgumentParser) -> str:
    """The help of a parser as text of the columns that the site shows, whatever the terminal is."""
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=72, max_help_position=26)
    return re.sub(r"^(usage: ::)\s+", "", parser.format_help())


def magics_page() -> str:
    parts = ["# Magics", "`%load_ext tritonlab` brings them. `%%triton_model?` shows the same in a notebook."]
    for name in CELL_MAGICS:
        magic = getattr(TritonMagics, name)
        parser = line_parser(magic)
        parser.prog = f"%%{name}"
        parts += [f"## %%{name}", description_of(magic), fenced(help_of(parser))]
    parts.append(
        "## %triton\n\nWithout a subcommand it is `%triton status`. `--json` gives what a cell shows to programs."
    )
    for name, command in sorted(magic_commands().items()):
        parts += [f"### %triton {name}", fenced(help_of(parser_of(command)))]
    return "\n\n".join(parts)


def description_of(magic: Any) -> str:
    """Return what the author wrote of a magic's docstring, to which IPython adds the usage and the options."""
    paragraphs = (inspect.getdoc(magic) or "").split("\n\n")
    end = next(n for n, text in enumerate(paragraphs) if text.startswith(("positional arguments:", "options:")))
    return "\n\n".join(paragraphs[2:end])


def command_line_page() -> str:
    parts = ["# Command line"]
    parser = command_parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for name, command in sorted(commands.choices.items()):
        parts.append(f"## tritonlab {name}")
        parts.append(serve_table() if name == "serve" else fenced(help_of(command)))
    return "\n\n".join(parts)


def serve_table() -> str:
    rows = ["The flags are tritonserver's, and some of our own for access. A flag without effect here says why."]
    for title, flags in GROUPS.items():
        rows += ["", f"### {title}", "", "| flag | default | |", "|---|---|---|"]
        for flag in flags:
            default = "" if flag.default is None else f"`{flag.default}`"
            rows.append(f"| `--{flag.name}` | {default} | {cell(flag.about)} |")
    return "\n".join(rows)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# -- the errors


def error_files() -> dict[str, str]:
    """Return the pages about errors by the names of their files, and their index."""
    pages = error_pages()
    rows = ["| text | page |", "|---|---|"]
    rows += [
        f"| `{cell(page.examples[0].splitlines()[0])[:90]}` | [{name}]({name}.md) |" for name, page in pages.items()
    ]
    toc = "\n".join(["```{toctree}", ":hidden:", "", *pages, "```"])
    files = {"index": "\n\n".join(["# Errors", _ABOUT_ERRORS, "\n".join(rows), toc])}
    for name, page in pages.items():
        title = name.replace("-", " ").capitalize()
        files[name] = "\n\n".join([f"# {title}", *(fenced(example) for example in page.examples), page.body])
    return files


_ABOUT_ERRORS = (
    "An error in a notebook names its page: `%triton help TOPIC` prints it there, and `error.topic` is its name for "
    "programs. Texts of Triton are the same on a real server."
)


# -- the fields of config.pbtxt


def configuration_page() -> str:
    """The fields of the ModelConfig message, level by level, with their types."""
    parts = [
        "# Fields of config.pbtxt",
        "The message is Triton's own (`tritonclient` ships it), so no field is missing; what each does is in the "
        "[rule book](rules.md) and in Triton's documentation of model configuration.",
    ]
    waiting, seen = [model_config_pb2.ModelConfig.DESCRIPTOR], set()
    while waiting:
        message = waiting.pop(0)
        if message.full_name in seen:
            continue
        seen.add(message.full_name)
        parts += [
            f"## {message.name}" if message.containing_type is None else f"### {dotted(message)}",
            fields_table(message),
        ]
        waiting[:0] = [field.message_type for field in message.fields if field.message_type is not None]
    return "\n\n".join(parts)


def dotted(message: Descriptor) -> str:
    return message.full_name.removeprefix("inference.")


def fields_table(message: Descriptor) -> str:
    rows = ["| field | type | default |", "|---|---|---|"]
    for field in message.fields:
        default = "" if field.message_type is not None or field.is_repeated else f"`{default_of(field)}`"
        rows.append(f"| `{field.name}` | {type_of(field)} | {default} |")
    return "\n".join(rows)


def default_of(field: FieldDescriptor) -> Any:
    return field.enum_type.values_by_number[field.default_value].name if field.enum_type else repr(field.default_value)


def type_of(field: FieldDescriptor) -> str:
    words = {
        getattr(FieldDescriptor, name): name[5:].lower() for name in dir(FieldDescriptor) if name.startswith("TYPE_")
    }
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map of {type_of(key)} to {type_of(value)}"
    if field.message_type is not None:
        text = f"`{dotted(field.message_type)}`"
    elif field.enum_type is not None:
        text = " · ".join(f"`{value.name}`" for value in field.enum_type.values)
    else:
        text = words[field.type]
    return f"list of {text}" if field.is_repeated else text


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", list_explained)
    app.connect("autodoc-process-signature", name_no_lambda)
    # what executed cells are in, and where the body of a cell magic would be plain text
    app.add_lexer("ipython3", PythonLexer)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    (ROOT / "notebooks" / "README.md").write_text(questions_page(), encoding="utf-8")
