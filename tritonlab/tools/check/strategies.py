"""Strategies of hypothesis for the requests of a model, and values drawn from strategies.

hypothesis is optional: a check works without it, unless its author gives strategies.
"""

from __future__ import annotations

import importlib
import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ...core.config.model_config import ModelConfig, from_json, parse_pbtxt, read_config
from ...core.inference.data_type import DataType
from ...core.status import InvalidArgumentError
from ...repository.layout import CONFIG_FILE

#: The most values that are drawn from one strategy at once, before they are reused.
_DRAWN = 200
_MOST_SIZE = 8


def hypothesis_of(what: str) -> Any:
    """Return the module hypothesis. Raises ImportError, whose text explains why it is needed and how to install it."""
    try:
        return importlib.import_module("hypothesis")
    except ModuleNotFoundError:
        sentence = f"{what} needs hypothesis, which is not installed: pip install 'tritonlab[check]'"
        raise ImportError(sentence, name="hypothesis") from None


def requests_for(
    config: str | PathLike[str] | Mapping[str, Any] | ModelConfig,
    *,
    rows: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    **inputs: Any,
) -> Any:
    """Return a strategy of hypothesis for the inputs of requests to a model: dicts of arrays by input name, with the
    batch dimension where the model batches, as `build_request` and `model(**inputs)` take them.

    config: a model directory, the text or the path of a config.pbtxt, or `model.config()`. rows: of each request;
    else 1 to `max_batch_size`, 8 at most. shapes: of inputs with dims of any size, without the batch; otherwise
    all such dims of a request have one size from 1 to 8. inputs: strategies, by input name, for arrays of your own
    making, with the batch dimension. Optional inputs are left out now and then.

    Raises ImportError without hypothesis; ConfigError; InvalidArgumentError for an input that the model does not have.
    """
    hypothesis_of("requests_for")
    strategies: Any = importlib.import_module("hypothesis.strategies")
    message = _message(config)
    names = [one.name for one in message.input]
    for name in (*inputs, *(shapes or ())):
        if name not in names:
            raise InvalidArgumentError(f"'{name}' is not an input of the model; it has {', '.join(names) or 'none'}")
    most = min(int(message.max_batch_size), 8)

    def requests(draw: Any) -> dict[str, Any]:
        count = rows if rows is not None else draw(strategies.integers(1, max(most, 1)))
        size = draw(strategies.integers(1, _MOST_SIZE))
        made = {}
        for one in message.input:
            if one.name in inputs:
                made[one.name] = draw(inputs[one.name])
                continue
            if one.optional and draw(strategies.booleans()):
                continue
            dims = list((shapes or {}).get(one.name, [size if dim < 0 else int(dim) for dim in one.dims]))
            shape = [*([count] if message.max_batch_size > 0 else []), *dims]
            made[one.name] = draw(arrays(DataType(one.data_type), shape))
        return made

    made: Any = strategies.composite(requests)()
    return made


def arrays(datatype: DataType, shape: Sequence[int]) -> Any:
    """Return a strategy for arrays of a datatype and shape: objects of `bytes` for BYTES, bit patterns for BF16."""
    strategies: Any = importlib.import_module("hypothesis.strategies")
    if datatype is DataType.BYTES:
        elements = strategies.text(strategies.characters(codec="utf-8"), max_size=16).map(lambda text: text.encode())
        dtype: np.dtype[Any] = np.dtype(np.object_)
    else:
        dtype = datatype.numpy
        if dtype.kind == "f":
            elements = strategies.floats(-1e3, 1e3, width=16 if dtype.itemsize == 2 else 32)
        elif dtype.kind == "b":
            elements = strategies.booleans()
        else:
            limits: Any = np.iinfo(dtype)
            elements = strategies.integers(int(limits.min), int(limits.max))
    count = int(np.prod(shape, dtype=np.int64))

    def array(values: list[Any]) -> Any:
        made = np.empty(count, dtype)
        made[:] = values
        return made.reshape(tuple(shape))

    return strategies.lists(elements, min_size=count, max_size=count).map(array)


def _message(config: Any) -> ModelConfig:
    if hasattr(config, "SerializeToString"):
        return config
    if isinstance(config, Mapping):
        return from_json(dict(config))
    text = str(config)
    if "\n" not in text and "{" not in text and ":" not in text:
        path = Path(config)
        path = path / CONFIG_FILE if path.is_dir() else path
        path.stat()  # raises for an unknown input
        return read_config(path)
    return parse_pbtxt(text, "the config text")


def drawing(given: Mapping[str, Any] | None, seed: int) -> dict[str, Callable[[], Any]]:
    """Return for each input a function that returns its next value. Each given input has a hypothesis strategy, a
    function of a numpy random generator, or a collection of values.
    """
    return {name: _draw(name, one, seed) for name, one in (given or {}).items()}


def _draw(name: str, given: Any, seed: int) -> Callable[[], Any]:
    if hasattr(given, "example") and hasattr(given, "map"):
        return _cycle(_examples(given, seed))
    if callable(given):
        random = np.random.default_rng(seed)
        return lambda: given(random)
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        return _cycle(list(given))
    kind = type(given).__name__
    wanted = "a strategy of hypothesis, a list of values, or a function of a numpy Generator"
    raise InvalidArgumentError(f"strategies['{name}'] is of type {kind}; give {wanted}")


def _cycle(values: Sequence[Any]) -> Callable[[], Any]:
    if not values:
        raise InvalidArgumentError("a strategy has no values")
    endless = itertools.cycle(values)
    return lambda: next(endless)


def _examples(strategy: Any, seed: int) -> list[Any]:
    """Return values of a strategy; the same seed gives the same values."""
    hypothesis = hypothesis_of("a strategy")
    found: list[Any] = []

    settings = hypothesis.settings(
        max_examples=_DRAWN,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.generate,),
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    def collect(value: Any) -> None:
        found.append(value)

    draw = hypothesis.seed(seed)(settings(hypothesis.given(strategy)(collect)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draw()
    return found
