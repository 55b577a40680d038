"""The last requests of models as golden cases without answers: a server that judges an export is sent them, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..clients.golden import GoldenCase, non_default_fields
from ..core.status import TritonError
from ..profile.recorder import Recorder
from ..server.api.failures import request_again

if TYPE_CHECKING:
    from ..server.api.model import Model


def last_cases(models: Iterable[Model]) -> Iterator[GoldenCase]:
    """Yield the requests that the recorder of the models' servers has kept; none where nothing is recorded."""
    for model in models:
        recorder = next((each for each in model.server.instruments if isinstance(each, Recorder)), None)
        last = recorder.last_requests.of_models().get(model.name, ()) if recorder is not None else ()
        for number, kept in enumerate(last, 1):
            try:
                request = request_again(model, kept)
            except TritonError:  # it was for a version with other inputs
                continue
            yield GoldenCase(model.name, f"last request {number}", request.inputs, non_default_fields(request))
