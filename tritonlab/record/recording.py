"""A recording: the data of a recorder so far, or the content of its file, in one form for views and exports."""

from __future__ import annotations

import json
import threading
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.explained import Explained
from ..core.foreign_file import open_file, read_arrays
from ..core.process_bound import ProcessBound
from ..core.status import Code
from ..core.whole_file import whole_file, write_file
from ..ipc.processes.out_of_memory import memory_left
from .lone_executions import LoneKey, LoneKind
from .metric_record import MetricRecord
from .model_record import EVENTS, Mark, ModelRecord, OpenStream
from .perfetto import trace_events

if TYPE_CHECKING:
    from .line_profile import LineProfile

FORMAT = 1
#: The numbers of a file are smaller, so that their differences and sums have 64 bits; a client's own may have 64.
_MOST, _MOST_OF_CLIENTS = 1 << 62, 1 << 65
_OF_CLIENTS = ("priority", "timeout")


class RecordingError(Explained, ValueError):
    """An error for a file that is not a recording, or that this version cannot read."""

    code = Code.INVALID_ARG


class Recording(ProcessBound):
    """The records of a server's models, by name, and of its custom metrics.

    `events`: how many rows are kept of each table of a model; older ones are only counted. `wall`: add it to a time
    here to get nanoseconds since the epoch.
    """

    _elsewhere = "save it to a file, and call tritonlab.view(FILE) in the other process"

    def __init__(self, events: int = EVENTS) -> None:
        self.events = events
        self.wall = time.time_ns() - time.monotonic_ns()
        self.metrics = MetricRecord()
        self.records: dict[str, ModelRecord] = {}
        #: the last profile of each model's lines; it is not saved
        self.line_profiles: dict[str, LineProfile] = {}
        #: where executions of a kind are noted, and the number of the kind; one dict for all models, because each
        #: look-up delays a response
        self.kinds: dict[LoneKey, tuple[bytearray, int]] = {}
        self._lock = threading.Lock()  # guards the making and forgetting of records and kinds

    def model(self, name: str) -> ModelRecord:
        """Return the record of a model; an empty one if it had no events yet."""
        record = self.records.get(name)
        if record is None:
            with self._lock:
                record = self.records.setdefault(name, ModelRecord(name, self.events))
        return record

    def learn(self, record: ModelRecord, key: LoneKey, kind: LoneKind) -> None:
        """Note executions of a kind from now on. The caller holds the record's lock."""
        with self._lock:
            if key in self.kinds or self.records.get(record.name) is not record:
                return
            number = record.lone.learn(kind)
            if number is not None:
                self.kinds[key] = record.lone.notes, number

    def arrivals(self, model: str) -> NDArray[np.float64]:
        """Return when the requests of a model came, in seconds after the first one in the record. A request that
        executed more than once came once; refused and timed out requests are included.
        """
        record = self.model(model)
        with record.lock:
            # both tables begin with serial and arrived
            rows = np.concatenate([record.requests.rows()[:, :2], record.rejected.rows()[:, :2]])
        first = np.unique(rows[:, 0], return_index=True)[1]
        times = np.sort(rows[first, 1])
        seconds: NDArray[np.float64] = (times - times[:1]) / 1e9
        return seconds

    def clear(self) -> None:
        """Forget everything so far."""
        with self._lock:
            self.records, self.kinds = {}, {}
        self.metrics.clear()

    def save(self, path: str | Path) -> Path:
        """Write a file that `load` reads: numpy's npz, without pickles. Raises OSError; an earlier file stays then."""
        arrays: dict[str, Any] = {}
        models = []
        for index, record in enumerate(list(self.records.values())):
            with record.lock:
                for table, ring in record.tables.items():
                    arrays[f"{index}.{table}"] = ring.rows()
                models.append(
                    {
                        "name": record.name,
                        "words": record.words.lists(),
                        "datatypes": record.datatypes,
                        "marks": list(record.marks),
                        "mark_count": record.mark_count,
                        "ids": list(record.ids),
                        "open": [[serial, *stream.facts()] for serial, stream in record.open.items()],
                        "tables": {table: [ring.total, list(ring.columns)] for table, ring in record.tables.items()},
                    }
                )
        series = []
        for index, (key, ring) in enumerate(self.metrics.series().items()):
            arrays[f"series.{index}"] = ring.rows()
            series.append([*key, ring.total])
        about = {"format": FORMAT, "wall": self.wall, "events": self.events, "models": models, "series": series}
        about["refused"] = self.metrics.refused
        about["families"] = {name: list(described) for name, described in self.metrics.families.items()}
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        with whole_file(path) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        return Path(path)

    @staticmethod
    def load(path: str | Path) -> Recording:
        """Read a file of `save`. Raises OSError, and RecordingError for any other file."""
        with open_file(path) as file:
            if not zipfile.is_zipfile(file):
                raise RecordingError(f"{path} is not a recording of tritonlab: recording.save(path) did not write it")
        try:
            arrays = read_arrays(path, memory_left() // 2)
            about = json.loads(arrays["about"].tobytes())
            if about["format"] != FORMAT:
                raise RecordingError(f"{path} has format {about['format']}, this version reads {FORMAT}")
            return _restore(about, arrays)
        except (RecordingError, OSError):
            raise
        except Exception as error:
            raise RecordingError(f"{path} is not a recording of tritonlab: {error}") from error

    def perfetto(self, path: str | Path) -> Path:
        """Write a `trace.json` that https://ui.perfetto.dev and chrome://tracing show. Raises OSError."""
        events = trace_events(list(self.records.values()))
        write_file(path, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
        return Path(path)

    def to_dict(self) -> dict[str, Any]:
        """Return how much of each model is recorded, and the families of custom metrics, as JSON values."""
        return {
            "models": {
                record.name: {
                    "batches": record.batches.total,
                    "requests": record.requests.total,
                    "dropped": record.dropped,
                    "marks": [list(mark) for mark in list(record.marks)],
                }
                for record in list(self.records.values())
            },
            "metrics": {name: list(described) for name, described in self.metrics.families.items()},
        }

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{record.name}: {record.batches.total} batches of {record.requests.total} requests"
            + (f", {record.dropped} events not kept" if record.dropped else "")
            for record in list(self.records.values())
        )
        return f"<Recording [{counts or 'nothing yet'}]>"


def _restore(about: dict[str, Any], arrays: Any) -> Recording:
    recording = Recording(int(about["events"]))
    recording.wall = int(about["wall"])
    _check(np.array([recording.wall], np.float64), "wall")
    for index, entry in enumerate(about["models"]):
        record = recording.model(_text(entry["name"]))
        record.words.restore(entry["words"])
        record.datatypes = {_text(name): _text(datatype) for name, datatype in entry["datatypes"].items()}
        record.marks.extend(_mark(*mark) for mark in entry["marks"])
        record.mark_count = int(entry["mark_count"])
        record.open = {int(serial): OpenStream(*facts) for serial, *facts in entry.get("open", [])}
        for table, ring in record.tables.items():
            if table not in entry["tables"]:
                continue  # a file of an older version does not have it
            total, columns = entry["tables"][table]
            if columns != list(ring.columns)[: len(columns)]:
                raise RecordingError(f"table {table} has other columns than this version")
            later = len(ring.columns) - len(columns)  # columns that an older version did not have
            rows = np.pad(arrays[f"{index}.{table}"], ((0, 0), (0, later)))
            most = [_MOST_OF_CLIENTS if name in _OF_CLIENTS else _MOST for name in ring.columns]
            _check(rows, f"table {table}", np.array(most, np.float64))
            ring.restore(int(total), rows)
        record.ids.extend((int(row), str(text)) for row, text in entry["ids"] if int(row) < record.requests.total)
        if record.requests.by_column()["batch"].max(initial=-1) >= record.batches.total:
            raise RecordingError("table requests has an execution that table batches does not have")
    recording.metrics.refused = int(about.get("refused", 0))
    for name, (kind, description) in about["families"].items():
        recording.metrics.describe(_text(name), _text(kind), _text(description))
    for index, (name, labels, total) in enumerate(about["series"]):
        ring = recording.metrics.ring((_text(name), tuple((_text(label), _text(value)) for label, value in labels)))
        rows = arrays[f"series.{index}"]
        _check(rows[:, 0], f"the times of metric {name}")
        ring.restore(int(total), rows)
    return recording


def _check(numbers: NDArray[np.float64], place: str, most: NDArray[np.float64] | int = _MOST) -> None:
    if not (np.abs(numbers) < most).all():  # false for NaN
        raise RecordingError(f"{place}: a number is not finite, or is too large")


def _mark(number: int, time: int, kind: str, text: str, serial: int = 0) -> Mark:
    return Mark(int(number), int(time), _text(kind), _text(text), int(serial))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
