"""Programs run without a server: what they would have sent, and whether anything else ran."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from .hostile import nothing_runs

#: Prints its arguments, and what it reads, each as a line of JSON.
_CURL = f"""#!{sys.executable}
import json, sys
print(json.dumps(sys.argv[1:]))
if "@-" in sys.argv:
    print(json.dumps(sys.stdin.buffer.read().decode("latin-1")))
"""


class Client:
    """What stands for tritonclient: it remembers a request and answers with `answers`, arrays by their names."""

    def __init__(self, answers: list[Mapping[str, Any]] | None = None) -> None:
        self.address = ""
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.sent: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._answers = [self._answer(found) for found in answers or [{}]]
        self._callback: Any = None

    def modules(self) -> dict[str, ModuleType]:
        found = ModuleType("tritonclient.grpc")
        found.InferenceServerClient = self._connect  # type: ignore[attr-defined]
        found.InferInput = self._input  # type: ignore[attr-defined]
        found.InferRequestedOutput = self.outputs.append  # type: ignore[attr-defined]
        package = ModuleType("tritonclient")
        package.grpc = package.http = found  # type: ignore[attr-defined]
        utils = importlib.import_module("tritonclient.utils")
        named = {"grpc": found, "http": found, "utils": utils}
        return {"tritonclient": package, **{f"tritonclient.{name}": module for name, module in named.items()}}

    def _connect(self, address: str) -> Any:
        self.address = address
        made = mock.MagicMock()
        client = made.__enter__.return_value
        client.infer, client.start_stream, client.async_stream_infer = self._infer, self._start, self._stream
        return made

    def _input(self, name: str, shape: list[int], datatype: str) -> Any:
        self.inputs.append(name)
        return mock.Mock()

    def _infer(self, *arguments: Any, **more: Any) -> Any:
        self.sent.append((arguments, more))
        return self._answers[0]

    def _start(self, callback: Any, **more: Any) -> None:
        self._callback = callback

    def _stream(self, *arguments: Any, **more: Any) -> None:
        self.sent.append((arguments, more))
        for number, answer in enumerate(self._answers):
            final = SimpleNamespace(bool_param=number == len(self._answers) - 1)
            answer.get_response().parameters = {"triton_final_response": final}
            self._callback(answer, None)

    @staticmethod
    def _answer(arrays: Mapping[str, Any]) -> Any:
        response = _Response(outputs=[{"name": name} for name in arrays])
        response.outputs = [SimpleNamespace(name=name) for name in arrays]
        return SimpleNamespace(get_response=lambda: response, as_numpy=lambda name: arrays[name])


class _Response(dict[str, Any]):
    """An answer of HTTP, which is a dict, and of gRPC, which has attributes."""

    outputs: list[Any]
    parameters: dict[str, Any]


def run_python(text: str | bytes, client: Client, data: bytes = b"", name: str = "m") -> None:
    """Run a program as its file would be, then the tests in it. `data`: its `.npz`."""
    source = text.encode() if isinstance(text, str) else text
    real_load = np.load
    space: dict[str, Any] = {"__name__": "program", "__file__": f"/nowhere/{name}.py"}
    with (
        nothing_runs(),
        mock.patch.dict(sys.modules, client.modules()),
        mock.patch.dict(os.environ),
        mock.patch.object(np, "load", lambda path: real_load(io.BytesIO(data))),
        mock.patch("builtins.print"),
    ):
        for variable in ("TRITON_HTTP", "TRITON_GRPC"):
            os.environ.pop(variable, None)
        exec(compile(source, "program.py", "exec"), space)
        for each in [key for key in space if key.startswith("test_")]:
            space[each]()


def run_shell(text: str | bytes, directory: Path, shell: str = "sh") -> tuple[list[str], str]:
    """Run a script in an empty directory and return the arguments of `curl`, and what it reads."""
    source = text if isinstance(text, str) else text.decode()
    programs = directory / "bin"
    if not programs.exists():
        programs.mkdir()
        (programs / "curl").write_text(_CURL)
        (programs / "curl").chmod(0o755)
    (directory / "program").write_bytes(source.encode())
    path = f"{programs}:{os.environ['PATH']}"
    ended = subprocess.run(
        [shell, "program"], cwd=directory, env={"PATH": path}, capture_output=True, timeout=30, check=True
    )
    assert sorted(os.listdir(directory)) == ["bin", "program"]
    arguments, *read = (json.loads(line) for line in ended.stdout.splitlines())
    return arguments, read[0] if read else ""
