"""The command line: `python -m tritonlab COMMAND`, or `tritonlab COMMAND`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from .core.version import VERSION
from .tool_table import Command, ToolMissing, shell_commands


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status, 0 for success."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    commands = shell_commands(only_ours=True)
    if not words or words[0] not in (*commands, "--version"):
        commands = shell_commands()
    command = commands.get(words[0]) if words else None
    if command is not None and command.is_raw:
        status: int = command.find()(words[1:])
        return status
    options = vars(command_parser(commands).parse_args(words))
    try:
        return options.pop("command").find()(**options) or 0
    except (OSError, ToolMissing) as error:
        print(f"tritonlab: {error}", file=sys.stderr)
        return 1


def command_parser(table: Mapping[str, Command] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the commands in `table`, by default all; the options of `serve` are not in it
    (`frontends/cli/flags.py`)."""
    parser = argparse.ArgumentParser(prog="tritonlab", description="Models of Triton's Python backend, without Triton.")
    parser.add_argument("--version", action="version", version=f"tritonlab {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in (shell_commands() if table is None else table).items():
        added = commands.add_parser(
            name, help=command.about, description=f"This command {command.about}. {command.note}"
        )
        if command.usage:
            added.usage = f"tritonlab {name} {command.usage}"
        command.add_arguments(added)
        added.set_defaults(command=command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
