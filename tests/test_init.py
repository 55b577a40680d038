"""The public names of `tritonlab`, which are imported at their first use."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import tritonlab
from tests.test_layering import PACKAGE


def test_type_checkers_see_the_names_that_there_are() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == tritonlab._MODULES
    assert {*tritonlab.__all__} == {*seen, "load_ipython_extension"} - {"default_workspace", "open"}


@pytest.mark.parametrize("name", [*tritonlab.__all__, "default_workspace", "open", "__version__"])
def test_each_name_is_there_and_completed(name: str) -> None:
    assert getattr(tritonlab, name) is getattr(tritonlab, name)
    assert name in dir(tritonlab)


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match="module 'tritonlab' has no attribute 'nothing'"):
        tritonlab.nothing  # noqa: B018


@pytest.mark.parametrize(
    "script",
    [
        "import tritonlab, triton_python_backend_utils",
        "from tritonlab import *; assert Tensor and verify and open is __builtins__.open",
    ],
)
def test_a_process_of_its_own(script: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [["--version"], ["check", "--help"]])
def test_the_version_and_help_need_none_of_it(words: list[str]) -> None:
    script = f"import sys, tritonlab.__main__ as main\ntry: main.main({words})\nexcept SystemExit: pass\n"
    script += "assert len([name for name in sys.modules if name.startswith('tritonlab.')]) < 12, sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
