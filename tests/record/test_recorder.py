from __future__ import annotations

import gc
from collections import deque
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.models import ADD_SUB, ADD_SUB_CONFIG, IDENTITY, executes
from tests.record.events import RecorderHooks, make_call, make_request
from tests.serving import Lab, config, in_threads
from tritonlab.core.inference.infer_request import InferenceRequest, ModelRequest, StepRequest
from tritonlab.core.status import CancelledError, ModelError, TritonError, UnavailableError
from tritonlab.record.call_tree import rare_facts
from tritonlab.record.model_record import EMPTY, FINAL, ModelRecord
from tritonlab.record.recorder import LastRequests, Recorder
from tritonlab.record.ring import Ring
from tritonlab.testing import MS

CALLS_CACHED = executes("""\
inputs = [pb_utils.Tensor("X", requests[0].inputs()[0].as_numpy().reshape(1, -1))]
call = pb_utils.InferenceRequest(model_name="cached", requested_output_names=["OUT"], inputs=inputs)
return [pb_utils.InferenceResponse(call.exec().output_tensors())]""")


def made_requests() -> int:
    # not isinstance, which asks objects for their __class__: some of torch warn then
    return sum(issubclass(type(one), ModelRequest) for one in gc.get_objects())


def read_rows(ring: Ring, *columns: str) -> list[tuple[float, ...]]:
    places = [ring.columns.index(name) for name in columns]
    return [tuple(row[place] for place in places) for row in ring.rows().tolist()]


def test_two_instances_may_keep_a_request_at_once() -> None:
    last = LastRequests()

    class Slow:
        """A kept request; while it is read another instance adds one."""

        @property
        def request(self) -> InferenceRequest:
            last._records["add"].append(cast(Any, self))
            return make_request(1)

    last._records["add"] = deque([cast(Any, Slow()), cast(Any, Slow())], maxlen=4)
    last.keep("add", make_request(2), now=0)
    assert last._records["add"][-1].request.serial == 2


def test_an_execution_is_a_row_with_its_requests() -> None:
    hooks = RecorderHooks()
    hooks.execute(make_request(1, at=0), make_request(2, at=1, columns=3), start=5, end=9, reason="delay")
    hooks.execute(make_request(3, at=6), start=9, end=10, instance="add_0_1")
    record = hooks.recording.model("add")
    columns = "start", "end", "instance", "size", "count", "reason", "failed", "first"
    assert read_rows(record.batches, *columns) == [
        (5 * MS, 9 * MS, 0, 2, 2, 0, 0, 0),
        (9 * MS, 10 * MS, 1, 1, 1, 1, 0, 2),
    ]
    assert read_rows(record.batches, "compute_input", "compute_infer", "compute_output")[0] == (
        MS / 10,
        3.8 * MS,
        MS / 10,
    )
    assert read_rows(record.requests, "serial", "arrived", "queued", "batch", "shapes") == [
        (1, 0, 0, 0, 0),
        (2, MS, MS, 0, 1),
        (3, 6 * MS, 6 * MS, 1, 0),
    ]
    assert record.words.lists() == {
        "instance": ["add_0_0", "add_0_1"],
        "reason": ["delay", "full"],
        "shapes": [(("IN", (1, 2)),), (("IN", (1, 3)),)],
        "sequence": [],
    }
    assert (record.dropped, len(record.extras), list(record.ids)) == (0, 0, [])


def test_shapes_of_requests_with_one_key_are_looked_at_once() -> None:
    hooks, rules, others = RecorderHooks(), object(), object()

    def of(serial: int, key: object, columns: int, batch_size: int = 1) -> InferenceRequest:
        request = make_request(serial, columns=columns)
        request.shape_key, request.batch_size = key, batch_size
        return request

    hooks.execute(of(1, rules, 2), start=0, end=1)
    hooks.execute(of(2, rules, 9), of(3, rules, 3, batch_size=2), start=1, end=2)
    hooks.execute(of(4, others, 4), start=2, end=3)
    hooks.execute(of(5, rules, 9, batch_size=2), start=3, end=4)
    record = hooks.recording.model("add")
    columns = [dict(record.words.word("shapes", number))["IN"][1] for (number,) in read_rows(record.requests, "shapes")]
    assert columns == [2, 2, 3, 4, 3]
    hooks.execute(of(7, None, 5), start=4, end=5)
    assert dict(record.words.word("shapes", record.requests.rows()[-1, 5]))["IN"] == (1, 5)
    for number in range(20):
        hooks.execute(of(10 + number, object(), 2), start=5, end=6)
    assert len(record.shapes_by_key) == 8


def test_what_few_requests_have_stands_in_a_table_of_its_own() -> None:
    hooks = RecorderHooks()
    parent = make_request(1)
    step = StepRequest(parent, "add", 1, make_request(0).inputs, (), lambda *_: None, lambda _: None, 3)
    step.serial = 4
    made = make_call(3, "caller_0_0", 17)
    hooks.execute(make_request(2, request_id="two", priority=1, correlation_id=8), made, step, start=1, end=2)
    hooks.execute(make_request(5, correlation_id="text"), make_request(6, correlation_id="text"), start=1, end=2)
    hooks.execute(make_request(7, timeout=700), start=2, end=3)
    record = hooks.recording.model("add")
    assert list(record.ids) == [(0, "two")]
    assert record.extras.rows().tolist() == [
        [0, 1, 8, -1, -1, -1, -1, 0],
        [1, 0, 0, -1, 0, 17, -1, 0],
        [2, 0, 0, 1, -1, -1, 3, 0],
        [3, 0, -1, -1, -1, -1, -1, 0],
        [4, 0, -1, -1, -1, -1, -1, 0],
        [5, 0, 0, -1, -1, -1, -1, 700],
    ]
    assert record.words.word("sequence", 0) == "text"
    assert record.words.lists()["instance"][0] == "caller_0_0"


def test_of_a_sequence_the_last_requests_have_no_gap() -> None:
    hooks = RecorderHooks()
    last = hooks.recorder.last_requests
    # by serial: the sequence, its flags, when, and whether another sequence is before it in the batch
    for serial, sequence, flags, at, is_second in [
        (1, 7, 1, 200, False), (2, 7, 0, 400, False), (3, "a", 1, 450, False), (4, 7, 0, 600, True),
        (6, 7, 2, 800, False),
    ]:  # fmt: skip
        request = make_request(serial, at, correlation_id=sequence, flags=flags)
        beside = [make_request(serial + 100, at, correlation_id=9)] if is_second else []
        hooks.execute(*beside, request, start=at, end=at + 1)
    # 3 came too soon after 2; 4 was not the first of its batch, so 6 is not the next; 104 has no start
    assert [each.request.serial for each in last.of_model(hooks.recording.model("add"))] == [1, 2]
    assert last.cut_sequences(hooks.recording.model("add")) == {7: 2, 9: 0}
    hooks.execute(make_request(7, 1000, correlation_id=8, flags=1), start=1000, end=1001)
    hooks.execute(make_request(8, 1200, correlation_id=8, flags=2), start=1200, end=1201)
    assert [each.request.serial for each in last.of_model(hooks.recording.model("add"))] == [7, 8]
    hooks.execute(make_request(9, 1201, correlation_id=8, flags=1), start=1201, end=1202)  # too soon to be kept
    assert 8 not in last.cut_sequences(hooks.recording.model("add"))


def test_large_correlation_ids_stay_apart() -> None:
    hooks, large = RecorderHooks(), [2**53 - 1, 2**53, 2**53 + 1, 2**64 - 1]
    for serial, number in enumerate(large):
        hooks.execute(make_request(serial, correlation_id=number), start=serial, end=serial + 1)
    record = hooks.recording.model("add")
    assert len({row[2] for row in record.extras.rows().tolist()}) == 4
    assert [rare_facts(hooks.recording, "add", row) for row in range(4)] == [
        f"of sequence {number}" for number in large
    ]


def test_a_stream_is_open_until_its_final_response() -> None:
    hooks = RecorderHooks()
    request = make_request(7, at=1)
    request.execute_start = 2 * MS
    hooks.respond(request, at=4, outputs=request.inputs, final=False)
    hooks.respond(request, at=6, outputs=request.inputs, final=False)
    record = hooks.recording.model("add")
    stream = record.open[7]
    assert (stream.arrived, stream.executed, stream.first, stream.last, stream.count) == (MS, 2 * MS, 4 * MS, 6 * MS, 2)
    assert len(record.streams) == 0
    hooks.respond(request, at=9, empty=True)
    assert record.open == {}
    assert read_rows(record.responses, "serial", "time", "number", "kind") == [
        (7, 4 * MS, 0, 0),
        (7, 6 * MS, 1, 0),
        (7, 9 * MS, 2, FINAL + EMPTY),
    ]
    columns = "serial", "arrived", "executed", "first", "last", "end", "count"
    assert read_rows(record.streams, *columns) == [(7, MS, 2 * MS, 4 * MS, 6 * MS, 9 * MS, 2)]


def test_a_single_answer_is_no_stream() -> None:
    hooks = RecorderHooks()
    hooks.respond(make_request(1), at=1)
    assert len(hooks.recording.model("add").responses) == 0


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ModelError("no\nTraceback"), "error"), (CancelledError("no"), "cancelled"), (UnavailableError("no"), "timeout")],
)
def test_a_failure_is_a_mark(error: TritonError, kind: str) -> None:
    hooks = RecorderHooks()
    hooks.respond(make_request(4, request_id="mine"), at=3, error=error)
    (mark,) = hooks.recording.model("add").marks
    assert mark == (0, 3 * MS, kind, "'mine': no", 4)


def test_a_request_that_is_not_executed_stands_in_a_table_of_its_own() -> None:
    hooks = RecorderHooks()
    hook = hooks.instruments.request_rejected
    assert hook is not None
    hook(make_request(3, at=2, priority=1, timeout=9), "timeout", 5 * MS)
    record = hooks.recording.model("add")
    assert record.rejected.rows().tolist() == [[3, 2 * MS, 2 * MS, 5 * MS, 1, 1, 0, 1, 9]]
    assert record.words.word("shapes", 0) == (("IN", (1, 2)),)


def test_states_and_deaths_are_marks() -> None:
    hooks = RecorderHooks()
    instruments = hooks.instruments
    assert instruments.model_state and instruments.instance_died and instruments.requests_wait
    instruments.model_state("add", 2, "UNAVAILABLE", "Internal: no\nmore", 1)
    instruments.instance_died("add", 2, "add_0_0", "ended with signal SIGKILL", 2)
    instruments.requests_wait("add", "3 requests wait", 3)
    assert [(mark.kind, mark.text) for mark in hooks.recording.model("add").marks] == [
        ("state", "version 2 UNAVAILABLE: Internal: no"),
        ("restart", "add_0_0: ended with signal SIGKILL"),
        ("waits", "3 requests wait"),
    ]


def test_what_does_not_fit_is_counted() -> None:
    hooks = RecorderHooks(events=3)
    for serial in range(5):
        hooks.execute(make_request(serial, request_id=str(serial)), start=serial, end=serial + 1)
    record = hooks.recording.model("add")
    assert (len(record.batches), len(record.requests), record.dropped) == (3, 3, 4)
    assert [text for _, text in record.ids_since(0)] == ["2", "3", "4"]
    for _ in range(1_001):
        record.mark(0, "state", "")
    assert record.dropped == 5


def test_shapes_without_end_do_not_fill_the_memory() -> None:
    record = ModelRecord("add")
    for number in range(10_002):
        found = record.words.number("shapes", number)
    assert found == -1
    assert len(record.words.known("shapes")) == 10_000


def test_requests_that_models_made_and_nobody_executed_are_not_kept(tmp_path: Path) -> None:
    """The response cache answers them."""
    lab = Lab(tmp_path, cache_config="local,size=1048576")
    recorder = Recorder.for_instruments(lab.server.instruments)
    cached = "max_batch_size: 1", "response_cache { enable: true }"
    lab.load("cached", IDENTITY, config("X FP32 -1", "OUT FP32 -1", *cached))
    caller = lab.load("asks", CALLS_CACHED, config("X FP32 -1", "OUT FP32 -1"))
    before = made_requests()
    for _ in range(5):
        caller(X=np.float32([1]))
    assert recorder.recording.model("cached").requests.total == 1
    gc.collect()
    assert made_requests() == before
    lab.server.stop()


def test_a_server_records_what_it_executes(lab: Lab) -> None:
    recorder = Recorder.for_instruments(lab.server.instruments)
    assert Recorder.for_instruments(lab.server.instruments) is recorder
    model = lab.load("recorded", ADD_SUB, ADD_SUB_CONFIG + "max_batch_size: 8\ndynamic_batching { }\n")
    ones = np.ones((1, 4), np.float32)
    in_threads(8, lambda index: model(INPUT0=ones, INPUT1=ones))
    record = recorder.recording.model("recorded")
    assert record.requests.total == 8
    assert sum(count for (count,) in read_rows(record.batches, "count")) == 8
    batches = record.batches.rows()
    for arrived, queued, batch in read_rows(record.requests, "arrived", "queued", "batch"):
        start, end = batches[int(batch), :2]
        assert arrived <= queued <= start < end
    assert [mark.text for mark in record.marks] == ["version 1 LOADING", "version 1 READY"]
    ((instance,),) = {tuple(record.words.lists()["instance"])}
    assert instance == "recorded_0_0"
    lab.server.unload(model)
