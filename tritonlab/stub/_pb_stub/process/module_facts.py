"""What modules have, read without asking them.

Anything may lie in `sys.modules`: a lazy module, which is loaded by the first question; a stand-in of three lines for a
large library; an object that raises, or invents, whatever it is asked for. So only the module's own dict is read, past
its class, and a value of another type counts as absent.
"""

from __future__ import annotations

import sys
import types
from typing import Any, Dict, List, Mapping

_NOTHING: Mapping[str, Any] = {}


def own_names(name: str) -> Mapping[str, Any]:
    """Return what the imported module of that name has in its dict; nothing for what has none."""
    module = sys.modules.get(name)
    try:
        found = object.__getattribute__(module, "__dict__")
    except Exception:
        return _NOTHING
    return found if type(found) in (dict, types.MappingProxyType) else _NOTHING


def file_of(name: str) -> str:
    """Return the file that the module came from; empty if there is none."""
    file: Any = own_names(name).get("__file__")
    return file if issubclass(type(file), str) else ""


def search_path_of(name: str) -> List[str]:
    """Return the directories in which the package looks for its modules; empty for a plain module."""
    try:
        return [each for each in own_names(name).get("__path__") or () if issubclass(type(each), str)]
    except Exception:  # what a stand-in has need not be a list, and a namespace package asks for its parent
        return []


def files_of_modules() -> Dict[str, str]:
    """Return the file of every imported module that has one; of a namespace package, its first directory."""
    names = [name for name in list(sys.modules) if type(name) is str]
    return {name: file for name in names if (file := file_of(name) or "".join(search_path_of(name)[:1]))}
