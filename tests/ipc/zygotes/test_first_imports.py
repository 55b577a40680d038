"""What a zygote may import for a model, read from its source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tritonlab.ipc.zygotes import first_imports as module
from tritonlab.ipc.zygotes.first_imports import FirstImports, first_imports

Read = Callable[..., FirstImports]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Return a function that reads the first imports of a model with this source, and these files beside it."""
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "m" / "1"
    directory.mkdir(parents=True)

    def read(source: str, **files: str) -> FirstImports:
        for name, text in {"model": source, **files}.items():
            path = directory / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return first_imports(str(directory / "model.py"), [str(tmp_path / "m"), str(directory)])

    return read


def modules(found: FirstImports) -> list[str]:
    return [step.module for step in found.steps if not step.own]


def test_imports_in_their_order(read: Read) -> None:
    found = read("import json\nimport torch\nimport numpy as np\nfrom PIL import Image, ImageOps\nimport torch\n")
    assert [(step.module, step.names) for step in found.steps] == [("torch", ()), ("PIL", ("Image", "ImageOps"))]
    assert (found.ended_by, found.missed) == ("", "")


def test_a_directory_without_init_gives_way_to_an_installed_module(read: Read, tmp_path: Path) -> None:
    """Such as a clone of the package's sources."""
    for name in ("psutil", "mine"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine" / "part.py").write_text("import torch\n")
    assert modules(read("import psutil\nimport mine.part\n")) == ["psutil", "torch"]
    (tmp_path / "psutil" / "__init__.py").write_text("import jax\n")
    assert modules(read("import psutil\n")) == ["jax"]


@pytest.mark.parametrize(
    "between",
    [
        '"""A model."""',
        "import os, sys\nfrom __future__ import annotations",
        "import triton_python_backend_utils as pb_utils",
        "A = 1\nB, C = (2, [3, {4: -5}])\nD: int = 6 << 20",
        "import logging\nlogger = logging.getLogger(__name__)",
        "def f(a: int = 1, *, b=None) -> str:\n    return open('x')",
        "class A(B):\n    x = 1\n    @property\n    def y(self): return print()",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import other",
        "T = TypeVar('T')\npass",
    ],
)
def test_what_does_nothing_goes_before_an_import(read: Read, between: str) -> None:
    assert modules(read(f"{between}\nimport torch\n")) == ["torch"]


@pytest.mark.parametrize(
    "trap",
    [
        "os.environ['OMP_NUM_THREADS'] = '1'",
        "os.environ.setdefault('A', 'b')",
        "sys.path.insert(0, 'x')",
        "sys.path += ['x']",
        "warnings.filterwarnings('ignore')",
        "locale.setlocale(locale.LC_ALL, '')",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (1, 1))",
        "multiprocessing.set_start_method('spawn')",
        "HAS = 'torch' in sys.modules",
        "if 'torch' in sys.modules: x = 1",
        "x = [y for y in sys.modules]",
        "x.y = 1",
        "del sys.modules['json']",
        "@register\ndef f(): pass",
        "class A(metaclass=B): pass",
        "class A:\n    print()",
        "def f(a=g()): pass",
        "with x: import a",
        "for x in y: pass",
        "assert x",
        "print('hello')",
        "global_state @ other",
    ],
)
def test_what_may_do_something_ends_them(read: Read, trap: str) -> None:
    found = read(f"import first\n{trap}\nimport torch\n")
    assert modules(found) == ["first"]
    assert found.ended_by in ("model.py, line 2", "model.py, line 3")  # a decorated function begins below
    assert found.missed in ("torch", "a")


def test_what_comes_after_them_is_not_missed(read: Read) -> None:
    found = read("import torch\nprint()\nimport json\n\n\nclass TritonPythonModel:\n    pass\n")
    assert modules(found) == ["torch"]
    assert found.missed == ""


def test_an_import_that_may_fail(read: Read) -> None:
    found = read("try:\n    import fast\nexcept ImportError:\n    fast = None\nimport torch\n")
    assert [(step.module, step.optional) for step in found.steps] == [("fast", True), ("torch", False)]
    assert modules(read("try:\n    import fast\nexcept ImportError:\n    import slow\nimport torch\n")) == []
    assert modules(read("try:\n    import fast\nexcept ValueError:\n    fast = None\nimport torch\n")) == []


def test_files_beside_the_model_are_read_too(read: Read) -> None:
    found = read("from helper import f\nimport late\n", helper="import torch\ndef f(): pass\n")
    assert [(step.module, step.own) for step in found.steps] == [("helper", True), ("torch", False), ("late", False)]
    found = read("import helper\nimport late\n", helper="import torch\nprint()\nimport more\n")
    assert modules(found) == ["torch"]
    assert found.ended_by == "helper.py, line 2"
    assert found.missed == "more"


def test_packages_beside_the_model(read: Read) -> None:
    files = {"net/__init__": "from .layers import L\n", "net/layers": "import torch\n", "net/head": "import head\n"}
    assert modules(read("import net\n", **files)) == ["torch"]
    assert modules(read("from net import head\n", **files)) == ["torch", "head"]
    assert modules(read("import net.head\nimport net\n", **files)) == ["torch", "head"]


def test_relative_imports_of_the_model(read: Read) -> None:
    assert modules(read("from . import helper\nfrom .other import x\n", helper="import a\n", other="import b\n")) == [
        "a",
        "b",
    ]


def test_a_file_in_the_working_directory_comes_first(read: Read, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import other\n")
    found = read("import torch\n")
    assert [(step.module, step.own) for step in found.steps] == [("other", False)]


def model(*initialize: str, before: str = "", after: str = "") -> str:
    """Return a model whose `initialize` has these lines. `before` and `after` are more of its class and file."""
    body = "\n".join(f"        {line}" for line in initialize)
    return f"import first\nclass TritonPythonModel:\n{before}    def initialize(self, args):\n{body}\n{after}"


AUTO = """\
    @staticmethod
    def auto_complete_config(config):
        known = [each["name"] for each in config.as_dict()["input"]]
        for name, dims in (("A", [1]), ("B", [2, -1])):
            if name not in known:
                config.add_input({"name": name, "data_type": "TYPE_FP32", "dims": dims})
        config.set_max_batch_size(len(known))
        return config
"""


@pytest.mark.parametrize("before", ["", '    """A model."""\n    x = 1\n    def execute(self): os.abort()\n', AUTO])
def test_the_first_imports_of_initialize(read: Read, before: str) -> None:
    lines = ['"""Loads."""', "global np", "x = 1", "import torch", "from helper import f"]
    found = read(model(*lines, "self.x = open('x')", "import a", before=before), helper="import jax\n")
    assert modules(found) == ["first", "torch", "jax"]
    assert found.missed == "a"


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("    def __init__(self): pass\n", 3),
        ("    def __new__(kind): pass\n", 3),
        ("    __init__ = first.other\n", 3),
        ("    def auto_complete_config(config): os.environ['A'] = 'b'\n", 3),
        ("    def auto_complete_config(config): first.change()\n", 3),
        ("    def auto_complete_config(config):\n        import other\n", 3),
        ("    def auto_complete_config(config): config.__init__.__globals__['os'].abort()\n", 3),
        ("    async def auto_complete_config(config): return config\n", 3),
        ("    @property\n    def device(self): return first.change()\n", 4),
    ],
)
def test_what_runs_before_initialize_ends_them(read: Read, before: str, line: int) -> None:
    found = read(model("import torch", before=before))
    assert modules(found) == ["first"]
    assert (found.ended_by, found.missed) == (f"model.py, line {line}", "torch")


@pytest.mark.parametrize(
    "source",
    [
        model("import torch").replace("Model:", "Model(first.Base):"),
        model("import torch").replace("class", "@final\nclass"),
        model("import torch").replace("    def init", "    @staticmethod\n    def init"),
        model("import torch").replace("    def init", "    async def init"),
        model("import torch", after="TritonPythonModel = first.Model\n"),
        model("import torch", after="from other import *\n"),
        model("import torch", after="try:\n    from other import TritonPythonModel\nexcept ImportError: pass\n"),
        model("import torch", before="    def initialize(self, args): pass\n"),
        model("if args: import torch"),
    ],
)
def test_what_may_not_be_the_initialize_that_runs(read: Read, source: str) -> None:
    found = read(source)
    assert "torch" not in modules(found)
    assert found.missed == ""


@pytest.mark.parametrize("source", ["import a\ndef (", "import a\n\0", "(" * 10000, "\xff"])
def test_what_is_no_python_has_none(read: Read, source: str) -> None:
    assert read(source).steps == []


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert first_imports(str(tmp_path / "model.py"), []).steps == []


def test_a_file_that_python_fails_to_parse_says_nothing(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    def mismatch(source: bytes) -> None:
        raise SystemError("AST constructor recursion depth mismatch")  # Python 3.11, where threads parse at once

    monkeypatch.setattr(module, "ast", SimpleNamespace(parse=mismatch))
    assert modules(read("import os")) == []
