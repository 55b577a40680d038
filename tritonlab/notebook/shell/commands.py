"""`%triton`: a row of the command table reads its line and names the function that does it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

from ...core.error_pages import error_pages
from ...core.quoting import magic_line
from ...tool_table import Command, magic_commands, magic_words, tool_methods
from ..views.record.record_view import KINDS
from .parsing import LineParser, parse, unknown
from .subcommand import Context, JsonFacts, MarkdownText, Text

#: The options that show the help of a subcommand, as `%triton help NAME` does.
_HELP = ("--help", "-h")


def run(context: Context, line: str) -> Any:
    """Run `%triton <line>` and return the cell's result. Raises UsageError for a line that cannot be read."""
    name, _, rest = line.strip().partition(" ")
    command = magic_commands().get(name or "status")
    if command is None:
        model = next(iter(rest.split()), "NAME")
        raise unknown("%triton has no command", name, magic_commands(), _lines_by_word(model))
    if rest.strip() in _HELP:
        return show_help(context, command.name)
    if command.is_raw:
        line, as_json = _without_json(rest)
        result = command.find()(replace(context, json=as_json), line)
    else:
        arguments = vars(parse(parser_of(command), rest))
        as_json = arguments.pop("json")
        result = command.find()(replace(context, json=as_json), **arguments)
    return JsonFacts.from_result(result) if as_json else result


def _lines_by_word(model: str) -> dict[str, str]:
    """Return the subcommands, and lines that show a view of the model or call it, each with other words for it."""
    views = {magic_line("%triton", "view", model, kind): f"{kind} {words}" for kind, words in KINDS.items()}
    return magic_words() | views | {f"{model}.{method}()": method for method in tool_methods("Model")}


@cache
def parser_of(command: Command) -> LineParser:
    """Return the parser of the arguments of a subcommand, which has its help."""
    parser = LineParser(f"triton {command.name}", description=command.description)
    if command.is_raw:
        parser.usage = f"triton {command.name} [--json] {command.usage}"
    command.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="show it as JSON")
    return parser


def _without_json(rest: str) -> tuple[str, bool]:
    """Return a line without `--json` at its beginning or end, and whether it had one. For lines with an expression,
    which no parser reads.
    """
    words = rest.strip()
    if words == "--json" or words.startswith("--json "):
        return words.removeprefix("--json").strip(), True
    if words.endswith(" --json"):
        return words.removesuffix("--json").strip(), True
    return rest, False


def show_help(context: Context, command: str | None = None) -> Text:
    """Return the list of subcommands, the help of one, or the page about an error. Raises LineError."""
    commands = magic_commands()
    if command in commands:
        return Text(parser_of(commands[command]).format_help())
    if command is not None:
        page = error_pages().get(command)
        if page is None:
            known = [*commands, *error_pages()]
            raise unknown("%triton has no command and no page about an error", command, known, _lines_by_word("NAME"))
        return MarkdownText(str(page), page._asdict())
    descriptions = {name: each.description for name, each in commands.items()}
    return Text("\n".join(summary()), {"commands": descriptions})


def summary() -> Iterator[str]:
    """Return the list of subcommands, with the purpose of each."""
    # JupyterLab breaks a line that is too long at any place in a word
    fill = partial(textwrap.fill, width=96, subsequent_indent=" " * 20, break_on_hyphens=False)
    # first, as a program reads the first lines only
    yield fill("what any of them shows, as JSON for programs", initial_indent=f"%triton {'… --json':<12}")
    for name, command in magic_commands().items():
        yield fill(command.description, initial_indent=f"%triton {name:<12}")
