"""Why two recorded requests were not executed in one batch: `schedulers.why_apart` applied to a record."""

from __future__ import annotations

from ..schedulers.dynamic_batch import BatchConfig
from ..schedulers.why_apart import BatchPlace, FormedBatch, why_apart
from .model_record import ModelRecord

#: Stands for an unknown configuration: then only the recorded reasons are given.
UNKNOWN = BatchConfig(max_batch_size=1 << 62, dynamic=True)


def why_not_together(record: ModelRecord, one: int, other: int, config: BatchConfig = UNKNOWN) -> str:
    """Return one sentence about the requests of two rows; empty if one of them is no longer in the record."""
    with record.lock:
        places = [_batch_place(record, row, config.max_batch_size > 0) for row in (one, other)]
    return why_apart(places[0], places[1], config) if places[0] and places[1] else ""


def _batch_place(record: ModelRecord, row: int, batched: bool) -> BatchPlace | None:
    found = record.requests.rows(row)
    if row < record.requests.dropped or not len(found):
        return None
    request = dict(zip(record.requests.columns, found[0].tolist(), strict=True))
    number = int(request["batch"])
    batches = record.batches.rows(number)
    if number < record.batches.dropped or not len(batches):
        return None
    batch = dict(zip(record.batches.columns, batches[0].tolist(), strict=True))
    words = record.words.lists()
    extras = record.extras.rows()
    extra = next((e for e in extras[::-1].tolist() if e[0] == row), [row, 0, 0, -1, -1, -1, -1])
    name = next((text for at, text in record.ids_since(row) if at == row), "")
    shapes = dict(words["shapes"][int(request["shapes"])]) if request["shapes"] >= 0 else {}
    return BatchPlace(
        name=f"'{name}'" if name else f"request {int(request['serial'])}",
        batch=FormedBatch(
            model=record.name,
            version=int(batch["version"]),
            number=number,
            formed=int(batch["start"]),
            size=int(batch["size"]),
            reason=words["reason"][int(batch["reason"])] if batch["reason"] >= 0 else "",
        ),
        queued=int(request["queued"]),
        size=int(request["size"]),
        priority=int(extra[1]),
        sequence=int(extra[2]),
        shapes={tensor: shape[1:] if batched else shape for tensor, shape in shapes.items()},
    )
