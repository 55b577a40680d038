"""The parts that captured requests of HTTP and gRPC have in common: choice, memory, and inputs that no proxy sees."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.config.model_config import ModelConfig, from_json
from ....core.inference.data_type import DataType
from ....core.inference.infer_request import InferenceRequest
from ....core.inference.tensor import Tensor
from ....core.short_number import mib_text
from ....core.status import TritonError
from ....exchanges.remote.http_link import HttpLink
from ....exchanges.remote.transport import Transport
from ....frontends.shared.request_memory import HeldMemory, RequestMemory
from ....frontends.shared.shared_memory_manager import SharedMemoryManager
from ..capture_file import Withheld
from ..capture_writer import CaptureWriter

#: The most bytes of one message. All that are under way may take twice as many.
MOST_MESSAGE = 256 << 20
#: The reasons for which requests are lost here.
BEHIND = "came faster than the tap could read them"
TOO_LARGE = f"larger than {mib_text(MOST_MESSAGE)}"
NO_ROOM = "no memory was left for requests under way"
#: Seconds to wait for a model's description, and until it is asked for again after a failure.
_ASK_SECONDS, _ASK_AGAIN = 3.0, 30.0


class CaptureSink:
    """The receiver of requests as connections read them.

    began: the start of the capture, in nanoseconds of the monotonic clock
    """

    def __init__(self, writer: CaptureWriter, began: int) -> None:
        self.writer = writer
        self.began = began
        self.memory = RequestMemory(MOST_MESSAGE)
        #: whether the copies wait so long that requests are only counted
        self.is_behind = False
        #: by address of a server
        self.models: dict[str, UpstreamModels] = {}
        #: connections that cannot be read, by reason
        self.unread: Counter[str] = Counter()

    def chooses(self, at: int, read: Callable[[], InferenceRequest] | None) -> bool:
        """Return whether a request is kept, and count it if not. `read`: reads it; None if it is of no sequence."""
        if self.is_behind:
            self.writer.leave_out(BEHIND)
            return False
        return self.writer.chooses(at - self.began, read() if read is not None else None)


class UnseenRegions(SharedMemoryManager):
    """The shared memory of clients, of which a proxy sees the names alone. An input in it is empty."""

    def __init__(self) -> None:
        super().__init__(allowed=True)
        self._unseen: list[Tensor] = []

    def tensor(
        self, place: tuple[str, int, int], datatype: DataType, shape: tuple[int, ...], held: list[HeldMemory]
    ) -> Tensor:
        tensor = Tensor(datatype, shape, np.empty(0, np.uint8))
        self._unseen.append(tensor)
        return tensor

    def check(self, name: str, offset: int, byte_size: int) -> None:
        """Accept any region."""

    def withhold(self, request: InferenceRequest, withheld: dict[str, Withheld]) -> str:
        """Move inputs in shared memory from `request` to `withheld`, and return why it cannot be sent again."""
        unseen, self._unseen = self._unseen, []
        names = [name for name, tensor in request.inputs.items() if any(tensor is each for each in unseen)]
        for name in names:
            tensor = request.inputs.pop(name)
            withheld[f"input.{name}"] = Withheld("dropped", tensor.datatype.name, tensor.shape)
        return f"input '{names[0]}' was in the client's shared memory, which a proxy does not see" if names else ""


class UpstreamModels:
    """The descriptions of a server's models, for requests that only they explain. Each is asked for once, over HTTP."""

    def __init__(self, address: str) -> None:
        self._link = HttpLink(Transport(address, timeout=_ASK_SECONDS))
        self._found: dict[tuple[str, str, str], Any] = {}
        self._failed: dict[tuple[str, str, str], float] = {}

    def metadata(self, model: str, version: str) -> dict[str, Any] | None:
        """Return the model's metadata; None if the server does not return it."""
        found: dict[str, Any] | None = self._ask("metadata", model, version)
        return found

    def config(self, model: str, version: str) -> ModelConfig | None:
        """Return the model's configuration; None if the server does not return it."""
        found = self._ask("config", model, version)
        return None if found is None else from_json(found)

    def _ask(self, kind: str, model: str, version: str) -> Any:
        key = kind, model, version
        if key not in self._found:
            if time.monotonic() - self._failed.get(key, -_ASK_AGAIN) < _ASK_AGAIN:
                return None
            try:
                self._found[key] = getattr(self._link, kind)(model, version)
            except (TritonError, ValueError, OSError):
                self._failed[key] = time.monotonic()
                return None
        return self._found[key]
