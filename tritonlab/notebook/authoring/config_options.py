"""The parts of a model configuration that fit in one line: the options of `%%triton_model` and of `tritonlab.load`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from ...core.config.model_config import ModelConfig, with_only
from ...core.inference.data_type import DataType
from ...core.unknown_option import UnknownOption
from .config_text import ConfigText
from .errors import OptionError

KINDS = ("auto", "cpu", "gpu", "model")
#: The arguments of `load` that are not options of the config.
LOAD_ARGUMENTS = ("config", "files", "version", "base", "sample")

_TENSOR = re.compile(r"^(?P<name>.+?):(?P<type>\w+)\[(?P<dims>[-\d,\s]*)\](?P<optional>\??)$")


@dataclass(frozen=True)
class ConfigOptions:
    """The part of a config that is set by options. `None` and empty values add nothing to it.

    gpus: numbers of GPUs, each of which gets that many instances; without `kind` they mean "gpu". dynamic_batching:
    True, or the maximal queue delay in microseconds. inputs, outputs: `NAME:FP32[-1,4]`, dims as in config.pbtxt, so
    without the batch dimension of a batching model; a `?` at the end makes an input optional. Raises OptionError for a
    value that no config can hold.
    """

    max_batch_size: int | None = None
    instances: int | None = None
    kind: str | None = None
    gpus: Sequence[int] = ()
    dynamic_batching: bool | int | None = None
    preferred_batch_size: Sequence[int] = ()
    decoupled: bool | None = None
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _is_number(self.max_batch_size, 0):
            text = f"max_batch_size must be 0 (the model does not batch) or more, not {self.max_batch_size!r}"
            raise OptionError(text)
        if not _is_number(self.instances, 1):
            raise OptionError(f"instances must be 1 or more, not {self.instances!r}")
        if self.kind is not None and self.kind not in KINDS:
            raise OptionError(f"kind must be one of {', '.join(KINDS)}, not {self.kind!r}")
        for gpu in self.gpus:
            if not _is_number(gpu, 0):
                raise OptionError(f"gpus are numbers from 0, not {gpu!r}")
        if not _is_number(self.dynamic_batching, 0):
            raise OptionError(f"the delay of dynamic batching is 0 microseconds or more, not {self.dynamic_batching!r}")
        if self.inputs or self.outputs:
            _ = self._tensors  # is read here, before the model's draft remembers it

    @staticmethod
    def from_keywords(**options: Any) -> ConfigOptions:
        """Make the options of the keyword arguments of `load`. Raises UnknownOption."""
        known = [f.name for f in fields(ConfigOptions)]
        UnknownOption.check("load", options, [*known, *LOAD_ARGUMENTS])
        for name in ("inputs", "outputs"):
            if isinstance(options.get(name), str):
                options[name] = (options[name],)
        for name in ("preferred_batch_size", "gpus"):
            if isinstance(options.get(name), int):
                options[name] = (options[name],)
        return ConfigOptions(**options)

    def apply(self, written: ConfigText) -> ModelConfig:
        """Return the config of the text `written` together with the options.

        Raises ConfigTextError, and OptionError where an option and the text give the same field different values,
        because one of them would have to be dropped silently.
        """
        merged = ModelConfig()
        merged.CopyFrom(written.message)
        for option, name, part in self._parts():
            if name == "parameters":
                _merge_parameters(merged, part, written.source)
                continue
            if written.text:
                _check_agrees(option, name, part, written)
            merged.ClearField(name)
            merged.MergeFrom(part)
        return merged

    def _parts(self) -> Iterator[tuple[str, str, ModelConfig]]:
        """Yield (option as typed, field of the config it sets, config with only that field)."""
        if self.max_batch_size is not None:
            yield "--max-batch-size", "max_batch_size", ModelConfig(max_batch_size=self.max_batch_size)
        yield from self._tensors
        batches = self.dynamic_batching is not None and self.dynamic_batching is not False  # a delay of 0 does
        if batches or self.preferred_batch_size:
            yield "--dynamic-batching", "dynamic_batching", self._dynamic_batching()
        if self.instances is not None or self.kind is not None or self.gpus:
            yield self._placing(), "instance_group", self._instance_group()
        if self.decoupled is not None:
            part = ModelConfig()
            part.model_transaction_policy.decoupled = self.decoupled
            yield "--decoupled", "model_transaction_policy", part
        if self.parameters:
            part = ModelConfig()
            for key, value in self.parameters.items():
                part.parameters[key].string_value = str(value)
            yield "--param", "parameters", part

    @cached_property
    def _tensors(self) -> list[tuple[str, str, ModelConfig]]:
        """The parts of the inputs and the outputs, as `_parts` yields them. Raises OptionError."""
        parts = []
        for name, specs in (("input", self.inputs), ("output", self.outputs)):
            part = ModelConfig()
            for spec in specs:
                _add_tensor(part, name, spec)
            if specs:
                parts.append((f"--{name}", name, part))
        return parts

    def _placing(self) -> str:
        if self.instances is not None:
            return "--instances"
        return "--kind" if self.kind is not None else "--gpus"

    def _instance_group(self) -> ModelConfig:
        part = ModelConfig()
        kind = self.kind or ("gpu" if self.gpus else "auto")
        part.instance_group.add(count=self.instances or 1, kind=f"KIND_{kind.upper()}", gpus=self.gpus)
        return part

    def _dynamic_batching(self) -> ModelConfig:
        part = ModelConfig()
        part.dynamic_batching.SetInParent()
        part.dynamic_batching.preferred_batch_size.extend(self.preferred_batch_size)
        if self.dynamic_batching is not None and not isinstance(self.dynamic_batching, bool):
            part.dynamic_batching.max_queue_delay_microseconds = self.dynamic_batching
        return part


def _is_number(value: Any, least: int) -> bool:
    """Return whether an option is not set, or is an integer of this value or more."""
    return value is None or (isinstance(value, (int, np.integer)) and bool(value >= least))


def _check_agrees(option: str, name: str, part: ModelConfig, written: ConfigText) -> None:
    """Refuse an option if the text gives its field `part` another value. Raises OptionError."""
    in_config = with_only(written.message, name)
    line = written.line_of(name)
    # only its line distinguishes a scalar written with its default value from an absent one
    if in_config != part and (in_config != ModelConfig() or line):
        place = written.place(line)
        raise OptionError(
            f"{option} and {place} both set {name}: keep one of them\n"
            f"  the option means  {_one_line(part) or f'{name}: 0'}\n"
            f"  the config says   {_one_line(in_config) or f'{name}: 0'}",
            field=f"{option} and {place}".rstrip(","),
            fix="keep one of them",
        )


def _merge_parameters(merged: ModelConfig, part: ModelConfig, source: str) -> None:
    for key, value in part.parameters.items():
        if key in merged.parameters and merged.parameters[key] != value:
            raise OptionError(
                f"--param {key}={value.string_value} and {source} both set the parameter {key!r} "
                f"(there: {merged.parameters[key].string_value!r}): keep one of them",
                field=f"--param {key} and {source}",
                fix="keep one of them",
            )
        merged.parameters[key].CopyFrom(value)


def parse_tensor(spec: str) -> tuple[str, DataType, list[int], bool]:
    """Read `NAME:FP32[-1,4]` as (name, datatype, dims, optional). Raises OptionError that names `spec`'s fault."""
    found = _TENSOR.match(spec.strip())
    if not found:
        form = "NAME:TYPE[DIMS], for example INPUT0:FP32[-1,4]"
        raise OptionError(f"{spec!r} is not {form}", field=spec, fix=f"write {form}")
    word = found["type"].upper()
    try:
        datatype = DataType.BYTES if word == "STRING" else DataType.from_config_name(word)
        if datatype is DataType.INVALID:
            raise KeyError(word)
    except KeyError:
        names = ", ".join(t.name for t in DataType if t is not DataType.INVALID)
        text = f"{spec!r}: the datatype {found['type']!r} does not exist; use one of {names}"
        raise OptionError(text, field=spec, fix=f"one of {names}") from None
    try:
        dims = [int(d) for d in found["dims"].split(",")] if found["dims"].strip() else []
    except ValueError:
        text = f"{spec!r}: the dims [{found['dims']}] are not integers with commas between"
        raise OptionError(text, field=spec) from None
    return found["name"], datatype, dims, bool(found["optional"])


def _add_tensor(part: ModelConfig, field_name: str, spec: str) -> None:
    name, datatype, dims, optional = parse_tensor(spec)
    # the protocol buffer's enum has the numbers of DataType
    tensor = getattr(part, field_name).add(name=name, data_type=int(datatype), dims=dims)
    if optional:
        if field_name == "output":
            raise OptionError(f"{spec!r}: only inputs can be optional")
        tensor.optional = True


def _one_line(config: ModelConfig) -> str:
    return " ".join(str(config).split())
