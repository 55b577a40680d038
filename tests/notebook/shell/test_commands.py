"""A subcommand of `%triton` that a tool brings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.notebook.shell.test_completion import complete
from tritonlab import tool_table
from tritonlab.notebook.shell.subcommand import Context, Text
from tritonlab.tool_table import Argument, Command, Tool


def greet(context: Context, name: str, loud: bool = False) -> Text:
    return Text(name.upper() if loud else name, {"name": name})


def test_a_tool_brings_a_subcommand(notebook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = Argument("name", help="a model"), Argument("--loud", action="store_true", help="in capitals")
    row = Command("greet", "tests.notebook.shell.test_commands", "greet a model").takes(*arguments)
    monkeypatch.setattr(tool_table, "TOOLS", (*tool_table.TOOLS, Tool("greetings", magics=[row])))
    assert notebook.run("%triton greet m --loud").result.text == "M"
    assert notebook.run("%triton greet m --json").result == {"name": "m"}
    assert "did you mean '--loud'?" in notebook.run("%triton greet m --lod").text
    assert "%triton greet       greet a model" in notebook.run("%triton help").result.text
    assert "in capitals" in notebook.run("%triton help greet").text
    assert (complete(notebook, "%triton gre"), complete(notebook, "%triton greet m --l")) == (["greet"], ["--loud"])
