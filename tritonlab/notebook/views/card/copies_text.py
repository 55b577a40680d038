"""Bytes copied between the host and GPUs, in words."""

from __future__ import annotations

from ....core.short_number import size_text
from ....profile.record_facts import DeviceCopies, device_copies
from ....server.api.model import Model
from ..record.record_view import recorded


def copies_text(facts: DeviceCopies | None) -> str:
    """Return `4 MB to the GPU, 1 MB back for 3 requests`; an empty text if nothing was copied."""
    if facts is None:
        return ""
    requests = f" for {facts.requests:,} requests" if facts.requests > 1 else ""
    return _sizes(facts, 1) + requests


def per_request_text(model: Model) -> str:
    """Return `copied per request: 4 MB to the GPU, 1 MB back`, on average over the record; an empty text if nothing is
    recorded.
    """
    recording = recorded(model)
    record = recording.records.get(model.name) if recording is not None else None
    facts = device_copies(record) if record is not None and record.copies.total else None
    return f"copied per request: {_sizes(facts, facts.requests)}" if facts is not None else ""


def _sizes(facts: DeviceCopies, among: int) -> str:
    gpu = "simulated GPU" if facts.simulated else "GPU"
    parts = [f"{size_text(facts.to_device // among)} to the {gpu}"] if facts.to_device else []
    parts += [f"{size_text(facts.to_host // among)} {'back' if parts else f'from the {gpu}'}"] if facts.to_host else []
    return ", ".join(parts)
