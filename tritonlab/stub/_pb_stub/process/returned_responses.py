"""The responses that `execute` returned: checked by rules 3.2 and 3.3, in Triton's order, and packed."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from ..api.infer_request import InferenceRequest
from ..api.infer_response import InferenceResponse
from ..wire.message_bodies import RESCHEDULED
from .model_context import ModelFailure
from .region_tensors import Sent
from .stub_bridge import StubBridge

#: The release flag of a request that is to be scheduled again.
_RESCHEDULE = 2


def pack_returned(
    bridge: StubBridge,
    requests: List[InferenceRequest],
    passed: List[InferenceRequest],
    returned: Any,
    decoupled: bool,
) -> Tuple[Optional[int], List[Any], Sequence[Sent]]:
    """Pack all responses that `execute(given)` returned into one block of the stub's region.

    Returns the block, what became of each request (an Output as its row, RESCHEDULED, or None for one that is answered
    through its sender), and what is for `keep_sent`. Raises ModelFailure if `returned` breaks a rule.
    """
    marks: List[Any] = [(RESCHEDULED if request._release_flags == _RESCHEDULE else None) for request in requests]
    if RESCHEDULED in marks:
        _settle(requests)
    if decoupled:
        if returned is not None:
            raise ModelFailure(
                "Python model '%s' is using the decoupled mode and the execute function must return None."
                % bridge.instance_name
            )
        return None, marks, ()
    if returned is None:
        _check_answered(requests, marks)
        return None, marks, ()
    if returned.__class__ is not list or len(returned) != len(passed) or passed != requests:
        _check_list(requests, passed, returned)
    answers = []
    slots = []
    for index, response in enumerate(returned):
        if response is None:
            continue
        if not isinstance(response, InferenceResponse):
            raise ModelFailure(
                "Expected an 'InferenceResponse' object in the execute function return list, found type '%s'."
                % type(response)
            )
        if marks[index] is not None:
            raise ModelFailure(
                "Expected a None object in the execute function return list for reschduled request, "
                "found type '%s'." % type(response)
            )
        requested = bridge.open_requests.get(requests[index]._handle)
        if requested is not None:  # else it was answered through its sender, which wins (rule 3.2.3)
            answers.append((response, requested))
            slots.append(index)
    if None in returned:
        _check_answered(requests, [mark or response for mark, response in zip(marks, returned)])
    block, packed, sent = bridge.pack_responses(answers)
    for index, output in zip(slots, packed):
        marks[index] = output
    return block, marks, sent


def _check_list(requests: List[InferenceRequest], passed: List[InferenceRequest], returned: Any) -> None:
    if not isinstance(returned, list):
        raise ModelFailure("Expected a list in the execute return, found type '%s'." % type(returned))
    if len(returned) != len(passed):
        raise ModelFailure(
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
            "InferenceRequest(s) size is:%d, and InferenceResponse(s) size is:%d\n" % (len(passed), len(returned))
        )
    if passed != requests:  # Triton's server crashes here, or answers the wrong one
        raise ModelFailure("The execute function changed the list of its requests. Work on a copy of it.")


def _check_answered(requests: List[InferenceRequest], results: List[Any]) -> None:
    """Refuse a request that has no result and no sender, so that nothing could ever answer it. Triton leaves its
    client waiting (rules 3.2.1, 3.2.2)."""
    for request, result in zip(requests, results):
        if result is None and request._sender is None:
            raise ModelFailure(
                "The execute function returned None for a request whose response sender was never used: "
                "the request would never be answered. Return one InferenceResponse per request."
            )


def _settle(requests: List[InferenceRequest]) -> None:
    """Free the senders of requests that are to come back: they will have others then, and these owe nothing more."""
    for request in requests:
        if request._release_flags == _RESCHEDULE and request._sender is not None:
            request._sender._owed = False
