"""MetricFamily and Metric, the author's own lines on the server's /metrics page.

The server holds families, metrics and values; these objects are handles. A family must outlive its metrics: when the
last Python object of its name is gone, its lines vanish, and its metrics refuse to work (rule 1.14.7).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import Any, ClassVar, Deque, Dict, List, Optional

from ..wire.message_bodies import MetricFamilyDel, MetricFamilyNew, MetricNew, MetricOp
from . import bridge, own_threads
from .argument_check import CAST_ERROR, as_float, as_text, mismatch, no_constructor
from .bridge import Bridge, call_server
from .enums import MetricKind
from .errors import NativeObject, TritonModelException
from .signal_gate import uninterrupted

_new = object.__new__

_ORPHAN = (
    "Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The 'MetricFamily' object should "
    "be deleted AFTER its corresponding 'Metric' objects have been deleted."
)


class _FamilyLife:
    """The state that a family shares with its metrics, so that they need not keep it alive."""

    __slots__ = ("deleted", "ident", "link", "process")

    def __init__(self, link: Bridge, ident: int) -> None:
        self.link = link
        self.ident = ident
        self.deleted = False
        self.process = os.getpid()


class Metric(NativeObject):
    """One sample of a family, distinguished from the others by its labels. It is made by `family.Metric(...)`.

    Two metrics of a family with the same labels are the same sample, also across models (rule 1.14.6).
    """

    __slots__ = ("_family", "_ident")

    _family: _FamilyLife
    _ident: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Metric:
        raise no_constructor("Metric")

    @classmethod
    def _from_ident(cls, family: _FamilyLife, ident: int) -> Metric:
        self: Metric = _new(cls)
        self._family = family
        self._ident = ident
        return self

    def increment(self, value: float, /) -> None:
        """Add `value`, which must not be negative for a counter and may be for a gauge.

        Raises TritonModelException for a negative value on a counter, and for a histogram.
        """
        self._operate("increment", value)

    def set(self, value: float, /) -> None:
        """Set a gauge to `value`. Raises TritonModelException for another kind."""
        self._operate("set", value)

    def observe(self, value: float, /) -> None:
        """Count `value` in a histogram. Raises TritonModelException for another kind."""
        self._operate("observe", value)

    def value(self) -> float:
        """Return the present value of a counter or gauge. Raises TritonModelException for a histogram."""
        return float(self._call("value", "get", 0.0))

    def _operate(self, operation: str, value: Any) -> None:
        number = value if type(value) is float else as_float(value)
        if number is None:
            raise mismatch(operation, "(self: c_python_backend_utils.Metric, arg0: float) -> None", (self, value))
        self._call(operation, operation, number)

    def _call(self, operation: str, word: str, number: float) -> Any:
        prefix = "Failed to %s metric value: " % word
        if self._family.deleted:
            raise TritonModelException(prefix + _ORPHAN)
        return call_server("Metric.%s" % operation, prefix, MetricOp(self._ident, operation, number))


class MetricFamily(NativeObject):
    """A metric's name, description and kind: `MetricFamily("seen_total", "Requests seen",
    MetricFamily.COUNTER)`."""

    __slots__ = ("_kind", "_life")

    COUNTER: ClassVar[MetricKind] = MetricKind.COUNTER
    GAUGE: ClassVar[MetricKind] = MetricKind.GAUGE
    HISTOGRAM: ClassVar[MetricKind] = MetricKind.HISTOGRAM

    def __init__(self, name: str, description: str, kind: MetricKind) -> None:
        """Join the family of that name and kind if it exists (its description stays), else make it.

        Raises TypeError for arguments of other types; TritonModelException if the server refuses: the name is not a
        metric name, or is in use with another kind.
        """
        family, words = as_text(name), as_text(description)
        if family is None or words is None or not isinstance(kind, MetricKind):
            raise mismatch(
                "__init__",
                "c_python_backend_utils.MetricFamily(name: str, description: str, "
                "kind: c_python_backend_utils.MetricKind)",
                (name, description, kind),
            )
        self._join(family, words, kind)

    @uninterrupted
    def _join(self, family: str, words: str, kind: MetricKind) -> None:
        _reaper.bury()
        self._kind = kind
        ident = call_server(
            "MetricFamily",
            "Error when creating MetricFamily: ",
            MetricFamilyNew(family, words, kind._value),
        )
        self._life = _FamilyLife(bridge.current(), ident)

    def Metric(self, labels: Optional[Dict[str, str]] = None, buckets: Optional[List[float]] = None) -> Metric:
        """Return the family's metric with `labels`. A histogram needs `buckets`: the ascending upper bounds, without
        +Inf.

        Raises TritonModelException for labels that are not a dict of texts, or buckets that are missing, unexpected or
        not ascending.
        """
        bounds = self._checked(labels, buckets)
        ident = call_server(
            "MetricFamily.Metric",
            "Error when creating Metric: ",
            MetricNew(self._life.ident, labels or {}, bounds),
        )
        return Metric._from_ident(self._life, ident)

    def _checked(self, labels: Any, buckets: Any) -> Optional[List[float]]:
        """Do the checks of rule 1.14.3, and return the buckets as floats."""
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        if buckets is None:
            if self._kind == MetricKind.HISTOGRAM:
                raise TritonModelException("Failed to create metric. Missing required buckets.")
            return None
        if not isinstance(buckets, list):
            raise TritonModelException("Failed to create metric. Buckets must be a list.")
        if self._kind != MetricKind.HISTOGRAM:
            raise TritonModelException("Failed to create metric. Unexpected buckets found.")
        bounds = [as_float(bound) for bound in buckets]
        if None in bounds:
            raise RuntimeError(CAST_ERROR)
        return bounds  # type: ignore[return-value]

    def __del__(self) -> None:
        life = getattr(self, "_life", None)  # unset if the constructor raised
        if life is not None and life.process == os.getpid():  # otherwise it is the parent's, and lives there
            life.deleted = True
            _reaper.add(life)


class _FamilyReaper:
    """The thread that reports dropped families to the server.

    A destructor may run anywhere, even in the middle of a call to the server on the same thread, so it must not make
    one itself. A new family waits until the old ones are reported, so that a name can change its kind at once.
    """

    def __init__(self) -> None:
        self._dead: Deque[_FamilyLife] = deque()
        self._wake: SimpleQueue[None] = SimpleQueue()  # its put() is made to be called in destructors
        self._lock = threading.Lock()  # held from taking a number until the server has answered
        self._thread: Optional[threading.Thread] = None

    def add(self, life: _FamilyLife) -> None:
        self._dead.append(life)
        self._wake.put(None)

    def bury(self) -> None:
        """Report all families dropped so far; the first call starts the thread, when the first family is made."""
        if self._thread is None:
            self._thread = own_threads.start("metric families", self._run)
        with self._lock:
            while self._dead:
                life = self._dead.popleft()
                with contextlib.suppress(Exception):  # the server is gone, and the lines with it
                    life.link.call(MetricFamilyDel(life.ident))

    def _run(self) -> None:
        while True:
            self._wake.get()
            self.bury()

    def forget(self) -> None:
        """Start again in a forked process, which lacks this thread, and whose copy of the lock may be held for ever."""
        self.__init__()  # type: ignore[misc]


_reaper = _FamilyReaper()
os.register_at_fork(after_in_child=_reaper.forget)
