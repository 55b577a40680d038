"""The alias of `sys.modules["tritonserver"] = tritonlab.tritonserver`, with which a program that imports `tritonserver`
runs unchanged: its `import tritonserver._api._response` must find the module here, and not load it a second time.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

HERE = __name__.rpartition(".")[0]
_ALIAS = "tritonserver."


class AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The finder of modules below `tritonserver` while that name stands for this package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(_ALIAS) or sys.modules.get("tritonserver") is not sys.modules.get(HERE):
            return None
        real = f"{HERE}.{fullname.removeprefix(_ALIAS)}"
        if importlib.util.find_spec(real) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=real)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        assert spec.origin is not None
        module = importlib.import_module(spec.origin)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own name, under which it has already been executed."""
        module.__spec__ = self._spec
