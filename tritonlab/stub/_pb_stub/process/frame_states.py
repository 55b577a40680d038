"""The author's variables, as texts, at the time when an exception left the author's code.

The texts are made at once, so that none of the author's objects is kept alive, and they are short: the model continues
to serve. Library code gets a frame and no variables, because they would bury the author's.
"""

from __future__ import annotations

import contextlib
import linecache
import reprlib
import time
import types
from itertools import islice
from typing import Any, Iterator, List, Tuple

import numpy as np

from ..api.infer_request import InferenceRequest
from ..api.pb_tensor import Tensor
from ..wire.message_bodies import FrameState
from .author_error import is_authors, is_library

#: The most frames that are described, the innermost ones, and variables of each; the most characters of a text.
_MOST_FRAMES = 20
_MOST_VARIABLES = 40
_MOST_TEXT = 300
#: Lines of the source before and after the failed one.
_AROUND = 2
#: Seconds after which variables get no more texts: each text runs code of the author or of a library.
PATIENCE = 0.2

_HIDDEN = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)


def frame_states(error: BaseException) -> List[FrameState]:
    """Return the calls that the exception has passed, outermost first, without the stub's own."""
    states: List[FrameState] = []
    with contextlib.suppress(BaseException):  # an author's exception may be too odd to read
        end = time.monotonic() + PATIENCE
        trace = error.__traceback__
        passed: List[Tuple[Any, int]] = []
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if is_authors(file) and (passed or not is_library(file)):  # asyncio's, which called the author's
                passed.append((trace.tb_frame, trace.tb_lineno))
            trace = trace.tb_next
        # innermost first: they matter most if time runs out
        for frame, line in reversed(passed[-_MOST_FRAMES:]):
            states.insert(0, _state(frame, line, end))
    return states


def _state(frame: Any, line: int, end: float) -> FrameState:
    file, function = frame.f_code.co_filename, frame.f_code.co_name
    start = max(line - _AROUND, 1)
    source = linecache.getlines(file, frame.f_globals)[start - 1 : line + _AROUND]
    variables = [] if is_library(file) else [list(each) for each in variables_of(frame, end)]
    return FrameState(
        file, line, function, start, source=[text.rstrip("\n")[:_MOST_TEXT] for text in source], variables=variables
    )


def variables_of(frame: Any, end: float) -> Iterator[Tuple[str, str]]:
    """Return names and texts: all variables of a function, but only new names of a module or a class body."""
    found = list(frame.f_locals.items())
    variables = [(name, value) for name, value in found if not name.startswith("__") and not isinstance(value, _HIDDEN)]
    for name, value in variables[:_MOST_VARIABLES]:
        yield name, text_of(value, end)
    if len(variables) > _MOST_VARIABLES:
        yield "…", "%d more" % (len(variables) - _MOST_VARIABLES)


def text_of(value: Any, end: float) -> str:
    """Return a short text for any value, with any `repr`. `end`: the time limit, by `time.monotonic`."""
    try:
        if time.monotonic() > end:
            return "<%s>" % type(value).__name__
        text = _repr.repr(value)
    except BaseException as error:  # SystemExit too
        text = _failed(value, error)
    text = text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 2] + " …"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class _ShortRepr(reprlib.Repr):
    """A `repr` that reads only the first few elements, and shows tensors and plain objects by their content."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxstring = self.maxlong = self.maxother = 160
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 6

    def repr1(self, x: Any, level: int) -> str:
        kind = type(x)
        if kind is Tensor:
            return "Tensor %s" % x.name()
        if kind is InferenceRequest:
            return "InferenceRequest id=%r inputs=[%s]" % (x.request_id(), ", ".join(t.name() for t in x.inputs()))
        return _array(x) if isinstance(x, np.ndarray) else super().repr1(x, level)

    def repr_dict(self, x: Any, level: int) -> str:
        if level <= 0:
            return "{…}" if x else "{}"
        few = ["%s: %s" % (self.repr1(key, level - 1), self.repr1(x[key], level - 1)) for key in islice(x, 6)]
        return "{%s}" % _listed(few, len(x))  # reprlib sorts all keys

    def repr_set(self, x: Any, level: int) -> str:
        return "{%s}" % _listed([self.repr1(each, level - 1) for each in islice(x, 6)], len(x)) if x else "set()"

    repr_frozenset = repr_set

    def repr_str(self, x: str, level: int) -> str:
        return repr(x) if len(x) <= self.maxstring else "%r… [%d characters]" % (x[: self.maxstring], len(x))

    def repr_bytes(self, x: bytes, level: int) -> str:
        return repr(x) if len(x) <= self.maxstring else "%r… [%d bytes]" % (x[: self.maxstring], len(x))

    def repr_instance(self, x: Any, level: int) -> str:
        kind: Any = type(x)
        if kind.__repr__ is not object.__repr__:
            try:
                text = repr(x)
            except BaseException as error:
                return _failed(x, error)
            return text if len(text) <= self.maxother else text[: self.maxother] + "…"
        inner = getattr(x, "__dict__", {}) if level > 1 else {}
        fields = ["%s=%s" % (name, self.repr1(value, level - 2)) for name, value in list(inner.items())[:6]]
        return "<%s>" % " ".join([kind.__name__, _listed(fields, len(inner))] if fields else [kind.__name__])


_repr = _ShortRepr()


def _failed(value: Any, error: BaseException) -> str:
    return "<%s, whose repr raised %s>" % (type(value).__name__, type(error).__name__)


def _listed(few: List[str], count: int) -> str:
    return ", ".join(few) + (", …" if count > len(few) else "")


def _array(array: Any) -> str:
    """Return dtype, shape and the first elements; the rest is not read."""
    few = ["%.6g" % element if type(element) is float else _repr.repr(element) for element in array.flat[:6].tolist()]
    return "%s[%s] [%s]" % (array.dtype, ", ".join(map(str, array.shape)), _listed(few, array.size))
