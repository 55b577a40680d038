"""The last requests of models as golden cases without answers: a server that judges an export is sent them, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..clients.golden_files import GoldenCase, non_default_fields
from ..core.inference.infer_request import InferenceRequest
from ..core.observe.failure_capsule import KeptRequest
from ..core.status import TritonError
from ..profile.recorder import Recorder

if TYPE_CHECKING:
    from ..server.api.model import Model


def last_cases(models: Iterable[Model]) -> Iterator[GoldenCase]:
    """Yield the requests that the recorder of the models' servers has kept; none where nothing is recorded."""
    for model in models:
        recorder = next((each for each in model.server.instruments if isinstance(each, Recorder)), None)
        kept = recorder.last_requests.of_models().get(model.name, ()) if recorder is not None else ()
        for number, request in enumerate(kept, 1):
            try:
                yield _case(model, request, f"last request {number}")
            except TritonError:  # it was for a version with other inputs
                continue


def _case(model: Model, kept: KeptRequest, name: str) -> GoldenCase:
    tensors = {name: each.tensor for name, each in kept.inputs.items() if each.tensor is not None}
    request = InferenceRequest(
        model.name,
        model.server.core.find(model.name, model.version).rules.as_sent(tensors),
        request_id=kept.request_id,
        correlation_id=kept.correlation_id,
        flags=kept.flags,
        priority=kept.priority,
        timeout=kept.timeout,
        requested_outputs=kept.requested_outputs,
        parameters=dict(kept.parameters) or None,
    )
    return GoldenCase(model.name, name, request.inputs, non_default_fields(request))
