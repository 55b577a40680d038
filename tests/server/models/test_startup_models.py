from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tritonlab.core.status import InternalError, NotFoundError
from tritonlab.server.models.model_control import ModelControl
from tritonlab.server.models.startup_models import load_models


def test_no_error_of_one_model_stops_the_others() -> None:
    loaded: list[str] = []

    def load(name: str) -> None:
        if name == "defect":
            raise RecursionError("too deep")
        if name == "refused":
            raise NotFoundError("no such model")
        loaded.append(name)

    control: Any = SimpleNamespace(load_model=load, ensembles=SimpleNamespace(config=lambda name: None))
    failed = load_models(cast(ModelControl, control), ["a", "defect", "b", "refused", "c"], threads=1)
    assert loaded == ["a", "b", "c"]
    assert isinstance(failed["defect"], InternalError) and isinstance(failed["refused"], NotFoundError)
    assert failed["defect"].message == "failed to load 'defect': RecursionError: too deep"
