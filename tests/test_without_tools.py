"""The built wheel: without `tritonlab/tools/` it runs the quickstart, and says what the tools would need; with them it
captures, replays and pushes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.models import answers
from tests.serve_process import ServeProcess
from tests.serving import config, write_model
from tests.test_layering import ROOT

nbclient = pytest.importorskip("nbclient")
# looked for and not imported: every worker of a run would pay for it
MISSING = [name for name in ("torch", "sklearn", "hatchling") if find_spec(name) is None]
pytestmark = [pytest.mark.timeout(300), pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} not installed")]

#: The cells of the quickstart that need a tool, by words in them.
OF_TOOLS = (".check(", "tritonlab.export(", "tritonlab.Server(repository)")
LEAVES_OUT = "tritonlab is installed without its tool '{}': pip install --force-reinstall tritonlab brings it"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the built wheel, installed as `pip install --target` does."""
    from hatchling.builders.wheel import WheelBuilder  # type: ignore[import-not-found,unused-ignore]

    built, directory = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HATCH_BUILD_NO_HOOKS", "true")  # the extension's bundle is committed
        (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(built), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture(scope="module")
def house(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the wheel but its tools."""
    directory = tmp_path_factory.mktemp("house")
    shutil.copytree(wheel, directory, ignore=shutil.ignore_patterns("tools"), dirs_exist_ok=True)
    assert not (directory / "tritonlab" / "tools").exists()
    return directory


@pytest.fixture(scope="module")
def client(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a client whose kernel has the house alone."""
    notebook = nbformat.read(ROOT / "notebooks" / "00_quickstart.ipynb", 4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources)
    paths = [str(house), *filter(None, [os.environ.get("PYTHONPATH")])]
    # its processes share the bytecode of the new files
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": ""}
    with client.setup_kernel(env=variables):
        yield client


def executed(client: Any, code: str) -> str:
    """Run code that is not in the notebook, and return the text of its outputs."""
    client.nb.cells.append(nbformat.v4.new_code_cell(code))  # type: ignore[no-untyped-call]
    found = client.execute_cell(client.nb.cells[-1], len(client.nb.cells) - 1)
    return "".join(output.get("text", "") or "\n".join(output.get("traceback", ())) for output in found.outputs)


def test_the_house_runs_the_quickstart(client: Any, house: Path) -> None:
    assert executed(client, "import tritonlab; print(tritonlab.__file__)").startswith(str(house))
    for index, cell in enumerate(list(client.nb.cells)):
        if cell.cell_type == "code" and not any(words in cell.source for words in OF_TOOLS):
            client.execute_cell(cell, index)
    assert "through the server: 9" in str(client.nb.cells[23].outputs)


@pytest.mark.parametrize(
    ("code", "tool"),
    [
        ("add_sub.check()", "check"),
        ("add_sub.load_test()", "measure"),
        ("tritonlab.export(add_sub, 'out')", "deploy"),
        ("tritonlab.verify('out')", "deploy"),
    ],
)
def test_a_call_of_a_tool_says_what_to_install(client: Any, code: str, tool: str) -> None:
    text = executed(client, f"try:\n    {code}\nexcept ImportError as error:\n    print(type(error).__name__, error)")
    assert text == f"ToolMissing {LEAVES_OUT.format(tool)}\n"


def test_subcommands_and_buttons_say_the_same(client: Any) -> None:
    output = executed(
        client,
        "from tritonlab.notebook.views.card.live_card import card_of\n"
        "card = card_of(tritonlab.default_workspace(), 'add_sub')\n"
        "card.press('export')\n"
        "print(card.state['problem'])\n"
        "import subprocess, sys\n"
        "command = [sys.executable, '-m', 'tritonlab', 'releases']\n"
        "done = subprocess.run(command, capture_output=True, text=True)\n"
        "print(done.returncode, done.stderr)\n"
        "print([name for name in sys.modules if name.startswith('tritonlab.tools')])",
    )
    sentence = LEAVES_OUT.format("deploy")
    assert output == f"{sentence}\n1 tritonlab: {sentence}\n\n[]\n"
    with pytest.raises(nbclient.exceptions.CellExecutionError, match=LEAVES_OUT.format("check")):
        executed(client, "%triton check add_sub")


def test_the_wheel_captures_replays_and_pushes(wheel: Path, tmp_path: Path) -> None:
    settings = config("X INT32 2", "Y INT32 2", "max_batch_size: 8")
    write_model(tmp_path / "models", "double", answers("2 * x", reads="X", writes="Y"), settings)
    environment = {"PYTHONPATH": str(wheel), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": ""}
    program = (sys.executable, "-P", "-m", "tritonlab")
    options = ("--model-control-mode=explicit", "--load-model=double")
    with ServeProcess(tmp_path / "models", tmp_path, *options, environment=environment, program=program) as server:
        server.serving()
        command = [sys.executable, "-P", ROOT / "tests" / "installed_capture.py", tmp_path, server.http, server.grpc]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"tritonlab of {wheel}")
