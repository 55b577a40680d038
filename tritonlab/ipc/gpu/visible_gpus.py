"""The GPUs that a server's instances may be placed on: this machine's, or simulated ones.

They are listed once per server, when a configuration first needs them. This process must not load CUDA for that: its
forks could not use CUDA any more. So a separate process calls NVIDIA's driver, and only if there is one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from ...core.status import InvalidArgumentError
from ...stub._pb_stub.devices.driver import DeviceFacts, Driver
from ...stub._pb_stub.devices.gpus import CUDA, SIMULATED
from ...stub._pb_stub.devices.simulated_driver import held_by
from ..processes.interpreter import STUB
from .nvml import Nvml

#: The driver's files of the GPUs; Windows' subsystem for Linux has one file for all.
_CARDS = (Path("/proc/driver/nvidia/gpus"), Path("/dev/dxg"))
#: Triton's least compute capability.
_COMPUTE = (6, 0)
_SECONDS = 60.0
#: Prints the devices, or why there are none.
_ASK = """
import json, sys
sys.path.insert(0, sys.argv[1])
from _pb_stub.devices.driver import DriverError
from _pb_stub.devices.gpus import CUDA
try:
    print(json.dumps([CUDA.devices(), ""]))
except DriverError as error:
    print(json.dumps([[], str(error)]))
"""


class VisibleGpus:
    """The GPUs of one server. `simulated`: how many to simulate instead of using this machine's; 0 for none. `warn`
    gets the reason why the driver shows no GPU. Raises InvalidArgumentError for a number out of range.
    """

    def __init__(self, simulated: int = 0, warn: Callable[[str], None] = lambda text: None) -> None:
        most = len(SIMULATED.devices())
        if not 0 <= simulated <= most:
            raise InvalidArgumentError(f"simulated_gpus is {simulated}, expected 0 to {most}")
        self.simulated = simulated > 0
        self._count = simulated
        self._warn = warn

    @cached_property
    def all(self) -> tuple[DeviceFacts, ...]:
        """The GPUs, in the order of their ordinals."""
        if self._count:
            return tuple(SIMULATED.devices()[: self._count])
        if not any(path.exists() for path in _CARDS):
            return ()
        devices, why = query_driver()
        if why:
            self._warn(f"no GPU is used: {why}")
        return tuple(device for device in devices if device.compute >= _COMPUTE)

    @cached_property
    def ordinals(self) -> tuple[int, ...]:
        return tuple(gpu.ordinal for gpu in self.all)

    @property
    def driver(self) -> Driver:
        """The driver that reads and writes the memory of these GPUs."""
        return SIMULATED if self.simulated else CUDA

    def uuid(self, ordinal: int) -> str:
        """Return the UUID of a GPU; "" if there is no such GPU."""
        return next((gpu.uuid for gpu in self.all if gpu.ordinal == ordinal), "")

    def held(self, pid: int) -> dict[int, int]:
        """Return the bytes of memory that a process has on each GPU, by ordinal, as far as the driver shows them."""
        if self.simulated:
            return held_by(pid)
        if not self.all or self._nvml is None:
            return {}
        by_uuid = self._nvml.held(pid)
        return {gpu.ordinal: by_uuid[gpu.uuid] for gpu in self.all if gpu.uuid in by_uuid}

    @cached_property
    def _nvml(self) -> Nvml | None:
        return Nvml.load()


def query_driver() -> tuple[list[DeviceFacts], str]:
    """Return the devices of NVIDIA's driver as a new process sees them, or the reason why there are none."""
    command = [sys.executable, "-c", _ASK, str(STUB.parent)]
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    try:
        # in a session of its own: an interrupt of a cell must not look like a machine without a GPU
        done = subprocess.run(command, **pipes, timeout=_SECONDS, start_new_session=True)
        rows, why = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], str(error)
    except ValueError:  # the driver has ended the process
        return [], done.stderr.strip() or f"the process that queried the driver ended with status {done.returncode}"
    devices = [
        DeviceFacts(ordinal, uuid, name, total_bytes=total, compute=(major, minor), simulated=simulated)
        for ordinal, uuid, name, total, (major, minor), simulated in rows
    ]
    return devices, str(why)
