"""What has to be right on a GPU. Each check takes a bench and raises AssertionError; on a simulated GPU all of them run
wherever the tests do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tritonlab.frontends.shared.cuda_region import ServerGpus
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

from . import models
from .bench import Bench, answer
from .cards import TorchCard, numbers

#: Elements: none, few, more than a page, more than the pool of 64 MB has room for.
_COUNTS = (0, 1, 5, 100_000, 20_000_000)

_CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
from _pb_stub.devices.gpus import CUDA, SIMULATED
driver = SIMULATED if sys.argv[2] == "simulated" else CUDA
address = driver.allocate(0, 1 << 20)
driver.copy_in(0, address, bytes(range(256)) * 4096)
driver.synchronize(0)
print(driver.export(0, address).hex(), flush=True)
sys.stdin.readline()
found = bytearray(8)
driver.copy_out(0, address + 64, found)
print(found.hex(), flush=True)
"""


def there_and_back(bench: Bench) -> None:
    """A tensor goes to a model and comes back on the device, changed by it, whatever its size."""
    model = bench.in_model("add_one", models.ADD_ONE)
    for count in _COUNTS:
        found = answer(model, bench.card.array(numbers(count)))
        assert found.__dlpack_device__() == (2, 0), found
        assert np.array_equal(bench.card.to_host(bench.card.of_answer(found)), numbers(count) + 1), count


def handed_on(bench: Bench) -> None:
    """A model that only hands a tensor on gives back the same values, and what is kept of them stays as it is."""
    model = bench.identity()
    kept = [bench.card.of_answer(answer(model, bench.card.array(numbers(1000) + n))) for n in range(50)]
    for n, array in enumerate(kept):
        assert np.array_equal(bench.card.to_host(array), numbers(1000) + n), n


def forced_to_the_host(bench: Bench) -> None:
    """Inputs are in host memory unless the model wants them on the device."""
    array = bench.card.array(numbers(4))
    assert answer(bench.model("where_there", models.WHERE), array).to_host().numpy().tolist() == [0]
    where_here = bench.model("where_here", models.WHERE, on_device=False)
    assert answer(where_here, array).to_host().numpy().tolist() == [1]


def clients_memory(bench: Bench) -> None:
    """CUDA shared memory of another process is read, written and closed."""
    stub = Path(sys.modules["tritonlab.stub._pb_stub.devices.driver"].__file__ or "").parents[2]
    kind = "simulated" if bench.card.simulated else "real"
    client = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, str(stub), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with client:
        assert client.stdin is not None and client.stdout is not None
        core = bench.server.core
        manager = SharedMemoryManager(True, ServerGpus(core.gpus, core.pool.gpu_buffers))
        manager.register_cuda("r", bytes.fromhex(client.stdout.readline()), 0, 1 << 20)
        assert bytes(manager.read("r", 254, 4)) == bytes([254, 255, 0, 1])
        manager.write("r", 64, b"12345678")
        print(file=client.stdin, flush=True)
        assert bytes.fromhex(client.stdout.readline()) == b"12345678"


def work_under_way(bench: Bench) -> None:
    """What a side stream still writes when the tensor is sent is waited for."""
    card = bench.card
    if not isinstance(card, TorchCard):
        return  # its copies are all in order
    model = bench.in_model("add_one", models.ADD_ONE)
    torch = card.torch
    for n in range(20):
        with torch.cuda.stream(torch.cuda.Stream()):
            array = torch.zeros(4_000_000, device="cuda")
            for _ in range(20):
                array += n
            found = card.of_answer(answer(model, array))
            assert bool((found == 20 * n + 1).all()), n


CHECKS: tuple[Callable[[Bench], None], ...] = (
    there_and_back,
    handed_on,
    forced_to_the_host,
    clients_memory,
    work_under_way,
)
