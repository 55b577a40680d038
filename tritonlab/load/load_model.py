"""The load test of a model of a server in this process: what `Model.load_test` calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.infer_request import InferenceRequest
from ..server.api.handed_in import HandedIn
from ..server.api.model import Model
from .load_plan import LoadPlan
from .load_result import LoadResult
from .load_run import LoadTest
from .load_target import LoadTarget
from .local_target import LocalTarget
from .request_mix import Lane

#: Seconds after which the progress of a test is shown: shorter tests need none.
_QUIET = 0.5


def load_model(model: Model, options: Mapping[str, Any]) -> LoadResult | LoadTest:
    """Run a load test of a model of a server in this process."""
    return load_target(model.name, model.version, LocalTarget(model), options)


def first_request(model: Model, options: Mapping[str, Any]) -> InferenceRequest:
    """Return the first request of a load test with these options. Raises the same errors as the test."""
    mix = LoadPlan.from_options(options, model.name).requests(LocalTarget(model).inputs, model.version)
    return mix.request(Lane(0))


def load_target(name: str, version: int, target: LoadTarget, options: Mapping[str, Any]) -> LoadResult | LoadTest:
    """Run a load test and return its result; with `wait=False` return the running test. `progress`: whether a notebook
    shows its progress meanwhile. The other options are those of LoadPlan.
    """
    planned = {key: value for key, value in options.items() if key not in ("wait", "progress")}
    test = LoadTest(name, version, target, LoadPlan.from_options(planned, name))
    if not options.get("wait", True):
        return test.start()
    try:
        test.start().wait(_QUIET)
        if test.finished or not options.get("progress", True):
            return test.wait()
        end = HandedIn.show_progress(test)
        try:
            return test.wait()
        finally:
            end()
    except KeyboardInterrupt:  # it came between two waits
        test.stop("interrupted")
        return test.wait()
