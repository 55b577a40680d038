"""The table of subcommands: what its rows name exists, and takes what they say; a tool adds rows to it."""

from __future__ import annotations

import argparse
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tritonlab import tool_table
from tritonlab.__main__ import main
from tritonlab.core.version import DEFAULT_TARGET
from tritonlab.notebook.views.record.record_view import KINDS
from tritonlab.tool_table import Argument, Command, Tool, magic_commands, shell_commands

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
    row = Command("greet", "tests.test_tool_table", "greets a model").takes(Argument("name", help="a model"), loud)
    monkeypatch.setattr(tool_table, "TOOLS", (*tool_table.TOOLS, Tool("greetings", commands=[row])))
    assert main(["greet", "m", "--loud"]) == 3
    with pytest.raises(SystemExit):
        main(["--help"])
    output = capsys.readouterr().out
    assert output.startswith("M\nusage: ") and "greets a model" in output and "looks for what goes wrong" in output


GREETINGS = """
from tritonlab.tool_table import Argument, Command, Tool

NAME = Argument("name", help="a model")
TOOL = Tool(
    "greetings",
    magics=[Command("greet", "greetings:greet_in_notebook", "greet a model").takes(NAME)],
    commands=[
        Command("greet", "greetings", "greets a model").takes(NAME),
        Command("doctor", "greetings:greet", "another doctor").takes(NAME),
    ],
)


def greet(name):
    print("hello", name)


def greet_in_notebook(context, name):
    return f"hello {name} of {type(context).__name__}"
"""


@pytest.fixture
def others(tmp_path: Path) -> dict[str, str]:
    """Return an environment with two other distributions: one brings a tool, the other one that cannot be imported."""
    (tmp_path / "greetings.py").write_text(GREETINGS)
    for name, target in (("greetings", "greetings:TOOL"), ("broken", "nowhere:TOOL")):
        directory = tmp_path / f"{name}-1.0.dist-info"
        directory.mkdir()
        (directory / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (directory / "entry_points.txt").write_text(f"[tritonlab.tools]\n{name} = {target}\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def test_another_distribution_brings_a_tool(others: dict[str, str]) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tritonlab", *words]
        return subprocess.run(command, env=others, capture_output=True, text=True, timeout=60)

    done = run("greet", "m")
    assert (done.returncode, done.stdout) == (0, "hello m\n")
    assert "the tool 'broken' of nowhere:TOOL is left out: ModuleNotFoundError" in done.stderr
    assert "greets a model" in run("--help").stdout
    assert "another doctor" not in run("--help").stdout  # ours keeps its name
    assert run("--version").stderr == ""  # nothing is looked for

    notebook = "from IPython.core.interactiveshell import InteractiveShell as Shell; shell = Shell.instance()\n"
    notebook += "shell.run_line_magic('load_ext', 'tritonlab'); print(shell.run_line_magic('triton', 'greet m'))"
    done = subprocess.run([sys.executable, "-c", notebook], env=others, capture_output=True, text=True, timeout=60)
    assert done.stdout == "hello m of Context\n", done.stderr
