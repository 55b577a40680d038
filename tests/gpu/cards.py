"""GPUs as the checks and measurements see them: what makes arrays on one, and how much of it is used."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tritonlab.stub._pb_stub.api.simulated_array import SimulatedArray
from tritonlab.stub._pb_stub.devices.driver import Driver
from tritonlab.stub._pb_stub.devices.gpus import CUDA, SIMULATED


class Card(Protocol):
    """A GPU that makes and reads FP32 arrays."""

    #: stands beside each figure
    name: str
    simulated: bool
    driver: Driver
    #: Python text of a model's process: `of(tensor)` makes an array of a tensor there, `ones(count)` a new one
    in_model: str

    def array(self, values: Any) -> Any:
        """Return an array on the device with the values of a numpy array."""

    def of_answer(self, tensor: Any) -> Any:
        """Return an array over an output that is on the device, without a copy."""

    def to_host(self, array: Any) -> Any:
        """Return a numpy array."""

    def clone(self, array: Any) -> Any: ...

    def synchronize(self) -> None:
        """Wait until the device has finished its work."""

    def used(self) -> int:
        """Return the bytes in use, of a real GPU by all processes."""


class TorchCard:
    """GPU 0 through torch."""

    simulated = False
    driver: Driver = CUDA
    in_model = """
import torch

of = torch.from_dlpack


def ones(count):
    return torch.ones(count, device="cuda")
"""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.name = str(torch.cuda.get_device_name(0))

    def array(self, values: Any) -> Any:
        return self.torch.from_numpy(values).cuda()

    def of_answer(self, tensor: Any) -> Any:
        return self.torch.from_dlpack(tensor)

    def to_host(self, array: Any) -> Any:
        return array.cpu().numpy()

    def clone(self, array: Any) -> Any:
        return array.clone()

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    def used(self) -> int:
        free, total = self.torch.cuda.mem_get_info()
        return int(total - free)


class SimulatedCard:
    """A simulated GPU: the code of checks and measurements is tried with it where there is no card. Its figures say
    nothing about any."""

    simulated = True
    driver: Driver = SIMULATED
    name = "a simulated GPU, which says nothing about speed"
    in_model = """
import numpy as np
from _pb_stub.api.simulated_array import SimulatedArray


class Array(SimulatedArray):
    def __add__(self, number):
        return Array(self.numpy() + number)


of = Array.from_dlpack


def ones(count):
    return Array(np.ones(count, np.float32))
"""

    def array(self, values: Any) -> Any:
        return SimulatedArray(values)

    def of_answer(self, tensor: Any) -> Any:
        return SimulatedArray.from_dlpack(tensor)

    def to_host(self, array: Any) -> Any:
        return array.numpy()

    def clone(self, array: Any) -> Any:
        return SimulatedArray(array.numpy())

    def synchronize(self) -> None:
        SIMULATED.synchronize(0)

    def used(self) -> int:
        return SIMULATED.devices()[0].total_bytes - SIMULATED.free_bytes(0)


def without_card() -> str:
    """Return why nothing can be measured here; an empty text where a card is."""
    if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg")):
        return "this machine has no GPU"
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed here"
    if not importlib.import_module("torch").cuda.is_available():
        return "there is no GPU here that torch can use"
    return ""


def card() -> TorchCard:
    """Return the card of this machine; call `without_card` first."""
    return TorchCard(importlib.import_module("torch"))


def numbers(count: int) -> Any:
    return np.arange(count, dtype=np.float32)
