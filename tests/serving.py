"""A server with real stubs, for the tests of several folders, and a model that runs the code that a test sends.

`lab` is one server per test module: a model that a test kills is restarted, so the next test finds it as it was.
"""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from tritonlab import Model, Server
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.status import TritonError
from tritonlab.engine.life.model_instance import ModelInstance
from tritonlab.server.api.response_iterator import ResponseIterator

#: Longest a test waits for what should happen at once.
SOON = 30.0

#: Runs the Python text it is sent: the body of `execute(self, requests)`. `X` and `Y` are inputs it may get.
SCRIPTED = """
import ctypes, os, signal, sys, textwrap, threading, time

import numpy as np
import triton_python_backend_utils as pb_utils


def tensor(request, name):
    return pb_utils.get_input_tensor_by_name(request, name)


def answer(**outputs):
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, np.asarray(value)) for name, value in outputs.items()])


class TritonPythonModel:
    def initialize(self, args):
        self.args = args
        self.kept = {}

    def execute(self, requests):
        code = tensor(requests[0], "CODE").as_numpy().reshape(-1)[0].decode()
        scope = dict(globals(), request=requests[0])
        exec("def script(self, requests):\\n" + textwrap.indent(code, "    "), scope)
        try:
            return scope["script"](self, requests)
        finally:
            scope.clear()  # a function in its own globals is a cycle; the inputs would live until it is collected
"""


def config(inputs: str = "", outputs: str = "", *rest: str, kind: str = "KIND_CPU", count: int = 1) -> str:
    """Return a config.pbtxt text. A tensor is `NAME TYPE dims`, several by `;`; an input `NAME?` is optional."""
    lines = ['backend: "python"', f"instance_group {{ kind: {kind} count: {count} }}"]
    for group, tensors in (("input", inputs), ("output", outputs)):
        for tensor in filter(None, (t.strip() for t in tensors.split(";"))):
            name, datatype, dims = tensor.split(maxsplit=2)
            optional = " optional: true" if name.endswith("?") else ""
            lines.append(
                f'{group} {{ name: "{name.rstrip("?")}" data_type: TYPE_{datatype} dims: [ {dims} ]{optional} }}'
            )
    return "\n".join([*lines, *rest, ""])


SCRIPTED_CONFIG = config(
    "CODE STRING 1; X? FP32 -1; Y? STRING -1; Z? BF16 -1", "OUT FP32 -1; TEXT STRING -1; B BF16 -1"
)
DECOUPLED = "model_transaction_policy { decoupled: true }"


def write_model(
    repository: Path, name: str, source: str, config_text: str | None = None, version: int = 1, **files: str
) -> Path:
    """Write a model directory into the repository; `files` are more of its files, `__` for `/` and `_dot_` for `.`."""
    directory = repository / name
    (directory / str(version)).mkdir(parents=True, exist_ok=True)
    (directory / str(version) / "model.py").write_text(source)
    if config_text is not None:
        (directory / "config.pbtxt").write_text(config_text)
    for path, text in files.items():
        file = directory / path.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return directory


class Script:
    """A loaded SCRIPTED model."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def infer(self, code: str, *, request_id: str = "", raise_on_error: bool = True, **inputs: Any) -> ResponseIterator:
        text = np.array([textwrap.dedent(code).strip().encode()], dtype=np.object_)
        return self.model.infer(inputs={"CODE": text, **inputs}, request_id=request_id, raise_on_error=raise_on_error)

    def __call__(self, code: str, *, request_id: str = "", **inputs: Any) -> dict[str, NDArray[Any]]:
        """Run `code` and return the outputs of its only response."""
        (response,) = self.infer(code, request_id=request_id, **inputs)
        return {name: tensor.numpy() for name, tensor in response.outputs.items()}

    def responses(self, code: str, **inputs: Any) -> list[InferenceResponse]:
        """Return all responses, errors among them."""
        return list(self.infer(code, raise_on_error=False, **inputs))

    def fails(self, code: str, **inputs: Any) -> TritonError:
        """Return the error of the only response."""
        (response,) = self.responses(code, **inputs)
        assert response.error is not None
        return response.error

    def value(self, expression: str, **inputs: Any) -> Any:
        """Return the value of an expression of numbers in the stub, as a float."""
        return self(f"return [answer(OUT=np.float32([{expression}]))]", **inputs)["OUT"][0]

    def text(self, expression: str, **inputs: Any) -> str:
        """Return the `str` of an expression in the stub."""
        out = self(f"return [answer(TEXT=np.array([str({expression})], dtype=object))]", **inputs)
        return str(out["TEXT"][0].decode())

    @property
    def instance(self) -> ModelInstance:
        return instances(self.model)[0]

    @property
    def pid(self) -> int:
        pid = self.instance.pid
        assert pid is not None
        return pid

    def lines(self) -> list[str]:
        """Return what it printed and logged."""
        return [record.text for record in self.model.logs()]


class Lab:
    """A server with warm stubs on a repository that tests fill."""

    def __init__(self, repository: Path, **options: Any) -> None:
        self.repository = repository
        self.server = Server(repository, model_control_mode="explicit", **options)

    def write(self, name: str, source: str, config_text: str | None = None, **more: Any) -> Path:
        return write_model(self.repository, name, source, config_text, **more)

    def load(self, name: str, source: str, config_text: str | None = None, **more: Any) -> Model:
        self.write(name, source, config_text, **more)
        return self.server.load(name)

    def script(self, name: str = "script", config_text: str = SCRIPTED_CONFIG) -> Script:
        """Return the SCRIPTED model, loaded at first use and alive."""
        model = self.server.model(name)
        if model.state == "UNKNOWN":
            model = self.load(name, SCRIPTED, config_text)
        eventually(model.ready)
        return Script(model)

    def held(self, name: str, execute: str) -> tuple[Model, Path]:
        """Load a model whose later stubs initialize once the file is gone; `execute` is the body of that method."""
        hold = self.repository / f"{name}.hold"
        source = f"""
import os, signal, time

class TritonPythonModel:
    def initialize(self, args):
        while os.path.exists({str(hold)!r}):
            time.sleep(0.005)

    def execute(self, requests):
        {execute}
"""
        model = self.load(name, source)
        hold.touch()
        return model, hold


def instances(model: Model) -> list[ModelInstance]:
    """Return the instances behind a handle, for what the API does not show."""
    return model.serving_version().instances


def eventually(holds: Callable[[], Any], timeout: float = SOON) -> Any:
    """Wait until `holds()` is true and return its value; what is waited for happens in another process."""
    begun = time.monotonic()
    while True:
        value = holds()
        if value:
            return value
        waited = time.monotonic() - begun
        if waited > timeout:
            raise AssertionError(f"it did not come true in {timeout:.0f} s")
        pause(waited)


def pause(waited: float) -> None:
    """Sleep between two looks at what has been waited for so many seconds: a tenth of that, as looks take time that the
    other process needs."""
    time.sleep(min(0.002 + waited / 10, 0.05))


#: Threads that a module was failed for; those after it are not to blame.
_reported: set[threading.Thread] = set()


def await_endings() -> None:
    """Wait until no thread ends anything any more: models, instances, processes. Fail with what a thread does that goes
    on, once.
    """

    def ending() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith(("unload", "end "))} - _reported

    try:
        eventually(lambda: not ending())
    except AssertionError:
        left, frames = ending(), sys._current_frames()
        _reported.update(left)
        found = [(thread.name, frames[thread.ident]) for thread in left if thread.ident in frames]
        stacks = [f"'{name}' goes on:\n{''.join(traceback.format_stack(frame))}" for name, frame in found]
        pytest.fail("\n".join(stacks), pytrace=False)


def alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def stub_processes(kernel: int | None = None) -> list[psutil.Process]:
    """Return the stubs that are children of a process; of this one if none is named."""
    found = []
    for process in psutil.Process(kernel).children(recursive=True):
        try:
            if any(part.endswith("triton_python_backend_stub.py") for part in process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            pass
    return found


def warm_pids(server: Server) -> set[int]:
    """Return the process ids of a server's zygotes."""
    memory = server.core.pool.memory()
    return set() if memory is None else set(memory.imports)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def meeting_at(directory: Path, count: int) -> str:
    """Return a model that is initialized once so many of its kind have come to the directory."""
    return f"""
import os, time

class TritonPythonModel:
    def initialize(self, args):
        open(os.path.join({str(directory)!r}, args["model_name"]), "w").close()
        while len(os.listdir({str(directory)!r})) < {count}:
            time.sleep(0.005)
"""


def in_threads(count: int, function: Callable[[int], Any], timeout: float = 60.0) -> list[Any]:
    """Call `function(index)` in `count` threads at once and return the results by index. Raise the first error."""
    results: list[Any] = [None] * count
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(index: int) -> None:
        try:
            barrier.wait()
            results[index] = function(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    assert not any(thread.is_alive() for thread in threads), "some threads never came back"
    if errors:
        raise errors[0]
    return results


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return this process's environment with some variables changed; None removes one."""
    merged: dict[str, str | None] = {**os.environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


#: Of a pytest in a process of its own: the plugins that are installed here take 3.4 s of processor time to import.
NO_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("repository"))
    yield lab
    lab.server.stop()


@pytest.fixture
def script(lab: Lab) -> Script:
    return lab.script()
