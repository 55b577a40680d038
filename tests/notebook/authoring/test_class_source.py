from __future__ import annotations

import linecache
import math
from typing import Any

import numpy
import pytest

from tritonlab.notebook.authoring.class_source import model_file_of
from tritonlab.notebook.authoring.errors import SourceError


class TritonPythonModel:
    """A class of a module that has a file."""

    def execute(self, requests: list[Any]) -> list[Any]:
        return [math.pi for _ in requests]


class Differently(TritonPythonModel):
    def finalize(self) -> None:
        pass


def in_notebook(source: str, **variables: object) -> dict[str, Any]:
    """Return the namespace after running `source` as a cell, whose module has no file."""
    name = f"<cell {len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": "__main__", **variables}
    exec(compile(source, name, "exec"), namespace)
    return namespace


@pytest.fixture
def main_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a namespace the main module, as a notebook's is."""
    import sys
    import types

    def become(namespace: dict[str, Any]) -> None:
        module = types.ModuleType("__main__")
        module.__dict__.update(namespace)
        monkeypatch.setitem(sys.modules, "__main__", module)

    return become


def test_a_class_of_a_file_brings_the_file() -> None:
    text, segments = model_file_of(TritonPythonModel)
    assert "A class of a module that has a file." in text
    assert segments[0].origin == __file__
    assert model_file_of(Differently)[0].endswith("\nTritonPythonModel = Differently\n")


def test_a_class_of_a_notebook_brings_what_it_uses(main_module: Any) -> None:
    namespace = in_notebook(
        "SCALE = 3\n"
        "def helper(x):\n"
        "    return np.asarray(x) * SCALE\n"
        "\n"
        "class Scaler:\n"
        "    def execute(self, requests):\n"
        "        network = 1\n"
        "        return helper(requests) + sin(network)\n",
        np=numpy,
        sin=math.sin,
        network=object(),
    )
    main_module(namespace)
    text, segments = model_file_of(namespace["Scaler"])
    alone: dict[str, Any] = {}
    exec(text, alone)
    assert alone["TritonPythonModel"]().execute([1])[0] == 3 + math.sin(1)
    lines = text.splitlines()
    for segment in segments:
        origin = linecache.getlines(segment.origin)
        for line in range(segment.first, segment.last + 1):
            assert lines[line - 1] == origin[line + segment.offset - 1].rstrip("\n")


def test_a_function_may_have_another_name(main_module: Any) -> None:
    namespace = in_notebook(
        "def double(x):\n    return x * 2\n"
        "twice = double\n"
        "class M:\n    def execute(self, requests):\n        return twice(requests)\n"
    )
    main_module(namespace)
    alone: dict[str, Any] = {}
    exec(model_file_of(namespace["M"])[0], alone)
    assert alone["TritonPythonModel"]().execute([1]) == [1, 1]


def test_a_class_may_have_an_array(main_module: Any) -> None:
    source = "class M:\n    MEAN = np.zeros(2)\n    def execute(self, requests):\n        return requests\n"
    namespace = in_notebook(source, np=numpy)
    main_module(namespace)
    assert source in model_file_of(namespace["M"])[0]


def test_a_variable_that_cannot_travel_is_named(main_module: Any) -> None:
    namespace = in_notebook(
        "class M:\n    def execute(self, requests):\n        return network(requests)\n", network=numpy.zeros(2)
    )
    main_module(namespace)
    with pytest.raises(SourceError, match=r"M uses the notebook's variable 'network' \(a numpy.ndarray\)"):
        model_file_of(namespace["M"])
