"""`Copies`, which brings tensors from GPUs to the host, and reports the copies of each request to the hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..clock import Clock
from ..observe.instrument import Instruments
from .infer_request import InferenceRequest
from .tensor import Tensor


class Copies:
    """The copies between the host and GPUs. Requests without tensors in the memory of GPUs do not come here."""

    def __init__(self, instruments: Instruments, clock: Clock) -> None:
        self._instruments = instruments
        self._clock = clock

    def to_host(self, request: InferenceRequest, tensor: Tensor) -> Tensor:
        """Return the tensor in host memory: itself, or a copy. Raises InternalError."""
        found = tensor.to_host()
        if found is not tensor:
            self.tell_to_host(request, tensor)
        return found

    def tell_inputs(self, requests: Sequence[InferenceRequest]) -> None:
        """Report that the inputs of these requests that are on a GPU were copied to the host."""
        for request in requests:
            for tensor in request.inputs.values():
                if tensor.memory_type:
                    self.tell_to_host(request, tensor)

    def tell_moved(self, request: InferenceRequest, before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> None:
        """Report the tensors of a request that were moved between the host and a GPU."""
        for name, tensor in after.items():
            was = before[name]
            if was.memory_type and not tensor.memory_type:
                self.tell_to_host(request, was)
            elif tensor.memory_type and not was.memory_type:
                memory: Any = tensor.data
                self.tell(request, tensor.device_id, to_device=was.byte_size, simulated=memory.driver.simulated)

    def tell_to_host(self, request: InferenceRequest, tensor: Tensor) -> None:
        """Report that a tensor on a GPU was copied to the host."""
        memory: Any = tensor.data
        self.tell(request, tensor.device_id, to_host=tensor.byte_size, simulated=memory.driver.simulated)

    def tell(
        self, request: InferenceRequest, device: int, *, to_device: int = 0, to_host: int = 0, simulated: bool
    ) -> None:
        """Report how many bytes of a request's tensors were copied from the host to a GPU, or back."""
        hook = self._instruments.bytes_copied
        if hook is not None and (to_device or to_host):
            hook(request.model_name, request.serial, device, to_device, to_host, simulated, self._clock.now())
