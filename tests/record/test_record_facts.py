"""Facts of a record made by hand: the traffic that a model answers now, and copies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.record.events import RecorderHooks, make_request
from tritonlab.record.model_record import ModelRecord
from tritonlab.record.record_facts import DeviceCopies, Traffic, device_copies, traffic
from tritonlab.record.recording import Recording

SECOND = 1_000_000_000


def add(record: ModelRecord, ended: float, *waits_ms: float) -> None:
    """Add a batch that ended at so many seconds, of requests that had waited so long."""
    end = ended * SECOND
    for wait in waits_ms:
        record.requests.add((0, end - wait * 1e6, end, record.batches.total, 1, 0))
    record.batches.add((end, end, 0, 0, 1, 1, len(waits_ms), 0, 0, 0, 0, 0, 0))


def test_nothing_was_answered() -> None:
    record = ModelRecord("m")
    assert traffic(record, SECOND) == Traffic(0.0, None, None)
    add(record, 1, 5)
    assert traffic(record, 60 * SECOND) == Traffic(0.0, None, None)


def test_the_last_ten_seconds_count() -> None:
    record = ModelRecord("m")
    add(record, 1, 1000)
    add(record, 95, 1, 2, 3)
    add(record, 99, 4, 5)
    found = traffic(record, 100 * SECOND)
    assert (found.rate, found.p50_ms) == (0.5, pytest.approx(3))
    assert found.p99_ms == 5


def test_requests_whose_batch_is_not_kept_are_left_out() -> None:
    record = ModelRecord("m", events=2)
    for wait in (1, 2, 3):
        add(record, 1, wait, wait)
    assert traffic(record, 2 * SECOND).p50_ms == pytest.approx(3)


def test_of_many_requests_the_last_tell_the_rate() -> None:
    record = ModelRecord("m")
    for number in range(10_000):
        add(record, 90 + number / 1000, 1)
    assert traffic(record, 100 * SECOND).rate == pytest.approx(1000, rel=0.01)


def copied(hooks: RecorderHooks, serial: int, to_device: int, to_host: int, *, simulated: bool = True) -> None:
    hook = hooks.instruments.bytes_copied
    assert hook is not None
    hook("add", serial, 0, to_device, to_host, simulated, 0)


def test_copies_are_summed_up_for_a_request_and_for_all() -> None:
    hooks = RecorderHooks()
    hooks.execute(make_request(1), make_request(2), make_request(3), start=1, end=2)
    record = hooks.recording.model("add")
    assert device_copies(record) is None
    copied(hooks, 1, 4_000_000, 0)
    copied(hooks, 1, 0, 1_000_000)
    copied(hooks, 2, 8, 0, simulated=False)
    assert device_copies(record) == DeviceCopies(2, 4_000_008, 1_000_000, simulated=True)
    assert device_copies(record, 1) == DeviceCopies(1, 4_000_000, 1_000_000, simulated=True)
    assert device_copies(record, 2) == DeviceCopies(1, 8, 0, simulated=False)
    assert device_copies(record, 3) is None


def test_a_file_keeps_copies_and_one_from_before_there_were_any_is_read(tmp_path: Path) -> None:
    hooks = RecorderHooks()
    hooks.execute(make_request(1), start=1, end=2)
    copied(hooks, 1, 7, 5)
    path = hooks.recording.save(tmp_path / "day.npz")
    assert device_copies(Recording.load(path).model("add")) == DeviceCopies(1, 7, 5, simulated=True)
    with np.load(path) as arrays:
        held: dict[str, Any] = {name: arrays[name] for name in arrays.files if not name.endswith("copies")}
    about = json.loads(held["about"].tobytes())
    del about["models"][0]["tables"]["copies"]
    held["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(path, **held)
    again = Recording.load(path).model("add")
    assert (device_copies(again), again.requests.total) == (None, 1)
