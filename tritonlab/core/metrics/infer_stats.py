"""`InferStats`, the counts of one model version for `/stats` and `/metrics` (rules 3.11, 5.12)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any


class ExecuteTimes:
    """The nanoseconds of one `execute`: marshalling in, the call in the stub, marshalling out (rule 3.11.3)."""

    __slots__ = ("compute_infer", "compute_input", "compute_output")

    def __init__(self, compute_input: int, compute_infer: int, compute_output: int) -> None:
        self.compute_input = compute_input
        self.compute_infer = compute_infer
        self.compute_output = compute_output


#: Why requests failed, as in the metric's label (rule 5.13.1). BACKEND is a failed execution.
FAILURE_REASONS = ("BACKEND", "CANCELED", "OTHER", "REJECTED")

#: The number of executions that are noted before they are counted together. Measured within requests, where the data
#: for counting is in no cache of the CPU: noting an execution takes a quarter of the time of counting it.
_NOTED = 16
#: The arguments of `record_batch`.
_Noted = tuple[int, Sequence[int], Sequence[int], ExecuteTimes, int, int, int]


class InferStats:
    """The counts of the requests and executions of one model version, in nanoseconds. Any thread may call any method.

    A request that the server refuses at once, by the checks of rule 5.4 or because the queue is full, is not counted at
    all (measured on 2.51): nothing here is called for it.
    """

    # Plain integers, because record_batch runs once per batch: with an object per duration it took three times as long.
    __slots__ = (
        "_batches",
        "_cache_hit",
        "_cache_hit_ns",
        "_cache_miss",
        "_cache_miss_ns",
        "_executed",
        "_execution_count",
        "_fail",
        "_fail_ns",
        "_failures",
        "_infer_ns",
        "_inference_count",
        "_input_ns",
        "_last_inference",
        "_lock",
        "_noted",
        "_output_ns",
        "_queue_ns",
        "_success",
        "_success_ns",
        "composing",
    )

    def __init__(self) -> None:
        #: True if this version is a step of an ensemble, which then gets the times of its executions
        self.composing = False
        #: the executions that are not counted yet; readers of the counts count them first
        self._noted: deque[_Noted] = deque()
        self._lock = threading.Lock()  # guards all fields below
        self._last_inference = 0
        self._inference_count = 0
        self._execution_count = 0
        self._success = self._success_ns = self._queue_ns = 0
        self._fail = self._fail_ns = 0
        self._executed = self._input_ns = self._infer_ns = self._output_ns = 0
        self._cache_hit = self._cache_hit_ns = 0
        self._cache_miss = self._cache_miss_ns = 0
        #: executed batch size -> executions and their nanoseconds: input, infer, output
        self._batches: dict[int, list[int]] = {}
        self._failures = dict.fromkeys(FAILURE_REASONS, 0)

    def record_batch(
        self,
        size: int,
        queue_ns: Sequence[int],
        request_ns: Sequence[int],
        times: ExecuteTimes,
        failed: int,
        wall_ms: int,
        nulls: int = 0,
    ) -> None:
        """Count one `execute` call that has ended; called once per batch.

        `size`: sum of the batch dimensions. `queue_ns`, `request_ns`: each request's time in the queue, and its time
        since arrival. `failed`: the number of failed requests; Triton fails all or none (rule 3.11.1), so not 0 means
        all. `wall_ms`: milliseconds since the epoch. `nulls`: the part of `size` that is null requests (rule 5.6.7),
        which are not inferences.
        """
        noted = self._noted
        noted.append((size, queue_ns, request_ns, times, failed, wall_ms, nulls))
        if len(noted) >= _NOTED:
            with self._lock:
                self._count_noted()

    def _count_noted(self) -> None:
        """Count the executions that are only noted. The caller holds the lock."""
        noted = self._noted
        while noted:
            self._count_batch(noted.popleft())

    def _count_batch(self, noted: _Noted) -> None:
        size, queue_ns, request_ns, times, failed, wall_ms, nulls = noted
        count = len(request_ns)
        compute_input, compute_infer, compute_output = times.compute_input, times.compute_infer, times.compute_output
        self._last_inference = max(self._last_inference, wall_ms)
        self._execution_count += 1
        if failed:
            self._fail += count
            self._fail_ns += sum(request_ns)
            self._failures["BACKEND"] += count
        else:
            self._inference_count += size - nulls
            self._success += count
            self._success_ns += sum(request_ns)
            self._queue_ns += sum(queue_ns)
            # Every request of the batch waited for the whole execution.
            self._executed += count
            self._input_ns += count * compute_input
            self._infer_ns += count * compute_infer
            self._output_ns += count * compute_output
        batch = self._batches.get(size)
        if batch is None:
            self._batches[size] = [1, compute_input, compute_infer, compute_output]
        else:
            batch[0] += 1
            batch[1] += compute_input
            batch[2] += compute_infer
            batch[3] += compute_output

    def add_times(self, size: int, times: ExecuteTimes) -> None:
        """Add the times of an ensemble's step that became known after its request, of that batch size, was recorded."""
        with self._lock:
            self._count_noted()
            self._input_ns += times.compute_input
            self._infer_ns += times.compute_infer
            self._output_ns += times.compute_output
            if (batch := self._batches.get(size)) is not None:
                batch[1] += times.compute_input
                batch[2] += times.compute_infer
                batch[3] += times.compute_output

    def record_rejected(self, reason: str, request_ns: int = 0) -> None:
        """Count a request that was queued but never executed. `reason`: REJECTED (timed out), CANCELED or OTHER."""
        with self._lock:
            self._failures[reason] += 1
            self._fail += 1
            self._fail_ns += request_ns

    def record_cache_hit(self, request_ns: int, queue_ns: int, lookup_ns: int, wall_ms: int) -> None:
        """Count a request answered from the response cache: a success without an execution (rule 5.9.4)."""
        with self._lock:
            self._last_inference = max(self._last_inference, wall_ms)
            self._success += 1
            self._success_ns += request_ns
            self._queue_ns += queue_ns
            self._cache_hit += 1
            self._cache_hit_ns += lookup_ns

    def record_cache_miss(self, lookup_and_insert_ns: int) -> None:
        """Count a request that was not in the response cache, and was then executed."""
        with self._lock:
            self._cache_miss += 1
            self._cache_miss_ns += lookup_and_insert_ns

    def to_dict(self, name: str, version: int) -> dict[str, Any]:
        """Return the entry of `model_stats` for this version (rule 5.12.1)."""
        with self._lock:
            self._count_noted()
            return {
                "name": name,
                "version": str(version),
                "last_inference": self._last_inference,
                "inference_count": self._inference_count,
                "execution_count": self._execution_count,
                "inference_stats": {
                    "success": _duration(self._success, self._success_ns),
                    "fail": _duration(self._fail, self._fail_ns),
                    "queue": _duration(self._success, self._queue_ns),
                    **_compute(self._executed, self._input_ns, self._infer_ns, self._output_ns),
                    "cache_hit": _duration(self._cache_hit, self._cache_hit_ns),
                    "cache_miss": _duration(self._cache_miss, self._cache_miss_ns),
                },
                # Stays empty for Python models (rule 3.11.2).
                "response_stats": {},
                "batch_stats": [{"batch_size": n, **_compute(*self._batches[n])} for n in sorted(self._batches)],
                "memory_usage": [],
            }

    def failures(self) -> dict[str, int]:
        """Return the number of failed requests by reason."""
        with self._lock:
            self._count_noted()
            return dict(self._failures)

    def __repr__(self) -> str:
        with self._lock:
            self._count_noted()
        return (
            f"<InferStats {self._success} ok | {self._fail} failed | {self._inference_count} inferences in "
            f"{self._execution_count} executions>"
        )


def _duration(count: int, ns: int) -> dict[str, int]:
    return {"count": count, "ns": ns}


def _compute(count: int, input_ns: int, infer_ns: int, output_ns: int) -> dict[str, dict[str, int]]:
    """Return the durations of the three parts of an execution (rule 3.11.3)."""
    return {
        "compute_input": _duration(count, input_ns),
        "compute_infer": _duration(count, infer_ns),
        "compute_output": _duration(count, output_ns),
    }
