"""A profile of the lines of a model while it executes: its stubs look at the lines, and executions are counted."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.inference.infer_request import InferenceRequest
from ..core.metrics.infer_stats import ExecuteTimes
from ..core.observe.instrument import Instrument, Instruments
from ..core.status import TritonError, UnavailableError
from ..ipc.link.stub_link import Profiled
from .line_profile import Cite, LineProfile, ProfiledLine, place_of, read_sources
from .recorder import Recorder

if TYPE_CHECKING:
    from ..server.api.model import Model


class ExecutionCount(Instrument):
    """The executions of a model by batch size, with their time, from when it is added."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._lock = threading.Lock()
        self.sizes: dict[int, tuple[int, float]] = {}
        self.requests = 0

    def batch_executed(
        self,
        model: str,
        version: int,
        instance: str,
        batch_id: int,
        requests: Sequence[InferenceRequest],
        size: int,
        reason: str,
        times: ExecuteTimes,
        failed: bool,
        now: int,
    ) -> None:
        if model != self._model:
            return
        with self._lock:
            count, seconds = self.sizes.get(size, (0, 0.0))
            self.sizes[size] = count + 1, seconds + times.compute_infer / 1e9
            self.requests += len(requests)


def profile_lines(
    model: Model, instruments: Instruments, meanwhile: Callable[[], Any], memory: bool = False, cite: Cite = str
) -> LineProfile:
    """Profile the lines of a model while `meanwhile()` runs, and return the profile; an interrupt ends only
    `meanwhile`. `cite`: function that names the cell in a text that names a line of a model's file.

    Raises UnavailableError if no instance of the model can be profiled, and the errors of `meanwhile`.
    """
    counted = ExecutionCount(model.name)
    begun = model.look_at_lines(True, memory)
    if not begun:
        raise UnavailableError(f"no process of '{model.name}' answered, so that its lines cannot be looked at")
    instruments.add(counted)
    found: dict[int, Profiled] = {}
    began = time.perf_counter()
    try:
        with contextlib.suppress(KeyboardInterrupt):  # then the result is the profile so far
            meanwhile()
    finally:
        lasted = time.perf_counter() - began
        instruments.remove(counted)
        with contextlib.suppress(TritonError):  # unloaded meanwhile
            found = model.look_at_lines(False, memory)
    result = _result(model.name, counted, found=list(found.values()), memory=memory, seconds=lasted, cite=cite)
    for one in instruments:
        if isinstance(one, Recorder) and not memory:
            one.recording.line_profiles[model.name] = result
    return result


def _result(
    name: str, counted: ExecutionCount, found: Sequence[Profiled], memory: bool, seconds: float, cite: Cite
) -> LineProfile:
    rows: dict[tuple[str, int], ProfiledLine] = {}
    places = {(row[0], row[1]) for one in found for row in [*one.times, *one.memory]}
    sources = read_sources(file for file, _ in places)
    for file, number in places:
        place, line = place_of(file, number, cite)
        text = sources[file][number - 1] if file in sources and number <= len(sources[file]) else ""
        rows[file, number] = ProfiledLine(file, number, place=place, line=line, text=text)
    for one in found:
        for file, number, size, own, total, hits in one.times:
            times = rows[file, number].times
            before = times.get(size, (0.0, 0.0, 0))
            times[size] = before[0] + own / 1e9, before[1] + total / 1e9, before[2] + hits
        for file, number, retained, blocks, growth in one.memory:
            rows[file, number].kept += retained
            rows[file, number].growth += growth
            rows[file, number].blocks += blocks
    return LineProfile(
        name,
        list(rows.values()),
        counted.sizes,
        requests=counted.requests,
        way=" and ".join(dict.fromkeys(one.way for one in found if one.way)) or "nothing",
        memory=memory,
        seconds=seconds,
        looks=sum(one.looks for one in found),
        sources=sources,
        cite=cite,
    )
