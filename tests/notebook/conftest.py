"""A real server, a workspace on it, and a real IPython shell with the magics."""

from __future__ import annotations

import re
import shutil
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

from tritonlab import Server
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.shell import magics
from tritonlab.notebook.views.record import record_view

IDENTITY_OPTIONS = "--max-batch-size 8 --input IN:FP32[-1] --output OUT:FP32[-1]"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("repository"), model_control_mode="explicit") as server:
        yield server


@pytest.fixture
def workspace(server: Server) -> Iterator[Workspace]:
    """Return a workspace of a notebook that has written nothing yet."""
    repository = server.core.repository.repositories[0]
    workspace = server.workspace = Workspace(server, Path(repository))
    yield workspace
    server.workspace = None
    for opened in list(workspace.repositories.values()):
        opened.close()
    for name in {name for name, _ in server.models()}:
        server.unload(name, timeout=10)  # a failed test may leave one that hangs
    workspace.close()
    for path in workspace.repository.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()  # the record of an export


class Notebook:
    """A shell that runs cells and captures what they print."""

    def __init__(self, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
        self.shell = shell
        self._capsys = capsys

    def run(self, cell: str) -> ExecutionResult:
        """Run a cell and return its result; `text` on it is all that the cell printed, without colours."""
        self._capsys.readouterr()
        result = self.shell.run_cell(cell, store_history=True)
        captured = self._capsys.readouterr()
        result.text = re.sub(r"\x1b\[[0-9;]*m", "", captured.out + captured.err)
        return result

    def number(self) -> int:
        """Return the number of the cell that ran last."""
        return self.shell.execution_count - 1

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]


@pytest.fixture(scope="session")
def shell() -> Iterator[InteractiveShell]:
    config = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell.instance(config=config)
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def notebook(
    shell: InteractiveShell,
    workspace: Workspace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Notebook:
    shell.reset(new_session=False)
    monkeypatch.setattr(record_view, "_shown", deque())  # the views of other tests would show up in a cell of this one
    magics.register(shell, lambda: workspace)
    return Notebook(shell, capsys)
