"""The pages of the site that are written from the code: the API, the magics, the command line, the fields of a model's
configuration, the rule book, the releases of Triton, and the notebooks, which are copied to where Sphinx finds them."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from tritonclient.grpc import model_config_pb2

import tritonlab
from tritonlab.__main__ import command_parser
from tritonlab.core.error_pages import error_pages
from tritonlab.export.releases import table_text
from tritonlab.frontends.cli.flags import GROUPS
from tritonlab.notebook.shell.commands import COMMANDS
from tritonlab.notebook.shell.magics import TritonMagics
from tritonlab.notebook.shell.parsing import line_parser

PACKAGE = Path(tritonlab.__file__).parent
ROOT = PACKAGE.parent
CELL_MAGICS = ("triton_model", "triton_config", "triton_file")
#: The notebook that is the tutorial; the others answer a question each.
TUTORIAL = "00_quickstart"
#: A line of a docstring that explains an attribute or a parameter.
_EXPLAINED = re.compile(r"(?P<names>\*{0,2}[a-z]\w*(?:, \*{0,2}[a-z]\w*)*): (?P<text>.*)")


def write_pages(app: Any) -> None:
    """Write the generated pages below the source directory; Sphinx calls it before it reads them."""
    source = Path(app.srcdir)
    pages = {
        "reference/api.md": api_page(),
        "reference/returned.md": returned_page(),
        "reference/magics.md": magics_page(),
        "reference/command-line.md": command_line_page(),
        "reference/configuration.md": configuration_page(),
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
            write_if_changed(source / "tutorial" / notebook.name, re.sub(r"\]\((?=\d\d_)", "](../how-to/", text))
        else:
            text = text.replace(f"]({TUTORIAL}.ipynb", f"](../tutorial/{TUTORIAL}.ipynb")
            write_if_changed(source / "how-to" / notebook.name, text)


def notebooks() -> list[Path]:
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def write_if_changed(path: Path, text: str) -> None:
    """Write a page only if it differs, as Sphinx reads again what is newer than its last build."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def directive(name: str, target: str, *options: str) -> str:
    """Return one of autodoc's directives, which speak reStructuredText, for a page of Markdown."""
    lines = [f".. {name}:: {target}", *(f"   :{option}:" for option in options)]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```\n"


# -- the notebooks, by question


def how_to_page() -> str:
    """The questions that the notebooks answer, in their order."""
    about = "Each notebook answers one question and runs as it is: `make lab` opens them."
    rows = ["# How-to guides, by question", about, ""]
    names = []
    for path in notebooks():
        if path.stem != TUTORIAL:
            first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]
            title, _, rest = "".join(first["source"]).partition("\n")
            names.append(path.stem)
            rows.append(f"- [{title.lstrip('# ')}]({path.name})<br>{first_sentence(rest)}")
    return "\n".join([*rows, "", "```{toctree}", ":hidden:", "", *names, "```"])


def first_sentence(text: str) -> str:
    paragraph = next((part for part in text.split("\n\n") if part.strip()), "")
    return re.split(r"(?<=[.?!]) ", " ".join(paragraph.split()), maxsplit=1)[0]


def releases_page() -> str:
    about = "What each release of Triton brings and lacks for a Python model, as `tritonlab releases` prints it."
    return f"# Releases of Triton\n\n{about}\n\n{fenced(table_text())}"


# -- the API


def list_explained(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Make a list of the lines `name: text` of a docstring, with their indented continuation, as the reader sees it in
    the code; Sphinx calls it with each docstring."""
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


def public_objects() -> dict[str, Any]:
    return {name: getattr(tritonlab, name) for name in tritonlab.__all__}


def api_page() -> str:
    """The page of every public name, functions first."""
    names = public_objects()
    functions = sorted(name for name, value in names.items() if not inspect.isclass(value))
    classes = sorted(name for name, value in names.items() if inspect.isclass(value))
    parts = [
        "# Python API",
        "All that is public is a name of `tritonlab`; what calls return is on [its own page](returned.md).",
        "## Functions",
    ]
    parts += [directive("autofunction", f"tritonlab.{name}") for name in functions]
    parts.append("## Classes")
    for name in classes:
        parts += [f"### {name}", directive("autoclass", f"tritonlab.{name}", "members", "inherited-members: Exception")]
    return "\n\n".join(parts)


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
        calls = [member for name, member in inspect.getmembers(value) if not name.startswith("_")]
    for call in calls:
        call = call.fget if isinstance(call, property) else call
        try:
            hint = typing.get_type_hints(call).get("return")
        except (NameError, TypeError):  # a name for type checkers only, or no function
            continue
        for part in (hint, *typing.get_args(hint)):
            if inspect.isclass(part) and part.__module__.startswith("tritonlab.") and part.__doc__:
                yield part


def returned_page() -> str:
    parts = [
        "# What calls return",
        "Objects of these classes come from calls of the [API](api.md). Nobody makes them, and their modules may move "
        "between releases; their attributes and methods do not.",
    ]
    for cls in returned_classes():
        parts += [
            f"## {cls.__name__}",
            directive("autoclass", f"{cls.__module__}.{cls.__name__}", "members", "noindex"),
        ]
    return "\n\n".join(parts)


# -- magics and commands


def help_of(parser: argparse.ArgumentParser) -> str:
    """The help of a parser as text of 100 columns, whatever the terminal is."""
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=100, max_help_position=32)
    return re.sub(r"^(usage: ::)\s+", "", parser.format_help())


def magics_page() -> str:
    parts = ["# Magics", "`%load_ext tritonlab` brings them. `%%triton_model?` shows the same in a notebook."]
    for name in CELL_MAGICS:
        magic = getattr(TritonMagics, name)
        parts += [f"## %%{name}", inspect.getdoc(magic) or "", fenced(help_of(line_parser(_Bound(magic))))]
    parts.append(
        "## %triton\n\nWithout a subcommand it is `%triton status`. `--json` gives what a cell shows to programs."
    )
    for name, command in sorted(COMMANDS.items()):
        parts += [f"### %triton {name}", fenced(help_of(command.parser))]
    return "\n\n".join(parts)


class _Bound:
    """What `line_parser` reads of a bound magic."""

    def __init__(self, function: Any) -> None:
        self.__func__ = function


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
    for group in GROUPS:
        rows += ["", f"### {group.title}", "", "| flag | default | |", "|---|---|---|"]
        for flag in group.flags:
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
    return {"parallel_read_safe": True}
