from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.profile.events import RecorderHooks, make_request
from tritonlab.profile.device_copies import DeviceCopies, device_copies
from tritonlab.profile.recording import Recording


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
