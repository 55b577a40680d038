"""`RecordedExecutions`, the record of a model in a form that can be replayed with other settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ....core.config.model_config import ModelConfig
from ....core.inference.infer_request import InferenceRequest
from ....engine.schedulers.policy_queue import QueuePolicies
from ....notebook.authoring.settings import Settings
from ....record.model_record import BATCHES, EXTRAS, REJECTED, REJECTIONS, REQUESTS, ModelRecord
from .replay import NEVER, FixedArrivals, Numbers, Pace, ReplayedBatches, ReplayedRequest, replay
from .service_times import Floats, ServiceTimes

#: Reasons of batches that leave as soon as their last request arrives, if an instance is idle.
_AT_ONCE = ("no dynamic batching", "no delay")
#: The most nanoseconds of the server's own work; longer times have another cause.
_LONGEST = 5_000_000


class _Shape(NamedTuple):
    """A tensor with a known shape."""

    shape: tuple[int, ...]


class RecordedExecutions:
    """The complete executions of a record, from the time `since` on. Times are nanoseconds.

    `since`: by default the last load of the model that a request followed, because another version may have other
    times. Raises ValueError if nothing was executed. `rejected`: the rows of REJECTED for the requests that ended in
    the batcher; the replay includes them.
    """

    def __init__(self, record: ModelRecord, since: int | None = None) -> None:
        with record.lock:
            self.batches, self.requests = record.batches.rows(), record.requests.rows()
            first_batch, first_request = record.batches.dropped, record.requests.dropped
            extras, marks, words = record.extras.rows(), list(record.marks), record.words.lists()
            rejected = record.rejected.rows()
        loads = [mark.time for mark in marks if mark.kind == "state" and mark.text.endswith(" READY")]
        rows = self.requests[:, REQUESTS.index("batch")].astype(np.int64) - first_batch
        keep = (rows >= 0) & (self.batches[rows.clip(0), BATCHES.index("first")] >= first_request)
        came = self.requests[keep, REQUESTS.index("queued")]
        if since is None:
            since = next((load for load in reversed(loads) if len(came) and came.max() >= load), 0)
        keep[keep] = came >= since
        if not keep.any():
            raise ValueError(f"the record of '{record.name}' has nothing to replay: send it requests first")
        self._row = np.arange(len(keep))[keep]
        self._batch = rows[keep]
        self._words = words
        order = np.lexsort((self.request_column("serial"), self.request_column("queued")))
        self._row, self._batch = self._row[order], self._batch[order]
        self._executed = np.unique(self._batch)
        self._extras = _extras(extras, self._row + first_request)
        # older ones may have arrived before requests that are no longer in the record
        since = since if since or not first_request else self.request_column("queued")[0]
        self.rejected = rejected[rejected[:, REJECTED.index("queued")] >= since]

    def request_column(self, column: str) -> Floats:
        """Return one column of REQUESTS, oldest request first."""
        found: Floats = self.requests[self._row, REQUESTS.index(column)]
        return found

    def batch_column(self, column: str) -> Floats:
        """Return one column of BATCHES, in the order of their ends."""
        found: Floats = self.batches[self._executed, BATCHES.index(column)]
        return found

    @property
    def answered(self) -> Floats:
        """The time at which the execution of each request ended, oldest request first."""
        found: Floats = self.batches[self._batch, BATCHES.index("end")]
        return found

    @cached_property
    def times(self) -> ServiceTimes:
        return ServiceTimes.fit(self.batch_column("size"), self.batch_column("end") - self.batch_column("start"))

    @cached_property
    def instances(self) -> list[str]:
        """The names of the instances, in the order of their first use: replays use the same numbers."""
        order = np.argsort(self.batch_column("start"), kind="stable")
        numbers = self.batch_column("instance")[order].astype(int).tolist()
        return [self._words["instance"][number] for number in dict.fromkeys(numbers)]

    @property
    def lanes(self) -> list[int]:
        """The number of the instance of each execution, in the order of their ends."""
        names = self._words["instance"]
        return [self.instances.index(names[number]) for number in self.batch_column("instance").astype(int).tolist()]

    def numbers_within(self, window: tuple[int, int]) -> Numbers:
        """Return the recorded numbers of the requests that arrived between two times."""
        begin, end = np.searchsorted(self.request_column("queued"), window)
        batches = self._batch[begin:end]
        arrived, ends = self.request_column("arrived")[begin:end], self.batches[batches, BATCHES.index("end")]
        return Numbers.from_times(
            ends - arrived, arrived, ends, self.batches[np.unique(batches), BATCHES.index("size")]
        )

    def rejected_within(self, window: tuple[int, int]) -> int:
        """Return how many of the requests that arrived between two times ended in the batcher."""
        queued = self.rejected[:, REJECTED.index("queued")]
        return int(((window[0] <= queued) & (queued < window[1])).sum())

    @cached_property
    def numbers(self) -> Numbers:
        """Return the recorded numbers."""
        return self.numbers_within((0, NEVER))

    @cached_property
    def arrivals(self) -> list[ReplayedRequest]:
        """Return the requests in the order and form of their arrival at the batcher."""
        made = [*self._executed_arrivals(), *self._rejected_arrivals()]
        serials = np.concatenate([self.request_column("serial"), self.rejected[:, REJECTED.index("serial")]])
        return [made[index] for index in np.lexsort((serials, np.array([one.queue_start for one in made])))]

    def _executed_arrivals(self) -> list[ReplayedRequest]:
        sizes = self.batches[self._batch, BATCHES.index("size")].astype(int)
        took = self.batches[self._batch, BATCHES.index("end")] - self.batches[self._batch, BATCHES.index("start")]
        known = {size: self.times(size) for size in set(sizes.tolist())}
        base = [known[size] for size in sizes.tolist()]
        columns = zip(
            self.request_column("queued").astype(np.int64).tolist(),
            self.request_column("arrived").astype(np.int64).tolist(),
            self.request_column("size").astype(int).tolist(),
            took.tolist(),
            base,
            strict=True,
        )
        made = [ReplayedRequest(number, *facts) for number, facts in enumerate(columns)]
        for arrival, number in zip(made, self.request_column("shapes").astype(int).tolist(), strict=True):
            arrival.inputs = self._shapes[number] if number >= 0 else {}
        for index, (priority, timeout) in self._extras.items():
            made[index].priority, made[index].timeout = priority, timeout
        return made

    def _rejected_arrivals(self) -> list[ReplayedRequest]:
        made = []
        for row in self.rejected.tolist():
            _, arrived, queued, time, reason, size, shapes, priority, timeout = map(int, row)
            request = ReplayedRequest(
                number=-1, queue_start=queued, arrived=arrived, batch_size=size, took=1.0, base=1.0
            )  # an execution with the median time
            request.inputs = self._shapes[shapes] if shapes >= 0 else {}
            request.priority, request.timeout = priority, timeout
            if REJECTIONS[reason] == "cancelled":
                request.cancelled_at = time
            elif REJECTIONS[reason] == "timeout":
                request.late_from = time
            made.append(request)
        return made

    @cached_property
    def _shapes(self) -> list[dict[str, _Shape]]:
        return [{name: _Shape(tuple(dims)) for name, dims in shape} for shape in self._words["shapes"]]

    def pace(self, config: ModelConfig) -> Pace:
        """Return the times of executions, with the server's own time before and between them."""
        return Pace(self.times, *self._overheads(config))

    def replay(
        self,
        config: ModelConfig,
        settings: Settings | None = None,
        window: tuple[int, int] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> ReplayedBatches:
        """Return the batches that the same arrivals would have formed with the settings of another normalised
        configuration; by default with the model's own. `window`: only arrivals between two times.
        """
        settings = settings or Settings.from_config(config)
        written = settings.written(config)
        arrivals = self.arrivals
        if window is not None:
            begin, end = np.searchsorted([one.queue_start for one in arrivals], window)
            arrivals = arrivals[begin:end]
        rules, policies = settings.batch_config(config), QueuePolicies.from_config(written)
        return replay(FixedArrivals(arrivals), rules, policies, settings.instances, self.pace(config), stop)

    def _overheads(self, config: ModelConfig) -> tuple[int, int]:
        """Measure the time from a decision to the start of its execution, and from the end of an execution to the next
        decision, if requests waited: medians, 0 if unknown. `config`: the configuration that was served."""
        first_came, last_came = np.full(len(self.batches), np.inf), np.full(len(self.batches), -np.inf)
        np.minimum.at(first_came, self._batch, self.request_column("queued"))
        np.maximum.at(last_came, self._batch, self.request_column("queued"))
        first_came, last_came = first_came[self._executed], last_came[self._executed]
        start, end, where = self.batch_column("start"), self.batch_column("end"), self.batch_column("instance")
        order = np.lexsort((start, where))
        same = where[order][1:] == where[order][:-1]
        before = np.full(len(start), -np.inf)  # the time at which the instance ended its last execution
        before[order[1:]] = np.where(same, end[order[:-1]], -np.inf)
        reasons = np.array([self._words["reason"][number] for number in self.batch_column("reason").astype(int)])
        at_once = np.isin(reasons, _AT_ONCE)
        leads = (start - last_came)[at_once & (before < last_came)]
        delayed = (start - first_came)[(reasons == "delay") & (before < first_came)]
        if len(delayed):  # of the delay at that time, which may differ from the present one
            leads = np.concatenate([leads, delayed - delayed.min()])
        lead = _median(leads)
        at_once |= (reasons == "preferred") | (self.batch_column("size") == config.max_batch_size)
        # a batch may also form when a request before it times out
        expiries = self._expiries(config)
        at_once &= np.searchsorted(expiries, before, "right") == np.searchsorted(expiries, start, "right")
        return lead, max(_median((start - before)[at_once & (last_came < before)]) - lead, 0)

    def _expiries(self, config: ModelConfig) -> Floats:
        """Return the times at which waiting requests timed out, in order."""
        policies = QueuePolicies.from_config(config)
        if policies is None:
            return np.zeros(0)
        started = self.batches[self._batch, BATCHES.index("start")].tolist()
        found = []
        for request in self.arrivals:
            policy = policies.policy(policies.level(request.priority))
            until = policy.deadline(cast(InferenceRequest, request))
            if until is not None and (request.number < 0 or until <= started[request.number]):
                found.append(until)
        return np.sort(np.array(found, float))


def _median(times: Floats) -> int:
    """Return the median of the server's own times; 0 if there are none."""
    found = [time for time in times if 0 <= time < _LONGEST]
    return int(np.median(found)) if found else 0


def _extras(extras: Floats, rows: NDArray[np.int64]) -> dict[int, tuple[int, int]]:
    """Return priorities and own timeouts by the index of their request in `rows`."""
    columns = [EXTRAS.index(name) for name in ("row", "priority", "timeout")]
    by_row = {
        int(row): (int(priority), int(timeout)) for row, priority, timeout in extras[:, columns] if priority or timeout
    }
    return {index: by_row[row] for index, row in enumerate(rows.tolist()) if row in by_row} if by_row else {}
