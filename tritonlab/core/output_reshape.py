"""An output whose configuration has a `reshape` gets its client-side shape here (rule 5.4.6)."""

from __future__ import annotations

from .model_config import ModelConfig
from .tensor import Tensor


class OutputReshapes:
    """Reshapes the outputs of one model that have a `reshape`."""

    def __init__(self, config: ModelConfig) -> None:
        self._batched: bool = config.max_batch_size > 0
        self._of = {
            output.name: (tuple(output.reshape.shape), tuple(output.dims))
            for output in config.output
            if output.HasField("reshape")
        }

    @staticmethod
    def of(config: ModelConfig) -> OutputReshapes | None:
        """None where no output has one: most responses need not be looked at."""
        return OutputReshapes(config) if any(output.HasField("reshape") for output in config.output) else None

    def apply(self, outputs: dict[str, Tensor]) -> None:
        """Gives the outputs of a response their shapes; no data is copied.

        A shape that does not fit stays as it is: Triton puts `dims` there, or what its memory holds.
        """
        for name, (given, dims) in self._of.items():
            tensor = outputs.get(name)
            if tensor is None:
                continue
            batch, own = (tensor.shape[:1], tensor.shape[1:]) if self._batched else ((), tensor.shape)
            if len(batch) == self._batched and matches(own, given):
                tensor.shape = (*batch, *reshaped(own, given, dims))


def matches(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Whether a tensor of `shape` fits `dims`, -1 being any size."""
    return len(shape) == len(dims) and all(wanted in (-1, size) for size, wanted in zip(shape, dims, strict=True))


def reshaped(shape: tuple[int, ...], given: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """A `shape` that fits `given` as `dims` have it: variable sizes carry over in their order."""
    variable = iter([size for size, rule in zip(shape, given, strict=True) if rule == -1])
    return tuple(next(variable, 1) if size == -1 else size for size in dims)
