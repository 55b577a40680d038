"""`%triton profile`: the lines of a model by time or memory, under a load or as others send requests."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ...load_testing.load_tested import smallest_shapes
from .load_commands import HasModels

if TYPE_CHECKING:
    from ...profile.line_profile import LineProfile


def profile(context: HasModels, arguments: argparse.Namespace) -> LineProfile:
    """Profile a model under random requests of the smallest shapes, or with --watch under those of others."""
    model = context.model(arguments.name)
    if arguments.watch:
        return model.profile(seconds=arguments.seconds, memory=arguments.memory)
    load: dict[str, Any] = {"concurrency": arguments.concurrency, "shapes": smallest_shapes(model.config())}
    if arguments.batch is not None:
        load["batch"] = arguments.batch
    return model.profile(seconds=arguments.seconds, memory=arguments.memory, **load)


#: What `%triton profile` does, what its help says, and its arguments.
PROFILE = (
    profile,
    "show which lines of a model take the time, by batch size, or keep memory",
    (("name",), {"help": "a model"}),
    (("--seconds", "-s"), {"type": float, "default": 3.0, "help": "how long (3)"}),
    (("--concurrency", "-c"), {"type": int, "default": 1, "help": "so many clients at once (1)"}),
    (("--batch", "-b"), {"type": int, "help": "rows of each request"}),
    (("--watch",), {"action": "store_true", "help": "send nothing, look at what others send"}),
    (("--memory",), {"action": "store_true", "help": "what each line still holds of what it allocated"}),
)
