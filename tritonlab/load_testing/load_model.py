"""Load tests of models of a server in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.inference.infer_request import InferenceRequest
from ..server.api.model import Model
from .load_plan import LoadPlan
from .load_result import LoadResult
from .load_run import LoadTest, run_load_test
from .local_target import LocalTarget
from .request_mix import Lane


def load_model(model: Model, options: Mapping[str, Any]) -> LoadResult | LoadTest:
    """Run a load test of a model, with the options of `load_test`, and show no progress."""
    return run_load_test(model.name, model.version, LocalTarget(model), options)


def first_request(model: Model, options: Mapping[str, Any]) -> InferenceRequest:
    """Return the first request of a load test with these options. Raises the same errors as the test."""
    mix = LoadPlan.from_options(options, model.name).requests(LocalTarget(model).inputs, model.version)
    return mix.request(Lane(0))
