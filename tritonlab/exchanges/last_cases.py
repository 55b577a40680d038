"""The last requests of models, with their clients' answers; a server that judges an export gets them, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core.inference.infer_request import InferenceRequest
from ..core.status import TritonError
from ..record.recorder import MOST, SPACING_NS, LastRequest, Recorder
from ..server.api.failures import request_again
from ..server.api.needed_models import stood_in, stood_in_words
from .exchange import Exchange, arrivals_of
from .sending import ask

if TYPE_CHECKING:
    from ..server.api.model import Model

KEPT = "last requests, as they were answered"
ANSWERED_AGAIN = "last requests, answered again for the export"
_SECONDS = 30.0


def last_cases(models: Iterable[Model], most: int = MOST) -> Iterator[Exchange]:
    """Yield the requests that the recorder of the models' servers has kept, `most` of each model, with their answers;
    none if nothing is recorded. An answer from before a reload of one of the models, or from a stand-in, is marked as
    unknown."""
    together = list(models)
    for model in together:
        recorder = _recorder_of(model)
        if recorder is None:
            continue
        last = recorder.last_requests
        instead = stood_in_words(model)
        loaded = max(last.loaded.get(each.name, 0) for each in together)
        for number, kept in enumerate(last.of_model(recorder.recording.model(model.name), most), 1):
            try:
                request = request_again(model, kept.request)
            except TritonError:  # the request was for a version with other inputs
                continue
            case = Exchange(request, name=f"last-request-{number}", source=KEPT)
            case = _add_answer(case, kept, is_current=kept.started >= loaded)
            yield replace(case, unanswered=instead) if instead else case


def _recorder_of(model: Model) -> Recorder | None:
    return next((each for each in model.server.instruments if isinstance(each, Recorder)), None)


def _cut_sequences(model: Model, most: int) -> Iterator[Exchange]:
    recorder = _recorder_of(model)
    if recorder is None:
        return
    cut = recorder.last_requests.cut_sequences(recorder.recording.model(model.name), most)
    kept, pace = min(most, MOST), f"{SPACING_NS // 10**6} ms"
    for number, (correlation_id, count) in enumerate(cut.items(), 1):
        known = (
            f"of sequence {correlation_id} only the first {count} requests were sent"
            if count
            else f"sequence {correlation_id} was not sent, as its beginning is not kept"
        )
        why = (
            f"{known}: a notebook keeps the last {kept} requests of a model, and one in {pace}; send a sequence of "
            f"{kept} requests at most, {pace} apart, and export again"
        )
        request = InferenceRequest(model.name, {}, correlation_id=correlation_id)
        yield Exchange(request, name=f"cut-sequence-{number}", source=KEPT, unsent=why)


def _add_answer(case: Exchange, kept: LastRequest, is_current: bool) -> Exchange:
    if not kept.is_answered:
        return replace(case, unanswered="its answer was not kept: too large, on a GPU, or not whole")
    if not is_current:
        return replace(case, unanswered="a model was loaded again after it was answered")
    return replace(case, arrivals=arrivals_of(kept.answers), error=kept.error)


def answered_cases(models: Iterable[Model], most: int = MOST) -> Iterator[Exchange]:
    """Yield `last_cases`; if an answer is not kept, send the request again, unless it belongs to a sequence. Of a
    sequence that is not kept whole, yield also a case without inputs that says so.
    """
    together = {model.name: model for model in models}
    for model in together.values():
        yield from _cut_sequences(model, most)
    for case in last_cases(together.values(), most):
        if not case.unanswered or case.request.correlation_id or stood_in(together[case.model]):
            yield case
            continue
        try:
            found = ask(together[case.model], case.again(), _SECONDS)
        except TritonError:  # the model does not serve
            yield case
            continue
        # the inputs as they were sent: a server adds controls and states to a request
        again = replace(case, arrivals=found.arrivals, error=found.error, source=ANSWERED_AGAIN, unanswered="")
        yield again if found.has_answer else case
