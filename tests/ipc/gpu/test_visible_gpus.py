from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.driver_process import DriverProcess
from tritonlab.core.status import InvalidArgumentError
from tritonlab.ipc.gpu import visible_gpus
from tritonlab.ipc.gpu.visible_gpus import VisibleGpus
from tritonlab.stub._pb_stub.devices.driver import DeviceFacts


def test_simulated_ones_stand_in_the_place_of_the_machines() -> None:
    gpus = VisibleGpus(2)
    assert gpus.ordinals == (0, 1) and gpus.simulated and all(gpu.simulated for gpu in gpus.all)
    assert gpus.uuid(1) == gpus.all[1].uuid != gpus.uuid(0) and gpus.uuid(2) == ""


@pytest.mark.parametrize("count", [-1, 1000])
def test_a_number_that_cannot_be_meant_is_refused(count: int) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"simulated_gpus is {count}, expected 0 to \d+"):
        VisibleGpus(count)


def test_what_a_process_holds_of_simulated_ones() -> None:
    gpus = VisibleGpus(2)
    with DriverProcess() as process, DriverProcess() as reader:
        assert gpus.held(process.process.pid) == {}
        first = process.call("allocate", 1, 100)
        address = process.call("allocate", 1, 50)
        process.call("allocate", 0, 8)
        assert gpus.held(process.process.pid) == {0: 8, 1: 150}
        process.call("free", 1, address)
        assert gpus.held(process.process.pid) == {0: 8, 1: 100}
        reader.call("open", 1, bytes.fromhex(process.call("export", 1, first)))
        assert gpus.held(reader.process.pid) == {}  # it is the other's
    assert gpus.held(process.process.pid) == {}


def test_without_a_card_no_driver_is_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible_gpus, "_CARDS", (Path("/nowhere"),))
    monkeypatch.setattr(visible_gpus, "query_driver", lambda: pytest.fail("asked"))
    gpus = VisibleGpus()
    assert (gpus.all, gpus.simulated, gpus.held(os.getpid())) == ((), False, {})


def test_only_gpus_that_triton_would_use_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (DeviceFacts(n, f"GPU-{n}", "card", 1, compute, False) for n, compute in enumerate([(5, 2), (9, 0)]))
    monkeypatch.setattr(visible_gpus, "_CARDS", (Path("/"),))
    monkeypatch.setattr(visible_gpus, "query_driver", lambda: ([old, new], ""))
    assert VisibleGpus().ordinals == (1,)


def test_why_there_is_none_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(visible_gpus, "_CARDS", (Path("/"),))
    monkeypatch.setattr(
        visible_gpus, "query_driver", lambda: ([], "counting GPUs: CUDA_ERROR_UNKNOWN (unknown error).")
    )
    gpus = VisibleGpus(warn=warnings.append)
    assert (gpus.all, gpus.all) == ((), ())
    assert warnings == ["no GPU is used: counting GPUs: CUDA_ERROR_UNKNOWN (unknown error)."]


def test_the_driver_is_queried_by_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    devices, why = visible_gpus.query_driver()
    assert bool(devices) != bool(why)
    if not devices:  # as on most machines that run these tests
        assert "there is no usable NVIDIA driver here" in why or "CUDA_ERROR" in why
    monkeypatch.setattr(visible_gpus, "_ASK", "import sys; sys.exit('no libcuda')")
    assert visible_gpus.query_driver() == ([], "no libcuda")
