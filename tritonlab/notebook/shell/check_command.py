"""`%triton check`: a check of a model, with a line that says what is tried now."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import Any

from ..views.widget import in_kernel
from .load_commands import HasModels

_WIDTH = 110


def check(context: HasModels, arguments: argparse.Namespace) -> Any:
    """Check a model and return the result. An interrupt ends it with what was found until then."""
    relations = arguments.relations.split(",") if arguments.relations else None
    model = context.model(arguments.name)
    show = None if arguments.json else _changing_line()
    try:
        return model.check(
            arguments.seconds,
            seed=arguments.seed,
            relations=relations,
            side_effects=arguments.side_effects,
            progress=show,
        )
    finally:
        if show is not None:
            show("")


def _changing_line() -> Callable[[object], None]:
    """Return what shows a text in place of the one before. A notebook stores the last, where it would store every line
    that a carriage return begins."""
    if not in_kernel():
        return lambda text: print(f"\r{str(text)[:_WIDTH]:<{_WIDTH}}\r", end="", flush=True)
    display: Any = importlib.import_module("IPython.display").display
    handle = display({"text/plain": ""}, raw=True, display_id=True)

    def show(text: object) -> None:
        handle.update({"text/plain": str(text)}, raw=True)

    return show


#: What `%triton check` does, what its help says, and its arguments.
CHECK: tuple[Any, ...] = (
    check,
    "look for what goes wrong in company: batches, state, failures that spread, streams, sequences, leaks",
    (("name",), {"help": "a model"}),
    (("--seconds", "-s"), {"type": float, "default": 60.0, "help": "about how long it may take (60)"}),
    (("--seed",), {"type": int, "default": 0, "help": "of the requests; the same seed makes the same ones"}),
    (("--relations",), {"metavar": "NAME,NAME", "help": "those to try: company,neighbours; all by default"}),
    (("--side-effects",), {"action": "store_true", "help": "also a model that talks to other models or services"}),
)
