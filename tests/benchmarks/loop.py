"""How long the author waits: an edit, several at once, many instances, a death. Models that import torch, and numpy.

The real server gets the torch of this Python: its stub has the same version. Times are seconds until READY; ours are of
a cell, the card included, Triton's of a reload over HTTP.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import signal
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import tritonclient.http
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import start_new_kernel

import tritonlab
from tests.conformance.models import config
from tests.conformance.reference import ROOT, ReferenceServer

from .measuring import place

#: Seconds between two edits of somebody who reads what comes of them.
_PACE = 3.0
_PACED = 5
_BURST = 5

_MODEL = """
import numpy as np
{imports}
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", a + {number})]))
        return responses
"""
_IMPORTS = {"torch": "import torch\nfrom torch.utils.dlpack import from_dlpack, to_dlpack", "numpy": ""}
_LINE = "%%triton_model {name} --input IN:FP32[4] --output OUT:FP32[4]{more}\n"


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


#: torch and what it imports.
_PACKAGES = (
    *("torch", "torchgen", "functorch", "sympy", "mpmath", "jinja2", "markupsafe", "networkx", "fsspec"),
    *("typing_extensions", "filelock"),
)


def _link_torch(directory: Path) -> None:
    """Put this Python's torch beside a model, where the real server's stub finds it."""
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        source = Path(spec.origin)
        source = source.parent if source.name == "__init__.py" else source
        if not (directory / source.name).exists():
            (directory / source.name).symlink_to(source)


class Authors:
    """An author at a notebook, and one with a model repository."""

    def __init__(self, real: ReferenceServer) -> None:
        self.real = real
        self._client = tritonclient.http.InferenceServerClient(real.http, network_timeout=300)
        self._shell = InteractiveShell.instance()
        self._number = 0
        with contextlib.redirect_stdout(io.StringIO()):
            self._shell.run_line_magic("load_ext", "tritonlab")

    def ours(self, kind: str, count: int = 1) -> float:
        line = _LINE.format(name=f"loop_{kind}", more=f" --instances {count} --kind cpu")
        with contextlib.redirect_stdout(io.StringIO()):
            started = time.perf_counter()
            result = self._shell.run_cell(line + self._source(kind))  # type: ignore[no-untyped-call]
            taken = time.perf_counter() - started
        result.raise_error()
        assert tritonlab.default_server().model(f"loop_{kind}").ready()
        return taken

    def theirs(self, kind: str, count: int = 1) -> float:
        text = config("IN FP32 4", "OUT FP32 4").replace("KIND_CPU", f"KIND_CPU count: {count}")
        place(self.real.repository, f"loop_{kind}", self._source(kind), text)
        if kind == "torch":
            _link_torch(self.real.repository / "loop_torch" / "1")
        started = time.perf_counter()
        self._client.load_model(f"loop_{kind}")
        taken = time.perf_counter() - started
        assert self._client.is_model_ready(f"loop_{kind}")
        return taken

    def _source(self, kind: str) -> str:
        self._number += 1
        return _MODEL.format(imports=_IMPORTS[kind], number=self._number)

    def close(self) -> None:
        for kind in _IMPORTS:
            self._client.unload_model(f"loop_{kind}")  # an unknown one is ignored
        self._client.close()
        tritonlab.reset()


def paced(authors: Authors, kind: str) -> tuple[float, float]:
    """Measure an edit every three seconds; the median."""
    authors.ours(kind), authors.theirs(kind)  # the first load is no reload
    found: dict[Any, list[float]] = {authors.ours: [], authors.theirs: []}
    for _ in range(_PACED):
        for side, times in found.items():
            time.sleep(_PACE)
            times.append(side(kind))
    return statistics.median(found[authors.ours]), statistics.median(found[authors.theirs])


def burst(authors: Authors, kind: str) -> tuple[float, float]:
    """Measure edits without a pause; the slowest of ours, and the median of Triton's."""
    authors.ours(kind), authors.theirs(kind)
    time.sleep(_PACE)
    ours = [authors.ours(kind) for _ in range(_BURST)]
    time.sleep(_PACE)
    theirs = [authors.theirs(kind) for _ in range(_BURST)]
    return max(ours), statistics.median(theirs)


def instances(authors: Authors, kind: str, count: int = 8) -> tuple[tuple[float, float], tuple[float, float]]:
    """Measure the seconds until that many are READY, and bytes of all processes but the two servers, shared pages by
    their share."""
    authors.ours(kind), authors.theirs(kind)
    time.sleep(_PACE)
    times = authors.ours(kind, count), authors.theirs(kind, count)
    time.sleep(_PACE)
    memory = _below(os.getpid(), besides=authors.real.pid), _below(authors.real.pid)
    return times, memory


def _below(pid: int, besides: int = 0) -> float:
    processes = psutil.Process(pid).children(recursive=True)
    others = {besides, *(p.pid for p in psutil.Process(besides).children(recursive=True))} if besides else set()
    return float(sum(p.memory_full_info().pss for p in processes if p.pid not in others))


def restart(authors: Authors, kind: str, times: int = 5) -> float:
    """Measure the seconds from the death of a stub until another is READY; the median."""
    authors.ours(kind)
    model = tritonlab.default_server().model(f"loop_{kind}")
    found = []
    for _ in range(times):
        time.sleep(1)
        model(IN=np.zeros(4, np.float32))  # without a request in between, the next start comes after a pause
        (instance,) = model.instances()
        started = time.perf_counter()
        os.kill(instance["pid"], signal.SIGKILL)
        while model.instances()[0]["restarts"] == instance["restarts"] or not model.ready():
            time.sleep(0.001)
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def new_kernel(rounds: int = 5) -> tuple[float, float]:
    """Measure the seconds that `%load_ext tritonlab` takes in a new Jupyter kernel, and the first model's cell, sent as
    soon as it has ended, as Run All does. Each from the message to the kernel until its answer; the medians.

    The package's bytecode is there, as pip leaves it: the first kernel writes it, and does not count.
    """
    cell = _LINE.format(name="first", more="") + _MODEL.format(imports="", number=1)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    _first_cells(cell, variables)
    times = [_first_cells(cell, variables) for _ in range(rounds)]
    return statistics.median(load for load, _ in times), statistics.median(first for _, first in times)


def _first_cells(cell: str, variables: dict[str, str]) -> tuple[float, float]:
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(ROOT), env=variables)
    try:
        _timed(client, "1 + 1")
        return _timed(client, "%load_ext tritonlab"), _timed(client, cell)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _timed(client: Any, cell: str) -> float:
    started = time.perf_counter()
    answer = client.execute_interactive(cell, output_hook=lambda message: None)
    taken = time.perf_counter() - started
    assert answer["content"]["status"] == "ok", answer["content"]
    return taken
