"""`%triton load_test`: a form without options, a test with them."""

from __future__ import annotations

import argparse
from typing import Any, Protocol

from ...load_testing.load_tested import smallest_shapes
from ..authoring.errors import OptionError
from ..model import Model
from ..views.opener import open_load_panel

#: The arguments, for argparse.
_ARGUMENTS: tuple[Any, ...] = (
    (("name",), {"help": "a model"}),
    (("--concurrency", "-c"), {"metavar": "N,N", "help": "so many clients at once: 1,2,8"}),
    (("--request-rate", "-r"), {"metavar": "R,R", "help": "so many requests per second: 100,500"}),
    (("--duration", "-d"), {"type": float, "help": "seconds that each is measured; else until it is stable"}),
    (("--batch", "-b"), {"type": int, "help": "rows of each request"}),
    (("--shape",), {"action": "append", "default": [], "metavar": "NAME:N,N", "help": "of an input of any size"}),
    (("--csv",), {"metavar": "FILE", "help": "also write perf_analyzer's columns to a file"}),
)


class HasModels(Protocol):
    """The part of `Context` that is needed."""

    def model(self, name: str) -> Model: ...


def load_test(context: HasModels, arguments: argparse.Namespace) -> Any:
    """Run a load test. If no load is named it is one client's, and what is returned is the form with its result, since
    without a browser nobody could press Start.
    """
    model, options = context.model(arguments.name), dict[str, Any]()
    for name in ("concurrency", "request_rate"):
        if (text := getattr(arguments, name)) is not None:
            options[name] = _numbers(text)
    options |= {name: value for name in ("duration", "batch") if (value := getattr(arguments, name)) is not None}
    if arguments.shape:
        options["shapes"] = dict(_shape(text) for text in arguments.shape)
    if not options:
        options["shapes"] = smallest_shapes(model.config())
        if not arguments.csv and not arguments.json:
            panel = open_load_panel(model)
            panel.measure(**options)
            return panel
    result = model.load_test(**options, progress=not arguments.json)
    if arguments.csv:
        result.to_csv(arguments.csv)
    return result


def _shape(text: str) -> tuple[str, list[int]]:
    name, colon, dims = text.rpartition(":")
    if not colon or not all(word.strip().isdecimal() for word in dims.split(",")):
        raise OptionError(f"'{text}' is not a shape: write NAME:3,64", fix="write NAME:3,64")
    return name, [int(word) for word in dims.split(",")]


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise OptionError(f"'{text}' is not a list of numbers: write 1,2,8", fix="write 1,2,8") from None


#: What `%triton load_test` does, what its help says, and its arguments.
LOAD_TEST = (
    load_test,
    "measure throughput and latency: of one client, with a form for more, or with --concurrency 1,2,8 or "
    "--request-rate 100,500",
    *_ARGUMENTS,
)
