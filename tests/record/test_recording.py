from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.record.events import RecorderHooks, make_request
from tritonlab.core.status import ModelError
from tritonlab.record.record_facts import stream_facts
from tritonlab.record.recording import Recording, RecordingError
from tritonlab.testing import MS


@pytest.fixture
def hooks() -> RecorderHooks:
    hooks = RecorderHooks(events=50)
    for serial in range(60):
        hooks.execute(make_request(serial, at=serial, request_id=f"r{serial}"), start=serial, end=serial + 2)
    stream = make_request(99)
    hooks.respond(stream, at=70, outputs=stream.inputs, final=False)
    hooks.respond(stream, at=71, empty=True)
    hooks.respond(make_request(100), at=72, error=ModelError("no"))
    hooks.recording.metrics.add("requests_total", {"kind": "a"}, 3.0, 5)
    return hooks


def test_a_file_holds_all_of_it(hooks: RecorderHooks, tmp_path: Path) -> None:
    text = repr(hooks.recording)
    assert text == "<Recording [add: 60 batches of 60 requests, 20 events not kept]>"
    again = Recording.load(hooks.recording.save(tmp_path / "day.npz"))
    assert repr(again) == text
    was, now = hooks.recording.model("add"), again.model("add")
    for table, ring in was.tables.items():
        other = now.tables[table]
        assert (other.total, other.dropped) == (ring.total, ring.dropped)
        assert np.array_equal(other.rows(), ring.rows())
    assert (now.words.lists(), list(now.marks), list(now.ids)) == (was.words.lists(), list(was.marks), list(was.ids))
    assert again.wall == hooks.recording.wall
    ((key, ring),) = again.metrics.series().items()
    assert (key, ring.rows().tolist()) == (("requests_total", (("kind", "a"),)), [[5, 3]])


def test_a_file_has_the_streams_that_were_open(hooks: RecorderHooks, tmp_path: Path) -> None:
    stream = make_request(200, at=80, request_id="slow")
    hooks.execute(stream, start=81, end=82)
    hooks.respond(stream, at=83, outputs=stream.inputs, final=False)
    hooks.respond(stream, at=85, outputs=stream.inputs, final=False)
    again = Recording.load(hooks.recording.save(tmp_path / "day.npz"))
    facts = stream_facts(again.model("add"))
    assert facts == stream_facts(hooks.recording.model("add"))
    assert facts.open == [(200, "slow", 2, 80 * MS)] and facts.responses == 3
    assert again.model("add").open[200].first == 83 * MS


def test_a_file_says_how_many_changes_of_metrics_were_not_kept(hooks: RecorderHooks, tmp_path: Path) -> None:
    for number in range(1_003):
        hooks.recording.metrics.add("users_total", {"user": str(number)}, 1.0, number)
    again = Recording.load(hooks.recording.save(tmp_path / "day.npz"))
    assert again.metrics.warnings() == hooks.recording.metrics.warnings()
    assert any(warning.startswith("4 changes of further series") for warning in again.metrics.warnings())


def test_a_disk_that_is_full_leaves_the_file_of_before(
    hooks: RecorderHooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = hooks.recording.save(tmp_path / "day.npz")
    before = path.read_bytes()

    def full(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        hooks.recording.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    other.write_text("hello")
    with pytest.raises(RecordingError, match="not a recording of tritonlab") as caught:
        Recording.load(other)
    assert "pickle" not in str(caught.value)  # numpy's advice would have whatever is in the file run
    np.savez(other, about=np.frombuffer(json.dumps({"format": 99}).encode(), np.uint8))
    with pytest.raises(RecordingError, match="has format 99, this version reads 1"):
        Recording.load(other)
    with pytest.raises(OSError):
        Recording.load(tmp_path / "missing.npz")


def test_a_file_without_what_an_older_version_did_not_record_is_read(hooks: RecorderHooks, tmp_path: Path) -> None:
    path = hooks.recording.save(tmp_path / "day.npz")
    with np.load(path) as arrays:
        fields = dict(arrays)
    about = json.loads(fields["about"].tobytes())
    (model,) = about["models"]
    del model["tables"]["rejected"], fields["0.rejected"]
    model["tables"]["extras"][1].pop()
    fields["0.extras"] = fields["0.extras"][:, :-1]
    np.savez(path, **{**fields, "about": np.frombuffer(json.dumps(about).encode(), np.uint8)})
    record = Recording.load(path).model("add")
    assert record.batches.total == 60 and len(record.rejected) == 0
    model["tables"]["batches"][1][0] = "begun"
    np.savez(path, **{**fields, "about": np.frombuffer(json.dumps(about).encode(), np.uint8)})
    with pytest.raises(RecordingError, match="table batches has other columns"):
        Recording.load(path)


def test_a_file_with_values_that_a_view_cannot_show_is_refused(hooks: RecorderHooks, tmp_path: Path) -> None:
    hooks.recording.metrics.describe("m", "gauge", "about m")
    hooks.recording.metrics.add("m", {}, float("nan"), 1)
    path = hooks.recording.save(tmp_path / "day.npz")
    Recording.load(path)
    with np.load(path) as arrays:
        fields = dict(arrays)
    text = fields["about"].tobytes().decode()
    for before, after in (
        ('"name": "add"', '"name": 5'),
        ('"request 100: no"', "5"),
        ('"add_0_0"', "5"),
        ('"wall": ', '"wall": 9999999999'),
        ('"m", []', "5, []"),
    ):
        assert before in text
        changed = np.frombuffer(text.replace(before, after).encode(), np.uint8)
        np.savez(path, **{**fields, "about": changed})
        with pytest.raises(RecordingError, match=r"not a recording of tritonlab|wall: a number"):
            Recording.load(path)
    for table, row, column in (("0.batches", 0, 0), ("0.requests", -1, 3), ("series.0", 0, 0)):
        changed = fields[table].copy()
        changed[row, column] = 1e18 if table == "0.requests" else np.nan
        np.savez(path, **{**fields, table: changed})
        with pytest.raises(RecordingError, match=r"not finite|does not have"):
            Recording.load(path)


def test_perfetto_shows_batches_requests_and_marks(hooks: RecorderHooks, tmp_path: Path) -> None:
    events = json.loads(hooks.recording.perfetto(tmp_path / "trace.json").read_text())["traceEvents"]
    lanes = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert lanes == {"add", "requests", "marks", "add_0_0"}
    batches = [event for event in events if event.get("cat") == "execute" and "closed" in event["args"]]
    assert len(batches) == 50
    assert batches[0]["args"] == {"size": 1, "requests": 1, "closed": "full"}
    assert (batches[0]["ts"], batches[0]["dur"]) == (10_000, 2_000)
    assert [event["args"]["text"] for event in events if event["ph"] == "i"] == ["request 100: no"]
    begun = [event["name"] for event in events if event["ph"] == "b"]
    assert begun[:2] == ["r10", "queue"]
    assert sum(event["ph"] == "n" for event in events) == 2
    times = [event["ts"] for event in events if event["ph"] != "M"]
    assert times == sorted(times)
