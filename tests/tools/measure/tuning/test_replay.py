"""Replays: with the configuration that was served they form the batches that were recorded, to the nanosecond."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.measure.tuning.scheduler_bench import Bench, Sent, config_of
from tritonlab.core.config.model_config import ModelConfig
from tritonlab.core.config.model_config_rules import normalize_instance_groups
from tritonlab.core.status import InvalidArgumentError, UnsupportedError
from tritonlab.engine.schedulers.dynamic_batch import BatchConfig
from tritonlab.engine.schedulers.policy_queue import QueuePolicies
from tritonlab.notebook.authoring.settings import Settings
from tritonlab.record.model_record import REJECTIONS, ModelRecord
from tritonlab.tools.measure.tuning.recorded_executions import RecordedExecutions
from tritonlab.tools.measure.tuning.replay import FixedArrivals, Pace, ReplayedBatches, replay


def formed(record: ModelRecord) -> list[tuple[Any, ...]]:
    """Return start, end, instance, size, reason and serials of the recorded batches, in the order of their forming."""
    words, requests = record.words.lists(), record.requests.rows()
    found = []
    for row in record.batches.rows().tolist():
        batch = dict(zip(record.batches.columns, row, strict=True))
        first = int(batch["first"])
        serials = [int(serial) for serial in requests[first : first + int(batch["count"]), 0]]
        instance, reason = words["instance"][int(batch["instance"])], words["reason"][int(batch["reason"])]
        found.append((int(batch["start"]), int(batch["end"]), instance, int(batch["size"]), reason, serials))
    return sorted(found)


def imagined(past: RecordedExecutions, ghosts: ReplayedBatches) -> list[tuple[Any, ...]]:
    """Return the same of a replay."""
    serials = past.request_column("serial").astype(int).tolist()
    numbers = [[serials[request.number] for request in batch] for batch in ghosts.requests]
    lanes = [past.instances[lane] for lane in ghosts.lane]
    return sorted(zip(ghosts.start, ghosts.end, lanes, ghosts.size, ghosts.reason, numbers, strict=True))


SENT = st.builds(
    Sent,
    after=st.integers(0, 300) | st.integers(0, 20_000),
    size=st.integers(1, 3),
    columns=st.sampled_from([2, 2, 3]),
    priority=st.integers(0, 3),
    timeout=st.integers(0, 6),
    cancels=st.sampled_from([False] * 9 + [True]),
)
INPUT = "input { name: 'X' data_type: TYPE_INT8 dims: [ -1 ] }"
DELAY = "max_queue_delay_microseconds: %d"


@st.composite
def configs(draw: Any) -> ModelConfig:
    largest = draw(st.integers(3, 9))
    if draw(st.integers(0, 4)) == 0:
        return config_of(f"max_batch_size: {largest} {INPUT}")
    preferred = draw(st.sets(st.integers(1, largest), max_size=2))
    text = " ".join(f"preferred_batch_size: {size}" for size in preferred) + " " + DELAY % draw(st.integers(0, 8))
    if draw(st.booleans()):
        text += " priority_levels: 2 default_priority_level: 2"
    if draw(st.booleans()):
        action = draw(st.sampled_from(["DELAY", "REJECT"]))
        timeout, size = draw(st.integers(0, 12)), draw(st.integers(0, 6))
        limits = f"default_timeout_microseconds: {timeout} max_queue_size: {size}"
        override = str(draw(st.booleans())).lower()
        text += f" default_queue_policy {{ timeout_action: {action} {limits} allow_timeout_override: {override} }}"
    return config_of(f"max_batch_size: {largest} {INPUT} dynamic_batching {{ {text} }}")


@settings(max_examples=150, deadline=None)
@given(configs(), st.integers(1, 3), st.lists(SENT, min_size=1, max_size=60), st.integers(0, 1 << 30))
def test_ghosts_of_the_same_settings_are_the_recorded_batches(
    config: ModelConfig, instances: int, sent: list[Sent], seed: int
) -> None:
    drawn = random.Random(seed)
    bench = Bench(config, instances, lambda size: drawn.randrange(1, 9_000) + 700 * size)
    bench.run(sent)
    record = bench.record
    assert record.requests.total + record.rejected.total == len(sent)
    if not record.requests.total:
        return
    past, changed = RecordedExecutions(bench.record), config_of("")
    changed.CopyFrom(config)
    changed.instance_group.add(count=instances)
    ghosts = past.replay(changed)
    found, expected = imagined(past, ghosts), formed(bench.record)
    assert ghosts.refused == len(past.rejected) == record.rejected.total
    if len(set(ghosts.start)) < len(ghosts.start):  # nobody can tell which of two instances was first
        found, expected = ([(*batch[:2], *batch[3:]) for batch in batches] for batches in (found, expected))
    assert sorted(found) == sorted(expected)


def busy_bench(delay_us: int = 0, took: Any = lambda size: 4_000_000 + 100_000 * size) -> tuple[ModelConfig, Bench]:
    """Return the bench of a model of a fixed cost, and 400 requests, one each millisecond or so."""
    drawn = random.Random(5)
    config = config_of(f"max_batch_size: 16 dynamic_batching {{ {DELAY % delay_us} }} instance_group {{ count: 1 }}")
    bench = Bench(config, 1, took)
    bench.run([Sent(drawn.randrange(2_000_000)) for _ in range(400)])
    return config, bench


def test_other_settings_form_other_batches() -> None:
    config, bench = busy_bench()
    past, now = RecordedExecutions(bench.record), Settings.from_config(config)
    before, one_by_one = past.numbers, past.replay(config, now.changed(max_batch_size=1)).numbers()
    two = past.replay(config, now.changed(instances=2)).numbers()
    assert one_by_one.mean_size == 1 and one_by_one.p50 > 50 * before.p50  # the queue grows without end
    assert two.p50 < before.p50 and two.mean_size < before.mean_size
    late = past.replay(config, now.changed(max_queue_delay_microseconds=20_000)).numbers()
    assert late.mean_size > before.mean_size and late.p50 > before.p50
    assert late.requests == before.requests == 400


def test_requests_that_were_refused_are_replayed_with_other_settings() -> None:
    limit = "default_queue_policy { max_queue_size: 3 default_timeout_microseconds: 6000 }"
    config = config_of(f"max_batch_size: 1 dynamic_batching {{ {limit} }} instance_group {{ count: 1 }}")
    bench = Bench(config, 1, lambda size: 4_000_000)
    bench.run([Sent(1_000_000) for _ in range(40)])
    reasons = Counter(REJECTIONS[int(row[4])] for row in bench.record.rejected.rows())
    assert set(reasons) == {"queue full", "timeout"}
    past, now = RecordedExecutions(bench.record), Settings.from_config(config)
    assert past.replay(config).refused == reasons.total()
    relieved = past.replay(config, now.changed(instances=5))
    assert relieved.refused == 0 and relieved.numbers().requests == 40
    assert len(bench.recorder.recording.arrivals("m")) == 40


def test_a_window_replays_what_came_in_it() -> None:
    config, bench = busy_bench()
    past = RecordedExecutions(bench.record)
    middle = int(np.median(past.request_column("queued")))
    ghosts = past.replay(config, window=(middle, 1 << 62))
    assert sum(map(len, ghosts.requests)) == 200
    assert min(ghosts.start) >= middle


def test_a_replay_can_be_stopped() -> None:
    config, bench = busy_bench()
    past = RecordedExecutions(bench.record)
    past.arrivals *= 10
    assert len(past.replay(config, stop=lambda: True).start) < 400


def test_what_the_server_needs_between_executions_is_in_the_replay() -> None:
    config, bench = busy_bench()
    batches, columns = bench.record.batches.rows(), list(bench.record.batches.columns)
    moved = batches.copy()
    moved[:, columns.index("start")] += 20_000  # from the decision to the start
    bench.record.batches.restore(len(moved), moved)
    past = RecordedExecutions(bench.record)
    pace = past.pace(config)
    assert (pace.lead, pace.turnaround) == (20_000, 0)
    assert past.replay(config).numbers() == past.numbers


def test_a_batch_that_forms_when_a_time_is_up_says_nothing_about_the_server() -> None:
    """The first of two that wait goes behind the other when its time is up, 1.4 us after the instance became idle."""
    policy = "timeout_action: DELAY default_timeout_microseconds: 7 allow_timeout_override: true"
    delay = f"default_queue_policy {{ {policy} }}"
    sizes = "preferred_batch_size: [3, 7]"
    config = config_of(f"max_batch_size: 7 {INPUT} dynamic_batching {{ {sizes} {DELAY % 8} {delay} }}")
    took = iter([1_589, 3_499, 5_331, 2_741])
    bench = Bench(config, 1, lambda size: next(took))
    bench.run(
        [
            Sent(326, size=2, columns=3),
            Sent(30, size=1, timeout=3),
            Sent(56, size=3, timeout=4),
            Sent(12_971, size=3, timeout=6),
        ]
    )
    config.instance_group.add(count=1)
    past = RecordedExecutions(bench.record)
    assert [batch[-1] for batch in formed(bench.record)] == [[1], [3], [2], [4]]
    assert (past.pace(config).lead, past.pace(config).turnaround) == (0, 0)
    assert imagined(past, past.replay(config)) == formed(bench.record)


def test_only_what_was_recorded_since_the_last_load_counts() -> None:
    _, bench = busy_bench()
    middle = int(np.median(RecordedExecutions(bench.record).request_column("queued")))
    bench.record.mark(middle, "state", "version 1 READY")
    assert len(RecordedExecutions(bench.record).arrivals) == 200
    bench.record.mark(bench.clock.now(), "state", "version 1 READY")
    assert len(RecordedExecutions(bench.record).arrivals) == 200  # nothing since then


def test_an_empty_record_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="send it requests first"):
        RecordedExecutions(ModelRecord("m"))


def test_the_oldest_are_not_replayed_if_their_batch_is_not_kept() -> None:
    config, bench = busy_bench()
    rows = bench.record.requests.rows()
    bench.record.requests.restore(len(rows), rows[-101:])
    past = RecordedExecutions(bench.record)
    assert 100 - 16 <= len(past.arrivals) <= 101
    assert sum(map(len, past.replay(config).requests)) == len(past.arrivals)


def test_what_no_replay_can_tell_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'m' is a sequence model"):
        Settings.from_config(config_of("max_batch_size: 4 sequence_batching { }"))
    single = Settings.from_config(config_of("max_batch_size: 0"))
    with pytest.raises(InvalidArgumentError, match="only its instances can change"):
        single.changed(max_queue_delay_microseconds=5)
    with pytest.raises(InvalidArgumentError, match="whether a model batches at all"):
        single.changed(max_batch_size=8)
    with pytest.raises(InvalidArgumentError, match="preferred sizes must be 1 to max_batch_size, 4"):
        Settings.from_config(config_of("max_batch_size: 4")).changed(preferred_batch_size=8)
    with pytest.raises(InvalidArgumentError, match="instances 1 or more"):
        single.changed(instances=0)
    groups = config_of("max_batch_size: 4 instance_group { count: 1 } instance_group { count: 1 }")
    with pytest.raises(UnsupportedError, match="several instance groups"):
        Settings.from_config(groups).changed(instances=3)


def test_settings_are_written_as_the_lines_of_a_config() -> None:
    config = config_of("max_batch_size: 8 instance_group { count: 1 kind: KIND_CPU }")
    wanted = Settings.from_config(config).changed(500, [4, 2], 6, 2)
    assert str(wanted) == "2 instances, batches up to 6, delay 500 µs, preferred 2, 4"
    assert " ".join(wanted.pbtxt(config).split()) == (
        "max_batch_size: 6 instance_group { count: 2 kind: KIND_CPU } "
        "dynamic_batching { preferred_batch_size: [2, 4] max_queue_delay_microseconds: 500 }"
    )
    assert Settings.from_config(wanted.written(config)) == wanted


@pytest.mark.parametrize(
    ("groups", "instances", "text"),
    [
        ("", 2, ""),
        ("", 4, "instance_group { count: 2 }"),
        ("instance_group { }", 2, "instance_group { }"),
        ("instance_group { count: 1 rate_limiter { priority: 2 } }", 6, "count: 3 rate_limiter { priority: 2 }"),
        (
            "instance_group { name: 'a' count: 3 kind: KIND_GPU gpus: 1 }",
            2,
            "name: 'a' kind: KIND_GPU count: 2 gpus: 1",
        ),
        ("instance_group { kind: KIND_CPU count: 2 }", 1, "instance_group { kind: KIND_CPU count: 1 }"),
        (two := "instance_group { count: 2 } instance_group { kind: KIND_CPU }", 5, two),
    ],
)
def test_an_instance_group_stays_its_author_s_but_for_its_count(groups: str, instances: int, text: str) -> None:
    authored = config_of(f"max_batch_size: 4 {groups}")
    served = normalize_instance_groups(authored, gpu_ids=[0, 1])
    wanted = Settings.from_config(served).changed(100, instances=instances)
    text = text if not text or text.startswith("instance_group") else f"instance_group {{ {text} }}"
    lines = config_of(wanted.pbtxt(authored))
    assert lines.instance_group == config_of(text).instance_group
    assert Settings.from_config(normalize_instance_groups(lines, gpu_ids=[0, 1])) == wanted


TIMED = "dynamic_batching { default_queue_policy { default_timeout_microseconds: %d } }"


def test_a_request_whose_time_was_up_on_the_way_to_its_instance_is_not_replayed_in_a_batch() -> None:
    config = config_of(f"max_batch_size: 4 {TIMED % 5500} instance_group {{ count: 1 }}")
    bench = Bench(config, 1, lambda size: 4_000_000, way=1_000_000)
    # the first is busy until 5 ms; then the others leave, and arrive at 6 ms: 0.3 ms too late for the second
    bench.run([Sent(0), Sent(200_000), Sent(1_000_000)])
    assert [batch[-1] for batch in formed(bench.record)] == [[1], [3]]
    rejected = bench.record.rejected.row(0)
    assert rejected is not None and bench.record.rejected.total == 1
    assert (rejected["serial"], REJECTIONS[int(rejected["reason"])]) == (2, "timeout")
    past = RecordedExecutions(bench.record)
    ghosts = past.replay(config)
    assert (imagined(past, ghosts), ghosts.refused) == (formed(bench.record), 1)
    assert (
        past.replay(config, Settings.from_config(config).changed(instances=2)).refused == 0
    )  # it would have left at once


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 12), st.integers(1, 9_000), st.lists(SENT, min_size=1, max_size=60), st.integers(1, 3), st.integers()
)
def test_ghosts_are_the_recorded_batches_also_where_the_way_to_the_instance_takes_time(
    timeout: int, way: int, sent: list[Sent], instances: int, seed: int
) -> None:
    drawn = random.Random(seed)
    config = config_of(f"max_batch_size: 6 {INPUT} {TIMED % timeout}")
    bench = Bench(config, instances, lambda size: drawn.randrange(1, 9_000) + 700 * size, way)
    bench.run(sent)
    record = bench.record
    assert record.requests.total + record.rejected.total == len(sent)
    if not record.requests.total:
        return
    past = RecordedExecutions(record)
    rules, policies = BatchConfig.from_config(config), QueuePolicies.from_config(config)
    ghosts = replay(FixedArrivals(past.arrivals), rules, policies, instances, Pace(past.times, lead=way))
    assert ghosts.refused == record.rejected.total
    found, expected = imagined(past, ghosts), formed(record)
    without_lanes = [[(*batch[:2], *batch[3:]) for batch in batches] for batches in (found, expected)]
    assert sorted(without_lanes[0]) == sorted(without_lanes[1])
