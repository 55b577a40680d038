"""Warnings of instances that use another device than the one they were put on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.serving import eventually
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import NotFoundError
from tritonlab.ipc.processes.stub_log import LogBook
from tritonlab.server.observe.placement_check import LOOKS, PlacementCheck, gpu_memory_text, misplaced

MIB = 1 << 20


def plan(kind: str, device: int = 0) -> Any:
    return SimpleNamespace(name="m_0", kind=kind, device_id=device)


@pytest.mark.parametrize(
    ("kind", "device", "held", "text"),
    [
        ("GPU", 1, {1: MIB}, ""),
        ("GPU", 1, {}, ""),
        ("MODEL", 0, {3: MIB}, ""),
        (
            "GPU",
            1,
            {0: 5 * MIB, 1: MIB},
            "'m_0' was placed on GPU 1 and holds 5 MiB of simulated GPU 0; "
            'choose the device by args["model_instance_device_id"].',
        ),
        (
            "CPU",
            0,
            {0: MIB, 2: 3 << 29},
            "'m_0' was placed on CPU and holds 1 MiB of simulated GPU 0, 1.5 GiB of simulated GPU 2; "
            'choose the device by args["model_instance_kind"].',
        ),
    ],
)
def test_texts_of_wrong_placements(kind: str, device: int, held: dict[int, int], text: str) -> None:
    assert misplaced(plan(kind, device), held, simulated=True) == text


def test_memory_of_a_gpu_in_words() -> None:
    assert gpu_memory_text(1536 << 10, 1, simulated=False) == "1.5 MiB of GPU 1"


class Side:
    """A server with one version of model `m`, whose process 7 was placed on GPU 1, without anything else."""

    def __init__(self, gpus: int = 2) -> None:
        self.held: dict[int, int] = {}
        self.checked: list[int] = []
        self.instruments, self.log = Instruments(), LogBook()
        visible = SimpleNamespace(all=range(gpus), simulated=True, held=self.holds)
        check = PlacementCheck(self.instruments, self.find, visible, self.log)  # type: ignore[arg-type]
        self.instruments.add(check)

    def holds(self, pid: int) -> dict[int, int]:
        self.checked.append(pid)
        return self.held

    def find(self, name: str, version: int) -> Any:
        if name != "m":
            raise NotFoundError(name)
        return SimpleNamespace(instances=[SimpleNamespace(name="m_0", plan=plan("GPU", 1), pid=7)])

    def ready(self, name: str = "m") -> None:
        assert self.instruments.model_state is not None
        self.instruments.model_state(name, 1, "READY", "", 0)

    def execute(self) -> None:
        if self.instruments.batch_executed is not None:
            self.instruments.batch_executed("m", 1, "m_0", 1, [], 1, "", None, False, 0)

    def texts(self) -> list[str]:
        return [record.text for record in self.log.records()]


def test_it_looks_at_the_first_executions_only() -> None:
    side = Side()
    side.ready()
    for _ in range(LOOKS[-1]):
        assert side.instruments.batch_executed is not None
        side.execute()
    assert side.instruments.batch_executed is None
    eventually(lambda: side.checked == [7] * (1 + len(LOOKS)))
    assert side.texts() == []


def test_what_is_wrong_is_reported_once() -> None:
    side = Side()
    side.ready()
    side.held = {0: MIB}
    for count in LOOKS[:3]:
        side.execute()
        eventually(lambda count=count: len(side.texts()) == 1)
    (record,) = side.log.records()
    assert record.unchecked and record.pid == 7
    assert record.text.startswith(
        "Triton checks no placement: 'm_0' was placed on GPU 1 and holds 1 MiB of simulated GPU 0"
    )


def test_without_gpus_nothing_listens() -> None:
    side = Side(gpus=0)
    side.ready()
    assert side.instruments.batch_executed is None and side.checked == []


def test_a_version_that_went_is_not_looked_at() -> None:
    side = Side()
    side.ready("gone")
    assert side.texts() == [] and list(side.instruments)
