"""The --shm-size that the memory view predicts, tried with the real server in a /dev/shm of that size."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http

import tritonlab
from tests.conformance.models import config
from tests.conformance.reference import ReferenceServer, missing
from tests.models import IDENTITY
from tritonlab.record.live_state import memory_use, shm_size

MIB = 1 << 20
#: Bytes of the requests, one after the other; `full`: what just fills a region of ours.
LOADS = {"small": [4], "full": [MIB], "large": [8 * MIB] * 2, "growing": [MIB, 2 * MIB, 4 * MIB, 8 * MIB]}


def within(mebibytes: int) -> list[str]:
    """Return a command that gives the next one a /dev/shm of its own, as `docker run --shm-size` does."""
    mount = f'mount -t tmpfs -o size={mebibytes}m tmpfs /dev/shm && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mount, "sh"]


def can_mount() -> bool:
    try:
        return subprocess.run([*within(1), "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


pytestmark = [
    pytest.mark.skipif(missing() is not None, reason="no real server here"),
    pytest.mark.skipif(not can_mount(), reason="a /dev/shm of one's own takes the right to mount"),
]


def place(repository: Path, name: str) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config("IN FP32 -1", "OUT FP32 -1"))
    (repository / name / "1" / "model.py").write_text(IDENTITY)


def infer(address: str, model: str, sizes: list[int]) -> None:
    with tritonclient.http.InferenceServerClient(address, network_timeout=60) as client:
        client.load_model(model)
        for size in sizes:
            array = np.zeros(size // 4, np.float32)
            tensor = tritonclient.http.InferInput("IN", array.shape, "FP32")
            tensor.set_data_from_numpy(array)
            assert client.infer(model, [tensor]).as_numpy("OUT").size == array.size


def used(server: ReferenceServer) -> int:
    return sum(path.stat().st_blocks * 512 for path in Path("/dev/shm").glob(f"{server.region_prefix}*"))


def test_the_figure_is_enough_and_not_much_more(tmp_path: Path) -> None:
    for side in ("real", "ours"):
        for name in LOADS:
            place(tmp_path / side, name)
    predicted, took = {}, {}
    with tritonlab.Server(tmp_path / "ours", model_control_mode="explicit") as ours:
        for name, sizes in LOADS.items():
            model = ours.load(name)
            for size in sizes:
                model(IN=np.zeros(size // 4, np.float32))
            predicted[name] = shm_size(memory_use([ours.core.find(name)], ours.core.gpus))
    with ReferenceServer(tmp_path / "real", tmp_path) as real:
        before = 0
        for name, sizes in LOADS.items():
            infer(real.http, name, sizes)
            took[name], before = used(real) - before, used(real)
    # Triton takes 2 MiB less for "growing" where it has freed a block before the next request needs one
    assert all(took[name] <= predicted[name] <= took[name] + 9 * MIB for name in LOADS), (predicted, took)

    with ReferenceServer(tmp_path / "real", tmp_path, within=within(predicted["large"] // MIB)) as real:
        infer(real.http, "large", LOADS["large"])
    with (
        ReferenceServer(tmp_path / "real", tmp_path, within=within(took["large"] // MIB - 3)) as real,
        pytest.raises(tritonclient.http.InferenceServerException, match="Failed to increase the shared memory pool"),
    ):
        infer(real.http, "large", LOADS["large"])
