"""The stub is read by interpreters back to Python 3.8, so its sources keep to that grammar."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

OLDEST = (3, 8)
STUB = Path(__file__).resolve().parents[1] / "tritonlab" / "stub"
SOURCES = sorted(STUB.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(STUB)))
def test_the_oldest_grammar_reads_it(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=OLDEST)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(STUB)))
def test_annotations_are_not_evaluated(path: Path) -> None:
    """`list[int]` and `int | None` in an annotation break 3.8 at run time unless annotations stay text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    has_annotations = any(
        isinstance(node, ast.AnnAssign)
        or (isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (node.returns or node.args.args))
        for node in ast.walk(tree)
    )
    future = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
    assert future or not has_annotations


def test_the_check_can_fail() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("match x:\n    case 1: pass\n", feature_version=OLDEST)


def oldest_interpreter() -> str | None:
    """Return a python3.8 that runs; a version manager's placeholder of that name does not."""
    found = shutil.which("python3.8")
    candidates = [found] if found else []
    candidates += [str(path) for path in (Path.home() / ".pyenv" / "versions").glob("3.8.*/bin/python")]
    return next((c for c in candidates if subprocess.run([c, "-c", ""], capture_output=True).returncode == 0), None)


def test_the_oldest_interpreter_compiles_it(tmp_path: Path) -> None:
    python = oldest_interpreter()
    if python is None:
        pytest.skip("no python3.8 on this machine; its grammar is checked above")
    copy = tmp_path / "stub"
    shutil.copytree(STUB, copy, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([python, "-m", "compileall", "-q", str(copy)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
