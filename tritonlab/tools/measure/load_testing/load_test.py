"""`load_test` of models, both of this process and of servers elsewhere."""

from __future__ import annotations

from typing import Any

from ....exchanges.remote.remote_server import RemoteModel
from ....server.api.model import Model
from .load_panel import show_progress
from .load_result import LoadResult
from .load_run import LoadTest, run_load_test
from .load_target import LocalTarget
from .remote_target import RemoteTarget


def load_test(model: Model | RemoteModel, **options: Any) -> LoadResult | LoadTest:
    """Run `load_test` of a model."""
    target = LocalTarget(model) if isinstance(model, Model) else RemoteTarget(model)
    return run_load_test(model.name, model.version, target=target, options=options, show_progress=show_progress)
