"""The counters of one model version: what `/stats` and `/metrics` show (rules 3.11, 5.12)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .instrument import ExecuteTimes

#: Why requests failed, as the metric's label says it (rule 5.13.1). BACKEND is a failed execution.
FAILURE_REASONS = ("BACKEND", "CANCELED", "OTHER", "REJECTED")


@dataclass(slots=True)
class _Duration:
    """How often something happened and how long it took in all."""

    count: int = 0
    ns: int = 0

    def add(self, count: int, ns: int) -> None:
        self.count += count
        self.ns += ns

    def to_dict(self) -> dict[str, int]:
        return {"count": self.count, "ns": self.ns}


class _Compute:
    """The three parts of an execution (rule 3.11.3)."""

    __slots__ = ("infer", "input", "output")

    def __init__(self) -> None:
        self.input = _Duration()
        self.infer = _Duration()
        self.output = _Duration()

    def add(self, count: int, times: ExecuteTimes) -> None:
        self.input.add(count, count * times.compute_input)
        self.infer.add(count, count * times.compute_infer)
        self.output.add(count, count * times.compute_output)

    def to_dict(self) -> dict[str, dict[str, int]]:
        return {
            "compute_input": self.input.to_dict(),
            "compute_infer": self.infer.to_dict(),
            "compute_output": self.output.to_dict(),
        }


class InferStats:
    """Counts for one model version; nanoseconds everywhere. Any thread may call any method.

    A request refused by the checks of rule 5.4 is not counted at all (measured on 2.51): nothing here is called for it.
    """

    __slots__ = (
        "_batches",
        "_cache_hit",
        "_cache_miss",
        "_compute",
        "_execution_count",
        "_fail",
        "_failures",
        "_inference_count",
        "_last_inference",
        "_lock",
        "_queue",
        "_success",
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards all of the below
        self._last_inference = 0
        self._inference_count = 0
        self._execution_count = 0
        self._success = _Duration()
        self._fail = _Duration()
        self._queue = _Duration()
        self._compute = _Compute()
        self._cache_hit = _Duration()
        self._cache_miss = _Duration()
        self._batches: dict[int, _Compute] = {}
        self._failures = dict.fromkeys(FAILURE_REASONS, 0)

    def record_batch(
        self,
        size: int,
        queue_ns: Sequence[int],
        request_ns: Sequence[int],
        times: ExecuteTimes,
        failed: int,
        wall_ms: int,
    ) -> None:
        """One `execute` call ended: the only call per batch.

        `size`: sum of the batch dimensions. `queue_ns`, `request_ns`: per request, time in the queue and since it came in.
        `failed`: how many of the requests failed; the peer fails all or none (rule 3.11.1), so not 0 means all.
        `wall_ms`: milliseconds since the epoch.
        """
        count = len(request_ns)
        total_ns = sum(request_ns)
        queued_ns = sum(queue_ns)
        with self._lock:
            self._last_inference = wall_ms
            self._execution_count += 1
            if failed:
                self._fail.add(count, total_ns)
                self._failures["BACKEND"] += count
            else:
                self._inference_count += size
                self._success.add(count, total_ns)
                self._queue.add(count, queued_ns)
                # Every request of the batch waited for the whole execution.
                self._compute.add(count, times)
            batch = self._batches.get(size)
            if batch is None:
                batch = self._batches[size] = _Compute()
            batch.add(1, times)

    def record_rejected(self, reason: str, request_ns: int = 0) -> None:
        """A request that was queued or about to be, and never executed: `reason` is REJECTED, CANCELED or OTHER."""
        with self._lock:
            self._failures[reason] += 1
            self._fail.add(1, request_ns)

    def record_cache_hit(self, request_ns: int, queue_ns: int, lookup_ns: int, wall_ms: int) -> None:
        """A request answered from the response cache: a success without an execution (rule 5.9.4)."""
        with self._lock:
            self._last_inference = wall_ms
            self._success.add(1, request_ns)
            self._queue.add(1, queue_ns)
            self._cache_hit.add(1, lookup_ns)

    def record_cache_miss(self, lookup_and_insert_ns: int) -> None:
        """A request that was looked for in the response cache and then executed."""
        with self._lock:
            self._cache_miss.add(1, lookup_and_insert_ns)

    def to_dict(self, name: str, version: int) -> dict[str, Any]:
        """One entry of `model_stats` (rule 5.12.1)."""
        with self._lock:
            return {
                "name": name,
                "version": str(version),
                "last_inference": self._last_inference,
                "inference_count": self._inference_count,
                "execution_count": self._execution_count,
                "inference_stats": {
                    "success": self._success.to_dict(),
                    "fail": self._fail.to_dict(),
                    "queue": self._queue.to_dict(),
                    **self._compute.to_dict(),
                    "cache_hit": self._cache_hit.to_dict(),
                    "cache_miss": self._cache_miss.to_dict(),
                },
                # Stays empty for Python models (rule 3.11.2).
                "response_stats": {},
                "batch_stats": [{"batch_size": size, **self._batches[size].to_dict()} for size in sorted(self._batches)],
                "memory_usage": [],
            }

    def failures(self) -> dict[str, int]:
        """Failed requests by reason."""
        with self._lock:
            return dict(self._failures)

    def __repr__(self) -> str:
        return (
            f"<InferStats {self._success.count} ok | {self._fail.count} failed | {self._inference_count} inferences in "
            f"{self._execution_count} executions>"
        )
