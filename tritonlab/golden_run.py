"""`tritonlab test`: the golden sets of notebooks and model repositories, checked without a browser."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from .core.foreign_file import read_text
from .core.quoting import without_colours
from .core.status import TritonError
from .core.whole_file import write_file
from .exchanges.golden import NOTEBOOK_VARIABLE, GoldenSet, golden_beside, junit_xml, verdict_of
from .exchanges.sending import asks_of
from .server.api.server import Server

#: Exit statuses.
PASSED, FAILED, NOTHING = 0, 1, 2
_MARK = "tritonlab golden report: "
#: The cell after the last one; its names must not be the notebook's.
_LAST_CELL = f"""
import json as _json
import tritonlab as _tritonlab
print({_MARK!r} + _json.dumps(_tritonlab.golden().check().to_dict()))
"""


class Suite(NamedTuple):
    """A notebook or repository with `GoldenReport.to_dict` of its test, or why it could not be tested."""

    name: str
    report: dict[str, Any] | str


def run(paths: Sequence[Path], junit: Path | None = None, timeout: float = 600.0) -> int:
    """Test notebooks, directories of notebooks and model repositories, and print a line for each and a sum.

    `junit`: where the XML goes. `timeout`: seconds for each cell.
    """
    suites = []
    for path in paths:
        for suite in _suites(path, timeout):
            suites.append(suite)
            found = suite.report
            print(f"{suite.name}: {found if isinstance(found, str) else verdict_of(found)}", flush=True)
    if junit is not None:
        junit.parent.mkdir(parents=True, exist_ok=True)
        write_file(junit, junit_xml(suites))
    if not suites:
        print(f"no golden set beside {', '.join(map(str, paths))}")
    judged = [report for _, report in suites if isinstance(report, str) or report["results"] or report["left"]]
    if not judged:  # also of sets without cases
        return NOTHING
    return PASSED if all(not isinstance(report, str) and report["passed"] for report in judged) else FAILED


def _suites(path: Path, timeout: float) -> Iterator[Suite]:
    if path.suffix == ".ipynb":
        yield _run_notebook(path, timeout)
        return
    for notebook in sorted(path.glob("*.ipynb")):
        if notebook.with_suffix(".golden").is_dir():
            yield _run_notebook(notebook, timeout)
    golden = golden_beside(path)
    if golden.is_dir():
        yield _run_repository(path, golden)


def _run_repository(path: Path, golden: Path) -> Suite:
    try:
        with Server(path) as server:
            return Suite(str(path), GoldenSet(golden, asks_of(server)).check().to_dict())
    except (TritonError, ValueError) as error:
        return Suite(str(path), str(error))


def _run_notebook(path: Path, timeout: float) -> Suite:
    if not path.exists():
        return Suite(str(path), "there is no such notebook")
    try:
        nbformat: Any = importlib.import_module("nbformat")
        nbclient: Any = importlib.import_module("nbclient")
        kernelspec: Any = importlib.import_module("jupyter_client.kernelspec")
    except ModuleNotFoundError as error:
        return Suite(str(path), f"running a notebook needs {error.name}: pip install 'tritonlab[lab]'")
    try:
        notebook = nbformat.reads(read_text(path), as_version=4)
    except Exception as error:  # nbformat raises errors of several libraries for a document of another form
        text = str(error).partition("\n")[0] or type(error).__name__
        return Suite(str(path), f"it is not a notebook: {text}")
    notebook.cells.append(nbformat.v4.new_code_cell(_LAST_CELL))
    resources = {"metadata": {"path": str(path.resolve().parent)}}
    environment = {**os.environ, NOTEBOOK_VARIABLE: str(path.resolve())}
    client = nbclient.NotebookClient(notebook, timeout=int(timeout), resources=resources)
    try:
        client.create_kernel_manager().kernel_spec  # noqa: B018 - raises NoSuchKernel
        with _kept_signals():
            client.execute(env=environment)
    except (nbclient.exceptions.CellExecutionError, nbclient.exceptions.CellTimeoutError) as error:
        return Suite(str(path), without_colours(str(error)).strip())
    except nbclient.exceptions.DeadKernelError:
        return Suite(str(path), "the kernel died")
    except kernelspec.NoSuchKernel as error:
        fix = f"run `{sys.executable} -m ipykernel install --sys-prefix --name {error.name}`"
        return Suite(str(path), f"its kernel {error.name!r} is not installed here: {fix}")
    except (OSError, RuntimeError) as error:
        client.km = client.create_kernel_manager()  # nbclient ends its manager's kernel at exit, and has none left
        return Suite(str(path), f"its kernel does not start: {error}")
    printed = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    return Suite(str(path), json.loads(printed.partition(_MARK)[2].splitlines()[0]))


@contextmanager
def _kept_signals() -> Iterator[None]:
    """Restore the handlers of signals: nbclient leaves its own if a kernel does not start, and Ctrl-C ends nothing."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        for each, handler in handlers.items():
            signal.signal(each, handler)
