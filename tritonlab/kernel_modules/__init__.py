"""The finder that makes `import triton_python_backend_utils` work in a notebook, a script or a test.

A stub finds the author's module on its path. Every other process that has imported tritonlab finds it through the
finder here, the last one of `sys.meta_path`: an installed module of that name wins, and nothing is put into
site-packages that could hide Triton's own in a packed environment.

It finds the files beside this one. The first two have all names from the start, classes included. In a stub, ours or
Triton's, the classes are there only once `model.py` has been imported (rule 1.1.2). So `from
triton_python_backend_utils import Tensor`, or a class in an evaluated annotation, works here and fails to load there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

#: The base class that a model may have; a model that imports it brings the file.
BASE = "base_triton_python_model"
MODULES = ("c_python_backend_utils", "triton_python_backend_utils", BASE)
_DIRECTORY = str(Path(__file__).parent)
BASE_FILE = Path(_DIRECTORY, f"{BASE}.py")


class KernelModules(MetaPathFinder):
    """The finder of MODULES in a process that is not a stub. jedi uses it, too, when it completes a cell."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(fullname, [_DIRECTORY]) if fullname in MODULES else None


def install() -> None:
    """Make MODULES importable in this process. May be called twice."""
    if not any(isinstance(finder, KernelModules) for finder in sys.meta_path):
        sys.meta_path.append(KernelModules())
