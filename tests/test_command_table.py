"""The table of subcommands: what its rows name exists, and takes what they say; a tool adds rows to it."""

from __future__ import annotations

import argparse
import inspect

import pytest

from tritonlab import command_table
from tritonlab.__main__ import main
from tritonlab.command_table import Argument, Command, Tool, magic_commands, shell_commands
from tritonlab.notebook.views.record.record_view import KINDS
from tritonlab.tools.deploy.releases import DEFAULT_TARGET

MAGICS = list(magic_commands().values())
COMMANDS = list(shell_commands().values())


@pytest.mark.parametrize("command", [*MAGICS, *COMMANDS], ids=lambda command: f"{command.name}: {command.function}")
def test_the_function_of_a_row_takes_its_arguments(command: Command) -> None:
    parser = argparse.ArgumentParser(add_help=False)
    command.add_arguments(parser)
    function = inspect.signature(command.find())
    first = ["context or words"] * (command in MAGICS) + ["line"] * command.is_raw
    taken = {action.dest: None for action in parser._actions}
    function.bind(*first, **taken)
    function.bind(*first, **{action.dest: None for action in parser._actions if action.required})
    others = [each.name for each in function.parameters.values() if each.kind != each.VAR_KEYWORD][len(first) :]
    assert {*others} <= {*taken}


def test_texts_name_what_there_is() -> None:
    texts = {
        (command.name, names): str(argument.settings["help"])
        for command in (*MAGICS, *COMMANDS)
        for argument in command.arguments
        for names in argument.names
    }
    assert texts["view", "kind"].startswith(f"{', '.join(KINDS)}; ")
    for place in (("export", "--target"), ("preflight", "--target"), ("verify", "--triton")):
        assert texts[place].endswith(f"({DEFAULT_TARGET})")


def greet(name: str, loud: bool = False) -> int:
    print(name.upper() if loud else name)
    return 3


def test_a_tool_brings_a_subcommand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    loud = Argument("--loud", action="store_true", help="in capitals")
    row = Command("greet", "tests.test_command_table", "greets a model").takes(Argument("name", help="a model"), loud)
    monkeypatch.setattr(command_table, "TOOLS", (*command_table.TOOLS, Tool("greetings", commands=[row])))
    assert main(["greet", "m", "--loud"]) == 3
    with pytest.raises(SystemExit):
        main(["--help"])
    output = capsys.readouterr().out
    assert output.startswith("M\nusage: ") and "greets a model" in output and "looks for what goes wrong" in output
