"""The copies between the host and GPUs in a record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .model_record import COPIES, ModelRecord


@dataclass(frozen=True)
class DeviceCopies:
    """The sums of copies. `to_device`, `to_host`: bytes; `requests`: how many requests they were made for; `simulated`:
    whether the GPUs are.
    """

    requests: int
    to_device: int
    to_host: int
    simulated: bool


def device_copies(record: ModelRecord, serial: int | None = None) -> DeviceCopies | None:
    """Return what was copied for a request, or for all in the record; None if nothing was."""
    with record.lock:
        rows = record.copies.rows()
    column = {name: rows[:, number] for number, name in enumerate(COPIES)}
    chosen = column["serial"] == serial if serial is not None else np.ones(len(rows), bool)
    if not chosen.any():
        return None
    return DeviceCopies(
        len(np.unique(column["serial"][chosen])),
        int(column["to_device"][chosen].sum()),
        int(column["to_host"][chosen].sum()),
        bool(column["simulated"][chosen].any()),
    )
