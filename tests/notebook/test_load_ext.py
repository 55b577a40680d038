"""`%load_ext tritonlab` is quick: it imports nothing that only a later cell needs. What the first card needs is
imported while the kernel is idle.

A process of its own, with a shell that says it has a kernel and runs in an event loop, as ipykernel's does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Takes from 20 ms to seconds each; a cell that shows a card, plots, serves or asks another server imports its own.
HEAVY = {
    *("ipywidgets", "anywidget", "matplotlib", "PIL", "pandas", "torch", "jedi", "nbformat", "nbclient"),
    *("grpc", "tritonclient", "uvicorn", "uvloop", "starlette", "httptools", "prometheus_client"),
}
#: What `%load_ext tritonlab` brings in of ours beside the magics, and nothing of a tool.
#: What else there is, such as tuning and the endpoints, comes with the first call that needs it.
OURS = {
    *("core", "core.config", "core.inference", "core.metrics", "core.observe", "core.source", "figures"),
    "exchanges",
    *("engine.calls", "engine.debugging", "engine.execution", "engine.life", "engine.schedulers"),
    *("ipc.gpu", "ipc.link", "ipc.processes", "ipc.zygotes", "record", "repository"),
    *("notebook", "notebook.authoring", "notebook.views", "notebook.views.card"),
    *("server", "server.api", "server.models", "server.observe"),
    *("stub._pb_stub.api", "stub._pb_stub.devices", "stub._pb_stub.wire"),
}
#: What the first card needs.
WIDGETS = {"ipywidgets", "anywidget"}

SCRIPT = """
import asyncio, json, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
present = {name.partition(".")[0] for name in sys.modules}

def new():
    modules = [name for name, module in sys.modules.items() if not hasattr(module, "__path__")]
    ours = {name.rpartition(".")[0] for name in modules if name.startswith("tritonlab.")}
    return sorted(ours | {name.partition(".")[0] for name in sys.modules} - present)

def load():
    import tritonlab
    print(json.dumps(new()))
    shell.run_line_magic("load_ext", "tritonlab")
    print(json.dumps(new()))

async def cells():
    load()
    await asyncio.sleep(0)  # the kernel turns to its next message
    print(json.dumps(new()))

if sys.argv[1] == "kernel":
    shell.kernel = object()
    for name in sys.argv[2:]:
        sys.modules[name] = None  # importing it raises
    asyncio.run(cells())
else:
    load()
    import tritonlab, tritonlab.tools.measure.load_testing.load_run, tritonlab.tools.deploy.repository
    assert callable(tritonlab.load) and callable(tritonlab.export)  # not the packages of these names
"""


def imported(*arguments: str) -> list[set[str]]:
    """Return the packages that each step has imported so far."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[list[Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    return [set(names) for names in found]


def ours(names: set[str]) -> set[str]:
    return {name.removeprefix("tritonlab.") for name in names if name.startswith("tritonlab.")}


def test_nothing_is_imported_that_only_a_later_cell_needs() -> None:
    package, loaded, idle = imported("kernel")
    assert ours(package) == {"core"}  # the version: public names are imported at their first use
    assert ours(loaded) == {*OURS, "notebook.shell", "notebook.views.record", "stub"}
    assert loaded & HEAVY == set()
    assert idle & HEAVY == WIDGETS


def test_a_terminal_imports_no_widgets() -> None:
    _, loaded = imported("terminal")
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("missing", sorted(WIDGETS))
def test_a_kernel_without_widgets_hears_nothing_of_it(missing: str) -> None:
    *_, idle = imported("kernel", missing)
    assert idle & HEAVY <= WIDGETS
