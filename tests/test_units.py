"""Each number of a public result that is a time has its unit in its name or in a docstring."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

from tests.test_notebooks import generated_reference

#: Words of a name that is a time, unless it is a number of something else.
TIMES = re.compile(
    r"(?:^|_)(latency|lag|queue|queued|compute\w*|times?|waits?|waited|took|delay|duration|span|begin|end|started|first|last"
    r"|gap|p50|p90|p95|p99|avg|mean|max|send|receive|arrived|interval|timeout|age)$"
)
UNITS = re.compile(r"nanosecond|microsecond|millisecond|second")
#: The index of an element.
NO_TIMES = {("TensorDiff", "first")}


def numbers(cls: type) -> Iterator[tuple[str, str, str]]:
    """Return the name, the type and the docstring of each public attribute."""
    if dataclasses.is_dataclass(cls):
        yield from ((field.name, str(field.type), "") for field in dataclasses.fields(cls))
    for name in getattr(cls, "_fields", ()):
        yield name, str(cls.__annotations__.get(name)), ""
    for name, value in vars(cls).items():
        if isinstance(value, property) and not name.startswith("_"):
            yield name, str(value.fget.__annotations__.get("return")), value.__doc__ or ""


def public_classes() -> set[type]:
    """Return the public classes, those that calls return, and those of their attributes."""
    reference: Any = generated_reference()
    waiting = [*reference.returned_classes(), *filter(inspect.isclass, reference.public_objects().values())]
    found: set[type] = set()
    while waiting:
        cls = waiting.pop()
        if cls in found or not cls.__module__.startswith("tritonlab."):
            continue
        found.add(cls)
        names = {name for _, kind, _ in numbers(cls) for name in re.findall(r"\w+", kind)}
        waiting += [of for name in names if (of := reference.class_named(name, cls.__module__)) is not None]
    return found


def test_each_time_has_a_unit() -> None:
    classes = public_classes()
    assert {"Percentiles", "PhaseTimes", "Mark", "Numbers"} <= {cls.__name__ for cls in classes}
    missing = [
        f"{cls.__name__}.{name}"
        for cls in classes
        for name, kind, text in numbers(cls)
        if re.search(r"\b(int|float)\b", kind) and TIMES.search(name) and (cls.__name__, name) not in NO_TIMES
        if not UNITS.search(text + (inspect.getdoc(cls) or ""))
    ]
    assert missing == []
