"""The last requests of models, with the answers that their clients got, as golden cases: a server that judges an export
is sent them, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core.status import TritonError
from ..record.recorder import MOST, LastRequest, Recorder
from ..server.api.failures import request_again
from ..server.api.needed_models import stood_in, stood_in_words
from .golden import GoldenCase, case_of, non_default_fields
from .sending import ask

if TYPE_CHECKING:
    from ..server.api.model import Model

KEPT = "last requests, as they were answered"
ANSWERED_AGAIN = "last requests, answered again for the export"
_SECONDS = 30.0


def last_cases(models: Iterable[Model], most: int = MOST) -> Iterator[GoldenCase]:
    """Yield the requests that the recorder of the models' servers has kept, `most` of each model, with their answers;
    none where nothing is recorded. An answer of before one of the models was loaded again, or of a stand-in, is said
    not to be known."""
    together = list(models)
    for model in together:
        recorder = next((each for each in model.server.instruments if isinstance(each, Recorder)), None)
        if recorder is None:
            continue
        last = recorder.last_requests
        instead = stood_in_words(model)
        loaded = max(last.loaded.get(each.name, 0) for each in together)
        for number, kept in enumerate(last.of_model(recorder.recording.model(model.name), most), 1):
            try:
                request = request_again(model, kept.request)
            except TritonError:  # it was for a version with other inputs
                continue
            case = GoldenCase(
                model.name, f"last-request-{number}", request.inputs, non_default_fields(request), source=KEPT
            )
            case = _add_answer(case, kept, is_current=kept.started >= loaded)
            yield replace(case, unanswered=instead) if instead else case


def _add_answer(case: GoldenCase, kept: LastRequest, is_current: bool) -> GoldenCase:
    if not kept.is_answered:
        return replace(case, unanswered="its answer was not kept: too large, on a GPU, or not whole")
    if not is_current:
        return replace(case, unanswered="a model was loaded again after it was answered")
    error = kept.error.message.strip() if kept.error is not None else ""
    return replace(case, answers=tuple(kept.answers), error=error)


def answered_cases(models: Iterable[Model], most: int = MOST) -> Iterator[GoldenCase]:
    """Yield `last_cases`; the models are asked again where an answer is not kept, but not for requests of a
    sequence."""
    together = {model.name: model for model in models}
    for case in last_cases(together.values(), most):
        is_of_sequence = bool(case.fields.get("correlation_id"))
        if not case.unanswered or is_of_sequence or stood_in(together[case.model]):
            yield case
            continue
        try:
            found = case_of(ask(together[case.model], case.request(), _SECONDS), case.name)
        except (TritonError, ValueError):  # it does not serve, or answers with nothing
            yield case
        else:  # the inputs are those that were sent: a server adds controls and states to a request
            yield replace(case, answers=found.answers, error=found.error, source=ANSWERED_AGAIN, unanswered="")
