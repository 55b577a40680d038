"""`OutputReshapes`, which gives an output with a `reshape` in its configuration the clients' shape (rule 5.4.6)."""

from __future__ import annotations

from collections.abc import Sequence

from ..config.model_config import ModelConfig
from .tensor import Tensor


class OutputReshapes:
    """The reshapes of the outputs of one model."""

    def __init__(self, config: ModelConfig) -> None:
        self._batched: bool = config.max_batch_size > 0
        self._reshapes = {
            output.name: (tuple(output.reshape.shape), tuple(output.dims))
            for output in config.output
            if output.HasField("reshape")
        }

    @staticmethod
    def from_config(config: ModelConfig) -> OutputReshapes | None:
        """Return the reshapes of a model; None if no output has one, so that its responses need no check."""
        return OutputReshapes(config) if any(output.HasField("reshape") for output in config.output) else None

    def apply(self, outputs: dict[str, Tensor]) -> None:
        """Change the shapes of a response's outputs in place; no data is copied.

        A shape that does not fit stays unchanged; on Triton it becomes `dims`, or is read from uninitialised memory.
        """
        for name, (pattern, dims) in self._reshapes.items():
            tensor = outputs.get(name)
            if tensor is None:
                continue
            batch, own = (tensor.shape[:1], tensor.shape[1:]) if self._batched else ((), tensor.shape)
            if len(batch) == self._batched and matches(own, pattern):
                tensor.shape = (*batch, *reshaped(own, pattern, dims))


def matches(shape: Sequence[int], dims: Sequence[int]) -> bool:
    """Return whether two shapes agree; -1 in either allows any size, also 0."""
    return len(shape) == len(dims) and all(a == b or -1 in (a, b) for a, b in zip(shape, dims, strict=True))


def reshaped(shape: tuple[int, ...], pattern: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return `dims` with each -1 replaced, in order, by the size that `shape` has where `pattern` has a -1."""
    variable = iter([size for size, rule in zip(shape, pattern, strict=False) if rule == -1])
    return tuple(next(variable, 1) if size == -1 else size for size in dims)
