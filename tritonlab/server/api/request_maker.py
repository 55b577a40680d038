"""A request made from the values of a caller in this process: lists, arrays, torch tensors."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import ParameterValue
from ...core.inference.tensor import Tensor
from ...core.status import InvalidArgumentError
from ...core.unknown_option import did_you_mean
from .request_check import OWN_FIELDS, check_fields


class RequestFields(TypedDict, total=False):
    """The fields of a request, as keyword arguments.

    `inputs`: anything `Tensor.from_any` takes, by name: arrays, torch tensors, lists, text. `timeout`: microseconds, 0
    for none. `priority`: 0 for the model's default. `requested_outputs`: empty for all.
    """

    inputs: Mapping[str, Any]
    request_id: str
    correlation_id: int | str
    flags: int
    priority: int
    timeout: int
    parameters: dict[str, ParameterValue]
    requested_outputs: Sequence[str]


def make_tensors(inputs: Mapping[str, Any], types: Mapping[str, DataType]) -> dict[str, Tensor]:
    """Make the tensors of a request. `types` are the datatypes of the model's inputs, by name. Raises
    InvalidArgumentError for a value that cannot become a tensor.
    """
    from_numpy, from_any, tensors = Tensor.from_numpy, Tensor.from_any, {}
    try:
        for name, value in inputs.items():
            # usually an array, which needs no further checks
            tensors[name if type(name) is str else _plain(name)] = (
                from_numpy(value) if type(value) is np.ndarray else from_any(value, types.get(name, DataType.INVALID))
            )
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"input '{name}': {error.message}") from error
    return tensors


def _plain(name: Any) -> Any:
    """Return a name of a subclass of `str` as a plain text; see `check_fields`."""
    return str.__str__(name) if isinstance(name, str) else name


def make_request(
    model: str, version: int, types: Mapping[str, DataType], fields: RequestFields, casts: set[tuple[str, str]]
) -> InferenceRequest:
    """Make a request of `fields` for a model. `casts` are the inputs with an earlier warning. Raises
    InvalidArgumentError.
    """
    values = fields.get("inputs", {})
    inputs = make_tensors(values, types)
    for name, value in values.items():
        if isinstance(value, (list, tuple)) and (model, name) not in casts:
            text = _cast(value, inputs[name].datatype)
            if text:
                casts.add((model, name))  # a loop over lists must not fill the notebook
                # the caller of `Model`'s create_request, infer or async_infer
                warnings.warn(f"input '{name}' of model '{model}': {text}", stacklevel=4)
    rest: dict[str, Any] = {name: value for name, value in fields.items() if name != "inputs"}
    if rest and not rest.keys() <= RequestFields.__annotations__.keys():
        raise _no_fields(rest.keys() - RequestFields.__annotations__.keys(), types)
    request = InferenceRequest(model, inputs, model_version=version, **rest)
    if rest:
        check_fields(request)
    return request


def _no_fields(names: Iterable[str], inputs: Mapping[str, DataType]) -> InvalidArgumentError:
    """Return the error of a call with keywords that are not fields of a request, mostly names of its inputs."""
    given_inputs = [name for name in names if name in inputs]
    if given_inputs:
        form = ", ".join(f"{name!r}: …" for name in sorted(given_inputs))
        return InvalidArgumentError(f"the inputs go into one dict: inputs={{{form}}}")
    name, known = min(names), ", ".join(RequestFields.__annotations__)
    meant = did_you_mean(name, RequestFields.__annotations__)
    advice = f"write {OWN_FIELDS[name]}; it has {known}" if name in OWN_FIELDS else meant or f"it has {known}"
    return InvalidArgumentError(f"a request has no field {name!r}: {advice}")


def _cast(value: Any, datatype: DataType) -> str:
    """Return the warning for a list that was cast to another datatype than Triton's in-process API would use."""
    plain = DataType.from_numpy(np.asarray(value).dtype)
    if plain is datatype:
        return ""
    return (
        f"a {type(value).__name__} is cast to {datatype.name} here, but Triton refuses it, because it is {plain.name}; "
        "send an array"
    )


def smallest_shapes(config: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return shapes, without the batch dimension, for the inputs of a config with variable dimensions; each of these
    dimensions is 1."""
    return {
        described["name"]: [max(int(dim), 1) for dim in described["dims"]]
        for described in config.get("input", ())
        if any(int(dim) < 0 for dim in described["dims"]) and not described.get("optional")
    }
