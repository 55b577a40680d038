"""The rows of a Ray dataset through a model, without a server in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray.data
from numpy.typing import NDArray

from ..core.inference.data_type import DataType
from ..core.inference.infer_response import InferenceResponse
from ..core.status import InvalidArgumentError, TritonError
from ..server.api.model import Model
from ..server.api.server import Server

Columns = dict[str, NDArray[Any]]


def map_batches(
    dataset: Any,
    model: str | Path,
    *,
    batch_size: int = 256,
    columns: Mapping[str, str] | None = None,
    error_column: str = "error",
    num_cpus: float = 1,
    num_gpus: float = 0,
    concurrency: int | tuple[int, int] = 1,
) -> Any:
    """Return the dataset with the outputs of a model as further columns, in the order of its rows.

    Each row is one element of the batch dimension; a model without one gets a request for each row. An output that the
    config declares with one element (`dims: [ 1 ]`) is a column of plain values, any other one a column of arrays, or
    of lists if it has texts.

    A row for which the model fails is kept: `error_column` has the text, empty for all others, and its outputs are NaN,
    zero or empty. If a request of several rows fails, each of them is sent again on its own.

    Args:
        dataset: a Ray dataset.
        model: the model's directory, as `models/digits`, which every node has.
        batch_size: the rows that a process gets at once.
        columns: the column of each input, where their names differ; numbers are sent in the precision of the input, as
            data sets often have 64 bits.
        error_column: the name of the column for errors.
        num_cpus: the CPUs of each process.
        num_gpus: the GPUs of each process.
        concurrency: how many processes have the model loaded, or the least and the most.

    Raises InvalidArgumentError for a model that sends several responses or keeps sequences, when the first block runs.
    """
    directory = Path(model).absolute()
    least, most = concurrency if isinstance(concurrency, tuple) else (concurrency, concurrency)
    dataset.context.execution_options.preserve_order = True
    return dataset.map_batches(
        ModelRows,
        fn_constructor_kwargs={
            "directory": str(directory),
            "columns": dict(columns or {}),
            "error_column": error_column,
        },
        batch_size=batch_size,
        batch_format="numpy",
        zero_copy_batch=True,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
    )


class ModelRows:
    """The model of one process of Ray Data, and the call that adds columns to a block of columns."""

    def __init__(self, directory: str, columns: Mapping[str, str], error_column: str = "error") -> None:
        path = Path(directory)
        self._server = Server(path.parent, model_control_mode="explicit", startup_models=(path.name,), warm=0)
        self._model: Model = self._server.model(path.name)
        config = self._model.config()
        self._batch = int(config.get("max_batch_size", 0))
        self._inputs = {each["name"]: columns.get(each["name"], each["name"]) for each in config["input"]}
        self._optional = {each["name"] for each in config["input"] if each.get("optional")}
        self._dtypes = {each["name"]: _dtype_of(each) for each in config["input"]}
        self._outputs = {each["name"]: each for each in config["output"]}
        self._error_column = error_column
        try:
            _check(path.name, config)
        except BaseException:
            self._server.stop()
            raise

    def __call__(self, batch: Columns) -> Columns:
        missing = [
            f"'{column}' for the input '{name}'"
            for name, column in self._inputs.items()
            if column not in batch and name not in self._optional
        ]
        if missing:
            raise InvalidArgumentError(f"the dataset has no column {', '.join(missing)}; `columns` names another")
        rows = len(next(iter(batch.values())))
        inputs = {name: batch[column] for name, column in self._inputs.items() if column in batch}
        sent = list(self._send(inputs, rows))
        found: list[Columns | str] = [""] * rows
        for start, stop, answer in sent:
            for row, value in enumerate(self._rows(inputs, start, stop, answer), start):
                found[row] = value
        return {**batch, **self._joined(found)}

    def _send(self, inputs: Columns, rows: int) -> Iterator[tuple[int, int, Any]]:
        """Start the requests of all rows, each with as many rows as the model takes."""
        step = max(self._batch, 1)
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            yield start, stop, self._start(inputs, start, stop)

    def _start(self, inputs: Columns, start: int, stop: int) -> Any:
        """Return the pending responses, or the error of a request that was refused at once."""
        try:
            tensors = {name: self._tensor(name, column[start:stop]) for name, column in inputs.items()}
            return self._model.infer(inputs=tensors, raise_on_error=False)
        except (TritonError, ValueError) as error:
            return error

    def _tensor(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values in the input's form: numbers in the precision that the model declares."""
        if values.dtype.kind in "US":
            values = values.astype(object)
        elif values.dtype == object and len(values) and isinstance(values[0], np.ndarray):
            values = np.stack(list(values))
        if values.dtype != (dtype := self._dtypes[name]) and np.can_cast(values.dtype, dtype, "same_kind"):
            values = values.astype(dtype)
        if not self._batch:
            return np.atleast_1d(values[0])
        return values[:, np.newaxis] if values.ndim == 1 else values

    def _rows(self, inputs: Columns, start: int, stop: int, answer: Any) -> Iterator[Columns | str]:
        """Yield the outputs of each row, or the text of its error."""
        error, outputs = _outcome(answer)
        if error and stop - start > 1:
            for row in range(start, stop):
                yield from self._rows(inputs, row, row + 1, self._start(inputs, row, row + 1))
        elif error:
            yield error
        else:
            for row in range(stop - start):
                yield {name: value[row] if self._batch else value for name, value in outputs.items()}

    def _joined(self, found: Sequence[Columns | str]) -> Columns:
        joined: Columns = {}
        for name, declared in self._outputs.items():
            right = [np.asarray(row[name]) for row in found if not isinstance(row, str)]
            empty = _empty(declared, right)
            values = [np.asarray(row[name]) if not isinstance(row, str) else empty for row in found]
            joined[name] = _column(values, is_plain=all(int(size) == 1 for size in declared["dims"]))
        texts = [row if isinstance(row, str) else "" for row in found]
        joined[self._error_column] = np.array(texts, dtype=object)
        return joined


def _check(name: str, config: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError for a model that cannot receive rows of a dataset."""
    if config.get("model_transaction_policy", {}).get("decoupled"):
        raise InvalidArgumentError(f"the model '{name}' sends any number of responses, and a row has room for one")
    if "sequence_batching" in config:
        raise InvalidArgumentError(
            f"the model '{name}' keeps sequences, and rows are spread over processes; a sequence needs one server"
        )


def _outcome(answer: Any) -> tuple[str, Columns]:
    """Return the error text of a request, empty if there is none, and its outputs."""
    if isinstance(answer, Exception):
        return str(answer), {}
    responses: list[InferenceResponse] = list(answer)
    if len(responses) != 1:
        return f"expected a single response, got {len(responses)}", {}
    if responses[0].error is not None:
        return responses[0].error.message, {}
    return "", {name: tensor.numpy() for name, tensor in responses[0].outputs.items()}


def _empty(declared: Mapping[str, Any], right: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the substitute for an output of a failed row: similar to the outputs of other rows, or by the config's
    declaration."""
    dtype = _dtype_of(declared)
    shape = right[0].shape if right else tuple(max(int(n), 0) for n in declared["dims"])
    if dtype.kind == "O":
        return np.full(shape, b"", dtype=object)
    return np.full(shape, np.nan if np.issubdtype(dtype, np.floating) else 0, dtype)


def _dtype_of(declared: Mapping[str, Any]) -> np.dtype[Any]:
    return DataType.from_config_name(str(declared["data_type"])).numpy


def _column(values: Sequence[NDArray[Any]], *, is_plain: bool) -> NDArray[Any]:
    """Return one column. Only the config decides whether it has plain values: Ray cannot join blocks of a dataset if
    some have arrays and others do not."""
    if is_plain and all(value.size == 1 for value in values):
        return np.concatenate([value.reshape(-1) for value in values])
    if values[0].dtype.kind != "O" and len({value.shape for value in values}) == 1:
        return np.stack(values)
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):  # given all values at once, numpy would look into the arrays
        column[row] = value.tolist() if value.dtype.kind == "O" else value
    return column
