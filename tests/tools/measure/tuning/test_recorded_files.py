"""Recordings that were saved and loaded: the same tables, facts, arrivals and replays."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.measure.tuning.scheduler_bench import Bench, Sent, config_of
from tritonlab.record.model_record import ModelRecord
from tritonlab.record.record_facts import batch_facts, traffic
from tritonlab.record.recording import Recording
from tritonlab.tools.measure.tuning.recorded_executions import RecordedExecutions

SENT = st.builds(
    Sent,
    after=st.integers(0, 300) | st.integers(0, 20_000),
    size=st.integers(1, 3),
    columns=st.sampled_from([2, 2, 3]),
    timeout=st.integers(0, 6),
    cancels=st.sampled_from([False] * 9 + [True]),
    priority=st.sampled_from([0, 1, (1 << 64) - 1]),
)
POLICY = "default_queue_policy { default_timeout_microseconds: 9 max_queue_size: 5 allow_timeout_override: true }"
CONFIG = config_of(f"max_batch_size: 4 dynamic_batching {{ {POLICY} }} instance_group {{ count: 2 }}")


def saved_and_loaded(recording: Recording) -> Recording:
    with tempfile.TemporaryDirectory() as directory:
        return Recording.load(recording.save(Path(directory) / "it.npz"))


def read_all(recording: Recording) -> dict[str, Any]:
    """Return all that views read of the model."""
    record = recording.model("m")
    tables = {name: (ring.total, ring.dropped, ring.rows().tolist()) for name, ring in record.tables.items()}
    facts = repr(batch_facts(record)), traffic(record, 1 << 40), recording.arrivals("m").tolist()
    return {**tables, "words": record.words.lists(), "dropped": record.dropped, "facts": facts}


def replayed(record: ModelRecord) -> Any:
    try:
        past = RecordedExecutions(record)
    except ValueError as error:
        return str(error)
    assert (past.answered >= past.request_column("queued")).all() and (
        past.request_column("queued") >= past.request_column("arrived")
    ).all()
    ghosts = past.replay(CONFIG)
    assert all(start < end for start, end in zip(ghosts.start, ghosts.end, strict=True))
    assert sum(map(len, ghosts.requests)) + ghosts.refused == len(past.arrivals)
    return ghosts.start, ghosts.end, ghosts.lane, ghosts.size, ghosts.reason, ghosts.refused, repr(past.numbers)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(SENT, min_size=1, max_size=50),
    st.sampled_from([1, 3, 10, 1_000]),
    st.lists(st.integers(0, 200_000), max_size=2),
    st.integers(0, 1 << 30),
)
def test_a_file_has_what_the_recorder_has(sent: list[Sent], events: int, loads: list[int], seed: int) -> None:
    drawn = random.Random(seed)
    bench = Bench(CONFIG, 2, lambda size: drawn.randrange(1, 9_000) + 700 * size, drawn.choice([0, 500]), events)
    bench.run(sent)
    for at in sorted(loads):
        bench.record.mark(at, "state", "version 1 READY")
    recording = bench.recorder.recording
    again = saved_and_loaded(recording)
    assert read_all(again) == read_all(recording) == read_all(saved_and_loaded(again))
    assert replayed(again.model("m")) == replayed(recording.model("m"))
    with tempfile.TemporaryDirectory() as directory:
        events_of = json.loads(again.perfetto(Path(directory) / "trace.json").read_text())["traceEvents"]
    assert all(event.get("dur", 0) >= 0 for event in events_of)
    times = [event["ts"] for event in events_of if "ts" in event]
    assert times == sorted(times)


def test_large_sets_of_labels_come_back() -> None:
    recording = Recording()
    labels = [{f"label_{n}": "x" * n for n in range(50)}, {}, {"ü": '"\\\n'}]
    for number, one in enumerate(labels):
        for value in (float(number), float("inf"), float("nan"), -1e300):
            recording.metrics.add("m_total", one, value, number)
    again = saved_and_loaded(recording)
    assert list(again.metrics.series()) == list(recording.metrics.series())
    for mine, other in zip(again.metrics.series().values(), recording.metrics.series().values(), strict=True):
        assert np.array_equal(mine.rows(), other.rows(), equal_nan=True)
