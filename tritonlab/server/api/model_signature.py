"""The call of a model for Python: `inspect.signature`, help and completion list the inputs with datatypes and
shapes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Any, TypeVar

from ...core.inference.data_type import DataType
from ...core.status import TritonError

Function = TypeVar("Function", bound=Callable[..., Any])


class PlainText(str):
    """A text that a signature shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


_OPTIONAL = PlainText("optional")


def shape_text(dims: Sequence[int], max_batch_size: int, limit: bool = True) -> str:
    """Return a client's shape for `dims` of the config, such as `[batch ≤ 8, 3, any]`, or `[batch, 3, any]` without the
    limit.
    """
    batch = [f"batch ≤ {max_batch_size}" if limit else "batch"] if max_batch_size > 0 else []
    return "[" + ", ".join(batch + ["any" if dim < 0 else str(dim) for dim in dims]) + "]"


def tensors_of(config: Mapping[str, Any], key: str) -> Iterator[tuple[str, PlainText, bool]]:
    """Return (name, `FP32[batch ≤ 8, 4]`, whether it is optional) for each `input` or `output` of the config."""
    for tensor in config[key]:
        datatype = DataType.from_config_name(tensor["data_type"]).name
        shape = shape_text(tensor["dims"], config["max_batch_size"], limit=key == "input")
        yield str(tensor["name"]), PlainText(datatype + shape), bool(tensor.get("optional"))


def is_keyword_name(name: str) -> bool:
    """Return whether `model(name=…)` can be written with this name."""
    return name.isidentifier() and not iskeyword(name)


def call_signature(config: Mapping[str, Any]) -> inspect.Signature:
    """Return a signature with the inputs as keyword-only parameters; inputs whose names are not identifiers go into
    `**inputs`.
    """
    tensors = list(tensors_of(config, "input"))
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_OPTIONAL if optional else inspect.Parameter.empty,
            annotation=text,
        )
        for name, text, optional in tensors
        if is_keyword_name(name)
    ]
    if len(parameters) < len(tensors):
        rest = "inputs"
        while any(rest == name for name, *_ in tensors):
            rest += "_"
        parameters.append(inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD))
    answer = ", ".join(f"{name}: {text}" for name, text, _ in tensors_of(config, "output"))
    return inspect.Signature(parameters, return_annotation=PlainText(f"{{{answer}}}"))


def call_help(name: str, config: Mapping[str, Any]) -> str:
    """Return the help text of a model: its call, its inputs and its outputs."""
    inputs, outputs = list(tensors_of(config, "input")), list(tensors_of(config, "output"))
    required = [f"{tensor}=…" for tensor, _, optional in inputs if not optional and is_keyword_name(tensor)]
    odd = [f"{tensor!r}: …" for tensor, _, optional in inputs if not optional and not is_keyword_name(tensor)]
    arguments = ", ".join([*required, *([f"**{{{', '.join(odd)}}}"] if odd else [])])
    variable = name if is_keyword_name(name) else "model"
    if config.get("model_transaction_policy", {}).get("decoupled"):
        sent = ", ".join(f"{tensor!r}: …" for tensor, _, optional in inputs if not optional)
        use = f"for response in {variable}.infer(inputs={{{sent}}}): …    (decoupled: any number of responses)"
    else:
        use = f"{variable}({arguments})" + (f"[{outputs[0][0]!r}]" if outputs else "")
    width = max((len(tensor) for tensor, *_ in (*inputs, *outputs)), default=0)
    lines = [
        f"{role}  {tensor:<{width}}  {text}" + ("  optional" if optional else "")
        for role, tensors in (("send", inputs), ("get ", outputs))
        for tensor, text, optional in tensors
    ]
    return "\n".join([f"The model '{name}'.", "", use, "", *lines])


class SignatureOfModel:
    """`Model.__signature__`: the signature of a handle's model; none on the class."""

    def __get__(self, model: Any, owner: type[Any]) -> inspect.Signature:
        if model is None:
            raise AttributeError("__signature__")
        try:
            return call_signature(model.config())
        except TritonError:  # not loaded
            return inspect.Signature([inspect.Parameter("inputs", inspect.Parameter.VAR_KEYWORD)])


class HelpOfModel:
    """`Model.__doc__`: the help of a handle's model; on the class the text `about`."""

    def __init__(self, about: str | None) -> None:
        self._about = about

    def __get__(self, model: Any, owner: type[Any]) -> str | None:
        if model is not None:
            try:
                return call_help(model.name, model.config())
            except TritonError:  # not loaded
                pass
        return self._about


def with_field_parameters(fields: type[Any]) -> Callable[[Function], Function]:
    """Give a function with `**fields: Unpack[fields]` a signature with one parameter for each field, for help and
    completion.
    """

    def mark(function: Function) -> Function:
        own = inspect.signature(function)
        parameters = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=PlainText("…"),
                annotation=PlainText(getattr(annotation, "__forward_arg__", annotation)),
            )
            for name, annotation in fields.__annotations__.items()
        ]
        function.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return mark
