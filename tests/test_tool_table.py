"""The table of tools: what its rows name exists, and takes what they say; another distribution adds rows to it."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from tritonlab import tool_table
from tritonlab.__main__ import main
from tritonlab.core.version import DEFAULT_TARGET
from tritonlab.notebook.views.record.record_view import KINDS
from tritonlab.tool_table import Argument, Command, Tool, magic_commands, magic_words, shell_commands

ROOT = Path(__file__).resolve().parents[1]
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


def test_other_words_for_commands_and_views_are_no_commands_and_have_one_meaning() -> None:
    assert {*tool_table._OTHER_WORDS} <= {*magic_commands()}
    meanings = [*magic_words().values(), *(f"{kind} {words}" for kind, words in KINDS.items())]
    words = [word for each in meanings for word in each.split()]
    assert {*words} & {*magic_commands()} == {"metrics"}  # its text is a command, its charts are a view
    assert {word for word in words if words.count(word) > 1} == {"stream"}  # a call of a model, and a view


PLACES = sorted(
    {
        place
        for tool in tool_table.TOOLS
        for places in (tool.functions, tool.calls, tool.lanes)
        for place in [*places.values(), *tool.preflight, *(panel.factory for panel in tool.panels)]
    }
)


@pytest.mark.parametrize("place", PLACES)
def test_the_function_of_a_hook_is_there(place: str) -> None:
    assert callable(pkgutil.resolve_name(place))


def test_every_hook_is_documented() -> None:
    """A sentence above the field, and a row in the table of the architecture."""
    lines = inspect.getsource(Tool).splitlines()
    page = (ROOT / "docs" / "architecture.md").read_text()
    for hook in [field.name for field in dataclasses.fields(Tool)][1:]:
        at = next(number for number, line in enumerate(lines) if line.startswith(f"    {hook}: "))
        assert lines[at - 1].lstrip().startswith("#:"), hook
        assert f"\n| `{hook}` | " in page, hook


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
from tritonlab.tool_table import Argument, Command, Panel, Tool

NAME = Argument("name", help="a model")
TOOL = Tool(
    "greetings",
    magics=[Command("greet", "greetings:greet_in_notebook", "greet a model").takes(NAME)],
    commands=[
        Command("greet", "greetings", "greets a model").takes(NAME),
        Command("doctor", "greetings:greet", "another doctor").takes(NAME),
    ],
    functions={"Model.greet": "greetings:greet_model", "Server.greet": "greetings:greet_model"},
    panels=[Panel("greet", "Greet", "a greeting", "greetings_panel:Greeting")],
    calls={"greet": "greetings:greet_window"},
    preflight=["greetings:rows"],
)


def greet(name):
    print("hello", name)


def greet_in_notebook(context, name):
    return f"hello {name} of {type(context).__name__}"


def greet_model(model, loud=False):
    return "HELLO" if loud else f"hello {type(model).__name__}"


def greet_window(workspace, name):
    return {"hello": name}


def rows(subject, target):
    from tritonlab.tools.deploy.preflight.finding import Finding

    yield Finding("G1", f"nobody greets {subject.name} at {target}", "greet it")
"""
GREETINGS_PANEL = """
import ipywidgets

from tritonlab.notebook.views.card.card_panel import CardPanel


class Greeting(CardPanel):
    def __init__(self, model, changed):
        self.widget = ipywidgets.HTML(model.greet())
"""


@pytest.fixture
def others(tmp_path: Path) -> dict[str, str]:
    """Return an environment with two other distributions: one brings a tool, the other one that cannot be imported."""
    (tmp_path / "greetings.py").write_text(GREETINGS)
    (tmp_path / "greetings_panel.py").write_text(GREETINGS_PANEL)
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


def test_another_distribution_brings_methods_a_panel_and_a_row(others: dict[str, str]) -> None:
    script = """
import tritonlab
from tritonlab.notebook.shell.comm import Windows
from tritonlab.notebook.views import widget
from tritonlab.notebook.views.card.live_card import LiveCard
from tritonlab.tools.deploy.preflight.judge import judge, subject_in
model = tritonlab.load("m", "class TritonPythonModel:\\n    def execute(self, requests):\\n        return []\\n")
print(model.greet(), model.greet(loud=True), tritonlab.default_server().greet())
print("greet" in dir(model), hasattr(model, "gree"))
card = LiveCard(tritonlab.default_workspace(), "m")
print([button["do"] for button in card.state["buttons"]], card._panel_of("greet").widget.value)
print(*[finding for finding in judge(subject_in(model.directory)).findings if finding.row == "G1"])
print(Windows(tritonlab.default_workspace)._answer("greet", {"name": "m"}, print))
"""
    done = subprocess.run([sys.executable, "-c", script], env=others, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        "hello Model HELLO hello Server",
        "True False",
        "['playground', 'view', 'check', 'export', 'replay', 'push', 'greet', 'unload'] hello Model",
        "nobody greets m at Triton 2.51 (24.10): greet it",
        "{'hello': 'm'}",
    ], done.stderr
