"""The devices of instances, the GPUs of a server, and copies to and from them, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....core.short_number import size_text
from ....record.record_facts import DeviceCopies, device_copies
from ....server.api.model import Model
from ....server.observe.first_looks import gpu_memory_text
from ..record.record_view import recorded


def place_text(instance: Mapping[str, Any]) -> str:
    """Return the device of an instance: "CPU", "GPU 1", "simulated GPU 1"; "MODEL" if the model decides."""
    kind = str(instance["kind"])
    return f"{'simulated ' * instance['simulated']}GPU {instance['device_id']}" if kind == "GPU" else kind


def places_text(instances: Sequence[Mapping[str, Any]]) -> str:
    """Return the devices of instances, each once: "simulated GPUs 0, 1", "GPUs 0 to 7, CPU"."""
    gpus = sorted({instance["device_id"] for instance in instances if instance["kind"] == "GPU"})
    others = sorted({place_text(instance) for instance in instances if instance["kind"] != "GPU"})
    simulated = "simulated " * any(instance["simulated"] for instance in instances)
    return ", ".join([f"{simulated}GPU{'s' * (len(gpus) > 1)} {_numbers(gpus)}"] * bool(gpus) + others)


def held_text(instance: Mapping[str, Any]) -> str:
    """Return the GPU memory of an instance's process: "4 MiB of GPU 1"; empty if it has none."""
    held = sorted(instance["gpu_memory"].items())
    return ", ".join(gpu_memory_text(size, gpu, instance["simulated"]) for gpu, size in held)


def _numbers(numbers: Sequence[int]) -> str:
    """Return "0, 1, 4", or "0 to 7" for many without a gap."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


def gpus_text(gpus: Sequence[Mapping[str, Any]]) -> str:
    """Return "GPUs: 0 NVIDIA H200 (139 GiB)"; empty without GPUs. `gpus`: from `Server.gpus`."""
    if not gpus:
        return ""
    if any(gpu["simulated"] for gpu in gpus):
        return f"GPUs: {_numbers([gpu['ordinal'] for gpu in gpus])}, simulated; no model runs on a real one"
    texts = [f"{gpu['ordinal']} {gpu['name']} ({gpu['total_bytes'] / (1 << 30):.3g} GiB)" for gpu in gpus]
    return f"GPUs: {', '.join(texts)}"


def copies_text(facts: DeviceCopies | None) -> str:
    """Return `4 MB to the GPU, 1 MB back for 3 requests`; an empty text if nothing was copied."""
    if facts is None:
        return ""
    requests = f" for {facts.requests:,} requests" if facts.requests > 1 else ""
    return _sizes(facts, 1) + requests


def per_request_text(model: Model) -> str:
    """Return `copied per request: 4 MB to the GPU, 1 MB back`, on average over the record; empty if it has none."""
    recording = recorded(model)
    record = recording.records.get(model.name) if recording is not None else None
    facts = device_copies(record) if record is not None and record.copies.total else None
    return f"copied per request: {_sizes(facts, facts.requests)}" if facts is not None else ""


def _sizes(facts: DeviceCopies, among: int) -> str:
    gpu = "simulated GPU" if facts.simulated else "GPU"
    parts = [f"{size_text(facts.to_device // among)} to the {gpu}"] if facts.to_device else []
    parts += [f"{size_text(facts.to_host // among)} {'back' if parts else f'from the {gpu}'}"] if facts.to_host else []
    return ", ".join(parts)
