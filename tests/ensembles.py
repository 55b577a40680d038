"""Small configurations of ensembles and composing models, as text and as messages."""

from __future__ import annotations

from collections.abc import Mapping

from tritonlab.core.config.ensemble_consistency import ComposingModel, complete_ensemble
from tritonlab.core.config.ensemble_graph import EnsembleGraph
from tritonlab.core.config.model_config import ModelConfig, parse_pbtxt
from tritonlab.core.config.model_config_rules import autofill

DECOUPLED = "model_transaction_policy { decoupled: true }"


def tensor(kind: str, name: str, dims: str = "[-1]", datatype: str = "FP32", more: str = "") -> str:
    """Return a tensor of a configuration. `kind`: input or output."""
    return f'{kind} {{ name: "{name}" data_type: TYPE_{datatype} dims: {dims} {more} }}\n'


def model_text(
    inputs: str = "IN",
    outputs: str = "OUT",
    *,
    batch: int = 0,
    dims: str = "[-1]",
    datatype: str = "FP32",
    more: str = "",
) -> str:
    """Return a Python model's config.pbtxt. `inputs`, `outputs`: names with blanks between; `NAME?` is optional."""
    parts = [
        tensor("input", name.rstrip("?"), dims, datatype, "optional: true" if name.endswith("?") else "")
        for name in inputs.split()
    ]
    parts += [tensor("output", name, dims, datatype) for name in outputs.split()]
    return f'backend: "python"\nmax_batch_size: {batch}\n{"".join(parts)}{more}\n'


def step(model: str, reads: str, writes: str, version: int = -1) -> str:
    """Return a step of an ensemble. `reads`, `writes`: `MODEL_TENSOR=ENSEMBLE_TENSOR`, with blanks between."""
    maps = [f'input_map {{ key: "{k}" value: "{v}" }}' for k, _, v in (m.partition("=") for m in reads.split())]
    maps += [f'output_map {{ key: "{k}" value: "{v}" }}' for k, _, v in (m.partition("=") for m in writes.split())]
    return f'step {{ model_name: "{model}" model_version: {version} {" ".join(maps)} }}\n'


def ensemble_text(
    *steps: str, inputs: str = "X", outputs: str = "Y", batch: int = 0, dims: str = "[-1]", io: str = "", more: str = ""
) -> str:
    """Return an ensemble's config.pbtxt. `io`: the inputs and outputs as text, instead of their names."""
    if not io:
        io = "".join(
            tensor("input", name.rstrip("?"), dims, more="optional: true" if name.endswith("?") else "")
            for name in inputs.split()
        )
        io += "".join(tensor("output", name, dims) for name in outputs.split())
    return f'platform: "ensemble"\nmax_batch_size: {batch}\n{io}ensemble_scheduling {{\n{"".join(steps)}}}\n{more}\n'


def config(text: str, name: str) -> ModelConfig:
    return autofill(parse_pbtxt(text, "config.pbtxt"), model_name=name, files=["model.py"])


def composing(texts: Mapping[str, str]) -> dict[str, ComposingModel]:
    """Return models by name that serve version 1 of the configuration in `texts`."""
    return {name: ComposingModel({1: config(text, name)}) for name, text in texts.items()}


def graph(text: str, models: Mapping[str, str], name: str = "e") -> EnsembleGraph:
    there = composing(models)
    complete = complete_ensemble(config(text, name), there)
    return EnsembleGraph.from_config(complete, lambda name, version: there[name].config(version))
