"""Facts about modules, read without running their code.

`sys.modules` may hold anything: a lazy module, which the first access loads; a stand-in of three lines for a large
library; an object that raises, or invents, any attribute. So only the module's own dict is read, bypassing its class,
and a value of another type counts as absent.
"""

from __future__ import annotations

import sys
import types
from typing import Any, Dict, List, Mapping

_NOTHING: Mapping[str, Any] = {}


def own_names(name: str) -> Mapping[str, Any]:
    """Return the dict of the imported module of that name; empty if it has none."""
    module = sys.modules.get(name)
    try:
        found = object.__getattribute__(module, "__dict__")
    except Exception:
        return _NOTHING
    return found if type(found) in (dict, types.MappingProxyType) else _NOTHING


def file_of(name: str) -> str:
    """Return the file of the module; empty if it has none."""
    file: Any = own_names(name).get("__file__")
    return file if issubclass(type(file), str) else ""


def search_path_of(name: str) -> List[str]:
    """Return the directories in which the package searches its modules; empty for a plain module."""
    try:
        return [each for each in own_names(name).get("__path__") or () if issubclass(type(each), str)]
    except Exception:  # a stand-in's value may not be a list, and a namespace package accesses its parent
        return []


def files_of_modules() -> Dict[str, str]:
    """Return the file of every imported module that has one; for a namespace package, its first directory."""
    names = [name for name in list(sys.modules) if type(name) is str]
    return {name: file for name in names if (file := file_of(name) or "".join(search_path_of(name)[:1]))}
