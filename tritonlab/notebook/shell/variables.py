"""The variable of a model's name that a cell which loads it gets."""

from __future__ import annotations

import builtins
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...server.api.model import Model


def bind(shell: Any, model: Model) -> str:
    """Bind the model to a variable of its name, if there can be one and it holds nothing else. Returns why it did
    not, and what to write instead."""
    name = model.name
    holds = shell.user_ns.get(name)
    if not name.isidentifier() or iskeyword(name):
        why = f"no variable can be called {name!r}"
    elif holds is not None and type(holds) is not type(model):
        why = f"the variable {name!r} holds something else"
    elif holds is None and hasattr(builtins, name):  # else `print` would be a model from here on
        why = f"the variable {name!r} is Python's own"
    else:
        shell.user_ns[name] = model
        return ""
    return f"{why}; the model is tritonlab.default_server().model({name!r})"
