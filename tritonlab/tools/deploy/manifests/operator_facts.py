"""The facts of a README for an operator, who has not met the author: purpose, requests, settings, what was measured and
what is open."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from ....server.api.model_signature import tensors_of
from ....server.api.openapi import example_generate, example_request
from ..preflight.variables import Variable

#: The most characters of an example in the README; a larger one is in openapi.json.
_MOST = 1500


class Tensor(NamedTuple):
    """An input or output. `text`: datatype and shape, as `FP32[batch ≤ 8, 4]`."""

    model: str
    role: str
    name: str
    text: str
    is_optional: bool


class OpenPoint(NamedTuple):
    """A finding of pre-flight that the operator has to look at."""

    model: str
    sentence: str
    remedy: str


@dataclass(frozen=True)
class OperatorFacts:
    """The facts besides those of the manifests. `about`: the purpose in the author's words; `environment`: the packed
    environment in one line; `packages`: its pins; `load_seconds`: the bound of each model's last load; `verified_on`:
    the releases whose servers judge the export."""

    about: str = ""
    variables: Sequence[Variable] = ()
    environment: str = ""
    packages: Sequence[str] = ()
    load_seconds: Mapping[str, int] = field(default_factory=dict)
    open_points: Sequence[OpenPoint] = ()
    verified_on: Sequence[str] = ()

    @property
    def settings(self) -> list[Variable]:
        """Return the variables whose values are no secrets and that have no default."""
        return [each for each in self.variables if not each.is_secret and each.default is None]

    @property
    def secrets(self) -> list[Variable]:
        return [each for each in self.variables if each.is_secret]


NO_FACTS = OperatorFacts()


def load_bound(seconds: float) -> int:
    """Return the bound of a load's time, in seconds. It is coarse, so that equal exports have equal files."""
    return next((bound for bound in (1, 5, 15, 60, 300, 1200) if seconds <= bound), 3600)


def tensors_in(models: Sequence[Any]) -> list[Tensor]:
    """Return the inputs and outputs of models that have some in their configs."""
    return [
        Tensor(model.name, role, name, str(text), is_optional)
        for model in models
        for role, key in (("input", "input"), ("output", "output"))
        if model.config.get(key)
        for name, text, is_optional in tensors_of(model.config, key)
    ]


def example_command(config: Mapping[str, Any]) -> str:
    """Return a curl command that sends a request which the config allows; empty if it has no short JSON form."""
    if not config.get("input") or not config.get("output"):
        return ""
    is_decoupled = config.get("model_transaction_policy", {}).get("decoupled")
    body = example_generate(config) if is_decoupled else example_request(config)
    text = json.dumps(body, ensure_ascii=False)
    if body is None or len(text) > _MOST:
        return ""
    verb = "generate_stream" if is_decoupled else "infer"
    address = shlex.quote(f"http://localhost:8000/v2/models/{quote(config['name'], safe='')}/{verb}")
    return f"curl --fail-with-body {address} --data {shlex.quote(text)}"
