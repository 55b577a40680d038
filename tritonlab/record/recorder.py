"""The recorder of the last events of a server, for views, files and replays.

It listens to the hooks of executions (one call each), streams, failures and states. Measured: the hook of a request
that executes alone takes 0.3 us when called in a loop, and 1.6 us of the request's 65 in a server, where an execution
has emptied the processor's caches (`lone_executions`); any listener takes 0.4 of that. In a loop it takes 0.2 us for
each request of a batch of 16, and 1.5 us for one alone whose model leaves shapes to its clients. An open timeline takes
0.12 ms twenty times a second. `tritonlab.reset(recording=False)` switches it off for the notebook's server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from ..core.inference.infer_request import (
    SEQUENCE_END,
    SEQUENCE_START,
    InferenceRequest,
    ModelRequest,
    RequestState,
    ResponseCallback,
    StepRequest,
)
from ..core.inference.infer_response import InferenceResponse
from ..core.inference.tensor import Tensor
from ..core.metrics.infer_stats import ExecuteTimes
from ..core.observe.failure_capsule import MOST_CAPSULE, KeptRequest, keep_requests, keep_tensor
from ..core.observe.instrument import Instrument, Instruments
from ..core.status import Code, TritonError
from .lone_executions import FULL, LoneKind, note
from .model_record import EMPTY, ERROR, EVENTS, FINAL, REJECTIONS, ModelRecord, OpenStream
from .recording import Recording

#: How many of the last requests of a model are kept, and the least nanoseconds between two of them.
MOST = 4
SPACING_NS = 100_000_000
#: The size that a response counts besides its tensors: a long stream of small responses is not kept.
RESPONSE_BYTES = 4_096

_KINDS = {Code.CANCELLED: "cancelled", Code.UNAVAILABLE: "timeout"}


class Recorder(Instrument):
    """An instrument that records all models of a server. `events`: how many rows are kept of each table of a model;
    older ones are only counted.
    """

    def __init__(self, events: int = EVENTS) -> None:
        self.recording = Recording(events)
        self.last_requests = LastRequests()

    @staticmethod
    def for_instruments(instruments: Instruments) -> Recorder:
        """Return the server's recorder, made at the first use."""
        return instruments.only(Recorder, Recorder)

    # -- hooks

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
        # It is called for each execution, before the response is sent, mostly with empty processor caches: so it avoids
        # calls, and only notes an execution of one usual request.
        if now > self.last_requests.due.get(model, 0):
            self.last_requests.keep(model, requests[0], now)
        request = requests[0]
        extra = request.request_id or request.correlation_id or request.priority or request.timeout or request.made
        if len(requests) == 1 and not extra:
            try:
                notes, kind = self.recording.kinds[model, request.shape_key, size, instance, version, reason, failed]
            except KeyError:
                pass  # the first of its kind
            else:
                notes += note(
                    request.serial,
                    request.request_start,
                    request.queue_start,
                    kind,
                    request.execute_start,
                    now,
                    batch_id,
                    times.compute_input,
                    times.compute_infer,
                    times.compute_output,
                )
                if len(notes) >= FULL:
                    self.recording.model(model).settle()
                return
        record = self.recording.model(model)
        with record.lock:
            self._write(
                record,
                version,
                instance,
                batch_id=batch_id,
                requests=requests,
                size=size,
                reason=reason,
                times=times,
                failed=failed,
                now=now,
            )

    def _write(
        self,
        record: ModelRecord,
        version: int,
        instance: str,
        *,
        batch_id: int,
        requests: Sequence[InferenceRequest],
        size: int,
        reason: str,
        times: ExecuteTimes,
        failed: bool,
        now: int,
    ) -> None:
        """Add the rows of one execution; the caller holds the record's lock."""
        # by position: as a NamedTuple the row of a request takes 1.2 us instead of 0.1, the row of a batch 2.1 us
        # instead of 0.2 (2026-11-29, the least of 25 times `timeit` of 10,000)
        table, batches = record.requests, record.batches
        data, write, size_of, capacity = table.data or table.reserve(), table.write, table.size, table.capacity
        batch, first = batches.total, table.total
        known = record.shapes_by_key.get(requests[0].shape_key, record.no_shapes)
        row = first
        for request in requests:
            rows = request.batch_size
            number = known.get(rows)
            if number is None:
                number = record.shapes_of(request)
            start, queued = request.request_start, request.queue_start
            write(data, row % capacity * size_of, request.serial, start, queued, batch, rows, number)
            extra = request.request_id or request.correlation_id or request.priority or request.timeout or request.made
            if extra:
                self._add_extras(request, record, row)
            row += 1
        table.total = row
        where, why = record.words.instances.get(instance), record.words.reasons.get(reason)
        if where is None or why is None:
            where, why = record.words.number("instance", instance), record.words.number("reason", reason)
        data, at, write = batches.data or batches.reserve(), batch % batches.capacity * batches.size, batches.write
        begun, count = requests[0].execute_start, row - first
        before, took, after = times.compute_input, times.compute_infer, times.compute_output
        write(data, at, begun, now, where, batch_id, version, size, count, why, before, took, after, failed, first)
        batches.total = batch + 1
        if count == 1 and not extra and size == rows and request.shape_key is not None:
            kind = LoneKind(
                instance=where,
                version=version,
                size=size,
                reason=why,
                failed=failed,
                shapes=record.shapes_by_key[request.shape_key][rows],
            )
            key = request.shape_key
            self.recording.learn(record, (record.name, key, size, instance, version, reason, failed), kind)

    def stream_response(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        record = self.recording.model(request.model_name)
        kind = FINAL * response.final + EMPTY * response.empty + ERROR * (response.error is not None)
        with record.lock:
            stream = record.open.get(request.serial)
            if stream is None:
                stream = record.open[request.serial] = OpenStream.from_request(request)
                if now > self.last_requests.due.get(record.name, 0):
                    self.last_requests.keep(record.name, request, now, is_first=True)
            shapes = record.shapes(response.outputs)
            record.responses.add((request.serial, now, stream.count, kind, shapes))
            if not response.empty:
                if not stream.count:
                    stream.text = record.texts.begin(request.serial, stream.arrived, response.outputs)
                if stream.text is not None:
                    stream.text.take(response.outputs, now)
                stream.first = stream.first or now
                stream.last = now
                stream.count += 1
            if response.final:
                record.end_stream(request.serial, stream, now, kind)

    def request_polled(self, request: InferenceRequest, now: int) -> None:
        record = self.recording.model(request.model_name)
        with record.lock:
            cancelling = record.cancelling_of(request.serial)
            cancelling.polls += 1
            if request.cancelled and not cancelling.noticed:
                cancelling.noticed = now

    def bytes_copied(
        self, model: str, serial: int, device: int, to_device: int, to_host: int, simulated: bool, now: int
    ) -> None:
        record = self.recording.model(model)
        with record.lock:
            record.copies.add((serial, now, device, to_device, to_host, simulated))

    def request_rejected(self, request: InferenceRequest, reason: str, now: int) -> None:
        record = self.recording.model(request.model_name)
        with record.lock:
            shapes = record.shapes(request.inputs)
            when = request.request_start, request.queue_start, now
            what = request.batch_size, shapes, request.priority, request.timeout
            record.rejected.add((request.serial, *when, REJECTIONS.index(reason), *what))

    def request_failed(self, request: InferenceRequest, response: InferenceResponse, now: int) -> None:
        error = response.error
        assert error is not None
        record = self.recording.model(request.model_name)
        name = f"'{request.request_id}'" if request.request_id else f"request {request.serial}"
        first_line = error.message.partition("\n")[0]
        with record.lock:
            record.mark(now, _KINDS.get(error.code, "error"), f"{name}: {first_line}", request.serial)
            cancelling = record.cancelling.get(request.serial)
            if response.final and cancelling is not None and cancelling.asked:  # ended before its first response
                stream = record.open.get(request.serial) or OpenStream.from_request(request)
                record.end_stream(request.serial, stream, now, FINAL + ERROR)

    def instance_died(self, model: str, version: int, instance: str, reason: str, now: int) -> None:
        self._mark(model, now, "restart", f"{instance}: {reason}" if reason else instance)

    def requests_wait(self, model: str, text: str, now: int) -> None:
        self._mark(model, now, "waits", text)

    def model_state(self, model: str, version: int, state: str, reason: str, now: int) -> None:
        first_line = reason.partition("\n")[0]
        if state == "READY":
            self.last_requests.loaded[model] = now
        self._mark(model, now, "state", f"version {version} {state}" + (f": {first_line}" if first_line else ""))

    def metric_made(
        self, name: str, kind: str, description: str, labels: dict[str, str], buckets: Sequence[float], now: int
    ) -> None:
        self.recording.metrics.describe(name, kind, description)

    def metric(self, name: str, labels: dict[str, str], value: float, now: int) -> None:
        self.recording.metrics.add(name, labels, value, now)

    def _mark(self, model: str, now: int, kind: str, text: str) -> None:
        record = self.recording.model(model)
        with record.lock:
            record.mark(now, kind, text)

    def _add_extras(self, request: InferenceRequest, record: ModelRecord, row: int) -> None:
        """Add facts that only few requests have."""
        if request.request_id:
            record.ids.append((row, request.request_id))
        number = record.words.sequence(request.correlation_id)
        parent, step = (request.parent.serial, request.step) if isinstance(request, StepRequest) else (-1, -1)
        caller = batch = -1
        if isinstance(request, ModelRequest):
            caller, batch = record.words.number("instance", request.caller[0]), request.caller[1]
        if request.priority or number or request.timeout or request.made:
            record.extras.add((row, request.priority, number, parent, caller, batch, step, request.timeout))


class LastRequest:
    """A request, and its client's answer. `started`: when its execution began; `is_answered`: whether the whole answer
    is kept. It is a callback of the request until the final response has come."""

    def __init__(self, request: KeptRequest, started: int) -> None:
        self.request = request
        self.started = started
        self.answers: list[dict[str, Tensor]] = []
        self.error: TritonError | None = None
        self.is_answered = False
        self._room = MOST_CAPSULE
        self._below: ResponseCallback | None = None

    def follow(self, request: InferenceRequest) -> None:
        """Keep the responses from now on."""
        self._below = request.push(self)

    def __call__(self, request: InferenceRequest, response: InferenceResponse) -> None:
        if self._room >= 0:
            self._keep(response)
        below = self._below
        if response.final:
            self._below = None  # the response mostly refers back to the request
        if below is not None:
            below(request, response)

    def _keep(self, response: InferenceResponse) -> None:
        self._room -= RESPONSE_BYTES
        kept = {}
        for name, tensor in response.outputs.items():
            found = None if tensor.memory_type else keep_tensor(tensor, self._room).tensor
            if found is None:
                self._room = -1  # a partial answer would be a different answer
                return
            kept[name] = found
            self._room -= found.byte_size
        self.error = self.error or response.error
        if kept and self.error is None:
            self.answers.append(kept)
        is_cancelled = self.error is not None and self.error.code is Code.CANCELLED
        self.is_answered = response.final and not is_cancelled


class LastRequests:
    """The last requests of each model, with their tensors and answers, so that they can be sent again and compared.
    Requests with larger tensors than a failure keeps are left out, and so are tensors in GPU memory, which are not
    copied to the host for a record.

    One request per model and tenth of a second is copied, so that an author's own requests are kept and a load test is
    not slowed down: for all other requests this costs one look-up in a dict.
    """

    def __init__(self) -> None:
        #: by model, the time from which on the next request is kept; read for each execution
        self.due: dict[str, int] = {}
        #: by model, the time of its last load: an earlier answer was another model's
        self.loaded: dict[str, int] = {}
        self._records: dict[str, deque[LastRequest]] = {}

    def keep(self, model: str, request: InferenceRequest, now: int, *, is_first: bool = False) -> None:
        """Keep the request, and its answer unless that has begun. `is_first`: its first response is on its way."""
        self.due[model] = now + SPACING_NS
        if request.null or any(tensor.memory_type for tensor in request.inputs.values()):
            return
        records = self._records.setdefault(model, deque(maxlen=MOST))
        if any(each.request.serial == request.serial for each in [*records]):  # another instance may add one meanwhile
            return  # its stream was kept from its first response on, or it is executed again
        ((record,), _) = keep_requests([request])
        if record.cut:
            return
        last = LastRequest(record, request.execute_start)
        records.append(last)
        if is_first or not (request.responded or request.state is RequestState.RELEASED):
            last.follow(request)

    def of_model(self, record: ModelRecord, most: int = MOST) -> list[LastRequest]:
        """Return the last requests of a model, the oldest first, at most so many. A sequence's requests after a missing
        one are left out: they mean nothing without it."""
        kept = self._newest(record, most)
        is_sequence = any(each.request.correlation_id for each in kept)
        return _whole(kept, _predecessors(record)) if is_sequence else kept

    def cut_sequences(self, record: ModelRecord, most: int = MOST) -> dict[int | str, int]:
        """Return, by correlation id, how many requests `of_model` has of each sequence that had more; 0 if the first
        one is missing."""
        kept, before = self._newest(record, most), _predecessors(record)
        whole = _whole(kept, before)
        followed, found = {*before.values()}, {each.request.serial for each in whole}
        cut: dict[int | str, int] = {}
        for number in dict.fromkeys(each.request.correlation_id for each in kept):
            of_it = [each.request for each in kept if each.request.correlation_id == number]
            whole_of_it = [each for each in of_it if each.serial in found]
            goes_on = of_it[-1].serial in followed and not of_it[-1].flags & SEQUENCE_END
            if number and (goes_on or whole_of_it != of_it):
                cut[number] = len(whole_of_it)
        return cut

    def _newest(self, record: ModelRecord, most: int) -> list[LastRequest]:
        records = [*self._records.get(record.name, ())]
        return records[max(len(records) - most, 0) :]


def _predecessors(record: ModelRecord) -> Mapping[int, int]:
    """Return by serial the request before it in its sequence; -1 for the first recorded one."""
    with record.lock:
        serials = record.requests.rows()[:, 0].astype(int).tolist()
        dropped, extras = record.requests.dropped, record.extras.rows()[:, [0, 2]].astype(int).tolist()
    before: dict[int, int] = {}
    last: dict[int, int] = {}
    for row, sequence in extras:
        serial = serials[row - dropped] if row >= dropped else -1
        if sequence and last.get(sequence) != serial:  # else it was executed again
            before[serial] = last.get(sequence, -1)
            last[sequence] = serial
    return before


def _whole(records: Sequence[LastRequest], before: Mapping[int, int]) -> list[LastRequest]:
    found: list[LastRequest] = []
    last: dict[int | str, int] = {}
    for each in records:
        request = each.request
        begins = request.flags & SEQUENCE_START
        follows = before.get(request.serial, -1) == last.get(request.correlation_id, -2)
        if not request.correlation_id or begins or follows:
            found.append(each)
            last[request.correlation_id] = request.serial
    return found
