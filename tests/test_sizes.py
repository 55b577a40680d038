"""The table of sizes sees what it counts, and no function is too long to be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shape import changelog_row, classes, one_importer, rows_of_tests, single_protocols, whole
from tests.sizes import (
    HINTS,
    Use,
    assigned_from_elsewhere,
    circles,
    late_imports,
    long_calls,
    measured,
    over,
    private_attributes,
    private_uses,
    table,
)
from tests.test_layering import PACKAGE, ROOT, own_imports


@pytest.fixture
def package(tmp_path: Path) -> Path:
    package = tmp_path / "tritonlab"
    package.mkdir()
    (package / "__init__.py").write_text("")
    return package


def test_files_functions_and_classes_are_measured(package: Path) -> None:
    path = package / "a.py"
    path.write_text("class A:\n    def f(self):\n        return 1\n\n\nasync def g():\n    pass\n")
    sizes = measured(path, package.parent)
    assert sizes["files"] == [(7, "tritonlab/a.py")]
    assert sizes["classes"] == [(3, "tritonlab/a.py:1 A")]
    assert sorted(sizes["functions"]) == [(2, "tritonlab/a.py:2 f"), (2, "tritonlab/a.py:6 g")]


def test_a_circle_for_type_checkers_counts(package: Path) -> None:
    (package / "a.py").write_text("from .b import B\n")
    (package / "b.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import A\n")
    (package / "c.py").write_text("from .a import A\n")
    assert circles(own_imports(package.parent, package)) == [["tritonlab.a", "tritonlab.b"]]


def test_private_names_of_other_packages_are_found(package: Path) -> None:
    path = package / "a.py"
    path.write_text(
        "import os\nimport zlib as z\nfrom grpc._cython import cygrpc\nfrom ._b import c\n"
        "os._exit(1)\nz._secret\nself._own\nc._ours\n"
    )
    found = list(private_uses(path, package.parent))
    assert found == [Use("tritonlab/a.py", 3, "grpc._cython.cygrpc"), Use("tritonlab/a.py", 6, "zlib._secret")]


def test_private_attributes_of_others_are_found(package: Path) -> None:
    ours, path = package / "b.py", package / "a.py"
    ours.write_text("class A:\n    def __init__(self):\n        self._own = 1\n")
    path.write_text("import os\nos._exit(1)\na._own\na._asdict()\nparser._actions\ngetattr(task, '_waiter', None)\n")
    found = list(private_attributes([path, ours], package.parent))
    assert found == [Use("tritonlab/a.py", 5, "…._actions"), Use("tritonlab/a.py", 6, "…._waiter")]


def test_the_table_tells_them_all(package: Path) -> None:
    (package / "a.py").write_text("from .b import B\nimport _socket\n")
    (package / "b.py").write_text("from .a import A\n" + "x = 1\n" * 400)
    text = table(package.parent, package)
    assert "403 lines in tritonlab/" in text
    assert "    401  tritonlab/b.py" in text
    assert "circles of imports: 1\n    tritonlab.a tritonlab.b" in text
    assert "private names of other packages: 1 in 1 files\n    tritonlab/a.py:2 _socket" in text


def test_calls_upward_are_found(package: Path) -> None:
    for name in ("core", "notebook"):
        (package / name).mkdir()
        (package / name / "__init__.py").write_text("")
    (package / "core" / "errors.py").write_text("class Shown:\n    cite = None\n")
    path = package / "notebook" / "cells.py"
    path.write_text(
        "from ..core.errors import Shown\nclass Own: ...\nShown.cite = 1\nsetattr(Shown, 'fix', 2)\nOwn.a = 3\n"
        "def f():\n    from ..core import errors\n"
    )
    assert [(use.line, use.name) for use in assigned_from_elsewhere(path, package.parent)] == [
        (3, "Shown.cite"),
        (4, "Shown.'fix'"),
    ]
    late = late_imports(own_imports(package.parent, package))
    assert late == [Use("tritonlab.notebook.cells", 7, "tritonlab.core.errors")]


def test_calls_without_names_are_found(package: Path) -> None:
    path = package / "a.py"
    path.write_text("f(1, 2, 3, 4, 5)\nf(1, 2, 3, 4, five=5)\nf(*many, 2, 3, 4, 5)\n")
    assert list(long_calls(path, package.parent)) == [Use("tritonlab/a.py", 1, "f (5)")]


def test_no_function_of_the_package_is_too_long() -> None:
    sizes = [size for path in PACKAGE.rglob("*.py") for size in measured(path, ROOT)["functions"]]
    assert over(sizes, HINTS["functions"]) == []


def test_public_attributes_are_those_of_a_class_and_its_bases(package: Path) -> None:
    (package / "a.py").write_text(
        "class A:\n    x: int\n    def __init__(self):\n        #: why\n        self.y = self._z = 1\n"
        "    def go(self):\n        return self._z.go()\n"
    )
    (package / "b.py").write_text(
        "from . import a as one\nclass Model(one.A):\n    '''One.\n\n    x: what\n    '''\n"
        "    def f(self):\n        '''Go.'''\n"
    )
    found = classes(package, package.parent)
    assert whole(found, "tritonlab.b.Model") == ({"x", "y", "go", "f"}, {"y", "f"}, 1)


def test_protocols_and_modules_without_a_choice_are_found(package: Path) -> None:
    (package / "a.py").write_text(
        "from typing import Protocol\nclass Two(Protocol):\n    def go(self): ...\n"
        "class One(Protocol):\n    def stop(self): ...\nclass Called(Protocol):\n    def __call__(self): ...\n"
        "class A:\n    def go(self): ...\n    def stop(self): ...\nclass B:\n    go = 1\n"
    )
    (package / "b.py").write_text("from . import program\nfrom .a import A\n")
    (package / "program.py").write_text('import sys\nif __name__ == "__main__":\n    sys.exit()\n')
    assert single_protocols(classes(package, package.parent)) == [("tritonlab.a.One", ["A"])]
    imports = own_imports(package.parent, package)
    assert one_importer(imports, package, package.parent) == [("tritonlab.a", 12, "tritonlab.b")]


def test_tests_are_counted(tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "some.md").write_text("```python\n1\n```\n```text\n1\n```\n```python\n2\n```\n")
    (tmp_path / "test_a.py").write_text(
        "class M(RuleBasedStateMachine): ...\ntime.sleep(1)\nMODEL = 'time.sleep(2); time.sleep(3)'\n"
    )
    (tmp_path / "tool.py").write_text("time.sleep(4)\n")
    rows = rows_of_tests(tmp_path)
    assert rows[0].startswith("4 lines in ")
    assert rows[1] == "sleeps in tests: 1 in test files, 2 with tools and benchmarks, 2 in the text of models"
    assert rows[2].endswith("test_a.py:2 time.sleep(1)")
    assert rows[3] == "stateful machines: 1; transcripts: 1 files, 2 cells"


def test_the_notes_of_a_release_are_counted() -> None:
    text = "# Changelog\n## [Unreleased]\n- x\n\n## [0.1.0] - 2026-11-26\n\nOne.\n\n- a b\n  c\n- d\n\n[0.1.0]: https://x\n"
    assert changelog_row(text) == "notes of 0.1.0: 2 items in 4 lines, 7 words"
