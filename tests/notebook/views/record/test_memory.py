from __future__ import annotations

import re
import time

import numpy as np
import pytest

from tests.models import IDENTITY
from tests.serving import Lab, config, instances
from tritonlab.core.status import InvalidArgumentError
from tritonlab.notebook.views.record.memory import Memory
from tritonlab.notebook.views.record.opening import open_view
from tritonlab.record.live_state import InstanceMemory, memory_use, shm_size
from tritonlab.record.recording import Recording

MIB = 1 << 20


def test_what_triton_needs_is_both_directions_of_every_instance() -> None:
    one = InstanceMemory("m_0_0", 3 * MIB, 0, 2 * MIB + 1, 50 * MIB)
    assert shm_size([one, one]) == (5 + 5 + 2) * MIB
    assert shm_size([]) == 0


def test_the_regions_of_an_instance_and_its_process_are_measured(lab: Lab) -> None:
    model = lab.load("memory", IDENTITY, config("IN FP32 -1", "OUT FP32 -1"))
    view = model.view("memory")
    (before,) = memory_use([model.serving_version()], lab.server.core.gpus)
    assert (before.instance, before.inputs, before.outputs) == ("memory_0_0", MIB, MIB)
    assert 10 * MIB < before.resident < 1000 * MIB
    model(IN=np.zeros(2 * MIB, np.float32))
    (after,) = memory_use([model.serving_version()], lab.server.core.gpus)
    assert after.inputs >= 8 * MIB and after.outputs >= 8 * MIB
    link = instances(model)[0].stub.link  # type: ignore[union-attr]
    assert (after.inputs, after.inputs_used) == (link.region.size, link.region.used)
    first, line = repr(view).splitlines()
    assert first == f"Memory of memory: the same on Triton takes about --shm-size={shm_size([after]) >> 20}m."
    size = r"[\d.]+ MiB"
    words = rf"  memory_0_0  shared {size} for inputs \({size} in use\), {size} for outputs; resident {size}"
    assert re.fullmatch(words, line)
    message, _ = view.news()
    assert message is not None
    assert {row["name"] for row in message["rows"]} == {"inputs", "inputs_used", "outputs", "resident"}
    assert (message["families"]["resident"][0], message["warnings"]) == ("bytes", [])
    lab.load("memory", IDENTITY, config("IN FP32 -1", "OUT FP32 -1", count=2))
    assert {dict(labels)["instance"] for _, labels in (view.to_dict(), view.recording.metrics.series())[1]} == {
        "memory_0_0",
        "memory_0_1",
    }
    lab.load("memory", IDENTITY, config("IN FP32 -1", "OUT FP32 -1"))
    view.to_dict()  # measures now, and not after a pause
    again, _ = view.news()
    assert again is not None and again["epoch"] != message["epoch"]  # the browser drops what it had
    assert {row["labels"][0][1] for row in again["rows"]} == {"memory_0_0"}
    lab.server.unload(model)
    assert repr(view) == "Memory of memory: no instance runs."


def test_memory_is_measured_less_often_than_a_view_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []

    def measured() -> list[InstanceMemory]:
        times.append(time.monotonic())
        return [InstanceMemory("m_0_0", len(times), 0, 0, 0)]

    view = Memory("m", measured, False)
    stamps = [view.stamp() for _ in range(20)]
    assert stamps == [[("m_0_0", 1, 0, {})]] * 20
    view.renew()  # at the end of a cell, however short it was
    assert view.stamp() == [("m_0_0", 2, 0, {})]
    monkeypatch.setattr(time, "monotonic", lambda: times[-1] + 1.1)
    assert view.stamp() == [("m_0_0", len(times), 0, {})]


def test_a_recording_has_no_memory() -> None:
    with pytest.raises(InvalidArgumentError, match="'memory' is not recorded"):
        open_view(Recording(), "memory")
