"""`%triton check`: a check of a model, with a line that says what is tried now."""

from __future__ import annotations

import argparse
from typing import Any

from .load_commands import HasModels

_WIDTH = 110


def check(context: HasModels, arguments: argparse.Namespace) -> Any:
    """Check a model and return the result. An interrupt ends it with what was found until then."""
    relations = arguments.relations.split(",") if arguments.relations else None
    shows = not arguments.json

    def show(doing: object) -> None:
        # a carriage return, with which a cell and a terminal replace the line
        print(f"\r{str(doing)[:_WIDTH]:<{_WIDTH}}", end="", flush=True)

    model = context.model(arguments.name)
    try:
        return model.check(
            arguments.seconds,
            seed=arguments.seed,
            relations=relations,
            side_effects=arguments.side_effects,
            progress=show if shows else None,
        )
    finally:
        if shows:
            print(f"\r{'':<{_WIDTH}}\r", end="", flush=True)


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
