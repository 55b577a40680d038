"""The texts of streams, as they came: a text for each response, with its time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.inference.data_type import DataType
from ..core.inference.tensor import Tensor

#: How many streams of a model keep their text, and of each how many responses and bytes. More streams at once, as in a
#: load test, keep none.
STREAMS, RESPONSES, SIZE = 12, 2_000, 64 << 10
#: The output with the text, by the convention of vLLM's and TensorRT-LLM's backends.
_USUAL = "text_output"
_BYTES = DataType.BYTES


@dataclass(slots=True, eq=False)
class StreamText:
    """The text of one stream. A time is nanoseconds of the server's monotonic clock; `ended` is 0 for an open stream.

    `chunks`: (time, the wire form of the output) of each response that is not empty. `is_cut`: whether later ones are
    not kept.
    """

    serial: int
    arrived: int
    output: str
    chunks: list[tuple[int, bytes]] = field(default_factory=list)
    size: int = 0
    is_cut: bool = False
    ended: int = 0

    def take(self, outputs: Mapping[str, Tensor], now: int) -> None:
        """Keep the text of a response."""
        tensor = outputs.get(self.output)
        if tensor is None or tensor.datatype is not _BYTES or tensor.memory_type:
            return
        self.size += tensor.byte_size
        if self.size > SIZE or len(self.chunks) >= RESPONSES:
            self.is_cut = True
        if not self.is_cut:
            self.chunks.append((now, tensor.data.tobytes()))  # a copy: the memory is the model's


class StreamTexts:
    """The texts of the last streams of a model, oldest first. The record's lock guards it."""

    def __init__(self) -> None:
        self.kept: deque[StreamText] = deque(maxlen=STREAMS)
        self._open = 0

    def begin(self, serial: int, arrived: int, outputs: Mapping[str, Tensor]) -> StreamText | None:
        """Return the text of a new stream, by the outputs of its first response; None if there is none to keep."""
        names = [name for name, tensor in outputs.items() if tensor.datatype is _BYTES]
        if not names or self._open >= STREAMS:
            return None
        text = StreamText(serial, arrived, _USUAL if _USUAL in names else names[0])
        self._open += 1
        self.kept.append(text)
        return text

    def end(self, text: StreamText, now: int) -> None:
        text.ended = now
        self._open -= 1
