"""The facts of a deployment, taken from models that a server runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...clients.golden import GoldenCase
from ...core.inference.infer_response import InferenceResponse
from ...profile.live_state import memory_use, shm_size
from ..releases import find_target
from .facts import DeployedModel, Deployment, Recorded

if TYPE_CHECKING:
    from ...server.api.model import Model

_TYPE = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)


def deployment_of(
    models: Sequence[Model], target: str, *, cases: Iterable[GoldenCase] = (), has_lock: bool = False
) -> Deployment:
    """Return what the deploy files of these models are made of. The first model is the one that clients call. `target`:
    as for an export. `cases`: golden requests, for the clients and the tests; those that expect an error are left out.

    The shared memory is what the stubs of these models have taken so far. Raises UnknownTarget.
    """
    answered = [case for case in cases if not case.error]
    deployed = [_deployed(model, [case for case in answered if case.model == model.name]) for model in models]
    shm = sum(shm_size(memory_use(model.versions(), model.server_gpus)) for model in models)
    return Deployment(deployed, find_target(target).release, peak_shm_bytes=shm, has_lock=has_lock)


def _deployed(model: Model, cases: Sequence[GoldenCase]) -> DeployedModel:
    samples = model.server.metrics(model.name)
    kinds = _TYPE.findall(model.server.metrics())
    made = {name: kind for name, kind in kinds if re.search(rf"^{name}(_bucket)?[ {{]", samples, re.MULTILINE)}
    metrics = {name: kind for name, kind in made.items() if not name.startswith("nv_")}
    recorded = [
        Recorded(case.request(), [InferenceResponse(outputs=dict(outputs)) for outputs in case.answers])
        for case in cases
    ]
    return DeployedModel(model.name, model.config(), metrics, recorded)
